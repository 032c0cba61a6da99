//! `CONNECT`: whether a tunnel opens, and whether it is inspected.

use std::pin::pin;
use std::sync::Arc;

use tokio_util::task::task_tracker::TaskTrackerToken;
use wayleave_admission::identity::PasswordProof;
use wayleave_admission::outcome::{ExchangeOutcome, NotSent, permitted_outcome};
use wayleave_admission::record::{ExchangeRecord, NamedDecision};
use wayleave_admission::request::{ClientConnection, RequestView};
use wayleave_admission::revoke::LongLivedRequest;
use wayleave_admission::settings::Settings;
use wayleave_admission::{GatedRequest, identify, refusal, target};
use wayleave_decision::{
    Crawler, HttpsHandling, HttpsMode, Identity, Permit, Refusal, ResolvedTarget, TargetScope,
};
use wayleave_http_wire::http1::BodyFraming;
use wayleave_http_wire::received::ReceivedHead;
use wayleave_pacing::PacingSlot;
use wayleave_pacing::budget::ByteMeter;
use wayleave_robots_txt::{Origin, UrlScheme};
use wayleave_telemetry::metrics::OpenConnection;
use wayleave_transport::http::downstream::Downstream;
use wayleave_transport::http::transport::BufferedStream;
use wayleave_upstream::error::UpstreamError;
use wayleave_upstream::{self as upstream, Destination, UpstreamLink};

use super::ExchangeServices;
use super::headers;
use super::own_tunnels::OwnTunnelGuard;

/// The permission to open a tunnel.
pub(crate) struct TunnelPermit<'a> {
    pub(crate) origin: Origin,
    /// The proxies that the `CONNECT` has passed (`Via`).
    pub(crate) via: Option<Arc<[u8]>>,
    /// The user name that the `CONNECT` proved.
    pub(crate) proof: Option<PasswordProof>,
    /// The words by which the `CONNECT` stated purposes.
    pub(crate) purposes: Vec<String>,
    /// Present if TLS inside is not inspected.
    pub(crate) blind: Option<Box<PendingBlindTunnel<'a>>>,
}

/// A tunnel that was decided, and confirmed to its client.
pub(crate) struct OpenedTunnel<'a> {
    /// `None` if the client was gone before the confirmation.
    pub(crate) incoming: Option<BufferedStream>,
    /// The connection outside.
    pub(crate) connection: ClientConnection,
    pub(crate) permit: TunnelPermit<'a>,
}

/// The knowledge of a tunnel's purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TunnelContent {
    /// TLS, or plain HTTP if it is inspected.
    TlsOrHttp,
    /// Not known before its first bytes, which will be decided about: now only the client and the address are checked.
    Unknown,
}

/// A tunnel that does not open. Its record is written, and its client waits for an answer.
pub(crate) struct RefusedTunnel {
    pub(crate) client: Downstream,
    pub(crate) outcome: ExchangeOutcome,
    decision: NamedDecision,
}

/// An uninspected tunnel whose first bytes have not arrived, so that its outcome is not known.
pub(crate) struct PendingBlindTunnel<'a> {
    record: ExchangeRecord,
    /// The outcome if the tunnel is used.
    outcome: ExchangeOutcome,
    /// The connection to the origin; `None` if the tunnel was requested for plain HTTP, which is inspected.
    to_origin: Option<TunnelLink>,
    grounds: TunnelGrounds<'a>,
    /// Delays the shutdown until the exchange is recorded.
    _in_progress: TaskTrackerToken,
}

/// An uninspected tunnel that is open.
pub(crate) struct OpenBlindTunnel<'a> {
    /// Counts the connection as open.
    _open: OpenConnection,
    _listed: Option<OwnTunnelGuard>,
    configuration: u64,
    grounds: TunnelGrounds<'a>,
}

/// The grounds on which a tunnel was allowed, from which it can be decided again.
struct TunnelGrounds<'a> {
    services: &'a ExchangeServices,
    resolved: ResolvedTarget,
    /// The crawler's slot at the origin, held until the tunnel closes.
    _slot: Option<PacingSlot<'a>>,
    /// The client's connection with the proof of the `CONNECT`.
    connection: ClientConnection,
    crawler: Option<Arc<Crawler>>,
    user_agent: Vec<u8>,
}

