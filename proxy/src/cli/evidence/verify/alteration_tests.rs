//! Alters a log's directory, its heads and its holds as somebody can who may write there and has no key. `docs/evidence.md` has the
//! same rows in its table. Whatever becomes of the process, the check names each alteration, or it has no effect at all.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use wayleave_clock::{Clock, system_time};
use wayleave_decision_log::Journal;
use wayleave_evidence::Sha256Digest;
use wayleave_evidence::chain::event::{EventKind, LogEvent};
use wayleave_evidence::chain::{HashChain, LogCount, TreeHead};
use wayleave_evidence::files::{compressed_name, gzip_builder, rotated_files};
use wayleave_evidence::holds::{Hold, HoldFolder};
use wayleave_signing::SigningKey;

use super::tampering_tests::{ALL, ProcessFate, TestLog, decision, head_files, lines};

/// An alteration of one file of the log, in its place.
type FileChange = fn(&TestLog, &Path);
/// An alteration of anything else.
type OtherChange = fn(&TestLog);

const DAY: Duration = Duration::from_hours(24);

/// Returns a free name for a rotated file.
fn planted(place: &TestLog, year: u32) -> PathBuf {
    place.options().path.with_file_name(format!("decisions.{year}0101T000000.000Z.jsonl"))
}

/// Writes a log with the same key, or another, elsewhere.
pub(super) fn other_log(place: &TestLog, has_same_key: bool) -> TestLog {
    let mut other = TestLog { dir: tempfile::tempdir().unwrap(), journal: None };
    if has_same_key {
        fs::create_dir(other.options().state_dir).unwrap();
        fs::copy(place.options().key, other.options().key).unwrap();
    }
    for _ in 0..6 {
        other.write();
    }
    other.stop();
    other
}

/// Puts the file of another log that has the same place in it over a file.
fn replace_by_other(place: &TestLog, file: &Path, has_same_key: bool) {
    let at = place.files().iter().position(|own| own == file).unwrap();
    let other = other_log(place, has_same_key);
    fs::copy(&other.files()[at], file).unwrap();
}

fn write_at_end(file: &Path, bytes: &[u8]) {
    let mut text = fs::read(file).unwrap();
    text.extend_from_slice(bytes);
    fs::write(file, text).unwrap();
}

fn set_modified(file: &Path, at: std::time::SystemTime) {
    fs::File::options().write(true).open(file).unwrap().set_modified(at).unwrap();
}

/// Puts the compressed form of a file in its place.
fn compress(builder: flate2::GzBuilder, file: &Path) {
    let to = fs::File::create(compressed_name(file)).unwrap();
    let mut gzip = builder.write(to, flate2::Compression::fast());
    gzip.write_all(&fs::read(file).unwrap()).unwrap();
    gzip.finish().unwrap();
    fs::remove_file(file).unwrap();
}

/// Replaces a file by something else with the same name.
fn replace(file: &Path, by: impl FnOnce(&Path)) {
    fs::remove_file(file).unwrap();
    by(file);
}

/// Returns whether the check must name an alteration, by the fate of the process. If not, it has no effect.
type IsNamed = fn(ProcessFate) -> bool;

const ALWAYS: IsNamed = |_| true;
const NEVER: IsNamed = |_| false;
/// A process that runs has the head in memory, and writes it again.
const UNLESS_IT_RUNS: IsNamed = |process| process != ProcessFate::Runs;
/// The next process writes both heads.
const UNTIL_IT_IS_WRITTEN: IsNamed = |process| process == ProcessFate::Rests;

