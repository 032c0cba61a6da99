//! One part of a request alone determines its destination, and the target that is judged is the one that is sent.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wayleave_http_wire::request_target::{self, RequestTarget};
use wayleave_robots_txt::{Origin, Target, UrlScheme};

// Five lines: method, target, the tunnel's authority, Host, and HTTP/2's scheme, which is optional.
fuzz_target!(|text: &str| {
    let mut lines = text.split('\n');
    let (Some(method), Some(target), Some(tunnel), Some(host)) =
        (lines.next(), lines.next(), lines.next(), lines.next())
    else {
        return;
    };
    let named = RequestTarget { method, target, scheme: lines.next(), authority: Some(host) };
    if let Ok(resolved) = named.resolve() {
        let without_host = RequestTarget { authority: None, scheme: None, ..named };
        assert_eq!(without_host.resolve().as_ref(), Ok(&resolved), "Host is ignored");
        check(&resolved);
    }
    let Ok(origin) = request_target::connect_origin(tunnel, UrlScheme::Https) else { return };
    check_connect(tunnel, &origin);
    if let Ok(resolved) = named.resolve_in_tunnel(&origin) {
        assert_eq!(resolved.origin(), &origin, "a tunnel is to one origin");
        let named_by_host = Origin::from_authority(UrlScheme::Https, host);
        assert_eq!(named_by_host.as_ref(), Ok(&origin), "Host agrees");
        check(&resolved);
    }
});

/// Asserts that the target survives being written into a request line.
fn check(target: &Target) {
    assert_eq!(Target::parse(&target.to_string()).as_ref(), Ok(target));
    let path = target.path();
    assert!(path.as_str().starts_with('/'), "{path:?}");
    assert!(
        !path.as_str().contains(|c: char| c.is_ascii_control() || c == ' ' || c == '#'),
        "{path:?}"
    );
    let authority = target.origin().authority();
    assert!(
        authority.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte)),
        "{authority:?}"
    );
}

fn check_connect(authority: &str, origin: &Origin) {
    assert!(!authority.contains(['@', '/', '?', '#', '\\', ' ']), "{authority:?}");
    let again = format!("{}:{}", origin.host(), origin.port());
    assert_eq!(request_target::connect_origin(&again, UrlScheme::Https).as_ref(), Ok(origin));
    let port = authority.rsplit_once(':').expect("there is a port").1;
    assert_eq!(port.parse(), Ok(origin.port()));
}
