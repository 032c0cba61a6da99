//! One permitted request upstream: picks the connection, and applies the response to the crawler's pace. Sends the request again
//! if a reused connection was stale, if the origin says that it has not processed it, or, once, if the origin requests a
//! signature. `admit_and_forward` (`mod.rs`) decides again if the settings changed before the request was sent, or if sending it
//! again takes another slot.

use wayleave_admission::Admission;
use wayleave_admission::GatedRequest;
use wayleave_admission::outcome::RequestRepeat;
use wayleave_decision::{Reason, ResolvedTarget};
use wayleave_fairness::Holder;
use wayleave_http_wire::ftp_path;
use wayleave_http_wire::http1::{BodyFraming, SWITCHING_PROTOCOLS};
use wayleave_http_wire::received::{HttpVersion, ReceivedHead};
use wayleave_pacing::PacingSlot;
use wayleave_robots_txt::UrlScheme;
use wayleave_signing::SignatureFields;
use wayleave_transport::http::downstream::Downstream;
use wayleave_upstream::error::{Unprocessed, UpstreamError};
use wayleave_upstream::{
    self as upstream, ConnectionLease, Destination, FtpRange, FtpRequest, TargetForm,
    UpstreamConnection, UpstreamReader, UpstreamSession, UpstreamWriter, VersionPreference,
};

use super::headers::UpstreamRequest;
use super::relay::{self, RelayContext, RelayError, RelayedResponse, ResponseWatch};
use super::sign::RequestSigner;
use super::websocket;

/// The most times that a request is sent again because its origin has not begun to serve it.
const MAX_UNPROCESSED: usize = 3;

/// An admitted request on its way, on whichever connection it is sent.
pub(super) struct UpstreamAttempt<'a> {
    pub(super) admission: Admission<'a>,
    /// Signs the request for a crawler with a key.
    pub(super) signer: Option<RequestSigner<'a>>,
    /// Whether the request that was sent last is signed.
    pub(super) is_signed: bool,
}

/// A response that reached the client completely, or the connection that took its place.
pub(super) struct ForwardedResponse {
    pub(super) response: RelayedResponse,
    /// The connection after a 101. Boxed because it is rare.
    pub(super) upgraded: Option<Box<UpgradedConnection>>,
}

/// The origin's end of a connection that has changed to another protocol.
pub(super) struct UpgradedConnection {
    pub(super) writer: UpstreamWriter,
    pub(super) reader: UpstreamReader,
    _lease: ConnectionLease,
}

impl<'a> UpstreamAttempt<'a> {
    /// Sends the request to its origin and the response to the client.
    ///
    /// # Errors
    ///
    /// Returns the error, and whether the client had a response's head by then.
    pub(super) async fn run(
        &mut self,
        client: &mut Downstream,
    ) -> Result<ForwardedResponse, RelayError> {
        let exchange = self.admission.request;
        let resolved = self.admission.resolved();
        let settings = &exchange.settings;
        let received = exchange.received;
        let is_websocket = received.field("upgrade").is_some() && websocket::is_handshake(received);
        let preference = version_preference(received, resolved, is_websocket);
        let destination = self.destination();
        let mut request =
            UpstreamRequest::new(received, resolved, &settings.options.name, is_websocket);
        if let Some(signer) = &self.signer {
            request = signer.without_foreign_signatures(request);
        }
        let mut reusable = self.reusable(destination, preference);
        let mut times = exchange.repeat.as_ref().map_or(0, RequestRepeat::times_unprocessed);
        loop {
            let session = match reusable.take() {
                Some(session) if session.is_alive().await => session,
                // Boxed because it is rare: a reused connection leaves every exchange's future this much smaller.
                _ => Box::pin(settings.upstream.connect(destination, preference)).await?,
            };
            let is_reused = session.lease.is_reused;
            let parent = session.lease.parent.clone();
            let is_to_origin = session.target_form.parent().is_none();
            match self.send(&request, session, client).await {
                // The origin had closed the connection before it saw the request.
                Err(RelayError::Upstream { fault, answered: false })
                    if is_reused && fault.is_stale_connection && may_repeat(received) =>
                {
                    if self.keeps_delay() {
                        return repeat_later(RequestRepeat::StaleConnection);
                    }
                }
                // Nothing of it was served, so it may be sent again whatever its method.
                Err(RelayError::Upstream {
                    fault: UpstreamError { unprocessed: Some(wish), .. },
                    answered: false,
                }) if times < MAX_UNPROCESSED && client.sent_body.is_kept() => {
                    times += 1;
                    if wish == Unprocessed::OverHttp1 {
                        settings.upstream.remember_http1(destination.origin);
                    }
                    if self.keeps_delay() {
                        return repeat_later(RequestRepeat::Unprocessed { times });
                    }
                }
                // The response asked for a signature, which the signer accepts once. It is left unread, and the connection with it.
                Err(RelayError::SignatureRequested) => {
                    let requested = self.signer.as_ref().and_then(RequestSigner::requested);
                    if let Some(requested) = requested.filter(|_| self.keeps_pace()) {
                        return repeat_later(RequestRepeat::Signature(Box::new(requested.clone())));
                    }
                    reusable = settings.upstream.reuse(destination, preference);
                }
                ended => {
                    // A parent that forwards requests may have broken it, or answered itself.
                    if is_to_origin {
                        self.note_reset(&ended);
                    }
                    return ended.map_err(|error| error.through_parent(parent.as_deref()));
                }
            }
        }
    }

