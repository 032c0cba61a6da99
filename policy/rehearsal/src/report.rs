//! The result of a rehearsal.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde::Serialize;
use wayleave_decision::WellKnownCrawler;
use wayleave_robots_txt::lint::{Finding, LineField, statements};
use wayleave_robots_txt::{UrlPath, excerpt, numbered_lines};

use crate::claims;
use crate::judge::dialects;
use crate::rehearsal::Rehearsal;
use crate::roster::NamedCrawler;
use crate::tally::{CrawlerTally, OTHER_LINES, SimilarRequests, Traffic};

/// The most crawlers that are named for one file.
const MAX_NAMES: usize = 20;

/// What a robots.txt would do to the requests of a log.
#[derive(Clone, Debug, Serialize)]
pub struct RehearsalReport {
    /// All requests.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// The requests of people, and of programs without a crawler's name, about which nothing is decided.
    pub people: Traffic,
    /// The number of lines that are no request.
    pub bad_lines: u64,
    /// The first of them.
    pub first_bad_line: Option<BadLineRow>,
    /// Whether an old file is compared: all members about changes are 0 or empty without.
    pub has_before: bool,
    /// What crawlers would be shut out of, each by its own dialect.
    pub shut_out: Traffic,
    /// What they are shut out of by the old file.
    pub shut_out_before: Traffic,
    /// What the new file shuts out, and the old one does not.
    pub newly_shut_out: Traffic,
    /// What the old file shuts out, and the new one does not.
    pub newly_let_in: Traffic,
    /// The crawlers of the log.
    pub crawlers: Vec<CrawlerRow>,
    /// What each group of the new file shuts out.
    pub groups: Vec<GroupRow>,
    /// What each line of the new file shuts each crawler out of.
    pub lines: Vec<LineRow>,
    /// The same for what the old file does not shut out.
    pub new_lines: Vec<LineRow>,
    /// What the new file lets in, by the line of the old file.
    pub let_in: Vec<LineRow>,
    /// Files that pages load, of which crawlers would be shut out although the pages stay allowed.
    pub lost_files: Vec<LostFileRow>,
    /// Lines that do nothing, or say what is not so.
    pub findings: Vec<Finding>,
    /// Rules that decided about no request of the log.
    pub idle_rules: Vec<RuleRow>,
}

/// A line that is no request.
#[derive(Clone, Debug, Serialize)]
pub struct BadLineRow {
    /// The log, as it was named.
    pub log: String,
    /// The line, from 1.
    pub line: u64,
    /// What it lacks.
    pub why: &'static str,
}

/// A crawler of the log.
#[derive(Clone, Debug, Serialize)]
pub struct CrawlerRow {
    /// Its name.
    pub crawler: String,
    /// Whose it is, if it is well known.
    pub owner: Option<&'static str>,
    /// The dialect in which it reads robots.txt.
    pub dialect: &'static str,
    /// The group that it follows in the new file.
    pub group: Option<String>,
    /// What its owner documents about robots.txt, if that is not the usual.
    pub remark: Option<String>,
    /// Its requests.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// What it would be shut out of.
    pub shut_out: Traffic,
    /// What it is shut out of by the old file.
    pub shut_out_before: Traffic,
    /// What the new file shuts out, and the old one does not.
    pub newly_shut_out: Traffic,
    /// What the old file shuts out, and the new one does not.
    pub newly_let_in: Traffic,
    /// What other dialects decide otherwise by the new file.
    pub otherwise: Vec<DialectRow>,
}

/// Requests about which a dialect decides otherwise than that of the crawler.
#[derive(Clone, Debug, Serialize)]
pub struct DialectRow {
    /// The dialect.
    pub dialect: &'static str,
    /// Its verdict: `allow` or `disallow`.
    pub verdict: &'static str,
    /// The requests.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// The shortest of their paths.
    pub example: String,
}

