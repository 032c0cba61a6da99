//! Sites that give robots.txt to some clients only, or each its own: who asks first decides for nobody else.

use std::process::Command;

use serde_json::{Value, json};

use crate::harness::crawler::crawler;
use crate::harness::tools::output_of;
use crate::harness::wayleave::{Settings, command};
use crate::harness::{Origin, Reply, Wayleave, Wire};

/// The clients: two crawlers, and one without a `[[crawler]]`.
const AGENTS: [&str; 3] = ["ExampleBot/1.0", "OtherBot/1.0", "StrayBot/1.0"];
pub const ORDERS: [[usize; 3]; 6] =
    [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
const CLOSED: &str = "User-agent: ExampleBot\nDisallow: /\n\nUser-agent: StrayBot\nDisallow: /\n";
const OPEN: &str = "User-agent: *\nDisallow:\n";

/// Creates a site that answers 403 to clients that it does not know.
fn knows_two(origin: &Origin, host: &str) {
    origin
        .site(host)
        .robots_reply(Reply::new(403))
        .robots_to("ExampleBot", Reply::text(CLOSED))
        .robots_to("StrayBot", Reply::text(CLOSED));
}

/// Creates a site that gives each client another file, and says so.
fn varies(origin: &Origin, host: &str) {
    let reply = |text| Reply::text(text).header("Vary", "Accept-Encoding, User-Agent");
    origin
        .site(host)
        .robots_reply(reply(OPEN))
        .robots_to("ExampleBot", reply(CLOSED))
        .robots_to("StrayBot", reply(CLOSED));
}

pub fn host(kind: &str, order: [usize; 3]) -> String {
    format!("{kind}{}{}{}.test", order[0], order[1], order[2])
}

fn refresh(proxy: &Wayleave, host: &str) {
    let path = format!("/v1/robots/http%3A%2F%2F{host}/refresh");
    assert_eq!(proxy.admin_request("POST", &path).status, 200, "{host}");
}

/// Requests a page and robots.txt as every client, in this order. The crawler that the site knows must not get the page.
pub fn visit(proxy: &Wayleave, host: &str, order: &[usize], round: &str) {
    for &number in order {
        let agent = AGENTS[number];
        let page = proxy.get_as(agent, &format!("http://{host}/{round}"));
        let is_open = agent.starts_with("Other");
        assert_eq!(page.status, if is_open { 200 } else { 403 }, "{agent} at {host}, {round}");
        let file = proxy.get_as(agent, &format!("http://{host}/robots.txt"));
        // Who obeys by itself reads what it is judged by.
        if !is_open {
            assert_eq!((file.status, file.text().as_str()), (200, CLOSED), "{agent} at {host}");
        }
    }
}

/// Creates both kinds of site for each order of the clients.
pub fn sites() -> Origin {
    let origin = Origin::start();
    for order in ORDERS {
        knows_two(&origin, &host("known", order));
        varies(&origin, &host("varies", order));
    }
    origin
}

/// Checks that only the crawler that may has got pages.
pub fn expect_no_disallowed_page(origin: &Origin) {
    for request in origin.requests() {
        let agent = request.header("user-agent").unwrap_or_default();
        let is_file = request.target == "/robots.txt";
        assert!(is_file || agent.starts_with("OtherBot"), "{agent} got {}", request.target);
    }
}

fn disallowed_pages_never_arrive(change: impl Fn(Settings) -> Settings) {
    let origin = sites();
    let mut proxy = Wayleave::start_with(&origin, |settings| {
        change(settings.crawler("example", "ExampleBot")).crawler("other", "OtherBot")
    });
    let rounds = |proxy: &Wayleave, round: &str| {
        for order in ORDERS {
            for kind in ["known", "varies"] {
                visit(proxy, &host(kind, order), &order, round);
            }
        }
    };
    rounds(&proxy, "first");
    for order in ORDERS {
        refresh(&proxy, &host("known", order));
        refresh(&proxy, &host("varies", order));
    }
    rounds(&proxy, "refreshed");
    let (dir, settings) = proxy.stop();
    proxy = Wayleave::start_in(dir, settings);
    rounds(&proxy, "restarted");
    expect_no_disallowed_page(&origin);
}

#[test]
fn who_asks_first_decides_for_nobody_else() {
    disallowed_pages_never_arrive(|settings| settings);
}

#[test]
fn a_signing_key_changes_nothing_about_whose_copy_counts() {
    let keys = tempfile::tempdir().expect("a directory");
    let mut new: Command = command();
    new.args(["keys", "new", "example"]).current_dir(keys.path());
    output_of(&mut new, b"", std::time::Duration::from_secs(60));
    let key = format!("signing_key = {:?}\n", keys.path().join("keys/example.pem"));
    disallowed_pages_never_arrive(|settings| {
        settings
            .set("signing.mode", "\"always\"")
            .set("signing.agent", "\"https://bot.test\"")
            .table(&key)
    });
}

#[test]
fn robots_txt_is_fetched_in_the_crawlers_name() {
    let origin = Origin::start();
    origin.site("shop.test").robots(OPEN);
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.with(crawler("example", "ExampleBot").set("contact", "https://bot.test/about"))
    });
    assert_eq!(proxy.get_as(AGENTS[0], "http://shop.test/a").status, 200);
    let fetch = &origin.requests()[0];
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!("ExampleBot (wayleave/{version}; +https://bot.test/about)");
    assert_eq!(fetch.header("user-agent"), Some(expected.as_str()));
}

