//! Metrics of fetching and caching robots.txt files.

use prometheus::{Histogram, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry};
use wayleave_usage_preferences::DocumentKind;

use super::constructors::{REQUEST_SECONDS, counters, gauge, gauges, histogram};

const DOCUMENT_FETCHES: &str =
    "Fetches of other documents that state preferences about use, by source and access result.";
const FETCH_DURATION: &str = "Duration of one fetch of robots.txt, redirects included.";
const ROBOTS_CACHE_BYTES: &str = "Memory used by robots.txt entries.";
const ROBOTS_ENTRIES: &str = "Origins whose robots.txt is known, by state.";
const ROBOTS_FETCHES: &str = "Fetches of robots.txt, by access result (RFC 9309 section 2.3.1).";
const ROBOTS_LOOKUPS: &str = "Look-ups of an origin's robots.txt by requests, by result.";
const ROBOTS_CHANGES: &str =
    "Changes of origins' robots.txt files, by their effect on URLs that were asked for lately.";
const STORE_ERRORS: &str = "Failed operations on the store in state.dir.";

/// The result of a look-up of an origin's robots.txt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RobotsLookup {
    /// A usable copy was cached.
    Hit,
    /// Nothing was known; this request started the fetch.
    Miss,
    /// Nothing was known; a fetch was under way already.
    Joined,
}

impl RobotsLookup {
    fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Joined => "joined",
        }
    }
}

/// The metrics of robots.txt files.
#[derive(Debug)]
pub(super) struct RobotsMetrics {
    pub(super) fetches: IntCounterVec,
    pub(super) fetch_duration: Histogram,
    pub(super) document_fetches: IntCounterVec,
    pub(super) entries: IntGaugeVec,
    pub(super) cache_bytes: IntGauge,
    /// The counters in the order of [`RobotsLookup`], resolved once because every request counts one.
    pub(super) lookups: [IntCounter; 3],
    pub(super) changes: IntCounterVec,
    pub(super) store_errors: IntCounterVec,
}

impl RobotsMetrics {
    pub(super) fn new(registry: &Registry) -> anyhow::Result<Self> {
        let lookups = counters(registry, "robots_lookups_total", ROBOTS_LOOKUPS, &["result"])?;
        let metrics = Self {
            fetches: counters(registry, "robots_fetches_total", ROBOTS_FETCHES, &["result"])?,
            fetch_duration: histogram(
                registry,
                "robots_fetch_duration_seconds",
                FETCH_DURATION,
                REQUEST_SECONDS,
            )?,
            document_fetches: counters(
                registry,
                "preference_fetches_total",
                DOCUMENT_FETCHES,
                &["source", "result"],
            )?,
            entries: gauges(registry, "robots_entries", ROBOTS_ENTRIES, "state")?,
            cache_bytes: gauge(registry, "robots_cache_bytes", ROBOTS_CACHE_BYTES)?,
            lookups: [RobotsLookup::Hit, RobotsLookup::Miss, RobotsLookup::Joined]
                .map(|lookup| lookups.with_label_values(&[lookup.as_str()])),
            changes: counters(registry, "robots_changes_total", ROBOTS_CHANGES, &["effect"])?,
            store_errors: counters(registry, "store_errors_total", STORE_ERRORS, &["operation"])?,
        };
        for result in ["successful", "unavailable", "unreachable", "redirect_lost", "postponed"] {
            metrics.fetches.with_label_values(&[result]);
            for source in [DocumentKind::Tdmrep, DocumentKind::Rsl] {
                metrics.document_fetches.with_label_values(&[source.as_str(), result]);
            }
        }
        for state in ["fresh", "stale", "unavailable", "unreachable"] {
            metrics.entries.with_label_values(&[state]);
        }
        for effect in ["opens", "closes", "both", "neutral"] {
            metrics.changes.with_label_values(&[effect]);
        }
        for operation in ["open", "read", "write", "checksum"] {
            metrics.store_errors.with_label_values(&[operation]);
        }
        Ok(metrics)
    }
}
