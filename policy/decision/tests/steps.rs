//! The steps of a decision: their order, and the inputs that they request.

use std::time::{Duration, SystemTime};

use wayleave_decision::{
    CheckedSnapshot, ClientFacts, Crawler, Crawlers, CrawlersConfig, Decision, DecisionRequest,
    DecisionSettings, DocumentResult, EnforcementMode, HttpsMode, Identified, Input,
    InterceptionSettings, PolicyRule, PolicyRules, Reason, RefusalBasis, ResolvedTarget,
    RobotsCopy, RuleAction, Step, Subresource, SubresourceKind, SubresourcePolicy, TargetScope,
    Verdict, decide_own_request,
};
use wayleave_lifecycle::{
    FetchEnding, FetchErrorKind, FetchOutcome, FetchedBody, FetchedResponse, FinishedFetch,
    RedirectHop, Resource, ResponseFields,
};
use wayleave_robots_txt::{MatchContext, Origin, ProductToken, Target};
use wayleave_usage_preferences::{CrawlerDeclaration, PreferenceSettings, Purpose, PurposeSet};

const NOW: SystemTime = SystemTime::UNIX_EPOCH;

/// A configuration, and a crawler's request.
struct World {
    crawlers: Crawlers,
    rules: PolicyRules,
    interception: InterceptionSettings,
    preferences: PreferenceSettings,
    user_agent: &'static str,
    method: &'static str,
    scope: TargetScope,
    is_by_tunnel: bool,
    subresource: Option<Subresource>,
}

impl Default for World {
    fn default() -> Self {
        Self {
            crawlers: Crawlers::new(CrawlersConfig::default()),
            rules: PolicyRules::default(),
            interception: InterceptionSettings::default(),
            preferences: PreferenceSettings::default(),
            user_agent: "ExampleBot/1.0",
            method: "GET",
            scope: TargetScope::Path,
            is_by_tunnel: false,
            subresource: None,
        }
    }
}

fn crawler(mode: EnforcementMode, purposes: PurposeSet) -> Crawler {
    Crawler {
        mode,
        declaration: CrawlerDeclaration { purposes, ..CrawlerDeclaration::default() },
        ..Crawler::new("example", vec![ProductToken::new("ExampleBot").unwrap()])
    }
}

fn known(mode: EnforcementMode, purposes: &[Purpose]) -> Crawlers {
    Crawlers::new(CrawlersConfig {
        crawlers: vec![crawler(mode, PurposeSet::of(purposes))],
        ..CrawlersConfig::default()
    })
}

fn rule(action: RuleAction) -> PolicyRules {
    PolicyRules::new(vec![PolicyRule {
        action,
        hosts: vec!["shop.test".parse().unwrap()],
        ..PolicyRule::default()
    }])
}

fn shop() -> Origin {
    Origin::parse("https://shop.test").unwrap()
}

fn fetched(resource: &Resource, status: u16, body: &str) -> CheckedSnapshot {
    let outcome = FetchOutcome {
        redirects: Vec::new(),
        uri: resource.uri(),
        ending: FetchEnding::Response(FetchedResponse {
            status,
            fields: ResponseFields::default(),
            body: FetchedBody { bytes: body.as_bytes().into(), ..FetchedBody::default() },
        }),
    };
    CheckedSnapshot::from_fetch(resource, FinishedFetch::of_proxy(outcome, NOW))
}

impl World {
    /// A world with a crawler that declares a purpose.
    fn of_a_trainer() -> Self {
        Self { crawlers: known(EnforcementMode::Enforce, &[Purpose::TrainAi]), ..Self::default() }
    }

    fn identified(&self) -> Identified {
        self.crawlers.identify(&ClientFacts {
            client: [127, 0, 0, 1].into(),
            username: None,
            certificate: &[],
            user_agent: self.user_agent.as_bytes(),
            purposes: &[],
        })
    }

    /// Begins the decision about `/page`.
    fn begin<'a>(&'a self, identified: &'a Identified) -> Decision<'a> {
        let settings = DecisionSettings {
            crawlers: &self.crawlers,
            rules: &self.rules,
            interception: &self.interception,
            preferences: &self.preferences,
        };
        let request = DecisionRequest {
            identified,
            method: self.method,
            resolved: ResolvedTarget {
                target: Target::parse("https://shop.test/page").unwrap(),
                scope: self.scope,
            },
            is_by_tunnel: self.is_by_tunnel,
            subresource: self.subresource.as_ref(),
            now: NOW,
        };
        Decision::new(settings, request)
    }

