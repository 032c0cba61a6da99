//! Codings and charsets of pages, which are decoded for reading and forwarded unchanged.

use std::io::Write;

use async_compression::Level;
use async_compression::tokio::write::BrotliEncoder;
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use tokio::io::AsyncWriteExt;

use super::{CORPUS, INDEX, NOINDEX, PLAIN, expect_withheld, get, site};
use crate::harness::origin::reply::{Framing, Reply, Step};
use crate::harness::runtime;

/// Encodes a page. Brotli makes little effort: some pages have hundreds of mebibytes.
pub fn coded(coding: &str, page: &[u8]) -> Vec<u8> {
    let level = Compression::default();
    match coding {
        "gzip" | "x-gzip" => {
            let mut encoder = GzEncoder::new(Vec::new(), level);
            encoder.write_all(page).unwrap();
            encoder.finish().unwrap()
        }
        "deflate" => {
            let mut encoder = ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(page).unwrap();
            encoder.finish().unwrap()
        }
        "raw deflate" => {
            let mut encoder = DeflateEncoder::new(Vec::new(), level);
            encoder.write_all(page).unwrap();
            encoder.finish().unwrap()
        }
        "br" => runtime().block_on(async {
            let mut encoder = BrotliEncoder::with_quality(Vec::new(), Level::Fastest);
            encoder.write_all(page).await.unwrap();
            encoder.shutdown().await.unwrap();
            encoder.into_inner()
        }),
        "zstd" => zstd::bulk::compress(page, 3).unwrap(),
        other => panic!("{other}"),
    }
}

/// Returns a response that sends an encoded page byte by byte.
fn byte_by_byte(coding: &str, bytes: &[u8]) -> Reply {
    let reply = Reply::new(200).header("Content-Type", "text/html");
    let reply = reply.header("Content-Encoding", coding);
    let steps = bytes.iter().map(|byte| Step::Bytes(vec![*byte]));
    steps.fold(reply.framing(Framing::Chunked), Reply::step)
}

#[test]
fn every_coding_is_decoded_for_reading_only() {
    for (field, codings) in [
        ("gzip", &["gzip"][..]),
        ("X-GZIP", &["gzip"]),
        ("deflate", &["deflate"]),
        ("deflate", &["raw deflate"]),
        ("br", &["br"]),
        ("zstd", &["zstd"]),
        ("identity", &[]),
        ("gzip, br", &["gzip", "br"]),
    ] {
        let mut bytes = NOINDEX.as_bytes().to_vec();
        for coding in codings {
            bytes = coded(coding, &bytes);
        }
        let (_origin, proxy) = site(byte_by_byte(field, &bytes), "");
        expect_withheld(&get(&proxy, INDEX), "body");
        let answer = get(&proxy, CORPUS);
        assert_eq!(answer.body, bytes, "{field}");
        assert_eq!(answer.header("Content-Encoding"), Some(field));
        assert_eq!(answer.header("Wayleave-Duties"), Some("nofollow"));
    }
}

#[test]
fn a_page_that_cannot_be_decoded_states_nothing() {
    let gzip = coded("gzip", NOINDEX.as_bytes());
    let reserved = coded("gzip", b"<meta name=tdm-reservation content=0>");
    for (field, bytes, index, stated) in [
        ("unknown", &gzip[..], 200, 403),
        ("zstd", &gzip[..], 200, 403),
        ("br", &gzip[..], 200, 403),
        ("zstd", b"", 200, 403),
        ("gzip, gzip, gzip", &gzip[..], 200, 403),
        // What can be decoded before the cut counts.
        ("gzip", &reserved[..reserved.len() - 8], 200, 200),
        ("gzip", &gzip[..gzip.len() - 8], 403, 403),
    ] {
        let reply = Reply::html(bytes).header("Content-Encoding", field);
        let (_origin, proxy) = site(reply, "");
        let answer = get(&proxy, INDEX);
        assert_eq!(answer.status, index, "{field}: {}", answer.text());
        assert!(index != 200 || answer.body == bytes, "{field}");
        assert_eq!(get(&proxy, super::STATED).status, stated, "{field}");
    }
}

#[test]
fn a_plain_page_is_read_whatever_coding_is_claimed() {
    for label in ["utf-8", "none", "text/html", "8bit", "x-own", "gzip", "zstd", "br", "deflate"] {
        let reply = Reply::html(NOINDEX).header("Content-Encoding", label);
        let (_origin, proxy) = site(reply, "");
        expect_withheld(&get(&proxy, INDEX), "body");
        let answer = get(&proxy, CORPUS);
        assert_eq!(answer.body, NOINDEX.as_bytes(), "{label}");
        assert_eq!(answer.header("Content-Encoding"), Some(label));
        assert_eq!(answer.header("Wayleave-Duties"), Some("nofollow"), "{label}");
    }
}

fn utf_16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(bytes).collect()
}

#[test]
fn every_charset_is_read_whatever_is_declared() {
    let little = utf_16(NOINDEX, u16::to_le_bytes);
    let big = utf_16(NOINDEX, u16::to_be_bytes);
    let marked = [b"\xff\xfe", &little[..]].concat();
    let declared = NOINDEX.replace("<title>", "<meta charset=utf-16><title>");
    for (kind, bytes) in [
        ("text/html; charset=utf-16le", &little[..]),
        ("text/html; charset=\"UTF-16BE\"", &big),
        ("text/html", &marked),
        ("text/html", &little),
        // These declarations are wrong.
        ("text/html; charset=utf-8", &big),
        ("text/html; charset=utf-16", NOINDEX.as_bytes()),
        ("text/html; charset=hz-gb-2312", NOINDEX.as_bytes()),
        ("text/html; charset=x", NOINDEX.as_bytes()),
        ("text/html", declared.as_bytes()),
        ("application/xhtml+xml; charset=shift_jis", NOINDEX.as_bytes()),
        ("TEXT/HTML", NOINDEX.as_bytes()),
        ("html", NOINDEX.as_bytes()),
    ] {
        let reply = Reply::new(200).header("Content-Type", kind).body(bytes);
        let (_origin, proxy) = site(reply, "");
        expect_withheld(&get(&proxy, INDEX), "body");
        assert_eq!(get(&proxy, PLAIN).body, bytes);
    }
    // Without a type, or with several, clients may take it for a page.
    let reply = Reply::new(200).body(NOINDEX);
    let (_origin, proxy) = site(reply.clone(), "");
    expect_withheld(&get(&proxy, INDEX), "body");
    let two = reply.header("Content-Type", "text/plain").header("Content-Type", "text/html");
    let (_origin, proxy) = site(two, "");
    expect_withheld(&get(&proxy, INDEX), "body");
}
