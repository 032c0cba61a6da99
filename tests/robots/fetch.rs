//! Fetching robots.txt: how often, from where, and the meaning of each failure (RFC 9309 sections 2.3 and 2.4).

use serde_json::Value;

use super::with_short_lifetimes;
use crate::harness::crawler::crawler;
use crate::harness::dns::{Answer, NameServer};
use crate::harness::origin::reply::{Framing, Step};
use crate::harness::wayleave::command;
use crate::harness::{Certificate, Gate, Origin, Reply, Wayleave, eventually};

const KEEP_OUT: &str = "User-agent: *\nDisallow: /private\n";

fn robots_fetches(origin: &Origin) -> usize {
    origin.requests().iter().filter(|request| request.target == "/robots.txt").count()
}

#[test]
fn a_verdict_does_not_depend_on_who_asked_first() {
    let rules = |field: &str| ('a'..='h').map(|c| format!("{field}: /{c}*x\n")).collect::<String>();
    // Google's parser takes the line without a colon for a user-agent line; the other readers skip it.
    let robots = format!(
        "User-agent: alpha\n{}User-agent: *\nDisallow: /z*y\nUser-agent gamma\nUser-agent: delta\n{}Disallow: /\n",
        rules("Disallow"),
        rules("Allow"),
    );
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    for (host, agents) in [
        ("one.test", ["delta/1", "alpha/1", "delta/1"]),
        ("two.test", ["alpha/1", "delta/1", "alpha/1"]),
    ] {
        origin.site(host).robots(&robots);
        for agent in agents {
            let expected = if agent == "alpha/1" { 200 } else { 403 };
            let status = proxy.get_as(agent, &format!("http://{host}/q")).status;
            assert_eq!(status, expected, "{agent} at {host}");
        }
    }
}

#[test]
fn two_hundred_first_requests_cause_one_fetch() {
    let origin = Origin::start();
    let gate = Gate::closed();
    let slow = Reply::new(200)
        .header("Content-Type", "text/plain")
        .step(Step::Wait(gate.clone()))
        .body(KEEP_OUT);
    origin.site("shop.test").robots_reply(slow.framing(Framing::Chunked));
    let proxy = Wayleave::start(&origin);
    let mut wires: Vec<_> = (0..200)
        .map(|number| {
            let url = format!(
                "http://shop.test/{}/{number}",
                if number % 2 == 0 { "open" } else { "private" }
            );
            let mut wire = proxy.connect();
            wire.send_get(&url);
            wire
        })
        .collect();
    let waiting = || {
        proxy.metric("wayleave_robots_lookups_total", &[("result", "miss")])
            + proxy.metric("wayleave_robots_lookups_total", &[("result", "joined")])
    };
    eventually("all 200 wait for robots.txt", || waiting() == 200.0);
    eventually("robots.txt is requested", || !origin.seen().is_empty());
    assert_eq!(origin.seen(), ["GET http://shop.test/robots.txt"]);
    gate.open();
    for (number, wire) in wires.iter_mut().enumerate() {
        assert_eq!(
            wire.response().status,
            if number % 2 == 0 { 200 } else { 403 },
            "request {number}"
        );
    }
    assert_eq!(robots_fetches(&origin), 1);
    assert_eq!(origin.requests().len(), 101);
}

#[test]
fn robots_txt_is_fetched_by_the_configured_user_agent() {
    let origin = Origin::start();
    origin.site("shop.test").robots(KEEP_OUT);
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("http://shop.test/a").status, 200);
    let fetch = &origin.requests()[0];
    assert!(
        fetch.header("user-agent").is_some_and(|agent| agent.starts_with("wayleave/")),
        "{fetch:?}"
    );
    assert_eq!(
        (fetch.method.as_str(), fetch.header("cookie"), fetch.header("authorization")),
        ("GET", None, None)
    );
}

#[test]
fn robots_txt_itself_is_always_allowed() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/");
    let proxy = Wayleave::start(&origin);
    let answer = proxy.get("http://shop.test/robots.txt");
    assert_eq!((answer.status, answer.text().as_str()), (200, "User-agent: *\nDisallow: /\n"));
    assert_eq!(proxy.get("http://shop.test/robots.txt.bak").status, 403);
}