    /// Decides about `/page` with this robots.txt and these results for all documents; returns the inputs that were requested.
    fn decide(
        &self,
        robots_txt: Option<&str>,
        document: impl Fn(&Resource) -> DocumentResult,
    ) -> (Verdict, Vec<&'static str>) {
        let identified = self.identified();
        let mut decision = self.begin(&identified);
        let mut requested = Vec::new();
        while let Step::Need(input) = decision.step() {
            match input {
                Input::CachedRobotsTxt(origin) => {
                    requested.push("cached robots.txt");
                    let copy = robots_txt.map(|text| fetched(&(&origin).into(), 200, text));
                    decision.add_cached_robots_txt(copy.map(RobotsCopy::Cached).as_ref());
                }
                Input::RobotsTxt(origin) => {
                    requested.push("robots.txt");
                    match robots_txt {
                        Some(text) => {
                            let copy = fetched(&(&origin).into(), 200, text);
                            decision.add_robots_txt(&RobotsCopy::Cached(copy));
                        }
                        None => decision.robots_txt_pending("late", Duration::from_secs(7)),
                    }
                }
                Input::Documents(batch) => {
                    requested.push("documents");
                    let results =
                        batch.documents.iter().map(|asked| document(asked.resource().unwrap()));
                    let results: Vec<_> = results.collect();
                    decision.add_documents(*batch, &results);
                }
            }
        }
        (decision.into_verdict(), requested)
    }

    /// Decides about `/page` by this robots.txt.
    fn after(&self, copy: CheckedSnapshot) -> Verdict {
        let identified = self.identified();
        let mut decision = self.begin(&identified);
        decision.add_robots_txt(&RobotsCopy::Cached(copy));
        decision.into_verdict()
    }

    /// Returns the reason, `+` if the request is forwarded, and the inputs that were requested.
    fn outcome(&self, robots_txt: Option<&str>) -> (String, Vec<&'static str>) {
        let (verdict, requested) =
            self.decide(robots_txt, |resource| DocumentResult::Cached(fetched(resource, 404, "")));
        (described(&verdict), requested)
    }
}

fn described(verdict: &Verdict) -> String {
    match &verdict.result {
        Ok(permit) if permit.observed.is_some() => format!("~{}", permit.reason),
        Ok(permit) => format!("+{}", permit.reason),
        Err(refusal) => format!("-{}", refusal.reason),
    }
}

fn failed(resource: &Resource, kind: FetchErrorKind) -> CheckedSnapshot {
    let outcome = FetchOutcome::failed(resource.uri(), kind, "no answer");
    CheckedSnapshot::from_fetch(resource, FinishedFetch::of_proxy(outcome, NOW))
}

const ALLOWS: &str = "User-agent: *\nDisallow: /private\n";
const DISALLOWS: &str = "User-agent: *\nDisallow: /\nCrawl-delay: 5\n";

#[test]
fn a_rule_that_refuses_needs_no_robots_txt() {
    for action in [RuleAction::Refuse, RuleAction::RefuseLegally] {
        let world = World { rules: rule(action), ..World::default() };
        let (outcome, requested) = world.outcome(Some(ALLOWS));
        assert_eq!((outcome.as_str(), requested.len()), ("-policy-rule", 0));
    }
}

#[test]
fn a_verdict_names_the_rule_whatever_it_does() {
    for action in [RuleAction::Refuse, RuleAction::RefuseLegally, RuleAction::Allow] {
        let world = World { rules: rule(action), ..World::default() };
        let (verdict, _) = world.decide(None, |_| DocumentResult::Archived(None));
        assert_eq!(verdict.facts.rule.map(|found| found.number), Some(1), "{action:?}");
    }
}

#[test]
fn an_exception_only_looks_for_a_cached_pace() {
    let world = World { rules: rule(RuleAction::Allow), ..World::default() };
    let nothing = |_: &Resource| DocumentResult::Archived(None);
    let (verdict, requested) = world.decide(Some(DISALLOWS), nothing);
    assert_eq!(requested, ["cached robots.txt"]);
    assert_eq!(described(&verdict), "+policy-exception");
    assert_eq!(verdict.facts.delay, Some(Duration::from_secs(5)));
    let (verdict, _) = world.decide(None, nothing);
    assert_eq!(verdict.facts.delay, None);
}

