//! The names that `--crawler` accepts.

use wayleave_config::Config;
use wayleave_decision::ASSERTED;
use wayleave_decision_log::UNNAMED;

/// Returns the name that the log has for the crawler chosen by `--crawler`, if one is.
pub(super) fn name_in_log(chosen: Option<&str>, config: &Config) -> Option<String> {
    let is_configured = |name: &str| config.crawlers.crawlers.iter().any(|it| it.name == name);
    let name = chosen?;
    Some(if name == UNNAMED && !is_configured(name) { ASSERTED } else { name }.to_owned())
}

/// Checks that a `[[crawler]]` has this name.
///
/// # Errors
///
/// Says which names there are.
pub(super) fn check_known(name: &str, config: &Config) -> Result<(), String> {
    let known: Vec<_> = config.crawlers.crawlers.iter().map(|it| &*it.name).collect();
    if known.contains(&name) {
        return Ok(());
    }
    let names = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Err(format!("--crawler {name:?}: no [[crawler]] has this name; there are {names}"))
}

/// Returns what to say if no `[[crawler]]` has this name, which is then probably misspelt, unless the decision log has requests of
/// a crawler that is configured no longer.
pub(super) fn find_unknown(name: &str, config: &Config) -> Option<String> {
    let mut known: Vec<_> = config.crawlers.crawlers.iter().map(|it| &*it.name).collect();
    if name == ASSERTED || known.contains(&name) {
        return None;
    }
    known.push(UNNAMED);
    Some(format!(
        "--crawler {name:?}: no [[crawler]] has this name, and the log has none of its requests; there are {}",
        known.join(", ")
    ))
}
