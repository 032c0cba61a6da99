//! A fair semaphore: it decides who is next, not when. Delays and deadlines are in `queue`.
//!
//! Holders take turns, one request each, and a holder's own requests keep their order. Where several
//! origins share a pace, the origins take turns first, and then the clients of each. A holder with a request that has long been
//! unanswered comes after all others.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::tickets::{Tickets, TurnHolder};

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A semaphore that is fair among holders.
pub(super) struct Turnstile(Mutex<TurnstileState>);

struct TurnstileState {
    free: usize,
    /// The origins in the order in which they get a permit; the one that got the last is passed over if others wait.
    waiting: VecDeque<OriginQueue>,
    /// The holder of the last permit.
    last: Option<TurnHolder>,
    last_number: u64,
    /// The turns of those that do not wait.
    tickets: Tickets,
    /// The holders of requests that have long been unanswered, once for each request.
    unanswered: Vec<TurnHolder>,
}

/// The waiting requests to one origin. Its clients take turns as origins do.
struct OriginQueue {
    origin: u64,
    clients: VecDeque<ClientQueue>,
    /// The client that got the origin's last permit.
    last_client: Option<u64>,
}

/// The waiting requests of one client, in order of arrival.
struct ClientQueue {
    holder: TurnHolder,
    requests: VecDeque<(u64, oneshot::Sender<()>)>,
}

/// A permit, returned when dropped.
pub(super) struct TurnstilePermit(Arc<Turnstile>);

impl Turnstile {
    pub(super) fn new(permits: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(TurnstileState {
            free: permits,
            waiting: VecDeque::new(),
            last: None,
            last_number: 0,
            tickets: Tickets::default(),
            unanswered: Vec::new(),
        })))
    }

    /// Returns the number of free permits.
    #[cfg(test)]
    pub(super) fn available(&self) -> usize {
        lock(&self.0).free
    }

    /// Returns how many waiting requests come before the next one of `holder`.
    pub(super) fn ahead_of(&self, holder: TurnHolder) -> usize {
        let state = lock(&self.0);
        let own = state.waiting.iter().find(|waiting| waiting.origin == holder.origin);
        let own_requests = own.map_or(0, |own| own.ahead_of(holder.client));
        let others =
            state.waiting.iter().filter(|waiting| waiting.origin != holder.origin).map(|other| {
                let had_the_last = state.last.is_some_and(|last| last.origin == other.origin);
                turns_before(own_requests, other.len(), had_the_last)
            });
        own_requests + others.sum::<usize>()
    }

    /// Returns a permit if one is free.
    pub(super) fn try_acquire(self: &Arc<Self>, holder: TurnHolder) -> Option<TurnstilePermit> {
        lock(&self.0).take_free(holder).then(|| TurnstilePermit(Arc::clone(self)))
    }

    /// Returns a permit if one is free and it is the turn of `holder`, which does not wait. `free_since`: the time since which a
    /// request could have been sent, if that is known.
    pub(super) fn try_take_turn(
        self: &Arc<Self>,
        holder: TurnHolder,
        free_since: Option<Instant>,
    ) -> Option<TurnstilePermit> {
        let mut state = lock(&self.0);
        let free = state.free;
        state.tickets.expire(free, free_since);
        let is_its_turn = state.tickets.ahead_of(holder) < free;
        (is_its_turn && state.take_free(holder)).then(|| TurnstilePermit(Arc::clone(self)))
    }

    /// Returns how many of those that do not wait have their turn before `holder`.
    pub(super) fn turns_ahead_of(&self, holder: TurnHolder) -> usize {
        lock(&self.0).tickets.ahead_of(holder)
    }

    /// Keeps the turn of a holder that may come at `at`, unless it comes after all others.
    pub(super) fn keep_turn(&self, holder: TurnHolder, at: Instant) {
        let mut state = lock(&self.0);
        if !state.unanswered.contains(&holder) {
            state.tickets.keep(holder, at);
        }
    }

    /// Returns whether a holder that is refused keeps its turn.
    pub(super) fn keeps_turn(&self, holder: TurnHolder) -> bool {
        !lock(&self.0).tickets.has_lapsed(holder)
    }

    /// Notes that a holder has had the turn that was kept for it.
    pub(super) fn end_turn(&self, holder: TurnHolder) {
        lock(&self.0).tickets.end(holder);
    }

    /// Lets `holder` come after all others until [`Self::note_answer`].
    pub(super) fn await_answer(&self, holder: TurnHolder) {
        let mut state = lock(&self.0);
        state.unanswered.push(holder);
        state.tickets.end(holder);
    }

    /// Ends that for one request.
    pub(super) fn note_answer(&self, holder: TurnHolder) {
        let mut state = lock(&self.0);
        if let Some(place) = state.unanswered.iter().position(|known| *known == holder) {
            state.unanswered.swap_remove(place);
        }
    }

    /// Waits until `holder` gets a permit.
    pub(super) async fn acquire(self: &Arc<Self>, holder: TurnHolder) -> TurnstilePermit {
        if let Some(permit) = self.try_acquire(holder) {
            return permit;
        }
        let (sender, receiver) = oneshot::channel();
        let Some(number) = lock(&self.0).enqueue(holder, sender) else {
            return TurnstilePermit(Arc::clone(self));
        };
        let mut waiter = TurnstileWaiter { turnstile: self, holder, number, is_done: false };
        // The sender is dropped unused only together with the turnstile, which `self` keeps alive.
        let _ = receiver.await;
        waiter.is_done = true;
        TurnstilePermit(Arc::clone(self))
    }

    /// Passes a permit to the request that is next.
    fn pass_on(&self) {
        let mut state = lock(&self.0);
        match state.take_next() {
            // A cancelled request removes itself before its receiver is dropped, so this send always arrives.
            Some(sender) => drop(sender.send(())),
            None => state.free += 1,
        }
    }
}

