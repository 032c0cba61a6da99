//! Forwards to the origin: picks the connection, retries on another one, and applies the response to the crawler's pace.

use std::net::IpAddr;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::sync::Notify;
use wayleave_robots_txt::{Origin, Scheme, Target};

use super::decide_in_turn::ClearedRequest;
use super::headers::UpstreamRequest;
use super::outcome::SentMessage;
use super::record::ExchangeFacts;
use super::relay::{self, RelayContext, RelayError, RelayedResponse};
use super::response_policy::ResponseLabeller;
use super::sign::{RequestSigner, SigningIdentity};
use super::websocket;
use crate::clock::system_time;
use crate::decide::identify::Identity;
use crate::decide::settings::Settings;
use crate::decide::target::ResolvedTarget;
use crate::decide::{Decider, request};
use crate::decision_log::DecisionId;
use crate::http::client::{Downstream, ResponseField};
use crate::http::ftp_path;
use crate::http::http1::BodyFraming;
use crate::http::proxy_status::ProxyErrorType;
use crate::http::received::{HttpVersion, ReceivedHead};
use crate::identity::{Crawler, EnforcementMode, PasswordProof};
use crate::pacing::PacingSlot;
use crate::signing::SignatureFields;
use crate::upstream::error::UpstreamError;
use crate::upstream::{
    self, Destination, FtpRange, FtpRequest, TargetForm, UpstreamConnection, UpstreamHead,
    UpstreamReader, UpstreamSession, UpstreamWriter, VersionPreference,
};

/// The status by which an exchange becomes a connection of another protocol.
pub(super) const SWITCHING_PROTOCOLS: u16 = 101;

/// A permitted request on its way to the origin.
#[derive(Clone, Copy)]
pub(super) struct PermittedRequest<'a> {
    pub(super) decider: &'a Decider,
    /// The settings that the decision used.
    pub(super) settings: &'a Settings,
    pub(super) id: DecisionId,
    pub(super) connection: &'a request::ClientConnection,
    pub(super) proof: Option<&'a PasswordProof>,
    pub(super) received: &'a ReceivedHead,
    pub(super) known: &'a ExchangeFacts,
    pub(super) cleared: &'a ClearedRequest<'a>,
}

impl<'a> PermittedRequest<'a> {
    /// Returns the crawler if the configuration has it.
    pub(super) fn crawler(self) -> Option<&'a Crawler> {
        self.known.identity.as_ref().and_then(Identity::crawler)
    }

    pub(super) fn resolved(self) -> &'a ResolvedTarget {
        &self.cleared.permit.resolved
    }

    pub(super) fn origin(self) -> &'a Origin {
        self.resolved().target.origin()
    }

    fn source(self) -> Option<IpAddr> {
        self.crawler().and_then(|it| it.source_address)
    }

    /// Returns whether refusals are only observed.
    fn is_observe_mode(self) -> bool {
        self.crawler()
            .is_some_and(|it| it.mode == EnforcementMode::Observe)
    }
}

/// A request as it is sent, and the handling of its response.
#[derive(Clone, Copy)]
pub(super) struct OutgoingExchange<'a> {
    pub(super) permitted: PermittedRequest<'a>,
    /// The identity that signs the request.
    pub(super) signing: Option<SigningIdentity<'a>>,
    /// Judges the response's usage preferences, for a crawler with purposes.
    pub(super) label: Option<&'a ResponseLabeller<'a>>,
    /// The proxy's own fields, which replace any of the same name in the response.
    pub(super) own_fields: &'a [ResponseField<'static>],
    /// Notified when the exchange becomes a connection of another protocol.
    pub(super) upgraded: &'a Notify,
    /// Counts the bytes of the body that the client got, however the exchange ends.
    pub(super) relayed_bytes: &'a AtomicU64,
}

/// A response that reached the client completely.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForwardedResponse {
    pub(crate) status: u16,
    pub(crate) sent: SentMessage,
}

