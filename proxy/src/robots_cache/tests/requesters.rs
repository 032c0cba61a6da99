//! Requesters: their shares, their departure, and the identities of fetches.

use tokio::time::Instant;
use wayleave_lifecycle::FetchErrorKind;
use wayleave_robots_txt::AccessResult;

use super::super::*;
use super::handle::{
    Answer, DAY, HOUR, ScriptedFetch, name_tarpits, of, origin, settle, start, started,
};
use crate::signing::{
    AgentFieldForm, KeySigner, MessageSigner, SigningKey, SigningMode, SigningSettings,
};

const ONE_AT_A_TIME: FetchLimits = FetchLimits { total: 1, per_host: 1, reserved: 0 };

#[tokio::test(start_paused = true)]
async fn a_requester_that_joins_during_a_store_read_counts() {
    let fetch = ScriptedFetch::default();
    let robots = started(&fetch);
    let naming = name_tarpits(&fetch, &robots, 0..3000);
    settle().await;
    let shop = origin("shop");
    let started_at = Instant::now();
    // The second joins while the store reads the file for the first, who has many documents queued.
    let (first, second) = tokio::join!(
        robots.find_for(&shop, of("attacker", 1)),
        robots.find_for(&shop, of("news", 2)),
    );
    assert!(first.is_ok() && second.is_ok());
    assert!(started_at.elapsed() < Duration::from_millis(10));
    drop(naming);
}

#[tokio::test(start_paused = true)]
async fn an_operators_fetch_is_used_like_any_other() {
    let fetch = ScriptedFetch::default();
    let (robots, _) = start(&fetch, ONE_AT_A_TIME);
    let shop = origin("shop");
    robots.refresh(&shop).await.unwrap();
    tokio::time::sleep(2 * DAY).await;
    let naming = name_tarpits(&fetch, &robots, 0..1);
    settle().await;
    let started_at = Instant::now();
    assert!(robots.find_for(&shop, of("news", 2)).await.is_ok());
    assert!(started_at.elapsed() < Duration::from_secs(1), "a good copy is used");
    assert_eq!(fetch.fetches(), 2, "the refetch is still queued");
    naming.join_all().await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_attempt_is_repeated_for_the_next_reader() {
    let fetch = ScriptedFetch::default();
    let (robots, _) = start(&fetch, ONE_AT_A_TIME);
    let shop = origin("shop");
    robots.find(&shop).await.unwrap();
    tokio::time::sleep(2 * DAY).await;
    fetch.answer(&shop, Answer::Fails(FetchErrorKind::Connect));
    robots.find(&shop).await.unwrap();
    tokio::time::sleep(Duration::from_secs(90)).await;
    let naming = name_tarpits(&fetch, &robots, 0..1);
    settle().await;
    assert!(robots.cached(&shop).is_some(), "another attempt is due");
    settle().await;
    // An operator wants it as well, and leaves before it starts.
    let left = tokio::time::timeout(Duration::from_secs(1), robots.refresh(&shop)).await;
    assert!(left.is_err());
    naming.join_all().await;
    settle().await;
    assert_eq!(fetch.fetches(), 3, "nobody waits for it");
    assert!(robots.cached(&shop).is_some());
    settle().await;
    assert_eq!(fetch.fetches(), 4);
}

#[tokio::test(start_paused = true)]
async fn each_panicking_fetch_lengthens_the_back_off() {
    let fetch = ScriptedFetch::default();
    let robots = started(&fetch);
    let bad = origin("bad");
    fetch.answer(&bad, Answer::Panics);
    for failures in 1..5 {
        let snapshot = robots.find(&bad).await.unwrap().snapshot;
        assert_eq!(snapshot.failures(), failures);
        let pause = snapshot.retry_after(robots.clock().now()).unwrap();
        tokio::time::sleep(pause + Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn refetch_identities_are_dropped_when_crawlers_change() {
    let fetch = ScriptedFetch::default();
    let robots = started(&fetch);
    let shop = origin("shop");
    let source = Some([192, 0, 2, 1].into());
    let requester = Requester { source, ..Requester::default() };
    robots.find_for(&shop, requester).await.unwrap();
    let use_for_two_days = async || {
        for _ in 0..48 {
            tokio::time::sleep(HOUR).await;
            assert!(robots.cached(&shop).is_some());
        }
    };
    use_for_two_days().await;
    robots.reconfigure(&RobotsCacheConfig::default(), false).await;
    use_for_two_days().await;
    let before = fetch.sources();
    assert!(before.len() > 3 && before.iter().all(|it| *it == source));
    robots.reconfigure(&RobotsCacheConfig::default(), true).await;
    use_for_two_days().await;
    let since = &fetch.sources()[before.len()..];
    assert!(!since.is_empty() && since.iter().all(Option::is_none));
}

#[tokio::test(start_paused = true)]
async fn refetches_may_repeat_a_request_for_a_signature() {
    let fetch = ScriptedFetch::default();
    let robots = started(&fetch);
    let (open, signers_only) = (origin("open"), origin("signers-only"));
    fetch.answer(&signers_only, Answer::AsksForSignature);
    for shop in [&open, &signers_only] {
        robots.find(shop).await.unwrap();
        robots.refresh(shop).await.unwrap();
    }
    // A refetch must not replace rules by a request for a signature, but here there are no rules to lose.
    assert_eq!(fetch.refetches(), [false, true, false, false]);
}

#[tokio::test(start_paused = true)]
async fn a_signer_fetches_again_after_joining_an_unsigned_fetch() {
    let dir = tempfile::tempdir().unwrap();
    let key = Arc::new(SigningKey::create(&dir.path().join("key.pem")).unwrap());
    let settings = SigningSettings {
        mode: SigningMode::Always,
        agent: None,
        form: AgentFieldForm::default(),
        lifetime: HOUR,
    };
    let signer = Arc::new(MessageSigner::new(settings, vec![key.clone()]));
    let signed_by = KeySigner { signer, key };
    let fetch = ScriptedFetch::default();
    let robots = started(&fetch);
    let shop = origin("shop");
    fetch.answer(&shop, Answer::AsksForSignature);
    let signing = Requester { signed_by: Some(&signed_by), ..Requester::default() };
    let (unsigned, signed) = tokio::join!(robots.find(&shop), robots.find_for(&shop, signing));
    let unsigned = unsigned.unwrap();
    assert!(matches!(unsigned.access(), AccessResult::Unavailable { status: 401 }), "{unsigned:?}");
    let signed = signed.unwrap();
    assert!(matches!(signed.access(), AccessResult::Successful(_)), "{signed:?}");
    assert_eq!(fetch.fetches(), 2);
}
