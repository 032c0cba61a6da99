//! Parsed answers.

use std::sync::Arc;

use super::outcome::{Facts, FetchResult};
use crate::document::{Document, Kind};
use crate::{AccessResult, RobotsTxt};

/// The parsed content of an answer.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    /// The access result. For a document other than a robots.txt it only records whether the document exists.
    pub(super) access: AccessResult,
    /// The document, if the answer is not a robots.txt.
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
