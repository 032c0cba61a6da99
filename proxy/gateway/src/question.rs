//! The request that a gateway asks about, read from its request to us in one of three forms. It becomes the head that the proxy
//! would have received, so that every check of a head is the proxy's own.

use std::borrow::Cow;

use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;
use wayleave_http_wire::http1::HeadError;
use wayleave_http_wire::received::ReceivedHead;

use crate::mistake::Mistake;

const METHOD: &str = "x-forwarded-method";
pub(crate) const SCHEME: &str = "x-forwarded-proto";
const AUTHORITY: &str = "x-forwarded-host";
const TARGET: &str = "x-forwarded-uri";
/// The fields of the form in which these alone are the request.
const FORWARDED: [&str; 4] = [METHOD, SCHEME, AUTHORITY, TARGET];

/// The fields that are about the message to us, and not about the client's.
pub(crate) const OF_OUR_MESSAGE: [&str; 9] = [
    "host",
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "content-length",
    "expect",
];

/// The reason why there is no request to decide about.
#[derive(Debug)]
pub(crate) enum QuestionError {
    /// The gateway asks in none of the ways that there are.
    Mistake(Mistake),
    /// The proxy would not have read the request.
    Head(HeadError),
}

impl From<Mistake> for QuestionError {
    fn from(mistake: Mistake) -> Self {
        Self::Mistake(mistake)
    }
}

/// The parts of a request that is asked about.
struct AskedParts<'a> {
    method: Cow<'a, [u8]>,
    /// In absolute form, or the authority of a `CONNECT`.
    target: Cow<'a, [u8]>,
    host: Cow<'a, [u8]>,
    /// The fields of our message that stated these parts.
    stated_by: &'static [&'static str],
}

/// Reads the request that is asked about. `has_token`: `Authorization` is the gateway's own, not its client's.
///
/// # Errors
///
/// Returns the reason why there is none.
pub(crate) fn read(asking: &Parts, has_token: bool) -> Result<ReceivedHead, QuestionError> {
    let asked = match (asking.uri.path(), asking.uri.authority()) {
        (_, Some(_)) => return Err(Mistake::new("this is not a proxy: ask /check").into()),
        ("/check", None) => explicit_or_forwarded(asking)?,
        ("/forwarded", None) => forwarded(asking)?,
        (path, None) if path.starts_with("/request") => as_received(asking)?,
        _ => return Err(Mistake::not_found("ask /check, /forwarded or /request/...").into()),
    };
    let is_ours = |name: &HeaderName| {
        OF_OUR_MESSAGE.contains(&name.as_str())
            || asked.stated_by.contains(&name.as_str())
            || has_token && name == AUTHORIZATION
    };
    let fields = asking.headers.iter().filter(|(name, _)| !is_ours(name));
    let fields = fields.map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
    ReceivedHead::of_parts((&asked.method, &asked.target, &asked.host), fields)
        .map_err(QuestionError::Head)
}

/// Reads `/check?method=&url=`; without parameters, the fields of a gateway that cannot be set up to use another path.
fn explicit_or_forwarded(asking: &Parts) -> Result<AskedParts<'_>, Mistake> {
    let given: Vec<_> =
        FORWARDED.iter().filter(|name| asking.headers.contains_key(**name)).collect();
    match (asking.uri.query(), given.first()) {
        (Some(_), Some(name)) => Err(Mistake::new(format!(
            "the request is in the parameters, so {name} must not be there"
        ))),
        (None, Some(_)) => forwarded(asking),
        (None, None) => Err(Mistake::new(
            "the parameters method and url are missing, and so are X-Forwarded-Method, -Proto, -Host and -Uri",
        )),
        (Some(query), None) => explicit(query),
    }
}

/// Reads the parameters `method` and `url`.
fn explicit(query: &str) -> Result<AskedParts<'static>, Mistake> {
    let mut method = None;
    let mut url = None;
    for parameter in query.split('&') {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let place = match name {
            "method" => &mut method,
            "url" => &mut url,
            _ => return Err(Mistake::new("there are other parameters than method and url")),
        };
        let value: Vec<u8> = percent_decode_str(value).collect();
        if value.is_empty() || place.replace(value).is_some() {
            return Err(Mistake::new(format!("the parameter {name} must be there once")));
        }
    }
    let method = method.ok_or_else(|| Mistake::new("the parameter method is missing"))?;
    let url = url.ok_or_else(|| Mistake::new("the parameter url is missing"))?;
    let host = if method == b"CONNECT" { url.clone() } else { host_of(&url).to_owned() };
    Ok(AskedParts { method: method.into(), host: host.into(), target: url.into(), stated_by: &[] })
}

