//! The thread that writes decisions: an event each for the log, and a line each for the decision log.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use anyhow::Context;

use super::decision::Recorded;
use super::event;
use super::journal::{Journal, Lost};
use crate::logging::Log;
use crate::metrics::Metrics;

/// Decisions that wait to be written. Some seconds at full speed; beyond that they are left out and counted.
const WAITING: usize = 65_536;
/// How often the thread looks while there is something to write. It is woken only from idleness: waking it for each
/// decision would cost an exchange more than everything else here.
const PAUSE: Duration = Duration::from_millis(5);

/// What the thread is to write to next: another journal, or none.
type NextJournal = Arc<Mutex<Option<Option<Journal>>>>;

/// The door to the thread.
pub(super) struct Writer {
    waiting: SyncSender<Box<Recorded>>,
    next_journal: NextJournal,
    closing: Arc<AtomicBool>,
    is_idle: Arc<AtomicBool>,
    thread: Thread,
    ended: Mutex<Option<JoinHandle<()>>>,
    metrics: Arc<Metrics>,
}

impl Writer {
    pub(super) fn start(
        journal: Option<Journal>,
        log: Log,
        metrics: Arc<Metrics>,
    ) -> anyhow::Result<Self> {
        let next_journal = NextJournal::default();
        let (waiting, received) = sync_channel(WAITING);
        let closing = Arc::new(AtomicBool::new(false));
        let is_idle = Arc::new(AtomicBool::new(false));
        let desk = Desk {
            received,
            journal,
            next_journal: Arc::clone(&next_journal),
            log,
            closing: Arc::clone(&closing),
            is_idle: Arc::clone(&is_idle),
            metrics: Arc::clone(&metrics),
            is_failing: false,
        };
        let working = thread::Builder::new()
            .name("decisions".to_owned())
            .spawn(move || desk.work())
            .context("starting the thread that writes decisions")?;
        Ok(Self {
            waiting,
            next_journal,
            closing,
            is_idle,
            thread: working.thread().clone(),
            ended: Mutex::new(Some(working)),
            metrics,
        })
    }

    /// Hands a decision over, or counts it as dropped; never waits.
    pub(super) fn write(&self, recorded: Box<Recorded>) {
        if self.waiting.try_send(recorded).is_err() {
            self.metrics.decisions_dropped(1);
        }
        if self.is_idle.load(Ordering::SeqCst) && self.is_idle.swap(false, Ordering::SeqCst) {
            self.thread.unpark();
        }
    }

    /// Writes lines to `journal` from now on.
    pub(super) fn replace(&self, journal: Option<Journal>) {
        *lock(&self.next_journal) = Some(journal);
        self.thread.unpark();
    }

    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        self.thread.unpark();
        if let Some(thread) = lock(&self.ended).take() {
            // If it panicked, the panic hook has said so.
            let _ = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

/// What the thread works with.
struct Desk {
    received: Receiver<Box<Recorded>>,
    journal: Option<Journal>,
    next_journal: NextJournal,
    log: Log,
    closing: Arc<AtomicBool>,
    is_idle: Arc<AtomicBool>,
    metrics: Arc<Metrics>,
    is_failing: bool,
}

impl Desk {
    fn work(mut self) {
        let mut first = None;
        loop {
            // Read before the channel: what was sent before closing is written.
            let is_last = self.closing.load(Ordering::SeqCst);
            if let Some(journal) = lock(&self.next_journal).take() {
                self.journal = journal;
            }
            let had_work = self.write_all(first.take());
            if is_last {
                return;
            }
            if had_work {
                thread::park_timeout(PAUSE);
                continue;
            }
            self.is_idle.store(true, Ordering::SeqCst);
            // Whoever sent before that did not wake anyone.
            first = self.received.try_recv().ok();
            if first.is_none() && !self.closing.load(Ordering::SeqCst) {
                thread::park();
            }
            self.is_idle.store(false, Ordering::SeqCst);
        }
    }

    /// Writes `first` and all that waits; whether there was anything.
    fn write_all(&mut self, first: Option<Box<Recorded>>) -> bool {
        let mut had_work = false;
        let mut next = first.or_else(|| self.received.try_recv().ok());
        while let Some(recorded) = next {
            had_work = true;
            event::announce(&self.log, &recorded.decision);
            if let Some(journal) = &mut self.journal {
                journal.push(&recorded.line);
                if journal.is_full() {
                    self.flush();
                }
            }
            next = self.received.try_recv().ok();
        }
        self.flush();
        had_work
    }

    fn flush(&mut self) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        match journal.flush() {
            Ok(true) if self.is_failing => {
                tracing::info!("the decision log can be written again");
                self.is_failing = false;
            }
            Ok(_) => {}
            Err(Lost { lines, error }) => {
                self.metrics.decisions_dropped(lines);
                if !self.is_failing {
                    tracing::error!(
                        error = format!("{error:#}"),
                        "the decision log cannot be written"
                    );
                }
                self.is_failing = true;
            }
        }
    }
}
