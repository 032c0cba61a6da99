//! One request of a fetch: a new connection, the request, and the head of the response.

use std::fmt::Display;

use bytes::BytesMut;
use http::{HeaderMap, HeaderName, HeaderValue, Request, header};
use tokio::time::{Instant, timeout_at};
use wayleave_decision::Reason;
use wayleave_fairness::Holder;
use wayleave_http_wire::field_pairs::to_pairs;
use wayleave_http_wire::http1::{BodyFraming, write_fields};
use wayleave_http_wire::received::HttpVersion;
use wayleave_lifecycle::{CacheValidators, ChosenBy, FetchError, FetchErrorKind};
use wayleave_robots_txt::Target;
use wayleave_signing::{
    KeySigner, MessageToSign, SIGNATURE_FIELDS, SignatureFields, SignatureRequest,
};
use wayleave_upstream::egress::{EgressError, ParentProxy};
use wayleave_upstream::error::UpstreamError;
use wayleave_upstream::{
    self as upstream, ConnectionLease, Destination, FtpRequest, TargetForm, Upstream,
    UpstreamConnection, UpstreamHead, UpstreamReader, UpstreamSession, UpstreamWriter,
};

use super::document_sender::DocumentSender;
use super::fetch::{HttpFetcher, timed_out};
use super::fields;
use super::own_request::{OwnRequest, OwnRequestAnswer};

/// A response whose body has not been read yet.
pub(super) struct DocumentResponse {
    pub(super) status: u16,
    pub(super) fields: HeaderMap,
    pub(super) reader: UpstreamReader,
    /// Whether it may come from a public address.
    pub(super) is_public: bool,
    /// The signature that it asks for, which the request lacked: the request is to be sent again.
    pub(super) requested_signature: Option<SignatureRequest>,
    writer: UpstreamWriter,
    lease: ConnectionLease,
}

impl DocumentResponse {
    /// Counts the repairs, and leaves the connection to the requests that wait for this robots.txt or arrive soon.
    pub(super) fn finish(self, upstream: &Upstream) {
        upstream.count_oddities(self.reader.oddities());
        // Unread bytes would become the response to the next request.
        if self.reader.has_ended() {
            upstream.release(&self.lease, self.writer, self.reader);
        }
    }
}

