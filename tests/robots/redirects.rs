//! Redirects of robots.txt (RFC 9309 section 2.3.1.2).

use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::harness::origin::reply::{Gate, Step};
use crate::harness::wayleave::Settings;
use crate::harness::{Origin, Reply, Wayleave, eventually};

const KEEP_OUT: &str = "User-agent: *\nDisallow: /private\n";

#[test]
fn five_redirects_across_hosts_are_followed_and_bind_the_first() {
    let origin = Origin::start();
    origin.site("shop.test").robots_reply(Reply::redirect(301, "http://a.test/robots.txt"));
    origin.site("a.test").robots_reply(Reply::redirect(302, "https://b.test/elsewhere?x=1"));
    origin.site("b.test").page("/elsewhere?x=1", Reply::redirect(303, "/again"));
    origin.site("b.test").page("/again", Reply::redirect(307, "//c.test/robots.txt"));
    origin.site("c.test").robots_reply(Reply::redirect(308, "http://d.test/final"));
    origin.site("d.test").page("/final", Reply::text(KEEP_OUT));
    let proxy = Wayleave::start(&origin);
    proxy.get("http://shop.test/private").expect_disallowed(
        "http://shop.test/robots.txt",
        2,
        "Disallow: /private",
    );
    assert_eq!(proxy.get("http://shop.test/a").status, 200);
    assert_eq!(
        origin.seen(),
        [
            "GET http://shop.test/robots.txt",
            "GET http://a.test/robots.txt",
            "GET https://b.test/elsewhere?x=1",
            "GET https://b.test/again",
            "GET https://c.test/robots.txt",
            "GET http://d.test/final",
            "GET http://shop.test/a",
        ]
    );
    // The rules were fetched for shop.test; d.test has no rules.
    assert_eq!(proxy.get("http://d.test/private").status, 200);
}

#[test]
fn a_sixth_redirect_is_not_followed_and_allows() {
    let origin = Origin::start();
    for number in 0..9 {
        origin
            .site(&format!("r{number}.test"))
            .robots_reply(Reply::redirect(302, &format!("http://r{}.test/robots.txt", number + 1)));
    }
    origin.site("round.test").robots_reply(Reply::redirect(302, "http://round.test/robots.txt"));
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("http://r0.test/private").status, 200);
    let seen = origin.seen();
    // As the proxy itself, and then as the client: the site may redirect only those that it does not know.
    let fetch: Vec<_> =
        (0..6).map(|number| format!("GET http://r{number}.test/robots.txt")).collect();
    let page = ["GET http://r0.test/private".to_owned()];
    assert_eq!(seen, [&fetch[..], &fetch, &page].concat());
    assert_eq!(proxy.get("http://round.test/private").status, 200);
    assert_eq!(
        origin
            .seen()
            .iter()
            .filter(|line| line.as_str() == "GET http://round.test/robots.txt")
            .count(),
        12
    );
}

#[test]
fn the_end_of_redirects_decides() {
    let origin = Origin::start();
    origin.site("missing.test").robots_reply(Reply::redirect(301, "http://target.test/missing"));
    origin.site("broken.test").robots_reply(Reply::redirect(301, "http://target.test/broken"));
    origin.site("target.test").page("/missing", Reply::new(404)).page("/broken", Reply::new(500));
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("http://missing.test/private").status, 200);
    proxy.get("http://broken.test/private").expect_unreachable("http://broken.test/robots.txt");
}

#[test]
fn a_redirect_to_an_internal_address_is_not_followed() {
    let origin = Origin::start();
    let internal = Origin::start_at("127.0.0.2");
    internal.site("*").allows_all();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.resolve_to("internal.example", &internal)
    });
    let locations = [
        "http://internal.example/robots.txt".to_owned(),
        format!("http://{}/robots.txt", internal.http),
        "http://169.254.169.254/robots.txt".to_owned(),
    ];
    for (number, location) in locations.iter().enumerate() {
        let host = format!("redirects{number}.test");
        origin.site(&host).robots_reply(Reply::redirect(302, location));
        proxy
            .get(&format!("http://{host}/a"))
            .expect_unreachable(&format!("http://{host}/robots.txt"));
    }
    assert_eq!(internal.connections(), 0, "{:?}", internal.seen());
}

