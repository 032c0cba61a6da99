//! One decision: the proxy, the preview, `wayleave check`, `wayleave evidence verify` and redirects of robots.txt come to the
//! same verdict on the same request.
//!
//! ```text
//!  mod ─┬─ rows       requests of other tests' tables
//!       ├─ generator  generated requests
//!       ├─ naming     the tables that the page offers for unnamed requests
//!       ├─ world      a configuration, and the callers that decide by it
//!       ├─ costly     decisions that take long, beside others
//!       ├─ planned    crawls that are planned, and then run
//!       ├─ sites      the files of origins
//!       └─ log        what the proxy recorded, exported and verified
//! ```

mod costly;
mod generator;
mod log;
mod naming;
mod planned;
mod rows;
mod sites;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use wayleave_decision::Reason;
use wayleave_decision_log::DecisionRecord;
use wayleave_robots_txt::Target;

use self::generator::Random;
use self::log::TestLog;
use self::rows::RowWorld;
use self::world::{CrawlRequest, Parts, World, verdict_members};

/// The number of generated requests, and of the configurations that they are decided by.
const GENERATED: usize = 10_000;
const WORLDS: usize = 20;

/// The verdicts so far, counted by outcome and reason.
#[derive(Default)]
struct Tally(BTreeMap<String, usize>);

impl Tally {
    fn count(&mut self, decision: &DecisionRecord) {
        let kind = if decision.is_own_request() { "redirect " } else { "" };
        let name = format!("{kind}{} {}", decision.outcome, decision.reason);
        *self.0.entry(name).or_default() += 1;
    }
}

/// Decides about a request by every caller that needs no log, and records and counts the proxy's decision.
async fn decide_everywhere(
    world: &World,
    request: &CrawlRequest,
    log: &mut TestLog,
    tally: &mut Tally,
) -> DecisionRecord {
    let decision = decide_and_preview(world, request, log).await;
    if request.objection.is_none() {
        match world.check(request) {
            // It waits until a fetch has ended, however long that takes.
            Ok(check) if decision.finding.is_none() && check.get("basis").is_some() => {}
            Ok(check) => assert_eq!(check, verdict_members(&decision), "check: {request:?}"),
            Err(mistake) => assert!(!decision.is_decided(), "{mistake}: {request:?}"),
        }
    }
    tally.count(&decision);
    if let Some(redirect) = compare_redirect(world, request, &decision, log) {
        tally.count(&redirect);
    }
    decision
}

/// Decides about a request from the cache alone, and records the proxy's decision.
async fn decide_and_preview(
    world: &World,
    request: &CrawlRequest,
    log: &mut TestLog,
) -> DecisionRecord {
    let decision = world.decide(request).await;
    log.record(world, &decision);
    if request.objection.is_none() {
        match world.preview(request).await {
            Ok(preview) => {
                assert_eq!(preview, verdict_members(&decision), "preview: {request:?}");
            }
            Err(mistake) => assert!(!decision.is_decided(), "{mistake}: {request:?}"),
        }
    }
    decision
}

/// Decides about a redirect to the same URL, where rules that are for everybody decide both, and records it.
fn compare_redirect(
    world: &World,
    request: &CrawlRequest,
    decision: &DecisionRecord,
    log: &mut TestLog,
) -> Option<DecisionRecord> {
    if !world.is_decided_by_rules_for_all(decision) {
        return None;
    }
    let redirect = world.redirect(&Target::parse(&decision.url).unwrap());
    log.record(world, &redirect);
    let redirected = verdict_members(&redirect);
    let decided = verdict_members(decision);
    assert_eq!(redirected["policy"], decided["policy"], "{request:?}");
    if decision.reason == Reason::PolicyRule {
        for member in ["outcome", "reason", "status"] {
            assert_eq!(redirected[member], decided[member], "{request:?}");
        }
    } else {
        assert!(redirect.reason == Reason::RobotsRedirect, "{request:?}");
    }
    Some(redirect)
}

async fn decide_rows(worlds: Vec<RowWorld>) -> Tally {
    let parts = Parts::new();
    let mut log = TestLog::new();
    let mut tally = Tally::default();
    let mut recorded = 0;
    for RowWorld { configuration, sites, requests } in worlds {
        let world = World::start(&parts, &configuration, sites);
        log.archive(&world);
        world.prime().await;
        for (request, status) in requests {
            let decision = decide_everywhere(&world, &request, &mut log, &mut tally).await;
            if let Some(status) = status {
                assert_eq!(decision.status, status, "{request:?}");
            }
            recorded += 1;
        }
    }
    assert!(log.verify() >= recorded);
    tally
}

#[tokio::test(start_paused = true)]
async fn all_callers_agree_about_usage_preferences() {
    let tally = decide_rows(rows::preferences()).await;
    for name in ["refused preference", "forwarded rule", "forwarded unavailable"] {
        assert!(tally.0[name] > 50, "{name}: {:?}", tally.0);
    }
}

#[tokio::test(start_paused = true)]
async fn all_callers_agree_about_attempts_to_get_past_the_proxy() {
    let worlds = rows::spellings().into_iter().chain([rows::targets()]);
    let tally = decide_rows(worlds.collect()).await;
    for name in ["refused rule", "refused policy-rule", "forwarded no-matching-rule"] {
        assert!(tally.0[name] > 50, "{name}: {:?}", tally.0);
    }
    assert_eq!(tally.0["refused too-costly"], 1);
}

