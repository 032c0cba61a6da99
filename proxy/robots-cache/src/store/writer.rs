//! The store's writer: collects changes, writes them together, and reopens the file after a failure.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use wayleave_clock::Clock;
use wayleave_evidence::holds_in_effect::HoldsInEffect;
use wayleave_lifecycle::{LifetimeSettings, Resource, to_unix_millis};
use wayleave_telemetry::metrics::Metrics;

use super::batch::WriteBatch;
use super::error::StoreError;
use super::failure::{StoreFailure, catching_panics};
use super::file::{self, OpenDatabase};
use super::pending::{PendingChanges, StoreChange};
use super::state_counter::StateCounter;
use super::state_tally::StateTally;
use super::tables::{self, BodyDigest, HeldDocuments, RetentionLimits};
use super::upkeep;

/// The time for which changes are collected. A crash loses no more than this and one commit.
const GATHER_TIME: Duration = Duration::from_millis(200);
/// The delay before a failed store is tried again.
const REOPEN_DELAY: Duration = Duration::from_secs(5);

/// The configuration of the store; part of `[state]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RobotsStoreConfig {
    /// The time that earlier versions of a document are kept. Default: 365 days.
    pub history_age: Duration,
    /// The maximum number of versions kept of one document. Default: 64.
    pub history_length: usize,
    /// The time after which a document that was not fetched is forgotten. Default: 91 days, three times as long as the
    /// copy of an unreachable origin is used.
    pub idle_after: Duration,
    /// The maximum size of the file, in bytes. Default: 10 GiB.
    pub max_size_bytes: u64,
    /// The memory limit of pending changes, and of the database's cache, in bytes each. Changes beyond it are lost
    /// while the disk fails. Default: 16 MiB, a sixteenth of the memory of robots.txt entries.
    pub memory_bytes: usize,
}

impl Default for RobotsStoreConfig {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self {
            history_age: 365 * DAY,
            history_length: 64,
            idle_after: 91 * DAY,
            max_size_bytes: 10 << 30,
            memory_bytes: 16 << 20,
        }
    }
}

impl RobotsStoreConfig {
    /// Returns the maximum cost of all rows. The rest of the file is for the pages that a commit writes next to those
    /// it replaces, and for gaps too small for anything.
    fn kept_bytes(&self) -> u64 {
        file::capacity(self.max_size_bytes) / 8 * 5
    }

    /// Returns how much is written in one transaction, before compression.
    fn batch_bytes(&self, memory: usize) -> usize {
        let bytes = usize::try_from(self.kept_bytes() / 16).unwrap_or(usize::MAX);
        bytes.min(memory)
    }
}

/// The state shared by all handles of a store.
pub(super) struct StoreWriter {
    /// The path of the file; `None` for a store in memory.
    pub(super) path: Option<PathBuf>,
    options: RobotsStoreConfig,
    /// Whether the file is only read.
    is_read_only: bool,
    /// The current value of `options.memory_bytes`, which a reload may change.
    memory: AtomicUsize,
    pub(super) clock: Clock,
    metrics: Arc<Metrics>,
    state: Mutex<WriterState>,
    holds: Mutex<Option<HoldsInEffect>>,
    /// Held while writing, so that changes are written in order.
    write_lock: Mutex<()>,
    pub(super) counts: Arc<StateCounter>,
    /// Notifies the writing task of changes.
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct WriterState {
    database: Option<Arc<OpenDatabase>>,
    fault: Option<String>,
    /// The damage because of which the file is to be set aside before it is reopened.
    damage: Option<String>,
    /// The file that was set aside since the start, and why.
    set_aside_file: Option<String>,
    /// Whether the file reached its maximum size: it is compacted before it is used again.
    is_full: bool,
    waiting: PendingChanges,
    /// The changes that are being written.
    writing: Arc<PendingChanges>,
    /// The bodies that were found damaged.
    damaged: HashSet<BodyDigest>,
}

/// Writes pending changes until the last handle is dropped, and then the rest.
async fn write_while_alive(writer: Weak<StoreWriter>, mut changed: watch::Receiver<()>) {
    while changed.changed().await.is_ok() {
        tokio::time::sleep(GATHER_TIME).await;
        // Held weakly: dropping the last handle writes the rest and ends this task.
        let Some(writer) = writer.upgrade() else {
            return;
        };
        let writing = tokio::task::spawn_blocking(move || {
            let is_written = writer.write();
            if !is_written {
                // Wakes this loop again: something is left to write.
                writer.changed.send_replace(());
            }
            is_written
        });
        if !writing.await.unwrap_or(false) {
            tokio::time::sleep(REOPEN_DELAY).await;
        }
    }
}

impl Drop for StoreWriter {
    fn drop(&mut self) {
        self.write();
        self.counts.end();
    }
}

impl StoreWriter {
    /// Starts the writing task; no file is open yet. Needs a tokio runtime.
    pub(super) fn start(
        path: Option<PathBuf>,
        options: RobotsStoreConfig,
        clock: Clock,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        let writer = Arc::new(Self::new(path, options, clock, metrics));
        let changed = writer.changed.subscribe();
        tokio::spawn(write_while_alive(Arc::downgrade(&writer), changed));
        writer
    }

