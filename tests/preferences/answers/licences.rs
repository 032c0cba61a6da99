//! Licences named in a `Link` field or in a page are fetched like those named in robots.txt.

use serde_json::json;

use super::{CORPUS, INDEX, OBSERVED, PLAIN, crawlers, expect_withheld};
use crate::harness::origin::reply::{Reply, Step};
use crate::harness::{Origin, Request, Response, Wayleave};

const LICENCE: &str = "https://site.test/l.xml";

fn licence(terms: &str) -> Reply {
    Reply::text(format!(
        "<rsl xmlns=\"https://rslstandard.org/rsl\"><content url=\"\"><license>{terms}</license></content></rsl>"
    ))
}

/// Returns a licence that permits search, and so nothing else.
fn only_search() -> Reply {
    licence("<permits type=\"usage\">search</permits><payment type=\"attribution\"/>")
}

fn links(urls: impl IntoIterator<Item = String>) -> String {
    let link = |url| format!("<link rel=license type=application/rsl+xml href=\"{url}\">");
    urls.into_iter().map(link).collect()
}

fn in_page(url: &str) -> Reply {
    Reply::html(links([url.to_owned()]) + "<p>the page")
}

fn in_field(url: &str) -> Reply {
    let link = format!("<{url}>; rel=\"license\"; type=\"application/rsl+xml\"");
    Reply::html("<p>the page").header("Link", &link)
}

/// Starts a site with a page, and a proxy.
fn site(page: Reply, preferences: &str) -> (Origin, Wayleave) {
    let origin = Origin::start();
    let site = origin.site("site.test").allows_all();
    site.page("/page", page).page("/l.xml", only_search());
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.table(preferences).with_all(crawlers()));
    (origin, proxy)
}

fn get(proxy: &Wayleave, agent: &str) -> Response {
    proxy.get_as(agent, "https://site.test/page")
}

/// Returns how often a document was requested.
fn fetched(origin: &Origin, ending: &str) -> usize {
    let seen = origin.seen();
    seen.iter().filter(|seen| seen.ends_with(ending)).count()
}

#[test]
fn a_licence_that_a_response_names_is_fetched_once() {
    for (page, stage, carrier) in [
        (in_field(LICENCE), "head", "field"),
        (in_field("/x/../l.xml"), "head", "field"),
        (in_page("l.xml"), "body", "meta"),
        (in_page("//site.test/l.xml#terms"), "body", "meta"),
    ] {
        let (origin, proxy) = site(page, "");
        for _ in 0..2 {
            let answer = get(&proxy, INDEX);
            assert!(answer.text().contains("the page"), "{}", answer.text());
            let label = Some("search=allow;from=\"rsl\"");
            assert_eq!(answer.header("Wayleave-Preferences"), label);
            assert_eq!(answer.header("Wayleave-Duties"), Some("attribution"));
            let problem = expect_withheld(&get(&proxy, CORPUS), stage);
            assert_eq!(problem["source"], "rsl");
            assert_eq!(problem["carrier"], carrier);
            assert_eq!(problem["clause"], "RSL 1.0 §3.5, not among what is permitted");
            assert_eq!(problem["document"]["url"], LICENCE, "{problem}");
            let id = problem["decision_id"].as_str().unwrap();
            let decision = proxy.admin_get(&format!("/v1/decisions/{id}")).json();
            assert_eq!(decision["reached_origin"], true);
            let grounds = proxy.admin_get(&format!("/v1/decisions/{id}/robots"));
            let document = &grounds.json()["document"];
            assert_eq!(document["is_same"], true, "{document}");
        }
        assert_eq!(fetched(&origin, "/l.xml"), 1, "{:?}", origin.seen());
        let view = proxy.admin_get("/v1/robots/https%3A%2F%2Fsite.test");
        let urls = view.json()["documents"].clone();
        let urls: Vec<_> =
            urls.as_array().unwrap().iter().map(|document| &document["url"]).collect();
        assert!(urls.contains(&&json!(LICENCE)), "{urls:?}");
    }
}

