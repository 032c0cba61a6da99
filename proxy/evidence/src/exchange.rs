//! Exchanges as far as decisions record them: the one that a decision is about, and those that fetched the documents it rests
//! on.

use crate::digest::Sha256Digest;

/// The URL and time of the exchange that a decision is about.
#[derive(Clone, Copy)]
pub(crate) struct LineSubject<'a> {
    pub(crate) url: &'a str,
    pub(crate) at: &'a str,
}

/// The exchange that fetched a robots.txt or another document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DocumentExchange {
    /// The URL of the document.
    pub(crate) url: String,
    /// The time at which it was fetched or last revalidated.
    pub(crate) at: String,
    /// The status code: 200 if there is a document.
    pub(crate) status: u16,
    pub(crate) is_cut: bool,
    pub(crate) sha256: Option<Sha256Digest>,
}
