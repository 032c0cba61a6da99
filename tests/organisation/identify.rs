//! Identification of crawlers by credentials, by address and by User-Agent; and crawlers that are only observed.

use std::io::Write as _;
use std::net::TcpStream;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::harness::client::reset_when_dropped;
use crate::harness::crawler::crawler;
use crate::harness::origin::reply::Step;
use crate::harness::passwords::{self, HASH, RIGHT, WRONG};
use crate::harness::wayleave::Settings;
use crate::harness::{Origin, Reply, Request, Response, Wayleave, decisions, eventually};

/// Starts three sites: one disallows a different path for each crawler, one has no robots.txt, one fails.
fn sites() -> Origin {
    let origin = Origin::start();
    origin.site("shop.test").robots(
        "User-agent: NewsBot\nDisallow: /news\n\nUser-agent: ImageBot\nDisallow: /images\n",
    );
    origin.site("open.test");
    origin.site("down.test").robots_reply(Reply::new(500));
    origin
}

fn start(origin: &Origin, change: impl FnOnce(Settings) -> Settings) -> Wayleave {
    Wayleave::start_with(origin, |settings| {
        let settings = settings.with(passwords::crawler("news", "news", HASH));
        change(settings.crawler("images", "ImageBot"))
    })
}

/// `other:secret`.
const UNKNOWN: &str = "Basic b3RoZXI6c2VjcmV0";

fn with_credentials(url: &str, credentials: &str) -> Request {
    Request::get(url).agent("NewsBot/1").header("Proxy-Authorization", credentials)
}

#[track_caller]
fn expect_407(answer: &Response, reason: &str) {
    // Many clients show nothing else of a proxy's response.
    let phrase = match reason {
        "wrong-password" => "Wrong user name or password",
        _ => "Proxy authentication required",
    };
    let problem = answer.expect_refusal(407, Some(phrase), "http_request_error");
    assert_eq!(problem["reason"], reason);
    assert_eq!(
        answer.header("proxy-authenticate"),
        Some("Basic realm=\"wayleave\", charset=\"UTF-8\"")
    );
}

#[test]
fn a_client_that_leaves_during_the_fetch_is_recorded_with_its_name() {
    let origin = sites();
    origin.site("hangs.test").robots_reply(Reply::nothing(Step::Hang));
    let proxy = start(&origin, |settings| settings);
    let mut tcp = TcpStream::connect(proxy.proxy).expect("the proxy listens");
    let request = with_credentials("http://hangs.test/", RIGHT).absolute_form();
    tcp.write_all(&request).expect("the proxy reads");
    origin.wait_for_target("/robots.txt");
    reset_when_dropped(&tcp);
    drop(tcp);
    let log = proxy.dir.path().join("state/decisions.jsonl");
    eventually("the exchange is recorded", || {
        let log = std::fs::read_to_string(&log).expect("it is there");
        let line = decisions(&log).find(|line| line.contains("client-closed")).map(str::to_owned);
        line.is_some_and(|line| {
            assert!(line.contains("\"username\":\"news\""), "{line}");
            true
        })
    });
}

#[test]
fn a_password_identifies_its_crawler() {
    let origin = sites();
    let proxy = start(&origin, |settings| settings);
    for _ in 0..2 {
        let disallowed = with_credentials("http://shop.test/news", RIGHT);
        assert_eq!(proxy.exchange(&disallowed).status, 403);
        let allowed = with_credentials("http://shop.test/images", RIGHT);
        assert_eq!(proxy.exchange(&allowed).status, 200);
        for wrong in [WRONG, UNKNOWN, "Bearer x", "Basic !"] {
            let request = with_credentials("http://open.test/", wrong);
            expect_407(&proxy.exchange(&request), "wrong-password");
        }
    }
    assert!(
        origin.requests().iter().all(|request| request.header("proxy-authorization").is_none()),
        "the password is not forwarded"
    );
    eventually("all are counted", || {
        proxy.metric("wayleave_requests_total", &[("crawler", "news")]) == 4.0
    });
}

