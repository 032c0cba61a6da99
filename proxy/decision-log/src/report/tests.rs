//! The counts of reports.

use std::fs;
use std::time::Duration;

use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use wayleave_decision::RequestOutcome;
use wayleave_record::{DecisionRecord, RuleRecord};

use super::super::encoded_decision::EncodedDecision;
use super::super::query::DecisionQuery;
use super::super::rule_name;
use super::super::tests::{any_decision, decision, draws};
use super::entry::ReportEntry;
use super::*;

/// Asks for everything from a time on.
fn since(since: SystemTime) -> ReportQuery {
    let until = decision().at + Duration::from_hours(24 * 400);
    let contents = ReportContents::Summary(ReportDimension::Crawler);
    ReportQuery { since, until, requests: DecisionQuery::default(), contents }
}

/// Returns a log in a directory that is its state directory, too.
fn place(path: &Path) -> LogPlace<'_> {
    LogPlace { path, state_dir: path.parent().unwrap() }
}

fn read(path: &Path, query: &ReportQuery) -> LogReport {
    LogReport::read(place(path), query, &mut |_| ControlFlow::Continue(()))
}

fn write(path: &Path, decisions: &[DecisionRecord]) {
    let lines = decisions.iter().map(|decision| serde_json::to_string(decision).unwrap() + "\n");
    fs::write(path, lines.collect::<String>()).unwrap();
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(decision().at).unwrap();
}

#[test]
fn requests_are_counted_by_outcome_crawler_host_and_rule() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("decisions.jsonl");
    let at = decision().at;
    let mut observed = decision();
    observed.outcome = "observed".into();
    (observed.status, observed.would_be) = (200, Some(403));
    let mut ruled = decision();
    ruled.reason = "policy-rule".into();
    ruled.policy = Some(RuleRecord {
        number: 3,
        action: "refuse".into(),
        owner: None,
        reason: Some("contract".to_owned()),
    });
    let mut early = decision();
    early.at -= Duration::from_secs(3601);
    let mut forwarded = decision();
    forwarded.outcome = "forwarded".into();
    let all = [decision(), decision(), observed, ruled, early, forwarded];
    write(&path, &all);
    let report = read(&path, &since(at - Duration::from_secs(3600)));
    let rows = report.rows.iter().map(|row| {
        let rule = row.rule.as_deref().unwrap_or_default();
        (row.outcome.as_str(), row.count, row.status, rule)
    });
    let line_2 = "Disallow: /a (https://[::1]:8443/robots.txt:2)";
    let expected = [
        ("observed", 1, 403, line_2),
        ("refused", 2, 403, line_2),
        ("refused", 1, 403, "[[rule]] 3: contract"),
    ];
    assert_eq!(rows.collect::<Vec<_>>(), expected);
    assert_eq!(report.rows[0].host.as_deref(), Some("[::1]"));
    assert_eq!((report.files[0].lines, report.lines_before), (6, 1));
    assert_eq!((report.first_at, report.last_at), (Some(at), Some(at)));
    assert_eq!(report.outcomes["refused"], 3);
}

#[test]
fn failures_are_counted_by_host_and_reason() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("decisions.jsonl");
    let failed = |reason: &'static str, status| {
        let mut failed = decision();
        (failed.outcome, failed.reason, failed.status) = ("failed".into(), reason.into(), status);
        failed
    };
    let unresolved = || failed("dns_error", 502);
    write(&path, &[decision(), failed("connection_timeout", 504), unresolved(), unresolved()]);
    let report = read(&path, &since(SystemTime::UNIX_EPOCH));
    let rows = report.failed.iter().map(|row| {
        assert_eq!((row.outcome.as_str(), row.host.as_deref()), ("failed", Some("[::1]")));
        (row.reason.as_str(), row.status, row.count, row.rule.as_deref())
    });
    let expected = [("dns_error", 502, 2, None), ("connection_timeout", 504, 1, None)];
    assert_eq!(rows.collect::<Vec<_>>(), expected);
    assert_eq!(report.rows.len(), 1, "they are no refusals");
}

