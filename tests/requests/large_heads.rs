//! Heads that are small on the wire and large in memory: HPACK repeats a field of 4,000 bytes in a single byte.

use crate::harness::client::Wire;
use crate::harness::h2_frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, SETTINGS, block, frame, get, open,
    request, swollen,
};
use crate::harness::origin::reply::Step;
use crate::harness::{Origin, Reply, Request, Wayleave, eventually};

/// `:status: 200`, as HPACK's static table has it.
const OK: u8 = 0x88;
/// How often the field is repeated: some 16 MB from 8 KB.
const TIMES: usize = 4100;
const BOMBS: usize = 200;

/// Sends a request by HTTP/2 whose response is not read.
fn unread(proxy: &Wayleave, host: &str) -> Wire {
    let mut wire = open(proxy, &format!("{host}:443"));
    wire.send(request(1, host, "/a"));
    wire
}

#[test]
fn two_hundred_open_heads_of_megabytes_take_little_memory() {
    let origin = Origin::start();
    let bomb = (HEADERS, END_HEADERS, swollen(&[OK], TIMES));
    let proxy = Wayleave::start(&origin);
    let site = origin.site("bomb.test").robots("User-agent: *\nDisallow:\n");
    site.frames(&[bomb]);
    let held: Vec<_> = (0..BOMBS).map(|_| unread(&proxy, "bomb.test")).collect();
    eventually("all are counted", || {
        proxy.metric("wayleave_requests_total", &[]) >= held.len() as f64
    });
    let most = proxy.memory_kib("VmHWM");
    println!("{} heads of 16 MB held open: {most} KiB at most", held.len());
    assert!(most < 250 * 1024, "{most} KiB");
    let large = [("outcome", "failed"), ("reason", "http_response_header_section_size")];
    assert_eq!(proxy.metric("wayleave_requests_total", &large), held.len() as f64);
}

#[test]
fn trailers_that_are_large_in_memory_do_not_pass() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    origin.site("bomb.test").frames(&[
        (HEADERS, END_HEADERS, vec![OK]),
        (DATA, 0, b"body".to_vec()),
        (HEADERS, END_HEADERS | END_STREAM, swollen(&[], TIMES)),
    ]);
    let answer = proxy.http2("bomb.test:443").try_exchange(&Request::get("https://bomb.test/a"));
    assert!(answer.is_err(), "{answer:?}");
    let most = proxy.memory_kib("VmHWM");
    assert!(most < 120 * 1024, "{most} KiB");
}

/// Returns a block of `start` and `count` fields.
fn many_fields(start: &[u8], count: usize) -> Vec<u8> {
    let mut bytes = start.to_vec();
    let names: Vec<_> = (0..count).map(|number| format!("x-{number}")).collect();
    let fields: Vec<_> = names.iter().map(|name| (&**name, "y")).collect();
    bytes.extend(block(&fields));
    bytes
}

#[test]
fn heads_have_at_most_a_thousand_fields_in_both_versions() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    for (count, passes) in [(1000, true), (1001, false)] {
        let host = format!("new{count}.test");
        let ends = END_HEADERS | END_STREAM;
        let head = (HEADERS, ends, many_fields(&[OK], count));
        origin.site(&host).frames(&[head]);
        let mut raw = "HTTP/1.1 200 OK\r\n".to_owned();
        // Content-Length is one of them.
        for number in 1..count {
            raw += &format!("X-{number}: y\r\n");
        }
        raw += "Content-Length: 0\r\n\r\n";
        let old = format!("old{count}.test");
        let page = Reply::raw(raw, Step::Close);
        origin.site(&old).http1_only().page("/a", page);
        for host in [host, old] {
            let answer = proxy.http2(&format!("{host}:443")).get("/a");
            let error = "http_response_header_section_size";
            if passes {
                assert_eq!(answer.status, 200, "{host}: {answer:?}");
            } else {
                answer.expect_refusal(502, None, error);
            }
        }
    }
}

#[test]
fn trailers_have_at_most_a_hundred_fields() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    for (count, passes) in [(100, true), (101, false)] {
        let host = format!("new{count}.test");
        origin.site(&host).frames(&[
            (HEADERS, END_HEADERS, vec![OK]),
            (DATA, 0, b"body".to_vec()),
            (HEADERS, END_HEADERS | END_STREAM, many_fields(&[], count)),
        ]);
        let client = proxy.http2(&format!("{host}:443"));
        let answer = client.try_exchange(&Request::get(&format!("https://{host}/a")));
        assert_eq!(answer.is_ok(), passes, "{count}: {answer:?}");
    }
}

