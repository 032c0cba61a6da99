//! Tests that the log remains complete and linked whatever happens to files and processes.

use std::fs::{File, OpenOptions};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use wayleave_clock::system_time;
use wayleave_evidence::chain::event::EVENT_PREFIX;
use wayleave_evidence::chain::head::is_signed_by;
use wayleave_evidence::chain::link::{NO_PREVIOUS, previous_digest};
use wayleave_evidence::chain::{HashChain, MerkleTree};
use wayleave_evidence::files::{
    compressed_name, decompressed, file_number, is_compressed, rotated_files,
};
use wayleave_evidence::holds::{Hold, HoldFolder};
use wayleave_record::DecisionRecord;

use super::super::encoded_decision::EncodedDecision;
use super::super::files::{find_decision, find_line};
use super::super::tests::decision;
use super::retention::expired_files;
use super::*;

fn options(dir: &Path) -> JournalConfig {
    JournalConfig {
        path: dir.join("log/decisions.jsonl"),
        max_size_bytes: 1000,
        max_age: Duration::from_secs(86_400),
        keep: Duration::from_secs(86_400),
        max_total_bytes: None,
        compresses: false,
        key: dir.join("evidence.key"),
        state_dir: dir.to_owned(),
    }
}

fn open(options: JournalConfig) -> anyhow::Result<Journal> {
    Journal::open(options, Clock::start())
}

/// Returns what retention would delete now.
fn expired(options: &JournalConfig, held: &mut HeldFiles) -> Vec<u64> {
    let mut journal = open(options.clone()).unwrap();
    let head = journal.heads.newest_signed_by(&journal.key.public_base64());
    journal.holds = JournalHolds::read(&options.path, head.as_deref());
    journal.state = Some(ChainState::new());
    journal.state.as_mut().unwrap().chain.file = u64::MAX;
    journal.state.as_mut().unwrap().count.log = log_id(options);
    let files = journal.read_files();
    journal.check_holds();
    let holds = journal.holds.in_effect().unwrap();
    let expired = expired_files(options, &files, journal.clock.settled(), &holds, held);
    expired.iter().map(|file| file.number).collect()
}

/// Returns the id of a log.
fn log_id(options: &JournalConfig) -> String {
    let heads = HeadFiles::for_log(&options.path, &options.state_dir);
    let head = LogEvent::parse_head(&heads.newest().unwrap()).unwrap();
    head.count.unwrap().log
}

fn head_path(path: &Path) -> PathBuf {
    path.with_extension("jsonl.head")
}

/// Returns the path of the copy of the head.
fn copy_path(dir: &Path) -> PathBuf {
    let entries = fs::read_dir(dir).unwrap().flatten();
    let mut heads = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "head"));
    heads.next().unwrap()
}

/// Returns all files that have the names of the log's, the oldest first.
fn log_paths(path: &Path) -> Vec<PathBuf> {
    let mut paths = rotated_files(path).unwrap();
    paths.extend(path.exists().then(|| path.to_owned()));
    paths
}

/// Returns the number of decisions in a file.
fn count_decisions(path: &Path) -> usize {
    let mut text = String::new();
    let file = File::open(path).unwrap();
    io::Read::read_to_string(&mut decompressed(&file), &mut text).unwrap();
    let decisions = text.lines().filter(|line| line.starts_with("{\"id\""));
    decisions.count()
}

fn push(journal: &mut Journal, decision: &DecisionRecord) {
    journal.push(&EncodedDecision::new(decision).line, Some(Sha256Digest::of(b"")));
}

#[test]
fn full_file_is_rotated_without_loss() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = open(options(dir.path())).unwrap();
    for _ in 0..10 {
        push(&mut journal, &decision());
        journal.flush().unwrap();
    }
    let files = log_paths(&journal.config.path);
    assert!(files.len() > 2, "{files:?}");
    assert_eq!(files.iter().map(|file| count_decisions(file)).sum::<usize>(), 10);
}

/// Returns a new hold.
fn hold_on(host: &str) -> Hold {
    Hold {
        id: 0,
        host: host.to_owned(),
        crawler: None,
        since: None,
        until: None,
        reason: "a dispute".to_owned(),
        made_at: SystemTime::UNIX_EPOCH,
        released_at: None,
    }
}

/// A read of the files for one hold must not answer for a hold that is made later.
#[test]
fn second_hold_is_looked_for_in_files_already_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = open(options(dir.path())).unwrap();
    let about_shop = DecisionRecord { origin: Some("https://shop.test".to_owned()), ..decision() };
    while rotated_files(&journal.config.path).unwrap().is_empty() {
        push(&mut journal, &about_shop);
        journal.flush().unwrap();
    }
    let folder = HoldFolder::in_state_dir(dir.path());
    let hold = |host: &str| {
        let hold = hold_on(host);
        let key = SigningKey::read(&dir.path().join("evidence.key")).unwrap();
        folder.add(&hold, Some(key.pair())).unwrap();
    };
    let options = JournalConfig { keep: Duration::ZERO, ..options(dir.path()) };
    let mut held = HeldFiles::default();
    hold("elsewhere.test");
    assert_eq!(expired(&options, &mut held).len(), 1);
    hold("shop.test");
    assert_eq!(expired(&options, &mut held).len(), 0);
}

#[test]
fn old_file_is_rotated_and_oldest_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let options =
        JournalConfig { max_age: Duration::ZERO, keep: Duration::ZERO, ..options(dir.path()) };
    let mut journal = open(options).unwrap();
    for _ in 0..3 {
        push(&mut journal, &decision());
        journal.flush().unwrap();
    }
    assert_eq!(log_paths(&journal.config.path), [journal.config.path.clone()]);
    assert_eq!(count_decisions(&journal.config.path), 1);
}

