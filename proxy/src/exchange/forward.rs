//! Forwards to the origin: which connection serves the request, when another one is tried, and what the answer means for the next ones.

use std::net::IpAddr;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::sync::Notify;
use wayleave_robots_txt::{Origin, Scheme, Target};

use super::decide_in_turn::Cleared;
use super::fields::OnwardRequest;
use super::label::Label;
use super::outcome::Sent;
use super::record::Known;
use super::relay::{self, RelayError, Relayed, Relaying};
use super::sign::{Signatures, Signing};
use super::websocket;
use crate::clock::calendar;
use crate::decide::identify::Identity;
use crate::decide::resolve::Resolved;
use crate::decide::settings::Settings;
use crate::decide::{Decider, request};
use crate::http::client::{Client, Field};
use crate::http::ftp_path;
use crate::http::http1::Framing;
use crate::http::proxy_status::ErrorType;
use crate::http::received::{Received, Version};
use crate::identity::{Crawler, Mode, Proof};
use crate::observe::decisions::DecisionId;
use crate::origin::error::Fault;
use crate::origin::{
    self, Connection, Destination, Form, FtpRange, FtpRequest, OriginHead, OriginReader,
    OriginWriter, Preference, Session,
};
use crate::politeness::Turn;
use crate::signing::Signed;

/// The status by which an exchange becomes a connection of another protocol.
pub(super) const SWITCHING_PROTOCOLS: u16 = 101;

/// A request on its way to its origin.
#[derive(Clone, Copy)]
pub(super) struct Sending<'a> {
    pub(super) decider: &'a Decider,
    /// What it was decided by.
    pub(super) settings: &'a Settings,
    pub(super) id: DecisionId,
    pub(super) connection: &'a request::Connection,
    pub(super) proof: Option<&'a Proof>,
    pub(super) received: &'a Received,
    pub(super) known: &'a Known,
    pub(super) cleared: &'a Cleared<'a>,
}

impl<'a> Sending<'a> {
    /// Whose it is, if that is known.
    pub(super) fn crawler(self) -> Option<&'a Crawler> {
        self.known.identity.as_ref().and_then(Identity::crawler)
    }

    pub(super) fn resolved(self) -> &'a Resolved {
        &self.cleared.permit.resolved
    }

    pub(super) fn origin(self) -> &'a Origin {
        self.resolved().target.origin()
    }

    fn source(self) -> Option<IpAddr> {
        self.crawler().and_then(|it| it.source_address)
    }

    /// Whether refusals are only noted.
    fn is_observed(self) -> bool {
        self.crawler().is_some_and(|it| it.mode == Mode::Observe)
    }
}

/// A request as it goes on, and what becomes of its answer.
#[derive(Clone, Copy)]
pub(super) struct Onward<'a> {
    pub(super) sending: Sending<'a>,
    /// Who signs it, if it is signed.
    pub(super) signing: Option<Signing<'a>>,
    /// Who asks what the response says about its use, if anybody does.
    pub(super) label: Option<&'a Label<'a>>,
    /// The fields of ours that the response gets, whatever it says itself.
    pub(super) ours: &'a [Field<'static>],
    /// Is told when the exchange becomes a connection of another protocol.
    pub(super) upgraded: &'a Notify,
    /// Counts the bytes of the body that the client was handed, however that ends.
    pub(super) handed_on: &'a AtomicU64,
}

/// A response that reached the client whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forwarded {
    pub(crate) status: u16,
    pub(crate) sent: Sent,
}

