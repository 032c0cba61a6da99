//! The thread that writes decisions to the log.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use tokio::sync::{oneshot, watch};
use wayleave_clock::system_time;
use wayleave_evidence::chain::event::{ConfigRevision, EventKind};
use wayleave_evidence::{LogHead, Sha256Digest};
use wayleave_telemetry::metrics::Metrics;

use super::encoded_decision::EncodedDecision;
use super::journal::{Journal, JournalWarnings, LostLines};

/// The most decisions in the queue: a few seconds' worth at full load. Any beyond it are dropped and counted.
const MAX_QUEUED: usize = 65_536;
/// The memory limit of the queue: 1 KiB per decision on average. A single URL may be as long as a request's head, 64 KiB.
const MAX_QUEUED_BYTES: usize = MAX_QUEUED * 1024;
/// The interval at which the thread empties the queue under load. It is woken only when idle: waking it for each of thousands of
/// decisions a second would cost an exchange more than everything else here.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Used instead while new documents arrive, since each round then commits a transaction.
const STORE_INTERVAL: Duration = Duration::from_millis(50);

/// Writes the documents that decisions so far are based on. Returns whether there were any to write.
pub type StoreDocuments = Box<dyn Fn() -> bool + Send>;

/// A task for the thread besides writing decisions.
enum WriterUpdate {
    /// Use another configuration, and another journal, or none if decisions are not to be written.
    Replace(Option<Box<Journal>>, ConfigRevision),
    /// Look in the log for a head that was published elsewhere, and answer when that is done.
    Compare(Box<LogHead>, oneshot::Sender<()>),
}

/// The newest head that the thread has saved, as its line; none without a log.
type SharedHead = Arc<Mutex<Option<Vec<u8>>>>;
type SharedWarnings = Arc<Mutex<Arc<JournalWarnings>>>;

/// The sending side of the thread's queue.
pub(super) struct DecisionWriter {
    queue: SyncSender<EncodedDecision>,
    queued_bytes: Arc<AtomicUsize>,
    /// The number of decisions that are or were in the queue, or are about to be put into it.
    queued: AtomicU64,
    /// The number of those that are written, or lost.
    settled: watch::Receiver<u64>,
    /// The number of decisions that the queue did not take.
    dropped: Arc<AtomicU64>,
    /// Whether decisions are being lost at present.
    is_failing: Arc<AtomicBool>,
    losses: Arc<LossCount>,
    newest_head: SharedHead,
    warnings: SharedWarnings,
    updates: Arc<Mutex<VecDeque<WriterUpdate>>>,
    closing: Arc<AtomicBool>,
    is_idle: Arc<AtomicBool>,
    thread: Thread,
    handle: Mutex<Option<JoinHandle<()>>>,
    metrics: Arc<Metrics>,
}

impl DecisionWriter {
    pub(super) fn start(
        journal: Option<Journal>,
        configuration: ConfigRevision,
        store_documents: StoreDocuments,
        metrics: Arc<Metrics>,
    ) -> anyhow::Result<Self> {
        let (queue, received) = sync_channel(MAX_QUEUED);
        let queued_bytes = Arc::<AtomicUsize>::default();
        let dropped = Arc::<AtomicU64>::default();
        let updates = Arc::default();
        let closing = Arc::<AtomicBool>::default();
        let is_idle = Arc::<AtomicBool>::default();
        let is_failing = Arc::<AtomicBool>::default();
        let losses = Arc::<LossCount>::default();
        let newest_head = SharedHead::default();
        let warnings = SharedWarnings::default();
        let (settle, settled) = watch::channel(0);
        let writer = WriterThread {
            received,
            taken: 0,
            settled: settle,
            queued_bytes: Arc::clone(&queued_bytes),
            dropped: Arc::clone(&dropped),
            mentioned_dropped: 0,
            is_unwritable: false,
            journal,
            configurations: HashMap::new(),
            store_documents,
            poll_interval: POLL_INTERVAL,
            updates: Arc::clone(&updates),
            closing: Arc::clone(&closing),
            is_idle: Arc::clone(&is_idle),
            metrics: Arc::clone(&metrics),
            is_failing: Arc::clone(&is_failing),
            losses: Arc::clone(&losses),
            newest_head: Arc::clone(&newest_head),
            warnings: Arc::clone(&warnings),
        };
        let handle = thread::Builder::new()
            .name("decisions".to_owned())
            .spawn(move || writer.run(configuration))
            .context("starting the thread that writes decisions")?;
        Ok(Self {
            queue,
            queued_bytes,
            queued: AtomicU64::new(0),
            settled,
            dropped,
            is_failing,
            losses,
            newest_head,
            warnings,
            updates,
            closing,
            is_idle,
            thread: handle.thread().clone(),
            handle: Mutex::new(Some(handle)),
            metrics,
        })
    }