#[test]
fn decision_is_found_in_any_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = open(options(dir.path())).unwrap();
    let written: Vec<_> = (0..10).map(|_| decision()).collect();
    for decision in &written {
        push(&mut journal, decision);
        journal.flush().unwrap();
    }
    for decision in written {
        let found = find_decision(journal.config.place(), decision.id).expect("it was written");
        assert_eq!(found.id, decision.id);
    }
    assert!(find_decision(journal.config.place(), crate::new_decision_id()).is_none());
}

#[test]
fn new_journal_continues_after_last_line_of_old_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut before = open(options(dir.path())).unwrap();
    before.config.max_size_bytes = 1 << 20;
    let mut journal = open(options(dir.path())).unwrap();
    write_one(&mut before);
    journal.continue_from(&mut before);
    write_one(&mut journal);
    assert_eq!(check_log(&journal.config.path), []);
    assert_eq!(count_decisions(&journal.config.path), 2);
}

#[test]
fn incomplete_line_does_not_spoil_others() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    fs::create_dir_all(options.path.parent().unwrap()).unwrap();
    fs::write(&options.path, "{\"id\":\"0193").unwrap();
    let mut journal = open(options).unwrap();
    let written = decision();
    push(&mut journal, &written);
    journal.flush().unwrap();
    assert_eq!(count_decisions(&journal.config.path), 1);
    assert!(find_decision(journal.config.place(), written.id).is_some());
}

#[test]
fn deleted_file_is_created_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = open(options(dir.path())).unwrap();
    fs::remove_file(&journal.config.path).unwrap();
    push(&mut journal, &decision());
    journal.flush().unwrap();
    assert_eq!(count_decisions(&journal.config.path), 1);
}

#[test]
fn emptied_file_is_continued() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = open(options(dir.path())).unwrap();
    for _ in 0..2 {
        push(&mut journal, &decision());
        journal.flush().unwrap();
        let log = OpenOptions::new().write(true).open(&journal.config.path);
        log.unwrap().set_len(0).unwrap();
    }
    push(&mut journal, &decision());
    journal.flush().unwrap();
    assert_eq!(count_decisions(&journal.config.path), 1);
    let open = journal.open_file.as_mut().unwrap();
    let bytes = open.file.metadata().unwrap().len();
    open.truncate_to_whole_lines(b"");
    assert_eq!(open.file.metadata().unwrap().len(), bytes);
}

#[test]
fn file_grows_if_rotation_fails() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = open(options(dir.path())).unwrap();
    let elsewhere = dir.path().join("elsewhere");
    push(&mut journal, &decision());
    journal.flush().unwrap();
    // The open file can still be written to, but there is none at this path that could be renamed.
    let path = mem::replace(&mut journal.config.path, elsewhere);
    journal.config.max_size_bytes = 1;
    for _ in 0..3 {
        push(&mut journal, &decision());
        journal.flush().unwrap();
    }
    assert_eq!(count_decisions(&path), 4);
}

#[test]
fn file_of_earlier_run_is_continued() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let mut journal = open(options(dir.path())).unwrap();
        push(&mut journal, &decision());
        journal.flush().unwrap();
    }
    assert_eq!(count_decisions(&options(dir.path()).path), 2);
}

/// Checks all links and heads of a log, and returns its events in order.
fn check_log(path: &Path) -> Vec<EventKind> {
    let mut chain = HashChain::new();
    let mut events = Vec::new();
    let mut is_first = true;
    for file in log_paths(path) {
        let mut text = Vec::new();
        let file = File::open(file).unwrap();
        io::Read::read_to_end(&mut decompressed(&file), &mut text).unwrap();
        let lines = text.split_inclusive(|byte| *byte == b'\n');
        for line in lines.map(|line| line.strip_suffix(b"\n").unwrap()) {
            let shown = String::from_utf8_lossy(line);
            let event = LogEvent::parse(line).map(|event| event.kind);
            let before = previous_digest(line);
            assert!(!is_first || before == Some(NO_PREVIOUS), "{shown}");
            is_first = false;
            if let Some(EventKind::File { file, .. }) = &event {
                assert_eq!(*file, chain.file, "{shown}");
            }
            // A torn line has no link; the next line contains its digest.
            if before.is_some() {
                assert_eq!(before, Some(chain.last), "{shown}");
            }
            if let Some(EventKind::Head(head)) = &event {
                assert!(is_signed_by(line, &head.key), "{shown}");
                assert_eq!(head.root_sha256, chain.tree.root(), "{shown}");
                assert_eq!(head.next, Some(chain.file + 1), "{shown}");
            }
            chain.push_line(line);
            match event {
                Some(EventKind::Head(_)) => chain = chain.next_file(),
                event => events.extend(event),
            }
        }
    }
    let mut head = fs::read(head_path(path)).unwrap();
    head.truncate(head.trim_ascii_end().len());
    assert_eq!(previous_digest(&head), Some(chain.last));
    let Some(EventKind::Head(kept)) = LogEvent::parse(&head).map(|event| event.kind) else {
        panic!("{}", String::from_utf8_lossy(&head));
    };
    assert_eq!(kept.tree().as_ref().map(MerkleTree::root), Some(chain.tree.root()));
    events.retain(|what| !matches!(what, EventKind::File { .. }));
    events
}

fn write_one(journal: &mut Journal) {
    push(journal, &decision());
    journal.flush().unwrap();
}

/// Writes a log with some rotated files, and closes it.
fn write_log(dir: &Path) -> PathBuf {
    let mut journal = open(options(dir)).unwrap();
    for _ in 0..5 {
        write_one(&mut journal);
    }
    journal.save_head();
    assert!(log_paths(&journal.config.path).len() > 1);
    journal.config.path
}

#[test]
fn chain_continues_over_processes_and_files() {
    let dir = tempfile::tempdir().unwrap();
    write_log(dir.path());
    let path = write_log(dir.path());
    assert_eq!(check_log(&path), []);
    let all: usize = log_paths(&path).iter().map(|file| count_decisions(file)).sum();
    assert_eq!(all, 10);
}