#[test]
fn schemes_and_ports_distinguish_origins() {
    let origin = Origin::start();
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.resolve("shop.test:8080", origin.http));
    for url in [
        "http://shop.test/a",
        "https://shop.test/a",
        "http://shop.test:8080/a",
        "http://SHOP.test:80/b",
        "https://shop.test:443/b",
    ] {
        assert_eq!(proxy.get(url).status, 200, "{url}");
    }
    let fetched: Vec<_> =
        origin.seen().into_iter().filter(|line| line.ends_with("/robots.txt")).collect();
    assert_eq!(
        fetched,
        [
            "GET http://shop.test/robots.txt",
            "GET https://shop.test/robots.txt",
            "GET http://shop.test:8080/robots.txt"
        ]
    );
}

#[test]
fn an_unavailable_robots_txt_allows_everything() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    for status in [400, 401, 403, 404, 410, 418, 451] {
        let host = format!("s{status}.test");
        origin.site(&host).robots_reply(Reply::new(status).body(KEEP_OUT));
        assert_eq!(
            proxy.get(&format!("http://{host}/private")).status,
            200,
            "robots.txt has status {status}"
        );
        assert_eq!(
            proxy.get(&format!("http://{host}/private")).status,
            200,
            "robots.txt has status {status}"
        );
    }
    // All but 404 and 410 may be answers to the proxy alone: the client's User-Agent gets the same.
    assert_eq!(robots_fetches(&origin), 7 + 5);
}

#[test]
fn an_unreachable_robots_txt_refuses_everything() {
    let origin = Origin::start();
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.set("robots.fetch_timeout", "\"3s\""));
    let text = Reply::text(KEEP_OUT);
    let faults = [
        ("s429.test", Reply::new(429).header("Retry-After", "5")),
        ("s500.test", Reply::new(500)),
        ("s502.test", Reply::new(502)),
        ("s503.test", Reply::new(503).body(KEEP_OUT)),
        ("reset.test", Reply::nothing(Step::Reset)),
        ("closed.test", Reply::nothing(Step::Close)),
        ("hangs.test", Reply::nothing(Step::Hang)),
        ("stalls.test", text.clone().claims_length(4096).step(Step::Hang)),
        ("short.test", text.clone().claims_length(4096).step(Step::Close)),
        ("garbage.test", Reply::raw("<html>this is not HTTP</html>\r\n\r\n", Step::Close)),
    ];
    for (host, reply) in faults {
        origin.site(host).robots_reply(reply);
        let robots_url = format!("http://{host}/robots.txt");
        proxy.get(&format!("http://{host}/a")).expect_unreachable(&robots_url);
        let fetches = robots_fetches(&origin);
        proxy.get(&format!("http://{host}/b")).expect_unreachable(&robots_url);
        assert_eq!(
            robots_fetches(&origin),
            fetches,
            "{host}: the failure is remembered for error_ttl"
        );
    }
    assert!(origin.seen().iter().all(|line| line.ends_with("/robots.txt")), "{:?}", origin.seen());
}

#[test]
fn bad_tls_makes_robots_txt_unreachable() {
    use Certificate::{
        Alert, Expired, NotYetValid, OtherName, PlainText, SelfSigned, UnknownAuthority,
    };
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    for certificate in
        [Expired, NotYetValid, OtherName, SelfSigned, UnknownAuthority, Alert, PlainText]
    {
        let host = format!("{certificate:?}.test").to_ascii_lowercase();
        origin.site(&host).certificate(certificate);
        proxy
            .get(&format!("https://{host}/a"))
            .expect_unreachable(&format!("https://{host}/robots.txt"));
    }
    assert!(origin.requests().is_empty(), "{:?}", origin.seen());
}

#[test]
fn refused_connections_make_robots_txt_unreachable() {
    let origin = Origin::start();
    let gone = Origin::start();
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.resolve_to("gone.example", &gone));
    gone.stop_listening();
    proxy.get("http://gone.example/a").expect_unreachable("http://gone.example/robots.txt");
    proxy.get("https://gone.example/a").expect_unreachable("https://gone.example/robots.txt");
}

