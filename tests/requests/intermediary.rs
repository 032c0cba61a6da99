//! The duties of an intermediary in RFC 9110 and RFC 9112 beyond forwarding messages.

use crate::harness::h2_frames::{DATA, END_HEADERS, END_STREAM, HEADERS, block, frame, get, open};
use crate::harness::origin::reply::Step;
use crate::harness::{Origin, Reply, Request, Wayleave};
use crate::requests::http2::known_before_http2_only;

#[test]
fn a_request_with_max_forwards_zero_is_answered_here() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    for method in ["OPTIONS", "TRACE"] {
        for scheme in ["http", "https"] {
            let request = Request::new(method, &format!("{scheme}://shop.test/a"))
                .header("Max-Forwards", "0")
                .header("Cookie", "secret=1")
                .header("X-Seen", "yes");
            let mut answers = vec![proxy.exchange(&request)];
            if scheme == "https" {
                answers.push(proxy.http2("shop.test:443").exchange(&request));
            }
            for answer in answers {
                assert_eq!(answer.status, 200, "{method} {scheme}: {answer:?}");
                let text = answer.text();
                match method {
                    "OPTIONS" => assert_eq!(text, "", "{answer:?}"),
                    _ => {
                        let kind = answer.header("content-type");
                        assert_eq!(kind, Some("message/http"), "{answer:?}");
                        assert!(text.starts_with("TRACE "), "{text}");
                        assert!(text.to_ascii_lowercase().contains("x-seen: yes\r\n"), "{text}");
                        assert!(!text.contains("secret"), "{text}");
                    }
                }
            }
        }
    }
    let pages = origin.seen().into_iter();
    let pages: Vec<_> = pages.filter(|line| !line.ends_with("/robots.txt")).collect();
    assert_eq!(pages, [""; 0]);
    let counted = [("outcome", "refused"), ("reason", "max-forwards")];
    assert_eq!(proxy.metric("wayleave_requests_total", &counted), 6.0);
}

#[test]
fn max_forwards_is_decremented_where_required() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    for (method, sent, arrives) in [
        ("OPTIONS", "5", "4"),
        ("TRACE", "1", "0"),
        // For other methods any recipient may ignore it.
        ("GET", "0", "0"),
        ("OPTIONS", "many", "many"),
    ] {
        let before = origin.requests().len();
        let request = Request::new(method, "http://shop.test/a").header("Max-Forwards", sent);
        assert_eq!(proxy.exchange(&request).status, 200, "{method} {sent}");
        let requests = origin.requests();
        let arrived = requests.iter().skip(before).find(|request| request.target == "/a");
        let arrived = arrived.expect("it was forwarded");
        assert_eq!(arrived.header("max-forwards"), Some(arrives), "{method} {sent}");
    }
}

#[test]
fn a_disallowed_request_is_refused_despite_max_forwards() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/private");
    let proxy = Wayleave::start(&origin);
    let request = Request::new("TRACE", "http://shop.test/private").header("Max-Forwards", "0");
    let refused = proxy.exchange(&request);
    refused.expect_disallowed("http://shop.test/robots.txt", 2, "Disallow: /private");
}

#[test]
fn a_response_without_content_has_no_length() {
    let origin = Origin::start();
    let interim = "HTTP/1.1 103 Early Hints\r\nContent-Length: 7\r\nLink: </a>\r\n\r\n";
    let page = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    origin
        .site("shop.test")
        .http1_only()
        .page("/none", Reply::raw("HTTP/1.1 204 None\r\nContent-Length: 5\r\n\r\n", Step::Close))
        .page("/hints", Reply::raw([interim, page].concat(), Step::Close))
        // The length that a 200 would have had (RFC 9110 section 8.6).
        .page("/same", Reply::raw("HTTP/1.1 304 Same\r\nContent-Length: 5\r\n\r\n", Step::Close));
    let proxy = Wayleave::start(&origin);
    let mut wire = proxy.connect();
    wire.send_get("http://shop.test/none");
    let none = wire.response();
    assert_eq!((none.status, none.header("content-length")), (204, None));
    wire.send_get("http://shop.test/hints");
    let hints = wire.response();
    assert_eq!((hints.status, hints.header("content-length")), (103, None));
    assert_eq!(hints.header("link"), Some("</a>"));
    assert_eq!(wire.response().text(), "ok");
    wire.send_get("http://shop.test/same");
    let same = wire.response();
    assert_eq!((same.status, same.header("content-length")), (304, Some("5")));
    let client = proxy.http2("shop.test:443");
    let none = client.get("/none");
    assert_eq!((none.status, none.header("content-length")), (204, None));
    let same = client.get("/same");
    assert_eq!((same.status, same.header("content-length")), (304, Some("5")));
}

