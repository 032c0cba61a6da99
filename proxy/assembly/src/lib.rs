//! Builds the gate and its services from the configuration: for the server, for the proxy of one command, and for programs that
//! have the gate inside.
//!
//! ```text
//!  build                    the gate, its cache, its log
//!   └─ wiring               each part, at the start and at each reload
//! ```
//!
//! This crate knows nothing of listeners, clients' connections, or bodies. Begin reading at [`build`].

pub mod wiring;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use arc_swap::ArcSwap;
use futures_util::future::BoxFuture;
use wayleave_admission::own_request::OwnRequestRules;
use wayleave_admission::settings::CurrentSettings;
use wayleave_admission::{AllowedPages, Decider, ExchangeShutdown, Gate};
use wayleave_clock::Clock;
use wayleave_config::Config;
use wayleave_decision_log::{DecisionLog, take_next_key};
use wayleave_fleet::Fleet;
use wayleave_otlp::DecisionExport;
use wayleave_otlp::traces::Traces;
use wayleave_pacing::Pacer;
use wayleave_pacing::budget::DailyBudgets;
use wayleave_robots_cache::{CachedDocuments, HttpFetcher, RobotsCache, RobotsStore, StoreError};
use wayleave_telemetry::collector::CollectorTls;
use wayleave_telemetry::logging::LogHandle;
use wayleave_telemetry::metrics::Metrics;

use self::wiring::{OutboundClients, OutboundConfig};

/// The parts that requests pass through.
pub struct BuiltParts {
    pub gate: Gate,
    /// The client that fetches robots.txt files.
    pub fetcher: Arc<ArcSwap<HttpFetcher>>,
    pub collector_tls: CollectorTls,
    /// The task that keeps the robots.txt cache fresh, not spawned yet.
    pub refresh: BoxFuture<'static, ()>,
}

/// The parts of a process that are there before its gate is.
#[derive(Clone, Copy)]
pub struct ProcessParts<'a> {
    pub log: &'a LogHandle,
    pub metrics: &'a Arc<Metrics>,
    pub clock: Clock,
    /// The addresses of this process, which no outbound connection may lead to.
    pub own_listeners: &'a [SocketAddr],
    /// Whether decisions are counted for the end of a command.
    pub keeps_tally: bool,
}

impl<'a> ProcessParts<'a> {
    /// Returns the parts of a process that listens nowhere.
    pub fn new(log: &'a LogHandle, metrics: &'a Arc<Metrics>, clock: Clock) -> Self {
        Self { log, metrics, clock, own_listeners: &[], keeps_tally: false }
    }

    /// Returns the parts of a process that listens at these addresses.
    pub fn listening_at(self, own_listeners: &'a [SocketAddr]) -> Self {
        Self { own_listeners, ..self }
    }
}

/// Opens the store of a process without listeners, which waits for no other process to leave it.
///
/// # Errors
///
/// Returns an error if another process has it, or if it cannot be created.
pub async fn open_store(
    config: &Config,
    clock: Clock,
    metrics: &Arc<Metrics>,
) -> Result<RobotsStore, StoreError> {
    let decisions = config.log.decisions.as_ref().map(|log| &*log.path);
    let options = config.robots_store;
    let metrics = Arc::clone(metrics);
    RobotsStore::open_when_free(
        &config.state.dir,
        decisions,
        options,
        clock,
        metrics,
        Duration::ZERO,
    )
    .await
}

/// Builds the gate of a process that listens nowhere, with a store and metrics of its own.
///
/// # Errors
///
/// Returns an error if another process has the state, and as [`build_in_fleet`].
pub async fn build_alone(config: &Config, log: &LogHandle) -> anyhow::Result<BuiltParts> {
    let metrics = Arc::new(Metrics::new()?);
    let clock = Clock::start();
    let store = open_store(config, clock, &metrics).await?;
    build_in_fleet(config, ProcessParts::new(log, &metrics, clock), store).await
}

/// Joins the fleet, and does the same as [`build`].
///
/// # Errors
///
/// As [`build`], and if the fleet rejects this node.
pub async fn build_in_fleet(
    config: &Config,
    process: ProcessParts<'_>,
    store: RobotsStore,
) -> anyhow::Result<BuiltParts> {
    let fleet = wiring::join_fleet(config, process.metrics).await?;
    build(config, process, store, fleet)
}

/// Opens the decision log, and builds the gate and its services.
///
/// # Errors
///
/// Returns an error if any part cannot be built.
pub fn build(
    config: &Config,
    process: ProcessParts<'_>,
    store: RobotsStore,
    fleet: Fleet,
) -> anyhow::Result<BuiltParts> {
    let outbound_config = OutboundConfig::new(config, process.own_listeners);
    let outbound = wiring::outbound_clients(outbound_config, process.clock, process.metrics)?;
    let decisions = open_decision_log(config, process, &outbound.collector_tls, &store)?;
    build_gate(config, process, Arc::new(decisions), outbound, store, fleet)
}