/// A tunnel to an origin, as `https.mode` and `https.bypass` treat it.
enum RequestedTunnel {
    /// A tunnel in which each request is decided by itself.
    Inspected(Origin),
    /// The tunnel is decided as a whole.
    Blind(Origin, TargetScope),
}

/// An uninspected tunnel that is permitted and connected to its origin.
struct DialledTunnel<'a> {
    permit: Permit,
    slot: Option<PacingSlot<'a>>,
    to_origin: Option<TunnelLink>,
}

/// The connection to the origin of an uninspected tunnel.
struct TunnelLink {
    link: UpstreamLink,
    open: OpenConnection,
    /// `None` if the connection has broken already.
    listed: Option<OwnTunnelGuard>,
}

impl<'a> PendingBlindTunnel<'a> {
    /// Returns whether not even the first bytes are inspected.
    pub(crate) fn is_bypass(&self) -> bool {
        self.grounds.resolved.scope == TargetScope::Bypass
    }

    /// Returns whether TLS may pass.
    pub(crate) fn is_for_tls(&self) -> bool {
        self.to_origin.is_some()
    }

    /// Records the tunnel as used and returns the connection to the origin; `None` if TLS was not allowed.
    pub(crate) fn open(self) -> Option<(UpstreamLink, OpenBlindTunnel<'a>)> {
        let TunnelLink { link, open, listed } = self.to_origin?;
        let configuration = self.record.configuration;
        // Recorded at the first bytes, not at the end: a tunnel may remain open for days.
        self.grounds.services.gate.record(self.record, &self.outcome);
        let grounds = self.grounds;
        Some((link, OpenBlindTunnel { _open: open, _listed: listed, configuration, grounds }))
    }

    /// Records why the tunnel ended before anything passed.
    pub(crate) fn close_unused(self, not_sent: NotSent) {
        let (outcome, _) = not_sent.into_outcome();
        self.grounds.services.gate.record(self.record, &outcome);
    }
}

impl OpenBlindTunnel<'_> {
    /// Returns the byte meter of the tunnel, if the crawler has a byte budget.
    pub(crate) fn byte_meter(&self) -> Option<ByteMeter<'_>> {
        wayleave_admission::budget::byte_meter(
            &self.grounds.services.gate.budgets,
            self.grounds.crawler.as_deref()?,
        )
    }

    /// Waits until a reload would no longer allow the tunnel as it is.
    pub(crate) async fn until_revoked(&self) {
        let TunnelGrounds { services, resolved, connection, user_agent, .. } = &self.grounds;
        let request = &RequestView::connect(user_agent);
        let tunnel = LongLivedRequest { connection, request, resolved };
        let permits_tunnel = |settings: &Settings| settings.permits_blind_tunnel(resolved);
        services.gate.until_revoked(tunnel, self.configuration, permits_tunnel).await;
    }
}

impl ExchangeServices {
    /// Handles a `CONNECT` whose head has been read. Returns the permission to open the tunnel, with the client to which it has to
    /// be confirmed; `None` if it was refused or failed, and the client has its answer.
    pub(crate) async fn connect(
        &self,
        connection: &ClientConnection,
        received: &ReceivedHead,
        client: Downstream,
    ) -> Option<(TunnelPermit<'_>, Downstream)> {
        let content = TunnelContent::TlsOrHttp;
        match self.decide_connect(connection, received, client, content).await {
            Ok(opened) => Some(opened),
            Err(refused) => {
                let RefusedTunnel { client, outcome, decision } = *refused;
                self.turn_away(client, &decision, &outcome).await;
                None
            }
        }
    }