    /// Does the same for a file that is only read.
    pub(super) fn start_to_read(
        path: PathBuf,
        options: RobotsStoreConfig,
        clock: Clock,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        let mut writer = Self::new(Some(path), options, clock, metrics);
        writer.is_read_only = true;
        Arc::new(writer)
    }

    fn new(
        path: Option<PathBuf>,
        options: RobotsStoreConfig,
        clock: Clock,
        metrics: Arc<Metrics>,
    ) -> Self {
        let dir = path.as_deref().and_then(Path::parent);
        Self {
            holds: Mutex::new(dir.map(|dir| HoldsInEffect::new(dir, None))),
            path,
            options,
            is_read_only: false,
            memory: AtomicUsize::new(options.memory_bytes),
            clock,
            metrics,
            state: Mutex::default(),
            write_lock: Mutex::default(),
            counts: Arc::default(),
            changed: watch::Sender::new(()),
        }
    }

    /// Sets the limit of pending changes, and that of the database's cache once the file is reopened.
    pub(super) fn set_memory(&self, bytes: usize) {
        self.memory.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn memory(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    /// Returns the current fault, if any.
    pub(super) fn fault(&self) -> Option<String> {
        self.state().fault.clone()
    }

    /// Returns which damaged file was set aside since the start, and why.
    pub(super) fn set_aside_file(&self) -> Option<String> {
        self.state().set_aside_file.clone()
    }

    /// Returns the database, if it is open.
    pub(super) fn database(&self) -> Option<Arc<OpenDatabase>> {
        self.state().database.clone()
    }

    fn state(&self) -> MutexGuard<'_, WriterState> {
        // Every change of the state is complete before the lock is released.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change(&self, resource: &Resource, change: StoreChange) {
        let mut state = self.state();
        state.waiting.push(resource, change);
        let lost = state.waiting.drop_excess(self.memory());
        drop(state);
        self.count_lost(lost);
        self.changed.send_replace(());
    }

    /// Drops a record that was changed on disk, and its body if that is damaged.
    pub(super) fn forget_damaged(&self, resource: &Resource, body: Option<BodyDigest>) {
        tracing::error!(%resource, "this resource's record was changed on disk: it is dropped, and fetched again");
        self.metrics.store_error("checksum");
        self.change(resource, StoreChange::Forget);
        self.state().damaged.extend(body);
    }

    /// Drops a damaged body that was not read for a record.
    pub(super) fn drop_damaged_body(&self, body: BodyDigest) {
        let sha256 = wayleave_evidence::Sha256Digest(body);
        tracing::error!(%sha256, "a robots.txt in the store was changed on disk: it is dropped");
        self.metrics.store_error("checksum");
        self.state().damaged.insert(body);
        self.changed.send_replace(());
    }

    /// Writes pending changes, unless there are none or the store has failed. Returns whether it tried.
    pub(super) fn write_pending(&self) -> bool {
        let state = self.state();
        let is_pending = !(state.waiting.is_empty() && state.writing.is_empty());
        // What a failed store cannot write is not tried again each time that somebody asks.
        let is_due = is_pending && state.fault.is_none();
        drop(state);
        if is_due {
            self.write();
        }
        is_due
    }

    pub(super) fn unwritten(&self, resource: &Resource) -> Option<StoreChange> {
        let state = self.state();
        state.waiting.last(resource).or_else(|| state.writing.last(resource)).cloned()
    }

    /// Writes all pending changes. Returns whether nothing is left.
    pub(super) fn write(&self) -> bool {
        let _lock = self.write_lock.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let (batch, damaged) = {
                let mut state = self.state();
                if state.waiting.is_empty() && state.damaged.is_empty() {
                    return true;
                }
                // In batches: a commit needs space in the file next to the rows that it replaces.
                state.writing =
                    Arc::new(state.waiting.take(self.options.batch_bytes(self.memory())));
                (state.writing.clone(), std::mem::take(&mut state.damaged))
            };
            let Some(database) = self.open_or_reopen() else {
                self.put_back(&batch, damaged);
                return false;
            };
            let delta = self.counts.new_delta();
            let written = catching_panics(|| {
                write_batch(&database, &batch, &damaged, (self.retention_limits(), delta))
            });
            // Before a failure is recorded, which closes the database.
            drop(database);
            match written {
                Ok((damaged_records, delta)) => {
                    self.counts.merge(delta);
                    if damaged_records > 0 {
                        // The state of a damaged record is unknown, so the count starts over.
                        self.restart_count();
                    }
                    (0..damaged_records).for_each(|_| self.metrics.store_error("checksum"));
                    let mut state = self.state();
                    state.writing = Arc::default();
                    state.fault = None;
                }
                Err(failure) => {
                    self.record_failure("write", &failure);
                    self.put_back(&batch, damaged);
                    return false;
                }
            }
        }
    }

