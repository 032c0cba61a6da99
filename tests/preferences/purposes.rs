//! Crawlers of one organisation, distinguished by their `User-Agent`, for the tests of usage preferences.

pub const INDEX: &str = "ExampleBot-Index/1";
pub const CORPUS: &str = "ExampleBot-Corpus/1";
pub const STATED: &str = "ExampleBot-Stated/1";
pub const OBSERVED: &str = "ExampleBot-Observed/1";
/// Contained in the names of the others: its table comes last.
pub const PLAIN: &str = "ExampleBot/1";

/// Returns the table of a crawler with this `User-Agent`, and further lines.
pub fn crawler(name: &str, agent: &str, lines: &str) -> String {
    let agent = agent.trim_end_matches("/1");
    format!(
        "[[crawler]]\nname = \"{name}\"\ntokens = [\"ExampleBot\"]\nmatch = {{ user_agent = \"{agent}\" }}\n{lines}\n"
    )
}
