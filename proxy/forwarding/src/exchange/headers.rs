//! Header fields of forwarded messages: hop-by-hop fields are removed, the proxy's own are added (RFC 9110 section 7.6).

use std::borrow::Cow;
use std::collections::HashSet;

use bytes::BytesMut;
use http::{Request, Uri};
use wayleave_admission::record::is_own_field;
use wayleave_clock::system_time;
use wayleave_decision::{PURPOSE_FIELD, ResolvedTarget};
use wayleave_http_wire::field_pairs::{
    FieldPair, describes_content, first, is_named, listed_in_connection, values,
};
use wayleave_http_wire::http1::{BodyFraming, SWITCHING_PROTOCOLS, has_content, write_fields};
use wayleave_http_wire::received::{HttpVersion, ReceivedHead};
use wayleave_robots_txt::Target;
use wayleave_signing::{
    self as signing, AgentKey, MessageSigner, MessageToSign, SIGNATURE_FIELDS, SignatureFields,
    SignatureRequest, SigningAgent,
};
use wayleave_transport::http::downstream::{DownstreamResponse, ResponseField, response_field};
use wayleave_upstream::{TargetForm, UpstreamHead};

/// A request as it is sent upstream: the target's own path and authority, no hop-by-hop fields, and the proxy's `Via`.
#[derive(Debug)]
pub(crate) struct UpstreamRequest<'a> {
    method: &'a str,
    path: &'a str,
    target: &'a Target,
    framing: BodyFraming,
    is_websocket: bool,
    fields: Vec<ResponseField<'a>>,
}

