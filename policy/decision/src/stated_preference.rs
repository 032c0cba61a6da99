//! A preference that decides, and the document that states it.

use std::time::SystemTime;

use wayleave_usage_preferences::{PreferenceStage, PurposePreference};

/// A preference for one purpose, with the document that states it.
#[derive(Clone, Debug)]
pub struct StatedPreference {
    /// The preference.
    pub preference: PurposePreference,
    /// The stage at which it is known, if that differs from its statement's.
    pub stage: Option<PreferenceStage>,
    /// The document that holds the statement, if that is not the origin's robots.txt.
    pub document: Option<Box<DocumentSeen>>,
}

/// A document as it was when it decided.
#[derive(Clone, Debug)]
pub struct DocumentSeen {
    /// The URL from which it was fetched.
    pub url: String,
    /// Its SHA-256, if it was available.
    pub sha256: Option<[u8; 32]>,
    /// The time at which it was fetched or last confirmed.
    pub fetched_at: Option<SystemTime>,
    /// Whether it is longer than what is read of it.
    pub is_cut: bool,
}
