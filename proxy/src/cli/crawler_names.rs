//! The names that `--crawler` accepts.

use wayleave_decision::ASSERTED;

use crate::config::Config;

/// Returns what to say if no `[[crawler]]` has this name, which is then probably misspelt, unless the decision log has requests of
/// a crawler that is configured no longer.
pub(super) fn find_unknown(name: &str, config: &Config) -> Option<String> {
    let mut known: Vec<_> = config.crawlers.crawlers.iter().map(|it| &*it.name).collect();
    known.push(ASSERTED);
    if known.contains(&name) {
        return None;
    }
    Some(format!(
        "--crawler {name:?}: no [[crawler]] has this name, and the log has none of its requests; there are {}",
        known.join(", ")
    ))
}