#[test]
fn unreadable_lines_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("decisions.jsonl");
    let rotated = dir.path().join("decisions.20270115T080000.000Z.jsonl");
    let line = serde_json::to_string(&decision()).unwrap();
    fs::write(&rotated, format!("{line}\n{}", &line[..40])).unwrap();
    fs::write(&path, format!("no JSON\n{line}\n{{\"id\":1}}\n")).unwrap();
    let report = read(&path, &since(SystemTime::UNIX_EPOCH));
    let named =
        report.unreadable_lines.iter().map(|unreadable| (unreadable.path.clone(), unreadable.line));
    assert_eq!(named.collect::<Vec<_>>(), [(rotated, 2), (path.clone(), 1), (path, 3)]);
    assert_eq!((report.unreadable, report.rows[0].count), (3, 2));
}

#[test]
fn a_summary_counts_every_request_and_names_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("decisions.jsonl");
    let made = |crawler: &'static str, outcome: &'static str, host: &str| DecisionRecord {
        crawler: crawler.into(),
        outcome: outcome.into(),
        owner: (crawler == "news").then(|| "news-team".to_owned()),
        origin: Some(format!("https://{host}")),
        ..decision()
    };
    write(
        &path,
        &[
            made("news", "refused", "a.test"),
            made("news", "observed", "b.test"),
            made("news", "observed", "b.test"),
            made("news", "forwarded", "c.test"),
            made("images", "failed", "c.test"),
        ],
    );
    let query =
        |by| ReportQuery { contents: ReportContents::Summary(by), ..since(SystemTime::UNIX_EPOCH) };
    let report = read(&path, &query(ReportDimension::Host));
    let [news, images] = &report.by_crawler[..] else { panic!("{:?}", report.by_crawler) };
    assert_eq!((&*news.name, news.owner.as_deref()), ("news", Some("news-team")));
    assert_eq!((news.requests, news.refused, news.would_be_refused), (4, 1, 2));
    assert_eq!((news.refused_share, news.would_be_refused_share), (0.25, 0.5));
    assert_eq!(news.first_host.as_deref(), Some("b.test"));
    let rule = news.first_rule.as_deref();
    assert_eq!(rule, Some("Disallow: /a (https://b.test/robots.txt:2)"));
    assert_eq!((images.requests, images.failed, &images.first_host), (1, 1, &None));
    let hosts = report.by_host.as_deref().unwrap_or_default().iter();
    let hosts = hosts.map(|row| (&*row.name, row.requests, row.first_crawler.as_deref()));
    let expected = [("b.test", 2, Some("news")), ("a.test", 1, Some("news")), ("c.test", 2, None)];
    assert_eq!(hosts.collect::<Vec<_>>(), expected);

    let requests =
        DecisionQuery { crawler: Some("images".to_owned().into()), ..DecisionQuery::default() };
    let one = ReportQuery { requests, ..query(ReportDimension::Reason) };
    let report = read(&path, &one);
    assert_eq!(report.outcomes, BTreeMap::from([("failed".to_owned(), 1)]));
    assert_eq!(report.by_reason.map(|rows| rows.len()), Some(1));
}

/// Most refusals were at b.test, and most by `Disallow: /a` of a.test, but not together.
#[test]
fn the_first_rule_and_host_of_a_crawler_are_a_pair() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("decisions.jsonl");
    let made = |reason: &'static str, host: &str| DecisionRecord {
        outcome: "refused".into(),
        reason: reason.into(),
        origin: Some(format!("https://{host}")),
        ..decision()
    };
    let lines = [
        made("budget", "a.test"),
        made("budget", "a.test"),
        made("budget", "b.test"),
        made("budget", "c.test"),
        made("unreachable", "b.test"),
        made("unreachable", "b.test"),
        made("unreachable", "b.test"),
    ];
    write(&path, &lines);
    let query = ReportQuery { contents: ReportContents::Overview, ..since(SystemTime::UNIX_EPOCH) };
    let report = read(&path, &query);
    let [crawler] = &report.by_crawler[..] else { panic!("{:?}", report.by_crawler) };
    assert_eq!(crawler.first_rule.as_deref(), Some("unreachable"));
    assert_eq!(crawler.first_host.as_deref(), Some("b.test"));
    let origins = report.by_origin.as_deref().unwrap_or_default().iter();
    let origins: Vec<_> = origins.map(|row| (&*row.name, row.refused)).collect();
    let expected = [("https://b.test", 4), ("https://a.test", 2), ("https://c.test", 1)];
    assert_eq!(origins, expected);
}

#[test]
fn the_range_includes_its_ends() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("decisions.jsonl");
    let at = decision().at;
    let later = |seconds| DecisionRecord { at: at + Duration::from_secs(seconds), ..decision() };
    write(&path, &[later(0), later(1), later(2), later(3)]);
    let file = File::options().write(true).open(&path).unwrap();
    file.set_modified(later(3).at).unwrap();
    let query = ReportQuery { until: later(2).at, ..since(later(1).at) };
    let report = read(&path, &query);
    assert_eq!((report.lines_before, report.outcomes["refused"], report.lines_after), (1, 2, 1));
}