/// Returns the host and port of an absolute URL, as a client would state them in `Host`.
fn host_of(url: &[u8]) -> &[u8] {
    let after_scheme =
        url.windows(3).position(|part| part == b"://").map_or(url.len(), |at| at + 3);
    let rest = &url[after_scheme..];
    let end = rest.iter().position(|byte| b"/?#\\".contains(byte)).unwrap_or(rest.len());
    let userinfo_end = rest[..end].iter().rposition(|byte| *byte == b'@').map_or(0, |at| at + 1);
    &rest[userinfo_end..end]
}

/// Reads the four fields of nginx, Traefik and Caddy.
fn forwarded(asking: &Parts) -> Result<AskedParts<'_>, Mistake> {
    if asking.uri.query().is_some() {
        return Err(Mistake::new("the request is in the fields, so there must be no parameters"));
    }
    let method = single(asking, METHOD)?;
    let host = single_host(asking, AUTHORITY)?;
    let target = single(asking, TARGET)?;
    let scheme = scheme(asking)?;
    let target: Cow<'_, [u8]> = match method {
        b"CONNECT" => target.into(),
        _ => absolute_form(method, [scheme, host, target])
            .ok_or_else(|| Mistake::new("X-Forwarded-Uri does not begin with /"))?
            .into(),
    };
    let host = if method == b"CONNECT" { target.clone() } else { host.into() };
    Ok(AskedParts { method: method.into(), target, host, stated_by: &FORWARDED })
}

/// Reads the request of Envoy, which sends its client's method, path and `Host`.
fn as_received(asking: &Parts) -> Result<AskedParts<'_>, Mistake> {
    let method = asking.method.as_str().as_bytes();
    let host = single_host(asking, "host")?;
    let scheme = scheme(asking)?;
    let ours = asking.uri.path_and_query().map_or("", |path| path.as_str());
    let path = ours.strip_prefix("/request").unwrap_or_default();
    if method == b"CONNECT" {
        return Err(Mistake::new("ask /check about CONNECT"));
    }
    let target = absolute_form(method, [scheme, host, path.as_bytes()])
        .ok_or_else(|| Mistake::not_found("the client's path follows /request"))?;
    // The client's own fields of these names count as at the proxy: they must not name another target.
    Ok(AskedParts {
        method: method.into(),
        target: target.into(),
        host: host.into(),
        stated_by: &[SCHEME],
    })
}

/// Returns a target in absolute form, of its scheme, host and path; `None` if that is no path.
pub(crate) fn absolute_form(method: &[u8], [scheme, host, path]: [&[u8]; 3]) -> Option<Vec<u8>> {
    match (method, path) {
        (b"OPTIONS", b"*") => Some([scheme, b"://", host].concat()),
        (_, [b'/', ..]) => Some([scheme, b"://", host, path].concat()),
        _ => None,
    }
}

/// Returns whether a value of `Host` could be read as another host than it says.
pub(crate) fn is_ambiguous_host(host: &[u8]) -> bool {
    host.is_empty() || host.iter().any(|byte| b", \t@/\\?#".contains(byte))
}

/// Returns the scheme of the client's request. Traefik names that of a WebSocket.
fn scheme(asking: &Parts) -> Result<&'static [u8], Mistake> {
    match single(asking, SCHEME)? {
        b"http" | b"ws" => Ok(b"http"),
        b"https" | b"wss" => Ok(b"https"),
        _ => Err(Mistake::new("X-Forwarded-Proto is neither http nor https")),
    }
}

/// Returns a value that names one host.
fn single_host<'a>(asking: &'a Parts, name: &'static str) -> Result<&'a [u8], Mistake> {
    let host = single(asking, name)?;
    if is_ambiguous_host(host) {
        return Err(Mistake::new(format!("{} is not one host", shown(name))));
    }
    Ok(host)
}

