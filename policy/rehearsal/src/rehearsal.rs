//! Reads the lines of logs and counts.

use std::borrow::Cow;
use std::collections::HashMap;

use wayleave_decision::SubresourceKind;
use wayleave_robots_txt::{ProductToken, UrlPath};

use crate::judge::{JudgedPath, RobotsPair};
use crate::log_line::{LogFormat, LoggedRequest};
use crate::lost_files::WantedFiles;
use crate::roster::NamedCrawler;
use crate::tally::{CrawlerTally, Traffic};

/// The most crawlers without a place in the list that are counted apart: anybody can invent names.
const MAX_CRAWLERS: usize = 1_000;
/// The name of all others.
const OTHERS: &str = "others";
/// The bytes that remembered verdicts, and remembered User-Agents, may take.
const MAX_REMEMBERED_BYTES: usize = 4 * 1024 * 1024;
/// The bytes that an entry takes besides its text.
const ENTRY_BYTES: usize = 160;
/// The longest text that is remembered: longer ones hardly ever come again.
const MAX_REMEMBERED_TEXT: usize = 1_024;

/// The place of a line in the logs; the order is that in which the logs were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinePlace {
    /// The number of the log, from 0.
    pub file: usize,
    /// The line, from 1.
    pub line: u64,
}

/// A line that is no request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BadLine {
    /// Where it is.
    pub place: LinePlace,
    /// What it lacks.
    pub why: &'static str,
}

/// The counts of an access log under a robots.txt. Several, of parts of a log, can be merged.
#[derive(Debug)]
pub struct Rehearsal<'a> {
    pub(crate) robots: &'a RobotsPair,
    format: Option<LogFormat>,
    pub(crate) requests: Traffic,
    pub(crate) people: Traffic,
    pub(crate) bad_lines: u64,
    pub(crate) first_bad: Option<BadLine>,
    pub(crate) crawlers: Vec<CrawlerTally>,
    by_name: HashMap<String, usize>,
    pub(crate) wanted: WantedFiles,
    /// Whether each line of the new file has decided about a request, by its number.
    pub(crate) decided: Vec<bool>,
    agents: Remembered<Option<usize>>,
    /// The verdicts for each crawler, in the order of `crawlers`.
    verdicts: Vec<Remembered<JudgedPath>>,
    verdict_bytes: usize,
    files: Remembered<bool>,
}

/// What is known of texts that come again and again.
#[derive(Debug)]
struct Remembered<V> {
    values: HashMap<Box<[u8]>, V>,
    bytes: usize,
}

impl<V: Copy> Remembered<V> {
    fn new() -> Self {
        Self { values: HashMap::new(), bytes: 0 }
    }

    fn get(&self, text: &[u8]) -> Option<V> {
        self.values.get(text).copied()
    }

    /// Remembers a value, and forgets all others first if there is no room. Returns the bytes that it takes.
    fn insert(&mut self, text: &[u8], value: V) -> usize {
        if text.len() > MAX_REMEMBERED_TEXT {
            return 0;
        }
        if self.bytes > MAX_REMEMBERED_BYTES {
            *self = Self::new();
        }
        let bytes = text.len() + ENTRY_BYTES;
        self.bytes += bytes;
        self.values.insert(text.into(), value);
        bytes
    }
}

impl<'a> Rehearsal<'a> {
    /// Starts counting; without a format, a line that begins with a brace is JSON.
    #[must_use]
    pub fn new(robots: &'a RobotsPair, format: Option<LogFormat>) -> Self {
        Self {
            robots,
            format,
            requests: Traffic::default(),
            people: Traffic::default(),
            bad_lines: 0,
            first_bad: None,
            crawlers: Vec::new(),
            by_name: HashMap::new(),
            wanted: WantedFiles::default(),
            decided: Vec::new(),
            agents: Remembered::new(),
            verdicts: Vec::new(),
            verdict_bytes: 0,
            files: Remembered::new(),
        }
    }