#[test]
fn decisions_are_counted_over_processes_and_files() {
    let dir = tempfile::tempdir().unwrap();
    let ids = [5, 10].map(|total| {
        write_log(dir.path());
        let head = saved_head(&mut open(options(dir.path())).unwrap(), dir.path());
        assert_eq!((head.count.total(), head.count.lost_decisions), (total, 0));
        head.count.log
    });
    assert_eq!(ids[0], ids[1], "one log");
    write_log(tempfile::tempdir().unwrap().path());
    // A killed process has counted lines that it had not signed.
    let mut killed = open(options(dir.path())).unwrap();
    killed.signed_at = Some(Instant::now());
    write_one(&mut killed);
    let mut journal = open(options(dir.path())).unwrap();
    write_one(&mut journal);
    assert_eq!(saved_head(&mut journal, dir.path()).count.total(), 12);
}

/// Returns the newest head of a log.
fn saved_head(journal: &mut Journal, dir: &Path) -> LogHead {
    journal.save_head();
    let head = HeadFiles::for_log(&options(dir).path, dir).newest().unwrap();
    LogHead::parse(str::from_utf8(&head).unwrap()).unwrap()
}

#[test]
fn log_that_lacks_a_published_head_says_so_once() {
    for written in [1, 2, 9] {
        let dir = tempfile::tempdir().unwrap();
        let path = write_log(dir.path());
        let backup = tempfile::tempdir().unwrap();
        let copy = |from: &Path, to: &Path| {
            let mut cp = std::process::Command::new("cp");
            assert!(cp.arg("-a").arg(from.join(".")).arg(to).status().unwrap().success());
        };
        copy(dir.path(), backup.path());
        let mut lost = open(options(dir.path())).unwrap();
        for _ in 0..3 {
            write_one(&mut lost);
        }
        let published = saved_head(&mut lost, dir.path());
        lost.compare_with(&published);
        assert_eq!(lost.take_altered(), 0, "it is in its own log");
        drop(lost);
        fs::remove_dir_all(dir.path().join("log")).unwrap();
        copy(backup.path(), dir.path());
        let mut journal = open(options(dir.path())).unwrap();
        for _ in 0..written {
            write_one(&mut journal);
        }
        journal.compare_with(&published);
        journal.flush().unwrap();
        let head = saved_head(&mut journal, dir.path());
        assert_eq!((head.count.total(), head.count.lost_decisions), (5 + written, 3));
        assert_eq!(journal.take_altered(), 1);
        assert!(published.precedes(&head));
        let altered = EventKind::Altered {
            file: published.head.file,
            lines: published.head.lines,
            expected_sha256: published.last,
            foreign_lines: None,
        };
        assert_eq!(check_log(&path), [altered]);
        journal.compare_with(&head);
        assert_eq!(journal.take_altered(), 0);
    }
}

#[test]
fn torn_line_is_recorded_by_its_digest() {
    let dir = tempfile::tempdir().unwrap();
    let path = write_log(dir.path());
    let mut log = OpenOptions::new().append(true).open(&path).unwrap();
    log.write_all(b"{\"id\":\"0193").unwrap();
    write_one(&mut open(options(dir.path())).unwrap());
    let torn = EventKind::Recovered {
        unsigned_lines: 1,
        torn_sha256: Some(Sha256Digest::of(b"{\"id\":\"0193")),
    };
    assert_eq!(check_log(&path), [torn]);
}

#[test]
fn unsigned_lines_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = write_log(dir.path());
    let head = fs::read(head_path(&path)).unwrap();
    let mut before = open(options(dir.path())).unwrap();
    before.config.max_size_bytes = 1 << 20;
    write_one(&mut before);
    write_one(&mut before);
    // As if the process had been killed before it signed the two lines.
    fs::write(head_path(&path), &head).unwrap();
    fs::write(copy_path(dir.path()), &head).unwrap();
    write_one(&mut open(options(dir.path())).unwrap());
    let events = check_log(&path);
    let is_recovered =
        |what: &EventKind| matches!(what, EventKind::Recovered { torn_sha256: None, .. });
    assert!(events.iter().all(is_recovered) && events.len() == 1, "{events:?}");
}

#[test]
fn interrupted_rotation_is_completed() {
    let dir = tempfile::tempdir().unwrap();
    let path = write_log(dir.path());
    fs::rename(&path, unused_name(&path)).unwrap();
    let path = write_log(dir.path());
    assert_eq!(check_log(&path), []);
}

#[test]
fn missing_signed_line_is_reported() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 4] = [
        ("cut", |path| {
            let log = OpenOptions::new().write(true).open(path).unwrap();
            log.set_len(log.metadata().unwrap().len() - 10).unwrap();
        }),
        ("changed", |path| {
            let text = fs::read_to_string(path).unwrap();
            let at = text.rfind("\"took_us\":2").unwrap();
            let mut text = text.into_bytes();
            text[at + 10] = b'3';
            fs::write(path, text).unwrap();
        }),
        ("deleted", |path| fs::remove_file(path).unwrap()),
        ("deleted with its head", |path| {
            fs::remove_file(path).unwrap();
            fs::remove_file(head_path(path)).unwrap();
        }),
    ];
    for (name, change) in changes {
        let dir = tempfile::tempdir().unwrap();
        let path = write_log(dir.path());
        change(&path);
        write_one(&mut open(options(dir.path())).unwrap());
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("{\"event\":\"altered\""), "{name}: {text}");
    }
}

#[test]
fn lost_decisions_are_reported_in_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = open(options(dir.path())).unwrap();
    journal.add_lost(3);
    write_one(&mut journal);
    let path = journal.config.path;
    assert_eq!(check_log(&path), [EventKind::Lost { decisions: 3 }]);
}