/// Requests that a group shuts out.
#[derive(Clone, Debug, Serialize)]
pub struct GroupRow {
    /// The name of the group.
    pub group: Option<String>,
    /// The crawlers that follow it and lose something.
    pub crawlers: Vec<String>,
    /// The requests.
    #[serde(flatten)]
    pub traffic: Traffic,
}

/// Requests of one crawler that a line decides about.
#[derive(Clone, Debug, Serialize)]
pub struct LineRow {
    /// The crawler.
    pub crawler: String,
    /// The group that it follows.
    pub group: Option<String>,
    /// The line; none if finding it takes too long, or for the sum of many lines.
    pub line: Option<u32>,
    /// The line's text.
    pub rule: String,
    /// The requests.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// The shortest of their paths.
    pub example: String,
}

/// A file that pages load, and that crawlers would lose.
#[derive(Clone, Debug, Serialize)]
pub struct LostFileRow {
    /// Its path.
    pub path: String,
    /// The kind of file.
    pub kind: &'static str,
    /// A page that loads it and stays allowed; none if only its type says that it is for a page.
    pub page: Option<String>,
    /// The line that shuts the first of the crawlers out.
    pub line: Option<u32>,
    /// The line's text.
    pub rule: String,
    /// The first of the crawlers that lose it, by name.
    pub crawlers: Vec<String>,
    /// The number of all crawlers that lose it.
    pub crawler_count: usize,
    /// Whether the old file, if one is compared, let the first of them have it.
    pub is_new: bool,
    /// All requests for it, also those of people.
    #[serde(flatten)]
    pub traffic: Traffic,
}

/// A rule of the file.
#[derive(Clone, Debug, Serialize)]
pub struct RuleRow {
    /// Its line.
    pub line: u32,
    /// The line's text.
    pub rule: String,
}

impl RehearsalReport {
    /// Sums up a rehearsal. `logs` are the names of the logs, as they are shown.
    #[must_use]
    pub fn new(rehearsal: &Rehearsal<'_>, logs: &[String]) -> Self {
        let robots = rehearsal.robots;
        let crawlers = &rehearsal.crawlers;
        let texts = line_texts(&robots.body);
        let texts_before = line_texts(robots.body_before.as_deref().unwrap_or_default());
        let sum = |part: fn(&CrawlerTally) -> Traffic| {
            crawlers.iter().fold(Traffic::default(), |mut sum, crawler| {
                sum.merge(part(crawler));
                sum
            })
        };
        let seen: HashSet<String> =
            crawlers.iter().map(|tally| tally.crawler.name.to_ascii_lowercase()).collect();
        let mut rows: Vec<_> = crawlers.iter().map(|tally| rehearsal.crawler_row(tally)).collect();
        rows.sort_by_cached_key(|row| (Reverse((row.shut_out, row.traffic)), row.crawler.clone()));
        Self {
            traffic: rehearsal.requests,
            people: rehearsal.people,
            bad_lines: rehearsal.bad_lines,
            first_bad_line: rehearsal.first_bad.as_ref().map(|bad| BadLineRow {
                log: logs.get(bad.place.file).cloned().unwrap_or_default(),
                line: bad.place.line,
                why: bad.why,
            }),
            has_before: robots.has_before(),
            shut_out: sum(|tally| tally.shut_out),
            shut_out_before: sum(|tally| tally.shut_out_before),
            newly_shut_out: sum(|tally| tally.newly_shut_out),
            newly_let_in: sum(|tally| tally.newly_let_in),
            groups: group_rows(&rows),
            lines: rehearsal.line_rows(|tally| &tally.lines, &texts, false),
            new_lines: rehearsal.line_rows(|tally| &tally.new_lines, &texts, false),
            let_in: rehearsal.line_rows(|tally| &tally.lifted_lines, &texts_before, true),
            crawlers: rows,
            lost_files: rehearsal.lost_files(&texts),
            findings: claims::find(&robots.body, &seen),
            idle_rules: rehearsal.idle_rules(&texts),
        }
    }

