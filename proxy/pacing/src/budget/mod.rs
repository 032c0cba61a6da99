//! The daily budgets of crawlers: requests, bytes and origins that each may use until midnight UTC.
//!
//! ```text
//!  mod ── usage     the counts of one crawler's day, and the rest of its budget
//!   └──── file      the counts on disk
//! ```
//!
//! Each node counts locally and reports its running totals to the engine with every request; the engine's sum decides. While the
//! engine is away, each node may use its equal part of the rest that it last knew. The counts are written every few seconds
//! and at the end of the process, so a crash forgets the last seconds.

mod file;
mod usage;

use std::fmt;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use ring::digest::{SHA256, digest};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use wayleave_clock::Clock;
use wayleave_decision::{Crawler, DailyBudget, EnforcementMode};
use wayleave_fleet::Fleet;
use wayleave_fleet::engine::{BudgetKind, BudgetReport, BudgetRequest};
use wayleave_robots_txt::Origin;

use self::file::BudgetFile;

/// The time between two writes of the counts, and between two reports of bytes to the fleet.
const SAVE_INTERVAL: Duration = Duration::from_secs(5);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The file of the counts in the state directory.
const FILE: &str = "budgets.json";

/// A part of a budget that is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpentBudget {
    pub kind: BudgetKind,
    pub limit: u64,
    /// The time until midnight UTC.
    pub retry_after: Duration,
}

/// The use of a part of a budget today, on all nodes as far as this one knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetUse {
    pub kind: BudgetKind,
    pub used: u64,
    pub limit: u64,
}

/// The counts of all crawlers with a budget.
pub struct DailyBudgets {
    clock: Clock,
    fleet: Fleet,
    path: PathBuf,
    counts: Mutex<BudgetFile>,
    has_changed: watch::Sender<bool>,
    /// Held while the file is written, so that an older state never replaces a newer one.
    writing: Mutex<()>,
}

impl DailyBudgets {
    /// Reads the counts of an earlier process.
    ///
    /// # Errors
    ///
    /// Returns an error if there are some, but they cannot be read.
    pub fn open(state_dir: &Path, clock: Clock, fleet: Fleet) -> anyhow::Result<Self> {
        let path = state_dir.join(FILE);
        Ok(Self {
            counts: Mutex::new(BudgetFile::read(&path)?),
            clock,
            fleet,
            path,
            has_changed: watch::Sender::new(false),
            writing: Mutex::default(),
        })
    }

    fn counts(&self) -> MutexGuard<'_, BudgetFile> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the part of the budget that is spent, as far as this node knows without asking.
    pub fn spent(&self, crawler: &Crawler, origin: &Origin) -> Option<SpentBudget> {
        let budget = crawler.budget.has_limit().then_some(crawler.budget)?;
        let now = self.clock.now();
        let mut counts = self.counts();
        let usage = counts.of_day(&crawler.name, day(now));
        let kind = usage.spent(budget, origin_digest(origin), self.fleet.is_shared())?;
        Some(SpentBudget::new(kind, budget, now))
    }

    /// Counts a request that is about to be sent, unless this is dropped before it returns. If that happens while the engine is
    /// asked, the engine may still count the origin as one that is not new today.
    ///
    /// # Errors
    ///
    /// Returns the part of the budget that is spent. The request is not counted then.
    pub async fn take(&self, crawler: &Crawler, origin: &Origin) -> Result<(), SpentBudget> {
        let budget = crawler.budget;
        if !budget.has_limit() {
            return Ok(());
        }
        let origin = origin_digest(origin);
        let now = self.clock.now();
        let spent = |kind| SpentBudget::new(kind, budget, now);
        if self.fleet.is_shared() {
            self.sync(&crawler.name, day(now)).await;
            return self.take_shared(crawler, origin, day(now)).await.map_err(spent);
        }
        let mut counts = self.counts();
        let usage = counts.of_day(&crawler.name, day(now));
        if let Some(kind) = usage.spent(budget, origin, false) {
            return Err(spent(kind));
        }
        usage.count(budget, origin);
        self.note_change();
        Ok(())
    }

