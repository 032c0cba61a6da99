//! Reports for the admin listener: each is counted once at a time, and kept the longer, the longer counting took.
//!
//! A page asks for the same counts every few seconds, and a log may hold a year. A report that took a second to count is reused
//! for twenty, so that asking costs a twentieth of a processor at most; and few logs are read at the same time.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wayleave_clock::TimeArgument;

use super::query::DecisionQuery;
use super::report::{LogReport, ProgressSink, ReportContents};

/// The least time for which a report is reused.
const MIN_LIFETIME: Duration = Duration::from_secs(2);
/// The time for which it is reused, as a multiple of the time that it took to count.
const LIFETIME_FACTOR: u32 = 20;
/// The most reports that are kept.
const MAX_KEPT: usize = 32;
/// The most requests that may wait for a report.
const MAX_WAITING: usize = 32;
/// The most logs that are read at the same time.
const MAX_READS: usize = 2;

/// The subject of a report as it is asked for: two requests for `24h` are for the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReportRequest {
    pub since: TimeArgument,
    /// None: now.
    pub until: Option<TimeArgument>,
    pub requests: DecisionQuery,
    pub contents: ReportContents,
}

/// A report, and the source of its counts.
#[derive(Debug)]
pub struct CountedReport {
    pub report: LogReport,
    pub counted_at: SystemTime,
    pub source: ReportSource,
}

/// The decisions that a report was counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportSource {
    /// The recent ones, which reach back to its start.
    Memory,
    /// The recent ones, of which the oldest are gone: there is no log.
    PartOfMemory,
    Log,
}

/// The reports that were counted lately.
#[derive(Debug)]
pub(super) struct ReportCache {
    slots: Mutex<HashMap<ReportRequest, Arc<ReportSlot>>>,
    log_reads: Arc<Semaphore>,
    memory_reads: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// The place of one report. The one who counts it holds the lock, and the others wait for it.
type ReportSlot = AsyncMutex<Option<KeptReport>>;

#[derive(Debug)]
struct KeptReport {
    counted: Arc<CountedReport>,
    until: Instant,
}

impl ReportCache {
    pub(super) fn new() -> Self {
        Self {
            slots: Mutex::default(),
            log_reads: Arc::new(Semaphore::new(MAX_READS)),
            memory_reads: Arc::new(Semaphore::new(1)),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Returns a report: the one that is kept, or a new one that `count` makes on a thread that may block. `is_read` says whether
    /// it has to read the log. None if too many wait already. If the caller gives up, so does `count`.
    pub(super) async fn get(
        &self,
        request: ReportRequest,
        is_read: bool,
        count: impl FnOnce(ProgressSink<'_>) -> CountedReport + Send + 'static,
    ) -> Option<Arc<CountedReport>> {
        let _waiting = WaitingGuard::enter(&self.waiting)?;
        let mut slot = self.slot(request).lock_owned().await;
        let now = Instant::now();
        if let Some(kept) = slot.as_ref().filter(|kept| kept.until > now) {
            return Some(Arc::clone(&kept.counted));
        }
        let limit = if is_read { &self.log_reads } else { &self.memory_reads };
        let permit = Arc::clone(limit).acquire_owned().await.ok()?;
        let given_up = CancellationToken::new();
        let _giving_up = given_up.clone().drop_guard();
        let counting = tokio::task::spawn_blocking(move || {
            // The thread holds both: it works on for a moment after the caller has gone.
            let _permit = permit;
            let started_at = Instant::now();
            let counted = Arc::new(count(&mut |_| {
                if given_up.is_cancelled() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            }));
            // A count that was given up covers only the lines read until then.
            if !given_up.is_cancelled() {
                let ended_at = Instant::now();
                let until = ended_at + lifetime(ended_at - started_at);
                *slot = Some(KeptReport { counted: Arc::clone(&counted), until });
            }
            counted
        });
        // A panic is reported by the hook of the process.
        counting.await.ok()
    }

    fn slot(&self, request: ReportRequest) -> Arc<ReportSlot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= MAX_KEPT && !slots.contains_key(&request) {
            let now = Instant::now();
            // A slot that cannot be locked is in use.
            slots.retain(|_, slot| {
                slot.try_lock()
                    .map_or(true, |kept| kept.as_ref().is_some_and(|kept| kept.until > now))
            });
        }
        if slots.len() >= MAX_KEPT && !slots.contains_key(&request) {
            // All of them are fresh. At most as many are in use as may wait.
            slots.retain(|_, slot| Arc::strong_count(slot) > 1);
        }
        Arc::clone(slots.entry(request).or_default())
    }
}

/// Returns the time for which a report is reused that took so long to count.
fn lifetime(took: Duration) -> Duration {
    (took * LIFETIME_FACTOR).max(MIN_LIFETIME)
}

/// Counts a request as waiting until it is dropped.
struct WaitingGuard<'a>(&'a AtomicUsize);

impl<'a> WaitingGuard<'a> {
    fn enter(waiting: &'a AtomicUsize) -> Option<Self> {
        let guard = Self(waiting);
        (waiting.fetch_add(1, Ordering::Relaxed) < MAX_WAITING).then_some(guard)
    }
}

impl Drop for WaitingGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc;