/// Returns the lines of the decision log below a directory about redirects: outcome, reason, status and URL.
fn log_of_redirects(dir: &Path) -> Vec<String> {
    let log = dir.join("state/decisions.jsonl");
    let text = std::fs::read_to_string(log).expect("there is a log");
    let lines = text
        .lines()
        .map(|line| -> Value { serde_json::from_str(line).expect("a line is an object") });
    let by_wayleave = lines.filter(|line| line["crawler"] == "wayleave");
    let summary = |line: Value| {
        let word = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        let (outcome, reason, url) = (word("outcome"), word("reason"), word("url"));
        format!("{outcome} {reason} {} {url}", line["status"])
    };
    by_wayleave.map(summary).collect()
}

/// Redirects of robots.txt, and the log line about the last one.
const REDIRECTS: &[(&str, &str, &str)] = &[
    ("a.test", "http://law.test/page", "refused policy-rule 451 http://law.test/page"),
    ("b.test", "http://law.test/robots.txt", "refused policy-rule 451 http://law.test/robots.txt"),
    (
        "c.test",
        "https://own.test/robots.txt",
        "refused policy-rule 403 https://own.test/robots.txt",
    ),
    ("d.test", "http://part.test/secret/a", "refused policy-rule 403 http://part.test/secret/a"),
    (
        "e.test",
        "http://free.test/elsewhere",
        "forwarded robots-redirect 200 http://free.test/elsewhere",
    ),
    ("f.test", "http://step.test/robots.txt", "refused policy-rule 451 http://law.test/robots.txt"),
];

#[test]
fn redirects_are_not_followed_where_rules_refuse_all() {
    let origin = Origin::start();
    for (host, location, _) in REDIRECTS {
        let redirect = Reply::redirect(302, location);
        origin.site(host).robots_reply(redirect);
    }
    let onward = Reply::redirect(302, "http://law.test/robots.txt");
    origin.site("step.test").robots_reply(onward);
    let rules = Reply::text(KEEP_OUT);
    origin.site("free.test").page("/elsewhere", rules);
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.table(
            "[[rule]]\naction = \"refuse\"\nlegal = true\nhosts = [\"law.test\"]\nowner = \"legal@example.com\"\n\
             [[rule]]\naction = \"refuse\"\nhosts = [\"own.test\"]\n\
             [[rule]]\naction = \"refuse\"\nhosts = [\"part.test\"]\npaths = [\"/secret\"]\n\
             [[rule]]\naction = \"refuse\"\nhosts = [\"free.test\"]\ncrawlers = [\"asserted\"]\n",
        )
    });
    for (host, _, line) in REDIRECTS {
        let answer = proxy.get(&format!("http://{host}/private"));
        let expected = if line.starts_with("refused") { 503 } else { 403 };
        assert_eq!(answer.status, expected, "{host}");
        eventually("it is logged", || {
            log_of_redirects(proxy.dir.path()).last().is_some_and(|last| last == line)
        });
    }
    for host in ["law.test", "own.test", "part.test"] {
        let seen = origin.seen();
        assert!(!seen.iter().any(|line| line.contains(host)), "{seen:?}");
    }
}

#[test]
fn redirects_obey_the_pace_of_their_target() {
    let origin = Origin::start();
    let slow = origin.site("slow.test");
    slow.robots("User-agent: *\nCrawl-delay: 100\nDisallow: /no\n")
        .page("/rules", Reply::text(KEEP_OUT));
    let busy = Reply::new(429).header("Retry-After", "100");
    origin.site("busy.test").page("/a", busy);
    for (host, location) in [
        ("a.test", "http://slow.test/rules"),
        ("b.test", "http://slow.test/more-rules"),
        ("c.test", "http://slow.test/robots.txt"),
        ("d.test", "http://busy.test/rules"),
    ] {
        let redirect = Reply::redirect(301, location);
        origin.site(host).robots_reply(redirect);
    }
    let proxy = Wayleave::start(&origin);
    // After this the delay is known.
    assert_eq!(proxy.get("http://slow.test/no").status, 403);
    assert_eq!(proxy.get("http://busy.test/a").status, 429);
    let status = |host: &str| proxy.get(&format!("http://{host}/a")).status;
    let statuses = ["a.test", "b.test", "c.test", "d.test"].map(status);
    assert_eq!(statuses, [200, 503, 503, 503]);
    let seen = origin.seen();
    let rules = seen.iter().filter(|line| line.ends_with("rules"));
    assert_eq!(rules.collect::<Vec<_>>(), ["GET http://slow.test/rules"]);
    assert_eq!(origin.robots_fetches("slow.test"), 1, "not even its robots.txt");
    eventually("it is logged", || {
        let log = log_of_redirects(proxy.dir.path());
        log.contains(&"refused crawl-delay 429 http://slow.test/more-rules".to_owned())
            && log.contains(&"refused crawl-delay 429 http://slow.test/robots.txt".to_owned())
            && log.contains(&"refused origin-rests 429 http://busy.test/rules".to_owned())
    });
}

