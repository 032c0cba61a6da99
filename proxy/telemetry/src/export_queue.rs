//! The bounded queue of spans or log records for a collector. Each is counted as sent, failed or dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use opentelemetry_sdk::error::OTelSdkResult;

use crate::metrics::Metrics;

/// The most items in the queue. Further ones are dropped and counted.
pub const MAX_QUEUED: usize = 16 * 1024;
/// The most bytes of their attributes: a URL may be long.
const MAX_QUEUED_BYTES: usize = 32 << 20;
/// The most items in one request.
pub const MAX_BATCH: usize = 1024;

/// The kind of items in a queue.
#[derive(Clone, Copy, Debug)]
pub enum ExportedKind {
    Spans,
    Decisions,
}

impl ExportedKind {
    fn count(self, metrics: &Metrics, result: &str, items: usize) {
        match self {
            Self::Spans => metrics.spans(result, items),
            Self::Decisions => metrics.exported_decisions(result, items),
        }
    }

    /// Returns the name of the items, and the key with the collector.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Spans => ("traces", "traces.otlp_endpoint"),
            Self::Decisions => ("decisions", "log.otlp_endpoint"),
        }
    }
}

/// The size of the queue, and the state of the collector.
#[derive(Debug)]
pub struct ExportQueue {
    kind: ExportedKind,
    queued: AtomicUsize,
    bytes: AtomicUsize,
    is_failing: AtomicBool,
    metrics: Arc<Metrics>,
}

impl ExportQueue {
    pub fn new(kind: ExportedKind, metrics: Arc<Metrics>) -> Self {
        Self {
            kind,
            queued: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            is_failing: AtomicBool::new(false),
            metrics,
        }
    }

    /// Counts an item with this many bytes of attributes into the queue; returns `false` if it is full. The library's own queue
    /// drops items silently.
    pub fn admit(&self, bytes: usize) -> bool {
        // Both are reserved first and given back if the item is not admitted, so that concurrent exchanges cannot overrun a bound.
        let has_place = self.queued.fetch_add(1, Ordering::Relaxed) < MAX_QUEUED;
        let has_room = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes <= MAX_QUEUED_BYTES;
        if has_place && has_room {
            return true;
        }
        self.queued.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.kind.count(&self.metrics, "dropped", 1);
        false
    }

    /// Takes items out of the queue that were sent, or not.
    pub fn record_result(&self, items: usize, bytes: usize, sent: &OTelSdkResult) {
        self.queued.fetch_sub(items, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        let was_failing = self.is_failing.swap(sent.is_err(), Ordering::Relaxed);
        let (what, key) = self.kind.names();
        match sent {
            Ok(()) => {
                self.kind.count(&self.metrics, "sent", items);
                // Logged on changes only: a collector may be away for hours.
                if was_failing {
                    tracing::info!("{what} are being sent again");
                }
            }
            Err(error) => {
                self.kind.count(&self.metrics, "failed", items);
                if !was_failing {
                    tracing::warn!(%error, "{what} cannot be sent to {key}");
                }
            }
        }
    }

    /// Returns the number of items that are neither sent nor lost yet.
    pub fn waiting(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_is_bounded_in_bytes() {
        let queue = ExportQueue::new(ExportedKind::Spans, Arc::new(Metrics::new().unwrap()));
        let half = MAX_QUEUED_BYTES / 2;
        assert!((0..2).all(|_| queue.admit(half)));
        assert!(!queue.admit(1));
        queue.record_result(1, half, &Ok(()));
        assert!(queue.admit(half));
    }

    #[test]
    fn queue_is_bounded_in_items() {
        let metrics = Arc::new(Metrics::new().unwrap());
        let queue = ExportQueue::new(ExportedKind::Spans, Arc::clone(&metrics));
        assert!((0..MAX_QUEUED).all(|_| queue.admit(1)));
        assert!(!queue.admit(1));
        queue.record_result(MAX_BATCH, MAX_BATCH, &Ok(()));
        assert!((0..MAX_BATCH).all(|_| queue.admit(1)));
        assert!(!queue.admit(1));
        let (_, text) = metrics.text().unwrap();
        for (result, count) in [("dropped", 2), ("sent", MAX_BATCH), ("failed", 0)] {
            let line = format!("wayleave_spans_total{{result=\"{result}\"}} {count}\n");
            assert!(text.contains(&line), "{line}{text}");
        }
    }
}