    /// Asks the engine to count a request, or decides by this node's share of the rest while the engine is away.
    async fn take_shared(
        &self,
        crawler: &Crawler,
        origin: u64,
        day: u64,
    ) -> Result<(), BudgetKind> {
        let Crawler { name, budget, .. } = crawler;
        loop {
            let (report, is_covered, in_question) = {
                let mut counts = self.counts();
                let meter = counts.meter.clone();
                let usage = counts.of_day(name, day);
                usage.spent(*budget, origin, true).map_or(Ok(()), Err)?;
                let is_covered = usage.has_spare();
                let request = BudgetRequest { origin, limits: *budget, is_covered };
                // Of an engine that has not told this process its counts, an answer cannot be told from what a crash lost.
                let is_asked = usage.is_synced && self.fleet.is_reachable();
                let report = is_asked.then(|| usage.report(name, meter, Some(request)));
                (report, is_covered, Arc::clone(&usage.in_question))
            };
            let answer = match &report {
                Some(report) => self.fleet.spend(report).await,
                None => None,
            };
            let nodes = self.fleet.sharing_nodes();
            let mut counts = self.counts();
            drop(in_question);
            if answer.is_some() {
                counts.nodes = nodes;
            }
            // A node that began while the engine was away has not yet seen any other node.
            let nodes = nodes.max(counts.nodes);
            // A day that ended during the call no longer matters.
            let Some(usage) = counts.of_current(name, day) else {
                return answer.and_then(|answer| answer.spent).map_or(Ok(()), Err);
            };
            let spent = match (&report, answer) {
                (Some(report), Some(answer)) => {
                    usage.add_answer(report, answer);
                    answer.spent
                }
                _ => usage.spent_alone(*budget, origin, nodes),
            };
            self.note_change();
            // Only this answer says that the engine counts a request that was never sent: there is room for this one instead.
            let has_room = answer.is_some() && !is_covered && usage.has_spare();
            if has_room && spent == Some(BudgetKind::Requests) {
                continue;
            }
            if spent.is_none() {
                usage.count(*budget, origin);
            }
            return spent.map_or(Ok(()), Err);
        }
    }

    /// Asks the engine for this node's counts, once for each process and day: a crash may have lost some.
    async fn sync(&self, crawler: &str, day: u64) {
        let report = {
            let mut counts = self.counts();
            let meter = counts.meter.clone();
            let usage = counts.of_day(crawler, day);
            (!usage.is_synced).then(|| usage.report(crawler, meter, None))
        };
        if let Some(report) = report {
            self.report(&report).await;
        }
    }

    /// Reports this node's counts to the engine, and adds its answer. Returns whether there was one.
    async fn report(&self, report: &BudgetReport) -> bool {
        let Some(answer) = self.fleet.spend(report).await else { return false };
        if let Some(usage) = self.counts().of_current(&report.crawler, report.day) {
            usage.add_answer(report, answer);
        }
        true
    }

    /// Counts a request that is sent although the budget is spent.
    pub fn count_observed(&self, crawler: &Crawler, origin: &Origin) {
        let mut counts = self.counts();
        let usage = counts.of_day(&crawler.name, day(self.clock.now()));
        usage.count(crawler.budget, origin_digest(origin));
        self.note_change();
    }

    /// Counts bytes that came from an origin.
    pub fn add_bytes(&self, crawler: &str, bytes: u64) {
        self.counts().of_day(crawler, day(self.clock.now())).bytes += bytes;
        self.note_change();
    }

    fn used_bytes(&self, crawler: &str) -> u64 {
        self.counts().of_day(crawler, day(self.clock.now())).used(BudgetKind::Bytes)
    }

    /// Returns the use of each part of a crawler's budget that has a limit.
    pub fn usage(&self, crawler: &Crawler) -> Vec<BudgetUse> {
        if !crawler.budget.has_limit() {
            return Vec::new();
        }
        let mut counts = self.counts();
        let usage = counts.of_day(&crawler.name, day(self.clock.now()));
        let all = BudgetKind::ALL.into_iter();
        let uses = all.map(|kind| BudgetUse {
            kind,
            used: usage.used(kind),
            limit: limit_of(crawler.budget, kind),
        });
        uses.filter(|part| part.limit > 0).collect()
    }