#[test]
fn clock_set_back_is_reported_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = open(options(dir.path())).unwrap();
    journal.config.max_size_bytes = 1 << 20;
    write_one(&mut journal);
    // A step as small as this is an ordinary correction.
    journal.state.as_mut().unwrap().latest_at = system_time() + Duration::from_millis(1_500);
    write_one(&mut journal);
    let later = system_time() + Duration::from_secs(3600);
    journal.state.as_mut().unwrap().latest_at = later;
    write_one(&mut journal);
    write_one(&mut journal);
    journal.save_head();
    let events = check_log(&journal.config.path);
    let [EventKind::ClockSetBack { from }] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(from.duration_since(later).unwrap_or_default(), Duration::ZERO);
}

#[test]
fn log_without_chain_is_rotated() {
    let dir = tempfile::tempdir().unwrap();
    let path = options(dir.path()).path;
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let old = decision();
    fs::write(&path, EncodedDecision::new(&old).line).unwrap();
    write_one(&mut open(options(dir.path())).unwrap());
    assert!(fs::read(&path).unwrap().starts_with(EVENT_PREFIX));
    // It is kept, but nobody can know who wrote it.
    assert_eq!(count_decisions(&rotated_files(&path).unwrap()[0]), 1);
    assert!(find_decision(options(dir.path()).place(), old.id).is_none());
}

/// Returns the size of all files together.
fn total(path: &Path) -> u64 {
    let files = log_paths(path).into_iter();
    files.map(|file| fs::metadata(file).unwrap().len()).sum()
}

fn bounded(dir: &Path) -> Journal {
    let options =
        JournalConfig { max_size_bytes: 4000, max_total_bytes: Some(16_000), ..options(dir) };
    open(options).unwrap()
}

/// Returns the numbers of the files whose deletion the log mentions.
fn deleted(path: &Path) -> Vec<u64> {
    let mut deleted = Vec::new();
    for file in log_paths(path) {
        find_line(&File::open(file).unwrap(), |line| {
            if let Some(EventKind::Deleted { file }) =
                LogEvent::parse(line.unwrap()).map(|event| event.kind)
            {
                deleted.push(file);
            }
            None::<()>
        })
        .unwrap();
    }
    deleted
}

/// Returns the lowest file number. It may not be that of the first name: a file that is rotated in the same millisecond as one
/// that was deleted gets its name.
fn oldest(path: &Path) -> u64 {
    let numbers = log_paths(path).into_iter().filter_map(|name| file_number(&name));
    numbers.min().unwrap()
}

#[test]
fn oldest_files_are_deleted_and_reported() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = bounded(dir.path());
    for _ in 0..60 {
        write_one(&mut journal);
        // The last line of a file may exceed its size.
        let total = total(&journal.config.path);
        assert!(total <= 16_000 + 4 * 2000, "{total}");
    }
    let path = &journal.config.path;
    let oldest = oldest(path);
    let last = file_number(path).unwrap();
    assert!(oldest > 2 && last - oldest >= 2, "{oldest} to {last}");
    let events = deleted(path);
    assert_eq!(events.last(), Some(&(oldest - 1)), "{events:?}");
}

#[test]
fn file_being_exported_and_younger_ones_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = bounded(dir.path());
    let path = journal.config.path.clone();
    while log_paths(&path).len() < 3 {
        write_one(&mut journal);
    }
    let pinned = log_paths(&path)[0].clone();
    let open = File::open(&pinned).unwrap();
    open.lock_shared().unwrap();
    for _ in 0..40 {
        write_one(&mut journal);
    }
    assert!(log_paths(&path).contains(&pinned));
    assert!(deleted(&path).is_empty());
    journal.save_head();
    assert_eq!(check_log(&path), []);
    drop(open);
    while oldest(&path) == 1 {
        write_one(&mut journal);
    }
    assert!(total(&path) <= 16_000 + 4 * 2000);
}

#[test]
fn kill_between_event_and_deletion_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = bounded(dir.path());
    let path = journal.config.path.clone();
    while rotated_files(&path).unwrap().is_empty() {
        write_one(&mut journal);
    }
    let first = rotated_files(&path).unwrap().remove(0);
    let bytes = fs::read(&first).unwrap();
    while first.exists() {
        write_one(&mut journal);
    }
    // As if the process had been killed before the deletion.
    fs::write(&first, bytes).unwrap();
    let last = file_number(&path);
    while file_number(&path) == last {
        write_one(&mut journal);
    }
    assert!(!first.exists(), "the next beginning of a file deletes it");
}

fn compressing(dir: &Path) -> Journal {
    let options = JournalConfig { compresses: true, ..options(dir) };
    open(options).unwrap()
}

/// Waits for the compressing thread, if there is one.
fn finish(journal: &mut Journal) {
    mem::take(&mut journal.compression).join();
}

#[test]
fn compressed_files_keep_chain_and_are_searched() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = compressing(dir.path());
    let path = journal.config.path.clone();
    let mut written = Vec::new();
    for _ in 0..12 {
        let decision = decision();
        written.push(decision.id);
        push(&mut journal, &decision);
        journal.flush().unwrap();
        finish(&mut journal);
    }
    let rotated = rotated_files(&path).unwrap();
    assert!(rotated.len() > 3, "{rotated:?}");
    for file in &rotated {
        assert!(is_compressed(&File::open(file).unwrap()), "{file:?}");
        assert!(file.extension().is_some_and(|extension| extension == "gz"), "{file:?}");
        let age = fs::metadata(file).unwrap().modified().unwrap();
        assert!(age <= system_time());
    }
    journal.save_head();
    assert_eq!(check_log(&path), []);
    for id in written {
        assert!(find_decision(options(dir.path()).place(), id).is_some());
    }
}