impl HttpFetcher {
    /// Sends a request for `target`, with the signature that its origin has `requested`, and reads the head of the response.
    /// `chosen` says who chose the host.
    pub(super) async fn request(
        &self,
        target: &Target,
        validators: Option<&CacheValidators>,
        (sender, requested_signature): (DocumentSender<'_>, Option<SignatureRequest>),
        chosen: ChosenBy,
    ) -> Result<DocumentResponse, FetchError> {
        let destination = Destination {
            origin: target.origin(),
            source: sender.identity.source,
            // The per-client limit of connections is for requests; fetches have limits of their own.
            client: None,
            network: None,
        };
        let has_answered = requested_signature.is_some();
        let parts = DocumentRequest {
            target,
            validators,
            user_agent: sender.identity.user_agent.as_deref().unwrap_or(&self.options.user_agent),
            signed_by: sender.signer,
            via: via(sender.via, self.upstream.pseudonym()),
            requested_signature,
            deadline: sender.deadline,
        };
        let mut response = self.send(&parts, destination, chosen).await?;
        // Once only, or an origin that requests another signature each time would be asked forever.
        if !has_answered {
            response.requested_signature = parts.signature_requested_by(&response);
        }
        Ok(response)
    }

    async fn send(
        &self,
        parts: &DocumentRequest<'_>,
        destination: Destination<'_>,
        chosen: ChosenBy,
    ) -> Result<DocumentResponse, FetchError> {
        let (session, is_public) = self.connect(destination, parts, chosen).await?;
        let timeout = self.upstream.response_timeout();
        let started = match session.connection {
            UpstreamConnection::Http1(stream) => {
                let head = parts.http1(&session.target_form)?;
                upstream::start_http1(stream, &head, BodyFraming::Length(0), timeout).await
            }
            UpstreamConnection::Ftp(control) => {
                let ftp_request = FtpRequest {
                    path: parts.target.path().as_str(),
                    is_head: false,
                    range: None,
                    prefers_text: true,
                    credentials: None,
                    pool: &self.parser,
                    holder: Holder::OWN,
                };
                upstream::start_ftp(*control, &ftp_request, timeout).await
            }
            UpstreamConnection::Http2(stream) => {
                let head = parts.http2()?;
                upstream::start_http2(stream, head, BodyFraming::Length(0), timeout).await
            }
        };
        let parent = session.lease.parent.as_deref();
        let (writer, mut reader) =
            started.map_err(|fault| http_failure(fault.through_parent(parent)))?;
        let head = timeout_at(parts.deadline, reader.final_head("GET"))
            .await
            .map_err(|_| match session.target_form.parent() {
                // The origin may be the silent one, but nothing shows it.
                Some(parent) => {
                    let detail = format!("the parent proxy {} did not answer", parent.authority());
                    failure(FetchErrorKind::ProxyUnavailable, detail)
                }
                None => timed_out(self.options.timeout),
            })?
            .map_err(|fault| http_failure(fault.through_parent(parent)))?;
        if let Some(parent) = session.target_form.parent()
            && upstream::may_be_own_response(&head)
        {
            return Err(possibly_from_parent(parent, head.status()));
        }
        Ok(DocumentResponse {
            status: head.status(),
            fields: header_map(&head),
            reader,
            is_public,
            requested_signature: None,
            writer,
            lease: session.lease,
        })
    }

    /// Sends one of the proxy's own requests if the policy admits it.
    pub(super) async fn request_admitted(
        &self,
        own_request: &OwnRequest,
        deadline: Instant,
        sending: impl Future<Output = Result<DocumentResponse, FetchError>> + Send,
    ) -> Result<DocumentResponse, FetchError> {
        let Some(policy) = &self.own_request_policy else {
            return sending.await;
        };
        let admitted = timeout_at(deadline, policy.admit(own_request)).await.map_err(|_| {
            let detail = format!("{}: there was no slot in time", own_request.target);
            failure(FetchErrorKind::OwnPace, detail)
        })??;
        let response = sending.await;
        let now = self.clock.now();
        admitted.finish(response.as_ref().map(|response| {
            let retry_at = fields::read(&response.fields, now).retry_at;
            OwnRequestAnswer {
                status: response.status,
                retry_after: retry_at.map(|at| at.duration_since(now).unwrap_or_default()),
            }
        }));
        response
    }

    /// Opens a new connection to `destination`, and returns whether it may lead to a public address. The connection is
    /// new because the rest of an earlier response on a pooled one could be read as the origin's robots.txt.
    async fn connect(
        &self,
        mut destination: Destination<'_>,
        parts: &DocumentRequest<'_>,
        chosen: ChosenBy,
    ) -> Result<(UpstreamSession, bool), FetchError> {
        let deadline = self.upstream.connect_deadline();
        // No later than the fetch, whose error would not say that the origin was never asked.
        let before_origin = deadline.min(parts.deadline);
        let mut resolved = self.upstream.route(destination, before_origin).await;
        if let Err(EgressError::NoSourceForFamily { .. }) = resolved {
            // An origin that this source address cannot reach is reachable for others: let the crawler's own request
            // fail, not the robots.txt of all.
            destination.source = None;
            resolved = self.upstream.route(destination, before_origin).await;
        }
        let mut route = resolved.map_err(|error| egress_failure(&error, chosen))?;
        // Checked on the resolved addresses: a public name may resolve to an internal one.
        if chosen == ChosenBy::Public {
            let detail = "a public origin names a host at an internal address";
            let internal = || failure(FetchErrorKind::RedirectProhibited, detail);
            route = route.public_only().ok_or_else(internal)?;
        }
        let deadline = if route.parent().is_some() { before_origin } else { deadline };
        let connecting = self.upstream.connect_unshared(destination, &route, &parts.via, deadline);
        let session = connecting.await;
        Ok((session.map_err(connect_failure)?, route.is_public()))
    }
}

/// The parameters of a request.
struct DocumentRequest<'a> {
    target: &'a Target,
    validators: Option<&'a CacheValidators>,
    user_agent: &'a str,
    signed_by: Option<&'a KeySigner>,
    /// The `Via` field for parent proxies, so that one that leads back to us is noticed.
    via: Vec<u8>,
    /// The signature that the origin asked for in its answer to the same request.
    requested_signature: Option<SignatureRequest>,
    deadline: Instant,
}