#[test]
fn a_name_that_does_not_resolve_makes_robots_txt_unreachable() {
    let origin = Origin::start();
    let names = NameServer::start();
    names.set("broken.example", Answer::ServerFailure);
    names.set("silent.example", Answer::Silence);
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.resolver(&names).set("robots.fetch_timeout", "\"2s\"")
    });
    for host in ["broken.example", "silent.example"] {
        proxy
            .get(&format!("http://{host}/a"))
            .expect_unreachable(&format!("http://{host}/robots.txt"));
    }
}

#[test]
fn a_name_that_does_not_exist_is_a_dns_error() {
    let origin = Origin::start();
    let names = NameServer::start();
    names.set("empty.example", Answer::Addresses(Vec::new()));
    origin
        .site("redirects.test")
        .robots_reply(Reply::redirect(302, "http://nowhere.example/robots.txt"));
    let proxy = Wayleave::start_with(&origin, |settings| settings.resolver(&names));
    for url in ["http://nowhere.example/a", "http://nowhere.example/b", "https://nowhere.example/a"]
    {
        let answer = proxy.get(url);
        answer.expect_refusal(502, Some("DNS error"), "dns_error");
        assert_eq!(answer.header("retry-after"), None, "{url}");
    }
    let count = |outcome: &str, reason: &str| {
        let labels = [("outcome", outcome), ("reason", reason)];
        proxy.metric("wayleave_requests_total", &labels)
    };
    assert_eq!(count("failed", "dns_error"), 3.0);
    // These names exist. Only the second has an address.
    for host in ["empty.example", "redirects.test"] {
        let answer = proxy.get(&format!("http://{host}/a"));
        answer.expect_unreachable(&format!("http://{host}/robots.txt"));
    }
    assert_eq!(count("failed", "dns_error"), 4.0);
    assert_eq!(count("refused", "unreachable"), 1.0);
    assert_eq!(proxy.metric("wayleave_requests_total", &[("outcome", "refused")]), 1.0);
    let decisions = proxy.admin_get("/v1/decisions?reason=dns_error").json();
    let decisions = decisions["decisions"].as_array().expect("a list").clone();
    assert_eq!(decisions.len(), 4);
    assert!(decisions.iter().all(|decision| decision["outcome"] == "failed"), "{decisions:?}");
    let preview = proxy.admin_get("/v1/decision?url=http%3A%2F%2Fnowhere.example%2Fa").json();
    assert_eq!(preview["outcome"], "failed", "{preview}");
    assert_eq!(preview["reason"], "dns_error", "{preview}");
}

#[test]
fn a_dns_fault_fails_also_for_observed_crawlers() {
    let origin = Origin::start();
    let names = NameServer::start();
    names.set("broken.example", Answer::ServerFailure);
    names.set("silent.example", Answer::Silence);
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.resolver(&names).with(crawler("look", "LookBot").observed())
    });
    for (host, reason) in [("broken.example", "dns_error"), ("silent.example", "dns_timeout")] {
        let answer = proxy.get(&format!("http://{host}/a"));
        answer.expect_unreachable(&format!("http://{host}/robots.txt"));
        assert_eq!(answer.json()["reason"], reason, "{answer:?}");
        let labels = [("crawler", "asserted"), ("outcome", "failed"), ("reason", reason)];
        assert_eq!(proxy.metric("wayleave_requests_total", &labels), 1.0, "{host}");
    }
    assert_eq!(proxy.metric("wayleave_requests_total", &[("outcome", "refused")]), 0.0);
    let port = origin.http.port();
    names.set("broken.example", Answer::Addresses(vec![[127, 0, 0, 1].into()]));
    let look = |url: &str| proxy.get_as("LookBot/1", url);
    assert_eq!(look(&format!("http://broken.example:{port}/a")).status, 200);
    names.set("broken.example", Answer::ServerFailure);
    assert_eq!(look("http://broken.example/a").status, 502);
    let labels = [("crawler", "look"), ("outcome", "failed"), ("reason", "dns_error")];
    assert_eq!(proxy.metric("wayleave_requests_total", &labels), 1.0);
}