/// An alteration of one file.
const OF_FILES: [(&str, IsNamed, FileChange); 21] = [
    ("it belongs to somebody else", NEVER, |_, file| {
        // Fails if we are not root; then nobody can.
        let _ = chown(file, Some(65534), Some(65534));
    }),
    ("it is older", NEVER, |_, file| set_modified(file, system_time() - 400 * DAY)),
    ("it is newer", NEVER, |_, file| set_modified(file, system_time() + 400 * DAY)),
    ("it is a copy", NEVER, |_, file| {
        let bytes = fs::read(file).unwrap();
        replace(file, |file| fs::write(file, bytes).unwrap());
    }),
    ("it is empty", ALWAYS, |_, file| fs::write(file, "").unwrap()),
    ("it is cut by a byte", ALWAYS, |_, file| {
        let bytes = fs::read(file).unwrap();
        fs::write(file, &bytes[..bytes.len() - 1]).unwrap();
    }),
    ("it is cut by half", ALWAYS, |_, file| {
        let bytes = fs::read(file).unwrap();
        fs::write(file, &bytes[..bytes.len() / 2]).unwrap();
    }),
    ("its last line is gone", ALWAYS, |_, file| {
        let mut all = lines(file);
        all.pop();
        fs::write(file, [all.join(&b'\n'), vec![b'\n']].concat()).unwrap();
    }),
    ("two lines have changed places", ALWAYS, |_, file| {
        let mut all = lines(file);
        all.swap(0, 1);
        fs::write(file, [all.join(&b'\n'), vec![b'\n']].concat()).unwrap();
    }),
    ("a line is there twice", ALWAYS, |_, file| {
        let mut all = lines(file);
        all.insert(1, all[1].clone());
        fs::write(file, [all.join(&b'\n'), vec![b'\n']].concat()).unwrap();
    }),
    ("a bit is flipped", ALWAYS, |_, file| {
        let mut bytes = fs::read(file).unwrap();
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        fs::write(file, bytes).unwrap();
    }),
    ("a byte in the first line is another", ALWAYS, |_, file| {
        let text = fs::read_to_string(file).unwrap();
        fs::write(file, text.replacen("wayleave", "wayleavf", 1)).unwrap();
    }),
    ("another line was appended", ALWAYS, |_, file| {
        write_at_end(file, &[decision("019a00000000700080000000000000a1"), vec![b'\n']].concat());
    }),
    ("bytes were appended", ALWAYS, |_, file| write_at_end(file, b"{\"id\":")),
    ("zeros follow it that take no space", ALWAYS, |_, file| {
        let length = fs::metadata(file).unwrap().len();
        let open = fs::File::options().write(true).open(file).unwrap();
        open.write_all_at(b"\n", length + (1 << 20)).unwrap();
    }),
    ("it was deleted", ALWAYS, |_, file| fs::remove_file(file).unwrap()),
    ("a copy has another name", ALWAYS, |place, file| {
        fs::copy(file, planted(place, 2099)).unwrap();
    }),
    ("it has a second name", ALWAYS, |place, file| {
        fs::hard_link(file, planted(place, 2001)).unwrap();
    }),
    ("the oldest file is in its place, too", ALWAYS, |place, file| {
        let oldest = place.files().into_iter().find(|other| other != file).unwrap();
        fs::copy(oldest, file).unwrap();
    }),
    ("a file of another log with the same key", ALWAYS, |place, file| {
        replace_by_other(place, file, true);
    }),
    ("a file of another log with another key", ALWAYS, |place, file| {
        replace_by_other(place, file, false);
    }),
];

/// An alteration of a rotated file only.
const OF_ROTATED_FILES: [(&str, IsNamed, FileChange); 4] = [
    ("it is compressed", NEVER, |_, file| {
        compress(gzip_builder(&fs::File::open(file).unwrap()).unwrap(), file);
    }),
    ("gzip has compressed it", NEVER, |_, file| compress(flate2::GzBuilder::new(), file)),
    ("a directory is in its place", ALWAYS, |_, file| {
        replace(file, |file| fs::create_dir(file).unwrap());
    }),
    ("a link to nothing is in its place", ALWAYS, |_, file| {
        replace(file, |file| symlink("/dev/null", file).unwrap());
    }),
];

