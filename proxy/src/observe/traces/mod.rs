//! Traces: spans of exchanges and of fetches of robots.txt, for a collector that speaks OTLP over HTTP.
//!
//! ```text
//!  mod ─┬─ attributes   what a span says, in the field's names
//!       └─ export       spans on their way, counted
//!            └─ collector   one request to the collector
//! ```
//!
//! Spans are made when an exchange has ended, of what its decision says: no exchange carries one along, and
//! without a collector there is nothing to do. A client's `traceparent` is taken up, and passed on as it came.

mod attributes;
mod collector;
mod export;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanKind, Status, TraceContextExt, Tracer, TracerProvider,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider,
};
use rustls::ClientConfig;
use url::Url;
use wayleave_robots_txt::lifecycle::FetchOutcome;

use self::collector::Collector;
use self::export::{BATCH, Export, QUEUE, Queue, bytes_of};
use crate::observe::decisions::Decision;
use crate::observe::metrics::Metrics;

/// How long spans may take to leave when the process ends.
const FAREWELL: Duration = Duration::from_secs(3);
/// A turn that is free takes microseconds; what takes this long is worth a span.
const NOTABLE_WAIT_US: u64 = 1000;

/// `[traces]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The collector, to which `/v1/traces` is added. `None`: no traces.
    pub otlp_endpoint: Option<Url>,
    /// The share of exchanges that are traced, from 0 to 1, where the client does not say.
    pub sample_ratio: f64,
}

/// A trace that a client began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parent(Context);

impl Parent {
    /// The trace that a request says it is part of (W3C Trace Context); `fields`: all of it.
    pub(crate) fn of(fields: &[(&[u8], &[u8])]) -> Self {
        let none = Context::new();
        let propagator = TraceContextPropagator::new();
        Self(propagator.extract_with_context(&none, &Fields(fields)))
    }

    /// The trace, if the request names one.
    pub(crate) fn trace_id(&self) -> Option<String> {
        let span = self.0.span();
        let context = span.span_context();
        context.is_valid().then(|| context.trace_id().to_string())
    }
}

/// Makes spans and sends them.
#[derive(Debug)]
pub(crate) struct Traces {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    queue: Arc<Queue>,
}

/// One span: a name, a time, and what it says.
struct Piece {
    name: String,
    kind: SpanKind,
    from: SystemTime,
    to: SystemTime,
    attributes: Vec<KeyValue>,
    /// The word for what went wrong.
    error: Option<String>,
}

