//! Clients' requests for robots.txt, answered from the copy that decides (`robots.answer`).

use serde_json::{Value, json};

use super::with_short_lifetimes;
use crate::harness::dns::{Answer, NameServer};
use crate::harness::origin::reply::{Framing, Step};
use crate::harness::{Gate, Origin, Reply, Request, Response, Wayleave, eventually};

const KEEP_OUT: &str = "User-agent: *\nDisallow: /private\n";
const URL: &str = "http://shop.test/robots.txt";
const MODIFIED: &str = "Sat, 21 Nov 2020 08:00:00 GMT";

/// Returns a robots.txt with validators.
fn tagged(text: impl AsRef<[u8]>, etag: &str) -> Reply {
    Reply::html(text).header("ETag", etag).header("Last-Modified", MODIFIED)
}

fn age(answer: &Response) -> u64 {
    answer.header("age").expect("an age").parse().expect("whole seconds")
}

/// Returns the decisions about requests for robots.txt, the newest first.
fn decisions(proxy: &Wayleave) -> Vec<Value> {
    let found = proxy.admin_get("/v1/decisions?q=robots.txt").json();
    found["decisions"].as_array().expect("a list").clone()
}

#[test]
fn a_thousand_clients_cause_one_fetch() {
    rlimit::increase_nofile_limit(4096).expect("the limit can be raised");
    let origin = Origin::start();
    let gate = Gate::closed();
    let slow = Reply::new(200).step(Step::Wait(gate.clone())).body(KEEP_OUT);
    origin.site("shop.test").robots_reply(slow.framing(Framing::Chunked));
    let proxy = Wayleave::start(&origin);
    let mut wires: Vec<_> = (0..1000)
        .map(|_| {
            let mut wire = proxy.connect();
            wire.send_get(URL);
            wire
        })
        .collect();
    let waiting = || {
        proxy.metric("wayleave_robots_lookups_total", &[("result", "miss")])
            + proxy.metric("wayleave_robots_lookups_total", &[("result", "joined")])
    };
    eventually("all of them wait for robots.txt", || waiting() == 1000.0);
    gate.open();
    for (number, wire) in wires.iter_mut().enumerate() {
        let answer = wire.response();
        assert_eq!((answer.status, &*answer.text()), (200, KEEP_OUT), "client {number}");
    }
    assert_eq!(origin.seen(), [format!("GET {URL}")]);
    let forwarded = [("outcome", "forwarded"), ("reason", "robots-txt-itself")];
    assert_eq!(proxy.metric("wayleave_requests_total", &forwarded), 1000.0);
}

#[test]
fn bytes_and_validators_are_those_of_the_origin() {
    let origin = Origin::start();
    let bytes = b"\xef\xbb\xbfUser-agent: *\r\nDisallow: /caf\xe9\n\n# the end";
    let reply = tagged(bytes, "W/\"v,1\"").header("Cache-Control", "max-age=3600");
    origin.site("shop.test").robots_reply(reply.header("Age", "7"));
    let proxy = Wayleave::start(&origin);
    let length = bytes.len().to_string();
    for url in [URL, "https://shop.test/robots.txt"] {
        for request in [
            Request::get(url),
            Request::new("HEAD", url),
            Request::get(url).header("Range", "bytes=0-3").header("Cache-Control", "no-cache"),
            Request::get(url).header("If-None-Match", "\"v\", \"v,2\""),
            Request::get(url).header("If-Range", "W/\"v,1\"").header("Range", "bytes=0-3"),
        ] {
            let answer = proxy.exchange(&request);
            assert_eq!((answer.status, &*answer.reason), (200, "OK"), "{request:?}");
            let body: &[u8] = if request.method == "HEAD" { b"" } else { bytes };
            assert_eq!(answer.body, body, "{request:?}");
            for (field, value) in [
                ("content-type", Some("text/plain; charset=utf-8")),
                ("content-length", Some(&*length)),
                ("etag", Some("W/\"v,1\"")),
                ("last-modified", Some(MODIFIED)),
                ("cache-control", Some("max-age=3600")),
                ("via", Some("1.1 wayleave")),
                ("expires", None),
                ("content-encoding", None),
                ("proxy-status", None),
            ] {
                assert_eq!(answer.header(field), value, "{field}: {request:?}");
            }
            assert!(age(&answer) >= 7, "{answer:?}");
            assert!(answer.header("date").is_some(), "{answer:?}");
        }
    }
    assert_eq!(origin.seen(), [format!("GET {URL}"), "GET https://shop.test/robots.txt".into()]);
}

