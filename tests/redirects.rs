//! Redirects of robots.txt (RFC 9309 section 2.3.1.2).

use crate::harness::{Origin, Reply, Wayleave};

const KEEP_OUT: &str = "User-agent: *\nDisallow: /private\n";

#[test]
fn five_redirects_across_hosts_are_followed_and_bind_the_first() {
    let origin = Origin::start();
    origin
        .site("shop.test")
        .robots_reply(Reply::redirect(301, "http://a.test/robots.txt"));
    origin
        .site("a.test")
        .robots_reply(Reply::redirect(302, "https://b.test/elsewhere?x=1"));
    origin
        .site("b.test")
        .page("/elsewhere?x=1", Reply::redirect(303, "/again"));
    origin
        .site("b.test")
        .page("/again", Reply::redirect(307, "//c.test/robots.txt"));
    origin
        .site("c.test")
        .robots_reply(Reply::redirect(308, "http://d.test/final"));
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
    // The rules were fetched for shop.test; d.test has none of its own.
    assert_eq!(proxy.get("http://d.test/private").status, 200);
}

#[test]
fn a_sixth_redirect_is_not_followed_and_allows() {
    let origin = Origin::start();
    for number in 0..9 {
        origin
            .site(&format!("r{number}.test"))
            .robots_reply(Reply::redirect(
                302,
                &format!("http://r{}.test/robots.txt", number + 1),
            ));
    }
    origin
        .site("round.test")
        .robots_reply(Reply::redirect(302, "http://round.test/robots.txt"));
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("http://r0.test/private").status, 200);
    let seen = origin.seen();
    assert_eq!(
        seen[5..],
        [
            "GET http://r5.test/robots.txt",
            "GET http://r0.test/private"
        ],
        "{seen:?}"
    );
    assert_eq!(proxy.get("http://round.test/private").status, 200);
    assert_eq!(
        origin
            .seen()
            .iter()
            .filter(|line| line.as_str() == "GET http://round.test/robots.txt")
            .count(),
        6
    );
}

#[test]
fn what_a_redirect_ends_in_counts() {
    let origin = Origin::start();
    origin
        .site("missing.test")
        .robots_reply(Reply::redirect(301, "http://target.test/missing"));
    origin
        .site("broken.test")
        .robots_reply(Reply::redirect(301, "http://target.test/broken"));
    origin
        .site("target.test")
        .page("/missing", Reply::new(404))
        .page("/broken", Reply::new(500));
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("http://missing.test/private").status, 200);
    proxy
        .get("http://broken.test/private")
        .expect_unreachable("http://broken.test/robots.txt");
}

#[test]
fn a_redirect_to_an_internal_address_is_not_followed() {
    let origin = Origin::start();
    let internal = Origin::start_at("127.0.0.2");
    internal.site("*").robots("User-agent: *\nAllow: /\n");
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.resolve_to("internal.example", &internal)
    });
    let locations = [
        "http://internal.example/robots.txt".to_owned(),
        format!("http://{}/robots.txt", internal.http),
        "http://169.254.169.254/robots.txt".to_owned(),
    ];
    for (number, location) in locations.iter().enumerate() {
        let host = format!("lure{number}.test");
        origin
            .site(&host)
            .robots_reply(Reply::redirect(302, location));
        proxy
            .get(&format!("http://{host}/a"))
            .expect_unreachable(&format!("http://{host}/robots.txt"));
    }
    assert_eq!(internal.connections(), 0, "{:?}", internal.seen());
}

#[test]
fn a_redirect_to_nowhere_does_not_open_the_gate_silently() {
    let origin = Origin::start();
    origin
        .site("ftp.test")
        .robots_reply(Reply::redirect(302, "ftp://shop.test/robots.txt"));
    origin
        .site("file.test")
        .robots_reply(Reply::redirect(302, "file:///etc/passwd"));
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
