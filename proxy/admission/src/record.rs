//! The record of an exchange: one decision, one count, and a trace if traces are collected.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use wayleave_decision::{
    ASSERTED, Crawler, DecisionFacts, Identity, PreferenceFinding, RuleMatch, Subresource,
    TargetScope, Verdict,
};
use wayleave_decision_log::new_decision_id;
use wayleave_evidence::Sha256Digest;
use wayleave_http_wire::edge_refusal::EdgeRefusal;
use wayleave_http_wire::field_pairs::is_named;
use wayleave_http_wire::http1::oddities::Oddities;
use wayleave_http_wire::received::ReceivedHead;
use wayleave_otlp::traces::ParentTrace;
use wayleave_record::{
    AnswerSource, AskedVia, DecisionId, DecisionRecord, LogWord, MAX_USER_AGENT_BYTES,
    PaymentRecord, PaymentScheme, RecordedIdentity, RequestSignature, RuleRecord,
    SubresourceRecord, UsePreference, Word,
};
use wayleave_robots_txt::{AccessVerdict, excerpt};
use wayleave_transport::http::downstream::{ResponseField, response_field};
use wayleave_usage_preferences::{Preference, Purpose};

use crate::identity::ClientCertificate;
use crate::preview::{PreviewedDecision, Reading};
use crate::request::ClientConnection;

use super::gate::Gate;
use super::outcome::{ExchangeOutcome, permitted_outcome};
use super::payment::PaymentDemand;

/// The URL in the record of a connection without a readable request.
pub const NO_URL: &str = "-";

/// The most bytes of a request target that are recorded if it names no target, since nothing is decided about it.
const MAX_UNRESOLVED_BYTES: usize = 1024;

/// The URL in a record.
#[derive(Debug, Default)]
pub struct RecordedUrl {
    pub text: String,
    /// The length and the SHA-256 of the whole text, if this is only its beginning.
    whole: Option<(usize, Sha256Digest)>,
}

impl RecordedUrl {
    /// Records the URL of a target, which can be decided about again.
    pub fn whole(text: String) -> Self {
        Self { text, whole: None }
    }

    /// Records a request target that was not understood: all of it, or the beginning of a long one.
    pub(crate) fn beginning_of(mut text: String) -> Self {
        if text.len() <= MAX_UNRESOLVED_BYTES {
            return Self::whole(text);
        }
        let whole = (text.len(), Sha256Digest::of(text.as_bytes()));
        text.truncate(text.floor_char_boundary(MAX_UNRESOLVED_BYTES));
        Self { text, whole: Some(whole) }
    }
}

/// The field that names a decision.
const DECISION: &str = "Wayleave-Decision";

/// Returns the field that names a decision, if it is asked for.
pub fn decision_field(is_asked_for: bool, id: DecisionId) -> Option<ResponseField<'static>> {
    is_asked_for.then(|| response_field(DECISION, id.to_string()))
}

/// Returns whether this is the name of that field.
pub(crate) fn is_decision_field(name: &[u8]) -> bool {
    is_named(name, DECISION)
}

/// Returns whether only this proxy may set a field of this name.
pub fn is_own_field(name: &[u8]) -> bool {
    name.get(..9).is_some_and(|start| is_named(start, "wayleave-"))
}

/// The record of one request. It begins with the request's head, the steps fill it in, and the outcome finishes it.
#[derive(Debug)]
pub struct ExchangeRecord {
    pub id: DecisionId,
    pub started: Instant,
    pub started_at: SystemTime,
    client: IpAddr,
    peer: Option<IpAddr>,
    certificate: Option<Arc<ClientCertificate>>,
    method: String,
    user_agent: Option<String>,
    user_agent_cut: bool,
    /// The trace context that the request carries.
    parent: ParentTrace,
    pub url: RecordedUrl,
    pub identity: Option<Identity>,
    /// The user name that a password proved.
    pub username: Option<Arc<str>>,
    /// The number of the configuration that decided, from 1.
    pub configuration: u64,
    /// The words by which the client states purposes.
    pub(crate) stated_purposes: Vec<String>,
    pub facts: DecisionFacts,
    /// The decision about the page that causes the request.
    pub(crate) page_decision: Option<DecisionId>,
    /// The moment at which the decision began, if there was one.
    pub(crate) decision_began_at: Option<Instant>,
    pub(crate) decided_in: Duration,
    /// The time spent waiting for a slot.
    pub waited: Duration,
    /// The time for which enforcement would have held a request that was sent at once.
    pub would_wait: Option<Duration>,
    /// The repairs of the origin's response.
    pub oddities: Oddities,
    /// `signed` if a crawler with a key had it signed, `tunnel` where that was impossible.
    pub signature: Option<RequestSignature>,
    /// The agent in whose name it was signed.
    pub agent: Option<String>,
    /// The size of the origin's body as far as the client got it; `None` if no request was sent.
    pub body_bytes: Option<u64>,
    /// The SHA-256 of these bytes, if it is recorded and there are any. Boxed because few configurations ask for it.
    pub body_sha256: Option<Box<Sha256Digest>>,
    /// `copy` if the answer is from the copy of robots.txt.
    pub from: Option<AnswerSource>,
    /// The way in which the origin's response turns the request away, if it does.
    pub edge_refusal: Option<EdgeRefusal>,
    /// The demand for payment in it.
    pub payment: Option<PaymentDemand>,
    /// `gateway` if another proxy asked.
    via: Option<AskedVia>,
}

