//! The gate of a program, built from a configuration file.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;

use http::request::Parts;
use tokio::task::JoinHandle;
use wayleave_admission::asked::ask_in_task;
use wayleave_admission::request::{AskingGateway, ClientConnection, GatewayCrawler};
use wayleave_config::Config;
use wayleave_http_wire::http1::HeadError;
use wayleave_http_wire::received::ReceivedHead;
use wayleave_telemetry::line_writer::LineWriterGuard;
use wayleave_telemetry::logging;

use crate::admitted::Admitted;
use crate::head::received_head;
use crate::refused::{Refused, header_map};

/// Decides about the requests of a program. Clones share everything: rules, robots.txt files, paces and budgets.
#[derive(Clone)]
pub struct Gate(pub(crate) Arc<GateServices>);

pub(crate) struct GateServices {
    pub(crate) gate: Arc<wayleave_admission::Gate>,
    /// Keeps robots.txt files fresh.
    refreshing: JoinHandle<()>,
    /// The lines of a log that nobody reads, as long as there is a gate.
    _log: LineWriterGuard,
}

/// The client on whose behalf requests are made.
#[derive(Clone, Debug)]
pub struct Client(pub(crate) Arc<ClientConnection>);

/// The reason why there is no gate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GateError {
    /// The mistakes of the configuration file, each with its place.
    #[error("{}", .0.join("\n"))]
    Config(Vec<String>),
    /// The configuration has no `[[crawler]]` of this name.
    #[error("there is no [[crawler]] named {0:?} in the configuration")]
    UnknownCrawler(String),
    /// Another process has the state, or the state cannot be read or written.
    #[error("{0:#}")]
    Start(anyhow::Error),
}

impl Gate {
    /// Builds the gate that this configuration file describes, and begins to keep its robots.txt files fresh on the current tokio
    /// runtime. `state.dir` and the decision log are this gate's alone. Keys about listeners and operators have no effect: a gate
    /// listens nowhere.
    ///
    /// # Errors
    ///
    /// Returns every mistake in the file, or the reason why the gate cannot be built by it.
    pub async fn from_config(path: impl AsRef<Path>) -> Result<Self, GateError> {
        let config = Config::load(path.as_ref()).map_err(|mistakes| {
            GateError::Config(mistakes.iter().map(ToString::to_string).collect())
        })?;
        Self::build(&config).await.map_err(GateError::Start)
    }

    async fn build(config: &Config) -> anyhow::Result<Self> {
        // The events of this process are its program's own.
        let (log, writing) = logging::start_discarding(config.log.format);
        let parts = wayleave_assembly::build_alone(config, &log).await?;
        Ok(Self(Arc::new(GateServices {
            gate: Arc::new(parts.gate),
            refreshing: tokio::spawn(parts.refresh),
            _log: writing,
        })))
    }

    /// Returns the client that is the crawler of this name: all its requests are that crawler's, whatever their `User-Agent`.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration has no such crawler.
    pub fn crawler(&self, name: &str) -> Result<Client, GateError> {
        let settings = self.0.gate.decider.settings();
        match settings.crawlers.named(name) {
            Some(_) => Ok(Client::new(
                IpAddr::V4(Ipv4Addr::LOCALHOST),
                Some(GatewayCrawler::Named(name.into())),
            )),
            None => Err(GateError::UnknownCrawler(name.to_owned())),
        }
    }

    /// Decides about a request, whose URI is absolute (for `CONNECT` an authority), and waits until it may be sent.
    ///
    /// A request that may be sent may be sent once: a repeated, redirected or rewritten one is another.
    ///
    /// # Errors
    ///
    /// Returns the refusal, which is in the log by then.
    pub async fn admit(&self, client: &Client, request: &Parts) -> Result<Admitted, Box<Refused>> {
        self.admit_received(&client.0, received_head(request)).await
    }

    /// Admits a request as [`Self::admit`] does, whatever it was read from.
    pub(crate) async fn admit_received(
        &self,
        connection: &Arc<ClientConnection>,
        received: Result<ReceivedHead, HeadError>,
    ) -> Result<Admitted, Box<Refused>> {
        let received = received.map(Arc::new);
        let asked = received.as_ref().ok().map(Arc::clone);
        let asking = ask_in_task(Arc::clone(&self.0.gate), Arc::clone(connection), received, ());
        let mut verdict = asking.await.ok_or_else(|| Box::new(Refused::after_panic()))?;
        match verdict.allowed.take().zip(asked) {
            Some((allowed, received)) => {
                let fields = header_map(verdict.fields);
                let connection = Arc::clone(connection);
                let gate = Arc::clone(&self.0.gate);
                Ok(Admitted::new(gate, connection, received, fields, allowed))
            }
            None => Err(Box::new(Refused::new(verdict))),
        }
    }

    /// Returns all metrics in Prometheus' text format.
    pub fn metrics(&self) -> String {
        let gate = &self.0.gate;
        gate.decider.update_metrics(&gate.metrics);
        gate.metrics.text().map(|(_, text)| text).unwrap_or_default()
    }

    /// Refuses all requests that still wait, and writes the decisions and robots.txt files that are in memory. Without it, the
    /// last seconds of both may be lost.
    pub async fn close(&self) {
        self.0.gate.shutdown.cancel_all().await;
        wayleave_assembly::close(&self.0.gate).await;
        self.0.refreshing.abort();
    }
}

impl Drop for GateServices {
    fn drop(&mut self) {
        self.refreshing.abort();
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gate").field(&self.0.gate).finish()
    }
}

impl Client {
    /// Returns the client at this address, of which nothing else is known. Each of its requests is identified as those to the
    /// proxy are: by address, `User-Agent` and `Proxy-Authorization`.
    pub fn at(address: IpAddr) -> Self {
        Self::new(address.to_canonical(), None)
    }

    fn new(address: IpAddr, crawler: Option<GatewayCrawler>) -> Self {
        let gateway = AskingGateway { crawler, shows_responses: false };
        let connection = ClientConnection::new(address);
        Self(Arc::new(ClientConnection { gateway: Some(Box::new(gateway)), ..connection }))
    }
}
