//! Tunnels, HTTP/2 connections inside them and upgraded connections whose permission is revoked while they are open.

use crate::harness::origin::reply::Step;
use crate::harness::tls::Authority;
use crate::harness::wayleave::Settings;
use crate::harness::{H2Client, Origin, Reply, Request, Wayleave, Wire, eventually};

/// "secret", cheap to verify; and another hash of the same.
const HASH: &str =
    "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$vk+JgWgZGbXHtEqPQPhzXbD+QxxkJR5Fq2AXLhDyYaY";
const OTHER_HASH: &str =
    "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
/// `news:secret` in base 64.
const RIGHT: &str = "Basic bmV3czpzZWNyZXQ=";

fn crawler(hash: &str) -> String {
    format!(
        "[[crawler]]\nname = \"news\"\ntokens = [\"NewsBot\"]\nmatch = {{ username = \"news\" }}\npassword_hash = \"{hash}\"\n"
    )
}

/// A page, and one that becomes an echo.
fn site() -> Origin {
    let origin = Origin::start();
    let echo = Reply::new(101)
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
        .step(Step::Echo);
    origin.site("shop.test").page("/echo", echo);
    origin
}

/// A proxy, and the settings it was started with but for the crawler.
fn start(origin: &Origin, change: impl FnOnce(Settings) -> Settings) -> (Wayleave, Settings) {
    let mut base = None;
    let proxy = Wayleave::start_with(origin, |settings| {
        let settings = change(settings.set("proxy.idle_timeout", "\"1h\""));
        base = Some(settings.clone());
        settings.table(&crawler(HASH))
    });
    (proxy, base.expect("it was started with settings"))
}

fn reload(proxy: &Wayleave, settings: &Settings) {
    let file = proxy.dir.path().join("config.toml");
    std::fs::write(file, settings.to_toml()).expect("the temporary directory can be written");
    let mut wire = Wire::connect(proxy.admin);
    wire.send(format!(
        "POST /v1/reload HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        proxy.admin
    ));
    assert_eq!(wire.response().status, 200);
}

/// A tunnel whose `CONNECT` proved who asks.
fn proven(proxy: &Wayleave) -> Wire {
    let mut wire = proxy.connect();
    wire.send(format!(
        "CONNECT shop.test:443 HTTP/1.1\r\nHost: shop.test:443\r\nUser-Agent: NewsBot/1\r\nProxy-Authorization: {RIGHT}\r\n\r\n"
    ));
    assert_eq!(wire.response_head().status, 200);
    wire
}

fn inside(wire: Wire, roots: &[u8]) -> Wire {
    let secured = wire.start_tls("shop.test", roots, &["http/1.1"]);
    secured.expect("the certificate is trusted").wire
}

/// Tunnels that were opened with a password and serve by HTTP/1 and HTTP/2.
fn served_inside(proxy: &Wayleave, ca: &[u8]) -> (Wire, H2Client) {
    let mut http1 = inside(proven(proxy), ca);
    let http2 = H2Client::inside(proven(proxy), "shop.test:443", ca);
    assert_eq!([get_inside(&mut http1, "/a"), http2.get("/a").status], [200, 200]);
    (http1, http2)
}

fn get_inside(wire: &mut Wire, path: &str) -> u16 {
    wire.send(Request::get(&format!("https://shop.test{path}")).origin_form());
    wire.response().status
}

/// Inside a tunnel, past a WebSocket handshake whose origin sends back what it hears.
fn upgraded(mut wire: Wire) -> Wire {
    wire.send(
        "GET /echo HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: NewsBot/1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
    );
    assert_eq!(wire.response_head().status, 101);
    echoes(&mut wire);
    wire
}

fn echoes(wire: &mut Wire) {
    wire.send("hello");
    assert_eq!(wire.bytes(5), b"hello");
}

fn pages_seen(origin: &Origin) -> usize {
    let seen = origin.seen();
    seen.iter().filter(|seen| seen.ends_with("/a")).count()
}