/// Other alterations.
const OTHERS: [(&str, IsNamed, OtherChange); 18] = [
    ("the copy of the head is gone", NEVER, |place| {
        fs::remove_file(&head_files(place)[1]).unwrap();
    }),
    ("the copy of the head is damaged", NEVER, |place| {
        fs::write(&head_files(place)[1], "{}").unwrap();
    }),
    ("a file of another log is planted", ALWAYS, |place| {
        fs::copy(&other_log(place, true).files()[1], planted(place, 2099)).unwrap();
    }),
    ("a file with another key is planted", ALWAYS, |place| {
        fs::copy(&other_log(place, false).files()[1], planted(place, 2001)).unwrap();
    }),
    ("a file of zeros is planted", ALWAYS, |place| {
        fs::File::create(planted(place, 2001)).unwrap().set_len(1 << 40).unwrap();
    }),
    ("a pipe is planted", ALWAYS, |place| {
        let made = std::process::Command::new("mkfifo").arg(planted(place, 2001)).status();
        assert!(made.unwrap().success());
    }),
    ("two files are deleted", ALWAYS, |place| {
        place.files()[..2].iter().for_each(|file| fs::remove_file(file).unwrap());
    }),
    ("all rotated files are deleted", ALWAYS, |place| {
        for file in rotated_files(&place.options().path).unwrap() {
            fs::remove_file(file).unwrap();
        }
    }),
    ("all files are deleted", ALWAYS, |place| {
        place.files().iter().for_each(|file| fs::remove_file(file).unwrap());
    }),
    ("two files have each other's names", NEVER, |place| {
        let files = place.files();
        fs::rename(&files[0], planted(place, 2001)).unwrap();
        fs::rename(&files[1], &files[0]).unwrap();
        fs::rename(planted(place, 2001), &files[1]).unwrap();
    }),
    ("the head next to the log is gone", NEVER, |place| {
        fs::remove_file(&head_files(place)[0]).unwrap();
    }),
    ("the head next to the log is damaged", NEVER, |place| {
        fs::write(&head_files(place)[0], "{}").unwrap();
    }),
    ("the head next to the log is of another log", UNTIL_IT_IS_WRITTEN, |place| {
        let other = other_log(place, true);
        fs::copy(&head_files(&other)[0], &head_files(place)[0]).unwrap();
    }),
    ("a hold is planted", ALWAYS, |place| {
        let hold = r#"{"id":1,"host":"a.test","reason":"none","made_at":"2026-01-01T00:00:00Z"}"#;
        write_hold(place, 1, hold);
    }),
    ("a hold cannot be read", ALWAYS, |place| write_hold(place, 1, "{")),
    ("the list of deletions is not signed", ALWAYS, |place| {
        fs::create_dir_all(place.options().state_dir.join("holds")).unwrap();
        let list = place.options().state_dir.join("holds/deletions.json");
        fs::write(list, r#"{"logs":{}}"#).unwrap();
    }),
    ("both heads are gone", UNLESS_IT_RUNS, |place| {
        head_files(place).iter().for_each(|file| fs::remove_file(file).unwrap());
    }),
    ("both heads are damaged", UNLESS_IT_RUNS, |place| {
        head_files(place).iter().for_each(|file| fs::write(file, "{}").unwrap());
    }),
];

fn write_hold(place: &TestLog, id: u64, text: &str) {
    let dir = place.options().state_dir.join("holds");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join(format!("{id}.json")), text).unwrap();
}

/// Lets the process go on after an alteration, and compares the findings of the check with those expected.
fn check(place: TestLog, process: ProcessFate, is_named: bool, what: &str) {
    let found = place.checked(process);
    assert_eq!(found.is_some(), is_named, "{process:?}, {what}: {found:?}");
}

#[test]
fn alterations_of_each_file_are_named_or_have_no_effect() {
    let mut tried = 0;
    for process in ALL {
        let count = TestLog::written(process).files().len();
        let of_all = OF_FILES.into_iter().map(|row| (count, row));
        let of_rotated = OF_ROTATED_FILES.into_iter().map(|row| (count - 1, row));
        for (files, (what, is_named, change)) in of_all.chain(of_rotated) {
            for at in 0..files {
                let place = TestLog::written(process);
                change(&place, &place.files()[at]);
                let what = format!("file {} of {count}: {what}", at + 1);
                check(place, process, is_named(process), &what);
                tried += 1;
            }
        }
    }
    assert!(tried >= 250, "{tried}");
}

#[test]
fn other_alterations_are_named_or_have_no_effect() {
    let mut tried = 0;
    for process in ALL {
        for (what, is_named, change) in OTHERS {
            let place = TestLog::written(process);
            change(&place);
            check(place, process, is_named(process), what);
            tried += 1;
        }
    }
    assert!(tried >= 60, "{tried}");
}

pub(super) fn add_hold(place: &TestLog) {
    let key = SigningKey::read(&place.options().key).unwrap();
    let hold = Hold {
        id: 0,
        host: "shop.test".to_owned(),
        crawler: None,
        since: None,
        until: None,
        reason: "a letter".to_owned(),
        made_at: system_time(),
        released_at: None,
    };
    let folder = HoldFolder::in_state_dir(&place.options().state_dir);
    folder.add(&hold, Some(key.pair())).unwrap();
}

#[test]
fn forged_releases_are_named_and_true_ones_are_not() {
    type Change = fn(&Path);
    let changes: [(bool, Change); 5] = [
        (false, |_| {}),
        (true, |file| fs::remove_file(file).unwrap()),
        (true, |file| fs::remove_dir_all(file.parent().unwrap()).unwrap()),
        (true, |file| {
            let text = fs::read_to_string(file).unwrap();
            fs::write(file, text.replace("shop.test", "other.test")).unwrap();
        }),
        (true, |file| {
            let text = fs::read_to_string(file).unwrap();
            let released = "\"released_at\":\"2026-01-01T00:00:00Z\",\"reason\"";
            fs::write(file, text.replace("\"reason\"", released)).unwrap();
        }),
    ];
    for process in [ProcessFate::Stopped, ProcessFate::Killed, ProcessFate::Rests] {
        for (at, (is_named, change)) in changes.into_iter().enumerate() {
            let mut place = TestLog::written(ProcessFate::Runs);
            add_hold(&place);
            place.journal = None;
            place.write();
            place.stop();
            change(&place.options().state_dir.join("holds/1.json"));
            check(place, process, is_named, &format!("hold {at}"));
        }
    }
}

