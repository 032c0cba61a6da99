//! A proxy for requests of this process itself: it listens nowhere, and has no operators.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, DuplexStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use wayleave_admission::Gate;
use wayleave_admission::asked::ask_in_task;
use wayleave_admission::request::ClientConnection;
use wayleave_config::Config;
use wayleave_forwarding::exchange::ExchangeServices;
use wayleave_http_wire::http1::BodyFraming;
use wayleave_http_wire::received::ReceivedHead;
use wayleave_record::{DecisionId, DecisionRecord};
use wayleave_telemetry::logging::LogHandle;
use wayleave_transport::http::downstream::Downstream;
use wayleave_transport::http::transport::{BoxedStream, BufferedStream};

/// The bytes of a response that may wait to be read.
const BUFFERED_BYTES: usize = 64 * 1024;
/// The most of a body that is read, and the longest time for it. Closing the connection costs less than reading the rest.
const MAX_BODY_BYTES: usize = 256 * 1024;
const MAX_BODY_TIME: Duration = Duration::from_secs(5);

/// A proxy without listeners.
pub(crate) struct InProcessProxy {
    exchanges: ExchangeServices,
    refreshing: JoinHandle<()>,
}

impl InProcessProxy {
    /// Builds the proxy of a configuration, and begins to keep its robots.txt files fresh on the current runtime.
    ///
    /// # Errors
    ///
    /// Returns an error if another process has the state, or if a part cannot be built.
    pub(crate) async fn start(config: &Config, log: &LogHandle) -> anyhow::Result<Self> {
        let parts = wayleave_assembly::build_alone(config, log).await?;
        Ok(Self {
            exchanges: ExchangeServices::new(parts.gate),
            refreshing: tokio::spawn(parts.refresh),
        })
    }

    /// Returns the gate that all its requests pass.
    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.exchanges.gate
    }

    /// Decides about a request, and never sends it. Returns the decision, which is in the log by then.
    ///
    /// # Errors
    ///
    /// Returns an error if the decision is lost.
    pub(crate) async fn ask(
        &self,
        connection: &Arc<ClientConnection>,
        received: ReceivedHead,
    ) -> anyhow::Result<Arc<DecisionRecord>> {
        let gate = Arc::clone(self.gate());
        let asking = ask_in_task(gate, Arc::clone(connection), Ok(Arc::new(received)), ());
        let id = asking.await.and_then(|verdict| verdict.decision_id());
        self.decision(id.context("deciding failed")?).await
    }

    /// Sends a request if it is allowed, in its slot, and reads the response, which is judged as for any client. Returns the
    /// decision.
    ///
    /// # Errors
    ///
    /// Returns an error if the decision is lost.
    pub(crate) async fn send(
        &self,
        connection: &ClientConnection,
        received: &ReceivedHead,
    ) -> anyhow::Result<Arc<DecisionRecord>> {
        let (near, far) = tokio::io::duplex(BUFFERED_BYTES);
        let exchange = async {
            let incoming = BufferedStream::from(Box::new(far) as BoxedStream);
            let timeout = self.gate().decider.settings().options.idle_timeout;
            let mut client = Downstream::http1(incoming, BodyFraming::Length(0), false, timeout);
            self.exchanges.exchange_own(connection, received, &mut client).await
        };
        let (id, ()) = tokio::join!(exchange, discard(near));
        self.decision(id).await
    }

    async fn decision(&self, id: DecisionId) -> anyhow::Result<Arc<DecisionRecord>> {
        let found = self.gate().decisions.look_up(id).await;
        found.with_context(|| format!("the decision {id} is not in the log"))
    }

    /// Writes what is in memory, and ends.
    pub(crate) async fn close(self) {
        self.gate().shutdown.cancel_all().await;
        wayleave_assembly::close(self.gate()).await;
        self.refreshing.abort();
    }
}

/// Reads the start of a response, and closes the connection: nothing is forwarded before it has been judged.
async fn discard(mut near: DuplexStream) {
    let mut bytes = vec![0; 16 * 1024];
    let mut read = 0;
    let mut deadline = pin!(sleep(Duration::MAX));
    loop {
        let count = tokio::select! {
            count = near.read(&mut bytes) => count.unwrap_or(0),
            () = &mut deadline => 0,
        };
        if count == 0 || read > MAX_BODY_BYTES {
            return;
        }
        if read == 0 {
            deadline.as_mut().reset(Instant::now() + MAX_BODY_TIME);
        }
        read += count;
    }
}
