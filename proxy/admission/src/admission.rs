//! A request that may be sent: the gate follows it and its response, to its pace, its preferences and its record.
//!
//! The calls are in the order of an exchange: `dialled`, `sent`, `on_head`, `on_chunk`, `finish`. Between
//! head and body, the relay asks `labeller` for the response's preferences.

use ipnet::IpNet;
use wayleave_decision::{
    Permit, PreferenceFinding, Reason, Refusal, ResolvedTarget, SubresourceKind,
};
use wayleave_http_wire::field_pairs::FieldPair;
use wayleave_notation::{Sha256Digest, Sha256Hasher};
use wayleave_pacing::PacingSlot;
use wayleave_record::RequestSignature;
use wayleave_transport::http::downstream::ResponseField;
use wayleave_upstream::UpstreamHead;

use super::gated_request::GatedRequest;
use super::outcome::ExchangeOutcome;
use super::response_notes::{ResponseNotes, TurnedAway};
use super::response_pace;
use super::response_policy::{ResponseLabeller, is_judged};
use super::response_size::ResponseSize;
use super::subresource::{self, PassedContent};

/// A request that may be sent.
pub struct Admission<'a> {
    pub request: &'a GatedRequest<'a, 'a>,
    pub permit: &'a Permit,
    /// The request's slot, if it needed one.
    pub slot: Option<&'a PacingSlot<'a>>,
    /// Judges the response's usage preferences, for a crawler with purposes.
    pub labeller: Option<ResponseLabeller<'a>>,
    /// The proxy's own fields, which replace any of the same name in the response.
    own_fields: Vec<ResponseField<'static>>,
    findings: ResponseFindings,
    notes: ResponseNotes,
    size: ResponseSize,
    /// The digest of the body so far, once there is any, if it is recorded. Boxed because few configurations ask for it.
    digest: Option<Box<Sha256Hasher>>,
}

/// The findings about a response, however its exchange ended.
#[derive(Debug, Default)]
pub struct ResponseFindings {
    /// Whether a request was sent, so that the origin may have answered.
    pub is_request_sent: bool,
    /// The status of the response whose head the client got.
    pub relayed_status: Option<u16>,
    /// The bytes of the body that the client got.
    pub relayed_bytes: u64,
    /// The SHA-256 of these bytes, if it is recorded and there are any.
    pub relayed_sha256: Option<Box<Sha256Digest>>,
    /// The refusal of the response, if it is only observed.
    pub observed: Option<Box<Refusal>>,
    pub turned_away: Option<TurnedAway>,
    /// The preferences including those of the response.
    pub preferences: Option<PreferenceFinding>,
    /// Whether the response is a page that is remembered as the cause of further requests.
    pub is_remembered_page: bool,
}

/// A response's head that the client may get.
pub struct AdmittedHead {
    /// The fields to add.
    pub own_fields: Vec<ResponseField<'static>>,
    pub content: ContentTreatment,
}

/// The treatment of a response's content.
pub enum ContentTreatment {
    Relay,
    /// The response is refused if it begins as a page or a document does, and not as content of this kind.
    RefuseDocument(SubresourceKind, Box<Refusal>),
    /// The client gets only the head.
    Omit,
}

impl<'a> Admission<'a> {
    /// Begins to follow a permitted request.
    pub fn new(
        request: &'a GatedRequest<'a, 'a>,
        permit: &'a Permit,
        slot: Option<&'a PacingSlot<'a>>,
    ) -> Self {
        Self {
            request,
            permit,
            slot,
            labeller: request.labeller(permit),
            own_fields: request.own_fields(permit),
            findings: ResponseFindings::default(),
            notes: ResponseNotes::default(),
            size: ResponseSize::new(
                request.crawler().map_or(0, |crawler| crawler.max_response_bytes),
            ),
            digest: None,
        }
    }

