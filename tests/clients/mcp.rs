//! Agents, by the Model Context Protocol: its official Python client calls every tool.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::crawler::crawler;
use crate::harness::tools::{clean, output_of, project, python};
use crate::harness::wayleave::BINARY;
use crate::harness::{Origin, Reply, Wayleave, Wire};

const LIMIT: Duration = Duration::from_secs(120);

fn origin() -> Origin {
    let origin = Origin::start();
    let shop = origin.site("shop.test").disallows("/private");
    shop.page("/open", Reply::text("an open page"))
        .page("/private", Reply::text("a secret"))
        .page("/llms.txt", Reply::text("# Shop\n"));
    origin.site("down.test").robots_reply(Reply::new(503));
    origin
}

/// Makes the calls over standard input and output, or by HTTP.
fn call(to: &[&str], calls: &Value) -> Value {
    let mut client = clean(python());
    client.arg(project().join("tests/clients/agent.py")).arg(calls.to_string()).args(to);
    let printed = output_of(&mut client, b"", LIMIT);
    serde_json::from_str(&printed).expect("JSON")
}

fn calls() -> Value {
    json!([
        ["may_fetch", {"url": "https://shop.test/open"}],
        ["may_fetch", {"url": "https://shop.test/private/diary"}],
        ["may_fetch", {"url": "https://down.test/open"}],
        ["fetch", {"url": "https://shop.test/open"}],
        ["fetch", {"url": "https://shop.test/private"}],
        ["fetch", {"url": "https://down.test/open"}],
        ["fetch", {"url": "https://shop.test/open", "max_bytes": 7}],
        ["why", {"url": "https://shop.test/private"}],
        ["why", {}],
        ["fetch", {"url": "open"}],
        ["fetch", {"url": "http://me:secret@shop.test/open"}],
        ["fetch", {"url": "http://no-such-host.invalid/"}],
    ])
}

/// Checks the answers to [`calls`]. Returns the id of a refusal.
#[track_caller]
fn check_answers(origin: &Origin, printed: &Value) -> String {
    assert_eq!(printed["server"], "wayleave");
    let tools: Vec<_> = printed["tools"].as_object().expect("tools").keys().collect();
    assert_eq!(tools, ["fetch", "may_fetch", "why"]);
    let answers = printed["answers"].as_array().expect("answers");
    let is_error: Vec<_> = answers.iter().map(|it| it["is_error"] == true).collect();
    let expected = [false, false, false, false, true, true, false, false, true, true, true, true];
    assert_eq!(is_error, expected, "{printed}");
    let text =
        |number: usize, block: usize| answers[number]["texts"][block].as_str().expect("text");
    let parsed = |number| serde_json::from_str::<Value>(text(number, 0)).expect("JSON");
    let may_fetch: Vec<_> = (0..3).map(|number| parsed(number)["may_fetch"] == true).collect();
    assert_eq!(may_fetch, [true, false, false], "{printed}");
    assert_eq!((text(3, 1), parsed(3)["status"].as_u64()), ("an open page", Some(200)));
    assert_eq!((text(6, 1), &parsed(6)["is_cut"]), ("an open", &json!(true)));

    let refusal = parsed(4);
    assert_eq!(refusal["problem"]["rule"], "Disallow: /private", "{refusal}");
    assert_eq!(refusal["problem"]["line"], 2, "{refusal}");
    assert!(refusal["instead"].to_string().contains("https://shop.test/llms.txt"), "{refusal}");
    assert!(text(5, 0).contains("robots_txt_unreachable") || text(5, 0).contains("unreachable"));
    assert_eq!(parsed(7)["line"], 2);
    assert!(text(8, 0).contains("decision_id or url"), "{printed}");
    assert!(text(10, 0).contains("a URL with a user name is not fetched"), "{printed}");
    let failure = parsed(11);
    assert_eq!(failure["refused"], false, "the name cannot be resolved: {failure}");
    assert!(failure["instead"].to_string().contains("may work later"), "{failure}");
    assert!(!printed.to_string().contains("a secret"));
    let seen = origin.seen();
    assert!(!seen.iter().any(|line| line.contains("/private")), "{seen:?}");
    assert!(!seen.iter().any(|line| line.ends_with("down.test/open")), "{seen:?}");
    refusal["problem"]["decision_id"].as_str().expect("an id").to_owned()
}

#[test]
fn agents_ask_and_fetch_over_standard_input() {
    let origin = origin();
    let proxy = Wayleave::start(&origin);
    let config = proxy.config_with_ports().display().to_string();
    let command = [BINARY, "mcp", "--token", "ExampleBot", "--config", &config];
    let id = check_answers(&origin, &call(&command, &calls()));
    let why =
        call(&command, &json!([["why", {"decision_id": id}], ["why", {"decision_id": "../x"}]]));
    let answers = why["answers"].to_string();
    assert!(answers.contains("Disallow: /private"), "{why}");
    assert!(answers.contains("is not a decision_id"), "{why}");
    let request =
        origin.requests().into_iter().find(|it| it.target == "/open").expect("it arrived");
    assert_eq!(request.header("user-agent"), Some("ExampleBot/1.0"));
}

