//! The side of the store that writes: gathers changes, writes them together, opens the file anew after a fault.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use redb::backends::InMemoryBackend;
use redb::{Builder, Database, DatabaseError, StorageError};
use tokio::sync::watch;
use wayleave_policy::Origin;
use wayleave_policy::lifecycle::Entry;

use super::error::StoreError;
use super::record;
use super::tables::{self, Change, Keep};
use crate::clock::Clock;
use crate::metrics::Metrics;

/// How long changes are gathered. A crash loses no more than this and one commit.
const GATHER: Duration = Duration::from_millis(200);
/// How long a store that failed is left alone.
const REOPEN: Duration = Duration::from_secs(5);
/// What waits to be written while the disk fails; more is lost.
const MAX_WAITING_BYTES: usize = 64 << 20;
/// What redb may keep in memory of the file.
const CACHE_BYTES: usize = 32 << 20;

/// How the store keeps; part of `[state]`.
#[derive(Clone, Copy, Debug)]
pub struct StoreOptions {
    /// What an origin said before is kept this long. Default: 365 days.
    pub history_age: Duration,
    /// Different answers kept of one origin. Default: 64.
    pub history_length: usize,
    /// An origin that was not fetched for this long is forgotten. Default: 91 days, three times what a copy of an
    /// unreachable origin serves.
    pub idle_after: Duration,
}

impl Default for StoreOptions {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self {
            history_age: 365 * DAY,
            history_length: 64,
            idle_after: 91 * DAY,
        }
    }
}

/// What all handles of a store share.
pub(super) struct Writer {
    /// `None`: in memory only.
    pub(super) path: Option<PathBuf>,
    options: StoreOptions,
    clock: Clock,
    metrics: Arc<Metrics>,
    state: Mutex<State>,
    /// Held while writing, so that changes are written in the order they came.
    turn: Mutex<Turn>,
    /// Told of every change.
    changed: watch::Sender<()>,
}

/// What only the writer knows.
#[derive(Default)]
struct Turn {
    swept_to: String,
}

#[derive(Default)]
struct State {
    database: Option<Arc<Database>>,
    fault: Option<String>,
    waiting: Waiting,
    waiting_bytes: usize,
    /// Being written now.
    writing: Arc<Waiting>,
}

/// What is to be written of each origin, in order: usually one change, but all different things that it said meanwhile belong in
/// its history.
type Waiting = HashMap<Origin, Vec<Change>>;

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
            clock,
            metrics,
            state: Mutex::default(),
            turn: Mutex::default(),
            changed: watch::Sender::new(()),
        });
        let changed = writer.changed.subscribe();
        tokio::spawn(write_while_alive(Arc::downgrade(&writer), changed));
        writer
    }

    /// What is wrong, if something is.
    pub(super) fn fault(&self) -> Option<String> {
        self.state().fault.clone()
    }

    /// The database, if it is open.
    pub(super) fn database(&self) -> Option<Arc<Database>> {
        self.state().database.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of the state is whole before the lock is let go.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change(&self, origin: &Origin, change: Change) {
        let mut state = self.state();
        state.wait(origin, change);
        let lost = state.bound_waiting();
        drop(state);
        self.count_lost(lost);
        self.changed.send_replace(());
    }

    pub(super) fn unwritten(&self, origin: &Origin) -> Option<Change> {
        let state = self.state();
        let changes = state
            .waiting
            .get(origin)
            .or_else(|| state.writing.get(origin));
        changes.and_then(|changes| changes.last()).cloned()
    }

    /// Writes what waits; whether nothing is left.
    pub(super) fn write(&self) -> bool {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let batch = {
            let mut state = self.state();
            if state.waiting.is_empty() {
                return true;
            }
            state.waiting_bytes = 0;
            state.writing = Arc::new(std::mem::take(&mut state.waiting));
            state.writing.clone()
        };
        let Some(database) = self.opened() else {
            self.put_back(&batch);
            return false;
        };
        let changes = batch
            .iter()
            .flat_map(|(origin, changes)| changes.iter().map(move |change| (origin, change)));
        match tables::write(&database, changes, &turn.swept_to, self.keep()) {
            Ok(swept_to) => {
                turn.swept_to = swept_to;
                let mut state = self.state();
                state.writing = Arc::default();
                state.fault = None;
                true
            }
            Err(error) => {
                self.fail("write", &error.to_string());
                self.put_back(&batch);
                false
            }
        }
    }

    /// Lets what could not be written wait again, before what has come since.
    fn put_back(&self, batch: &Waiting) {
        let mut state = self.state();
        for (origin, changes) in batch {
            let since = state.waiting.remove(origin).unwrap_or_default();
            state.waiting_bytes -= since.iter().map(Change::bytes).sum::<usize>();
            for change in changes.iter().cloned().chain(since) {
                state.wait(origin, change);
            }
        }
        state.writing = Arc::default();
        let lost = state.bound_waiting();
        drop(state);
        self.count_lost(lost);
    }

    /// What is lost is at hand for as long as memory keeps it, and fetched again after that.
    fn count_lost(&self, lost: usize) {
        for _ in 0..lost {
            self.metrics.store_error("write");
        }
        if lost > 0 {
            tracing::warn!(lost, "the store is behind: entries are not kept");
        }
    }

    fn keep(&self) -> Keep {
        let before = |span| {
            let since = self.clock.now().checked_sub(span);
            record::millis(since.unwrap_or(SystemTime::UNIX_EPOCH))
        };
        Keep {
            versions_since: before(self.options.history_age),
            entries_since: before(self.options.idle_after),
            versions: self.options.history_length,
        }
    }

    fn opened(&self) -> Option<Arc<Database>> {
        if let Some(database) = self.database() {
            return Some(database);
        }
        if let Err(error) = self.reopen() {
            self.fail("open", &error.to_string());
        }
        self.database()
    }

    /// Opens the database if it can be. A file that is damaged is put aside, and a new one begun.
    pub(super) fn reopen(&self) -> Result<(), StoreError> {
        let mut opened = self.open();
        if let (Some(what), Some(path)) = (opened.as_ref().err().and_then(damage), &self.path) {
            let now = record::millis(self.clock.now());
            let aside = path.with_extension(format!("damaged-{now}"));
            tracing::error!(path = %path.display(), aside = %aside.display(), what, "the store is damaged: put aside");
            if std::fs::rename(path, aside).is_ok() {
                opened = self.open();
            }
        }
        let prepared = match opened {
            Ok(database) => tables::prepare(&database).map(|format| format.map(|()| database)),
            Err(DatabaseError::DatabaseAlreadyOpen) => {
                return Err(StoreError::Locked(self.path.clone().unwrap_or_default()));
            }
            Err(error) => Err(error.into()),
        };
        match prepared {
            Ok(Ok(database)) => {
                let mut state = self.state();
                state.database = Some(Arc::new(database));
                state.fault = None;
                Ok(())
            }
            Ok(Err(found)) => Err(StoreError::Format {
                path: self.path.clone().unwrap_or_default(),
                found,
            }),
            Err(error) => {
                self.fail("open", &error.to_string());
                Ok(())
            }
        }
    }

    fn open(&self) -> Result<Database, DatabaseError> {
        if let Some(dir) = self.path.as_ref().and_then(|path| path.parent()) {
            std::fs::create_dir_all(dir)?;
        }
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE_BYTES);
        match &self.path {
            Some(path) => builder.create(path),
            None => builder.create_with_backend(InMemoryBackend::new()),
        }
    }

    pub(super) fn fail(&self, operation: &'static str, what: &str) {
        self.metrics.store_error(operation);
        let fault = format!("{operation}: {what}");
        let mut state = self.state();
        if state.fault.as_ref() != Some(&fault) {
            tracing::error!(operation, what, "the store fails: going on from memory");
            state.fault = Some(fault);
        }
        if operation != "open" && self.path.is_some() {
            // redb refuses everything after a failure, until the file is opened anew.
            state.database = None;
        }
    }
}