    fn destination(&self) -> Destination<'a> {
        Destination {
            origin: self.admission.resolved().target.origin(),
            source: self.admission.request.crawler().and_then(|crawler| crawler.source_address),
            client: Some(self.admission.request.connection.client),
            network: self.admission.slot.and_then(PacingSlot::network),
        }
    }

    /// Returns a kept connection that may be used. One over HTTP/1 may just be closing.
    fn reusable(
        &self,
        destination: Destination<'_>,
        preference: VersionPreference,
    ) -> Option<UpstreamSession> {
        let exchange = self.admission.request;
        let upstream = &exchange.settings.upstream;
        match exchange.repeat {
            Some(RequestRepeat::StaleConnection | RequestRepeat::Unprocessed { .. }) => None,
            _ if may_repeat(exchange.received) => upstream.reuse(destination, preference),
            _ => upstream.share(destination, preference),
        }
    }

    /// Returns whether a second request has to wait for a turn of its own because the first one was sent in one.
    fn keeps_delay(&self) -> bool {
        self.admission.slot.is_some_and(PacingSlot::has_pace) && self.keeps_pace()
    }

    /// Returns whether a second request has to take a turn of its own. Where refusals are only observed, the pace is not kept.
    fn keeps_pace(&self) -> bool {
        self.admission.slot.is_some() && !self.admission.request.is_observe_mode()
    }

    /// Notes that the origin broke the connection instead of answering, if it did.
    fn note_reset(&self, ended: &Result<ForwardedResponse, RelayError>) {
        if let Err(RelayError::Upstream { fault, answered: false }) = ended
            && matches!(fault.reason, Reason::ConnectionTerminated | Reason::HttpResponseIncomplete)
        {
            self.admission.reset();
        }
    }

    /// Sends the request on one connection, and relays both bodies.
    async fn send(
        &mut self,
        request: &UpstreamRequest<'_>,
        session: UpstreamSession,
        client: &mut Downstream,
    ) -> Result<ForwardedResponse, RelayError> {
        let UpstreamSession { connection, lease, target_form } = session;
        let exchange = self.admission.request;
        let upstream = &exchange.settings.upstream;
        let signature = self.signer.as_ref().and_then(|signer| signer.sign(request));
        self.is_signed = signature.is_some();
        self.admission.dialled(lease.network);
        let (mut writer, mut reader) =
            self.start(request, signature.as_ref(), connection, &target_form).await?;
        let context = RelayContext {
            received: exchange.received,
            name: &exchange.settings.options.name,
            timeout: upstream.response_timeout(),
            slot: self.admission.slot,
            byte_meter: exchange.byte_meter(),
        };
        let mut watch = ResponseWatch {
            admission: &mut self.admission,
            signer: self.signer.as_mut(),
            request,
            is_signed: self.is_signed,
            target_form: &target_form,
            dropped_interim: 0,
        };
        let relayed = relay::relay(context, &mut watch, client, &mut writer, &mut reader).await;
        // Counted however the exchange ended: a repaired head may have been all that came.
        upstream.count_oddities(reader.oddities());
        upstream.count_dropped_interim(watch.dropped_interim);
        if let Err(RelayError::Upstream { fault, .. }) = &relayed
            && matches!(fault.reason, Reason::HttpResponseTimeout | Reason::ConnectionWriteTimeout)
        {
            reader.give_up_if_silent();
        }
        let response = relayed?;
        if response.status == SWITCHING_PROTOCOLS {
            let upgraded = Box::new(UpgradedConnection { writer, reader, _lease: lease });
            return Ok(ForwardedResponse { response, upgraded: Some(upgraded) });
        }
        if response.connection_serves_again && !request.ends_connection() {
            upstream.release(&lease, writer, reader);
        }
        Ok(ForwardedResponse { response, upgraded: None })
    }

    /// Writes the request's head, unless its decision or its slot no longer holds.
    async fn start(
        &mut self,
        request: &UpstreamRequest<'_>,
        signature: Option<&SignatureFields>,
        connection: UpstreamConnection,
        target_form: &TargetForm,
    ) -> Result<(UpstreamWriter, UpstreamReader), RelayError> {
        let exchange = self.admission.request;
        // Connecting, and fetching a robots.txt, takes a while: the decision may be out of date by now.
        if !exchange.gate.decider.is_current(&exchange.settings) {
            return Err(RelayError::SettingsChanged);
        }
        if let Some(too_soon) = exchange.lost_slot(self.admission.slot) {
            return Err(RelayError::TooSoon(too_soon));
        }
        let timeout = exchange.settings.upstream.response_timeout();
        let started = match connection {
            UpstreamConnection::Ftp(control) => {
                let ftp_request = ftp_request(exchange, self.admission.resolved().path());
                Box::pin(upstream::start_ftp(*control, &ftp_request, timeout)).await
            }
            UpstreamConnection::Http1(stream) => {
                let head = request.http1(target_form, signature);
                upstream::start_http1(stream, &head, request.framing(), timeout).await
            }
            UpstreamConnection::Http2(session) => {
                let head = request.http2(signature).map_err(|error| {
                    let details = format!("HTTP/2 cannot carry this request: {error}");
                    UpstreamError::new(Reason::HttpRequestError, details)
                })?;
                upstream::start_http2(session, head, request.framing(), timeout).await
            }
        };
        let started = started?;
        self.admission.sent(request.framing() != BodyFraming::Length(0));
        Ok(started)
    }
}

