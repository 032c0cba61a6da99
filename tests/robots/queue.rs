//! The queue of robots.txt fetches: crawlers wait for their own fetches, not for those of others (docs/design.md).

use std::io::Write as _;
use std::net::TcpStream;

use crate::harness::client::reset_when_dropped;
use crate::harness::origin::reply::Step;
use crate::harness::{Origin, Reply, Request, Wayleave, eventually};

/// The number of fetches that one client may have in progress.
const SHARE: usize = 224;

/// Returns the number of tarpits whose robots.txt was requested.
fn asked_tarpits(origin: &Origin) -> usize {
    let requests = origin.requests();
    let tarpits = requests.iter().filter(|request| request.host().starts_with("tarpit"));
    tarpits.count()
}

#[test]
fn one_crawlers_tarpits_hold_up_no_other_crawler() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.table("[[crawler]]\nname = \"news\"\ntokens = [\"NewsBot\"]\nmatch = { user_agent = \"NewsBot\" }\n")
    });
    let get = |url: &str| proxy.get_as("NewsBot/1", url).status;
    assert_eq!(get("http://known.test/a"), 200);
    let tarpits: Vec<_> = (0..SHARE + 200)
        .map(|number| {
            let host = format!("tarpit{number}.test");
            origin.site(&host).robots_reply(Reply::nothing(Step::Hang));
            let url = format!("http://{host}/a");
            let mut wire = TcpStream::connect(proxy.proxy).expect("it listens");
            reset_when_dropped(&wire);
            let ask = Request::get(&url).agent("Other/1").absolute_form();
            wire.write_all(&ask).expect("it can be sent");
            wire
        })
        .collect();
    eventually("a client has its share of fetches", || asked_tarpits(&origin) >= SHARE);
    for number in 0..20 {
        assert_eq!(get(&format!("http://new{number}.test/a")), 200, "{number}");
        assert_eq!(get(&format!("http://known.test/{number}")), 200, "{number}");
    }
    assert_eq!(asked_tarpits(&origin), SHARE, "not one tarpit had to give up first");
    // Nobody waits for the others any more, so they are never asked.
    drop(tarpits);
    eventually("the clients' leaving is seen", || {
        proxy.metric("wayleave_client_connections", &[]) == 0.0
    });
    eventually("the first tarpits are given up", || {
        let given_up = [("result", "unreachable")];
        proxy.metric("wayleave_robots_fetches_total", &given_up) >= SHARE as f64
    });
    let named_again = "http://tarpit0.test/a";
    assert_eq!(get(named_again), 503);
    assert_eq!(asked_tarpits(&origin), SHARE);
}
