//! Statements about use, with their locations.

use std::fmt;
use std::sync::Arc;

use wayleave_robots_txt::excerpt;

use super::{LicencePrice, PreferenceSource, PreferenceStage, PurposeSet};

/// A statement of a site about some purposes, with all that is needed to locate it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreferenceStatement {
    /// The family that it belongs to.
    pub source: PreferenceSource,
    /// Its location.
    pub carrier: StatementCarrier,
    /// The statement as written; in a judgement an excerpt.
    pub text: String,
    /// The clause that gives it its meaning.
    pub clause: &'static str,
    /// The policy or licence that it names.
    pub policy: Option<String>,
    /// The price of the licence that it names, if that is why it refuses.
    pub price: Option<Arc<LicencePrice>>,
    /// The stage at which it becomes known.
    pub stage: PreferenceStage,
    /// The purposes it refuses.
    pub refuses: PurposeSet,
    /// The purposes it allows.
    pub allows: PurposeSet,
}

/// The meaning of a label, a signal or a rule, wherever it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatementMeaning {
    pub(crate) refuses: PurposeSet,
    pub(crate) allows: PurposeSet,
    pub(super) clause: &'static str,
}

impl StatementMeaning {
    /// Creates the meaning that `purposes` are allowed, or that they are refused.
    pub(crate) fn new(purposes: PurposeSet, is_allowed: bool, clause: &'static str) -> Self {
        let (refuses, allows) =
            if is_allowed { (PurposeSet::NONE, purposes) } else { (purposes, PurposeSet::NONE) };
        Self { refuses, allows, clause }
    }

    /// Creates the meaning that `purposes` are allowed.
    pub(crate) fn permission(purposes: PurposeSet, clause: &'static str) -> Self {
        Self::new(purposes, true, clause)
    }

    /// Creates the meaning that `purposes` are refused.
    pub(crate) fn refusal(purposes: PurposeSet, clause: &'static str) -> Self {
        Self::new(purposes, false, clause)
    }
}

/// Returns an excerpt of a statement; some fill a head or a page.
pub(super) fn excerpted(text: &str) -> String {
    excerpt(text).into_owned()
}

/// The clause of a refusal because matching takes too long.
pub(super) const TOO_COSTLY: &str = "too-costly: matching it with this URL takes too long";

impl PreferenceStatement {
    /// Creates a statement that is known before the request and names no policy.
    pub(super) fn new(
        source: PreferenceSource,
        carrier: StatementCarrier,
        text: String,
        meaning: StatementMeaning,
    ) -> Self {
        let StatementMeaning { refuses, allows, clause } = meaning;
        let stage = PreferenceStage::Before;
        Self { source, carrier, text, clause, policy: None, price: None, stage, refuses, allows }
    }

    /// Creates a statement that refuses everything that a source could, because matching takes too long.
    pub(super) fn too_costly(source: PreferenceSource, carrier: StatementCarrier) -> Self {
        // A statement that was not reached might refuse.
        let meaning = StatementMeaning::refusal(source.refusable(), TOO_COSTLY);
        Self::new(source, carrier, "too-costly".to_owned(), meaning)
    }

    /// Returns whether it refuses only because matching takes too long.
    #[must_use]
    pub fn is_too_costly(&self) -> bool {
        self.clause == TOO_COSTLY
    }

    /// Removes its permissions if it `only_restricts`.
    pub(super) fn restricted_if(self, only_restricts: bool) -> Self {
        if only_restricts { Self { allows: PurposeSet::NONE, ..self } } else { self }
    }

    /// Returns the statement for display: texts of others are cut, except the policy, whose URL has to remain usable.
    pub(super) fn excerpt(&self) -> Self {
        let carrier = match &self.carrier {
            StatementCarrier::File { url } => StatementCarrier::File { url: excerpted(url) },
            carrier => carrier.clone(),
        };
        Self { text: excerpted(&self.text), carrier, ..self.clone() }
    }
}

/// The location of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatementCarrier {
    /// A line of robots.txt.
    RobotsTxt {
        /// The line's number, from 1; 0 if no single line decides.
        line: u32,
    },
    /// A field of the response.
    Field,
    /// An element of the page.
    Meta,
    /// An entry of `/.well-known/tdmrep.json`.
    Tdmrep {
        /// The entry's number, from 1; 0 if no single entry decides.
        entry: usize,
    },
    /// A separate file.
    File {
        /// Its URL or, on the request's origin, its path.
        url: String,
    },
    /// The operator's own configuration.
    Configuration,
}

impl fmt::Display for StatementCarrier {
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
