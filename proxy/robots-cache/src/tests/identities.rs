//! The identities in whose names documents are fetched, and those for which an answer counts.

use std::time::SystemTime;

use wayleave_fleet::memory::MemoryEngine;
use wayleave_lifecycle::{
    ChosenBy, FetchEnding, FetchErrorKind, FetchOutcome, FetchedBody, FetchedResponse,
    ResponseFields,
};
use wayleave_robots_txt::{AccessResult, Dialect, ProductToken, UrlPath, decide};

use super::super::*;
use super::fleet::joined;
use super::handle::{Answer, DAY, HOUR, ScriptedFetch, origin, settle, started};

const EXAMPLE: &str = "ExampleBot/1.0";
const CLOSED: &str = "User-agent: ExampleBot\nDisallow: /\n";

fn crawler(name: &'static str, user_agent: &'static str) -> Requester<'static> {
    let identity = FetchIdentity {
        crawler: Some(name.into()),
        user_agent: Some(user_agent.into()),
        ..FetchIdentity::default()
    };
    Requester { crawler: name, identity: identity.into(), ..Requester::default() }
}

fn example() -> Requester<'static> {
    crawler("example", EXAMPLE)
}

fn client(user_agent: &str) -> Requester<'static> {
    Requester { identity: FetchIdentity::of_client(user_agent).into(), ..Requester::default() }
}

/// Returns whether robots.txt allows `token` to fetch `/page`.
fn allows(known: &CheckedSnapshot, token: &str) -> bool {
    let token = ProductToken::new(token).unwrap();
    let path = UrlPath::parse("/page").unwrap();
    decide(known.access(), Dialect::default(), &[token], &path).verdict().as_str() == "allow"
}

/// The ways in which a copy is fetched again.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Refetch {
    Ahead,
    Overdue,
    Expired,
    Forced,
    Restart,
    /// By another node of the fleet, which does not know the document yet.
    OtherNode,
}

/// Lets time pass in one leap but for its last minute, in which the nodes of a fleet find each other again: slept through, a day
/// costs each of them hundreds of thousands of polls.
async fn leap(time: Duration) {
    let last = Duration::from_secs(60);
    tokio::time::advance(time - last).await;
    tokio::time::sleep(last).await;
}

/// Makes a copy of `document`, fetched as [`EXAMPLE`], be fetched again while only a client without a crawler needs it.
/// Returns the cache that has it then.
async fn fetch_again(refetch: Refetch, fetch: &ScriptedFetch, document: &Resource) -> RobotsCache {
    let memory = MemoryEngine::new("");
    let robots = joined(fetch, &memory, "one").await;
    let find = async |robots: &RobotsCache| {
        robots.find_for(document, client("curl/8.5.0")).await.unwrap();
    };
    robots.find_for(document, example()).await.unwrap();
    match refetch {
        Refetch::Ahead => {
            for _ in 0..30 {
                leap(HOUR).await;
                find(&robots).await;
            }
        }
        Refetch::Overdue => {
            let origin = document.origin();
            leap(2 * DAY).await;
            fetch.answer(origin, Answer::Fails(FetchErrorKind::Connect));
            find(&robots).await;
            leap(Duration::from_secs(90)).await;
            fetch.answer(origin, Answer::OnlyTo(EXAMPLE, CLOSED));
            // Another crawler reads the stale copy.
            robots.find_for(document, crawler("other", "OtherBot/1.0")).await.unwrap();
            settle().await;
        }
        Refetch::Expired => {
            leap(2 * DAY).await;
            find(&robots).await;
        }
        Refetch::Forced => drop(robots.refresh(document).await.unwrap()),
        Refetch::Restart => {
            robots.store().flush().await;
            leap(2 * DAY).await;
            let store = robots.store().clone();
            let clock = robots.clock();
            let metrics = Arc::new(Metrics::new().unwrap());
            let config = RobotsCacheConfig::default();
            let again = RobotsCache::start(fetch.clone(), store, &config, clock, metrics).0;
            find(&again).await;
            return again;
        }
        Refetch::OtherNode => {
            leap(HOUR).await;
            let other = joined(fetch, &memory, "other").await;
            other.refresh(document).await.unwrap();
            return other;
        }
    }
    robots
}