/// Returns the part of a request that an FTP server understands.
fn ftp_request<'a>(exchange: &'a GatedRequest<'_, '_>, path: &'a str) -> FtpRequest<'a> {
    let received = exchange.received;
    let accept = received.field("accept").unwrap_or_default();
    FtpRequest {
        path,
        is_head: received.method() == "HEAD",
        range: received.field("range").and_then(FtpRange::parse),
        prefers_text: accept.trim_ascii().starts_with(b"text/plain"),
        credentials: ftp_path::credentials(&received.target()),
        pool: exchange.gate.decider.robots.parser(),
        holder: Holder::of_client(exchange.connection.client),
    }
}

/// Returns whether a request may be sent twice: it is idempotent (RFC 9110 section 9.2.2) and has no body, which would be gone.
pub(super) fn may_repeat(received: &ReceivedHead) -> bool {
    const IDEMPOTENT: &[&str] = &["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"];
    IDEMPOTENT.contains(&received.method()) && received.framing() == BodyFraming::Length(0)
}

/// Prefers HTTP/2 for HTTP/2 clients and HTTP/1.1 for the others, so that nothing needs translating. Upgrades, and paths that
/// HTTP/2's URI type would rewrite, use HTTP/1.1.
fn version_preference(
    received: &ReceivedHead,
    resolved: &ResolvedTarget,
    is_websocket: bool,
) -> VersionPreference {
    if is_websocket {
        return VersionPreference::Upgrade;
    }
    let path = resolved.path();
    let keeps_its_spelling = || {
        let parsed = path.parse::<http::uri::PathAndQuery>();
        path != "*" && parsed.is_ok_and(|parsed| parsed.as_str() == path)
    };
    // Without TLS nothing negotiates HTTP/2: RFC 9113 section 3.1 deprecates the upgrade to it.
    if resolved.target.origin().scheme() != UrlScheme::Https || !keeps_its_spelling() {
        return VersionPreference::OnlyHttp1;
    }
    match received.version() {
        HttpVersion::Http2 => VersionPreference::Http2,
        _ => VersionPreference::Http1,
    }
}

/// Ends the attempt: the request waits for another slot before it is sent again.
fn repeat_later(repeat: RequestRepeat) -> Result<ForwardedResponse, RelayError> {
    Err(RelayError::Repeat(repeat))
}
