//! Forwards to the origin: which connection serves the request, and when another one is tried.

use std::net::IpAddr;
use std::sync::atomic::AtomicU64;

use wayleave_policy::{Scheme, Target};

use super::fields::OnwardRequest;
use super::label::Label;
use super::relay::{self, RelayError, Relaying};
use super::sign::{Signatures, Signing};
use super::websocket;
use crate::decide::resolve::Resolved;
use crate::http::client::{Client, Field};
use crate::http::ftp_path;
use crate::http::http1::Framing;
use crate::http::http1::oddities::Oddities;
use crate::http::proxy_status::ErrorType;
use crate::http::received::{Received, Version};
use crate::origin::error::Fault;
use crate::origin::{
    self, Connection, Destination, Form, FtpRange, FtpRequest, OriginHead, OriginReader,
    OriginWriter, Preference, Upstream,
};
use crate::politeness::Turn;

/// What is told of a request that was sent, besides its outcome.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    /// What had to be mended of the response.
    pub(crate) oddities: Oddities,
    /// Whether it went out with a signature of ours.
    pub(crate) is_signed: bool,
    /// How many bytes of the response's body the client was handed; none of what became a tunnel.
    pub(crate) body_bytes: Option<u64>,
}

/// A response that reached the client whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forwarded {
    pub(crate) status: u16,
    pub(crate) sent: Sent,
}

/// What is asked right before a request is sent: to connect, and to fetch a robots.txt, takes a while.
pub(super) type IsOutdated<'a> = dyn Fn() -> bool + Send + Sync + 'a;

/// A request as it goes on, and what it goes by.
#[derive(Clone, Copy)]
pub(super) struct Onward<'a> {
    pub(super) upstream: &'a Upstream,
    /// The proxy's pseudonym.
    pub(super) name: &'a str,
    pub(super) received: &'a Received,
    pub(super) resolved: &'a Resolved,
    /// The address that it is sent from, if its crawler has one of its own.
    pub(super) source: Option<IpAddr>,
    /// Who signs it, if it is signed.
    pub(super) signing: Option<Signing<'a>>,
    /// Who asks what the response says about its use, if anybody does.
    pub(super) label: Option<&'a Label<'a>>,
    /// Whether what it was decided by does not hold any more.
    pub(super) is_outdated: &'a IsOutdated<'a>,
    /// Its turn at the origin, if it has to have one.
    pub(super) turn: Option<&'a Turn<'a>>,
    /// Counts the bytes of the body that the client was handed, however that ends.
    pub(super) handed_on: &'a AtomicU64,
}

impl<'a> Onward<'a> {
    /// Who signs: FTP has no fields to sign.
    fn signing(&self) -> Option<Signing<'a>> {
        let scheme = self.resolved.target.origin().scheme();
        self.signing.filter(|_| scheme != Scheme::Ftp)
    }

    fn destination(&self) -> Destination<'a> {
        Destination {
            origin: self.resolved.target.origin(),
            source: self.source,
        }
    }
}

/// What is told of the head of the response that the client gets: it says which fields are added.
pub(super) type Heard<'a> = dyn Fn(&OriginHead) -> Vec<Field<'static>> + Send + Sync + 'a;

