//! The holds in effect, as the log itself records them. Whoever can write to the folder of the holds can neither release one by hand
//! nor delete it unnoticed, because the log's record counts.
//!
//! Each file of the log begins with the holds in effect, so that its newest file has them all.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;

use crate::chain::event::{EventKind, LogEvent};
use crate::files::{FileBegin, decompressed, read_lines};
use crate::holds::{Hold, StoredHold};
use crate::log_files::LogFilesReader;
use crate::regular_file;

/// The beginnings of lines about holds.
const PREFIXES: [&[u8]; 2] = [b"{\"event\":\"hold\",", b"{\"event\":\"release\","];

/// The holds that a log records.
#[derive(Clone, Debug, Default)]
pub struct RecordedHolds {
    active: BTreeMap<u64, Hold>,
    /// Whether the log records its holds. Earlier versions did not: the holds in the folder are then taken over.
    is_recording: bool,
}

/// The difference between the holds in the folder and those that the log records.
#[derive(Debug, Default)]
pub struct HoldChanges {
    /// Events that the log still has to record.
    pub events: Vec<EventKind>,
    /// Sentences about changes that nobody with the key has made.
    pub findings: Vec<String>,
}

impl RecordedHolds {
    /// Reads the holds in effect when the head `line` of the log at `path` was signed.
    ///
    /// # Errors
    ///
    /// Returns an error if the line is no head, or the file that it is about cannot be read.
    pub fn read(path: &Path, line: &[u8]) -> io::Result<Self> {
        let found = LogFilesReader::default().read_by_head(path, line)?;
        let head = LogEvent::parse_head(line).ok_or(io::ErrorKind::InvalidData)?;
        let mut recorded = Self { is_recording: head.holds.is_some(), ..Self::default() };
        let is_current =
            |file: &File| FileBegin::read(file).is_some_and(|begin| begin.number == head.file);
        let current = found.current.as_ref().filter(|file| is_current(file));
        let rotated = || found.numbered(head.file).map(|file| regular_file::open(&file.path));
        let file = match current {
            Some(file) => Some(file.try_clone()?),
            None => rotated().transpose()?,
        };
        let Some(file) = file else {
            return Ok(recorded);
        };
        let mut number = 0;
        read_lines(decompressed(&file), |line| {
            number += 1;
            // Anybody may have written those that are not signed.
            let is_signed = number <= head.lines;
            if is_signed
                && PREFIXES.iter().any(|prefix| line.starts_with(prefix))
                && let Some(event) = LogEvent::parse(line)
            {
                recorded.apply(&event.kind);
            }
            is_signed
        })?;
        Ok(recorded)
    }

    /// Returns the holds in effect.
    #[must_use]
    pub fn active(&self) -> Vec<Hold> {
        self.active.values().cloned().collect()
    }

    /// Returns the number of holds in effect.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.active.len() as u64
    }

    /// Returns whether nothing is taken over from the folder that is not signed.
    #[must_use]
    pub fn is_recording(&self) -> bool {
        self.is_recording
    }

    /// Takes over nothing from the folder any more that is not signed.
    pub fn begin_recording(&mut self) {
        self.is_recording = true;
    }

    /// Returns the events with which a file begins.
    #[must_use]
    pub fn events(&self) -> Vec<EventKind> {
        self.active.values().map(hold_event).collect()
    }

    /// Takes over an event about a hold.
    pub fn apply(&mut self, event: &EventKind) {
        match event {
            EventKind::Hold { hold } => {
                if let Ok(hold) = serde_json::from_value::<Hold>(hold.clone()) {
                    self.active.insert(hold.id, hold);
                }
            }
            EventKind::Release { hold, .. } => {
                self.active.remove(hold);
            }
            _ => {}
        }
    }

    /// Compares the holds in the folder with those in effect. A new one, and a release, needs the signature of the log's key.
    #[must_use]
    pub fn compare(&self, stored: &[StoredHold]) -> HoldChanges {
        let mut changes = HoldChanges::default();
        for StoredHold { hold, is_signed } in stored {
            changes.compare(self.active.get(&hold.id), hold, *is_signed || !self.is_recording);
        }
        for id in self.active.keys() {
            if !stored.iter().any(|stored| stored.hold.id == *id) {
                changes.findings.push(format!("the file of hold {id} is gone; it still holds"));
            }
        }
        changes
    }
}

