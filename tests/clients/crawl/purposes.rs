//! Two crawlers of different purposes on one set of origins, with real clients: each gets exactly what it may.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{LIMIT, command_for, trust_in_nss};
use crate::harness::origin::reply::Reply;
use crate::harness::tools::{node_modules, output_of, program, project, python};
use crate::harness::{Origin, Wayleave};
use crate::preferences::purposes::{CORPUS, INDEX, crawler};

/// The outcome of a crawler's request for the page of a host.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Gets {
    ThePage,
    /// A refusal; nobody asks the origin for the page.
    NothingAsked,
    /// A refusal of what the origin answered.
    NothingOfIt,
}

use Gets::{NothingAsked, NothingOfIt, ThePage};

/// Each host says something else; what the crawler gets that searches, and the one that trains.
const HOSTS: [(&str, Gets, Gets); 8] = [
    ("signal.test", ThePage, NothingAsked),
    ("reserved.test", ThePage, NothingAsked),
    ("licensed.test", ThePage, NothingAsked),
    ("field.test", NothingOfIt, ThePage),
    ("meta.test", ThePage, NothingOfIt),
    ("link.test", ThePage, NothingOfIt),
    ("closed.test", NothingAsked, NothingAsked),
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

/// One of our crawlers asks for the page of a host.
#[derive(Clone)]
struct Asked {
    url: String,
    agent: &'static str,
    gets: Gets,
}

fn asked() -> Vec<Asked> {
    let of = |scheme: &'static str| {
        HOSTS.into_iter().flat_map(move |(host, index, corpus)| {
            [(INDEX, index), (CORPUS, corpus)].map(|(agent, gets)| Asked {
                url: format!("{scheme}://{host}/page"),
                agent,
                gets,
            })
        })
    };
    ["http", "https"].into_iter().flat_map(of).collect()
}

fn as_lines(all: &[Asked]) -> String {
    let line = |it: &Asked| json!({ "url": it.url, "user_agent": it.agent }).to_string() + "\n";
    all.iter().map(line).collect()
}

/// Origins and a proxy, before a client asks by `ask`, which answers one line with `url`, `user_agent` and `status` for each.
#[track_caller]
fn each_gets_what_it_may(ask: impl FnOnce(&Wayleave, &[Asked]) -> String) {
    let origin = Origin::start();
    serve(&origin);
    let crawlers = [
        crawler("index", INDEX, "purposes = [\"search\"]"),
        crawler("corpus", CORPUS, "purposes = [\"train-ai\"]"),
    ];
    let table = crawlers.concat();
    let proxy = Wayleave::start_with(&origin, |settings| settings.table(&table));
    let all = asked();
    let output = ask(&proxy, &all);
    let answers = output.lines().map(|line| {
        let answer: Value = serde_json::from_str(line).unwrap_or_else(|it| panic!("{it}: {line}"));
        let text = |member: &str| answer[member].as_str().unwrap().to_owned();
        (text("url"), text("user_agent"), answer["status"].as_u64().unwrap())
    });
    let answers: BTreeSet<_> = answers.collect();
    let expected = all.iter().map(|it| {
        let status = if it.gets == ThePage { 200 } else { 403 };
        (it.url.clone(), it.agent.to_owned(), status)
    });
    assert_eq!(answers, expected.collect(), "at the client");
    let requests = origin.requests();
    let pages = requests.iter().filter(|it| it.target == "/page");
    let arrived = pages.map(|it| {
        let mut fields = it.headers.iter();
        let agent = fields.find(|(name, _)| name.eq_ignore_ascii_case("user-agent"));
        let agent = agent.map(|(_, value)| value.clone()).unwrap_or_default();
        (format!("{}://{}/page", it.scheme, it.authority), agent)
    });
    let sent = all.iter().filter(|it| it.gets != NothingAsked);
    let sent = sent.map(|it| (it.url.clone(), it.agent.to_owned()));
    assert_eq!(arrived.collect::<BTreeSet<_>>(), sent.collect(), "at the origin");
}

#[test]
fn curl_gets_what_its_purposes_may() {
    each_gets_what_it_may(|proxy, all| {
        let one = |it: &Asked| {
            let told = json!({ "url": it.url, "user_agent": it.agent, "status": "STATUS" });
            let told = told.to_string().replace("\"STATUS\"", "%{http_code}");
            let told = told.replace('"', "\\\"");
            format!(
                "url = \"{}\"\nuser-agent = \"{}\"\noutput = \"/dev/null\"\nsilent\nmax-time = 60\nwrite-out = \"{told}\\n\"\n",
                it.url, it.agent
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
            .env("CHROMIUM", program("chromium"));
        output_of(&mut node, as_lines(all).as_bytes(), LIMIT)
    });
}