    /// Puts changes back that could not be written.
    fn put_back(&self, batch: &PendingChanges, damaged: HashSet<BodyDigest>) {
        let mut state = self.state();
        state.waiting.put_back(batch);
        state.writing = Arc::default();
        state.damaged.extend(damaged);
        let lost = state.waiting.drop_excess(self.memory());
        drop(state);
        self.count_lost(lost);
    }

    /// Counts changes that are not written. Their entries remain in memory until evicted, and are fetched again later.
    fn count_lost(&self, lost: usize) {
        for _ in 0..lost {
            self.metrics.store_error("write");
        }
        if lost > 0 {
            tracing::warn!(lost, "the store cannot keep up: entries are not saved");
        }
    }

    fn retention_limits(&self) -> RetentionLimits {
        let before = |span| {
            // Nothing is deleted because a clock was wrong for a moment.
            let since = self.clock.settled().checked_sub(span);
            to_unix_millis(since.unwrap_or(SystemTime::UNIX_EPOCH))
        };
        let bytes = self.options.kept_bytes();
        RetentionLimits {
            versions_not_before: before(self.options.history_age),
            entries_not_before: before(self.options.idle_after),
            max_versions: self.options.history_length,
            max_bytes: bytes,
            max_domain_bytes: bytes / 8,
            held: HeldDocuments::read(self.holds().as_mut()),
        }
    }

    fn holds(&self) -> MutexGuard<'_, Option<HoldsInEffect>> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the holds in effect of the log at this path from now on, instead of whatever is in the folder of the holds.
    pub(super) fn hold_by_log(&self, log: Option<&Path>) {
        let dir = self.path.as_deref().and_then(Path::parent);
        *self.holds() = dir.map(|dir| HoldsInEffect::new(dir, log));
    }

    fn open_or_reopen(&self) -> Option<Arc<OpenDatabase>> {
        if let Some(database) = self.database() {
            return Some(database);
        }
        if let Err(error) = self.reopen() {
            self.record_fault("open", &error.to_string());
        }
        self.database()
    }

    /// Sets the lifetimes to count by. Blocks.
    pub(super) fn set_lifetimes(&self, lifetimes: LifetimeSettings) {
        let _lock = self.write_lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.counts.set_lifetimes(lifetimes);
        self.restart_count();
    }

    /// Starts a new count. The caller must hold the write lock, or be alone.
    fn restart_count(&self) {
        if let Some(database) = self.database()
            && let Err(failure) = self.counts.begin(&database, self.clock.now())
        {
            drop(database);
            self.record_failure("read", &failure);
        }
    }

    /// Opens the database. A damaged file is set aside, and a new one created.
    pub(super) fn reopen(&self) -> Result<(), StoreError> {
        // The counting thread has the file open.
        self.counts.end();
        // In a statement of its own, because setting the file aside locks the state again.
        let damage = self.state().damage.take();
        if let Some(what) = damage {
            self.set_damaged_aside(&what);
        }
        let mut opened = self.open();
        if let Err(OpenFailure::Failure(failure)) = &opened
            && failure.is_damage()
            && self.set_damaged_aside(&failure.to_string())
        {
            opened = self.open();
        }
        match opened {
            Ok(database) => {
                let mut state = self.state();
                state.database = Some(Arc::new(database));
                state.fault = None;
                drop(state);
                self.restart_count();
                Ok(())
            }
            Err(OpenFailure::Format(found)) => {
                Err(StoreError::Format { path: self.path.clone().unwrap_or_default(), found })
            }
            Err(OpenFailure::Failure(StoreFailure::Database(redb::Error::DatabaseAlreadyOpen))) => {
                Err(StoreError::Locked(self.path.clone().unwrap_or_default()))
            }
            Err(OpenFailure::Failure(failure)) if self.is_read_only => {
                let path = self.path.clone().unwrap_or_default();
                Err(StoreError::Unreadable { path, what: failure.to_string() })
            }
            Err(OpenFailure::Failure(failure)) => {
                self.record_failure("open", &failure);
                Ok(())
            }
        }
    }

