//! Answers a client whose connection ends here: a refused `CONNECT`, a head that cannot be read, one connection too many.

use bytes::BytesMut;

use super::connect::asked;
use super::outcome::{Exchange, Outcome};
use super::refuse::By;
use super::{Exchanges, refuse};
use crate::decide::refusal::Refusal;
use crate::decide::request::Connection;
use crate::http::client::Client;
use crate::http::http1::Framing;
use crate::http::transport::Stream;

impl Exchanges {
    /// Refuses a connection by which no request came that could be read.
    pub(crate) async fn refuse_connection(
        &self,
        stream: Stream,
        connection: &Connection,
        refusal: Refusal,
    ) {
        let begun = self.begin(connection, None);
        let known = asked(&self.decider.settings(), connection, None);
        let exchange = self.end(begun, known, Outcome::Refuse(refusal));
        self.turn_away(stream, exchange).await;
    }

    /// Answers `exchange`, which was refused or failed, and records it.
    pub(crate) async fn turn_away(&self, stream: Stream, exchange: Exchange) {
        let settings = self.decider.settings();
        let patience = settings.options.idle_timeout;
        let nothing = Framing::Length(0);
        let mut client = Client::http1(stream, BytesMut::new(), nothing, false, patience);
        let id = exchange.id;
        let outcome = self.record_ended(exchange);
        let Some(refusal) = outcome.refusal() else {
            return;
        };
        let by = By::of(&settings.options, id);
        let answered = refuse::refuse(&mut client, by, refusal, false).await;
        if let (Ok(()), Some(stream)) = (answered, client.into_stream()) {
            refuse::close_softly(stream).await;
        }
    }
}
