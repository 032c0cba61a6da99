//! Every position of a log at which somebody without the key can add, change or delete a line, and every number of files that can be
//! deleted at either end: whatever the process does meanwhile, the check names it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use serde_json::json;

use super::super::export;
use super::*;
use crate::clock::calendar;
use crate::config::Config;
use crate::observe::chain::event::What;
use crate::observe::chain::link::{linked, previous};
use crate::observe::decisions::{Journal, JournalOptions, file_number, rotated_files};

#[derive(Parser)]
struct Export {
    #[command(flatten)]
    arguments: export::Arguments,
}

#[derive(Parser)]
struct Verify {
    #[command(flatten)]
    arguments: Arguments,
}

/// What becomes of the process around the tampering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Process {
    /// It goes on.
    Runs,
    /// It has stopped, and another goes on.
    Stopped,
    /// It was killed, and another goes on.
    Killed,
    /// It has stopped, and none goes on.
    Rests,
}

const ALL: [Process; 4] = [
    Process::Runs,
    Process::Stopped,
    Process::Killed,
    Process::Rests,
];

struct Place {
    dir: tempfile::TempDir,
    journal: Option<Journal>,
}

impl Place {
    /// A log of some files, left as `process` leaves it.
    fn written(process: Process) -> Self {
        let mut place = Self {
            dir: tempfile::tempdir().unwrap(),
            journal: None,
        };
        for _ in 0..6 {
            place.write();
        }
        if matches!(process, Process::Stopped | Process::Rests) {
            place.stop();
        }
        if process == Process::Killed {
            place.journal = None;
        }
        place
    }

