//! Answers a client whose connection ends here: a refused `CONNECT`, an unreadable head, one connection too many.

use wayleave_decision::Refusal;

use super::error_response::AnswerOrigin;
use super::outcome::ExchangeOutcome;
use super::record::EndedExchange;
use super::tunnel::undecided_record;
use super::{ExchangeServices, error_response};
use crate::decide::request::{ClientConnection, RequestView};
use crate::http::downstream::Downstream;
use crate::http::http1::BodyFraming;
use crate::http::received::ReceivedHead;
use crate::http::transport::BoxedStream;

impl ExchangeServices {
    /// Refuses a connection on which no readable request came.
    pub(crate) async fn refuse_connection(
        &self,
        stream: BoxedStream,
        connection: &ClientConnection,
        refusal: Refusal,
    ) {
        let patience = self.decider.settings().options.idle_timeout;
        let nothing = BodyFraming::Length(0);
        let client = Downstream::http1(stream.into(), nothing, false, patience);
        let refused = self.refused(connection, None, refusal);
        self.turn_away(client, refused).await;
    }

    /// Returns the refused exchange of a connection, whatever it asked for. It is not recorded yet.
    pub(crate) fn refused(
        &self,
        connection: &ClientConnection,
        received: Option<&ReceivedHead>,
        refusal: Refusal,
    ) -> EndedExchange {
        let settings = self.decider.settings();
        let request =
            received.map(|received| RequestView::from_received(received, &settings.options.name));
        let known = undecided_record(&settings, connection, request.as_ref());
        let begun = self.begin(connection, received);
        self.end(begun, known, ExchangeOutcome::Refuse(refusal))
    }

    /// Answers and records `exchange`, which was refused or failed.
    pub(crate) async fn turn_away(&self, mut client: Downstream, exchange: EndedExchange) {
        let settings = self.decider.settings();
        let id = exchange.id;
        let outcome = self.record_ended(exchange);
        let Some(refusal) = outcome.refusal() else {
            return;
        };
        let by = AnswerOrigin::new(&settings.options, id);
        let answered = error_response::refuse(&mut client, by, refusal, false).await;
        if let (Ok(()), Some(stream)) = (answered, client.into_stream()) {
            error_response::close_gracefully(stream).await;
        }
    }
}
