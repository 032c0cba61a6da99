//! The exporter of spans, which counts them.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::SpanData;
use wayleave_telemetry::export_queue::ExportQueue;

/// Returns the size of attributes in bytes.
pub(super) fn attribute_bytes(attributes: &[KeyValue]) -> usize {
    attributes
        .iter()
        .map(|attribute| attribute.key.as_str().len() + attribute.value.as_str().len())
        .sum()
}

/// An exporter that counts spans.
#[derive(Debug)]
pub(super) struct CountingSpanExporter {
    exporter: SpanExporter,
    queue: Arc<ExportQueue>,
}

impl CountingSpanExporter {
    pub(super) fn new(exporter: SpanExporter, queue: Arc<ExportQueue>) -> Self {
        Self { exporter, queue }
    }
}

impl opentelemetry_sdk::trace::SpanExporter for CountingSpanExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let bytes = batch.iter().map(|span| attribute_bytes(&span.attributes)).sum();
        let sent = self.exporter.export(batch).await;
        self.queue.record_result(spans, bytes, &sent);
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