/// Sends the request to its origin and the response to the client.
///
/// # Errors
///
/// Returns what broke, and whether the client had an answer by then.
pub(super) async fn forward(
    onward: Onward<'_>,
    client: &mut Client,
) -> Result<Forwarded, RelayError> {
    let sending = onward.sending;
    let (upstream, received) = (&sending.settings.upstream, sending.received);
    let is_websocket = received.field("upgrade").is_some() && websocket::is_asked_for(received);
    let preference = preference(sending, is_websocket);
    let destination = Destination {
        origin: sending.origin(),
        source: sending.source(),
        client: Some(sending.connection.client),
    };
    let name = &sending.settings.options.name;
    let request = OnwardRequest::new(received, sending.resolved(), name, is_websocket);
    let signing = onward.signing;
    let signatures =
        signing.map(|by| Signatures::new(by, destination.origin, may_repeat(received)));
    let request = match &signatures {
        Some(signatures) => signatures.cleared(request),
        None => request,
    };
    let mut kept = upstream.reuse(destination, preference);
    loop {
        let session = match kept.take() {
            Some(session) => session,
            // Few come here: in a box it takes no room in every exchange.
            None => Box::pin(upstream.connect(destination, preference)).await?,
        };
        let (is_reused, parent) = (session.lease.is_reused, session.lease.parent.clone());
        let attempt = Attempt {
            onward: &onward,
            request: &request,
            signatures: signatures.as_ref(),
            signed: signatures.as_ref().and_then(|it| it.sign(&request)),
        };
        match attempt.run(session, client).await {
            Err(RelayError::Origin {
                fault,
                answered: false,
            }) if is_reused && fault.stale_connection && may_repeat(received) => {}
            // Its answer is left unread, and the connection with it.
            Err(RelayError::Withheld) => kept = upstream.reuse(destination, preference),
            ended => return ended.map_err(|broken| broken.by(parent.as_deref())),
        }
    }
}

/// A request on one connection.
struct Attempt<'a> {
    onward: &'a Onward<'a>,
    request: &'a OnwardRequest<'a>,
    signatures: Option<&'a Signatures<'a>>,
    signed: Option<Signed>,
}

impl Attempt<'_> {
    async fn run(&self, session: Session, client: &mut Client) -> Result<Forwarded, RelayError> {
        let Session {
            connection,
            lease,
            form,
        } = session;
        let sending = self.onward.sending;
        let upstream = &sending.settings.upstream;
        let (mut writer, mut reader) = self.start(connection, &form).await?;
        let dropped_interim = AtomicU64::new(0);
        let relaying = Relaying {
            received: sending.received,
            name: &sending.settings.options.name,
            patience: upstream.patience(),
            heard: &|head: &OriginHead| self.hear(head, &form),
            label: self.onward.label,
            turn: sending.cleared.turn.as_ref(),
            handed_on: self.onward.handed_on,
            dropped_interim: &dropped_interim,
        };
        let relayed = relay::relay(relaying, client, &mut writer, &mut reader).await;
        let oddities = reader.oddities();
        upstream.count(oddities);
        upstream.count_dropped_interim(dropped_interim.into_inner());
        let Relayed {
            status,
            connection_serves_again,
        } = relayed?;
        if connection_serves_again && !self.request.ends_connection() {
            upstream.release(&lease, writer, reader);
        }
        let sent = Sent {
            oddities,
            is_signed: self.signed.is_some(),
            body_bytes: None,
        };
        Ok(Forwarded { status, sent })
    }

    async fn start(
        &self,
        connection: Connection,
        form: &Form,
    ) -> Result<(OriginWriter, OriginReader), RelayError> {
        let (sending, request) = (self.onward.sending, self.request);
        let signed = self.signed.as_ref();
        // To connect, and to fetch a robots.txt, takes a while.
        if !sending.decider.goes_by(sending.settings) {
            return Err(RelayError::Outdated);
        }
        let turn = sending.cleared.turn.as_ref();
        if let Some(ended) = turn
            .and_then(Turn::ended)
            .filter(|_| !sending.is_observed())
        {
            return Err(RelayError::TooSoon(ended));
        }
        let patience = sending.settings.upstream.patience();
        let started = match connection {
            Connection::Ftp(control) => {
                let asked = ftp_request(sending.received, sending.resolved().path());
                Box::pin(origin::start_ftp(*control, &asked, patience)).await
            }
            Connection::Http1(stream) => {
                let head = request.http1(form, signed);
                origin::start_http1(stream, &head, request.framing(), patience).await
            }
            Connection::Http2(session) => {
                let head = request.http2(signed).map_err(|error| {
                    let details = format!("HTTP/2 cannot carry this request: {error}");
                    Fault::new(ErrorType::HttpRequestError, details)
                })?;
                origin::start_http2(session, head, request.framing(), patience).await
            }
        };
        Ok(started?)
    }

    /// Hears the head of a response. Of one that the client gets it says which fields are added.
    fn hear(&self, head: &OriginHead, form: &Form) -> Result<Vec<Field<'static>>, RelayError> {
        not_of_parent(form, head)?;
        let is_asked_again =
            |it: &Signatures<'_>| it.are_asked_for(head, self.request, self.signed.is_some());
        if self.signatures.is_some_and(is_asked_again) {
            return Err(RelayError::Withheld);
        }
        let sending = self.onward.sending;
        if let Some(turn) = &sending.cleared.turn {
            note_answer(turn, &sending.resolved().target, head);
        }
        if head.status() == SWITCHING_PROTOCOLS {
            self.onward.upgraded.notify_one();
        }
        Ok(self.onward.ours.to_vec())
    }
}