/// The number of generated requests with each outcome and reason. All callers may agree on a wrong decision: this shows it.
const GENERATED_OUTCOMES: &str = "\
failed dns_error: 55
failed dns_timeout: 22
failed proxy_internal_error: 22
forwarded no-matching-group: 1168
forwarded no-matching-rule: 770
forwarded policy-exception: 64
forwarded redirect-lost: 51
forwarded robots-txt-itself: 86
forwarded rule: 202
forwarded unavailable: 260
observed foreign-token: 206
observed https-refused: 199
observed policy-rule: 101
observed preference: 111
observed redirect-lost: 26
observed rule: 149
observed token-missing: 503
observed too-costly: 1
observed unavailable: 13
observed unidentified: 84
observed unreachable: 99
redirect forwarded robots-redirect: 830
redirect refused policy-rule: 154
refused destination_ip_prohibited: 40
refused foreign-token: 538
refused https-refused: 588
refused malformed-request: 342
refused password-checks: 67
refused policy-rule: 583
refused preference: 229
refused redirect-lost: 55
refused rule: 312
refused token-missing: 1545
refused too-costly: 6
refused unavailable: 40
refused unidentified: 280
refused unreachable: 197
refused unsupported-scheme: 338
refused wrong-certificate: 66
refused wrong-password: 55
tunnelled bypass: 124
tunnelled no-matching-group: 259
tunnelled no-matching-rule: 82
tunnelled policy-exception: 9
tunnelled redirect-lost: 16
tunnelled unavailable: 37
";

#[tokio::test(start_paused = true)]
async fn all_callers_agree_about_generated_requests() {
    let parts = Parts::new();
    let mut log = TestLog::new();
    let mut tally = Tally::default();
    let mut random = Random(20_261_125);
    for number in 0..WORLDS {
        let configuration = generator::configuration(number, &mut random);
        let sites = generator::sites(&mut random);
        let costly = rows::serve_costly(&sites);
        let world = World::start(&parts, &configuration, sites);
        log.archive(&world);
        world.prime().await;
        for number in 0..GENERATED / WORLDS {
            let mut request = generator::request(&mut random);
            // Only one in each world, because it takes as long as many others.
            if number == 0 {
                request.url.clone_from(&costly);
            }
            decide_everywhere(&world, &request, &mut log, &mut tally).await;
        }
    }
    let outcomes = tally.0.iter().map(|(name, count)| format!("{name}: {count}\n"));
    let outcomes: String = outcomes.collect();
    assert_eq!(outcomes, GENERATED_OUTCOMES, "{outcomes}");
    assert!(log.verify() >= GENERATED);
}

/// The reasons that no decision gives: requests get them before one is made, or after. And one that only the proxy's own decisions
/// give, because nobody else knows which pages were allowed.
const OTHER_REASONS: &str = "
    subresource-of subresource-type response-too-large budget payment crawl-delay origin-rests unrecorded concurrency misdirected proxy_loop_detected
    proxy_configuration_error head-too-large head-timeout unsupported-version body-timeout max-forwards
    connection_limit_reached proxy-protocol tls-required destination_unavailable destination_ip_unroutable
    connection_refused connection_timeout connection_terminated connection_write_timeout tls_protocol_error
    tls_certificate_error tls_alert_received http_request_error http_request_denied http_response_incomplete
    http_response_timeout http_response_header_section_size http_protocol_error client-closed shutdown
    preference-document purpose-not-declared not-http not-redirected target-too-long";

#[test]
fn every_reason_of_a_decision_is_generated() {
    for reason in Reason::ALL {
        let is_generated = GENERATED_OUTCOMES.contains(&format!(" {reason}:"));
        let is_other = OTHER_REASONS.split_whitespace().any(|other| other == reason.as_str());
        assert_ne!(is_generated, is_other, "{reason}");
    }
}

/// `wayleave check` knows only what origins serve now, so that old copies are decided by without it.
#[tokio::test(start_paused = true)]
async fn cache_and_archive_agree_about_copies_that_have_lapsed() {
    let parts = Parts::new();
    let mut log = TestLog::new();
    let RowWorld { configuration, sites, requests } = rows::one_crawler_for_each_dialect();
    let world = World::start(&parts, &configuration, sites);
    log.archive(&world);
    world.prime().await;
    world.sites.break_all();
    let mut found = BTreeSet::new();
    for _ in 0..7 {
        tokio::time::advance(Duration::from_hours(24 * 10)).await;
        for (request, _) in &requests {
            let decision = decide_and_preview(&world, request, &mut log).await;
            let finding = decision.finding.unwrap();
            let copy = if finding.robots_sha256.is_some() { "its copy" } else { "no copy" };
            found.insert(format!(
                "{} {} in {} by {copy}",
                finding.robots_access.unwrap(),
                finding.verdict,
                finding.dialect
            ));
        }
    }
    for expected in [
        "successful disallow in rfc9309 by its copy",
        "lapsed disallow in rfc9309 by no copy",
        "lapsed allow in google by its copy",
        "long-lapsed allow in rfc9309 by its copy",
        "long-lapsed disallow in koster1996 by no copy",
        "unreachable disallow in rfc9309 by no copy",
        "long-unreachable allow in rfc9309 by no copy",
    ] {
        assert!(found.contains(expected), "{expected} is not among {found:#?}");
    }
    log.verify();
}
