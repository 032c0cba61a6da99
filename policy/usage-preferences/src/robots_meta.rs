//! Rules of `X-Robots-Tag` and `<meta name="robots">`, as Google's and Bing's pages define them.

use std::time::{Duration, SystemTime};

use wayleave_robots_txt::ProductToken;

use super::statement::StatementMeaning;
use super::{Purpose, PurposeSet, date};

/// One rule: its name in lower case, and its value if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MetaRule {
    pub(super) name: String,
    pub(super) value: String,
}

/// Rules that take a value.
const VALUED: [&str; 4] =
    ["unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"];

const UNAVAILABLE_AFTER: &str = VALUED[0];

/// Rules without a value that restrict.
const RESTRICTING: [&str; 12] = [
    "noindex",
    "none",
    "noimageindex",
    "noarchive",
    "nocache",
    "nofollow",
    "nosnippet",
    "notranslate",
    "noai",
    "noimageai",
    "noml",
    "disallowaitraining",
];

/// Rules, in use or retired, that restrict nothing here. They have to be known so that they are not taken for the names
/// of crawlers.
const HARMLESS: [&str; 10] = [
    "all",
    "index",
    "follow",
    "archive",
    "snippet",
    "indexifembedded",
    "noodp",
    "noydir",
    "nositelinkssearchbox",
    "nopagereadaloud",
];

/// The most words that a date may have.
const DATE_WORDS: usize = 8;

/// The most words of a line, and the most dates among them, that are read one by one. No honest line has more: in the
/// rest, every rule without a value that occurs anywhere applies.
const MAX_WORDS: usize = 256;
const MAX_DATES: usize = 16;

/// The most crawlers that may be named before one rule. A line that names more is read as unknown rules.
const MAX_NAMES: usize = 4;

/// Returns the rules of a field line that apply to a crawler. A name before a colon names the crawler to which
/// the following rules apply, until the next name; lines must not be joined, since rules of one would then follow a name
/// in another.
pub(super) fn rules(line: &str, tokens: &[ProductToken]) -> Vec<MetaRule> {
    read(line, tokens, true)
}

/// Returns the rules of an element's content; the element's name says to which crawler they apply.
pub(super) fn rules_of_content(content: &str, tokens: &[ProductToken]) -> Vec<MetaRule> {
    read(content, tokens, false)
}

/// Parses rules separated by commas; blanks and semicolons also separate, since that is evidently meant. An unknown
/// rule is skipped by itself.
fn read(line: &str, tokens: &[ProductToken], names_crawlers: bool) -> Vec<MetaRule> {
    let mut rules: Vec<MetaRule> = Vec::new();
    let mut rest = line;
    let mut applies = true;
    let mut may_name = names_crawlers;
    let mut dates = 0;
    for _ in 0..MAX_WORDS {
        let Some(word) = LineWord::first(rest) else {
            return rules;
        };
        rest = word.rest;
        // A crawler's name is only expected at the start of a list item.
        may_name |= names_crawlers && word.begins;
        let is_own = names_crawler(word.text, tokens);
        if word.is_crawler(tokens, MAX_NAMES) {
            if may_name || is_own {
                applies = is_own;
            } else {
                // No name can be at this position, so the text after the word is its value.
                rest = rest.find(SEPARATORS).map_or("", |end| &rest[end..]);
            }
            continue;
        }
        may_name = false;
        let name = word.text.to_ascii_lowercase();
        let mut value = "";
        if word.has_colon && VALUED.contains(&&*name) {
            let is_date = name == UNAVAILABLE_AFTER && dates < MAX_DATES;
            dates += usize::from(is_date);
            (value, rest) = rest.split_at(value_end(is_date, rest));
        }
        if applies && is_known(&name) {
            rules.push(MetaRule { name, value: value.trim().to_owned() });
        }
    }
    rules.extend(restricting_words(rest));
    rules
}