#[test]
fn certain_decisions_need_no_inputs() {
    let unknown = World {
        crawlers: Crawlers::new(CrawlersConfig {
            require_crawler: true,
            ..CrawlersConfig::default()
        }),
        ..World::default()
    };
    // An objection takes precedence over a rule.
    let foreign =
        World { user_agent: "GPTBot/1.0", rules: rule(RuleAction::Refuse), ..World::default() };
    let bypass = World { scope: TargetScope::Bypass, ..World::default() };
    let https = World {
        interception: InterceptionSettings { mode: HttpsMode::Refuse, bypass: Vec::new() },
        ..World::default()
    };
    for (world, outcome) in [
        (unknown, "-unidentified"),
        (foreign, "-foreign-token"),
        (bypass, "+bypass"),
        (https, "-https-refused"),
    ] {
        let (found, requested) = world.outcome(Some(ALLOWS));
        assert_eq!((found.as_str(), requested.len()), (outcome, 0));
    }
}

#[test]
fn robots_txt_decides_where_no_rule_does() {
    let world = World::default();
    for (text, outcome) in [
        (Some(ALLOWS), "+no-matching-rule"),
        (Some(DISALLOWS), "-rule"),
        (Some(""), "+no-matching-group"),
        (None, "-unreachable"),
    ] {
        assert_eq!(world.outcome(text), (outcome.to_owned(), vec!["robots.txt"]));
    }
}

#[test]
fn a_refusal_names_the_line_that_decided() {
    let (verdict, _) = World::default().decide(Some(DISALLOWS), |_| DocumentResult::Archived(None));
    let refusal = verdict.result.unwrap_err();
    assert_eq!(refusal.robots_url.as_deref(), Some("https://shop.test/robots.txt"));
    let Some(RefusalBasis::Rule(rule)) = refusal.basis.as_deref() else {
        panic!("{refusal:?}");
    };
    assert_eq!((rule.line, rule.text.as_str()), (2, "Disallow: /"));
}

#[test]
fn an_uninspected_tunnel_is_judged_by_every_path() {
    let trains = known(EnforcementMode::Enforce, &[Purpose::TrainAi]);
    for crawlers in [known(EnforcementMode::Enforce, &[]), trains] {
        let blind = World {
            crawlers,
            scope: TargetScope::EveryPath,
            method: "CONNECT",
            ..World::default()
        };
        let (verdict, _) = blind.decide(Some(ALLOWS), |_| DocumentResult::Archived(None));
        assert_eq!(described(&verdict), "-rule");
        let details = verdict.result.unwrap_err().details;
        assert!(details.contains("uninspected tunnel"), "{details}");
    }
}

#[test]
fn an_uninspected_tunnel_needs_every_purpose_for_every_path() {
    let world = |scope, method, refuse_unstated| {
        let mut careful = crawler(EnforcementMode::Enforce, PurposeSet::of(&[Purpose::TrainAi]));
        careful.declaration.refuse_unstated = refuse_unstated;
        let crawlers =
            Crawlers::new(CrawlersConfig { crawlers: vec![careful], ..CrawlersConfig::default() });
        World { crawlers, scope, method, ..World::default() }
    };
    let elsewhere = "User-agent: *\nContent-Usage: /private train-ai=n\n";
    for (refuses_unstated, text, page, tunnel) in [
        (false, elsewhere, "+no-matching-rule", "-preference"),
        (false, "", "+no-matching-group", "+no-matching-group"),
        // The response to a request may still state something.
        (true, "", "+no-matching-group", "-preference"),
    ] {
        let [page_outcome, tunnel_outcome] =
            [(TargetScope::Path, "GET"), (TargetScope::EveryPath, "CONNECT")].map(
                |(scope, method)| world(scope, method, refuses_unstated).outcome(Some(text)).0,
            );
        assert_eq!([page_outcome, tunnel_outcome], [page, tunnel], "{text}");
    }
}

#[test]
fn a_permit_names_the_purposes() {
    let world = World::of_a_trainer();
    let (verdict, _) = world.decide(Some(ALLOWS), |_| DocumentResult::Archived(None));
    assert_eq!(verdict.result.unwrap().purposes, PurposeSet::of(&[Purpose::TrainAi]));
}

