//! A fair semaphore: waiting clients take turns, one request each, and a client's own requests keep their order.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A semaphore that is fair among clients.
pub(super) struct Turnstile(Mutex<TurnstileState>);

struct TurnstileState {
    free: usize,
    /// The clients in the order in which they get a permit; the one that got the last is passed over if others wait.
    waiting: VecDeque<ClientQueue>,
    /// The client that got the last permit.
    last_client: Option<IpAddr>,
    last_number: u64,
}

/// The waiting requests of one client, in order of arrival.
struct ClientQueue {
    client: IpAddr,
    requests: VecDeque<(u64, oneshot::Sender<()>)>,
}

/// A permit, returned when dropped.
pub(super) struct TurnstilePermit(Arc<Turnstile>);

impl Turnstile {
    pub(super) fn new(permits: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(TurnstileState {
            free: permits,
            waiting: VecDeque::new(),
            last_client: None,
            last_number: 0,
        })))
    }

    /// Returns the number of free permits.
    #[cfg(test)]
    pub(super) fn available(&self) -> usize {
        lock(&self.0).free
    }

    /// Returns how many waiting requests come before the next one of `client`.
    pub(super) fn ahead_of(&self, client: IpAddr) -> usize {
        let state = lock(&self.0);
        let own = state.waiting.iter().find(|it| it.client == client);
        let own_requests = own.map_or(0, |own| own.requests.len());
        let others = state.waiting.iter().filter(|it| it.client != client).map(|other| {
            // Clients alternate: before this client's n-th request, each other client gets at most n permits, and the
            // one that got the last permit one less.
            let had_the_last = state.last_client == Some(other.client);
            let most = if had_the_last { own_requests } else { own_requests + 1 };
            other.requests.len().min(most)
        });
        own_requests + others.sum::<usize>()
    }

    /// Returns a permit if one is free.
    pub(super) fn try_acquire(self: &Arc<Self>, client: IpAddr) -> Option<TurnstilePermit> {
        let mut state = lock(&self.0);
        // A permit is free only if nobody waits, so nobody is overtaken.
        state.free = state.free.checked_sub(1)?;
        state.last_client = Some(client);
        Some(TurnstilePermit(Arc::clone(self)))
    }

    /// Waits until `client` gets a permit.
    pub(super) async fn acquire(self: &Arc<Self>, client: IpAddr) -> TurnstilePermit {
        if let Some(permit) = self.try_acquire(client) {
            return permit;
        }
        let (sender, receiver) = oneshot::channel();
        let Some(number) = lock(&self.0).enqueue(client, sender) else {
            return TurnstilePermit(Arc::clone(self));
        };
        let mut waiter = TurnstileWaiter { turnstile: self, client, number, is_done: false };
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

impl TurnstileState {
    /// Adds a waiting request. Returns `None` if a permit became free meanwhile, which the request then holds.
    fn enqueue(&mut self, client: IpAddr, sender: oneshot::Sender<()>) -> Option<u64> {
        if let Some(free) = self.free.checked_sub(1) {
            self.free = free;
            self.last_client = Some(client);
            return None;
        }
        self.last_number += 1;
        let request = (self.last_number, sender);
        match self.waiting.iter_mut().find(|it| it.client == client) {
            Some(queue) => queue.requests.push_back(request),
            None => self.waiting.push_back(ClientQueue { client, requests: [request].into() }),
        }
        Some(self.last_number)
    }

    /// Removes the request that is next. The next request of the same client comes after those of all other clients,
    /// including clients that arrive before this one is served.
    fn take_next(&mut self) -> Option<oneshot::Sender<()>> {
        let is_another = |it: &ClientQueue| Some(it.client) != self.last_client;
        let at = self.waiting.iter().position(is_another).unwrap_or(0);
        let mut queue = self.waiting.remove(at)?;
        self.last_client = Some(queue.client);
        let (_, sender) = queue.requests.pop_front()?;
        if !queue.requests.is_empty() {
            self.waiting.push_back(queue);
        }
        Some(sender)
    }

    /// Removes a request that no longer waits. Returns whether it was still waiting.
    fn remove(&mut self, client: IpAddr, number: u64) -> bool {
        let Some(place) = self.waiting.iter().position(|it| it.client == client) else {
            return false;
        };
        let requests = &mut self.waiting[place].requests;
        let before = requests.len();
        requests.retain(|(other, _)| *other != number);
        let was_there = requests.len() < before;
        if requests.is_empty() {
            self.waiting.remove(place);
        }
        was_there
    }
}

/// A waiting request.
struct TurnstileWaiter<'a> {
    turnstile: &'a Turnstile,
    client: IpAddr,
    number: u64,
    is_done: bool,
}

impl Drop for TurnstileWaiter<'_> {
    fn drop(&mut self) {
        let gave_up = !self.is_done;
        // If it is no longer in the queue, a permit was passed to it that nobody will take.
        if gave_up && !lock(&self.turnstile.0).remove(self.client, self.number) {
            self.turnstile.pass_on();
        }
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

    fn client(number: u8) -> IpAddr {
        [192, 0, 2, number].into()
    }

    #[tokio::test]
    async fn clients_take_turns_whatever_their_request_count() {
        let turnstile = Turnstile::new(1);
        let held = turnstile.try_acquire(client(9)).unwrap();
        let (sender, mut served) = tokio::sync::mpsc::unbounded_channel();
        for number in [1, 1, 1, 1, 2, 3, 2] {
            let (turnstile, sender) = (Arc::clone(&turnstile), sender.clone());
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
