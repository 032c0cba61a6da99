//! Which decisions of a log are wanted.

use std::borrow::Cow;
use std::ops::Range;
use std::time::SystemTime;

use serde::{Deserialize, Serialize, Serializer};
use wayleave_robots_txt::Target;

use super::log::LogFile;
use crate::clock::rfc3339;
use crate::observe::chain::event::{Event, START, What};

/// Which decisions are wanted; as it is written into an export.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Wanted {
    /// The one with this id.
    Id(String),
    /// The last about this URL at that time, and the first after it.
    Url {
        #[serde(serialize_with = "as_text")]
        url: Target,
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

fn as_text<S: Serializer>(target: &Target, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(target)
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

/// The lines of a file that are wanted, and what it says of the log itself.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    /// The numbers of the lines, in their order.
    pub(super) lines: Vec<u64>,
    /// The files that it says were deleted.
    pub(super) deleted: Vec<u64>,
    /// Lines that were not signed by who wrote them.
    pub(super) doubts: Vec<Doubt>,
}

/// Lines that the log itself says nobody vouches for.
#[derive(Clone, Debug)]
pub(super) struct Doubt {
    pub(super) lines: Range<u64>,
    /// Somebody else wrote them; else a process that was killed may have.
    pub(super) is_foreign: bool,
}

impl Chosen {
    /// Whether nobody vouches for a line.
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

/// Whether a decision about `url` is one about the URL that is `asked` for, by any spelling that decisions take for the same.
fn is_about(url: &str, asked: &Target) -> bool {
    let may_be = || url.starts_with(&asked.origin().to_string());
    let is_spelling = |target: Target| target.is_spelling_of(asked);
    may_be() && Target::parse(url).is_ok_and(is_spelling)
}

/// What of each file is wanted.
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
