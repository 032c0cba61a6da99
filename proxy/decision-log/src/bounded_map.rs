//! A map that forgets the lightest entries when it is full, so that any number of decisions is counted in bounded memory.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

/// The rank of an entry, such as the number of refusals, then the number of requests.
pub(super) type Weight = (u64, u64);

/// A map of bounded size. An entry that it forgets may come again, and then counts from zero: counts of frequent entries
/// are exact, or nearly so.
#[derive(Debug)]
pub(super) struct BoundedMap<K, V> {
    entries: HashMap<K, V>,
    capacity: usize,
    weight: fn(&V) -> Weight,
    forgotten: u64,
}

impl<K: Eq + Hash, V> BoundedMap<K, V> {
    /// Creates an empty map for at most `capacity` entries, of which those of the lowest weight go first.
    pub(super) fn new(capacity: usize, weight: fn(&V) -> Weight) -> Self {
        Self { entries: HashMap::new(), capacity, weight, forgotten: 0 }
    }

    /// Returns the value of a key, made by `new` if it is not there.
    pub(super) fn entry(&mut self, key: K, new: impl FnOnce() -> V) -> &mut V {
        if self.entries.len() >= self.capacity && !self.entries.contains_key(&key) {
            self.forget_half();
        }
        self.entries.entry(key).or_insert_with(new)
    }

    /// Returns the value of a key that is there. Most lines of a log find theirs, and need no key of their own.
    pub(super) fn find<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.entries.get_mut(key)
    }

    /// Removes at least half of the entries, those of the lowest weight.
    fn forget_half(&mut self) {
        let mut weights: Vec<_> = self.entries.values().map(self.weight).collect();
        let middle = weights.len() / 2;
        let (_, median, _) = weights.select_nth_unstable(middle);
        let before = self.entries.len();
        let median = *median;
        let weight = self.weight;
        self.entries.retain(|_, value| weight(value) > median);
        self.forgotten += (before - self.entries.len()) as u64;
    }

    /// Returns all values, in no order.
    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values()
    }

    /// Returns all entries, in no order.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter()
    }

    /// Returns how many entries were forgotten. One that came again counts twice.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Returns the entry of the highest weight.
    pub(super) fn first(&self) -> Option<(&K, &V)>
    where
        K: Ord,
    {
        // By key after the weight, so that two reports of the same log are equal.
        self.entries.iter().max_by(|(one, value), (other, another)| {
            (self.weight)(value).cmp(&(self.weight)(another)).then_with(|| other.cmp(one))
        })
    }

    pub(super) fn into_entries(self) -> impl Iterator<Item = (K, V)> {
        self.entries.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frequent_ones_remain() {
        let mut map = BoundedMap::new(100, |count: &u64| (*count, 0));
        for number in 0..10_000 {
            *map.entry("often".to_owned(), u64::default) += 1;
            *map.entry(format!("rare {number}"), u64::default) += 1;
        }
        assert_eq!(map.first(), Some((&"often".to_owned(), &10_000)));
        assert!(map.forgotten() > 9_800);
        assert!(map.into_entries().count() <= 100);
    }
}