impl DocumentRequest<'_> {
    /// Returns the signature that an answer asks for, if the request lacked it.
    fn signature_requested_by(&self, response: &DocumentResponse) -> Option<SignatureRequest> {
        let signed_by = self.signed_by?;
        if !matches!(response.status, 401 | 403) {
            return None;
        }
        // Made again: it was signed if the origin has asked for that before.
        let request = self.request(self.target.path().as_str()).ok()?;
        let requested = SignatureRequest::from_fields(&to_pairs(&response.fields))?;
        let origin = self.target.origin();
        let was_signed = request.headers().contains_key(SIGNATURE_FIELDS[0]);
        if was_signed && !signed_by.should_sign_again(origin, &requested) {
            return None;
        }
        signed_by.remember(origin, &requested);
        Some(requested)
    }

    fn http1(&self, form: &TargetForm) -> Result<BytesMut, FetchError> {
        let request = self.request(self.target.path().as_str())?;
        let line = match form {
            TargetForm::Origin => format!("GET {} HTTP/1.1\r\n", self.target.path()),
            // The absolute form, for a proxy (RFC 9112, 3.2.2).
            TargetForm::Absolute(_) => format!("GET {} HTTP/1.1\r\n", self.target),
        };
        let mut head = BytesMut::from(line.as_bytes());
        let authority = self.target.origin().authority();
        // First, as RFC 9110, 7.2 recommends.
        write_fields(&mut head, [(&b"host"[..], authority.as_bytes())]);
        write_fields(&mut head, to_pairs(request.headers()));
        if let Some(parent) = form.parent() {
            write_fields(&mut head, [(&b"Via"[..], &*self.via)]);
            parent.write_authorization(&mut head);
        }
        head.extend_from_slice(b"\r\n");
        Ok(head)
    }

    fn http2(&self) -> Result<Request<()>, FetchError> {
        self.request(&self.target.to_string())
    }

    fn request(&self, uri: &str) -> Result<Request<()>, FetchError> {
        let mut request = Request::get(uri)
            .header(header::ACCEPT, "text/plain, */*;q=0.5")
            // gzip is enough for text. Other codings are decoded if a server uses them unasked.
            .header(header::ACCEPT_ENCODING, "gzip");
        // A client without one gets the answer to a request without one.
        if !self.user_agent.is_empty() {
            request = request.header(header::USER_AGENT, self.user_agent.as_bytes());
        }
        if let Some(etag) = self.validators.and_then(|v| v.etag.as_deref()) {
            request = request.header(header::IF_NONE_MATCH, etag);
        }
        if let Some(date) = self.validators.and_then(|v| v.last_modified.as_deref()) {
            request = request.header(header::IF_MODIFIED_SINCE, date);
        }
        // Last, because the signature may cover the other fields.
        let signature = request.headers_ref().and_then(|fields| self.signature(fields));
        for (field, value) in SIGNATURE_FIELDS.iter().zip(signature.into_iter().flatten()) {
            request = request.header(*field, value);
        }
        request.body(()).map_err(|error| failure(FetchErrorKind::Internal, error))
    }

    fn signature(&self, fields: &HeaderMap) -> Option<SignatureFields> {
        let origin = self.target.origin();
        let message = MessageToSign {
            method: "GET",
            scheme: origin.scheme().as_str(),
            authority: &origin.authority(),
            path: self.target.path().as_str(),
            fields: &to_pairs(fields),
        };
        self.signed_by?.sign(origin, self.requested_signature.as_ref(), &message)
    }
}

/// Returns the `Via` value: the proxies of the causing request, and this one, called `name`, last.
fn via(earlier: Option<&[u8]>, name: &str) -> Vec<u8> {
    let ours = HttpVersion::Http11.via_entry(name);
    let all: Vec<_> = earlier.into_iter().chain([ours.as_bytes()]).collect();
    all.join(&b", "[..])
}

fn header_map(head: &UpstreamHead) -> HeaderMap {
    head.fields()
        .into_iter()
        .filter_map(|(name, value)| {
            let name = HeaderName::from_bytes(name).ok()?;
            Some((name, HeaderValue::from_bytes(value).ok()?))
        })
        .collect()
}

fn egress_failure(error: &EgressError, chosen: ChosenBy) -> FetchError {
    let is_redirected = chosen != ChosenBy::Crawler;
    let kind = match error {
        error if error.is_prohibited() && is_redirected => FetchErrorKind::RedirectProhibited,
        error if error.is_prohibited() => FetchErrorKind::Prohibited,
        EgressError::ParentUnreachable { .. } => FetchErrorKind::ProxyUnavailable,
        EgressError::DnsTimeout => FetchErrorKind::DnsTimeout,
        EgressError::DnsUnavailable { .. } => FetchErrorKind::DnsUnavailable,
        _ if error.is_refused_lookup() => FetchErrorKind::DnsUnavailable,
        // The origin exists even if it redirects to a name that does not.
        error if error.is_no_such_name() && !is_redirected => FetchErrorKind::NoSuchName,
        EgressError::Dns { .. } | EgressError::DnsFailed { .. } => FetchErrorKind::Dns,
        EgressError::Prohibited { .. } | EgressError::InternalName => FetchErrorKind::Prohibited,
        EgressError::NoSourceForFamily { .. } => FetchErrorKind::Connect,
    };
    failure(kind, error)
}

fn connect_failure(fault: UpstreamError) -> FetchError {
    let kind = match fault.reason {
        _ if fault.is_own_fault && fault.next_hop.is_some() => FetchErrorKind::ProxyUnavailable,
        _ if fault.is_own_fault => FetchErrorKind::Local,
        _ if fault.next_hop.is_some() => FetchErrorKind::Proxy,
        Reason::ConnectionTimeout => FetchErrorKind::ConnectTimeout,
        Reason::TlsCertificateError | Reason::TlsAlertReceived | Reason::TlsProtocolError => {
            FetchErrorKind::Tls
        }
        Reason::HttpProtocolError => FetchErrorKind::Http,
        _ => FetchErrorKind::Connect,
    };
    failure(kind, fault.details)
}

/// Fails a response that may be the parent proxy's own. An origin may send the same status, but as an answer it would
/// allow everything on the parent's word alone.
fn possibly_from_parent(parent: &ParentProxy, status: u16) -> FetchError {
    failure(
        FetchErrorKind::Proxy,
        format!("the answer {status} may come from the parent proxy {} itself", parent.authority()),
    )
}

fn http_failure(fault: UpstreamError) -> FetchError {
    failure(FetchErrorKind::Http, fault.details)
}

fn failure(kind: FetchErrorKind, detail: impl Display) -> FetchError {
    FetchError { kind, detail: detail.to_string() }
}