#[test]
fn stale_copies_decide_as_long_as_the_dialect_says() {
    let origin = Origin::start();
    origin.site("shop.test").robots(KEEP_OUT);
    let proxy = Wayleave::start_with(&origin, with_short_lifetimes);
    let status =
        |path: &str, agent: &str| proxy.get_as(agent, &format!("http://shop.test{path}")).status;
    assert_eq!(status("/a", "Other/1"), 200);
    origin.site("shop.test").robots_reply(Reply::new(503));
    eventually("the copy is too old for rfc9309", || {
        let found = status("/a", "Other/1");
        assert!(matches!(found, 200 | 503), "{found}");
        found == 503
    });
    assert_eq!(status("/private", "Other/1"), 503);
    assert_eq!([status("/a", "Google/1"), status("/private", "Google/1")], [200, 403]);
    eventually("the copy may be used again", || {
        let found = status("/private", "Other/1");
        assert!(matches!(found, 403 | 503), "{found}");
        found == 403
    });
    assert_eq!([status("/a", "Other/1"), status("/a", "Google/1")], [200; 2]);
}

#[test]
fn proxies_retry_an_origin_at_different_times() {
    let origin = Origin::start();
    let hosts: Vec<_> = (0..8).map(|n| format!("down{n}.test")).collect();
    for host in &hosts {
        origin.site(host).robots_reply(Reply::new(500));
    }
    let pauses = || -> Vec<i64> {
        let proxy = Wayleave::start(&origin);
        let pause = |host: &String| {
            proxy.get(&format!("http://{host}/a"));
            let (_, entry) = admin_json(&proxy, &format!("/v1/robots/http%3A%2F%2F{host}"));
            let at = |text: &Value| {
                let text = text.as_str().expect("a time");
                humantime::parse_rfc3339(text).expect("RFC 3339")
            };
            let failed_at = at(&entry["last_failure"]["at"]);
            let pause = at(&entry["retry_at"]).duration_since(failed_at);
            i64::try_from(pause.expect("later").as_millis()).expect("a minute")
        };
        hosts.iter().map(pause).collect()
    };
    let (one, other) = (pauses(), pauses());
    // With the same seed they would differ only by rounding.
    let mut pairs = one.iter().zip(&other);
    assert!(pairs.any(|(one, other)| (one - other).abs() > 50), "{one:?} {other:?}");
}

#[test]
fn names_are_resolved_by_the_configured_servers() {
    let origin = Origin::start();
    let names = NameServer::start();
    names.set("shop.example", Answer::Addresses(vec![[127, 0, 0, 1].into()]));
    names.set("inner.example", Answer::Addresses(vec![[127, 0, 0, 2].into()]));
    names
        .set("mixed.example", Answer::Addresses(vec![[127, 0, 0, 2].into(), [10, 0, 0, 1].into()]));
    let proxy = Wayleave::start_with(&origin, |settings| settings.resolver(&names));
    let port = origin.http.port();
    assert_eq!(proxy.get(&format!("http://shop.example:{port}/a")).status, 200);
    assert_eq!(origin.seen()[1], format!("GET http://shop.example:{port}/a"));
    for host in ["inner.example", "mixed.example"] {
        proxy.get(&format!("http://{host}:{port}/a")).expect_refusal(
            502,
            Some("Prohibited address"),
            "destination_ip_prohibited",
        );
    }
}

