//! May it, and when? A request is decided about, held back until its turn, and decided about again if it had to wait: by then
//! other rules, or another robots.txt, may hold.

use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::poll;
use tokio::time::Instant;
use wayleave_robots_txt::Reason;

use super::Exchanges;
use super::record::Known;
use crate::decide::identify::{self, Identified, Identity};
use crate::decide::permit::{Decided, Permit};
use crate::decide::refusal::{self, Refusal};
use crate::decide::request::{Connection, Request};
use crate::decide::resolve::{Asking, Scope};
use crate::decide::settings::{OnFailure, Settings};
use crate::http::client::Client;
use crate::http::received::Received;
use crate::identity::{Mode, Proof};
use crate::politeness::{Turn, Visit};

/// A request that was decided about, and whose turn has come.
pub(super) struct InTurn<'a> {
    /// What held when it was decided.
    pub(super) settings: Arc<Settings>,
    pub(super) proof: Option<Proof>,
    pub(super) known: Known,
    pub(super) next: Next<'a>,
}

/// What is to be done with a request.
pub(super) enum Next<'a> {
    Send(Cleared<'a>),
    Refuse(Refusal),
    /// Nothing: the client left.
    Left,
}

/// A request that may be sent.
pub(super) struct Cleared<'a> {
    pub(super) permit: Permit,
    /// Its turn at the origin: `None` if it needs none, or goes out of turn because that is only observed.
    pub(super) turn: Option<Turn<'a>>,
}

impl From<Permit> for Cleared<'_> {
    fn from(permit: Permit) -> Self {
        Self { permit, turn: None }
    }
}

impl InTurn<'_> {
    /// Of a client that left before it was decided.
    fn left(settings: Arc<Settings>, identified: Identified, url: String) -> Self {
        Self {
            known: Known {
                url,
                identity: Some(identified.identity),
                configuration: settings.configuration,
                ..Known::default()
            },
            proof: identified.proof,
            next: Next::Left,
            settings,
        }
    }
}