    fn open(&self) -> Result<OpenDatabase, OpenFailure> {
        if let Some(path) = self.path.as_ref().filter(|_| self.is_read_only) {
            let database = file::open_to_read(path, self.memory())?;
            upkeep::prepare(&database, self.retention_limits())?.map_err(OpenFailure::Format)?;
            return Ok(database);
        }
        let max_size_bytes = self.options.max_size_bytes;
        let mut database =
            file::open_database(self.path.as_deref(), max_size_bytes, self.memory())?;
        upkeep::prepare(&database, self.retention_limits())?.map_err(OpenFailure::Format)?;
        let length = |path: &PathBuf| std::fs::metadata(path).map_or(0, |found| found.len());
        let is_longer = self.path.as_ref().map(length) > Some(max_size_bytes);
        if is_longer || self.state().is_full {
            tracing::info!("the store is over state.max_size: deleting the oldest entries");
            upkeep::shrink(&database, self.retention_limits())?;
            // It returns whether it moved anything, and may have to run again.
            while database.compact()? {}
            self.state().is_full = false;
        }
        Ok(database)
    }

    /// Sets a damaged file aside. Returns whether that succeeded. Logged as an error, because everything has to be
    /// fetched again.
    fn set_damaged_aside(&self, what: &str) -> bool {
        let Some(path) = self.path.as_ref().filter(|_| !self.is_read_only) else {
            return false;
        };
        self.metrics.store_error("open");
        match file::set_aside(path, self.clock.now()) {
            Ok(aside) => {
                let path = path.display();
                let aside = aside.display();
                tracing::error!(%path, %aside, what, "the store is damaged: set aside, starting a new one");
                let description = format!("{path} was damaged ({what}) and is now {aside}");
                self.state().set_aside_file = Some(description);
                true
            }
            Err(error) => {
                tracing::error!(path = %path.display(), what, %error, "the store is damaged and cannot be set aside");
                false
            }
        }
    }

    /// Records a failure, after which the file is reopened.
    pub(super) fn record_failure(&self, operation: &'static str, failure: &StoreFailure) {
        self.record_fault(operation, &failure.to_string());
        let mut state = self.state();
        state.is_full |= failure.is_full();
        // A store in memory would lose everything by being reopened.
        if self.path.is_some() {
            // A file that is found damaged while it is opened is set aside at once.
            if failure.is_damage() && operation != "open" {
                state.damage = Some(failure.to_string());
            }
            // redb refuses everything after a failure, until the file is reopened.
            let database = state.database.take();
            // Closing it may write to the disk, which must not hold up readers of the state.
            drop(state);
            drop(database);
        }
    }

    fn record_fault(&self, operation: &'static str, what: &str) {
        let fault = format!("{operation}: {what}");
        let mut state = self.state();
        // Logged once: with a failing disk, every attempt would repeat it.
        if state.fault.as_ref() != Some(&fault) {
            tracing::error!(operation, what, "the store has failed: continuing in memory");
            state.fault = Some(fault);
        }
        drop(state);
        self.metrics.store_error(operation);
    }
}

/// The cause of a failed opening.
enum OpenFailure {
    /// Another version of wayleave wrote the file.
    Format(u64),
    Failure(StoreFailure),
}

impl From<StoreFailure> for OpenFailure {
    fn from(failure: StoreFailure) -> Self {
        Self::Failure(failure)
    }
}

/// Writes all changes or none, and drops rows beyond the limits. Returns how many records were found damaged, and
/// which entries came and went.
fn write_batch(
    database: &OpenDatabase,
    changes: &PendingChanges,
    damaged: &HashSet<BodyDigest>,
    (limits, tally): (RetentionLimits, Option<StateTally>),
) -> Result<(usize, Option<StateTally>), StoreFailure> {
    let write = tables::begin(database)?;
    let mut batch = WriteBatch::open(&write, limits)?;
    batch.tally = tally;
    // First, because a body that was fetched again is only stored where it is missing.
    damaged.iter().try_for_each(|body| batch.drop_body(body))?;
    for (resource, change) in changes.iter() {
        batch.apply(resource, change)?;
    }
    batch.drop_expired()?;
    let found = batch.finish()?;
    write.commit()?;
    Ok(found)
}
