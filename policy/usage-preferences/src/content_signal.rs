//! `Content-Signal`: pairs of signal and `yes` or `no` (Cloudflare's Content Signals Policy).

use super::statement::StatementMeaning;
use super::{ContentUse, Purpose, PurposeSet};

/// Returns the meanings of a list of signals for a crawler that uses content to this extent. Case is ignored in names
/// and values, since even the policy's author writes them either way. Malformed parts can only restrict. A signal
/// given twice counts with both values; a repetition adds nothing, so that a long line has few meanings.
pub(crate) fn read(list: &str, content_use: ContentUse) -> Vec<StatementMeaning> {
    let signals = list.split([',', ';']).filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        let name = name.trim().to_ascii_lowercase();
        let value = value.trim().to_ascii_lowercase();
        signal_meaning(&name, &value, content_use)
    });
    let mut meanings = Vec::new();
    // The second, tolerant reading only adds restrictions.
    for meaning in signals.chain(restrictions(list, content_use)) {
        if !meanings.contains(&meaning) {
            meanings.push(meaning);
        }
    }
    meanings
}

/// Returns the restrictions in a list, however its parts are punctuated: `ai-train=no search=yes`, `ai-train="no"`,
/// `ai-train:no`.
fn restrictions(list: &str, content_use: ContentUse) -> Vec<StatementMeaning> {
    let lower_case = list.to_ascii_lowercase();
    let words: Vec<&str> = lower_case
        .split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_'))
        .filter(|word| !word.is_empty())
        .collect();
    // Without reliable punctuation, any two consecutive words may be a name and its value.
    let meanings =
        words.windows(2).filter_map(|pair| signal_meaning(pair[0], pair[1], content_use));
    meanings.filter(|meaning| meaning.allows.is_empty()).collect()
}

/// Returns the meaning of one signal; `None` if it is unknown, or is a `use` level that the crawler keeps to.
fn signal_meaning(name: &str, value: &str, content_use: ContentUse) -> Option<StatementMeaning> {
    let purpose = match name {
        "search" => Purpose::Search,
        "ai-input" => Purpose::AiInput,
        "ai-train" => Purpose::TrainAi,
        "use" => {
            // A level bounds how far any use may go, so it refuses crawlers that go further and permits nothing.
            let limit: ContentUse = value.parse().ok()?;
            let refusal = StatementMeaning::refusal(PurposeSet::ALL, "Content Signals, use level");
            return (content_use > limit).then_some(refusal);
        }
        _ => return None,
    };
    let purposes = PurposeSet::of(&[purpose]);
    match value {
        "yes" => Some(StatementMeaning::permission(purposes, "Content Signals Policy (a)")),
        "no" => Some(StatementMeaning::refusal(purposes, "Content Signals Policy (b)")),
        _ => None,
    }
}
