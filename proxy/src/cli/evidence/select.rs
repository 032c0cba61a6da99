//! Selects the decisions to export.

use std::borrow::Cow;
use std::ops::Range;
use std::time::SystemTime;

use serde::{Deserialize, Serialize, Serializer};
use wayleave_robots_txt::Target;

use super::log::LogFile;
use crate::clock::rfc3339;
use crate::observe::chain::event::{Event, START, What};

/// The selection, as it is written into the manifest.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Wanted {
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
type Place = (usize, u64);

/// The decision closest to a time on one side of it, so far.
type Nearest = Option<(SystemTime, Place)>;

/// The members of a line by which it is selected.
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

/// The selected lines of a file, and its events about files and lines.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    /// The numbers of the selected lines, in ascending order.
    pub(super) lines: Vec<u64>,
    /// The numbers of files that it says were deleted.
    pub(super) deleted: Vec<u64>,
    /// The ranges of lines that it says were not signed by the process that wrote them.
    pub(super) doubts: Vec<Doubt>,
}

/// A range of lines that the log itself says are not authentic for certain.
#[derive(Clone, Debug)]
pub(super) struct Doubt {
    pub(super) lines: Range<u64>,
    /// Whether somebody else wrote them. If not, a process that was killed may have.
    pub(super) is_foreign: bool,
}

impl Chosen {
    /// Returns the range of unsigned lines that contains a line, if one does.
    pub(super) fn doubt(&self, number: u64) -> Option<&Doubt> {
        let mut doubts = self.doubts.iter();
        doubts.find(|doubt| doubt.lines.contains(&number))
    }

    fn note(&mut self, number: u64, line: &[u8]) {
        let doubt = match Event::read(line).map(|event| event.what) {
            Some(What::Deleted { file }) => {
                self.deleted.push(file);
                return;
            }
            Some(What::Recovered { unsigned_lines, .. }) => Doubt {
                lines: number.saturating_sub(unsigned_lines)..number,
                is_foreign: false,
            },
            Some(What::Altered {
                foreign_lines: Some(foreign),
                ..
            }) => Doubt {
                lines: number.saturating_sub(foreign)..number,
                is_foreign: true,
            },
            _ => return,
        };
        self.doubts.push(doubt);
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
pub(super) fn select(files: &[LogFile], wanted: &Wanted) -> anyhow::Result<Vec<Chosen>> {
    let mut chosen: Vec<_> = files.iter().map(|_| Chosen::default()).collect();
    let (mut before, mut after): (Nearest, Nearest) = (None, None);
    for (index, file) in files.iter().enumerate() {
        file.read(|number, line| {
            if line.starts_with(START) {
                chosen[index].note(number, line);
                return Ok(());
            }
            // Torn and foreign lines are not decisions. They are left out here, and reported by the check of the chain.
            let Ok(entry) = serde_json::from_slice::<Entry<'_>>(line) else {
                return Ok(());
            };
            let is_by = |crawler: &Option<String>| {
                crawler.as_ref().is_none_or(|name| *name == entry.crawler)
            };
            let at = humantime::parse_rfc3339(&entry.at).unwrap_or(SystemTime::UNIX_EPOCH);
            let place = (index, number);
            match wanted {
                Wanted::Id(id) if *id == entry.id => chosen[index].lines.push(number),
                Wanted::Since { since, crawler } if at >= *since && is_by(crawler) => {
                    chosen[index].lines.push(number);
                }
                Wanted::Url {
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
