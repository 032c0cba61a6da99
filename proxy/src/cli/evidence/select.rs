//! Which decisions of a log are wanted.

use std::borrow::Cow;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::log::LogFile;
use crate::clock::rfc3339;
use crate::observe::chain::event::START;

/// Which decisions are wanted; as it is written into an export.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Wanted {
    /// The one with this id.
    Id(String),
    /// The last about this URL at that time, and the first after it.
    Url {
        url: String,
        #[serde(serialize_with = "rfc3339::serialize")]
        at: SystemTime,
        #[serde(skip_serializing_if = "Option::is_none")]
        crawler: Option<String>,
    },
    /// All since then.
    Since {
        #[serde(serialize_with = "rfc3339::serialize")]
        since: SystemTime,
        #[serde(skip_serializing_if = "Option::is_none")]
        crawler: Option<String>,
    },
}

/// Where a line is: the index of its file, and its number in it.
type Place = (usize, u64);

/// The nearest decision so far on one side of a time.
type Nearest = Option<(SystemTime, Place)>;

/// What tells whether a decision is wanted.
#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    at: Cow<'a, str>,
    #[serde(borrow)]
    url: Cow<'a, str>,
    #[serde(borrow)]
    crawler: Cow<'a, str>,
}

/// The numbers of the wanted lines of each file, in their order.
///
/// # Errors
///
/// Returns an error if a file cannot be read.
pub(super) fn select(files: &[LogFile], wanted: &Wanted) -> anyhow::Result<Vec<Vec<u64>>> {
    let mut chosen = vec![Vec::new(); files.len()];
    let (mut before, mut after): (Nearest, Nearest) = (None, None);
    for (index, file) in files.iter().enumerate() {
        file.read(|number, line| {
            if line.starts_with(START) {
                return Ok(());
            }
            let Ok(entry) = serde_json::from_slice::<Entry<'_>>(line) else {
                return Ok(());
            };
            let is_by = |crawler: &Option<String>| {
                crawler.as_ref().is_none_or(|name| *name == entry.crawler)
            };
            let at = humantime::parse_rfc3339(&entry.at).unwrap_or(SystemTime::UNIX_EPOCH);
            let place = (index, number);
            match wanted {
                Wanted::Id(id) if *id == entry.id => chosen[index].push(number),
                Wanted::Since { since, crawler } if at >= *since && is_by(crawler) => {
                    chosen[index].push(number);
                }
                Wanted::Url {
                    url,
                    at: asked,
                    crawler,
                } if *url == entry.url && is_by(crawler) => {
                    if at > *asked {
                        let is_first = after.is_none_or(|(first, _)| at < first);
                        after = if is_first { Some((at, place)) } else { after };
                    } else if before.is_none_or(|(last, _)| at >= last) {
                        before = Some((at, place));
                    }
                }
                _ => {}
            }
            Ok(())
        })?;
    }
    for (_, (index, number)) in before.into_iter().chain(after) {
        chosen[index].push(number);
        chosen[index].sort_unstable();
    }
    Ok(chosen)
}
