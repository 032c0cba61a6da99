//! The bounded queue of spans for the collector. Every span is counted as sent, failed or dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::SpanData;

use crate::telemetry::metrics::Metrics;

/// The most spans in the queue. Further ones are dropped and counted.
pub(super) const MAX_QUEUED_SPANS: usize = 16 * 1024;
/// The most bytes of their attributes: a URL may be long.
const MAX_QUEUED_BYTES: usize = 32 << 20;
/// The most spans in one request.
pub(super) const MAX_BATCH_SPANS: usize = 1024;

/// The size of the queue, and the state of the collector.
#[derive(Debug)]
pub(super) struct SpanQueue {
    queued: AtomicUsize,
    bytes: AtomicUsize,
    is_failing: AtomicBool,
    metrics: Arc<Metrics>,
}

impl SpanQueue {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            queued: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            is_failing: AtomicBool::new(false),
            metrics,
        }
    }

    /// Counts a span with this many bytes of attributes into the queue; returns `false` if it is full. The library's own queue
    /// drops spans silently.
    pub(super) fn admit(&self, bytes: usize) -> bool {
        // Both are reserved first and given back if the span is not admitted, so that concurrent exchanges cannot overrun a bound.
        let has_place = self.queued.fetch_add(1, Ordering::Relaxed) < MAX_QUEUED_SPANS;
        let has_room = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes <= MAX_QUEUED_BYTES;
        if has_place && has_room {
            return true;
        }
        self.queued.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.metrics.spans("dropped", 1);
        false
    }

    fn record_result(&self, spans: usize, bytes: usize, sent: &OTelSdkResult) {
        self.queued.fetch_sub(spans, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        let was_failing = self.is_failing.swap(sent.is_err(), Ordering::Relaxed);
        match sent {
            Ok(()) => {
                self.metrics.spans("sent", spans);
                // Logged on changes only: a collector may be away for hours.
                if was_failing {
                    tracing::info!("traces are being sent again");
                }
            }
            Err(error) => {
                self.metrics.spans("failed", spans);
                if !was_failing {
                    tracing::warn!(%error, "traces cannot be sent to traces.otlp_endpoint");
                }
            }
        }
    }
}

/// Returns the size of attributes in bytes.
pub(super) fn attribute_bytes(attributes: &[KeyValue]) -> usize {
    attributes.iter().map(|it| it.key.as_str().len() + it.value.as_str().len()).sum()
}

/// An exporter that counts spans.
#[derive(Debug)]
pub(super) struct CountingExporter {
    exporter: SpanExporter,
    queue: Arc<SpanQueue>,
}

impl CountingExporter {
    pub(super) fn new(exporter: SpanExporter, queue: Arc<SpanQueue>) -> Self {
        Self { exporter, queue }
    }
}

impl opentelemetry_sdk::trace::SpanExporter for CountingExporter {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_is_bounded_in_bytes() {
        let queue = SpanQueue::new(Arc::new(Metrics::new().unwrap()));
        let url = [KeyValue::new("url.full", "x".repeat(MAX_QUEUED_BYTES / 2 - 8))];
        assert_eq!(attribute_bytes(&url), MAX_QUEUED_BYTES / 2);
        assert!((0..2).all(|_| queue.admit(attribute_bytes(&url))));
        assert!(!queue.admit(1));
        queue.record_result(1, attribute_bytes(&url), &Ok(()));
        assert!(queue.admit(attribute_bytes(&url)));
    }

    #[test]
    fn queue_is_bounded_in_spans() {
        let metrics = Arc::new(Metrics::new().unwrap());
        let queue = SpanQueue::new(Arc::clone(&metrics));
        assert!((0..MAX_QUEUED_SPANS).all(|_| queue.admit(1)));
        assert!(!queue.admit(1));
        queue.record_result(MAX_BATCH_SPANS, MAX_BATCH_SPANS, &Ok(()));
        assert!((0..MAX_BATCH_SPANS).all(|_| queue.admit(1)));
        assert!(!queue.admit(1));
        let (_, text) = metrics.text().unwrap();
        for (result, count) in [("dropped", 2), ("sent", MAX_BATCH_SPANS), ("failed", 0)] {
            let line = format!("wayleave_spans_total{{result=\"{result}\"}} {count}\n");
            assert!(text.contains(&line), "{line}{text}");
        }
    }
}
