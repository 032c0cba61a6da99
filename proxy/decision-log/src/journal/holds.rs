//! The holds in effect, as the log records them. The folder of the holds only shows the changes that the log still has to
//! record.

use std::path::Path;
use std::time::{Duration, Instant};

use wayleave_evidence::chain::event::EventKind;
use wayleave_evidence::holds::{Hold, HoldFolder};
use wayleave_evidence::recorded_holds::RecordedHolds;

/// The interval at which the folder is read while lines are written.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct JournalHolds {
    pub(super) recorded: RecordedHolds,
    /// Sentences about changes to the folder that nobody with the key has made.
    pub(super) findings: Vec<String>,
    /// Whether the holds that the log records cannot be read, or one in the folder: it may hold everything.
    is_log_unreadable: bool,
    is_unreadable: bool,
    checked_at: Option<Instant>,
}

impl JournalHolds {
    /// Reads the records of the log at `path` up to the saved head, a line.
    pub(super) fn read(path: &Path, head: Option<&[u8]>) -> Self {
        let recorded = head.map(|head| RecordedHolds::read(path, head)).transpose();
        Self {
            is_log_unreadable: recorded.is_err(),
            recorded: recorded.unwrap_or_default().unwrap_or_default(),
            ..Self::default()
        }
    }

    /// Returns whether the folder was not read lately.
    pub(super) fn is_due(&self) -> bool {
        self.checked_at.is_none_or(|at| at.elapsed() >= CHECK_INTERVAL)
    }

    /// Reads the folder, and returns the events that the log has to record. Faults are logged once.
    pub(super) fn check(&mut self, state_dir: &Path, public: &str) -> Vec<EventKind> {
        self.checked_at = Some(Instant::now());
        let (findings, events) = match HoldFolder::in_state_dir(state_dir).read_stored(public) {
            Ok(stored) => {
                self.is_unreadable = false;
                let changes = self.recorded.compare(&stored);
                (changes.findings, changes.events)
            }
            Err(error) => {
                self.is_unreadable = true;
                let what = "a hold cannot be read: nothing of the decision log is deleted";
                (vec![format!("{what}: {error:#}")], Vec::new())
            }
        };
        let in_log = "the holds that the log records cannot be read: nothing of it is deleted";
        let findings: Vec<_> =
            self.is_log_unreadable.then(|| in_log.to_owned()).into_iter().chain(findings).collect();
        for finding in findings.iter().filter(|finding| !self.findings.contains(finding)) {
            tracing::error!("{finding}");
        }
        self.findings = findings;
        self.recorded.begin_recording();
        for event in &events {
            self.recorded.apply(event);
        }
        events
    }

    /// Returns the holds in effect; `None` if they cannot be known, so that nothing may be deleted.
    pub(super) fn in_effect(&self) -> Option<Vec<Hold>> {
        let is_readable = !self.is_log_unreadable && !self.is_unreadable;
        is_readable.then(|| self.recorded.active())
    }
}
