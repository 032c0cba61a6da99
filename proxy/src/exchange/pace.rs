//! May it, and when? A request is decided about, held back until its turn, and decided about again if it had to wait: by then
//! other rules, or another robots.txt, may hold.

use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::poll;
use tokio::time::Instant;
use wayleave_decision::{EnforcementMode, Identity, Permit, Reason, Refusal, TargetScope};

use super::ExchangeServices;
use super::record::ExchangeFacts;
use crate::decide::DecidedRequest;
use crate::decide::identify::{self, IdentifiedClient};
use crate::decide::refusal;
use crate::decide::request::{ClientConnection, RequestView};
use crate::decide::settings::{LogFailureMode, Settings};
use crate::decide::target::IncomingRequest;
use crate::http::downstream::Downstream;
use crate::http::received::ReceivedHead;
use crate::identity::PasswordProof;
use crate::pacing::{PacedRequest, PacingSlot};

/// A request that was decided about, and whose turn has come.
pub(super) struct DecidedExchange<'a> {
    /// What held when it was decided.
    pub(super) settings: Arc<Settings>,
    pub(super) proof: Option<PasswordProof>,
    pub(super) known: ExchangeFacts,
    pub(super) next: NextStep<'a>,
}

/// What is to be done with a request.
pub(super) enum NextStep<'a> {
    Send(ClearedRequest<'a>),
    Refuse(Refusal),
    /// Nothing: the client left.
    Left,
}

/// A request that may be sent.
pub(super) struct ClearedRequest<'a> {
    pub(super) permit: Permit,
    /// Its turn at the origin: `None` if it needs none, or goes out of turn because that is only observed.
    pub(super) slot: Option<PacingSlot<'a>>,
}

impl From<Permit> for ClearedRequest<'_> {
    fn from(permit: Permit) -> Self {
        Self { permit, slot: None }
    }
}

impl DecidedExchange<'_> {
    /// Of a client that left before it was decided.
    fn left(settings: Arc<Settings>, identified: IdentifiedClient, url: String) -> Self {
        Self {
            known: ExchangeFacts {
                url,
                identity: Some(identified.identified.identity),
                configuration: settings.configuration,
                ..ExchangeFacts::default()
            },
            proof: identified.proof,
            next: NextStep::Left,
            settings,
        }
    }
}

