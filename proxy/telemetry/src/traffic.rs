//! Recent traffic: requests over time, by crawler, outcome and reason.
//!
//! The request counter is read every two seconds while there are requests, so this costs a request nothing. The differences are
//! kept for half an hour, without those that are zero.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::{Notify, broadcast};
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
    clock: Clock,
    points: Mutex<VecDeque<Arc<TrafficPoint>>>,
    /// The time at which each crawler's last request was counted.
    seen_at: Mutex<HashMap<String, SystemTime>>,
    watchers: broadcast::Sender<Arc<WatchedPoint>>,
    has_watcher: Notify,
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

impl Traffic {
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            points: Mutex::default(),
            seen_at: Mutex::default(),
            watchers: broadcast::Sender::new(MAX_LAG_POINTS),
            has_watcher: Notify::new(),
        }
    }

    /// Returns the recent points, the oldest first. A step without requests has a point, too.
    pub fn points(&self) -> Vec<Arc<TrafficPoint>> {
        let mut points = self.lock().clone();
        add_quiet_steps(&mut points, ms_since_epoch(self.clock.now()));
        points.into()
    }

    /// Returns when a request of the crawler last ended, to within two seconds; `None` if none has since the start.
    pub fn last_request_at(&self, crawler: &str) -> Option<SystemTime> {
        let seen_at = self.seen_at.lock().unwrap_or_else(PoisonError::into_inner);
        seen_at.get(crawler).copied()
    }

    /// Subscribes to further points, as server-sent events.
    pub fn watch(&self) -> broadcast::Receiver<Arc<WatchedPoint>> {
        let watcher = self.watchers.subscribe();
        self.has_watcher.notify_one();
        watcher
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<TrafficPoint>>> {
        self.points.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a point every [`STEP`] while there are requests or watchers; never returns.
    pub async fn run(&self, metrics: &Metrics) {
        let mut steps = tokio::time::interval(STEP);
        // After a suspension watchers get one point for the whole time, not a burst of empty ones.
        steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut totals = RequestTotals::default();
        loop {
            steps.tick().await;
            let counts = totals.counts_since_last(metrics.requests());
            let is_quiet = counts.is_empty() && self.watchers.receiver_count() == 0;
            self.add(self.clock.now(), counts);
            if is_quiet {
                tokio::select! {
                    () = metrics.request_ended() => {}
                    () = self.has_watcher.notified() => {}
                }
                steps.reset();
            }
        }
    }

    fn add(&self, at: SystemTime, counts: Vec<TrafficCount>) {
        let mut seen_at = self.seen_at.lock().unwrap_or_else(PoisonError::into_inner);
        seen_at.extend(counts.iter().map(|count| (count.crawler.clone(), at)));
        // Handlers of the API need it meanwhile.
        drop(seen_at);
        let at_ms = ms_since_epoch(at);
        let point = Arc::new(TrafficPoint { at_ms, counts });
        // Serialised once for all watchers, and not at all while nobody looks at the chart.
        if self.watchers.receiver_count() > 0 {
            let watched = WatchedPoint { event: point.event(), point: Arc::clone(&point) };
            // Fails if the last watcher has just gone.
            let _ = self.watchers.send(Arc::new(watched));
        }
        let mut points = self.lock();
        add_quiet_steps(&mut points, at_ms);
        if points.len() == MAX_POINTS {
            points.pop_front();
        }
        points.push_back(point);
    }
}

fn ms_since_epoch(at: SystemTime) -> u64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Adds a point without requests for each step between the last point and the step that ends at `now_ms` or is under way then.
fn add_quiet_steps(points: &mut VecDeque<Arc<TrafficPoint>>, now_ms: u64) {
    let Some(last) = points.back().map(|point| point.at_ms) else {
        return;
    };
    let step = u64::try_from(STEP.as_millis()).expect("it is short");
    let steps = now_ms.saturating_sub(last) / step;
    // The clock may have been set forward by years.
    let kept_from = steps.saturating_sub(MAX_POINTS as u64).max(1);
    let quiet = (kept_from..steps).map(|number| last + number * step);
    points.extend(quiet.map(|at_ms| Arc::new(TrafficPoint { at_ms, counts: Vec::new() })));
    points.drain(..points.len().saturating_sub(MAX_POINTS));
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
        let traffic = Traffic::new(Clock::start());
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
            () = traffic.run(&metrics) => unreachable!("it runs for ever"),
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

    #[tokio::test(start_paused = true)]
    async fn nothing_wakes_without_requests_and_quiet_steps_have_points() {
        let metrics = Metrics::new().unwrap();
        let traffic = Traffic::new(Clock::start_at(SystemTime::UNIX_EPOCH));
        let kept = || traffic.lock().len();
        let end_request = || {
            let outcome = RequestOutcome::Refused;
            metrics.request_finished("news", outcome, Reason::Rule, Duration::ZERO);
        };
        let counting = async {
            tokio::time::sleep(5 * STEP).await;
            assert_eq!(kept(), 1, "the first only");
            assert_eq!(traffic.points().len(), 5, "the fifth step is not over for all that read");
            end_request();
            tokio::time::sleep(STEP + STEP / 2).await;
            assert_eq!(kept(), 7);
            let points = traffic.points();
            let requests = points.iter().map(|point| point.counts.len());
            assert_eq!(requests.collect::<Vec<_>>(), [0, 0, 0, 0, 0, 0, 1]);
            assert!(points.windows(2).all(|pair| pair[1].at_ms - pair[0].at_ms == 2000));
            assert!(traffic.last_request_at("news").is_some());
            tokio::time::sleep(5 * STEP).await;
            assert!(kept() < 10, "it is quiet again");
            let mut watched = traffic.watch();
            watched.recv().await.unwrap();
            watched.recv().await.unwrap();
            drop(watched);
            let kept_before = kept();
            tokio::time::sleep(Duration::from_hours(1)).await;
            assert!(kept() <= kept_before + 1);
            let points = traffic.points();
            assert_eq!(points.len(), MAX_POINTS);
            let age_ms = ms_since_epoch(traffic.clock.now()) - points.last().unwrap().at_ms;
            assert!(age_ms < 4000, "none is missing at the end");
        };
        tokio::select! {
            () = traffic.run(&metrics) => unreachable!("it runs for ever"),
            () = counting => {}
        }
    }
}