#[test]
fn rules_apply_up_to_five_hundred_kibibytes() {
    let origin = Origin::start();
    let limit = 500 * 1024;
    let pad = |length: usize| "#".repeat(length - 1) + "\n";
    let head = "User-agent: *\n";
    let rule = "Disallow: /edge\n";
    let within = format!(
        "{head}{}{rule}{}Disallow: /beyond\n",
        pad(limit - head.len() - rule.len()),
        pad(1000)
    );
    origin.site("long.test").robots(&within);
    let endless = Reply::new(200)
        .header("Content-Type", "text/plain")
        .body(format!("{head}{rule}"))
        .step(Step::Pattern(64 << 20));
    origin.site("endless.test").robots_reply(endless);
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("http://long.test/edge").status, 403);
    assert_eq!(proxy.get("http://long.test/beyond").status, 200);
    let before = proxy.memory_kib("VmHWM");
    assert_eq!(proxy.get("http://endless.test/edge").status, 403);
    let grown = proxy.memory_kib("VmHWM").saturating_sub(before);
    // The kernel gives memory in pieces of 2 MiB and more. The limit is below the 64 MiB that were sent.
    assert!(grown < 32 * 1024, "64 MiB of robots.txt, and memory grew by {grown} KiB");
}

#[test]
fn a_compressed_robots_txt_is_read() {
    let origin = Origin::start();
    // `printf 'User-agent: *\nDisallow: /private\n' | gzip -n9`
    let gzip = include_bytes!("../data/keep-out.gz");
    origin.site("shop.test").robots_reply(Reply::text(gzip).header("Content-Encoding", "gzip"));
    let proxy = Wayleave::start(&origin);
    let answer = proxy.get("http://shop.test/private");
    answer.expect_disallowed("http://shop.test/robots.txt", 2, "Disallow: /private");
}

#[test]
fn a_robots_txt_in_zstd_is_read_unless_it_is_cut() {
    let origin = Origin::start();
    let bytes = zstd::bulk::compress(KEEP_OUT.as_bytes(), 3).unwrap();
    let coded = |bytes: &[u8]| Reply::text(bytes).header("Content-Encoding", "zstd");
    origin.site("shop.test").robots_reply(coded(&bytes));
    let cut = &bytes[..bytes.len() - 1];
    origin.site("cut.test").robots_reply(coded(cut));
    let proxy = Wayleave::start(&origin);
    let answer = proxy.get("http://shop.test/private");
    answer.expect_disallowed("http://shop.test/robots.txt", 2, "Disallow: /private");
    let answer = proxy.get("http://cut.test/a");
    answer.expect_unreachable("http://cut.test/robots.txt");
}

#[test]
fn a_plain_robots_txt_counts_whatever_coding_is_claimed() {
    let origin = Origin::start();
    let labels = ["utf-8", "none", "text/plain", "binary", "7bit", "aws-chunked", "gzip", "zstd"];
    for (number, label) in labels.into_iter().enumerate() {
        let plain = Reply::text(KEEP_OUT).header("Content-Encoding", label);
        origin.site(&format!("plain{number}.test")).robots_reply(plain);
    }
    // Its rules cannot be known.
    let gzip = include_bytes!("../data/keep-out.gz");
    origin.site("coded.test").robots_reply(Reply::text(gzip).header("Content-Encoding", "utf-8"));
    let proxy = Wayleave::start(&origin);
    for (number, label) in labels.into_iter().enumerate() {
        let site = format!("http://plain{number}.test");
        assert_eq!(proxy.get(&format!("{site}/a")).status, 200, "{label}");
        let answer = proxy.get(&format!("{site}/private"));
        answer.expect_disallowed(&format!("{site}/robots.txt"), 2, "Disallow: /private");
    }
    proxy.get("http://coded.test/a").expect_unreachable("http://coded.test/robots.txt");
}

#[test]
fn a_compressed_robots_txt_without_a_label_is_read() {
    let origin = Origin::start();
    let gzip = include_bytes!("../data/keep-out.gz");
    origin.site("shop.test").robots_reply(Reply::text(gzip));
    origin.site("cut.test").robots_reply(Reply::text(&gzip[..gzip.len() - 9]));
    // Too short to begin as gzip does.
    origin.site("empty.test").robots_reply(Reply::text(""));
    origin.site("short.test").robots_reply(Reply::text("#"));
    let proxy = Wayleave::start(&origin);
    let answer = proxy.get("http://shop.test/private");
    answer.expect_disallowed("http://shop.test/robots.txt", 2, "Disallow: /private");
    proxy.get("http://cut.test/a").expect_unreachable("http://cut.test/robots.txt");
    for host in ["empty.test", "short.test"] {
        assert_eq!(proxy.get(&format!("http://{host}/private")).status, 200, "{host}");
    }
}

