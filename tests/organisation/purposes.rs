//! `Wayleave-Purpose`: a request never goes out under a name that does not declare the purposes that its client states.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;

use crate::harness::crawler::{Crawler, crawler};
use crate::harness::tools::output_of;
use crate::harness::wayleave::{Settings, command};
use crate::harness::{Origin, Request, Wayleave, eventually};

const LIMIT: Duration = Duration::from_secs(60);

/// The crawlers: name, the agent that it matches, and purposes. Two of them match the same requests.
const CRAWLERS: [(&str, &str, &[&str]); 5] = [
    ("news-search", "NewsBot", &["search"]),
    ("news-trainer", "NewsBot", &["train-ai"]),
    ("shop", "ShopBot", &["search", "train-ai"]),
    ("watched", "WatchedBot", &["search"]),
    ("plain", "PlainBot", &[]),
];
/// The values of the field, and the purposes that they state; `None`: the field is wrong.
const STATED: [(Option<&str>, Option<&[&str]>); 6] = [
    (None, Some(&[])),
    (Some("search"), Some(&["search"])),
    (Some("train-ai"), Some(&["train-ai"])),
    (Some(" train-ai , search"), Some(&["train-ai", "search"])),
    (Some("archive"), Some(&["archive"])),
    (Some("sell"), None),
];

/// Returns the name under which a request of this agent may go out, if under any.
fn expected(agent: &str, stated: Option<&[&str]>) -> Option<&'static str> {
    let stated = stated?;
    let covers = |purposes: &[&str]| stated.iter().all(|it| purposes.contains(it));
    let mut matching = CRAWLERS.iter().filter(|(_, matched, _)| *matched == agent);
    matching.find(|(.., purposes)| covers(purposes)).map(|(name, ..)| *name)
}

/// Starts a proxy that signs for each crawler with a key of its own. Returns the crawlers by their keys, too.
fn start(origin: &Origin) -> (Wayleave, HashMap<String, String>) {
    let dir = tempfile::tempdir().expect("a directory");
    let declared = |(name, agent, purposes): (&str, &str, &[&str])| -> Crawler {
        let mut keys = command();
        output_of(keys.args(["keys", "new", name]).current_dir(dir.path()), b"", LIMIT);
        let key = dir.path().join(format!("keys/{name}.pem")).display().to_string();
        let made = crawler(name, agent).set("signing_key", key);
        let made = if purposes.is_empty() { made } else { made.set("purposes", purposes.to_vec()) };
        if name == "watched" { made.observed() } else { made }
    };
    let crawlers = CRAWLERS.map(declared);
    let settings = Settings::for_origin(dir.path(), origin)
        .set("signing.mode", "\"always\"")
        .set("signing.agent", "\"https://bot.test\"")
        .with_all(crawlers);
    let proxy = Wayleave::start_in(dir, settings);
    let mut list = command();
    list.args(["keys", "list", "--json", "--config"]).arg(proxy.dir.path().join("config.toml"));
    let listed: Vec<Value> = serde_json::from_str(&output_of(&mut list, b"", LIMIT)).expect("JSON");
    let by_key = listed.iter().map(|key| {
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        (text(&key["thumbprint"]), text(&key["crawlers"][0]))
    });
    (proxy, by_key.collect())
}

