//! Heads and bodies that two parsers could read differently, which are refused and never reach the origin.

use super::{Case, check_all, malformed};
use crate::harness::Wayleave;

/// `(name, fields)` of a POST whose body hides a request.
#[rustfmt::skip]
const FIELDS: &[(&str, &str)] = &[
    ("both framings", "Content-Length: 5\r\nTransfer-Encoding: chunked"),
    ("both framings, the other way round", "Transfer-Encoding: chunked\r\nContent-Length: 5"),
    ("two lengths", "Content-Length: 5\r\nContent-Length: 6"),
    ("one length twice", "Content-Length: 5\r\nContent-Length: 5"),
    ("a list of lengths", "Content-Length: 5, 5"),
    ("a length with plus", "Content-Length: +5"),
    ("a length below zero", "Content-Length: -5"),
    ("a hexadecimal length", "Content-Length: 0x5"),
    ("a length with a space", "Content-Length: 5 5"),
    ("no length", "Content-Length: "),
    ("a length past all bounds", "Content-Length: 99999999999999999999"),
    ("a length with a fraction", "Content-Length: 5.0"),
    ("a length in quotes", "Content-Length: \"5\""),
    ("a length with underscores", "Content-Length: 5_0"),
    ("a length behind a tab in the middle", "Content-Length: 5\t5"),
    ("a coding before chunked", "Transfer-Encoding: gzip, chunked"),
    ("chunked before a coding", "Transfer-Encoding: chunked, gzip"),
    ("chunked twice", "Transfer-Encoding: chunked, chunked"),
    ("chunked in two fields", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
    ("chunked and identity in two fields", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity"),
    ("identity", "Transfer-Encoding: identity"),
    ("an unknown coding", "Transfer-Encoding: xchunked"),
    ("chunked behind a vertical tab", "Transfer-Encoding: \u{b}chunked"),
    ("chunked in quotes", "Transfer-Encoding: \"chunked\""),
    ("chunked with a parameter", "Transfer-Encoding: chunked;q=1"),
    ("chunked with a comma", "Transfer-Encoding: chunked,"),
    ("an empty coding", "Transfer-Encoding: "),
    ("a space before the colon of a coding", "Transfer-Encoding : chunked"),
    ("a space before the colon of a length", "Content-Length : 5"),
    ("a tab before the colon", "Content-Length\t: 5"),
    ("a length in a folded line", "X: y\r\n Content-Length: 5"),
    ("a folded field", "X: y\r\n folded"),
    ("a field folded by a tab", "X: y\r\n\tfolded"),
    ("a folded coding", "Transfer-Encoding:\r\n chunked"),
    ("a line that ends in LF", "Content-Length: 5\nX: y"),
    ("a bare CR in a value", "X: a\rb"),
    ("a bare CR before a length", "X: a\rContent-Length: 5"),
    ("a NUL in a value", "X: a\0b"),
    ("a NUL in a name", "X\0: a"),
    ("a control byte in a value", "X: a\u{1}b"),
    ("a space in a name", "Bad Name: x"),
    ("a name in brackets", "(X): y"),
    ("no name", ": x"),
    ("no colon", "X"),
    ("a name outside ASCII", "X\u{e4}: y"),
    ("a space before the first name", " X: y"),
    ("User_Agent", "User-Agent: ExampleBot/1.0\r\nUser_Agent: Other/1.0\r\nContent-Length: 5"),
    ("USER_AGENT alone", "USER_AGENT: Other/1.0\r\nContent-Length: 5"),
    ("Content_Length", "Content-Length: 5\r\nContent_Length: 6"),
    ("Transfer_Encoding", "Content-Length: 5\r\nTransfer_Encoding: chunked"),
    ("a name with both signs", "Content-Length: 5\r\nSec_WebSocket-Key: x"),
    ("Connection takes the length away", "Connection: content-length\r\nContent-Length: 5"),
    ("Connection takes the coding away", "Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked"),
    ("Connection takes Host away", "Connection: host\r\nContent-Length: 5"),
    ("Connection takes User-Agent away", "Connection: user-agent\r\nUser-Agent: ExampleBot/1.0\r\nContent-Length: 5"),
    ("Connection takes User-Agent away, in capitals", "Connection: USER-AGENT\r\nUser-Agent: ExampleBot/1.0\r\nContent-Length: 5"),
    ("Connection takes User-Agent away, behind others", "Connection: keep-alive ,\tX, ,user-agent\t,close\r\nUser-Agent: ExampleBot/1.0\r\nContent-Length: 5"),
    ("Connection takes User-Agent away, in a second field", "Connection: close\r\nConnection: user-agent\r\nUser-Agent: ExampleBot/1.0\r\nContent-Length: 5"),
    ("Connection takes a User-Agent away that is not there", "Connection: user-agent\r\nContent-Length: 5"),
    ("Connection takes Via away", "Connection: via\r\nVia: 1.1 wayleave\r\nContent-Length: 5"),
    ("Connection takes Cookie away", "Connection: cookie\r\nCookie: a=b\r\nContent-Length: 5"),
    ("Connection takes Authorization away", "Connection: authorization\r\nAuthorization: NTLM x\r\nContent-Length: 5"),
    ("Connection takes Expect away", "Connection: expect\r\nExpect: 100-continue\r\nContent-Length: 5"),
    ("Connection takes Max-Forwards away", "Connection: max-forwards\r\nMax-Forwards: 0\r\nContent-Length: 5"),
    ("Connection takes a WebSocket's key away", "Connection: upgrade, sec-websocket-key\r\nUpgrade: websocket\r\nContent-Length: 5"),
];

#[rustfmt::skip]
const HEADS: &[Case] = &[
    malformed("a space in the target", "GET http://shop.test/a b HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    malformed("two spaces before the target", "GET  http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    malformed("two spaces before the version", "GET http://shop.test/a  HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    malformed("a tab for a space", "GET\thttp://shop.test/a\tHTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    malformed("a space before the method", " GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    malformed("a space behind the version", "GET http://shop.test/a HTTP/1.1 \r\nHost: shop.test\r\n\r\n"),
    malformed("lines that end in LF", "GET http://shop.test/a HTTP/1.1\nHost: shop.test\n\n"),
    malformed("one line that ends in LF", "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\n\r\n"),
    malformed("lines that end in CR", "GET http://shop.test/a HTTP/1.1\rHost: shop.test\r\r"),
    malformed("an end of LF and CR LF", "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\n\r\nGET http://shop.test/b HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    malformed("no Host", "GET http://shop.test/a HTTP/1.1\r\n\r\n"),
    malformed("Host twice", "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nHost: shop.test\r\n\r\n"),
    malformed("two Hosts", "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nHost: other.test\r\n\r\n"),
    malformed("Host with a space", "GET http://shop.test/a HTTP/1.1\r\nHost: a b\r\n\r\n"),
    malformed("Host with userinfo", "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test@other.test\r\n\r\n"),
    malformed("Host with a path", "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test/a\r\n\r\n"),
    malformed("a version behind letters", "GET http://shop.test/a xHTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    malformed("a version in small letters", "GET http://shop.test/a http/1.1\r\nHost: shop.test\r\n\r\n"),
    malformed("HTTP/0.9", "GET http://shop.test/a\r\nHost: shop.test\r\n\r\n"),
    malformed("HTTP/0.9 alone", "GET http://shop.test/a\r\n\r\n"),
    malformed("letters outside ASCII in the method", "G\u{c4}T http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    malformed("a bracket in the method", "G(T http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\n"),
    malformed("chunked in HTTP/1.0", "POST http://shop.test/a HTTP/1.0\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    malformed("a head that is cut off", "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n"),
    malformed("a request line that is cut off", "GET http://sho"),
    Case {
        name: "a version of HTTP/1 that is none",
        bytes: "GET http://shop.test/a HTTP/1.2\r\nHost: shop.test\r\n\r\n",
        statuses: &[505],
        reaches: &[],
    },
    Case {
        name: "HTTP/2's preface in the open",
        bytes: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        statuses: &[505],
        reaches: &[],
    },
    Case {
        name: "an upgrade to HTTP/2 in the open is not made",
        bytes: "GET http://other.test/a HTTP/1.1\r\nHost: other.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n",
        statuses: &[200],
        reaches: &["/a"],
    },
];

pub fn names() -> Vec<String> {
    let fields = FIELDS.iter().map(|(name, _)| format!("fields: {name}"));
    let heads = HEADS.iter().map(|case| format!("head: {}", case.name));
    fields.chain(heads).collect()
}

#[test]
fn ambiguous_heads_are_refused() {
    let posts: Vec<_> = FIELDS
        .iter()
        .map(|(name, fields)| {
            let bytes = format!(
                "POST http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n{fields}\r\n\r\n5\r\nhello\r\n0\r\n\r\nGET http://shop.test/hidden HTTP/1.1\r\nHost: shop.test\r\n\r\n"
            );
            malformed(name, bytes.leak())
        })
        .collect();
    check_all(&posts);
    check_all(HEADS);
}

#[test]
fn ambiguous_heads_are_refused_inside_tls() {
    let origin = super::shop();
    let proxy = Wayleave::start(&origin);
    for (name, fields) in FIELDS {
        let mut wire = proxy.tunnel("shop.test:443");
        let _maybe_closed = wire.try_send(format!(
            "POST /a HTTP/1.1\r\nHost: shop.test\r\n{fields}\r\n\r\n5\r\nhello\r\n0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: shop.test\r\n\r\n"
        ));
        assert_eq!(super::statuses(&mut wire), [400], "{name}");
    }
    assert_eq!(origin.connections(), 0, "{:?}", origin.seen());
}
