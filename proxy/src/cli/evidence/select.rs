//! Selects the decisions to export.

use std::borrow::Cow;
use std::ops::Range;
use std::time::SystemTime;

use serde::{Deserialize, Serialize, Serializer};
use wayleave_robots_txt::Target;

use super::signed_log::SignedLogFile;
use crate::clock::rfc3339;
use crate::decision_log::chain::event::{EVENT_PREFIX, EventKind, LogEvent};

/// The selection, as it is written into the manifest.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Selection {
    /// The decision with this id.
    Id(String),
    /// The last decision about a URL up to a time, and the first after it.
    Url {
        #[serde(serialize_with = "as_text")]
        url: Target,
        #[serde(serialize_with = "rfc3339::serialize")]
        at: SystemTime,
        #[serde(skip_serializing_if = "Option::is_none")]
        crawler: Option<String>,
    },
    /// All decisions since a time.
    Since {
        #[serde(serialize_with = "rfc3339::serialize")]
        since: SystemTime,
        #[serde(skip_serializing_if = "Option::is_none")]
        crawler: Option<String>,
    },
}

fn as_text<S: Serializer>(target: &Target, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(target)
}

/// The position of a line: the index of its file, and its number in the file.
type LinePosition = (usize, u64);

/// The decision closest to a time on one side of it, so far.
type NearestDecision = Option<(SystemTime, LinePosition)>;

/// The members of a line by which it is selected.
#[derive(Deserialize)]
struct SelectionEntry<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    at: Cow<'a, str>,
    #[serde(borrow)]
    url: Cow<'a, str>,
    #[serde(borrow)]
    crawler: Cow<'a, str>,
}

/// The selected lines of a file, and its events about files and lines.
#[derive(Debug, Default)]
pub(super) struct SelectedLines {
    /// The numbers of the selected lines, in ascending order.
    pub(super) lines: Vec<u64>,
    /// The numbers of files that it says were deleted.
    pub(super) deleted: Vec<u64>,
    /// The ranges of lines that it says were not signed by the process that wrote them.
    pub(super) unsigned: Vec<UnsignedLines>,
}

/// A range of lines that the log itself says are not authentic for certain.
#[derive(Clone, Debug)]
pub(super) struct UnsignedLines {
    pub(super) lines: Range<u64>,
    /// Whether somebody else wrote them. If not, a process that was killed may have.
    pub(super) is_foreign: bool,
}

impl SelectedLines {
    /// Returns the range of unsigned lines that contains a line, if one does.
    pub(super) fn unsigned_at(&self, number: u64) -> Option<&UnsignedLines> {
        let mut doubts = self.unsigned.iter();
        doubts.find(|doubt| doubt.lines.contains(&number))
    }

    fn add_event(&mut self, number: u64, line: &[u8]) {
        let doubt = match LogEvent::parse(line).map(|event| event.kind) {
            Some(EventKind::Deleted { file }) => {
                self.deleted.push(file);
                return;
            }
            Some(EventKind::Recovered { unsigned_lines, .. }) => UnsignedLines {
                lines: number.saturating_sub(unsigned_lines)..number,
                is_foreign: false,
            },
            Some(EventKind::Altered {
                foreign_lines: Some(foreign),
                ..
            }) => UnsignedLines {
                lines: number.saturating_sub(foreign)..number,
                is_foreign: true,
            },
            _ => return,
        };
        self.unsigned.push(doubt);
    }
}

/// Returns whether `url` is the URL that is asked for, in any spelling that decisions treat as equivalent.
fn is_about(url: &str, asked: &Target) -> bool {
    // Comparing origins as text first avoids parsing the URL of nearly every line.
    let may_be = || url.starts_with(&asked.origin().to_string());
    let is_spelling = |target: Target| target.is_spelling_of(asked);
    may_be() && Target::parse(url).is_ok_and(is_spelling)
}

/// Selects lines of each file.
///
/// # Errors
///
/// Returns an error if a file cannot be read.
pub(super) fn select(
    files: &[SignedLogFile],
    wanted: &Selection,
) -> anyhow::Result<Vec<SelectedLines>> {
    let mut chosen: Vec<_> = files.iter().map(|_| SelectedLines::default()).collect();
    let (mut before, mut after): (NearestDecision, NearestDecision) = (None, None);
    for (index, file) in files.iter().enumerate() {
        file.read(|number, line| {
            if line.starts_with(EVENT_PREFIX) {
                chosen[index].add_event(number, line);
                return Ok(());
            }
            // Torn and foreign lines are not decisions. They are left out here, and reported by the check of the chain.
            let Ok(entry) = serde_json::from_slice::<SelectionEntry<'_>>(line) else {
                return Ok(());
            };
            let is_by = |crawler: &Option<String>| {
                crawler.as_ref().is_none_or(|name| *name == entry.crawler)
            };
            let at = humantime::parse_rfc3339(&entry.at).unwrap_or(SystemTime::UNIX_EPOCH);
            let place = (index, number);
            match wanted {
                Selection::Id(id) if *id == entry.id => chosen[index].lines.push(number),
                Selection::Since { since, crawler } if at >= *since && is_by(crawler) => {
                    chosen[index].lines.push(number);
                }
                Selection::Url {
                    url,
                    at: asked,
                    crawler,
                } if is_by(crawler) && is_about(&entry.url, url) => {
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
        chosen[index].lines.push(number);
        chosen[index].lines.sort_unstable();
    }
    Ok(chosen)
}