/// Returns how many of another's `waiting` requests come before the next one of a queue that has `own` already: those who wait
/// alternate, so each other one gets a permit more at most, and the one that got the last permit none more.
fn turns_before(own: usize, waiting: usize, had_the_last: bool) -> usize {
    let most = if had_the_last { own } else { own + 1 };
    waiting.min(most)
}

impl TurnstileState {
    /// Takes a permit if one is free. Then nobody waits, so nobody is overtaken.
    fn take_free(&mut self, holder: TurnHolder) -> bool {
        let is_free = self.free > 0;
        if is_free {
            self.free -= 1;
            self.last = Some(holder);
        }
        is_free
    }

    /// Adds a waiting request. Returns `None` if a permit became free meanwhile, which the request then holds.
    fn enqueue(&mut self, holder: TurnHolder, sender: oneshot::Sender<()>) -> Option<u64> {
        if self.take_free(holder) {
            return None;
        }
        self.last_number += 1;
        let request = (self.last_number, sender);
        match self.waiting.iter_mut().find(|waiting| waiting.origin == holder.origin) {
            Some(queue) => queue.enqueue(holder, request),
            None => {
                let last = self.last.filter(|last| last.origin == holder.origin);
                let client = ClientQueue { holder, requests: [request].into() };
                self.waiting.push_back(OriginQueue {
                    origin: holder.origin,
                    clients: [client].into(),
                    last_client: last.map(|last| last.client),
                });
            }
        }
        Some(self.last_number)
    }

    /// Removes the request that is next. The next request to the same origin comes after those to all others, including
    /// origins whose requests arrive before this one is served.
    fn take_next(&mut self) -> Option<oneshot::Sender<()>> {
        let last = self.last.map(|last| last.origin);
        let comes_later = |queue: &OriginQueue| {
            let is_unanswered =
                queue.clients.iter().all(|queued| self.unanswered.contains(&queued.holder));
            (is_unanswered, Some(queue.origin) == last)
        };
        let mut queue = self.waiting.remove(first(&self.waiting, comes_later)?)?;
        let (holder, sender) = queue.take_next(&self.unanswered)?;
        self.last = Some(holder);
        if !queue.clients.is_empty() {
            self.waiting.push_back(queue);
        }
        Some(sender)
    }

