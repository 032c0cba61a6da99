//! Tampers with logs the way somebody without the key can: a line is added, changed or deleted at every position, and any
//! number of files is deleted at either end. Whatever the process does meanwhile, the check must report it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use serde_json::json;
use wayleave_clock::{Clock, system_time};
use wayleave_config::Config;
use wayleave_decision_log::{Journal, JournalConfig};
use wayleave_evidence::chain::event::EventKind;
use wayleave_evidence::chain::link::{link_line, previous_digest};
use wayleave_evidence::files::{file_number, rotated_files};
use wayleave_evidence::verify::VerifyResult;
use wayleave_evidence::{Sha256Digest, SignedLog};

use super::super::export;
use super::*;

#[derive(Parser)]
struct ExportCli {
    #[command(flatten)]
    arguments: export::ExportArgs,
}

#[derive(Parser)]
struct VerifyCli {
    #[command(flatten)]
    arguments: VerifyArgs,
}

/// The actions of the process around the tampering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessFate {
    /// It keeps running.
    Runs,
    /// It has stopped, and another continues the log.
    Stopped,
    /// It was killed, and another continues the log.
    Killed,
    /// It has stopped, and the log is not continued.
    Rests,
}

pub(super) const ALL: [ProcessFate; 4] =
    [ProcessFate::Runs, ProcessFate::Stopped, ProcessFate::Killed, ProcessFate::Rests];

pub(super) struct TestLog {
    pub(super) dir: tempfile::TempDir,
    pub(super) journal: Option<Journal>,
}

impl TestLog {
    /// Writes a log of several files, in the state that `process` leaves.
    pub(super) fn written(process: ProcessFate) -> Self {
        let mut place = Self { dir: tempfile::tempdir().unwrap(), journal: None };
        for _ in 0..6 {
            place.write();
        }
        if matches!(process, ProcessFate::Stopped | ProcessFate::Rests) {
            place.stop();
        }
        if process == ProcessFate::Killed {
            place.journal = None;
        }
        place
    }

    pub(super) fn options(&self) -> JournalConfig {
        JournalConfig {
            path: self.dir.path().join("log/decisions.jsonl"),
            max_size_bytes: 900,
            max_age: Duration::from_hours(24),
            keep: Duration::from_hours(24),
            max_total_bytes: None,
            compresses: false,
            key: self.dir.path().join("state/evidence.key"),
            state_dir: self.dir.path().join("state"),
        }
    }

    pub(super) fn write(&mut self) {
        let options = self.options();
        let journal =
            self.journal.get_or_insert_with(|| Journal::open(options, Clock::start()).unwrap());
        let mut line = decision(&wayleave_decision_log::new_decision_id().to_string());
        line.push(b'\n');
        journal.push(&line, Some(Sha256Digest::of(b"")));
        journal.flush().unwrap();
        journal.save_head();
    }

    pub(super) fn stop(&mut self) {
        let mut journal = self.journal.take().unwrap();
        journal.push_event(EventKind::Stop {});
        journal.flush().unwrap();
        journal.save_head();
    }

    /// Returns the files of the log, sorted by number.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let path = self.options().path;
        let mut files = rotated_files(&path).unwrap();
        files.push(path);
        files.sort_by_key(|path| file_number(path));
        files
    }

    /// Lets the process continue, exports everything, and returns the findings of the check.
    pub(super) fn checked(mut self, process: ProcessFate) -> Option<String> {
        if process != ProcessFate::Rests {
            self.write();
            self.write();
            self.stop();
        }
        self.found("out", &["--since", "1d"])
    }

    /// Exports a selection and returns the findings of the check; `None` if nothing.
    pub(super) fn found(&self, out: &str, wanted: &[&str]) -> Option<String> {
        let dir = self.dir.path();
        let text = format!("[state]\ndir = {:?}\n", dir.join("state"));
        let mut config = Config::from_toml("config.toml", &text).unwrap();
        config.log.decisions = Some(self.options());
        let shown = dir.join(out).display().to_string();
        let wanted = [&["export", "--out", &shown], wanted].concat();
        if let Err(error) = export::export(&ExportCli::parse_from(wanted).arguments, &config) {
            return Some(format!("not exported: {error:#}"));
        }
        let arguments = VerifyCli::parse_from(["verify", &shown]).arguments;
        let verified = match verify(&arguments) {
            Ok(verified) => verified,
            Err(error) => return Some(format!("{error:#}")),
        };
        // The documents that the decisions rest on do not exist here, so that findings about decisions are ignored.
        let found = verified.findings.to_string();
        let is_found = found.contains(": altered: ") || found.contains(": unsigned: ");
        is_found.then_some(found)
    }
}