    /// Queues a decision, or counts it as dropped. Never blocks.
    pub(super) fn enqueue(&self, recorded: EncodedDecision) {
        let bytes = queued_size(&recorded);
        // Both are counted before sending: the thread may receive the decision at once.
        self.queued.fetch_add(1, Ordering::SeqCst);
        let before = self.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > MAX_QUEUED_BYTES || self.queue.try_send(recorded).is_err() {
            self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.queued.fetch_sub(1, Ordering::SeqCst);
            self.dropped.fetch_add(1, Ordering::SeqCst);
            self.losses.add(1);
            self.metrics.decisions_dropped(1);
            if !self.is_failing.swap(true, Ordering::Relaxed) {
                if self.closing.load(Ordering::SeqCst) {
                    tracing::error!("the decision log is closed: a decision is lost");
                } else {
                    tracing::error!(
                        "decisions come faster than the decision log is written: some are lost"
                    );
                }
            }
            // For whoever waits until it is settled.
            self.thread.unpark();
        }
        // Read before swapping: reading alone leaves the cache line shared while the queue is busy. Of several threads that
        // enqueue, only one swaps and wakes the writer.
        if self.is_idle.load(Ordering::SeqCst) && self.is_idle.swap(false, Ordering::SeqCst) {
            self.thread.unpark();
        }
    }

    /// Waits until all decisions queued so far are written, or lost. Wakes the thread, so that they are written immediately.
    pub(super) async fn settle(&self) {
        let queued = self.queued.load(Ordering::SeqCst);
        // One that was about to be queued may have been dropped since.
        let are_settled =
            |settled: &u64| *settled >= queued.min(self.queued.load(Ordering::SeqCst));
        let mut settled = self.settled.clone();
        if !are_settled(&settled.borrow()) {
            self.thread.unpark();
            // An error means that the thread has ended.
            let _ = settled.wait_for(are_settled).await;
        }
    }

    /// Returns whether decisions are being lost at present.
    pub(super) fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed)
    }

    /// Returns how many decisions were lost, and when the last one was; `None` if none has been.
    pub(super) fn losses(&self) -> Option<(u64, SystemTime)> {
        self.losses.last()
    }

    /// Returns the faults of the log's files.
    pub(super) fn warnings(&self) -> Arc<JournalWarnings> {
        lock(&self.warnings).clone()
    }

    /// Replaces the journal. Decisions from now on may name `configuration`.
    pub(super) fn replace(&self, journal: Option<Journal>, configuration: ConfigRevision) {
        let update = WriterUpdate::Replace(journal.map(Box::new), configuration);
        lock(&self.updates).push_back(update);
        self.thread.unpark();
    }

    /// Returns the newest head of the log.
    pub(super) fn newest_head(&self) -> Option<LogHead> {
        // Parsed only when asked for, which is rare: parsing checks the signature, and that takes twice as long as signing. The
        // thread that writes must not wait for it.
        let line = lock(&self.newest_head).clone()?;
        LogHead::parse(str::from_utf8(&line).ok()?)
    }

    /// Looks in the log for a head that was published elsewhere. If it is not there, the log says so by the time this returns.
    pub(super) async fn compare_with(&self, published: LogHead) {
        let (answer, answered) = oneshot::channel();
        lock(&self.updates).push_back(WriterUpdate::Compare(Box::new(published), answer));
        self.thread.unpark();
        let mut settled = self.settled.clone();
        tokio::select! {
            _ = answered => {}
            // It ends only with the thread.
            _ = settled.wait_for(|_| false) => {}
        }
    }

    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        self.thread.unpark();
        if let Some(thread) = lock(&self.handle).take() {
            // A panic of the thread has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

/// The decisions that were lost since the start.
#[derive(Debug, Default)]
struct LossCount {
    decisions: AtomicU64,
    /// In seconds since 1970.
    last_at: AtomicU64,
}

impl LossCount {
    fn add(&self, decisions: u64) {
        let since_epoch = system_time().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.last_at.store(since_epoch.as_secs(), Ordering::Relaxed);
        self.decisions.fetch_add(decisions, Ordering::Relaxed);
    }

    fn last(&self) -> Option<(u64, SystemTime)> {
        let decisions = self.decisions.load(Ordering::Relaxed);
        let last_at = Duration::from_secs(self.last_at.load(Ordering::Relaxed));
        (decisions > 0).then(|| (decisions, SystemTime::UNIX_EPOCH + last_at))
    }
}

/// Returns the approximate memory that a queued decision takes.
fn queued_size(recorded: &EncodedDecision) -> usize {
    recorded.line.capacity()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for DecisionWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecisionWriter").finish_non_exhaustive()
    }
}

