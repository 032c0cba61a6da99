//! Resources that are released, and state that changes, while the proxy runs.

use std::path::Path;
use std::time::Duration;

use crate::harness::crawler::crawler;
use crate::harness::origin::reply::Step;
use crate::harness::passwords::{self, HASH, RIGHT, WRONG};
use crate::harness::tls::Authority;
use crate::harness::wayleave::{Settings, command};
use crate::harness::{Origin, Reply, Request, Wayleave, eventually};

const DAY: Duration = Duration::from_hours(24);

/// Returns an exception for all of `hosts`.
fn exception(hosts: &str, expires: &str) -> String {
    format!(
        "[[rule]]\naction = \"allow\"\nhosts = [\"{hosts}\"]\nowner = \"data@example.com\"\nreason = \"pilot\"\n\
         expires = \"{expires}\"\n"
    )
}

fn forwarded(proxy: &Wayleave, crawler: &str) -> f64 {
    let labels = [("crawler", crawler), ("outcome", "forwarded")];
    proxy.metric("wayleave_requests_total", &labels)
}

/// Sets the clock that libfaketime shows the process to `forward` from now.
pub fn set_clock(file: &Path, forward: Duration) {
    let new = file.with_extension("new");
    std::fs::write(&new, format!("+{}s\n", forward.as_secs())).expect("writable");
    std::fs::rename(new, file).expect("a file can be renamed");
}

/// Returns a command that runs the program under test with the clock of `file`.
pub fn with_clock(file: &Path) -> std::process::Command {
    let library = ["x86_64-linux-gnu", "aarch64-linux-gnu"]
        .map(|machine| format!("/usr/lib/{machine}/faketime/libfaketime.so.1"))
        .into_iter()
        .find(|library| Path::new(library).exists())
        .expect("Debian: install faketime");
    let mut command = command();
    command
        .env("LD_PRELOAD", library)
        .env("FAKETIME_TIMESTAMP_FILE", file)
        .env("FAKETIME_NO_CACHE", "1");
    command
}

#[test]
fn an_exception_ends_while_the_proxy_runs() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/");
    let dir = tempfile::tempdir().expect("a directory");
    let clock = dir.path().join("clock");
    set_clock(&clock, Duration::ZERO);
    let tomorrow = std::time::SystemTime::now() + 2 * DAY;
    let tomorrow = humantime::format_rfc3339_seconds(tomorrow).to_string();
    let (proxy, _settings) =
        Wayleave::start_inheriting(with_clock(&clock), &origin, &dir, |settings| {
            settings.table(&exception("shop.test", &tomorrow[..10]))
        });
    assert_eq!(proxy.get("http://shop.test/a").status, 200);
    set_clock(&clock, 3 * DAY);
    eventually("it ends without a reload", || proxy.get("http://shop.test/a").status == 403);
    let reached = origin.seen().len();
    assert_eq!(proxy.get("http://shop.test/a").status, 403);
    assert_eq!(origin.seen().len(), reached);
}

#[test]
fn a_post_is_not_repeated_when_its_connection_fails() {
    let origin = Origin::start();
    origin.site("shop.test").page("/gone", Reply::nothing(Step::Close));
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("http://shop.test/a").status, 200);
    eventually("the origin's connection is free", || {
        proxy.metric("wayleave_upstream_connections", &[]) == 0.0
    });
    let post = Request::new("POST", "http://shop.test/gone").header("Content-Length", "0");
    assert_eq!(proxy.exchange(&post).status, 502);
    let requests = origin.requests();
    let posts: Vec<_> = requests.iter().filter(|request| request.method == "POST").collect();
    assert_eq!(posts.len(), 1, "{requests:?}");
    let before = requests.iter().find(|request| request.target == "/a").expect("it arrived");
    assert_ne!(
        posts[0].connection, before.connection,
        "not a kept connection, which could have been stale"
    );
}

#[test]
fn a_failed_exchange_releases_its_slot() {
    let origin = Origin::start();
    for (page, end) in [("/reset", Step::Reset), ("/close", Step::Close)] {
        origin.site("shop.test").page(page, Reply::nothing(end));
    }
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("politeness.max_concurrent_per_origin", "1")
    });
    for page in ["/reset", "/close"] {
        assert_eq!(proxy.get(&format!("http://shop.test{page}")).status, 502);
        assert_eq!(proxy.get("http://shop.test/a").status, 200, "after {page}");
    }
}

