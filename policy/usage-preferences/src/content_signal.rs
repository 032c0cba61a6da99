//! `Content-Signal`: pairs of signal and `yes` or `no` (Cloudflare's Content Signals Policy).

use super::statement::StatementMeaning;
use super::{ContentUse, Purpose, PurposeSet};

/// Returns what a list of signals means for a crawler with this level of use. Case is ignored in names and values,
/// since even the policy's author writes them either way. From a malformed list only restrictions are taken. A signal
/// given twice counts with both values, and a repetition counts once, since a line may be long.
pub(crate) fn read(list: &str, content_use: ContentUse) -> Vec<StatementMeaning> {
    let pairs = list.split([',', ';']).filter_map(|pair| pair.split_once('='));
    let signals = pairs.filter_map(|(name, value)| {
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim().to_ascii_lowercase());
        signal(&name, &value, content_use)
    });
    let mut said = Vec::new();
    // The second, tolerant reading only adds restrictions.
    for signal in signals.chain(restrictions(list, content_use)) {
        if !said.contains(&signal) {
            said.push(signal);
        }
    }
    said
}

/// Returns the restrictions in a list, however its parts are punctuated: `ai-train=no search=yes`, `ai-train="no"`,
/// `ai-train:no`.
fn restrictions(list: &str, content_use: ContentUse) -> impl Iterator<Item = StatementMeaning> {
    let list = list.to_ascii_lowercase();
    let words = list.split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_'));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let pairs = words.windows(2).map(|pair| (pair[0], pair[1]));
    let said = pairs.filter_map(|(name, value)| signal(name, value, content_use));
    let restrictions: Vec<_> = said.filter(|it| it.allows.is_empty()).collect();
    restrictions.into_iter()
}

fn signal(name: &str, value: &str, content_use: ContentUse) -> Option<StatementMeaning> {
    let purpose = match name {
        "search" => Purpose::Search,
        "ai-input" => Purpose::AiInput,
        "ai-train" => Purpose::TrainAi,
        "use" => {
            let most: ContentUse = value.parse().ok()?;
            let level = StatementMeaning::new(PurposeSet::ALL, false, "Content Signals, use level");
            return (content_use > most).then_some(level);
        }
        _ => return None,
    };
    let purposes = PurposeSet::of(&[purpose]);
    match value {
        "yes" => Some(StatementMeaning::new(purposes, true, "Content Signals Policy (a)")),
        "no" => Some(StatementMeaning::new(purposes, false, "Content Signals Policy (b)")),
        _ => None,
    }
}
