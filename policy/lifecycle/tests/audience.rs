//! The requesters that an answer counts for: one table, whoever fetches.

use std::sync::Arc;
use std::time::SystemTime;

use wayleave_lifecycle::{
    ChosenBy, FetchEnding, FetchErrorKind, FetchIdentity, FetchOutcome, FetchedBody,
    FetchedResponse, FinishedFetch, ResponseFields,
};

const URI: &str = "https://shop.example/robots.txt";

fn response(status: u16, varies: bool) -> FetchOutcome {
    let fields = ResponseFields { varies, ..ResponseFields::default() };
    let response = FetchedResponse { status, fields, body: FetchedBody::default() };
    let ending = FetchEnding::Response(response);
    FetchOutcome { redirects: Vec::new(), uri: URI.to_owned(), ending }
}

fn failure(kind: FetchErrorKind) -> FetchOutcome {
    FetchOutcome::failed(URI.to_owned(), kind, "")
}

fn crawler() -> FetchIdentity {
    FetchIdentity {
        crawler: Some("news".into()),
        user_agent: Some("NewsBot/1".into()),
        ..FetchIdentity::default()
    }
}

fn counts(outcome: &FetchOutcome, fetched_as: &FetchIdentity, other: &FetchIdentity) -> bool {
    let finished = FinishedFetch {
        fetched_at: SystemTime::UNIX_EPOCH,
        fetched_as: Arc::new(fetched_as.clone()),
        outcome: outcome.clone(),
    };
    assert!(finished.counts_for(fetched_as), "its own answer counts for everyone");
    finished.counts_for(other)
}

#[test]
fn only_answers_that_all_would_get_count_for_others() {
    let redirect_lost =
        FetchOutcome { ending: FetchEnding::RedirectLost(301), ..failure(FetchErrorKind::Connect) };
    let mut rows = vec![
        (response(200, false), true),
        (response(200, true), false),
        (response(404, true), false),
        (failure(FetchErrorKind::Connect), true),
        (failure(FetchErrorKind::RedirectProhibited), false),
        (redirect_lost, false),
    ];
    rows.extend([404, 410, 429, 500, 503].map(|status| (response(status, false), true)));
    rows.extend([400, 401, 402, 403, 406, 418, 451].map(|status| (response(status, false), false)));
    for (outcome, expected) in rows {
        assert_eq!(
            counts(&outcome, &crawler(), &FetchIdentity::default()),
            expected,
            "{outcome:?}"
        );
    }
}

#[test]
fn whatever_origins_can_see_tells_two_requesters_apart() {
    let refused = response(403, false);
    let renamed = FetchIdentity { crawler: Some("other".into()), ..crawler() };
    assert!(counts(&refused, &crawler(), &renamed), "origins do not see our names of crawlers");
    for other in [
        FetchIdentity { user_agent: Some("NewsBot/2".into()), ..crawler() },
        FetchIdentity { key: Some("thumbprint".into()), ..crawler() },
        FetchIdentity { agent: Some("https://bot.example".into()), ..crawler() },
        FetchIdentity { source: Some([192, 0, 2, 1].into()), ..crawler() },
    ] {
        assert!(!counts(&refused, &crawler(), &other), "{other:?}");
        assert!(counts(&response(200, false), &crawler(), &other), "{other:?}");
    }
}

#[test]
fn a_failure_under_restrictions_counts_under_the_same_only() {
    let failed = failure(FetchErrorKind::Connect);
    for chosen in [ChosenBy::Internal, ChosenBy::Public] {
        let restricted = FetchIdentity { chosen, ..crawler() };
        assert!(!counts(&failed, &restricted, &crawler()), "{chosen:?}");
    }
    assert!(counts(&failed, &crawler(), &FetchIdentity::default()));
}
