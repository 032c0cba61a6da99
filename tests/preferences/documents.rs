//! Documents of an origin, other than robots.txt, that state preferences: `tdmrep.json`, and licences named in robots.txt.

use serde_json::{Value, json};

use crate::harness::crawler::Crawler;
use crate::harness::origin::reply::Step;
use crate::harness::wayleave::command;
use crate::harness::{Origin, Reply, Wayleave, eventually};
use crate::preferences::licence;
use crate::preferences::purposes::{CORPUS, INDEX, PLAIN, STATED, example_bot};

const TDMREP: &str = "/.well-known/tdmrep.json";
const RESERVED: &str = r#"[{"location": "/open/", "tdm-reservation": 0},
    {"location": "/", "tdm-reservation": 1, "tdm-policy": "https://site.test/policy.json"}]"#;

/// Returns crawlers: one only searches, one also trains, one needs a statement, and one has no purposes.
fn crawlers() -> [Crawler; 4] {
    [
        example_bot("index", INDEX).purposes(["search"]),
        example_bot("corpus", CORPUS).purposes(["search", "train-ai"]),
        example_bot("stated", STATED).purposes(["train-ai"]).set("unstated", "refuse"),
        example_bot("plain", PLAIN),
    ]
}

fn start(origin: &Origin, preferences: &str) -> Wayleave {
    Wayleave::start_with(origin, |settings| settings.table(preferences).with_all(crawlers()))
}

fn status(proxy: &Wayleave, agent: &str, url: &str) -> u16 {
    proxy.get_as(agent, url).status
}

#[track_caller]
fn refusal(proxy: &Wayleave, agent: &str, url: &str) -> Value {
    let phrase = Some("Refused by usage preference");
    let answer = proxy.get_as(agent, url);
    let problem = answer.expect_refusal(403, phrase, "http_request_denied");
    assert_eq!(problem["type"], "urn:wayleave:problem:preference");
    assert_eq!(problem["stage"], "before", "{problem}");
    problem
}

const NO_TRAINING: &str = "<prohibits type=\"usage\">ai-train</prohibits>";
const ALL: &str = "<permits type=\"usage\">all</permits>";

#[test]
fn a_reservation_is_fetched_once_and_only_if_it_can_refuse() {
    let origin = Origin::start();
    let site = origin.site("site.test").allows_all();
    site.page(TDMREP, Reply::text(RESERVED));
    let proxy = start(&origin, "");
    for agent in [PLAIN, INDEX] {
        for path in ["/a", "/b", "/a"] {
            let url = format!("https://site.test{path}");
            assert_eq!(status(&proxy, agent, &url), 200, "{agent}");
        }
    }
    let file = format!("https://site.test{TDMREP}");
    assert_eq!(origin.count_gets(&file), 0, "{:?}", origin.seen());
    for number in 0..5 {
        let url = format!("https://site.test/news/{number}");
        let problem = refusal(&proxy, CORPUS, &url);
        assert_eq!(problem["purpose"], "train-ai");
        assert_eq!(problem["source"], "tdmrep");
        assert_eq!(problem["carrier"], "tdmrep.json#2");
        assert_eq!(problem["statement"], "/: tdm-reservation 1");
        assert_eq!(problem["policy"], "https://site.test/policy.json");
        assert_eq!(problem["document"]["url"], file);
        assert_eq!(problem["document"]["sha256"].as_str().unwrap().len(), 64);
        assert_eq!(origin.count_gets(&url), 0);
    }
    assert_eq!(status(&proxy, CORPUS, "https://site.test/open/1"), 200);
    // Neither the path nor another spelling of it is requested.
    refusal(&proxy, CORPUS, "https://site.test/open/../1");
    assert_eq!(origin.count_gets(&file), 1, "{:?}", origin.seen());
    assert_eq!(status(&proxy, INDEX, "https://site.test/news/1"), 200);
}

#[test]
fn licences_are_fetched_at_the_pace_of_their_host() {
    let origin = Origin::start();
    let names = (0..10).map(|number| format!("site{number}.test"));
    for (number, name) in names.clone().enumerate() {
        let robots = format!("License: http://victim.test/{number}.xml\nUser-agent: *\nAllow: /\n");
        origin.site(&name).robots(robots);

        origin.site("victim.test").page(&format!("/{number}.xml"), licence(ALL));
    }
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("politeness.min_delay", "\"1h\"").with_all(crawlers())
    });
    for name in names {
        proxy.get_as(CORPUS, &format!("http://{name}/"));
    }
    let requests = origin.requests();
    let licences = requests.iter().filter(|request| request.target.ends_with(".xml"));
    assert_eq!(licences.count(), 1, "{:?}", origin.seen());
}