#[test]
fn credentials_of_a_connect_apply_inside_its_tunnel() {
    let origin = sites();
    let proxy = start(&origin, |settings| settings.set("proxy.require_crawler", "true"));
    let mut wire = proxy.connect();
    wire.send_connect("shop.test:443", &format!("Proxy-Authorization: {RIGHT}\r\n"));
    assert_eq!(wire.response_head().status, 200);
    let mut wire = wire
        .start_tls("shop.test", &proxy.ca_pem(), &["http/1.1"])
        .expect("the leaf is trusted")
        .wire;
    wire.send(Request::get("https://shop.test/news").origin_form());
    assert_eq!(wire.response().status, 403);
    wire.send(Request::get("https://shop.test/images").origin_form());
    assert_eq!(wire.response().status, 200);

    let mut wire = proxy.connect();
    wire.send_connect("shop.test:443", &format!("Proxy-Authorization: {WRONG}\r\n"));
    expect_407(&wire.response(), "wrong-password");
}

/// A hash at many times the usual cost.
const COSTLY_HASH: &str =
    "$argon2id$v=19$m=65536,t=20,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

#[test]
fn guesses_beyond_the_limit_are_refused_and_delay_no_other() {
    let origin = sites();
    let costly = passwords::crawler("costly", "costly", COSTLY_HASH);
    let proxy = start(&origin, |settings| settings.with(costly));
    let right = with_credentials("http://open.test/", RIGHT);
    assert_eq!(proxy.exchange(&right).status, 200);
    let guess = |number: u32| {
        let mut wire = proxy.connect();
        let credentials = STANDARD.encode(format!("costly:{number}"));
        let request = with_credentials("http://open.test/", &format!("Basic {credentials}"));
        wire.send(request.absolute_form());
        wire
    };
    let mut guesses: Vec<_> = (0..100).map(guess).collect();
    let refused = || proxy.metric("wayleave_requests_total", &[("reason", "password-checks")]);
    eventually("most guesses are refused", || refused() > 50.0);
    assert_eq!(proxy.exchange(&right).status, 200, "it was verified before");
    let other = Request::get("http://open.test/").agent("ImageBot/1");
    assert_eq!(proxy.exchange(&other).status, 200);
    let mut answers = guesses.iter_mut().map(crate::harness::Wire::response);
    let first = answers.find(|answer| answer.status != 407);
    let first = first.expect("not all guesses are verified");
    let problem =
        first.expect_refusal(429, Some("Too many password checks"), "http_request_denied");
    assert_eq!(problem["reason"], "password-checks");
    assert_eq!(first.header("retry-after"), Some("1"));
    drop(guesses);
    eventually("guesses of closed connections are dropped", || {
        proxy.metric("wayleave_client_connections", &[]) == 0.0
    });
    let mut tunnel = proxy.connect();
    tunnel.send_connect("open.test:443", &format!("Proxy-Authorization: {RIGHT}\r\n"));
    assert_eq!(tunnel.response_head().status, 200);
}

#[test]
fn unidentified_clients_may_be_refused() {
    let origin = sites();
    let proxy = start(&origin, |settings| settings.set("proxy.require_crawler", "true"));
    for url in ["http://open.test/", "https://open.test/"] {
        expect_407(&proxy.get_as("Other/1", url), "unidentified");
        let known = proxy.get_as("ImageBot/1", url);
        assert_eq!(known.status, 200);
    }
    let all_have_passwords = ["news", "images"].map(|name| passwords::crawler(name, "news", HASH));
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("proxy.require_crawler", "true").with_all(all_have_passwords)
    });
    let answer = proxy.connect().connect_tunnel("open.test:443");
    expect_407(&answer, "unidentified");
}