/// The decision that an answer names, and the request that it is about.
#[derive(Clone, Debug)]
pub struct NamedDecision {
    pub id: DecisionId,
    pub identity: Option<Identity>,
    /// The target of a request that was refused or failed.
    pub url: Option<String>,
}

impl ExchangeRecord {
    /// Returns the facts of the decision that an answer shows.
    pub fn named_decision(&self, outcome: &ExchangeOutcome) -> NamedDecision {
        // A connection without a readable request has none.
        let is_named = outcome.refusal().is_some() && self.url.text != NO_URL;
        NamedDecision {
            id: self.id,
            identity: self.identity.clone(),
            url: is_named.then(|| self.url.text.clone()),
        }
    }

    /// Begins the record of a request that no client made.
    pub(crate) fn without_client(
        client: IpAddr,
        method: String,
        started_at: SystemTime,
        configuration: u64,
    ) -> Self {
        Self {
            id: new_decision_id(),
            started: Instant::now(),
            started_at,
            client,
            peer: None,
            certificate: None,
            method,
            user_agent: None,
            user_agent_cut: false,
            parent: ParentTrace::default(),
            url: RecordedUrl::default(),
            identity: None,
            username: None,
            configuration,
            stated_purposes: Vec::new(),
            facts: DecisionFacts::default(),
            page_decision: None,
            decision_began_at: None,
            decided_in: Duration::ZERO,
            waited: Duration::ZERO,
            would_wait: None,
            oddities: Oddities::default(),
            signature: None,
            agent: None,
            body_bytes: None,
            body_sha256: None,
            from: None,
            edge_refusal: None,
            payment: None,
            via: None,
        }
    }

    /// Begins the record of a request, or of a connection without a readable one.
    pub fn begin(
        connection: &ClientConnection,
        received: Option<&ReceivedHead>,
        started_at: SystemTime,
        configuration: u64,
    ) -> Self {
        let method = excerpt(received.map_or("-", ReceivedHead::method)).into_owned();
        // Parsing the trace context is skipped for requests that have none.
        let traced = received.filter(|received| received.field("traceparent").is_some());
        Self {
            peer: connection.peer,
            certificate: connection.certificate.clone(),
            via: connection.gateway.as_ref().map(|_| AskedVia::Gateway),
            user_agent: received.and_then(user_agent),
            user_agent_cut: received.is_some_and(is_user_agent_cut),
            parent: traced.map_or_else(ParentTrace::default, |received| {
                ParentTrace::from_fields(&received.fields())
            }),
            ..Self::without_client(connection.client, method, started_at, configuration)
        }
    }

    /// Sets the facts that are known before the decision. Of an earlier decision only the wait for a slot remains.
    pub(crate) fn begin_decision(
        &mut self,
        url: RecordedUrl,
        identity: Identity,
        configuration: u64,
    ) {
        self.url = url;
        self.identity = Some(identity);
        self.username = None;
        self.configuration = configuration;
        self.facts = DecisionFacts::default();
        self.decision_began_at = None;
        self.decided_in = Duration::ZERO;
    }

    /// Returns how a request that robots.txt allows was turned away, if it was.
    fn edge_refusal_despite_robots_txt(&self) -> Option<EdgeRefusal> {
        let finding = self.facts.finding.as_ref()?;
        self.edge_refusal.filter(|_| finding.verdict == AccessVerdict::Allow)
    }

