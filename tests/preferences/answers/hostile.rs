//! Origins that send pages that are expensive to read, or never end.

use flate2::Compression;
use flate2::write::GzEncoder;

use super::coded::coded;
use super::{CORPUS, INDEX, NOINDEX, PLAIN, expect_withheld, get, site};
use crate::harness::client::reset_when_dropped;
use crate::harness::origin::reply::{Framing, Reply, Step};
use crate::harness::{Request, Wayleave};

const MIB: usize = 1 << 20;

fn html(coding: &str, bytes: &[u8]) -> Reply {
    Reply::html(bytes).header("Content-Encoding", coding)
}

/// Far below the decoded sizes. A decoder of brotli was seen to take 23 MiB, and the one of the page before may still be there.
const SPARE_KIB: u64 = 64 * 1024;

/// Returns the growth of the proxy's memory while it forwards a page many times.
fn growth(proxy: &Wayleave, bytes: &[u8]) -> u64 {
    let before = proxy.memory_kib("VmHWM");
    for _ in 0..8 {
        assert!(get(proxy, INDEX).body == bytes);
    }
    proxy.memory_kib("VmHWM").saturating_sub(before)
}

#[test]
fn compressed_pages_are_decoded_to_the_limit_only() {
    for (field, coding, mebibytes) in [
        ("gzip", "gzip", 256),
        ("deflate", "deflate", 256),
        ("deflate", "raw deflate", 256),
        ("br", "br", 256),
        ("zstd", "zstd", 256),
    ] {
        let bytes = coded(coding, &vec![b' '; mebibytes * MIB]);
        assert!(bytes.len() < MIB, "{coding}: {}", bytes.len());
        let (_origin, proxy) = site(html(field, &bytes), "");
        let grown = growth(&proxy, &bytes);
        assert!(grown < SPARE_KIB, "{coding}: {grown} KiB");
    }
    // Encoded twice: half a gigabyte in a few kilobytes.
    let twice = coded("gzip", &coded("gzip", &vec![b' '; 512 * MIB]));
    let (_origin, proxy) = site(html("gzip, gzip", &twice), "");
    let grown = growth(&proxy, &twice);
    assert!(grown < SPARE_KIB, "{} bytes: {grown} KiB", twice.len());
}

#[test]
fn bytes_that_decode_to_nothing_are_held_back_to_a_limit() {
    let empty = GzEncoder::new(Vec::new(), Compression::none()).finish().unwrap();
    let members = empty.repeat(4 * MIB / empty.len());
    // A skippable frame (RFC 8878 section 3.1.2).
    let skipped = b"\x50\x2a\x4d\x18\x04\0\0\0nul\n".repeat(4 * MIB / 12);
    for (coding, bytes) in [("gzip", members), ("zstd", skipped)] {
        let (_origin, proxy) = site(html(coding, &bytes), "");
        let grown = growth(&proxy, &bytes);
        assert!(grown < SPARE_KIB, "{coding}: {grown} KiB");
    }
}

#[test]
fn ten_thousand_statements_are_read_in_bounded_memory() {
    let scan = "[preferences]\nmeta_scan = \"1MiB\"";
    let many = "<meta name=robots content=nosnippet,max-snippet:9>".repeat(10_000);
    let rules = (0..100_000).map(|number| format!("max-snippet:{number},")).collect::<String>();
    let one = format!("<meta name=robots content='{}'>", &rules[..MIB - 100]);
    for page in [many, one] {
        let (_origin, proxy) = site(Reply::html(&page), scan);
        let answer = get(&proxy, INDEX);
        assert!(answer.body == page.as_bytes());
        let duties = answer.header("Wayleave-Duties").unwrap();
        assert!(duties.len() < 100, "{duties}");
        let refused = expect_withheld(&get(&proxy, CORPUS), "body");
        assert!(refused.to_string().len() < 4096);
        let grown = proxy.memory_kib("VmHWM");
        assert!(grown < 256 * 1024, "{grown} KiB");
    }
}

#[test]
fn a_field_full_of_statements_is_read_in_bounded_memory() {
    let signals = "ai-train=no,".repeat(4_000);
    let rules = "noai,".repeat(10_000);
    for (name, value) in [("Content-Signal", signals), ("X-Robots-Tag", rules)] {
        let (_origin, proxy) = site(Reply::text("the page").header(name, &value), "");
        let refused = expect_withheld(&get(&proxy, CORPUS), "head");
        assert!(refused.to_string().len() < 4096);
        let grown = proxy.memory_kib("VmHWM");
        assert!(grown < 256 * 1024, "{grown} KiB");
    }
}

/// The status of a page that is held back is not sent yet, so the client gets the fault.
#[test]
fn a_page_that_ends_within_its_beginning_is_a_fault() {
    let settings = "upstream.response_timeout = \"3s\"";
    let begun = Reply::html("<title>t").claims_length(1000);
    let chunked = Reply::html("<title>t").framing(Framing::Chunked);
    for (reply, status, error) in [
        (begun.clone().step(Step::Hang), 504, "http_response_timeout"),
        (begun.clone().step(Step::Close), 502, "http_response_incomplete"),
        (chunked.step(Step::Hang), 504, "http_response_timeout"),
    ] {
        let (_origin, proxy) = site(reply, settings);
        get(&proxy, INDEX).expect_refusal(status, None, error);
    }
    // Without purposes nothing is held back, so the cut follows the head.
    let (_origin, proxy) = site(begun.step(Step::Close), settings);
    let mut wire = proxy.connect();
    let url = "http://site.test/page";
    wire.send(Request::get(url).agent(PLAIN).absolute_form());
    assert_eq!(wire.response_head().status, 200);
}

#[test]
fn a_client_that_closes_while_a_page_is_held_back_ends_it() {
    let hanging = Reply::html(NOINDEX).claims_length(1 << 20).step(Step::Hang);
    let (origin, proxy) = site(hanging, "");
    let mut wire = proxy.connect();
    let url = "http://site.test/page";
    wire.send(Request::get(url).agent(INDEX).absolute_form());
    origin.wait_for_target("/page");
    // A client that only ended its side could still read.
    reset_when_dropped(&wire.tcp);
    drop(wire);
    origin.wait_for("the response has ended", |arrived| arrived.answered == 2);
}
