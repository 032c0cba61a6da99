//! The number of robots.txt files in each state, now and later: kept up to date as entries come and go, so that nobody
//! has to read all of them to know.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry::{Occupied, Vacant};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use wayleave_lifecycle::{LifetimeSettings, RefreshScheduler, Resource, Snapshot, SnapshotState};

use super::tables::decode;
use crate::record::EntryRecord;

/// The number of entries in each state, in the order of [`SnapshotState::ALL`].
pub(super) type StateCounts = [usize; 4];
/// Differences of such numbers.
type StateDeltas = [i64; 4];

const HOUR: u64 = 60 * 60;
const TWO_DAYS: u64 = 48 * HOUR;

/// The entries by state, and the times at which they change state by themselves.
#[derive(Clone, Debug)]
pub(super) struct StateTally {
    lifetimes: Arc<LifetimeSettings>,
    /// The time of `sums`, in seconds since the epoch, as are all times here.
    now: u64,
    sums: StateDeltas,
    /// The differences to add at each time.
    later: BTreeMap<u64, StateDeltas>,
}

impl StateTally {
    /// Returns an empty tally.
    pub(super) fn new(lifetimes: Arc<LifetimeSettings>, now: SystemTime) -> Self {
        Self { lifetimes, now: seconds(now), sums: StateDeltas::default(), later: BTreeMap::new() }
    }

    /// Returns an empty tally by the same lifetimes, to be merged into this one.
    pub(super) fn empty_like(&self) -> Self {
        Self {
            lifetimes: self.lifetimes.clone(),
            now: self.now,
            sums: StateDeltas::default(),
            later: BTreeMap::new(),
        }
    }

    /// Adds a record.
    pub(super) fn add(&mut self, key: &str, sealed: &[u8]) {
        self.count(key, sealed, 1);
    }

    /// Removes a record.
    pub(super) fn remove(&mut self, key: &str, sealed: &[u8]) {
        self.count(key, sealed, -1);
    }

    fn count(&mut self, key: &str, sealed: &[u8], change: i64) {
        let Some(snapshot) = self.snapshot(key, sealed) else {
            return;
        };
        // An entry that was never fetched is in no state.
        let Some(since) = snapshot.fetched_at().or(snapshot.unreachable_since()) else {
            return;
        };
        let last_use = snapshot.discard_at(&self.lifetimes);
        let ends = [snapshot.fresh_until(), snapshot.usable_until()];
        // A state may end before `now` already, such as in an entry that has been stored for long.
        let mut moments: Vec<_> = ends.into_iter().flatten().chain([last_use]).collect();
        moments.sort();
        let mut state = Some(snapshot.state(since));
        let mut state_now = state;
        for at in moments {
            let next = (at < last_use).then(|| snapshot.state(at));
            let moment = rounded_moment(at, since);
            if moment <= self.now {
                state_now = next;
            } else {
                self.add_later(moment, transition(state, next, change));
            }
            state = next;
        }
        add(&mut self.sums, transition(None, state_now, change));
    }

    /// Returns the snapshot of a shared robots.txt record, without its body; `None` for other documents.
    fn snapshot(&self, key: &str, sealed: &[u8]) -> Option<Snapshot> {
        let record: EntryRecord = decode(key, sealed)?;
        let resource = Resource::parse_key(key).ok()?;
        if !resource.is_shared_robots_txt() {
            return None;
        }
        let entry = record.into_entry(&resource, None);
        let mut cache = RefreshScheduler::new(LifetimeSettings::clone(&self.lifetimes));
        Some(cache.restore(&resource, &entry.into()))
    }

    fn add_later(&mut self, moment: u64, sums: StateDeltas) {
        if sums == StateDeltas::default() {
            return;
        }
        match self.later.entry(moment) {
            Vacant(place) => drop(place.insert(sums)),
            Occupied(mut place) => {
                add(place.get_mut(), sums);
                // An entry that is replaced takes its moments back; kept as zeros, they would pile up.
                if *place.get() == StateDeltas::default() {
                    place.remove();
                }
            }
        }
    }

    /// Adds the counts of `other`, which has the same lifetimes.
    pub(super) fn merge(&mut self, mut other: Self) {
        // Sums are those of one moment, so both have to be at the same one.
        let now = self.now.max(other.now);
        self.advance(now);
        other.advance(now);
        add(&mut self.sums, other.sums);
        for (moment, sums) in other.later {
            self.add_later(moment, sums);
        }
    }

    /// Returns the number of entries in each state at `now`, or at the last call if the clock was set back.
    pub(super) fn counts_at(&mut self, now: SystemTime) -> StateCounts {
        self.advance(seconds(now));
        self.sums.map(|sum| usize::try_from(sum).unwrap_or(0))
    }

    fn advance(&mut self, now: u64) {
        self.now = self.now.max(now);
        while let Some(first) = self.later.first_entry()
            && *first.key() <= self.now
        {
            add(&mut self.sums, first.remove());
        }
    }
}

fn add(sums: &mut StateDeltas, others: StateDeltas) {
    for (sum, other) in sums.iter_mut().zip(others) {
        *sum += other;
    }
}

/// Returns the differences when `entries` change their state.
fn transition(from: Option<SnapshotState>, to: Option<SnapshotState>, entries: i64) -> StateDeltas {
    let has = |state: Option<SnapshotState>, one| i64::from(state == Some(one));
    SnapshotState::ALL.map(|one| entries * (has(to, one) - has(from, one)))
}

fn seconds(at: SystemTime) -> u64 {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Returns `at` rounded up: the longer a state applies, the coarser, so that millions of entries share a few thousand
/// times.
fn rounded_moment(at: SystemTime, since: SystemTime) -> u64 {
    let step = match at.duration_since(since).unwrap_or_default().as_secs() {
        0..HOUR => 1,
        HOUR..TWO_DAYS => 60,
        _ => HOUR,
    };
    let at = seconds(at + Duration::from_nanos(999_999_999));
    at.div_ceil(step) * step
}
