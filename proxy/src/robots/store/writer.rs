//! The store's writer: gathers changes, writes them together, and reopens the file after a failure.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use wayleave_robots_txt::lifecycle::{Lifetimes, Resource};

use super::batch::Batch;
use super::counts::Counts;
use super::error::StoreError;
use super::failure::{Failure, guarded};
use super::file::{self, Open};
use super::tables::{self, Digest, Keep};
use super::tally::Tally;
use super::upkeep;
use super::waiting::{Change, Waiting};
use crate::clock::Clock;
use crate::observe::metrics::Metrics;
use crate::robots::record;

/// How long changes are gathered. A crash loses no more than this and one commit.
const GATHER: Duration = Duration::from_millis(200);
/// How long a store that failed is left alone.
const REOPEN: Duration = Duration::from_secs(5);

/// How the store keeps; part of `[state]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// What an origin said before is kept this long. Default: 365 days.
    pub history_age: Duration,
    /// Different answers kept of one origin. Default: 64.
    pub history_length: usize,
    /// An origin that was not fetched for this long is forgotten. Default: 91 days, three times what a copy of an
    /// unreachable origin serves.
    pub idle_after: Duration,
    /// What the file may become, in bytes. Default: 10 GiB.
    pub max_size: u64,
    /// What waits to be written, and what the database keeps of its file, each in bytes of memory. What waits beyond that
    /// while the disk fails is lost. Default: 16 MiB, a sixteenth of what robots.txt entries may hold.
    pub memory: usize,
}

impl Default for StoreOptions {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self {
            history_age: 365 * DAY,
            history_length: 64,
            idle_after: 91 * DAY,
            max_size: 10 << 30,
            memory: 16 << 20,
        }
    }
}

impl StoreOptions {
    /// What all that is kept may cost. The rest of the file is for what a commit writes beside what it replaces, and for gaps
    /// that fit nothing.
    fn kept_bytes(&self) -> u64 {
        file::capacity(self.max_size) / 8 * 5
    }

    /// What is written in one transaction, before it is packed.
    fn batch_bytes(&self, memory: usize) -> usize {
        let bytes = usize::try_from(self.kept_bytes() / 16).unwrap_or(usize::MAX);
        bytes.min(memory)
    }
}

/// What all handles of a store share.
pub(super) struct Writer {
    /// `None`: in memory only.
    pub(super) path: Option<PathBuf>,
    options: StoreOptions,
    /// What `memory` of the options is by now.
    memory: AtomicUsize,
    pub(super) clock: Clock,
    metrics: Arc<Metrics>,
    state: Mutex<State>,
    /// Held while writing, so that changes are written in the order they came.
    turn: Mutex<()>,
    pub(super) counts: Arc<Counts>,
    /// Told of every change.
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    database: Option<Arc<Open>>,
    fault: Option<String>,
    /// The file is to be put aside before it is opened again, because of this.
    damage: Option<String>,
    /// What was put aside since the start.
    put_aside: Option<String>,
    /// The file had no more room: what is kept is packed together before it is used again.
    is_full: bool,
    waiting: Waiting,
    /// Being written now.
    writing: Arc<Waiting>,
    /// Bodies that were changed on disk.
    damaged: HashSet<Digest>,
}