#[test]
fn kill_while_compressing_neither_loses_nor_repeats_lines() {
    let dir = tempfile::tempdir().unwrap();
    let path = write_log(dir.path());
    let plain: Vec<_> = rotated_files(&path).unwrap();
    let whole = fs::read(&plain[0]).unwrap();
    // Killed while compressing, before the file was renamed.
    let part = compress::partial_name(&plain[0]);
    fs::write(&part, [0x1f, 0x8b, 8]).unwrap();
    assert_eq!(rotated_files(&path).unwrap(), plain);
    // Killed before the original was deleted.
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&whole).unwrap();
    fs::write(compressed_name(&plain[1]), gzip.finish().unwrap()).unwrap();
    assert_eq!(rotated_files(&path).unwrap(), plain);
    assert_eq!(check_log(&path), []);
    let mut journal = compressing(dir.path());
    for _ in 0..3 {
        write_one(&mut journal);
        finish(&mut journal);
    }
    journal.save_head();
    assert_eq!(check_log(&path), []);
    assert!(!part.exists() && !plain.iter().any(|file| file.exists()));
    let mut text = Vec::new();
    let file = File::open(compressed_name(&plain[0])).unwrap();
    io::Read::read_to_end(&mut decompressed(&file), &mut text).unwrap();
    assert!(text == whole);
}

#[test]
fn full_disk_defers_compression() {
    let dir = tempfile::tempdir().unwrap();
    let path = write_log(dir.path());
    let plain = rotated_files(&path).unwrap();
    let part = compress::partial_name(&plain[0]);
    std::os::unix::fs::symlink("/dev/full", &part).unwrap();
    compress::compress_all(&plain);
    let is_plain = |file: &PathBuf| file.exists() && !compressed_name(file).exists();
    assert!(is_plain(&plain[0]) && !is_plain(&plain[1]), "{plain:?}");
    assert!(fs::symlink_metadata(&part).is_err(), "nothing is in the way");
    assert_eq!(check_log(&path), []);
    compress::compress_all(&plain);
    assert!(!plain[0].exists() && compressed_name(&plain[0]).exists());
    assert_eq!(check_log(&path), []);
}

#[test]
fn compression_keeps_age_and_skips_locked_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = write_log(dir.path());
    let plain = rotated_files(&path).unwrap();
    let reader = File::open(&plain[0]).unwrap();
    let age = system_time() - Duration::from_hours(100);
    reader.set_modified(age).unwrap();
    reader.lock_shared().unwrap();
    compress::compress_all(&plain);
    assert!(plain[0].exists() && !plain[1].exists(), "{plain:?}");
    reader.unlock().unwrap();
    compress::compress_all(&plain);
    let compressed = fs::metadata(compressed_name(&plain[0])).unwrap();
    assert_eq!(compressed.modified().unwrap(), age);
}

#[test]
fn file_without_final_head_is_ended_before_it_is_compressed() {
    let dir = tempfile::tempdir().unwrap();
    let path = write_log(dir.path());
    let last = unused_name(&path);
    fs::rename(&path, &last).unwrap();
    let mut journal = compressing(dir.path());
    write_one(&mut journal);
    finish(&mut journal);
    assert!(!last.exists(), "it was ended first");
    journal.save_head();
    assert_eq!(check_log(&path), []);
}

#[test]
fn head_of_another_key_is_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let path = write_log(dir.path());
    let other = SigningKey::create(&dir.path().join("other.key")).unwrap();
    let mut newer = ChainState::new();
    newer.chain.file = 999;
    let head = fs::read(head_path(&path)).unwrap();
    let newer_head = newer.sign_head(&other, newer.current_head(&other, Clock::start()));
    fs::write(head_path(&path), newer_head).unwrap();
    let last = file_number(&path).unwrap();
    let config = options(dir.path());
    let heads = HeadFiles::for_log(&config.path, &config.state_dir);
    assert_eq!(heads.newest().unwrap(), head.trim_ascii_end());
    write_log(dir.path());
    assert_eq!(check_log(&path), []);
    assert!(file_number(&path).is_some_and(|number| number <= last + 5));
    // A final head of another key does not end a file, either.
    let aside = unused_name(&path);
    fs::rename(&path, &aside).unwrap();
    let end = newer.chain.final_head(other.pair(), system_time());
    let mut log = OpenOptions::new().append(true).open(&aside).unwrap();
    log.write_all(&[&end[..], b"\n"].concat()).unwrap();
    write_log(dir.path());
    let text = fs::read_to_string(&aside).unwrap();
    let ends = LogEvent::parse_head(text.lines().next_back().unwrap().as_bytes());
    let key = SigningKey::read(&dir.path().join("evidence.key")).unwrap();
    assert_eq!(ends.map(|head| head.key), Some(key.public_base64()));
    assert!(text.contains("{\"event\":\"recovered\""), "{text}");
}

#[test]
fn log_of_another_key_counts_as_altered() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = open(options(dir.path())).unwrap();
    write_one(&mut journal);
    journal.save_head();
    drop(journal);
    fs::remove_file(dir.path().join("evidence.key")).unwrap();
    let mut journal =
        open(JournalConfig { max_size_bytes: 1 << 20, ..options(dir.path()) }).unwrap();
    write_one(&mut journal);
    assert_eq!(journal.take_altered(), 1);
    let text = fs::read_to_string(&journal.config.path).unwrap();
    assert!(text.contains("{\"event\":\"altered\""), "{text}");
}

#[test]
fn oldest_file_is_deleted_first_whatever_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = bounded(dir.path());
    let path = journal.config.path.clone();
    while log_paths(&path).len() < 3 {
        write_one(&mut journal);
    }
    // As if the clock had been wrong when it was rotated.
    let late = path.with_file_name("decisions.20990101T000000.000Z.jsonl");
    fs::rename(&log_paths(&path)[0], &late).unwrap();
    assert_eq!(file_number(&late), Some(1));
    while deleted(&path).is_empty() {
        write_one(&mut journal);
    }
    assert_eq!(deleted(&path)[0], 1);
    assert!(!late.exists());
}

/// A clock that the test sets, beside the time that really passes.
#[derive(Clone)]
struct WallClock(Arc<Mutex<SystemTime>>);

