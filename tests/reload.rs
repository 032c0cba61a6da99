//! Reading the configuration again, while requests are under way.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::harness::wayleave::Settings;
use crate::harness::{Ask, Origin, Response, Wayleave, Wire, eventually};

/// Three origins without a robots.txt.
fn sites() -> Origin {
    let origin = Origin::start();
    for host in ["one.test", "two.test", "three.test"] {
        origin.site(host);
    }
    origin
}

/// Two crawlers and a rule, all of which carry `word`.
fn tables(word: &str) -> String {
    format!(
        "[[crawler]]\nname = \"news-{word}\"\ntokens = [\"NewsBot\"]\nmatch = {{ user_agent = \"NewsBot\" }}\n\
         [[crawler]]\nname = \"images-{word}\"\ntokens = [\"ImageBot\"]\nmatch = {{ user_agent = \"ImageBot\" }}\n\
         [[rule]]\naction = \"refuse\"\nhosts = [\"*\"]\npaths = [\"/rule\"]\nreason = \"{word}\"\n"
    )
}

fn start(origin: &Origin) -> (Wayleave, Settings) {
    let mut base = None;
    let proxy = Wayleave::start_with(origin, |settings| {
        base = Some(settings.clone());
        settings.table(&tables("a"))
    });
    (proxy, base.expect("it was started with settings"))
}

/// Puts a new file in the old one's place at once, as editors do.
fn write(proxy: &Wayleave, text: &str) {
    let new = proxy.dir.path().join("config.toml.new");
    std::fs::write(&new, text).expect("the temporary directory can be written");
    std::fs::rename(new, proxy.dir.path().join("config.toml")).expect("a file can be renamed");
}

fn post_reload(proxy: &Wayleave) -> Response {
    let mut wire = Wire::connect(proxy.admin);
    wire.send(format!(
        "POST /v1/reload HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        proxy.admin
    ));
    wire.response()
}

fn refused_by(proxy: &Wayleave) -> String {
    let answer = proxy.exchange(&Ask::get("http://one.test/rule").agent("NewsBot/1"));
    let problem = answer.expect_refusal(403, Some("Refused by policy"), "http_request_denied");
    problem["detail"].as_str().expect("a string").to_owned()
}

#[test]
fn a_changed_file_a_signal_and_an_operator_reload() {
    let origin = sites();
    let (proxy, base) = start(&origin);
    let with = |word: &str| base.clone().table(&tables(word)).to_toml();
    assert_eq!(refused_by(&proxy), "[[rule]] 1: a");
    write(&proxy, &with("b"));
    eventually("the change is noticed", || {
        refused_by(&proxy) == "[[rule]] 1: b"
    });
    write(&proxy, &with("c"));
    proxy.signal("HUP");
    eventually("the signal is heard", || {
        refused_by(&proxy) == "[[rule]] 1: c"
    });
    write(&proxy, &with("d"));
    let answer = post_reload(&proxy);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["needs_restart"], serde_json::json!([]));
    assert_eq!(refused_by(&proxy), "[[rule]] 1: d");
}

#[test]
fn a_bad_file_changes_nothing_and_is_loud() {
    let origin = sites();
    let (proxy, base) = start(&origin);
    let successful = || proxy.metric("wayleave_config_last_reload_successful", &[]);
    assert_eq!(successful(), 1.0);
    let since = proxy.metric("wayleave_config_last_reload_success_timestamp_seconds", &[]);
    assert!(since > 1_700_000_000.0);
    write(&proxy, "[proxy]\nname = \"two words\"\nfrobnicate = 1\n");
    let answer = post_reload(&proxy);
    assert_eq!(answer.status, 422);
    let mistakes = answer.json()["mistakes"].as_array().map_or(0, Vec::len);
    assert_eq!(mistakes, 2, "{}", answer.text());
    assert_eq!(refused_by(&proxy), "[[rule]] 1: a");
    assert_eq!(successful(), 0.0);
    eventually("it is logged", || proxy.log().contains("proxy.frobnicate"));
    write(&proxy, &base.table(&tables("b")).to_toml());
    eventually("a sound file counts again", || successful() == 1.0);
    assert_eq!(refused_by(&proxy), "[[rule]] 1: b");
}

#[test]
fn what_needs_a_restart_is_said() {
    let origin = sites();
    let (proxy, base) = start(&origin);
    let moved = base
        .set("proxy.max_connections", "7")
        .set("robots.max_age", "\"1h\"");
    write(&proxy, &moved.to_toml());
    let answer = post_reload(&proxy).json();
    let keys = answer["needs_restart"].as_array().expect("an array");
    let keys: Vec<_> = keys.iter().filter_map(Value::as_str).collect();
    assert_eq!(keys.len(), 2, "{keys:?}");
    assert!(keys[0].contains("proxy.max_connections") && keys[1].contains("[robots]"));
}

#[test]
fn a_thousand_reloads_lose_no_request_and_mix_no_configurations() {
    let origin = sites();
    let (proxy, base) = start(&origin);
    let texts = ["b", "a"].map(|word| base.clone().table(&tables(word)).to_toml());
    let is_over = AtomicBool::new(false);
    let asked: usize = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|client| {
                scope.spawn({
                    let (proxy, is_over) = (&proxy, &is_over);
                    move || crawl(proxy, client, is_over)
                })
            })
            .collect();
        for reload in 0..1000 {
            write(&proxy, &texts[reload % 2]);
            assert_eq!(post_reload(&proxy).status, 200);
        }
        is_over.store(true, Ordering::Relaxed);
        clients
            .into_iter()
            .map(|client| client.join().expect("no request is lost"))
            .sum()
    });
    let lines = || {
        let file = proxy.dir.path().join("state/decisions.jsonl");
        std::fs::read_to_string(file).unwrap_or_default()
    };
    eventually("every exchange is logged", || {
        lines().lines().count() == asked
    });
    let mut configurations = std::collections::HashMap::new();
    for line in lines().lines() {
        let decision: Value = serde_json::from_str(line).expect("JSON");
        let configuration = decision["configuration"].as_u64().expect("a number");
        let crawler = decision["crawler"].as_str().expect("a name").to_owned();
        let (_, word) = crawler.rsplit_once('-').expect("it ends in a word");
        let one = configurations
            .entry(configuration)
            .or_insert(word.to_owned());
        assert_eq!(one, word, "{decision}");
        if let Some(rule) = decision.get("policy") {
            assert_eq!(rule["reason"], word, "{decision}");
        }
    }
    assert!(configurations.len() > 10, "{}", configurations.len());
}

/// Asks on one connection after the other until it is over; how often it asked.
fn crawl(proxy: &Wayleave, client: usize, is_over: &AtomicBool) -> usize {
    let agent = ["NewsBot/1", "ImageBot/1"][client % 2];
    let hosts = ["one.test", "two.test", "three.test"];
    let mut asked = 0;
    let mut wire = proxy.connect();
    while !is_over.load(Ordering::Relaxed) {
        let (page, expected) = [("page", 200), ("rule", 403)][asked % 2];
        let url = format!("http://{}/{page}", hosts[asked % 3]);
        wire.send(Ask::get(&url).agent(agent).bytes(&url));
        assert_eq!(wire.response().status, expected, "{url}");
        asked += 1;
    }
    asked
}