#[test]
fn a_copy_that_the_client_has_already_is_not_sent() {
    let origin = Origin::start();
    origin.site("shop.test").robots_reply(tagged(KEEP_OUT, "\"v1\""));
    origin.site("plain.test").robots(KEEP_OUT);
    origin.site("none.test");
    let proxy = Wayleave::start(&origin);
    let later = "Sun, 22 Nov 2020 08:00:00 GMT";
    for (host, fields, status) in [
        ("shop.test", &[("If-None-Match", "\"v1\"")][..], 304),
        ("shop.test", &[("If-None-Match", "\"v0\", W/\"v1\"")], 304),
        ("shop.test", &[("If-None-Match", "*")], 304),
        ("shop.test", &[("If-None-Match", "\"v2\"")], 200),
        ("shop.test", &[("If-Modified-Since", MODIFIED)], 304),
        ("shop.test", &[("If-Modified-Since", "Fri, 20 Nov 2020 08:00:00 GMT")], 200),
        ("shop.test", &[("If-Modified-Since", "yesterday")], 200),
        ("shop.test", &[("If-None-Match", "\"v2\""), ("If-Modified-Since", later)], 200),
        ("shop.test", &[("If-None-Match", "\"v1\""), ("If-Modified-Since", "never")], 304),
        ("plain.test", &[("If-Modified-Since", later)], 200),
        ("plain.test", &[("If-None-Match", "\"v1\"")], 200),
        ("none.test", &[("If-None-Match", "*")], 404),
    ] {
        let mut request = Request::get(&format!("http://{host}/robots.txt"));
        for (name, value) in fields {
            request = request.header(name, value);
        }
        let mut wire = proxy.connect();
        wire.send(request.absolute_form());
        let answer = wire.response();
        assert_eq!(answer.status, status, "{request:?}");
        if status == 304 {
            assert_eq!(answer.header("etag"), Some("\"v1\""));
            assert_eq!((answer.header("content-type"), answer.body.len()), (None, 0));
            assert_eq!(answer.header("content-length"), None, "{answer:?}");
        }
        // Where the next response begins, this one has ended.
        wire.send_get(URL);
        assert_eq!(wire.response().text(), KEEP_OUT, "{request:?}");
    }
    assert_eq!(origin.requests().len(), 3, "{:?}", origin.seen());
    let statuses: Vec<_> =
        decisions(&proxy).iter().map(|it| (it["status"].clone(), it["from"].clone())).collect();
    assert!(statuses.contains(&(304.into(), "copy".into())), "{statuses:?}");
}

#[test]
fn http2_clients_are_answered_from_the_copy() {
    let origin = Origin::start();
    // Longer than a frame, and than a window.
    let long = format!("{KEEP_OUT}{}", "# and so on\n".repeat(20_000));
    origin.site("shop.test").robots_reply(tagged(&long, "\"v1\""));
    let proxy = Wayleave::start(&origin);
    let client = proxy.http2("shop.test:443");
    let url = "https://shop.test/robots.txt";
    for (request, status, body) in [
        (Request::get(url), 200, &*long),
        (Request::new("HEAD", url), 200, ""),
        (Request::get(url).header("If-None-Match", "\"v1\""), 304, ""),
    ] {
        let answer = client.exchange(&request);
        assert_eq!((answer.status, &*answer.text()), (status, body), "{request:?}");
        assert_eq!(answer.header("etag"), Some("\"v1\""));
    }
    assert_eq!(client.get("/private").status, 403);
    assert_eq!(origin.seen(), [format!("GET {url}")]);
}

