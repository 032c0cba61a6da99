//! A `CONNECT`: whether a tunnel opens, and whether it is inspected.

use std::pin::pin;
use std::sync::Arc;

use tokio_util::task::task_tracker::TaskTrackerToken;
use wayleave_robots_txt::{Origin, Scheme};

use super::Exchanges;
use super::decide_in_turn::{Cleared, InTurn, Next};
use super::fields;
use super::outcome::{Outcome, client_closed, cut_off, passed};
use super::record::{Begun, Exchange, Known};
use super::revoke::Lasting;
use crate::decide::https_mode::{Mode, Way};
use crate::decide::identify::{self, Identity};
use crate::decide::permit::Permit;
use crate::decide::refusal::Refusal;
use crate::decide::request::{Connection, Request};
use crate::decide::resolve::{self, Asking, Resolved, Scope};
use crate::decide::settings::Settings;
use crate::http::client::Client;
use crate::http::http1::Framing;
use crate::http::received::Received;
use crate::http::request_target;
use crate::identity::Proof;
use crate::observe::metrics::OpenConnection;
use crate::origin::error::Fault;
use crate::origin::{Destination, Link};
use crate::politeness::Turn;

/// A tunnel may open.
pub(crate) struct TunnelPermit<'a> {
    pub(crate) origin: Origin,
    /// The proxies that the `CONNECT` has come by.
    pub(crate) via: Option<Arc<[u8]>>,
    /// What the `CONNECT` proved.
    pub(crate) proof: Option<Proof>,
    /// If TLS inside is not to be inspected.
    pub(crate) blind: Option<Box<BlindTunnel<'a>>>,
}

/// A tunnel into which nobody looks, before it is clear what passes through it.
pub(crate) struct BlindTunnel<'a> {
    /// What to record once that is clear.
    exchange: Exchange,
    /// The way to the origin. `None`: the tunnel was requested for plain HTTP, which is inspected.
    to_origin: Option<(Link, OpenConnection)>,
    allowed: Allowed<'a>,
    /// Until it is recorded.
    _under_way: TaskTrackerToken,
}

/// A tunnel into which nobody looks, once it is open.
pub(crate) struct OpenTunnel<'a> {
    /// Counts the connection as open.
    _open: OpenConnection,
    configuration: u64,
    allowed: Allowed<'a>,
}

/// Why a tunnel may open: enough to decide about it again.
struct Allowed<'a> {
    exchanges: &'a Exchanges,
    resolved: Resolved,
    /// The crawler's turn at the origin, held as long as the tunnel lasts.
    _turn: Option<Turn<'a>>,
    /// Who asked, with what was proved.
    connection: Connection,
    user_agent: Vec<u8>,
}

impl<'a> BlindTunnel<'a> {
    /// Whether the first bytes are not looked at either.
    pub(crate) fn is_bypass(&self) -> bool {
        self.allowed.resolved.scope == Scope::Bypass
    }

    /// Whether TLS may pass.
    pub(crate) fn is_for_tls(&self) -> bool {
        self.to_origin.is_some()
    }

    /// The connection to the origin, once it is recorded that the tunnel is used as it was allowed. `None`: TLS was not.
    pub(crate) fn open(self) -> Option<(Link, OpenTunnel<'a>)> {
        let (to_origin, open) = self.to_origin?;
        let configuration = self.exchange.known.configuration;
        self.allowed.exchanges.record_ended(self.exchange);
        let open = OpenTunnel {
            _open: open,
            configuration,
            allowed: self.allowed,
        };
        Some((to_origin, open))
    }

    /// Records that what came is refused.
    pub(crate) fn refuse(self, refusal: Refusal) {
        self.end(Outcome::Refuse(refusal));
    }

    /// Records that the proxy ended before anything came.
    pub(crate) fn cut_off(self) {
        self.end(Outcome::Fail(cut_off()));
    }

    fn end(self, outcome: Outcome) {
        self.allowed.exchanges.record_ended(Exchange {
            outcome,
            ..self.exchange
        });
    }
}

impl OpenTunnel<'_> {
    /// Waits until the tunnel would no longer be opened as it is.
    pub(crate) async fn revoked(&self) {
        let Allowed {
            exchanges,
            resolved,
            connection,
            user_agent,
            ..
        } = &self.allowed;
        let lasting = Lasting {
            connection,
            request: &Request::connect(user_agent),
            resolved,
        };
        let keeps = |now: &Settings| now.leaves_blind(resolved);
        exchanges.revoked(lasting, self.configuration, keeps).await;
    }
}

