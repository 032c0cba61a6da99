//! Requests that wayleave sends a second time: they take a turn, as any other.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::harness::{Origin, Reply, Request, Wayleave};
use crate::organisation::signing;

const ASKS: &str = "sig1=(\"@authority\");created;nonce=\"once\"";
const SECOND: Duration = Duration::from_secs(1);

fn news(url: &str) -> Request {
    Request::get(url).agent("NewsBot/1.0")
}

#[test]
fn a_request_that_is_repeated_with_a_signature_takes_a_turn() {
    for mode in ["reject", "wait"] {
        let signing = signing::start("on-request", |settings| {
            settings.set("politeness.crawl_delay", &format!("{mode:?}"))
        });
        let site = signing.origin.site("shop.test").robots("User-agent: *\nCrawl-delay: 1\n");
        site.unsigned(Reply::new(401).header("Accept-Signature", ASKS));
        assert_eq!(signing.proxy.exchange(&news("http://shop.test/a")).status, 200, "{mode}");
        let requests = signing.origin.requests();
        let pages = requests.iter().filter(|request| request.target == "/a");
        let arrivals: Vec<_> = pages.map(|request| request.at).collect();
        assert_eq!(arrivals.len(), 2, "{:?}", signing.origin.seen());
        let gap = arrivals[1] - arrivals[0];
        assert!(gap >= SECOND, "{gap:?}, {mode}");
    }
}

#[test]
fn nothing_is_repeated_after_a_429() {
    let signing = signing::start("on-request", |settings| settings);
    let reply = Reply::new(429).header("Accept-Signature", ASKS).header("Retry-After", "100");
    signing.origin.site("shop.test").unsigned(reply);
    assert_eq!(signing.proxy.exchange(&news("http://shop.test/a")).status, 429);
    let problem = signing.proxy.exchange(&news("http://shop.test/b")).json();
    assert_eq!(problem["reason"], "origin-rests", "{problem}");
    assert_eq!(signing.origin.count_gets("http://shop.test/a"), 1);
    assert_eq!(signing.origin.count_gets("http://shop.test/b"), 0);
}

/// The requests that an origin read: when, and of which connection and target.
type Arrivals = Arc<Mutex<Vec<(Instant, usize, String)>>>;

/// Starts an origin that closes each connection instead of answering its second request.
fn forgetful(robots: &'static str) -> (SocketAddr, Arrivals) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let arrivals = Arrivals::default();
    let record = Arc::clone(&arrivals);
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let record = Arc::clone(&record);
            std::thread::spawn(move || serve_once(stream, number, robots, &record));
        }
    });
    (address, arrivals)
}

fn serve_once(mut stream: TcpStream, number: usize, robots: &str, arrivals: &Arrivals) {
    for is_answered in [true, false] {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if !matches!(stream.read(&mut byte), Ok(1)) {
                return;
            }
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head);
        let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let body = if target == "/robots.txt" { robots } else { "a page" };
        arrivals.lock().expect("no test panics with it").push((Instant::now(), number, target));
        if is_answered {
            let length = body.len();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
            let _maybe_closed = stream.write_all(answer.as_bytes());
        }
    }
}

#[test]
fn a_request_that_met_a_stale_connection_takes_a_turn() {
    for (robots, least) in [("User-agent: *\nCrawl-delay: 1\n", SECOND), ("", Duration::ZERO)] {
        let origin = Origin::start();
        let (address, arrivals) = forgetful(robots);
        let proxy = Wayleave::start_with(&origin, |settings| {
            settings.resolve("forgetful.test:80", address)
        });
        // On the connection on which robots.txt was fetched.
        assert_eq!(proxy.get("http://forgetful.test/a").status, 200, "{least:?}");
        let arrivals = arrivals.lock().expect("no thread panics").clone();
        let order: Vec<_> =
            arrivals.iter().map(|(_, number, target)| (*number, &**target)).collect();
        assert_eq!(order, [(0, "/robots.txt"), (0, "/a"), (1, "/a")]);
        let gap = arrivals[2].0 - arrivals[1].0;
        assert!(gap >= least, "{gap:?}");
    }
}

#[test]
fn repeats_do_not_wait_where_the_pace_is_only_observed() {
    let signing =
        signing::start("on-request", |settings| settings.set("proxy.mode", "\"observe\""));
    let site = signing.origin.site("shop.test").robots("User-agent: *\nCrawl-delay: 3600\n");
    site.unsigned(Reply::new(401).header("Accept-Signature", ASKS));
    assert_eq!(signing.proxy.exchange(&news("http://shop.test/a")).status, 200);
    assert_eq!(signing.origin.count_gets("http://shop.test/a"), 2);
}
