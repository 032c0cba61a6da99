//! The queue of fetches: limits in total and per host, and fair shares among clients, so that nobody waits behind one
//! client's many fetches. README.md explains the rules.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use wayleave_fairness::Holder;
use wayleave_lifecycle::{CacheEntry, FetchIdentity, Resource};

/// Limits on concurrent fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchLimits {
    /// The total. Each fetch holds a socket and at most the memory of one body. Default: 512, so that a single client
    /// may have 224 for origins that are new to it.
    pub total: usize,
    /// The maximum per host, across all its ports. Default: 4.
    pub(crate) per_host: usize,
    /// The number reserved for origins whose cached copy is about to expire, so that a flood of new origins delays no
    /// refetch. Default: 64.
    pub reserved: usize,
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self { total: 512, per_host: 4, reserved: 64 }
    }
}

/// The crawler and client that a fetch is for. The default stands for wayleave itself, which refreshes copies in time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct FairnessKey {
    /// The crawler's name.
    crawler: String,
    /// The client's address.
    client: Holder,
}

impl FairnessKey {
    /// Returns the key of a crawler's request from `client`. All addresses of one network holder count as one client.
    pub(super) fn new(crawler: &str, client: Option<IpAddr>) -> Self {
        Self { crawler: crawler.to_owned(), client: client.map_or(Holder::OWN, Holder::of_client) }
    }
}

/// A document to fetch, and its stored entry.
#[derive(Debug)]
pub(super) struct FetchJob {
    pub(super) resource: Resource,
    pub(super) entry: CacheEntry,
    /// The identity of the first request that waits for it; `None` if none does.
    pub(super) requested_as: Option<Arc<FetchIdentity>>,
    /// The proxies that this request passed through.
    pub(super) via: Option<Arc<[u8]>>,
}

/// The class of a fetch, by the result of the last one, in order of priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FetchClass {
    /// It was answered.
    Good,
    /// There was none.
    New,
    /// It failed.
    Failing,
}

impl FetchClass {
    const ALL: [Self; 3] = [Self::Good, Self::New, Self::Failing];

    fn of_entry(entry: &CacheEntry) -> Self {
        match (&entry.failures, &entry.answer) {
            (Some(_), _) => Self::Failing,
            (None, Some(_)) => Self::Good,
            (None, None) => Self::New,
        }
    }
}

/// The next action.
#[derive(Debug)]
pub(super) enum NextFetch {
    /// Start this fetch. It counts as running until [`FetchQueue::finished`].
    Start(FetchJob),
    /// Give up this fetch: nobody waits for it any more.
    Abandon(Resource),
}

/// The queue of fetches.
#[derive(Debug)]
pub(super) struct FetchQueue {
    limits: FetchLimits,
    waiting: HashMap<Resource, QueuedFetch>,
    /// The waiting fetches, by [`FetchClass`].
    rings: [FairRing; 3],
    /// Fetches that wait for another one to the same host to end.
    waiting_for_host: HashMap<Box<str>, VecDeque<(FairnessKey, Resource)>>,
    running: FetchCounts,
}

#[derive(Debug)]
struct QueuedFetch {
    job: FetchJob,
    keys: HashSet<FairnessKey>,
}

/// The keys in round-robin order, each with its waiting documents. Documents whose fetch has started are skipped later.
#[derive(Debug, Default)]
struct FairRing {
    ring: VecDeque<FairnessKey>,
    queued: HashMap<FairnessKey, VecDeque<Resource>>,
}

/// The number of running fetches, in total and by key, crawler and host.
#[derive(Debug, Default)]
struct FetchCounts {
    total: usize,
    by_key: HashMap<FairnessKey, usize>,
    by_crawler: HashMap<String, usize>,
    by_host: HashMap<Box<str>, usize>,
    keys: HashMap<Resource, FairnessKey>,
}

impl FetchQueue {
    pub(super) fn new(limits: FetchLimits) -> Self {
        Self {
            limits,
            waiting: HashMap::new(),
            rings: Default::default(),
            waiting_for_host: HashMap::new(),
            running: FetchCounts::default(),
        }
    }

    /// Adds a fetch for these keys. A document is in the queue at most once.
    pub(super) fn push(&mut self, job: FetchJob, keys: HashSet<FairnessKey>) {
        let ring = &mut self.rings[FetchClass::of_entry(&job.entry) as usize];
        for key in &keys {
            ring.queue_of(key).push_back(job.resource.clone());
        }
        let resource = job.resource.clone();
        self.waiting.insert(resource, QueuedFetch { job, keys });
    }

    /// Adds another key to a waiting fetch, which may start earlier by that. Returns whether it still waits.
    pub(super) fn join(&mut self, resource: &Resource, key: &FairnessKey) -> bool {
        let Some(waiting) = self.waiting.get_mut(resource) else {
            return false;
        };
        if waiting.keys.insert(key.clone()) {
            let ring = &mut self.rings[FetchClass::of_entry(&waiting.job.entry) as usize];
            ring.queue_of(key).push_back(resource.clone());
        }
        true
    }

    /// Returns whether a fetch of this document is waiting.
    pub(super) fn is_waiting(&self, resource: &Resource) -> bool {
        self.waiting.contains_key(resource)
    }

    /// Returns the next action. A fetch that `is_abandoned` is given up when it is next, unless it refreshes a valid
    /// copy.
    pub(super) fn next(&mut self, is_abandoned: impl Fn(&Resource) -> bool) -> Option<NextFetch> {
        FetchClass::ALL.into_iter().find_map(|class| self.next_of(class, &is_abandoned))
    }