/// Sends the request to its origin and the response to the client.
///
/// # Errors
///
/// Returns the error, and whether the client had a response's head by then.
pub(super) async fn forward(
    onward: OutgoingExchange<'_>,
    client: &mut Downstream,
) -> Result<ForwardedResponse, RelayError> {
    let sending = onward.permitted;
    let (upstream, received) = (&sending.settings.upstream, sending.received);
    let is_websocket = received.field("upgrade").is_some() && websocket::is_asked_for(received);
    let preference = preference(sending, is_websocket);
    let destination = Destination {
        origin: sending.origin(),
        source: sending.source(),
        client: Some(sending.connection.client),
    };
    let name = &sending.settings.options.name;
    let request = UpstreamRequest::new(received, sending.resolved(), name, is_websocket);
    let signing = onward.signing;
    let signatures =
        signing.map(|by| RequestSigner::new(by, destination.origin, may_repeat(received)));
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
        let attempt = UpstreamAttempt {
            onward: &onward,
            request: &request,
            signatures: signatures.as_ref(),
            signed: signatures.as_ref().and_then(|it| it.sign(&request)),
        };
        match attempt.run(session, client).await {
            Err(RelayError::Upstream {
                fault,
                answered: false,
            }) if is_reused && fault.is_stale_connection && may_repeat(received) => {}
            // Its answer is left unread, and the connection with it.
            Err(RelayError::Withheld) => kept = upstream.reuse(destination, preference),
            ended => return ended.map_err(|broken| broken.via_parent(parent.as_deref())),
        }
    }
}

/// A request on one upstream connection.
struct UpstreamAttempt<'a> {
    onward: &'a OutgoingExchange<'a>,
    request: &'a UpstreamRequest<'a>,
    signatures: Option<&'a RequestSigner<'a>>,
    signed: Option<SignatureFields>,
}

impl UpstreamAttempt<'_> {
    async fn run(
        &self,
        session: UpstreamSession,
        client: &mut Downstream,
    ) -> Result<ForwardedResponse, RelayError> {
        let UpstreamSession {
            connection,
            lease,
            target_form: form,
        } = session;
        let sending = self.onward.permitted;
        let upstream = &sending.settings.upstream;
        let (mut writer, mut reader) = self.start(connection, &form).await?;
        let dropped_interim = AtomicU64::new(0);
        let relaying = RelayContext {
            received: sending.received,
            name: &sending.settings.options.name,
            timeout: upstream.response_timeout(),
            inspect_head: &|head: &UpstreamHead| self.inspect_head(head, &form),
            label: self.onward.label,
            turn: sending.cleared.slot.as_ref(),
            relayed_bytes: self.onward.relayed_bytes,
            dropped_interim: &dropped_interim,
        };
        let relayed = relay::relay(relaying, client, &mut writer, &mut reader).await;
        let oddities = reader.oddities();
        upstream.count_oddities(oddities);
        upstream.count_dropped_interim(dropped_interim.into_inner());
        let RelayedResponse {
            status,
            connection_serves_again,
        } = relayed?;
        if connection_serves_again && !self.request.ends_connection() {
            upstream.release(&lease, writer, reader);
        }
        let sent = SentMessage {
            oddities,
            is_signed: self.signed.is_some(),
            body_bytes: None,
        };
        Ok(ForwardedResponse { status, sent })
    }

    async fn start(
        &self,
        connection: UpstreamConnection,
        form: &TargetForm,
    ) -> Result<(UpstreamWriter, UpstreamReader), RelayError> {
        let (sending, request) = (self.onward.permitted, self.request);
        let signed = self.signed.as_ref();
        // To connect, and to fetch a robots.txt, takes a while.
        if !sending.decider.is_current(sending.settings) {
            return Err(RelayError::SettingsChanged);
        }
        let turn = sending.cleared.slot.as_ref();
        if let Some(ended) = turn
            .and_then(PacingSlot::lost)
            .filter(|_| !sending.is_observe_mode())
        {
            return Err(RelayError::TooSoon(ended));
        }
        let patience = sending.settings.upstream.response_timeout();
        let started = match connection {
            UpstreamConnection::Ftp(control) => {
                let asked = ftp_request(sending.received, sending.resolved().path());
                Box::pin(upstream::start_ftp(*control, &asked, patience)).await
            }
            UpstreamConnection::Http1(stream) => {
                let head = request.http1(form, signed);
                upstream::start_http1(stream, &head, request.framing(), patience).await
            }
            UpstreamConnection::Http2(session) => {
                let head = request.http2(signed).map_err(|error| {
                    let details = format!("HTTP/2 cannot carry this request: {error}");
                    UpstreamError::new(ProxyErrorType::HttpRequestError, details)
                })?;
                upstream::start_http2(session, head, request.framing(), patience).await
            }
        };
        Ok(started?)
    }

    /// Inspects the head of a response. Returns the fields to add if the client is to get it.
    fn inspect_head(
        &self,
        head: &UpstreamHead,
        form: &TargetForm,
    ) -> Result<Vec<ResponseField<'static>>, RelayError> {
        check_parent_status(form, head)?;
        let is_asked_again =
            |it: &RequestSigner<'_>| it.are_asked_for(head, self.request, self.signed.is_some());
        if self.signatures.is_some_and(is_asked_again) {
            return Err(RelayError::Withheld);
        }
        let sending = self.onward.permitted;
        if let Some(turn) = &sending.cleared.slot {
            apply_response_to_pacing(turn, &sending.resolved().target, head);
        }
        if head.status() == SWITCHING_PROTOCOLS {
            self.onward.upgraded.notify_one();
        }
        Ok(self.onward.own_fields.to_vec())
    }
}

