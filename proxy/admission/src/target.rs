//! Resolves the request target, `Host` and the tunnel to a target: the origin and the path that will be sent.

use wayleave_decision::{Reason, Refusal, ResolvedTarget, TargetScope};
use wayleave_http_wire::http1::request_override::{self, RequestOverride};
use wayleave_http_wire::request_target::{self, RequestTarget, TargetError};
use wayleave_robots_txt::{Origin, Target, UrlScheme};

use super::request::{ClientConnection, RequestView};

/// Returns the target of a request.
///
/// Without a tunnel only the absolute form names an origin (RFC 9112 section 3.2.2), and a differing `Host` is ignored. Inside a
/// tunnel the origin is the tunnel's; a request that names another one is refused, so that nobody reaches one origin by
/// another's name. A client that knows no proxy names the origin in the `Host` of each request.
///
/// # Errors
///
/// Returns the refusal if there is no target, or if the request contradicts its tunnel.
pub fn resolve(
    connection: &ClientConnection,
    request: &RequestView<'_>,
) -> Result<ResolvedTarget, Refusal> {
    let request_target = RequestTarget {
        method: request.method,
        target: &request.target,
        scheme: request.scheme,
        authority: request.authority,
    };
    let target = match (&connection.tunnel, &connection.dialled) {
        (None, None) => request_target.resolve(),
        (None, Some(dialled)) => dialled.origin_of(request.authority).and_then(|origin| {
            // `Host` has been compared, as far as it must agree: it may lack the port.
            RequestTarget { authority: None, ..request_target }.resolve_in_tunnel(&origin)
        }),
        (Some(tunnel), _) => match &tunnel.foreign_server_name {
            // Refused only now, because here the client gets an answer: in the TLS handshake it would only see an alert.
            Some(name) => return Err(foreign_server_name(name, &tunnel.origin)),
            None => request_target.resolve_in_tunnel(&tunnel.origin),
        },
    }
    .map_err(refusal)?;
    // Some servers serve such a host or path instead of the target's, which alone would have been decided.
    for (kind, value) in &request.other_targets {
        if *kind == RequestOverride::Path && !is_for(value, &target) {
            let details = "a field that overrides the path differs from the request target";
            return Err(Refusal::malformed(details));
        }
        let hosts = request_override::hosts(*kind, value);
        if !hosts.iter().all(|host| is_host_of(host, target.origin())) {
            let details = "a field that overrides the host differs from the request target";
            return Err(Refusal::malformed(details));
        }
    }
    let scope = if request_target.is_server_wide_options() {
        TargetScope::Server
    // Always allowed is only to read it (RFC 9309 section 2.2.2).
    } else if request.only_reads && target.path().as_str() == "/robots.txt" {
        TargetScope::RobotsTxt
    } else {
        TargetScope::Path
    };
    Ok(ResolvedTarget { target, scope })
}

/// Returns whether a host, with or without a port, is that of `origin`.
fn is_host_of(host: &[u8], origin: &Origin) -> bool {
    str::from_utf8(host).is_ok_and(|host| {
        host.eq_ignore_ascii_case(origin.host())
            || Origin::from_authority(origin.scheme(), host).as_ref() == Ok(origin)
    })
}

/// Returns the target of an uninspected tunnel.
///
/// # Errors
///
/// Returns the refusal if the origin cannot be part of a URI.
pub fn resolve_blind(origin: &Origin, scope: TargetScope) -> Result<ResolvedTarget, Refusal> {
    ResolvedTarget::blind(origin.clone(), scope).map_err(|error| refusal(error.into()))
}

/// Returns whether a path, or a URL, is the same as the target.
fn is_for(path: &[u8], target: &Target) -> bool {
    let named = match str::from_utf8(path) {
        Ok(path) if path.starts_with('/') => Target::new(target.origin().clone(), path),
        Ok(url) => Target::parse(url),
        Err(_) => return false,
    };
    named.as_ref() == Ok(target)
}

/// Returns the origin of a `CONNECT`. Its scheme shows with the first byte inside.
///
/// # Errors
///
/// Returns the refusal if the authority is malformed or has no port (RFC 9110 section 9.3.6).
pub fn resolve_connect(authority: &str, scheme: UrlScheme) -> Result<Origin, Refusal> {
    request_target::connect_origin(authority, scheme).map_err(refusal)
}

