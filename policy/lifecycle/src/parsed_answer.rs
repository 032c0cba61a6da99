//! Parsed answers.

use std::sync::Arc;

use wayleave_robots_txt::{AccessResult, RobotsTxt};
use wayleave_usage_preferences::{DocumentKind, PreferenceDocument};

use super::fetch_outcome::{FetchResult, FinishedFetch};

/// The parsed content of an answer.
#[derive(Clone, Debug)]
pub(super) struct ParsedAnswer {
    /// The access result. For a document other than a robots.txt it only records whether the document exists.
    pub(super) access: AccessResult,
    /// The document, if the answer is not a robots.txt.
    pub(super) document: Option<Arc<PreferenceDocument>>,
}

impl ParsedAnswer {
    /// Parses an answer's body.
    pub(super) fn parse(kind: DocumentKind, finished: &FinishedFetch) -> Self {
        let outcome = &finished.outcome;
        // Only other documents are parsed here; a robots.txt is parsed with its access result.
        match outcome.body().filter(|_| kind != DocumentKind::RobotsTxt) {
            Some(body) if outcome.result() == FetchResult::Successful => Self {
                access: AccessResult::Successful(RobotsTxt::parse(b"")),
                document: kind.parse(&body.bytes, body.is_cut).map(Arc::new),
            },
            _ => Self { access: finished.access(), document: None },
        }
    }
}