    /// Returns whether anything changes or, if no old file is compared, is shut out.
    #[must_use]
    pub fn has_effect(&self) -> bool {
        if self.has_before {
            self.newly_shut_out.requests > 0 || self.newly_let_in.requests > 0
        } else {
            self.shut_out.requests > 0
        }
    }
}

/// Returns the text of each line.
fn line_texts(body: &[u8]) -> HashMap<u32, String> {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    let text = |line: &[u8]| {
        let statement = line.split(|byte| *byte == b'#').next().unwrap_or_default();
        excerpt(&String::from_utf8_lossy(statement.trim_ascii())).into_owned()
    };
    numbered_lines(body).map(|(number, line)| (number, text(line))).collect()
}

/// Returns the number and the text of a line that decided.
fn decided_by(line: u32, texts: &HashMap<u32, String>) -> (Option<u32>, String) {
    match line {
        0 => (None, "finding the rule takes too long".to_owned()),
        OTHER_LINES => (None, "other lines".to_owned()),
        line => (Some(line), texts.get(&line).cloned().unwrap_or_default()),
    }
}

fn group_rows(rows: &[CrawlerRow]) -> Vec<GroupRow> {
    let mut groups: BTreeMap<Option<String>, GroupRow> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.shut_out.requests > 0) {
        let group = groups.entry(row.group.as_ref().map(|name| name.to_ascii_lowercase()));
        let group = group.or_insert_with(|| GroupRow {
            group: row.group.clone(),
            crawlers: Vec::new(),
            traffic: Traffic::default(),
        });
        group.crawlers.push(row.crawler.clone());
        group.traffic.merge(row.shut_out);
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by_key(|row| Reverse(row.traffic));
    groups
}