    /// Returns the decision as the log has it. `took` is the time from the request's head to the end of its response.
    pub fn finish(self, outcome: &ExchangeOutcome, took: Duration) -> DecisionRecord {
        let identity = self.identity.as_ref();
        let crawler = identity.and_then(Identity::crawler);
        let preferences = self.facts.preferences.as_ref();
        let documents = preferences.into_iter().flat_map(PreferenceFinding::documents_seen);
        let stated = preferences.into_iter().flat_map(PreferenceFinding::stated_preferences);
        let fetched_as =
            self.facts.finding.as_ref().and_then(|finding| finding.fetched_as.as_ref());
        DecisionRecord {
            edge: self.edge_refusal_despite_robots_txt().map(Word::Known),
            robots_fetched_as: fetched_as.map(|identity| identity.name().to_owned()),
            id: self.id,
            at: self.started_at,
            outcome: outcome.request_outcome().into(),
            reason: outcome.reason().into(),
            status: outcome.status(),
            crawler: crawler_word(crawler),
            identity: recorded_identity(crawler).into(),
            owner: crawler.and_then(|crawler| crawler.owner.as_deref().map(str::to_owned)),
            proven_by: crawler.and_then(Crawler::proven_by).map(Word::Known),
            certificate: self.certificate.map(|certificate| certificate.name().to_string()),
            tokens: identity.map(tokens).unwrap_or_default(),
            user_agent: self.user_agent,
            user_agent_cut: self.user_agent_cut,
            client: self.client.into(),
            peer: self.peer,
            method: self.method,
            url: self.url.text,
            url_bytes: self.url.whole.map(|(bytes, _)| bytes),
            url_sha256: self.url.whole.map(|(_, digest)| digest),
            purposes: crawler.map(purposes).unwrap_or_default(),
            agent: self.agent,
            stated_purposes: self.stated_purposes,
            origin: self.facts.origin.map(|origin| origin.uri("")),
            scope: self.facts.scope.filter(|scope| *scope != TargetScope::Path).map(Word::Known),
            username: self.username.map(|name| name.as_ref().to_owned()),
            robots_delay_us: self.facts.delay.map(micros),
            trace_id: self.parent.trace_id(),
            policy: self.facts.rule.as_ref().map(policy),
            finding: self.facts.finding.map(Into::into),
            preferences: stated.map(|stated| UsePreference::from(&stated)).collect(),
            documents: documents.map(Into::into).collect(),
            subresource: subresource_record(self.facts.subresource.as_ref(), self.page_decision),
            reached_origin: matches!(outcome, ExchangeOutcome::Withhold(_)),
            from: self.from.map(Word::Known),
            payment: (self.payment.and_then(payment_record))
                .or_else(|| preferences.and_then(licence_payment)),
            would_be: outcome.would_be(),
            would_wait_us: self.would_wait.map(micros),
            body_bytes: self.body_bytes,
            signature: self.signature.map(Word::Known),
            oddities: self.oddities.iter().map(Word::Known).collect(),
            mode: identity.map(Identity::mode).unwrap_or_default().into(),
            configuration: self.configuration,
            details: outcome.refusal().map(|refusal| refusal.details.clone().into_owned()),
            decided_us: micros(self.decided_in),
            waited_us: micros(self.waited),
            took_us: micros(took),
            via: self.via.map(Word::Known),
            body_sha256: self.body_sha256.map(|digest| *digest),
        }
    }
}

fn subresource_record(
    subresource: Option<&Subresource>,
    page_decision: Option<DecisionId>,
) -> Option<SubresourceRecord> {
    let subresource = subresource?;
    Some(SubresourceRecord {
        page: subresource.page.as_ref().to_owned(),
        kind: subresource.kind.into(),
        decision: page_decision,
    })
}

fn crawler_word(crawler: Option<&Crawler>) -> LogWord {
    crawler.map_or(ASSERTED.into(), |crawler| LogWord::Owned(crawler.name.clone()))
}

fn recorded_identity(crawler: Option<&Crawler>) -> RecordedIdentity {
    if crawler.is_some() { RecordedIdentity::Known } else { RecordedIdentity::Asserted }
}

fn tokens(identity: &Identity) -> Vec<String> {
    // The ellipsis of a long one is in no token, so that it is not taken for another.
    identity.tokens().iter().map(|token| excerpt(token.as_str()).into_owned()).collect()
}

fn purposes(crawler: &Crawler) -> Vec<Word<Purpose>> {
    crawler.declaration.purposes.iter().map(Word::Known).collect()
}