    fn options(&self) -> JournalOptions {
        JournalOptions {
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

    fn write(&mut self) {
        let options = self.options();
        let journal = self
            .journal
            .get_or_insert_with(|| Journal::open(options).unwrap());
        let mut line = decision(&crate::observe::decisions::DecisionId::new().to_string());
        line.push(b'\n');
        journal.push(&line, Some(Digest::of(b"")));
        journal.flush().unwrap();
        journal.sign();
    }

    fn stop(&mut self) {
        let mut journal = self.journal.take().unwrap();
        journal.note(What::Stop {});
        journal.flush().unwrap();
        journal.sign();
    }

    /// The files of the log, by their numbers.
    fn files(&self) -> Vec<PathBuf> {
        let path = self.options().path;
        let mut files = rotated_files(&path).unwrap();
        files.push(path);
        files.sort_by_key(|path| file_number(path));
        files
    }

    /// What the check says once the process has gone on as it does; nothing if all is well.
    fn checked(mut self, process: Process) -> Option<String> {
        if process != Process::Rests {
            self.write();
            self.write();
            self.stop();
        }
        let dir = self.dir.path();
        let text = format!("[state]\ndir = {:?}\n", dir.join("state"));
        let mut config = Config::from_toml("config.toml", &text).unwrap();
        config.log.decisions = Some(self.options());
        let out = dir.join("out");
        let shown = out.display().to_string();
        let wanted = ["export", "--since", "1d", "--out", &shown];
        if let Err(error) = export::export(&Export::parse_from(wanted).arguments, &config) {
            return Some(format!("not exported: {error:#}"));
        }
        let arguments = Verify::parse_from(["verify", &shown]).arguments;
        let verified = match verify(&arguments) {
            Ok(verified) => verified,
            Err(error) => return Some(format!("{error:#}")),
        };
        // What the decisions rest on is not there, which is not looked at here.
        let found = verified.findings.to_string();
        let is_found = found.contains(": altered: ") || found.contains(": unsigned: ");
        is_found.then_some(found)
    }
}

/// A decision that rests on nothing.
fn decision(id: &str) -> Vec<u8> {
    let at = humantime::format_rfc3339_micros(calendar()).to_string();
    // As lines of the log begin.
    let line = json!({
        "at": at, "outcome": "refused", "reason": "malformed-request", "status": 400, "crawler": "asserted", "identity": "asserted",
        "client": "10.0.0.1", "method": "GET", "url": "http://shop.test/", "mode": "enforce", "configuration": 1,
        "decided_us": 1, "took_us": 10,
    });
    let line = line.to_string();
    format!("{{\"id\":\"{id}\",{}", &line[1..]).into_bytes()
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Insert,
    Alter,
    Delete,
}

fn lines(path: &Path) -> Vec<Vec<u8>> {
    let text = fs::read(path).unwrap();
    let text = text.strip_suffix(b"\n").unwrap_or(&text);
    text.split(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect()
}

/// Changes the line at an index, as somebody does who knows the format and has no key: the lines behind it name their predecessors.
/// Whether there is such a line.
fn tamper(path: &Path, at: usize, change: Change) -> bool {
    let mut all = lines(path);
    if at > all.len() || (at == all.len() && !matches!(change, Change::Insert)) {
        return false;
    }
    let start = previous(&all[0]).unwrap();
    match change {
        Change::Insert => all.insert(at, decision("019a00000000700080000000000000a1")),
        Change::Alter => {
            let text = String::from_utf8(all[at].clone()).unwrap();
            all[at] = text.replacen("\"at\":\"2", "\"at\":\"3", 1).into_bytes();
        }
        Change::Delete => drop(all.remove(at)),
    }
    let mut before = match at.checked_sub(1) {
        Some(before) => Digest::of(&all[before]),
        None => start,
    };
    for line in all.iter_mut().skip(at) {
        let text = String::from_utf8(line.clone()).unwrap();
        // A head keeps its signature, which is all that is known of it.
        let (object, rest) = match text.find(",\"prev_sha256\"") {
            Some(end) => (
                format!("{}}}", &text[..end]),
                &text[end + 81..text.len() - 1],
            ),
            None => (text.clone(), ""),
        };
        let mut new = linked(object.as_bytes(), before);
        if !rest.is_empty() {
            new.pop();
            new.extend_from_slice(rest.as_bytes());
            new.push(b'}');
        }
        *line = new;
        before = Digest::of(line);
    }
    let mut text = all.join(&b'\n');
    text.push(b'\n');
    fs::write(path, text).unwrap();
    true
}

#[test]
fn an_honest_log_is_sound_whatever_became_of_its_process() {
    for process in ALL {
        let place = Place::written(process);
        assert!(place.files().len() > 2, "{:?}", place.files());
        assert_eq!(place.checked(process), None, "{process:?}");
    }
}

#[test]
fn whatever_is_done_to_any_line_without_the_key_is_named() {
    let mut tried = 0;
    for process in ALL {
        for file in 0..Place::written(process).files().len() {
            for change in [Change::Insert, Change::Alter, Change::Delete] {
                for at in 0.. {
                    let place = Place::written(process);
                    if !tamper(&place.files()[file], at, change) {
                        break;
                    }
                    let what = format!("{process:?}: {change:?} at {at} of file {}", file + 1);
                    let Some(found) = place.checked(process) else {
                        panic!("{what} is not noticed");
                    };
                    let names = [
                        format!("log/{:06}.jsonl", file + 1),
                        format!("file {}", file + 1),
                    ];
                    assert!(
                        names.iter().any(|name| found.contains(name)),
                        "{what}: {found}"
                    );
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 100, "{tried}");
}

#[test]
fn files_that_are_deleted_at_either_end_are_named() {
    for process in ALL {
        let count = Place::written(process).files().len();
        for deleted in 1..=count {
            for is_oldest in [true, false] {
                for with_head in [true, false] {
                    let place = Place::written(process);
                    let mut files = place.files();
                    if !is_oldest {
                        files.reverse();
                    }
                    files[..deleted]
                        .iter()
                        .for_each(|file| fs::remove_file(file).unwrap());
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
fn a_log_that_is_put_back_to_an_earlier_state_is_named() {
    for process in [Process::Stopped, Process::Killed, Process::Rests] {
        let mut place = Place::written(Process::Runs);
        let (path, head) = {
            let path = place.options().path;
            (path.clone(), path.with_extension("jsonl.head"))
        };
        let earlier = (fs::read(&path).unwrap(), fs::read(&head).unwrap());
        let count = place.files().len();
        place.write();
        match process {
            Process::Killed => place.journal = None,
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
fn a_line_that_a_killed_process_had_not_signed_is_named_and_may_be_accepted() {
    let mut place = Place::written(Process::Runs);
    let path = place.options().path;
    place.journal = None;
    let before = Digest::of(lines(&path).last().unwrap());
    let mut text = fs::read(&path).unwrap();
    text.extend_from_slice(&linked(
        &decision("019a00000000700080000000000000a1"),
        before,
    ));
    text.push(b'\n');
    fs::write(&path, text).unwrap();
    let found = place.checked(Process::Killed).unwrap();
    assert!(
        found.contains("unsigned: 1 decision was not signed by who wrote it: lines ")
            && !found.contains(": altered: "),
        "{found}"
    );
    let mut accepted = Findings::new(true);
    accepted.unsigned(
        "log/000001.jsonl:1",
        "1 decision was not signed by who wrote it",
    );
    assert_eq!(accepted.worst(), findings::Worst::Derived);
}
