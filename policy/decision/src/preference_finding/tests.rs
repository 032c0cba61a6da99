//! Statements in robots.txt, documents, heads and pages, and what they come to.

use wayleave_lifecycle::{
    FetchEnding, FetchOutcome, FetchedBody, FetchedResponse, FinishedFetch, ResponseFields,
};
use wayleave_robots_txt::RobotsTxt;
use wayleave_usage_preferences::{CrawlerDeclaration, Purpose, PurposeSet, SourceSet};

use super::*;
use crate::crawler::tests::crawler;
use crate::robots::CheckedSnapshot;

const NOTHING: AccessResult = AccessResult::Unavailable { status: 404 };
const TO_TRAIN: CrawlerDeclaration = CrawlerDeclaration {
    purposes: PurposeSet::of(&[Purpose::TrainAi]),
    purpose_tokens: Vec::new(),
    content_use: None,
    refuse_unstated: false,
};

fn page() -> ResolvedTarget {
    ResolvedTarget {
        target: Target::parse("https://shop.test/x/../page").unwrap(),
        scope: TargetScope::Path,
    }
}

fn reading(source: PreferenceSource) -> PreferenceSettings {
    PreferenceSettings { sources: SourceSet::from_iter([source]), ..Default::default() }
}

fn robots_txt(text: &str) -> AccessResult {
    AccessResult::Successful(RobotsTxt::parse(text.as_bytes()))
}

fn decision(
    declaration: CrawlerDeclaration,
    settings: &PreferenceSettings,
    access: AccessResult,
    context: MatchContext,
) -> PreferenceFinding {
    let robots_txt = RobotsCopy::Archived {
        access: Arc::new(access),
        at: SystemTime::UNIX_EPOCH,
        error_kind: None,
    };
    let crawler = Arc::new(Crawler { declaration, ..crawler("example") });
    let resolved = page();
    PreferenceFinding::from_robots_txt(robots_txt, settings, &crawler, "GET", &resolved, context)
        .unwrap()
}

/// Returns the decision of a crawler that trains, by all sources.
fn to_train(access: AccessResult) -> PreferenceFinding {
    decision(TO_TRAIN, &PreferenceSettings::default(), access, MatchContext::default())
}

fn after_head(decision: &PreferenceFinding, fields: &[(&str, &str)]) -> PreferenceFinding {
    decision.clone().with_head(&PreferenceSettings::default(), 200, &fields.iter().copied())
}

/// Returns the result of fetching a document.
fn fetched(document: &DocumentToFetch, text: &str) -> DocumentResult {
    let resource = document.resource().unwrap();
    let response = FetchedResponse {
        status: 200,
        fields: ResponseFields::default(),
        body: FetchedBody { bytes: text.as_bytes().into(), ..FetchedBody::default() },
    };
    let outcome = FetchOutcome {
        redirects: Vec::new(),
        uri: resource.uri(),
        ending: FetchEnding::Response(response),
    };
    let now = SystemTime::UNIX_EPOCH;
    DocumentResult::Cached(CheckedSnapshot::from_fetch(
        resource,
        FinishedFetch::of_proxy(outcome, now),
    ))
}

#[test]
fn a_spent_budget_stays_spent_without_documents() {
    // Only statements in responses, so that nothing is fetched before the request.
    let settings = reading(PreferenceSource::RobotsMeta);
    let mut context = MatchContext::default();
    context.budget.spend(usize::MAX);
    let decision = decision(TO_TRAIN, &settings, NOTHING, context);
    assert!(decision.documents_to_fetch(&settings).is_none());
    assert!(decision.state.match_context().is_spent());
}

#[test]
fn a_document_that_may_not_be_asked_for_is_too_costly_once_the_budget_is_spent() {
    let settings = reading(PreferenceSource::Tdmrep);
    let mut decision = decision(TO_TRAIN, &settings, NOTHING, MatchContext::default());
    let mut batch = decision.documents_to_fetch(&settings).unwrap();
    batch.context.budget.spend(usize::MAX);
    let not_asked = DocumentResult::NotAsked(DocumentBatch::NOT_ALLOWED.to_owned());
    decision.add_documents(&settings, batch, &[not_asked]).unwrap();
    assert_eq!(decision.refusal(&page()).unwrap().reason, Reason::TooCostly);
    assert!(decision.state.match_context().is_spent());
}

