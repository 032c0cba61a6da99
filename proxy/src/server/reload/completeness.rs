//! Guards against half-written files: after a change on disk alone, a file that is empty, or that has lost all of its rules or
//! crawlers, is not loaded.

use crate::config::Config;

/// The advice that ends each message.
const CONFIRM_HINT: &str = "if this is intended, confirm with SIGHUP or POST /v1/reload";

/// Returns why a changed file seems incomplete, if it does. `text` is the whole file, of which `read` was parsed.
pub(super) fn find_incompleteness(text: &[u8], running: &Config, read: &Config) -> Option<String> {
    let lost = |what: &str, before: usize| {
        format!("the file no longer has any {what} (it had {before}): {CONFIRM_HINT}")
    };
    let (rules, crawlers) = (&running.rules, &running.crawlers.crawlers);
    if is_empty(text) {
        Some(format!("the file is empty: {CONFIRM_HINT}"))
    } else if read.rules.is_empty() && !rules.is_empty() {
        Some(lost("[[rule]]", rules.len()))
    } else if read.crawlers.crawlers.is_empty() && !crawlers.is_empty() {
        Some(lost("[[crawler]]", crawlers.len()))
    } else {
        None
    }
}

/// Returns whether a file has no content but comments.
fn is_empty(text: &[u8]) -> bool {
    let mut lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    lines.all(|line| line.is_empty() || line.starts_with(b"#"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: &str = "[[rule]]\naction = \"refuse\"\nhosts = [\"*\"]\n";
    const CRAWLER: &str =
        "[[crawler]]\nname = \"a\"\ntokens = [\"A\"]\nmatch = { user_agent = \"A\" }\n";

    #[test]
    fn only_lost_rules_and_crawlers_are_suspicious() {
        let config = |text: &str| Config::from_toml("t.toml", text).unwrap();
        let doubted = |before: &str, after: &str| {
            find_incompleteness(after.as_bytes(), &config(before), &config(after)).is_some()
        };
        let both = format!("{CRAWLER}{RULE}");
        assert!(!doubted("", "log.format = \"json\""));
        assert!(!doubted(CRAWLER, CRAWLER) && !doubted(RULE, RULE) && !doubted("", &both));
        assert!(doubted(&both, CRAWLER) && doubted(&both, RULE));
        assert!(doubted("", "") && doubted("", " \n# all is as it comes\n"));
    }
}
