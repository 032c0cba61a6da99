//! Parts that wayleave's other crates share: budgets, lines about use, and matching of patterns that are not rules.
//! Hidden, and not covered by semantic versioning.

pub use crate::robots_txt::{
    ALLOW_AI_TRAINING, CONTENT_SIGNAL, CONTENT_USAGE, DISALLOW_AI_TRAINING, EMBARGO, LICENSE,
    MatchBudget, MatchContext, MatchSelection, MatchedPattern, PathMatcher, PathReading, TooCostly,
    UsageLine, decide_all_spellings_within, decide_as_received_within, decide_whole_site_within,
};
pub use crate::spelling::without_dot_segments;
