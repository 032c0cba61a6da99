//! What the running proxy does about answers that say something about their use.

mod coded;
mod hostile;
mod pages;
mod passing;

use crate::harness::origin::reply::Reply;
use crate::harness::{Ask, Origin, Response, Wayleave};

/// Crawlers that search, that also train, that need to be allowed, that are only observed, and that say nothing of themselves.
const CRAWLERS: &str = r#"
[[crawler]]
name = "index"
tokens = ["ExampleBot"]
match = { user_agent = "ExampleBot-Index" }
purposes = ["search"]
[[crawler]]
name = "corpus"
tokens = ["ExampleBot"]
match = { user_agent = "ExampleBot-Corpus" }
purposes = ["train-ai", "ai-input"]
[[crawler]]
name = "stated"
tokens = ["ExampleBot"]
match = { user_agent = "ExampleBot-Stated" }
purposes = ["tdm"]
unstated = "refuse"
[[crawler]]
name = "observed"
tokens = ["ExampleBot"]
match = { user_agent = "ExampleBot-Observed" }
purposes = ["search"]
mode = "observe"
[[crawler]]
name = "plain"
tokens = ["ExampleBot"]
match = { user_agent = "ExampleBot" }
"#;

const INDEX: &str = "ExampleBot-Index/1";
const CORPUS: &str = "ExampleBot-Corpus/1";
const STATED: &str = "ExampleBot-Stated/1";
const OBSERVED: &str = "ExampleBot-Observed/1";
const PLAIN: &str = "ExampleBot/1";

/// A page that is not to be found by searching.
const NOINDEX: &str =
    "<!doctype html><title>t</title><meta name=robots content='noindex, nofollow'><p>the page";

/// An origin whose page is this, and a proxy before it with these settings.
fn site(page: Reply, settings: &str) -> (Origin, Wayleave) {
    let origin = Origin::start();
    let robots = "User-agent: *\nAllow: /\n";
    origin.site("site.test").robots(robots).page("/page", page);
    let table = format!("{settings}\n{CRAWLERS}");
    let proxy = Wayleave::start_with(&origin, |settings| settings.table(&table));
    (origin, proxy)
}

fn get(proxy: &Wayleave, agent: &str) -> Response {
    proxy.exchange(&Ask::get("http://site.test/page").agent(agent))
}

/// The statement that an answer was withheld for.
#[track_caller]
fn expect_withheld(answer: &Response, stage: &str) -> serde_json::Value {
    assert!(!answer.text().contains("the page"), "{}", answer.text());
    let phrase = Some("Refused by usage preference");
    let problem = answer.expect_refusal(403, phrase, "http_request_denied");
    assert_eq!(problem["stage"], stage, "{problem}");
    problem
}
