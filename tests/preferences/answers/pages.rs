//! Statements in the beginning of a page, which is read before any of it is forwarded.

use super::coded::coded;
use super::{CORPUS, INDEX, NOINDEX, OBSERVED, PLAIN, STATED, expect_withheld, get, site};
use crate::harness::origin::reply::{Framing, Gate, Reply, Step};
use serde_json::Value;

use crate::harness::{Origin, Request, Wayleave, eventually};

/// Returns the last decision when it has this reason: responses are recorded when they are complete.
#[track_caller]
fn last_decision(proxy: &Wayleave, reason: &str) -> Value {
    let last = || proxy.admin_get("/v1/decisions").json()["decisions"][0].clone();
    eventually(reason, || last()["reason"] == reason);
    last()
}

#[test]
fn a_page_that_refuses_the_use_is_withheld() {
    let (origin, proxy) = site(Reply::html(NOINDEX), "");
    for url in ["http://site.test/page", "https://site.test/page"] {
        let problem = expect_withheld(&proxy.get_as(INDEX, url), "body");
        assert_eq!(problem["purpose"], "search");
        assert_eq!(problem["source"], "robots-meta");
        assert_eq!(problem["carrier"], "meta");
        let statement = "<meta name=\"robots\" content=\"noindex, nofollow\">";
        assert_eq!(problem["statement"], statement);
        let id = problem["decision_id"].as_str().unwrap();
        let decision = proxy.admin_get(&format!("/v1/decisions/{id}")).json();
        assert_eq!(decision["reached_origin"], true);
        assert_eq!(decision["outcome"], "refused");
        let answer = proxy.get_as(CORPUS, url);
        assert_eq!(answer.text(), NOINDEX);
        let label = Some("ai-input=unstated, train-ai=unstated");
        assert_eq!(answer.header("Wayleave-Preferences"), label);
        assert_eq!(answer.header("Wayleave-Duties"), Some("nofollow"));
        let answer = proxy.get_as(PLAIN, url);
        assert_eq!(answer.text(), NOINDEX);
        assert_eq!(answer.header("Wayleave-Preferences"), None);
    }
    assert!(origin.seen().iter().any(|seen| seen.contains("/page")));
    let labels =
        [("source", "robots-meta"), ("purpose", "search"), ("value", "refuse"), ("stage", "body")];
    assert_eq!(proxy.metric("wayleave_preferences_total", &labels), 2.0);
}

#[test]
fn a_page_can_arrive_in_two_parts_cut_anywhere() {
    let (origin, proxy) = site(Reply::html(NOINDEX), "");
    let coded = coded("gzip", NOINDEX.as_bytes());
    fn cuts(bytes: &[u8]) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
        (1..bytes.len()).map(|at| (bytes[..at].to_vec(), bytes[at..].to_vec()))
    }
    let halves =
        |(first, rest)| Reply::html(first).framing(Framing::Chunked).step(Step::Bytes(rest));
    let plain = cuts(NOINDEX.as_bytes()).map(halves);
    let coded = cuts(&coded).map(halves);
    let coded = coded.map(|page| page.header("Content-Encoding", "gzip"));
    for (number, page) in plain.chain(coded).enumerate() {
        let path = format!("/cut/{number}");
        origin.site("site.test").page(&path, page);
        let url = format!("http://site.test{path}");
        expect_withheld(&proxy.get_as(INDEX, &url), "body");
    }
}

#[test]
fn the_rest_of_a_withheld_page_is_not_read() {
    let long = Reply::html(NOINDEX)
        .step(Step::Bytes(vec![b' '; 64 * 1024]))
        .step(Step::Pattern(1 << 30))
        .step(Step::Hang);
    let (origin, proxy) = site(long.clone().claims_length(1 << 31), "");
    origin.site("h2.test").http2_only().page("/page", long.claims_length(1 << 31));
    expect_withheld(&get(&proxy, INDEX), "body");
    expect_withheld(&proxy.get_as(INDEX, "https://site.test/page"), "body");
    let client = proxy.http2("h2.test:443");
    let answer = client.exchange(&Request::get("https://h2.test/page").agent(INDEX));
    expect_withheld(&answer, "body");
    // Three robots.txt files and three pages.
    origin.wait_for("all responses have ended", |arrived| arrived.answered == 6);
    // Only the stream was reset: its connection is still used.
    let answer = client.exchange(&Request::get("https://h2.test/other").agent(INDEX));
    assert_eq!(answer.status, 200);
}

#[test]
fn only_pages_are_held_back_until_their_beginning_is_read() {
    let gate = Gate::closed();
    let page = |kind| {
        let halves = Reply::in_halves(&gate).framing(Framing::Chunked);
        halves.header("Content-Type", kind)
    };
    let (origin, proxy) = site(page("text/html"), "");
    origin.site("site.test").page("/text", page("text/plain"));
    for (agent, path) in [(PLAIN, "/page"), (INDEX, "/text")] {
        let mut wire = proxy.connect();
        let url = format!("http://site.test{path}");
        wire.send(Request::get(&url).agent(agent).absolute_form());
        assert_eq!(wire.response_head().status, 200, "{agent} {path}");
    }
    let mut wire = proxy.connect();
    let url = "http://site.test/page";
    wire.send(Request::get(url).agent(INDEX).absolute_form());
    origin.wait_for("the page is requested", |arrived| {
        let pages = arrived.requests.iter().filter(|request| request.target == "/page");
        pages.count() == 2
    });
    gate.open();
    assert_eq!(wire.response().text(), "first half,second half");
}

