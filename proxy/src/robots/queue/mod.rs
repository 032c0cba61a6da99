//! The queue of fetches: limits in total and per host, and fair shares among clients, so that nobody waits behind one
//! client's many fetches. docs/design.md explains the rules.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;

use wayleave_robots_txt::lifecycle::{Entry, Resource};

use super::fetch::FetchAs;
use crate::identity::per_client::holder;

/// Limits on concurrent fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchBounds {
    /// The total. Each fetch holds a socket and at most the memory of one body. Default: 512, so that a single client
    /// may have
    /// 224 for origins that are new to it.
    pub total: usize,
    /// The maximum per host, across all its ports. Default: 4.
    pub per_host: usize,
    /// The number reserved for origins whose cached copy is about to expire, so that a flood of new origins delays no
    /// refetch.
    /// Default: 64.
    pub reserved: usize,
}

impl Default for FetchBounds {
    fn default() -> Self {
        Self {
            total: 512,
            per_host: 4,
            reserved: 64,
        }
    }
}

/// The crawler and client that a fetch is for. The default stands for wayleave itself, which refreshes copies in
/// time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Asker {
    /// The crawler's name.
    crawler: String,
    /// The client's address.
    client: Option<IpAddr>,
}

impl Asker {
    /// Returns the key of a crawler's request from `client`. All addresses of one network holder count as one client.
    pub(super) fn of(crawler: &str, client: Option<IpAddr>) -> Self {
        Self {
            crawler: crawler.to_owned(),
            client: client.map(holder),
        }
    }
}

/// A document to fetch, and its stored entry.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) resource: Resource,
    pub(super) entry: Entry,
    pub(super) fetch_as: FetchAs,
}

/// The class of a fetch, by the result of the last one, in order of priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It was answered.
    Good,
    /// There was none.
    New,
    /// It failed.
    Failing,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Good, Self::New, Self::Failing];

    fn of(entry: &Entry) -> Self {
        match (&entry.failing, &entry.answer) {
            (Some(_), _) => Self::Failing,
            (None, Some(_)) => Self::Good,
            (None, None) => Self::New,
        }
    }
}

/// The next action.
#[derive(Debug)]
pub(super) enum Next {
    /// Start this fetch. It counts as running until [`FetchQueue::finished`].
    Start(Job),
    /// Give up this fetch: nobody waits for it any more.
    Drop(Resource),
}

/// The queue of fetches.
#[derive(Debug)]
pub(super) struct Queue {
    bounds: FetchBounds,
    waiting: HashMap<Resource, Waiting>,
    /// The waiting fetches, by [`Kind`].
    turns: [Turns; 3],
    /// Fetches that wait for another one to the same host to end.
    held: HashMap<Box<str>, VecDeque<(Asker, Resource)>>,
    running: Running,
}

#[derive(Debug)]
struct Waiting {
    job: Job,
    askers: HashSet<Asker>,
}

/// The keys in round-robin order, each with its waiting documents. Documents whose fetch has started are skipped
/// later.
#[derive(Debug, Default)]
struct Turns {
    ring: VecDeque<Asker>,
    wanted: HashMap<Asker, VecDeque<Resource>>,
}

/// The number of running fetches, in total and by key, crawler and host.
#[derive(Debug, Default)]
struct Running {
    total: usize,
    by_asker: HashMap<Asker, usize>,
    by_crawler: HashMap<String, usize>,
    by_host: HashMap<Box<str>, usize>,
    askers: HashMap<Resource, Asker>,
}

impl Queue {
    pub(super) fn new(bounds: FetchBounds) -> Self {
        Self {
            bounds,
            waiting: HashMap::new(),
            turns: Default::default(),
            held: HashMap::new(),
            running: Running::default(),
        }
    }

    /// Adds a fetch wanted by these keys. A document is in the queue at most once.
    pub(super) fn push(&mut self, job: Job, askers: HashSet<Asker>) {
        let turns = &mut self.turns[Kind::of(&job.entry) as usize];
        for asker in &askers {
            turns.add(asker, &job.resource);
        }
        let resource = job.resource.clone();
        self.waiting.insert(resource, Waiting { job, askers });
    }

    /// Adds another key to a waiting fetch, which may start earlier by that. Returns whether it still waits.
    pub(super) fn join(&mut self, resource: &Resource, asker: &Asker) -> bool {
        let Some(waiting) = self.waiting.get_mut(resource) else {
            return false;
        };
        if waiting.askers.insert(asker.clone()) {
            self.turns[Kind::of(&waiting.job.entry) as usize].add(asker, resource);
        }
        true
    }

    /// Returns whether a fetch of this document is waiting.
    pub(super) fn is_waiting(&self, resource: &Resource) -> bool {
        self.waiting.contains_key(resource)
    }

    /// Returns the next action. A fetch that `is_abandoned` is given up when its turn comes, unless it refreshes a
    /// valid copy.
    pub(super) fn next(&mut self, is_abandoned: impl Fn(&Resource) -> bool) -> Option<Next> {
        Kind::ALL
            .into_iter()
            .find_map(|kind| self.next_of(kind, &is_abandoned))
    }

