//! Tunnels, HTTP/2 connections inside them and upgraded connections whose permission is revoked while they are open.

use crate::harness::crawler::Crawler;
use crate::harness::passwords::{self, HASH, RIGHT};
use crate::harness::tls::Authority;
use crate::harness::wayleave::Settings;
use crate::harness::{H2Client, Origin, Reply, Request, Wayleave, Wire, eventually};

/// Another hash of the same password.
const OTHER_HASH: &str =
    "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

fn news(hash: &str) -> Crawler {
    passwords::crawler("news", "news", hash)
}

/// Starts a site with a WebSocket that echoes.
fn site() -> Origin {
    let origin = Origin::start();
    origin.site("shop.test").page("/echo", Reply::websocket());
    origin
}

/// Starts a proxy. Returns its settings without the crawler, too.
fn start(origin: &Origin, change: impl FnOnce(Settings) -> Settings) -> (Wayleave, Settings) {
    let proxy = Wayleave::start_with(origin, |settings| {
        change(settings.set("proxy.idle_timeout", "\"1h\"")).with(news(HASH))
    });
    let base = proxy.settings.clone().without_tables();
    (proxy, base)
}

/// Opens a tunnel with a password.
fn authenticated(proxy: &Wayleave) -> Wire {
    let mut wire = proxy.connect();
    let fields = format!("User-Agent: NewsBot/1\r\nProxy-Authorization: {RIGHT}\r\n");
    wire.send_connect("shop.test:443", &fields);
    assert_eq!(wire.response_head().status, 200);
    wire
}

fn inside(wire: Wire, roots: &[u8]) -> Wire {
    let secured = wire.start_tls("shop.test", roots, &["http/1.1"]);
    secured.expect("the certificate is trusted").wire
}

/// Opens tunnels with a password, by HTTP/1.1 and HTTP/2, and is served inside them.
fn served_inside(proxy: &Wayleave, ca: &[u8]) -> (Wire, H2Client) {
    let mut http1 = inside(authenticated(proxy), ca);
    let http2 = H2Client::inside(authenticated(proxy), "shop.test:443", ca);
    assert_eq!([get_inside(&mut http1, "/a"), http2.get("/a").status], [200, 200]);
    (http1, http2)
}

fn get_inside(wire: &mut Wire, path: &str) -> u16 {
    wire.send(Request::get(&format!("https://shop.test{path}")).origin_form());
    wire.response().status
}

/// Opens a WebSocket to an origin that echoes.
fn upgraded(mut wire: Wire) -> Wire {
    let request = Request::get("https://shop.test/echo").agent("NewsBot/1").websocket();
    wire.send(request.origin_form());
    assert_eq!(wire.response_head().status, 101);
    expect_echo(&mut wire);
    wire
}

fn expect_echo(wire: &mut Wire) {
    wire.send("hello");
    assert_eq!(wire.bytes(5), b"hello");
}

fn pages_seen(origin: &Origin) -> usize {
    let seen = origin.seen();
    seen.iter().filter(|seen| seen.ends_with("/a")).count()
}

#[test]
fn a_changed_or_removed_password_ends_what_it_opened() {
    for change in [Some(news(OTHER_HASH)), None] {
        let origin = site();
        let (proxy, base) = start(&origin, |settings| settings);
        let ca = proxy.ca_pem();
        let (mut http1, http2) = served_inside(&proxy, &ca);
        let mut upgraded = upgraded(inside(authenticated(&proxy), &ca));
        proxy.reload(&base.clone().set("proxy.name", "\"other\"").with(news(HASH)));
        assert_eq!(get_inside(&mut http1, "/a"), 200, "that change does not concern it");
        expect_echo(&mut upgraded);
        proxy.reload(&base.with_all(change));
        assert_eq!(get_inside(&mut http1, "/a"), 407);
        http1.expect_close();
        assert_eq!(http2.get("/a").status, 407);
        upgraded.expect_close();
        assert_eq!(pages_seen(&origin), 3);
    }
}

#[test]
fn a_reload_to_refuse_https_applies_inside_open_tunnels() {
    let origin = site();
    let (proxy, base) = start(&origin, |settings| settings);
    let ca = proxy.ca_pem();
    let (mut http1, http2) = served_inside(&proxy, &ca);
    let mut upgraded = upgraded(inside(authenticated(&proxy), &ca));
    let refusing = base.set("https.mode", "\"refuse\"").with(news(HASH));
    proxy.reload(&refusing);
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
    proxy.reload(&base.set("https.mode", "\"tunnel\"").with(news(HASH)));
    assert_eq!(get_inside(&mut http1, "/a"), 200);
    http1.expect_close();
    // A request in progress is served; none follows.
    let _last = http2.try_exchange(&Request::get("https://shop.test/a"));
    eventually("the connection ends", || {
        http2.try_exchange(&Request::get("https://shop.test/a")).is_err()
    });
}

#[test]
fn a_blind_tunnel_ends_when_it_may_no_longer_be_opened() {
    let rule = "[[rule]]\naction = \"refuse\"\nhosts = [\"shop.test\"]\npaths = [\"/b\"]\n";
    let changes: [(&str, &dyn Fn(Settings) -> Settings); 4] = [
        ("another password", &|base| base.with(news(OTHER_HASH))),
        ("no https", &|base| base.set("https.mode", "\"refuse\"").with(news(HASH))),
        ("intercepted", &|base| base.set("https.mode", "\"intercept\"").with(news(HASH))),
        ("a rule", &|base| base.with(news(HASH)).table(rule)),
    ];
    let origin = site();
    for (name, change) in changes {
        let (proxy, base) = start(&origin, |settings| settings.set("https.mode", "\"tunnel\""));
        let mut wire = inside(authenticated(&proxy), Authority::trusted().pem.as_bytes());
        assert_eq!(get_inside(&mut wire, "/a"), 200, "{name}");
        let unrelated = base.clone().set("proxy.name", "\"other\"").with(news(HASH));
        proxy.reload(&unrelated);
        assert_eq!(get_inside(&mut wire, "/a"), 200, "{name}: that change does not concern it");
        proxy.reload(&change(base));
        wire.expect_close();
    }
}
