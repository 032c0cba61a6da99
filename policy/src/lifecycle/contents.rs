//! `Contents`: what an answer says, parsed.

use std::sync::Arc;

use super::outcome::{Facts, FetchResult};
use crate::document::{Document, Kind};
use crate::{AccessResult, RobotsTxt};

/// What an answer says.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    /// Of access. What is not a robots.txt has nothing to say of that: here it only tells whether there is one.
    pub(super) access: AccessResult,
    /// Of use, if the answer is not a robots.txt.
    pub(super) document: Option<Arc<Document>>,
}

impl Contents {
    /// Parses an answer's body.
    pub(super) fn of(kind: Kind, facts: &Facts) -> Self {
        let outcome = &facts.outcome;
        let body = outcome.body().filter(|_| kind != Kind::RobotsTxt);
        match body {
            Some(body) if outcome.result() == FetchResult::Successful => Self {
                access: AccessResult::Successful(RobotsTxt::parse(b"")),
                document: kind.read(&body.bytes, body.is_cut).map(Arc::new),
            },
            _ => Self {
                access: facts.access(),
                document: None,
            },
        }
    }
}