#[test]
fn check_and_preview_ask_as_the_proxy_does() {
    let origin = Origin::start();
    knows_two(&origin, "known.test");
    varies(&origin, "varies.test");
    let proxy = Wayleave::start_with(&origin, |settings| settings.crawler("example", "ExampleBot"));
    let config = proxy.config_with_ports();
    for host in ["known.test", "varies.test"] {
        let url = format!("http://{host}/a");
        for (who, name, fetched_as) in
            [("crawler", "example", "example"), ("user_agent", "StrayBot/1.0", "asserted")]
        {
            let asked = proxy.admin_get(&format!("/v1/decision?url={url}&{who}={name}")).json();
            assert_eq!(asked["outcome"], "refused", "{who} at {host}: {asked}");
            // The crawler's copy counts for everybody unless the site says otherwise.
            let expected = if host == "known.test" { "example" } else { fetched_as };
            assert_eq!(asked["robots_fetched_as"], expected, "{who} at {host}");
            let before = origin.requests().len();
            let mut check = command();
            check.arg("check").arg("--config").arg(&config);
            let option = format!("--{}", who.replace('_', "-"));
            let output = check.args([&option, name, &url]).output().expect("it runs");
            assert_eq!(output.status.code(), Some(1), "{who} at {host}: {output:?}");
            let last = origin.requests()[before..].last().expect("a fetch").clone();
            let token = if who == "crawler" { "ExampleBot" } else { "StrayBot" };
            assert!(last.header("user-agent").unwrap_or_default().contains(token), "{last:?}");
        }
    }
}

#[test]
fn agents_are_told_what_the_proxy_would_do() {
    let origin = Origin::start();
    knows_two(&origin, "known.test");
    varies(&origin, "varies.test");
    let proxy = Wayleave::start_with(&origin, |settings| settings.crawler("example", "ExampleBot"));
    for host in ["known.test", "varies.test"] {
        for token in ["StrayBot", "ExampleBot"] {
            let arguments = json!({"url": format!("http://{host}/a"), "token": token});
            let parameters = json!({"name": "may_fetch", "arguments": arguments});
            let call =
                json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": parameters});
            let mut wire = Wire::connect(proxy.admin);
            wire.send(format!(
                "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{call}",
                proxy.admin,
                call.to_string().len()
            ));
            let answer = wire.response().json();
            let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
            let told: Value = serde_json::from_str(text).unwrap_or_default();
            assert_eq!(told["may_fetch"], false, "{token} at {host}: {answer}");
        }
    }
}

#[test]
fn decisions_say_as_whom_robots_txt_was_fetched() {
    let origin = Origin::start();
    origin.site("open.test").disallows("/private");
    origin.site("plain.test").disallows("/private");
    varies(&origin, "varies.test");
    let proxy = Wayleave::start_with(&origin, |settings| settings.crawler("example", "ExampleBot"));
    for (agent, host, expected) in [
        (AGENTS[0], "open.test", "example"),
        (AGENTS[2], "open.test", "example"),
        (AGENTS[2], "plain.test", "-"),
        (AGENTS[0], "plain.test", "-"),
        (AGENTS[0], "varies.test", "example"),
        (AGENTS[2], "varies.test", "asserted"),
    ] {
        proxy.get_as(agent, &format!("http://{host}/private"));
        let line = proxy.admin_get("/v1/decisions?limit=1").json()["decisions"][0].clone();
        assert_eq!(line["robots_fetched_as"], expected, "{agent} at {host}: {line}");
    }
}
