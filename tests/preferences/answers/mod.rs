//! Responses that state preferences about their use.

mod coded;
mod hostile;
mod licences;
mod pages;
mod passing;

use crate::harness::origin::reply::Reply;
use crate::harness::{Origin, Response, Wayleave};
use crate::preferences::purposes::{CORPUS, INDEX, OBSERVED, PLAIN, STATED, crawler};

/// Returns crawlers: one searches, one trains, one needs a statement, one is only observed, and one has no purposes.
fn crawlers() -> String {
    [
        crawler("index", INDEX, "purposes = [\"search\"]"),
        crawler("corpus", CORPUS, "purposes = [\"train-ai\", \"ai-input\"]"),
        crawler("stated", STATED, "purposes = [\"tdm\"]\nunstated = \"refuse\""),
        crawler("observed", OBSERVED, "purposes = [\"search\"]\nmode = \"observe\""),
        crawler("plain", PLAIN, ""),
    ]
    .concat()
}

/// A page that forbids its use for search.
const NOINDEX: &str =
    "<!doctype html><title>t</title><meta name=robots content='noindex, nofollow'><p>the page";

/// Starts a site with this page, and a proxy with these settings.
fn site(page: Reply, settings: &str) -> (Origin, Wayleave) {
    let origin = Origin::start();
    let robots = "User-agent: *\nAllow: /\n";
    origin.site("site.test").robots(robots).page("/page", page);
    let table = format!("{settings}\n{}", crawlers());
    let proxy = Wayleave::start_with(&origin, |settings| settings.table(&table));
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
