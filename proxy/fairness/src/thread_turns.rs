//! The time of a thread, for which its tasks' holders take turns.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use pin_project_lite::pin_project;
use tokio::task::{AbortHandle, yield_now};

use crate::{Holder, Turns};

/// The time for which tasks run as they are woken: no longer than a client may be kept waiting by others, and so long that a
/// busy thread does not look for events after every few requests.
const ROUND: Duration = Duration::from_millis(2);

thread_local! {
    static ROUNDS: RefCell<Rounds> = const {
        RefCell::new(Rounds { used: Duration::ZERO, waiting: Turns::new(), next: None, known_as: None })
    };
}

/// The tasks of a thread, which run in rounds: in each the runtime looks for new events first.
struct Rounds {
    /// The time that tasks have taken in this round.
    used: Duration,
    waiting: Turns<Arc<Place>>,
    /// The task that begins the next round.
    next: Option<AbortHandle>,
    /// The holder to whom the running task belongs from now on.
    known_as: Option<Holder>,
}

/// The place of a waiting task.
#[derive(Debug)]
struct Place {
    is_called: AtomicBool,
    waker: Waker,
}

pin_project! {
    /// A task that takes turns with the tasks of other holders on its thread, each time that it is woken.
    ///
    /// As long as a thread has little to do, tasks run as they are woken. Once they have taken two milliseconds, all wait, and
    /// holders are served in turn. Only where it is polled with the task's own waker, in a tokio runtime of one thread.
    #[derive(Debug)]
    pub struct InTurn<F> {
        holder: Holder,
        place: Option<Arc<Place>>,
        #[pin]
        task: F,
    }
}

impl<F> InTurn<F> {
    /// Lets `task` run in the turns of `holder`.
    pub const fn new(holder: Holder, task: F) -> Self {
        Self { holder, place: None, task }
    }
}

impl<F: Future> Future for InTurn<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        match this.place {
            // Woken by an event that came meanwhile.
            Some(place) if !place.is_called.load(Ordering::Relaxed) => return Poll::Pending,
            Some(_) => *this.place = None,
            None => {
                *this.place = ROUNDS.with_borrow_mut(|rounds| rounds.wait(*this.holder, context));
            }
        }
        if this.place.is_some() {
            return Poll::Pending;
        }
        // A task that panicked may have left its own.
        ROUNDS.with_borrow_mut(|rounds| rounds.known_as = None);
        let begun = Instant::now();
        let polled = this.task.poll(context);
        let used = begun.elapsed();
        let next = ROUNDS.with_borrow_mut(|rounds| {
            *this.holder = rounds.known_as.take().unwrap_or(*this.holder);
            rounds.used += used;
            rounds.call_next()
        });
        if let Some(place) = next {
            place.call();
        }
        polled
    }
}

/// Lets the task that runs belong to another holder from its next turn on, such as a client that is known only now.
pub fn run_as(holder: Holder) {
    ROUNDS.with_borrow_mut(|rounds| rounds.known_as = Some(holder));
}

impl Rounds {
    /// Returns a place to wait at, unless the task may run.
    fn wait(&mut self, holder: Holder, context: &Context<'_>) -> Option<Arc<Place>> {
        if self.used < ROUND && self.waiting.is_empty() {
            return None;
        }
        let waker = context.waker().clone();
        let place = Arc::new(Place { is_called: AtomicBool::new(false), waker });
        self.waiting.push(holder, Arc::clone(&place));
        // Whoever waits needs the task that begins rounds, and a runtime that ended may have taken the last one along.
        self.ensure_next_round();
        Some(place)
    }

    fn ensure_next_round(&mut self) {
        if self.next.as_ref().is_none_or(AbortHandle::is_finished) {
            self.next = Some(tokio::spawn(begin_rounds()).abort_handle());
        }
    }

    /// Returns the next task that may run in this round.
    fn call_next(&mut self) -> Option<Arc<Place>> {
        while self.used < ROUND {
            let place = self.waiting.pop()?;
            // A place that only the queue refers to was that of a task which is gone.
            if Arc::strong_count(&place) > 1 {
                return Some(place);
            }
        }
        self.ensure_next_round();
        None
    }
}

