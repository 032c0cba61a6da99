//! Responses that are allowed pass unchanged, and an origin cannot forge the proxy's own fields.

use super::{CORPUS, INDEX, PLAIN, get, site};
use crate::harness::origin::reply::{Framing, Reply, Step, pattern_byte};
use crate::harness::{Origin, Request, Response, Wayleave};

/// A page of this many bytes, in a few steps.
fn page(length: usize) -> (Reply, Vec<u8>) {
    let start = b"<!doctype html><title>long</title>".to_vec();
    let more: Vec<u8> = (0..(length - start.len()) as u64).map(pattern_byte).collect();
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
            let ask = Request::get("https://site.test/page").agent(INDEX);
            assert!(proxy.exchange(&ask).body == bytes, "{length} {framing:?}");
            let answer = proxy.http2("site.test:443").exchange(&ask);
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

/// Fields that an origin forges in our name, in a head or in trailers.
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
fn nobody_else_says_what_the_proxy_says() {
    let (_origin, proxy) = site(forged(), "");
    let expect = |answer: &Response, label: Option<&str>| {
        let ours = |name: &String| {
            let name = name.to_ascii_lowercase();
            name.starts_with("wayleave-") && name != "wayleave-decision"
        };
        let said = answer.headers.iter().filter(|(name, _)| ours(name));
        let said: Vec<_> = said.map(|(_, value)| value.as_str()).collect();
        assert_eq!(said, label.into_iter().collect::<Vec<_>>());
        assert_eq!(answer.header("X-Wayleave"), Some("theirs"));
        let trailers: Vec<_> =
            answer.trailers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
        assert_eq!(trailers, ["x-sum"]);
    };
    for (agent, label) in [(INDEX, Some("search=unstated")), (PLAIN, None)] {
        let ask = Request::get("https://site.test/page").agent(agent);
        expect(&get(&proxy, agent), label);
        expect(&proxy.exchange(&ask), label);
        expect(&proxy.http2("site.test:443").exchange(&ask), label);
    }
}

#[test]
fn trailers_come_behind_a_page_that_was_held_back() {
    let reply = Reply::html("<title>the page</title>").trailer("X-Sum", "1");
    let (_origin, proxy) = site(reply, "");
    let answer = get(&proxy, INDEX);
    assert_eq!(answer.text(), "<title>the page</title>");
    assert_eq!(answer.trailers, [("X-Sum".to_owned(), "1".to_owned())]);
    assert_eq!(answer.header("Wayleave-Preferences"), Some("search=unstated"));
}

/// An uninspected tunnel shows no answers, so what stands before decides alone.
#[test]
fn nothing_is_read_inside_an_uninspected_tunnel() {
    let origin = Origin::start();
    origin
        .site("site.test")
        .robots("User-agent: *\nAllow: /\n")
        .page("/page", Reply::html(super::NOINDEX));
    let proxy = Wayleave::start_with(&origin, |settings| {
        let settings = settings.set("https.mode", "\"tunnel\"");
        settings.table(&super::crawlers())
    });
    let tunnel = |agent: &str| {
        let mut wire = proxy.connect();
        let head = format!(
            "CONNECT site.test:443 HTTP/1.1\r\nHost: site.test:443\r\nUser-Agent: {agent}\r\n\r\n"
        );
        wire.send(head);
        wire.response_head().status
    };
    assert_eq!(tunnel(INDEX), 200);
    assert_eq!(tunnel(CORPUS), 200);
    // Who needs to be allowed would not see that.
    assert_eq!(tunnel(super::STATED), 403);
}
