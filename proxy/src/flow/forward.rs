//! To the origin: which connection serves the request, and when another one is tried.

use pingora_core::protocols::http::ServerSession;
use pingora_core::protocols::http::client::HttpSession;
use pingora_http::RequestHeader;
use wayleave_policy::{Scheme, Target};

use super::fields::{self, Body};
use super::relay::{self, Broken};
use crate::fault::{Fault, describe};
use crate::proxy_status::ErrorType;
use crate::upstream::{Preference, Session, Upstream};

/// Sends the request to its origin and the response to the client; tells the response's status.
///
/// # Errors
///
/// Returns what broke, and whether the client had an answer by then.
pub(super) async fn forward(
    upstream: &Upstream,
    name: &str,
    client: &mut ServerSession,
    target: &Target,
) -> Result<u16, Broken> {
    let preference = preference(client, target);
    let mut kept = upstream.reuse(target.origin(), preference).await;
    loop {
        let mut session = match kept.take() {
            Some(session) => session,
            None => upstream.connect(target.origin(), preference).await?,
        };
        let request = onward(client, &session, target, name)?;
        match relay::relay(client, &mut session.http, request, name).await {
            Ok(relayed) => {
                if relayed.connection_serves_again {
                    upstream.release(session).await;
                }
                return Ok(relayed.status);
            }
            Err(Broken::Origin {
                fault,
                answered: false,
            }) if session.reused && fault.stale_connection && may_repeat(client) => {}
            Err(broken) => return Err(broken),
        }
    }
}

/// A request may be sent twice if it means the same twice (RFC 9110 section 9.2.2) and there is
/// no body, which would be gone.
fn may_repeat(client: &mut ServerSession) -> bool {
    client.req_header().method.is_idempotent() && client.is_body_empty()
}

/// HTTP/2 to the origin for HTTP/2 clients, HTTP/1.1 for the others: nothing needs translating.
/// A path that HTTP/2's URI type would spell anew goes by HTTP/1.1, as it is.
fn preference(client: &ServerSession, target: &Target) -> Preference {
    let keeps_its_spelling = || {
        let parsed = target.path().parse::<http::uri::PathAndQuery>();
        parsed.is_ok_and(|parsed| parsed.as_str() == target.path())
    };
    if client.is_http2() && target.origin().scheme() == Scheme::Https && keeps_its_spelling() {
        Preference::Http2
    } else {
        Preference::Http1
    }
}

fn onward(
    client: &mut ServerSession,
    session: &Session,
    target: &Target,
    name: &str,
) -> Result<Box<RequestHeader>, Fault> {
    let has_length = client
        .req_header()
        .headers
        .contains_key(http::header::CONTENT_LENGTH);
    let body = if has_length || client.is_body_empty() {
        Body::Delimited
    } else {
        Body::Chunked
    };
    let mut request = fields::onward_request(client.req_header(), target, body, name);
    if let (Ok(request), HttpSession::H2(_)) = (&mut request, &session.http) {
        fields::for_http2(request, target).map_err(|error| unwritable(&error))?;
    }
    request.map(Box::new).map_err(|error| unwritable(&error))
}

fn unwritable(error: &pingora_error::Error) -> Fault {
    let details = format!("the request cannot be written on: {}", describe(error));
    Fault::new(ErrorType::HttpRequestError, details)
}