#[test]
fn the_file_is_sent_as_it_was_read() {
    let origin = Origin::start();
    // `printf 'User-agent: *\nDisallow: /private\n' | gzip -n9`
    let gzip = Reply::text(include_bytes!("../data/keep-out.gz"));
    origin.site("coded.test").robots_reply(gzip.header("Content-Encoding", "gzip"));
    origin.site("moved.test").robots_reply(Reply::redirect(301, "https://www.test/there"));
    origin.site("www.test").page("/there", tagged(KEEP_OUT, "\"there\""));
    let long = format!("{KEEP_OUT}{}", "# and so on\n".repeat(50_000));
    origin.site("long.test").robots(&long);
    origin.site("empty.test").robots_reply(Reply::new(204));
    let proxy = Wayleave::start(&origin);
    for (host, etag, body) in [
        ("coded.test", None, KEEP_OUT),
        ("moved.test", Some("\"there\""), KEEP_OUT),
        ("long.test", None, &long[..500 * 1024]),
        ("empty.test", None, ""),
    ] {
        let answer = proxy.get(&format!("http://{host}/robots.txt"));
        assert_eq!((answer.status, answer.header("etag")), (200, etag), "{host}");
        assert_eq!(answer.header("content-encoding"), None, "{host}");
        assert!(answer.text() == body, "{host}: {} bytes", answer.body.len());
    }
}

#[test]
fn an_origin_without_the_file_is_answered_for_with_its_status() {
    const STATUSES: [u16; 7] = [400, 401, 403, 404, 410, 418, 451];
    let origin = Origin::start();
    for status in STATUSES {
        let host = format!("s{status}.test");
        origin.site(&host).robots_reply(Reply::new(status).body("sorry"));
    }
    let round = "http://round.test/robots.txt";
    origin.site("round.test").robots_reply(Reply::redirect(302, round));
    let proxy = Wayleave::start(&origin);
    let of_each = |status| (format!("http://s{status}.test/robots.txt"), status);
    for (url, status) in STATUSES.map(of_each).into_iter().chain([(round.to_owned(), 404)]) {
        for method in ["GET", "HEAD"] {
            let answer = proxy.exchange(&Request::new(method, &url));
            assert_eq!((answer.status, answer.text()), (status, String::new()), "{url}");
            assert_eq!(answer.header("content-length"), Some("0"), "{url}");
            age(&answer);
        }
    }
    // Six for the redirects. All but 404 and 410 may be answers to the proxy alone: the client's User-Agent gets the same.
    assert_eq!(origin.requests().len(), 7 + 6 + 5 + 6, "{:?}", origin.seen());
}

#[test]
fn an_unreachable_file_is_answered_for_with_503() {
    let origin = Origin::start();
    for (host, reply) in [
        ("s500.test", Reply::new(500)),
        ("s429.test", Reply::new(429).header("Retry-After", "1800")),
        ("part.test", Reply::new(206).body(KEEP_OUT)),
        ("reset.test", Reply::nothing(Step::Reset)),
    ] {
        origin.site(host).robots_reply(reply);
    }
    let proxy = Wayleave::start(&origin);
    for host in ["s500.test", "s429.test", "part.test", "reset.test"] {
        let url = format!("http://{host}/robots.txt");
        let before = origin.requests().len();
        proxy.get(&url).expect_unreachable(&url);
        let fetches = origin.requests().len();
        assert!(fetches > before, "{host}");
        let head = proxy.exchange(&Request::new("HEAD", &url));
        assert_eq!((head.status, head.body.len()), (503, 0));
        assert_eq!(origin.requests().len(), fetches, "{host}: remembered for error_ttl");
    }
    let retry_after =
        proxy.get("http://s429.test/robots.txt").header("retry-after").map(str::parse);
    assert!(retry_after.is_some_and(|seconds: Result<u32, _>| seconds.is_ok_and(|it| it > 900)));
    for decision in decisions(&proxy) {
        let members = ["outcome", "reason", "from", "status"].map(|name| &decision[name]);
        let expected = json!(["forwarded", "robots-txt-itself", "copy", 503]);
        assert_eq!(json!(members), expected, "{decision}");
    }
}