/// What is wrong with the file itself, if that is why it cannot be opened.
fn damage(error: &DatabaseError) -> Option<String> {
    match error {
        DatabaseError::Storage(StorageError::Corrupted(what)) => Some(what.clone()),
        DatabaseError::Storage(StorageError::Io(error))
            if error.kind() == ErrorKind::InvalidData =>
        {
            Some(error.to_string())
        }
        _ => None,
    }
}

impl State {
    /// Has `change` wait, in the place of the one before it if nothing is lost by that.
    fn wait(&mut self, origin: &Origin, change: Change) {
        self.waiting_bytes += change.bytes();
        let changes = self.waiting.entry(origin.clone()).or_default();
        // The first of those that say the same stays: since when it was said.
        if let [.., first, last] = &changes[..]
            && first.is_covered_by(&change)
            && last.is_covered_by(&change)
        {
            self.waiting_bytes -= last.bytes();
            changes.pop();
        }
        changes.push(change);
    }

    /// Lets go of what is too much to wait; how many changes that were.
    fn bound_waiting(&mut self) -> usize {
        let mut lost = 0;
        while self.waiting_bytes > MAX_WAITING_BYTES {
            let Some(origin) = self.waiting.keys().next().cloned() else {
                break;
            };
            for change in self.waiting.remove(&origin).into_iter().flatten() {
                self.waiting_bytes -= change.bytes();
                lost += 1;
            }
        }
        lost
    }
}

impl Change {
    /// Whether nothing is lost if `next` is written alone: the history knows different answers, and notes them when they are
    /// saved.
    fn is_covered_by(&self, next: &Self) -> bool {
        let said = |entry: &Entry| {
            let outcome = &entry.answer.as_ref()?.outcome;
            Some((outcome.status(), outcome.body().cloned()))
        };
        match (self, next) {
            (Self::Forget, _) => true,
            (Self::Save(_), Self::Forget) => false,
            (Self::Save(before), Self::Save(next)) => said(before) == said(next),
        }
    }

    /// Roughly what it holds in memory.
    fn bytes(&self) -> usize {
        const OVERHEAD: usize = 512;
        let body = match self {
            Self::Save(entry) => entry.answer.as_ref().and_then(|facts| facts.outcome.body()),
            Self::Forget => None,
        };
        OVERHEAD + body.map_or(0, |body| body.bytes.len())
    }
}
