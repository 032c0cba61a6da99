//! Traces: spans of exchanges and of fetches of robots.txt, for a collector that speaks OTLP over HTTP.
//!
//! ```text
//!  mod ─── export   the exporter of spans, which counts them
//! ```
//!
//! Spans are made from the decision after an exchange has ended, so no exchange carries one along, and tracing costs nothing
//! without a collector. A client's `traceparent` becomes the parent of the spans, and is forwarded unchanged.

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
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider,
};
use url::Url;
use wayleave_decision::RequestOutcome;
use wayleave_lifecycle::FetchOutcome;
use wayleave_record::DecisionRecord;
use wayleave_telemetry::collector::{CollectorClient, CollectorTls, resource, signal_url};
use wayleave_telemetry::export_queue::{ExportQueue, ExportedKind, MAX_BATCH, MAX_QUEUED};
use wayleave_telemetry::metrics::Metrics;

use self::export::{CountingSpanExporter, attribute_bytes};
use crate::attributes;

/// The time for sending the last spans when the process ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);
/// The shortest wait for a slot that gets a span. A free slot takes microseconds.
const NOTABLE_WAIT_US: u64 = 1000;

/// `[traces]`.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceConfig {
    /// The collector, to which `/v1/traces` is added. `None`: no traces.
    pub otlp_endpoint: Option<Url>,
    /// The share of exchanges that are traced, from 0 to 1, unless the client's `traceparent` decides.
    pub sample_ratio: f64,
}

/// The trace of a client's `traceparent`, if it sent one.
#[derive(Clone, Debug, Default)]
pub struct ParentTrace(Context);

impl ParentTrace {
    /// Returns the trace that the header fields of a request name (W3C Trace Context).
    pub fn from_fields(fields: &[(&[u8], &[u8])]) -> Self {
        // Not within the current context, as `extract` does: a task of the proxy belongs to no trace.
        let propagator = TraceContextPropagator::new();
        Self(propagator.extract_with_context(&Context::new(), &RequestFields(fields)))
    }

    /// Returns the trace id, if the request names a trace.
    pub fn trace_id(&self) -> Option<String> {
        let span = self.0.span();
        // A malformed `traceparent` counts as none.
        let context = span.span_context();
        context.is_valid().then(|| context.trace_id().to_string())
    }
}

/// Creates spans and queues them for the collector.
#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    queue: Arc<ExportQueue>,
}

/// The parts of one span.
struct SpanParts {
    name: String,
    kind: SpanKind,
    from: SystemTime,
    to: SystemTime,
    /// The value of `error.type`, if it failed.
    error: Option<String>,
}

impl Traces {
    /// Starts sending to the collector in `options`; returns `None` if there is none. `tls` holds the trusted certificates.
    ///
    /// # Errors
    ///
    /// Returns an error if the endpoint can never work.
    pub fn start(
        options: &TraceConfig,
        tls: &CollectorTls,
        metrics: &Arc<Metrics>,
    ) -> anyhow::Result<Option<Self>> {
        let Some(endpoint) = &options.otlp_endpoint else {
            return Ok(None);
        };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(CollectorClient::new(tls))
            .with_endpoint(signal_url(endpoint, "traces"))
            .build()
            .context("traces.otlp_endpoint")?;
        let queue = Arc::new(ExportQueue::new(ExportedKind::Spans, Arc::clone(metrics)));
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(MAX_QUEUED)
            .with_max_export_batch_size(MAX_BATCH)
            .build();
        let processor =
            BatchSpanProcessor::builder(CountingSpanExporter::new(exporter, Arc::clone(&queue)))
                .with_batch_config(batches)
                .build();
        let sampler = Sampler::TraceIdRatioBased(options.sample_ratio);
        let provider = SdkTracerProvider::builder()
            .with_resource(resource())
            .with_sampler(Sampler::ParentBased(Box::new(sampler)))
            .with_span_processor(processor)
            .build();
        Ok(Some(Self { tracer: provider.tracer("wayleave"), provider, queue }))
    }