#[test]
fn names_and_addresses_that_lead_nowhere_are_named() {
    let (origin, inside) = (Origin::start(), Origin::start_at("127.0.0.2"));
    let names = NameServer::start();
    names.set("broken.example", Answer::ServerFailure);
    let proxy = Wayleave::start_with(&origin, |settings| {
        let settings = settings.resolver(&names);
        settings.resolve_to("inside.test", &inside)
    });
    for (host, status, error, outcome) in [
        ("nowhere.example", 502, "dns_error", "failed"),
        ("broken.example", 503, "dns_error", "failed"),
        ("inside.test", 502, "destination_ip_prohibited", "refused"),
    ] {
        let answer = proxy.get(&format!("http://{host}/robots.txt"));
        assert_eq!(answer.status, status, "{host}");
        assert_eq!(answer.json()["reason"], error, "{host}");
        let decision = &decisions(&proxy)[0];
        assert_eq!((&decision["outcome"], &decision["reason"]), (&outcome.into(), &error.into()));
    }
    assert_eq!(inside.connections(), 0);
}

#[test]
fn an_old_copy_is_sent_for_as_long_as_it_decides() {
    let origin = Origin::start();
    origin.site("shop.test").robots(KEEP_OUT);
    let proxy = Wayleave::start_with(&origin, with_short_lifetimes);
    let get = |agent: &str| proxy.get_as(agent, URL);
    assert_eq!(get("Other/1").text(), KEEP_OUT);
    origin.site("shop.test").robots_reply(Reply::new(503));
    eventually("the copy is too old for rfc9309", || {
        let found = get("Other/1");
        assert!(found.status == 503 || found.text() == KEEP_OUT, "{found:?}");
        found.status == 503
    });
    let by_google = get("Google/1");
    assert_eq!((by_google.status, &*by_google.text()), (200, KEEP_OUT));
    assert!(age(&by_google) >= 6, "{by_google:?}");
    get("Other/1").expect_unreachable(URL);
    eventually("the copy may be used again", || get("Other/1").text() == KEEP_OUT);
}

#[test]
fn a_newer_copy_replaces_the_one_that_clients_have() {
    let origin = Origin::start();
    origin.site("shop.test").robots_reply(tagged(KEEP_OUT, "\"v1\""));
    let proxy = Wayleave::start(&origin);
    let with_tag = |proxy: &Wayleave, tag: &str| {
        let answer = proxy.exchange(&Request::get(URL).header("If-None-Match", tag));
        (answer.status, answer.text())
    };
    assert_eq!(with_tag(&proxy, "\"v1\"").0, 304);
    let open = "User-agent: *\nAllow: /\n";
    origin.site("shop.test").robots_reply(tagged(open, "\"v2\""));
    assert_eq!(with_tag(&proxy, "\"v1\"").0, 304, "nothing is fetched because somebody asks");
    let refresh = "/v1/robots/http%3A%2F%2Fshop.test/refresh";
    assert_eq!(proxy.admin_request("POST", refresh).status, 200);
    assert_eq!(with_tag(&proxy, "\"v1\""), (200, open.to_owned()));
    assert_eq!(with_tag(&proxy, "\"v2\"").0, 304);
    let (dir, settings) = proxy.stop();
    let proxy = Wayleave::start_in(dir, settings);
    assert_eq!(with_tag(&proxy, "\"v1\""), (200, open.to_owned()), "from the disk");
    assert_eq!(origin.robots_fetches("shop.test"), 2);
}

#[test]
fn the_origin_answers_if_it_is_to() {
    let origin = Origin::start();
    origin.site("shop.test").robots_reply(tagged(KEEP_OUT, "\"v1\"").header("X-Own", "1"));
    let proxy = Wayleave::start(&origin);
    let get = || proxy.exchange(&Request::get(URL).agent("NewsBot/1").header("X-Asked", "1"));
    let asked = || origin.requests().iter().filter(|it| it.header("x-asked").is_some()).count();
    assert_eq!((get().header("x-own"), asked()), (None, 0));
    for (answer, from) in [("origin", Value::Null), ("copy", "copy".into())] {
        let settings = proxy.settings.clone().set("robots.answer", &format!("{answer:?}"));
        proxy.reload(&settings);
        let (before, recorded) = (asked(), decisions(&proxy).len());
        let found = get();
        assert_eq!((found.status, &*found.text()), (200, KEEP_OUT));
        // A forwarded request is recorded after its response.
        eventually("the request is recorded", || decisions(&proxy).len() > recorded);
        let is_asked = answer == "origin";
        assert_eq!(asked(), before + usize::from(is_asked), "{answer}");
        assert_eq!(found.header("x-own").is_some(), is_asked, "{answer}");
        let type_of_origin = found.header("content-type") == Some("text/html; charset=utf-8");
        assert_eq!(type_of_origin, is_asked, "{answer}");
        let decision = &decisions(&proxy)[0];
        assert_eq!(decision["reason"], "robots-txt-itself");
        assert_eq!(decision["from"], from, "{decision}");
        assert_eq!(decision["body_bytes"].is_null(), !is_asked, "{decision}");
    }
}

