//! The messages of RFC 3507, as they are answered.

use super::{IcapGated, chunked, get, reqmod, respmod};
use crate::gateway::ROBOTS;
use crate::harness::origin::reply::Step;
use crate::harness::{Gate, Origin, Reply, eventually};

#[test]
fn options_say_what_there_is() {
    let origin = Origin::start();
    let gated = IcapGated::start(&origin);
    let mut wire = gated.connect();
    for (path, method) in [("request", "REQMOD"), ("response", "RESPMOD")] {
        wire.0.send(format!("OPTIONS icap://wayleave.test/{path} ICAP/1.0\r\nHost: a\r\n\r\n"));
        let answer = wire.answer().icap;
        assert_eq!(answer.status, 200, "{answer:?}");
        for (name, value) in [
            ("methods", method),
            ("allow", "204"),
            ("preview", "0"),
            ("transfer-preview", "*"),
            ("options-ttl", "300"),
            ("max-connections", "1000"),
            ("encapsulated", "null-body=0"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{answer:?}");
        }
        let istag = answer.header("istag").expect("an ISTag");
        assert!(istag.starts_with('"') && istag.len() <= 34, "{istag}");
    }
    wire.0.send("OPTIONS icap://a/request ICAP/1.0\r\nConnection: close\r\n\r\n");
    assert_eq!(wire.answer().icap.status, 200);
    wire.0.expect_close();
}

#[test]
fn an_allowed_request_remains_as_it_is() {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    let gated = IcapGated::start(&origin);
    let head = get("http://shop.test/a", "");
    let body = chunked("hello");
    let mut wire = gated.connect();
    for (fields, sent, status) in [
        ("Allow: 204\r\n", None, 204),
        ("", None, 200),
        ("Preview: 0\r\n", Some("0\r\n\r\n"), 204),
        ("Preview: 0\r\n", Some("0; ieof\r\n\r\n"), 204),
        ("Preview: 9\r\n", Some("5\r\nhello\r\n0; ieof\r\n\r\n"), 204),
        ("Allow: 204\r\n", Some(body.as_str()), 204),
        ("Allow: 206, 204\r\n", Some(body.as_str()), 204),
        ("", Some(body.as_str()), 200),
    ] {
        wire.0.send(reqmod(&head, fields, sent));
        let answer = wire.answer();
        assert_eq!(answer.icap.status, status, "{fields} {sent:?} {answer:?}");
        assert_eq!(answer.icap.header("wayleave-decision").map(str::len), Some(32), "{answer:?}");
        assert!(answer.icap.header("istag").is_some());
        if status == 200 {
            assert_eq!(answer.inside, head);
            assert_eq!(answer.body, sent.map_or(&b""[..], |_| b"hello"));
        }
    }
    let decision = gated.gated.proxy.newest_decision("http://shop.test/a");
    assert_eq!((&decision["outcome"], &decision["via"]), (&"forwarded".into(), &"gateway".into()));
    assert_eq!(decision["client"], "127.0.0.1");
}

#[test]
fn a_refused_request_gets_the_proxys_own_answer() {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    let gated = IcapGated::start(&origin);
    let head = get("http://shop.test/private", "");
    let mut wire = gated.connect();
    let body = chunked("hello");
    for (fields, sent) in [
        ("Allow: 204\r\n", None),
        ("Preview: 0\r\n", Some("0\r\n\r\n")),
        ("", Some(body.as_str())),
        ("X-Client-IP: 192.0.2.7\r\nX-Client-Username: bm9ib2R5\r\n", None),
    ] {
        wire.0.send(reqmod(&head, fields, sent));
        let answer = wire.answer();
        assert_eq!(answer.icap.status, 200, "{answer:?}");
        assert_eq!(answer.http_status(), Some(403), "{answer:?}");
        assert_eq!(answer.json()["reason"], "rule");
        assert!(answer.inside.contains("\r\nProxy-Status: wayleave; "), "{answer:?}");
    }
    let decision = gated.gated.proxy.newest_decision("http://shop.test/private");
    assert_eq!(
        (&decision["client"], &decision["peer"]),
        (&"192.0.2.7".into(), &"127.0.0.1".into())
    );
    // A HEAD has no content, whatever its answer.
    wire.0.send(reqmod(&head.replacen("GET", "HEAD", 1), "Allow: 204\r\n", None));
    let answer = wire.answer();
    assert_eq!(answer.http_status(), Some(403));
    assert!(answer.icap.header("encapsulated").is_some_and(|parts| parts.contains("null-body")));
    let seen = origin.seen();
    assert!(seen.iter().all(|line| line.ends_with("/robots.txt")), "{seen:?}");
}

#[test]
fn a_token_is_a_crawlers() {
    let origin = Origin::start();
    origin.site("shop.test").robots("User-agent: NewsBot\nDisallow: /\n");
    let sha256 = "d7ecdf25eaf3deba0f2628771dbdd22d4138ab6cf38f91ed02a2ca0dec7c8ab7";
    let gated = IcapGated::start_with(&origin, |settings| {
        let token = format!("[{{ sha256 = \"{sha256}\", crawler = \"news\" }}]");
        settings.crawler("news", "NewsBot").set("gateway.tokens", &token)
    });
    let head = get("http://shop.test/a", "");
    let ask = |fields: &str| gated.ask(reqmod(&head, &format!("Allow: 204\r\n{fields}"), None));
    assert_eq!(ask("").icap.status, 204);
    let news = head.replace("ExampleBot", "NewsBot");
    let by_token = gated.ask(reqmod(&news, "Authorization: Bearer open-sesame\r\n", None));
    assert_eq!(by_token.http_status(), Some(403), "{by_token:?}");
    let refused = ask("Authorization: Bearer wrong\r\n").icap;
    assert_eq!((refused.status, refused.header("connection")), (401, Some("close")));
    assert!(refused.header("www-authenticate").is_some_and(|value| value.starts_with("Bearer ")));
    // Inside a message, it is the client's.
    let inside = get("http://shop.test/b", "Authorization: Bearer open-sesame\r\n");
    assert_eq!(gated.request(&inside).icap.status, 204);
}

#[test]
fn messages_may_follow_each_other_at_once() {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    let gated = IcapGated::start(&origin);
    let mut wire = gated.connect();
    let allowed = reqmod(&get("http://shop.test/a", ""), "Allow: 204\r\n", Some(&chunked("x")));
    let refused = reqmod(&get("http://shop.test/private", ""), "", None);
    wire.0.send(format!("{allowed}{refused}{allowed}"));
    assert_eq!(wire.answer().icap.status, 204);
    assert_eq!(wire.answer().http_status(), Some(403));
    assert_eq!(wire.answer().icap.status, 204);
}

#[test]
fn a_verdict_comes_with_the_slot_and_is_not_waited_for() {
    let origin = Origin::start();
    let gate = Gate::closed();
    origin
        .site("slow.test")
        .robots_reply(Reply::new(200).step(Step::Wait(gate.clone())).body(ROBOTS));
    let gated = IcapGated::start(&origin);
    let head = get("http://slow.test/a", "");
    let mut waiting = gated.connect();
    waiting.0.send(reqmod(&head, "Allow: 204\r\n", None));
    let mut leaving = gated.connect();
    leaving.0.send(reqmod(&head, "Allow: 204\r\n", None));
    origin.wait_for_target("/robots.txt");
    drop(leaving);
    let closed = [("outcome", "failed"), ("reason", "client-closed")];
    eventually("the one that left is recorded", || {
        gated.gated.proxy.metric("wayleave_requests_total", &closed) == 1.0
    });
    gate.open();
    assert_eq!(waiting.answer().icap.status, 204);
}

#[test]
fn a_response_shown_sets_the_pace_of_its_gateway() {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    let sha256 = "d7ecdf25eaf3deba0f2628771dbdd22d4138ab6cf38f91ed02a2ca0dec7c8ab7";
    let gated = IcapGated::start_with(&origin, |settings| {
        let token = format!("[{{ sha256 = \"{sha256}\", crawler = \"news\" }}]");
        settings.crawler("news", "NewsBot").set("gateway.tokens", &token)
    });
    let head = get("http://shop.test/a", "");
    let ask = || gated.request(&head);
    let id = ask().icap.header("wayleave-decision").expect("an id").to_owned();
    let busy = "HTTP/1.1 503 Busy\r\nRetry-After: 3000\r\nContent-Length: 0\r\n\r\n";
    let show = |fields: &str| {
        let fields = format!("Allow: 204\r\n{fields}");
        gated.ask(respmod(&head, busy, &fields, None)).icap.status
    };
    assert_eq!(show(""), 204);
    assert_eq!(ask().icap.status, 204, "nobody knows whose response it was");
    let other = format!("Wayleave-Decision: {id}\r\nAuthorization: Bearer open-sesame\r\n");
    assert_eq!(
        gated
            .ask(respmod(
                &head.replace("ExampleBot", "NewsBot"),
                busy,
                &format!("Allow: 204\r\n{other}"),
                None
            ))
            .icap
            .status,
        204
    );
    assert_eq!(ask().icap.status, 204, "it was another gateway's");
    assert_eq!(show(&format!("Wayleave-Decision: {id}\r\n")), 204);
    let refused = ask();
    assert_eq!(
        (refused.http_status(), &refused.json()["reason"]),
        (Some(429), &"origin-rests".into())
    );
}
