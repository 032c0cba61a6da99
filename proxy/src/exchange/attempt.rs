//! One permitted request upstream: picks the connection, retries the request if a reused connection was stale or, once, if the
//! origin requests a signature, and applies the response to the crawler's pace. `Exchange::decide_and_forward` decides a request
//! again that was not sent because the settings changed, or that needs another slot to be sent a second time.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use wayleave_clock::system_time;
use wayleave_decision::{Permit, Reason, Refusal, ResolvedTarget};
use wayleave_fairness::Holder;
use wayleave_http_wire::field_pairs::{FieldPair, first};
use wayleave_http_wire::ftp_path;
use wayleave_http_wire::http1::{BodyFraming, SWITCHING_PROTOCOLS};
use wayleave_http_wire::received::{HttpVersion, ReceivedHead};
use wayleave_pacing::{
    CredentialsMark, PacingConfig, PacingSlot, ServiceLimit, ToldQuota, credentials_mark,
    is_absent_or_list, read_service_limit,
};
use wayleave_robots_txt::{Target, UrlScheme};
use wayleave_signing::SignatureFields;
use wayleave_transport::http::downstream::{Downstream, ResponseField, response_field};
use wayleave_upstream::error::{Unprocessed, UpstreamError};
use wayleave_upstream::{
    self as upstream, Destination, FtpRange, FtpRequest, TargetForm, UpstreamConnection,
    UpstreamHead, UpstreamReader, UpstreamSession, UpstreamWriter, VersionPreference,
};

use super::Exchange;
use super::headers::UpstreamRequest;
use super::outcome::RequestRepeat;
use super::relay::{
    self, ContentTreatment, InspectedHead, RelayContext, RelayError, RelayedResponse,
};
use super::response_notes::ResponseNotes;
use super::response_policy::ResponseLabeller;
use super::sign::RequestSigner;
use super::subresource::{self, PassedContent};
use super::websocket;

/// How often a request is sent again that its origin has not begun to serve.
const MAX_UNPROCESSED: usize = 3;

/// A permitted request and the handling of its response, on whichever connection it is sent.
pub(super) struct UpstreamAttempt<'a> {
    pub(super) exchange: &'a Exchange<'a, 'a>,
    pub(super) permit: &'a Permit,
    /// The request's slot, if it needed one.
    pub(super) slot: Option<&'a PacingSlot<'a>>,
    /// Signs the request for a crawler with a key.
    pub(super) signer: Option<RequestSigner<'a>>,
    /// Judges the response's usage preferences, for a crawler with purposes.
    pub(super) labeller: Option<ResponseLabeller<'a>>,
    /// The proxy's own fields, which replace any of the same name in the response.
    pub(super) own_fields: Vec<ResponseField<'static>>,
    /// Whether the exchange has become a connection of another protocol.
    pub(super) is_upgraded: AtomicBool,
    /// Whether a request was sent, so that the origin may have answered.
    pub(super) is_request_sent: AtomicBool,
    /// The status of the response whose head the client got, however the exchange ends.
    pub(super) relayed_status: OnceLock<u16>,
    /// Counts the bytes of the body that the client got, however the exchange ends.
    pub(super) relayed_bytes: AtomicU64,
    /// The refusal of a response that is only observed.
    pub(super) observed: OnceLock<Box<Refusal>>,
    /// Whether the request that was sent last is signed.
    pub(super) is_signed: AtomicBool,
    /// Whether the response turns the request away, and what it asks for.
    pub(super) notes: ResponseNotes,
}