#[test]
fn no_request_goes_out_under_a_wrong_name() {
    let origin = Origin::start();
    let (proxy, by_key) = start(&origin);
    let agents = ["NewsBot", "ShopBot", "WatchedBot", "PlainBot", "OtherBot"];
    let (mut sent, mut refused) = (0, 0);
    for round in 0..20 {
        for (number, (value, stated)) in STATED.iter().enumerate() {
            for agent in agents {
                let scheme = if round % 5 == 4 { "https" } else { "http" };
                let url = format!("{scheme}://s{}.test/{agent}/{number}/{round}", round % 4);
                let mut request = Request::get(&url).agent(&format!("{agent}/1"));
                if let Some(value) = value {
                    request = request.header("Wayleave-Purpose", value);
                }
                let answer = proxy.exchange(&request);
                let is_sent =
                    expected(agent, *stated).is_some() || agent == "OtherBot" && value.is_none();
                if is_sent {
                    assert_eq!(answer.status, 200, "{agent} {value:?}");
                    sent += 1;
                } else {
                    let problem = answer.expect_refusal(403, None, "http_request_denied");
                    assert_eq!(problem["reason"], "purpose-not-declared", "{agent} {value:?}");
                    refused += 1;
                }
            }
        }
    }
    let pages: Vec<_> =
        // Neither robots.txt nor what wayleave reads about use.
        origin.requests().into_iter().filter(|it| it.target.contains("Bot/")).collect();
    assert_eq!((pages.len(), sent + refused), (sent, 20 * STATED.len() * agents.len()));
    for page in &pages {
        let parts: Vec<_> = page.target.split('/').collect();
        let (_, stated) = STATED[parts[2].parse::<usize>().expect("a number")];
        let input = page.header("signature-input").unwrap_or_default();
        let named = by_key.iter().find(|(key, _)| input.contains(&format!("keyid=\"{key}\"")));
        let named = named.map(|(_, crawler)| crawler.as_str());
        assert_eq!(named, expected(parts[1], stated), "{}", page.target);
        assert_eq!(page.header("wayleave-purpose"), None, "it is for the proxy only");
    }
    let refusals = || {
        let labels = [("outcome", "refused"), ("reason", "purpose-not-declared")];
        proxy.metric("wayleave_requests_total", &labels) as usize
    };
    eventually("all are counted", || refusals() == refused);
}

#[test]
fn all_lines_of_the_field_count() {
    let origin = Origin::start();
    let (proxy, _) = start(&origin);
    let url = "https://s.test/a";
    for (second, status) in [("archive", 403), ("search", 200)] {
        let twice = Request::get(url).agent("NewsBot/1").header("Wayleave-Purpose", "search");
        let twice = twice.header("Wayleave-Purpose", second);
        assert_eq!(proxy.exchange(&twice).status, status, "{second}");
        let answer = proxy.http2("s.test:443").exchange(&twice);
        assert_eq!(answer.status, status, "{second} over HTTP/2");
    }
}

#[test]
fn a_tunnel_states_purposes_for_all_requests_inside() {
    let origin = Origin::start();
    let (proxy, _) = start(&origin);
    for (outside, inside, status) in [
        ("train-ai", None, 200),
        ("train-ai", Some("train-ai"), 200),
        ("train-ai", Some("search"), 403),
        ("archive", None, 403),
    ] {
        let mut wire = proxy.connect();
        wire.send_connect(
            "s.test:80",
            &format!("User-Agent: NewsBot/1\r\nWayleave-Purpose: {outside}\r\n"),
        );
        assert_eq!(wire.response_head().status, 200);
        let mut request = Request::get("http://s.test/a").agent("NewsBot/1");
        if let Some(inside) = inside {
            request = request.header("Wayleave-Purpose", inside);
        }
        wire.send(request.origin_form());
        assert_eq!(wire.response().status, status, "{outside} {inside:?}");
    }
    let listed = |query: &str| {
        let found = proxy.admin_get(&format!("/v1/decisions?{query}")).json();
        found["decisions"].as_array().expect("a list").clone()
    };
    let of_trainer = "crawler=news-trainer&outcome=forwarded";
    let refused = "reason=purpose-not-declared";
    eventually("all are recorded", || [of_trainer, refused].iter().all(|it| listed(it).len() == 2));
    let forwarded = listed(of_trainer);
    // Each is recorded after its response, by the thread of its connection.
    let outside = serde_json::json!(["train-ai"]);
    assert!(forwarded.iter().any(|decision| decision["stated_purposes"] == outside));
    assert!(forwarded.iter().all(|decision| decision["purposes"] == outside), "{forwarded:?}");
    let refused = listed(refused);
    let details = refused[0]["details"].as_str().expect("a sentence");
    assert!(details.ends_with("news-search lacks archive"), "{details}");
}

#[test]
fn an_uninspected_tunnel_goes_out_under_no_wrong_name() {
    let origin = Origin::start();
    let crawler = crawler("news", "NewsBot").purposes(["search"]);
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("https.mode", "\"tunnel\"").with(crawler)
    });
    for (purpose, status) in [("search", 200), ("train-ai", 403)] {
        let mut wire = proxy.connect();
        let fields = format!("User-Agent: NewsBot/1\r\nWayleave-Purpose: {purpose}\r\n");
        wire.send_connect("s.test:443", &fields);
        assert_eq!(wire.response_head().status, status, "{purpose}");
    }
}
