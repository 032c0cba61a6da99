//! The fields that change on the way: those of one hop end, those of the next begin
//! (RFC 9110 section 7.6).

use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, HOST, HeaderName, HeaderValue, TE, TRANSFER_ENCODING,
    UPGRADE,
};
use http::{HeaderMap, Method, StatusCode, Version};
use pingora_error::Error;
use pingora_http::{RequestHeader, ResponseHeader};
use wayleave_policy::Target;

const ALT_SVC: HeaderName = HeaderName::from_static("alt-svc");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

/// What framing a request needs on an HTTP/1 connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// None follows, or its length is in `Content-Length`.
    Delimited,
    /// It ends when it ends.
    Chunked,
}

/// The request as it goes on by HTTP/1.1: the target's own path and authority, no field meant for
/// the hop behind us, and our `Via`.
pub(super) fn onward_request(
    received: &RequestHeader,
    target: &Target,
    body: Body,
    name: &str,
) -> Result<RequestHeader, Box<Error>> {
    let count = received.headers.len() + 4;
    let mut request = RequestHeader::build(
        received.method.clone(),
        target.path().as_bytes(),
        Some(count),
    )?;
    request.set_version(Version::HTTP_11);
    request.insert_header(HOST, target.origin().authority())?;
    let spellings = received.case_header_iter().map(|(spelling, _)| spelling);
    for (field, spelling, value) in end_to_end(&received.headers, spellings) {
        if field != HOST && field != COOKIE {
            match spelling {
                Some(spelling) => request.append_header(spelling, value.clone())?,
                None => request.append_header(field, value.clone())?,
            };
        }
    }
    if let Some(cookies) = one_cookie_field(&received.headers) {
        request.insert_header(COOKIE, cookies)?;
    }
    if received
        .headers
        .get(TE)
        .is_some_and(|te| te.as_bytes().eq_ignore_ascii_case(b"trailers"))
    {
        request.insert_header(TE, "trailers")?;
    }
    if asks_for_websocket(received) {
        request.insert_header(CONNECTION, "Upgrade")?;
        request.insert_header(UPGRADE, "websocket")?;
    }
    if body == Body::Chunked {
        request.insert_header(TRANSFER_ENCODING, "chunked")?;
    }
    request.append_header("Via", via(received.version, name))?;
    Ok(request)
}

/// Turns an HTTP/1.1 request into the form for HTTP/2: the authority is no field (RFC 9113
/// section 8.3.1), and nothing is said about connections.
pub(super) fn for_http2(request: &mut RequestHeader, target: &Target) -> Result<(), Box<Error>> {
    let uri = format!("{}{}", target.origin(), target.path());
    let uri = uri.parse().map_err(|error| {
        let kind = pingora_error::ErrorType::InvalidHTTPHeader;
        Error::because(kind, "the target is no URI", error)
    });
    request.set_uri(uri?);
    request.set_version(Version::HTTP_2);
    for field in [HOST, CONNECTION, UPGRADE, TRANSFER_ENCODING] {
        request.remove_header(&field);
    }
    Ok(())
}

/// The response as the client gets it.
///
/// `version` is the client's. An HTTP/1.1 client gets a body of unknown length in chunks, an
/// HTTP/1.0 client until the connection closes; HTTP/2 frames by itself.
pub(super) fn onward_response(
    received: &ResponseHeader,
    method: &Method,
    version: Version,
    name: &str,
) -> Result<ResponseHeader, Box<Error>> {
    let mut response = ResponseHeader::build(received.status, Some(received.headers.len() + 3))?;
    response.set_reason_phrase(received.get_reason_phrase())?;
    let spellings = received.case_header_iter().map(|(spelling, _)| spelling);
    for (field, spelling, value) in end_to_end(&received.headers, spellings) {
        // An origin's other endpoints are not the proxy's (RFC 7838 section 2.4).
        if field != ALT_SVC {
            match spelling {
                Some(spelling) => response.append_header(spelling, value.clone())?,
                None => response.append_header(field, value.clone())?,
            };
        }
    }
    response.append_header("Via", via(received.version, name))?;
    if received.status == StatusCode::SWITCHING_PROTOCOLS {
        response.insert_header(CONNECTION, "Upgrade")?;
        response.insert_header(UPGRADE, "websocket")?;
    } else if version == Version::HTTP_11
        && has_body(received.status, method)
        && !response.headers.contains_key(CONTENT_LENGTH)
    {
        response.insert_header(TRANSFER_ENCODING, "chunked")?;
    }
    Ok(response)
}