/// Returns a journal whose clock is `ahead` of the system's, or behind it.
fn journal_at(place: &TestLog, ahead: Duration, is_behind: bool) -> Journal {
    let shown = move || if is_behind { system_time() - ahead } else { system_time() + ahead };
    Journal::open(place.options(), Clock::with_calendar(shown)).unwrap()
}

#[test]
fn honest_events_are_not_named() {
    // A clock that is wrong by 40 days for a while, in one process or in several.
    for is_behind in [false, true] {
        for restarts in [false, true] {
            let mut place = TestLog::written(ProcessFate::Stopped);
            place.journal = Some(journal_at(&place, 40 * DAY, is_behind));
            (0..6).for_each(|_| place.write());
            if restarts {
                place.stop();
            }
            check(place, ProcessFate::Stopped, false, &format!("clock {is_behind} {restarts}"));
        }
    }
    // Everything is copied to another machine.
    let place = TestLog::written(ProcessFate::Stopped);
    let restored = tempfile::tempdir().unwrap();
    for part in ["log", "state"] {
        fs::create_dir(restored.path().join(part)).unwrap();
        for entry in fs::read_dir(place.dir.path().join(part)).unwrap().flatten() {
            fs::copy(entry.path(), restored.path().join(part).join(entry.file_name())).unwrap();
        }
    }
    // The copy of the head is named for the path of the log.
    let place = TestLog { dir: restored, journal: None };
    check(place, ProcessFate::Stopped, false, "restored");
    // A hold is made and released while the process runs.
    let mut place = TestLog::written(ProcessFate::Runs);
    add_hold(&place);
    place.journal = None;
    (0..6).for_each(|_| place.write());
    let folder = HoldFolder::in_state_dir(&place.options().state_dir);
    let key = SigningKey::read(&place.options().key).unwrap();
    let mut hold = folder.read().unwrap().remove(0);
    hold.released_at = Some(system_time());
    folder.replace(&hold, Some(key.pair())).unwrap();
    place.stop();
    check(place, ProcessFate::Stopped, false, "released");
}

/// Writes a log of two files as the version before wrote it, stopped.
fn written_before(place: &TestLog) {
    let options = place.options();
    fs::create_dir_all(options.path.parent().unwrap()).unwrap();
    fs::create_dir_all(&options.state_dir).unwrap();
    let key = SigningKey::read_or_create(&options.key).unwrap();
    let mut chain = HashChain::new();
    let write = |chain: &mut HashChain, file: &Path, is_last: bool| {
        let mut text = Vec::new();
        let mut add = |line: Vec<u8>| text.extend([line, vec![b'\n']].concat());
        add(chain.append(&chain.file_event(system_time()).to_json()));
        for _ in 0..3 {
            let id = wayleave_decision_log::new_decision_id().to_string();
            let line = decision(&id);
            let end = format!(",\"config_sha256\":\"{}\"}}", Sha256Digest::of(b""));
            add(chain.append(&[&line[..line.len() - 1], end.as_bytes()].concat()));
        }
        if is_last {
            add(chain.append(&LogEvent::new(EventKind::Stop {}, system_time()).to_json()));
        } else {
            let head = chain.final_head(key.pair(), system_time());
            chain.push_line(&head);
            add(head);
        }
        fs::write(file, &text).unwrap();
        text.len() as u64
    };
    write(&mut chain, &planted(place, 2026), false);
    chain = chain.next_file();
    let bytes = write(&mut chain, &options.path, true);
    let count = LogCount { decisions: 3, earlier_decisions: 3, ..LogCount::new("1".to_owned()) };
    let head = TreeHead {
        bytes: Some(bytes),
        peaks: chain.tree.peaks().to_vec(),
        stopped: true,
        count: Some(count),
        ..chain.tree_head(key.pair())
    };
    let line = chain.sign_head(key.pair(), system_time(), head);
    assert!(
        wayleave_evidence::HeadFiles::for_log(&options.path, &options.state_dir)
            .save(&line)
            .is_empty()
    );
}

#[test]
fn logs_of_the_version_before_are_continued_and_not_named() {
    for process in [ProcessFate::Stopped, ProcessFate::Rests] {
        for with_hold in [false, true] {
            let place = TestLog { dir: tempfile::tempdir().unwrap(), journal: None };
            written_before(&place);
            if with_hold {
                let hold = r#"{"id":1,"host":"shop.test","reason":"none","made_at":"2026-01-01T00:00:00Z"}"#;
                write_hold(&place, 1, hold);
            }
            check(place, process, false, &format!("{with_hold}"));
        }
    }
}
