//! Parts for wayleave's crate for usage preferences: the lines of a file about use, and the matching of their
//! patterns. Hidden, and not covered by semantic versioning.

pub use crate::robots_txt::{
    ALLOW_AI_TRAINING, CONTENT_SIGNAL, CONTENT_USAGE, DISALLOW_AI_TRAINING, EMBARGO, LICENSE,
    MatchBudget, MatchedPreference, PathReading, PreferenceMatcher, PreferenceSelection, TooCostly,
    UsageLine,
};
pub use crate::spelling::without_dot_segments;