/// Returns the rules that restrict and occur anywhere in a text, for any crawler.
fn restricting_words(text: &str) -> impl Iterator<Item = MetaRule> {
    let text = text.to_ascii_lowercase();
    let occurring = RESTRICTING.into_iter().filter(move |name| text.contains(name));
    occurring.map(|name| MetaRule { name: name.to_owned(), value: String::new() })
}

const SEPARATORS: [char; 2] = [',', ';'];

/// A word of a line.
#[derive(Clone, Copy, Debug)]
struct LineWord<'a> {
    text: &'a str,
    /// Whether a comma or semicolon precedes it.
    begins: bool,
    has_colon: bool,
    /// The text after the word and its colon.
    rest: &'a str,
}

impl<'a> LineWord<'a> {
    fn first(line: &'a str) -> Option<Self> {
        let is_between = |c: char| c.is_whitespace() || SEPARATORS.contains(&c);
        let text = line.trim_start_matches(|c| is_between(c) || c == ':');
        let begins = line[..line.len() - text.len()].contains(SEPARATORS);
        let end = text.find(|c| is_between(c) || c == ':');
        let (text, rest) = text.split_at(end.unwrap_or(text.len()));
        let value = rest.trim_start().strip_prefix(':');
        (!text.is_empty()).then(|| Self {
            text: text.trim_matches(['"', '\'']),
            begins,
            has_colon: value.is_some(),
            rest: value.unwrap_or(rest),
        })
    }

    fn is_known(self) -> bool {
        is_known(&self.text.to_ascii_lowercase())
    }

    /// Returns whether it names a crawler: it is not a rule, and its colon is followed by a rule, possibly after more
    /// such names. So `revisit-after: 7 days` names none. The crawler's own name, and a name that ends like a bot's,
    /// are names whatever follows.
    fn is_crawler(self, tokens: &[ProductToken], names: usize) -> bool {
        if !self.has_colon || self.is_known() {
            return false;
        }
        let is_followed = || match Self::first(self.rest) {
            Some(next) if !next.begins => {
                next.is_known() || names > 1 && next.is_crawler(tokens, names - 1)
            }
            _ => true,
        };
        let name = self.text.to_ascii_lowercase();
        // Evidently a name, even where its rules are unknown.
        let is_bot = ["bot", "crawler", "spider"].iter().any(|word| name.ends_with(word));
        is_bot || names_crawler(self.text, tokens) || is_followed()
    }
}

pub(super) fn is_known(name: &str) -> bool {
    VALUED.contains(&name) || RESTRICTING.contains(&name) || HARMLESS.contains(&name)
}

/// Returns the end of the value at the beginning of a text. Only a date contains blanks, and it may contain a comma.
fn value_end(may_be_date: bool, text: &str) -> usize {
    let begin = text.len() - text.trim_start().len();
    let separators = text[begin..]
        .match_indices(|c: char| c.is_whitespace() || SEPARATORS.contains(&c))
        .map(|(at, _)| begin + at);
    let ends: Vec<usize> = separators.chain([text.len()]).take(DATE_WORDS).collect();
    let is_date = |end: &&usize| date::read(&text[..**end]).is_some();
    // The longest text that parses is the date; shorter ones may parse as well, without its time.
    let date = may_be_date.then(|| ends.iter().rev().find(is_date)).flatten();
    *date.unwrap_or(&ends[0])
}

/// Returns whether a name stands for every crawler or for the one with these tokens.
pub(super) fn names_crawler(name: &str, tokens: &[ProductToken]) -> bool {
    // A version is ignored.
    let product = name.split('/').next().unwrap_or_default();
    let is_token = |token: &ProductToken| token.as_str().eq_ignore_ascii_case(product);
    product == "*" || product.eq_ignore_ascii_case("robots") || tokens.iter().any(is_token)
}

