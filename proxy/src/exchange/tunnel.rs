//! `CONNECT`: whether a tunnel opens, and whether it is inspected.

use std::pin::pin;
use std::sync::Arc;

use tokio_util::task::task_tracker::TaskTrackerToken;
use wayleave_decision::{
    HttpsHandling, HttpsMode, Identity, Permit, Refusal, ResolvedTarget, TargetScope,
};
use wayleave_robots_txt::{Origin, Scheme};

use super::ExchangeServices;
use super::decide_in_turn::{ClearedRequest, DecidedExchange, NextStep};
use super::headers;
use super::outcome::{ExchangeOutcome, client_closed, permitted_outcome, shut_down};
use super::record::{EndedExchange, ExchangeFacts, ExchangeStart};
use super::revoke::LongLivedRequest;
use crate::decide::identify;
use crate::decide::request::{ClientConnection, RequestView};
use crate::decide::settings::Settings;
use crate::decide::target::{self, IncomingRequest};
use crate::http::downstream::Downstream;
use crate::http::http1::BodyFraming;
use crate::http::received::ReceivedHead;
use crate::http::request_target;
use crate::identity::PasswordProof;
use crate::pacing::PacingSlot;
use crate::telemetry::metrics::OpenConnection;
use crate::upstream::error::UpstreamError;
use crate::upstream::{Destination, UpstreamLink};

/// The permission to open a tunnel.
pub(crate) struct TunnelPermit<'a> {
    pub(crate) origin: Origin,
    /// The proxies that the `CONNECT` has passed (`Via`).
    pub(crate) via: Option<Arc<[u8]>>,
    /// The user name that the `CONNECT` proved.
    pub(crate) proof: Option<PasswordProof>,
    /// Present if TLS inside is not inspected.
    pub(crate) blind: Option<Box<PendingBlindTunnel<'a>>>,
}

/// An uninspected tunnel whose first bytes have not arrived, so that its outcome is not known.
pub(crate) struct PendingBlindTunnel<'a> {
    /// The exchange to record once the outcome is known.
    exchange: EndedExchange,
    /// The connection to the origin; `None` if the tunnel was requested for plain HTTP, which is inspected.
    to_origin: Option<(UpstreamLink, OpenConnection)>,
    allowed: TunnelGrounds<'a>,
    /// Delays the shutdown until the exchange is recorded.
    _under_way: TaskTrackerToken,
}

/// An uninspected tunnel that is open.
pub(crate) struct OpenBlindTunnel<'a> {
    /// Counts the connection as open.
    _open: OpenConnection,
    configuration: u64,
    allowed: TunnelGrounds<'a>,
}

/// The grounds on which a tunnel was allowed, from which it can be decided again.
struct TunnelGrounds<'a> {
    exchanges: &'a ExchangeServices,
    resolved: ResolvedTarget,
    /// The crawler's slot at the origin, held until the tunnel closes.
    _turn: Option<PacingSlot<'a>>,
    /// The client's connection with what the `CONNECT` proved.
    connection: ClientConnection,
    user_agent: Vec<u8>,
}

impl<'a> PendingBlindTunnel<'a> {
    /// Returns whether not even the first bytes are inspected.
    pub(crate) fn is_bypass(&self) -> bool {
        self.allowed.resolved.scope == TargetScope::Bypass
    }

    /// Returns whether TLS may pass.
    pub(crate) fn is_for_tls(&self) -> bool {
        self.to_origin.is_some()
    }

    /// Records the tunnel as used and returns the connection to the origin; `None` if TLS was not allowed.
    pub(crate) fn open(self) -> Option<(UpstreamLink, OpenBlindTunnel<'a>)> {
        let (to_origin, open) = self.to_origin?;
        // Recorded at the first bytes, not at the end: a tunnel may stay open for days.
        let configuration = self.exchange.known.configuration;
        self.allowed.exchanges.record_ended(self.exchange);
        let open = OpenBlindTunnel { _open: open, configuration, allowed: self.allowed };
        Some((to_origin, open))
    }

    /// Records that the first bytes were refused.
    pub(crate) fn refuse(self, refusal: Refusal) {
        self.end(ExchangeOutcome::Refuse(refusal));
    }