/// Why two readers could see the end of this HTTP/1 response at different places, if they could
/// (RFC 9112 section 6.3).
pub(super) fn ambiguous_framing(response: &ResponseHeader) -> Option<&'static str> {
    let lengths = response.headers.get_all(CONTENT_LENGTH).iter().count();
    if lengths > 1 {
        return Some("more than one Content-Length");
    }
    let mut codings = response.headers.get_all(TRANSFER_ENCODING).iter();
    let coding = codings.next()?;
    if response.version == Version::HTTP_10 {
        return Some("Transfer-Encoding in HTTP/1.0");
    }
    let is_chunked = coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    let is_only = codings.next().is_none();
    (!is_chunked || !is_only).then_some("Transfer-Encoding other than chunked")
}

/// Whether a response to `method` with this status has content (RFC 9110 section 6.4.1).
pub(super) fn has_body(status: StatusCode, method: &Method) -> bool {
    method != Method::HEAD
        && !status.is_informational()
        && status != StatusCode::NO_CONTENT
        && status != StatusCode::NOT_MODIFIED
}

/// Whether this is a WebSocket handshake over HTTP/1.1 (RFC 6455 section 4.1): the one upgrade
/// that is passed on, because what it leads to carries no HTTP requests.
pub(super) fn asks_for_websocket(request: &RequestHeader) -> bool {
    request.version == Version::HTTP_11
        && request
            .headers
            .get(UPGRADE)
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
        && listed_in_connection(&request.headers, "upgrade")
}

/// Whether a message with these `Via` values went through a proxy of this name before.
pub(super) fn passed_by<'a>(via: impl IntoIterator<Item = &'a [u8]>, name: &str) -> bool {
    let entries = via
        .into_iter()
        .flat_map(|value| value.split(|&byte| byte == b','));
    entries
        .filter_map(|entry| str::from_utf8(entry).ok()?.split_whitespace().nth(1))
        .any(|received_by| received_by.eq_ignore_ascii_case(name))
}

/// `Via`'s entry for a message that was received in this version (RFC 9110 section 7.6.3).
fn via(version: Version, name: &str) -> String {
    let version = match version {
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2.0",
        _ => "1.1",
    };
    format!("{version} {name}")
}

/// The fields that are not for one hop only: not the fixed ones, not `Proxy-*`, not those that
/// `Connection` lists. Each comes with its name as it was spelt, where that is known.
fn end_to_end<'a, N: Clone + 'a>(
    headers: &'a HeaderMap,
    spellings: impl Iterator<Item = &'a N>,
) -> impl Iterator<Item = (&'a HeaderName, Option<N>, &'a HeaderValue)> {
    let lists = headers.contains_key(CONNECTION);
    let spellings = spellings.cloned().map(Some).chain(std::iter::repeat(None));
    let fields = headers
        .iter()
        .zip(spellings)
        .filter(move |((field, _), _)| {
            let is_listed = lists && listed_in_connection(headers, field.as_str());
            !is_hop_by_hop(field) && !is_listed
        });
    fields.map(|((field, value), spelling)| (field, spelling, value))
}

fn is_hop_by_hop(field: &HeaderName) -> bool {
    [
        &CONNECTION,
        &TE,
        &TRANSFER_ENCODING,
        &UPGRADE,
        &KEEP_ALIVE,
        &HTTP2_SETTINGS,
    ]
    .contains(&field)
        || field.as_str().starts_with("proxy-")
}

/// `Connection` may name any field but those that a message does not work without.
fn listed_in_connection(headers: &HeaderMap, name: &str) -> bool {
    const NEVER: &[&str] = &["host", "content-length", "via", "cookie", "authorization"];
    !NEVER.contains(&name)
        && headers
            .get_all(CONNECTION)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|listed| listed.trim().eq_ignore_ascii_case(name))
}