/// Begins one round after another until nobody waits.
async fn begin_rounds() {
    loop {
        // The runtime looks for new events before it wakes a task that yields.
        yield_now().await;
        let next = ROUNDS.with_borrow_mut(|rounds| {
            rounds.used = Duration::ZERO;
            rounds.call_next()
        });
        let Some(place) = next else { return };
        place.call();
    }
}

impl Place {
    fn call(&self) {
        self.is_called.store(true, Ordering::Relaxed);
        self.waker.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::spawn;
    use tokio::task::JoinHandle;

    use super::*;

    fn holder(number: u8) -> Holder {
        Holder::of_client([192, 0, 2, number].into())
    }

    /// Takes the time of a round.
    fn burn() {
        let begun = Instant::now();
        while begun.elapsed() < ROUND {}
    }

    /// Spawns a task of a holder that takes the time of a round and writes down its number.
    fn spawn_long(number: u8, done: &Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
        let done = Arc::clone(done);
        spawn(InTurn::new(holder(number), async move {
            burn();
            done.lock().unwrap().push(number);
        }))
    }

    #[tokio::test]
    async fn another_holder_waits_for_one_task_only() {
        let done = Arc::<Mutex<Vec<u8>>>::default();
        let tasks: Vec<_> = [1, 1, 1, 1, 1, 1, 2, 3].map(|number| spawn_long(number, &done)).into();
        for task in tasks {
            task.await.unwrap();
        }
        // The first ran at once, as nobody waited.
        assert_eq!(*done.lock().unwrap(), [1, 1, 2, 3, 1, 1, 1, 1]);
    }

    #[tokio::test]
    async fn a_task_that_is_aborted_leaves_the_queue() {
        let done = Arc::<Mutex<Vec<u8>>>::default();
        let first = spawn_long(1, &done);
        let aborted = [spawn_long(1, &done), spawn_long(1, &done)];
        let last = spawn_long(1, &done);
        first.await.unwrap();
        aborted.iter().for_each(JoinHandle::abort);
        last.await.unwrap();
        assert_eq!(*done.lock().unwrap(), [1, 1]);
        assert!(ROUNDS.with_borrow(|rounds| rounds.waiting.is_empty()));
    }

    #[tokio::test]
    async fn an_event_does_not_replace_a_turn() {
        InTurn::new(holder(1), async { burn() }).await;
        let mut waiting = Box::pin(InTurn::new(holder(1), async {}));
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..3 {
            assert!(waiting.as_mut().poll(&mut context).is_pending());
        }
        // The task that begins rounds yields once.
        yield_now().await;
        yield_now().await;
        assert!(waiting.as_mut().poll(&mut context).is_ready());
    }

    #[tokio::test]
    async fn a_task_belongs_to_another_holder_once_it_is_known() {
        let done = Arc::<Mutex<Vec<u8>>>::default();
        let known = Arc::clone(&done);
        let known = spawn(InTurn::new(holder(1), async move {
            run_as(holder(2));
            yield_now().await;
            known.lock().unwrap().push(2);
        }));
        let tasks = [1; 7].map(|number| spawn_long(number, &done));
        known.await.unwrap();
        // In the turns of the first holder it would be the last.
        let before = done.lock().unwrap().len();
        assert!(before < tasks.len(), "{before}");
        for task in tasks {
            task.await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_task_that_panics_leaves_its_holder_to_no_other() {
        let panicking = spawn(InTurn::new(holder(1), async {
            run_as(holder(2));
            panic!("as expected");
        }));
        assert!(panicking.await.is_err());
        let mut other = Box::pin(InTurn::new(holder(3), async {}));
        assert!(other.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
        assert_eq!(other.holder, holder(3));
    }

    #[test]
    fn tasks_run_in_a_runtime_after_another_ended_amid_a_round() {
        let runtime = || tokio::runtime::Builder::new_current_thread().build().unwrap();
        let done = Arc::<Mutex<Vec<u8>>>::default();
        for _ in 0..2 {
            runtime().block_on(async {
                let first = spawn_long(1, &done);
                drop(spawn_long(1, &done));
                first.await.unwrap();
            });
        }
        assert_eq!(*done.lock().unwrap(), [1, 1]);
    }
}