#[test]
fn whatever_is_not_a_read_of_the_file_is_forwarded() {
    let origin = Origin::start();
    origin.site("shop.test").robots(KEEP_OUT);
    let proxy = Wayleave::start(&origin);
    for (method, path) in [
        ("GET", "/robots.txt?x"),
        ("GET", "/robots%2Etxt"),
        ("GET", "//robots.txt"),
        ("GET", "/Robots.txt"),
        ("OPTIONS", "/robots.txt"),
        ("POST", "/robots.txt"),
    ] {
        let url = format!("http://shop.test{path}");
        assert_eq!(proxy.exchange(&Request::new(method, &url)).status, 200, "{method} {path}");
        let last = origin.requests().pop().expect("it arrived");
        assert_eq!((&*last.method, &*last.target), (method, path));
    }
}

#[test]
fn an_answer_from_the_copy_needs_no_slot() {
    let origin = Origin::start();
    let gate = Gate::closed();
    origin.site("shop.test").robots(format!("{KEEP_OUT}Crawl-delay: 100\n"));
    let slow = Reply::new(200).body("a").step(Step::Wait(gate.clone()));
    origin.site("shop.test").page("/slow", slow.body("b"));
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .set("politeness.max_concurrent_per_origin", "1")
            .set("politeness.crawl_delay", "\"reject\"")
    });
    let mut wire = proxy.connect();
    wire.send_get("http://shop.test/slow");
    wire.response_head();
    assert_eq!(proxy.get("http://shop.test/b").status, 429);
    assert_eq!(proxy.get(URL).status, 200);
    gate.open();
}

#[test]
fn observed_crawlers_get_what_the_origin_sends_while_there_is_no_copy() {
    let origin = Origin::start();
    origin.site("down.test").robots_reply(Reply::new(500).body("out of order"));
    origin.site("shop.test").robots(KEEP_OUT);
    let proxy = Wayleave::start_with(&origin, |settings| settings.set("proxy.mode", "\"observe\""));
    let answer = proxy.get("http://down.test/robots.txt");
    assert_eq!((answer.status, &*answer.text()), (500, "out of order"));
    assert_eq!(proxy.get(URL).header("via"), Some("1.1 wayleave"));
    assert_eq!((origin.robots_fetches("down.test"), origin.robots_fetches("shop.test")), (2, 1));
    let from: Vec<_> = decisions(&proxy).iter().map(|it| it["from"].clone()).collect();
    assert_eq!(from, ["copy".into(), Value::Null]);
}

#[test]
fn an_expiry_at_the_end_of_time_is_shortened() {
    let origin = Origin::start();
    for (host, date, expires) in [
        ("far.test", "Sat, 21 Nov 2020 08:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT"),
        ("past.test", MODIFIED, "0"),
    ] {
        let reply = Reply::text(KEEP_OUT).header("Date", date).header("Expires", expires);
        origin.site(host).robots_reply(reply);
    }
    let proxy = Wayleave::start(&origin);
    let expires = |host: &str| {
        let answer = proxy.get(&format!("http://{host}/robots.txt"));
        assert_eq!((answer.status, &*answer.text()), (200, KEEP_OUT), "{host}");
        let value = answer.header("expires").expect("an expiry").to_owned();
        httpdate::parse_http_date(&value).expect("a date")
    };
    let now = std::time::SystemTime::now();
    assert!(expires("far.test") > now);
    assert!(expires("past.test") < now);
}
