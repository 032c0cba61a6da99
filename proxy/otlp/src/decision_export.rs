//! Decisions as log records for a collector that speaks OTLP over HTTP.
//!
//! A record is made when a decision is recorded, and waits in a bounded queue. No request waits for the collector: a record
//! that does not fit is dropped and counted.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use opentelemetry::logs::{AnyValue, LogRecord as _, Logger as _, LoggerProvider as _, Severity};
use opentelemetry::{Key, KeyValue, SpanId, TraceId, Value};
use opentelemetry_otlp::{LogExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{
    BatchConfigBuilder, BatchLogProcessor, LogBatch, SdkLogger, SdkLoggerProvider,
};
use url::Url;
use wayleave_record::DecisionRecord;
use wayleave_telemetry::collector::{CollectorClient, CollectorTls, resource, signal_url};
use wayleave_telemetry::export_queue::{ExportQueue, ExportedKind, MAX_BATCH, MAX_QUEUED};
use wayleave_telemetry::metrics::Metrics;

use super::attributes::log_attributes;

/// The time for sending the last records when the process ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);
/// The name of the event that each record is.
const EVENT_NAME: &str = "wayleave.decision";

/// Sends decisions to a collector.
#[derive(Debug)]
pub struct DecisionExport {
    provider: SdkLoggerProvider,
    logger: SdkLogger,
    queue: Arc<ExportQueue>,
}

impl DecisionExport {
    /// Starts sending to the collector at `endpoint`. `tls` holds the trusted certificates.
    ///
    /// # Errors
    ///
    /// Returns an error if the endpoint can never work.
    pub fn start(
        endpoint: &Url,
        tls: &CollectorTls,
        metrics: &Arc<Metrics>,
    ) -> anyhow::Result<Self> {
        let exporter = LogExporter::builder()
            .with_http()
            .with_http_client(CollectorClient::new(tls))
            .with_endpoint(signal_url(endpoint, "logs"))
            .build()
            .context("log.otlp_endpoint")?;
        let queue = Arc::new(ExportQueue::new(ExportedKind::Decisions, Arc::clone(metrics)));
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(MAX_QUEUED)
            .with_max_export_batch_size(MAX_BATCH)
            .build();
        let exporter = CountingLogExporter { exporter, queue: Arc::clone(&queue) };
        let processor = BatchLogProcessor::builder(exporter).with_batch_config(batches).build();
        let provider = SdkLoggerProvider::builder()
            .with_resource(resource())
            .with_log_processor(processor)
            .build();
        Ok(Self { logger: provider.logger("wayleave"), provider, queue })
    }

    /// Queues a decision, whose client is masked already.
    pub fn send(&self, decision: &DecisionRecord) {
        let attributes: Vec<_> = log_attributes(decision).into_iter().map(to_any).collect();
        if !self.queue.admit(attributes.iter().map(attribute_bytes).sum()) {
            return;
        }
        let severity = match decision.request_outcome() {
            Some(outcome) if !outcome.was_let_through() => Severity::Warn,
            _ => Severity::Info,
        };
        let mut record = self.logger.create_log_record();
        record.set_event_name(EVENT_NAME);
        record.set_timestamp(decision.at);
        record.set_observed_timestamp(decision.at + Duration::from_micros(decision.took_us));
        record.set_severity_number(severity);
        record.set_severity_text(severity.name());
        record.set_body(format!("{} {}", decision.outcome, decision.reason).into());
        record.add_attributes(attributes);
        if let Some(trace) = decision.trace_id.as_deref().and_then(|id| TraceId::from_hex(id).ok())
        {
            // The client's trace; of its span only the sampled spans of ours know more.
            record.set_trace_context(trace, SpanId::INVALID, None);
        }
        self.logger.emit(record);
    }

    /// Sends the queued records, for at most [`SHUTDOWN_TIMEOUT`].
    pub async fn stop(&self) {
        let provider = self.provider.clone();
        // On a thread of its own: shutting down blocks, and the exporter's requests run on this runtime.
        let stopping =
            tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(SHUTDOWN_TIMEOUT));
        let is_stopped = matches!(stopping.await, Ok(Ok(())));
        let lost = self.queue.waiting();
        if lost > 0 || !is_stopped {
            tracing::warn!(lost, "the last decisions could not be sent to log.otlp_endpoint");
        }
    }
}

fn to_any(attribute: KeyValue) -> (Key, AnyValue) {
    let value = match attribute.value {
        Value::I64(number) => AnyValue::Int(number),
        Value::F64(number) => AnyValue::Double(number),
        Value::Bool(value) => AnyValue::Boolean(value),
        Value::String(text) => AnyValue::String(text),
        other => AnyValue::from(other.to_string()),
    };
    (attribute.key, value)
}

/// Returns the size of an attribute in bytes, that of its text or of a number.
fn attribute_bytes((key, value): &(Key, AnyValue)) -> usize {
    let value = match value {
        AnyValue::String(text) => text.as_str().len(),
        _ => 8,
    };
    key.as_str().len() + value
}

/// An exporter that counts records.
#[derive(Debug)]
struct CountingLogExporter {
    exporter: LogExporter,
    queue: Arc<ExportQueue>,
}

impl opentelemetry_sdk::logs::LogExporter for CountingLogExporter {
    async fn export(&self, batch: LogBatch<'_>) -> OTelSdkResult {
        let mut records = 0;
        let mut bytes = 0;
        for (record, _) in batch.iter() {
            records += 1;
            bytes += record.attributes_iter().map(attribute_bytes).sum::<usize>();
        }
        let sent = self.exporter.export(batch).await;
        self.queue.record_result(records, bytes, &sent);
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
