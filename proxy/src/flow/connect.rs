//! A `CONNECT`, judged: whether a tunnel opens, and whether anybody looks into it.

use std::sync::Arc;

use tokio::net::TcpStream;
use wayleave_policy::{Origin, Scheme};

use super::exchange::{Connection, Exchange, Facts, Identity, Outcome, Refusal};
use super::passage::Passage;
use super::request::{Received, Request};
use super::resolve::{self, Resolved, Scope};
use super::settings::Settings;
use super::way::{Flow, passed};
use super::{identify, record};
use crate::egress::EgressError;
use crate::fault::Fault;
use crate::http1::Framing;
use crate::https::{Mode, Way};
use crate::metrics::OpenConnection;
use crate::proxy_status::ErrorType;
use crate::traces::Parent;

/// Leave to open a tunnel.
pub(super) struct Leave<'a> {
    pub(super) origin: Origin,
    /// Who proved this name with the `CONNECT`.
    pub(super) username: Option<Arc<str>>,
    /// If TLS inside is not to be looked into.
    pub(super) unseen: Option<Box<Unseen<'a>>>,
}

/// A tunnel into which nobody looks.
pub(super) struct Unseen<'a> {
    /// What to record once it is clear what passes through it.
    pub(super) exchange: Exchange,
    /// Holds the crawler's turn at the origin.
    pub(super) passage: Passage<'a>,
    /// The way to the origin. `None`: the tunnel was asked for to speak plain HTTP, which is looked into.
    pub(super) to_origin: Option<(TcpStream, OpenConnection)>,
}

impl Unseen<'_> {
    /// Whether the first bytes are not looked at either.
    pub(super) fn is_bypass(&self) -> bool {
        self.passage.resolved.scope == Scope::Bypass
    }
}

impl Flow {
    /// Leave for the tunnel that `received` asks for.
    ///
    /// # Errors
    ///
    /// Returns the exchange, refused or failed, that this was.
    pub(super) async fn judge_connect(
        &self,
        connection: &Connection,
        received: &Received,
    ) -> Result<Leave<'_>, Box<Exchange>> {
        let settings = self.settings();
        let refused = |refusal| Box::new(self.refused(connection, Some(received), refusal));
        let request = received.request(&settings.options.name);
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
                let admitted = self.admit(&settings, connection, &request, &origin).await;
                return admitted
                    .map(|username| Leave {
                        origin,
                        username,
                        unseen: None,
                    })
                    .map_err(refused);
            }
            Way::Mode(Mode::Tunnel | Mode::Refuse) => Scope::EveryPath,
            Way::Bypass => Scope::Bypass,
        };
        let resolved = Resolved::unseen(origin, scope).map_err(refused)?;
        self.judge_unseen(&settings, connection, received, resolved)
            .await
    }

    /// Whether a tunnel may open whose every request will be judged inside; who proved to ask.
    async fn admit(
        &self,
        settings: &Settings,
        connection: &Connection,
        request: &Request<'_>,
        origin: &Origin,
    ) -> Result<Option<Arc<str>>, Refusal> {
        let username = identify::admit(&settings.crawlers, connection, request).await?;
        // Whatever else is wrong with the name is told inside, where clients show the answer.
        let egress = settings.upstream.egress();
        match egress.addresses(origin.host(), origin.port()).await {
            Err(error @ EgressError::Prohibited { .. }) => Err(Fault::from(error).into()),
            _ => Ok(username),
        }
    }

    /// Judges all that could be asked for inside, since nobody will see it.
    async fn judge_unseen(
        &self,
        settings: &Settings,
        connection: &Connection,
        received: &Received,
        resolved: Resolved,
    ) -> Result<Leave<'_>, Box<Exchange>> {
        let (id, started, started_at) = self.begin();
        let request = received.request(&settings.options.name);
        let mut identified =
            identify::identify(&settings.crawlers, &self.metrics, connection, &request).await;
        let origin = resolved.target.origin().clone();
        if settings.https.way(origin.host()) == Way::Mode(Mode::Refuse) {
            identified.objection.get_or_insert_with(https_refused);
        }
        let (mut facts, judged) = self
            .decide(settings, &mut identified, request.method, resolved)
            .await;
        self.metrics.decision(facts.decided_in);
        let identity = &identified.identity;
        let judged = match judged {
            Ok(passage) if passage.resolved.scope == Scope::Bypass => Ok(passage),
            Ok(passage) => {
                self.await_turn(settings, identity, &mut facts, passage)
                    .await
            }
            Err(refusal) => Err(refusal),
        };
        let (outcome, open) = match judged {
            Err(refusal) => (Outcome::Refuse(refusal), None),
            Ok(passage) if origin.scheme() == Scheme::Http => {
                (passed(&passage, 200), Some((passage, None)))
            }
            Ok(passage) => match settings.upstream.dial(&origin).await {
                Ok(dialled) => (passed(&passage, 200), Some((passage, Some(dialled)))),
                Err(fault) => (Outcome::Fail(fault.into()), None),
            },
        };
        let username = identified.username;
        let exchange = Exchange {
            id,
            started,
            started_at,
            client: connection.client,
            method: request.method.to_owned(),
            url: format!("{}:{}", origin.host(), origin.port()),
            identity: Some(identified.identity),
            configuration: settings.configuration,
            parent: self.parent(received),
            facts,
            outcome,
        };
        let Some((passage, to_origin)) = open else {
            return Err(Box::new(exchange));
        };
        Ok(Leave {
            origin,
            username,
            unseen: Some(Box::new(Unseen {
                exchange,
                passage,
                to_origin,
            })),
        })
    }

    /// The exchange of a client whose connection ends here: there is no request, or it is for a tunnel.
    pub(super) fn refused(
        &self,
        connection: &Connection,
        received: Option<&Received>,
        refusal: Refusal,
    ) -> Exchange {
        let (id, started, started_at) = self.begin();
        let settings = self.settings();
        let name = &settings.options.name;
        let request = received.map(|received| received.request(name));
        let identity: Option<Identity> = request.as_ref().map(|request| {
            let username = connection.username.as_deref();
            identify::recognise(&settings.crawlers, connection, username, request)
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
            outcome: Outcome::Refuse(refusal),
        }
    }

    pub(super) fn record(&self, exchange: Exchange) -> Outcome {
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

/// The refusal of HTTPS as such.
pub(super) fn https_refused() -> Refusal {
    Refusal {
        is_policy: true,
        ..Refusal::new(
            403,
            "HTTPS refused",
            ErrorType::HttpRequestDenied,
            "https-refused",
            "https.mode is \"refuse\": this proxy takes no HTTPS",
        )
    }
}