#[test]
fn a_licence_waits_for_the_pages_of_the_crawler_it_is_fetched_for() {
    let origin = Origin::start();
    let robots = "License: http://victim.test/1.xml\nUser-agent: *\nAllow: /\n";
    origin.site("site.test").robots(robots);
    origin.site("victim.test").page("/1.xml", licence(ALL)).page("/page", Reply::text("page"));
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("politeness.min_delay", "\"1h\"").with_all(crawlers())
    });
    assert_eq!(status(&proxy, CORPUS, "http://victim.test/page"), 200);
    assert_eq!(status(&proxy, CORPUS, "http://site.test/"), 503);
    assert_eq!(origin.count_gets("http://victim.test/1.xml"), 0);
}

#[test]
fn reservations_that_cannot_be_read_state_nothing() {
    let origin = Origin::start();
    let array = |bytes: usize| {
        let padding = " ".repeat(bytes);
        Reply::text(format!("[{padding}{{\"location\":\"/\",\"tdm-reservation\":0}}]"))
    };
    let long_page = format!("<html>{}", "x".repeat(600 * 1024));
    let elsewhere = Reply::redirect(302, "https://other.test/reserved.json");
    let cases = [
        ("missing", Reply::new(404), 200, 403),
        ("broken", Reply::new(500), 200, 403),
        ("busy", Reply::new(429), 200, 403),
        ("page", Reply::html("<title>not found</title>"), 200, 403),
        ("object", Reply::text(r#"{"location":"/","tdm-reservation":1}"#), 200, 403),
        // An array that is cut off may reserve anything.
        ("malformed", Reply::text(b"[{\"location\": \"/\", \xff"), 403, 403),
        ("silent", Reply::nothing(Step::Close), 200, 403),
        ("long-page", Reply::html(long_page), 200, 403),
        // The part beyond the limit may contain a reservation.
        ("long-array", array(600 * 1024), 403, 403),
        ("array", array(10), 200, 200),
        ("elsewhere", elsewhere, 403, 403),
        ("round", Reply::redirect(302, TDMREP), 200, 403),
        // The proxy may not fetch it, so there is no answer of the site.
        ("internal", Reply::redirect(302, "http://169.254.169.254/"), 503, 503),
    ];
    let reserved = Reply::text(RESERVED);
    origin.site("other.test").page("/reserved.json", reserved);
    for (name, reply, ..) in &cases {
        let host = format!("{name}.test");
        let site = origin.site(&host).allows_all();
        site.page(TDMREP, reply.clone());
    }
    let proxy = start(&origin, "");
    for (name, _, corpus, stated) in cases {
        let url = format!("https://{name}.test/a");
        assert_eq!(status(&proxy, CORPUS, &url), corpus, "{name}");
        assert_eq!(status(&proxy, STATED, &url), stated, "{name}");
        assert_eq!(status(&proxy, INDEX, &url), 200, "{name}");
    }
}

#[test]
fn a_reservation_that_robots_txt_disallows_is_not_fetched() {
    let origin = Origin::start();
    let robots = "User-agent: *\nDisallow: /.well-known/\n";
    let site = origin.site("site.test").robots(robots);
    site.page(TDMREP, Reply::text(RESERVED));
    let proxy = start(&origin, "");
    assert_eq!(status(&proxy, CORPUS, "https://site.test/a"), 200);
    assert_eq!(status(&proxy, STATED, "https://site.test/a"), 403);
    let file = format!("https://site.test{TDMREP}");
    assert_eq!(origin.count_gets(&file), 0, "{:?}", origin.seen());
}

#[test]
fn requests_that_are_refused_anyway_cause_no_fetch() {
    let origin = Origin::start();
    let robots = "License: https://site.test/rsl.xml\nUser-agent: *\nDisallow: /no\nContent-Usage: train-ai=n\n";
    origin.site("site.test").robots(robots);
    let proxy = start(&origin, "");
    assert_eq!(status(&proxy, CORPUS, "https://site.test/no"), 403);
    refusal(&proxy, CORPUS, "https://site.test/a");
    assert_eq!(status(&proxy, PLAIN, "https://site.test/robots.txt"), 200);
    let seen = origin.seen();
    let others = seen.iter().filter(|line| !line.ends_with("/robots.txt"));
    assert_eq!(others.count(), 0, "{seen:?}");
}

#[test]
fn a_licence_on_another_host_obeys_the_robots_txt_there() {
    let origin = Origin::start();
    for (host, robots) in [
        ("open.test", "License: https://licences.test/open.xml\n"),
        ("closed.test", "License: https://licences.test/closed/a.xml\n"),
        ("down.test", "License: https://dark.test/a.xml\n"),
    ] {
        origin.site(host).robots(robots);
    }
    let licences = origin.site("licences.test");
    licences
        .robots("User-agent: ExampleBot\nDisallow: /closed/\n")
        .page("/open.xml", licence(ALL))
        .page("/closed/a.xml", licence(ALL));
    origin.site("dark.test").robots_reply(Reply::new(503));
    let proxy = start(&origin, "");
    for _ in 0..3 {
        assert_eq!(status(&proxy, PLAIN, "https://open.test/a"), 200);
    }
    assert_eq!(origin.count_gets("https://licences.test/robots.txt"), 0);
    for agent in [CORPUS, INDEX, CORPUS] {
        assert_eq!(status(&proxy, agent, "https://open.test/a"), 200);
    }
    assert_eq!(origin.count_gets("https://licences.test/robots.txt"), 1);
    assert_eq!(origin.count_gets("https://licences.test/open.xml"), 1);
    for host in ["closed.test", "down.test"] {
        let problem = refusal(&proxy, INDEX, &format!("https://{host}/a"));
        assert_eq!(problem["clause"], "RSL 1.0 §4.3, licence unavailable");
        let statement = problem["statement"].as_str().unwrap();
        assert!(statement.ends_with("(robots.txt there disallows it)"), "{statement}");
    }
    assert_eq!(origin.count_gets("https://licences.test/closed/a.xml"), 0);
    assert_eq!(origin.count_gets("https://dark.test/a.xml"), 0);
}

#[test]
fn a_licence_that_cannot_be_fetched_refuses() {
    let origin = Origin::start();
    let bomb = "<!DOCTYPE rsl [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;&a;\">]><rsl xmlns=\"https://rslstandard.org/rsl\">&b;</rsl>";
    let long =
        format!("<rsl xmlns=\"https://rslstandard.org/rsl\">{}</rsl>", " ".repeat(600 * 1024));
    let replies = [
        ("missing", Reply::new(404)),
        ("broken", Reply::new(500)),
        ("page", Reply::html("<title>licence</title>")),
        ("silent", Reply::nothing(Step::Close)),
        ("bomb", Reply::text(bomb)),
        ("long", Reply::text(long)),
        ("round", Reply::redirect(302, "/licence")),
        ("internal", Reply::redirect(302, "http://169.254.169.254/")),
        ("pays", licence("<payment type=\"crawl\"/>")),
    ];
    for (name, reply) in &replies {
        let host = format!("{name}.test");
        let site = origin.site(&host);
        site.robots(format!("License: https://{host}/licence\n")).page("/licence", reply.clone());
    }
    let proxy = start(&origin, "");
    for (name, _) in replies {
        let url = format!("https://{name}.test/a");
        let problem = refusal(&proxy, INDEX, &url);
        assert_eq!(problem["source"], "rsl", "{name}");
        assert_eq!(problem["carrier"], format!("https://{name}.test/licence"));
        assert_eq!(origin.count_gets(&url), 0);
        // A licence that may be available later has a Retry-After.
        let is_temporary = matches!(name, "broken" | "silent" | "internal");
        assert_eq!(problem["retry_after"].is_u64(), is_temporary, "{name}: {problem}");
    }
}

#[test]
fn licences_lead_to_no_internal_address() {
    let origin = Origin::start();
    let internal = Origin::start_at("127.0.0.2");
    internal.site("*").page("/l.xml", licence(ALL));
    for (number, url) in [
        "http://internal.example/l.xml".to_owned(),
        format!("http://{}/l.xml", internal.http),
        "file:///etc/passwd".to_owned(),
        "ftp://internal.example/l.xml".to_owned(),
        "http:///l.xml".to_owned(),
    ]
    .iter()
    .enumerate()
    {
        let host = format!("site{number}.test");
        origin.site(&host).robots(format!("License: {url}\n"));
    }
    let proxy = Wayleave::start_with(&origin, |settings| {
        let settings = settings.resolve_to("internal.example", &internal);
        settings.with_all(crawlers())
    });
    for number in 0..5 {
        refusal(&proxy, INDEX, &format!("http://site{number}.test/a"));
    }
    assert_eq!(internal.connections(), 0, "{:?}", internal.seen());
}

#[test]
fn a_restricted_fetch_of_a_licence_counts_for_nobody_else() {
    let origin = Origin::start();
    let internal = Origin::start_at("127.0.0.2");
    for number in 0..2 {
        let site = origin.site(&format!("names{number}.test"));
        site.robots(format!("License: http://internal{number}.example/l.xml\n"));
    }
    let proxy = Wayleave::start_with(&origin, |settings| {
        let settings = settings.resolve_to("internal0.example", &internal);
        settings.resolve_to("internal1.example", &internal).with_all(crawlers())
    });
    let expect_prohibited = |number: usize| {
        let answer = proxy.get_as(INDEX, &format!("http://internal{number}.example/"));
        assert_eq!(answer.status, 502, "{}", answer.text());
        assert!(answer.text().contains("prohibited"), "{}", answer.text());
    };
    // Whoever asks first, the crawler's own request has its own reason.
    refusal(&proxy, INDEX, "http://names0.test/a");
    expect_prohibited(0);
    expect_prohibited(1);
    refusal(&proxy, INDEX, "http://names1.test/a");
    assert_eq!(internal.connections(), 0, "{:?}", internal.seen());
}

#[test]
fn no_more_than_eight_licences_are_read() {
    let origin = Origin::start();
    let line = |number| format!("License: https://site.test/{number}.xml\n");
    let site = origin.site("site.test");
    site.robots((0..5).map(line).chain((0..5).map(line)).collect::<String>());
    for number in 0..500 {
        let path = format!("/{number}.xml");
        origin.site("site.test").page(&path, licence(ALL));
        origin.site("many.test").page(&path, licence(ALL));
    }
    let many = (0..500).map(|number| format!("License: https://many.test/{number}.xml\n"));
    origin.site("many.test").robots(many.collect::<String>());
    let proxy = start(&origin, "");
    assert_eq!(status(&proxy, INDEX, "https://site.test/a"), 200);
    let problem = refusal(&proxy, INDEX, "https://many.test/a");
    let statement = problem["statement"].as_str().unwrap();
    assert!(statement.contains("no more than 8 licences are read"), "{statement}");
    let seen = origin.seen();
    let fetched = |host: &str| {
        seen.iter().filter(|line| line.contains(host) && line.ends_with(".xml")).count()
    };
    assert_eq!((fetched("site.test"), fetched("many.test")), (5, 0));
}

#[test]
fn the_organisations_rules_apply_to_documents() {
    let origin = Origin::start();
    origin.site("site.test").robots("License: https://law.test/a.xml\n");
    origin.site("law.test").page("/a.xml", licence(ALL));
    origin.site("agreed.test").robots("License: https://agreed.test/a.xml\n");
    let rules = "[[rule]]\naction = \"refuse\"\nhosts = [\"law.test\"]\n\
                 [[rule]]\naction = \"allow\"\nhosts = [\"agreed.test\"]\nowner = \"a@example.com\"\nreason = \"contract\"\nexpires = 2099-01-01\n";
    let proxy = start(&origin, rules);
    refusal(&proxy, INDEX, "https://site.test/a");
    assert_eq!(origin.count_gets("https://law.test/a.xml"), 0);
    assert_eq!(status(&proxy, CORPUS, "https://agreed.test/a"), 200);
    assert_eq!(origin.count_gets("https://agreed.test/a.xml"), 0);
}

#[test]
fn documents_survive_restarts_and_kills() {
    let origin = Origin::start();
    let site = origin.site("site.test");
    site.robots("License: https://site.test/rsl.xml\n")
        .page(TDMREP, Reply::text("[]"))
        .page("/rsl.xml", licence(NO_TRAINING));
    let proxy = start(&origin, "");
    let fetches = |origin: &Origin| {
        let files = ["/robots.txt", TDMREP, "/rsl.xml"];
        files.map(|path| origin.count_gets(&format!("https://site.test{path}")))
    };
    refusal(&proxy, CORPUS, "https://site.test/a");
    assert_eq!(fetches(&origin), [1, 1, 1]);
    eventually("it is on disk", || {
        let view = proxy.admin_get("/v1/robots/https%3A%2F%2Fsite.test").json();
        view["documents"].as_array().is_some_and(|documents| documents.len() == 2)
    });
    let (dir, settings) = proxy.kill();
    let proxy = Wayleave::start_in(dir, settings);
    refusal(&proxy, CORPUS, "https://site.test/a");
    assert_eq!(status(&proxy, INDEX, "https://site.test/a"), 200);
    let (dir, settings) = proxy.stop();
    let proxy = Wayleave::start_in(dir, settings);
    origin.stop_listening();
    refusal(&proxy, CORPUS, "https://site.test/a");
    assert_eq!(fetches(&origin), [1, 1, 1]);
}

#[test]
fn a_stale_document_is_refetched_and_used_until_that_succeeds() {
    let origin = Origin::start();
    let short = |text: &str| Reply::text(text).header("Cache-Control", "max-age=1");
    let site = origin.site("site.test").allows_all();
    site.page(TDMREP, short(RESERVED));
    let proxy = start(&origin, "");
    refusal(&proxy, CORPUS, "https://site.test/a");
    origin.site("site.test").page(TDMREP, Reply::new(500));
    let file = format!("https://site.test{TDMREP}");
    eventually("it is fetched again", || {
        refusal(&proxy, CORPUS, "https://site.test/a");
        origin.count_gets(&file) > 1
    });
    // While it cannot be fetched, the old statement applies.
    refusal(&proxy, CORPUS, "https://site.test/a");
    origin.site("site.test").page(TDMREP, short("[]"));
    let refreshed = proxy.admin_request("POST", "/v1/robots/https%3A%2F%2Fsite.test/refresh");
    assert_eq!(refreshed.status, 200);
    assert_eq!(status(&proxy, CORPUS, "https://site.test/a"), 200);
}

#[test]
fn operators_see_refresh_and_forget_documents() {
    let origin = Origin::start();
    let site = origin.site("site.test");
    site.robots("License: https://site.test/rsl.xml\n")
        .page(TDMREP, Reply::text(RESERVED))
        .page("/rsl.xml", licence(ALL));
    // An origin with the same prefix.
    let other = origin.site("site.test.test");
    other.page(TDMREP, Reply::text(RESERVED));
    let proxy = start(&origin, "");
    refusal(&proxy, CORPUS, "https://site.test/a");
    refusal(&proxy, CORPUS, "https://site.test.test/a");
    let view = "/v1/robots/https%3A%2F%2Fsite.test";
    let found = proxy.admin_get(view).json();
    let documents = found["documents"].as_array().expect("a list");
    let summary = |document: &Value| {
        (document["url"].clone(), document["source"].clone(), document["state"].clone())
    };
    let expected = [
        (json!(format!("https://site.test{TDMREP}")), json!("tdmrep"), json!("fresh")),
        (json!("https://site.test/rsl.xml"), json!("rsl"), json!("fresh")),
    ];
    assert_eq!(documents.iter().map(summary).collect::<Vec<_>>(), expected);
    assert!(documents[0]["fetched_at"].is_string(), "{found}");
    assert_eq!(documents[0]["answer"]["body"], RESERVED);
    assert_eq!(documents[0]["history"].as_array().unwrap().len(), 1);

    origin.site("site.test").page(TDMREP, Reply::text("[]"));
    assert_eq!(proxy.admin_request("POST", &format!("{view}/refresh")).status, 200);
    assert_eq!(status(&proxy, CORPUS, "https://site.test/a"), 200);
    let found = proxy.admin_get(view).json();
    assert_eq!(found["documents"][0]["history"].as_array().unwrap().len(), 2);
    let file = format!("https://site.test{TDMREP}");
    assert_eq!(origin.count_gets(&file), 2);
    assert_eq!(origin.count_gets("https://site.test/rsl.xml"), 2);

    assert_eq!(proxy.admin_request("DELETE", view).status, 204);
    assert_eq!(status(&proxy, CORPUS, "https://site.test/a"), 200);
    assert_eq!(origin.count_gets(&file), 3);
    assert_eq!(origin.count_gets("https://site.test/robots.txt"), 3);
    let listed = proxy.admin_get("/v1/robots").json();
    assert_eq!(listed["robots"].as_array().unwrap().len(), 2, "{listed}");
}

#[test]
fn documents_are_logged_counted_and_previewed() {
    let origin = Origin::start();
    let site = origin.site("site.test").allows_all();
    site.page(TDMREP, Reply::text(RESERVED));
    let proxy = start(&origin, "");
    let preview = "/v1/decision?url=https://site.test/a&crawler=corpus";
    let decision = proxy.admin_get(preview).json();
    assert_eq!(decision["reason"], "preference", "{decision}");
    assert_eq!(decision["preferences"][1]["source"], "tdmrep");
    assert_eq!(decision["preferences"][1]["carrier"], "tdmrep.json#2");
    let other = proxy.admin_get(&format!("{preview}&purpose=search")).json();
    assert_eq!(other["outcome"], "forwarded", "{other}");
    let unknown = "/v1/decision?url=https://site.test/a&user_agent=OtherBot/1";
    let other = proxy.admin_get(&format!("{unknown}&purpose=search,tdm")).json();
    assert_eq!(other["reason"], "preference", "{other}");
    assert_eq!(other["preferences"][1]["purpose"], "tdm", "{other}");
    assert_eq!(proxy.admin_get(unknown).json()["outcome"], "forwarded");
    let repeated = proxy.admin_get(&format!("{unknown}&purpose=search&purpose=tdm")).json();
    assert_eq!(repeated["preferences"], other["preferences"]);
    assert_eq!(proxy.admin_get(&format!("{unknown}&purpose=x")).status, 400);

    let id = refusal(&proxy, CORPUS, "https://site.test/a")["decision_id"].clone();
    let id = id.as_str().unwrap();
    let decision = proxy.admin_get(&format!("/v1/decisions/{id}")).json();
    let preference = &decision["preferences"][1];
    assert_eq!(preference["document"]["url"], format!("https://site.test{TDMREP}"));
    let grounds = proxy.admin_get(&format!("/v1/decisions/{id}/robots")).json();
    let document = &grounds["document"];
    assert_eq!(document["said"]["sha256"], preference["document"]["sha256"], "{grounds}");
    assert_eq!(document["said"]["body"], RESERVED);
    assert_eq!(document["is_same"], true, "{grounds}");
    let labels =
        [("source", "tdmrep"), ("purpose", "train-ai"), ("value", "refuse"), ("stage", "before")];
    assert_eq!(proxy.metric("wayleave_preferences_total", &labels), 1.0);
    let fetches = |result| {
        proxy.metric(
            "wayleave_preference_fetches_total",
            &[("source", "tdmrep"), ("result", result)],
        )
    };
    assert_eq!((fetches("successful"), fetches("unavailable")), (1.0, 0.0));
    assert_eq!(proxy.metric("wayleave_robots_fetches_total", &[]), 1.0);
    assert_eq!(proxy.metric("wayleave_robots_entries", &[]), 1.0);
    let log = std::fs::read_to_string(proxy.dir.path().join("state/decisions.jsonl")).unwrap();
    assert!(log.contains("\"preference-document\""), "{log}");
}

#[test]
fn only_the_sources_that_are_listed_are_read() {
    let origin = Origin::start();
    let site = origin.site("site.test").allows_all();
    site.page(TDMREP, Reply::text(RESERVED));
    let proxy = start(&origin, "[preferences]\nsources = [\"rsl\"]\n");
    assert_eq!(status(&proxy, CORPUS, "https://site.test/a"), 200);
    assert_eq!(origin.count_gets(&format!("https://site.test{TDMREP}")), 0);
    let file = proxy.dir.path().join("config.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("[\"rsl\"]", "[\"tdmrep\"]")).unwrap();
    assert_eq!(proxy.admin_request("POST", "/v1/reload").status, 200);
    let problem = refusal(&proxy, CORPUS, "https://site.test/a");
    assert_eq!(problem["source"], "tdmrep");
}

#[test]
fn an_uninspected_tunnel_is_refused_if_any_path_is_reserved() {
    let origin = Origin::start();
    for (host, file) in
        [("some.test", r#"[{"location":"/a/","tdm-reservation":1}]"#), ("none.test", "[]")]
    {
        let site = origin.site(host).allows_all();
        site.page(TDMREP, Reply::text(file));
    }
    let proxy = start(&origin, "[https]\nmode = \"tunnel\"\n");
    for (host, expected) in [("some.test", 403), ("none.test", 200)] {
        let mut wire = proxy.connect();
        wire.send_connect(&format!("{host}:443"), &format!("User-Agent: {CORPUS}\r\n"));
        assert_eq!(wire.response_head().status, expected, "{host}");
    }
}

#[test]
fn licences_that_moved_within_their_origin_need_no_slot() {
    let origin = Origin::start();
    let robots = "User-agent: *\nCrawl-delay: 100\n\
                  License: https://site.test/a\nLicense: https://site.test/b\n";
    let mut site = origin.site("site.test").robots(robots);
    for name in ["a", "b"] {
        let [moved, again] = ["moved", "again"].map(|path| format!("/{path}/{name}"));
        site = site
            .page(&format!("/{name}"), Reply::redirect(302, &moved))
            .page(&moved, Reply::redirect(302, &again))
            .page(&again, licence(ALL));
    }
    let proxy = start(&origin, "");
    assert_eq!(status(&proxy, CORPUS, "https://site.test/page"), 200);
    for name in ["a", "b"] {
        assert_eq!(origin.count_gets(&format!("https://site.test/again/{name}")), 1);
    }
}

/// Runs `wayleave check` with the proxy's configuration. Returns its exit status, answer and warnings.
fn check(proxy: &Wayleave, purpose: &str, url: &str) -> (i32, Value, String) {
    let mut command = command();
    command.args(["check", "--robots-only", "--json", "--strict", "--config", "config.toml"]);
    command.args(["--token", "ExampleBot", "--purpose", purpose, url]);
    let output = command.current_dir(proxy.dir.path()).output().expect("it runs");
    let warnings = String::from_utf8(output.stderr).expect("text");
    let answer = serde_json::from_slice(&output.stdout).expect("one JSON object");
    (output.status.code().expect("an exit status"), answer, warnings)
}

#[test]
fn check_fetches_what_the_proxy_fetches() {
    let origin = Origin::start();
    let site = |name: &str, robots: &str| origin.site(name).robots(robots);
    site("site.test", "User-agent: *\nAllow: /\n").page(TDMREP, Reply::text(RESERVED));
    let closed = "User-agent: *\nDisallow: /.well-known/\n";
    site("closed.test", closed).page(TDMREP, Reply::text(RESERVED));
    for (name, usage) in [("open", ALL), ("kept", NO_TRAINING)] {
        let robots = format!("License: https://rights.test/{name}.xml\n");
        site(&format!("{name}.test"), &robots);
        origin.site("rights.test").page(&format!("/{name}.xml"), licence(usage));
    }
    site("lost.test", "License: https://lost.test/none.xml\n").page("/none.xml", Reply::new(404));
    site("failing.test", "License: https://failing.test/licence.xml\n")
        .page("/licence.xml", Reply::new(503));
    let proxy = start(&origin, "");
    let sites = ["site", "closed", "open", "kept", "lost", "failing"];
    let expected = ["refuse", "unstated", "allow", "refuse", "refuse", "refuse"];
    for (site, expected) in sites.into_iter().zip(expected) {
        let url = format!("https://{site}.test/page");
        let (code, answer, warnings) = check(&proxy, "train-ai", &url);
        assert_eq!(answer["preference"], expected, "{answer} {warnings}");
        assert_eq!(code, i32::from(expected == "refuse"), "{site}");
        let forwarded = status(&proxy, CORPUS, &url);
        assert_eq!(forwarded == 200, expected != "refuse", "{site}: {forwarded}");
        let is_lost = matches!(site, "closed" | "lost" | "failing");
        assert_eq!(warnings.contains(&format!("https://{site}.test/")), is_lost, "{warnings}");
    }
    // None of these can refuse a search, so only robots.txt is fetched.
    let before = origin.seen().len();
    let (code, _, _) = check(&proxy, "search", "https://site.test/page");
    assert_eq!((code, origin.seen().len() - before), (0, 1), "{:?}", origin.seen());
}

#[test]
fn check_uses_only_the_configured_sources() {
    let origin = Origin::start();
    let site = origin.site("site.test").allows_all();
    site.page(TDMREP, Reply::text(RESERVED));
    let proxy = start(&origin, "[preferences]\nsources = [\"content-usage\"]");
    let (code, answer, _) = check(&proxy, "train-ai", "https://site.test/page");
    assert_eq!((code, &answer["preference"]), (0, &json!("unstated")));
    assert_eq!(status(&proxy, CORPUS, "https://site.test/page"), 200);
    assert_eq!(origin.count_gets(&format!("https://site.test{TDMREP}")), 0);
}
