//! Responses that are allowed, which pass unchanged but for the proxy's own fields.

use super::{CORPUS, INDEX, PLAIN, get, site};
use crate::harness::origin::reply::{Framing, Reply, Step, pattern};
use crate::harness::{Origin, Request, Response, Wayleave};

/// Returns a page of this many bytes.
fn page(length: usize) -> (Reply, Vec<u8>) {
    let start = b"<!doctype html><title>long</title>".to_vec();
    let more = pattern((length - start.len()) as u64);
    let reply = Reply::html(&start).step(Step::Pattern(more.len() as u64));
    (reply, [start, more].concat())
}

#[test]
fn pages_of_any_length_pass_unchanged_by_both_versions() {
    for length in [40, 65_535, 65_536, 65_537, 300_000] {
        for framing in [Framing::Length, Framing::Chunked, Framing::UntilClose] {
            let (reply, bytes) = page(length);
            let (_origin, proxy) = site(reply.framing(framing), "");
            assert!(get(&proxy, INDEX).body == bytes, "{length} {framing:?}");
            let request = Request::get("https://site.test/page").agent(INDEX);
            assert!(proxy.exchange(&request).body == bytes, "{length} {framing:?}");
            let answer = proxy.http2("site.test:443").exchange(&request);
            assert!(answer.body == bytes, "{length} {framing:?}");
        }
    }
}

#[test]
fn an_empty_page_passes() {
    for framing in [Framing::Length, Framing::Chunked, Framing::UntilClose] {
        let (_origin, proxy) = site(Reply::html("").framing(framing), "");
        let answer = get(&proxy, INDEX);
        assert_eq!((answer.status, answer.body.len()), (200, 0), "{framing:?}");
    }
}

#[test]
fn a_gigabyte_of_html_passes_in_bounded_memory() {
    let (reply, _) = page(40);
    let length = 1 << 30;
    let (_origin, proxy) = site(reply.step(Step::Pattern(length)), "");
    let before = proxy.memory_kib("VmHWM");
    let mut wire = proxy.connect();
    let url = "http://site.test/page";
    wire.send(Request::get(url).agent(INDEX).absolute_form());
    let mut head = wire.response_head();
    assert_eq!(head.status, 200);
    let counted = wire.counted_body(&mut head).unwrap();
    assert_eq!(counted.length, length + 40);
    let grown = proxy.memory_kib("VmHWM").saturating_sub(before);
    assert!(grown < 16 * 1024, "{grown} KiB");
}

/// Returns a response in whose head and trailers an origin forges the proxy's fields.
fn forged() -> Reply {
    Reply::html("<title>the page</title>")
        .header("Wayleave-Preferences", "search=allow")
        .header("wayleave-duties", "none")
        .header("Wayleave-Anything", "1")
        .header("X-Wayleave", "theirs")
        .trailer("Wayleave-Preferences", "search=allow")
        .trailer("X-Sum", "1")
}

#[test]
fn origins_cannot_forge_the_proxys_fields() {
    let (_origin, proxy) = site(forged(), "");
    let expect = |answer: &Response, label: Option<&str>| {
        let ours = |name: &String| {
            let name = name.to_ascii_lowercase();
            name.starts_with("wayleave-") && name != "wayleave-decision"
        };
        let labels = answer.headers.iter().filter(|(name, _)| ours(name));
        let labels: Vec<_> = labels.map(|(_, value)| value.as_str()).collect();
        assert_eq!(labels, label.into_iter().collect::<Vec<_>>());
        assert_eq!(answer.header("X-Wayleave"), Some("theirs"));
        let trailers: Vec<_> =
            answer.trailers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
        assert_eq!(trailers, ["x-sum"]);
    };
    for (agent, label) in [(INDEX, Some("search=unstated")), (PLAIN, None)] {
        let request = Request::get("https://site.test/page").agent(agent);
        expect(&get(&proxy, agent), label);
        expect(&proxy.exchange(&request), label);
        expect(&proxy.http2("site.test:443").exchange(&request), label);
    }
}

#[test]
fn trailers_follow_a_page_that_was_held_back() {
    let reply = Reply::html("<title>the page</title>").trailer("X-Sum", "1");
    let (_origin, proxy) = site(reply, "");
    let answer = get(&proxy, INDEX);
    assert_eq!(answer.text(), "<title>the page</title>");
    assert_eq!(answer.trailers, [("X-Sum".to_owned(), "1".to_owned())]);
    assert_eq!(answer.header("Wayleave-Preferences"), Some("search=unstated"));
}

#[test]
fn pages_inside_blind_tunnels_are_not_read() {
    let origin = Origin::start();
    origin.site("site.test").allows_all().page("/page", Reply::html(super::NOINDEX));
    let proxy = Wayleave::start_with(&origin, |settings| {
        let settings = settings.set("https.mode", "\"tunnel\"");
        settings.with_all(super::crawlers())
    });
    let tunnel = |agent: &str| {
        let mut wire = proxy.connect();
        wire.send_connect("site.test:443", &format!("User-Agent: {agent}\r\n"));
        wire.response_head().status
    };
    assert_eq!(tunnel(INDEX), 200);
    assert_eq!(tunnel(CORPUS), 200);
    // The statement that this crawler needs could be in a page.
    assert_eq!(tunnel(super::STATED), 403);
}