    fn next_of(
        &mut self,
        class: FetchClass,
        is_abandoned: &impl Fn(&Resource) -> bool,
    ) -> Option<NextFetch> {
        let free = self.free(class);
        if free == 0 {
            return None;
        }
        // A key whose fetches all wait for their hosts yields to the next: each key is tried once.
        for _ in 0..self.rings[class as usize].ring.len() {
            let key = self.rings[class as usize].ring.pop_front()?;
            let is_within_share = self.running.is_within_share(&key, free);
            let next =
                if is_within_share { self.next_for(&key, class, is_abandoned) } else { None };
            self.rings[class as usize].return_to_ring(key);
            if next.is_some() {
                return next;
            }
        }
        None
    }

    /// Returns how many more fetches of this class may start.
    fn free(&self, class: FetchClass) -> usize {
        // At least one, or no robots.txt would ever be fetched.
        let total = self.limits.total.max(1);
        let most = match class {
            FetchClass::Good => total,
            FetchClass::New | FetchClass::Failing => {
                total.saturating_sub(self.limits.reserved).max(1)
            }
        };
        most.saturating_sub(self.running.total)
    }

    /// Returns the first of a key's fetches that may start.
    fn next_for(
        &mut self,
        key: &FairnessKey,
        class: FetchClass,
        is_abandoned: &impl Fn(&Resource) -> bool,
    ) -> Option<NextFetch> {
        loop {
            let resource = self.rings[class as usize].queued.get_mut(key)?.pop_front()?;
            // It was started already for another key.
            if !self.waiting.contains_key(&resource) {
                continue;
            }
            // A good copy is refreshed even if nobody waits, so that the next request need not.
            if class != FetchClass::Good && is_abandoned(&resource) {
                self.waiting.remove(&resource);
                // If it had waited for its host, the place that was released for it goes to the next.
                self.release_host(resource.origin().host());
                return Some(NextFetch::Abandon(resource));
            }
            // It returns to the front of its key's queue when a fetch to the host ends.
            if self.running.at_host(resource.origin().host()) >= self.limits.per_host.max(1) {
                self.waiting_for_host
                    .entry(resource.origin().host().into())
                    .or_default()
                    .push_back((key.clone(), resource));
                continue;
            }
            let waiting = self.waiting.remove(&resource)?;
            self.running.start(resource, key);
            return Some(NextFetch::Start(waiting.job));
        }
    }

    /// Records that a running fetch has ended.
    pub(super) fn finished(&mut self, resource: &Resource) {
        self.running.finish(resource);
        self.release_host(resource.origin().host());
    }

    /// Makes the next fetch that waits for this host eligible again.
    fn release_host(&mut self, host: &str) {
        let Some(queued) = self.waiting_for_host.get_mut(host) else {
            return;
        };
        let waiting = &self.waiting;
        // Those that were started for another key meanwhile are skipped, or the free place would be lost.
        let released = std::iter::from_fn(|| queued.pop_front())
            .find_map(|(key, resource)| Some((key, waiting.get(&resource)?)));
        if let Some((key, waiting)) = released {
            let ring = &mut self.rings[FetchClass::of_entry(&waiting.job.entry) as usize];
            ring.queue_of(&key).push_front(waiting.job.resource.clone());
        }
        if queued.is_empty() {
            self.waiting_for_host.remove(host);
        }
    }
}

impl FairRing {
    /// Returns the queue of a key, which joins the ring if it was not in it.
    fn queue_of(&mut self, key: &FairnessKey) -> &mut VecDeque<Resource> {
        if !self.queued.contains_key(key) {
            self.ring.push_back(key.clone());
        }
        self.queued.entry(key.clone()).or_default()
    }

    /// Puts a key at the end of the ring if more of its documents wait.
    fn return_to_ring(&mut self, key: FairnessKey) {
        match self.queued.get(&key) {
            Some(queued) if !queued.is_empty() => self.ring.push_back(key),
            // Removed, or the map would grow with every client ever seen.
            _ => drop(self.queued.remove(&key)),
        }
    }
}

impl FetchCounts {
    /// Returns whether a key may have one more fetch while `free` are left: a client holds fewer than are left for
    /// others, and all clients of a crawler together fewer than twice as many. Newcomers therefore always find a free
    /// fetch, and heavy users get equal shares.
    fn is_within_share(&self, key: &FairnessKey, free: usize) -> bool {
        let of_crawler = self.by_crawler.get(&key.crawler).copied().unwrap_or_default();
        self.by_key.get(key).copied().unwrap_or_default() < free
            && of_crawler < free.saturating_mul(2)
    }

    fn at_host(&self, host: &str) -> usize {
        self.by_host.get(host).copied().unwrap_or_default()
    }

    fn start(&mut self, resource: Resource, key: &FairnessKey) {
        self.total += 1;
        *self.by_key.entry(key.clone()).or_default() += 1;
        *self.by_crawler.entry(key.crawler.clone()).or_default() += 1;
        *self.by_host.entry(resource.origin().host().into()).or_default() += 1;
        self.keys.insert(resource, key.clone());
    }

    fn finish(&mut self, resource: &Resource) {
        let Some(key) = self.keys.remove(resource) else {
            return;
        };
        self.total -= 1;
        decrement(&mut self.by_key, &key);
        decrement(&mut self.by_crawler, &key.crawler);
        decrement(&mut self.by_host, resource.origin().host());
    }
}

fn decrement<K, Q>(counts: &mut HashMap<K, usize>, key: &Q)
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