/// Ends a turn with the origin's answer, and what that means for the next ones: Retry-After, 429 and 503.
fn note_answer(turn: &Turn<'_>, target: &Target, head: &OriginHead) {
    let status = head.status();
    let retry_after = matches!(status, 429 | 503).then(|| {
        let fields = head.fields();
        let mut named = fields
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case(b"retry-after"));
        named.next().and_then(|(_, value)| read_retry_after(value))
    });
    turn.answered(target, status, retry_after.flatten());
}

/// `Retry-After` is seconds or a date (RFC 9110 section 10.2.3).
fn read_retry_after(value: &[u8]) -> Option<Duration> {
    let text = str::from_utf8(value).ok()?.trim();
    match text.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => {
            let at = httpdate::parse_http_date(text).ok()?;
            Some(at.duration_since(calendar()).unwrap_or_default())
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

/// A request may be sent twice if it means the same twice (RFC 9110 section 9.2.2) and there is
/// no body, which would be gone.
fn may_repeat(received: &Received) -> bool {
    const IDEMPOTENT: &[&str] = &["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"];
    IDEMPOTENT.contains(&received.method()) && received.framing() == Framing::Length(0)
}

/// HTTP/2 to the origin for HTTP/2 clients, HTTP/1.1 for the others: nothing needs translating.
/// A path that HTTP/2's URI type would spell anew goes by HTTP/1.1, as it is, and so does an upgrade.
fn preference(sending: Sending<'_>, is_websocket: bool) -> Preference {
    let (received, resolved) = (sending.received, sending.resolved());
    let path = resolved.path();
    let keeps_its_spelling = || {
        let parsed = path.parse::<http::uri::PathAndQuery>();
        path != "*" && parsed.is_ok_and(|parsed| parsed.as_str() == path)
    };
    if is_websocket {
        return Preference::Upgrade;
    }
    if resolved.target.origin().scheme() != Scheme::Https || !keeps_its_spelling() {
        return Preference::OnlyHttp1;
    }
    match received.version() {
        Version::Http2 => Preference::Http2,
        _ => Preference::Http1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let seconds = |count| Some(Duration::from_secs(count));
        assert_eq!(read_retry_after(b" 120 "), seconds(120));
        let past = read_retry_after(b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(past, seconds(0));
        let at = calendar() + Duration::from_secs(3600);
        let date = httpdate::fmt_http_date(at);
        let hour = read_retry_after(date.as_bytes()).expect("a date");
        assert!(hour <= Duration::from_secs(3600) && hour > Duration::from_secs(1800));
        for wrong in ["", "-1", "soon", "1.5", "99999999999999999999"] {
            assert_eq!(read_retry_after(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
