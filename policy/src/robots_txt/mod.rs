//! robots.txt: parsed once, then searched for a crawler's group and the rule that decides.
//!
//! - [`parse`]: from bytes to statements; [`statements`]: how they are stored.
//! - [`groups`]: whose rules count; [`rules`]: which of them decides; [`pattern`]: what one matches.
//! - [`index`]: the same for large groups; [`budget`]: how much work one decision may do.
//! - [`decide`]: all of it, in one dialect or in all, for one path, every spelling of it, or all paths.

mod access_result;
mod budget;
mod byte_pairs;
mod decide;
mod decision;
mod directive_values;
mod directives;
mod every_path;
mod file;
mod groups;
mod head;
mod index;
mod matched_rule;
mod parse;
mod path_form;
#[cfg(feature = "preferences")]
mod path_matcher;
mod pattern;
#[cfg(feature = "preferences")]
mod preference;
mod rules;
mod statements;
pub(crate) mod topic;
mod work;

pub use access_result::AccessResult;
#[cfg(feature = "preferences")]
pub(crate) use decide::decide_received_within;
pub use decide::{
    decide, decide_any_path_strictly, decide_every_path, decide_every_path_within, decide_strictly,
    decide_within,
};
pub use decision::{Decision, Explanation, Reason, Verdict};
pub(crate) use directive_values::seconds;
pub use directive_values::{CleanParam, RequestRate, TimeOfDay, TimeSpan};
pub use directives::Directive;
pub(crate) use file::DEFAULT_LIMIT_BYTES;
pub use file::RobotsTxt;
pub use parse::line::lines as numbered_lines;
pub(crate) use parse::line::{
    Field, GOOGLE_LINE_BYTES, Read, google_statement, statement as exact_statement,
};
#[cfg(feature = "preferences")]
pub(crate) use path_matcher::{Counts, PathMatcher, Reading, TooCostly};
#[cfg(feature = "preferences")]
pub(crate) use preference::UseLine;
pub use work::Work;