/// Opens the decision log, and archives the configuration that its first decisions are made by.
fn open_decision_log(
    config: &Config,
    process: ProcessParts<'_>,
    collector_tls: &CollectorTls,
    store: &RobotsStore,
) -> anyhow::Result<DecisionLog> {
    let ProcessParts { log, metrics, clock, .. } = process;
    log.set_decisions(config.log.events);
    if let Some(journal) = &config.log.decisions {
        take_next_key(journal).context("replacing evidence.key")?;
    }
    let journal = wiring::open_journal(config, clock)?;
    // Before the first decision: each one refers to the configuration it was made by.
    let revision = wiring::archive_config(
        &config.to_string(),
        &config.state.dir,
        wiring::FIRST_CONFIGURATION,
    )?;
    let endpoint = config.log.otlp_endpoint.as_ref();
    let export = endpoint.map(|endpoint| DecisionExport::start(endpoint, collector_tls, metrics));
    let store_documents = store.pending_writer();
    let log =
        DecisionLog::start(journal, revision, log.clone(), store_documents, Arc::clone(metrics))?;
    let log = log.with_export(export.transpose()?);
    Ok(if process.keeps_tally { log.with_tally() } else { log })
}

fn build_gate(
    config: &Config,
    process: ProcessParts<'_>,
    decisions: Arc<DecisionLog>,
    outbound: OutboundClients,
    store: RobotsStore,
    fleet: Fleet,
) -> anyhow::Result<BuiltParts> {
    let ProcessParts { metrics, clock, .. } = process;
    let traces = Traces::start(&config.traces, &outbound.collector_tls, metrics)?.map(Arc::new);
    metrics.client_connections_limit(config.proxy.limits.connections);
    // At zero from the start: an alert on a rate needs the first increase as well.
    for crawler in &config.crawlers.crawlers {
        metrics.start_crawler_series(&crawler.name);
    }
    let pinned = wiring::pinned_files(config, clock.now())?;
    let settings = Arc::new(CurrentSettings::new(wiring::build_settings(
        config,
        None,
        outbound.upstream,
        Arc::clone(&pinned),
        clock.now(),
    )));
    outbound.fetcher.set_identities(Arc::clone(&settings.load().identities));
    let pacer = Arc::new(Pacer::in_fleet(&fleet, Arc::clone(metrics)));
    let budgets = Arc::new(DailyBudgets::open(&config.state.dir, clock, fleet.clone())?);
    let cached = CachedDocuments::new(clock, Arc::clone(metrics));
    // Before the cache, whose fetches are subject to it.
    let own_requests = Arc::new(OwnRequestRules {
        settings: Arc::clone(&settings),
        pacer: Arc::clone(&pacer),
        decisions: Arc::clone(&decisions),
        cached: cached.clone(),
        clock,
    });
    let fetcher = outbound
        .fetcher
        .with_own_request_policy(own_requests)
        .with_parser(cached.parser.clone())
        .with_traces(traces.clone());
    let fetcher = Arc::new(ArcSwap::from_pointee(fetcher));
    let cache_config = wiring::robots_cache_config(config);
    let (robots, refresh) =
        RobotsCache::start_in_fleet(Arc::clone(&fetcher), store, &cache_config, cached, fleet);
    robots.set_pinned(pinned);
    let gate = Gate {
        decider: Arc::new(Decider::new(settings, robots)),
        pacer,
        budgets: Arc::clone(&budgets),
        decisions,
        metrics: Arc::clone(metrics),
        traces,
        shutdown: ExchangeShutdown::default(),
        allowed_pages: AllowedPages::default(),
    };
    let refresh = async move {
        tokio::select! {
            () = refresh => {}
            () = budgets.keep() => {}
        }
    };
    Ok(BuiltParts {
        gate,
        fetcher,
        collector_tls: outbound.collector_tls,
        refresh: Box::pin(refresh),
    })
}

/// Writes the robots.txt files and decisions, now that there will be no more.
pub async fn close(gate: &Gate) {
    // First, so that what was asked of origins is in the log.
    gate.decider.robots.stop_fetching().await;
    // Before the store: a process that takes over waits for the store, and then opens the decision log.
    gate.decisions.close();
    gate.budgets.save();
    gate.decider.robots.close().await;
    gate.decider.robots.fleet().leave().await;
    gate.decisions.stop_export().await;
    if let Some(traces) = &gate.traces {
        traces.stop().await;
    }
}