    /// Returns the target of the request, as it was decided.
    pub fn resolved(&self) -> &'a ResolvedTarget {
        &self.permit.resolved
    }

    /// Notes the network of the address that was dialled.
    pub fn dialled(&self, network: Option<IpNet>) {
        if let Some(slot) = self.slot {
            slot.record_dialled(network);
        }
    }

    /// Notes that the request's head was sent.
    pub fn sent(&mut self, has_body: bool) {
        self.findings.is_request_sent = true;
        if let Some(slot) = self.slot {
            slot.record_sent(has_body);
        }
    }

    /// Applies a response's head to the pace, and says how the client may get it.
    ///
    /// # Errors
    ///
    /// Returns the refusal of a response that is too long for its crawler, or no subresource of the page that caused it.
    pub fn on_head(
        &mut self,
        head: &UpstreamHead,
        fields: &[FieldPair<'_>],
    ) -> Result<AdmittedHead, Box<Refusal>> {
        let mut own_fields = self.own_fields.clone();
        if let Some(slot) = self.slot {
            let paced = response_pace::apply(
                slot,
                self.request,
                &self.resolved().target,
                head.status(),
                fields,
            );
            own_fields.extend(paced);
        }
        self.notes.take_head(head.status(), fields);
        if let Err(refusal) = self.size.judge_head(head, self.request.received.method()) {
            self.refuse_or_observe(refusal)?;
        }
        Ok(AdmittedHead { own_fields, content: self.content_of_subresource(head)? })
    }

    /// Returns the refusal, unless refusals are only observed.
    fn refuse_or_observe(&mut self, refusal: Box<Refusal>) -> Result<(), Box<Refusal>> {
        if !self.request.is_observe_mode() {
            return Err(refusal);
        }
        // Of several observed refusals the first counts, as within a decision.
        self.findings.observed.get_or_insert(refusal);
        Ok(())
    }

    /// Returns the part of the response that the client gets, if only a page's subresource may pass.
    fn content_of_subresource(
        &mut self,
        head: &UpstreamHead,
    ) -> Result<ContentTreatment, Box<Refusal>> {
        let Some(kind) = self.permit.subresource else {
            return Ok(ContentTreatment::Relay);
        };
        match subresource::passed_content(kind, self.resolved(), head) {
            Err(refusal) => {
                self.refuse_or_observe(refusal)?;
                Ok(ContentTreatment::Relay)
            }
            Ok(_) if self.request.is_observe_mode() => Ok(ContentTreatment::Relay),
            Ok(PassedContent::Whole) => Ok(ContentTreatment::Relay),
            Ok(PassedContent::None) => Ok(ContentTreatment::Omit),
            Ok(PassedContent::UnlessDocument) => {
                let refusal = subresource::document_refusal(kind, self.resolved());
                Ok(ContentTreatment::RefuseDocument(kind, Box::new(refusal)))
            }
        }
    }

    /// Notes that nothing withholds the response any more: its head goes to the client.
    pub fn relayed(&mut self, head: &UpstreamHead) {
        self.findings.relayed_status = Some(head.status());
        self.findings.is_remembered_page = self.request.remember_page(self.permit, head);
    }

    /// Notes a part of the body on its way to the client, who gets it as it is.
    ///
    /// # Errors
    ///
    /// Returns the refusal of the rest of the body.
    pub fn on_chunk(&mut self, chunk: &[u8]) -> Result<(), Box<Refusal>> {
        self.notes.take_chunk(chunk);
        match self.size.judge_chunk(chunk) {
            Ok(()) => Ok(()),
            Err(refusal) => self.refuse_or_observe(refusal),
        }
    }

    /// Returns whether the next part of the body may say more about a response that turns its request away.
    pub fn notes_body(&self) -> bool {
        self.notes.want_more()
    }

    /// Returns the most bytes of the body that the client may get; `None` if that is not limited.
    pub fn max_bytes(&self) -> Option<u64> {
        self.size.limit().filter(|_| !self.request.is_observe_mode())
    }

    /// Counts a part of the body that the client got.
    pub fn delivered(&mut self, chunk: &[u8]) {
        self.findings.relayed_bytes += chunk.len() as u64;
        if self.request.settings.digests_bodies && !chunk.is_empty() {
            self.digest.get_or_insert_default().update(chunk);
        }
    }

    /// Notes that the origin broke the connection instead of answering.
    pub fn reset(&self) {
        if let Some(slot) = self.slot {
            slot.record_reset(&self.resolved().target);
        }
    }

    /// Returns the notes on the response.
    pub fn finish(self) -> ResponseFindings {
        ResponseFindings {
            turned_away: self.notes.into_turned_away(),
            preferences: self.labeller.and_then(ResponseLabeller::into_preferences),
            relayed_sha256: self.digest.map(|digest| Box::new(digest.finish())),
            ..self.findings
        }
    }
}

impl GatedRequest<'_, '_> {
    /// Records the notes on the response.
    pub fn record_findings(&mut self, findings: ResponseFindings, is_signed: bool) {
        // Without a response, those from before the request are in the record already.
        if findings.preferences.is_some() {
            self.record.facts.preferences = findings.preferences;
        }
        if let Some(TurnedAway { kind, payment, .. }) = findings.turned_away {
            self.record.edge_refusal = Some(kind);
            self.record.payment = payment;
            // Whether it was signed matters, even if the rest of the response never came.
            self.record.signature = is_signed.then_some(RequestSignature::Signed);
        }
    }
}

impl ResponseFindings {
    /// Returns the outcome of a request that was forwarded, after a look at its response: one that would have been refused, or
    /// that asks for payment, which the client gets as it is.
    pub fn judge(&self, outcome: ExchangeOutcome, permit: &Permit) -> ExchangeOutcome {
        let ExchangeOutcome::Forward { status, .. } = outcome else {
            return outcome;
        };
        if let Some(refusal) = &self.observed {
            return ExchangeOutcome::Observe { status, refusal: Refusal::clone(refusal) };
        }
        if self.turned_away.as_ref().is_some_and(|turned_away| turned_away.payment.is_some()) {
            return ExchangeOutcome::Forward { status, reason: Reason::Payment };
        }
        let preferences = self.preferences.as_ref();
        let observed =
            preferences.filter(|finding| is_judged(status) && finding.is_only_observed());
        match observed.and_then(|finding| finding.refusal(&permit.resolved)) {
            Some(refusal) => ExchangeOutcome::Observe { status, refusal },
            None => outcome,
        }
    }
}
