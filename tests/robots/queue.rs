//! The queue of robots.txt fetches: crawlers wait for their own fetches, not for those of others (the README of proxy/robots-cache/src/queue).

use std::io::Write as _;
use std::net::TcpStream;

use crate::harness::client::reset_when_dropped;
use crate::harness::origin::reply::Step;
use crate::harness::{Origin, Reply, Request, Wayleave, eventually};

/// The number of fetches that one client may have in progress.
const SHARE: usize = 224;

/// Returns the number of tarpits whose robots.txt was requested.
fn requested_tarpits(origin: &Origin) -> usize {
    let requests = origin.requests();
    let tarpits = requests.iter().filter(|request| request.host().starts_with("tarpit"));
    tarpits.count()
}

#[test]
fn tarpits_of_one_crawler_delay_no_other_crawler() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| settings.crawler("news", "NewsBot"));
    let get = |url: &str| proxy.get_as("NewsBot/1", url).status;
    assert_eq!(get("http://known.test/a"), 200);
    let tarpits: Vec<_> = (0..SHARE + 200)
        .map(|number| {
            let host = format!("tarpit{number}.test");
            origin.site(&host).robots_reply(Reply::nothing(Step::Hang));
            let url = format!("http://{host}/a");
            let mut wire = TcpStream::connect(proxy.proxy).expect("it listens");
            reset_when_dropped(&wire);
            let request = Request::get(&url).agent("Other/1").absolute_form();
            wire.write_all(&request).expect("it can be sent");
            wire
        })
        .collect();
    eventually("a client has its share of fetches", || requested_tarpits(&origin) >= SHARE);
    for number in 0..20 {
        assert_eq!(get(&format!("http://new{number}.test/a")), 200, "{number}");
        assert_eq!(get(&format!("http://known.test/{number}")), 200, "{number}");
    }
    assert_eq!(requested_tarpits(&origin), SHARE, "no tarpit was given up first");
    // No request waits for the other tarpits any more, so they are never requested.
    drop(tarpits);
    eventually("all connections of clients are closed", || {
        proxy.metric("wayleave_client_connections", &[]) == 0.0
    });
    eventually("the first tarpits are given up", || {
        let given_up = [("result", "unreachable")];
        proxy.metric("wayleave_robots_fetches_total", &given_up) >= SHARE as f64
    });
    assert_eq!(get("http://tarpit0.test/a"), 503);
    assert_eq!(requested_tarpits(&origin), SHARE);
}