    fn next_of(&mut self, kind: Kind, is_abandoned: &impl Fn(&Resource) -> bool) -> Option<Next> {
        let free = self.free(kind);
        // A key whose fetches all wait for their hosts yields to the next: each key is tried once.
        for _ in 0..self.turns[kind as usize].ring.len() {
            if free == 0 {
                return None;
            }
            let asker = self.turns[kind as usize].ring.pop_front()?;
            let may_start = self.running.is_within_share(&asker, free);
            let next = may_start.then(|| self.next_for(&asker, kind, is_abandoned));
            self.turns[kind as usize].put_back(asker);
            if let Some(next) = next.flatten() {
                return Some(next);
            }
        }
        None
    }

    /// Returns how many more fetches of this class may start.
    fn free(&self, kind: Kind) -> usize {
        let total = self.bounds.total.max(1);
        let most = match kind {
            Kind::Good => total,
            Kind::New | Kind::Failing => total.saturating_sub(self.bounds.reserved).max(1),
        };
        most.saturating_sub(self.running.total)
    }

    /// Returns the first of a key's fetches that may start.
    fn next_for(
        &mut self,
        asker: &Asker,
        kind: Kind,
        is_abandoned: &impl Fn(&Resource) -> bool,
    ) -> Option<Next> {
        loop {
            let wanted = self.turns[kind as usize].wanted.get_mut(asker)?;
            let resource = wanted.pop_front()?;
            // Another key's turn has started it already.
            if !self.waiting.contains_key(&resource) {
                continue;
            }
            if kind != Kind::Good && is_abandoned(&resource) {
                self.waiting.remove(&resource);
                self.release(resource.origin().host());
                return Some(Next::Drop(resource));
            }
            // It returns to the front of its key's queue when a fetch to the host ends.
            if self.running.at_host(resource.origin().host()) >= self.bounds.per_host.max(1) {
                let held = self
                    .held
                    .entry(resource.origin().host().into())
                    .or_default();
                held.push_back((asker.clone(), resource));
                continue;
            }
            let waiting = self.waiting.remove(&resource)?;
            self.running.begin(resource, asker);
            return Some(Next::Start(waiting.job));
        }
    }

    /// Records that a running fetch has ended.
    pub(super) fn ended(&mut self, resource: &Resource) {
        self.running.end(resource);
        self.release(resource.origin().host());
    }

    /// Makes the next fetch that waits for this host eligible again.
    fn release(&mut self, host: &str) {
        let Some(held) = self.held.get_mut(host) else {
            return;
        };
        let waiting = &self.waiting;
        // Fetches that another key has started meanwhile are skipped, or the host's turn would be lost.
        let released = std::iter::from_fn(|| held.pop_front())
            .find_map(|(asker, resource)| Some((asker, waiting.get(&resource)?)));
        if let Some((asker, waiting)) = released {
            let kind = Kind::of(&waiting.job.entry);
            self.turns[kind as usize].add_first(&asker, &waiting.job.resource);
        }
        if held.is_empty() {
            self.held.remove(host);
        }
    }
}

impl Turns {
    fn add(&mut self, asker: &Asker, resource: &Resource) {
        self.wanted_by(asker).push_back(resource.clone());
    }

    fn add_first(&mut self, asker: &Asker, resource: &Resource) {
        self.wanted_by(asker).push_front(resource.clone());
    }

    fn wanted_by(&mut self, asker: &Asker) -> &mut VecDeque<Resource> {
        if !self.wanted.contains_key(asker) {
            self.ring.push_back(asker.clone());
        }
        self.wanted.entry(asker.clone()).or_default()
    }

    /// Ends a key's turn. It gets another one if more of its documents wait.
    fn put_back(&mut self, asker: Asker) {
        match self.wanted.get(&asker) {
            Some(wanted) if !wanted.is_empty() => self.ring.push_back(asker),
            _ => drop(self.wanted.remove(&asker)),
        }
    }
}

impl Running {
    /// Returns whether a key may have one more fetch while `free` are left: a client holds fewer than are left for
    /// others, and
    /// all clients of a crawler together fewer than twice as many. Newcomers therefore always find room, and heavy
    /// users get
    /// equal shares.
    fn is_within_share(&self, asker: &Asker, free: usize) -> bool {
        let of_crawler = self.by_crawler.get(&asker.crawler).copied();
        self.by_asker.get(asker).copied().unwrap_or_default() < free
            && of_crawler.unwrap_or_default() < free.saturating_mul(2)
    }

    fn at_host(&self, host: &str) -> usize {
        self.by_host.get(host).copied().unwrap_or_default()
    }

    fn begin(&mut self, resource: Resource, asker: &Asker) {
        self.total += 1;
        *self.by_asker.entry(asker.clone()).or_default() += 1;
        *self.by_crawler.entry(asker.crawler.clone()).or_default() += 1;
        *self
            .by_host
            .entry(resource.origin().host().into())
            .or_default() += 1;
        self.askers.insert(resource, asker.clone());
    }

    fn end(&mut self, resource: &Resource) {
        let Some(asker) = self.askers.remove(resource) else {
            return;
        };
        self.total -= 1;
        one_less(&mut self.by_asker, &asker);
        one_less(&mut self.by_crawler, &asker.crawler);
        one_less(&mut self.by_host, resource.origin().host());
    }
}

fn one_less<K, Q>(counts: &mut HashMap<K, usize>, key: &Q)
where
    K: std::borrow::Borrow<Q> + std::hash::Hash + Eq,
    Q: std::hash::Hash + Eq + ?Sized,
{
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests;