/// Returns the value of a field that must be there once, and say something.
fn single<'a>(asking: &'a Parts, name: &'static str) -> Result<&'a [u8], Mistake> {
    let mut values = asking.headers.get_all(name).iter().map(HeaderValue::as_bytes);
    match (values.next(), values.next()) {
        (Some(value), None) if !value.is_empty() => Ok(value),
        _ => Err(Mistake::new(format!("{} must be there once", shown(name)))),
    }
}

/// Returns the name of a field as documents spell it.
fn shown(name: &'static str) -> &'static str {
    match name {
        METHOD => "X-Forwarded-Method",
        SCHEME => "X-Forwarded-Proto",
        AUTHORITY => "X-Forwarded-Host",
        TARGET => "X-Forwarded-Uri",
        _ => "Host",
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn asked(target: &str, fields: &[(&str, &str)]) -> Result<(String, String, String), String> {
        let mut request = Request::builder().uri(target);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        match read(&parts, true) {
            Ok(head) => {
                let host = head.field("host").unwrap_or_default();
                let host = String::from_utf8_lossy(host).into_owned();
                Ok((head.method().to_owned(), head.target().into_owned(), host))
            }
            Err(error) => Err(format!("{error:?}")),
        }
    }

    fn is(method: &str, target: &str, host: &str) -> Result<(String, String, String), String> {
        Ok((method.to_owned(), target.to_owned(), host.to_owned()))
    }

    #[test]
    fn each_form_states_the_same_request() {
        let host = ("host", "127.0.0.1:3141");
        let fields = [
            host,
            ("x-forwarded-method", "GET"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "shop.test:8443"),
            ("x-forwarded-uri", "/a%2fb?q=1&r"),
        ];
        let expected = is("GET", "https://shop.test:8443/a%2fb?q=1&r", "shop.test:8443");
        let url = "https%3A%2F%2Fshop.test%3A8443%2Fa%252fb%3Fq%3D1%26r";
        assert_eq!(asked(&format!("/check?method=GET&url={url}"), &[host]), expected);
        assert_eq!(asked("/forwarded", &fields), expected);
        assert_eq!(asked("/check", &fields), expected);
        let received = [("host", "shop.test:8443"), ("x-forwarded-proto", "https")];
        assert_eq!(asked("/request/a%2fb?q=1&r", &received), expected);
    }

    #[test]
    fn a_websocket_is_a_request_of_its_scheme() {
        for (named, scheme) in [("ws", "http"), ("wss", "https")] {
            let fields = [("host", "shop.test"), ("x-forwarded-proto", named)];
            let expected = is("GET", &format!("{scheme}://shop.test/a"), "shop.test");
            assert_eq!(asked("/request/a", &fields), expected);
        }
    }

    #[test]
    fn only_a_gateways_own_token_is_left_out() {
        let request = Request::builder().uri("/request/a").header("host", "shop.test");
        let request =
            request.header("x-forwarded-proto", "http").header("authorization", "Basic x");
        let (parts, ()) = request.body(()).unwrap().into_parts();
        for has_token in [false, true] {
            let head = read(&parts, has_token).unwrap();
            assert_eq!(head.field("authorization").is_some(), !has_token);
            assert!(head.field("x-forwarded-proto").is_none());
        }
    }

    #[test]
    fn a_tunnel_is_asked_about_by_its_authority() {
        let expected = is("CONNECT", "shop.test:443", "shop.test:443");
        assert_eq!(asked("/check?method=CONNECT&url=shop.test:443", &[]), expected);
        let fields = [
            ("x-forwarded-method", "CONNECT"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "shop.test"),
            ("x-forwarded-uri", "shop.test:443"),
        ];
        assert_eq!(asked("/forwarded", &fields), expected);
    }

    #[test]
    fn nothing_ends_a_part_but_its_end() {
        for part in ["GET%0d%0aX:%20y", "GET%20/", "G%09ET"] {
            let answer = asked(&format!("/check?method={part}&url=http://shop.test/"), &[]);
            assert!(answer.is_err_and(|error| error.contains("white space")), "{part}");
        }
        for url in ["http://shop.test/a%0d%0aHost:%20b.test", "http://shop.test/%20HTTP/1.1"] {
            let answer = asked(&format!("/check?method=GET&url={url}"), &[]);
            assert!(answer.is_err_and(|error| error.contains("white space")), "{url}");
        }
    }
}
