//! Crawlers of one organisation, distinguished by their `User-Agent`, for the tests of usage preferences.

use crate::harness::crawler::{Crawler, crawler};

pub const INDEX: &str = "ExampleBot-Index/1";
pub const CORPUS: &str = "ExampleBot-Corpus/1";
pub const STATED: &str = "ExampleBot-Stated/1";
pub const OBSERVED: &str = "ExampleBot-Observed/1";
/// Contained in the names of the others: its table comes last.
pub const PLAIN: &str = "ExampleBot/1";

/// Returns a crawler with this `User-Agent`, and the token of them all.
pub fn example_bot(name: &str, agent: &str) -> Crawler {
    crawler(name, "ExampleBot").matched_by("user_agent", agent.trim_end_matches("/1"))
}
