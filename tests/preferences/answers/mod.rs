//! Responses that state preferences about their use.

mod coded;
mod hostile;
mod licences;
mod pages;
mod passing;

use crate::harness::crawler::Crawler;
use crate::harness::origin::reply::Reply;
use crate::harness::{Origin, Response, Wayleave};
use crate::preferences::purposes::{CORPUS, INDEX, OBSERVED, PLAIN, STATED, example_bot};

/// Returns crawlers: one searches, one trains, one needs a statement, one is only observed, and one has no purposes.
fn crawlers() -> [Crawler; 5] {
    [
        example_bot("index", INDEX).purposes(["search"]),
        example_bot("corpus", CORPUS).purposes(["train-ai", "ai-input"]),
        example_bot("stated", STATED).purposes(["tdm"]).set("unstated", "refuse"),
        example_bot("observed", OBSERVED).purposes(["search"]).observed(),
        example_bot("plain", PLAIN),
    ]
}

/// A page that forbids its use for search.
const NOINDEX: &str =
    "<!doctype html><title>t</title><meta name=robots content='noindex, nofollow'><p>the page";

/// Starts a site with this page, and a proxy with these settings.
fn site(page: Reply, preferences: &str) -> (Origin, Wayleave) {
    let origin = Origin::start();
    let robots = "User-agent: *\nAllow: /\n";
    origin.site("site.test").robots(robots).page("/page", page);
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.table(preferences).with_all(crawlers()));
    (origin, proxy)
}

fn get(proxy: &Wayleave, agent: &str) -> Response {
    proxy.get_as(agent, "http://site.test/page")
}

/// Expects a refusal instead of the page, and returns its problem.
#[track_caller]
fn expect_withheld(answer: &Response, stage: &str) -> serde_json::Value {
    assert!(!answer.text().contains("the page"), "{}", answer.text());
    let phrase = Some("Refused by usage preference");
    let problem = answer.expect_refusal(403, phrase, "http_request_denied");
    assert_eq!(problem["stage"], stage, "{problem}");
    problem
}
