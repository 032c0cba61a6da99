//! Usage preferences in `wayleave check`.

use serde_json::json;

use crate::harness::crawler::Crawler;
use crate::harness::{Origin, Reply, Request, Wayleave};
use crate::operations::check::{lines, run};
use crate::preferences::purposes::{CORPUS, INDEX, PLAIN, STATED, example_bot};

#[test]
fn the_command_line_reports_the_preference_for_each_purpose() {
    let robots = b"User-agent: *\nContent-Signal: search=yes, ai-train=no\n";
    let check = ["check", "--robots-only", "--robots", "-", "--token", "ExampleBot", "--purpose"];
    let output = run(&[&check[..], &["search", "/a"]].concat(), robots);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        text,
        "allow /a: no-matching-rule; allow search: content-signal, robots.txt:2: \
         Content-Signal: search=yes, ai-train=no (Content Signals Policy (a))\n"
    );
    let both = ["search", "--purpose", "train-ai", "--json", "/a"];
    let output = run(&[&check[..], &both].concat(), robots);
    assert_eq!(output.status.code(), Some(1));
    let answer = &lines(&output)[0];
    assert_eq!(answer["verdict"], "allow");
    assert_eq!(answer["preference"], "refuse");
    assert_eq!(answer["purpose"], "train-ai");
}

/// Returns crawlers of one organisation: one searches, one also trains, one needs a statement, and one has no purposes.
fn crawlers() -> [Crawler; 4] {
    let tokens = json!({ "train-ai": "ExampleBot-Extended" });
    [
        example_bot("index", INDEX).purposes(["search"]),
        example_bot("corpus", CORPUS)
            .purposes(["search", "train-ai"])
            .set("purpose_tokens", tokens),
        example_bot("stated", STATED).purposes(["search"]).set("unstated", "refuse"),
        example_bot("plain", PLAIN),
    ]
}

/// Starts a site with this robots.txt, and a proxy.
fn site(robots: &str) -> (Origin, Wayleave) {
    let origin = Origin::start();
    origin.site("site.test").robots(robots);
    let proxy = Wayleave::start_with(&origin, |settings| settings.with_all(crawlers()));
    (origin, proxy)
}

#[test]
fn preferences_apply_to_the_purposes_of_each_crawler() {
    let (origin, proxy) = site(
        "User-agent: *\nContent-Signal: /news/ search=yes, ai-train=no\nAllow: /\n\n\
         User-agent: ExampleBot-Extended\nDisallow: /art/\n",
    );
    for agent in [INDEX, PLAIN] {
        for path in ["/news/1", "/art/1", "/"] {
            let url = format!("https://site.test{path}");
            assert_eq!(proxy.get_as(agent, &url).status, 200, "{agent} {path}");
        }
    }
    let reached = origin.seen().len();
    for (path, source, carrier, statement) in [
        (
            "/news/1",
            "content-signal",
            "robots.txt:2",
            "Content-Signal: /news/ search=yes, ai-train=no",
        ),
        (
            "/x/../art/1",
            "policy-token",
            "robots.txt:6",
            "User-agent: ExampleBot-Extended, Disallow: /art/",
        ),
    ] {
        let answer = proxy.get_as(CORPUS, &format!("https://site.test{path}"));
        let phrase = Some("Refused by usage preference");
        let problem = answer.expect_refusal(403, phrase, "http_request_denied");
        assert_eq!(problem["type"], "urn:wayleave:problem:preference");
        assert_eq!(problem["reason"], "preference");
        assert_eq!(problem["purpose"], "train-ai");
        assert_eq!(problem["source"], source);
        assert_eq!(problem["carrier"], carrier);
        assert_eq!(problem["statement"], statement);
        assert_eq!(problem["stage"], "before");
        assert!(problem["clause"].is_string(), "{problem}");
    }
    assert_eq!(origin.seen().len(), reached, "{:?}", origin.seen());
    assert_eq!(proxy.get_as(CORPUS, "https://site.test/").status, 200);
}

#[test]
fn an_unstated_preference_refuses_only_if_configured() {
    let (_origin, proxy) = site("User-agent: *\nContent-Usage: /a search=y\n");
    assert_eq!(proxy.get_as(STATED, "http://site.test/a").status, 200);
    let problem = proxy.get_as(STATED, "http://site.test/b").json();
    assert_eq!(problem["reason"], "preference");
    assert_eq!(problem["preference"], "unstated");
    assert_eq!(proxy.get_as(INDEX, "http://site.test/b").status, 200);
}

/// Starts a site whose page has a field, and a proxy.
fn with_field(field: (&str, &str), settings: &str) -> (Origin, Wayleave) {
    let origin = Origin::start();
    let page = Reply::text("the page").header(field.0, field.1);
    origin.site("site.test").allows_all().page("/page", page);
    let proxy = Wayleave::start_with(&origin, |base| base.table(settings).with_all(crawlers()));
    (origin, proxy)
}