impl WallClock {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(system_time())))
    }

    fn add(&self, span: Duration) {
        *self.0.lock().unwrap() += span;
    }

    fn set_back(&self, span: Duration) {
        *self.0.lock().unwrap() -= span;
    }

    /// Returns the clock of a new process.
    fn start(&self) -> Clock {
        let shown = Arc::clone(&self.0);
        Clock::with_calendar(move || *shown.lock().unwrap())
    }

    /// Opens the log, whose files are kept for 30 days, in a new process.
    fn open(&self, dir: &Path) -> Journal {
        let options = JournalConfig { keep: 30 * DAY, ..options(dir) };
        Journal::open(options, self.start()).unwrap()
    }
}

const DAY: Duration = Duration::from_hours(24);

/// Returns the numbers of the log's files, and writes until there are at least two more.
fn rotate(journal: &mut Journal) -> Vec<u64> {
    let path = journal.config.path.clone();
    let first = file_number(&path).unwrap_or(0);
    while file_number(&path).is_none_or(|number| number < first + 2) {
        write_one(journal);
    }
    journal.save_head();
    let mut numbers: Vec<_> =
        log_paths(&path).iter().filter_map(|file| file_number(file)).collect();
    numbers.sort_unstable();
    numbers
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_wrong_for_a_minute_deletes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let wall = WallClock::new();
    let mut journal = wall.open(dir.path());
    rotate(&mut journal);
    wall.add(40 * DAY);
    assert_eq!(rotate(&mut journal)[0], 1);
    // Nor does another process that starts meanwhile, and one after that.
    for _ in 0..2 {
        drop(journal);
        journal = wall.open(dir.path());
        assert_eq!(rotate(&mut journal)[0], 1);
    }
    wall.set_back(40 * DAY);
    assert_eq!(rotate(&mut journal)[0], 1);
    drop(journal);
    assert_eq!(rotate(&mut wall.open(dir.path()))[0], 1);
    assert_eq!(deleted(&options(dir.path()).path), [0; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_stays_ahead_is_believed_after_a_day() {
    let dir = tempfile::tempdir().unwrap();
    let wall = WallClock::new();
    let mut journal = wall.open(dir.path());
    rotate(&mut journal);
    wall.add(40 * DAY);
    assert_eq!(rotate(&mut journal)[0], 1);
    tokio::time::advance(DAY - Duration::from_secs(60)).await;
    wall.add(DAY - Duration::from_secs(60));
    assert_eq!(rotate(&mut journal)[0], 1);
    tokio::time::advance(Duration::from_secs(60)).await;
    wall.add(Duration::from_secs(60));
    // What ended while the clock was ahead ended, by the settled time, before it was.
    assert!(rotate(&mut journal)[0] > 1);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_was_behind_at_a_rotation_deletes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let wall = WallClock::new();
    let mut journal = wall.open(dir.path());
    rotate(&mut journal);
    wall.set_back(40 * DAY);
    rotate(&mut journal);
    wall.add(40 * DAY);
    tokio::time::advance(2 * DAY).await;
    wall.add(2 * DAY);
    assert_eq!(rotate(&mut journal)[0], 1);
    assert_eq!(deleted(&options(dir.path()).path), [0; 0]);
}

#[tokio::test(start_paused = true)]
async fn restored_files_are_as_old_as_their_last_lines() {
    for compresses in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let wall = WallClock::new();
        let mut journal = wall.open(dir.path());
        journal.config.compresses = compresses;
        rotate(&mut journal);
        finish(&mut journal);
        for _ in 0..40 {
            tokio::time::advance(DAY).await;
            wall.add(DAY);
            journal.clock.settled();
        }
        // Every copy is new.
        for file in rotated_files(&journal.config.path).unwrap() {
            let bytes = fs::read(&file).unwrap();
            fs::remove_file(&file).unwrap();
            fs::write(&file, bytes).unwrap();
            let now = journal.clock.shown();
            File::options().write(true).open(&file).unwrap().set_modified(now).unwrap();
        }
        assert!(rotate(&mut journal)[0] > 1, "{compresses}");
    }
}

#[test]
fn touched_files_are_not_old() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = open(options(dir.path())).unwrap();
    rotate(&mut journal);
    for file in rotated_files(&journal.config.path).unwrap() {
        let year = system_time() - 400 * DAY;
        File::options().write(true).open(&file).unwrap().set_modified(year).unwrap();
    }
    assert_eq!(rotate(&mut journal)[0], 1);
}

#[test]
fn planted_files_displace_none_and_are_not_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let mut journal = bounded(dir.path());
    journal.config.max_total_bytes = Some(1 << 20);
    rotate(&mut journal);
    let path = journal.config.path.clone();
    let name = |n: u32| path.with_file_name(format!("decisions.2020010{n}T000000.000Z.jsonl"));
    let sparse = File::create(name(1)).unwrap();
    sparse.set_len(1 << 40).unwrap();
    // A file of another log with the same key, and one of a log with another.
    fs::copy(dir.path().join("evidence.key"), elsewhere.path().join("evidence.key")).unwrap();
    let other = write_log(elsewhere.path());
    fs::copy(&rotated_files(&other).unwrap()[0], name(2)).unwrap();
    let third = tempfile::tempdir().unwrap();
    let other = write_log(third.path());
    fs::copy(&rotated_files(&other).unwrap()[0], name(3)).unwrap();
    // A true file whose end was moved a tebibyte away.
    let own = rotated_files(&path).unwrap().into_iter().find(|file| file_number(file) == Some(1));
    let own = own.unwrap();
    let text = fs::read(&own).unwrap();
    let head = memchr::memrchr(b'\n', &text[..text.len() - 1]).unwrap() + 1;
    let file = File::options().write(true).open(&own).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"\n", (1 << 40) - 1).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &text[head..], 1 << 40).unwrap();
    rotate(&mut journal);
    assert!(own.exists());
    assert!([1, 2, 3].into_iter().all(|n| name(n).exists()));
    let mut reasons: Vec<_> = journal.foreign.iter().map(|file| file.reason.clone()).collect();
    reasons.sort();
    assert_eq!(reasons.len(), 3, "{reasons:?}");
    assert_eq!(reasons[0], "does not begin as a file of a log");
    assert!(reasons[1].starts_with("is a file of another log, "), "{reasons:?}");
    assert!(reasons[2].starts_with("is a"), "{reasons:?}");
}