    /// Removes a request that no longer waits. Returns whether it was still waiting.
    fn remove(&mut self, holder: TurnHolder, number: u64) -> bool {
        let Some(place) = self.waiting.iter().position(|waiting| waiting.origin == holder.origin)
        else {
            return false;
        };
        let queue = &mut self.waiting[place];
        let was_there = queue.remove(holder.client, number);
        if queue.clients.is_empty() {
            self.waiting.remove(place);
        }
        was_there
    }
}

/// Returns the place of the queue that is next: the first of those for which `comes_later` is least.
fn first<T>(queues: &VecDeque<T>, comes_later: impl Fn(&T) -> (bool, bool)) -> Option<usize> {
    let places = queues.iter().enumerate();
    places.min_by_key(|(place, queue)| (comes_later(queue), *place)).map(|(place, _)| place)
}

impl OriginQueue {
    fn len(&self) -> usize {
        self.clients.iter().map(|client| client.requests.len()).sum()
    }

    fn ahead_of(&self, client: u64) -> usize {
        let own = self.clients.iter().find(|queued| queued.holder.client == client);
        let own_requests = own.map_or(0, |own| own.requests.len());
        let others =
            self.clients.iter().filter(|queued| queued.holder.client != client).map(|other| {
                let had_the_last = self.last_client == Some(other.holder.client);
                turns_before(own_requests, other.requests.len(), had_the_last)
            });
        own_requests + others.sum::<usize>()
    }

    fn enqueue(&mut self, holder: TurnHolder, request: (u64, oneshot::Sender<()>)) {
        match self.clients.iter_mut().find(|queued| queued.holder == holder) {
            Some(queue) => queue.requests.push_back(request),
            None => self.clients.push_back(ClientQueue { holder, requests: [request].into() }),
        }
    }

    /// Removes the request that is next, and returns it with its client.
    fn take_next(
        &mut self,
        unanswered: &[TurnHolder],
    ) -> Option<(TurnHolder, oneshot::Sender<()>)> {
        let comes_later = |queue: &ClientQueue| {
            let is_last = Some(queue.holder.client) == self.last_client;
            (unanswered.contains(&queue.holder), is_last)
        };
        let mut queue = self.clients.remove(first(&self.clients, comes_later)?)?;
        let holder = queue.holder;
        self.last_client = Some(holder.client);
        let (_, sender) = queue.requests.pop_front()?;
        if !queue.requests.is_empty() {
            self.clients.push_back(queue);
        }
        Some((holder, sender))
    }

    fn remove(&mut self, client: u64, number: u64) -> bool {
        let Some(place) = self.clients.iter().position(|queued| queued.holder.client == client)
        else {
            return false;
        };
        let requests = &mut self.clients[place].requests;
        let before = requests.len();
        requests.retain(|(other, _)| *other != number);
        let was_there = requests.len() < before;
        if requests.is_empty() {
            self.clients.remove(place);
        }
        was_there
    }
}

/// A waiting request.
struct TurnstileWaiter<'a> {
    turnstile: &'a Turnstile,
    holder: TurnHolder,
    number: u64,
    is_done: bool,
}

impl Drop for TurnstileWaiter<'_> {
    fn drop(&mut self) {
        let gave_up = !self.is_done;
        // If it is no longer in the queue, a permit was passed to it that nobody will take.
        if gave_up && !lock(&self.turnstile.0).remove(self.holder, self.number) {
            self.turnstile.pass_on();
        }
    }
}

impl TurnstilePermit {
    /// Returns whether anybody waits for a permit, or was refused and may come back.
    pub(super) fn is_wanted(&self) -> bool {
        let state = lock(&self.0.0);
        !state.waiting.is_empty() || state.tickets.is_any_awaited()
    }
}