    /// Decides a `CONNECT`, or its equivalent of another protocol. Returns the permission to open the tunnel.
    ///
    /// # Errors
    ///
    /// Returns the client if it was refused or failed, which has been recorded.
    pub(crate) async fn decide_connect(
        &self,
        connection: &ClientConnection,
        received: &ReceivedHead,
        mut client: Downstream,
        content: TunnelContent,
    ) -> Result<(TunnelPermit<'_>, Downstream), Box<RefusedTunnel>> {
        // The shutdown waits for records, not for a client that has to read its answer.
        let _in_progress = self.gate.shutdown.track();
        let request = GatedRequest::begin(&self.gate, connection, received);
        let mut exchange = TunnelRequest { services: self, request };
        let deciding = exchange.decide(&mut client, content);
        let decided = self.gate.shutdown.unless_cancelled(pin!(deciding)).await;
        let not_sent = match decided {
            Some(Ok((origin, dialled))) => {
                return Ok((exchange.into_tunnel(origin, dialled), client));
            }
            Some(Err(not_sent)) => not_sent,
            None => {
                exchange.request.record_undecided();
                NotSent::ShutDown
            }
        };
        let (outcome, _) = not_sent.into_outcome();
        let decision = exchange.request.record.named_decision(&outcome);
        self.gate.record(exchange.request.record, &outcome);
        Err(Box::new(RefusedTunnel { client, outcome, decision }))
    }
}

/// A `CONNECT` that is being decided.
struct TunnelRequest<'s, 'r> {
    services: &'s ExchangeServices,
    request: GatedRequest<'s, 'r>,
}