impl<'a> UpstreamRequest<'a> {
    /// Creates the request. `name` is the proxy's pseudonym.
    pub(crate) fn new(
        received: &'a ReceivedHead,
        resolved: &'a ResolvedTarget,
        name: &str,
        is_websocket: bool,
    ) -> Self {
        let all = received.fields();
        let framing = received.framing();
        let forwards_left = received.max_forwards().map(|left| left.saturating_sub(1));
        let upstream_field = |(field, value): FieldPair<'a>| {
            let value = match forwards_left {
                Some(left) if is_named(field, "max-forwards") => {
                    left.to_string().into_bytes().into()
                }
                _ => upstream_value(field, value, framing),
            };
            (Cow::Borrowed(field), value)
        };
        // Host is written again from the target, which was judged; cookies are joined below.
        let mut fields = Vec::with_capacity(all.len() + 1);
        fields.extend(
            end_to_end(&all)
                .filter(|(field, _)| !is_named(field, "host") && !is_named(field, "cookie"))
                .filter(|(field, _)| !is_named(field, PURPOSE_FIELD))
                .map(upstream_field),
        );
        if let Some(cookies) = one_cookie_field(&all) {
            fields.push((Cow::Borrowed(b"Cookie"), cookies));
        }
        // TE is hop-by-hop, and trailers are relayed (RFC 9110 section 10.1.4).
        if first(&all, "te").is_some_and(|te| te.eq_ignore_ascii_case(b"trailers")) {
            fields.push((Cow::Borrowed(b"TE"), Cow::Borrowed(b"trailers")));
        }
        fields.push(via(received.version(), name));
        Self {
            method: received.method(),
            path: resolved.path(),
            target: &resolved.target,
            framing,
            is_websocket,
            fields,
        }
    }

    pub(crate) fn framing(&self) -> BodyFraming {
        self.framing
    }

    /// Returns whether no other request may follow on an HTTP/1 connection. Content that the origin does not read would be the
    /// next request there, which was never judged (RFC 9112 section 11.2), and its response another client's. This applies to
    /// every method: handlers that ignore the content of a POST are as common as those of a GET.
    pub(crate) fn ends_connection(&self) -> bool {
        self.framing != BodyFraming::Length(0)
    }

    /// Returns the head for HTTP/1.1. `signed` replaces the fields of the client's signature, which it includes.
    pub(crate) fn http1(&self, form: &TargetForm, signed: Option<&SignatureFields>) -> BytesMut {
        let authority = self.target.origin().authority();
        let mut head = BytesMut::with_capacity(512);
        head.extend_from_slice(self.method.as_bytes());
        head.extend_from_slice(b" ");
        // A parent proxy needs the absolute form (RFC 9112 section 3.2.2).
        if form.parent().is_some() {
            head.extend_from_slice(self.target.origin().to_string().as_bytes());
        }
        // The server as a whole is spelt by leaving the path out (RFC 9112 section 3.2.4).
        if form.parent().is_none() || self.path != "*" {
            head.extend_from_slice(self.path.as_bytes());
        }
        head.extend_from_slice(b" HTTP/1.1\r\n");
        write_fields(&mut head, [(&b"Host"[..], authority.as_bytes())]);
        write_fields(&mut head, self.signature_and_other_fields(signed));
        if let Some(parent) = form.parent() {
            parent.write_authorization(&mut head);
        }
        if self.framing == BodyFraming::Chunked {
            head.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
        }
        // Asks the origin to close as well, because nothing may follow content.
        if self.ends_connection() {
            head.extend_from_slice(b"Connection: close\r\n");
        }
        if self.is_websocket {
            head.extend_from_slice(b"Connection: Upgrade\r\nUpgrade: websocket\r\n");
        }
        head.extend_from_slice(b"\r\n");
        head
    }

    /// Returns the head for HTTP/2, where the authority is not a field (RFC 9113 section 8.3.1).
    pub(crate) fn http2(
        &self,
        signed: Option<&SignatureFields>,
    ) -> Result<Request<()>, http::Error> {
        let uri = format!("{}{}", self.target.origin(), self.path);
        let head = Request::builder()
            .method(self.method)
            .uri(uri.parse::<Uri>()?)
            .version(http::Version::HTTP_2);
        self.signature_and_other_fields(signed)
            .fold(head, |head, (field, value)| head.header(field, value))
            .body(())
    }

    fn signature_and_other_fields<'s>(
        &'s self,
        signed: Option<&'s SignatureFields>,
    ) -> impl Iterator<Item = FieldPair<'s>> {
        // Two signatures under the same label would invalidate each other (RFC 9421 section 4).
        let is_replaced = move |field: &[u8]| signed.is_some() && is_of_signature(field);
        let signature = signed
            .into_iter()
            .flat_map(|values| SIGNATURE_FIELDS.iter().zip(values))
            .map(|(field, value)| (field.as_bytes(), value.as_bytes()));
        self.fields
            .iter()
            .map(|(field, value)| (&**field, &**value))
            .filter(move |(field, _)| !is_replaced(field))
            .chain(signature)
    }

    /// Removes the signatures that the client made in another name than `own`, and counts them.
    pub(super) fn without_foreign_signatures(mut self, own: &SigningAgent) -> (Self, u64) {
        let fields: Vec<_> =
            self.fields.iter().map(|(field, value)| (&**field, &**value)).collect();
        let Some((left, removed)) = signing::without_foreign_signatures(&fields, own) else {
            return (self, 0);
        };
        self.fields.retain(|(field, _)| !is_of_signature(field));
        for (field, value) in SIGNATURE_FIELDS.iter().zip(left) {
            let field = Cow::Borrowed(field.as_bytes());
            self.fields.extend(value.map(|value| (field, Cow::Owned(value.into_bytes()))));
        }
        (self, removed)
    }

    /// Signs the request with `key` and the `requested` components, if that is possible.
    pub(super) fn signed(
        &self,
        signer: &MessageSigner,
        key: &AgentKey,
        requested: Option<&SignatureRequest>,
    ) -> Option<SignatureFields> {
        let origin = self.target.origin();
        let fields: Vec<_> =
            self.fields.iter().map(|(field, value)| (&**field, &**value)).collect();
        let message = MessageToSign {
            method: self.method,
            scheme: origin.scheme().as_str(),
            authority: &origin.authority(),
            path: self.path,
            fields: &fields,
        };
        signer.sign(key, requested, &message)
    }
}

/// Returns the origin's response to `received`, with the fields `all`, as the client gets it. An HTTP/1.1 client gets a body of
/// unknown length in chunks, an HTTP/1.0 client until the connection closes.
pub(super) fn response<'a>(
    head: &'a UpstreamHead,
    all: &[FieldPair<'a>],
    received: &ReceivedHead,
    name: &str,
) -> DownstreamResponse<'a> {
    let length = head.content_length();
    let is_upgrade = head.status() == SWITCHING_PROTOCOLS;
    // Decided again: the origin's framing is for another hop, and HTTP/1.0 knows no chunks.
    let framing = match length {
        _ if is_upgrade => BodyFraming::UntilClose,
        _ if !has_content(head.status(), received.method()) => BodyFraming::Length(0),
        Some(length) => BodyFraming::Length(length),
        None if received.version() == HttpVersion::Http10 => BodyFraming::UntilClose,
        None => BodyFraming::Chunked,
    };
    let mut fields = response_fields(all, length.filter(|_| is_length_field(head.status())));
    // Via names the version in which the message was received (RFC 9110 section 7.6.3).
    let version = match head {
        UpstreamHead::Http1(head) if head.is_http_1_0() => HttpVersion::Http10,
        UpstreamHead::Http1(_) => HttpVersion::Http11,
        UpstreamHead::Http2(_) => HttpVersion::Http2,
    };
    if first(all, "date").is_none() {
        // When it was received (RFC 9110 section 6.6.1).
        fields.push(response_field("Date", httpdate::fmt_http_date(system_time())));
    }
    fields.push(via(version, name));
    DownstreamResponse { status: head.status(), reason: head.reason(), framing, fields }
}

