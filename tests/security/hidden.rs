//! Requests hidden inside or after others. Every request is decided, and no body is taken for a request.

use super::{Case, check_all};

#[rustfmt::skip]
const CASES: &[Case] = &[
    Case {
        name: "the second on a connection",
        bytes: "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\nGET http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        statuses: &[200, 403],
        reaches: &["/a"],
    },
    Case {
        name: "the first on a connection",
        bytes: "GET http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\n\r\nGET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        statuses: &[403, 200],
        reaches: &["/a"],
    },
    Case {
        name: "between two others",
        bytes: "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\nGET http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\n\r\nGET http://shop.test/b HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        statuses: &[200, 403, 200],
        reaches: &["/a", "/b"],
    },
    Case {
        name: "for another origin on one connection",
        bytes: "GET http://other.test/private HTTP/1.1\r\nHost: other.test\r\n\r\nGET http://shop.test/private HTTP/1.1\r\nHost: other.test\r\n\r\n",
        statuses: &[200, 403],
        reaches: &["/private"],
    },
    Case {
        name: "in origin form after an absolute one",
        bytes: "GET http://other.test/a HTTP/1.1\r\nHost: other.test\r\n\r\nGET /private HTTP/1.1\r\nHost: other.test\r\n\r\n",
        statuses: &[200, 400],
        reaches: &["/a"],
    },
    Case {
        name: "in the body of an allowed one",
        bytes: "POST http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 59\r\n\r\nGET http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\n\r\nx",
        statuses: &[200],
        reaches: &["/a"],
    },
    Case {
        name: "in the body of a refused one",
        bytes: "POST http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 53\r\n\r\nGET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\nx",
        statuses: &[403],
        reaches: &[],
    },
    Case {
        name: "behind the body of a refused one",
        bytes: "POST http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 5\r\n\r\nhelloGET http://shop.test/private/x HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        statuses: &[403, 403],
        reaches: &[],
    },
    Case {
        name: "in the body of a GET",
        bytes: "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 59\r\n\r\nGET http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\n\r\nx",
        statuses: &[200],
        reaches: &["/a"],
    },
    Case {
        name: "after a body with a shorter length",
        bytes: "POST http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 0\r\n\r\nGET http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        statuses: &[200, 403],
        reaches: &["/a"],
    },
    Case {
        name: "behind the last chunk",
        bytes: "POST http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nGET http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        statuses: &[200, 403],
        reaches: &["/a"],
    },
    Case {
        name: "in a chunk",
        bytes: "POST http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\n3b\r\nGET http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\n\r\nx\r\n0\r\n\r\n",
        statuses: &[200],
        reaches: &["/a"],
    },
    Case {
        name: "in a chunk extension",
        bytes: "POST http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\n5;x=\"GET http://shop.test/private HTTP/1.1\"\r\nhello\r\n0\r\n\r\n",
        statuses: &[200],
        reaches: &["/a"],
    },
    Case {
        name: "in the quotes of a chunk extension",
        bytes: "POST http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\n5;x=\"\r\n\r\nGET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\n\"\r\nhello\r\n0\r\n\r\n",
        statuses: &[403],
        reaches: &[],
    },
    Case {
        name: "behind a bare LF in a chunk extension",
        bytes: "POST http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\n5;\nxx\r\n4c\r\n0\r\n\r\nGET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        statuses: &[403],
        reaches: &[],
    },
    Case {
        name: "behind a chunk that is longer than its size",
        bytes: "POST http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloXX\r\n0\r\n\r\nGET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        statuses: &[403],
        reaches: &[],
    },
    Case {
        name: "behind a chunk without size",
        bytes: "POST http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\n\r\nGET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        statuses: &[403],
        reaches: &[],
    },
    Case {
        name: "behind a chunk with a size below zero",
        bytes: "POST http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nx\r\n0\r\n\r\nGET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        statuses: &[403],
        reaches: &[],
    },
    Case {
        name: "behind a chunk with a size in C's spelling",
        bytes: "POST http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\nx\r\n0\r\n\r\nGET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        statuses: &[403],
        reaches: &[],
    },
    Case {
        name: "behind a chunk whose size wraps around",
        bytes: "POST http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\nx\r\n0\r\n\r\nGET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        statuses: &[403],
        reaches: &[],
    },
    Case {
        name: "behind chunks whose lines end in LF",
        bytes: "POST http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\n0\n\nGET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        statuses: &[403],
        reaches: &[],
    },
    Case {
        name: "in trailers with another framing",
        bytes: "POST http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 60\r\nHost: other.test\r\n\r\nGET http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        statuses: &[200, 403],
        reaches: &["/a"],
    },
    Case {
        name: "after a request with Expect",
        bytes: "POST http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\nExpect: 100-continue\r\nContent-Length: 53\r\n\r\nGET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\nx",
        statuses: &[403],
        reaches: &[],
    },
    Case {
        name: "behind an upgrade that is refused",
        bytes: "GET http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nGET http://shop.test/private/x HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        statuses: &[403, 403],
        reaches: &[],
    },
    Case {
        name: "behind an upgrade that the origin does not make",
        bytes: "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nGET http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        statuses: &[200, 403],
        reaches: &["/a"],
    },
    Case {
        name: "behind a request whose Connection lists what frames it",
        bytes: "POST http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nConnection: content-length, host\r\nContent-Length: 5\r\n\r\nhelloGET http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        statuses: &[400],
        reaches: &[],
    },
    Case {
        name: "behind a body that is longer if its length is read as octal",
        bytes: "POST http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 010\r\n\r\n0123456789GET http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        statuses: &[200, 403],
        reaches: &["/a"],
    },
    Case {
        name: "behind a request of HTTP/1.0",
        bytes: "GET http://shop.test/a HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        statuses: &[200],
        reaches: &["/a"],
    },
    Case {
        name: "behind empty lines",
        bytes: "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\n\r\n\r\nGET http://shop.test/private HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        statuses: &[200, 403],
        reaches: &["/a"],
    },
    Case {
        name: "behind a request that closes",
        bytes: "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nConnection: close\r\n\r\nGET http://shop.test/b HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        statuses: &[200],
        reaches: &["/a"],
    },
    Case {
        name: "in a field's value",
        bytes: "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nX: GET http://shop.test/private HTTP/1.1\r\n\r\n",
        statuses: &[200],
        reaches: &["/a"],
    },
];

pub fn names() -> Vec<String> {
    CASES.iter().map(|case| format!("hidden: {}", case.name)).collect()
}

#[test]
fn no_request_hides_in_another() {
    check_all(CASES);
}
