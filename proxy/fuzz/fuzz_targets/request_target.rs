//! Where a request goes is told by one thing alone, and what is judged is what is sent.

#![no_main]

#[path = "../../src/http/ftp_path.rs"]
#[allow(dead_code, reason = "the proxy uses the rest")]
mod ftp_path;
#[path = "../../src/http/request_target.rs"]
#[allow(dead_code, reason = "the proxy uses the rest")]
mod request_target;

use libfuzzer_sys::fuzz_target;
use request_target::RequestTarget;
use wayleave_robots_txt::{Origin, Scheme, Target};

// Five lines: method, target, the tunnel's authority, Host, and HTTP/2's scheme, which may be missing.
fuzz_target!(|text: &str| {
    let mut lines = text.split('\n');
    let (Some(method), Some(target), Some(tunnel), Some(host)) =
        (lines.next(), lines.next(), lines.next(), lines.next())
    else {
        return;
    };
    let named = RequestTarget { method, target, scheme: lines.next(), authority: Some(host) };
    if let Ok(resolved) = named.in_the_open() {
        let without_host = RequestTarget { authority: None, scheme: None, ..named };
        assert_eq!(without_host.in_the_open().as_ref(), Ok(&resolved), "Host counts for nothing");
        check(&resolved);
    }
    let Ok(origin) = request_target::connect(tunnel, Scheme::Https) else { return };
    check_connect(tunnel, &origin);
    if let Ok(resolved) = named.in_tunnel(&origin) {
        assert_eq!(resolved.origin(), &origin, "a tunnel is to one origin");
        let named_by_host = Origin::from_authority(Scheme::Https, host);
        assert_eq!(named_by_host.as_ref(), Ok(&origin), "Host agrees");
        check(&resolved);
    }
});

/// What is sent in the next request line is this target and nothing else.
fn check(target: &Target) {
    assert_eq!(Target::parse(&target.to_string()).as_ref(), Ok(target));
    let path = target.path();
    assert!(path.as_str().starts_with('/'), "{path:?}");
    assert!(!path.as_str().contains(|c: char| c.is_ascii_control() || c == ' ' || c == '#'), "{path:?}");
    let authority = target.origin().authority();
    let is_sendable = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    assert!(authority.bytes().all(is_sendable), "{authority:?}");
}

fn check_connect(authority: &str, origin: &Origin) {
    assert!(!authority.contains(['@', '/', '?', '#', '\\', ' ']), "{authority:?}");
    let again = format!("{}:{}", origin.host(), origin.port());
    assert_eq!(request_target::connect(&again, Scheme::Https).as_ref(), Ok(origin));
    let port = authority.rsplit_once(':').expect("there is a port").1;
    assert_eq!(port.parse(), Ok(origin.port()));
}