/// Ends the slot with the origin's response and applies Retry-After, 429 and 503 to the next ones.
fn apply_response_to_pacing(turn: &PacingSlot<'_>, target: &Target, head: &UpstreamHead) {
    let status = head.status();
    let retry_after = matches!(status, 429 | 503).then(|| {
        let fields = head.fields();
        let mut named = fields
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case(b"retry-after"));
        named.next().and_then(|(_, value)| read_retry_after(value))
    });
    turn.record_answer(target, status, retry_after.flatten());
}

/// Parses `Retry-After`, in seconds or as a date (RFC 9110 section 10.2.3).
fn read_retry_after(value: &[u8]) -> Option<Duration> {
    let text = str::from_utf8(value).ok()?.trim();
    match text.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => {
            let at = httpdate::parse_http_date(text).ok()?;
            Some(at.duration_since(system_time()).unwrap_or_default())
        }
    }
}

/// Rejects heads that a parent proxy generated itself.
fn check_parent_status(form: &TargetForm, head: &UpstreamHead) -> Result<(), UpstreamError> {
    let own = form
        .parent()
        .and_then(|_| upstream::own_response_error(head));
    own.map_or(Ok(()), Err)
}

/// Returns the part of a request that an FTP server understands.
fn ftp_request<'a>(received: &'a ReceivedHead, path: &'a str) -> FtpRequest<'a> {
    let accept = received.field("accept").unwrap_or_default();
    FtpRequest {
        path,
        is_head: received.method() == "HEAD",
        range: received.field("range").and_then(FtpRange::parse),
        prefers_text: accept.trim_ascii().starts_with(b"text/plain"),
        credentials: ftp_path::credentials(&received.target()),
    }
}

/// Returns whether a request may be sent twice: it is idempotent (RFC 9110 section 9.2.2) and has no body, which would be gone.
fn may_repeat(received: &ReceivedHead) -> bool {
    const IDEMPOTENT: &[&str] = &["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"];
    IDEMPOTENT.contains(&received.method()) && received.framing() == BodyFraming::Length(0)
}

/// Prefers HTTP/2 for HTTP/2 clients and HTTP/1.1 for the others, so that nothing needs translating. Upgrades, and paths that
/// HTTP/2's URI type would rewrite, use HTTP/1.1.
fn preference(sending: PermittedRequest<'_>, is_websocket: bool) -> VersionPreference {
    let (received, resolved) = (sending.received, sending.resolved());
    let path = resolved.path();
    let keeps_its_spelling = || {
        let parsed = path.parse::<http::uri::PathAndQuery>();
        path != "*" && parsed.is_ok_and(|parsed| parsed.as_str() == path)
    };
    if is_websocket {
        return VersionPreference::Upgrade;
    }
    if resolved.target.origin().scheme() != Scheme::Https || !keeps_its_spelling() {
        return VersionPreference::OnlyHttp1;
    }
    match received.version() {
        HttpVersion::Http2 => VersionPreference::Http2,
        _ => VersionPreference::Http1,
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
        let at = system_time() + Duration::from_secs(3600);
        let date = httpdate::fmt_http_date(at);
        let hour = read_retry_after(date.as_bytes()).expect("a date");
        assert!(hour <= Duration::from_secs(3600) && hour > Duration::from_secs(1800));
        for wrong in ["", "-1", "soon", "1.5", "99999999999999999999"] {
            assert_eq!(read_retry_after(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
