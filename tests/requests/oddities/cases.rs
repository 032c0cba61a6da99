//! The bytes of nonconforming responses, and how each is treated.

/// A response that is repaired.
pub struct Row {
    /// The kinds of its repairs, in the order of the log.
    pub kinds: &'static [&'static str],
    pub name: &'static str,
    pub bytes: &'static str,
    pub status: u16,
    /// The fields of one name that the client gets.
    pub field: (&'static str, &'static [&'static str]),
    pub body: &'static str,
}

#[rustfmt::skip]
pub const REPAIRED: &[Row] = &[
    Row { kinds: &["space-before-colon"], name: "a-space", bytes: "HTTP/1.1 200 OK\r\nX-A : b\r\nContent-Length: 5\r\n\r\nhello", status: 200, field: ("x-a", &["b"]), body: "hello" },
    Row { kinds: &["space-before-colon"], name: "tabs", bytes: "HTTP/1.1 200 OK\r\nContent-Length\t\t: 5\r\n\r\nhello", status: 200, field: ("content-length", &["5"]), body: "hello" },
    Row { kinds: &["folded-field"], name: "folded", bytes: "HTTP/1.1 200 OK\r\nX-A: b\r\n  c\r\n\td\r\nContent-Length: 5\r\n\r\nhello", status: 200, field: ("x-a", &["b c d"]), body: "hello" },
    Row { kinds: &["folded-field"], name: "a-length-in-a-fold", bytes: "HTTP/1.1 200 OK\r\nX-A: b\r\n Content-Length: 2\r\n\r\nhello", status: 200, field: ("x-a", &["b Content-Length: 2"]), body: "hello" },
    Row { kinds: &["repeated-content-length"], name: "twice", bytes: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", status: 200, field: ("content-length", &["5"]), body: "hello" },
    Row { kinds: &["repeated-content-length"], name: "a-list", bytes: "HTTP/1.1 200 OK\r\nContent-Length: 5, 5,5\r\n\r\nhello", status: 200, field: ("content-length", &["5"]), body: "hello" },
    Row { kinds: &["repeated-content-length"], name: "one-length-in-two-spellings", bytes: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 05\r\n\r\nhello", status: 200, field: ("content-length", &["5"]), body: "hello" },
    Row { kinds: &["status-out-of-range"], name: "999", bytes: "HTTP/1.1 999 Go away\r\nContent-Length: 5\r\n\r\nhello", status: 999, field: ("content-length", &["5"]), body: "hello" },
    Row { kinds: &["status-out-of-range"], name: "600", bytes: "HTTP/1.1 600 Odd\r\nContent-Length: 5\r\n\r\nhello", status: 600, field: ("content-length", &["5"]), body: "hello" },
    Row { kinds: &["bare-lf"], name: "lf", bytes: "HTTP/1.1 200 OK\nContent-Length: 5\nX-A: b\n\nhello", status: 200, field: ("x-a", &["b"]), body: "hello" },
    Row { kinds: &["bare-lf"], name: "one-lf", bytes: "HTTP/1.1 200 OK\r\nX-A: b\nContent-Length: 5\r\n\r\nhello", status: 200, field: ("x-a", &["b"]), body: "hello" },
    Row { kinds: &["padded-chunk-size"], name: "padded", bytes: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: b\r\n\r\n5   \r\nhello\r\n0  \r\n\r\n", status: 200, field: ("x-a", &["b"]), body: "hello" },
    Row { kinds: &["chunked-in-http-1.0"], name: "chunked-in-1.0", bytes: "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", status: 200, field: ("content-length", &[]), body: "hello" },
    Row { kinds: &["length-beside-chunked"], name: "both-framings", bytes: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", status: 200, field: ("content-length", &[]), body: "hello" },
    Row { kinds: &["length-beside-chunked"], name: "both-framings-that-differ", bytes: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n5\r\nhello\r\n0\r\n\r\n", status: 200, field: ("content-length", &[]), body: "hello" },
    Row { kinds: &["space-before-colon", "length-beside-chunked"], name: "both-framings-by-a-space", bytes: "HTTP/1.1 200 OK\r\nContent-Length : 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", status: 200, field: ("content-length", &[]), body: "hello" },
    Row { kinds: &["bare-lf", "length-beside-chunked"], name: "both-framings-by-lf", bytes: "HTTP/1.1 200 OK\nContent-Length: 5\nTransfer-Encoding: chunked\n\n5\r\nhello\r\n0\r\n\r\n", status: 200, field: ("content-length", &[]), body: "hello" },
    Row { kinds: &["chunked-in-http-1.0", "length-beside-chunked"], name: "both-framings-in-1.0", bytes: "HTTP/1.0 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", status: 200, field: ("content-length", &[]), body: "hello" },
    Row { kinds: &["repeated-chunked"], name: "chunked-twice", bytes: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", status: 200, field: ("content-length", &[]), body: "hello" },
    Row { kinds: &["repeated-chunked"], name: "chunked-twice-in-a-list", bytes: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", status: 200, field: ("content-length", &[]), body: "hello" },
    Row { kinds: &["skipped-line"], name: "a-line-without-colon", bytes: "HTTP/1.1 200 OK\r\nnonsense\r\nContent-Length: 5\r\n\r\nhello", status: 200, field: ("content-length", &["5"]), body: "hello" },
    Row { kinds: &["skipped-line"], name: "a-second-status-line", bytes: "HTTP/1.1 200 OK\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", status: 200, field: ("content-length", &["5"]), body: "hello" },
    Row { kinds: &["skipped-line"], name: "a-space-in-a-name", bytes: "HTTP/1.1 200 OK\r\nX A: b\r\nContent-Length: 5\r\n\r\nhello", status: 200, field: ("x a", &[]), body: "hello" },
    Row { kinds: &["skipped-line"], name: "no-name", bytes: "HTTP/1.1 200 OK\r\n: b\r\nContent-Length: 5\r\n\r\nhello", status: 200, field: ("", &[]), body: "hello" },
    Row { kinds: &["control-character"], name: "bare-cr-in-a-value", bytes: "HTTP/1.1 200 OK\r\nX-A: b\rc\r\nContent-Length: 5\r\n\r\nhello", status: 200, field: ("x-a", &["b c"]), body: "hello" },
    Row { kinds: &["control-character"], name: "bare-cr-before-lf", bytes: "HTTP/1.1 200 OK\r\nX-A: b\r\r\nContent-Length: 5\r\n\r\nhello", status: 200, field: ("x-a", &["b"]), body: "hello" },
    Row { kinds: &["control-character"], name: "nul", bytes: "HTTP/1.1 200 OK\r\nX-A: b\0c\r\nContent-Length: 5\r\n\r\nhello", status: 200, field: ("x-a", &["b c"]), body: "hello" },
    Row { kinds: &["control-character"], name: "escape", bytes: "HTTP/1.1 200 OK\r\nX-A: b\x1bc\r\nContent-Length: 5\r\n\r\nhello", status: 200, field: ("x-a", &["b c"]), body: "hello" },
];

/// Responses that are refused: a name and the bytes. More in faults.rs.
#[rustfmt::skip]
pub const REFUSED: &[(&str, &str)] = &[
    ("two-lengths-beside-chunked", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
    ("gzip-beside-chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
    ("chunked-and-a-hole", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked,\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
    ("two-lengths", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nhello"),
    ("two-lengths-by-a-space", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length : 5\r\n\r\nhello"),
    ("two-lengths-in-a-list", "HTTP/1.1 200 OK\r\nContent-Length: 5, 3\r\n\r\nhello"),
    ("a-list-with-a-hole", "HTTP/1.1 200 OK\r\nContent-Length: 5,\r\n\r\nhello"),
    ("a-folded-length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n 5\r\n\r\nhello"),
    ("a-fold-behind-the-status-line", "HTTP/1.1 200 OK\r\n X: y\r\nContent-Length: 5\r\n\r\nhello"),
    ("a-name-of-spaces", "HTTP/1.1 200 OK\r\nX: b\r\n : c\x00\r\nContent-Length: 5\r\n\r\nhello"),
    ("a-length-with-a-space", "HTTP/1.1 200 OK\r\nContent Length: 5\r\n\r\nhello"),
    ("a-length-without-colon", "HTTP/1.1 200 OK\r\nContent-Length 5\r\n\r\nhello"),
    ("chunks-without-colon", "HTTP/1.1 200 OK\r\nTransfer-Encoding chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
    ("a-fold-behind-a-skipped-line", "HTTP/1.1 200 OK\r\nnonsense\r\n more\r\nContent-Length: 5\r\n\r\nhello"),
    ("bare-cr-without-colon", "HTTP/1.1 200 OK\r\nnonsense\rX: b\r\nContent-Length: 5\r\n\r\nhello"),
    ("nul-without-colon", "HTTP/1.1 200 OK\r\nnon\0sense\r\nContent-Length: 5\r\n\r\nhello"),
    ("bare-cr", "HTTP/1.1 200 OK\r\nX: a\rContent-Length: 5\r\n\r\nhello"),
    ("bare-cr-behind-a-length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\r\n\r\nhello"),
    ("nul-in-a-fold", "HTTP/1.1 200 OK\r\nX: a\r\n \0b\r\nContent-Length: 5\r\n\r\nhello"),
    ("bare-cr-in-the-reason", "HTTP/1.1 200 O\rK\r\nContent-Length: 5\r\n\r\nhello"),
    ("status-below-100", "HTTP/1.1 099 Odd\r\nContent-Length: 5\r\n\r\nhello"),
    ("status-1000", "HTTP/1.1 1000 Odd\r\nContent-Length: 5\r\n\r\nhello"),
];

/// Bodies that are cut off where they become ambiguous.
#[rustfmt::skip]
pub const CUT_OFF: &[(&str, &str)] = &[
    ("a-space-before-a-size", "5\r\nhello\r\n 5\r\nworld\r\n0\r\n\r\n"),
    ("lf-behind-a-size", "5\r\nhello\r\n5\nworld\r\n0\r\n\r\n"),
    ("lf-behind-a-chunk", "5\r\nhello\n5\r\nworld\r\n0\r\n\r\n"),
    ("a-word-behind-a-size", "5\r\nhello\r\n5 x\r\nworld\r\n0\r\n\r\n"),
];

/// A robots.txt of 33 bytes that disallows /private: a host, the bytes, and the status of a request for that.
#[rustfmt::skip]
pub const ROBOTS: &[(&str, &str, u16)] = &[
    ("a-space", "HTTP/1.1 200 OK\r\nContent-Length : 33\r\n\r\nUser-agent: *\nDisallow: /private\n", 403),
    ("folded", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 33\r\n\r\nUser-agent: *\nDisallow: /private\n", 403),
    ("twice", "HTTP/1.1 200 OK\r\nContent-Length: 33\r\nContent-Length: 33\r\n\r\nUser-agent: *\nDisallow: /private\n", 403),
    ("lf", "HTTP/1.1 200 OK\nContent-Length: 33\n\nUser-agent: *\nDisallow: /private\n", 403),
    ("padded", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n21 \r\nUser-agent: *\nDisallow: /private\n\r\n0\r\n\r\n", 403),
    ("status-999", "HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n", 503),
    ("both", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 33\r\n\r\n21\r\nUser-agent: *\nDisallow: /private\n\r\n0\r\n\r\n", 403),
    ("in-1-0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n21\r\nUser-agent: *\nDisallow: /private\n\r\n0\r\n\r\n", 403),
    ("a-skipped-line", "HTTP/1.1 200 OK\r\nnonsense\r\nContent-Length: 33\r\n\r\nUser-agent: *\nDisallow: /private\n", 403),
    ("nul-in-a-value", "HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 33\r\n\r\nUser-agent: *\nDisallow: /private\n", 403),
    ("gzip-chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n21\r\nUser-agent: *\nDisallow: /private\n\r\n0\r\n\r\n", 503),
    ("chunked-twice", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n21\r\nUser-agent: *\nDisallow: /private\n\r\n0\r\n\r\n", 403),
    ("two-lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 33\r\n\r\nUser-agent: *\nDisallow: /private\n", 503),
];