#[test]
fn an_overview_says_who_sends_what_has_no_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("decisions.jsonl");
    let made = |crawler: &'static str, token: &str, agent: Option<&str>| DecisionRecord {
        crawler: crawler.into(),
        tokens: vec![token.to_owned(), "Second".to_owned()],
        user_agent: agent.map(str::to_owned),
        ..decision()
    };
    let all = [
        made("news", "NewsBot", Some("NewsBot/1")),
        made("asserted", "Foo", Some("Foo/1 \"quoted\"")),
        made("asserted", "Foo", Some("Foo/2")),
        made("asserted", "Foo", Some("Foo/2")),
        made("asserted", "Bar", None),
    ];
    write(&path, &all);
    let query = ReportQuery { contents: ReportContents::Overview, ..since(SystemTime::UNIX_EPOCH) };
    let report = read(&path, &query);
    let rows = |by| report.summary(by).iter().map(|row| (&*row.name, row.requests));
    assert_eq!(rows(ReportDimension::Token).collect::<Vec<_>>(), [("Foo", 3), ("Bar", 1)]);
    let agents: Vec<_> = rows(ReportDimension::UserAgent).collect();
    assert_eq!(agents, [("Foo/2", 2), ("-", 1), ("Foo/1 \"quoted\"", 1)]);
    assert_eq!(rows(ReportDimension::Client).collect::<Vec<_>>(), [("127.0.0.1", 4)]);
    assert_eq!(report.by_crawler.len(), 2);
    let foo = &report.summary(ReportDimension::Token)[0];
    assert_eq!(foo.first_user_agent.as_deref(), Some("Foo/2"));
    assert_eq!(foo.first_client.as_deref(), Some("127.0.0.1"));
}

#[test]
fn lines_before_the_range_are_not_parsed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("decisions.jsonl");
    let line = serde_json::to_string(&decision()).unwrap();
    let (head, _) = line.split_once(",\"outcome\"").unwrap();
    fs::write(&path, format!("{head}, no JSON\n{line}\n")).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.set_modified(decision().at + Duration::from_secs(1)).unwrap();
    let later = decision().at + Duration::from_micros(1);
    let report = read(&path, &since(later));
    assert_eq!((report.lines_before, report.damaged_lines), (2, 0));
    let report = read(&path, &since(decision().at));
    assert_eq!((report.lines_before, report.damaged_lines), (0, 1));
    assert_eq!(report.count_of(RequestOutcome::Refused), 1);
}

#[test]
fn a_reader_may_give_up() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["decisions.20270115T080000.000Z.jsonl", "decisions.jsonl"] {
        write(&dir.path().join(name), &[decision()]);
    }
    let path = dir.path().join("decisions.jsonl");
    let query = since(SystemTime::UNIX_EPOCH);
    let report = LogReport::read(place(&path), &query, &mut |_| ControlFlow::Break(()));
    assert_eq!(report.files.len(), 1);
}

proptest! {
    /// A link from a count leads to the decisions that it counts.
    #[test]
    fn a_line_and_its_record_name_the_same_rule(draws in draws(), reason in 0..4_usize, stage in 0..4_usize) {
        let mut decision = any_decision(draws);
        decision.reason = ["rule", "policy-rule", "preference", "crawl-delay"][reason].into();
        for (number, preference) in decision.preferences.iter_mut().enumerate() {
            preference.preference = ["refuse", "unstated", "allow"][number % 3].into();
            preference.stage = ["before", "head", "body"].get((stage + number) % 4).map(|&stage| stage.into());
        }
        let line = EncodedDecision::new(&decision).line;
        let entry: ReportEntry<'_> = serde_json::from_slice(&line).unwrap();
        prop_assert_eq!(rule_name::of_decision(&decision), entry.rule_name());
        let rules = vec!["another".to_owned(), entry.rule_name().into_owned()];
        let query = DecisionQuery { rules, ..DecisionQuery::default() };
        prop_assert!(query.matches(&decision) && entry.matches(&query));
        let query = DecisionQuery { rules: vec!["another".to_owned()], ..DecisionQuery::default() };
        prop_assert!(!query.matches(&decision) && !entry.matches(&query));
    }
}
