//! The answers of a run on disk, one a line, so that an interrupted run goes on where it ended.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use wayleave_decision_log::TimeRange;
use wayleave_notation::rfc3339;
use wayleave_record::Word;
use wayleave_usage_preferences::Purpose;

use super::pages::PageKey;

/// The time after which an interrupted run is not continued: its first answers are not those of today any more.
const MAX_AGE: Duration = Duration::from_hours(24);
const ANSWERS_FILE: &str = "answers.jsonl";
/// The last line of a run that has asked about every page.
const FINISHED: &str = "{\"finished\":true}";

/// What a run is about: its first line.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct RunQuestion {
    pub(super) log: PathBuf,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "rfc3339::serialize_some",
        deserialize_with = "rfc3339::deserialize_some"
    )]
    pub(super) since: Option<SystemTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) purpose: Option<Word<Purpose>>,
    /// Requests from then on do not count, so that the list is that of one moment.
    #[serde(serialize_with = "rfc3339::serialize", deserialize_with = "rfc3339::deserialize")]
    pub(super) started_at: SystemTime,
}

/// The refusal of a page today.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct RefusedNow {
    /// The rule that decides, as reports name it: `Disallow: /old (https://shop.example/robots.txt:3)`, `train-ai by rsl`.
    pub(super) rule: String,
    pub(super) reason: String,
    /// The place of the statement about use, such as `robots.txt:17`, and the statement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) carrier: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) statement: Option<String>,
}

#[derive(Deserialize, Serialize)]
struct AnswerLine {
    page: PageKey,
    refused: Option<RefusedNow>,
}

/// The answers of a run.
pub(super) struct Answers {
    file: File,
    permitted: HashSet<PageKey>,
    refused: HashMap<PageKey, RefusedNow>,
    /// Pages without an answer, which a resumed run asks about again, by the reason.
    undecided: HashMap<PageKey, String>,
}

impl RunQuestion {
    /// Returns the time range of the requests that count.
    pub(super) fn range(&self) -> TimeRange {
        TimeRange { since: self.since, until: Some(self.started_at) }
    }

    /// Returns whether `later` continues this run.
    fn is_continued_by(&self, later: &Self) -> bool {
        let age = later.started_at.duration_since(self.started_at).unwrap_or_default();
        // A span before now begins later each time.
        let has_same_span = match (self.since, later.since) {
            (Some(since), Some(again)) => {
                again.duration_since(since).is_ok_and(|shift| shift <= age + Duration::from_secs(1))
            }
            (since, again) => since == again,
        };
        age < MAX_AGE && has_same_span && self.log == later.log && self.purpose == later.purpose
    }
}

/// Returns the name of the directory of a run that began then.
pub(super) fn dir_name(started_at: SystemTime) -> String {
    humantime::format_rfc3339_millis(started_at).to_string().replace([':', '-'], "")
}

/// Returns the directories of runs that `question` may continue, the newest first.
pub(super) fn unfinished(runs: &Path, question: &RunQuestion) -> Vec<PathBuf> {
    let entries = fs::read_dir(runs).into_iter().flatten().flatten();
    let mut dirs: Vec<_> = entries.map(|entry| entry.path()).collect();
    dirs.sort_unstable_by(|one, other| other.cmp(one));
    dirs.retain(|dir| {
        let Ok(text) = fs::read_to_string(dir.join(ANSWERS_FILE)) else { return false };
        let first = text.lines().next().unwrap_or_default();
        let begun = serde_json::from_str::<RunQuestion>(first);
        begun.is_ok_and(|begun| begun.is_continued_by(question))
            && text.lines().next_back() != Some(FINISHED)
    });
    dirs
}

impl Answers {
    /// Begins a run in its directory.
    pub(super) fn create(dir: &Path, question: &RunQuestion) -> anyhow::Result<Self> {
        let path = dir.join(ANSWERS_FILE);
        let file = File::options().create_new(true).append(true).open(&path);
        let mut file = file.with_context(|| format!("creating {}", path.display()))?;
        let line = serde_json::to_string(question)? + "\n";
        file.write_all(line.as_bytes()).with_context(|| format!("writing {}", path.display()))?;
        Ok(Self {
            file,
            permitted: HashSet::new(),
            refused: HashMap::new(),
            undecided: HashMap::new(),
        })
    }

    /// Continues the run in this directory. A line that was cut off is as if it had never been written.
    pub(super) fn open(dir: &Path) -> anyhow::Result<(Self, RunQuestion)> {
        let path = dir.join(ANSWERS_FILE);
        let context = || format!("reading {}", path.display());
        let file = File::options().read(true).append(true).open(&path).with_context(context)?;
        let mut lines = BufReader::new(&file).lines();
        let first = lines.next().context("it is empty").with_context(context)??;
        let question = serde_json::from_str(&first).with_context(context)?;
        let mut permitted = HashSet::new();
        let mut refused = HashMap::new();
        for line in lines {
            let Ok(AnswerLine { page, refused: found }) = serde_json::from_str(&line?) else {
                continue;
            };
            match found {
                Some(found) => drop(refused.insert(page, found)),
                None => drop(permitted.insert(page)),
            }
        }
        // The end of the last line may be missing.
        (&file).write_all(b"\n").with_context(context)?;
        Ok((Self { file, permitted, refused, undecided: HashMap::new() }, question))
    }

    /// Keeps what would happen to a page today: `Ok` if it would be forwarded.
    pub(super) fn add(
        &mut self,
        page: PageKey,
        answer: Result<Option<RefusedNow>, String>,
    ) -> anyhow::Result<()> {
        let refused = match answer {
            Ok(refused) => refused,
            Err(reason) => {
                self.undecided.insert(page, reason);
                return Ok(());
            }
        };
        let line = serde_json::to_string(&AnswerLine { page, refused: refused.clone() })? + "\n";
        self.file.write_all(line.as_bytes()).context("writing the answers")?;
        match refused {
            Some(refused) => drop(self.refused.insert(page, refused)),
            None => drop(self.permitted.insert(page)),
        }
        Ok(())
    }

    /// Returns the refusal of a page, if it is refused.
    pub(super) fn refused(&self, page: PageKey) -> Option<&RefusedNow> {
        self.refused.get(&page)
    }

    /// Returns whether there is an answer about a page.
    pub(super) fn is_known(&self, page: PageKey) -> bool {
        self.permitted.contains(&page) || self.refused.contains_key(&page)
    }

    /// Returns the number of answers.
    pub(super) fn count(&self) -> u64 {
        (self.permitted.len() + self.refused.len()) as u64
    }

    /// Returns the reasons for which pages have no answer, each with the number of pages, the most frequent first.
    pub(super) fn undecided_reasons(&self) -> impl Iterator<Item = (String, u64)> {
        let mut counts = HashMap::<&str, u64>::new();
        for reason in self.undecided.values() {
            *counts.entry(reason).or_default() += 1;
        }
        let mut counts: Vec<_> =
            counts.into_iter().map(|(reason, count)| (reason.to_owned(), count)).collect();
        counts.sort_unstable_by(|one, other| (other.1, &one.0).cmp(&(one.1, &other.0)));
        counts.into_iter()
    }

    /// Marks the run as one that has asked about every page.
    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        let line = FINISHED.to_owned() + "\n";
        self.file.write_all(line.as_bytes()).context("writing the answers")
    }
}
