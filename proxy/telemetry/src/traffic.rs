//! Recent traffic: requests over time, by crawler, outcome and reason.
//!
//! The request counter is read every two seconds, so this costs a request nothing. The differences are kept for half an hour,
//! without those that are zero.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::broadcast;
use tokio::time::MissedTickBehavior;
use utoipa::ToSchema;
use wayleave_clock::Clock;

use crate::metrics::Metrics;

/// The time between two points of the chart.
pub const STEP: Duration = Duration::from_secs(2);
/// Half an hour of points.
const MAX_POINTS: usize = 900;
/// The number of points by which a watcher may lag before it misses some.
const MAX_LAG_POINTS: usize = 4;

/// Recent points, and the watchers that new ones are sent to.
#[derive(Debug)]
pub struct Traffic {
    points: Mutex<VecDeque<Arc<TrafficPoint>>>,
    /// The time at which each crawler's last request was counted.
    seen_at: Mutex<HashMap<String, SystemTime>>,
    watchers: broadcast::Sender<Arc<WatchedPoint>>,
}

/// A point with its event, which is the same for most watchers.
#[derive(Debug)]
pub struct WatchedPoint {
    pub point: Arc<TrafficPoint>,
    pub event: Bytes,
}

/// The requests that ended within one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Point)]
pub struct TrafficPoint {
    /// The end of the step, in milliseconds since 1970.
    pub at_ms: u64,
    pub counts: Vec<TrafficCount>,
}

/// The number of requests, at least one, that share all labels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Count)]
pub struct TrafficCount {
    pub crawler: String,
    pub outcome: String,
    pub reason: String,
    pub requests: u64,
}

impl TrafficPoint {
    /// Returns the requests of the crawlers that `includes` names.
    pub fn of(&self, includes: impl Fn(&str) -> bool) -> Self {
        let counts = self.counts.iter().filter(|count| includes(&count.crawler));
        Self { at_ms: self.at_ms, counts: counts.cloned().collect() }
    }

    /// Returns the point as a server-sent event.
    pub fn event(&self) -> Bytes {
        let data = serde_json::to_string(self).expect("strings and numbers serialise");
        format!("event: traffic\ndata: {data}\n\n").into()
    }
}

impl Default for Traffic {
    fn default() -> Self {
        Self {
            points: Mutex::default(),
            seen_at: Mutex::default(),
            watchers: broadcast::Sender::new(MAX_LAG_POINTS),
        }
    }
}

impl Traffic {
    /// Returns the recent points, the oldest first. A step without requests has a point, too.
    pub fn points(&self) -> Vec<Arc<TrafficPoint>> {
        let points = self.points.lock().unwrap_or_else(PoisonError::into_inner);
        points.iter().cloned().collect()
    }

    /// Returns when a request of the crawler last ended, to within two seconds; `None` if none has since the start.
    pub fn last_request_at(&self, crawler: &str) -> Option<SystemTime> {
        let seen_at = self.seen_at.lock().unwrap_or_else(PoisonError::into_inner);
        seen_at.get(crawler).copied()
    }

    /// Subscribes to further points, as server-sent events.
    pub fn watch(&self) -> broadcast::Receiver<Arc<WatchedPoint>> {
        self.watchers.subscribe()
    }

    /// Makes a point every [`STEP`]; never returns.
    pub async fn run(&self, metrics: &Metrics, clock: Clock) {
        let mut steps = tokio::time::interval(STEP);
        // After a suspension there is one point for the whole time, not a burst of empty ones.
        steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut totals = RequestTotals::default();
        loop {
            steps.tick().await;
            self.add(clock.now(), totals.counts_since_last(metrics.requests()));
        }
    }

    fn add(&self, at: SystemTime, counts: Vec<TrafficCount>) {
        let mut seen_at = self.seen_at.lock().unwrap_or_else(PoisonError::into_inner);
        seen_at.extend(counts.iter().map(|count| (count.crawler.clone(), at)));
        // Handlers of the API need it meanwhile.
        drop(seen_at);
        let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let at_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let point = Arc::new(TrafficPoint { at_ms, counts });
        // Serialised once for all watchers, and not at all while nobody looks at the chart.
        if self.watchers.receiver_count() > 0 {
            let watched = WatchedPoint { event: point.event(), point: Arc::clone(&point) };
            // Fails if the last watcher has just gone.
            let _ = self.watchers.send(Arc::new(watched));
        }
        let mut points = self.points.lock().unwrap_or_else(PoisonError::into_inner);
        if points.len() == MAX_POINTS {
            points.pop_front();
        }
        points.push_back(point);
    }
}

/// Crawler, outcome and reason.
type RequestLabels = [String; 3];

/// The counter's values when it was last read.
#[derive(Debug, Default)]
struct RequestTotals(HashMap<RequestLabels, u64>);

impl RequestTotals {
    /// Returns the requests since the counter was last read, in the order of the labels.
    fn counts_since_last(&mut self, now: Vec<(RequestLabels, u64)>) -> Vec<TrafficCount> {
        let mut counts = Vec::new();
        for (labels, total) in now {
            let last = self.0.entry(labels.clone()).or_default();
            let requests = total.saturating_sub(*last);
            *last = total;
            if requests > 0 {
                let [crawler, outcome, reason] = labels;
                counts.push(TrafficCount { crawler, outcome, reason, requests });
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use wayleave_decision::{Reason, RequestOutcome};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn point_counts_requests_of_its_step() {
        let metrics = Metrics::new().unwrap();
        let traffic = Traffic::default();
        let count =
            |outcome| metrics.request_finished("news", outcome, Reason::Rule, Duration::ZERO);
        let mut watched = traffic.watch();
        let counting = async {
            let empty = watched.recv().await.unwrap();
            assert!(empty.event.ends_with(b"\"counts\":[]}\n\n"), "{empty:?}");
            count(RequestOutcome::Refused);
            count(RequestOutcome::Refused);
            watched.recv().await.unwrap();
            count(RequestOutcome::Forwarded);
            watched.recv().await.unwrap();
        };
        tokio::select! {
            () = traffic.run(&metrics, Clock::start()) => unreachable!("it runs for ever"),
            () = counting => {}
        }
        let points = traffic.points();
        let counts: Vec<Vec<_>> = points
            .iter()
            .map(|point| point.counts.iter().map(|c| (c.outcome.as_str(), c.requests)).collect())
            .collect();
        assert_eq!(counts, [vec![], vec![("refused", 2)], vec![("forwarded", 1)]]);
        assert_eq!(points[2].at_ms - points[1].at_ms, 2000);
    }
}
