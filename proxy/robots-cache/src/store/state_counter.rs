//! The number of stored entries in each state: counted once in a thread of its own, and updated with each transaction.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use wayleave_lifecycle::LifetimeSettings;

use super::failure::{StoreFailure, catching_panics};
use super::file::OpenDatabase;
use super::state_tally::{StateCounts, StateTally};
use super::tables::{self, EntriesTable};

/// The maximum time that a caller waits for the first count.
const FIRST_COUNT_TIMEOUT: Duration = Duration::from_secs(1);

/// The count, and the walk over all entries that starts it.
#[derive(Default)]
pub(super) struct StateCounter {
    state: Mutex<CounterState>,
    ended: Condvar,
}

#[derive(Default)]
struct CounterState {
    /// The lifetimes to count by; `None` if no count is wanted.
    lifetimes: Option<Arc<LifetimeSettings>>,
    /// The count so far, without the part that a running walk will add.
    tally: Option<StateTally>,
    is_under_way: bool,
    walk: Option<CountingWalk>,
    /// The figures that were returned last.
    last: Option<StateCounts>,
}

struct CountingWalk {
    is_stopped: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl StateCounter {
    /// Sets the lifetimes to count by from the next [`begin`](Self::begin) on.
    pub(super) fn set_lifetimes(&self, lifetimes: LifetimeSettings) {
        self.state().lifetimes = Some(Arc::new(lifetimes));
    }

    /// Starts a new count. No transaction may run meanwhile, and every later one has to be [merged](Self::merge).
    pub(super) fn begin(
        self: &Arc<Self>,
        database: &Arc<OpenDatabase>,
        now: SystemTime,
    ) -> Result<(), StoreFailure> {
        self.end();
        let Some(lifetimes) = self.state().lifetimes.clone() else {
            return Ok(());
        };
        let entries = catching_panics(|| tables::open_entries(database))?;
        let tally = StateTally::new(lifetimes, now);
        let walked = tally.empty_like();
        let is_stopped = Arc::<AtomicBool>::default();
        let mut state = self.state();
        state.tally = Some(tally);
        state.is_under_way = true;
        let counts = self.clone();
        let database = database.clone();
        let stop = is_stopped.clone();
        let thread = thread::spawn(move || {
            let counted = catching_panics(|| count_entries(&entries, walked, &stop));
            // The file cannot be reopened while these exist.
            drop((entries, database));
            counts.finish_walk(counted, &stop);
        });
        state.walk = Some(CountingWalk { is_stopped, thread });
        Ok(())
    }

    fn finish_walk(&self, counted: Result<StateTally, StoreFailure>, is_stopped: &AtomicBool) {
        let mut state = self.state();
        if is_stopped.load(Ordering::Relaxed) {
            return;
        }
        match counted {
            Ok(walked) => {
                if let Some(tally) = &mut state.tally {
                    tally.merge(walked);
                }
            }
            Err(failure) => {
                // The next read or write reports the failure and reopens the file.
                tracing::warn!(%failure, "the entries in the store could not be counted");
                state.tally = None;
            }
        }
        state.is_under_way = false;
        self.ended.notify_all();
    }

    /// Stops the walk, if one is running, and discards the count.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.tally = None;
        state.is_under_way = false;
        let walk = state.walk.take();
        if let Some(walk) = &walk {
            walk.is_stopped.store(true, Ordering::Relaxed);
        }
        // Before the thread is joined, which locks the state when its walk ends.
        drop(state);
        self.ended.notify_all();
        if let Some(walk) = walk {
            // The panic hook has reported a panic; the thread holds nothing any more.
            let _ = walk.thread.join();
        }
    }

    /// Returns an empty tally for the changes of a transaction, if they are counted.
    pub(super) fn new_delta(&self) -> Option<StateTally> {
        self.state().tally.as_ref().map(StateTally::empty_like)
    }

    /// Adds the changes of a transaction.
    pub(super) fn merge(&self, changed: Option<StateTally>) {
        if let (Some(tally), Some(changed)) = (&mut self.state().tally, changed) {
            tally.merge(changed);
        }
    }

    /// Returns the number of entries in each state; the previous figures while a new count is running, and `None` if
    /// there are none. Blocks for a second at most.
    pub(super) fn counts_at(&self, now: SystemTime) -> Option<StateCounts> {
        let waited = self
            .ended
            .wait_timeout_while(self.state(), FIRST_COUNT_TIMEOUT, |state| state.is_under_way);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if !state.is_under_way {
            state.last = state.tally.as_mut().map(|tally| tally.counts_at(now));
        }
        state.last
    }

    fn state(&self) -> MutexGuard<'_, CounterState> {
        // No code that holds the lock panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds all entries to `tally`, until stopped.
fn count_entries(
    entries: &EntriesTable,
    mut tally: StateTally,
    is_stopped: &AtomicBool,
) -> Result<StateTally, StoreFailure> {
    for row in entries.range::<&str>(..)? {
        if is_stopped.load(Ordering::Relaxed) {
            break;
        }
        let (key, sealed) = row?;
        tally.add(key.value(), sealed.value());
    }
    Ok(tally)
}