    use super::super::files::LogPlace;
    use super::super::report::ReportQuery;
    use super::*;

    fn request(hours: u64) -> ReportRequest {
        ReportRequest {
            since: TimeArgument::Ago(Duration::from_hours(hours)),
            until: None,
            requests: DecisionQuery::default(),
            contents: ReportContents::Overview,
        }
    }

    fn empty() -> CountedReport {
        let now = SystemTime::UNIX_EPOCH;
        let requests = DecisionQuery::default();
        let contents = ReportContents::Overview;
        let query = ReportQuery { since: now, until: now, requests, contents };
        let none = Path::new("/none");
        let log = LogPlace { path: none, state_dir: none };
        let report = LogReport::read(log, &query, &mut |_| ControlFlow::Continue(()));
        CountedReport { report, counted_at: now, source: ReportSource::Log }
    }

    #[test]
    fn a_report_is_told_for_twenty_times_as_long_as_it_took() {
        for (took, told) in [(0, 2000), (50, 2000), (3000, 60_000), (60_000, 1_200_000)] {
            assert_eq!(lifetime(Duration::from_millis(took)), Duration::from_millis(told));
        }
    }

    #[tokio::test]
    async fn requests_for_the_same_share_one_read() {
        let cache = ReportCache::new();
        let counts = Arc::new(AtomicUsize::new(0));
        let ask = |hours| {
            let counts = Arc::clone(&counts);
            cache.get(request(hours), true, move |_| {
                counts.fetch_add(1, Ordering::Relaxed);
                empty()
            })
        };
        let (one, other) = tokio::join!(ask(1), ask(1));
        assert!(Arc::ptr_eq(&one.unwrap(), &other.unwrap()));
        ask(1).await.unwrap();
        assert_eq!(counts.load(Ordering::Relaxed), 1);
        ask(2).await.unwrap();
        assert_eq!(counts.load(Ordering::Relaxed), 2);
        for hours in 3..200 {
            ask(hours).await.unwrap();
        }
        assert!(cache.slots.lock().unwrap().len() <= MAX_KEPT);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_read_that_nobody_waits_for_ends_and_is_not_kept() {
        let cache = Arc::new(ReportCache::new());
        let (started, has_started) = mpsc::channel();
        let (ended, has_ended) = mpsc::channel();
        let asking = {
            let cache = Arc::clone(&cache);
            tokio::spawn(async move {
                let read = move |on_progress: ProgressSink<'_>| {
                    started.send(()).unwrap();
                    while on_progress(Default::default()).is_continue() {
                        std::thread::yield_now();
                    }
                    ended.send(()).unwrap();
                    empty()
                };
                cache.get(request(1), true, read).await
            })
        };
        tokio::task::spawn_blocking(move || has_started.recv().unwrap()).await.unwrap();
        asking.abort();
        tokio::task::spawn_blocking(move || has_ended.recv().unwrap()).await.unwrap();
        let counted = cache.get(request(1), true, |_| empty()).await.unwrap();
        assert_eq!(counted.counted_at, SystemTime::UNIX_EPOCH);
        assert_eq!(cache.log_reads.available_permits(), MAX_READS);
    }
}