#[test]
fn a_compressed_robots_txt_in_several_members_is_read_whole() {
    let origin = Origin::start();
    // Each line is its own member.
    let gzip = include_bytes!("../data/keep-out-in-two.gz");
    let coded = |bytes: &[u8]| Reply::text(bytes).header("Content-Encoding", "gzip");
    origin.site("shop.test").robots_reply(coded(gzip));
    let junk = [&gzip[..], b"and more"].concat();
    origin.site("junk.test").robots_reply(coded(&junk));
    let proxy = Wayleave::start(&origin);
    let answer = proxy.get("http://shop.test/private");
    answer.expect_disallowed("http://shop.test/robots.txt", 2, "Disallow: /private");
    let answer = proxy.get("http://junk.test/a");
    answer.expect_unreachable("http://junk.test/robots.txt");
}

#[test]
fn an_unreachable_robots_txt_is_tried_again_after_error_ttl() {
    let origin = Origin::start();
    origin.site("shop.test").robots_reply(Reply::new(503));
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.set("robots.error_ttl", "\"1s\""));
    proxy.get("http://shop.test/a").expect_unreachable("http://shop.test/robots.txt");
    origin.site("shop.test").robots(KEEP_OUT);
    eventually("robots.txt is fetched again", || proxy.get("http://shop.test/a").status == 200);
    assert_eq!(proxy.get("http://shop.test/private").status, 403);
}

#[test]
fn changed_rules_apply_after_the_maximum_age() {
    let origin = Origin::start();
    origin.site("shop.test").robots(KEEP_OUT);
    let proxy = Wayleave::start_with(&origin, |settings| settings.set("robots.max_age", "\"1s\""));
    assert_eq!(
        (proxy.get("http://shop.test/a").status, proxy.get("http://shop.test/private").status),
        (200, 403)
    );
    origin.site("shop.test").disallows("/a");
    eventually("the new rules apply", || proxy.get("http://shop.test/a").status == 403);
    assert_eq!(proxy.get("http://shop.test/private").status, 200);
}

#[test]
fn an_old_copy_decides_while_the_origin_is_unreachable() {
    let origin = Origin::start();
    origin.site("shop.test").robots(KEEP_OUT);
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("robots.max_age", "\"1s\"").set("robots.error_ttl", "\"1s\"")
    });
    assert_eq!(proxy.get("http://shop.test/a").status, 200);
    origin.site("shop.test").robots_reply(Reply::new(500));
    eventually("a fetch has failed", || {
        let status = proxy.get("http://shop.test/a").status;
        assert_eq!(status, 200, "the copy still allows");
        proxy.metric("wayleave_robots_fetches_total", &[("result", "unreachable")]) >= 1.0
    });
    assert_eq!(
        (proxy.get("http://shop.test/a").status, proxy.get("http://shop.test/private").status),
        (200, 403)
    );
}

#[test]
fn the_longest_match_decides_and_allow_wins_ties() {
    let origin = Origin::start();
    origin.site("shop.test").robots(
        "User-agent: ExampleBot\nDisallow: /a\nAllow: /a/b\nDisallow: /a/b/c\nAllow: /tie\nDisallow: /tie\nDisallow: /*.gif$\n\nUser-agent: *\nDisallow: /\n",
    );
    let proxy = Wayleave::start(&origin);
    for (path, status) in [
        ("/a", 403),
        ("/a/b", 200),
        ("/a/b/c", 403),
        ("/tie", 200),
        ("/x.gif", 403),
        ("/x.gif?y", 200),
        ("/z", 200),
    ] {
        assert_eq!(proxy.get(&format!("http://shop.test{path}")).status, status, "{path}");
    }
}

