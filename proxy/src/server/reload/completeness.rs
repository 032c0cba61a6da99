//! Guards against half-written files: after a change on disk alone, a file that is empty, or that has lost all of its rules or
//! crawlers, is not loaded. Nor is a configuration without a file that it included.

use wayleave_config::{Config, ConfigSources, IncludedFile};

/// The advice that ends each message.
const CONFIRM_HINT: &str = "if this is intended, confirm with SIGHUP or POST /v1/reload";

/// Returns why the main file seems incomplete if it set something before, and has only comments now.
pub(super) fn find_emptiness(in_effect: &ConfigSources, read: &ConfigSources) -> Option<String> {
    let is_emptied = read.has_only_comments() && !in_effect.has_only_comments();
    is_emptied.then(|| format!("the file sets nothing: {CONFIRM_HINT}"))
}

/// Returns why a changed configuration seems incomplete, if it has lost something.
pub(super) fn find_incompleteness(running: &Config, read: &Config) -> Option<String> {
    find_loss("the file", running.main_file_counts(), read.main_file_counts()).or_else(|| {
        let files = running.included.iter();
        files.map(|file| find_included_loss(file, &read.included)).find_map(|loss| loss)
    })
}

fn find_included_loss(before: &IncludedFile, read: &[IncludedFile]) -> Option<String> {
    let counts = |file: &IncludedFile| (file.rule_lines.len(), file.crawlers);
    match read.iter().find(|file| file.name == before.name) {
        Some(now) => find_loss(&before.name, counts(before), counts(now)),
        None => find_loss(&format!("{}: a file that is gone", before.name), counts(before), (0, 0)),
    }
}

/// Returns the kind of table that a file has lost all of; both counts are of rules and of crawlers.
fn find_loss(file: &str, before: (usize, usize), now: (usize, usize)) -> Option<String> {
    let lost = |what: &str, before: usize| {
        format!("{file} no longer has any {what} (it had {before}): {CONFIRM_HINT}")
    };
    if now.0 == 0 && before.0 > 0 {
        Some(lost("[[rule]]", before.0))
    } else if now.1 == 0 && before.1 > 0 {
        Some(lost("[[crawler]]", before.1))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const RULE: &str = "[[rule]]\naction = \"refuse\"\nhosts = [\"*\"]\n";
    const CRAWLER: &str =
        "[[crawler]]\nname = \"a\"\ntokens = [\"A\"]\nmatch = { user_agent = \"A\" }\n";

    #[test]
    fn only_lost_rules_and_crawlers_are_suspicious() {
        let sources = |text: &str| ConfigSources::of_text("t.toml", text, Path::new(""));
        let config = |text: &str| Config::from_toml("t.toml", text).unwrap();
        let doubted = |before: &str, after: &str| {
            find_emptiness(&sources(before), &sources(after))
                .or_else(|| find_incompleteness(&config(before), &config(after)))
                .is_some()
        };
        let both = format!("{CRAWLER}{RULE}");
        assert!(!doubted("", "log.format = \"json\""));
        assert!(!doubted(CRAWLER, CRAWLER) && !doubted(RULE, RULE) && !doubted("", &both));
        assert!(doubted(&both, CRAWLER) && doubted(&both, RULE));
        let comments = " \n# all is as it comes\n";
        assert!(doubted("log.format = \"json\"", comments) && !doubted(comments, ""));
    }
}
