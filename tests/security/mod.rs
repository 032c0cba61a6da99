//! Attempts to evade the proxy, as named cases of raw bytes. Each is checked by what reached the origin.

mod captured;
mod content;
mod foreign_text;
mod framing;
mod hidden;
mod http2;
mod internal;
mod named_hosts;
mod names;
mod own_addresses;
mod proxied_http2;
mod secrets;
mod spellings;
mod subresources;
mod targets;
mod trailers;
mod tunnels;
mod websocket;

use std::collections::HashSet;

use crate::harness::{Origin, Wayleave, Wire};

/// Bytes on one connection, and the expected outcome.
pub struct Case {
    pub name: &'static str,
    /// The bytes that the client sends before it ends its side.
    pub bytes: &'static str,
    /// The statuses of all responses until the proxy closes.
    pub statuses: &'static [u16],
    /// The targets of all requests that reached the origin, except robots.txt.
    pub reaches: &'static [&'static str],
}

/// Returns a case that is refused with 400, and of which nothing reaches the origin.
pub const fn malformed(name: &'static str, bytes: &'static str) -> Case {
    Case { name, bytes, statuses: &[400], reaches: &[] }
}

/// Starts `shop.test`, of which a part is disallowed, and `other.test`, of which nothing is.
pub fn shop() -> Origin {
    let origin = Origin::start();
    let robots = "User-agent: *\nDisallow: /private\nDisallow: /*.cgi$\nAllow: /private/open\n";
    origin.site("shop.test").robots(robots);
    origin.site("xn--bcher-kva.test").robots(robots);
    origin.site("shut.test").disallows("/");
    origin
}

/// Returns the statuses of all responses until the connection ends. Expects complete refusals.
pub fn statuses(wire: &mut Wire) -> Vec<u16> {
    let mut statuses = Vec::new();
    while let Ok(Some(answer)) = wire.try_response(false) {
        if answer.status >= 400 {
            let error = answer.proxy_status().error;
            answer.expect_refusal(answer.status, None, &error);
        }
        statuses.push(answer.status);
    }
    statuses
}

/// Returns the requests that reached the origin after the first `before`, except for robots.txt.
pub fn reached(origin: &Origin, before: usize) -> Vec<String> {
    let requests = origin.requests();
    let new = requests.iter().skip(before);
    new.filter(|request| request.target != "/robots.txt")
        .map(|request| request.target.clone())
        .collect()
}

#[track_caller]
pub fn check(case: &Case, origin: &Origin, mut wire: Wire) {
    let before = origin.requests().len();
    // The proxy may respond and close before it has read everything.
    let _maybe_closed = wire.try_send(case.bytes);
    let _maybe_closed = wire.tcp.shutdown(std::net::Shutdown::Write);
    let name = case.name;
    assert_eq!(statuses(&mut wire), case.statuses, "{name}");
    assert_eq!(reached(origin, before), case.reaches, "{name}");
}

/// Checks a table against one proxy, each case on its own connection.
#[track_caller]
pub fn check_all(cases: &[Case]) {
    let origin = shop();
    let proxy = Wayleave::start(&origin);
    for case in cases {
        check(case, &origin, proxy.connect());
    }
}

#[test]
fn there_are_at_least_150_cases_with_different_names() {
    let tables = [
        ("targets", targets::names()),
        ("captured", captured::names()),
        ("content", content::names()),
        ("framing", framing::names()),
        ("hidden", hidden::names()),
        ("trailers", trailers::names()),
        ("tunnels", tunnels::names()),
        ("websocket", websocket::names()),
        ("http2", http2::names()),
        ("proxied http2", proxied_http2::names()),
        ("internal", internal::names()),
        ("names", names::names()),
    ];
    for (table, names) in &tables {
        println!("{table}: {} cases", names.len());
    }
    let all: Vec<_> = tables.iter().flat_map(|(_, names)| names).collect();
    println!("in all: {} cases", all.len());
    let different: HashSet<_> = all.iter().collect();
    assert_eq!(different.len(), all.len(), "two cases have the same name");
    assert!(all.len() >= 150, "{}", all.len());
}