impl HoldChanges {
    fn compare(&mut self, recorded: Option<&Hold>, hold: &Hold, is_signed: bool) {
        let id = hold.id;
        match (recorded, hold.released_at) {
            (None, None) if is_signed => self.events.push(hold_event(hold)),
            (None, None) => self.findings.push(format!(
                "hold {id} is not signed by the log's key: somebody put it there, and it holds nothing"
            )),
            // It was released before the log could record it.
            (None, Some(_)) => {}
            (Some(recorded), None) if recorded == hold => {}
            (Some(_), None) => self
                .findings
                .push(format!("hold {id} was changed by somebody; what the log records counts")),
            (Some(_), Some(released_at)) if is_signed => {
                self.events.push(EventKind::Release { hold: id, released_at });
            }
            (Some(_), Some(_)) => self.findings.push(format!(
                "the release of hold {id} is not signed by the log's key; it still holds"
            )),
        }
    }
}

fn hold_event(hold: &Hold) -> EventKind {
    // The number is a part of it, and a hold in effect has no release.
    EventKind::Hold { hold: serde_json::to_value(hold).expect("strings and numbers serialise") }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn hold(id: u64, released_at: Option<SystemTime>) -> Hold {
        Hold {
            id,
            host: "a.test".to_owned(),
            crawler: None,
            since: None,
            until: None,
            reason: "a letter".to_owned(),
            made_at: at(1),
            released_at,
        }
    }

    fn stored(id: u64, released_at: Option<SystemTime>, is_signed: bool) -> StoredHold {
        StoredHold { hold: hold(id, released_at), is_signed }
    }

    /// Returns the faults that a log with hold 1 finds in the holds of the folder.
    fn compared(folder: &[StoredHold]) -> HoldChanges {
        let mut recorded = RecordedHolds::default();
        recorded.begin_recording();
        recorded.apply(&hold_event(&hold(1, None)));
        recorded.compare(folder)
    }

    #[test]
    fn only_what_is_signed_holds_or_releases() {
        assert!(compared(&[stored(1, None, false)]).findings.is_empty());
        for (folder, finding) in [
            (vec![], "the file of hold 1 is gone; it still holds"),
            (vec![stored(1, Some(at(2)), false)], "the release of hold 1 is not signed"),
            (vec![stored(1, None, true), stored(2, None, false)], "hold 2 is not signed"),
        ] {
            let changes = compared(&folder);
            assert!(changes.events.is_empty(), "{changes:?}");
            assert!(changes.findings[0].starts_with(finding), "{changes:?}");
        }
        let mut changed = stored(1, None, true);
        changed.hold.host = "b.test".to_owned();
        assert!(compared(&[changed]).findings[0].starts_with("hold 1 was changed"));
        let signed = compared(&[stored(1, Some(at(2)), true), stored(2, None, true)]);
        let release = EventKind::Release { hold: 1, released_at: at(2) };
        assert_eq!(signed.events, [release, hold_event(&hold(2, None))]);
        assert!(signed.findings.is_empty());
    }

    #[test]
    fn holds_of_an_earlier_version_are_taken_over_once() {
        let mut recorded = RecordedHolds::default();
        let folder = [stored(1, None, false), stored(2, Some(at(2)), false)];
        let changes = recorded.compare(&folder);
        assert_eq!(changes.events, [hold_event(&hold(1, None))]);
        recorded.apply(&changes.events[0]);
        recorded.begin_recording();
        let folder = [stored(1, None, false), stored(3, None, false)];
        assert_eq!(recorded.compare(&folder).findings.len(), 1);
    }
}