#[test]
fn licences_that_cannot_refuse_are_not_fetched() {
    let (origin, proxy) = site(in_page(LICENCE), "");
    assert_eq!(get(&proxy, PLAIN).status, 200);
    let site = origin.site("site.test");
    let mut missing = in_field(LICENCE);
    missing.status = 404;
    site.page("/missing", missing)
        .page(
            "/moved",
            Reply::redirect(302, "/page")
                .header("Link", "<l.xml>; rel=license; type=application/rsl+xml"),
        )
        .page("/refused", in_page(LICENCE).header("X-Robots-Tag", "noindex"))
        .page("/text", Reply::text(links([LICENCE.to_owned()])));
    for (path, status) in [("missing", 404), ("moved", 302), ("refused", 403), ("text", 200)] {
        let url = format!("https://site.test/{path}");
        assert_eq!(proxy.get_as(INDEX, &url).status, status, "{path}");
    }
    assert_eq!(fetched(&origin, "/l.xml"), 0);
    let (origin, proxy) = self::site(in_page(LICENCE), "[preferences]\nsources = [\"tdmrep\"]\n");
    assert_eq!(get(&proxy, CORPUS).status, 200);
    assert_eq!(fetched(&origin, "/l.xml"), 0);
}

#[test]
fn a_licence_that_cannot_be_fetched_withholds_the_page() {
    for (url, served, is_temporary) in [
        (LICENCE, Some(Reply::new(404)), false),
        (LICENCE, Some(Reply::new(500)), true),
        (LICENCE, Some(Reply::nothing(Step::Close)), true),
        (LICENCE, Some(Reply::html("<title>licence</title>")), false),
        ("https://closed.test/l.xml", None, false),
        ("ftp://site.test/l.xml", None, false),
        ("urn:licence:7", None, false),
    ] {
        for (page, stage) in [(in_field(url), "head"), (in_page(url), "body")] {
            let (origin, proxy) = site(page, "");
            if let Some(reply) = &served {
                origin.site("site.test").page("/l.xml", reply.clone());
            }
            origin.site("closed.test").disallows("/");
            let answer = get(&proxy, INDEX);
            let problem = expect_withheld(&answer, stage);
            assert_eq!(problem["source"], "rsl", "{url}");
            assert_eq!(problem["policy"], url);
            assert_eq!(problem["retry_after"].is_u64(), is_temporary, "{problem}");
            assert_eq!(fetched(&origin, "closed.test/l.xml"), 0);
            // Observed crawlers and crawlers without purposes get the page.
            assert!(get(&proxy, OBSERVED).text().contains("the page"));
            assert!(get(&proxy, PLAIN).text().contains("the page"));
        }
    }
    let label = "[preferences]\non_answer = \"label\"\n";
    let (origin, proxy) = site(in_page(LICENCE), label);
    origin.site("site.test").page("/l.xml", Reply::new(404));
    let answer = get(&proxy, INDEX);
    assert!(answer.text().contains("the page"));
    let label = Some("search=refuse;from=\"rsl\"");
    assert_eq!(answer.header("Wayleave-Preferences"), label);
}