#[test]
fn each_request_in_a_tunnel_is_attributed_to_its_own_crawler() {
    let origin = Origin::start();
    origin.site("shop.test").robots(
        "User-agent: NewsBot\nDisallow: /images\n\nUser-agent: ImageBot\nDisallow: /news\n",
    );
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.crawler("news", "NewsBot").crawler("images", "ImageBot")
    });
    let requests = [
        ("NewsBot/1", "/news"),
        ("ImageBot/1", "/images"),
        ("NewsBot/1", "/images"),
        ("ImageBot/1", "/news"),
    ];
    let expected = [200, 200, 403, 403];
    let mut wire = proxy.tunnel("shop.test:443");
    for ((agent, path), status) in requests.into_iter().zip(expected) {
        wire.send(Request::get(&format!("https://shop.test{path}")).agent(agent).origin_form());
        assert_eq!(wire.response().status, status, "{agent} {path}");
    }
    for name in ["news", "images"] {
        eventually("the request by HTTP/1.1 is counted", || forwarded(&proxy, name) == 1.0);
    }
    let client = proxy.http2("shop.test:443");
    let requests = requests
        .map(|(agent, path)| Request::get(&format!("https://shop.test{path}")).agent(agent));
    let answers = client.exchange_all(&requests);
    assert_eq!(answers.iter().map(|answer| answer.status).collect::<Vec<_>>(), expected);
    for name in ["news", "images"] {
        eventually("the request by HTTP/2 is counted", || forwarded(&proxy, name) == 2.0);
    }
}

#[test]
fn credentials_inside_a_tunnel_identify_no_crawler() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.with(passwords::crawler("news", "news", HASH))
    });
    let mut wire = proxy.tunnel("shop.test:443");
    for credentials in [WRONG, RIGHT] {
        let request =
            Request::get("https://shop.test/a").header("Proxy-Authorization", credentials);
        wire.send(request.origin_form());
        assert_eq!(wire.response().status, 200, "{credentials}");
    }
    eventually("both are counted", || forwarded(&proxy, "asserted") == 2.0);
    assert_eq!(forwarded(&proxy, "news"), 0.0);
    let requests = origin.requests();
    let leaked = requests.iter().find(|request| request.header("proxy-authorization").is_some());
    assert!(leaked.is_none(), "{leaked:?}");
}

#[test]
fn own_listeners_are_unreachable_after_a_reload() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    for host in ["127.0.0.1", "localhost"] {
        for port in [proxy.admin.port(), proxy.proxy.port()] {
            let answer = proxy.get(&format!("http://{host}:{port}/metrics"));
            assert_eq!(answer.status, 502, "{host}:{port}: {answer:?}");
        }
        // This reload replaces the connectors.
        proxy.reload(&proxy.settings.clone().set("upstream.connect_timeout", "\"11s\""));
    }
}

#[test]
fn a_reload_that_only_narrows_allow_private_takes_effect() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("http://shop.test/a").status, 200);
    proxy.reload(&proxy.settings.clone().set("upstream.allow_private", "[]"));
    let reached = origin.connections();
    let prohibited = proxy.get("http://other.test/a");
    assert_eq!(prohibited.status, 502, "{prohibited:?}");
    assert_eq!(origin.connections(), reached);
    proxy.reload(&proxy.settings);
    assert_eq!(proxy.get("http://third.test/a").status, 200);
}

#[test]
fn a_password_is_invalid_after_a_reload_without_it() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.with(passwords::crawler("it", "news", HASH))
    });
    let request = Request::get("http://shop.test/a").header("Proxy-Authorization", RIGHT);
    assert_eq!(proxy.exchange(&request).status, 200);
    let other_hash = HASH.replace("vk+J", "vk+K");
    for (username, hash) in [("news", &*other_hash), ("guest", HASH)] {
        let changed = passwords::crawler("it", username, hash);
        proxy.reload(&proxy.settings.clone().without_tables().with(changed));
        let reached = origin.seen().len();
        assert_eq!(proxy.exchange(&request).status, 407, "{username} {hash}");
        assert_eq!(origin.seen().len(), reached);
    }
    proxy.reload(&proxy.settings);
    assert_eq!(proxy.exchange(&request).status, 200);
}