/// The state of the thread.
struct WriterThread {
    received: Receiver<EncodedDecision>,
    /// The number of decisions taken out of the queue.
    taken: u64,
    settled: watch::Sender<u64>,
    queued_bytes: Arc<AtomicUsize>,
    dropped: Arc<AtomicU64>,
    /// The number of dropped decisions that the log mentions.
    mentioned_dropped: u64,
    /// Whether the last lines could not be written.
    is_unwritable: bool,
    journal: Option<Journal>,
    /// The digests of configurations, by number.
    configurations: HashMap<u64, Sha256Digest>,
    store_documents: StoreDocuments,
    /// The time to wait before the queue is emptied again.
    poll_interval: Duration,
    updates: Arc<Mutex<VecDeque<WriterUpdate>>>,
    closing: Arc<AtomicBool>,
    is_idle: Arc<AtomicBool>,
    metrics: Arc<Metrics>,
    is_failing: Arc<AtomicBool>,
    losses: Arc<LossCount>,
    newest_head: SharedHead,
    warnings: SharedWarnings,
}

impl WriterThread {
    fn run(mut self, configuration: ConfigRevision) {
        self.remember_revision(&configuration);
        self.write_event(EventKind::Start(configuration));
        let mut first = None;
        let mut wrote_at: Option<Instant> = None;
        loop {
            let is_busy = wrote_at.is_some_and(|at| at.elapsed() < 2 * self.poll_interval);
            // Read before the queue, so that everything queued before `close` is written.
            let is_last = self.closing.load(Ordering::SeqCst);
            let had_work = self.write_queued(first.take());
            self.apply_updates();
            if is_last {
                self.write_event(EventKind::Stop {});
                return;
            }
            if had_work {
                wrote_at = Some(Instant::now());
                // At usual loads, polling would be in vain: the next decision wakes the thread.
                if is_busy {
                    thread::park_timeout(self.poll_interval);
                    continue;
                }
            }
            if let Some(journal) = &mut self.journal {
                journal.save_head_if_due(Instant::now());
            }
            self.share_head();
            self.is_idle.store(true, Ordering::SeqCst);
            // A decision that was queued just before has not woken the thread, so the queue is checked once more before
            // parking.
            first = self.receive();
            if first.is_none() && !self.closing.load(Ordering::SeqCst) {
                self.park();
            }
            self.is_idle.store(false, Ordering::SeqCst);
        }
    }

    /// Waits for something to do.
    fn park(&self) {
        match self.journal.as_ref().and_then(Journal::sign_at) {
            Some(at) => thread::park_timeout(at.saturating_duration_since(Instant::now())),
            None => thread::park(),
        }
    }

    /// Applies all pending updates.
    fn apply_updates(&mut self) {
        loop {
            // Taken out first: applying it may write, and nobody should wait for the lock meanwhile.
            let next = lock(&self.updates).pop_front();
            match next {
                Some(next) => self.apply_update(next),
                None => return,
            }
        }
    }

    fn apply_update(&mut self, next: WriterUpdate) {
        match next {
            WriterUpdate::Replace(journal, configuration) => {
                self.replace_journal(journal.map(|journal| *journal), configuration);
            }
            WriterUpdate::Compare(published, answer) => {
                if let Some(journal) = &mut self.journal {
                    journal.compare_with(&published);
                    self.flush();
                    self.sign_head();
                }
                // Nobody waits any more if the process is stopping.
                let _ = answer.send(());
            }
        }
    }