impl Drop for TurnstilePermit {
    fn drop(&mut self) {
        self.0.pass_on();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn client(number: u64) -> TurnHolder {
        TurnHolder { origin: 0, client: number, address: number }
    }

    #[tokio::test]
    async fn clients_take_turns_whatever_their_request_count() {
        let turnstile = Turnstile::new(1);
        let held = turnstile.try_acquire(client(9)).unwrap();
        let (sender, mut served) = tokio::sync::mpsc::unbounded_channel();
        for number in [1, 1, 1, 1, 2, 3, 2] {
            let turnstile = Arc::clone(&turnstile);
            let sender = sender.clone();
            tokio::spawn(async move {
                let permit = turnstile.acquire(client(number)).await;
                sender.send(number).unwrap();
                drop(permit);
            });
            tokio::task::yield_now().await;
        }
        assert_eq!(turnstile.ahead_of(client(1)), 4 + 2 + 1);
        assert_eq!(turnstile.ahead_of(client(2)), 2 + 3 + 1);
        assert_eq!(turnstile.ahead_of(client(4)), 3);
        drop((held, sender));
        let mut order = Vec::new();
        while let Some(number) = served.recv().await {
            order.push(number);
        }
        assert_eq!(order, [1, 2, 3, 1, 2, 1, 1]);
        assert_eq!(turnstile.available(), 1);
    }

    #[tokio::test]
    async fn origins_take_turns_before_clients_do() {
        let turnstile = Turnstile::new(1);
        let holder = |origin, client| TurnHolder { origin, client, address: client };
        let held = turnstile.try_acquire(holder(9, 9)).unwrap();
        let (sender, mut served) = tokio::sync::mpsc::unbounded_channel();
        let arriving = [(1, 1), (1, 1), (1, 2), (1, 2), (1, 3), (2, 1), (2, 1), (3, 4)];
        for (origin, client) in arriving {
            let turnstile = Arc::clone(&turnstile);
            let sender = sender.clone();
            tokio::spawn(async move {
                let permit = turnstile.acquire(holder(origin, client)).await;
                sender.send((origin, client)).unwrap();
                drop(permit);
            });
            tokio::task::yield_now().await;
        }
        let expected = [(1, 1), (2, 1), (3, 4), (1, 2), (2, 1), (1, 3), (1, 1), (1, 2)];
        // The next of each comes after as many as there are before it in the order.
        assert_eq!(turnstile.ahead_of(holder(2, 5)), 4);
        assert_eq!(turnstile.ahead_of(holder(4, 1)), 3);
        assert_eq!(turnstile.ahead_of(holder(1, 2)), 8);
        drop((held, sender));
        let mut order = Vec::new();
        while let Some(holder) = served.recv().await {
            order.push(holder);
        }
        assert_eq!(order, expected);
    }

    #[tokio::test]
    async fn a_new_client_precedes_the_served_clients_next() {
        let turnstile = Turnstile::new(1);
        let held = turnstile.try_acquire(client(1)).unwrap();
        let mut next = Box::pin(turnstile.acquire(client(1)));
        assert!((&mut next).now_or_never().is_none());
        assert_eq!(turnstile.ahead_of(client(2)), 0);
        let mut other = Box::pin(turnstile.acquire(client(2)));
        assert!((&mut other).now_or_never().is_none());
        drop(held);
        assert!((&mut next).now_or_never().is_none());
        assert!((&mut other).now_or_never().is_some());
        assert!((&mut next).now_or_never().is_some());
    }

    #[tokio::test]
    async fn giving_up_leaks_no_permit() {
        let turnstile = Turnstile::new(1);
        let held = turnstile.try_acquire(client(9)).unwrap();
        let mut first = Box::pin(turnstile.acquire(client(1)));
        let mut second = Box::pin(turnstile.acquire(client(2)));
        assert!((&mut first).now_or_never().is_none());
        assert!((&mut second).now_or_never().is_none());
        // The first gets the permit, and leaves before it notices.
        drop(held);
        drop(first);
        assert!((&mut second).now_or_never().is_some());
        let held = turnstile.try_acquire(client(9)).unwrap();
        let mut third = Box::pin(turnstile.acquire(client(3)));
        assert!((&mut third).now_or_never().is_none());
        drop(third);
        drop(held);
        assert_eq!(turnstile.available(), 1);
    }
}
