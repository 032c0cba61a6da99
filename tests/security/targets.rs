//! Request targets that could be decided as one path, host or scheme and fetched as another.

use serde::Deserialize;

use crate::harness::Wayleave;

use super::{Case, check, shop};

/// Rows that are targets alone. Other tests read them, too.
const ROWS: &str = include_str!("targets.jsonl");

/// A GET of a target, and the expected outcome.
#[derive(Deserialize)]
struct Row {
    name: String,
    target: String,
    /// The value of `Host`.
    host: String,
    status: u16,
    /// The targets that reach the origin.
    reaches: Vec<String>,
}

fn rows() -> impl Iterator<Item = Row> {
    ROWS.lines().map(|line| serde_json::from_str(line).expect("a row"))
}

/// Whole requests, for which the method matters.
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
        name: "another host in X-Forwarded-Host",
        bytes: "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nX-Forwarded-Host: shut.test\r\n\r\n",
        statuses: &[400],
        reaches: &[],
    },
    Case {
        name: "another host in x_forwarded_host",
        bytes: "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nx_forwarded_host: shut.test\r\n\r\n",
        statuses: &[400],
        reaches: &[],
    },
    Case {
        name: "another host behind the right one",
        bytes: "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nX-Forwarded-Host: shop.test, shut.test\r\n\r\n",
        statuses: &[400],
        reaches: &[],
    },
    Case {
        name: "another host in the second of two fields",
        bytes: "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nX-Forwarded-Host: shop.test\r\nX-Forwarded-Host: shut.test\r\n\r\n",
        statuses: &[400],
        reaches: &[],
    },
    Case {
        name: "another port in X-Forwarded-Host",
        bytes: "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nX-Forwarded-Host: shop.test:8080\r\n\r\n",
        statuses: &[400],
        reaches: &[],
    },
    Case {
        name: "another host in Forwarded",
        bytes: "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nForwarded: for=192.0.2.1;HOST=\"shut.test\"\r\n\r\n",
        statuses: &[400],
        reaches: &[],
    },
    Case {
        name: "another host in the second element of Forwarded",
        bytes: "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nForwarded: host=shop.test, host=shut.test\r\n\r\n",
        statuses: &[400],
        reaches: &[],
    },
    Case {
        name: "another host in X-Host",
        bytes: "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nX-Host: shut.test\r\n\r\n",
        statuses: &[400],
        reaches: &[],
    },
    Case {
        name: "another host in X-Original-Host",
        bytes: "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nX-Original-Host: shut.test\r\n\r\n",
        statuses: &[400],
        reaches: &[],
    },
    Case {
        name: "another host in X-HTTP-Host-Override",
        bytes: "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nX-HTTP-Host-Override: shut.test\r\n\r\n",
        statuses: &[400],
        reaches: &[],
    },
    Case {
        name: "a disallowed path in X-Original-URI",
        bytes: "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nX-Original-URI: /private\r\n\r\n",
        statuses: &[400],
        reaches: &[],
    },
    Case {
        name: "a disallowed path in X-Forwarded-URI",
        bytes: "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nX-Forwarded-Uri: /private\r\n\r\n",
        statuses: &[400],
        reaches: &[],
    },
    Case {
        name: "a disallowed path in X-HTTP-Path-Override",
        bytes: "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nX-HTTP-Path-Override: /private\r\n\r\n",
        statuses: &[400],
        reaches: &[],
    },
    Case {
        name: "a disallowed path in X-Forwarded-Path",
        bytes: "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nX-Forwarded-Path: /private\r\n\r\n",
        statuses: &[400],
        reaches: &[],
    },
    Case {
        name: "a prefix that is taken off the path",
        bytes: "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nX-Script-Name: /x\r\n\r\n",
        statuses: &[400],
        reaches: &[],
    },
    Case {
        name: "the target's host and path in all such fields",
        bytes: "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nX-Forwarded-Host: SHOP.test\r\nX-Host: shop.test:80\r\nForwarded: for=192.0.2.1;host=shop.test;proto=https\r\nX-Original-URI: /a\r\nX-Forwarded-Uri: http://shop.test/a\r\n\r\n",
        statuses: &[200],
        reaches: &["/a"],
    },
    Case {
        name: "fields of proxies that name no target",
        bytes: "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\nForwarded: for=192.0.2.1\r\n\r\n",
        statuses: &[200],
        reaches: &["/a"],
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
    let rows = rows().map(|row| format!("target: {}", row.name));
    let methods = METHODS.iter().map(|case| format!("method: {}", case.name));
    rows.chain(methods).collect()
}

#[test]
fn no_target_is_fetched_as_another_than_was_decided() {
    let origin = shop();
    let proxy = Wayleave::start(&origin);
    for Row { name, target, host, status, reaches } in rows() {
        let bytes =
            format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: ExampleBot/1.0\r\n\r\n");
        let reaches: Vec<&str> = reaches.into_iter().map(|it| &*it.leak()).collect();
        let case = Case {
            name: name.leak(),
            bytes: bytes.leak(),
            statuses: vec![status].leak(),
            reaches: reaches.leak(),
        };
        check(&case, &origin, proxy.connect());
    }
    for case in METHODS {
        check(case, &origin, proxy.connect());
    }
}
