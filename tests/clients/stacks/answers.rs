//! Answers of which some are odd, as servers send them.

use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

/// The content of all answers: one that git takes for its own, too.
pub const BODY: &str = "0123456789012345678901234567890123456789\trefs/heads/main\n";

/// The same, compressed by brotli.
const BROTLI: &str = "1b3800f8e5e51197c9f720b4f3d58a48224b515201321019b0a87964f508fc7d47793410";

/// An answer, and its name in the table.
pub struct Answer {
    pub name: &'static str,
    pub bytes: Vec<u8>,
}

/// Heads in front of the content.
#[rustfmt::skip]
const HEADS: &[(&str, &str)] = &[
    ("a length", "HTTP/1.1 200 OK\r\nContent-Length: 57\r\n\r\n"),
    ("no length", "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"),
    ("no length in HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n"),
    ("no reason phrase", "HTTP/1.1 200\r\nContent-Length: 57\r\n\r\n"),
    ("the length twice", "HTTP/1.1 200 OK\r\nContent-Length: 57\r\nContent-Length: 57\r\n\r\n"),
    ("two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 40\r\nContent-Length: 57\r\n\r\n"),
    ("a length that is too long", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"),
    ("a space before a colon", "HTTP/1.1 200 OK\r\nContent-Length : 57\r\n\r\n"),
    ("a folded field", "HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 57\r\n\r\n"),
    ("LF for line ends", "HTTP/1.1 200 OK\nContent-Length: 57\n\n"),
    ("a line that is no field", "HTTP/1.1 200 OK\r\nnonsense\r\nContent-Length: 57\r\n\r\n"),
    ("a name with a space", "HTTP/1.1 200 OK\r\nX A: b\r\nContent-Length: 57\r\n\r\n"),
    ("Latin-1 in a value", "HTTP/1.1 200 OK\r\nX-A: caf\u{e9}\r\nContent-Length: 57\r\n\r\n"),
    ("CR in a value", "HTTP/1.1 200 OK\r\nX-A: b\rc\r\nContent-Length: 57\r\n\r\n"),
    ("NUL in a value", "HTTP/1.1 200 OK\r\nX-A: b\0c\r\nContent-Length: 57\r\n\r\n"),
    ("status 600", "HTTP/1.1 600 Odd\r\nContent-Length: 57\r\n\r\n"),
    ("204 with content", "HTTP/1.1 204 No Content\r\nContent-Length: 57\r\n\r\n"),
    ("103 before", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 57\r\n\r\n"),
    ("103 that announces content", "HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 57\r\n\r\n"),
    ("100 that nobody expects", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 57\r\n\r\n"),
    ("utf-8 as the coding", "HTTP/1.1 200 OK\r\nContent-Encoding: utf-8\r\nContent-Length: 57\r\n\r\n"),
    ("gzip that is none", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 57\r\n\r\n"),
];

/// Heads in front of the content in one chunk, and the end of the body.
#[rustfmt::skip]
const CHUNKED: &[(&str, &str, &str)] = &[
    ("chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "\r\n"),
    ("chunks and trailers", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-A\r\n\r\n", "X-A: b\r\n\r\n"),
    ("chunks in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "\r\n"),
    ("chunks beside a length", "HTTP/1.1 200 OK\r\nContent-Length: 57\r\nTransfer-Encoding: chunked\r\n\r\n", "\r\n"),
    ("chunked twice", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "\r\n"),
    ("chunks without an end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", ""),
];

fn coded(coding: &str, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let coding = match coding {
        "" => String::new(),
        coding => format!("Content-Encoding: {coding}\r\n"),
    };
    let head = format!("HTTP/1.1 200 OK\r\n{coding}Content-Length: {length}\r\n\r\n");
    [head.as_bytes(), content].concat()
}

/// Returns the content as an encoder writes it.
fn encoded<W: Write>(
    mut encoder: W,
    finish: impl FnOnce(W) -> std::io::Result<Vec<u8>>,
) -> Vec<u8> {
    encoder.write_all(BODY.as_bytes()).expect("memory can be written");
    finish(encoder).expect("memory can be written")
}

fn latin1(text: &str) -> Vec<u8> {
    text.chars().map(|letter| u8::try_from(u32::from(letter)).expect("Latin-1")).collect()
}

/// Says in the final head that the connection closes: a client that keeps it may or may not notice in time.
fn closing(mut bytes: Vec<u8>) -> Vec<u8> {
    let head = memchr::memmem::rfind(&bytes, b"HTTP/1.").expect("it has a head");
    let line = memchr::memchr(b'\n', &bytes[head..]).expect("it has a line");
    bytes.splice(head + line + 1..head + line + 1, *b"Connection: close\r\n");
    bytes
}

/// Returns all answers, in the order of the table.
pub fn answers() -> Vec<Answer> {
    let answer = |name, bytes| Answer { name, bytes: closing(bytes) };
    let mut all = Vec::new();
    for &(name, head) in HEADS {
        all.push(answer(name, [&latin1(head), BODY.as_bytes()].concat()));
    }
    for &(name, head, end) in CHUNKED {
        all.push(answer(name, format!("{head}39\r\n{BODY}\r\n0\r\n{end}").into_bytes()));
    }
    let level = Compression::default();
    let gzip = encoded(GzEncoder::new(Vec::new(), level), GzEncoder::finish);
    let zlib = encoded(ZlibEncoder::new(Vec::new(), level), ZlibEncoder::finish);
    let deflate = encoded(DeflateEncoder::new(Vec::new(), level), DeflateEncoder::finish);
    let brotli = data_encoding::HEXLOWER.decode(BROTLI.as_bytes()).expect("digits");
    let zstd = zstd::bulk::compress(BODY.as_bytes(), 3).expect("memory can be written");
    for (name, coding, content) in [
        ("gzip", "gzip", &gzip),
        ("gzip without a label", "", &gzip),
        ("deflate", "deflate", &zlib),
        ("deflate without zlib", "deflate", &deflate),
        ("brotli", "br", &brotli),
        ("zstd", "zstd", &zstd),
    ] {
        all.push(answer(name, coded(coding, content)));
    }
    let fields = |count: usize, length: usize| {
        let fields: String =
            (0..count).map(|at| format!("X-{at}: {}\r\n", "x".repeat(length))).collect();
        format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 57\r\n\r\n{BODY}").into_bytes()
    };
    all.push(answer("200 fields", fields(200, 10)));
    all.push(answer("a head of 70 KiB", fields(20, 3500)));
    let more = format!("HTTP/1.1 200 OK\r\nContent-Length: 57\r\n\r\n{BODY}more");
    all.push(answer("more than the length", more.into_bytes()));
    all
}