#[tokio::test(start_paused = true)]
async fn every_refetch_is_made_by_the_one_that_fetched() {
    use Refetch::{Ahead, Expired, Forced, OtherNode, Overdue, Restart};
    let shop = origin("shop");
    for document in [Resource::from(&shop), Resource::at(&shop, "/.well-known/tdmrep.json")] {
        for refetch in [Ahead, Overdue, Expired, Forced, Restart, OtherNode] {
            let case = format!("{refetch:?} {document}");
            let fetch = ScriptedFetch::default();
            fetch.answer(&shop, Answer::OnlyTo(EXAMPLE, CLOSED));
            let robots = fetch_again(refetch, &fetch, &document).await;
            let user_agents = fetch.user_agents();
            assert!(user_agents.len() > 1, "{case}");
            assert!(
                user_agents.iter().all(|user_agent| user_agent == EXAMPLE),
                "{case}: {user_agents:?}"
            );
            let known = robots.find_for(&document, example()).await.unwrap();
            if document.is_robots_txt() {
                assert!(!allows(&known, "ExampleBot"), "{case}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_to_one_client_is_no_answer_to_another() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let fetch = ScriptedFetch::default();
        let robots = started(&fetch);
        let shop = origin("shop");
        fetch.answer(&shop, Answer::OnlyTo(EXAMPLE, CLOSED));
        for _ in 0..3 {
            for number in order {
                let all = [example(), crawler("other", "OtherBot/1.0"), client("ExampleBot/3.0")];
                robots.find_for(&shop, all[number].clone()).await.unwrap();
                let known = robots.find_for(&shop, example()).await.unwrap();
                assert!(!allows(&known, "ExampleBot"), "{order:?}");
            }
            tokio::time::sleep(20 * HOUR).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn rules_that_count_for_everybody_replace_a_refusal() {
    let fetch = ScriptedFetch::default();
    let robots = started(&fetch);
    let shop = origin("shop");
    fetch.answer(&shop, Answer::OnlyTo(EXAMPLE, CLOSED));
    let other = || client("ExampleBot/3.0");
    assert!(allows(&robots.find_for(&shop, other()).await.unwrap(), "ExampleBot"), "403");
    assert!(!allows(&robots.find_for(&shop, example()).await.unwrap(), "ExampleBot"));
    assert!(!allows(&robots.find_for(&shop, other()).await.unwrap(), "ExampleBot"));
    assert_eq!(fetch.user_agents(), ["-", "ExampleBot/3.0", EXAMPLE]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_varies_counts_for_one_identity() {
    let fetch = ScriptedFetch::default();
    let robots = started(&fetch);
    let shop = origin("shop");
    fetch.answer(&shop, Answer::Varies);
    let digest = async |requester: Requester<'static>| {
        let known = robots.find_for(&shop, requester).await.unwrap();
        match known.access() {
            AccessResult::Successful(rules) => format!("{rules:?}"),
            other => panic!("{other:?}"),
        }
    };
    let one = digest(example()).await;
    let two = digest(crawler("two", "Two/1")).await;
    assert_ne!(one, two);
    let three = digest(client("Three/1")).await;
    assert!(three != one && three != two);
    assert_eq!((digest(example()).await, digest(client("Three/1")).await), (one, three));
    assert_eq!(fetch.user_agents(), [EXAMPLE, "Two/1", "Three/1"]);
}

#[tokio::test(start_paused = true)]
async fn answers_count_as_the_table_says() {
    use Answer::{Fails, Status};
    for (answer, is_shared) in [
        (Status(200), true),
        (Answer::Varies, false),
        (Status(404), true),
        (Status(410), true),
        (Status(429), true),
        (Status(500), true),
        (Status(503), true),
        (Fails(FetchErrorKind::Connect), true),
        (Fails(FetchErrorKind::Dns), true),
        (Fails(FetchErrorKind::Timeout), true),
        (Fails(FetchErrorKind::RedirectProhibited), false),
        (Status(400), false),
        (Status(401), false),
        (Status(402), false),
        (Status(403), false),
        (Status(406), false),
        (Status(418), false),
        (Status(451), false),
    ] {
        let fetch = ScriptedFetch::default();
        let robots = started(&fetch);
        let shop = origin("shop");
        fetch.answer(&shop, answer);
        robots.find_for(&shop, example()).await.unwrap();
        let answered = format!("{:?}", robots.find_for(&shop, client("curl/8")).await.unwrap());
        let expected: &[_] = if is_shared { &[EXAMPLE] } else { &[EXAMPLE, "curl/8"] };
        assert_eq!(fetch.user_agents(), expected, "{answered}");
        robots.find_for(&shop, example()).await.unwrap();
        robots.find_for(&shop, client("curl/8")).await.unwrap();
        assert_eq!(fetch.fetches(), expected.len(), "{answered}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_without_a_crawler_is_named_only_where_it_matters() {
    let fetch = ScriptedFetch::default();
    let robots = started(&fetch);
    let open = origin("open");
    let closed = origin("closed");
    fetch.answer(&closed, Answer::OnlyTo("curl/8", CLOSED));
    robots.find_for(&open, client("curl/8")).await.unwrap();
    assert_eq!(fetch.user_agents(), ["-"]);
    let known = robots.find_for(&closed, client("curl/8")).await.unwrap();
    assert!(!allows(&known, "ExampleBot"));
    assert_eq!(fetch.user_agents(), ["-", "-", "curl/8"]);
}

#[tokio::test(start_paused = true)]
async fn a_restricted_failure_counts_for_nobody_else() {
    let fetch = ScriptedFetch::default();
    let robots = started(&fetch);
    let intranet = origin("intranet");
    fetch.answer(&intranet, Answer::Fails(FetchErrorKind::Connect));
    robots.find_for(&intranet, example().with_chosen(ChosenBy::Public)).await.unwrap();
    fetch.answer(&intranet, Answer::Status(200));
    for requester in [crawler("two", "Two/1"), example(), client("curl/8")] {
        let known = robots.find_for(&intranet, requester).await.unwrap();
        assert!(matches!(known.access(), AccessResult::Successful(_)), "{known:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn clients_without_a_crawler_have_eight_copies_at_most() {
    let fetch = ScriptedFetch::default();
    let robots = started(&fetch);
    let shop = origin("shop");
    fetch.answer(&shop, Answer::Varies);
    for n in 0..20 {
        robots.find_for(&shop, client(&format!("Client/{n}"))).await.unwrap();
    }
    assert_eq!(robots.documents.published.len(), 1 + 8);
    assert_eq!(robots.related_documents(&shop).await.len(), 8, "nor in the store");
    let fetches = fetch.fetches();
    robots.find_for(&shop, client("Client/19")).await.unwrap();
    robots.find_for(&shop, client("Client/12")).await.unwrap();
    assert_eq!(fetch.fetches(), fetches);
}

#[tokio::test(start_paused = true)]
async fn a_crawler_with_another_identity_fetches_its_own_again() {
    let fetch = ScriptedFetch::default();
    let robots = started(&fetch);
    let shop = origin("shop");
    fetch.answer(&shop, Answer::Varies);
    robots.find_for(&shop, client("curl/8")).await.unwrap();
    robots.find_for(&shop, example()).await.unwrap();
    robots.find_for(&shop, crawler("example", "ExampleBot/2.0")).await.unwrap();
    robots.find_for(&shop, crawler("example", "ExampleBot/2.0")).await.unwrap();
    assert_eq!(fetch.user_agents(), ["-", "curl/8", EXAMPLE, "ExampleBot/2.0"]);
}

#[test]
fn validators_are_sent_by_the_one_that_got_them() {
    let entry = CacheEntry::default();
    let shop = Resource::from(origin("shop"));
    let fields = ResponseFields { etag: Some("\"v\"".into()), ..ResponseFields::default() };
    let body = FetchedBody::default();
    let ending = FetchEnding::Response(FetchedResponse { status: 200, fields, body });
    let outcome = FetchOutcome { redirects: Vec::new(), uri: shop.uri(), ending };
    let fetched_as = example().identity;
    let finished = FinishedFetch {
        fetched_at: SystemTime::UNIX_EPOCH,
        fetched_as: fetched_as.clone(),
        outcome,
    };
    let entry = entry.after_fetch(finished);
    assert!(entry.request(&shop, fetched_as).validators.is_some());
    assert!(entry.request(&shop, FetchIdentity::proxy()).validators.is_none());
}