impl Exchanges {
    /// Decides about a request, and waits for its turn if it may go on.
    pub(super) async fn decide_in_turn(
        &self,
        connection: &Connection,
        received: &Received,
        client: &mut Client,
    ) -> InTurn<'_> {
        let settings = self.decider.settings();
        let request = Request::of(received, &settings.options.name);
        let asking = Asking::by(connection, &request);
        self.await_turn(settings, asking, client).await
    }

    /// The same for what is understood already.
    pub(super) async fn await_turn(
        &self,
        settings: Arc<Settings>,
        asking: Asking<'_>,
        client: &mut Client,
    ) -> InTurn<'_> {
        let decided = self.decide_once(settings, asking, client).await;
        let permit = match decided.next {
            Next::Send(Cleared { permit, .. }) if permit.resolved.scope != Scope::Bypass => permit,
            next => return InTurn { next, ..decided },
        };
        let from = asking.connection.client;
        let waiting = self.await_delay(&decided.settings, &decided.known, from, permit);
        let (next, waited) = match client.while_there(pin!(waiting)).await {
            Some(waited) => waited,
            None => (Next::Left, decided.known.waited),
        };
        let mut in_turn = InTurn { next, ..decided };
        in_turn.known.waited = waited;
        if waited.is_zero() {
            return in_turn;
        }
        // Few come here: in a box it takes no room in every connection.
        let settings = self.decider.settings();
        Box::pin(self.decide_again(in_turn, settings, asking, client)).await
    }

    async fn decide_once(
        &self,
        settings: Arc<Settings>,
        asking: Asking<'_>,
        client: &mut Client,
    ) -> InTurn<'_> {
        let Asking {
            connection,
            request,
            ..
        } = asking;
        let crawlers = &settings.crawlers;
        let identifying = identify::identify(crawlers, connection, request);
        let Some(identified) = client.while_there(pin!(identifying)).await else {
            let identified = identify::recognised(crawlers, connection, None, request);
            return InTurn::left(settings, identified, asking.spell(None));
        };
        let deciding = self.decider.decide(&settings, &identified, asking);
        let decided = client.while_connected(pin!(deciding)).await;
        match decided {
            Some(decided) => {
                self.count_mismatch(&identified, request);
                self.once_decided(settings, identified, decided)
            }
            None => {
                let url = asking.spell(asking.resolve().ok().as_ref());
                InTurn::left(settings, identified, url)
            }
        }
    }

    /// What is to be done with a request that was decided about, its turn aside.
    fn once_decided(
        &self,
        settings: Arc<Settings>,
        identified: Identified,
        decided: Decided,
    ) -> InTurn<'_> {
        let Decided {
            url,
            facts,
            verdict,
        } = decided;
        if facts.decided_at.is_some() {
            self.metrics.decision(facts.decided_in);
        }
        let next = match verdict {
            Ok(_) if settings.on_failure == OnFailure::Refuse && self.decisions.are_lost() => {
                Next::Refuse(Refusal::unrecorded())
            }
            Ok(permit) => Next::Send(permit.into()),
            Err(refusal) => Next::Refuse(refusal),
        };
        InTurn {
            next,
            known: Known {
                url,
                identity: Some(identified.identity),
                username: identified
                    .proof
                    .as_ref()
                    .map(|proof| Arc::clone(&proof.username)),
                configuration: settings.configuration,
                facts,
                ..Known::default()
            },
            proof: identified.proof,
            settings,
        }
    }

    fn count_mismatch(&self, identified: &Identified, request: &Request<'_>) {
        if let Some(crawler) = identified.identity.crawler()
            && !crawler.is_named_in(request.user_agent)
        {
            self.metrics.user_agent_mismatch(&crawler.name);
        }
    }

    /// Waits for the request's turn, as far as the configuration says so; tells for how long it waited.
    async fn await_delay(
        &self,
        settings: &Settings,
        known: &Known,
        client: IpAddr,
        permit: Permit,
    ) -> (Next<'_>, Duration) {
        let identity = known.identity.as_ref();
        let crawler = identity.and_then(Identity::crawler);
        let mode = identity.map(Identity::mode).unwrap_or_default();
        let options = match mode {
            Mode::Enforce => settings.politeness,
            Mode::Observe => settings.politeness.without_waiting(),
        };
        let own_delay = crawler.and_then(|crawler| crawler.default_delay);
        // It may always be asked for, so that neither waits nor makes the page behind it wait.
        let is_free = permit.reason == Reason::RobotsTxtItself.as_str();
        let facts = &known.facts;
        let delay = options.delay(facts.delay.or(own_delay));
        let own_token = crawler.and_then(|crawler| crawler.tokens.first());
        let pace = own_token.map_or(facts.group.as_str(), |token| token.as_str());
        let target = &permit.resolved.target;
        let visit = Visit {
            target,
            client,
            pace,
        };
        let turning = async {
            let politeness = &self.politeness;
            match is_free {
                true => politeness.turn_without_pause(&options, visit).await,
                false => politeness.turn(&options, visit, delay).await,
            }
        };
        let (turn, waited) = timed(pin!(turning)).await;
        let turn = turn.map_err(|too_soon| {
            refusal::too_soon(&too_soon, facts.delay, target.origin()).tolerated(mode)
        });
        let next = match turn {
            Ok(turn) => Next::Send(Cleared {
                permit,
                turn: Some(turn),
            }),
            Err(Ok(tolerated)) => {
                let observed = permit.observed.or(Some(tolerated));
                Next::Send(Permit { observed, ..permit }.into())
            }
            Err(Err(refusal)) => return (Next::Refuse(refusal), waited),
        };
        if !delay.is_zero() && !is_free {
            self.metrics.crawl_delay_wait(waited);
        }
        (next, waited)
    }

    /// Decides once more about a request that was not sent yet when other settings came to hold. It keeps its turn.
    pub(super) async fn decide_outdated<'a>(
        &'a self,
        before: InTurn<'a>,
        connection: &Connection,
        received: &Received,
        client: &mut Client,
    ) -> InTurn<'a> {
        let settings = self.decider.settings();
        let request = Request::of(received, &settings.options.name);
        let asking = Asking::by(connection, &request);
        Box::pin(self.decide_again(before, settings, asking, client)).await
    }

    /// Decides once more, by these settings, about a request whose turn has come. It keeps the turn that it waited for.
    async fn decide_again<'a>(
        &'a self,
        before: InTurn<'a>,
        settings: Arc<Settings>,
        asking: Asking<'_>,
        client: &mut Client,
    ) -> InTurn<'a> {
        let Next::Send(waited_for) = before.next else {
            return before;
        };
        let again = self.decide_once(settings, asking, client).await;
        let next = match again.next {
            Next::Send(Cleared { permit, .. }) => Next::Send(Cleared {
                permit: Permit {
                    observed: permit.observed.or(waited_for.permit.observed),
                    ..permit
                },
                turn: waited_for.turn,
            }),
            next => next,
        };
        let waited = before.known.waited;
        InTurn {
            next,
            known: Known {
                waited,
                ..again.known
            },
            ..again
        }
    }
}

/// What comes of it, and how long that took; zero, without a look at the clock, if it was there at once.
async fn timed<T>(mut work: Pin<&mut impl Future<Output = T>>) -> (T, Duration) {
    if let Poll::Ready(done) = poll!(&mut work) {
        return (done, Duration::ZERO);
    }
    let started = Instant::now();
    let done = work.await;
    (done, started.elapsed())
}