/// Leaves out a response's content, with the fields that describe it.
pub(super) fn omit_content(response: &mut DownstreamResponse<'_>) {
    response.fields.retain(|(field, _)| !describes_content(field));
    response.fields.push(response_field("Content-Length", "0"));
    response.framing = BodyFraming::Length(0);
}

/// Returns an interim response, which has no body.
pub(super) fn interim(head: &UpstreamHead) -> DownstreamResponse<'_> {
    DownstreamResponse {
        status: head.status(),
        reason: head.reason(),
        framing: BodyFraming::Length(0),
        fields: response_fields(&head.fields(), None),
    }
}

/// Returns a field's value as it is sent upstream. A length is rewritten without leading zeros, so that every parser reads the
/// same number.
fn upstream_value<'a>(field: &[u8], value: &'a [u8], framing: BodyFraming) -> Cow<'a, [u8]> {
    match framing {
        BodyFraming::Length(length) if is_named(field, "content-length") => {
            Cow::Owned(length.to_string().into_bytes())
        }
        _ => Cow::Borrowed(value),
    }
}

/// Returns the proxies that the message has passed, in order, with this one last.
pub(super) fn passed_proxies(received: &ReceivedHead, name: &str) -> Vec<u8> {
    let fields = received.fields();
    let own_entry = received.version().via_entry(name);
    let passed: Vec<_> = values(&fields, "via").chain([own_entry.as_bytes()]).collect();
    passed.join(&b", "[..])
}

/// Returns the `Via` of this proxy, `name`, for a message received in `version`.
fn via<'a>(version: HttpVersion, name: &str) -> ResponseField<'a> {
    response_field("Via", version.via_entry(name))
}

/// Returns whether a response may state a length: those that never have content must not (RFC 9110 section 8.6).
fn is_length_field(status: u16) -> bool {
    !matches!(status, 100..=199 | 204)
}

/// Returns a response's fields for the client, with one valid length wherever and however often it was stated.
fn response_fields<'a>(all: &[FieldPair<'a>], length: Option<u64>) -> Vec<ResponseField<'a>> {
    let mut length = length;
    // An origin's other endpoints are not the proxy's (RFC 7838 section 2.4).
    let kept =
        end_to_end(all).filter(|(field, _)| !is_named(field, "alt-svc") && !is_own_field(field));
    // With room for those that the proxy adds.
    let mut fields = Vec::with_capacity(all.len() + 2);
    fields.extend(kept.filter_map(|(field, value)| {
        // `take`: repeated lengths collapse to one.
        let value = if is_named(field, "content-length") {
            Cow::Owned(length.take()?.to_string().into_bytes())
        } else {
            Cow::Borrowed(value)
        };
        Some((Cow::Borrowed(field), value))
    }));
    fields
}

