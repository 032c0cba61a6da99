//! A request at the gate: everything that is learned about it, from its head to its record.

use std::sync::Arc;
use std::time::Duration;

use wayleave_decision::{Crawler, EnforcementMode, Identity, Permit, Reason, TargetScope};
use wayleave_fairness::Holder;
use wayleave_http_wire::received::ReceivedHead;
use wayleave_lifecycle::FetchIdentity;
use wayleave_pacing::{ClientLimit, PredictedWait};
use wayleave_robots_cache::Requester;
use wayleave_robots_txt::Origin;
use wayleave_transport::http::downstream::ResponseField;

use super::allowed_pages::PageContext;
use super::documents::DocumentSource;
use super::gate::Gate;
use super::identity::PasswordProof;
use super::outcome::{ExchangeOutcome, RequestRepeat};
use super::record::{ExchangeRecord, decision_field};
use super::request::{ClientConnection, RequestView};
use super::response_policy::{self, ResponseLabeller};
use super::revoke::LongLivedRequest;
use super::settings::Settings;

/// One request, from its head to its record. Owns everything learned about it.
pub struct GatedRequest<'s, 'r> {
    pub gate: &'s Gate,
    pub connection: &'r ClientConnection,
    pub received: &'r ReceivedHead,
    /// The origin of an uninspected tunnel, and how much of it is decided without seeing the requests inside.
    pub blind: Option<(Origin, TargetScope)>,
    /// The settings of the last decision.
    pub settings: Arc<Settings>,
    pub proof: Option<PasswordProof>,
    /// The identity that robots.txt and documents count for, once the client is identified.
    pub(crate) fetch_identity: Arc<FetchIdentity>,
    /// The group of robots.txt that gives an unknown client its pace, where that matters.
    pub(crate) pace_group: String,
    /// The delay between the crawler's requests to the origin, once the request has asked for a slot.
    pub delay: Duration,
    /// The crawler whose budget the request has used.
    pub(crate) charged: Option<String>,
    /// The page that causes it, for a crawler for which pages are remembered.
    pub(crate) page_context: Option<Box<PageContext>>,
    /// The place in the queue that the request would have if refusals were not only observed.
    pub(crate) predicted_wait: Option<PredictedWait<'s>>,
    /// The cause for sending the request again, once it was sent.
    pub repeat: Option<RequestRepeat>,
    pub record: ExchangeRecord,
}

impl<'s, 'r> GatedRequest<'s, 'r> {
    /// Begins with the head of a request.
    pub fn begin(
        gate: &'s Gate,
        connection: &'r ClientConnection,
        received: &'r ReceivedHead,
    ) -> Self {
        let settings = gate.decider.settings();
        let now = gate.decider.robots.clock().now();
        Self {
            gate,
            connection,
            received,
            blind: None,
            record: ExchangeRecord::begin(connection, Some(received), now, settings.configuration),
            settings,
            proof: None,
            fetch_identity: FetchIdentity::proxy(),
            pace_group: String::new(),
            delay: Duration::ZERO,
            charged: None,
            page_context: None,
            predicted_wait: None,
            repeat: None,
        }
    }

    /// Returns the request, with an objection if it has already passed the proxy of the name in the settings.
    pub fn request(&self) -> RequestView<'r> {
        RequestView::from_received(self.received, &self.settings.options.name)
    }

    /// Returns the pace that a refusal for it reports to the client.
    pub fn client_limit(&self, outcome: &ExchangeOutcome) -> Option<ClientLimit> {
        let refusal = outcome.refusal()?;
        let is_for_pace = matches!(refusal.reason, Reason::CrawlDelay | Reason::OriginRests);
        let next_in = refusal.retry_after.filter(|_| is_for_pace)?;
        let is_told = self.settings.pacing.rate_limit_fields;
        is_told.then_some(ClientLimit { delay: self.delay, next_in })
    }

    /// Returns the crawler if the configuration has it.
    pub fn crawler(&self) -> Option<&Crawler> {
        self.record.identity.as_ref().and_then(Identity::crawler)
    }

    /// Returns whether refusals are only observed.
    pub fn is_observe_mode(&self) -> bool {
        let identity = self.record.identity.as_ref();
        identity.is_some_and(|identity| identity.mode() == EnforcementMode::Observe)
    }

    /// Creates the labeller of the response, if the request has usage preferences.
    pub fn labeller<'b>(&'b self, permit: &'b Permit) -> Option<ResponseLabeller<'b>> {
        let preferences = self.record.facts.preferences.as_ref()?;
        // Supplies the licences that the response names.
        let documents = DocumentSource {
            robots: &self.gate.decider.robots,
            settings: &self.settings,
            requester: Requester {
                crawler: self.record.identity.as_ref().map_or("", Identity::label),
                client: Some(self.connection.client),
                identity: Arc::clone(&self.fetch_identity),
                via: None,
            },
        };
        let method = self.received.method();
        let holder = Holder::of_client(self.connection.client);
        Some(ResponseLabeller::new(preferences, documents, permit, method, holder))
    }

    /// Returns the proxy's own fields, which replace any of the same name in the response.
    pub fn own_fields(&self, permit: &Permit) -> Vec<ResponseField<'static>> {
        let decision = decision_field(self.settings.options.decision_id, self.record.id);
        decision.into_iter().chain(self.preference_label(permit)).collect()
    }

    /// Returns the field that states the preferences of a response whose site's statements are not evaluated.
    pub fn preference_label(&self, permit: &Permit) -> Option<ResponseField<'static>> {
        // If they are, the labeller adds the field, once it knows those of the response.
        let has_statements = self.record.facts.preferences.is_some();
        if permit.purposes.is_empty() || has_statements {
            return None;
        }
        response_policy::label_without_statements(permit, self.received)
    }

    /// Waits until an upgraded connection would no longer be allowed as it is.
    pub async fn until_upgrade_revoked(&self, permit: &Permit) {
        let connection = &self.connection.with_proof(self.proof.clone());
        let upgraded =
            LongLivedRequest { connection, request: &self.request(), resolved: &permit.resolved };
        let permits_connection = |settings: &Settings| settings.permits_connection(connection);
        let configuration = self.settings.configuration;
        self.gate.until_revoked(upgraded, configuration, permits_connection).await;
    }
}
