//! The names that `--crawler` accepts.

use wayleave_config::Config;
use wayleave_decision::ASSERTED;
use wayleave_decision_log::{ChosenCrawler, UNNAMED};

/// Checks that a `[[crawler]]` has this name.
///
/// # Errors
///
/// Says which names there are.
pub(super) fn check_known(name: &str, config: &Config) -> Result<(), String> {
    let known: Vec<_> = config.crawlers.crawlers.iter().map(|crawler| &*crawler.name).collect();
    if known.contains(&name) {
        return Ok(());
    }
    let names = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Err(format!("--crawler {name:?}: no [[crawler]] has this name; there are {names}"))
}

/// Returns a hint if no `[[crawler]]` has this name, which is then probably misspelt, unless the decision log has requests of
/// a crawler that is configured no longer.
pub(super) fn find_unknown(name: &ChosenCrawler, config: &Config) -> Option<String> {
    let known = config.crawlers.crawlers.iter().map(|crawler| &*crawler.name);
    unknown_among(known, name, "the log has none of its requests")
}

/// Returns a hint if `name` is not among the names of the `[[crawler]]`s; `not_found` is another sign that it is misspelt.
pub(super) fn unknown_among<'a>(
    known: impl Iterator<Item = &'a str>,
    name: &ChosenCrawler,
    not_found: &str,
) -> Option<String> {
    let mut known: Vec<_> = known.filter(|known| *known != ASSERTED).collect();
    if name.is_unnamed() || known.contains(&&**name) {
        return None;
    }
    known.push(UNNAMED);
    Some(format!(
        "--crawler {:?}: no [[crawler]] has this name, and {not_found}; there are {}",
        &**name,
        known.join(", ")
    ))
}
