//! Sums about one crawler, and the example that stands for many requests.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde::Serialize;
use wayleave_robots_txt::excerpt;

use crate::judge::{JudgedPath, dialects};
use crate::roster::NamedCrawler;

/// The line that stands for all lines for which there is no room.
pub(crate) const OTHER_LINES: u32 = u32::MAX;
/// The most lines that are counted apart for one crawler.
const MAX_LINES: usize = 1_000;

/// A number of requests, and the bytes of their responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Traffic {
    /// The number of requests.
    pub requests: u64,
    /// The bytes of their responses.
    pub bytes: u64,
}

impl Traffic {
    pub(crate) fn add(&mut self, bytes: u64) {
        self.requests += 1;
        // Strangers may write any number.
        self.bytes = self.bytes.saturating_add(bytes);
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.requests += other.requests;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// Requests that are alike, and the shortest of their paths, which does not depend on the order of the log.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimilarRequests {
    pub(crate) traffic: Traffic,
    pub(crate) example: String,
}

impl SimilarRequests {
    fn add(&mut self, bytes: u64, path: &str) {
        self.traffic.add(bytes);
        self.offer(path);
    }

    fn offer(&mut self, path: &str) {
        let shown = excerpt(path);
        let rank = (shown.len(), &*shown);
        if self.example.is_empty() || rank < (self.example.len(), &self.example) {
            self.example = shown.into_owned();
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.traffic.merge(other.traffic);
        if !other.example.is_empty() {
            self.offer(&other.example);
        }
    }
}

/// The sums about one crawler.
#[derive(Debug)]
pub(crate) struct CrawlerTally {
    pub(crate) crawler: NamedCrawler,
    pub(crate) requests: Traffic,
    pub(crate) shut_out: Traffic,
    pub(crate) shut_out_before: Traffic,
    pub(crate) newly_shut_out: Traffic,
    pub(crate) newly_let_in: Traffic,
    /// By the line that shuts out.
    pub(crate) lines: HashMap<u32, SimilarRequests>,
    /// By the line of the new file that shuts out what the old one did not.
    pub(crate) new_lines: HashMap<u32, SimilarRequests>,
    /// By the line of the old file that shut out what the new one does not.
    pub(crate) lifted_lines: HashMap<u32, SimilarRequests>,
    /// What each dialect would let in, and what it would shut out, unlike the crawler's own.
    pub(crate) otherwise: Vec<[SimilarRequests; 2]>,
}

impl CrawlerTally {
    pub(crate) fn new(crawler: NamedCrawler) -> Self {
        Self {
            crawler,
            requests: Traffic::default(),
            shut_out: Traffic::default(),
            shut_out_before: Traffic::default(),
            newly_shut_out: Traffic::default(),
            newly_let_in: Traffic::default(),
            lines: HashMap::new(),
            new_lines: HashMap::new(),
            lifted_lines: HashMap::new(),
            otherwise: vec![<[SimilarRequests; 2]>::default(); dialects().len()],
        }
    }

    /// Counts a request.
    pub(crate) fn add(&mut self, path: &str, judged: JudgedPath, bytes: u64, has_before: bool) {
        self.requests.add(bytes);
        if judged.is_shut_out {
            self.shut_out.add(bytes);
            at_line(&mut self.lines, judged.line).add(bytes, path);
        }
        if judged.was_shut_out {
            self.shut_out_before.add(bytes);
        }
        if has_before && judged.is_shut_out && !judged.was_shut_out {
            self.newly_shut_out.add(bytes);
            at_line(&mut self.new_lines, judged.line).add(bytes, path);
        }
        if judged.was_shut_out && !judged.is_shut_out {
            self.newly_let_in.add(bytes);
            at_line(&mut self.lifted_lines, judged.line_before).add(bytes, path);
        }
        for (index, by_verdict) in self.otherwise.iter_mut().enumerate() {
            let is_disallowed = judged.is_disallowed_by(index);
            if is_disallowed != judged.is_shut_out {
                by_verdict[usize::from(is_disallowed)].add(bytes, path);
            }
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for (own, other) in [
            (&mut self.requests, other.requests),
            (&mut self.shut_out, other.shut_out),
            (&mut self.shut_out_before, other.shut_out_before),
            (&mut self.newly_shut_out, other.newly_shut_out),
            (&mut self.newly_let_in, other.newly_let_in),
        ] {
            own.merge(other);
        }
        for (own, other) in [
            (&mut self.lines, other.lines),
            (&mut self.new_lines, other.new_lines),
            (&mut self.lifted_lines, other.lifted_lines),
        ] {
            for (line, requests) in other {
                at_line(own, line).merge(&requests);
            }
        }
        for (own, other) in self.otherwise.iter_mut().zip(&other.otherwise) {
            for (own, other) in own.iter_mut().zip(other) {
                own.merge(other);
            }
        }
    }
}

/// Returns the requests of a line, or those of all lines for which there is no room.
fn at_line(lines: &mut HashMap<u32, SimilarRequests>, line: u32) -> &mut SimilarRequests {
    let is_full = lines.len() >= MAX_LINES;
    let line = if is_full && !lines.contains_key(&line) { OTHER_LINES } else { line };
    match lines.entry(line) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(new) => new.insert(SimilarRequests::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_does_not_depend_on_the_order() {
        let long = "/x".repeat(1_000);
        let mut paths = ["/bb", "/a", "/ab", "/b", &long];
        for _ in 0..paths.len() {
            paths.rotate_left(1);
            let mut requests = SimilarRequests::default();
            paths.iter().for_each(|path| requests.add(1, path));
            assert_eq!((&*requests.example, requests.traffic.requests), ("/a", 5));
        }
        let mut requests = SimilarRequests::default();
        requests.add(u64::MAX, &long);
        requests.add(1, &long);
        assert!(requests.example.len() <= 200);
        assert_eq!(requests.traffic.bytes, u64::MAX);
    }

    #[test]
    fn lines_beyond_the_limit_are_counted_together() {
        let mut lines = HashMap::new();
        for line in 1..=3_000 {
            at_line(&mut lines, line).add(1, "/");
            at_line(&mut lines, 7).add(1, "/");
        }
        assert_eq!(lines.len(), MAX_LINES + 1);
        let total: u64 = lines.values().map(|requests| requests.traffic.requests).sum();
        assert_eq!((total, lines[&7].traffic.requests), (6_000, 3_001));
    }
}