    /// Writes the counts, and reports to the fleet the bytes received since the last report, for as long as the process runs.
    pub async fn keep(self: &Arc<Self>) {
        let mut changes = self.has_changed.subscribe();
        let mut is_reported = true;
        loop {
            // An error would mean that `self` is gone.
            if is_reported && changes.wait_for(|has_changed| *has_changed).await.is_err() {
                return;
            }
            tokio::time::sleep(SAVE_INTERVAL).await;
            is_reported = self.report_all().await;
            let budgets = Arc::clone(self);
            // A worker of this runtime does not hand its connections to others while it waits for the disk.
            if let Err(error) = spawn_blocking(move || budgets.save()).await {
                tracing::error!(%error, "the counts of daily budgets were not written");
            }
        }
    }

    fn note_change(&self) {
        self.has_changed.send_if_modified(|has_changed| !mem::replace(has_changed, true));
    }

    /// Reports to the engine all that this node has counted: a long response spends the budget of other nodes, too. Returns
    /// whether the engine knows it now.
    async fn report_all(&self) -> bool {
        if !self.fleet.is_shared() {
            return true;
        }
        let reports: Vec<BudgetReport> = {
            let counts = self.counts();
            let of_today = counts.crawlers.iter().filter(|(_, usage)| usage.has_unreported());
            of_today.map(|(name, usage)| usage.report(name, counts.meter.clone(), None)).collect()
        };
        let mut is_reported = true;
        for report in reports {
            is_reported &= self.report(&report).await;
        }
        is_reported
    }

    /// Writes the counts if they have changed.
    pub fn save(&self) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.has_changed.send_replace(false) {
            return;
        }
        // Also the day of the settled time: the clock may be wrong for a moment, and then count on there.
        let current = [self.clock.now(), self.clock.settled()].map(day);
        // Copied, because every request needs the lock, and a day may have many origins.
        let copy = self.counts().copy_current(&current);
        if let Err(error) = file::write(&self.path, &copy.encode()) {
            // Until it succeeds, a crash would lose more than the last few seconds; the next round tries again.
            self.note_change();
            tracing::error!(path = %self.path.display(), %error, "the counts of daily budgets cannot be written");
        }
    }
}

impl SpentBudget {
    fn new(kind: BudgetKind, budget: DailyBudget, now: SystemTime) -> Self {
        Self { kind, limit: limit_of(budget, kind), retry_after: until_midnight(now) }
    }
}

fn limit_of(budget: DailyBudget, kind: BudgetKind) -> u64 {
    match kind {
        BudgetKind::Requests => budget.requests,
        BudgetKind::Bytes => budget.bytes,
        BudgetKind::NewOrigins => budget.new_origins,
    }
}

fn since_epoch(now: SystemTime) -> Duration {
    now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Returns the day of UTC, counted from the epoch.
fn day(now: SystemTime) -> u64 {
    since_epoch(now).as_secs() / DAY.as_secs()
}

/// Returns the time until the day ends.
pub fn until_midnight(now: SystemTime) -> Duration {
    let begun = since_epoch(now);
    DAY * u32::try_from(day(now) + 1).unwrap_or(u32::MAX) - begun
}

/// Returns a digest that is the same on all nodes, and takes a fraction of an origin's memory.
fn origin_digest(origin: &Origin) -> u64 {
    let digest = digest(&SHA256, origin.to_string().as_bytes());
    u64::from_be_bytes(digest.as_ref().first_chunk().copied().unwrap_or_default())
}

impl fmt::Debug for DailyBudgets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DailyBudgets").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Counts the bytes of one response, or of one tunnel, for its crawler.
#[derive(Clone, Copy, Debug)]
pub struct ByteMeter<'a> {
    pub budgets: &'a DailyBudgets,
    pub crawler: &'a Crawler,
}

impl ByteMeter<'_> {
    /// Counts bytes that came from the origin.
    pub fn add(&self, bytes: usize) {
        self.budgets.add_bytes(&self.crawler.name, bytes as u64);
    }

    /// Returns whether an exchange without an end of its own, such as a tunnel, has to end because the bytes are spent.
    pub fn ends_streams(&self) -> bool {
        let limit = self.crawler.budget.bytes;
        self.crawler.mode == EnforcementMode::Enforce
            && self.budgets.used_bytes(&self.crawler.name) >= limit
    }
}

#[cfg(test)]
mod tests;
