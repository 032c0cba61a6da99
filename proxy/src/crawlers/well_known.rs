//! The names of well-known crawlers, which nobody else may claim.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Owners by token in lower case, from the maintained list beside this file.
static OWNERS: LazyLock<HashMap<String, &'static str>> = LazyLock::new(|| {
    let lines = include_str!("well_known.txt").lines();
    lines
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('\t'))
        .map(|(token, owner)| (token.to_ascii_lowercase(), owner))
        .collect()
});

/// Whose crawler `token` names, if it is a well-known one. Ignores ASCII case.
pub(super) fn owner(token: &str) -> Option<&'static str> {
    OWNERS.get(&token.to_ascii_lowercase()).copied()
}

#[cfg(test)]
mod tests {
    use wayleave_policy::ProductToken;

    use super::*;

    #[test]
    fn every_line_of_the_list_counts() {
        let lines = include_str!("well_known.txt").lines();
        let listed: Vec<_> = lines.filter(|line| !line.starts_with('#')).collect();
        assert_eq!(listed.len(), OWNERS.len(), "a line is malformed or double");
        for token in OWNERS.keys() {
            assert!(ProductToken::new(token).is_ok(), "{token}");
        }
        assert_eq!(owner("googlebot"), Some("Google"));
        assert_eq!(owner("ExampleBot"), None);
    }
}
