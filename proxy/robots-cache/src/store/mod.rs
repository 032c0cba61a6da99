//! The store: entries on disk, so that a restart forgets nothing.
//!
//! It is a redb file: a transactional B-tree in one file without a server, whose commits are atomic and which opens at
//! once after a crash. Entries are read when requested, never all at once. Changes are collected for a moment and
//! written together, off the async threads; reads see them before they are on disk.
//!
//! A failing store never blocks the proxy: unwritten changes are kept in memory as far as they fit, the fault is
//! logged, counted and reported by [`RobotsStore::fault`], and the file is reopened until that succeeds.

mod batch;
mod error;
mod failure;
mod file;
mod pending;
mod read_only;
mod sealed;
mod state_counter;
mod state_tally;
mod tables;
#[cfg(test)]
mod tests;
mod upkeep;
mod writer;

use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::Semaphore;
use tokio::time::Instant;
use wayleave_clock::Clock;
use wayleave_evidence::Sha256Digest;
use wayleave_lifecycle::{
    CacheEntry, LifetimeSettings, Resource, from_unix_millis, to_unix_millis,
};
use wayleave_robots_txt::Origin;
use wayleave_telemetry::metrics::Metrics;

use crate::pinned_archive;
use crate::record::VersionRecord;
pub use error::StoreError;
pub use failure::is_panic_caught;
use failure::{StoreFailure, catching_panics};
use file::OpenDatabase;
use pending::StoreChange;
use tables::LoadedEntry;
#[cfg(test)]
pub(crate) use tables::WALKED_ENTRIES;
pub use writer::RobotsStoreConfig;
use writer::StoreWriter;

const FILE_NAME: &str = "robots.redb";
/// The interval between attempts to open a store that another process holds.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// One version of a document, and when it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentVersion {
    /// The time when it was first seen.
    pub first_seen_at: SystemTime,
    /// The time when it was last seen or confirmed.
    pub last_seen_at: SystemTime,
    /// The HTTP status.
    pub status: u16,
    /// The SHA-256 of the body, if it has rules.
    pub digest: Option<[u8; 32]>,
    /// Whether the body was longer than the part that was read.
    pub is_cut: bool,
}

/// Two versions of an origin's robots.txt, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionChange {
    /// The origin.
    pub origin: Origin,
    /// The earlier version.
    pub before: DocumentVersion,
    /// The later one.
    pub after: DocumentVersion,
}

impl DocumentVersion {
    fn new((first_seen_at, record): (u64, VersionRecord)) -> Self {
        Self {
            first_seen_at: from_unix_millis(first_seen_at),
            last_seen_at: from_unix_millis(record.last_seen_at),
            status: record.status,
            digest: record.body.map(|body| body.digest),
            is_cut: record.body.is_some_and(|body| body.is_cut),
        }
    }
}

/// A handle to the store. Cheap to clone; changes are written while a clone exists, and by [`flush`](Self::flush).
#[derive(Clone)]
pub struct RobotsStore {
    writer: Arc<StoreWriter>,
    /// A permit for each read in progress.
    read_permits: Arc<Semaphore>,
}

/// The most reads at a time. Each unpacks a body on a thread of its own, which keeps the memory for a while.
const MAX_READS: usize = 4;

impl fmt::Debug for RobotsStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.writer.path;
        f.debug_struct("RobotsStore").field("path", path).finish_non_exhaustive()
    }
}

impl RobotsStore {
    fn new(writer: Arc<StoreWriter>) -> Self {
        Self { writer, read_permits: Arc::new(Semaphore::new(MAX_READS)) }
    }

    /// Opens or creates the store in `dir`. Needs a tokio runtime.
    ///
    /// An unwritable directory is no error: the store tries again until it can be written.
    ///
    /// # Errors
    ///
    /// If another process has it open, or another version of wayleave wrote it.
    pub fn open(
        dir: &Path,
        options: RobotsStoreConfig,
        clock: Clock,
        metrics: Arc<Metrics>,
    ) -> Result<Self, StoreError> {
        let writer = StoreWriter::start(Some(dir.join(FILE_NAME)), options, clock, metrics);
        writer.reopen()?;
        Ok(Self::new(writer))
    }

    /// Opens the store in `dir` to read it, whatever state it is in, and changes nothing on disk. Needs a tokio runtime.
    ///
    /// # Errors
    ///
    /// If another process has it open to write, another version of wayleave wrote it, or it is damaged or cannot be read.
    pub fn open_to_read(
        dir: &Path,
        options: RobotsStoreConfig,
        clock: Clock,
        metrics: Arc<Metrics>,
    ) -> Result<Self, StoreError> {
        let path = dir.join(FILE_NAME);
        let writer = StoreWriter::start_to_read(path, options, clock, metrics);
        writer.reopen()?;
        Ok(Self::new(writer))
    }

