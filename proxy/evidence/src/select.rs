//! Selects the decisions to export.

use std::borrow::Cow;
use std::ops::{Range, RangeInclusive};
use std::time::SystemTime;

use serde::{Deserialize, Serialize, Serializer};
use wayleave_robots_txt::Target;

use crate::chain::event::{EVENT_PREFIX, EventKind, LogEvent};
use crate::rfc3339;
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
            Some(EventKind::Altered { foreign_lines: Some(foreign), .. }) => {
                UnsignedLines { lines: number.saturating_sub(foreign)..number, is_foreign: true }
            }
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
pub fn select(files: &[SignedLogFile], wanted: &Selection) -> anyhow::Result<Vec<SelectedLines>> {
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
                Selection::Url { url, at: asked, crawler }
                    if is_by(crawler) && is_about(&entry.url, url) =>
                {
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

/// Returns the number of the first file of a log that is missing although no event says that it was deleted.
pub fn unexplained_gap(log: &SignedLog, selected: &[SelectedLines]) -> Option<u64> {
    let is_deleted = |file: &u64| selected.iter().any(|it| it.deleted.contains(file));
    let mut gaps = log.missing.iter().filter(|file| !is_deleted(file));
    gaps.next().copied()
}

/// Returns the indexes of the files to export: the range of all files that hold selected lines, that explain a missing file, or
/// that lack lines. A selection since a time extends to the last file.
pub(crate) fn files_to_show(
    log: &SignedLog,
    selected: &[SelectedLines],
    selection: &Selection,
) -> RangeInclusive<usize> {
    let is_shown = |index: usize| {
        let (file, selected) = (&log.files[index], &selected[index]);
        let mut deleted = selected.deleted.iter();
        let explains = deleted.any(|gone| log.missing.contains(gone));
        !selected.lines.is_empty() || explains || file.is_truncated
    };
    let all = 0..log.files.len();
    let first = all.clone().find(|index| is_shown(*index));
    let is_last = |index: usize| matches!(selection, Selection::Since { .. }) || is_shown(index);
    let last = all.rev().find(|index| is_last(*index));
    first.unwrap_or(0)..=last.unwrap_or(0)
}