impl UpstreamAttempt<'_> {
    /// Sends the request to its origin and the response to the client.
    ///
    /// # Errors
    ///
    /// Returns the error, and whether the client had a response's head by then.
    pub(super) async fn run(&self, client: &mut Downstream) -> Result<RelayedResponse, RelayError> {
        let (exchange, resolved) = (self.exchange, self.resolved());
        let (settings, received) = (&exchange.settings, exchange.received);
        let is_websocket = received.field("upgrade").is_some() && websocket::is_handshake(received);
        let preference = version_preference(received, resolved, is_websocket);
        let destination = self.destination();
        let name = &settings.options.name;
        let mut request = UpstreamRequest::new(received, resolved, name, is_websocket);
        if let Some(signer) = &self.signer {
            request = signer.without_foreign_signatures(request);
        }
        let mut reusable = self.reusable(destination, preference);
        let repeat = exchange.repeat.as_ref();
        let mut times_unprocessed = repeat.map_or(0, RequestRepeat::times_unprocessed);
        loop {
            let session = match reusable.take() {
                Some(session) if session.is_alive().await => session,
                // Boxed because it is rare: a reused connection leaves every exchange's future this much smaller.
                _ => Box::pin(settings.upstream.connect(destination, preference)).await?,
            };
            let (is_reused, parent) = (session.lease.is_reused, session.lease.parent.clone());
            let is_to_origin = session.target_form.parent().is_none();
            match self.send(&request, session, client).await {
                // The origin had closed the connection before it saw the request.
                Err(RelayError::Upstream { fault, answered: false })
                    if is_reused && fault.is_stale_connection && may_repeat(received) =>
                {
                    if self.keeps_delay() {
                        return Err(RelayError::Repeat(RequestRepeat::StaleConnection));
                    }
                }
                // Nothing of it was served, so it may be sent again whatever its method.
                Err(RelayError::Upstream {
                    fault: UpstreamError { unprocessed: Some(wish), .. },
                    answered: false,
                }) if times_unprocessed < MAX_UNPROCESSED && client.sent_body.is_kept() => {
                    times_unprocessed += 1;
                    if wish == Unprocessed::OverHttp1 {
                        settings.upstream.remember_http1(destination.origin);
                    }
                    if self.keeps_delay() {
                        let times = times_unprocessed;
                        return Err(RelayError::Repeat(RequestRepeat::Unprocessed { times }));
                    }
                }
                // The response asked for a signature, which the signer accepts once. It is left unread, and the connection with it.
                Err(RelayError::SignatureRequested) => {
                    let requested = self.signer.as_ref().and_then(RequestSigner::requested);
                    if let Some(requested) = requested.filter(|_| self.keeps_pace()) {
                        let requested = Box::new(requested.clone());
                        return Err(RelayError::Repeat(RequestRepeat::Signature(requested)));
                    }
                    reusable = settings.upstream.reuse(destination, preference);
                }
                ended => {
                    // A parent that forwards requests may have broken it, or answered itself.
                    if is_to_origin {
                        self.record_reset(&ended);
                    }
                    return ended.map_err(|error| error.through_parent(parent.as_deref()));
                }
            }
        }
    }

    fn destination(&self) -> Destination<'_> {
        Destination {
            origin: self.resolved().target.origin(),
            source: self.exchange.crawler().and_then(|it| it.source_address),
            client: Some(self.exchange.connection.client),
            network: self.slot.and_then(PacingSlot::network),
        }
    }

    /// Returns a kept connection that may be used. One over HTTP/1 may just be closing.
    fn reusable(
        &self,
        destination: Destination<'_>,
        preference: VersionPreference,
    ) -> Option<UpstreamSession> {
        let upstream = &self.exchange.settings.upstream;
        match self.exchange.repeat {
            Some(RequestRepeat::StaleConnection | RequestRepeat::Unprocessed { .. }) => None,
            _ if may_repeat(self.exchange.received) => upstream.reuse(destination, preference),
            _ => upstream.share(destination, preference),
        }
    }

    /// Returns whether a second request has to wait for a turn of its own because the first one was sent in one.
    fn keeps_delay(&self) -> bool {
        self.slot.is_some_and(PacingSlot::has_pace) && self.keeps_pace()
    }

    /// Returns whether a second request has to take a turn of its own. Where refusals are only observed, the pace is not kept.
    fn keeps_pace(&self) -> bool {
        self.slot.is_some() && !self.exchange.is_observe_mode()
    }

    /// Records in the slot that the origin broke the connection instead of answering.
    fn record_reset(&self, ended: &Result<RelayedResponse, RelayError>) {
        if let Err(RelayError::Upstream { fault, answered: false }) = ended
            && matches!(fault.reason, Reason::ConnectionTerminated | Reason::HttpResponseIncomplete)
            && let Some(slot) = self.slot
        {
            slot.record_reset(&self.resolved().target);
        }
    }

    fn resolved(&self) -> &ResolvedTarget {
        &self.permit.resolved
    }

    /// Sends the request on one connection, and relays both bodies.
    async fn send(
        &self,
        request: &UpstreamRequest<'_>,
        session: UpstreamSession,
        client: &mut Downstream,
    ) -> Result<RelayedResponse, RelayError> {
        let UpstreamSession { connection, lease, target_form } = session;
        let exchange = self.exchange;
        let upstream = &exchange.settings.upstream;
        let signature = self.signer.as_ref().and_then(|it| it.sign(request));
        self.is_signed.store(signature.is_some(), Ordering::Relaxed);
        if let Some(slot) = self.slot {
            slot.record_dialled(lease.network);
        }
        let (mut writer, mut reader) =
            self.start(request, signature.as_ref(), connection, &target_form).await?;
        let dropped_interim = AtomicU64::new(0);
        let context = RelayContext {
            received: exchange.received,
            name: &exchange.settings.options.name,
            timeout: upstream.response_timeout(),
            inspect_head: &|head: &UpstreamHead, fields: &[FieldPair<'_>]| {
                check_parent_status(&target_form, head)?;
                self.inspect_head(head, fields, request, signature.is_some())
            },
            accept: &|head: &UpstreamHead| {
                let _ = self.relayed_status.set(head.status());
                exchange.remember_page(self.permit, head);
            },
            labeller: self.labeller.as_ref(),
            slot: self.slot,
            notes: &self.notes,
            relayed_bytes: &self.relayed_bytes,
            byte_meter: exchange.byte_meter(),
            dropped_interim: &dropped_interim,
        };
        let relayed = relay::relay(context, client, &mut writer, &mut reader).await;
        // Counted however the exchange ended: a repaired head may have been all that came.
        upstream.count_oddities(reader.oddities());
        upstream.count_dropped_interim(dropped_interim.into_inner());
        if let Err(RelayError::Upstream { fault, .. }) = &relayed
            && matches!(fault.reason, Reason::HttpResponseTimeout | Reason::ConnectionWriteTimeout)
        {
            reader.give_up_if_silent();
        }
        let response = relayed?;
        if response.connection_serves_again && !request.ends_connection() {
            upstream.release(&lease, writer, reader);
        }
        Ok(response)
    }

    /// Writes the request's head, unless its decision or its slot no longer holds.
    async fn start(
        &self,
        request: &UpstreamRequest<'_>,
        signature: Option<&SignatureFields>,
        connection: UpstreamConnection,
        target_form: &TargetForm,
    ) -> Result<(UpstreamWriter, UpstreamReader), RelayError> {
        let exchange = self.exchange;
        // Connecting, and fetching a robots.txt, takes a while: the decision may be out of date by now.
        if !exchange.services.decider.is_current(&exchange.settings) {
            return Err(RelayError::SettingsChanged);
        }
        if let Some(too_soon) = exchange.lost_slot(self.slot) {
            return Err(RelayError::TooSoon(too_soon));
        }
        let timeout = exchange.settings.upstream.response_timeout();
        let started = match connection {
            UpstreamConnection::Ftp(control) => {
                let ftp_request = ftp_request(exchange, self.resolved().path());
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
        self.is_request_sent.store(true, Ordering::Relaxed);
        if let Some(slot) = self.slot {
            slot.record_sent(request.framing() != BodyFraming::Length(0));
        }
        Ok(started)
    }

    /// Inspects the head of a response with these fields. Returns the fields to add if the client is to get it.
    fn inspect_head(
        &self,
        head: &UpstreamHead,
        fields: &[FieldPair<'_>],
        request: &UpstreamRequest<'_>,
        was_signed: bool,
    ) -> Result<InspectedHead, RelayError> {
        if let Some(signer) = &self.signer
            && signer.accept_request(head, request, was_signed)
        {
            return Err(RelayError::SignatureRequested);
        }
        let status = head.status();
        let mut added = self.own_fields.clone();
        if let Some(slot) = self.slot {
            let (settings, target) = (&self.exchange.settings, &self.resolved().target);
            let received = self.exchange.received;
            let credentials =
                || credentials_mark(received.field("authorization"), received.field("cookie"));
            let response = (status, fields);
            apply_response_to_pacing(slot, target, response, credentials, &settings.pacing);
            if settings.pacing.rate_limit_fields {
                added.extend(pace_fields(slot, target, fields, &settings.options.name));
            }
        }
        if status == SWITCHING_PROTOCOLS {
            self.is_upgraded.store(true, Ordering::Relaxed);
        }
        self.notes.take_head(status, fields);
        Ok(InspectedHead { own_fields: added, content: self.content_of_subresource(head)? })
    }

    /// Returns the part of the response that the client gets, if only a page's subresource may pass.
    fn content_of_subresource(&self, head: &UpstreamHead) -> Result<ContentTreatment, RelayError> {
        let Some(kind) = self.permit.subresource else {
            return Ok(ContentTreatment::Relay);
        };
        match subresource::passed_content(kind, self.resolved(), head) {
            Err(refusal) if self.exchange.is_observe_mode() => {
                let _ = self.observed.set(refusal);
                Ok(ContentTreatment::Relay)
            }
            Err(refusal) => Err(RelayError::Refused(refusal)),
            Ok(_) if self.exchange.is_observe_mode() => Ok(ContentTreatment::Relay),
            Ok(PassedContent::Whole) => Ok(ContentTreatment::Relay),
            Ok(PassedContent::None) => Ok(ContentTreatment::Omit),
            Ok(PassedContent::UnlessDocument) => {
                let refusal = subresource::document_refusal(kind, self.resolved());
                Ok(ContentTreatment::RefuseDocument(kind, Box::new(refusal)))
            }
        }
    }
}

/// Records the origin's response in the slot: the delay starts, and Retry-After, 429, 503 and a quota that is used up apply to the
/// next requests.
fn apply_response_to_pacing(
    slot: &PacingSlot<'_>,
    target: &Target,
    (status, fields): (u16, &[FieldPair<'_>]),
    credentials: impl FnOnce() -> Option<CredentialsMark>,
    config: &PacingConfig,
) {
    // On a redirect, Retry-After is the time until the other URL may be requested (RFC 9110 section 10.2.3).
    let retry_after = if matches!(status, 429 | 503) {
        first(fields, "retry-after").and_then(read_retry_after)
    } else {
        None
    };
    slot.record_answer(target, status, retry_after);
    // Retry-After takes precedence (draft-ietf-httpapi-ratelimit-headers, section 7).
    if config.rate_limit_fields
        && retry_after.is_none()
        && let Some(ServiceLimit { remaining, reset: Some(reset), is_partitioned }) =
            read_service_limit(fields, system_time)
    {
        let credentials = credentials();
        slot.record_quota(target, &ToldQuota { remaining, reset, is_partitioned, credentials });
    }
}

/// Returns the fields that report its pace to the client, as more members of the origin's own lists. A field of the origin in the form
/// of an earlier draft is left as it is: with a member more, nobody could read it.
fn pace_fields(
    slot: &PacingSlot<'_>,
    target: &Target,
    fields: &[FieldPair<'_>],
    name: &str,
) -> Vec<ResponseField<'static>> {
    let Some(limit) = slot.client_limit(target) else {
        return Vec::new();
    };
    let policy = limit.policy(name).map(|policy| ("RateLimit-Policy", policy));
    let members = policy.into_iter().chain([("RateLimit", limit.limit(name))]);
    let added = members.filter(|(field, _)| is_absent_or_list(fields, field));
    added.map(|(field, member)| response_field(field, member)).collect()
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
    match form.parent().and_then(|_| upstream::own_response_error(head)) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Returns the part of a request that an FTP server understands.
fn ftp_request<'a>(exchange: &'a Exchange<'_, '_>, path: &'a str) -> FtpRequest<'a> {
    let received = exchange.received;
    let accept = received.field("accept").unwrap_or_default();
    FtpRequest {
        path,
        is_head: received.method() == "HEAD",
        range: received.field("range").and_then(FtpRange::parse),
        prefers_text: accept.trim_ascii().starts_with(b"text/plain"),
        credentials: ftp_path::credentials(&received.target()),
        pool: exchange.services.decider.robots.parser(),
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