#[test]
fn no_more_of_a_page_is_read_than_configured() {
    let settings = "[preferences]\nmeta_scan = 0";
    let (_origin, proxy) = site(Reply::html(NOINDEX), settings);
    assert_eq!(get(&proxy, INDEX).text(), NOINDEX);
    let settings = "[preferences]\nmeta_scan = \"40B\"";
    let (_origin, proxy) = site(Reply::html(NOINDEX), settings);
    assert_eq!(get(&proxy, INDEX).text(), NOINDEX);
}

#[test]
fn a_page_can_be_labelled_instead() {
    let label = "[preferences]\non_answer = \"label\"";
    let (_origin, proxy) = site(Reply::html(NOINDEX), label);
    let answer = get(&proxy, INDEX);
    assert_eq!(answer.text(), NOINDEX);
    let label = Some("search=refuse;from=\"robots-meta\"");
    assert_eq!(answer.header("Wayleave-Preferences"), label);
}

#[test]
fn a_refusal_by_a_page_can_be_observed() {
    let (_origin, proxy) = site(Reply::html(NOINDEX), "");
    assert_eq!(get(&proxy, OBSERVED).text(), NOINDEX);
    let decision = last_decision(&proxy, "preference");
    assert_eq!(decision["outcome"], "observed");
    assert_eq!(decision["would_be"], 403);
}

#[test]
fn a_page_can_allow_crawlers_that_need_a_statement() {
    let page = |value: &str| {
        Reply::html(format!("<meta name=tdm-reservation content={value}><p>the page"))
    };
    for (value, status) in [("0", 200), ("1", 403), ("2", 403)] {
        let (_origin, proxy) = site(page(value), "");
        assert_eq!(get(&proxy, STATED).status, status, "{value}");
    }
    // The later statement replaces the earlier one.
    for (field, value, status) in [("1", "0", 200), ("0", "1", 403)] {
        let (_origin, proxy) = site(page(value).header("tdm-reservation", field), "");
        assert_eq!(get(&proxy, CORPUS).status, status, "{field} {value}");
    }
}

#[test]
fn reservations_in_a_field_name_their_policy() {
    let page = Reply::text("the page").header("TDM-Reservation", "1");
    let page = page.header("tdm-policy", "https://site.test/policy.json");
    let (_origin, proxy) = site(page, "");
    let problem = expect_withheld(&get(&proxy, CORPUS), "head");
    assert_eq!(problem["source"], "tdmrep");
    assert_eq!(problem["policy"], "https://site.test/policy.json");
    assert_eq!(get(&proxy, INDEX).text(), "the page");
}

#[test]
fn responses_without_the_start_of_a_page_are_labelled() {
    let (origin, proxy) = site(Reply::html(NOINDEX), "");
    let site = origin.site("site.test");
    let part = |range: &str| {
        let mut part = Reply::html(NOINDEX).header("Content-Range", range);
        part.status = 206;
        part
    };
    let status = |status| {
        let mut reply = Reply::html(NOINDEX);
        reply.status = status;
        reply
    };
    site.page("/part", part("bytes 100-180/2000"))
        .page("/first", part("bytes 0-80/2000"))
        .page("/missing", status(404))
        .page("/moved", status(302))
        .page("/same", status(304))
        .page("/empty", status(204));
    let send = |method: &str, path: &str| {
        let request = Request::new(method, &format!("http://site.test{path}"));
        proxy.exchange(&request.agent(INDEX))
    };
    let label = Some("search=unstated");
    for (method, path, status) in [
        ("HEAD", "/page", 200),
        ("GET", "/part", 206),
        ("GET", "/missing", 404),
        ("GET", "/moved", 302),
        ("GET", "/same", 304),
        ("GET", "/empty", 204),
    ] {
        let answer = send(method, path);
        assert_eq!(answer.status, status, "{method} {path}");
        assert_eq!(answer.header("Wayleave-Preferences"), label, "{path}");
    }
    expect_withheld(&send("GET", "/first"), "body");
    // A field applies to all of them, but only content is withheld.
    let redirect = Reply::redirect(302, "/page").header("X-Robots-Tag", "noindex");
    origin.site("site.test").page("/marked", redirect);
    let answer = send("GET", "/marked");
    assert_eq!(answer.status, 302);
    let label = Some("search=refuse;from=\"robots-meta\"");
    assert_eq!(answer.header("Wayleave-Preferences"), label);
}

#[test]
fn demands_for_payment_are_forwarded() {
    let mut reply = Reply::text("pay").header("crawler-price", "USD 0.01");
    reply.status = 402;
    let (_origin, proxy) = site(reply, "");
    let answer = get(&proxy, INDEX);
    assert_eq!(answer.status, 402);
    assert_eq!(answer.header("crawler-price"), Some("USD 0.01"));
    let label = Some("search=refuse;from=\"payment\"");
    assert_eq!(answer.header("Wayleave-Preferences"), label);
    let decision = last_decision(&proxy, "payment");
    let statement = &decision["preferences"][0]["statement"];
    assert_eq!(statement, "status 402, crawler-price: USD 0.01");
    let answer = get(&proxy, PLAIN);
    assert_eq!(answer.header("Wayleave-Preferences"), None);
    last_decision(&proxy, "payment");
}

#[test]
fn the_rest_of_a_withheld_page_reaches_no_other_client() {
    let origin = Origin::start();
    let long = Reply::html(NOINDEX).step(Step::Pattern(200_000));
    origin.site("site.test").page("/page", long);
    let proxy = Wayleave::start_with(&origin, |settings| settings.with_all(super::crawlers()));
    for _ in 0..3 {
        expect_withheld(&get(&proxy, INDEX), "body");
        let answer = proxy.get_as(INDEX, "http://site.test/other");
        assert!(answer.text().ends_with("/other"), "{}", answer.text());
    }
}
