//! Costly work, apart from the threads that serve connections.

use std::fmt;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use crate::{Holder, KeyedPermit, KeyedSemaphores, Turns};

/// The estimated time up to which handing work to another thread costs more than it saves.
const INLINE: Duration = Duration::from_micros(200);
/// The most large inputs of a holder that are in memory: one that is worked on, and some that arrive meanwhile.
const INPUTS_PER_HOLDER: usize = 4;

/// Runs work whose cost an outsider chooses: inline if it is short, else on other threads, by turns of holders, and only
/// on so many that half of the processors remain for requests.
#[derive(Clone)]
pub struct WorkPool {
    state: Arc<Mutex<PoolState>>,
    inputs: KeyedSemaphores<Holder>,
}

struct PoolState {
    free: usize,
    waiting: Turns<Box<dyn FnOnce() + Send>>,
}

impl WorkPool {
    /// Creates a pool of as many threads as half of the processors.
    #[must_use]
    pub fn new() -> Self {
        let processors = available_parallelism().map_or(1, usize::from);
        Self::with_threads(processors.div_ceil(2))
    }

    fn with_threads(threads: usize) -> Self {
        let state = PoolState { free: threads, waiting: Turns::new() };
        Self { state: Arc::new(Mutex::new(state)), inputs: KeyedSemaphores::new(INPUTS_PER_HOLDER) }
    }

    /// Waits until a holder may have one more large input, or its result, in memory. It does as long as it keeps the permit.
    pub async fn admit_input(&self, holder: Holder) -> KeyedPermit<Holder> {
        self.inputs.acquire(holder).await
    }

    /// Returns the estimated time to parse a document of this length: 64 KiB take as long as handing them to another thread.
    #[must_use]
    pub const fn time_to_read(bytes: usize) -> Duration {
        Duration::from_nanos(3 * bytes as u64)
    }

    /// Returns the result of `work`, which is estimated to take some time. Work for which nobody waits any more is
    /// dropped before it starts; once started, it runs to its end. Needs a tokio runtime.
    ///
    /// # Panics
    ///
    /// If `work` does.
    pub async fn run<T: Send + 'static>(
        &self,
        holder: Holder,
        estimate: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        if estimate <= INLINE {
            return work();
        }
        let (sender, receiver) = oneshot::channel();
        self.enqueue(
            holder,
            Box::new(move || {
                if !sender.is_closed() {
                    // Nobody may wait any more by the time it ends.
                    drop(sender.send(catch_unwind(AssertUnwindSafe(work))));
                }
            }),
        );
        match receiver.await {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => resume_unwind(panic),
            // It was never started: the runtime shuts down, and this task with it.
            Err(_) => pending().await,
        }
    }

    fn enqueue(&self, holder: Holder, work: Box<dyn FnOnce() + Send>) {
        let mut state = self.state();
        state.waiting.push(holder, work);
        if state.free > 0 {
            state.free -= 1;
            let pool = self.clone();
            drop(spawn_blocking(move || pool.work_until_idle()));
        }
    }

    /// Runs the waiting work, by turns, until none is left.
    fn work_until_idle(&self) {
        loop {
            let mut state = self.state();
            let Some(work) = state.waiting.pop() else {
                state.free += 1;
                return;
            };
            drop(state);
            work();
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, PoolState> {
        // Nothing that panics runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for WorkPool {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for WorkPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkPool")
            .field("waiting", &self.state().waiting.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::mpsc;
    use std::task::{Context, Waker};
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(1);

    fn holder(number: u8) -> Holder {
        Holder::of_client(IpAddr::from([192, 0, 2, number]))
    }

    #[tokio::test]
    async fn short_work_is_done_where_it_is_asked_for() {
        let here = thread::current().id();
        let pool = WorkPool::new();
        let short = pool.run(holder(1), INLINE, || thread::current().id());
        assert_eq!(short.await, here);
        let long = pool.run(holder(1), LONG, || thread::current().id());
        assert_ne!(long.await, here);
    }

    #[tokio::test]
    async fn a_holder_has_four_large_inputs_in_memory() {
        let pool = WorkPool::new();
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(pool.admit_input(holder(1)).await);
        }
        let same_pool = pool.clone();
        let mut fifth = Box::pin(same_pool.admit_input(holder(1)));
        let mut context = Context::from_waker(Waker::noop());
        assert!(fifth.as_mut().poll(&mut context).is_pending());
        drop(pool.admit_input(holder(2)).await);
        held.pop();
        drop(fifth.await);
    }

    #[tokio::test]
    async fn panics_reach_the_waiting_task() {
        let pool = WorkPool::new();
        let running = async move { pool.run(holder(1), LONG, || panic!("as expected")).await };
        assert!(tokio::spawn(running).await.is_err_and(|error| error.is_panic()));
        let pool = WorkPool::with_threads(1);
        let one = pool.clone();
        let panicking =
            tokio::spawn(async move { one.run(holder(1), LONG, || panic!("as expected")).await });
        assert!(panicking.await.is_err());
        assert_eq!(pool.run(holder(2), LONG, || 7).await, 7, "the thread still works");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn another_holder_waits_for_one_piece_of_work_only() {
        let pool = WorkPool::with_threads(1);
        let (go, gate) = mpsc::channel::<()>();
        let (done, order) = mpsc::channel();
        let mut tasks = Vec::new();
        let first = pool.clone();
        let (started, is_started) = oneshot::channel();
        tasks.push(tokio::spawn(async move {
            let wait = move || {
                started.send(()).unwrap();
                gate.recv().unwrap();
            };
            first.run(holder(1), LONG, wait).await;
        }));
        // Until then it is in the queue.
        is_started.await.unwrap();
        for (owner, count) in [(1, 20), (2, 1)] {
            for _ in 0..count {
                let pool = pool.clone();
                let done = done.clone();
                let waiting = pool.state().waiting.len();
                let running = pool.clone();
                tasks.push(tokio::spawn(async move {
                    running.run(holder(owner), LONG, move || done.send(owner).unwrap()).await;
                }));
                while pool.state().waiting.len() == waiting {
                    tokio::task::yield_now().await;
                }
            }
        }
        go.send(()).unwrap();
        for task in tasks {
            task.await.unwrap();
        }
        drop(done);
        let order: Vec<u8> = order.iter().collect();
        assert_eq!(order[..3], [1, 2, 1]);
    }

    #[tokio::test]
    async fn work_that_nobody_waits_for_is_dropped() {
        let pool = WorkPool::with_threads(1);
        let (go, gate) = mpsc::channel::<()>();
        let first = pool.clone();
        let blocking =
            tokio::spawn(
                async move { first.run(holder(1), LONG, move || gate.recv().unwrap()).await },
            );
        while pool.state().free > 0 {
            tokio::task::yield_now().await;
        }
        let second = pool.clone();
        let (ran, runs) = mpsc::channel();
        let given_up = tokio::spawn(async move {
            second.run(holder(1), LONG, move || ran.send(()).unwrap()).await;
        });
        while pool.state().waiting.is_empty() {
            tokio::task::yield_now().await;
        }
        given_up.abort();
        assert!(given_up.await.is_err());
        go.send(()).unwrap();
        blocking.await.unwrap();
        assert_eq!(pool.run(holder(2), LONG, || 7).await, 7);
        assert!(runs.recv().is_err(), "it never ran");
    }
}