/// Writes what gathers until the last handle is gone, and then what is left.
async fn write_while_alive(writer: Weak<Writer>, mut changed: watch::Receiver<()>) {
    while changed.changed().await.is_ok() {
        tokio::time::sleep(GATHER).await;
        let Some(writer) = writer.upgrade() else {
            return;
        };
        let writing = tokio::task::spawn_blocking(move || {
            let is_written = writer.write();
            if !is_written {
                // For the loop: something is left to write.
                writer.changed.send_replace(());
            }
            is_written
        });
        if !writing.await.unwrap_or(false) {
            tokio::time::sleep(REOPEN).await;
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.write();
        self.counts.end();
    }
}

impl Writer {
    /// Starts to write what is changed; nothing is open yet. Within a tokio runtime.
    pub(super) fn start(
        path: Option<PathBuf>,
        options: StoreOptions,
        clock: Clock,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        let writer = Arc::new(Self {
            path,
            options,
            memory: AtomicUsize::new(options.memory),
            clock,
            metrics,
            state: Mutex::default(),
            turn: Mutex::default(),
            counts: Arc::default(),
            changed: watch::Sender::new(()),
        });
        let changed = writer.changed.subscribe();
        tokio::spawn(write_while_alive(Arc::downgrade(&writer), changed));
        writer
    }

    /// Bounds what waits to be written by so many bytes from now on, and what the database keeps of its file once that is opened
    /// again.
    pub(super) fn set_memory(&self, bytes: usize) {
        self.memory.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn memory(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    /// What is wrong, if something is.
    pub(super) fn fault(&self) -> Option<String> {
        self.state().fault.clone()
    }

    /// Which damaged file was put aside since the start, and why.
    pub(super) fn put_aside(&self) -> Option<String> {
        self.state().put_aside.clone()
    }

    /// The database, if it is open.
    pub(super) fn database(&self) -> Option<Arc<Open>> {
        self.state().database.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of the state is whole before the lock is let go.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change(&self, resource: &Resource, change: Change) {
        let mut state = self.state();
        state.waiting.push(resource, change);
        let lost = state.waiting.bound(self.memory());
        drop(state);
        self.count_lost(lost);
        self.changed.send_replace(());
    }

    /// Of `origin` a record or the body with this digest was changed on disk: it is dropped.
    pub(super) fn damaged(&self, resource: &Resource, body: Option<Digest>) {
        tracing::error!(%resource, "this resource's record was changed on disk: it is dropped, and fetched again");
        self.metrics.store_error("checksum");
        self.change(resource, Change::Forget);
        self.state().damaged.extend(body);
    }

    /// The same where nothing but the body was asked for.
    pub(super) fn damaged_body(&self, body: Digest) {
        let sha256 = crate::observe::digest::Digest(body);
        tracing::error!(%sha256, "a robots.txt in the store was changed on disk: it is dropped");
        self.metrics.store_error("checksum");
        self.state().damaged.insert(body);
        self.changed.send_replace(());
    }

    pub(super) fn unwritten(&self, resource: &Resource) -> Option<Change> {
        let state = self.state();
        let waiting = state.waiting.last(resource);
        waiting.or_else(|| state.writing.last(resource)).cloned()
    }

    /// Writes what waits; whether nothing is left.
    pub(super) fn write(&self) -> bool {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let (batch, damaged) = {
                let mut state = self.state();
                if state.waiting.is_empty() && state.damaged.is_empty() {
                    return true;
                }
                state.writing =
                    Arc::new(state.waiting.take(self.options.batch_bytes(self.memory())));
                (state.writing.clone(), std::mem::take(&mut state.damaged))
            };
            let Some(database) = self.opened() else {
                self.put_back(&batch, damaged);
                return false;
            };
            let counts = self.counts.beside();
            let written = guarded(|| write(&database, &batch, &damaged, (self.keep(), counts)));
            drop(database);
            match written {
                Ok((found, counted)) => {
                    self.counts.merge(counted);
                    if found > 0 {
                        // As what they were counted is not known any more.
                        self.count_anew();
                    }
                    (0..found).for_each(|_| self.metrics.store_error("checksum"));
                    let mut state = self.state();
                    state.writing = Arc::default();
                    state.fault = None;
                }
                Err(failure) => {
                    self.fail("write", &failure);
                    self.put_back(&batch, damaged);
                    return false;
                }
            }
        }
    }

    /// Lets what could not be written wait again.
    fn put_back(&self, batch: &Waiting, damaged: HashSet<Digest>) {
        let mut state = self.state();
        state.waiting.put_back(batch);
        state.writing = Arc::default();
        state.damaged.extend(damaged);
        let lost = state.waiting.bound(self.memory());
        drop(state);
        self.count_lost(lost);
    }

    /// What is lost is at hand for as long as memory keeps it, and fetched again after that.
    fn count_lost(&self, lost: usize) {
        for _ in 0..lost {
            self.metrics.store_error("write");
        }
        if lost > 0 {
            tracing::warn!(lost, "the store cannot keep up: entries are not saved");
        }
    }

    fn keep(&self) -> Keep {
        let before = |span| {
            let since = self.clock.now().checked_sub(span);
            record::millis(since.unwrap_or(SystemTime::UNIX_EPOCH))
        };
        let bytes = self.options.kept_bytes();
        Keep {
            versions_since: before(self.options.history_age),
            entries_since: before(self.options.idle_after),
            versions: self.options.history_length,
            bytes,
            domain_bytes: bytes / 8,
        }
    }

    fn opened(&self) -> Option<Arc<Open>> {
        if let Some(database) = self.database() {
            return Some(database);
        }
        if let Err(error) = self.reopen() {
            self.note("open", &error.to_string());
        }
        self.database()
    }

    /// Counts entries by these lifetimes from now on. Blocks.
    pub(super) fn count_by(&self, lifetimes: Lifetimes) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.counts.set_lifetimes(lifetimes);
        self.count_anew();
    }

    /// Begins to count what is kept. For whoever has the turn, or is alone.
    fn count_anew(&self) {
        if let Some(database) = self.database()
            && let Err(failure) = self.counts.begin(&database, self.clock.now())
        {
            drop(database);
            self.fail("read", &failure);
        }
    }

    /// Opens the database if it can be. A file that is damaged is put aside, and a new one begun.
    pub(super) fn reopen(&self) -> Result<(), StoreError> {
        // It has the file open.
        self.counts.end();
        let known = self.state().damage.take();
        if let Some(what) = known {
            self.put_damaged_aside(&what);
        }
        let mut opened = self.open();
        if let Err(Unopened::Failure(failure)) = &opened
            && failure.is_damage()
            && self.put_damaged_aside(&failure.to_string())
        {
            opened = self.open();
        }
        match opened {
            Ok(database) => {
                let mut state = self.state();
                state.database = Some(Arc::new(database));
                state.fault = None;
                drop(state);
                self.count_anew();
                Ok(())
            }
            Err(Unopened::Format(found)) => Err(StoreError::Format {
                path: self.path.clone().unwrap_or_default(),
                found,
            }),
            Err(Unopened::Failure(Failure::Database(redb::Error::DatabaseAlreadyOpen))) => {
                Err(StoreError::Locked(self.path.clone().unwrap_or_default()))
            }
            Err(Unopened::Failure(failure)) => {
                self.fail("open", &failure);
                Ok(())
            }
        }
    }

    fn open(&self) -> Result<Open, Unopened> {
        let max_size = self.options.max_size;
        let mut database = file::open(self.path.as_deref(), max_size, self.memory())?;
        upkeep::prepare(&database, self.keep())?.map_err(Unopened::Format)?;
        let length = |path: &PathBuf| std::fs::metadata(path).map_or(0, |found| found.len());
        let is_longer = self.path.as_ref().map(length) > Some(max_size);
        if is_longer || self.state().is_full {
            tracing::info!("the store is over state.max_size: deleting the oldest entries");
            upkeep::shrink(&database, self.keep())?;
            while database.compact()? {}
            self.state().is_full = false;
        }
        Ok(database)
    }

    /// Whether the file has another name now. Loud: what was learned is to be learned again.
    fn put_damaged_aside(&self, what: &str) -> bool {
        let Some(path) = &self.path else {
            return false;
        };
        self.metrics.store_error("open");
        match file::put_aside(path, self.clock.now()) {
            Ok(aside) => {
                let (path, aside) = (path.display(), aside.display());
                tracing::error!(%path, %aside, what, "the store is damaged: set aside, starting a new one");
                let words = format!("{path} was damaged ({what}) and is now {aside}");
                self.state().put_aside = Some(words);
                true
            }
            Err(error) => {
                tracing::error!(path = %path.display(), what, %error, "the store is damaged and cannot be set aside");
                false
            }
        }
    }

    /// Tells of a failure, after which the file is opened anew.
    pub(super) fn fail(&self, operation: &'static str, failure: &Failure) {
        self.note(operation, &failure.to_string());
        let mut state = self.state();
        state.is_full |= failure.is_full();
        if self.path.is_some() {
            if failure.is_damage() && operation != "open" {
                state.damage = Some(failure.to_string());
            }
            // redb refuses everything after a failure, until the file is opened anew.
            let gone = state.database.take();
            drop(state);
            drop(gone);
        }
    }

    fn note(&self, operation: &'static str, what: &str) {
        self.metrics.store_error(operation);
        let fault = format!("{operation}: {what}");
        let mut state = self.state();
        if state.fault.as_ref() != Some(&fault) {
            tracing::error!(
                operation,
                what,
                "the store has failed: continuing in memory"
            );
            state.fault = Some(fault);
        }
    }
}

/// Why there is no database.
enum Unopened {
    /// Another version of wayleave wrote it.
    Format(u64),
    Failure(Failure),
}

impl From<Failure> for Unopened {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// Writes all changes or none, and lets go of what there is no room for; how many records were found damaged, and which entries
/// came and went.
fn write(
    database: &Open,
    changes: &Waiting,
    damaged: &HashSet<Digest>,
    (keep, counted): (Keep, Option<Tally>),
) -> Result<(usize, Option<Tally>), Failure> {
    let write = tables::begin(database)?;
    let mut batch = Batch::open(&write, keep)?;
    batch.counted = counted;
    damaged.iter().try_for_each(|body| batch.drop_body(body))?;
    for (resource, change) in changes.iter() {
        batch.apply(resource, change)?;
    }
    batch.sweep()?;
    let found = batch.close()?;
    write.commit()?;
    Ok(found)
}
