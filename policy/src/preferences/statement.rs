//! One statement about use, and where it stands.

use std::fmt;

use super::{Purposes, Source, Stage};
use crate::excerpt;

/// What a site says about some purposes, and all that is needed to point at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The family that it belongs to.
    pub source: Source,
    /// Where it stands.
    pub carrier: Carrier,
    /// The statement as written; in a judgement the beginning of a long one.
    pub text: String,
    /// The clause by which it means what it is taken to mean.
    pub clause: &'static str,
    /// The policy or licence that it names.
    pub policy: Option<String>,
    /// When it is known.
    pub stage: Stage,
    /// The purposes it refuses.
    pub refuses: Purposes,
    /// The purposes it allows.
    pub allows: Purposes,
}

/// What a label, a signal or a rule says about purposes, wherever it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meaning {
    pub(crate) refuses: Purposes,
    pub(crate) allows: Purposes,
    pub(super) clause: &'static str,
}

impl Meaning {
    /// That `purposes` are allowed, or that they are refused.
    pub(crate) fn of(purposes: Purposes, is_allowed: bool, clause: &'static str) -> Self {
        let (refuses, allows) = match is_allowed {
            true => (Purposes::NONE, purposes),
            false => (purposes, Purposes::NONE),
        };
        Self {
            refuses,
            allows,
            clause,
        }
    }
}

/// A statement as written, cut off where it is long; some fill a head or a page.
pub(super) fn shown(text: &str) -> String {
    excerpt(text).into_owned()
}

/// The clause by which what cannot be matched in time refuses.
pub(super) const TOO_COSTLY: &str = "too-costly: matching it with this URL takes too long";

impl Statement {
    /// That what a source says takes too long to match, which refuses all that the source could.
    pub(super) fn too_costly(source: Source, carrier: Carrier) -> Self {
        Self {
            source,
            carrier,
            text: "too-costly".to_owned(),
            clause: TOO_COSTLY,
            policy: None,
            stage: Stage::Before,
            refuses: source.refusable(),
            allows: Purposes::NONE,
        }
    }

    /// Whether it refuses only because what is said takes too long to match.
    #[must_use]
    pub fn is_too_costly(&self) -> bool {
        self.clause == TOO_COSTLY
    }

    /// Without what it allows, if it `only_restricts`.
    pub(super) fn restricting(self, only_restricts: bool) -> Self {
        let allows = match only_restricts {
            true => Purposes::NONE,
            false => self.allows,
        };
        Self { allows, ..self }
    }

    /// The same statement, as it is shown: what others wrote of any length is cut, but for the policy, by whose URL it is found.
    pub(super) fn excerpt(&self) -> Self {
        let carrier = match &self.carrier {
            Carrier::File { url } => Carrier::File { url: shown(url) },
            carrier => carrier.clone(),
        };
        Self {
            text: shown(&self.text),
            carrier,
            ..self.clone()
        }
    }

    /// The same statement, taken to mean this.
    pub(super) fn meaning(self, meaning: Meaning) -> Self {
        Self {
            refuses: meaning.refuses,
            allows: meaning.allows,
            clause: meaning.clause,
            ..self
        }
    }
}

/// Where a statement stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A line of robots.txt.
    RobotsTxt {
        /// The line's number, from 1; 0 if no single line decides.
        line: u32,
    },
    /// A field of the answer.
    Field,
    /// An element of the page.
    Meta,
    /// An entry of `/.well-known/tdmrep.json`.
    Tdmrep {
        /// The entry's number, from 1; 0 if no single entry decides.
        entry: usize,
    },
    /// A file of its own.
    File {
        /// Its URL or, on the origin asked, its path.
        url: String,
    },
    /// One's own configuration.
    Configuration,
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RobotsTxt { line: 0 } => f.write_str("robots.txt"),
            Self::RobotsTxt { line } => write!(f, "robots.txt:{line}"),
            Self::Field => f.write_str("field"),
            Self::Meta => f.write_str("meta"),
            Self::Tdmrep { entry: 0 } => f.write_str("tdmrep.json"),
            Self::Tdmrep { entry } => write!(f, "tdmrep.json#{entry}"),
            Self::File { url } => f.write_str(url),
            Self::Configuration => f.write_str("configuration"),
        }
    }
}