/// Returns the User-Agent as text, cut to the length that is recorded.
fn user_agent(received: &ReceivedHead) -> Option<String> {
    let value = received.field("user-agent")?;
    // A client may send as much as a head may hold, with every request.
    let cut = &value[..value.len().min(MAX_USER_AGENT_BYTES)];
    Some(String::from_utf8_lossy(cut).into_owned())
}

/// Returns whether the recorded User-Agent was cut.
fn is_user_agent_cut(received: &ReceivedHead) -> bool {
    let value = received.field("user-agent");
    value.is_some_and(|value| value.len() > MAX_USER_AGENT_BYTES)
}

impl Gate {
    /// Records an exchange that has ended.
    pub fn record(&self, mut record: ExchangeRecord, outcome: &ExchangeOutcome) {
        if self.is_unsigned_tunnel(&record, outcome) {
            record.signature = Some(RequestSignature::Tunnel);
            self.metrics.signatures("tunnel", 1);
        }
        if let Some(preferences) = &record.facts.preferences {
            self.metrics.preferences(&preferences.judgement);
        }
        // One span of time for metric, log and trace, so that they agree.
        let took = record.started.elapsed();
        let parent = record.parent.clone();
        let decided_after =
            record.decision_began_at.map(|at| at.saturating_duration_since(record.started));
        // Recording must not delay the client: the log takes the decision and writes it on a thread of its own.
        let edge_refusal = record.edge_refusal_despite_robots_txt();
        let mut decision = record.finish(outcome, took);
        let label = outcome.request_outcome();
        let reason = outcome.reason();
        self.metrics.request_finished(&decision.crawler, label, reason, took);
        if let Some(kind) = edge_refusal {
            self.metrics.edge_response(&decision.crawler, kind);
        }
        // Masked before it leaves this function, so that neither log, traces nor API see the full address.
        decision.client = self.decisions.mask_client(decision.client);
        if let Some(traces) = &self.traces {
            traces.record_exchange(&parent, &decision, decided_after);
        }
        self.decisions.record(decision);
    }

    /// Returns whether requests pass unsigned through an uninspected tunnel that would otherwise have been signed.
    fn is_unsigned_tunnel(&self, record: &ExchangeRecord, outcome: &ExchangeOutcome) -> bool {
        matches!(outcome, ExchangeOutcome::Tunnel { .. })
            && record
                .identity
                .as_ref()
                .and_then(Identity::crawler)
                .is_some_and(|crawler| crawler.signing_key.is_some())
            && self.decider.settings().signer.is_enabled()
    }
}

/// Returns the decision that would be recorded for a previewed request.
pub fn preview(previewed: PreviewedDecision, at: SystemTime) -> (DecisionRecord, Vec<Reading>) {
    let Verdict { facts, result } = previewed.verdict;
    let outcome = match result {
        Ok(permit) => permitted_outcome(&permit, 200),
        Err(refusal) => refusal.into(),
    };
    let record = ExchangeRecord {
        url: RecordedUrl::whole(previewed.url),
        identity: Some(previewed.identity),
        facts,
        ..ExchangeRecord::without_client(
            previewed.client,
            previewed.method,
            at,
            previewed.configuration,
        )
    };
    (record.finish(&outcome, Duration::ZERO), previewed.dialects)
}

/// Returns the members of a demand for payment; `None` if it follows no known scheme.
fn payment_record(demand: PaymentDemand) -> Option<PaymentRecord> {
    let (price, currency) = demand.price.map(|price| (price.amount, price.currency)).unzip();
    Some(PaymentRecord { scheme: demand.scheme?.into(), price, currency })
}

/// Returns the price of the licence by which a use is refused; `None` if it states none.
fn licence_payment(preferences: &PreferenceFinding) -> Option<PaymentRecord> {
    let by_purpose = preferences.judgement.by_purpose.iter();
    let mut refusing = by_purpose.filter(|judged| judged.preference == Preference::Refuse);
    let price = refusing.find_map(|judged| judged.statement.as_ref()?.price.clone())?;
    Some(PaymentRecord {
        scheme: PaymentScheme::Rsl.into(),
        price: Some(price.amount.clone()),
        currency: Some(price.currency.clone()),
    })
}

fn policy(found: &RuleMatch) -> RuleRecord {
    RuleRecord {
        number: found.number,
        action: found.rule.action.into(),
        owner: found.rule.owner.clone(),
        reason: found.rule.reason.clone(),
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
