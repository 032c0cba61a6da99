//! Two crawlers with different purposes on the same origins, with real clients: each gets exactly what it may.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{LIMIT, command_for, trust_in_nss};
use crate::harness::origin::reply::Reply;
use crate::harness::tools::{node_modules, output_of, program, project, python};
use crate::harness::{Origin, Wayleave};
use crate::preferences::purposes::{CORPUS, INDEX, example_bot};

/// The outcome of a crawler's request for the page of a host.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Gets {
    ThePage,
    /// A refusal; the page is not requested from the origin.
    Refusal,
    /// A refusal of the origin's response.
    WithheldPage,
}

use Gets::{Refusal, ThePage, WithheldPage};

/// Hosts, what the crawler that searches gets from each, and what the one that trains gets.
const HOSTS: [(&str, Gets, Gets); 8] = [
    ("signal.test", ThePage, Refusal),
    ("reserved.test", ThePage, Refusal),
    ("licensed.test", ThePage, Refusal),
    ("field.test", WithheldPage, ThePage),
    ("meta.test", ThePage, WithheldPage),
    ("link.test", ThePage, WithheldPage),
    ("closed.test", Refusal, Refusal),
    ("silent.test", ThePage, ThePage),
];

fn serve(origin: &Origin) {
    let page = || Reply::html("<!doctype html><title>t</title><p>the page");
    let licence = || {
        let terms = "<license><permits type=\"usage\">search</permits></license>";
        Reply::text(format!(
            "<rsl xmlns=\"https://rslstandard.org/rsl\"><content url=\"/\">{terms}</content></rsl>"
        ))
    };
    for (host, ..) in HOSTS {
        let robots = "User-agent: *\nAllow: /\n";
        origin.site(host).robots(robots).page("/page", page());
    }
    let signal = "User-agent: *\nContent-Signal: search=yes, ai-train=no\n";
    origin.site("signal.test").robots(signal);
    let reserved = r#"[{"location": "/", "tdm-reservation": 1}]"#;
    let file = "/.well-known/tdmrep.json";
    origin.site("reserved.test").page(file, Reply::text(reserved));
    let site = origin.site("licensed.test").page("/l.xml", licence());
    site.robots("License: https://licensed.test/l.xml\n");
    let noindex = page().header("X-Robots-Tag", "noindex");
    origin.site("field.test").page("/page", noindex);
    let noai = Reply::html("<!doctype html><meta name=robots content=noai><p>the page");
    origin.site("meta.test").page("/page", noai);
    let link = "<l.xml>; rel=license; type=\"application/rsl+xml\"";
    let site = origin.site("link.test").page("/l.xml", licence());
    site.page("/page", page().header("Link", link));
    let closed = "User-agent: *\nDisallow: /\n";
    origin.site("closed.test").robots(closed);
}

/// A crawler's request for the page of a host.
#[derive(Clone)]
struct PlannedRequest {
    url: String,
    agent: &'static str,
    gets: Gets,
}

fn planned_requests() -> Vec<PlannedRequest> {
    let of = |scheme: &'static str| {
        HOSTS.into_iter().flat_map(move |(host, index, corpus)| {
            [(INDEX, index), (CORPUS, corpus)].map(|(agent, gets)| PlannedRequest {
                url: format!("{scheme}://{host}/page"),
                agent,
                gets,
            })
        })
    };
    ["http", "https"].into_iter().flat_map(of).collect()
}

fn as_lines(all: &[PlannedRequest]) -> String {
    let line = |request: &PlannedRequest| {
        json!({ "url": request.url, "user_agent": request.agent }).to_string() + "\n"
    };
    all.iter().map(line).collect()
}

/// Checks a client. `crawl` runs it, and returns a line with `url`, `user_agent` and `status` for each request.
#[track_caller]
fn each_gets_what_it_may(crawl: impl FnOnce(&Wayleave, &[PlannedRequest]) -> String) {
    let origin = Origin::start();
    serve(&origin);
    let crawlers = [
        example_bot("index", INDEX).purposes(["search"]),
        example_bot("corpus", CORPUS).purposes(["train-ai"]),
    ];
    let proxy = Wayleave::start_with(&origin, |settings| settings.with_all(crawlers));
    let all = planned_requests();
    let output = crawl(&proxy, &all);
    let answers = output.lines().map(|line| {
        let answer: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let text = |member: &str| answer[member].as_str().unwrap().to_owned();
        (text("url"), text("user_agent"), answer["status"].as_u64().unwrap())
    });
    let answers: BTreeSet<_> = answers.collect();
    let expected = all.iter().map(|request| {
        let status = if request.gets == ThePage { 200 } else { 403 };
        (request.url.clone(), request.agent.to_owned(), status)
    });
    assert_eq!(answers, expected.collect(), "at the client");
    let requests = origin.requests();
    let pages = requests.iter().filter(|request| request.target == "/page");
    let arrived = pages.map(|request| {
        let agent = request.header("user-agent").unwrap_or_default();
        (format!("{}://{}/page", request.scheme, request.authority), agent.to_owned())
    });
    let sent = all.iter().filter(|request| request.gets != Refusal);
    let sent = sent.map(|request| (request.url.clone(), request.agent.to_owned()));
    assert_eq!(arrived.collect::<BTreeSet<_>>(), sent.collect(), "at the origin");
}

#[test]
fn curl_gets_what_its_purposes_may() {
    each_gets_what_it_may(|proxy, all| {
        let one = |request: &PlannedRequest| {
            let line =
                json!({ "url": request.url, "user_agent": request.agent, "status": "STATUS" });
            let line = line.to_string().replace("\"STATUS\"", "%{http_code}").replace('"', "\\\"");
            format!(
                "url = \"{}\"\nuser-agent = \"{}\"\noutput = \"/dev/null\"\nsilent\nmax-time = 60\nwrite-out = \"{line}\\n\"\n",
                request.url, request.agent
            )
        };
        let config: Vec<_> = all.iter().map(one).collect();
        let mut curl = command_for(proxy, program("curl"));
        let input = config.join("next\n");
        output_of(curl.args(["-q", "-K", "-"]), input.as_bytes(), LIMIT)
    });
}

#[test]
fn scrapy_gets_what_its_purposes_may() {
    each_gets_what_it_may(|proxy, all| {
        let mut scrapy = command_for(proxy, python());
        scrapy.arg(project().join("tests/clients/crawl_scrapy.py"));
        output_of(&mut scrapy, as_lines(all).as_bytes(), LIMIT)
    });
}

#[test]
fn chromium_gets_what_its_purposes_may() {
    each_gets_what_it_may(|proxy, all| {
        trust_in_nss(proxy);
        let mut node = command_for(proxy, program("node"));
        node.arg(project().join("tests/clients/crawl_chromium.cjs"))
            .env("NODE_PATH", node_modules())
            .env("CHROMIUM", program("chromium-headless-shell"));
        output_of(&mut node, as_lines(all).as_bytes(), LIMIT)
    });
}
