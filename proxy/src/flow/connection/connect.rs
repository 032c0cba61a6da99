//! Judges a `CONNECT`: whether a tunnel opens, and whether it is inspected.

use tokio::net::TcpStream;
use wayleave_policy::{Origin, Scheme};

use crate::flow::decide::https_mode::{Mode, Way};
use crate::flow::decide::identify;
use crate::flow::decide::identify::Identity;
use crate::flow::decide::permit::Facts;
use crate::flow::decide::permit::Permit;
use crate::flow::decide::refusal::Refusal;
use crate::flow::decide::request::Connection;
use crate::flow::decide::request::Request;
use crate::flow::decide::resolve::{self, Asking, Scope};
use crate::flow::decide::settings::Settings;
use crate::flow::exchange::outcome::{Exchange, Outcome};
use crate::flow::exchange::record;
use crate::flow::exchange::{Flow, client_closed, passed};
use crate::http::client::Client;
use crate::http::http1::Framing;
use crate::http::received::Received;
use crate::identity::Proof;
use crate::observe::metrics::OpenConnection;
use crate::observe::traces::Parent;
use crate::origin::egress::EgressError;
use crate::origin::error::Fault;

/// TunnelPermit to open a tunnel.
pub(crate) struct TunnelPermit<'a> {
    pub(crate) origin: Origin,
    /// What the `CONNECT` proved.
    pub(crate) proof: Option<Proof>,
    /// If TLS inside is not to be inspected.
    pub(crate) unseen: Option<Box<BlindTunnel<'a>>>,
}

/// A tunnel into which nobody looks.
pub(crate) struct BlindTunnel<'a> {
    /// What to record once it is clear what passes through it.
    pub(crate) exchange: Exchange,
    /// Holds the crawler's turn at the origin.
    pub(crate) permit: Permit<'a>,
    /// Who asked, with what was proved, and the User-Agent: enough to judge it again.
    pub(crate) connection: Connection,
    pub(crate) user_agent: Vec<u8>,
    /// The way to the origin. `None`: the tunnel was requested for plain HTTP, which is inspected.
    pub(crate) to_origin: Option<(TcpStream, OpenConnection)>,
}

impl BlindTunnel<'_> {
    /// Whether the first bytes are not looked at either.
    pub(crate) fn is_bypass(&self) -> bool {
        self.permit.resolved.scope == Scope::Bypass
    }
}