#[test]
fn the_pace_is_found_for_requests_that_may_be_sent() {
    let delay = |mode, text: &str| {
        let world = World { crawlers: known(mode, &[]), ..World::default() };
        let (verdict, _) = world.decide(Some(text), |_| DocumentResult::Archived(None));
        verdict.facts.delay
    };
    let allows = format!("{ALLOWS}Crawl-delay: 5\n");
    let five = Some(Duration::from_secs(5));
    assert_eq!(delay(EnforcementMode::Enforce, &allows), five);
    assert_eq!(delay(EnforcementMode::Enforce, DISALLOWS), None);
    assert_eq!(delay(EnforcementMode::Observe, DISALLOWS), five);
}

#[test]
fn mode_observe_forwards_and_names_the_first_refusal() {
    let world = World { crawlers: known(EnforcementMode::Observe, &[]), ..World::default() };
    assert_eq!(world.outcome(Some(DISALLOWS)).0, "~rule");
    let world = World { rules: rule(RuleAction::Refuse), ..world };
    let (verdict, _) = world.decide(Some(DISALLOWS), |_| DocumentResult::Archived(None));
    let observed = verdict.result.unwrap().observed.unwrap();
    assert_eq!(observed.reason, Reason::PolicyRule);
    let world = World { rules: rule(RuleAction::RefuseLegally), ..world };
    assert_eq!(world.outcome(Some(ALLOWS)).0, "-policy-rule");
}

#[test]
fn a_subresource_passes_only_what_a_rule_of_robots_txt_disallows() {
    let page = |mode, policy| {
        let mut crawler = crawler(mode, PurposeSet::NONE);
        crawler.subresources = policy;
        World {
            crawlers: Crawlers::new(CrawlersConfig {
                crawlers: vec![crawler],
                ..CrawlersConfig::default()
            }),
            subresource: Some(Subresource {
                kind: SubresourceKind::Image,
                page: "https://shop.test/".into(),
            }),
            ..World::default()
        }
    };
    let passing = || page(EnforcementMode::Enforce, SubresourcePolicy::Page);
    let (verdict, _) = passing().decide(Some(DISALLOWS), |_| DocumentResult::Archived(None));
    assert_eq!(described(&verdict), "+subresource-of");
    assert_eq!(verdict.facts.delay, Some(Duration::from_secs(5)));
    assert_eq!(verdict.facts.finding.unwrap().line, Some(2));
    assert_eq!(verdict.result.unwrap().subresource, Some(SubresourceKind::Image));
    for (world, text, outcome) in [
        (passing(), Some(ALLOWS), "+no-matching-rule"),
        (passing(), None, "-unreachable"),
        (World { method: "HEAD", ..passing() }, Some(DISALLOWS), "-rule"),
        (World { method: "POST", ..passing() }, Some(DISALLOWS), "-rule"),
        (World { scope: TargetScope::EveryPath, ..passing() }, Some(DISALLOWS), "-rule"),
        (World { scope: TargetScope::Server, ..passing() }, Some(DISALLOWS), "-rule"),
        (World { rules: rule(RuleAction::Refuse), ..passing() }, Some(DISALLOWS), "-policy-rule"),
        (World { user_agent: "ExampleBot GPTBot", ..passing() }, Some(DISALLOWS), "-foreign-token"),
        (World { subresource: None, ..passing() }, Some(DISALLOWS), "-rule"),
        (page(EnforcementMode::Enforce, SubresourcePolicy::Judge), Some(DISALLOWS), "-rule"),
        (
            page(EnforcementMode::Observe, SubresourcePolicy::Page),
            Some(DISALLOWS),
            "+subresource-of",
        ),
    ] {
        assert_eq!(world.outcome(text).0, outcome, "{} {:?}", world.method, world.scope);
        let (verdict, _) = world.decide(text, |_| DocumentResult::Archived(None));
        let passed = verdict.facts.subresource.is_some();
        assert_eq!(passed, outcome == "+subresource-of");
    }
}

#[test]
fn documents_are_asked_for_only_while_they_can_refuse() {
    let world = World::of_a_trainer();
    let refuses = format!("{ALLOWS}Content-Usage: train-ai=n\n");
    for (text, outcome, last) in [
        (ALLOWS, "+no-matching-rule", "documents"),
        (DISALLOWS, "-rule", "robots.txt"),
        (&refuses, "-preference", "robots.txt"),
    ] {
        let (found, requested) = world.outcome(Some(text));
        assert_eq!((found.as_str(), requested.last()), (outcome, Some(&last)), "{text}");
    }
    let post = World { method: "POST", ..world };
    assert_eq!(post.outcome(Some(&refuses)), ("+no-matching-rule".to_owned(), vec!["robots.txt"]));
}

