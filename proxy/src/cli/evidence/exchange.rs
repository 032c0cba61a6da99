//! Exchanges as far as decisions record them: the one that a decision is about, and those that fetched the documents it rests
//! on.

use crate::telemetry::digest::Sha256Digest;

/// The URL and time of the exchange that a decision is about.
#[derive(Clone, Copy)]
pub(super) struct LineSubject<'a> {
    pub(super) url: &'a str,
    pub(super) at: &'a str,
}

/// The exchange that fetched a robots.txt or another document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DocumentExchange {
    /// The URL of the document.
    pub(super) url: String,
    /// The time at which it was fetched or last revalidated.
    pub(super) at: String,
    /// The status code: 200 if there is a document.
    pub(super) status: u16,
    pub(super) is_cut: bool,
    pub(super) sha256: Option<Sha256Digest>,
}
