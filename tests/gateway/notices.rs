//! The notices of a gateway about the requests that it sent.

use super::Gated;
use crate::harness::{Origin, Response, eventually};

fn id_of(allowed: &Response) -> String {
    assert_eq!(allowed.status, 200, "{allowed:?} {}", allowed.text());
    allowed.header("wayleave-decision").expect("an id").to_owned()
}

#[test]
fn a_response_that_a_gateway_tells_of_sets_the_pace() {
    let origin = Origin::start();
    let gated = Gated::start(&origin);
    for (host, notice) in [
        ("a.test", r#""status": 429, "retry_after": 3000"#),
        ("b.test", r#""status": 503, "fields": {"Retry-After": "3000"}"#),
        ("c.test", r#""status": 200, "fields": {"RateLimit": "\"x\";r=0;t=3000"}"#),
    ] {
        let ask = || gated.check("GET", &format!("http://{host}/a"), &[]);
        let id = id_of(&ask());
        // The delay begins with the verdict, and nothing else is known so far.
        let other = id_of(&ask());
        let told = gated.tell("/answered", &format!(r#"{{"id": "{id}", {notice}}}"#), &[]);
        assert_eq!(told.status, 204, "{}", told.text());
        let refused = ask();
        assert_eq!(
            (refused.status, &refused.json()["reason"]),
            (429, &"origin-rests".into()),
            "{host}"
        );
        let told = gated.tell("/answered", &format!(r#"{{"id": "{other}", "status": 200}}"#), &[]);
        assert_eq!(told.status, 204);
        assert_eq!(ask().status, 429, "an answer from before the rest");
    }
}

#[test]
fn the_delay_begins_anew_when_a_gateway_sends_the_request() {
    let origin = Origin::start();
    origin.site("shop.test").robots("User-agent: *\nCrawl-delay: 100\n");
    let gated = Gated::start(&origin);
    let ask = || gated.check("GET", "http://shop.test/a", &[]);
    let id = id_of(&ask());
    let seconds = || {
        let refused = ask();
        assert_eq!(refused.status, 429, "{refused:?}");
        refused.header("retry-after").expect("a time").parse::<u32>().expect("seconds")
    };
    eventually("some of the delay is over", || seconds() <= 98);
    assert_eq!(gated.tell("/sent", &format!(r#"{{"id": "{id}"}}"#), &[]).status, 204);
    assert!(seconds() > 98);
}

#[test]
fn each_notice_is_taken_once_and_of_its_own_gateway() {
    let origin = Origin::start();
    let sha256 = "d7ecdf25eaf3deba0f2628771dbdd22d4138ab6cf38f91ed02a2ca0dec7c8ab7";
    let gated = Gated::start_with(&origin, |settings| {
        let token = format!("[{{ sha256 = \"{sha256}\", crawler = \"news\" }}]");
        settings.crawler("news", "NewsBot").set("gateway.tokens", &token)
    });
    let token = [("Authorization", "Bearer open-sesame")];
    let id = id_of(&gated.check("GET", "http://shop.test/a", &token));
    let sent = format!(r#"{{"id": "{id}"}}"#);
    let answered = format!(r#"{{"id": "{id}", "status": 200}}"#);
    assert_eq!(gated.tell("/sent", &sent, &[]).status, 404, "another gateway");
    assert_eq!(gated.tell("/answered", &answered, &[]).status, 404, "another gateway");
    assert_eq!(gated.tell("/sent", &sent, &[("Authorization", "Bearer x")]).status, 401);
    assert_eq!(gated.tell("/sent", &sent, &token).status, 204);
    assert_eq!(gated.tell("/sent", &sent, &token).status, 404, "twice");
    assert_eq!(gated.tell("/answered", &answered, &token).status, 204);
    assert_eq!(gated.tell("/answered", &answered, &token).status, 404, "twice");
    assert_eq!(gated.tell("/sent", &sent, &token).status, 404, "after its answer");
    let unknown = r#"{"id": "01939f6e27a17a3e8d0c6f0f6a1d2b3c"}"#;
    assert_eq!(gated.tell("/sent", unknown, &token).status, 404);
    for wrong in
        ["", "{}", r#"{"id": "x"}"#, r#"{"id": "01939f6e27a17a3e8d0c6f0f6a1d2b3c", "x": 1}"#]
    {
        assert_eq!(gated.tell("/sent", wrong, &token).status, 400, "{wrong}");
    }
    for status in ["0", "100", "600", "\"200\""] {
        let notice = format!(r#"{{"id": "{id}", "status": {status}}}"#);
        assert_eq!(gated.tell("/answered", &notice, &token).status, 400, "{status}");
    }
    assert_eq!(gated.send("GET", "/sent", &token).status, 400);
}

#[test]
fn a_refused_request_cannot_be_told_of() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/");
    let gated = Gated::start(&origin);
    let refused = gated.check("GET", "http://shop.test/a", &[]);
    let id = refused.header("wayleave-decision").expect("an id");
    assert_eq!(gated.tell("/sent", &format!(r#"{{"id": "{id}"}}"#), &[]).status, 404);
}