/// HTTP/2 may split `Cookie` into many fields; HTTP/1.1 has one (RFC 9113 section 8.2.3).
fn one_cookie_field(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut values = headers.get_all(COOKIE).iter();
    let first = values.next()?;
    let rest: Vec<&[u8]> = values.map(HeaderValue::as_bytes).collect();
    if rest.is_empty() {
        return Some(first.clone());
    }
    let joined = [&[first.as_bytes()], &rest[..]].concat().join(&b"; "[..]);
    HeaderValue::from_bytes(&joined).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(fields: &[(&'static str, &str)]) -> RequestHeader {
        let mut request = RequestHeader::build(Method::GET, b"/", None).unwrap();
        request.set_version(Version::HTTP_11);
        for (field, value) in fields {
            request.append_header(*field, *value).unwrap();
        }
        request
    }

    fn onward(fields: &[(&'static str, &str)]) -> RequestHeader {
        let target = Target::parse("http://shop.test:8080/a?b").unwrap();
        onward_request(&request(fields), &target, Body::Delimited, "wayleave").unwrap()
    }

    #[test]
    fn the_target_names_path_and_host() {
        let request = onward(&[("Host", "other.test")]);
        assert_eq!(request.raw_path(), b"/a?b");
        assert_eq!(request.headers[HOST], "shop.test:8080");
    }

    #[test]
    fn fields_of_the_hop_behind_us_end_here() {
        let request = onward(&[
            ("Connection", "close, X-Hop"),
            ("X-Hop", "1"),
            ("Keep-Alive", "5"),
            ("Proxy-Authorization", "Basic eDp5"),
            ("Proxy-Connection", "keep-alive"),
            ("TE", "gzip"),
            ("Upgrade", "h2c"),
            ("HTTP2-Settings", "AAAA"),
            ("X-Kept", "1"),
        ]);
        let mut names: Vec<&str> = request.headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["host", "via", "x-kept"]);
        assert_eq!(request.headers["via"], "1.1 wayleave");
    }

    #[test]
    fn connection_cannot_take_away_what_a_request_needs() {
        let request = onward(&[
            ("Connection", "host, cookie, content-length"),
            ("Cookie", "a=b"),
        ]);
        assert_eq!(request.headers[COOKIE], "a=b");
        assert!(request.headers.contains_key(HOST));
    }

    #[test]
    fn websocket_is_the_one_upgrade_that_passes() {
        let request = onward(&[("Connection", "Upgrade"), ("Upgrade", "websocket")]);
        assert_eq!(request.headers[UPGRADE], "websocket");
        assert_eq!(request.headers[CONNECTION], "Upgrade");
    }

    #[test]
    fn split_cookies_are_joined() {
        let request = onward(&[("Cookie", "a=b"), ("Cookie", "c=d")]);
        assert_eq!(request.headers[COOKIE], "a=b; c=d");
        assert_eq!(request.headers.get_all(COOKIE).iter().count(), 1);
    }

    #[test]
    fn a_loop_shows_in_via() {
        let via = [&b"1.0 fred, 1.1 Wayleave (x)"[..]];
        assert!(passed_by(via, "wayleave"));
        assert!(!passed_by(via, "fre"));
    }

    #[test]
    fn a_response_ends_in_one_place() {
        let framed = |fields: &[(&'static str, &str)]| {
            let mut response = ResponseHeader::build(200, None).unwrap();
            response.set_version(Version::HTTP_11);
            for (field, value) in fields {
                response.append_header(*field, *value).unwrap();
            }
            ambiguous_framing(&response).is_none()
        };
        assert!(framed(&[]));
        assert!(framed(&[("Content-Length", "5")]));
        assert!(framed(&[("Transfer-Encoding", "Chunked")]));
        assert!(!framed(&[("Content-Length", "5"), ("Content-Length", "5")]));
        assert!(!framed(&[("Transfer-Encoding", "gzip, chunked")]));
        assert!(!framed(&[
            ("Transfer-Encoding", "chunked"),
            ("Transfer-Encoding", "chunked")
        ]));
    }

    #[test]
    fn http_1_1_clients_get_a_body_of_unknown_length_in_chunks() {
        let mut received = ResponseHeader::build(200, None).unwrap();
        received.insert_header("Keep-Alive", "timeout=5").unwrap();
        received.insert_header("Alt-Svc", "h3=\":443\"").unwrap();
        let chunked = |version, method: &Method| {
            let response = onward_response(&received, method, version, "wayleave").unwrap();
            assert!(!response.headers.contains_key("keep-alive"));
            assert!(!response.headers.contains_key("alt-svc"));
            response.headers.contains_key(TRANSFER_ENCODING)
        };
        assert!(chunked(Version::HTTP_11, &Method::GET));
        assert!(!chunked(Version::HTTP_11, &Method::HEAD));
        assert!(!chunked(Version::HTTP_10, &Method::GET));
        assert!(!chunked(Version::HTTP_2, &Method::GET));
    }
}
