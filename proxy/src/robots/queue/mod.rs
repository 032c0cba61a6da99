//! Which fetch may start: not too many at once, not too many to one host, and never so many for unknown origins that
//! known ones wait behind them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use wayleave_policy::Origin;
use wayleave_policy::lifecycle::Entry;

/// How many fetches may be under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchBounds {
    /// In all. Each holds a socket and at most the memory of one body. Default: 256.
    pub total: usize,
    /// To one host, over all its ports. Default: 4.
    pub per_host: usize,
    /// Kept free for origins that are known already, so that a storm of new ones delays no refetch. Default: 32.
    pub reserved: usize,
}

impl Default for FetchBounds {
    fn default() -> Self {
        Self {
            total: 256,
            per_host: 4,
            reserved: 32,
        }
    }
}

/// An origin to fetch, and what is kept of it so far.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) origin: Origin,
    pub(super) entry: Entry,
    /// By which to fetch it, if not the usual one.
    pub(super) user_agent: Option<Arc<str>>,
}

/// Fetches that wait for their turn, first come, first served.
#[derive(Debug)]
pub(super) struct Queue {
    bounds: FetchBounds,
    known: VecDeque<Job>,
    unknown: VecDeque<Job>,
    /// Waiting for another fetch to the same host to end.
    held: HashMap<Box<str>, VecDeque<(Job, Kind)>>,
    running: usize,
    running_by_host: HashMap<Box<str>, usize>,
}

/// Whether something is known already of the origin to fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Known,
    Unknown,
}

impl Queue {
    pub(super) fn new(bounds: FetchBounds) -> Self {
        Self {
            bounds,
            known: VecDeque::new(),
            unknown: VecDeque::new(),
            held: HashMap::new(),
            running: 0,
            running_by_host: HashMap::new(),
        }
    }

    pub(super) fn push(&mut self, job: Job, kind: Kind) {
        match kind {
            Kind::Known => self.known.push_back(job),
            Kind::Unknown => self.unknown.push_back(job),
        }
    }

    /// The next fetch that may start; it counts as running until [`ended`](Self::ended).
    pub(super) fn start(&mut self) -> Option<Job> {
        loop {
            let (job, kind) = self.next()?;
            let host = job.origin.host();
            let running = self.running_by_host.entry(host.into()).or_default();
            if *running < self.bounds.per_host.max(1) {
                *running += 1;
                self.running += 1;
                return Some(job);
            }
            let held = self.held.entry(host.into()).or_default();
            held.push_back((job, kind));
        }
    }

    fn next(&mut self) -> Option<(Job, Kind)> {
        let total = self.bounds.total.max(1);
        if self.running >= total {
            return None;
        }
        if let Some(job) = self.known.pop_front() {
            return Some((job, Kind::Known));
        }
        let for_unknown = total.saturating_sub(self.bounds.reserved).max(1);
        if self.running >= for_unknown {
            return None;
        }
        Some((self.unknown.pop_front()?, Kind::Unknown))
    }

    /// A fetch that was started has ended.
    pub(super) fn ended(&mut self, origin: &Origin) {
        self.running = self.running.saturating_sub(1);
        let host = origin.host();
        if let Some(running) = self.running_by_host.get_mut(host) {
            *running -= 1;
            if *running == 0 {
                self.running_by_host.remove(host);
            }
        }
        if let Some(held) = self.held.get_mut(host) {
            let released = held.pop_front();
            if held.is_empty() {
                self.held.remove(host);
            }
            match released {
                Some((job, Kind::Known)) => self.known.push_front(job),
                Some((job, Kind::Unknown)) => self.unknown.push_front(job),
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(uri: &str) -> Job {
        Job {
            origin: Origin::parse(uri).expect("an origin"),
            entry: Entry::default(),
            user_agent: None,
        }
    }

    fn started(queue: &mut Queue) -> Vec<String> {
        std::iter::from_fn(|| queue.start())
            .map(|job| job.origin.to_string())
            .collect()
    }

    fn bounds(total: usize, per_host: usize, reserved: usize) -> FetchBounds {
        FetchBounds {
            total,
            per_host,
            reserved,
        }
    }

    #[test]
    fn a_storm_of_unknown_origins_leaves_room_for_known_ones() {
        let mut queue = Queue::new(bounds(4, 4, 1));
        for n in 0..10 {
            queue.push(job(&format!("https://new{n}.example")), Kind::Unknown);
        }
        assert_eq!(started(&mut queue).len(), 3);
        queue.push(job("https://known.example"), Kind::Known);
        assert_eq!(started(&mut queue), ["https://known.example"]);
        queue.push(job("https://known2.example"), Kind::Known);
        assert!(started(&mut queue).is_empty(), "four are running");
        queue.ended(&job("https://new0.example").origin);
        assert_eq!(started(&mut queue), ["https://known2.example"]);
        queue.ended(&job("https://new1.example").origin);
        queue.ended(&job("https://new2.example").origin);
        assert_eq!(started(&mut queue), ["https://new3.example"]);
    }

    #[test]
    fn one_host_holds_up_only_itself() {
        let mut queue = Queue::new(bounds(100, 2, 0));
        for port in 1..=5 {
            queue.push(job(&format!("https://slow.example:{port}")), Kind::Unknown);
        }
        queue.push(job("https://quick.example"), Kind::Unknown);
        let first = [
            "https://slow.example:1",
            "https://slow.example:2",
            "https://quick.example",
        ];
        assert_eq!(started(&mut queue), first);
        queue.ended(&job("https://quick.example").origin);
        assert!(started(&mut queue).is_empty());
        queue.ended(&job("https://slow.example:2").origin);
        assert_eq!(started(&mut queue), ["https://slow.example:3"]);
        for port in [1, 3, 4, 5] {
            queue.ended(&job(&format!("https://slow.example:{port}")).origin);
            started(&mut queue);
        }
        assert!(queue.held.is_empty() && queue.running_by_host.is_empty());
        assert_eq!(queue.running, 0);
    }
}