    /// Replaces the journal and notes the configuration.
    fn replace_journal(&mut self, journal: Option<Journal>, configuration: ConfigRevision) {
        self.remember_revision(&configuration);
        // If the new journal writes to another log, this one's last lines would otherwise remain unsigned.
        self.sign_head();
        let before = mem::replace(&mut self.journal, journal);
        if let (Some(mut before), Some(journal)) = (before, &mut self.journal) {
            journal.continue_from(&mut before);
        }
        *lock(&self.newest_head) = None;
        // Without a log, nothing is lost any more.
        if self.journal.is_none() {
            self.is_failing.store(false, Ordering::Relaxed);
        }
        self.write_event(EventKind::Reload(configuration));
    }

    fn remember_revision(&mut self, configuration: &ConfigRevision) {
        let ConfigRevision { configuration, config_sha256, .. } = *configuration;
        self.configurations.insert(configuration, config_sha256);
    }

    /// Writes an event to the log at once.
    fn write_event(&mut self, event: EventKind) {
        if let Some(journal) = &mut self.journal {
            journal.push_event(event);
            self.flush();
            self.sign_head();
        }
    }

    fn sign_head(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.save_head();
        }
        self.share_head();
    }

    /// Shares the journal's state with other threads.
    fn share_head(&mut self) {
        let warnings = self.journal.as_mut().map(Journal::warnings).unwrap_or_default();
        self.metrics.decision_log_unsigned(warnings.head_fault.is_some());
        self.metrics.decision_log_foreign_files(warnings.foreign.len());
        *lock(&self.warnings) = warnings;
        if let Some(head) = self.journal.as_mut().and_then(Journal::take_saved_head) {
            *lock(&self.newest_head) = Some(head);
        }
    }

    fn receive(&mut self) -> Option<EncodedDecision> {
        let recorded = self.received.try_recv().ok()?;
        self.taken += 1;
        self.queued_bytes.fetch_sub(queued_size(&recorded), Ordering::Relaxed);
        Some(recorded)
    }

    /// Writes `first` and everything in the queue. Returns whether there was anything.
    fn write_queued(&mut self, first: Option<EncodedDecision>) -> bool {
        let mut had_work = false;
        let mut next = match first {
            None => self.receive(),
            first => first,
        };
        while let Some(recorded) = next {
            had_work = true;
            let number = recorded.configuration;
            // The decision was made after a reload whose update has not been applied yet. Earlier decisions belong to the journal
            // before it.
            if !self.configurations.contains_key(&number) {
                self.flush();
                self.apply_updates();
            }
            if let Some(journal) = &mut self.journal {
                let config_sha256 = self.configurations.get(&number).copied();
                journal.push(&recorded.line, config_sha256);
                if journal.is_full() {
                    self.flush();
                    self.share_settled();
                }
            }
            next = self.receive();
        }
        self.flush();
        self.share_settled();
        had_work
    }

    /// Announces that all decisions taken so far are written, or lost.
    fn share_settled(&mut self) {
        // One receiver is the sending side's own. Any other belongs to a caller that is about to read the log.
        if self.settled.receiver_count() > 1 {
            self.sign_head();
        }
        self.settled.send_replace(self.taken);
    }

    fn flush(&mut self) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        // Documents before lines: if the process is killed in between, no line names a document that was never stored.
        let has_stored = !journal.is_empty() && (self.store_documents)();
        self.poll_interval = if has_stored { STORE_INTERVAL } else { POLL_INTERVAL };
        // Only a journal can mention dropped decisions: without one, the next does.
        let dropped = self.dropped.load(Ordering::SeqCst);
        journal.add_lost(dropped - self.mentioned_dropped);
        self.mentioned_dropped = dropped;
        let flushed = journal.flush();
        self.metrics.decision_log_altered(journal.take_altered());
        self.share_head();
        match flushed {
            Ok(true) => {
                self.is_unwritable = false;
                if self.is_failing.swap(false, Ordering::Relaxed) {
                    tracing::info!("decisions are written to the log again");
                }
            }
            Ok(false) => {}
            Err(LostLines { lines, error }) => {
                self.metrics.decisions_dropped(lines);
                self.losses.add(lines);
                if !mem::replace(&mut self.is_unwritable, true) {
                    tracing::error!(
                        error = format!("{error:#}"),
                        "the decision log cannot be written"
                    );
                }
                self.is_failing.store(true, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use wayleave_clock::Clock;

    use super::super::journal::JournalConfig;
    use super::super::tests::decision;
    use super::*;

    #[test]
    fn queue_is_bounded_in_bytes() {
        let (queue, received) = sync_channel(MAX_QUEUED);
        let metrics = Arc::new(Metrics::new().unwrap());
        // No thread empties its queue.
        let writer = DecisionWriter {
            queue,
            queued_bytes: Arc::default(),
            queued: AtomicU64::new(0),
            settled: watch::channel(0).1,
            dropped: Arc::default(),
            is_failing: Arc::default(),
            losses: Arc::default(),
            newest_head: SharedHead::default(),
            warnings: SharedWarnings::default(),
            updates: Arc::default(),
            closing: Arc::default(),
            is_idle: Arc::default(),
            thread: thread::current(),
            handle: Mutex::new(None),
            metrics: Arc::clone(&metrics),
        };
        let mut long = decision();
        long.url = format!("http://shop.test/{}", "a".repeat(60_000));
        for _ in 0..2000 {
            writer.enqueue(EncodedDecision::new(&long));
        }
        let kept: usize = received.try_iter().map(|recorded| queued_size(&recorded)).sum();
        assert!(kept <= MAX_QUEUED_BYTES && kept > MAX_QUEUED_BYTES / 2, "{kept}");
        assert!(writer.losses().is_some_and(|(lost, _)| lost > 0), "{:?}", writer.losses());
        let (_, text) = metrics.text().unwrap();
        let dropped =
            text.lines().find(|line| line.starts_with("wayleave_decisions_dropped_total "));
        assert!(dropped.is_some_and(|line| !line.ends_with(" 0")), "{dropped:?}");
    }

    /// Returns a journal in `dir` that writes to `path`.
    fn journal(dir: &Path, path: &Path) -> Journal {
        let config = JournalConfig {
            path: path.to_owned(),
            max_size_bytes: 1 << 20,
            max_age: Duration::from_hours(24),
            keep: Duration::from_hours(24),
            max_total_bytes: None,
            compresses: false,
            key: dir.join("evidence.key"),
            state_dir: dir.to_owned(),
        };
        Journal::open(config, Clock::start()).unwrap()
    }

    fn revision(configuration: u64) -> ConfigRevision {
        let program = "test".to_owned();
        ConfigRevision { program, configuration, config_sha256: Sha256Digest::of(b"") }
    }

    fn start_with(journal: Journal, store_documents: StoreDocuments) -> DecisionWriter {
        let metrics = Arc::new(Metrics::new().unwrap());
        DecisionWriter::start(Some(journal), revision(1), store_documents, metrics).unwrap()
    }

    /// Starts to write a log in `dir`.
    fn start(dir: &Path, store_documents: StoreDocuments) -> DecisionWriter {
        start_with(journal(dir, &dir.join("decisions.jsonl")), store_documents)
    }

    fn eventually(what: &str, holds: impl Fn() -> bool) {
        let give_up_at = Instant::now() + Duration::from_mins(1);
        while !holds() {
            assert!(Instant::now() < give_up_at, "{what}");
            thread::yield_now();
        }
    }

    /// Returns how many decisions the newest head covers.
    fn signed(writer: &DecisionWriter) -> u64 {
        writer.newest_head().map_or(0, |head| head.count.total())
    }

    #[test]
    fn every_line_is_signed_though_nothing_follows() {
        let dir = tempfile::tempdir().unwrap();
        let writer = start(dir.path(), Box::new(|| false));
        for written in 1..=3 {
            writer.enqueue(EncodedDecision::new(&decision()));
            eventually("the line is signed", || signed(&writer) >= written);
        }
        writer.enqueue(EncodedDecision::new(&decision()));
        writer.close();
        assert_eq!(signed(&writer), 4);
    }

    #[tokio::test]
    async fn lines_that_somebody_waits_for_are_signed_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let (go_on, may_go_on) = sync_channel(0);
        let writer = start(dir.path(), Box::new(move || may_go_on.recv().unwrap_or(false)));
        // For the line about the start.
        go_on.send(false).unwrap();
        for _ in 0..3 {
            writer.enqueue(EncodedDecision::new(&decision()));
            let mut settling = pin!(writer.settle());
            tokio::select! {
                biased;
                () = &mut settling => unreachable!("it is not written yet"),
                () = async {} => {}
            }
            go_on.send(false).unwrap();
            settling.await;
            assert_eq!(signed(&writer), writer.queued.load(Ordering::SeqCst));
        }
    }

    #[test]
    fn whoever_waits_for_a_line_does_not_wait_for_those_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let (go_on, may_go_on) = sync_channel(0);
        let writer = start(dir.path(), Box::new(move || may_go_on.recv().unwrap_or(false)));
        let mut long = decision();
        long.url = format!("http://shop.test/{}", "a".repeat(60_000));
        // The thread is about to write the line about the start.
        for _ in 0..100 {
            writer.enqueue(EncodedDecision::new(&long));
        }
        let mut context = Context::from_waker(Waker::noop());
        let mut settling = pin!(writer.settle());
        assert!(settling.as_mut().poll(&mut context).is_pending());
        // As if more came all the time: 54 MB, of which a write takes some hundred KB.
        for _ in 0..900 {
            writer.enqueue(EncodedDecision::new(&long));
        }
        let mut writes = 0;
        while settling.as_mut().poll(&mut context).is_pending() {
            writes += 1;
            assert!(writes < 100, "it waits for those after it");
            go_on.send(false).unwrap();
        }
    }

    #[test]
    fn a_log_that_is_turned_off_fails_no_longer() {
        let dir = tempfile::tempdir().unwrap();
        let writer = start_with(journal(dir.path(), Path::new("/dev/full")), Box::new(|| false));
        writer.enqueue(EncodedDecision::new(&decision()));
        eventually("the decision is lost", || writer.losses().is_some());
        assert!(writer.is_failing());
        writer.replace(None, revision(2));
        eventually("it has no log to fail", || !writer.is_failing());
        writer.close();
    }

    #[test]
    fn decisions_before_a_reload_go_to_the_log_of_their_time() {
        let dir = tempfile::tempdir().unwrap();
        let paths = ["before.jsonl", "after.jsonl"].map(|name| dir.path().join(name));
        let (go_on, may_go_on) = sync_channel(0);
        let wait = Box::new(move || may_go_on.recv().unwrap_or(false));
        let writer = start_with(journal(dir.path(), &paths[0]), wait);
        // The thread is about to write the line about the start.
        let mut decided = decision();
        for configuration in [1, 2] {
            decided.configuration = configuration;
            writer.enqueue(EncodedDecision::new(&decided));
            if configuration == 1 {
                writer.replace(Some(journal(dir.path(), &paths[1])), revision(2));
            }
        }
        drop(go_on);
        writer.close();
        for path in &paths {
            let text = std::fs::read_to_string(path).unwrap();
            let decisions = text.lines().filter(|line| line.starts_with("{\"id\""));
            assert_eq!(decisions.count(), 1, "{text}");
        }
    }

    #[tokio::test]
    async fn nobody_waits_for_a_thread_that_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let writer = start(dir.path(), Box::new(|| false));
        eventually("there is a head", || writer.newest_head().is_some());
        writer.close();
        let head = writer.newest_head().unwrap();
        let comparing = tokio::time::timeout(Duration::from_mins(1), writer.compare_with(head));
        comparing.await.expect("it does not wait");
    }

    #[tokio::test]
    async fn decisions_that_the_queue_does_not_take_are_settled() {
        let dir = tempfile::tempdir().unwrap();
        let (go_on, may_go_on) = sync_channel(0);
        let writer = start(dir.path(), Box::new(move || may_go_on.recv().unwrap_or(false)));
        let mut long = decision();
        long.url = format!("http://shop.test/{}", "a".repeat(60_000));
        while writer.losses().is_none() {
            writer.enqueue(EncodedDecision::new(&long));
        }
        drop(go_on);
        let settling = tokio::time::timeout(Duration::from_mins(1), writer.settle());
        settling.await.expect("all are written or lost");
        writer.close();
        let files = std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().path());
        let texts = files.map(|file| std::fs::read(file).unwrap()).collect::<Vec<_>>().concat();
        let lost = String::from_utf8_lossy(&texts).matches("\"event\":\"lost\"").count();
        assert_eq!(lost, 1);
    }
}