impl Flow {
    /// TunnelPermit for the tunnel that `received` asks for.
    ///
    /// # Errors
    ///
    /// Returns the exchange, refused or failed, that this was.
    pub(crate) async fn judge_connect(
        &self,
        connection: &Connection,
        received: &Received,
        client: &mut Client,
    ) -> Result<TunnelPermit<'_>, Box<Exchange>> {
        let settings = self.settings();
        let refused = |refusal| Box::new(self.refused(connection, Some(received), refusal));
        let request = Request::of(received, &settings.options.name);
        let authority = understand(connection, received, &request).map_err(refused)?;
        let (way, scheme) = match settings.https.way(authority.host()) {
            // Port 80 is where plain HTTP is spoken: it is that robots.txt which counts there.
            Way::Mode(Mode::Tunnel) if authority.port() == Scheme::Http.default_port() => {
                (Way::Mode(Mode::Tunnel), Scheme::Http)
            }
            way => (way, Scheme::Https),
        };
        let origin = resolve::resolve_connect(&request.target, scheme).map_err(refused)?;
        let scope = match way {
            Way::Mode(Mode::Intercept) => {
                let admitting = self.admit(&settings, connection, &request, &origin);
                let half_closed = received.half_closed();
                let admitted = client.while_there(half_closed, admitting).await;
                let Some(admitted) = admitted else {
                    let failed = Outcome::Fail(client_closed());
                    return Err(Box::new(self.ended(connection, Some(received), failed)));
                };
                return admitted
                    .map(|proof| TunnelPermit {
                        origin,
                        proof,
                        unseen: None,
                    })
                    .map_err(refused);
            }
            Way::Mode(Mode::Tunnel | Mode::Refuse) => Scope::EveryPath,
            Way::Bypass => Scope::Bypass,
        };
        let asking = Asking {
            connection,
            received,
            unseen: Some((&origin, scope)),
        };
        self.judge_unseen(asking, &origin, client).await
    }

    /// Whether a tunnel may open whose every request will be judged inside; what its client proved.
    async fn admit(
        &self,
        settings: &Settings,
        connection: &Connection,
        request: &Request<'_>,
        origin: &Origin,
    ) -> Result<Option<Proof>, Refusal> {
        let proof = identify::admit(&settings.crawlers, connection, request).await?;
        // Whatever else is wrong with the name is told inside, where clients show the answer.
        let upstream = &settings.upstream;
        let deadline = upstream.connect_deadline();
        match upstream.route(origin, deadline).await {
            Err(error @ EgressError::Prohibited { .. }) => Err(Fault::from(error).into()),
            _ => Ok(proof),
        }
    }

    /// Judges all that could be asked for inside, since nobody will see it.
    async fn judge_unseen(
        &self,
        asking: Asking<'_>,
        origin: &Origin,
        client: &mut Client,
    ) -> Result<TunnelPermit<'_>, Box<Exchange>> {
        let (id, started, started_at) = self.begin();
        let judged = self.judge_in_turn(asking, client).await;
        let (outcome, open) = match judged.verdict {
            None => (Outcome::Fail(client_closed()), None),
            Some(Err(refusal)) => (Outcome::Refuse(refusal), None),
            Some(Ok(permit)) if origin.scheme() == Scheme::Http => {
                (passed(&permit, 200), Some((permit, None)))
            }
            Some(Ok(permit)) => match judged.settings.upstream.dial(origin).await {
                Ok(dialled) => (passed(&permit, 200), Some((permit, Some(dialled)))),
                Err(fault) => (Outcome::Fail(fault.into()), None),
            },
        };
        let proof = judged.identified.proof;
        let Asking {
            connection,
            received,
            ..
        } = asking;
        let exchange = Exchange {
            id,
            started,
            started_at,
            client: connection.client,
            method: received.method().to_owned(),
            url: judged.url,
            identity: Some(judged.identified.identity),
            configuration: judged.settings.configuration,
            parent: self.parent(received),
            facts: judged.facts,
            outcome,
        };
        let Some((permit, to_origin)) = open else {
            return Err(Box::new(exchange));
        };
        let user_agent = received.field("user-agent").unwrap_or_default();
        Ok(TunnelPermit {
            origin: origin.clone(),
            unseen: Some(Box::new(BlindTunnel {
                exchange,
                permit,
                connection: connection.proven_by(proof.clone()),
                user_agent: user_agent.to_owned(),
                to_origin,
            })),
            proof,
        })
    }

    /// The exchange, refused, of a client whose connection ends here: there is no request, or it is for a tunnel.
    pub(crate) fn refused(
        &self,
        connection: &Connection,
        received: Option<&Received>,
        refusal: Refusal,
    ) -> Exchange {
        self.ended(connection, received, Outcome::Refuse(refusal))
    }

    /// The exchange of a client whose connection ends here.
    fn ended(
        &self,
        connection: &Connection,
        received: Option<&Received>,
        outcome: Outcome,
    ) -> Exchange {
        let (id, started, started_at) = self.begin();
        let settings = self.settings();
        let name = &settings.options.name;
        let request = received.map(|received| Request::of(received, name));
        let identity: Option<Identity> = request.as_ref().map(|request| {
            let proof = connection.proof.as_ref();
            identify::recognise(&settings.crawlers, connection, proof, request)
        });
        let (method, url) = match &request {
            None => ("-", "-"),
            Some(request) => (request.method, &*request.target),
        };
        Exchange {
            id,
            started,
            started_at,
            client: connection.client,
            method: method.to_owned(),
            url: url.to_owned(),
            identity,
            configuration: settings.configuration,
            parent: received.map_or_else(Parent::default, |received| self.parent(received)),
            facts: Facts::default(),
            outcome,
        }
    }

    pub(crate) fn record(&self, exchange: Exchange) -> Outcome {
        let traces = self.traces.as_deref();
        record::record(&self.metrics, &self.decisions, traces, exchange)
    }
}

/// The authority of a `CONNECT` that is one.
fn understand(
    connection: &Connection,
    received: &Received,
    request: &Request<'_>,
) -> Result<Origin, Refusal> {
    if connection.tunnel.is_some() {
        return Err(Refusal::malformed("CONNECT inside a tunnel"));
    }
    if request.is_loop {
        return Err(Refusal::looped());
    }
    if received.framing() != Framing::Length(0) {
        return Err(Refusal::malformed("CONNECT with a body"));
    }
    resolve::resolve_connect(&request.target, Scheme::Https)
}