/// Returns the strictness of a rule among those of its name, the smallest being the strictest; `None` for a rule that
/// is unknown or whose value cannot be read.
pub(super) fn strictness(rule: &MetaRule) -> Option<Duration> {
    // A limit of -1 means no limit, and does not parse as a number of seconds.
    let limit = || rule.value.parse().ok().map(Duration::from_secs);
    match &*rule.name {
        name if RESTRICTING.contains(&name) => Some(Duration::ZERO),
        UNAVAILABLE_AFTER => {
            let at = date::read(&rule.value)?;
            Some(at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
        }
        "max-snippet" | "max-video-preview" => limit(),
        "max-image-preview" => {
            let sizes = ["none", "standard", "large"];
            let size = sizes.iter().position(|size| size.eq_ignore_ascii_case(&rule.value))?;
            Some(Duration::from_secs(size as u64))
        }
        _ => None,
    }
}

/// The context in which a page's rules are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct MetaReader {
    /// Whether the response is an image.
    pub(super) is_image: bool,
    pub(super) now: SystemTime,
}

const AI: PurposeSet = PurposeSet::of(&[Purpose::AiInput, Purpose::TrainAi]);

/// Returns the meaning of a rule that refuses something. None of these rules permits.
pub(super) fn refuses(rule: &MetaRule, reader: MetaReader) -> Option<StatementMeaning> {
    const ARCHIVE: PurposeSet = PurposeSet::of(&[Purpose::Archive]);
    const SEARCH: PurposeSet = PurposeSet::of(&[Purpose::Search]);
    const AI_INPUT: PurposeSet = PurposeSet::of(&[Purpose::AiInput]);
    const TRAIN_AI: PurposeSet = PurposeSet::of(&[Purpose::TrainAi]);
    let is_past = || date::read(&rule.value).is_some_and(|date| date < reader.now);
    let (purposes, clause) = match rule.name.as_str() {
        "noindex" => (SEARCH, "Google, robots meta: noindex"),
        "none" => (SEARCH, "Google, robots meta: none"),
        UNAVAILABLE_AFTER if is_past() => (SEARCH, "Google, robots meta: unavailable_after"),
        "noimageindex" if reader.is_image => (SEARCH, "Google, robots meta: noimageindex"),
        "noarchive" => (ARCHIVE, "Google, robots meta: noarchive"),
        "nocache" => (ARCHIVE, "Bing, robots meta: nocache"),
        "nosnippet" => (AI_INPUT, "Google, robots meta: nosnippet"),
        "max-snippet" if rule.value.parse() == Ok(0) => {
            (AI_INPUT, "Google, robots meta: max-snippet:0")
        }
        "noai" => (AI, "DeviantArt, November 2022: noai"),
        "noimageai" if reader.is_image => (AI, "DeviantArt, November 2022: noimageai"),
        "noml" => (AI, "Mojeek: noml"),
        "disallowaitraining" => (TRAIN_AI, "draft-canel-robots-ai-control: DisallowAITraining"),
        _ => return None,
    };
    Some(StatementMeaning::refusal(purposes, clause))
}

/// Returns the duty that a rule puts on the user of the page.
pub(super) fn usage_duty(
    rule: &MetaRule,
    reader: MetaReader,
) -> Option<(&'static str, Option<String>)> {
    let value = || Some(rule.value.clone());
    Some(match rule.name.as_str() {
        "nofollow" | "none" => ("nofollow", None),
        "nosnippet" => ("nosnippet", None),
        "notranslate" => ("notranslate", None),
        "noimageindex" if !reader.is_image => ("noimageindex", None),
        "noimageai" if !reader.is_image => ("noimageai", None),
        "max-snippet" => ("max-snippet", value()),
        "max-image-preview" => ("max-image-preview", value()),
        "max-video-preview" => ("max-video-preview", value()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_behind_thousands_of_words_still_restricts() {
        for filler in
            ["a:".repeat(30_000), "unavailable_after: 1, ".repeat(5_000), "x,".repeat(30_000)]
        {
            let line = format!("{filler} NoIndex");
            let found = rules(&line, &[]);
            assert!(found.iter().any(|rule| rule.name == "noindex"), "{}", &filler[..20]);
        }
        let dates = "unavailable_after: 25 Jun 2010 15:00:00 PST, ".repeat(3);
        assert_eq!(rules(&dates, &[]).len(), 3);
    }
}
