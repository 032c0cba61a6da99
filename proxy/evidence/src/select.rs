//! Selects the decisions to export.

use std::borrow::Cow;
use std::ops::{Range, RangeInclusive};
use std::time::SystemTime;

use serde::{Deserialize, Serialize, Serializer};
use wayleave_notation::{Sha256Digest, rfc3339};
use wayleave_robots_txt::Target;

use crate::chain::event::{EVENT_PREFIX, EventKind, LogEvent};
use crate::signed_log::{SignedLog, SignedLogFile};

/// The selection, as it is written into the manifest.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Selection {
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
    /// The decisions whose responses had a body with this SHA-256.
    Body {
        sha256: Sha256Digest,
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

/// The decision closest to a time on one side of it, so far: its time, the index of its file, and its line in that.
type NearestDecision = Option<(SystemTime, (usize, u64))>;

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
    /// Present if `url` is only the beginning of a URL.
    #[serde(default)]
    url_bytes: Option<usize>,
    #[serde(default)]
    body_sha256: Option<Sha256Digest>,
}

/// The selected lines of a file, and its events about files and lines.
#[derive(Debug, Default)]
pub struct SelectedLines {
    /// The numbers of the selected lines, in ascending order.
    pub lines: Vec<u64>,
    /// The numbers of files that it says were deleted.
    pub deleted: Vec<u64>,
    /// The ranges of lines that it says were not signed by the process that wrote them.
    pub unsigned: Vec<UnsignedLines>,
}

/// A range of lines that the log itself says are not authentic for certain.
#[derive(Clone, Debug)]
pub struct UnsignedLines {
    pub lines: Range<u64>,
    /// Whether somebody else wrote them. If not, a process that was killed may have.
    pub is_foreign: bool,
}

impl SelectedLines {
    /// Returns the range of unsigned lines that contains a line, if one does.
    pub fn unsigned_at(&self, number: u64) -> Option<&UnsignedLines> {
        self.unsigned.iter().find(|unsigned| unsigned.lines.contains(&number))
    }

    fn add_event(&mut self, number: u64, line: &[u8]) {
        let unsigned = match LogEvent::parse(line).map(|event| event.kind) {
            Some(EventKind::Deleted { file }) => {
                self.deleted.push(file);
                return;
            }
            Some(EventKind::Recovered { unsigned_lines, .. }) => UnsignedLines {
                lines: number.saturating_sub(unsigned_lines)..number,
                is_foreign: false,
            },
            Some(EventKind::Altered { foreign_lines: Some(foreign), .. }) => {
                UnsignedLines { lines: number.saturating_sub(foreign)..number, is_foreign: true }
            }
            _ => return,
        };
        self.unsigned.push(unsigned);
    }
}

/// Returns whether `url` is the URL of `selected`, in any spelling that decisions treat as equivalent.
fn is_about(url: &str, selected: &Target) -> bool {
    // Comparing origins as text first avoids parsing the URL of nearly every line.
    url.starts_with(&selected.origin().to_string())
        && Target::parse(url).is_ok_and(|target| target.is_spelling_of(selected))
}

/// Selects lines of each file.
///
/// # Errors
///
/// Returns an error if a file cannot be read.
pub fn select(
    files: &[SignedLogFile],
    selection: &Selection,
) -> anyhow::Result<Vec<SelectedLines>> {
    let mut selected: Vec<_> = files.iter().map(|_| SelectedLines::default()).collect();
    let (mut before, mut after): (NearestDecision, NearestDecision) = (None, None);
    for (index, file) in files.iter().enumerate() {
        let unsigned_from = file.unsigned_from.into_iter();
        let unsigned = unsigned_from
            .map(|from| UnsignedLines { lines: from..u64::MAX, is_foreign: file.is_after_stop() });
        selected[index].unsigned.extend(unsigned);
        file.read(|number, line| {
            if line.starts_with(EVENT_PREFIX) {
                // An event that anybody may have written explains nothing.
                if file.is_signed(number) {
                    selected[index].add_event(number, line);
                }
                return Ok(());
            }
            // Torn and foreign lines are not decisions. They are left out here, and reported by the check of the chain.
            let Ok(entry) = serde_json::from_slice::<SelectionEntry<'_>>(line) else {
                return Ok(());
            };
            let is_of = |crawler: &Option<String>| {
                crawler.as_ref().is_none_or(|name| *name == entry.crawler)
            };
            let at = humantime::parse_rfc3339(&entry.at).unwrap_or(SystemTime::UNIX_EPOCH);
            let position = (index, number);
            match selection {
                Selection::Id(id) if *id == entry.id => selected[index].lines.push(number),
                Selection::Since { since, crawler } if at >= *since && is_of(crawler) => {
                    selected[index].lines.push(number);
                }
                Selection::Body { sha256, crawler }
                    if entry.body_sha256 == Some(*sha256) && is_of(crawler) =>
                {
                    selected[index].lines.push(number);
                }
                Selection::Url { url, at: instant, crawler }
                    if entry.url_bytes.is_none() && is_of(crawler) && is_about(&entry.url, url) =>
                {
                    // Lines are not in the order of time if the clock was set back.
                    if at > *instant {
                        if after.is_none_or(|(first, _)| at < first) {
                            after = Some((at, position));
                        }
                    } else if before.is_none_or(|(last, _)| at >= last) {
                        before = Some((at, position));
                    }
                }
                _ => {}
            }
            Ok(())
        })?;
    }
    for (_, (index, number)) in before.into_iter().chain(after) {
        selected[index].lines.push(number);
        selected[index].lines.sort_unstable();
    }
    Ok(selected)
}

/// Returns the number of the first file of a log that is missing although no event says that it was deleted.
pub fn unexplained_gap(log: &SignedLog, selected: &[SelectedLines]) -> Option<u64> {
    let is_deleted = |file: &u64| selected.iter().any(|chosen| chosen.deleted.contains(file));
    log.missing.iter().find(|file| !is_deleted(file)).copied()
}

/// Returns the indexes of the files to export: the range of all files that hold selected lines, that explain a missing file, or
/// that lack lines. A selection since a time extends to the last file.
pub(crate) fn files_to_show(
    log: &SignedLog,
    selected: &[SelectedLines],
    selection: &Selection,
) -> RangeInclusive<usize> {
    let is_shown = |index: usize| {
        let file = &log.files[index];
        let selected = &selected[index];
        let explains_gap = selected.deleted.iter().any(|file| log.missing.contains(file));
        // Lines that are not signed, or are missing, are shown with any selection.
        !selected.lines.is_empty()
            || explains_gap
            || file.is_truncated
            || file.unsigned_from.is_some()
    };
    let first = (0..log.files.len()).find(|index| is_shown(*index));
    let is_last = |index: usize| matches!(selection, Selection::Since { .. }) || is_shown(index);
    let last = (0..log.files.len()).rev().find(|index| is_last(*index));
    first.unwrap_or(0)..=last.unwrap_or(0)
}