#[test]
fn redirects_keep_min_delay_at_their_target() {
    let origin = Origin::start();
    for host in ["a.test", "b.test"] {
        let redirect = Reply::redirect(301, &format!("http://rules.test/rules?{host}"));
        origin.site(host).robots_reply(redirect);
        origin.site("rules.test").page(&format!("/rules?{host}"), Reply::text(KEEP_OUT));
    }
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.set("politeness.min_delay", "\"100s\""));
    assert_eq!(proxy.get("http://a.test/a").status, 200);
    assert_eq!(proxy.get("http://b.test/a").status, 503);
    assert_eq!(origin.seen().iter().filter(|line| line.contains("/rules")).count(), 1);
}

/// Requests a page of each host at the same time, and returns the statuses.
fn get_at_once(proxy: &Wayleave, hosts: &[String]) -> Vec<u16> {
    let get = |host: &String| proxy.get(&format!("http://{host}/a")).status;
    std::thread::scope(|scope| {
        let asking: Vec<_> = hosts.iter().map(|host| scope.spawn(move || get(host))).collect();
        asking.into_iter().map(|thread| thread.join().expect("a response")).collect()
    })
}

#[test]
fn forty_origins_that_redirect_to_a_host_cause_one_request_there() {
    let origin = Origin::start();
    let victim = origin.site("victim.test");
    victim.robots("User-agent: *\nCrawl-delay: 30\nDisallow: /private\n");
    let hosts: Vec<_> = (0..40).map(|number| format!("site{number}.test")).collect();
    for host in &hosts {
        let redirect = Reply::redirect(302, "http://victim.test/robots.txt");
        origin.site(host).robots_reply(redirect);
    }
    let proxy = Wayleave::start(&origin);
    assert_eq!(get_at_once(&proxy, &hosts), [200; 40]);
    for host in &hosts {
        assert_eq!(proxy.get(&format!("http://{host}/private")).status, 403, "{host}");
    }
    assert_eq!(origin.robots_fetches("victim.test"), 1);
    // Not even an operator gets a new one before the delay that it asks for has passed.
    let refresh = "/v1/robots/http%3A%2F%2Fsite7.test/refresh";
    let refreshed = proxy.admin_request("POST", refresh).json();
    assert_eq!(refreshed["error"], Value::Null, "{refreshed}");
    assert_eq!(origin.robots_fetches("victim.test"), 1);
}

#[test]
fn hosts_that_redirects_name_are_asked_at_their_pace() {
    let origin = Origin::start();
    let victim = origin.site("victim.test");
    victim.robots("User-agent: *\nCrawl-delay: 1\nDisallow: /no\n");
    let hosts: Vec<_> = (0..5).map(|number| format!("site{number}.test")).collect();
    for host in &hosts {
        let target = format!("/{host}.txt");
        origin
            .site(host)
            .robots_reply(Reply::redirect(302, &format!("http://victim.test{target}")));
        origin.site("victim.test").page(&target, Reply::text(KEEP_OUT));
    }
    let proxy = Wayleave::start(&origin);
    // After this the delay is known.
    assert_eq!(proxy.get("http://victim.test/no").status, 403);
    assert_eq!(get_at_once(&proxy, &hosts), [200; 5]);
    let requests = origin.requests();
    let named = requests.iter().filter(|request| request.target.ends_with(".test.txt"));
    let arrivals: Vec<_> = named.map(|request| request.at).collect();
    assert_eq!(arrivals.len(), 5, "{:?}", origin.seen());
    for pair in arrivals.windows(2) {
        let gap = pair[1] - pair[0];
        assert!(gap >= Duration::from_secs(1), "{gap:?}");
    }
}