/// Returns whether a TLS handshake with this server name is with `origin`'s host.
pub fn names_host_of(server_name: &str, origin: &Origin) -> bool {
    let host = origin.host().trim_start_matches('[').trim_end_matches(']');
    server_name.trim_end_matches('.').eq_ignore_ascii_case(host)
}

/// Returns the refusal of a TLS handshake with another host than the tunnel's.
pub fn foreign_server_name(name: &str, origin: &Origin) -> Refusal {
    misdirected(format!("the TLS handshake named {name}, but the tunnel is to {origin}"))
}

/// Returns the refusal of TLS in a tunnel that was requested, and judged, as one for plain HTTP.
pub fn unexpected_tls_in_tunnel(origin: &Origin) -> Refusal {
    misdirected(format!("TLS in a tunnel to {origin}"))
}

fn misdirected(details: String) -> Refusal {
    Refusal::new(Reason::Misdirected, details)
}

fn refusal(unresolved: TargetError) -> Refusal {
    match unresolved {
        TargetError::Malformed(details) => Refusal::malformed(details),
        TargetError::Misdirected(details) => misdirected(details),
        TargetError::Scheme(details) => Refusal::new(Reason::UnsupportedScheme, details),
        TargetError::TooLong(details) => Refusal::new(Reason::TargetTooLong, details),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{ConnectTunnel, DialledDestination};

    fn request<'a>(target: &'a str, authority: Option<&'a str>) -> RequestView<'a> {
        RequestView {
            method: "GET",
            target: target.into(),
            scheme: None,
            authority,
            user_agent: b"",
            credentials: None,
            purposes: Vec::new(),
            via: None,
            only_reads: true,
            other_targets: Vec::new(),
            objection: None,
        }
    }

    fn plain() -> ClientConnection {
        ClientConnection::new([127, 0, 0, 1].into())
    }

    /// Returns the connection of a client that dialled this address, or this name by SOCKS5.
    fn captured(host: &str, port: u16) -> ClientConnection {
        ClientConnection { dialled: DialledDestination::new(host, port).ok(), ..plain() }
    }

    fn tunnelled(foreign_server_name: Option<&str>) -> ClientConnection {
        let origin = resolve_connect("shop.test:443", UrlScheme::Https).unwrap();
        let foreign_server_name = foreign_server_name.map(str::to_owned);
        ClientConnection {
            tunnel: Some(ConnectTunnel { origin, foreign_server_name, via: None }),
            ..plain()
        }
    }

    fn resolved(
        connection: &ClientConnection,
        target: &str,
        authority: Option<&str>,
    ) -> Result<String, u16> {
        resolve(connection, &request(target, authority))
            .map(|resolved| resolved.target.to_string())
            .map_err(|refusal| refusal.status)
    }

    #[test]
    fn the_absolute_form_decides_and_host_does_not() {
        let target = resolved(&plain(), "http://Shop.test:80/a?b", Some("other.test"));
        assert_eq!(target.as_deref(), Ok("http://shop.test/a?b"));
    }

    #[test]
    fn targets_without_an_origin_are_malformed() {
        assert_eq!(resolved(&plain(), "/a", Some("shop.test")), Err(400));
        assert_eq!(resolved(&plain(), "*", Some("shop.test")), Err(400));
        assert_eq!(resolved(&plain(), "shop.test:80", None), Err(501));
    }

    #[test]
    fn other_schemes_are_not_implemented() {
        assert_eq!(resolved(&plain(), "gopher://shop.test/a", None), Err(501));
    }

    #[test]
    fn a_tunnel_fixes_the_origin() {
        let tunnel = tunnelled(None);
        for authority in ["shop.test", "SHOP.test:443"] {
            let target = resolved(&tunnel, "/a", Some(authority));
            assert_eq!(target.as_deref(), Ok("https://shop.test/a"), "{authority}");
        }
        assert_eq!(
            resolved(&tunnel, "https://shop.test/a", None).as_deref(),
            Ok("https://shop.test/a")
        );
        assert_eq!(resolved(&tunnel, "/a", Some("other.test")), Err(421));
        assert_eq!(resolved(&tunnel, "/a", Some("shop.test:8443")), Err(421));
        assert_eq!(resolved(&tunnel, "https://other.test/a", Some("shop.test")), Err(421));
        assert_eq!(resolved(&tunnel, "http://shop.test/a", Some("shop.test")), Err(421));
    }

    #[test]
    fn a_captured_request_is_for_its_host_at_the_dialled_port() {
        let connection = captured("192.0.2.7", 80);
        for authority in ["shop.test", "SHOP.test:80"] {
            let target = resolved(&connection, "/a", Some(authority));
            assert_eq!(target.as_deref(), Ok("http://shop.test/a"), "{authority}");
        }
        let target = resolved(&captured("shop.test", 80), "/a", Some("other.test"));
        assert_eq!(target.as_deref(), Ok("http://other.test/a"));
        let target = resolved(&captured("192.0.2.7", 443), "/a", Some("shop.test"));
        assert_eq!(target.as_deref(), Ok("http://shop.test:443/a"));
        // Only HTTP/1.0 may lack `Host`.
        assert_eq!(resolved(&connection, "/a", None).as_deref(), Ok("http://192.0.2.7/a"));
        let target = resolved(&captured("[2001:db8::7]", 8080), "/a", None);
        assert_eq!(target.as_deref(), Ok("http://[2001:db8::7]:8080/a"));
        let target = resolved(&connection, "http://shop.test/a", Some("shop.test"));
        assert_eq!(target.as_deref(), Ok("http://shop.test/a"));
    }

    #[test]
    fn a_captured_request_that_contradicts_itself_is_refused() {
        let connection = captured("192.0.2.7", 80);
        assert_eq!(resolved(&connection, "/a", Some("shop.test:8080")), Err(421));
        assert_eq!(resolved(&connection, "http://other.test/a", Some("shop.test")), Err(421));
        assert_eq!(resolved(&connection, "https://shop.test/a", Some("shop.test")), Err(421));
        assert_eq!(resolved(&connection, "/a", Some("a@shop.test")), Err(400));
        assert_eq!(resolved(&connection, "shop.test:80", Some("shop.test")), Err(501));
    }

    #[test]
    fn fields_that_name_another_host_or_path_are_malformed() {
        let is_resolved = |kind, value: &'static str| {
            let request = RequestView {
                other_targets: vec![(kind, value.as_bytes())],
                ..request("http://shop.test:8080/a?b", None)
            };
            resolve(&plain(), &request).is_ok()
        };
        use RequestOverride::{ForwardedHost, Host, Path};
        for (kind, value, is_expected) in [
            (Host, "SHOP.test:8080", true),
            (Host, "shop.test", true),
            (Host, "shop.test, shop.test", true),
            (Host, "shop.test:80", false),
            (Host, "other.test", false),
            (Host, "shop.test, other.test", false),
            (Host, "", false),
            (ForwardedHost, "for=192.0.2.1", true),
            (ForwardedHost, "for=192.0.2.1;host=\"shop.test:8080\"", true),
            (ForwardedHost, "host=shop.test, host=other.test", false),
            (Path, "/a?b", true),
            (Path, "/a", false),
        ] {
            assert_eq!(is_resolved(kind, value), is_expected, "{kind:?} {value}");
        }
    }

    #[test]
    fn options_may_be_for_the_whole_server() {
        let sent = |connection: &ClientConnection, target: &str| {
            let request = RequestView { method: "OPTIONS", ..request(target, None) };
            resolve(connection, &request).map(|resolved| resolved.path().to_owned()).ok()
        };
        assert_eq!(sent(&plain(), "http://shop.test").as_deref(), Some("*"));
        assert_eq!(sent(&plain(), "http://shop.test/").as_deref(), Some("/"));
        assert_eq!(sent(&plain(), "*"), None);
        assert_eq!(sent(&tunnelled(None), "*").as_deref(), Some("*"));
        for path in ["/public://x", "/://", "/?http://x"] {
            assert_eq!(sent(&tunnelled(None), path).as_deref(), Some(path));
        }
    }

    #[test]
    fn a_foreign_server_name_is_misdirected() {
        assert_eq!(resolved(&tunnelled(Some("other.test")), "/a", Some("shop.test")), Err(421));
    }
}