#[test]
fn an_early_response_announces_that_the_connection_closes() {
    let origin = Origin::start();
    let early = Reply::new(413).body("too much").early();
    origin.site("shop.test").page("/up", early);
    let proxy = Wayleave::start(&origin);
    let mut wire = proxy.connect();
    let request = Request::new("POST", "http://shop.test/up").header("Content-Length", "10000000");
    wire.send(request.absolute_form());
    wire.send("the first bytes");
    let answer = wire.response();
    assert_eq!((answer.status, &*answer.text()), (413, "too much"));
    assert_eq!(answer.header("connection"), Some("close"));
    wire.expect_close();
}

#[test]
fn interim_responses_pass_between_all_versions() {
    let origin = Origin::start();
    let raw = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let page = Reply::raw(raw, Step::Close);
    let hints = block(&[(":status", "103"), ("link", "</a>")]);
    let frames = [
        (HEADERS, END_HEADERS, hints.clone()),
        (HEADERS, END_HEADERS, hints),
        (HEADERS, END_HEADERS, vec![0x88]),
        (DATA, END_STREAM, b"ok".to_vec()),
    ];
    origin.site("old.test").http1_only().page("/a", page);
    let proxy = Wayleave::start(&origin);
    let old = proxy.http2("old.test:443").get("/a");
    assert_eq!((&old.interim[..], &*old.text()), (&[103][..], "ok"));
    known_before_http2_only(&proxy, &origin, "new.test").frames(&frames);
    let new = proxy.http2("new.test:443").get("/a");
    assert_eq!((&new.interim[..], &*new.text()), (&[103, 103][..], "ok"));
    let mut wire = proxy.tunnel("new.test:443");
    wire.send(Request::get("https://new.test/a").origin_form());
    let statuses = [(); 3].map(|()| wire.response().status);
    assert_eq!(statuses, [103, 103, 200]);
}

#[test]
fn endless_interim_responses_by_http_2_are_cut_off() {
    let origin = Origin::start();
    let hints = (HEADERS, END_HEADERS, block(&[(":status", "103")]));
    origin.site("new.test").frames(&vec![hints; 1000]);
    let proxy = Wayleave::start(&origin);
    let answer = proxy.http2("new.test:443").get("/a");
    assert!(answer.interim.len() <= 100, "{}", answer.interim.len());
    answer.expect_refusal(502, None, "http_protocol_error");
}

#[test]
fn a_body_that_arrives_too_late_is_reported_as_late() {
    let origin = Origin::start();
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.set("proxy.idle_timeout", "\"3s\""));
    assert_eq!(proxy.get("http://shop.test/known").status, 200);
    for (field, start) in
        [("Content-Length: 10", "hello"), ("Transfer-Encoding: chunked", "5\r\nhello\r\n")]
    {
        let mut wire = proxy.connect();
        wire.send(format!(
            "POST http://shop.test/up HTTP/1.1\r\nHost: shop.test\r\n{field}\r\n\r\n{start}"
        ));
        let answer = wire.response();
        answer.expect_refusal(408, None, "http_request_error");
        assert_eq!(answer.header("connection"), Some("close"));
        wire.expect_close();
    }
    let mut wire = open(&proxy, "shop.test:443");
    let mut fields = get("shop.test", "/up");
    fields[0] = (":method", "POST");
    wire.send(frame(HEADERS, END_HEADERS, 1, &block(&fields)));
    wire.send(frame(DATA, 0, 1, b"hello"));
    let outcome = wire.outcome(1).expect("a response");
    assert!(outcome.kind == HEADERS && !outcome.is_200(), "{outcome:?}");
    let late = [("outcome", "failed"), ("reason", "body-timeout")];
    assert_eq!(proxy.metric("wayleave_requests_total", &late), 3.0);
    let complete = |target: &str| {
        let requests = origin.requests();
        requests.iter().any(|request| request.target == target && request.body().complete)
    };
    assert!(!complete("/up"), "{:?}", origin.seen());
}