impl<'s> TunnelRequest<'s, '_> {
    /// Decides whether a tunnel to the returned origin may open, and connects to it if the tunnel will not be inspected.
    async fn decide(
        &mut self,
        client: &mut Downstream,
        content: TunnelContent,
    ) -> Result<(Origin, Option<DialledTunnel<'s>>), NotSent> {
        let mut slot = None;
        loop {
            // First, because whatever ends the exchange before its decision needs the target and the crawler in its record.
            self.request.record_undecided();
            let (origin, scope) = match self.requested_tunnel(content).map_err(NotSent::Refused)? {
                RequestedTunnel::Blind(origin, scope) => (origin, scope),
                RequestedTunnel::Inspected(origin) => {
                    // Only the client and the address are checked now.
                    let admitting = self.admit_inspected(&origin);
                    let admitted = client.run_unless_gone(pin!(admitting)).await;
                    self.request.proof =
                        admitted.ok_or(NotSent::ClientLeft)?.map_err(NotSent::Refused)?;
                    return Ok((origin, None));
                }
            };
            self.request.blind = Some((origin.clone(), scope));
            let (permit, its_slot) = self.request.admit(slot, client).await?;
            slot = its_slot;
            // It may have waited, and after a reload it may have to be inspected.
            if self.request.settings.permits_blind_tunnel(&permit.resolved) {
                let to_origin = self.dial_tunnel(&permit, slot.as_ref()).await?;
                // Connecting takes a while: as for a request, the decision may be out of date by now, and the slot another node's.
                if self.services.gate.decider.is_current(&self.request.settings) {
                    if let Some(too_soon) = self.request.lost_slot(slot.as_ref()) {
                        let refusal = refusal::too_soon(&too_soon, None, None, &origin);
                        return Err(NotSent::Refused(refusal));
                    }
                    return Ok((origin, Some(DialledTunnel { permit, slot, to_origin })));
                }
                self.request.settings = self.services.gate.decider.settings();
            }
        }
    }

    /// Returns the tunnel that is asked for.
    fn requested_tunnel(&self, content: TunnelContent) -> Result<RequestedTunnel, Refusal> {
        let request = self.request.request();
        if self.request.connection.tunnel.is_some() {
            return Err(Refusal::malformed("CONNECT inside a tunnel"));
        }
        if let Some(objection) = &request.objection {
            return Err(Refusal::clone(objection));
        }
        // The body's bytes would be read as the first bytes inside the tunnel (RFC 9110 section 9.3.6).
        if self.request.received.framing() != BodyFraming::Length(0) {
            return Err(Refusal::malformed("CONNECT with a body"));
        }
        let origin = target::resolve_connect(&request.target, UrlScheme::Https)?;
        match self.request.settings.https.handling_of(origin.host()) {
            HttpsHandling::Mode(HttpsMode::Intercept) => Ok(RequestedTunnel::Inspected(origin)),
            HttpsHandling::Mode(_) if content == TunnelContent::Unknown => {
                Ok(RequestedTunnel::Inspected(origin))
            }
            // Port 80 is where plain HTTP is spoken: it is that robots.txt which counts there.
            HttpsHandling::Mode(HttpsMode::Tunnel)
                if origin.port() == UrlScheme::Http.default_port() =>
            {
                let origin = target::resolve_connect(&request.target, UrlScheme::Http)?;
                Ok(RequestedTunnel::Blind(origin, TargetScope::EveryPath))
            }
            // Mode "refuse" is decided like a tunnel, because its refusal may only be observed.
            HttpsHandling::Mode(HttpsMode::Tunnel | HttpsMode::Refuse) => {
                Ok(RequestedTunnel::Blind(origin, TargetScope::EveryPath))
            }
            HttpsHandling::Bypass => Ok(RequestedTunnel::Blind(origin, TargetScope::Bypass)),
        }
    }

    /// Checks whether an inspected tunnel may open, whose requests are decided one by one, and returns its client's proof.
    async fn admit_inspected(&self, origin: &Origin) -> Result<Option<PasswordProof>, Refusal> {
        let settings = &self.request.settings;
        let connection = self.request.connection;
        let proof = identify::admit_tunnel(settings, connection, &self.request.request()).await?;
        let client = Some(connection.client);
        let destination = Destination { origin, source: None, client, network: None };
        let deadline = settings.upstream.connect_deadline();
        match settings.upstream.route(destination, deadline).await {
            Err(error) if error.is_prohibited() => Err(UpstreamError::from(error).into()),
            // Whatever else is wrong with the name is answered inside, where clients show the answer.
            _ => Ok(proof),
        }
    }

    /// Connects to the origin of an uninspected tunnel.
    async fn dial_tunnel(
        &self,
        permit: &Permit,
        slot: Option<&PacingSlot<'_>>,
    ) -> Result<Option<TunnelLink>, NotSent> {
        let origin = permit.resolved.target.origin();
        if origin.scheme() != UrlScheme::Https {
            // Plain HTTP is inspected even here, request by request, so it needs no connection yet.
            return Ok(None);
        }
        let destination = Destination {
            origin,
            source: self.request.crawler().and_then(|crawler| crawler.source_address),
            client: Some(self.request.connection.client),
            network: slot.and_then(PacingSlot::network),
        };
        let via =
            headers::passed_proxies(self.request.received, &self.request.settings.options.name);
        match self.request.settings.upstream.dial_tunnel(destination, &via).await {
            Ok((link, open)) => {
                let local = upstream::local_address(&link).ok();
                let listed = local.map(|local| self.services.own_tunnels.list(local));
                Ok(Some(TunnelLink { link, open, listed }))
            }
            Err(fault) => {
                Err(NotSent::Refused(Refusal { is_failure: true, ..Refusal::from(fault) }))
            }
        }
    }

    fn into_tunnel(self, origin: Origin, dialled: Option<DialledTunnel<'s>>) -> TunnelPermit<'s> {
        let RequestView { via, user_agent, purposes, .. } = self.request.request();
        let proof = self.request.proof;
        let crawler = match &self.request.record.identity {
            Some(Identity::Known(crawler)) => Some(Arc::clone(crawler)),
            _ => None,
        };
        let blind = dialled.map(|DialledTunnel { permit, slot, to_origin }| {
            // The origin has the connection, and nobody sees here when it answers.
            if let Some(slot) = &slot {
                slot.pass_turn();
            }
            Box::new(PendingBlindTunnel {
                record: self.request.record,
                outcome: permitted_outcome(&permit, 200),
                to_origin,
                _in_progress: self.services.gate.shutdown.track(),
                grounds: TunnelGrounds {
                    services: self.services,
                    resolved: permit.resolved,
                    _slot: slot,
                    connection: ClientConnection {
                        purposes: purposes.clone().into(),
                        ..self.request.connection.with_proof(proof.clone())
                    },
                    crawler,
                    user_agent: user_agent.to_owned(),
                },
            })
        });
        TunnelPermit { origin, via, proof, purposes, blind }
    }
}