#[test]
fn a_document_that_refuses_decides_and_is_named() {
    let world = World::of_a_trainer();
    let reserved = r#"[{"location": "/", "tdm-reservation": 1}]"#;
    let (verdict, _) = world
        .decide(Some(ALLOWS), |resource| DocumentResult::Cached(fetched(resource, 200, reserved)));
    assert_eq!(described(&verdict), "-preference");
    let preferences = verdict.facts.preferences.unwrap();
    let documents: Vec<_> =
        preferences.documents_seen().map(|document| document.url.as_str()).collect();
    assert_eq!(documents, ["https://shop.test/.well-known/tdmrep.json"]);
}

#[test]
fn a_document_that_has_not_come_refuses_for_now() {
    let world = World::of_a_trainer();
    let retry_after = Duration::from_secs(3);
    let (verdict, _) = world.decide(Some(ALLOWS), |_| DocumentResult::Pending { retry_after });
    let refusal = verdict.result.unwrap_err();
    assert_eq!((refusal.status, refusal.reason), (503, Reason::Preference));
    assert_eq!(refusal.retry_after, Some(retry_after));
    assert!(verdict.facts.preferences.is_none());
}

#[test]
fn a_document_that_this_proxy_kept_from_refuses_for_now() {
    let world = World::of_a_trainer();
    let after = |kind| {
        let document = |resource: &Resource| DocumentResult::Cached(failed(resource, kind));
        described(&world.decide(Some(ALLOWS), document).0)
    };
    assert_eq!(after(FetchErrorKind::RedirectProhibited), "-preference");
    assert_eq!(after(FetchErrorKind::OwnPace), "-preference");
    assert_eq!(after(FetchErrorKind::Connect), "+no-matching-rule");
}

#[test]
fn a_document_that_is_not_there_is_named_without_a_copy() {
    let world = World::of_a_trainer();
    assert_eq!(
        [200, 404].map(|status| {
            let answer =
                |resource: &Resource| DocumentResult::Cached(fetched(resource, status, "[]"));
            let preferences = world.decide(Some(ALLOWS), answer).0.facts.preferences.unwrap();
            preferences
                .documents_seen()
                .map(|document| document.fetched_at.is_some())
                .collect::<Vec<_>>()
        }),
        [[true], [false]]
    );
}

#[test]
fn documents_that_are_asked_for_twice_share_one_budget() {
    let world = World::of_a_trainer();
    let identified = world.identified();
    let mut decision = world.begin(&identified);
    let copy = fetched(&shop().into(), 200, ALLOWS);
    decision.add_robots_txt(&RobotsCopy::Cached(copy));
    let budgets = [(); 2].map(|()| match decision.step() {
        Step::Need(Input::Documents(batch)) => format!("{:?}", batch.context.budget),
        other => panic!("{other:?}"),
    });
    assert_eq!(budgets[0], budgets[1]);
    let whole = format!("{:?}", MatchContext::default().budget);
    assert_ne!(budgets[0], whole, "robots.txt was matched within it");
}

#[test]
fn a_method_in_lower_case_is_malformed_only_if_nothing_else_refuses() {
    let world = World { method: "get", ..World::default() };
    let (verdict, _) = world.decide(Some(ALLOWS), |_| DocumentResult::Archived(None));
    assert_eq!(described(&verdict), "-malformed-request");
    assert!(verdict.result.unwrap_err().closes_connection, "what follows it may be malformed, too");
    assert_eq!(world.outcome(Some(DISALLOWS)).0, "-rule");
}

#[test]
fn a_name_that_leads_nowhere_is_a_failure_not_a_refusal() {
    let world = World::default();
    for (kind, reason) in [
        (FetchErrorKind::NoSuchName, Reason::DnsError),
        (FetchErrorKind::Dns, Reason::DnsError),
        (FetchErrorKind::DnsTimeout, Reason::DnsTimeout),
        (FetchErrorKind::DnsUnavailable, Reason::DnsError),
        (FetchErrorKind::Local, Reason::ProxyInternalError),
    ] {
        let refusal = world.after(failed(&shop().into(), kind)).result.unwrap_err();
        assert!(refusal.is_failure, "{kind:?}");
        assert_eq!(refusal.reason, reason);
    }
}