#[test]
fn well_known_tokens_are_reserved_for_their_owners() {
    let origin = sites();
    let own = crawler("search", "Googlebot-News").set("tokens", ["Googlebot-News", "Googlebot"]);
    let proxy = start(&origin, |settings| settings.with(own));
    for agent in [
        "Googlebot/2.1",
        "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)",
        "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)",
    ] {
        for url in ["http://open.test/", "https://open.test/", "http://shop.test/"] {
            let answer = proxy.get_as(agent, url);
            let problem =
                answer.expect_refusal(403, Some("Token belongs to another"), "http_request_denied");
            assert_eq!(problem["reason"], "foreign-token");
        }
    }
    assert_eq!(origin.seen(), Vec::<String>::new(), "not even robots.txt");
    let agent = "Googlebot-News/1.0";
    let own = proxy.get_as(agent, "http://open.test/");
    assert_eq!(own.status, 200);
}

#[test]
fn robots_txt_is_fetched_by_the_name_of_the_crawler() {
    let origin = sites();
    origin.site("moved.test").robots_reply(Reply::redirect(301, "http://shop.test/rules"));
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .set("robots.user_agent", "\"fetcher/1\"")
            .with(crawler("own", "OwnBot").set("user_agent", "OwnBot/2 (+https://own.example)"))
            .crawler("rest", "RestBot")
    });
    for (agent, url) in [
        ("OwnBot/1", "http://moved.test/a"),
        ("RestBot/1", "https://open.test/a"),
        ("SomeBot/1", "http://open.test/a"),
        ("OwnBot/1", "https://shop.test/a"),
        // These use what the others fetched.
        ("RestBot/1", "http://moved.test/b"),
        ("OwnBot/1", "http://open.test/b"),
        ("OwnBot/1", "https://open.test/b"),
    ] {
        let answer = proxy.get_as(agent, url);
        assert_eq!(answer.status, 200, "{agent} {url}");
    }
    let requests = origin.requests();
    let fetches =
        requests.iter().filter(|request| ["/robots.txt", "/rules"].contains(&&*request.target));
    let seen = fetches.map(|fetch| {
        let url = format!("{}://{}{}", fetch.scheme, fetch.authority, fetch.target);
        (url, fetch.header("user-agent").unwrap_or_default())
    });
    let own = "OwnBot/2 (+https://own.example)";
    let rest = concat!("RestBot (wayleave/", env!("CARGO_PKG_VERSION"), ")");
    let expected = [
        ("http://moved.test/robots.txt", own),
        ("http://shop.test/rules", own),
        ("https://open.test/robots.txt", rest),
        ("http://open.test/robots.txt", "fetcher/1"),
        ("https://shop.test/robots.txt", own),
    ];
    let expected = expected.map(|(url, agent)| (url.to_owned(), agent));
    assert_eq!(seen.collect::<Vec<_>>(), expected);
}

#[test]
fn a_crawler_may_have_to_contain_its_token() {
    let origin = sites();
    let own = |must: bool| {
        crawler("own", "OwnBot")
            .matched_by("addresses", ["127.0.0.1"])
            .set("user_agent_must_contain_token", must)
    };
    let proxy = Wayleave::start_with(&origin, |settings| settings.with(own(true)));
    let get = |agent: &str| proxy.get_as(agent, "http://open.test/");
    assert_eq!(get("Mozilla/5.0 (ownbot)").status, 200);
    let problem = get("curl/8").expect_refusal(
        403,
        Some("Token missing in User-Agent"),
        "http_request_denied",
    );
    assert_eq!(problem["reason"], "token-missing");
    let proxy = Wayleave::start_with(&origin, |settings| settings.with(own(false)));
    let answer = proxy.get_as("curl/8", "http://open.test/");
    assert_eq!(answer.status, 200);
    let mismatches = "wayleave_user_agent_mismatches_total";
    assert_eq!(proxy.metric(mismatches, &[("crawler", "own")]), 1.0);
}

