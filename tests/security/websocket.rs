//! False upgrades: a connection becomes a pipe only after a WebSocket handshake by both sides (RFC 6455 section 4).

use crate::harness::origin::reply::Step;
use crate::harness::{Origin, Reply, Request, Wayleave};

const KEY: &str = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
const VERSION: &str = "Sec-WebSocket-Version: 13\r\n";
const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\n";

/// `(name, method, fields)` of invalid handshakes. `UPGRADE`, `KEY` and `VERSION` stand for the fields above.
const ROWS: &[(&str, &str, &str)] = &[
    ("no key", "GET", "UPGRADE VERSION"),
    ("no version", "GET", "UPGRADE KEY"),
    ("neither", "GET", "UPGRADE"),
    ("no upgrade in Connection", "GET", "Upgrade: websocket\r\n KEY VERSION"),
    ("no Upgrade", "GET", "Connection: Upgrade\r\n KEY VERSION"),
    ("another protocol", "GET", "Connection: Upgrade\r\nUpgrade: h2c\r\n KEY VERSION"),
    ("two protocols", "GET", "Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n KEY VERSION"),
    ("two Upgrades", "GET", "UPGRADE Upgrade: h2c\r\n KEY VERSION"),
    ("an older version", "GET", "UPGRADE KEY Sec-WebSocket-Version: 8\r\n"),
    ("two versions", "GET", "UPGRADE KEY VERSION Sec-WebSocket-Version: 8\r\n"),
    ("two keys", "GET", "UPGRADE KEY KEY VERSION"),
    ("an empty key", "GET", "UPGRADE VERSION Sec-WebSocket-Key:\r\n"),
    ("a short key", "GET", "UPGRADE VERSION Sec-WebSocket-Key: eA==\r\n"),
    ("a long key", "GET", "UPGRADE VERSION Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZXMu\r\n"),
    (
        "a key that is not base64",
        "GET",
        "UPGRADE VERSION Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZ!==\r\n",
    ),
    ("POST", "POST", "UPGRADE KEY VERSION Content-Length: 0\r\n"),
    ("HEAD", "HEAD", "UPGRADE KEY VERSION"),
    ("OPTIONS", "OPTIONS", "UPGRADE KEY VERSION"),
    ("content", "GET", "UPGRADE KEY VERSION Content-Length: 5\r\n"),
    ("content in chunks", "GET", "UPGRADE KEY VERSION Transfer-Encoding: chunked\r\n"),
];

/// `(name, fields)` of responses that switch to something else than requested.
const RESPONSES: &[(&str, &[(&str, &str)])] = &[
    ("no accept", &[UPGRADES, CONNECTS]),
    ("another accept", &[UPGRADES, CONNECTS, (ACCEPT, "x")]),
    ("the key for accept", &[UPGRADES, CONNECTS, (ACCEPT, "dGhlIHNhbXBsZSBub25jZQ==")]),
    ("two accepts", &[UPGRADES, CONNECTS, FITS, (ACCEPT, "x")]),
    ("no Upgrade", &[CONNECTS, FITS]),
    ("another protocol", &[("Upgrade", "h2c"), CONNECTS, FITS]),
    ("no upgrade in Connection", &[UPGRADES, FITS]),
];

const ACCEPT: &str = "Sec-WebSocket-Accept";
const FITS: (&str, &str) = (ACCEPT, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
const UPGRADES: (&str, &str) = ("Upgrade", "websocket");
const CONNECTS: (&str, &str) = ("Connection", "Upgrade");

pub fn names() -> Vec<String> {
    let rows = ROWS.iter().map(|(name, ..)| format!("upgrade: {name}"));
    let responses = RESPONSES.iter().map(|(name, _)| format!("101: {name}"));
    rows.chain(responses).collect()
}

fn switching(fields: &[(&str, &str)]) -> Reply {
    let add = |reply: Reply, (name, value): &(&str, &str)| reply.header(name, value);
    fields.iter().fold(Reply::new(101), add).step(Step::Echo)
}

#[test]
fn no_pipe_opens_without_a_handshake() {
    let origin = Origin::start();
    let page = switching(&[UPGRADES, CONNECTS, FITS]);
    origin.site("shop.test").page("/ws", page);
    let proxy = Wayleave::start(&origin);
    for (name, method, fields) in ROWS {
        let fields = fields.replace("UPGRADE ", UPGRADE).replace("KEY", KEY);
        let fields = fields.replace("VERSION", VERSION).replace("UPGRADE", UPGRADE);
        let fields = fields.replace("\n ", "\n");
        let mut wire = proxy.connect();
        wire.send(format!(
            "{method} http://shop.test/ws HTTP/1.1\r\nHost: shop.test\r\n{fields}\r\n0\r\n\r\n"
        ));
        let answer = wire.expect_response(*method == "HEAD");
        assert_eq!(answer.status, 502, "{name}: {answer:?}");
        let requests = origin.requests();
        let upgrade = requests.last().and_then(|request| request.header("upgrade"));
        assert_eq!(upgrade, None, "{name}");
    }
}

#[test]
fn no_pipe_opens_when_the_origin_switches_to_something_else() {
    let origin = Origin::start();
    for (name, fields) in RESPONSES {
        let path = format!("/{}", name.replace(' ', "-"));
        origin.site("shop.test").page(&path, switching(fields));
    }
    let proxy = Wayleave::start(&origin);
    for (name, _) in RESPONSES {
        let url = format!("http://shop.test/{}", name.replace(' ', "-"));
        let answer = proxy.exchange(&Request::get(&url).websocket());
        answer.expect_refusal(502, None, "http_protocol_error");
        let request = origin.wait_for_target(&url["http://shop.test".len()..]);
        assert_eq!(request.header("upgrade"), Some("websocket"), "{name}");
    }
}
