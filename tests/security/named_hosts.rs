//! Licences on other hosts: a public site cannot make wayleave contact an internal host, and the organisation's rules apply before
//! anything is sent.

use crate::harness::crawler::Crawler;
use crate::harness::{Origin, Reply, Wayleave, eventually};
use crate::preferences::licence;
use crate::preferences::purposes::{INDEX, example_bot};

/// Returns a licence that permits everything.
fn permissive() -> Reply {
    licence("<permits type=\"usage\">all</permits>")
}

fn search() -> Crawler {
    example_bot("index", INDEX).purposes(["search"])
}

/// Returns wayleave's own requests in the decision log.
fn own_requests(proxy: &Wayleave) -> Vec<String> {
    let decisions = proxy.admin_get("/v1/decisions?crawler=wayleave").json();
    let decisions = decisions["decisions"].as_array().cloned();
    let line = |decision: serde_json::Value| {
        let word = |member: &str| decision[member].as_str().unwrap_or_default().to_owned();
        format!("{} {} {}", word("outcome"), word("reason"), word("url"))
    };
    decisions.unwrap_or_default().into_iter().map(line).collect()
}

/// Starts a parent proxy that serves public hosts.
fn public_hosts(licence: &str) -> Origin {
    let parent = Origin::start();
    let text = format!("User-agent: *\nAllow: /\nLicense: {licence}\n");
    for host in ["first.example", "second.example"] {
        let robots = format!("http://{host}/robots.txt");
        parent.site("*").page(&robots, Reply::text(text.clone()));
    }
    let link = format!("<{licence}>; rel=license; type=application/rsl+xml");
    let page = Reply::html("<p>the page").header("Link", &link);
    parent
        .site("*")
        .page("http://answer.example/robots.txt", Reply::new(404))
        .page("http://answer.example/a", page);
    parent
}

#[test]
fn a_licence_url_sends_nothing_to_internal_hosts() {
    let intranet = Origin::start();
    intranet.site("intranet.test").allows_all().page("/l.xml", permissive());
    let licence = "http://intranet.test/l.xml";
    let parent = public_hosts(licence);
    let proxy = Wayleave::start_with(&intranet, |settings| {
        settings
            .set("upstream.proxy", &format!("\"http://{}\"", parent.http))
            .set("upstream.proxy_bypass", "[\"intranet.test\"]")
            .with(search())
    });
    for host in ["first", "answer"] {
        let answer = proxy.get_as(INDEX, &format!("http://{host}.example/a"));
        let problem = answer.expect_refusal(403, None, "http_request_denied");
        assert_eq!(problem["source"], "rsl", "{problem}");
    }
    assert_eq!(intranet.connections(), 0, "{:?}", intranet.seen());
    let line = "failed preference-document http://intranet.test/robots.txt";
    eventually("it is logged", || own_requests(&proxy) == [line]);
    // Requests of crawlers to the internal host are not affected.
    assert_eq!(proxy.get_as(INDEX, "http://intranet.test/a").status, 200);
    // The licence is not fetched even after its robots.txt is known and allows it.
    let answer = proxy.get_as(INDEX, "http://second.example/a");
    answer.expect_refusal(403, None, "http_request_denied");
    let seen = intranet.seen();
    assert!(!seen.iter().any(|line| line.ends_with("/l.xml")), "{seen:?}");
}

#[test]
fn rules_apply_before_the_robots_txt_of_a_licences_host() {
    let origin = Origin::start();
    for host in ["law", "open"] {
        let site = origin.site(&format!("{host}.test"));
        site.allows_all().page("/l.xml", permissive());
        let text = format!("License: https://{host}.test/l.xml\n");
        origin.site(&format!("names-{host}.test")).robots(text);
    }
    let rule = "[[rule]]\naction = \"refuse\"\nlegal = true\nhosts = [\"law.test\"]\nowner = \"legal@example.com\"\n";
    let proxy = Wayleave::start_with(&origin, |settings| settings.table(rule).with(search()));
    let answer = proxy.get_as(INDEX, "https://names-law.test/a");
    answer.expect_refusal(403, None, "http_request_denied");
    let seen = origin.seen();
    assert!(!seen.iter().any(|line| line.contains("//law.test")), "{seen:?}");
    assert_eq!(proxy.get_as(INDEX, "https://names-open.test/a").status, 200);
    let lines = [
        "forwarded preference-document https://open.test/l.xml",
        "forwarded preference-document https://open.test/robots.txt",
        "refused policy-rule https://law.test/robots.txt",
    ];
    eventually("it is logged", || own_requests(&proxy) == lines);
}