/// Starts a proxy that tunnels blindly to origins where every path is allowed.
fn tunnelling(origin: &Origin, change: impl FnOnce(Settings) -> Settings) -> Wayleave {
    Wayleave::start_with(origin, |settings| change(settings.set("https.mode", "\"tunnel\"")))
}

#[test]
fn an_expired_exception_opens_no_tunnel() {
    let origin = Origin::start();
    for host in ["over.test", "still.test"] {
        origin.site(host).disallows("/");
    }
    let rules = exception("over.test", "2020-01-01") + &exception("still.test", "2999-01-01");
    let proxy = tunnelling(&origin, |settings| settings.table(&rules));
    let refused = proxy.connect().connect_tunnel("over.test:443");
    refused.expect_disallowed("https://over.test/robots.txt", 2, "Disallow: /");
    assert_eq!(origin.seen(), ["GET https://over.test/robots.txt"]);
    assert_eq!(proxy.connect().connect_tunnel("still.test:443").status, 200);
}

#[test]
fn a_tunnel_holds_its_slot_until_it_closes() {
    let origin = Origin::start();
    origin.site("shop.test").robots("User-agent: *\nDisallow:\n");
    let proxy = tunnelling(&origin, |settings| {
        settings
            .set("politeness.max_concurrent_per_origin", "1")
            .set("politeness.crawl_delay", "\"reject\"")
    });
    let mut first = proxy.connect();
    assert_eq!(first.connect_tunnel("shop.test:443").status, 200);
    let roots = Authority::trusted().pem.as_bytes();
    let mut first = first.start_tls("shop.test", roots, &["http/1.1"]).expect("end to end").wire;
    first.send(Request::get("https://shop.test/a").origin_form());
    assert_eq!(first.response().status, 200);
    let second = proxy.connect().connect_tunnel("shop.test:443");
    let problem = second.expect_refusal(429, Some("Crawl delay"), "http_request_denied");
    assert_eq!(problem["reason"], "concurrency");
    drop(first);
    eventually("the slot is free again", || {
        proxy.connect().connect_tunnel("shop.test:443").status == 200
    });
}

#[test]
fn connections_are_reused_for_one_port_only() {
    let (one, other) = (Origin::start(), Origin::start());
    let ports = [&one, &other].map(|origin| origin.http.port());
    let proxy = Wayleave::start_with(&one, |settings| {
        settings
            .resolve(&format!("ports.test:{}", ports[0]), one.http)
            .resolve(&format!("ports.test:{}", ports[1]), other.http)
    });
    for (number, which) in [0, 1, 0, 0, 1, 1, 0, 1].into_iter().enumerate() {
        let url = format!("http://ports.test:{}/{number}", ports[which]);
        assert_eq!(proxy.get(&url).status, 200);
    }
    expect_pages(&one, &["/0", "/2", "/3", "/6"]);
    expect_pages(&other, &["/1", "/4", "/5", "/7"]);
}

#[test]
fn connections_are_reused_for_one_host_only() {
    let (one, other) = (Origin::start(), Origin::start());
    let proxy = Wayleave::start_with(&one, |settings| settings.resolve_to("other.test", &other));
    let hosts = ["one.test", "other.test", "one.test", "one.test", "other.test", "other.test"];
    for scheme in ["http", "https"] {
        for (number, host) in hosts.into_iter().enumerate() {
            let url = format!("{scheme}://{host}/{scheme}{number}");
            assert_eq!(proxy.get(&url).status, 200);
        }
    }
    expect_pages(&one, &["/http0", "/http2", "/http3", "/https0", "/https2", "/https3"]);
    expect_pages(&other, &["/http1", "/http4", "/http5", "/https1", "/https4", "/https5"]);
    for (origin, host) in [(&one, "one.test"), (&other, "other.test")] {
        assert!(origin.requests().iter().all(|request| request.host() == host));
    }
}