#[test]
fn a_head_in_pieces_without_end_is_cut_off() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    // The beginning of a name of 16 MB, which must be held until the rest arrives.
    let start = [0x40, 0x7f, 0xff, 0xff, 0xff, 0x07];
    let piece = vec![b'x'; 16 * 1024];
    let mut pieces = vec![(HEADERS, 0, [&[OK][..], &start].concat())];
    pieces.resize(1000, (CONTINUATION, 0, piece.clone()));
    origin.site("bomb.test").frames(&pieces);
    let answer = proxy.http2("bomb.test:443").get("/a");
    answer.expect_refusal(502, None, "http_protocol_error");
    let mut wire = open(&proxy, "shop.test:443");
    let head = [block(&get("shop.test", "/a")), start.to_vec()].concat();
    wire.send(frame(HEADERS, 0, 1, &head));
    let closed = (0..1000).any(|_| wire.try_send(frame(CONTINUATION, 0, 1, &piece)).is_err());
    assert!(closed || !wire.stream_is_200(1));
    let most = proxy.memory_kib("VmHWM");
    assert!(most < 120 * 1024, "{most} KiB");
    assert!(origin.requests().iter().all(|request| request.target != "/a"));
}

#[test]
fn a_robots_txt_with_a_head_large_in_memory_is_unreachable() {
    let origin = Origin::start();
    let bomb = (HEADERS, END_HEADERS, swollen(&[OK], TIMES));
    origin.site("bomb.test").http2_only().frames(&[bomb]);
    let proxy = Wayleave::start(&origin);
    assert_eq!(proxy.get("https://bomb.test/a").status, 503);
    let most = proxy.memory_kib("VmHWM");
    assert!(most < 120 * 1024, "{most} KiB");
}

#[test]
fn requests_by_http_2_have_at_most_a_thousand_fields_and_64_kib() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let with_fields = |count: usize| {
        // User-Agent is one of them.
        (1..count).fold(Request::get("https://shop.test/a"), |request, number| {
            request.header(&format!("x-{number}"), "y")
        })
    };
    let client = proxy.http2("shop.test:443");
    assert_eq!(client.exchange(&with_fields(1000)).status, 200);
    let refused = client.exchange(&with_fields(1001));
    refused.expect_refusal(431, None, "http_request_error");
    // So large that the connection may end.
    let mut wire = open(&proxy, "shop.test:443");
    let head = block(&get("shop.test", "/b"));
    let bomb = [head, swollen(&[], TIMES)].concat();
    wire.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, &bomb));
    assert!(!wire.stream_is_200(1));
    let pages = |target: &str| {
        let seen = origin.requests();
        seen.iter().filter(|request| request.target == target).count()
    };
    assert_eq!((pages("/a"), pages("/b")), (1, 0), "{:?}", origin.seen());
}

#[test]
fn trailers_of_clients_by_http_2_are_bounded_too() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    for trailers in [swollen(&[], TIMES), many_fields(&[], 101)] {
        let mut wire = open(&proxy, "shop.test:443");
        let mut fields = get("shop.test", "/up");
        fields[0] = (":method", "POST");
        wire.send(frame(SETTINGS, 0, 0, &[]));
        wire.send(frame(HEADERS, END_HEADERS, 1, &block(&fields)));
        wire.send(frame(DATA, 0, 1, b"hello"));
        wire.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, &trailers));
        assert!(!wire.stream_is_200(1));
    }
    let requests = origin.requests();
    assert!(!requests.iter().any(|request| request.target == "/up" && request.body().complete));
    let most = proxy.memory_kib("VmHWM");
    assert!(most < 120 * 1024, "{most} KiB");
}

#[test]
fn cookies_of_one_request_count_as_one_field() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let cookies: Vec<_> = (0..1100).map(|number| format!("c{number}=v")).collect();
    let request = Request::get("https://shop.test/a");
    let request = cookies.iter().fold(request, |request, cookie| request.header("cookie", cookie));
    assert_eq!(proxy.http2("shop.test:443").exchange(&request).status, 200);
    let requests = origin.requests();
    let page = requests.iter().find(|request| request.target == "/a").expect("it arrived");
    assert_eq!(page.header("cookie"), Some(&*cookies.join("; ")));
}

#[test]
fn answers_with_long_heads_pass_in_both_versions() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let policy = "x".repeat(7_000);
    let fields: Vec<_> = (0..30).map(|number| (format!("x-{number}"), policy.clone())).collect();
    for host in ["new.test", "old.test"] {
        let page = Reply::text("hello");
        let page = fields.iter().fold(page, |page, (name, value)| page.header(name, value));
        origin.site(host).page("/a", page.clone()).robots_reply(
            fields
                .iter()
                .fold(Reply::text("User-agent: *\nDisallow: /no\n"), |robots, (name, value)| {
                    robots.header(name, value)
                }),
        );
    }
    origin.site("old.test").http1_only();
    for host in ["new.test", "old.test"] {
        let answer = proxy.get(&format!("https://{host}/a"));
        assert_eq!((answer.status, answer.header("x-29")), (200, Some(&*policy)), "{host}");
        assert_eq!(proxy.get(&format!("https://{host}/no")).status, 403, "{host}");
    }
}