#[test]
fn a_configured_crawler_has_its_own_token_and_dialect() {
    let origin = Origin::start();
    origin
        .site("shop.test")
        .robots("User-agent: NewsBot\nDisallow: /news\n\nUser-agent: *\nDisallow: /\n");
    origin.site("login.test").robots_reply(Reply::new(401));
    let proxy = Wayleave::start_with(&origin, |settings| {
        let research = crawler("research", "NewsBot").matched_by("user_agent", "Research");
        settings.with(
            research.set("tokens", ["NewsBot-Images", "NewsBot"]).set("dialect", "koster1996"),
        )
    });
    let status = |url: &str, agent: &str| proxy.get_as(agent, url).status;
    assert_eq!(status("http://shop.test/a", "Research/1.0"), 200);
    assert_eq!(status("http://shop.test/news", "Research/1.0"), 403);
    assert_eq!(status("http://shop.test/a", "Stranger/1.0"), 403);
    assert_eq!(status("http://login.test/a", "Stranger/1.0"), 200);
    assert_eq!(
        status("http://login.test/a", "Research/1.0"),
        403,
        "the 1996 draft disallows everything after 401"
    );
    assert!(
        proxy.metric("wayleave_requests_total", &[("crawler", "research"), ("outcome", "refused")])
            >= 2.0
    );
}

/// Requests a path of the admin API. Returns the status, and the JSON or null.
fn admin_json(proxy: &Wayleave, path: &str) -> (u16, Value) {
    let answer = proxy.admin_get(path);
    (answer.status, serde_json::from_slice(&answer.body).unwrap_or_default())
}

#[test]
fn the_admin_api_shows_the_entries_of_origins() {
    let origin = Origin::start();
    origin.site("shop.test").robots(KEEP_OUT);
    origin.site("down.test").robots_reply(Reply::new(503));
    let proxy = Wayleave::start(&origin);
    for host in ["shop.test", "down.test"] {
        proxy.get(&format!("http://{host}/a"));
    }
    let (status, listed) = admin_json(&proxy, "/v1/robots");
    assert_eq!(status, 200);
    let states: Vec<_> = listed["robots"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|robots| (robots["origin"].as_str(), robots["state"].as_str()))
        .collect();
    let expected = [
        (Some("http://down.test"), Some("unreachable")),
        (Some("http://shop.test"), Some("fresh")),
    ];
    assert_eq!(states, expected);
    let (_, page) = admin_json(&proxy, "/v1/robots?limit=1&cursor=http%3A%2F%2Fdown.test");
    assert_eq!(page["robots"][0]["origin"], "http://shop.test");
    assert_eq!(admin_json(&proxy, "/v1/robots?state=nonsense").0, 400);

    let (_, shop) = admin_json(&proxy, "/v1/robots/http%3A%2F%2Fshop.test");
    assert_eq!(shop["answer"]["body"], KEEP_OUT);
    assert_eq!(shop["history"].as_array().map(Vec::len), Some(1));
    let (_, down) = admin_json(&proxy, "/v1/robots/http%3A%2F%2Fdown.test");
    assert_eq!(down["last_failure"]["status"], 503);
    assert_eq!(down["failures"], 1);
    assert_eq!(admin_json(&proxy, "/v1/robots/http%3A%2F%2Funknown.test").0, 404);
    assert_eq!(admin_json(&proxy, "/v1/robots/nonsense").0, 400);
}