#[test]
fn no_more_than_eight_licences_of_a_page_are_fetched() {
    let numbered = |host: &str, count: usize| {
        let url = |number| format!("https://{host}/{number}.xml");
        (0..count).map(url).collect::<Vec<_>>()
    };
    let (origin, proxy) = site(Reply::html("<p>the page"), "");
    for number in 0..500 {
        let path = format!("/{number}.xml");
        origin.site("site.test").page(&path, only_search());
    }
    let page = |path: &str, urls: Vec<String>| {
        let page = Reply::html(links(urls) + "<p>the page");
        origin.site("site.test").page(path, page);
    };
    page("/eight", numbered("site.test", 8));
    page("/hundreds", numbered("site.test", 500));
    page("/again", vec![LICENCE.to_owned(); 1000]);
    // Licences in fields and in the page are counted together.
    let mut both = Reply::html(links(numbered("site.test", 5)) + "<p>the page");
    for number in 5..10 {
        let link = format!("<{number}.xml>; rel=license; type=application/rsl+xml");
        both = both.header("Link", &link);
    }
    origin.site("site.test").page("/both", both);
    let status = |path: &str| {
        let url = format!("https://site.test{path}");
        proxy.get_as(INDEX, &url).status
    };
    assert_eq!(status("/eight"), 200);
    assert_eq!(fetched(&origin, ".xml"), 8);
    let answer = proxy.get_as(INDEX, "https://site.test/hundreds");
    let problem = expect_withheld(&answer, "body");
    let statement = problem["statement"].as_str().unwrap();
    assert!(statement.ends_with("(no more than 8 licences are read)"), "{statement}");
    assert_eq!(fetched(&origin, ".xml"), 8);
    assert_eq!(status("/again"), 200);
    assert_eq!(fetched(&origin, ".xml"), 9);
    assert_eq!(status("/both"), 403);
    assert_eq!(fetched(&origin, ".xml"), 11, "8 and 9 are in the field");
}

#[test]
fn a_page_cannot_cause_requests_to_internal_hosts() {
    let origin = Origin::start();
    let internal = Origin::start_at("127.0.0.2");
    internal.site("*").page("/l.xml", only_search());
    for (number, url) in
        ["http://internal.example/l.xml".to_owned(), format!("http://{}/l.xml", internal.http)]
            .iter()
            .enumerate()
    {
        let site = origin.site(&format!("site{number}.test"));
        site.page("/field", in_field(url)).page("/page", in_page(url));
    }
    let proxy = Wayleave::start_with(&origin, |settings| {
        let settings = settings.resolve_to("internal.example", &internal);
        settings.with_all(crawlers())
    });
    for number in 0..2 {
        for (path, stage) in [("field", "head"), ("page", "body")] {
            let url = format!("http://site{number}.test/{path}");
            expect_withheld(&proxy.get_as(INDEX, &url), stage);
        }
    }
    assert_eq!(internal.connections(), 0, "{:?}", internal.seen());
}

#[test]
fn references_are_relative_to_the_base_of_the_page() {
    let base = |href: &str| {
        let links = links(["l.xml".to_owned()]);
        Reply::html(format!("<base href=\"{href}\"><base href=\"/no/\">{links}<p>the page"))
    };
    let (origin, proxy) = site(base("/terms/"), "");
    let site = origin.site("site.test");
    site.page("/terms/l.xml", only_search()).page("/other", base("https://terms.test/a/b"));
    origin.site("terms.test").page("/a/l.xml", only_search());
    for (path, url) in
        [("page", "https://site.test/terms/l.xml"), ("other", "https://terms.test/a/l.xml")]
    {
        let answer = proxy.get_as(INDEX, &format!("https://site.test/{path}"));
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        assert_eq!(fetched(&origin, url), 1);
    }
}

#[test]
fn a_licence_that_is_not_sent_withholds_the_page_in_time() {
    let origin = Origin::start();
    let site = origin.site("site.test").allows_all();
    let silent = Reply::nothing(Step::Hang);
    site.page("/page", in_page(LICENCE)).page("/l.xml", silent);
    let proxy = Wayleave::start_with(&origin, |settings| {
        let settings = settings.set("robots.fetch_timeout", "\"3s\"");
        settings.with_all(crawlers())
    });
    let mut wire = proxy.connect();
    let url = "http://site.test/page";
    wire.send(Request::get(url).agent(INDEX).absolute_form());
    origin.wait_for_target("/l.xml");
    // A client that closes does not stop the fetch.
    drop(wire);
    let problem = expect_withheld(&get(&proxy, INDEX), "body");
    assert_eq!(problem["source"], "rsl");
    assert!(problem["retry_after"].is_u64(), "{problem}");
}
