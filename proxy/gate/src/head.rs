//! The heads of messages, as the proxy would have received them.

use http::header::HOST;
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Uri};
use wayleave_http_wire::http1::HeadError;
use wayleave_http_wire::received::ReceivedHead;

/// Returns the request as a client would have sent it to the proxy.
///
/// # Errors
///
/// Returns the reason why the proxy would not have read it.
pub(crate) fn received_head(request: &Parts) -> Result<ReceivedHead, HeadError> {
    let target = request.uri.to_string();
    received(&request.method, target.as_bytes(), &request.uri, &request.headers)
}

/// As [`received_head`]: pingora keeps the target as it came beside the URI, which has the path alone.
#[cfg(feature = "pingora")]
pub(crate) fn of_pingora(request: &pingora_http::RequestHeader) -> Result<ReceivedHead, HeadError> {
    if request.uri.authority().is_some() {
        // HTTP/2, where the URI is whole.
        return received_head(request);
    }
    received(&request.method, request.raw_path(), &request.uri, &request.headers)
}

fn received(
    method: &Method,
    target: &[u8],
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<ReceivedHead, HeadError> {
    let mut hosts = headers.get_all(HOST).iter();
    let stated = hosts.next();
    if hosts.next().is_some() {
        return Err(HeadError::Malformed("more than one Host".into()));
    }
    // Clients state it without user information.
    let authority = uri.authority().map_or("", Authority::as_str);
    let named = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = stated.map_or(named.as_bytes(), HeaderValue::as_bytes);
    let fields = headers.iter().filter(|(name, _)| *name != HOST);
    let fields = fields.map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
    ReceivedHead::of_parts((method.as_str().as_bytes(), target, host), fields)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn received(uri: &str, hosts: &[&str]) -> Result<(String, String), String> {
        let mut request = Request::get(uri);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let head = received_head(&parts).map_err(|error| format!("{error:?}"))?;
        let host = head.authority().unwrap_or_default().to_owned();
        Ok((head.target().into_owned(), host))
    }

    #[test]
    fn the_stated_host_is_the_one_that_is_judged() {
        let is = |target: &str, host: &str| Ok((target.to_owned(), host.to_owned()));
        assert_eq!(received("http://shop.test/a?b", &[]), is("http://shop.test/a?b", "shop.test"));
        let of_user = "http://user:secret@shop.test:81/";
        assert_eq!(received(of_user, &[]), is(of_user, "shop.test:81"));
        let other = received("http://shop.test/", &["other.test"]);
        assert_eq!(other, is("http://shop.test/", "other.test"));
        let two = received("http://shop.test/", &["shop.test", "shop.test"]);
        assert!(two.is_err_and(|error| error.contains("more than one Host")));
    }
}