#[test]
fn operators_refresh_forget_and_see_former_files() {
    let origin = Origin::start();
    origin.site("shop.test").robots(KEEP_OUT);
    let proxy = Wayleave::start(&origin);
    proxy.get("http://shop.test/a");
    let (_, shop) = admin_json(&proxy, "/v1/robots/http%3A%2F%2Fshop.test");
    let first_seen_at = shop["history"][0]["first_seen_at"].as_str().expect("a time");
    origin.site("shop.test").disallows("/");

    let robots = |arguments: &[&str]| robots_command(&proxy, arguments);
    let (code, refreshed) = robots(&["refresh", "http://shop.test"]);
    assert_eq!(code, Some(0));
    assert!(refreshed.starts_with("fresh "), "{refreshed}");
    assert_eq!(proxy.get("http://shop.test/a").status, 403);
    let (_, then) = robots(&["show", "http://shop.test", "--at", first_seen_at]);
    assert_eq!(then, KEEP_OUT);
    let (_, now) = robots(&["show", "http://shop.test"]);
    assert!(now.contains("fresh_until") && now.ends_with("Disallow: /\n"), "{now}");
    let versions: Vec<_> = now.lines().filter(|line| line.starts_with("in force ")).collect();
    let [former, current] = &versions[..] else { panic!("{now}") };
    let changed_at = current.split_whitespace().nth(2).expect("a time");
    assert!(
        former.contains(&format!(" {first_seen_at} until {changed_at}, confirmed at ")),
        "{now}"
    );
    assert!(current.contains(" until now, ") && current.contains(", 200 SHA-256 "), "{now}");
    assert!(robots(&["list", "http://shop.test"]).1.ends_with(" http://shop.test\n"));
    assert_eq!(robots(&["list", "http://other.test"]).1, "");
    assert_eq!(robots(&["forget", "http://shop.test"]).0, Some(0));
    assert_eq!(robots(&["forget", "http://shop.test"]).0, Some(2));
    assert_eq!(robots(&["list"]), (Some(0), String::new()));
    assert_eq!(robots(&["show", "not an origin"]).0, Some(2));
    proxy.get("http://shop.test/a");
    assert_eq!(robots_fetches(&origin), 3);
}

#[test]
fn an_origin_is_refreshed_once_in_five_seconds() {
    let origin = Origin::start();
    for host in ["shop.test", "other.test"] {
        origin.site(host).robots(KEEP_OUT);
    }
    let proxy = Wayleave::start(&origin);
    let path = |host: &str| format!("/v1/robots/http%3A%2F%2F{host}/refresh");
    let refresh = |host: &str| proxy.admin_request("POST", &path(host));
    assert_eq!(refresh("shop.test").status, 200);
    for _ in 0..50 {
        let refused = refresh("shop.test");
        assert_eq!(refused.status, 429, "{refused:?}");
        let wait: u64 =
            refused.header("retry-after").expect("it is said").parse().expect("seconds");
        assert!((1..=5).contains(&wait), "{wait}");
        let body = refused.json();
        assert_eq!(body["retry_after"], wait);
        assert!(body["copy_age"].as_u64().expect("there is a copy") <= 5, "{body}");
    }
    assert_eq!(refresh("other.test").status, 200, "each origin has its own pace");
    let refused = command()
        .args(["robots", "refresh", "http://shop.test", "--config"])
        .arg(proxy.config_with_ports())
        .output()
        .expect("it runs");
    assert_eq!(refused.status.code(), Some(2));
    let message = String::from_utf8_lossy(&refused.stderr);
    let expected = "http://shop.test was refreshed a moment ago, and its copy is ";
    assert!(message.contains(expected) && message.contains("try again in "), "{message}");
    assert_eq!(robots_fetches(&origin), 2);
    eventually("it may be fetched again", || refresh("shop.test").status == 200);
    assert_eq!(robots_fetches(&origin), 3);
}

/// Runs `wayleave robots` against a running proxy. Returns its exit status and standard output.
pub fn robots_command(proxy: &Wayleave, arguments: &[&str]) -> (Option<i32>, String) {
    let output = command()
        .arg("robots")
        .args(arguments)
        .arg("--config")
        .arg(proxy.config_with_ports())
        .current_dir(proxy.dir.path())
        .output()
        .expect("the binary can be started");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code(), text)
}

#[test]
fn robots_show_reports_oddities_of_a_file() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    for (host, body, odd) in [
        ("long.test", format!("#{}", "#\n".repeat(1 << 18)), "\ncut "),
        ("page.test", "<!doctype html><p>Wait".to_owned(), "\nlooks like "),
    ] {
        let url = format!("http://{host}");
        origin.site(host).robots(body);
        proxy.get(&format!("{url}/a"));
        let (_, printed) = robots_command(&proxy, &["show", &url]);
        let facts = printed.split("\n\n").next().unwrap_or_default();
        assert!(facts.contains(odd), "{facts}");
    }
}