/// Opens a journal that is not rotated soon, with one line, which is signed.
fn open_signed(dir: &Path) -> Journal {
    let mut journal = open(options(dir)).unwrap();
    journal.config.max_size_bytes = 1 << 20;
    write_one(&mut journal);
    journal.save_head();
    journal
}

/// Puts a directory in the place of a file, to which nobody can write then.
fn obstruct(file: &Path) {
    fs::remove_file(file).unwrap();
    fs::create_dir(file).unwrap();
}

#[test]
fn a_head_that_cannot_be_written_is_a_warning_until_it_can() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = open_signed(dir.path());
    assert_eq!(*journal.warnings(), JournalWarnings::default());
    let files = [head_path(&journal.config.path), copy_path(dir.path())];
    files.iter().for_each(|file| obstruct(file));
    write_one(&mut journal);
    let tried_at = Instant::now();
    journal.save_head();
    let fault = journal.warnings().head_fault.clone().unwrap();
    assert!(files.iter().all(|file| fault.contains(&file.display().to_string())), "{fault}");
    let again = journal.sign_at().expect("it is tried again");
    assert!(again >= tried_at + SIGN_RETRY, "but not at once");
    files.iter().for_each(|file| fs::remove_dir(file).unwrap());
    journal.save_head();
    assert_eq!(*journal.warnings(), JournalWarnings::default());
    assert_eq!(journal.sign_at(), None);
    assert_eq!(check_log(&journal.config.path), []);
}

#[test]
fn a_head_that_one_of_two_files_takes_is_a_head() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = open_signed(dir.path());
    assert!(journal.take_saved_head().is_some());
    let copy = copy_path(dir.path());
    obstruct(&copy);
    write_one(&mut journal);
    journal.save_head();
    assert_eq!(*journal.warnings(), JournalWarnings::default());
    assert!(journal.lacks_copy && journal.take_saved_head().is_some());
    assert_eq!(journal.sign_at(), None);
    fs::remove_dir(&copy).unwrap();
    write_one(&mut journal);
    journal.save_head();
    assert!(!journal.lacks_copy);
}

#[test]
fn a_head_that_cannot_be_written_is_not_tried_with_each_line() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = open_signed(dir.path());
    obstruct(&head_path(&journal.config.path));
    obstruct(&copy_path(dir.path()));
    journal.signed_at = Instant::now().checked_sub(SIGN_INTERVAL);
    write_one(&mut journal);
    let again = journal.sign_at().expect("it is tried again");
    write_one(&mut journal);
    assert_eq!(journal.sign_at(), Some(again));
}

/// The head at the end of a file that only fits in part must not count as lines that somebody else wrote.
#[test]
fn a_final_head_that_does_not_fit_leaves_no_part() {
    const LIMITED: &str = "WAYLEAVE_TEST_FILE_SIZE_LIMITED";
    if std::env::var_os(LIMITED).is_none() {
        let name = "journal::tests::a_final_head_that_does_not_fit_leaves_no_part";
        // In blocks of 512 bytes. Without the trap, the kernel would kill the process.
        let limited = std::process::Command::new("sh")
            .args(["-c", "trap '' XFSZ; ulimit -f 32; exec \"$0\" --exact \"$1\""])
            .arg(std::env::current_exe().unwrap())
            .arg(name)
            .env(LIMITED, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&limited.stdout);
        assert!(limited.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut journal = open(options(dir.path())).unwrap();
    let path = journal.config.path.clone();
    journal.config.max_size_bytes = 16_034;
    let size = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
    while size(&path) < 16_034 {
        journal.push(b"{\"id\":\"0123456789\"}\n", None);
        journal.flush().unwrap();
    }
    // The file is renamed, and its final head would end beyond the limit.
    for _ in 0..2 {
        journal.push(b"{\"id\":\"0123456789\"}\n", None);
        journal.flush().unwrap_err();
    }
    let rotated = rotated_files(&path).unwrap();
    assert!(rotated.len() == 1 && (16_034..16_384).contains(&size(&rotated[0])), "{rotated:?}");
    assert_eq!(journal.take_altered(), 0);
    assert!(fs::read(&rotated[0]).unwrap().ends_with(b"\n"));
}

#[test]
fn lines_share_a_head_that_none_waits_for_too_long() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = open(options(dir.path())).unwrap();
    journal.config.max_size_bytes = 1 << 20;
    let has_saved = |journal: &mut Journal| journal.take_saved_head().is_some();
    write_one(&mut journal);
    assert!(has_saved(&mut journal), "a new file has one at once");
    assert_eq!(journal.sign_at(), None);
    // The last head remains new, however slow this test is.
    let later = Instant::now() + Duration::from_hours(1);
    journal.signed_at = Some(later);
    let before = Instant::now();
    write_one(&mut journal);
    let due = journal.sign_at().expect("the line has none yet");
    assert!(due >= before + SIGN_INTERVAL && due <= Instant::now() + SIGN_INTERVAL);
    // So does the first line without one.
    journal.sign_at = Some(later);
    for _ in 0..3 {
        write_one(&mut journal);
    }
    assert_eq!(journal.sign_at(), Some(later), "further lines put it off no longer");
    journal.save_head_if_due(later - Duration::from_nanos(1));
    assert!(!has_saved(&mut journal));
    journal.save_head_if_due(later);
    assert!(has_saved(&mut journal));
    assert_eq!(journal.sign_at(), None);
    assert_eq!(check_log(&journal.config.path), [], "it covers all lines");
    journal.save_head_if_due(later + SIGN_INTERVAL);
    assert!(!has_saved(&mut journal), "nothing is new");
    journal.signed_at = Some(Instant::now() - SIGN_INTERVAL);
    write_one(&mut journal);
    assert!(has_saved(&mut journal), "the last head is old, so that the line need not wait");
}

#[test]
fn decisions_lost_before_a_stop_are_mentioned_by_the_next_process() {
    for is_first in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let config = JournalConfig { max_size_bytes: 1 << 20, ..options(dir.path()) };
        let mut journal = open(config.clone()).unwrap();
        write_one(&mut journal);
        journal.save_head();
        if is_first {
            journal = open(config.clone()).unwrap();
        }
        // As if the disk were full.
        let path = config.path.clone();
        let aside = dir.path().join("aside");
        fs::rename(&path, &aside).unwrap();
        fs::create_dir(&path).unwrap();
        journal.open_file = None;
        for _ in 0..3 {
            push(&mut journal, &decision());
        }
        assert_eq!(journal.flush().unwrap_err().lines, 3);
        journal.save_head();
        drop(journal);
        fs::remove_dir(&path).unwrap();
        fs::rename(&aside, &path).unwrap();
        let mut journal = open(config.clone()).unwrap();
        write_one(&mut journal);
        drop(journal);
        // Killed before it signed that: the head still has the number.
        for _ in 0..2 {
            let mut journal = open(config.clone()).unwrap();
            write_one(&mut journal);
            journal.save_head();
        }
        let events = check_log(&path);
        let lost = events.iter().filter(|event| matches!(event, EventKind::Lost { .. }));
        assert_eq!(lost.collect::<Vec<_>>(), [&EventKind::Lost { decisions: 3 }], "{events:?}");
    }
}

