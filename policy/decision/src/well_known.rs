//! The names of well-known crawlers, which only their owners may use, and what the owners say about robots.txt.

use std::collections::HashMap;
use std::sync::LazyLock;

use wayleave_robots_txt::Dialect;

/// Crawlers by token in lower case, from the maintained list beside this file.
static CRAWLERS: LazyLock<HashMap<String, WellKnownCrawler>> = LazyLock::new(|| {
    let lines = include_str!("well_known.txt").lines();
    lines
        .filter(|line| !line.starts_with('#'))
        .filter_map(WellKnownCrawler::parse)
        .map(|crawler| (crawler.token.to_ascii_lowercase(), crawler))
        .collect()
});

/// Returns the owner of the well-known crawler that a product token names, if it names one that nobody else may be.
#[must_use]
pub fn well_known_owner(token: &str) -> Option<&'static str> {
    find_well_known(token.as_bytes()).find_map(|named| named.owner)
}

/// The longest word that is looked up; no name of the list is as long.
const MAX_WORD_BYTES: usize = 256;

/// A well-known crawler, as its owner documents it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WellKnownCrawler {
    /// Its product token, as the owner spells it.
    pub token: &'static str,
    /// The owner; none if others crawl under the name, too.
    pub owner: Option<&'static str>,
    /// The dialect in which it reads robots.txt.
    pub dialect: Dialect,
    /// The token whose group it follows if there is none of its own.
    pub after: Option<&'static str>,
    /// What else is to be known of it.
    words: &'static str,
}

impl WellKnownCrawler {
    /// Parses a line of the list.
    fn parse(line: &'static str) -> Option<Self> {
        let mut columns = line.split('\t');
        let token = columns.next()?;
        let owner = columns.next()?;
        let words = columns.next().unwrap_or_default();
        Some(Self {
            token,
            owner: (owner != "-").then_some(owner),
            dialect: if has_word(words, "google") { Dialect::Google } else { Dialect::Rfc9309 },
            after: words.split(' ').find_map(|word| word.strip_prefix("after=")),
            words,
        })
    }

    /// Returns every crawler of the list, in no order.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        CRAWLERS.values()
    }

    /// Returns the crawler that has a product token, whatever its case.
    #[must_use]
    pub fn with_token(token: &str) -> Option<&'static Self> {
        CRAWLERS.get(&token.to_ascii_lowercase())
    }

    /// Returns the first crawler that a `User-Agent` names as a word, in a product or a comment.
    #[must_use]
    pub fn named_in(user_agent: &[u8]) -> Option<&'static Self> {
        find_well_known(user_agent).next()
    }

    /// Returns whether the group of `*` counts for it.
    #[must_use]
    pub fn reads_star(&self) -> bool {
        !has_word(self.words, "no-star")
    }

    /// Returns whether it ignores `Crawl-delay`.
    #[must_use]
    pub fn ignores_delay(&self) -> bool {
        has_word(self.words, "no-delay")
    }

    /// Returns whether it may ignore robots.txt, because it fetches for a user or for safety.
    #[must_use]
    pub fn may_ignore_robots(&self) -> bool {
        has_word(self.words, "may-ignore")
    }

    /// Returns whether its owner uses the token no more.
    #[must_use]
    pub fn is_retired(&self) -> bool {
        has_word(self.words, "retired")
    }
}

fn has_word(words: &str, word: &str) -> bool {
    words.split(' ').any(|found| found == word)
}

/// Returns the well-known crawlers that `user_agent` names as words, in a product or a comment. Ignores ASCII case, as
/// RFC 9309 section 2.2.1 does.
///
/// A word consists of letters, digits, `_` and `-`, so that a longer name is another one: `Googlebot-News` does not name
/// `Googlebot`. A version that follows without a slash is not part of the name.
pub(crate) fn find_well_known(
    user_agent: &[u8],
) -> impl Iterator<Item = &'static WellKnownCrawler> {
    let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    user_agent.split(move |byte| !is_of_word(byte)).filter_map(crawler_named_by)
}

/// Returns the well-known crawler that a word names.
fn crawler_named_by(word: &[u8]) -> Option<&'static WellKnownCrawler> {
    let word = str::from_utf8(word).ok()?.trim_matches(['-', '_']);
    if word.len() > MAX_WORD_BYTES {
        return None;
    }
    let lower_case = word.to_ascii_lowercase();
    // The whole word first, since a name may end in a digit itself.
    [lower_case.as_str(), lower_case.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-')]
        .into_iter()
        .find_map(|token| CRAWLERS.get(token))
}

#[cfg(test)]
mod tests {
    use wayleave_robots_txt::ProductToken;

    use super::*;

    #[test]
    fn every_line_of_the_list_counts() {
        let lines = include_str!("well_known.txt").lines();
        let listed: Vec<_> = lines.filter(|line| !line.starts_with('#')).collect();
        assert_eq!(listed.len(), CRAWLERS.len(), "a line is malformed or double");
        for crawler in WellKnownCrawler::all() {
            assert!(ProductToken::new(crawler.token).is_ok(), "{crawler:?}");
            if let Some(after) = crawler.after {
                assert!(WellKnownCrawler::with_token(after).is_some(), "{crawler:?}");
            }
        }
    }

    #[test]
    fn every_word_of_the_list_is_explained_at_its_head() {
        let (head, rows): (Vec<_>, Vec<_>) =
            include_str!("well_known.txt").lines().partition(|line| line.starts_with('#'));
        let words = rows.iter().filter_map(|row| row.split('\t').nth(2));
        for word in words.flat_map(|words| words.split(' ')) {
            let word = word.split_inclusive('=').next().unwrap();
            let explained = head.iter().filter(|line| line.starts_with(&format!("#   {word}")));
            assert!(explained.count() > 0, "{word}");
        }
    }

    #[test]
    fn what_owners_document_is_read() {
        let named = |token| WellKnownCrawler::with_token(token).expect("it is listed");
        let google = named("googlebot-image");
        assert_eq!((google.token, google.owner), ("Googlebot-Image", Some("Google")));
        assert_eq!((google.dialect, google.after), (Dialect::Google, Some("Googlebot")));
        assert!(google.reads_star() && google.ignores_delay() && !google.may_ignore_robots());
        assert!(!named("AdsBot-Google").reads_star());
        assert!(named("ChatGPT-User").may_ignore_robots());
        assert!(named("Claude-Web").is_retired());
        assert_eq!((named("GPTBot").dialect, named("GPTBot").after), (Dialect::Rfc9309, None));
        assert!(!named("GPTBot").ignores_delay());
        // Volunteers crawl under this name: it is known, but nobody's alone.
        assert_eq!((named("MJ12bot").owner, well_known_owner("MJ12bot")), (None, None));
    }

    #[test]
    fn the_first_name_in_a_user_agent_counts() {
        let first = |text: &str| WellKnownCrawler::named_in(text.as_bytes()).map(|it| it.token);
        let preview = "Mozilla/5.0 Safari/601.2.4 facebookexternalhit/1.1 Facebot Twitterbot/1.0";
        assert_eq!(first(preview), Some("facebookexternalhit"));
        assert_eq!(first("Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/128.0"), None);
    }

    fn tokens(user_agent: &str) -> Vec<String> {
        let named = find_well_known(user_agent.as_bytes());
        named.map(|named| named.token.to_ascii_lowercase()).collect()
    }

    #[test]
    fn every_token_of_the_list_is_found_as_a_word() {
        for token in CRAWLERS.keys().filter(|token| !token.contains('.')) {
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