#[test]
fn agents_ask_and_fetch_by_http() {
    let origin = origin();
    let proxy = Wayleave::start(&origin);
    let url = format!("http://{}/mcp", proxy.admin);
    let mut calls = calls();
    for call in calls.as_array_mut().expect("a list") {
        call[1]["token"] = json!("ExampleBot");
    }
    check_answers(&origin, &call(&[&url], &calls));
    let unnamed = call(&[&url], &json!([["may_fetch", {"url": "https://shop.test/open"}]]));
    assert!(unnamed.to_string().contains("no crawler is named"), "{unnamed}");
}

/// Answers are JSON, so a client need not say that it would read a stream of events, too.
#[test]
fn agents_may_ask_for_any_media_type() {
    let origin = origin();
    let proxy = Wayleave::start(&origin);
    let question = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    for accept in ["", "Accept: */*\r\n", "Accept: application/json\r\n"] {
        let mut wire = Wire::connect(proxy.admin);
        wire.send(format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\n{accept}Content-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{question}",
            proxy.admin,
            question.len()
        ));
        let answer = wire.response();
        assert_eq!(answer.status, 200, "{accept:?}: {}", answer.text());
        assert_eq!(answer.json()["result"]["tools"].as_array().map(Vec::len), Some(3));
    }
}

/// The tunnel to such a host is not inspected, and everything in it is sent.
#[test]
fn pages_of_bypassed_hosts_may_be_fetched() {
    let origin = origin();
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.set("https.bypass", "[\"shop.test\"]"));
    let url = format!("http://{}/mcp", proxy.admin);
    let page = json!({"url": "https://shop.test/open", "token": "ExampleBot"});
    let answers = call(&[&url], &json!([["may_fetch", page]]));
    let text = answers["answers"][0]["texts"][0].as_str().expect("text");
    let answer: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(answer["decision"]["outcome"], "tunnelled", "{answer}");
    assert_eq!(answer["may_fetch"], true, "{answer}");
}

/// The tools may do what the token may do that the agent sends.
#[test]
fn the_token_of_the_agent_counts() {
    let origin = origin();
    let digest = "41ef4bb0b23661e66301aac36066912dac037827b4ae63a7b1165a5aa93ed4eb";
    let other = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";
    let proxy = Wayleave::start_with(&origin, |settings| {
        let tokens = format!(
            "[{{ sha256 = {digest:?}, role = \"read\" }}, \
             {{ sha256 = {other:?}, role = \"read\", team = \"news\" }}]"
        );
        settings
            .with(crawler("news", "NewsBot").set("owner", "news"))
            .with(crawler("shops", "ShopBot").set("owner", "shops"))
            .set("admin.tokens", &tokens)
    });
    let url = format!("http://{}/mcp", proxy.admin);
    let question = json!([["may_fetch", {"url": "https://shop.test/open", "token": "ExampleBot"}]]);
    let answer = call(&[&url, "open sesame"], &question);
    assert!(answer.to_string().contains("may_fetch\\\":true"), "{answer}");
    let of_team = json!([
        ["may_fetch", {"url": "https://shop.test/open", "token": "NewsBot"}],
        ["may_fetch", {"url": "https://shop.test/open", "token": "ShopBot"}],
        ["fetch", {"url": "https://shop.test/open", "token": "ShopBot"}],
    ]);
    let answers = call(&[&url, "foo"], &of_team)["answers"].clone();
    assert!(answers[0].to_string().contains("may_fetch\\\":true"), "{answers}");
    assert_eq!(answers[1]["is_error"], true, "{answers}");
    assert_eq!(answers[2]["is_error"], true, "{answers}");
    assert!(!origin.seen().iter().any(|line| line.ends_with("/open")));
    let mut client = clean(python());
    client.arg(project().join("tests/clients/agent.py")).arg(question.to_string()).args([&url]);
    let output = crate::harness::tools::run(&mut client, b"", LIMIT);
    assert!(!output.status.success());
}

/// Crawlers may be recognised by the address of the client, which is not the same for every listener.
#[test]
fn a_fetch_is_by_the_crawler_that_was_asked_about() {
    let origin = origin();
    let proxy = Wayleave::start_with(&origin, |settings| {
        let by_address = crawler("local", "LocalBot").matched_by("addresses", ["::1/128"]);
        settings
            .with(by_address.observed())
            .crawler("news", "NewsBot")
            .set("proxy.listen", "[\"[::1]:0\"]")
    });
    let url = format!("http://{}/mcp", proxy.admin);
    let page = json!({"url": "https://shop.test/private", "token": "NewsBot"});
    let answers = call(&[&url], &json!([["may_fetch", page], ["fetch", page]]));
    let preview: Value =
        serde_json::from_str(answers["answers"][0]["texts"][0].as_str().expect("text")).unwrap();
    assert_eq!(preview["decision"]["crawler"], "local", "{answers}");
    let listed = proxy.admin_get("/v1/decisions?url=https://shop.test/private").json();
    assert_eq!(listed["decisions"][0]["crawler"], "local", "{listed}");
}