impl Rehearsal<'_> {
    fn crawler_row(&self, tally: &CrawlerTally) -> CrawlerRow {
        let crawler = &tally.crawler;
        let row = |(by_verdict, dialect): (&[SimilarRequests; 2], &'static str)| {
            let verdicts = by_verdict.iter().zip(["allow", "disallow"]);
            let rows = verdicts.filter(|(requests, _)| requests.traffic.requests > 0);
            rows.map(|(requests, verdict)| DialectRow {
                dialect,
                verdict,
                traffic: requests.traffic,
                example: requests.example.clone(),
            })
            .collect::<Vec<_>>()
        };
        let names = dialects().iter().map(|dialect| dialect.as_str());
        CrawlerRow {
            crawler: crawler.name.clone(),
            owner: crawler.listed.and_then(|listed| listed.owner),
            dialect: crawler.dialect.as_str(),
            group: self.robots.group(crawler, false),
            remark: crawler.listed.and_then(remark),
            traffic: tally.requests,
            shut_out: tally.shut_out,
            shut_out_before: tally.shut_out_before,
            newly_shut_out: tally.newly_shut_out,
            newly_let_in: tally.newly_let_in,
            otherwise: tally.otherwise.iter().zip(names).flat_map(row).collect(),
        }
    }

    fn line_rows(
        &self,
        lines: fn(&CrawlerTally) -> &HashMap<u32, SimilarRequests>,
        texts: &HashMap<u32, String>,
        is_before: bool,
    ) -> Vec<LineRow> {
        let mut rows = Vec::new();
        for tally in &self.crawlers {
            let group = self.robots.group(&tally.crawler, is_before);
            for (line, requests) in lines(tally) {
                let (line, rule) = decided_by(*line, texts);
                rows.push(LineRow {
                    crawler: tally.crawler.name.clone(),
                    group: group.clone(),
                    line,
                    rule,
                    traffic: requests.traffic,
                    example: requests.example.clone(),
                });
            }
        }
        rows.sort_by_cached_key(|row| (Reverse(row.traffic), row.crawler.clone(), row.line));
        rows
    }

    /// Returns the files that crawlers of the log would lose although a page that loads them stays allowed.
    fn lost_files(&self, texts: &HashMap<u32, String>) -> Vec<LostFileRow> {
        let own_host = self.wanted.own_host().unwrap_or_default();
        let mut rows: BTreeMap<(&str, u32), LostFileRow> = BTreeMap::new();
        // Crawlers with the same rules lose the same files, and anybody can invent names.
        let mut by_rules: BTreeMap<_, Vec<&NamedCrawler>> = BTreeMap::new();
        for tally in &self.crawlers {
            by_rules.entry(self.robots.rules_of(&tally.crawler)).or_default().push(&tally.crawler);
        }
        by_rules.values_mut().for_each(|crawlers| crawlers.sort_by_key(|crawler| &crawler.name));
        for (path, file) in &self.wanted.files {
            let url_path = UrlPath::from_checked(path);
            let own = file.pages.iter().filter(|page| page.0 == own_host);
            let pages: BTreeSet<&str> = own.map(|page| &*page.1).collect();
            for crawlers in by_rules.values() {
                let crawler = crawlers[0];
                let judged = self.robots.judge(crawler, &url_path);
                if !judged.is_shut_out {
                    continue;
                }
                let is_open = |page: &&str| {
                    !self.robots.judge(crawler, &UrlPath::from_checked(*page)).is_shut_out
                };
                let page = pages.iter().copied().find(is_open);
                // Without a known page, the file is lost unless the crawler is shut out altogether.
                if page.is_none() && (!pages.is_empty() || !is_open(&"/")) {
                    continue;
                }
                let row = rows.entry((path, judged.line)).or_insert_with(|| {
                    let (line, rule) = decided_by(judged.line, texts);
                    LostFileRow {
                        path: path.clone(),
                        kind: file.kind.as_str(),
                        page: page.map(str::to_owned),
                        line,
                        rule,
                        crawlers: Vec::new(),
                        crawler_count: 0,
                        is_new: self.robots.has_before() && !judged.was_shut_out,
                        traffic: file.requests,
                    }
                });
                row.crawler_count += crawlers.len();
                let names = crawlers.iter().map(|crawler| crawler.name.clone());
                row.crawlers.extend(names.take(MAX_NAMES));
            }
        }
        let mut rows: Vec<_> = rows.into_values().collect();
        for row in &mut rows {
            row.crawlers.sort();
            row.crawlers.truncate(MAX_NAMES);
        }
        rows.sort_by_key(|row| Reverse(row.traffic));
        rows
    }

    fn idle_rules(&self, texts: &HashMap<u32, String>) -> Vec<RuleRow> {
        let has_decided =
            |line: u32| self.decided.get(line as usize).is_some_and(|has_decided| *has_decided);
        let rules = statements(&self.robots.body).into_iter().filter(|(line, statement)| {
            matches!(statement.field, LineField::Allow | LineField::Disallow)
                && !statement.value.is_empty()
                && !has_decided(*line)
        });
        let row = |line| RuleRow { line, rule: texts.get(&line).cloned().unwrap_or_default() };
        rules.map(|(line, _)| row(line)).collect()
    }
}

/// Returns what the owner of a crawler documents about robots.txt, if that is not the usual.
fn remark(listed: &WellKnownCrawler) -> Option<String> {
    let after = listed.after.map(|token| format!("follows {token} without a group of its own"));
    let star = (!listed.reads_star()).then(|| "the group of * does not count for it".to_owned());
    let ignores = listed
        .may_ignore_robots()
        .then(|| "may ignore robots.txt: it fetches for a user, or for safety".to_owned());
    let remarks: Vec<_> = [after, star, ignores].into_iter().flatten().collect();
    (!remarks.is_empty()).then(|| remarks.join("; "))
}