impl Traces {
    /// Starts to send to the collector that `options` name; `None` if they name none. `tls` says who is trusted.
    ///
    /// # Errors
    ///
    /// Returns an error if spans can never be sent to such an endpoint.
    pub(crate) fn start(
        options: &Options,
        tls: &ClientConfig,
        metrics: &Arc<Metrics>,
    ) -> anyhow::Result<Option<Self>> {
        let Some(endpoint) = &options.otlp_endpoint else {
            return Ok(None);
        };
        let address = format!("{}/v1/traces", endpoint.as_str().trim_end_matches('/'));
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Collector::new(tls))
            .with_endpoint(address)
            .build()
            .context("traces.otlp_endpoint")?;
        let queue = Arc::new(Queue::new(Arc::clone(metrics)));
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE)
            .with_max_export_batch_size(BATCH)
            .build();
        let processor = BatchSpanProcessor::builder(Export::new(exporter, Arc::clone(&queue)))
            .with_batch_config(batches)
            .build();
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource = Resource::builder().with_service_name("wayleave");
        let sampler = Sampler::TraceIdRatioBased(options.sample_ratio);
        let provider = SdkTracerProvider::builder()
            .with_resource(resource.with_attribute(version).build())
            .with_sampler(Sampler::ParentBased(Box::new(sampler)))
            .with_span_processor(processor)
            .build();
        Ok(Some(Self {
            tracer: provider.tracer("wayleave"),
            provider,
            queue,
        }))
    }

    /// Sends the spans of an exchange that ended; `decided_after` is when deciding began, if it did.
    pub(crate) fn exchange(
        &self,
        parent: &Parent,
        decision: &Decision,
        decided_after: Option<Duration>,
    ) {
        let at = |micros: u64| decision.at + Duration::from_micros(micros);
        let is_fault = decision.outcome == "failed" || decision.status >= 500;
        let piece = |kind, name: &str, from, to| Piece {
            name: name.to_owned(),
            kind,
            from,
            to,
            attributes: Vec::new(),
            error: None,
        };
        let method = attributes::method(decision);
        let mut whole = piece(SpanKind::Server, method, decision.at, at(decision.took_us));
        whole.error = is_fault.then(|| decision.reason.clone().into_owned());
        let Some(inside) = self.span(&parent.0, whole, || attributes::of_exchange(decision)) else {
            return;
        };
        let Some(decided_after) = decided_after else {
            return;
        };
        let asked = u64::try_from(decided_after.as_micros()).unwrap_or(u64::MAX);
        let decided = asked.saturating_add(decision.decided_us);
        let consult = piece(SpanKind::Internal, "consult", at(asked), at(decided));
        self.span(&inside, consult, || attributes::of_consulting(decision));
        let turn = decided.saturating_add(decision.waited_us);
        if decision.waited_us >= NOTABLE_WAIT_US {
            let wait = piece(SpanKind::Internal, "wait", at(decided), at(turn));
            self.span(&inside, wait, Vec::new);
        }
        if attributes::left(decision) {
            let ended = decision.took_us.max(turn);
            let mut onward = piece(SpanKind::Client, method, at(turn), at(ended));
            onward.error = attributes::onward_error(decision);
            self.span(&inside, onward, || attributes::of_onward(decision));
        }
    }

    /// Sends the span of a fetch of robots.txt, which belongs to no exchange: many may wait for it, or none.
    pub(crate) fn robots_fetch(
        &self,
        uri: &str,
        from: SystemTime,
        to: SystemTime,
        outcome: &FetchOutcome,
    ) {
        let piece = Piece {
            name: "GET".to_owned(),
            kind: SpanKind::Client,
            from,
            to,
            attributes: Vec::new(),
            error: attributes::fetch_error(outcome),
        };
        self.span(&Context::new(), piece, || {
            attributes::of_fetch(uri, outcome)
        });
    }

    /// Makes a span; what is inside it goes into the context returned. `None` if the trace is not sampled, or there is no room.
    fn span(
        &self,
        parent: &Context,
        piece: Piece,
        attributes: impl FnOnce() -> Vec<KeyValue>,
    ) -> Option<Context> {
        let builder = SpanBuilder::from_name(piece.name)
            .with_kind(piece.kind)
            .with_start_time(piece.from);
        let mut span = self.tracer.build_with_context(builder, parent);
        if !span.is_recording() {
            return None;
        }
        let mut all = piece.attributes;
        all.extend(attributes());
        let is_error = piece.error.is_some();
        all.extend(piece.error.map(|it| KeyValue::new("error.type", it)));
        if !self.queue.admit(bytes_of(&all)) {
            return None;
        }
        span.set_attributes(all);
        if is_error {
            span.set_status(Status::error(""));
        }
        span.end_with_timestamp(piece.to);
        Some(parent.with_remote_span_context(span.span_context().clone()))
    }

    /// Sends what is left, within a bounded time.
    pub(crate) async fn stop(&self) {
        let provider = self.provider.clone();
        // It waits on a thread of its own, whose requests need this runtime.
        let stopping =
            tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(FAREWELL));
        if !matches!(stopping.await, Ok(Ok(()))) {
            tracing::warn!("the last traces could not be sent");
        }
    }
}

/// A request's fields, as the library reads them.
struct Fields<'a>(&'a [(&'a [u8], &'a [u8])]);

impl Extractor for Fields<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        let mut fields = self.0.iter();
        let (_, value) = fields.find(|(name, _)| name.eq_ignore_ascii_case(key.as_bytes()))?;
        str::from_utf8(value).ok()
    }

    fn keys(&self) -> Vec<&str> {
        let names = self.0.iter().map(|(name, _)| str::from_utf8(name));
        names.flatten().collect()
    }
}