#[test]
fn a_response_whose_use_is_refused_is_withheld() {
    let (origin, proxy) = with_field(("X-Robots-Tag", "noai, nofollow"), "");
    for url in ["http://site.test/page", "https://site.test/page"] {
        let answer = proxy.get_as(CORPUS, url);
        assert!(!answer.text().contains("the page"), "{}", answer.text());
        let phrase = Some("Refused by usage preference");
        let problem = answer.expect_refusal(403, phrase, "http_request_denied");
        assert_eq!(problem["purpose"], "train-ai");
        assert_eq!(problem["source"], "robots-meta");
        assert_eq!(problem["carrier"], "field");
        assert_eq!(problem["statement"], "X-Robots-Tag: noai, nofollow");
        assert_eq!(problem["stage"], "head");
        let id = problem["decision_id"].as_str().unwrap();
        let decision = proxy.admin_get(&format!("/v1/decisions/{id}")).json();
        assert_eq!(decision["reached_origin"], true);
        let answer = proxy.get_as(INDEX, url);
        assert_eq!(answer.text(), "the page");
        assert_eq!(answer.header("Wayleave-Preferences"), Some("search=unstated"));
        assert_eq!(answer.header("Wayleave-Duties"), Some("nofollow"));
        let answer = proxy.get_as(PLAIN, url);
        assert_eq!(answer.header("Wayleave-Preferences"), None);
    }
    assert!(origin.seen().iter().any(|seen| seen.contains("/page")));
}

#[test]
fn an_answer_can_be_labelled_instead() {
    let label = "[preferences]\non_answer = \"label\"";
    let (_origin, proxy) = with_field(("Content-Usage", "train-ai=n, search=y"), label);
    let answer = proxy.get_as(CORPUS, "http://site.test/page");
    assert_eq!(answer.text(), "the page");
    assert_eq!(
        answer.header("Wayleave-Preferences"),
        Some("search=allow;from=\"content-usage\", train-ai=refuse;from=\"content-usage\"")
    );
}

#[test]
fn responses_without_evaluated_statements_are_labelled() {
    let origin = Origin::start();
    origin.site("site.test").disallows("/private");
    let proxy = Wayleave::start_with(&origin, |settings| {
        let corpus = example_bot("corpus", CORPUS).purposes(["train-ai", "archive"]).observed();
        let rules = "[[rule]]\naction = \"allow\"\nhosts = [\"site.test\"]\npaths = [\"/private/agreed\"]\nowner = \"us\"\n\
             reason = \"an agreement\"\nexpires = 2999-01-01\n\
             [[rule]]\naction = \"refuse\"\nhosts = [\"site.test\"]\npaths = [\"/private/never\", \"/never\"]\n";
        settings.with(corpus).table(rules)
    });
    for (path, label) in [
        ("/a", Some("train-ai=unstated, archive=unstated")),
        ("/private/agreed", Some("train-ai=allow;from=\"rule\", archive=allow;from=\"rule\"")),
        ("/private/a", Some("train-ai=refuse;from=\"disallow\", archive=refuse;from=\"disallow\"")),
        ("/private/never", Some("train-ai=refuse;from=\"rule\", archive=refuse;from=\"rule\"")),
        ("/never", Some("train-ai=refuse;from=\"rule\", archive=refuse;from=\"rule\"")),
        ("/robots.txt", None),
    ] {
        let answer = proxy.get_as(CORPUS, &format!("http://site.test{path}"));
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.header("Wayleave-Preferences"), label, "{path}");
    }
    let post = Request::new("POST", "http://site.test/private/agreed").agent(CORPUS);
    let posted = proxy.exchange(&post.body("x"));
    assert_eq!(posted.header("Wayleave-Preferences"), None);
}

#[test]
fn preferences_apply_to_reading_only() {
    let (_origin, proxy) = site("User-agent: *\nContent-Usage: train-ai=n\n");
    let post = Request::new("POST", "http://site.test/a").agent(CORPUS);
    assert_eq!(proxy.exchange(&post.body("x")).status, 200);
    assert_eq!(proxy.get_as(CORPUS, "http://site.test/a").status, 403);
    assert_eq!(proxy.get_as(CORPUS, "http://site.test/robots.txt").status, 200);
}

#[test]
fn preferences_are_logged_and_counted() {
    let (_origin, proxy) = site("User-agent: *\nContent-Usage: train-ai=n, search=y\n");
    let refused = proxy.get_as(CORPUS, "http://site.test/a").json();
    assert_eq!(proxy.get_as(INDEX, "http://site.test/a").status, 200);
    let id = refused["decision_id"].as_str().unwrap();
    let decision = proxy.admin_get(&format!("/v1/decisions/{id}")).json();
    assert_eq!(decision["reason"], "preference");
    let preferences = decision["preferences"].as_array().unwrap();
    let of = |index: usize| (&preferences[index]["purpose"], &preferences[index]["preference"]);
    assert_eq!(of(0), (&json!("search"), &json!("allow")));
    assert_eq!(of(1), (&json!("train-ai"), &json!("refuse")));
    assert_eq!(preferences[1]["clause"], "aipref-vocab-08 §4.1");
    let count = |purpose: &str, value: &str| {
        let labels = [("source", "content-usage"), ("purpose", purpose), ("value", value)];
        proxy.metric("wayleave_preferences_total", &labels)
    };
    assert_eq!(count("search", "allow"), 2.0);
    assert_eq!(count("train-ai", "refuse"), 1.0);
}
