//! Request fields that make a server use another host, path or method than the request itself states.

/// The part of the request that a field overrides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOverride {
    Host,
    /// The host, in the parameter `host` of `Forwarded` (RFC 7239 section 5.3).
    ForwardedHost,
    Path,
    Method,
}

/// Honoured by frameworks that trust the proxy in front of them, by Django, Rails, Symfony, Laravel and Spring for example,
/// and by load balancers and caches with such rules.
const HOST_OVERRIDES: [&[u8]; 5] = [
    b"x-forwarded-host",
    b"x-host",
    b"x-original-host",
    b"x-http-host-override",
    b"x-backend-host",
];
/// The first two are honoured by IIS with URL Rewrite or ISAPI_Rewrite, and by Symfony, Zend and Laminas everywhere; the others
/// by servers behind nginx, Traefik, Caddy and Envoy that route by the path which their proxy was asked for, or remove a prefix.
const PATH_OVERRIDES: [&[u8]; 14] = [
    b"x-original-url",
    b"x-rewrite-url",
    b"x-original-uri",
    b"x-rewrite-uri",
    b"x-forwarded-uri",
    b"x-forwarded-url",
    b"x-forwarded-path",
    b"x-forwarded-prefix",
    b"x-http-path-override",
    b"x-original-path",
    b"x-envoy-original-path",
    b"x-replaced-path",
    b"x-request-uri",
    b"x-script-name",
];
/// Honoured by Rack, Symfony, Laravel, Express and similar frameworks, ASP.NET and OData services.
const METHOD_OVERRIDES: [&[u8]; 3] =
    [b"x-http-method-override", b"x-method-override", b"x-http-method"];

/// Returns the part of a request that a field of this name overrides, if any. CGI and its successors read `_` as `-` (RFC
/// 3875 section 4.1.18).
pub fn from_field_name(name: &[u8]) -> Option<RequestOverride> {
    // Most names need no comparison with two dozen others.
    if !matches!(name.first(), Some(b'x' | b'X' | b'f' | b'F')) {
        return None;
    }
    let is_named = |known: &&[u8]| {
        name.len() == known.len()
            && name.iter().zip(*known).all(|(found, known)| {
                found.eq_ignore_ascii_case(known) || (*found == b'_' && *known == b'-')
            })
    };
    if HOST_OVERRIDES.iter().any(is_named) {
        Some(RequestOverride::Host)
    } else if is_named(&&b"forwarded"[..]) {
        Some(RequestOverride::ForwardedHost)
    } else if PATH_OVERRIDES.iter().any(is_named) {
        Some(RequestOverride::Path)
    } else if METHOD_OVERRIDES.iter().any(is_named) {
        Some(RequestOverride::Method)
    } else {
        None
    }
}

/// Returns the hosts that the values of such a field name.
pub fn hosts(kind: RequestOverride, value: &[u8]) -> Vec<&[u8]> {
    match kind {
        RequestOverride::Host => {
            value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).collect()
        }
        RequestOverride::ForwardedHost => forwarded_hosts(value).collect(),
        RequestOverride::Path | RequestOverride::Method => Vec::new(),
    }
}

/// Returns the hosts in `Forwarded`. Servers differ in how they read quotes, so a parameter within quotes is read, too.
fn forwarded_hosts(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| b",;".contains(byte)).filter_map(|parameter| {
        let at = parameter.iter().position(|&byte| byte == b'=')?;
        let name = trim_quotes(&parameter[..at]);
        name.eq_ignore_ascii_case(b"host").then(|| trim_quotes(&parameter[at + 1..]))
    })
}

fn trim_quotes(text: &[u8]) -> &[u8] {
    let is_outside = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'"';
    let start = text.iter().position(|byte| !is_outside(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_outside(byte)).map_or(start, |last| last + 1);
    &text[start..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn override_names_match_in_every_spelling() {
        assert_eq!(from_field_name(b"X-Original-URL"), Some(RequestOverride::Path));
        assert_eq!(from_field_name(b"x_rewrite-url"), Some(RequestOverride::Path));
        assert_eq!(from_field_name(b"X_HTTP_METHOD_OVERRIDE"), Some(RequestOverride::Method));
        assert_eq!(from_field_name(b"X-Http-Method"), Some(RequestOverride::Method));
        assert_eq!(from_field_name(b"X_Forwarded-Host"), Some(RequestOverride::Host));
        assert_eq!(from_field_name(b"FORWARDED"), Some(RequestOverride::ForwardedHost));
        for other in ["X-Forwarded-For", "X-Original-URL-", "Original-URL", "X"] {
            assert_eq!(from_field_name(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn hosts_are_found_in_every_form_of_forwarded() {
        let named = |kind, value: &'static str| {
            let hosts = hosts(kind, value.as_bytes()).into_iter();
            hosts.map(|host| str::from_utf8(host).unwrap()).collect::<Vec<_>>()
        };
        for (value, hosts) in [
            ("for=192.0.2.60;proto=http;by=203.0.113.43", &[][..]),
            ("for=192.0.2.60;host=a.test", &["a.test"]),
            ("Host=\"a.test:8080\", for=x; HOST = b.test", &["a.test:8080", "b.test"]),
            ("for=\"x;host=a.test\"", &["a.test"]),
            ("host=", &[""]),
            ("\"", &[]),
        ] {
            assert_eq!(named(RequestOverride::ForwardedHost, value), hosts, "{value}");
        }
        assert_eq!(named(RequestOverride::Host, "a.test, b.test:80"), ["a.test", "b.test:80"]);
        assert_eq!(named(RequestOverride::Path, "/a"), [""; 0]);
    }
}
