//! Exchanges, as decisions tell of them: the one that was decided about, and those by which the documents came that decided.

use crate::observe::digest::Digest;

/// What a decision is about.
#[derive(Clone, Copy)]
pub(super) struct About<'a> {
    pub(super) url: &'a str,
    pub(super) at: &'a str,
}

/// What decisions say of the exchange by which a robots.txt, or a document beside it, came.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Exchange {
    /// Of the document.
    pub(super) url: String,
    /// When it was fetched or last confirmed.
    pub(super) at: String,
    /// 200 if it had rules, else as it was answered.
    pub(super) status: u16,
    pub(super) is_cut: bool,
    pub(super) sha256: Option<Digest>,
}
