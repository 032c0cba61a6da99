//! squid, which shows requests and responses by ICAP.

use super::IcapGated;
use crate::gateway::ROBOTS;
use crate::harness::client::Wire;
use crate::harness::crawler::crawler;
use crate::harness::{Origin, Reply, Request, Response};
use crate::requests::upstream::programs::{Program, Squid};

/// Starts squid by the recipe of docs/gateways.md.
fn squid(gated: &IcapGated) -> Program {
    squid_with(gated, "")
}

fn squid_with(gated: &IcapGated, further: &str) -> Program {
    let icap = gated.icap;
    let rules = format!(
        "icap_enable on\n\
         icap_service wayleave_request reqmod_precache icap://{icap}/request bypass=off\n\
         icap_service wayleave_response respmod_precache icap://{icap}/response bypass=off\n\
         adaptation_access wayleave_request allow all\n\
         adaptation_access wayleave_response allow all\n\
         adaptation_send_client_ip on\n\
         adaptation_masterx_shared_names Wayleave-Decision\n\
         icap_service_failure_limit -1\nicap_persistent_connections on\nicap_preview_enable on\n{further}"
    );
    Squid { rules: Box::leak(rules.into_boxed_str()), ..Squid::default() }.start()
}

fn exchange(squid: &Program, request: &Request) -> Response {
    let mut wire = Wire::connect(squid.address);
    wire.send(request.absolute_form());
    wire.response()
}

fn get(squid: &Program, url: &str) -> Response {
    exchange(squid, &Request::get(url))
}

#[test]
fn squid_sends_and_shows_what_is_allowed_and_fails_closed() {
    let origin = Origin::start();
    let busy = Reply::new(503).header("Retry-After", "3000");
    origin
        .site("shop.test")
        .robots(ROBOTS)
        .page("/noindex", Reply::html("<meta name=robots content=noindex><p>the page"))
        .page("/busy", busy)
        .page("/long", Reply::html("<p>".to_owned() + &"x".repeat(300_000)));
    let gated = IcapGated::start_with(&origin, |settings| {
        settings
            .resolve(&format!("shop.test:{}", origin.http.port()), origin.http)
            .with(crawler("index", "IndexBot").purposes(["search"]))
    });
    let squid = squid(&gated);
    let site = format!("http://shop.test:{}", origin.http.port());
    let url = |path: &str| format!("{site}{path}");
    let allowed = get(&squid, &url("/a?b=%2f"));
    assert_eq!(allowed.status, 200, "{allowed:?} {}", squid.read("cache.log"));
    for path in ["/private/a", "/%70rivate"] {
        let refused = get(&squid, &url(path));
        assert_eq!((refused.status, &refused.json()["reason"]), (403, &"rule".into()));
    }
    let post = Request::new("POST", &url("/form")).body("x".repeat(200_000));
    assert_eq!(exchange(&squid, &post).status, 200);
    let refused = exchange(&squid, &Request { url: url("/private"), ..post });
    assert_eq!(refused.status, 403);
    let index = |path: &str| exchange(&squid, &Request::get(&url(path)).agent("IndexBot/1.0"));
    let withheld = index("/noindex");
    assert_eq!((withheld.status, &withheld.json()["reason"]), (403, &"preference".into()));
    assert!(get(&squid, &url("/noindex")).text().contains("the page"));
    let long = index("/long");
    assert_eq!(long.header("wayleave-preferences"), Some("search=unstated"), "{:?}", long.headers);
    assert_eq!((long.status, long.body.len()), (200, 300_003));
    assert_eq!(get(&squid, &url("/long")).body.len(), 300_003);
    // squid names the decision, so that the response sets the pace.
    assert_eq!(get(&squid, &url("/busy")).status, 503);
    let rests = get(&squid, &url("/busy"));
    assert_eq!((rests.status, &rests.json()["reason"]), (429, &"origin-rests".into()));
    let seen = origin.seen();
    assert!(!seen.iter().any(|line| line.contains("rivate")), "{seen:?}");
    let decision = gated.gated.proxy.newest_decision(&url("/busy"));
    assert_eq!((&decision["client"], &decision["via"]), (&"127.0.0.1".into(), &"gateway".into()));
    drop(gated.gated.proxy.kill());
    let failed = get(&squid, &url("/a"));
    assert!(failed.status >= 500, "{failed:?}");
    assert_eq!(origin.seen().len(), seen.len());
}

#[test]
fn squid_asks_about_the_tunnel() {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    let gated = IcapGated::start(&origin);
    let squid = squid(&gated);
    let opened = |authority: &str| Wire::connect(squid.address).connect_tunnel(authority).status;
    // In a tunnel nobody looks at paths.
    assert_eq!(opened("shop.test:443"), 403);
    let decision = gated.gated.proxy.newest_decision("shop.test:443");
    assert_eq!(decision["scope"], "every-path");
}

#[test]
fn squid_can_send_a_token() {
    let origin = Origin::start();
    origin.site("shop.test").robots("User-agent: NewsBot\nDisallow: /\n");
    let sha256 = "d7ecdf25eaf3deba0f2628771dbdd22d4138ab6cf38f91ed02a2ca0dec7c8ab7";
    let gated = IcapGated::start_with(&origin, |settings| {
        let token = format!("[{{ sha256 = \"{sha256}\", crawler = \"news\" }}]");
        settings
            .resolve(&format!("shop.test:{}", origin.http.port()), origin.http)
            .crawler("news", "NewsBot")
            .set("gateway.tokens", &token)
    });
    let url = format!("http://shop.test:{}/a", origin.http.port());
    let news = Request::get(&url).agent("NewsBot/1.0");
    let meta = |token: &str| format!("adaptation_meta Authorization \"Bearer {token}\" all\n");
    let squid_of = |token: &str| squid_with(&gated, &meta(token));
    assert_eq!(exchange(&squid_of("open-sesame"), &news).status, 403);
    assert_eq!(gated.gated.proxy.newest_decision(&url)["crawler"], "news");
    assert_eq!(exchange(&squid_of("wrong"), &Request::get(&url)).status, 500);
    let seen = origin.seen();
    assert!(seen.iter().all(|line| line.ends_with("/robots.txt")), "{seen:?}");
}