impl Exchanges {
    /// Takes a `CONNECT` whose head was read.
    ///
    /// # Errors
    ///
    /// Returns the exchange, refused or failed, that this was. It is not recorded yet.
    pub(crate) async fn connect(
        &self,
        connection: &Connection,
        received: &Received,
        client: &mut Client,
    ) -> Result<TunnelPermit<'_>, Box<Exchange>> {
        let _under_way = self.ending.begin();
        let begun = self.begin(connection, Some(received));
        let judging = pin!(self.judge_connect(begun, connection, received, client));
        if let Some(judged) = self.ending.unless_cut(judging).await {
            return judged;
        }
        let settings = self.decider.settings();
        let request = Request::of(received, &settings.options.name);
        let known = asked(&settings, connection, Some(&request));
        Err(Box::new(self.end(begun, known, Outcome::Fail(cut_off()))))
    }

    async fn judge_connect(
        &self,
        begun: Begun<'_>,
        connection: &Connection,
        received: &Received,
        client: &mut Client,
    ) -> Result<TunnelPermit<'_>, Box<Exchange>> {
        let settings = self.decider.settings();
        let request = Request::of(received, &settings.options.name);
        let ended = |outcome| {
            let known = asked(&settings, connection, Some(&request));
            Box::new(self.end(begun, known, outcome))
        };
        let refused = |refusal| ended(Outcome::Refuse(refusal));
        let understood = understand(&settings, connection, received, &request);
        let (origin, scope) = understood.map_err(refused)?;
        let Some(scope) = scope else {
            let admitting = admit(&settings, connection, &request, &origin);
            let admitted = client.while_there(pin!(admitting)).await;
            let admitted = admitted.ok_or_else(|| ended(Outcome::Fail(client_closed())))?;
            let proof = admitted.map_err(refused)?;
            return Ok(TunnelPermit {
                origin,
                via: request.via.clone(),
                proof,
                blind: None,
            });
        };
        let asking = Asking {
            connection,
            request: &request,
            blind: Some((&origin, scope)),
        };
        let in_turn = self.await_turn(settings.clone(), asking, client);
        let via = fields::passed(received, &settings.options.name);
        let opened = self.open_blind(begun, asking, &via, in_turn.await).await;
        opened.map(|(proof, blind)| TunnelPermit {
            origin,
            via: request.via.clone(),
            proof,
            blind: Some(blind),
        })
    }

    /// Opens the way to the origin of a tunnel inside which nothing will be seen.
    async fn open_blind<'a>(
        &'a self,
        begun: Begun<'_>,
        asking: Asking<'_>,
        via: &[u8],
        in_turn: InTurn<'a>,
    ) -> Result<(Option<Proof>, Box<BlindTunnel<'a>>), Box<Exchange>> {
        let InTurn {
            settings,
            proof,
            known,
            next,
        } = in_turn;
        let ended = |known, outcome| Box::new(self.end(begun, known, outcome));
        let Cleared { permit, turn } = match next {
            Next::Send(cleared) => cleared,
            Next::Refuse(refusal) => return Err(ended(known, refusal.into())),
            Next::Left => return Err(ended(known, Outcome::Fail(client_closed()))),
        };
        let origin = permit.resolved.target.origin();
        let crawler = known.identity.as_ref().and_then(Identity::crawler);
        let destination = Destination {
            origin,
            source: crawler.and_then(|it| it.source_address),
            client: Some(asking.connection.client),
        };
        let to_origin = match origin.scheme() {
            Scheme::Http | Scheme::Ftp => None,
            Scheme::Https => match settings.upstream.dial(destination, via).await {
                Ok(dialled) => Some(dialled),
                Err(fault) => return Err(ended(known, Outcome::Fail(fault.into()))),
            },
        };
        let outcome = passed(&permit, 200);
        let Permit { resolved, .. } = permit;
        let blind = BlindTunnel {
            exchange: self.end(begun, known, outcome),
            to_origin,
            _under_way: self.ending.begin(),
            allowed: Allowed {
                exchanges: self,
                resolved,
                _turn: turn,
                connection: asking.connection.proven_by(proof.clone()),
                user_agent: asking.request.user_agent.to_owned(),
            },
        };
        Ok((proof, Box::new(blind)))
    }
}

/// What is known of a request that was not decided about, or of none.
pub(super) fn asked(
    settings: &Settings,
    connection: &Connection,
    request: Option<&Request<'_>>,
) -> Known {
    let (crawlers, proof) = (&settings.crawlers, connection.proof.as_ref());
    let identity = request.map(|request| identify::recognise(crawlers, connection, proof, request));
    Known {
        url: request.map_or_else(
            || "-".to_owned(),
            |request| request_target::without_credentials(&request.target),
        ),
        identity,
        configuration: settings.configuration,
        ..Known::default()
    }
}

/// Where a tunnel is to lead, and how much of what is asked for inside is decided without being seen; `None`: it is inspected.
fn understand(
    settings: &Settings,
    connection: &Connection,
    received: &Received,
    request: &Request<'_>,
) -> Result<(Origin, Option<Scope>), Refusal> {
    if connection.tunnel.is_some() {
        return Err(Refusal::malformed("CONNECT inside a tunnel"));
    }
    if let Some(objection) = &request.objection {
        return Err(Refusal::clone(objection));
    }
    if received.framing() != Framing::Length(0) {
        return Err(Refusal::malformed("CONNECT with a body"));
    }
    let origin = resolve::resolve_connect(&request.target, Scheme::Https)?;
    match settings.https.way(origin.host()) {
        Way::Mode(Mode::Intercept) => Ok((origin, None)),
        // Port 80 is where plain HTTP is spoken: it is that robots.txt which counts there.
        Way::Mode(Mode::Tunnel) if origin.port() == Scheme::Http.default_port() => {
            let origin = resolve::resolve_connect(&request.target, Scheme::Http)?;
            Ok((origin, Some(Scope::EveryPath)))
        }
        Way::Mode(Mode::Tunnel | Mode::Refuse) => Ok((origin, Some(Scope::EveryPath))),
        Way::Bypass => Ok((origin, Some(Scope::Bypass))),
    }
}

/// Whether a tunnel may open whose every request will be decided about inside; what its client proved.
async fn admit(
    settings: &Settings,
    connection: &Connection,
    request: &Request<'_>,
    origin: &Origin,
) -> Result<Option<Proof>, Refusal> {
    let proof = identify::admit(&settings.crawlers, connection, request).await?;
    // Whatever else is wrong with the name is told inside, where clients show the answer.
    let upstream = &settings.upstream;
    let deadline = upstream.connect_deadline();
    let destination = Destination {
        origin,
        source: None,
        client: Some(connection.client),
    };
    match upstream.route(destination, deadline).await {
        Err(error) if error.is_prohibited() => Err(Fault::from(error).into()),
        _ => Ok(proof),
    }
}
