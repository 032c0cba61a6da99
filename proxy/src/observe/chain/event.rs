//! Lines of the decision log that are not decisions: what became of the process, its configuration and the log itself.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::head::Head;
use crate::clock::rfc3339;
use crate::observe::digest::Digest;

/// How such a line begins, and no decision does.
pub(crate) const START: &[u8] = b"{\"event\":";

/// How the line begins that a process ends with.
pub(crate) const STOP: &[u8] = b"{\"event\":\"stop\",";

/// Something that happened, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Event {
    #[serde(flatten)]
    pub(crate) what: What,
    #[serde(
        serialize_with = "rfc3339::serialize",
        deserialize_with = "rfc3339::deserialize"
    )]
    pub(crate) at: SystemTime,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum What {
    /// A file begins. They are counted from 1.
    File { file: u64, program: String },
    /// The process started.
    Start(Configuration),
    /// It goes by another configuration.
    Reload(Configuration),
    /// So many decisions since the line before could not be written.
    Lost { decisions: u64 },
    /// The process before ended without signing the last lines, or in the midst of one.
    Recovered {
        /// Lines that follow the last signed one, a torn one included.
        unsigned_lines: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        torn_sha256: Option<Digest>,
    },
    /// What was signed is not there, or somebody else wrote behind it.
    Altered {
        /// How many lines of which file were signed.
        file: u64,
        lines: u64,
        /// The last of them.
        expected_sha256: Digest,
        /// The lines are there, and so many behind them, before this one, were written by somebody else.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        foreign_lines: Option<u64>,
    },
    /// A file that was rotated away was deleted because of its age, or for want of room.
    Deleted { file: u64 },
    /// The clock was set back: it showed this before.
    ClockSetBack {
        #[serde(
            serialize_with = "rfc3339::serialize",
            deserialize_with = "rfc3339::deserialize"
        )]
        from: SystemTime,
    },
    /// The process stopped as it was told to.
    Stop {},
    /// What the lines of the file come to, signed.
    Head(Head),
}

/// A configuration: its number since the process started, and the SHA-256 by which it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Configuration {
    pub(crate) program: String,
    pub(crate) configuration: u64,
    pub(crate) config_sha256: Digest,
}

impl Event {
    pub(crate) fn new(what: What, at: SystemTime) -> Self {
        Self { what, at }
    }

    /// As an object, not linked yet.
    pub(crate) fn object(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and numbers serialise")
    }

    /// The event in a line, if there is one.
    pub(crate) fn read(line: &[u8]) -> Option<Self> {
        let is_event = line.starts_with(START);
        is_event
            .then(|| serde_json::from_slice(line).ok())
            .flatten()
    }

    /// The head in a line, if it is one.
    pub(crate) fn head(line: &[u8]) -> Option<Head> {
        match Self::read(line)?.what {
            What::Head(head) => Some(head),
            _ => None,
        }
    }
}

/// This program and its version.
pub(crate) fn program() -> String {
    concat!("wayleave ", env!("CARGO_PKG_VERSION")).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_begins_like_one_and_reads_back() {
        let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_800_000_000);
        let (sha256, program) = (Digest::of(b"abc"), program());
        let configuration = Configuration {
            program: program.clone(),
            configuration: 2,
            config_sha256: sha256,
        };
        for what in [
            What::File { file: 1, program },
            What::Start(configuration.clone()),
            What::Reload(configuration),
            What::Lost { decisions: 3 },
            What::Recovered {
                unsigned_lines: 1,
                torn_sha256: Some(sha256),
            },
            What::Altered {
                file: 1,
                lines: 3,
                expected_sha256: sha256,
                foreign_lines: Some(2),
            },
            What::Deleted { file: 1 },
            What::ClockSetBack { from: at },
            What::Stop {},
        ] {
            let event = Event::new(what, at);
            let line = super::super::link::linked(&event.object(), sha256);
            let text = String::from_utf8_lossy(&line);
            assert!(line.starts_with(START), "{text}");
            let is_stop = event.what == What::Stop {};
            assert_eq!(line.starts_with(STOP), is_stop, "{text}");
            assert_eq!(Event::read(&line), Some(event), "{text}");
        }
    }
}