#[test]
fn an_unknown_name_may_be_observed_but_no_internal_address() {
    let world = World { crawlers: known(EnforcementMode::Observe, &[]), ..World::default() };
    for (kind, outcome) in [
        (FetchErrorKind::Dns, "~unreachable"),
        (FetchErrorKind::DnsTimeout, "~unreachable"),
        (FetchErrorKind::Local, "~unreachable"),
        (FetchErrorKind::Prohibited, "-destination_ip_prohibited"),
    ] {
        assert_eq!(described(&world.after(failed(&shop().into(), kind))), outcome, "{kind:?}");
    }
}

#[test]
fn a_name_that_fails_after_a_redirect_is_not_the_origins() {
    let resource = Resource::from(&shop());
    let failed = FetchOutcome::failed(resource.uri(), FetchErrorKind::Dns, "no answer");
    let moved = RedirectHop { uri: resource.uri(), status: 301 };
    let outcome = FetchOutcome { redirects: vec![moved], ..failed };
    let copy = CheckedSnapshot::from_fetch(&resource, FinishedFetch::of_proxy(outcome, NOW));
    assert_eq!(described(&World::default().after(copy)), "-unreachable");
}

#[test]
fn the_status_of_an_unreachable_robots_txt_is_found() {
    let verdict = World::default().after(fetched(&shop().into(), 500, ""));
    assert_eq!(verdict.facts.finding.unwrap().status, Some(500));
}

#[test]
fn redirects_obey_rules_for_everybody_only() {
    let target = Target::parse("https://shop.test/robots.txt").unwrap();
    let refused = decide_own_request(&rule(RuleAction::Refuse), &target, NOW);
    assert_eq!(described(&refused), "-policy-rule");
    assert_eq!(refused.facts.rule.map(|found| found.number), Some(1));
    for rules in [rule(RuleAction::Allow), PolicyRules::default()] {
        let verdict = decide_own_request(&rules, &target, NOW);
        assert_eq!(described(&verdict), "+robots-redirect");
    }
    for crawler in ["example", "asserted"] {
        let of_one_crawler = PolicyRules::new(vec![PolicyRule {
            hosts: vec!["shop.test".parse().unwrap()],
            crawlers: vec![crawler.to_owned()],
            ..PolicyRule::default()
        }]);
        assert!(decide_own_request(&of_one_crawler, &target, NOW).result.is_ok(), "{crawler}");
    }
}

/// Whether a decision was made at once or in a second attempt, its verdict is that of one with all of the budget.
#[test]
fn a_costly_decision_is_made_in_a_second_attempt() {
    let chain =
        |number: usize, name: &str, value: &str| format!("{name}: /*a*g*e*{number}{value}\n");
    let rules: String = (0..4_000).map(|number| chain(number, "Allow", "")).collect();
    let uses: String = (0..4_000).map(|n| chain(n, "Content-Usage", " train-ai=y")).collect();
    let walk = "Allow: /x\n".repeat(10_001);
    for (text, is_cheap) in [
        ("Disallow: /*e$\n".to_owned(), [true, true]),
        (format!("{rules}Disallow: /*e$\n"), [false, false]),
        (format!("{uses}Content-Usage: /*ge train-ai=n\n"), [true, false]),
        (format!("{walk}Disallow: /page\n"), [false, false]),
    ] {
        let robots = format!("User-agent: *\n{text}");
        for (world, is_cheap) in [World::default(), World::of_a_trainer()].iter().zip(is_cheap) {
            let identified = world.identified();
            let copy = RobotsCopy::Cached(fetched(&Resource::from(shop()), 200, &robots));
            let mut tried = world.begin(&identified);
            let mut whole = world.begin(&identified);
            whole.add_robots_txt(&copy);
            let is_judged = tried.try_add_robots_txt(&copy);
            assert_eq!(is_judged, is_cheap, "{}", &text[..20.min(text.len())]);
            if !is_judged {
                assert!(matches!(tried.step(), Step::Need(Input::RobotsTxt(_))));
                assert!(tried.facts().finding.is_none() && tried.facts().preferences.is_none());
                tried.add_robots_txt(&copy);
            }
            assert_eq!(format!("{:?}", tried.facts()), format!("{:?}", whole.facts()));
            assert_eq!(format!("{:?}", tried.step()), format!("{:?}", whole.step()));
        }
    }
}