#[test]
fn the_licence_that_refuses_is_named() {
    let settings = reading(PreferenceSource::Rsl);
    let named = "License: https://shop.test/one.xml\nLicense: https://shop.test/two.xml\n";
    let mut decision = decision(TO_TRAIN, &settings, robots_txt(named), MatchContext::default());
    let batch = decision.documents_to_fetch(&settings).unwrap();
    let terms = ["permits", "prohibits"].map(|terms| {
        format!(
            "<rsl xmlns=\"https://rslstandard.org/rsl\"><content url=\"/\"><license>\
             <{terms} type=\"usage\">all</{terms}></license></content></rsl>"
        )
    });
    let licences = batch.documents.iter().zip(&terms);
    let results: Vec<_> = licences.map(|(document, terms)| fetched(document, terms)).collect();
    assert_eq!(results.len(), 2);
    decision.add_documents(&settings, batch, &results).unwrap();
    let Some(RefusalBasis::Preference(stated)) =
        decision.refusal(&page()).unwrap().basis.map(|basis| *basis)
    else {
        panic!("a statement refuses");
    };
    assert_eq!(stated.document.unwrap().url, "https://shop.test/two.xml");
}

#[test]
fn licences_of_a_response_are_asked_for_unless_it_is_refused_already() {
    let settings = PreferenceSettings::default();
    let licence =
        ("link", "<https://shop.test/one.xml>; rel=\"license\"; type=\"application/rsl+xml\"");
    let before = to_train(NOTHING);
    let named = after_head(&before, &[licence]).licences_to_fetch(&settings);
    let urls: Vec<_> = named.unwrap().documents.iter().map(DocumentToFetch::url).collect();
    assert_eq!(urls, ["https://shop.test/one.xml"]);
    let refused = after_head(&before, &[licence, ("content-usage", "train-ai=n")]);
    assert!(refused.licences_to_fetch(&settings).is_none());
}

#[test]
fn head_and_page_of_a_response_are_judged() {
    let settings = PreferenceSettings::default();
    let before = to_train(NOTHING);
    assert!(before.refusal(&page()).is_none());
    let head = after_head(&before, &[("content-usage", "train-ai=n")]);
    assert!(head.refusal(&page()).is_some());
    let html = after_head(&before, &[("content-type", "text/html")]);
    assert!(html.needs_page(&settings) && html.refusal(&page()).is_none());
    let read = html.with_page(&settings, "<meta name=\"tdm-reservation\" content=\"1\">");
    assert!(read.refusal(&page()).is_some());
    assert!(!after_head(&before, &[("content-type", "image/png")]).needs_page(&settings));
}

#[test]
fn a_402_asks_for_payment() {
    let settings = PreferenceSettings::default();
    let asks = |status| {
        let answered = to_train(NOTHING).with_head(&settings, status, &[].into_iter());
        let statement = answered.judgement.statement();
        statement.is_some_and(|statement| statement.source == PreferenceSource::Payment)
    };
    assert_eq!([200, 402].map(asks), [false, true]);
}

#[test]
fn a_page_can_lift_only_silence_and_reservations() {
    let settings = reading(PreferenceSource::Tdmrep);
    let mut reserved = decision(TO_TRAIN, &settings, NOTHING, MatchContext::default());
    let batch = reserved.documents_to_fetch(&settings).unwrap();
    let file = fetched(&batch.documents[0], r#"[{"location": "/", "tdm-reservation": 1}]"#);
    reserved.add_documents(&settings, batch, &[file]).unwrap();
    let careful = CrawlerDeclaration { refuse_unstated: true, ..TO_TRAIN };
    let silent = decision(careful, &settings, NOTHING, MatchContext::default());
    let refused = after_head(&to_train(NOTHING), &[("content-usage", "train-ai=n")]);
    for (decision, is_final) in [(reserved, false), (silent, false), (refused, true)] {
        assert!(decision.refusal(&page()).is_some());
        assert_eq!(decision.is_final_refusal(), is_final, "{:?}", decision.judgement);
    }
}

#[test]
fn preferences_are_for_every_spelling_of_a_path() {
    let text = "User-agent: *\nContent-Usage: /page train-ai=n\n";
    assert!(to_train(robots_txt(text)).refusal(&page()).is_some());
}

#[test]
fn a_refusal_is_only_observed_in_mode_observe() {
    let mut decision = to_train(NOTHING);
    assert!(!decision.is_only_observed());
    let observed = Crawler { mode: EnforcementMode::Observe, ..crawler("example") };
    decision.crawler = Arc::new(observed);
    assert!(decision.is_only_observed());
}