/// Returns whether this exchange authenticates its client for everything that follows on the upstream connection, as NTLM and
/// Negotiate do (RFC 4559 section 6). That connection must not serve another client. `response` are the response's fields.
pub(crate) fn authenticates_connection(
    received: &ReceivedHead,
    response: &[FieldPair<'_>],
) -> bool {
    let any = |fields: &[FieldPair<'_>], name: &str| {
        values(fields, name).any(|value| {
            let scheme = value.split(|&byte| byte == b' ').next().unwrap_or_default();
            scheme.eq_ignore_ascii_case(b"ntlm") || scheme.eq_ignore_ascii_case(b"negotiate")
        })
    };
    let asks = received.field("authorization").is_some();
    asks && any(&received.fields(), "authorization") || any(response, "www-authenticate")
}

fn is_of_signature(field: &[u8]) -> bool {
    SIGNATURE_FIELDS.iter().any(|name| is_named(field, name))
}

/// Returns the end-to-end fields: not the fixed hop-by-hop ones, not `Proxy-*`, not those that `Connection` lists.
fn end_to_end<'a>(fields: &[FieldPair<'a>]) -> impl Iterator<Item = FieldPair<'a>> {
    // Nearly every message lists a word that is not a field, or a field that is dropped anyway.
    let lists = values(fields, "connection")
        .any(|value| !is_named(value, "keep-alive") && !is_named(value, "close"));
    let listed = if lists { listed_in_connection(fields) } else { HashSet::new() };
    let is_listed = move |field: &[u8]| lists && listed.contains(&field.to_ascii_lowercase());
    fields.iter().copied().filter(move |&(field, _)| !(is_hop_by_hop(field) || is_listed(field)))
}

fn is_hop_by_hop(field: &[u8]) -> bool {
    const FIXED: &[&str] =
        &["connection", "te", "transfer-encoding", "upgrade", "keep-alive", "http2-settings"];
    FIXED.iter().any(|fixed| is_named(field, fixed))
        || field.get(..6).is_some_and(|start| is_named(start, "proxy-"))
}