    /// Counts a line, without its line end. Empty lines are skipped.
    pub fn add_line(&mut self, line: &[u8], place: LinePlace) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let counted =
            LogFormat::parse(self.format, line).and_then(|request| self.add_request(&request));
        if let Err(why) = counted {
            self.add_bad_line(BadLine { place, why });
        }
    }

    /// Counts a line that is not given, because it is no request.
    fn add_bad_line(&mut self, bad: BadLine) {
        self.bad_lines += 1;
        if self.first_bad.as_ref().is_none_or(|first| bad < *first) {
            self.first_bad = Some(bad);
        }
    }

    fn add_request(&mut self, request: &LoggedRequest<'_>) -> Result<(), &'static str> {
        let target = escape_foreign(&request.target);
        let path = path_of(&target).ok_or("the request has no path")?;
        self.requests.add(request.bytes);
        let kind = SubresourceKind::ALL.iter().copied();
        let kind = kind
            .filter(|kind| !request.content_type.is_empty() && kind.is_type(&request.content_type))
            .chain(SubresourceKind::of_path(path.as_str()))
            .next();
        if let Some(kind) = kind
            && self.is_kept_from_anybody(&path)
        {
            self.wanted.add(&path, kind, request.bytes, &request.referer);
        } else if kind.is_some() {
            self.wanted.add_host(&request.referer);
        }
        let Some(index) = self.crawler_of(&request.user_agent) else {
            self.people.add(request.bytes);
            return Ok(());
        };
        let judged = self.judge(index, &path);
        let line = judged.line as usize;
        if self.decided.len() <= line {
            self.decided.resize(line + 1, false);
        }
        self.decided[line] = true;
        let has_before = self.robots.has_before();
        self.crawlers[index].add(path.as_str(), judged, request.bytes, has_before);
        Ok(())
    }

    /// Returns the place of the crawler that a `User-Agent` names.
    fn crawler_of(&mut self, user_agent: &[u8]) -> Option<usize> {
        if let Some(known) = self.agents.get(user_agent) {
            return known;
        }
        let index = self.robots.roster.find(user_agent).map(|crawler| self.place_of(crawler));
        self.agents.insert(user_agent, index);
        index
    }

    /// Returns the place of a crawler among those that are counted.
    fn place_of(&mut self, crawler: NamedCrawler) -> usize {
        let has_room = crawler.listed.is_some() || self.crawlers.len() < MAX_CRAWLERS;
        let name = crawler.name.to_ascii_lowercase();
        let crawler = match self.by_name.get(&name) {
            Some(known) => return *known,
            None if has_room => crawler,
            // No file has these names, so that the group of * counts for all of them.
            None => NamedCrawler {
                name: OTHERS.to_owned(),
                tokens: vec![ProductToken::anonymous()],
                ..crawler
            },
        };
        let next = self.crawlers.len();
        let place = *self.by_name.entry(crawler.name.to_ascii_lowercase()).or_insert(next);
        if place == next {
            self.crawlers.push(CrawlerTally::new(crawler));
            self.verdicts.push(Remembered::new());
        }
        place
    }

    /// Judges a path for the crawler at this place, or remembers the verdict.
    fn judge(&mut self, index: usize, path: &UrlPath<'_>) -> JudgedPath {
        let key = path.as_str().as_bytes();
        if let Some(known) = self.verdicts[index].get(key) {
            return known;
        }
        let judged = self.robots.judge(&self.crawlers[index].crawler, path);
        if self.verdict_bytes > MAX_REMEMBERED_BYTES {
            self.verdict_bytes = 0;
            self.verdicts.iter_mut().for_each(|verdicts| *verdicts = Remembered::new());
        }
        self.verdict_bytes += self.verdicts[index].insert(key, judged);
        judged
    }

    /// Returns whether the path of a file is kept from anybody.
    fn is_kept_from_anybody(&mut self, path: &UrlPath<'_>) -> bool {
        let key = path.as_str().as_bytes();
        self.files.get(key).unwrap_or_else(|| {
            let is_kept = self.robots.shuts_out_anybody(path);
            self.files.insert(key, is_kept);
            is_kept
        })
    }

    /// Adds the counts of another part of the log.
    pub fn merge(&mut self, other: Self) {
        self.requests.merge(other.requests);
        self.people.merge(other.people);
        if let Some(bad) = other.first_bad {
            self.add_bad_line(bad);
            self.bad_lines += other.bad_lines - 1;
        }
        for tally in other.crawlers {
            let index = self.place_of(tally.crawler.clone());
            self.crawlers[index].merge(tally);
        }
        let lines = self.decided.len().max(other.decided.len());
        self.decided.resize(lines, false);
        for (own, other) in self.decided.iter_mut().zip(other.decided) {
            *own |= other;
        }
        self.wanted.merge(other.wanted);
    }

    /// Returns the number of lines that are requests.
    #[must_use]
    pub fn request_count(&self) -> u64 {
        self.requests.requests
    }

    /// Returns the first line that is no request.
    #[must_use]
    pub fn first_bad_line(&self) -> Option<&BadLine> {
        self.first_bad.as_ref()
    }
}

/// Returns the text of a target; bytes that are not UTF-8 are escaped, as crawlers would send them.
fn escape_foreign(target: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(target) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => {
            let escape = |byte: &u8| match byte {
                0..=0x7f => char::from(*byte).to_string(),
                byte => format!("%{byte:02X}"),
            };
            Cow::Owned(target.iter().map(escape).collect())
        }
    }
}

/// Returns the path of a target: a path, or a URL as proxies get it.
fn path_of(target: &str) -> Option<UrlPath<'_>> {
    UrlPath::parse(target).ok().or_else(|| UrlPath::of_url(target).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembered_texts_are_bounded() {
        let robots = RobotsPair::new(b"User-agent: *\nDisallow: /a\n".to_vec(), None);
        let mut rehearsal = Rehearsal::new(&robots, None);
        let long = "x".repeat(900);
        let place = LinePlace { file: 0, line: 1 };
        for number in 0..20_000 {
            let name = ["GPTBot", "CCBot", "bingbot"][number % 3];
            let line = format!(
                r#"1 - - [x] "GET /a{number}.css?{long} HTTP/1.1" 200 1 "-" "{name}/{number} {long}""#
            );
            rehearsal.add_line(line.as_bytes(), place);
        }
        let texts =
            |values: &HashMap<Box<[u8]>, JudgedPath>| values.keys().map(|text| text.len()).sum();
        let verdicts: usize =
            rehearsal.verdicts.iter().map(|known| -> usize { texts(&known.values) }).sum();
        let agents: usize = rehearsal.agents.values.keys().map(|text| text.len()).sum();
        let files: usize = rehearsal.files.values.keys().map(|text| text.len()).sum();
        for bytes in [verdicts, agents, files] {
            assert!((1..=MAX_REMEMBERED_BYTES).contains(&bytes), "{bytes}");
        }
        assert_eq!(
            rehearsal.crawlers.iter().map(|tally| tally.shut_out.requests).sum::<u64>(),
            20_000
        );
    }
}
