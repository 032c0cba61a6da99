//! May it, and when? A request is decided about, held back until its turn, and decided about again if it had to wait: by then
//! other rules, or another robots.txt, may hold.

use std::pin::pin;
use std::sync::Arc;

use super::Exchanges;
use super::outcome::Known;
use crate::decide::identify::{self, Identified};
use crate::decide::permit::{Decided, Permit};
use crate::decide::refusal::Refusal;
use crate::decide::request::{Connection, Request};
use crate::decide::resolve::{Asking, Scope};
use crate::decide::settings::{OnFailure, Settings};
use crate::http::client::Client;
use crate::http::received::{HalfClosed, Received};
use crate::identity::Proof;
use crate::politeness::Turn;

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
    /// Its turn at the origin: `None` if it goes out of turn because that is only observed.
    Send(Permit, Option<Turn<'a>>),
    Refuse(Refusal),
    /// Nothing: the client left.
    Left,
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
        let asking = Asking {
            connection,
            request: &request,
            blind: None,
        };
        self.await_turn(settings, asking, received.half_closed(), client)
            .await
    }

    /// The same for what is understood already.
    pub(super) async fn await_turn(
        &self,
        settings: Arc<Settings>,
        asking: Asking<'_>,
        half_closed: HalfClosed,
        client: &mut Client,
    ) -> InTurn<'_> {
        let decided = self
            .decide_once(settings, asking, half_closed, client)
            .await;
        let permit = match decided.next {
            Next::Send(permit, _) if permit.resolved.scope != Scope::Bypass => permit,
            next => return InTurn { next, ..decided },
        };
        let waiting = self.await_delay(&decided.settings, &decided.known, permit);
        let (next, waited) = match client.while_there(half_closed, pin!(waiting)).await {
            Some(waited) => waited,
            None => (Next::Left, decided.known.waited),
        };
        let mut in_turn = InTurn { next, ..decided };
        in_turn.known.waited = waited;
        if waited.is_zero() {
            return in_turn;
        }
        // Few come here: in a box it takes no room in every connection.
        Box::pin(self.decide_again(in_turn, asking, half_closed, client)).await
    }

    async fn decide_once(
        &self,
        settings: Arc<Settings>,
        asking: Asking<'_>,
        half_closed: HalfClosed,
        client: &mut Client,
    ) -> InTurn<'_> {
        let Asking {
            connection,
            request,
            ..
        } = asking;
        let crawlers = &settings.crawlers;
        let identifying = identify::identify(crawlers, connection, request);
        let Some(identified) = client.while_there(half_closed, pin!(identifying)).await else {
            let identified = identify::recognised(crawlers, connection, None, request);
            return InTurn::left(settings, identified, asking.spell(None));
        };
        self.count_mismatch(&identified, request);
        let deciding = self.decider.decide(&settings, &identified, asking);
        let decided = client
            .while_there(HalfClosed::IsThere, pin!(deciding))
            .await;
        let Some(decided) = decided else {
            let url = asking.spell(asking.resolve().ok().as_ref());
            return InTurn::left(settings, identified, url);
        };
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
            Ok(permit) => Next::Send(permit, None),
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
        let asking = Asking {
            connection,
            request: &request,
            blind: None,
        };
        Box::pin(self.decide_again(before, asking, received.half_closed(), client)).await
    }

    /// Decides once more about a request whose turn has come. It keeps the turn that it waited for.
    async fn decide_again<'a>(
        &'a self,
        before: InTurn<'a>,
        asking: Asking<'_>,
        half_closed: HalfClosed,
        client: &mut Client,
    ) -> InTurn<'a> {
        let Next::Send(permit, turn) = before.next else {
            return before;
        };
        let settings = self.decider.settings();
        let again = self
            .decide_once(settings, asking, half_closed, client)
            .await;
        let next = match again.next {
            Next::Send(now, _) => {
                let observed = now.observed.or(permit.observed);
                Next::Send(Permit { observed, ..now }, turn)
            }
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