/// Sends the request to its origin and the response to the client. `heard` is called with the head of the response that the client
/// gets.
///
/// # Errors
///
/// Returns what broke, and whether the client had an answer by then.
pub(super) async fn forward(
    onward: Onward<'_>,
    client: &mut Client,
    heard: &Heard<'_>,
) -> Result<Forwarded, RelayError> {
    let (upstream, received) = (onward.upstream, onward.received);
    let (target, path) = (&onward.resolved.target, onward.resolved.path());
    let mut request = OnwardRequest::new(received, target, path, onward.name);
    let signatures = Signatures::new(onward.signing(), target.origin(), may_repeat(received));
    signatures.clear(&mut request);
    let preference = preference(received, target, path);
    let destination = onward.destination();
    let mut kept = upstream.reuse(destination, preference);
    loop {
        let session = match kept.take() {
            Some(session) => session,
            // Few come here: in a box it takes no room in every exchange.
            None => Box::pin(upstream.connect(destination, preference)).await?,
        };
        let (lease, form) = (session.lease, session.form);
        let is_signed = signatures.sign(&mut request);
        let heard = |head: &OriginHead| {
            not_of_parent(&form, head)?;
            let is_asked_again = signatures.are_asked_for(head, &request, is_signed);
            let told = (!is_asked_again).then(|| heard(head));
            told.ok_or(RelayError::Withheld)
        };
        let exchanged = async {
            let (mut writer, mut reader) =
                start(&onward, session.connection, &request, &form).await?;
            let relaying = Relaying {
                received,
                name: onward.name,
                patience: upstream.patience(),
                heard: &heard,
                label: onward.label,
                handed_on: onward.handed_on,
            };
            let relayed = relay::relay(relaying, client, &mut writer, &mut reader).await;
            upstream.count(reader.oddities());
            Ok((relayed?, writer, reader))
        };
        match exchanged.await {
            Ok((relayed, writer, reader)) => {
                let oddities = reader.oddities();
                if relayed.connection_serves_again && !request.ends_connection() {
                    upstream.release(&lease, writer, reader);
                }
                let status = relayed.status;
                let sent = Sent {
                    oddities,
                    is_signed,
                    body_bytes: None,
                };
                return Ok(Forwarded { status, sent });
            }
            Err(RelayError::Origin {
                fault,
                answered: false,
            }) if lease.is_reused && fault.stale_connection && may_repeat(received) => {}
            // Its answer is left unread, and the connection with it.
            Err(RelayError::Withheld) => kept = upstream.reuse(destination, preference),
            Err(broken) => return Err(broken.by(lease.parent.as_deref())),
        }
    }
}

/// Lets heads of origins pass, and none that a parent proxy made itself.
fn not_of_parent(form: &Form, head: &OriginHead) -> Result<(), Fault> {
    let own = form.parent().and_then(|_| origin::own_answer(head));
    own.map_or(Ok(()), Err)
}

/// What of a request an FTP server can be asked.
fn ftp_request<'a>(received: &'a Received, path: &'a str) -> FtpRequest<'a> {
    let accept = received.field("accept").unwrap_or_default();
    FtpRequest {
        path,
        is_head: received.method() == "HEAD",
        range: received.field("range").and_then(FtpRange::parse),
        wants_text: accept.trim_ascii().starts_with(b"text/plain"),
        credentials: ftp_path::credentials(&received.target()),
    }
}

async fn start(
    onward: &Onward<'_>,
    connection: Connection,
    request: &OnwardRequest<'_>,
    form: &Form,
) -> Result<(OriginWriter, OriginReader), RelayError> {
    if (onward.is_outdated)() {
        return Err(RelayError::Outdated);
    }
    if let Some(ended) = onward.turn.and_then(Turn::ended) {
        return Err(RelayError::TooSoon(ended));
    }
    let (upstream, received) = (onward.upstream, onward.received);
    let path = onward.resolved.path();
    let started = match connection {
        Connection::Ftp(control) => {
            let asked = ftp_request(received, path);
            Box::pin(origin::start_ftp(*control, &asked, upstream.patience())).await
        }
        Connection::Http1(stream) => {
            origin::start_http1(
                stream,
                &request.http1(form),
                request.framing(),
                upstream.patience(),
            )
            .await
        }
        Connection::Http2(session) => {
            let head = request.http2().map_err(|error| {
                let details = format!("HTTP/2 cannot carry this request: {error}");
                Fault::new(ErrorType::HttpRequestError, details)
            })?;
            origin::start_http2(session, head, request.framing(), upstream.patience()).await
        }
    };
    Ok(started?)
}

/// A request may be sent twice if it means the same twice (RFC 9110 section 9.2.2) and there is
/// no body, which would be gone.
fn may_repeat(received: &Received) -> bool {
    const IDEMPOTENT: &[&str] = &["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"];
    IDEMPOTENT.contains(&received.method()) && received.framing() == Framing::Length(0)
}

/// HTTP/2 to the origin for HTTP/2 clients, HTTP/1.1 for the others: nothing needs translating.
/// A path that HTTP/2's URI type would spell anew goes by HTTP/1.1, as it is, and so does an upgrade.
fn preference(received: &Received, target: &Target, path: &str) -> Preference {
    let keeps_its_spelling = || {
        let parsed = path.parse::<http::uri::PathAndQuery>();
        path != "*" && parsed.is_ok_and(|parsed| parsed.as_str() == path)
    };
    if websocket::is_asked_for(received) {
        return Preference::Upgrade;
    }
    if target.origin().scheme() != Scheme::Https || !keeps_its_spelling() {
        return Preference::OnlyHttp1;
    }
    match received.version() {
        Version::Http2 => Preference::Http2,
        _ => Preference::Http1,
    }
}