/// Expects these requests for pages, in order, and that a connection was reused.
#[track_caller]
fn expect_pages(origin: &Origin, expected: &[&str]) {
    let requests = origin.requests();
    let pages: Vec<_> = requests.iter().filter(|request| request.target != "/robots.txt").collect();
    assert_eq!(pages.iter().map(|page| &page.target).collect::<Vec<_>>(), expected);
    let is_reused = pages.windows(2).any(|pair| pair[0].connection == pair[1].connection);
    assert!(is_reused, "{requests:?}");
}

#[test]
fn rules_apply_to_every_path_except_robots_txt() {
    let origin = Origin::start();
    origin.site("shop.test");
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.table("[[rule]]\naction = \"refuse\"\nhosts = [\"shop.test\"]\n")
    });
    for path in
        ["/robots.txt.bak", "/robots.txt/x", "/robots.txt/", "/robots.txt?x", "/robots.txtx"]
    {
        let answer = proxy.get(&format!("http://shop.test{path}"));
        answer.expect_refusal(403, Some("Refused by policy"), "http_request_denied");
    }
    assert_eq!(origin.connections(), 0);
}

#[test]
fn the_longest_delay_applies_despite_exceptions_and_defaults() {
    let origin = Origin::start();
    for host in ["plain.test", "excepted.test"] {
        origin
            .site(host)
            .robots("User-agent: *\nDisallow: /private\nCrawl-delay: 100\nRequest-rate: 1/10\n");
    }
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .set("politeness.crawl_delay", "\"reject\"")
            .with(crawler("news", "NewsBot").set("default_delay", "1s"))
            .table(&exception("excepted.test", "2999-01-01"))
    });
    for (host, path) in [("plain.test", "/a"), ("excepted.test", "/private/a")] {
        let get = |path: &str| proxy.get_as("NewsBot/1", &format!("http://{host}{path}"));
        // This request takes no slot; the delay is known from then on.
        assert_eq!(get("/robots.txt").status, 200);
        assert_eq!(get(path).status, 200);
        let problem = get(path).expect_refusal(429, Some("Crawl delay"), "http_request_denied");
        let retry_after = problem["retry_after"].as_u64().expect("a number of seconds");
        assert!((11..=100).contains(&retry_after), "{host}: {retry_after}");
    }
}

#[test]
fn observing_does_not_allow_private_addresses() {
    let (origin, inside) = (Origin::start(), Origin::start_at("127.0.0.2"));
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("proxy.mode", "\"observe\"").resolve_to("inside.test", &inside)
    });
    for url in [
        "http://inside.test/a".to_owned(),
        format!("http://127.0.0.2:{}/a", inside.http.port()),
        "https://inside.test/a".to_owned(),
    ] {
        let status = if url.starts_with("https:") {
            proxy.connect().connect_tunnel("inside.test:443").status
        } else {
            proxy.get(&url).status
        };
        assert_eq!(status, 502, "{url}");
    }
    assert_eq!(inside.connections(), 0);
}

#[test]
fn http_2_trailers_pass_in_both_directions() {
    let origin = Origin::start();
    let reply = Reply::text("body").header("Trailer", "x-sum").trailer("x-sum", "42");
    origin.site("new.test").http2_only().page("/a", reply.clone());
    origin.site("old.test").http1_only().page("/a", reply);
    let proxy = Wayleave::start(&origin);
    for host in ["new.test", "old.test"] {
        let client = proxy.http2(&format!("{host}:443"));
        let answer = client.get("/a");
        assert_eq!(answer.text(), "body");
        assert_eq!(answer.trailers, [("x-sum".to_owned(), "42".to_owned())], "{host}");
    }
    let mut wire = proxy.tunnel("old.test:443");
    wire.send(
        "POST /up HTTP/1.1\r\nHost: old.test\r\nTrailer: x-up\r\nTransfer-Encoding: chunked\r\n\r\n\
         2\r\nup\r\n0\r\nx-up: 7\r\n\r\n",
    );
    assert_eq!(wire.response().status, 200);
    let arrived = origin.wait_for_target("/up").body();
    assert_eq!(arrived.trailers.len(), 1, "{arrived:?}");
    assert_eq!(arrived.trailers[0].1, "7");
}