#[test]
fn no_more_than_four_redirects_are_followed_to_a_host_at_a_time() {
    let origin = Origin::start();
    let gate = Gate::closed();
    let hosts: Vec<_> = (0..20).map(|number| format!("site{number}.test")).collect();
    for host in &hosts {
        let target = format!("/{host}.txt");
        origin
            .site(host)
            .robots_reply(Reply::redirect(302, &format!("http://victim.test{target}")));
        origin.site("victim.test").page(&target, Reply::in_halves(&gate));
    }
    let proxy = Wayleave::start(&origin);
    let named = |origin: &Origin| {
        origin.seen().iter().filter(|line| line.contains("GET http://victim.test/site")).count()
    };
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| get_at_once(&proxy, &hosts));
        let all_redirected = || hosts.iter().all(|host| origin.robots_fetches(host) == 1);
        eventually("all are redirected", all_redirected);
        eventually("some are followed", || named(&origin) >= 3);
        // The host's own robots.txt has its place beside them.
        assert_eq!(proxy.get("http://victim.test/a").status, 200);
        assert_eq!(named(&origin), 3);
        gate.open();
        assert_eq!(asking.join().expect("no panic"), [200; 20]);
    });
    assert_eq!(named(&origin), 20);
}

#[test]
fn a_redirect_that_the_end_interrupts_is_in_the_log() {
    let origin = Origin::start();
    origin.site("cut.test").robots_reply(Reply::redirect(302, "http://elsewhere.test/moved"));
    origin.site("elsewhere.test").page("/moved", Reply::nothing(Step::Hang));
    let at_once = |settings: Settings| settings.set("proxy.shutdown_grace", "\"10ms\"");
    let proxy = Wayleave::start_with(&origin, at_once);
    let mut client = TcpStream::connect(proxy.proxy).expect("it listens");
    client.write_all(b"GET http://cut.test/ HTTP/1.1\r\nHost: cut.test\r\n\r\n").expect("sent");
    origin.wait_for_target("/moved");
    let (dir, _) = proxy.stop();
    let followed = "failed robots-redirect 502 http://elsewhere.test/moved";
    assert_eq!(log_of_redirects(dir.path()), [followed]);
}

#[test]
fn a_robots_txt_that_moved_within_its_origin_needs_no_slot() {
    let origin = Origin::start();
    let site = origin.site("slow.test");
    site.robots_reply(Reply::redirect(301, "/moved"))
        .page("/moved", Reply::redirect(301, "/again"))
        .page("/again", Reply::text("User-agent: *\nCrawl-delay: 100\n"));
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("http://slow.test/a").status, 200);
    // The delay is known now.
    let refresh = "/v1/robots/http%3A%2F%2Fslow.test/refresh";
    let refreshed = proxy.admin_request("POST", refresh).json();
    assert!(refreshed["last_failure"].is_null(), "{refreshed}");
    assert_eq!(origin.seen().iter().filter(|line| line.ends_with("/again")).count(), 2);
}

#[test]
fn an_invalid_redirect_is_not_a_success() {
    let origin = Origin::start();
    origin.site("ftp.test").robots_reply(Reply::redirect(302, "ftp://shop.test/robots.txt"));
    origin.site("file.test").robots_reply(Reply::redirect(302, "file:///etc/passwd"));
    origin.site("blank.test").robots_reply(Reply::new(302));
    let proxy = Wayleave::start(&origin);
    for host in ["ftp.test", "file.test", "blank.test"] {
        let answer = proxy.get(&format!("http://{host}/a"));
        assert!(matches!(answer.status, 200 | 503), "{host}: {answer:?}");
        if answer.status == 503 {
            answer.expect_unreachable(&format!("http://{host}/robots.txt"));
        }
    }
    let results: f64 = ["unreachable", "redirect_lost", "unavailable"]
        .iter()
        .map(|result| proxy.metric("wayleave_robots_fetches_total", &[("result", result)]))
        .sum();
    assert_eq!(results, 3.0, "none of them counts as successful");
}