impl ExchangeServices {
    /// Decides about a request, and waits for its turn if it may go on.
    pub(super) async fn decide_in_turn(
        &self,
        connection: &ClientConnection,
        received: &ReceivedHead,
        client: &mut Downstream,
    ) -> DecidedExchange<'_> {
        let settings = self.decider.settings();
        let request = RequestView::from_received(received, &settings.options.name);
        let asking = IncomingRequest::new(connection, &request);
        self.decide_and_wait(settings, asking, client).await
    }

    /// The same for what is understood already.
    pub(super) async fn decide_and_wait(
        &self,
        settings: Arc<Settings>,
        asking: IncomingRequest<'_>,
        client: &mut Downstream,
    ) -> DecidedExchange<'_> {
        let decided = self.decide_once(settings, asking, client).await;
        let permit = match decided.next {
            NextStep::Send(ClearedRequest { permit, .. })
                if permit.resolved.scope != TargetScope::Bypass =>
            {
                permit
            }
            next => return DecidedExchange { next, ..decided },
        };
        let from = asking.connection.client;
        let waiting = self.wait_for_slot(&decided.settings, &decided.known, from, permit);
        let (next, waited) = match client.run_unless_gone(pin!(waiting)).await {
            Some(waited) => waited,
            None => (NextStep::Left, decided.known.waited),
        };
        let mut in_turn = DecidedExchange { next, ..decided };
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
        asking: IncomingRequest<'_>,
        client: &mut Downstream,
    ) -> DecidedExchange<'_> {
        let IncomingRequest { connection, request, .. } = asking;
        let identifying = identify::identify(&settings, connection, request);
        let Some(identified) = client.run_unless_gone(pin!(identifying)).await else {
            let identified = identify::recognised(&settings, connection, None, request);
            return DecidedExchange::left(settings, identified, asking.display_target(None));
        };
        let deciding = self.decider.decide(&settings, &identified, asking);
        let decided = client.run_while_connected(pin!(deciding)).await;
        match decided {
            Some(decided) => {
                self.count_mismatch(&identified, request);
                self.once_decided(settings, identified, decided)
            }
            None => {
                let url = asking.display_target(asking.resolve().ok().as_ref());
                DecidedExchange::left(settings, identified, url)
            }
        }
    }

    /// What is to be done with a request that was decided about, its turn aside.
    fn once_decided(
        &self,
        settings: Arc<Settings>,
        identified: IdentifiedClient,
        decided: DecidedRequest,
    ) -> DecidedExchange<'_> {
        if decided.decided_at.is_some() {
            self.metrics.decision(decided.decided_in);
        }
        let next = match decided.result {
            Ok(_)
                if settings.on_failure == LogFailureMode::Refuse && self.decisions.is_failing() =>
            {
                NextStep::Refuse(refusal::unrecorded())
            }
            Ok(permit) => NextStep::Send(permit.into()),
            Err(refusal) => NextStep::Refuse(refusal),
        };
        DecidedExchange {
            next,
            known: ExchangeFacts {
                url: decided.url,
                identity: Some(identified.identified.identity),
                username: identified.proof.as_ref().map(|proof| Arc::clone(&proof.username)),
                configuration: settings.configuration,
                facts: decided.facts,
                pace_group: decided.pace_group,
                decided_at: decided.decided_at,
                decided_in: decided.decided_in,
                ..ExchangeFacts::default()
            },
            proof: identified.proof,
            settings,
        }
    }

    fn count_mismatch(&self, identified: &IdentifiedClient, request: &RequestView<'_>) {
        if let Some(crawler) = identified.identified.identity.crawler()
            && !crawler.is_named_in(request.user_agent)
        {
            self.metrics.user_agent_mismatch(&crawler.name);
        }
    }

    /// Waits for the request's turn, as far as the configuration says so; tells for how long it waited.
    async fn wait_for_slot(
        &self,
        settings: &Settings,
        known: &ExchangeFacts,
        client: IpAddr,
        permit: Permit,
    ) -> (NextStep<'_>, Duration) {
        let identity = known.identity.as_ref();
        let crawler = identity.and_then(Identity::crawler);
        let mode = identity.map(Identity::mode).unwrap_or_default();
        let options = match mode {
            EnforcementMode::Enforce => settings.politeness,
            EnforcementMode::Observe => settings.politeness.without_waiting(),
        };
        let own_delay = crawler.and_then(|crawler| crawler.default_delay);
        // It may always be asked for, so that neither waits nor makes the page behind it wait.
        let is_free = permit.reason == Reason::RobotsTxtItself;
        let facts = &known.facts;
        let delay = options.delay(facts.delay.or(own_delay));
        let own_token = crawler.and_then(|crawler| crawler.tokens.first());
        let pace = own_token.map_or(known.pace_group.as_str(), |token| token.as_str());
        let target = &permit.resolved.target;
        let visit = PacedRequest { target, client, pace };
        let turning = async {
            let politeness = &self.politeness;
            if is_free {
                politeness.wait_for_concurrency_slot(&options, visit).await
            } else {
                politeness.wait_for_slot(&options, visit, delay).await
            }
        };
        let (turn, waited) = timed(pin!(turning)).await;
        let turn = turn.map_err(|too_soon| {
            refusal::too_soon(&too_soon, facts.delay, target.origin()).enforce(mode)
        });
        let next = match turn {
            Ok(turn) => NextStep::Send(ClearedRequest { permit, slot: Some(turn) }),
            Err(Ok(tolerated)) => {
                let observed = permit.observed.or(Some(tolerated));
                NextStep::Send(Permit { observed, ..permit }.into())
            }
            Err(Err(refusal)) => return (NextStep::Refuse(refusal), waited),
        };
        if !delay.is_zero() && !is_free {
            self.metrics.crawl_delay_wait(waited);
        }
        (next, waited)
    }

    /// Decides once more about a request that was not sent yet when other settings came to hold. It keeps its turn.
    pub(super) async fn decide_outdated<'a>(
        &'a self,
        before: DecidedExchange<'a>,
        connection: &ClientConnection,
        received: &ReceivedHead,
        client: &mut Downstream,
    ) -> DecidedExchange<'a> {
        let settings = self.decider.settings();
        let request = RequestView::from_received(received, &settings.options.name);
        let asking = IncomingRequest::new(connection, &request);
        Box::pin(self.decide_again(before, settings, asking, client)).await
    }

    /// Decides once more, by these settings, about a request whose turn has come. It keeps the turn that it waited for.
    async fn decide_again<'a>(
        &'a self,
        before: DecidedExchange<'a>,
        settings: Arc<Settings>,
        asking: IncomingRequest<'_>,
        client: &mut Downstream,
    ) -> DecidedExchange<'a> {
        let NextStep::Send(waited_for) = before.next else {
            return before;
        };
        let again = self.decide_once(settings, asking, client).await;
        let next = match again.next {
            NextStep::Send(ClearedRequest { permit, .. }) => NextStep::Send(ClearedRequest {
                permit: Permit {
                    observed: permit.observed.or(waited_for.permit.observed),
                    ..permit
                },
                slot: waited_for.slot,
            }),
            next => next,
        };
        let waited = before.known.waited;
        DecidedExchange { next, known: ExchangeFacts { waited, ..again.known }, ..again }
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