/// Returns the line of a decision that rests on no documents.
pub(super) fn decision(id: &str) -> Vec<u8> {
    let at = humantime::format_rfc3339_micros(system_time()).to_string();
    // Lines of the log begin with the id.
    let line = json!({
        "at": at, "outcome": "refused", "reason": "malformed-request", "status": 400, "crawler": "asserted", "identity": "asserted",
        "client": "10.0.0.1", "method": "GET", "url": "http://shop.test/", "mode": "enforce", "configuration": 1,
        "decided_us": 1, "took_us": 10,
    });
    let line = line.to_string();
    format!("{{\"id\":\"{id}\",{}", &line[1..]).into_bytes()
}

#[derive(Clone, Copy, Debug)]
enum LineChange {
    Insert,
    Alter,
    Delete,
}

pub(super) fn lines(path: &Path) -> Vec<Vec<u8>> {
    let text = fs::read(path).unwrap();
    let text = text.strip_suffix(b"\n").unwrap_or(&text);
    text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

/// Changes the line at an index as somebody would who knows the format but has no key: all later lines are linked again.
/// Returns `false` if there is no such line.
fn tamper(path: &Path, at: usize, change: LineChange) -> bool {
    let mut all = lines(path);
    if at > all.len() || (at == all.len() && !matches!(change, LineChange::Insert)) {
        return false;
    }
    let start = previous_digest(&all[0]).unwrap();
    match change {
        LineChange::Insert => all.insert(at, decision("019a00000000700080000000000000a1")),
        LineChange::Alter => {
            let text = String::from_utf8(all[at].clone()).unwrap();
            all[at] = text.replacen("\"at\":\"2", "\"at\":\"3", 1).into_bytes();
        }
        LineChange::Delete => drop(all.remove(at)),
    }
    let mut before = match at.checked_sub(1) {
        Some(before) => Sha256Digest::of(&all[before]),
        None => start,
    };
    for line in all.iter_mut().skip(at) {
        let text = String::from_utf8(line.clone()).unwrap();
        // The old signature of a head is kept, because a new one cannot be made.
        let (object, rest) = match text.find(",\"prev_sha256\"") {
            Some(end) => (format!("{}}}", &text[..end]), &text[end + 81..text.len() - 1]),
            None => (text.clone(), ""),
        };
        let mut new = link_line(object.as_bytes(), before);
        if !rest.is_empty() {
            new.pop();
            new.extend_from_slice(rest.as_bytes());
            new.push(b'}');
        }
        *line = new;
        before = Sha256Digest::of(line);
    }
    let mut text = all.join(&b'\n');
    text.push(b'\n');
    fs::write(path, text).unwrap();
    true
}

#[test]
fn authentic_log_has_no_findings() {
    for process in ALL {
        let place = TestLog::written(process);
        assert!(place.files().len() > 2, "{:?}", place.files());
        assert_eq!(place.checked(process), None, "{process:?}");
    }
}

#[test]
fn any_change_to_any_line_without_key_is_reported() {
    let mut tried = 0;
    for process in ALL {
        for file in 0..TestLog::written(process).files().len() {
            for change in [LineChange::Insert, LineChange::Alter, LineChange::Delete] {
                for at in 0.. {
                    let place = TestLog::written(process);
                    if !tamper(&place.files()[file], at, change) {
                        break;
                    }
                    let what = format!("{process:?}: {change:?} at {at} of file {}", file + 1);
                    let Some(found) = place.checked(process) else {
                        panic!("{what} is not noticed");
                    };
                    let names =
                        [format!("log/{:06}.jsonl", file + 1), format!("file {}", file + 1)];
                    assert!(names.iter().any(|name| found.contains(name)), "{what}: {found}");
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 100, "{tried}");
}

#[test]
fn files_deleted_at_either_end_are_reported() {
    for process in ALL {
        let count = TestLog::written(process).files().len();
        for deleted in 1..=count {
            for is_oldest in [true, false] {
                for with_head in [true, false] {
                    let place = TestLog::written(process);
                    let mut files = place.files();
                    if !is_oldest {
                        files.reverse();
                    }
                    files[..deleted].iter().for_each(|file| fs::remove_file(file).unwrap());
                    if with_head {
                        fs::remove_file(place.options().path.with_extension("jsonl.head")).unwrap();
                    }
                    let what =
                        format!("{process:?}: {deleted} of {count}, the oldest: {is_oldest}");
                    let found = place.checked(process);
                    let found = found.unwrap_or_else(|| panic!("{what} are not noticed"));
                    assert!(found.contains("file "), "{what}: {found}");
                }
            }
        }
    }
}

#[test]
fn log_restored_to_earlier_state_is_reported() {
    for process in [ProcessFate::Stopped, ProcessFate::Killed, ProcessFate::Rests] {
        let mut place = TestLog::written(ProcessFate::Runs);
        let (path, head) = {
            let path = place.options().path;
            (path.clone(), path.with_extension("jsonl.head"))
        };
        let earlier = (fs::read(&path).unwrap(), fs::read(&head).unwrap());
        let count = place.files().len();
        place.write();
        match process {
            ProcessFate::Killed => place.journal = None,
            _ => place.stop(),
        }
        for newer in place.files().into_iter().skip(count - 1) {
            fs::remove_file(newer).unwrap();
        }
        fs::write(&path, earlier.0).unwrap();
        fs::write(&head, earlier.1).unwrap();
        let found = place.checked(process);
        assert!(found.is_some(), "{process:?} is not noticed");
    }
}

#[test]
fn unsigned_line_of_killed_process_is_reported_or_accepted() {
    let mut place = TestLog::written(ProcessFate::Runs);
    let path = place.options().path;
    place.journal = None;
    let before = Sha256Digest::of(lines(&path).last().unwrap());
    let mut text = fs::read(&path).unwrap();
    text.extend_from_slice(&link_line(&decision("019a00000000700080000000000000a1"), before));
    text.push(b'\n');
    fs::write(&path, text).unwrap();
    let found = place.checked(ProcessFate::Killed).unwrap();
    assert!(
        found.contains("unsigned: 1 decision was not signed by its writer: lines ")
            && !found.contains(": altered: "),
        "{found}"
    );
    let mut accepted = ExportFindings::new(true);
    accepted.add_unsigned("log/000001.jsonl:1", "1 decision was not signed by its writer");
    assert_eq!(accepted.result(), VerifyResult::Derived);
}

/// Appends a decision as somebody would who knows the format.
fn append(path: &Path) {
    assert!(tamper(path, lines(path).len(), LineChange::Insert));
}

#[test]
fn lines_after_clean_stop_are_foreign() {
    for (process, words) in [
        (ProcessFate::Stopped, "was written by somebody else"),
        (ProcessFate::Rests, "lines that somebody else wrote: 1"),
    ] {
        let place = TestLog::written(process);
        append(&place.options().path);
        let found = place.checked(process).unwrap();
        assert!(found.contains(words), "{process:?}: {found}");
    }
}

#[test]
fn file_with_replaced_first_line_is_still_checked() {
    let place = TestLog::written(ProcessFate::Rests);
    assert!(tamper(&place.files()[1], 0, LineChange::Insert));
    let found = place.checked(ProcessFate::Rests).unwrap();
    let expected = "log/000002.jsonl:1: altered: is not the first line of a file";
    assert!(found.contains(expected), "{found}");
}

#[test]
fn truncated_file_is_exported_with_any_selection() {
    let place = TestLog::written(ProcessFate::Rests);
    let path = place.options().path;
    let text = fs::read(&path).unwrap();
    fs::write(&path, &text[..text.len() - 10]).unwrap();
    let wanted = ["--url", "http://shop.test/", "--at", "2020-01-01"];
    let found = place.found("out", &wanted).unwrap();
    let number = place.files().len();
    assert!(found.contains(&format!("log/{number:06}.jsonl:")), "{found}");
}

#[test]
fn file_begun_before_final_head_counts_as_unsigned() {
    let place = TestLog::written(ProcessFate::Killed);
    let path = place.options().path;
    let number = file_number(&path).unwrap();
    fs::rename(&path, path.with_file_name("decisions.29990101T000000.000Z.jsonl")).unwrap();
    let first = format!(
        "{{\"event\":\"file\",\"file\":{},\"program\":\"wayleave\",\"at\":\"2026-01-01T00:00:00Z\"}}",
        number + 1
    );
    let first = link_line(first.as_bytes(), Sha256Digest::of(b""));
    fs::write(&path, [&first[..], b"\n"].concat()).unwrap();
    append(&path);
    let found = place.checked(ProcessFate::Rests).unwrap();
    assert!(found.contains("not signed by their writer: 2"), "{found}");
}

#[test]
fn new_log_next_to_old_key_says_altered() {
    for is_of_here in [true, false] {
        let mut place = TestLog::written(ProcessFate::Stopped);
        let state = place.options().state_dir;
        fs::remove_dir_all(place.dir.path().join("log")).unwrap();
        for entry in fs::read_dir(&state).unwrap().flatten() {
            if entry.path().extension().is_some_and(|extension| extension == "head") {
                fs::remove_file(entry.path()).unwrap();
            }
        }
        let mut options = place.options();
        if !is_of_here {
            // A key outside the state directory may have signed other logs.
            options.key = place.dir.path().join("mounted.key");
            fs::rename(state.join("evidence.key"), &options.key).unwrap();
        }
        place.journal = Some(Journal::open(options, Clock::start()).unwrap());
        place.write();
        let log = fs::read_to_string(place.options().path).unwrap();
        assert_eq!(log.contains("\"altered\""), is_of_here, "{log}");
    }
}

#[test]
fn decision_at_exactly_the_given_time_is_selected_as_last() {
    use wayleave_evidence::select::{Selection, select};

    let place = TestLog::written(ProcessFate::Rests);
    let log = SignedLog::open(&place.options().path, &place.options().state_dir).unwrap();
    let first = lines(&place.files()[0]);
    let first = first.iter().position(|line| line.starts_with(b"{\"id\"")).unwrap();
    let decision: DecisionRecord =
        serde_json::from_slice(&lines(&place.files()[0])[first]).unwrap();
    let wanted = Selection::Url {
        url: wayleave_robots_txt::Target::parse("http://shop.test/").unwrap(),
        at: decision.at,
        crawler: None,
    };
    let chosen = select(&log.files, &wanted).unwrap();
    assert_eq!(chosen[0].lines[0], first as u64 + 1);
    let all: usize = chosen.iter().map(|chosen| chosen.lines.len()).sum();
    assert_eq!(all, 2, "that, and the first after it");
}

#[test]
fn bytes_after_manifest_are_refused() {
    let place = TestLog::written(ProcessFate::Rests);
    assert_eq!(place.found("out.warc", &["--since", "1d"]), None);
    let file = place.dir.path().join("out.warc");
    let mut bytes = fs::read(&file).unwrap();
    bytes.extend_from_slice(b"WARC/1.1\r\n");
    fs::write(&file, bytes).unwrap();
    let shown = file.display().to_string();
    let error = verify(&VerifyCli::parse_from(["verify", &shown]).arguments).err();
    let error = error.map(|error| format!("{error:#}")).unwrap_or_default();
    assert!(error.contains("comes after the manifest"), "{error}");
}

/// Returns the files with the head of a log.
pub(super) fn head_files(place: &TestLog) -> [PathBuf; 2] {
    let beside = place.options().path.with_extension("jsonl.head");
    let mut entries = fs::read_dir(place.options().state_dir).unwrap().flatten();
    let copy =
        entries.find(|entry| entry.path().extension().is_some_and(|extension| extension == "head"));
    [beside, copy.unwrap().path()]
}

#[test]
fn lines_that_no_head_signs_are_exported_as_unsigned() {
    // In files that have a head, in others, and in both.
    for (signed, lines) in [(0, 1), (0, 9), (1, 1), (1, 9)] {
        let mut place = TestLog::written(ProcessFate::Runs);
        (0..signed).for_each(|_| place.write());
        let heads = head_files(&place).map(|path| (path.clone(), fs::read(path).unwrap()));
        for _ in 0..lines {
            place.write();
        }
        place.journal = None;
        // As if they could not have been written.
        for (path, head) in heads {
            fs::write(path, head).unwrap();
        }
        let found = place.found("out", &["--since", "1d"]).unwrap();
        assert!(found.contains("not signed by their writer: "), "{lines}: {found}");
        assert!(!found.contains(": altered: "), "{lines}: {found}");
        let manifest = fs::read(place.dir.path().join("out/manifest.json")).unwrap();
        let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
        assert_eq!(manifest["decisions"], 6 + signed + lines, "{signed}, {lines}");
    }
}

#[test]
fn another_log_with_the_same_key_in_its_place_is_altered() {
    // Longer, as long, and with the head next to it, or without.
    for more in [0, 6] {
        for with_head in [false, true] {
            let place = TestLog::written(ProcessFate::Stopped);
            let mut other = TestLog { dir: tempfile::tempdir().unwrap(), journal: None };
            fs::create_dir(other.dir.path().join("state")).unwrap();
            fs::copy(place.options().key, other.options().key).unwrap();
            for _ in 0..6 + more {
                other.write();
            }
            other.stop();
            let log = place.dir.path().join("log");
            for entry in fs::read_dir(&log).unwrap().flatten() {
                if with_head || entry.path().extension().is_none_or(|extension| extension != "head")
                {
                    fs::remove_file(entry.path()).unwrap();
                }
            }
            for entry in fs::read_dir(other.dir.path().join("log")).unwrap().flatten() {
                if with_head || entry.path().extension().is_none_or(|extension| extension != "head")
                {
                    fs::copy(entry.path(), log.join(entry.file_name())).unwrap();
                }
            }
            let found = place.found("out", &["--since", "1d"]);
            let found = found.unwrap_or_else(|| panic!("{more} {with_head} is not noticed"));
            assert!(found.contains(" another log"), "{more} {with_head}: {found}");
        }
    }
}

#[test]
fn planted_files_and_forged_holds_are_named() {
    let place = TestLog::written(ProcessFate::Stopped);
    let rotated = rotated_files(&place.options().path).unwrap();
    fs::copy(&rotated[0], rotated[0].with_file_name("decisions.20990101T000000.000Z.jsonl"))
        .unwrap();
    fs::write(rotated[0].with_file_name("decisions.20000101T000000.000Z.jsonl"), "{}").unwrap();
    fs::create_dir(place.options().state_dir.join("holds")).unwrap();
    let hold = r#"{"id":1,"host":"a.test","reason":"none","made_at":"2026-01-01T00:00:00Z"}"#;
    fs::write(place.options().state_dir.join("holds/1.json"), hold).unwrap();
    let found = place.found("out", &["--since", "1d"]).unwrap();
    for finding in
        ["is a second file 1", "does not begin as a file of a log", "hold 1 is not signed"]
    {
        assert!(found.contains(finding), "{finding}: {found}");
    }
}
