//! `Content-Usage`: preferences as an RFC 9651 dictionary (draft-ietf-aipref-vocab-08, draft-ietf-aipref-attach-05).

use sfv::{BareItem, Dictionary, ListEntry, Parser};

use super::statement::StatementMeaning;
use super::{Purpose, PurposeSet};

const SEARCH: PurposeSet = PurposeSet::of(&[Purpose::Search]);
const AI_INPUT: PurposeSet = PurposeSet::of(&[Purpose::AiInput]);
const TRAIN_AI: PurposeSet = PurposeSet::of(&[Purpose::TrainAi]);

/// The labels of the current vocabulary, none of which is the parent of another.
const LABELS: [(&str, PurposeSet, &str); 3] = [
    ("train-ai", TRAIN_AI, "aipref-vocab-08 §4.1"),
    ("ai-use", AI_INPUT, "aipref-vocab-08 §4.2"),
    ("search", SEARCH, "aipref-vocab-08 §4.3"),
];

/// Labels of earlier drafts that are still found on sites. They only restrict; those for everything do so where no
/// current label states otherwise.
const RETIRED: [(&str, PurposeSet, &str); 8] = [
    ("ai", TRAIN_AI, "aipref-vocab-01, ai"),
    ("genai", TRAIN_AI, "aipref-vocab-01, genai"),
    ("train-genai", TRAIN_AI, "aipref-vocab-03, train-genai"),
    ("inference", AI_INPUT, "aipref-vocab-01, inference"),
    ("ai-output", AI_INPUT, "aipref-vocab-04, ai-output"),
    ("tdm", PurposeSet::ALL, "aipref-vocab-01, tdm"),
    ("bots", PurposeSet::ALL, "aipref-vocab-04, bots"),
    ("all", PurposeSet::ALL, "aipref-vocab-02, all"),
];

/// Returns the meaning of a dictionary. A dictionary that does not parse states nothing (aipref-vocab-08 §6.5.1);
/// the last of duplicate labels applies, and values other than the tokens `y` and `n` are ignored.
pub(crate) fn read(dictionary: &[u8]) -> Vec<StatementMeaning> {
    let Ok(dictionary) = Parser::new(dictionary).parse::<Dictionary>() else {
        return Vec::new();
    };
    let mut labels = Vec::new();
    let mut stated = PurposeSet::NONE;
    for (name, purposes, clause) in LABELS {
        if let Some(is_allowed) = value(&dictionary, name) {
            labels.push(StatementMeaning::new(purposes, is_allowed, clause));
            stated = stated.union(purposes);
        }
    }
    for (name, purposes, clause) in RETIRED {
        if value(&dictionary, name) == Some(false) {
            // A label for everything yields to current labels where those state something (aipref-vocab-02).
            let yields_to = if purposes == PurposeSet::ALL { stated } else { PurposeSet::NONE };
            labels.push(StatementMeaning::refusal(purposes.without(yields_to), clause));
        }
    }
    labels
}

fn value(dictionary: &Dictionary, label: &str) -> Option<bool> {
    let ListEntry::Item(item) = dictionary.get(label)? else {
        return None;
    };
    match &item.bare_item {
        BareItem::Token(token) if token.as_str() == "y" => Some(true),
        BareItem::Token(token) if token.as_str() == "n" => Some(false),
        _ => None,
    }
}

/// The status of a label in the vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LabelStatus {
    /// A current label, allowed or refused.
    Current,
    /// A current label with a value that has no meaning.
    Unclear,
    /// A label of an earlier draft.
    Retired,
    /// An unknown label.
    Unknown,
}

/// Returns the labels of a dictionary as written, with their status; `None` if it does not parse.
pub(crate) fn labels(dictionary: &[u8]) -> Option<Vec<(String, LabelStatus)>> {
    let dictionary: Dictionary = Parser::new(dictionary).parse().ok()?;
    let labels = dictionary.keys().map(|key| {
        let name = key.as_str();
        let status = if LABELS.iter().any(|(known, ..)| *known == name) {
            match value(&dictionary, name) {
                Some(_) => LabelStatus::Current,
                None => LabelStatus::Unclear,
            }
        } else if RETIRED.iter().any(|(known, ..)| *known == name) {
            LabelStatus::Retired
        } else {
            LabelStatus::Unknown
        };
        (name.to_owned(), status)
    });
    Some(labels.collect())
}
