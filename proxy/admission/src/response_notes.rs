//! Notes on a response as it passes: whether it turns its request away, and the price that it asks.

use wayleave_http_wire::edge_refusal::{EdgeRefusal, edge_refusal};
use wayleave_http_wire::field_pairs::FieldPair;
use wayleave_http_wire::page::PageBuffer;

use super::payment::PaymentDemand;

/// The notes on one response. Most responses need none.
#[derive(Debug, Default)]
pub(crate) struct ResponseNotes {
    noted: Option<Box<TurnedAway>>,
}

/// A response that turns its request away.
#[derive(Debug)]
pub struct TurnedAway {
    pub kind: EdgeRefusal,
    /// The demand for payment, if it is one.
    pub payment: Option<PaymentDemand>,
    body: Option<PageBuffer>,
}

impl ResponseNotes {
    /// Notes the head of a response.
    pub(crate) fn take_head(&mut self, status: u16, fields: &[FieldPair<'_>]) {
        let payment = PaymentDemand::of_head(status, fields);
        let kind = match &payment {
            Some(_) => Some(EdgeRefusal::Payment),
            None => edge_refusal(status, fields),
        };
        let Some(kind) = kind else {
            return;
        };
        let body = payment.as_ref().and_then(|payment| payment.body_to_read(status, fields));
        self.noted = Some(Box::new(TurnedAway { kind, payment, body }));
    }

    /// Returns whether the next part of the body may say more.
    pub(crate) fn want_more(&self) -> bool {
        let body = self.noted.as_ref().and_then(|noted| noted.body.as_ref());
        body.is_some_and(PageBuffer::wants_more)
    }

    /// Notes a part of the body, which the client gets as it is.
    pub(crate) fn take_chunk(&mut self, chunk: &[u8]) {
        let body = self.noted.as_mut().and_then(|noted| noted.body.as_mut());
        if let Some(body) = body.filter(|body| body.wants_more()) {
            body.take(chunk);
        }
    }

    /// Returns the notes, once the response has ended; `None` if it does not turn the request away.
    pub(crate) fn into_turned_away(self) -> Option<TurnedAway> {
        let mut noted = *self.noted?;
        if let (Some(payment), Some(body)) = (&mut noted.payment, noted.body.take()) {
            body.texts().for_each(|text| payment.add_body(&text));
        }
        Some(noted)
    }
}