/// Joins the `Cookie` fields, which HTTP/2 may split, into HTTP/1.1's one (RFC 9113 section 8.2.3).
fn one_cookie_field<'a>(fields: &[FieldPair<'a>]) -> Option<Cow<'a, [u8]>> {
    let cookies: Vec<&[u8]> = values(fields, "cookie").collect();
    match cookies[..] {
        [] => None,
        [one] => Some(Cow::Borrowed(one)),
        _ => Some(Cow::Owned(cookies.join(&b"; "[..]))),
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use proptest::prelude::{prop_assert_eq, proptest};
    use wayleave_decision::TargetScope;
    use wayleave_http_wire::field_pairs::{is_listed_in_connection, passed_through};
    use wayleave_http_wire::http1::{RequestHead, ResponseHead};

    use super::*;
    use crate::exchange::websocket;

    async fn received(fields: &str) -> ReceivedHead {
        let bytes = format!("GET http://other.test/ HTTP/1.1\r\nHost: other.test\r\n{fields}\r\n");
        let head = RequestHead::read(&mut bytes.as_bytes(), &mut BytesMut::new()).await;
        ReceivedHead::Http1(head.unwrap())
    }

    async fn upstream_head(fields: &str) -> String {
        let resolved = ResolvedTarget {
            target: Target::parse("http://shop.test:8080/a?b").unwrap(),
            scope: TargetScope::Path,
        };
        let received = received(fields).await;
        let is_websocket = websocket::is_handshake(&received);
        let request = UpstreamRequest::new(&received, &resolved, "wayleave", is_websocket);
        String::from_utf8(request.http1(&TargetForm::Origin, None).to_vec()).unwrap()
    }

    #[tokio::test]
    async fn the_target_names_path_and_host() {
        assert_eq!(
            upstream_head("X-Kept: 1\r\n").await,
            "GET /a?b HTTP/1.1\r\nHost: shop.test:8080\r\nX-Kept: 1\r\nVia: 1.1 wayleave\r\n\r\n"
        );
    }

    #[tokio::test]
    async fn hop_by_hop_fields_are_not_forwarded() {
        let head = upstream_head(
            "Connection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nProxy-Authorization: Basic x\r\n\
             Proxy-Connection: keep-alive\r\nTE: gzip\r\nUpgrade: h2c\r\nHTTP2-Settings: AAAA\r\n",
        );
        assert_eq!(
            head.await,
            "GET /a?b HTTP/1.1\r\nHost: shop.test:8080\r\nVia: 1.1 wayleave\r\n\r\n"
        );
    }

    #[tokio::test]
    async fn connection_cannot_take_away_what_a_response_needs() {
        let head = answer("Connection: content-length, X\r\nX: y\r\nContent-Length: 7\r\n").await;
        let received = received("").await;
        let relayed = response(&head, &head.fields(), &received, "wayleave");
        let names: Vec<_> = relayed.fields.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, [&b"Content-Length"[..], b"Date", b"Via"]);
    }

    #[tokio::test]
    async fn content_ends_the_connection_and_no_content_does_not() {
        for (fields, kept, ends) in [
            ("", "", false),
            ("Content-Length: 0\r\n", "Content-Length: 0\r\n", false),
            ("Content-Length: 005\r\n", "Content-Length: 5\r\n", true),
            ("Transfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\n", true),
        ] {
            let head = upstream_head(fields).await;
            assert!(head.contains(kept), "{head}");
            assert_eq!(head.contains("Connection: close\r\n"), ends, "{head}");
        }
    }

    #[tokio::test]
    async fn websocket_is_the_one_upgrade_that_passes() {
        let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
        let handshake =
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let head = upstream_head(&[upgrade, handshake].concat()).await;
        assert!(head.contains(upgrade), "{head}");
        let head = upstream_head(upgrade).await;
        assert!(!head.contains("Upgrade"), "{head}");
    }

    #[tokio::test]
    async fn connection_names_close_and_nothing_else() {
        // Python's http.server reads the first Connection only, and closes only if that is `close`.
        let head = upstream_head("Connection: TE\r\nTE: trailers\r\nContent-Length: 1\r\n").await;
        let connection = head.lines().filter(|line| line.starts_with("Connection"));
        assert_eq!(connection.collect::<Vec<_>>(), ["Connection: close"]);
    }

    #[tokio::test]
    async fn a_response_keeps_its_date_or_gets_one() {
        let received = received("").await;
        let dates = |head: &UpstreamHead| -> Vec<Vec<u8>> {
            let fields = response(head, &head.fields(), &received, "wayleave").fields;
            let dates = fields.iter().filter(|(name, _)| is_named(name, "date"));
            dates.map(|(_, value)| value.to_vec()).collect()
        };
        let dated = answer("date: Sun, 06 Nov 1994 08:49:37 GMT\r\n").await;
        assert_eq!(dates(&dated), [b"Sun, 06 Nov 1994 08:49:37 GMT"]);
        let [date] = &dates(&answer("").await)[..] else { panic!("one date") };
        let date = httpdate::parse_http_date(str::from_utf8(date).unwrap()).unwrap();
        let ago = system_time().duration_since(date).unwrap();
        assert!(ago.as_secs() < 60, "{ago:?}");
    }

    #[tokio::test]
    async fn split_cookies_are_joined() {
        let head = upstream_head("Cookie: a=b\r\nCookie: c=d\r\n").await;
        assert!(head.contains("Cookie: a=b; c=d\r\n"), "{head}");
        assert_eq!(head.matches("Cookie").count(), 1);
    }

    #[tokio::test]
    async fn a_loop_shows_in_via() {
        let received = received("Via: 1.0 fred, 1.1 Wayleave (x)\r\n").await;
        assert!(passed_through(&received.fields(), "wayleave"));
        assert!(!passed_through(&received.fields(), "fre"));
    }

    async fn answer(fields: &str) -> UpstreamHead {
        let bytes = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
        let head = ResponseHead::read(&mut bytes.as_bytes(), &mut BytesMut::new()).await;
        UpstreamHead::Http1(head.unwrap())
    }

    #[tokio::test]
    async fn a_body_of_unknown_length_comes_in_chunks() {
        let head = answer("Keep-Alive: timeout=5\r\nAlt-Svc: h3\r\nX: y\r\n").await;
        let received = received("").await;
        let relayed = response(&head, &head.fields(), &received, "wayleave");
        assert_eq!(relayed.framing, BodyFraming::Chunked);
        let names: Vec<_> = relayed.fields.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, [&b"X"[..], b"Date", b"Via"]);
    }

    #[tokio::test]
    async fn a_body_of_known_length_keeps_it() {
        let head = answer("Content-Length: 7\r\n").await;
        let received = received("").await;
        let relayed = response(&head, &head.fields(), &received, "wayleave");
        assert_eq!(relayed.framing, BodyFraming::Length(7));
    }

    proptest! {
        #[test]
        fn fields_listed_at_once_are_those_listed_one_by_one(
            fields in proptest::collection::vec(
                ("(?i)(connection|a|te|x-b|user-agent|host)", "(?i)(a|te|x-b|user-agent|,| |close){0,6}"),
                0..8,
            ),
        ) {
            let pairs: Vec<FieldPair<'_>> =
                fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
            let is_kept = |field: &FieldPair<'_>| {
                !is_hop_by_hop(field.0) && !is_listed_in_connection(&pairs, field.0)
            };
            let expected: Vec<_> = pairs.iter().copied().filter(is_kept).collect();
            prop_assert_eq!(end_to_end(&pairs).collect::<Vec<_>>(), expected);
        }
    }
}