    /// Records that the proxy shut down before any bytes came.
    pub(crate) fn cut_off(self) {
        self.end(ExchangeOutcome::Fail(shut_down()));
    }

    fn end(self, outcome: ExchangeOutcome) {
        self.allowed.exchanges.record_ended(EndedExchange { outcome, ..self.exchange });
    }
}

impl OpenBlindTunnel<'_> {
    /// Waits until a reload would no longer allow the tunnel as it is.
    pub(crate) async fn until_revoked(&self) {
        let TunnelGrounds { exchanges, resolved, connection, user_agent, .. } = &self.allowed;
        let lasting =
            LongLivedRequest { connection, request: &RequestView::connect(user_agent), resolved };
        let keeps = |now: &Settings| now.permits_blind_tunnel(resolved);
        exchanges.until_revoked(lasting, self.configuration, keeps).await;
    }
}

impl ExchangeServices {
    /// Handles a `CONNECT` whose head has been read.
    ///
    /// # Errors
    ///
    /// Returns the exchange if it was refused or failed. It is not recorded yet.
    pub(crate) async fn connect(
        &self,
        connection: &ClientConnection,
        received: &ReceivedHead,
        client: &mut Downstream,
    ) -> Result<TunnelPermit<'_>, Box<EndedExchange>> {
        let _under_way = self.shutdown.track();
        let begun = self.begin(connection, Some(received));
        let judging = pin!(self.decide_connect(begun, connection, received, client));
        if let Some(judged) = self.shutdown.unless_cancelled(judging).await {
            return judged;
        }
        let settings = self.decider.settings();
        let request = RequestView::from_received(received, &settings.options.name);
        let known = undecided_record(&settings, connection, Some(&request));
        Err(Box::new(self.end(begun, known, ExchangeOutcome::Fail(shut_down()))))
    }

    async fn decide_connect(
        &self,
        begun: ExchangeStart<'_>,
        connection: &ClientConnection,
        received: &ReceivedHead,
        client: &mut Downstream,
    ) -> Result<TunnelPermit<'_>, Box<EndedExchange>> {
        let settings = self.decider.settings();
        let request = RequestView::from_received(received, &settings.options.name);
        let ended = |outcome| {
            let known = undecided_record(&settings, connection, Some(&request));
            Box::new(self.end(begun, known, outcome))
        };
        let refused = |refusal| ended(ExchangeOutcome::Refuse(refusal));
        let understood = tunnel_scope(&settings, connection, received, &request);
        let (origin, scope) = understood.map_err(refused)?;
        // Inspected: each request inside is decided by itself, so only the client and the address are checked now.
        let Some(scope) = scope else {
            let admitting = admit(&settings, connection, &request, &origin);
            let admitted = client.run_unless_gone(pin!(admitting)).await;
            let admitted = admitted.ok_or_else(|| ended(ExchangeOutcome::Fail(client_closed())))?;
            let proof = admitted.map_err(refused)?;
            return Ok(TunnelPermit { origin, via: request.via.clone(), proof, blind: None });
        };
        let asking =
            IncomingRequest { connection, request: &request, blind: Some((&origin, scope)) };
        let in_turn = self.decide_and_wait(settings.clone(), asking, client);
        let via = headers::passed_proxies(received, &settings.options.name);
        let opened = self.open_blind(begun, asking, &via, in_turn.await).await;
        opened.map(|(proof, blind)| TunnelPermit {
            origin,
            via: request.via.clone(),
            proof,
            blind: Some(blind),
        })
    }

    /// Connects to the origin of an uninspected tunnel.
    async fn open_blind<'a>(
        &'a self,
        begun: ExchangeStart<'_>,
        asking: IncomingRequest<'_>,
        via: &[u8],
        in_turn: DecidedExchange<'a>,
    ) -> Result<(Option<PasswordProof>, Box<PendingBlindTunnel<'a>>), Box<EndedExchange>> {
        let DecidedExchange { settings, proof, known, next } = in_turn;
        let ended = |known, outcome| Box::new(self.end(begun, known, outcome));
        let ClearedRequest { permit, slot: turn } = match next {
            NextStep::Send(cleared) => cleared,
            NextStep::Refuse(refusal) => return Err(ended(known, refusal.into())),
            NextStep::Left => return Err(ended(known, ExchangeOutcome::Fail(client_closed()))),
        };
        let origin = permit.resolved.target.origin();
        let crawler = known.identity.as_ref().and_then(Identity::crawler);
        let destination = Destination {
            origin,
            source: crawler.and_then(|it| it.source_address),
            client: Some(asking.connection.client),
        };
        // Plain HTTP is inspected even here, request by request, so it needs no connection yet.
        let to_origin = match origin.scheme() {
            Scheme::Http | Scheme::Ftp => None,
            Scheme::Https => match settings.upstream.dial_tunnel(destination, via).await {
                Ok(dialled) => Some(dialled),
                Err(fault) => return Err(ended(known, ExchangeOutcome::Fail(fault.into()))),
            },
        };
        let outcome = permitted_outcome(&permit, 200);
        let Permit { resolved, .. } = permit;
        let blind = PendingBlindTunnel {
            exchange: self.end(begun, known, outcome),
            to_origin,
            _under_way: self.shutdown.track(),
            allowed: TunnelGrounds {
                exchanges: self,
                resolved,
                _turn: turn,
                connection: asking.connection.with_proof(proof.clone()),
                user_agent: asking.request.user_agent.to_owned(),
            },
        };
        Ok((proof, Box::new(blind)))
    }
}