    /// Does the same as [`open`](Self::open), but waits up to `timeout` for another process to release the store. The holds that
    /// the decision log at `log` records are in effect.
    ///
    /// # Errors
    ///
    /// If another process keeps it open, or another version of wayleave wrote it.
    pub async fn open_when_free(
        dir: &Path,
        log: Option<&Path>,
        options: RobotsStoreConfig,
        clock: Clock,
        metrics: Arc<Metrics>,
        timeout: Duration,
    ) -> Result<Self, StoreError> {
        let writer = StoreWriter::start(Some(dir.join(FILE_NAME)), options, clock, metrics);
        writer.hold_by_log(log);
        let deadline = Instant::now() + timeout;
        let mut is_logged = false;
        loop {
            match writer.reopen() {
                Err(StoreError::Locked(_)) if Instant::now() < deadline => {
                    if !is_logged {
                        tracing::info!(dir = %dir.display(), "waiting for the process that this one replaces");
                        is_logged = true;
                    }
                    tokio::time::sleep(LOCK_RETRY_INTERVAL).await;
                }
                opened => return opened.map(|()| Self::new(writer)),
            }
        }
    }

    /// Returns a store in memory. Needs a tokio runtime.
    pub fn in_memory(clock: Clock, metrics: Arc<Metrics>) -> Self {
        let writer = StoreWriter::start(None, RobotsStoreConfig::default(), clock, metrics);
        if let Err(error) = writer.reopen() {
            unreachable!("no other process and no other version can have it: {error}");
        }
        Self::new(writer)
    }

    /// Saves `entry`. Returns at once; it is on disk within a second unless the disk fails.
    pub fn save(&self, resource: impl Into<Resource>, entry: Arc<CacheEntry>) {
        self.writer.change(&resource.into(), StoreChange::Save(entry));
    }

    /// Forgets a document. Its history is kept.
    pub fn forget(&self, resource: impl Into<Resource>) {
        self.writer.change(&resource.into(), StoreChange::Forget);
    }

    /// Returns the stored entry; `None` if the store fails.
    pub async fn load(&self, resource: impl Into<Resource>) -> Option<CacheEntry> {
        self.load_all(vec![resource.into()]).await.pop().and_then(|(_, entry)| entry)
    }

    /// Returns the stored entries of many documents, in the order given; see [`load`](Self::load).
    pub(crate) async fn load_all(
        &self,
        resources: Vec<Resource>,
    ) -> Vec<(Resource, Option<CacheEntry>)> {
        // Pending changes come first: they are newer than the tables.
        let unwritten: Vec<_> =
            resources.iter().map(|resource| self.writer.unwritten(resource)).collect();
        let mut written = Vec::new();
        if unwritten.iter().any(Option::is_none) {
            let keys = resources.clone();
            let read = self.read(move |database| tables::load_entries(database, &keys));
            written = resources
                .iter()
                .zip(read.await.unwrap_or_default())
                .map(|(resource, loaded)| self.check_loaded(resource, loaded))
                .collect();
        }
        // A failed read returns nothing, but pending entries are known all the same.
        written.resize_with(resources.len(), || None);
        let loaded =
            unwritten.into_iter().zip(written).map(|(unwritten, written)| match unwritten {
                Some(StoreChange::Save(entry)) => Some((*entry).clone()),
                Some(StoreChange::Forget) => None,
                None => written,
            });
        resources.into_iter().zip(loaded).collect()
    }

    /// Returns a loaded entry. A damaged one is dropped, and its document counts as unknown.
    fn check_loaded(&self, resource: &Resource, loaded: LoadedEntry) -> Option<CacheEntry> {
        match loaded {
            LoadedEntry::Missing => None,
            LoadedEntry::Entry(entry) => Some(*entry),
            // An entry saved meanwhile is newer than the one that was read.
            LoadedEntry::Damaged(_) if self.writer.unwritten(resource).is_some() => None,
            LoadedEntry::Damaged(body) => {
                self.writer.forget_damaged(resource, body);
                None
            }
        }
    }

    /// Calls `take` with each document after `after`, in the order of their text, and with its entry without the body,
    /// until it returns `false`. Blocks.
    pub fn walk(
        &self,
        after: Option<&str>,
        take: impl FnMut(&str, &dyn Fn() -> Option<(Resource, CacheEntry)>) -> bool,
    ) {
        // Pending entries are in no table yet.
        self.writer.write();
        if let Some(database) = self.writer.database()
            && let Err(failure) = catching_panics(|| tables::walk(&database, after, take))
        {
            self.writer.record_failure("read", &failure);
        }
    }

    /// Sets the lifetimes by which robots.txt files are counted. Blocks while a transaction runs.
    pub(crate) fn set_lifetimes(&self, lifetimes: LifetimeSettings) {
        self.writer.set_lifetimes(lifetimes);
    }

    /// Returns the number of stored robots.txt files in each state, in the order of [`SnapshotState::ALL`]; `None` if the store
    /// has failed or has not counted them yet. Takes the same time however many there are. Blocks.
    ///
    /// [`SnapshotState::ALL`]: wayleave_lifecycle::SnapshotState::ALL
    pub fn count_by_state(&self) -> Option<[usize; 4]> {
        self.writer.write();
        self.writer.database()?;
        self.writer.counts.counts_at(self.writer.clock.now())
    }

