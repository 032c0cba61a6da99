//! robots.txt: parsed once, then searched for a crawler's group and the rule that decides.
//!
//! - [`parse`]: from bytes to statements; [`statements`]: how they are stored.
//! - [`groups`]: whose rules apply; [`rules`]: which of them decides; [`pattern`]: the paths that one matches, by `*` and `$`.
//! - [`escaped_wildcards`]: the same for the few paths with an escaped `*` or `$`.
//! - [`index`]: the same for large groups; [`budget`]: how much work one decision may do.
//! - [`matched_rule`]: a rule that matches, reduced to a number by which matches compare.
//! - [`match_context`]: shared by all decisions about one request, those about preferences included.
//! - [`preference_matcher`]: the patterns in statements about use, for the crate that reads those statements.
//! - [`decide`](mod@decide): runs that search, in one dialect or in all, for one path, every spelling of it, or all paths.
//! - [`crawler_rules`]: the same for callers with a name and a URL.

mod access_result;
mod budget;
mod byte_pairs;
mod crawler_rules;
mod decide;
mod decision;
mod directive_topic;
mod directive_values;
mod directives;
mod escaped_wildcards;
mod file;
mod groups;
mod head;
mod index;
mod match_context;
mod matched_rule;
mod parse;
mod path_form;
mod pattern;
mod preference_matcher;
mod rules;
mod statements;
mod usage_lines;
mod whole_site;

pub use access_result::AccessResult;
pub use budget::MatchBudget;
pub use crawler_rules::CrawlerRules;
pub use decide::{
    decide, decide_all_spellings, decide_all_spellings_within, decide_as_received_within,
    decide_whole_site, decide_whole_site_within, decide_write_all_spellings,
    decide_write_all_spellings_within,
};
pub use decision::{AccessDecision, AccessReason, AccessVerdict, DecisionDetails};
pub use directive_topic::{
    ALLOW_AI_TRAINING, CONTENT_SIGNAL, CONTENT_USAGE, DISALLOW_AI_TRAINING, EMBARGO, LICENSE,
};
pub(crate) use directive_values::parse_seconds;
pub use directive_values::{CleanParam, DailyHours, RequestRate, TimeOfDay};
pub use directives::Directive;
pub(crate) use file::DEFAULT_LIMIT_BYTES;
pub use file::RobotsTxt;
pub use match_context::MatchContext;
pub(crate) use parse::line::{GOOGLE_LINE_BYTES, exact_statement, google_statement};
pub use parse::line::{LineField, ParsedLine};
pub use parse::lines::numbered_lines;
pub use preference_matcher::{
    MatchedPreference, PathReading, PreferenceMatcher, PreferenceSelection, TooCostly,
};
pub use usage_lines::UsageLine;
