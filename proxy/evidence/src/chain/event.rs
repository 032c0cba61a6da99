//! Lines of the decision log that are not decisions: events of the process, its configuration and the log itself.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wayleave_notation::rfc3339;

use super::head::TreeHead;
use crate::digest::Sha256Digest;

/// The beginning of every event line. No decision begins like this.
pub const EVENT_PREFIX: &[u8] = b"{\"event\":";

/// The beginning of the last line that a process writes.
pub const STOP_PREFIX: &[u8] = b"{\"event\":\"stop\",";

/// An event and its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEvent {
    #[serde(flatten)]
    pub kind: EventKind,
    #[serde(serialize_with = "rfc3339::serialize", deserialize_with = "rfc3339::deserialize")]
    pub at: SystemTime,
}

/// The kind of an event, with its details.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum EventKind {
    /// A file begins. Files are numbered from 1.
    File { file: u64, program: String },
    /// The process started.
    Start(ConfigRevision),
    /// Another configuration took effect.
    Reload(ConfigRevision),
    /// Decisions since the line before that could not be written.
    Lost { decisions: u64 },
    /// The previous process ended before it had signed its last lines, or in the middle of one.
    Recovered {
        /// The number of lines after the last signed one, a torn one included.
        unsigned_lines: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        torn_sha256: Option<Sha256Digest>,
    },
    /// Signed lines are missing, or somebody else appended lines to them.
    Altered {
        /// The file, and the number of its lines that were signed.
        file: u64,
        lines: u64,
        /// The digest of the last of these lines.
        expected_sha256: Sha256Digest,
        /// The number of lines between the signed ones and this one that somebody else wrote. `None`: signed lines are missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        foreign_lines: Option<u64>,
    },
    /// A rotated file was deleted because of its age, or to make room.
    Deleted { file: u64 },
    /// A hold is in effect. Those that are, are repeated at the beginning of each file.
    Hold { hold: Value },
    /// The hold with this number was released.
    Release {
        hold: u64,
        #[serde(serialize_with = "rfc3339::serialize", deserialize_with = "rfc3339::deserialize")]
        released_at: SystemTime,
    },
    /// The clock was set back from this time.
    ClockSetBack {
        #[serde(serialize_with = "rfc3339::serialize", deserialize_with = "rfc3339::deserialize")]
        from: SystemTime,
    },
    /// The process shut down properly.
    Stop {},
    /// The signed digest of all lines of the file.
    Head(TreeHead),
}

/// A configuration in effect: its number since the process started, and the SHA-256 under which its text is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigRevision {
    pub program: String,
    pub configuration: u64,
    pub config_sha256: Sha256Digest,
}

impl LogEvent {
    pub fn new(kind: EventKind, at: SystemTime) -> Self {
        Self { kind, at }
    }

    /// Returns the event as a JSON object, not yet linked to the line before.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and numbers serialise")
    }

    /// Parses a line; `None` if it is not an event.
    pub fn parse(line: &[u8]) -> Option<Self> {
        // Nearly all lines are decisions, which need not be parsed to be recognised.
        line.starts_with(EVENT_PREFIX).then(|| serde_json::from_slice(line).ok()).flatten()
    }

    /// Parses a line that is a head; `None` for any other line.
    pub fn parse_head(line: &[u8]) -> Option<TreeHead> {
        match Self::parse(line)?.kind {
            EventKind::Head(head) => Some(head),
            _ => None,
        }
    }
}

/// Returns the name and version of this program, such as `wayleave 0.1.0`.
pub fn program_version() -> String {
    concat!("wayleave ", env!("CARGO_PKG_VERSION")).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_has_prefix_and_survives_serialisation() {
        let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_800_000_000);
        let (sha256, program) = (Sha256Digest::of(b"abc"), program_version());
        let configuration =
            ConfigRevision { program: program.clone(), configuration: 2, config_sha256: sha256 };
        for what in [
            EventKind::File { file: 1, program },
            EventKind::Start(configuration.clone()),
            EventKind::Reload(configuration),
            EventKind::Lost { decisions: 3 },
            EventKind::Recovered { unsigned_lines: 1, torn_sha256: Some(sha256) },
            EventKind::Altered {
                file: 1,
                lines: 3,
                expected_sha256: sha256,
                foreign_lines: Some(2),
            },
            EventKind::Deleted { file: 1 },
            EventKind::Hold { hold: serde_json::json!({"id": 1, "host": "a.test"}) },
            EventKind::Release { hold: 1, released_at: at },
            EventKind::ClockSetBack { from: at },
            EventKind::Stop {},
        ] {
            let event = LogEvent::new(what, at);
            let line = super::super::link::link_line(&event.to_json(), sha256);
            let text = String::from_utf8_lossy(&line);
            assert!(line.starts_with(EVENT_PREFIX), "{text}");
            let is_stop = event.kind == EventKind::Stop {};
            assert_eq!(line.starts_with(STOP_PREFIX), is_stop, "{text}");
            assert_eq!(LogEvent::parse(&line), Some(event), "{text}");
        }
    }
}