#[test]
fn observed_requests_are_forwarded_counted_and_logged() {
    let origin = sites();
    let proxy = start(&origin, |settings| {
        settings
            .set("proxy.mode", "\"observe\"")
            .set("proxy.require_crawler", "true")
            .table("mode = \"enforce\"\n")
    });
    let get = |agent: &str, url: &str| proxy.get_as(agent, url).status;
    assert_eq!(get("ImageBot/1", "http://shop.test/images"), 403);
    assert_eq!(get("Other/1", "http://open.test/"), 200);
    assert_eq!(get("Googlebot/2.1", "http://open.test/"), 200);
    assert_eq!(get("NewsBot/1", "http://down.test/a"), 200);
    let disallowed = with_credentials("http://shop.test/news", RIGHT);
    assert_eq!(proxy.exchange(&disallowed).status, 200);
    let wrong = with_credentials("http://open.test/", WRONG);
    expect_407(&proxy.exchange(&wrong), "wrong-password");
    assert!(origin.seen().contains(&"GET http://shop.test/news".to_owned()), "it was forwarded");
    let listed = || proxy.admin_get("/v1/decisions?outcome=observed").json();
    let count = || listed()["decisions"].as_array().map_or(0, Vec::len);
    eventually("all are recorded", || count() == 4);
    let listed = listed();
    let observed = listed["decisions"].as_array().expect("an array");
    let mut found: Vec<_> = observed
        .iter()
        .map(|decision| {
            let text = |member: &str| decision[member].as_str().unwrap_or_default().to_owned();
            (text("crawler"), text("reason"), decision["would_be"].clone())
        })
        .collect();
    // Requests on several connections are recorded in any order.
    found.sort_by(|one, other| other.0.cmp(&one.0));
    let expected = [
        ("news", "rule", 403),
        ("asserted", "unidentified", 407),
        ("asserted", "unidentified", 407),
        ("asserted", "unidentified", 407),
    ];
    let expected = expected
        .map(|(crawler, reason, status)| (crawler.to_owned(), reason.to_owned(), status.into()));
    assert_eq!(found, expected);
    let observed = [("outcome", "observed"), ("crawler", "news")];
    assert_eq!(proxy.metric("wayleave_requests_total", &observed), 1.0);
}

#[test]
fn impossible_requests_are_refused_in_observe_mode_too() {
    let origin = sites();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .set("proxy.mode", "\"observe\"")
            .resolve("inside.test:80", "10.0.0.1:80".parse().expect("an address"))
    });
    assert_eq!(proxy.get("http://inside.test/").status, 502);
    assert_eq!(proxy.get("gopher://open.test/").status, 501);
}

#[test]
fn the_owner_of_a_crawler_is_in_refusals_log_and_page() {
    let origin = sites();
    let proxy = Wayleave::start_with(&origin, |settings| {
        let owned = crawler("news", "NewsBot").set("owner", "news@bot.test");
        settings
            .set("https.mode", "\"refuse\"")
            .with(owned.set("trigger", "fetcher"))
            .crawler("images", "ImageBot")
    });
    let expected = serde_json::json!("news@bot.test");
    let refused = proxy.get_as("NewsBot/1", "http://shop.test/news");
    assert_eq!((refused.status, &refused.json()["owner"]), (403, &expected));
    let mut wire = proxy.connect();
    wire.send(
        "CONNECT shop.test:443 HTTP/1.1\r\nHost: shop.test:443\r\nUser-Agent: NewsBot/1\r\n\r\n",
    );
    let tunnel = wire.response();
    assert_eq!((tunnel.status, &tunnel.json()["owner"]), (403, &expected));
    let of_nobody = proxy.get_as("ImageBot/1", "http://shop.test/images");
    assert_eq!((of_nobody.status, of_nobody.json().get("owner")), (403, None));
    let recorded = |crawler: &str| {
        let path = format!("/v1/decisions?crawler={crawler}");
        let listed = proxy.admin_get(&path).json();
        listed["decisions"].as_array().cloned().unwrap_or_default()
    };
    eventually("all are recorded", || recorded("news").len() + recorded("images").len() == 3);
    assert!(recorded("news").iter().all(|decision| decision["owner"] == expected));
    assert_eq!(recorded("images")[0].get("owner"), None);
    let listed = proxy.admin_get("/v1/crawlers").json();
    let owners = [0, 1, 2].map(|at| listed["crawlers"][at]["owner"].as_str().map(str::to_owned));
    assert_eq!(owners, [Some("news@bot.test".to_owned()), None, None]);
}
