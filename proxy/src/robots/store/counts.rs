//! The number of stored entries in each state: counted once in a thread of its own, and updated with each
//! transaction.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use wayleave_robots_txt::lifecycle::Lifetimes;

use super::failure::{Failure, guarded};
use super::file::Open;
use super::tables::{self, Kept};
use super::tally::{ByState, Tally};

/// The maximum time that a caller waits for the first count.
const PATIENCE: Duration = Duration::from_secs(1);

/// The count, and the walk over all entries that starts it.
#[derive(Default)]
pub(super) struct Counts {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    /// The lifetimes to count by; `None` if no count is wanted.
    lifetimes: Option<Arc<Lifetimes>>,
    /// The count so far, without the part that a running walk will add.
    tally: Option<Tally>,
    is_under_way: bool,
    walk: Option<Walk>,
    /// The figures that were returned last.
    last: Option<ByState>,
}

struct Walk {
    is_stopped: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Counts {
    /// Sets the lifetimes to count by from the next [`begin`](Self::begin) on.
    pub(super) fn set_lifetimes(&self, lifetimes: Lifetimes) {
        self.state().lifetimes = Some(Arc::new(lifetimes));
    }

    /// Starts a new count. No transaction may run meanwhile, and every later one has to be [merged](Self::merge).
    pub(super) fn begin(
        self: &Arc<Self>,
        database: &Arc<Open>,
        now: SystemTime,
    ) -> Result<(), Failure> {
        self.end();
        let Some(lifetimes) = self.state().lifetimes.clone() else {
            return Ok(());
        };
        let kept = guarded(|| tables::kept(database))?;
        let tally = Tally::new(lifetimes, now);
        let walked = tally.beside();
        let is_stopped = Arc::<AtomicBool>::default();
        let mut state = self.state();
        state.tally = Some(tally);
        state.is_under_way = true;
        let (counts, database, stop) = (self.clone(), database.clone(), is_stopped.clone());
        let thread = thread::spawn(move || {
            let counted = guarded(|| count(&kept, walked, &stop));
            // Whoever reopens the file needs these gone.
            drop((kept, database));
            counts.counted(counted, &stop);
        });
        state.walk = Some(Walk { is_stopped, thread });
        Ok(())
    }

    fn counted(&self, counted: Result<Tally, Failure>, is_stopped: &AtomicBool) {
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
        drop(state);
        self.ended.notify_all();
        if let Some(walk) = walk {
            // The panic hook has reported a panic; the thread holds nothing any more.
            let _ = walk.thread.join();
        }
    }

    /// Returns an empty tally for the changes of a transaction, if they are counted.
    pub(super) fn beside(&self) -> Option<Tally> {
        self.state().tally.as_ref().map(Tally::beside)
    }

    /// Adds the changes of a transaction.
    pub(super) fn merge(&self, changed: Option<Tally>) {
        if let (Some(tally), Some(changed)) = (&mut self.state().tally, changed) {
            tally.merge(changed);
        }
    }

    /// Returns the number of entries in each state; the previous figures while a new count is running, and `None` if
    /// there are
    /// none. Blocks for a second at most.
    pub(super) fn at(&self, now: SystemTime) -> Option<ByState> {
        let waited = self
            .ended
            .wait_timeout_while(self.state(), PATIENCE, |state| state.is_under_way);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if !state.is_under_way {
            state.last = state.tally.as_mut().map(|tally| tally.at(now));
        }
        state.last
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds all entries to `tally`, until stopped.
fn count(kept: &Kept, mut tally: Tally, is_stopped: &AtomicBool) -> Result<Tally, Failure> {
    for row in kept.range::<&str>(..)? {
        if is_stopped.load(Ordering::Relaxed) {
            break;
        }
        let (key, sealed) = row?;
        tally.add(key.value(), sealed.value());
    }
    Ok(tally)
}
