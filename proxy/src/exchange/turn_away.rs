//! Answers a client whose connection ends here: a refused `CONNECT`, a head that cannot be read, one connection too many.

use super::connect::asked;
use super::outcome::Outcome;
use super::record::Exchange;
use super::refuse::By;
use super::{Exchanges, refuse};
use crate::decide::refusal::Refusal;
use crate::decide::request::{Connection, Request};
use crate::http::client::Client;
use crate::http::http1::Framing;
use crate::http::received::Received;
use crate::http::transport::Stream;

impl Exchanges {
    /// Refuses a connection by which no request came that could be read.
    pub(crate) async fn refuse_connection(
        &self,
        stream: Stream,
        connection: &Connection,
        refusal: Refusal,
    ) {
        let patience = self.decider.settings().options.idle_timeout;
        let nothing = Framing::Length(0);
        let client = Client::http1(stream.into(), nothing, false, patience);
        let refused = self.refused(connection, None, refusal);
        self.turn_away(client, refused).await;
    }

    /// What becomes of a connection, or of what was received by it, that is refused whatever it asks for. It is not recorded yet.
    pub(crate) fn refused(
        &self,
        connection: &Connection,
        received: Option<&Received>,
        refusal: Refusal,
    ) -> Exchange {
        let settings = self.decider.settings();
        let request = received.map(|received| Request::of(received, &settings.options.name));
        let known = asked(&settings, connection, request.as_ref());
        let begun = self.begin(connection, received);
        self.end(begun, known, Outcome::Refuse(refusal))
    }

    /// Answers `exchange`, which was refused or failed, and records it.
    pub(crate) async fn turn_away(&self, mut client: Client, exchange: Exchange) {
        let settings = self.decider.settings();
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