    /// Returns the other stored documents of an origin, own copies of its robots.txt included, in the order of their text.
    pub async fn related_documents(&self, origin: &Origin) -> Vec<Resource> {
        // Pending entries are in no table yet.
        self.flush().await;
        let key = origin.clone();
        let found = self.read(move |database| tables::related_documents(database, &key));
        found.await.unwrap_or_default()
    }

    /// Returns all known versions of a document, oldest first.
    pub async fn history(&self, resource: impl Into<Resource>) -> Vec<DocumentVersion> {
        // Versions are made by the transaction that writes an entry.
        self.flush().await;
        let key = resource.into();
        let found = self.read(move |database| tables::load_versions(database, &key)).await;
        let versions = found.into_iter().flatten();
        versions.map(DocumentVersion::new).collect()
    }

    /// Returns all known versions of a document in all its copies, shared and own, in the order in which they were first seen.
    pub async fn history_of_copies(&self, resource: &Resource) -> Vec<DocumentVersion> {
        let mut found = self.history(resource).await;
        for other in self.related_documents(resource.origin()).await {
            if other.holder().is_some() && other.shared() == *resource {
                found.extend(self.history(other).await);
            }
        }
        found.sort_by_key(|version| version.first_seen_at);
        found
    }

    /// Returns the changes of robots.txt files in a time range, the newest first, and at most `limit`.
    pub async fn changes(
        &self,
        range: RangeInclusive<SystemTime>,
        limit: usize,
    ) -> Vec<VersionChange> {
        // Versions are made by the transaction that writes an entry.
        self.flush().await;
        let range = to_unix_millis(*range.start())..=to_unix_millis(*range.end());
        let found = self.read(move |database| tables::load_changes(database, &range, limit));
        let changes = found.await.unwrap_or_default().into_iter();
        let change = |(origin, versions): (Origin, [_; 2])| {
            let [before, after] = versions.map(DocumentVersion::new);
            VersionChange { origin, before, after }
        };
        changes.map(change).collect()
    }

    /// Returns the body with this digest, if it is stored, or the archived text of a pinned robots.txt.
    pub async fn body(&self, digest: [u8; 32]) -> Option<Arc<[u8]>> {
        match self.stored_body(digest).await {
            Some(body) => Some(body),
            None => {
                let state_dir = self.writer.path.as_deref()?.parent()?.to_owned();
                let archived =
                    move || pinned_archive::load_archived(&state_dir, Sha256Digest(digest));
                tokio::task::spawn_blocking(archived).await.ok()?.map(Into::into)
            }
        }
    }

    async fn stored_body(&self, digest: [u8; 32]) -> Option<Arc<[u8]>> {
        let body =
            self.read(move |database| tables::load_body(database, &digest)).await.flatten()?.ok();
        if body.is_none() {
            self.writer.drop_damaged_body(digest);
        }
        body
    }

    /// Sets another [`RobotsStoreConfig::memory_bytes`]. The database's own cache changes when the file is reopened.
    pub fn set_memory(&self, bytes: usize) {
        self.writer.set_memory(bytes);
    }

    /// Returns the limit of pending changes, in bytes.
    #[cfg(any(test, feature = "test-util"))]
    pub fn memory(&self) -> usize {
        self.writer.memory()
    }

    /// Returns the current fault, if any.
    pub fn fault(&self) -> Option<String> {
        self.writer.fault()
    }

    /// Returns which damaged file was set aside since the start, and why.
    pub fn set_aside_file(&self) -> Option<String> {
        self.writer.set_aside_file()
    }

    /// Returns a function that writes everything saved so far, and returns whether there was anything to write. It blocks.
    pub fn pending_writer(&self) -> Box<dyn Fn() -> bool + Send> {
        // Held weakly: a caller that outlives the store must not keep its file open.
        let writer = Arc::downgrade(&self.writer);
        Box::new(move || writer.upgrade().is_some_and(|writer| writer.write_pending()))
    }

    /// Waits until everything saved so far has been written, or has failed to be.
    pub async fn flush(&self) {
        let writer = self.writer.clone();
        // The writer reports a panic with its next attempt.
        let _ = tokio::task::spawn_blocking(move || writer.write()).await;
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&OpenDatabase) -> Result<T, StoreFailure> + Send + 'static,
    ) -> Option<T> {
        let permit = Arc::clone(&self.read_permits).acquire_owned().await.ok()?;
        let database = self.writer.database()?;
        let writer = self.writer.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let done = catching_panics(|| read(&database));
            // Before a failure is recorded, which closes the database.
            drop(database);
            drop(permit);
            done.inspect_err(|failure| writer.record_failure("read", failure)).ok()
        });
        reading.await.ok().flatten()
    }
}
