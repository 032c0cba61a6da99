//! Rules of `X-Robots-Tag` and `<meta name="robots">`, as Google's and Bing's pages define them.

use std::time::{Duration, SystemTime};

use super::{MetaDialect, Purpose, Purposes, date};
use crate::ProductToken;

/// One rule: its name in lower case, and its value if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MetaRule {
    pub(super) name: String,
    pub(super) value: String,
}

/// Rules that take a value, so that their colon does not follow a crawler's name.
const VALUED: [&str; 4] = [
    "unavailable_after",
    "max-snippet",
    "max-image-preview",
    "max-video-preview",
];

const UNAVAILABLE_AFTER: &str = VALUED[0];

/// The rules of one line that are for a crawler. A name before a colon is that of the crawler meant by what follows, until
/// the next one; lines must not be joined, since that would put the rules of one under the name in another.
pub(super) fn rules(line: &str, tokens: &[ProductToken]) -> Vec<MetaRule> {
    let mut rules = Vec::new();
    let mut is_meant = true;
    let mut rest = line;
    while !rest.is_empty() {
        let (mut part, mut after) = rest.split_once(',').unwrap_or((rest, ""));
        while let Some((name, value)) = part.split_once(':')
            && !VALUED.contains(&&*name.trim().to_ascii_lowercase())
        {
            is_meant = is_for(name.trim(), tokens);
            part = value;
        }
        let (name, mut value) = part.split_once(':').unwrap_or((part, ""));
        let name = name.trim().to_ascii_lowercase();
        let longer;
        // A date may hold a comma itself.
        if name == UNAVAILABLE_AFTER && date::read(value).is_none() {
            let (more, behind) = after.split_once(',').unwrap_or((after, ""));
            longer = format!("{value},{more}");
            if date::read(&longer).is_some() {
                (value, after) = (&longer, behind);
            }
        }
        if is_meant {
            // Rules are parted by commas; where only blanks or semicolons do, they are evidently meant all the same.
            let words = match value.trim() {
                "" => name.split([' ', '\t', '\r', '\n', ';']).collect(),
                _ => vec![&*name],
            };
            let rule = |name: &str| MetaRule {
                name: name.to_owned(),
                value: value.trim().to_owned(),
            };
            let words = words.into_iter().filter(|word| !word.is_empty());
            rules.extend(words.map(rule));
        }
        rest = after;
    }
    rules
}

/// Whether a name is for every crawler or for the one with these tokens.
pub(super) fn is_for(name: &str, tokens: &[ProductToken]) -> bool {
    let is_token = |token: &ProductToken| token.as_str().eq_ignore_ascii_case(name);
    matches!(name, "*") || name.eq_ignore_ascii_case("robots") || tokens.iter().any(is_token)
}

/// How strict a rule is among those of its name, the strictest first; nothing if it says nothing, as those do that are not known or
/// whose value cannot be read.
pub(super) fn rank(rule: &MetaRule) -> Option<Duration> {
    // A limit of -1 is none.
    let limit = || rule.value.parse().ok().map(Duration::from_secs);
    match &*rule.name {
        "noindex" | "none" | "noimageindex" | "noarchive" | "nocache" | "nofollow"
        | "nosnippet" | "notranslate" | "noai" | "noimageai" | "noml" | "disallowaitraining" => {
            Some(Duration::ZERO)
        }
        UNAVAILABLE_AFTER => {
            let at = date::read(&rule.value)?;
            Some(
                at.duration_since(SystemTime::UNIX_EPOCH)
                    .unwrap_or_default(),
            )
        }
        "max-snippet" | "max-video-preview" => limit(),
        "max-image-preview" => {
            let sizes = ["none", "standard", "large"];
            let size = sizes
                .iter()
                .position(|it| it.eq_ignore_ascii_case(&rule.value))?;
            Some(Duration::from_secs(size as u64))
        }
        _ => None,
    }
}

/// What a page's rules are read by.
#[derive(Clone, Copy, Debug)]
pub(super) struct MetaReader {
    pub(super) dialect: MetaDialect,
    /// Whether the answer is an image.
    pub(super) is_image: bool,
    pub(super) now: SystemTime,
}

const AI: Purposes = Purposes::of(&[Purpose::AiInput, Purpose::TrainAi]);

/// The purposes that a rule refuses, with the clause. Nothing among these rules permits.
pub(super) fn refuses(rule: &MetaRule, reader: MetaReader) -> Option<(Purposes, &'static str)> {
    const ARCHIVE: Purposes = Purposes::of(&[Purpose::Archive]);
    const SEARCH: Purposes = Purposes::of(&[Purpose::Search]);
    const AI_INPUT: Purposes = Purposes::of(&[Purpose::AiInput]);
    const TRAIN_AI: Purposes = Purposes::of(&[Purpose::TrainAi]);
    let is_bing = reader.dialect == MetaDialect::Bing;
    let is_past = || date::read(&rule.value).is_some_and(|date| date < reader.now);
    Some(match rule.name.as_str() {
        "noindex" => (SEARCH, "Google, robots meta: noindex"),
        "none" => (SEARCH, "Google, robots meta: none"),
        UNAVAILABLE_AFTER if is_past() => (SEARCH, "Google, robots meta: unavailable_after"),
        "noimageindex" if reader.is_image => (SEARCH, "Google, robots meta: noimageindex"),
        "noarchive" if is_bing => (ARCHIVE.union(AI), "Bing, September 2023: NOARCHIVE"),
        "nocache" if is_bing => (ARCHIVE.union(TRAIN_AI), "Bing, September 2023: NOCACHE"),
        "noarchive" => (ARCHIVE, "Google, robots meta: noarchive"),
        "nocache" => (ARCHIVE, "Bing, robots meta: nocache"),
        "nosnippet" => (AI_INPUT, "Google, robots meta: nosnippet"),
        "max-snippet" if rule.value.parse() == Ok(0) => {
            (AI_INPUT, "Google, robots meta: max-snippet:0")
        }
        "noai" => (AI, "DeviantArt, November 2022: noai"),
        "noimageai" if reader.is_image => (AI, "DeviantArt, November 2022: noimageai"),
        "noml" => (AI, "Mojeek: noml"),
        "disallowaitraining" => (
            TRAIN_AI,
            "draft-canel-robots-ai-control: DisallowAITraining",
        ),
        _ => return None,
    })
}

/// The label of a rule that only whoever uses the page can keep.
pub(super) fn duty(rule: &MetaRule, reader: MetaReader) -> Option<(&'static str, Option<String>)> {
    let value = || Some(rule.value.clone());
    Some(match rule.name.as_str() {
        "nofollow" | "none" => ("nofollow", None),
        "nosnippet" => ("nosnippet", None),
        "notranslate" => ("notranslate", None),
        "noimageindex" if !reader.is_image => ("noimageindex", None),
        "noimageai" if !reader.is_image => ("noimageai", None),
        "nocache" if reader.dialect == MetaDialect::Bing => ("nocache", None),
        "max-snippet" => ("max-snippet", value()),
        "max-image-preview" => ("max-image-preview", value()),
        "max-video-preview" => ("max-video-preview", value()),
        _ => return None,
    })
}
