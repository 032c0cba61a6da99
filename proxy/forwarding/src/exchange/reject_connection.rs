//! Answers a client whose connection ends here: a refused `CONNECT`, an unreadable head, one connection too many.

use wayleave_admission::GatedRequest;
use wayleave_admission::answer::AnswerSource;
use wayleave_admission::outcome::ExchangeOutcome;
use wayleave_admission::record::{ExchangeRecord, NO_URL, NamedDecision, RecordedUrl};
use wayleave_admission::request::ClientConnection;
use wayleave_decision::Refusal;
use wayleave_http_wire::http1::BodyFraming;
use wayleave_http_wire::received::ReceivedHead;
use wayleave_transport::http::downstream::Downstream;
use wayleave_transport::http::transport::BoxedStream;

use super::{ExchangeServices, error_response};

impl ExchangeServices {
    /// Refuses a connection on which no readable request came.
    pub(crate) async fn refuse_connection(
        &self,
        stream: BoxedStream,
        connection: &ClientConnection,
        refusal: Refusal,
    ) {
        let idle_timeout = self.gate.decider.settings().options.idle_timeout;
        let client = Downstream::http1(stream.into(), BodyFraming::Length(0), false, idle_timeout);
        self.refuse(client, self.record_of_connection(connection), refusal).await;
    }

    /// Records the refusal of a connection whose client expects an answer in another protocol than HTTP, or none.
    pub(crate) fn record_refused_connection(
        &self,
        connection: &ClientConnection,
        refusal: Refusal,
    ) {
        self.gate.record(self.record_of_connection(connection), &ExchangeOutcome::Refuse(refusal));
    }

    /// Begins the record of a connection without a readable request.
    fn record_of_connection(&self, connection: &ClientConnection) -> ExchangeRecord {
        let now = self.gate.decider.robots.clock().now();
        let configuration = self.gate.decider.settings().configuration;
        let mut record = ExchangeRecord::begin(connection, None, now, configuration);
        let dialled = connection.dialled.as_ref();
        let url = dialled.map_or(NO_URL.to_owned(), |dialled| dialled.authority(None));
        record.url = RecordedUrl::whole(url);
        record
    }

    /// Refuses a `CONNECT` whatever it asks for.
    pub(crate) async fn refuse_tunnel(
        &self,
        client: Downstream,
        connection: &ClientConnection,
        received: &ReceivedHead,
        refusal: Refusal,
    ) {
        let mut exchange = GatedRequest::begin(&self.gate, connection, received);
        exchange.record_undecided();
        self.refuse(client, exchange.record, refusal).await;
    }

    async fn refuse(&self, client: Downstream, record: ExchangeRecord, refusal: Refusal) {
        let outcome = ExchangeOutcome::Refuse(refusal);
        let decision = record.named_decision(&outcome);
        self.gate.record(record, &outcome);
        self.turn_away(client, &decision, &outcome).await;
    }

    /// Answers a client whose exchange was refused or failed, and closes its connection.
    pub(super) async fn turn_away(
        &self,
        mut client: Downstream,
        decision: &NamedDecision,
        outcome: &ExchangeOutcome,
    ) {
        let Some(refusal) = outcome.refusal() else {
            return;
        };
        let settings = self.gate.decider.settings();
        let source = AnswerSource::new(&settings.options, decision);
        let answered = error_response::refuse(&mut client, source, refusal, None).await;
        // Closed at once, the connection would be reset by bytes that are still arriving, and the answer lost.
        if let (Ok(()), Some(stream)) = (answered, client.into_stream()) {
            error_response::close_gracefully(stream).await;
        }
    }
}
