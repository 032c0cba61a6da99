//! `Content-Signal`: pairs of signal and `yes` or `no` (Cloudflare's Content Signals Policy).

use super::{ContentUse, Purpose, Purposes};

/// What one signal says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Signal {
    pub(super) refuses: Purposes,
    pub(super) allows: Purposes,
    pub(super) clause: &'static str,
}

/// What a list of signals says to a crawler that uses so much of what it fetches. Names and values are taken whatever their
/// case, as even the policy's author writes them either way; anything else is passed over. A signal given twice says both.
pub(super) fn read(list: &str, content_use: ContentUse) -> Vec<Signal> {
    let pairs = list
        .split([',', ';'])
        .filter_map(|pair| pair.split_once('='));
    pairs
        .filter_map(|(name, value)| {
            let (name, value) = (
                name.trim().to_ascii_lowercase(),
                value.trim().to_ascii_lowercase(),
            );
            signal(&name, &value, content_use)
        })
        .collect()
}

fn signal(name: &str, value: &str, content_use: ContentUse) -> Option<Signal> {
    let purpose = match name {
        "search" => Purpose::Search,
        "ai-input" => Purpose::AiInput,
        "ai-train" => Purpose::TrainAi,
        "use" => {
            let most: ContentUse = value.parse().ok()?;
            return (content_use > most).then_some(Signal {
                refuses: Purposes::ALL,
                allows: Purposes::NONE,
                clause: "Content Signals, use level",
            });
        }
        _ => return None,
    };
    let purposes = Purposes::of(&[purpose]);
    match value {
        "yes" => Some(Signal {
            refuses: Purposes::NONE,
            allows: purposes,
            clause: "Content Signals Policy (a)",
        }),
        "no" => Some(Signal {
            refuses: purposes,
            allows: Purposes::NONE,
            clause: "Content Signals Policy (b)",
        }),
        _ => None,
    }
}
