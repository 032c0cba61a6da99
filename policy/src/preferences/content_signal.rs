//! `Content-Signal`: pairs of signal and `yes` or `no` (Cloudflare's Content Signals Policy).

use super::statement::Meaning;
use super::{ContentUse, Purpose, Purposes};

/// What a list of signals says to a crawler that uses so much of what it fetches. Names and values are taken whatever their
/// case, as even the policy's author writes them either way; anything else is passed over. A signal given twice says both, and the same one repeated says it once: a line of them may be long.
pub(crate) fn read(list: &str, content_use: ContentUse) -> Vec<Meaning> {
    let pairs = list
        .split([',', ';'])
        .filter_map(|pair| pair.split_once('='));
    let signals = pairs.filter_map(|(name, value)| {
        let (name, value) = (
            name.trim().to_ascii_lowercase(),
            value.trim().to_ascii_lowercase(),
        );
        signal(&name, &value, content_use)
    });
    let mut said = Vec::new();
    for signal in signals {
        if !said.contains(&signal) {
            said.push(signal);
        }
    }
    said
}

fn signal(name: &str, value: &str, content_use: ContentUse) -> Option<Meaning> {
    let purpose = match name {
        "search" => Purpose::Search,
        "ai-input" => Purpose::AiInput,
        "ai-train" => Purpose::TrainAi,
        "use" => {
            let most: ContentUse = value.parse().ok()?;
            let level = Meaning::of(Purposes::ALL, false, "Content Signals, use level");
            return (content_use > most).then_some(level);
        }
        _ => return None,
    };
    let purposes = Purposes::of(&[purpose]);
    match value {
        "yes" => Some(Meaning::of(purposes, true, "Content Signals Policy (a)")),
        "no" => Some(Meaning::of(purposes, false, "Content Signals Policy (b)")),
        _ => None,
    }
}