#[test]
fn a_changed_or_removed_password_ends_what_it_opened() {
    for change in [crawler(OTHER_HASH), String::new()] {
        let origin = site();
        let (proxy, base) = start(&origin, |settings| settings);
        let ca = proxy.ca_pem();
        let mut http1 = inside(proven(&proxy), &ca);
        assert_eq!(get_inside(&mut http1, "/a"), 200);
        let http2 = H2Client::inside(proven(&proxy), "shop.test:443", &ca);
        assert_eq!(http2.get("/a").status, 200);
        let mut upgraded = upgraded(inside(proven(&proxy), &ca));
        reload(&proxy, &base.clone().set("proxy.name", "\"other\"").table(&crawler(HASH)));
        assert_eq!(get_inside(&mut http1, "/a"), 200, "that changed nothing for it");
        echoes(&mut upgraded);
        reload(&proxy, &base.table(&change));
        assert_eq!(get_inside(&mut http1, "/a"), 407);
        http1.expect_close();
        assert_eq!(http2.get("/a").status, 407);
        upgraded.expect_close();
        assert_eq!(pages_seen(&origin), 3);
    }
}

#[test]
fn https_that_is_refused_is_refused_inside_open_tunnels_too() {
    let origin = site();
    let (proxy, base) = start(&origin, |settings| settings);
    let ca = proxy.ca_pem();
    let (mut http1, http2) = served_inside(&proxy, &ca);
    let mut upgraded = upgraded(inside(proven(&proxy), &ca));
    let refusing = base.set("https.mode", "\"refuse\"").table(&crawler(HASH));
    reload(&proxy, &refusing);
    http1.send(Request::get("https://shop.test/a").origin_form());
    let refused = http1.response();
    let problem = refused.expect_refusal(403, Some("HTTPS refused"), "http_request_denied");
    assert_eq!(problem["reason"], "https-refused");
    assert_eq!(http2.get("/a").status, 403);
    upgraded.expect_close();
    assert_eq!(pages_seen(&origin), 2);
}

#[test]
fn a_tunnel_switched_to_blind_serves_at_most_one_more_request() {
    let origin = site();
    let (proxy, base) = start(&origin, |settings| settings);
    let ca = proxy.ca_pem();
    let (mut http1, http2) = served_inside(&proxy, &ca);
    reload(&proxy, &base.set("https.mode", "\"tunnel\"").table(&crawler(HASH)));
    assert_eq!(get_inside(&mut http1, "/a"), 200);
    http1.expect_close();
    // A request on its way is answered; none follows.
    let _last = http2.try_exchange(&Request::get("https://shop.test/a"));
    eventually("the connection ends", || {
        http2.try_exchange(&Request::get("https://shop.test/a")).is_err()
    });
}

#[test]
fn a_blind_tunnel_ends_when_it_would_not_open_any_more() {
    let rule = "[[rule]]\naction = \"refuse\"\nhosts = [\"shop.test\"]\npaths = [\"/b\"]\n";
    let changes: [(&str, &dyn Fn(Settings) -> Settings); 4] = [
        ("another password", &|base| base.table(&crawler(OTHER_HASH))),
        ("no https", &|base| base.set("https.mode", "\"refuse\"").table(&crawler(HASH))),
        ("looked into", &|base| base.set("https.mode", "\"intercept\"").table(&crawler(HASH))),
        ("a rule", &|base| base.table(&crawler(HASH)).table(rule)),
    ];
    let origin = site();
    for (name, change) in changes {
        let (proxy, base) = start(&origin, |settings| settings.set("https.mode", "\"tunnel\""));
        let mut wire = inside(proven(&proxy), Authority::trusted().pem.as_bytes());
        assert_eq!(get_inside(&mut wire, "/a"), 200, "{name}");
        let unrelated = base.clone().set("proxy.name", "\"other\"").table(&crawler(HASH));
        reload(&proxy, &unrelated);
        assert_eq!(get_inside(&mut wire, "/a"), 200, "{name}: that changed nothing for it");
        reload(&proxy, &change(base));
        wire.expect_close();
    }
}