    /// Records the spans of an exchange that has ended. `decided_after` is the time from its head until deciding began, if it
    /// did.
    pub fn record_exchange(
        &self,
        parent: &ParentTrace,
        decision: &DecisionRecord,
        decided_after: Option<Duration>,
    ) {
        let at = |micros: u64| decision.at + Duration::from_micros(micros);
        // By the conventions, a server's span fails only by a 5xx; that of the upstream side by a 4xx, too.
        let is_fault = decision.outcome == RequestOutcome::Failed || decision.status >= 500;
        let span = |kind, name: &str, from, to| SpanParts {
            name: name.to_owned(),
            kind,
            from,
            to,
            error: None,
        };
        let method = attributes::method(decision);
        let mut exchange = span(SpanKind::Server, method, decision.at, at(decision.took_us));
        exchange.error = is_fault.then(|| decision.reason.to_string());
        let Some(children) =
            self.record_span(&parent.0, exchange, || attributes::exchange_attributes(decision))
        else {
            return;
        };
        let Some(decided_after) = decided_after else {
            return;
        };
        // The record has durations, so the parts are laid end to end.
        let begun = u64::try_from(decided_after.as_micros()).unwrap_or(u64::MAX);
        let decided = begun.saturating_add(decision.decided_us);
        let consult = span(SpanKind::Internal, "consult", at(begun), at(decided));
        self.record_span(&children, consult, || attributes::verdict_attributes(decision));
        let slot = decided.saturating_add(decision.waited_us);
        if decision.waited_us >= NOTABLE_WAIT_US {
            let wait = span(SpanKind::Internal, "wait", at(decided), at(slot));
            self.record_span(&children, wait, Vec::new);
        }
        if attributes::was_sent_upstream(decision) {
            // A span must not end before it begins, should the parts not add up.
            let ended = decision.took_us.max(slot);
            let mut upstream = span(SpanKind::Client, method, at(slot), at(ended));
            upstream.error = attributes::upstream_error(decision);
            self.record_span(&children, upstream, || attributes::upstream_attributes(decision));
        }
    }

    /// Records the span of a fetch of robots.txt. It has no parent: several exchanges may wait for the fetch, or none.
    pub fn record_robots_fetch(
        &self,
        uri: &str,
        from: SystemTime,
        to: SystemTime,
        outcome: &FetchOutcome,
    ) {
        let span = SpanParts {
            name: "GET".to_owned(),
            kind: SpanKind::Client,
            from,
            to,
            error: attributes::fetch_error(outcome),
        };
        self.record_span(&Context::new(), span, || attributes::fetch_attributes(uri, outcome));
    }

    /// Records a span and returns the context for its children; `None` if the trace is not sampled, or the queue is full.
    fn record_span(
        &self,
        parent: &Context,
        parts: SpanParts,
        attributes: impl FnOnce() -> Vec<KeyValue>,
    ) -> Option<Context> {
        let builder =
            SpanBuilder::from_name(parts.name).with_kind(parts.kind).with_start_time(parts.from);
        let mut span = self.tracer.build_with_context(builder, parent);
        // Attributes are computed only for sampled traces.
        if !span.is_recording() {
            return None;
        }
        let mut all = attributes();
        let is_error = parts.error.is_some();
        all.extend(parts.error.map(|kind| KeyValue::new("error.type", kind)));
        if !self.queue.admit(attribute_bytes(&all)) {
            return None;
        }
        span.set_attributes(all);
        if is_error {
            span.set_status(Status::error(""));
        }
        span.end_with_timestamp(parts.to);
        // Children need only its ids; the span itself has ended.
        Some(parent.with_remote_span_context(span.span_context().clone()))
    }

    /// Sends the queued spans, for at most [`SHUTDOWN_TIMEOUT`].
    pub async fn stop(&self) {
        let provider = self.provider.clone();
        // On a thread of its own: shutting down blocks, and the exporter's requests run on this runtime.
        let stopping =
            tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(SHUTDOWN_TIMEOUT));
        if !matches!(stopping.await, Ok(Ok(()))) {
            tracing::warn!("the last traces could not be sent");
        }
    }
}

/// The header fields of a request, for OpenTelemetry's propagator.
struct RequestFields<'a>(&'a [(&'a [u8], &'a [u8])]);

impl Extractor for RequestFields<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        let (_, value) =
            self.0.iter().find(|(name, _)| name.eq_ignore_ascii_case(key.as_bytes()))?;
        str::from_utf8(value).ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.iter().filter_map(|(name, _)| str::from_utf8(name).ok()).collect()
    }
}
