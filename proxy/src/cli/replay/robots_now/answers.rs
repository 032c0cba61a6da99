//! The answers of a run on disk, one a line, so that an interrupted run goes on where it ended.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use wayleave_decision_log::{LogPlace, TimeRange};
use wayleave_notation::rfc3339;
use wayleave_record::Word;
use wayleave_usage_preferences::Purpose;

use super::pages::{LogSpan, PageKey};

/// The time after which an interrupted run is not continued: its first answers are not those of today any more.
const MAX_AGE: Duration = Duration::from_hours(24);
const ANSWERS_FILE: &str = "answers.jsonl";
/// The last line of a run that has asked about every page.
const FINISHED: &str = "{\"finished\":true}\n";

/// The subject of a run: its first line.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct RunQuestion {
    pub(super) log: PathBuf,
    /// The argument of `--since`; a run is only continued with the same.
    pub(super) since_argument: Option<String>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "rfc3339::serialize_some",
        deserialize_with = "rfc3339::deserialize_some"
    )]
    pub(super) since: Option<SystemTime>,
    pub(super) purpose: Option<Word<Purpose>>,
    /// The product tokens of clients that have a crawler in the run, if it is about one purpose.
    pub(super) unnamed: Option<Vec<Vec<String>>>,
    /// Requests from then on do not count, so that the list is that of one moment.
    #[serde(serialize_with = "rfc3339::serialize", deserialize_with = "rfc3339::deserialize")]
    pub(super) started_at: SystemTime,
}

/// The refusal of a page today.
#[derive(Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
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
    refused: Option<Arc<RefusedNow>>,
}

/// The answers of a run.
pub(super) struct Answers {
    file: File,
    /// The refusal of each page, or none if it would be forwarded.
    known: HashMap<PageKey, Option<Arc<RefusedNow>>>,
    /// The different refusals: those of one site are mostly the same.
    refusals: HashSet<Arc<RefusedNow>>,
    /// The number of pages without an answer, by the reason.
    undecided: HashMap<String, u64>,
}

impl RunQuestion {
    /// Returns the time range of the requests that count.
    pub(super) fn range(&self) -> TimeRange {
        TimeRange { since: self.since, until: Some(self.started_at) }
    }

    /// Returns the part of its log that the run is about.
    pub(super) fn span<'a>(&'a self, log: LogPlace<'a>) -> LogSpan<'a> {
        LogSpan { log, range: self.range(), unnamed: self.unnamed.as_deref() }
    }

    /// Returns whether `later` continues this run.
    fn is_continued_by(&self, later: &Self) -> bool {
        let age = later.started_at.duration_since(self.started_at);
        age.is_ok_and(|age| age < MAX_AGE)
            && self.log == later.log
            && self.since_argument == later.since_argument
            && self.purpose == later.purpose
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
    dirs.retain(|dir| is_unfinished(dir, question).unwrap_or(false));
    dirs
}

fn is_unfinished(dir: &Path, question: &RunQuestion) -> anyhow::Result<bool> {
    let mut file = File::open(dir.join(ANSWERS_FILE))?;
    let mut first = Vec::new();
    BufReader::new(&file).read_until(b'\n', &mut first)?;
    let begun: RunQuestion = serde_json::from_slice(&first)?;
    let length = file.metadata()?.len();
    let mut end = Vec::new();
    file.seek(SeekFrom::Start(length.saturating_sub(FINISHED.len() as u64)))?;
    file.read_to_end(&mut end)?;
    Ok(end != FINISHED.as_bytes() && begun.is_continued_by(question))
}

impl Answers {
    fn new(file: File) -> Self {
        Self { file, known: HashMap::new(), refusals: HashSet::new(), undecided: HashMap::new() }
    }

    /// Begins a run in its directory.
    pub(super) fn create(dir: &Path, question: &RunQuestion) -> anyhow::Result<Self> {
        let path = dir.join(ANSWERS_FILE);
        let file = File::options().create_new(true).append(true).open(&path);
        let mut file = file.with_context(|| format!("creating {}", path.display()))?;
        let line = serde_json::to_string(question)? + "\n";
        file.write_all(line.as_bytes()).with_context(|| format!("writing {}", path.display()))?;
        Ok(Self::new(file))
    }

    /// Continues the run in this directory. The end of the file may have been cut off anywhere.
    pub(super) fn open(dir: &Path) -> anyhow::Result<(Self, RunQuestion)> {
        let path = dir.join(ANSWERS_FILE);
        let context = || format!("reading {}", path.display());
        let file = File::options().read(true).append(true).open(&path).with_context(context)?;
        let mut reader = BufReader::new(file.try_clone()?);
        let mut answers = Self::new(file);
        let mut line = Vec::new();
        let mut whole = reader.read_until(b'\n', &mut line).with_context(context)?;
        let question = serde_json::from_slice(&line).with_context(context)?;
        loop {
            line.clear();
            let length = reader.read_until(b'\n', &mut line).with_context(context)?;
            if line.last() != Some(&b'\n') {
                break;
            }
            let AnswerLine { page, refused } =
                serde_json::from_slice(&line).with_context(context)?;
            answers.remember(page, refused);
            whole += length;
        }
        answers.file.set_len(whole as u64).with_context(context)?;
        Ok((answers, question))
    }

    fn remember(&mut self, page: PageKey, refused: Option<Arc<RefusedNow>>) {
        let refused = refused.map(|refused| {
            let known = self.refusals.get(&refused).cloned();
            known.unwrap_or_else(|| {
                self.refusals.insert(Arc::clone(&refused));
                refused
            })
        });
        self.known.insert(page, refused);
    }

    /// Keeps the answer about a page: `Ok(None)` if it would be forwarded.
    pub(super) fn add(
        &mut self,
        page: PageKey,
        answer: Result<Option<RefusedNow>, String>,
    ) -> anyhow::Result<()> {
        match answer {
            Ok(refused) => {
                let answer = AnswerLine { page, refused: refused.map(Arc::new) };
                let line = serde_json::to_string(&answer)? + "\n";
                self.file.write_all(line.as_bytes()).context("writing the answers")?;
                self.remember(page, answer.refused);
            }
            Err(reason) => *self.undecided.entry(reason).or_default() += 1,
        }
        Ok(())
    }

    /// Returns the refusal of a page, if it is refused.
    pub(super) fn refused(&self, page: PageKey) -> Option<&RefusedNow> {
        self.known.get(&page)?.as_deref()
    }

    /// Returns whether there is an answer about a page.
    pub(super) fn is_known(&self, page: PageKey) -> bool {
        self.known.contains_key(&page)
    }

    /// Returns the number of answers.
    pub(super) fn count(&self) -> u64 {
        self.known.len() as u64
    }

    /// Returns the reasons for which pages have no answer, each with the number of pages, the most frequent first.
    pub(super) fn undecided_reasons(&self) -> Vec<(&str, u64)> {
        let counts = self.undecided.iter().map(|(reason, count)| (&**reason, *count));
        let mut counts: Vec<_> = counts.collect();
        counts.sort_unstable_by_key(|(reason, count)| (Reverse(*count), *reason));
        counts
    }

    /// Marks the run as one that has asked about every page.
    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        self.file.write_all(FINISHED.as_bytes()).context("writing the answers")
    }
}
