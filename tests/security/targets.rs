//! Request targets that try to be judged as one path, host or scheme and fetched as another.

use crate::harness::Wayleave;

use super::{Case, check, shop};

/// `(name, target, Host, status, what reaches the origin)`
type Row = (&'static str, &'static str, &'static str, u16, &'static [&'static str]);

#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("plain", "http://shop.test/private", "shop.test", 403, &[]),
    ("query", "http://shop.test/private?x", "shop.test", 403, &[]),
    ("a query is no path", "http://shop.test?/private", "shop.test", 200, &["/?/private"]),
    ("dot segments", "http://shop.test/a/../private", "shop.test", 403, &[]),
    ("one dot", "http://shop.test/./private", "shop.test", 403, &[]),
    ("many dot segments", "http://shop.test/a/b/c/../../../private", "shop.test", 403, &[]),
    ("above the root", "http://shop.test/../../private", "shop.test", 403, &[]),
    ("out of what is allowed", "http://shop.test/private/open/../secret", "shop.test", 403, &[]),
    ("into what is disallowed and out", "http://shop.test/private/../a", "shop.test", 403, &[]),
    ("escaped dots", "http://shop.test/a/%2e%2e/private", "shop.test", 403, &[]),
    ("escaped dots in capitals", "http://shop.test/a/%2E%2E/private", "shop.test", 403, &[]),
    ("half escaped dots", "http://shop.test/a/.%2e/private", "shop.test", 403, &[]),
    ("an escaped dot", "http://shop.test/%2e/private", "shop.test", 403, &[]),
    ("an escaped letter", "http://shop.test/%70rivate", "shop.test", 403, &[]),
    ("all letters escaped", "http://shop.test/%70%72%69%76%61%74%65", "shop.test", 403, &[]),
    ("escaped twice is another path", "http://shop.test/%2570rivate", "shop.test", 200, &["/%2570rivate"]),
    ("another case is another path", "http://shop.test/PRIVATE", "shop.test", 200, &["/PRIVATE"]),
    ("two slashes", "http://shop.test//private", "shop.test", 403, &[]),
    ("two slashes before dots", "http://shop.test/a//../private", "shop.test", 403, &[]),
    ("two slashes elsewhere are sent as they are", "http://shop.test//a//b", "shop.test", 200, &["//a//b"]),
    ("an escaped slash behind", "http://shop.test/private%2fx", "shop.test", 403, &[]),
    ("an escaped slash", "http://shop.test/%2fprivate", "shop.test", 403, &[]),
    ("escaped slashes around dots", "http://shop.test/a%2f..%2fprivate", "shop.test", 403, &[]),
    ("an escaped slash elsewhere is sent as it is", "http://shop.test/a%2fb", "shop.test", 200, &["/a%2fb"]),
    ("an escaped NUL behind", "http://shop.test/private%00", "shop.test", 403, &[]),
    ("an escaped NUL before", "http://shop.test/%00/../private", "shop.test", 403, &[]),
    ("a parameter behind", "http://shop.test/private;x=1", "shop.test", 403, &[]),
    ("a parameter before", "http://shop.test/a;x/../private", "shop.test", 403, &[]),
    ("a lone percent sign", "http://shop.test/private%", "shop.test", 403, &[]),
    ("escaped backslashes", "http://shop.test/a%5c..%5cprivate", "shop.test", 403, &[]),
    ("backslashes", "http://shop.test/a\\..\\private", "shop.test", 403, &[]),
    ("a segment that is only a parameter", "http://shop.test/;x/private", "shop.test", 403, &[]),
    ("dots with a parameter", "http://shop.test/a/..;x/private", "shop.test", 403, &[]),
    ("other spellings in a query are sent as they are", "http://shop.test/a?u=//private/..;/%2fprivate", "shop.test", 200, &["/a?u=//private/..;/%2fprivate"]),
    ("an end that a rule names", "http://shop.test/x.cgi", "shop.test", 403, &[]),
    ("an end that a rule names, escaped", "http://shop.test/x%2ecgi", "shop.test", 403, &[]),
    ("what is allowed inside", "http://shop.test/private/open", "shop.test", 200, &["/private/open"]),
    ("a fragment is not sent", "http://shop.test/a#/../private", "shop.test", 200, &["/a"]),
    ("a fragment behind", "http://shop.test/private#a", "shop.test", 403, &[]),
    ("a fragment without path", "http://shop.test#/private", "shop.test", 200, &["/"]),
    ("an escaped fragment", "http://shop.test/a%23/../private", "shop.test", 403, &[]),
    ("userinfo", "http://user:secret@shop.test/private", "shop.test", 403, &[]),
    ("a host as userinfo", "http://other.test@shop.test/private", "shop.test", 403, &[]),
    ("a host with port as userinfo", "http://other.test:80@shop.test/private", "other.test", 403, &[]),
    ("two at signs", "http://a@other.test@shop.test/", "shop.test", 400, &[]),
    ("an escaped at sign", "http://other.test%40shop.test/", "shop.test", 400, &[]),
    ("a backslash before the host's end", "http://other.test\\@shop.test/private", "shop.test", 400, &[]),
    ("a backslash for a slash after the host", "http://shop.test\\private", "shop.test", 400, &[]),
    ("an escaped slash in the host", "http://other.test%2f@shop.test/private", "shop.test", 403, &[]),
    ("an escaped slash behind the host", "http://shop.test%2fprivate", "shop.test", 400, &[]),
    ("an escaped question mark in the host", "http://shop.test%3f.other.test/private", "shop.test", 400, &[]),
    ("an escaped NUL in the host", "http://shop.test%00.other.test/private", "shop.test", 400, &[]),
    ("a semicolon in the host", "http://shop.test;other.test/private", "shop.test", 400, &[]),
    ("Host of an origin that allows", "http://shop.test/private", "other.test", 403, &[]),
    ("Host of an origin that disallows", "http://other.test/private", "shop.test", 200, &["/private"]),
    ("a trailing dot", "http://shop.test./private", "shop.test.", 403, &[]),
    ("two trailing dots", "http://shop.test../private", "shop.test", 400, &[]),
    ("the default port", "http://shop.test:80/private", "shop.test", 403, &[]),
    ("the default port with zeros", "http://shop.test:00080/private", "shop.test", 403, &[]),
    ("an empty port", "http://shop.test:/private", "shop.test", 403, &[]),
    ("a port that is none", "http://shop.test:8o/private", "shop.test", 400, &[]),
    ("a port with a sign", "http://shop.test:+80/private", "shop.test", 400, &[]),
    ("a port past the last", "http://shop.test:65616/private", "shop.test", 400, &[]),
    ("port zero", "http://shop.test:0/private", "shop.test", 400, &[]),
    ("capitals", "HTTP://SHOP.Test/private", "shop.test", 403, &[]),
    ("escaped letters in the host", "http://%73hop.test/private", "shop.test", 403, &[]),
    ("full-width letters, escaped", "http://%EF%BD%93hop.test/private", "shop.test", 403, &[]),
    ("an ideographic full stop, escaped", "http://shop%E3%80%82test/private", "shop.test", 403, &[]),
    ("a soft hyphen, escaped", "http://sh%C2%ADop.test/private", "shop.test", 403, &[]),
    ("an A-label", "http://xn--bcher-kva.test/private", "shop.test", 403, &[]),
    ("a U-label, escaped", "http://b%C3%BCcher.test/private", "shop.test", 403, &[]),
    ("a U-label in capitals, escaped", "http://B%C3%9CCHER.test/private", "shop.test", 403, &[]),
    ("a U-label, raw", "http://b\u{fc}cher.test/private", "shop.test", 400, &[]),
    ("a raw letter outside ASCII in the path", "http://shop.test/\u{fc}", "shop.test", 400, &[]),
    ("a tab in the path", "http://shop.test/a\t/../private", "shop.test", 400, &[]),
    ("a tab in the host", "http://shop\t.test/private", "shop.test", 400, &[]),
    ("a vertical tab", "http://shop.test/\u{b}private", "shop.test", 400, &[]),
    ("a form feed", "http://shop.test/\u{c}private", "shop.test", 400, &[]),
    ("a NUL", "http://shop.test/a\0private", "shop.test", 400, &[]),
    ("a delete", "http://shop.test/a\u{7f}", "shop.test", 400, &[]),
    ("a lone CR", "http://shop.test/a\rprivate", "shop.test", 400, &[]),
    ("origin form", "/private", "shop.test", 400, &[]),
    ("origin form, allowed", "/a", "shop.test", 400, &[]),
    ("authority form", "shop.test:80", "shop.test", 501, &[]),
    ("a reference without scheme", "//shop.test/private", "shop.test", 400, &[]),
    ("one slash after the scheme", "http:/shop.test/private", "shop.test", 400, &[]),
    ("three slashes after the scheme", "http:///shop.test/private", "shop.test", 400, &[]),
    ("no host", "http://:80/private", "shop.test", 400, &[]),
    ("a space before the scheme, escaped", "%20http://shop.test/private", "shop.test", 400, &[]),
    ("a scheme in the path", "http://shop.test/http://other.test/../../../private", "shop.test", 403, &[]),
    ("another scheme", "gopher://shop.test/private", "shop.test", 501, &[]),
    ("a scheme that begins alike", "httpx://shop.test/private", "shop.test", 501, &[]),
    ("robots.txt is always allowed, but not as a folder", "http://shut.test/robots.txt/../a", "shut.test", 403, &[]),
    ("robots.txt with a query", "http://shut.test/robots.txt?a", "shut.test", 403, &[]),
    ("robots.txt in other letters", "http://shut.test/ROBOTS.TXT", "shut.test", 403, &[]),
    ("robots.txt below another folder", "http://shut.test/a/robots.txt", "shut.test", 403, &[]),
    ("the root without a path", "http://shut.test", "shut.test", 403, &[]),
];

/// Whole requests whose method plays a part.
#[rustfmt::skip]
const METHODS: &[Case] = &[
    Case {
        name: "a method in small letters",
        bytes: "get http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        statuses: &[403],
        reaches: &[],
    },
    Case {
        name: "a method in small letters where all is allowed",
        bytes: "post http://other.test/a HTTP/1.1\r\nHost: other.test\r\nContent-Length: 0\r\n\r\n",
        statuses: &[400],
        reaches: &[],
    },
    Case {
        name: "a method in mixed letters",
        bytes: "Get http://other.test/a HTTP/1.1\r\nHost: other.test\r\n\r\n",
        statuses: &[400],
        reaches: &[],
    },
    Case {
        name: "an unknown method where all is allowed",
        bytes: "M-SEARCH http://other.test/a HTTP/1.1\r\nHost: other.test\r\n\r\n",
        statuses: &[200],
        reaches: &["/a"],
    },
    Case {
        name: "GET of robots.txt",
        bytes: "GET http://shut.test/robots.txt HTTP/1.1\r\nHost: shut.test\r\n\r\n",
        statuses: &[200],
        reaches: &[],
    },
    Case {
        name: "POST of robots.txt",
        bytes: "POST http://shut.test/robots.txt HTTP/1.1\r\nHost: shut.test\r\nContent-Length: 5\r\n\r\nhello",
        statuses: &[403],
        reaches: &[],
    },
    Case {
        name: "POST of robots.txt without content",
        bytes: "POST http://shut.test/robots.txt HTTP/1.1\r\nHost: shut.test\r\nContent-Length: 0\r\n\r\n",
        statuses: &[403],
        reaches: &[],
    },
    Case {
        name: "DELETE of robots.txt",
        bytes: "DELETE http://shut.test/robots.txt HTTP/1.1\r\nHost: shut.test\r\n\r\n",
        statuses: &[403],
        reaches: &[],
    },
    Case {
        name: "OPTIONS of robots.txt",
        bytes: "OPTIONS http://shut.test/robots.txt HTTP/1.1\r\nHost: shut.test\r\n\r\n",
        statuses: &[403],
        reaches: &[],
    },
    Case {
        name: "GET of robots.txt with content",
        bytes: "GET http://shut.test/robots.txt HTTP/1.1\r\nHost: shut.test\r\nContent-Length: 5\r\n\r\nhello",
        statuses: &[403],
        reaches: &[],
    },
    Case {
        name: "GET of robots.txt with content in chunks, of which there is none",
        bytes: "GET http://shut.test/robots.txt HTTP/1.1\r\nHost: shut.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        statuses: &[403],
        reaches: &[],
    },
    Case {
        name: "a WebSocket at robots.txt",
        bytes: "GET http://shut.test/robots.txt HTTP/1.1\r\nHost: shut.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        statuses: &[403],
        reaches: &[],
    },
    Case {
        name: "an unknown method",
        bytes: "BREW http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        statuses: &[403],
        reaches: &[],
    },
    Case {
        name: "OPTIONS for the whole server, of which all is disallowed",
        bytes: "OPTIONS http://shut.test HTTP/1.1\r\nHost: shut.test\r\n\r\n",
        statuses: &[403],
        reaches: &[],
    },
    Case {
        name: "OPTIONS with an asterisk",
        bytes: "OPTIONS * HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        statuses: &[400],
        reaches: &[],
    },
    Case {
        name: "TRACE",
        bytes: "TRACE http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        statuses: &[403],
        reaches: &[],
    },
    Case {
        name: "another method in a field",
        bytes: "POST http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\nX-HTTP-Method-Override: GET\r\nContent-Length: 0\r\n\r\n",
        statuses: &[400],
        reaches: &[],
    },
    Case {
        name: "another path in a field",
        bytes: "GET http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\nX-Original-URL: /a\r\nX-Rewrite-URL: /a\r\n\r\n",
        statuses: &[400],
        reaches: &[],
    },
    Case {
        name: "a disallowed path in X-Original-URL",
        bytes: "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nX-Original-URL: /private\r\n\r\n",
        statuses: &[400],
        reaches: &[],
    },
    Case {
        name: "a disallowed path in X-Rewrite-URL, in other letters",
        bytes: "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nx-rewrite-url: /private\r\n\r\n",
        statuses: &[400],
        reaches: &[],
    },
    Case {
        name: "a disallowed path in X_Original_URL, which CGI reads as X-Original-URL",
        bytes: "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nX_Original_URL: /private\r\n\r\n",
        statuses: &[400],
        reaches: &[],
    },
    Case {
        name: "a disallowed path in the second of two fields",
        bytes: "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nX-Original-URL: /a\r\nX-Original-URL: /private\r\n\r\n",
        statuses: &[400],
        reaches: &[],
    },
    Case {
        name: "a disallowed URL in X-Original-URL",
        bytes: "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nX-Original-URL: http://shop.test/private\r\n\r\n",
        statuses: &[400],
        reaches: &[],
    },
    Case {
        name: "another query in X-Original-URL",
        bytes: "GET http://shop.test/a?b HTTP/1.1\r\nHost: shop.test\r\nX-Original-URL: /a?c\r\n\r\n",
        statuses: &[400],
        reaches: &[],
    },
    Case {
        name: "the same path in X-Original-URL and X-Rewrite-URL",
        bytes: "GET http://shop.test/a?b HTTP/1.1\r\nHost: shop.test\r\nX-Original-URL: /a?b\r\nX-Rewrite-URL: http://shop.test/a?b\r\n\r\n",
        statuses: &[200],
        reaches: &["/a?b"],
    },
    Case {
        name: "POST as GET of robots.txt, in X-Method-Override",
        bytes: "GET http://shut.test/robots.txt HTTP/1.1\r\nHost: shut.test\r\nX-Method-Override: POST\r\n\r\n",
        statuses: &[400],
        reaches: &[],
    },
    Case {
        name: "another method in X-HTTP-Method",
        bytes: "POST http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nX-HTTP-Method: DELETE\r\nContent-Length: 0\r\n\r\n",
        statuses: &[400],
        reaches: &[],
    },
    Case {
        name: "the same method in fields",
        bytes: "POST http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nX-HTTP-Method-Override: POST\r\nX-Method-Override: post\r\nContent-Length: 0\r\n\r\n",
        statuses: &[200],
        reaches: &["/a"],
    },
    Case {
        name: "a bracket for a host",
        bytes: "GET http://[shop.test]/private HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        statuses: &[400],
        reaches: &[],
    },
];

pub fn names() -> Vec<String> {
    let rows = ROWS.iter().map(|(name, ..)| format!("target: {name}"));
    let methods = METHODS.iter().map(|case| format!("method: {}", case.name));
    rows.chain(methods).collect()
}

#[test]
fn no_target_is_fetched_as_another_than_it_was_judged() {
    let origin = shop();
    let proxy = Wayleave::start(&origin);
    for (name, target, host, status, reaches) in ROWS {
        let bytes =
            format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: ExampleBot/1.0\r\n\r\n");
        let case = Case { name, bytes: bytes.leak(), statuses: vec![*status].leak(), reaches };
        check(&case, &origin, proxy.connect());
    }
    for case in METHODS {
        check(case, &origin, proxy.connect());
    }
}
