//! The time and memory of a report of a large log: a measurement, run by hand.

use std::fs;
use std::ops::ControlFlow;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use wayleave_decision::RequestOutcome;
use wayleave_evidence::Sha256Digest;
use wayleave_record::DecisionRecord;

use super::super::encoded_decision::EncodedDecision;
use super::super::files::LogPlace;
use super::super::journal::{Journal, JournalConfig};
use super::super::query::DecisionQuery;
use super::super::tests::decision;
use super::{LogReport, ReportContents, ReportDimension, ReportQuery};

/// The most memory that a report may need.
const MAX_KIB: u64 = 150 * 1024;

/// Numbers that look random, the same in each run (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`; small ones are far more frequent.
    fn skewed(&mut self, limit: u64) -> u64 {
        let part = (self.next() % limit) as f64 / limit as f64;
        (part.powi(4) * limit as f64) as u64
    }
}

/// Returns a decision of one of 30 crawlers about one of 300,000 hosts.
fn next_decision(numbers: &mut Numbers, at: SystemTime) -> DecisionRecord {
    let mut made = decision();
    let host = numbers.skewed(300_000);
    let line = u32::try_from(2 + numbers.skewed(40)).expect("small");
    let path = numbers.next();
    made.id = crate::new_decision_id();
    made.at = at;
    made.crawler = format!("crawler-{}", numbers.skewed(30)).into();
    made.owner = Some("data-platform@example.com".to_owned());
    made.user_agent = Some("ExampleBot/1.0 (+https://example.com/bot)".to_owned());
    made.origin = Some(format!("https://site-{host}.example"));
    made.url = format!("https://site-{host}.example/section-{line}/page-{path:x}?ref=list");
    let finding = made.finding.as_mut().expect("it has one");
    finding.line = Some(line);
    finding.rule = Some(format!("Disallow: /section-{line}/"));
    (made.outcome, made.reason, made.status) = match path % 10 {
        0 => ("refused".into(), "rule".into(), 403),
        1 => ("observed".into(), "rule".into(), 200),
        2 => ("failed".into(), "dns_error".into(), 502),
        _ => ("forwarded".into(), "no-matching-rule".into(), 200),
    };
    made.would_be = (made.outcome == RequestOutcome::Observed).then_some(403);
    made
}

/// Writes a year of decisions as the service does.
fn write_log(config: JournalConfig, lines: u64) {
    let mut journal = Journal::open(config, wayleave_clock::Clock::start()).expect("a new log");
    let mut numbers = Numbers(1);
    let step = Duration::from_hours(24 * 365) / u32::try_from(lines).expect("not that many");
    for number in 0..lines {
        let at = SystemTime::UNIX_EPOCH + step * u32::try_from(number).expect("not that many");
        let encoded = EncodedDecision::new(&next_decision(&mut numbers, at));
        journal.push(&encoded.line, Some(Sha256Digest::of(b"")));
        if journal.is_full() {
            journal.flush().expect("there is room");
        }
    }
    journal.flush().expect("there is room");
    journal.save_head();
}

/// Returns the most memory that this process has had since the last call.
fn take_peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    fs::write("/proc/self/clear_refs", "5").expect("a process may reset its own");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// `WAYLEAVE_REPORT_DIR` keeps the log for the next run.
#[test]
#[ignore = "a measurement: writes gigabytes"]
fn size_of_a_year() {
    let lines = std::env::var("WAYLEAVE_REPORT_LINES");
    let lines = lines.map_or(10_000_000, |lines| lines.parse().expect("a number"));
    let new = tempfile::tempdir().expect("a directory");
    let dir = std::env::var_os("WAYLEAVE_REPORT_DIR").map_or(new.path().to_owned(), Into::into);
    let path = dir.join("decisions.jsonl");
    if !path.exists() {
        let config = JournalConfig {
            path: path.clone(),
            max_size_bytes: 100 << 20,
            max_age: Duration::from_hours(24),
            keep: Duration::from_hours(24 * 400),
            max_total_bytes: None,
            compresses: true,
            key: dir.join("evidence.key"),
            state_dir: dir.clone(),
        };
        write_log(config, lines);
    }
    let summaries = [ReportDimension::Crawler, ReportDimension::Host, ReportDimension::Rule];
    let summaries = summaries.map(ReportContents::Summary);
    for contents in summaries.into_iter().chain([ReportContents::Overview]) {
        let until = SystemTime::UNIX_EPOCH + Duration::from_hours(24 * 400);
        let requests = DecisionQuery::default();
        let query = ReportQuery { since: SystemTime::UNIX_EPOCH, until, requests, contents };
        take_peak_kib();
        let started = Instant::now();
        let report =
            LogReport::read(LogPlace { path: &path, state_dir: &dir }, &query, &mut |_| {
                ControlFlow::Continue(())
            });
        let took = started.elapsed();
        let peak = take_peak_kib();
        let read = report.outcomes.values().sum::<u64>();
        let left_out = report.left_out;
        println!("{contents:?}: {read} decisions in {took:.1?}, {peak} KiB, left out {left_out}");
        assert_eq!(read, lines);
        assert!(peak < MAX_KIB, "{peak} KiB");
    }
}
