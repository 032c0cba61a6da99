//! The names of well-known crawlers, which only their owners may use.

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

/// Returns the owner of the well-known crawler that a product token names, if it names one.
#[must_use]
pub fn well_known_owner(token: &str) -> Option<&'static str> {
    find_well_known(token.as_bytes()).first().map(|named| named.owner)
}

/// The longest word that is looked up; no name of the list is as long.
const MAX_WORD_BYTES: usize = 256;

/// A well-known crawler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WellKnownCrawler {
    /// Its token in lower case.
    pub(crate) token: String,
    pub(crate) owner: &'static str,
}

/// Returns the well-known crawlers that `user_agent` names as words, in a product or a comment. Ignores ASCII case, as
/// RFC 9309 section 2.2.1 does.
///
/// A word consists of letters, digits, `_` and `-`, so that a longer name is another one: `Googlebot-News` does not name
/// `Googlebot`. A version that follows without a slash is not part of the name.
pub(crate) fn find_well_known(user_agent: &[u8]) -> Vec<WellKnownCrawler> {
    let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let words = user_agent.split(|byte| !is_of_word(byte));
    words.filter_map(crawler_named_by).collect()
}

/// Returns the well-known crawler that a word names.
fn crawler_named_by(word: &[u8]) -> Option<WellKnownCrawler> {
    let word = str::from_utf8(word).ok()?.trim_matches(['-', '_']);
    if word.len() > MAX_WORD_BYTES {
        return None;
    }
    let lower_case = word.to_ascii_lowercase();
    // The whole word first, since a name may end in a digit itself.
    [lower_case.as_str(), lower_case.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-')]
        .into_iter()
        .find_map(|token| {
            let owner = OWNERS.get(token)?;
            Some(WellKnownCrawler { token: token.to_owned(), owner })
        })
}

#[cfg(test)]
mod tests {
    use wayleave_robots_txt::ProductToken;

    use super::*;

    #[test]
    fn every_line_of_the_list_counts() {
        let lines = include_str!("well_known.txt").lines();
        let listed: Vec<_> = lines.filter(|line| !line.starts_with('#')).collect();
        assert_eq!(listed.len(), OWNERS.len(), "a line is malformed or double");
        for token in OWNERS.keys() {
            assert!(ProductToken::new(token).is_ok(), "{token}");
        }
    }

    fn tokens(user_agent: &str) -> Vec<String> {
        let named = find_well_known(user_agent.as_bytes());
        named.into_iter().map(|named| named.token).collect()
    }

    #[test]
    fn every_token_of_the_list_is_found_as_a_word() {
        for token in OWNERS.keys() {
            for text in [
                token.to_ascii_uppercase(),
                format!("x/1 (compatible; {token}/2.1)"),
                format!("x\t{token}\u{e9}"),
                format!("x \"{token}3\""),
            ] {
                assert_eq!(tokens(&text), std::slice::from_ref(token), "{text}");
            }
            for text in [format!("x{token}/1"), format!("{token}-of-ours"), format!("{token}s")] {
                assert_eq!(tokens(&text), [""; 0], "{text}");
            }
        }
        assert_eq!(tokens("Googlebot-News Googlebot"), ["googlebot-news", "googlebot"]);
    }
}