/// Returns the facts about a request that was not decided, or about a connection without one.
pub(super) fn undecided_record(
    settings: &Settings,
    connection: &ClientConnection,
    request: Option<&RequestView<'_>>,
) -> ExchangeFacts {
    let proof = connection.proof.as_ref();
    let identity =
        request.map(|request| identify::identity_of(settings, connection, proof, request));
    ExchangeFacts {
        url: request.map_or_else(
            || "-".to_owned(),
            |request| request_target::without_credentials(&request.target),
        ),
        identity,
        configuration: settings.configuration,
        ..ExchangeFacts::default()
    }
}

/// Returns the origin that a tunnel leads to, and the scope in which it is decided without inspection; `None` if it is
/// inspected.
fn tunnel_scope(
    settings: &Settings,
    connection: &ClientConnection,
    received: &ReceivedHead,
    request: &RequestView<'_>,
) -> Result<(Origin, Option<TargetScope>), Refusal> {
    if connection.tunnel.is_some() {
        return Err(Refusal::malformed("CONNECT inside a tunnel"));
    }
    if let Some(objection) = &request.objection {
        return Err(Refusal::clone(objection));
    }
    // The body's bytes would be read as the first bytes inside the tunnel (RFC 9110 section 9.3.6).
    if received.framing() != BodyFraming::Length(0) {
        return Err(Refusal::malformed("CONNECT with a body"));
    }
    let origin = target::resolve_connect(&request.target, Scheme::Https)?;
    match settings.https.handling_of(origin.host()) {
        HttpsHandling::Mode(HttpsMode::Intercept) => Ok((origin, None)),
        // Port 80 is where plain HTTP is spoken: it is that robots.txt which counts there.
        HttpsHandling::Mode(HttpsMode::Tunnel) if origin.port() == Scheme::Http.default_port() => {
            let origin = target::resolve_connect(&request.target, Scheme::Http)?;
            Ok((origin, Some(TargetScope::EveryPath)))
        }
        HttpsHandling::Mode(HttpsMode::Tunnel | HttpsMode::Refuse) => {
            Ok((origin, Some(TargetScope::EveryPath)))
        }
        HttpsHandling::Bypass => Ok((origin, Some(TargetScope::Bypass))),
    }
}

/// Checks whether an inspected tunnel may open, whose requests are decided one by one, and returns what its client proved.
async fn admit(
    settings: &Settings,
    connection: &ClientConnection,
    request: &RequestView<'_>,
    origin: &Origin,
) -> Result<Option<PasswordProof>, Refusal> {
    let proof = identify::admit_tunnel(settings, connection, request).await?;
    // Whatever else is wrong with the name is told inside, where clients show the answer.
    let upstream = &settings.upstream;
    let deadline = upstream.connect_deadline();
    let destination = Destination { origin, source: None, client: Some(connection.client) };
    match upstream.route(destination, deadline).await {
        Err(error) if error.is_prohibited() => Err(UpstreamError::from(error).into()),
        _ => Ok(proof),
    }
}
