//! The source addresses of connections to origins.

use std::net::IpAddr;
use std::time::Duration;

use crate::harness::crawler::crawler;
use crate::harness::tls::Authority;
use crate::harness::tools;
use crate::harness::wayleave::{Settings, command};
use crate::harness::{Origin, Reply, Request, Wayleave};

fn start(origin: &Origin, change: impl FnOnce(Settings) -> Settings) -> Wayleave {
    Wayleave::start_with(origin, |settings| {
        let settings = change(settings.set("upstream.source_addresses", "[\"127.0.0.5\"]"));
        [
            ("news", "NewsBot", "127.0.0.7"),
            ("images", "ImageBot", "127.0.0.8"),
            ("six", "SixBot", "::1"),
        ]
        .into_iter()
        .fold(settings, |settings, (name, token, source)| {
            settings.with(crawler(name, token).set("source_address", source))
        })
    })
}

fn peers(origin: &Origin, host: &str) -> Vec<String> {
    let requests = origin.requests();
    let of_host = requests.iter().filter(|request| request.host() == host);
    of_host.map(|request| format!("{} {}", request.peer, request.target)).collect()
}

#[test]
fn requests_and_fetches_use_the_crawlers_address() {
    let origin = Origin::start();
    let proxy = start(&origin, |settings| settings);
    for scheme in ["http", "https"] {
        for (agent, source) in [
            ("NewsBot/1.0", "127.0.0.7"),
            ("ImageBot/1.0", "127.0.0.8"),
            ("OtherBot/1.0", "127.0.0.5"),
        ] {
            let host = format!("{scheme}-{}.test", &agent[..4].to_lowercase());
            let url = format!("{scheme}://{host}/a");
            assert_eq!(proxy.get_as(agent, &url).status, 200, "{url}");
            let expected = ["/robots.txt", "/a"].map(|path| format!("{source} {path}"));
            assert_eq!(peers(&origin, &host), expected);
        }
    }
}

#[test]
fn connections_are_never_shared_between_addresses() {
    let origin = Origin::start();
    let proxy = start(&origin, |settings| settings);
    let rounds = [
        ("NewsBot/1.0", "127.0.0.7"),
        ("ImageBot/1.0", "127.0.0.8"),
        ("OtherBot/1.0", "127.0.0.5"),
    ];
    for round in 0..2 {
        for (agent, _) in rounds {
            let http = format!("http://shop.test/{round}");
            assert_eq!(proxy.get_as(agent, &http).status, 200);
            let https = format!("https://shop.test/{round}");
            let http2 = proxy.http2("shop.test:443");
            assert_eq!(http2.exchange(&Request::get(&https).agent(agent)).status, 200);
        }
    }
    let mut by_connection: Vec<(usize, IpAddr)> = Vec::new();
    for request in origin.requests() {
        let agent = request.header("user-agent").unwrap_or_default();
        if let Some((_, source)) = rounds.iter().find(|(name, _)| *name == agent) {
            assert_eq!(request.peer.to_string(), *source, "{request:?}");
            by_connection.push((request.connection, request.peer));
        }
    }
    assert_eq!(by_connection.len(), 12);
    by_connection.sort();
    by_connection.dedup();
    // One by HTTP/1.1 and one by HTTP/2 for each address, used twice.
    assert_eq!(by_connection.len(), 6, "{by_connection:?}");
}

#[test]
fn tunnels_and_websockets_use_the_crawlers_address() {
    let origin = Origin::start();
    origin.site("shop.test").page("/ws", Reply::websocket());
    let proxy = start(&origin, |settings| settings.set("https.mode", "\"tunnel\""));
    let url = "http://shop.test/ws";
    let mut wire = proxy.connect();
    wire.send(Request::get(url).agent("NewsBot/1.0").websocket().absolute_form());
    assert_eq!(wire.response_head().status, 101);
    assert_eq!(peers(&origin, "shop.test")[1], "127.0.0.7 /ws");

    let mut tunnel = proxy.connect();
    tunnel.send_connect("deep.test:443", "User-Agent: ImageBot/1.0\r\n");
    assert_eq!(tunnel.response_head().status, 200);
    let root = Authority::trusted().pem.as_bytes();
    let inside = tunnel.start_tls("deep.test", root, &["http/1.1"]);
    let mut inside = inside.expect("the origin's own certificate").wire;
    inside.send(Request::get("https://deep.test/a").origin_form());
    assert_eq!(inside.response().status, 200);
    let seen = peers(&origin, "deep.test");
    assert_eq!(seen, ["127.0.0.8 /robots.txt", "127.0.0.8 /a"]);
}

#[test]
fn only_crawlers_of_the_other_address_family_are_refused() {
    let origin = Origin::start();
    let proxy = start(&origin, |settings| {
        settings.set("upstream.allow_private", r#"["127.0.0.1/32", "::1/128"]"#)
    });
    for url in ["http://shop.test/a", "https://shop.test/a"] {
        let refused = proxy.get_as("SixBot/1.0", url);
        let problem = refused.expect_refusal(502, None, "destination_ip_unroutable");
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(detail.contains("::1") && detail.contains("no IPv6 address"), "{detail}");
        assert_eq!(proxy.get_as("NewsBot/1.0", url).status, 200);
    }
    let seen = peers(&origin, "shop.test");
    assert!(seen.iter().all(|line| !line.starts_with("::1")), "no request used it: {seen:?}");
}

#[test]
fn ipv6_origins_see_the_ipv6_address() {
    let origin = Origin::start_at("::1");
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .set("upstream.allow_private", r#"["::1/128"]"#)
            .set("upstream.source_addresses", r#"["127.0.0.5", "::1"]"#)
    });
    assert_eq!(proxy.get("http://shop.test/a").status, 200);
    assert_eq!(peers(&origin, "shop.test")[1], "::1 /a");
}

#[test]
fn an_address_of_another_machine_is_a_configuration_error() {
    let text = "[upstream]\nsource_addresses = [\"127.0.0.5\", \"198.51.100.9\", \"here\"]\n[[crawler]]\nname = \"a\"\ntokens = [\"A\"]\nsource_address = \"2001:db8::9\"\n";
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("my.toml");
    std::fs::write(&file, text).expect("writable");
    let mut check = command();
    check.args(["config", "check", "--config"]).arg(&file);
    let output = tools::run(&mut check, b"", Duration::from_secs(120));
    assert!(!output.status.success());
    let stderr = String::from_utf8_lossy(&output.stderr);
    for expected in [
        "upstream.source_addresses[1]: \"198.51.100.9\" is not an address of this machine",
        "upstream.source_addresses[2]: \"here\" is not an IP address",
        "source_address: \"2001:db8::9\" is not an address of this machine",
    ] {
        assert!(stderr.contains(expected), "{expected}: {stderr}");
    }
}