/// Opens a log with a hold that it records. Returns it with the file of the hold.
fn with_hold(dir: &Path) -> (Journal, PathBuf) {
    let mut journal = open(options(dir)).unwrap();
    write_one(&mut journal);
    let folder = HoldFolder::in_state_dir(dir);
    folder.add(&hold_on("shop.test"), Some(journal.key.pair())).unwrap();
    rotate(&mut journal);
    (journal, dir.join("holds/1.json"))
}

/// As on a full disk, which takes a file and no line of it.
#[test]
fn a_file_without_its_first_line_needs_no_second_set_of_events() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = with_hold(dir.path());
    journal.config.max_size_bytes = 1;
    write_one(&mut journal);
    journal.rotate();
    let mut counts = Vec::new();
    for _ in 0..3 {
        drop(journal.take_open_file().unwrap());
        counts.push(journal.events.len());
    }
    assert!(counts[0] > 0 && counts == [counts[0]; 3], "{counts:?}: {:?}", journal.events);
}

/// Returns the hosts of the holds that count in the next process, and how many things are wrong with them.
fn held_hosts(dir: &Path) -> (Vec<String>, usize) {
    let mut journal = open(options(dir)).unwrap();
    let head = journal.heads.newest_signed_by(&journal.key.public_base64());
    journal.holds = JournalHolds::read(&journal.config.path, head.as_deref());
    journal.check_holds();
    let holds = journal.holds.in_effect().unwrap();
    (holds.into_iter().map(|hold| hold.host).collect(), journal.holds.findings.len())
}

#[test]
fn a_hold_is_released_by_the_key_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, file) = with_hold(dir.path());
    let own = vec!["shop.test".to_owned()];
    assert_eq!(held_hosts(dir.path()), (own.clone(), 0));
    let text = fs::read_to_string(&file).unwrap();
    let by_hand =
        text.replace("\"made_at\"", "\"released_at\":\"2026-01-01T00:00:00Z\",\"made_at\"");
    fs::write(&file, by_hand).unwrap();
    assert_eq!(held_hosts(dir.path()), (own.clone(), 1));
    fs::write(&file, text.replace("shop.test", "other.test")).unwrap();
    assert_eq!(held_hosts(dir.path()), (own.clone(), 1));
    fs::remove_file(&file).unwrap();
    assert_eq!(held_hosts(dir.path()), (own.clone(), 1));
    // Whole files may be gone in which it was recorded first.
    for old in rotated_files(&journal.config.path).unwrap() {
        fs::remove_file(old).unwrap();
    }
    rotate(&mut journal);
    assert_eq!(held_hosts(dir.path()), (own, 1));
    let hold = Hold { id: 1, released_at: Some(system_time()), ..hold_on("shop.test") };
    HoldFolder::in_state_dir(dir.path()).replace(&hold, Some(journal.key.pair())).unwrap();
    rotate(&mut journal);
    assert_eq!(held_hosts(dir.path()), (Vec::new(), 0));
}

#[test]
fn a_planted_hold_holds_nothing_and_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (_, file) = with_hold(dir.path());
    let text = fs::read_to_string(&file).unwrap();
    fs::write(dir.path().join("holds/2.json"), text.replace("\"id\":1", "\"id\":2")).unwrap();
    assert_eq!(held_hosts(dir.path()), (vec!["shop.test".to_owned()], 1));
}

#[test]
fn holds_of_the_version_before_are_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = open(options(dir.path())).unwrap();
    write_one(&mut journal);
    let state = journal.state.clone().unwrap();
    let folder = HoldFolder::in_state_dir(dir.path());
    folder.add(&hold_on("shop.test"), None).unwrap();
    // That signed no number of holds.
    let head = state.sign_head(&journal.key, state.current_head(&journal.key, journal.clock));
    assert!(journal.heads.save(&head).is_empty());
    drop(journal);
    write_log(dir.path());
    assert_eq!(held_hosts(dir.path()), (vec!["shop.test".to_owned()], 0));
    folder.add(&hold_on("other.test"), None).unwrap();
    assert_eq!(held_hosts(dir.path()), (vec!["shop.test".to_owned()], 1));
}
