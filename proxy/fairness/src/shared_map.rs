//! A bounded map whose entries belong to holders.

use std::borrow::Borrow;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use slab::Slab;

use crate::Holder;

/// The entries that each insertion checks for being over. Two let a map shrink faster than it grows.
const CHECKED_PER_INSERTION: usize = 2;

/// A bounded map whose entries belong to holders. When it is full, the holder with the most gives way.
///
/// Entries that are over, as the caller says, are removed a few at a time by insertions, so that no insertion looks at
/// more than a few entries, however many there are.
#[derive(Debug)]
pub struct SharedMap<K, V> {
    capacity: usize,
    entries: Slab<SharedEntry<K, V>>,
    by_key: HashMap<K, usize>,
    holders: HashMap<Holder, HeldEntries>,
    by_count: BTreeSet<(usize, Holder)>,
    /// The place of the next entry to check.
    next_check: usize,
}

#[derive(Debug)]
struct SharedEntry<K, V> {
    key: K,
    value: V,
    holder: Holder,
    older: Option<usize>,
    newer: Option<usize>,
}

/// The entries of one holder, a list from the oldest to the newest.
#[derive(Clone, Copy, Debug)]
struct HeldEntries {
    count: usize,
    oldest: usize,
    newest: usize,
}

/// The error for an entry beyond its holder's share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl<K: Clone + Eq + Hash, V> SharedMap<K, V> {
    /// Creates an empty map for at most `capacity` entries, at least one.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            entries: Slab::new(),
            by_key: HashMap::new(),
            holders: HashMap::new(),
            by_count: BTreeSet::new(),
            next_check: 0,
        }
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of entries that belong to a holder.
    #[must_use]
    pub fn count_of(&self, holder: Holder) -> usize {
        self.holders.get(&holder).map_or(0, |held| held.count)
    }

    /// Returns the value of a key.
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.by_key.get(key).map(|&at| &self.entries[at].value)
    }

    /// Returns the value of a key, to change it.
    pub fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.by_key.get(key).map(|&at| &mut self.entries[at].value)
    }

    /// Removes a key, and returns its value.
    pub fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let at = *self.by_key.get(key)?;
        Some(self.remove_at(at).1)
    }

    /// Returns all keys with their values, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().map(|(_, entry)| (&entry.key, &entry.value))
    }

    /// Adds a fact that may be forgotten, or replaces the value of its key. Returns the entry that gave way to it: the
    /// oldest one of the holder with the most.
    pub fn insert(
        &mut self,
        holder: Holder,
        key: K,
        value: V,
        is_over: impl Fn(&V) -> bool,
    ) -> Option<(K, V)> {
        if let Some(known) = self.get_mut(&key) {
            *known = value;
            return None;
        }
        self.remove_some(is_over);
        let is_full = self.entries.len() >= self.capacity;
        let evicted = is_full.then(|| self.remove_of_largest()).flatten();
        self.push(holder, key, value);
        evicted
    }

    /// Returns the value of a key; creates it if its holder's share has room. Nothing gives way to it: for facts that
    /// must not be forgotten while they last. A share is as large as the room that is left, so one holder can fill half
    /// of the map, two can fill a third each, and the next one always finds room.
    ///
    /// # Errors
    ///
    /// If the holder's share is full.
    pub fn get_or_try_insert(
        &mut self,
        holder: Holder,
        key: K,
        new: impl FnOnce() -> V,
        is_over: impl Fn(&V) -> bool,
    ) -> Result<&mut V, NoRoom> {
        let at = match self.by_key.get(&key) {
            Some(&at) => at,
            None => {
                self.remove_some(is_over);
                if self.count_of(holder) >= self.capacity - self.entries.len() {
                    return Err(NoRoom);
                }
                self.push(holder, key, new())
            }
        };
        Ok(&mut self.entries[at].value)
    }

    /// Checks the next few entries, and removes those that are over.
    fn remove_some(&mut self, is_over: impl Fn(&V) -> bool) {
        for _ in 0..CHECKED_PER_INSERTION {
            if self.next_check >= self.entries.capacity() {
                self.next_check = 0;
            }
            if self.entries.get(self.next_check).is_some_and(|entry| is_over(&entry.value)) {
                self.remove_at(self.next_check);
            }
            self.next_check += 1;
        }
    }

    fn remove_of_largest(&mut self) -> Option<(K, V)> {
        let (_, largest) = self.by_count.last()?;
        let oldest = self.holders.get(largest)?.oldest;
        Some(self.remove_at(oldest))
    }

    fn push(&mut self, holder: Holder, key: K, value: V) -> usize {
        let newest_before = self.holders.get(&holder).map(|held| held.newest);
        let entry =
            SharedEntry { key: key.clone(), value, holder, older: newest_before, newer: None };
        let at = self.entries.insert(entry);
        self.by_key.insert(key, at);
        if let Some(before) = newest_before {
            self.entries[before].newer = Some(at);
        }
        let held =
            self.holders.entry(holder).or_insert(HeldEntries { count: 0, oldest: at, newest: at });
        self.by_count.remove(&(held.count, holder));
        held.count += 1;
        held.newest = at;
        self.by_count.insert((held.count, holder));
        at
    }

    fn remove_at(&mut self, at: usize) -> (K, V) {
        let SharedEntry { key, value, holder, older, newer } = self.entries.remove(at);
        self.by_key.remove(&key);
        if let Some(older) = older {
            self.entries[older].newer = newer;
        }
        if let Some(newer) = newer {
            self.entries[newer].older = older;
        }
        let held = self.holders.get_mut(&holder).expect("each entry is one of its holder's");
        self.by_count.remove(&(held.count, holder));
        held.count -= 1;
        held.oldest = if older.is_none() { newer.unwrap_or(at) } else { held.oldest };
        held.newest = if newer.is_none() { older.unwrap_or(at) } else { held.newest };
        if held.count == 0 {
            self.holders.remove(&holder);
        } else {
            self.by_count.insert((held.count, holder));
        }
        (key, value)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::*;

    fn holder(number: u8) -> Holder {
        Holder::of_client(IpAddr::from([192, 0, 2, number]))
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u8, u16),
        TryInsert(u8, u16),
        Remove(u16),
        End(u16),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..4u8, 0..40u16).prop_map(|(holder, key)| Step::Insert(holder, key)),
            4 => (0..4u8, 0..40u16).prop_map(|(holder, key)| Step::TryInsert(holder, key)),
            1 => (0..40u16).prop_map(Step::Remove),
            1 => (0..40u16).prop_map(Step::End),
        ]
    }

    proptest! {
        #[test]
        fn shares_are_kept_whatever_happens(steps in prop::collection::vec(step(), 1..200)) {
            const CAPACITY: usize = 12;
            let mut map: SharedMap<u16, bool> = SharedMap::new(CAPACITY);
            let mut model: Vec<(Holder, u16)> = Vec::new();
            let is_over = |is_over: &bool| *is_over;
            let count = |model: &[(Holder, u16)], of: Holder| {
                model.iter().filter(|(holder, _)| *holder == of).count()
            };
            for step in steps {
                match step {
                    Step::Insert(number, key) => {
                        let own = holder(number);
                        let evicted = map.insert(own, key, false, is_over);
                        model.retain(|(_, known)| map.get(known).is_some() || evicted.is_some_and(|(key, _)| key == *known));
                        if let Some((evicted, _)) = evicted {
                            let at = model.iter().position(|(_, known)| *known == evicted).unwrap();
                            let gave_way = model[at].0;
                            let most = (0..4).map(|number| count(&model, holder(number))).max().unwrap();
                            prop_assert_eq!(count(&model, gave_way), most, "the largest gives way");
                            let oldest = model.iter().position(|(holder, _)| *holder == gave_way);
                            prop_assert_eq!(oldest, Some(at), "its oldest entry goes");
                            model.remove(at);
                        }
                        if !model.iter().any(|(_, known)| *known == key) {
                            model.push((own, key));
                        }
                    }
                    Step::TryInsert(number, key) => {
                        let own = holder(number);
                        let result = map.get_or_try_insert(own, key, || false, is_over).copied();
                        model.retain(|(_, known)| map.get(known).is_some());
                        if result.is_ok() && !model.iter().any(|(_, known)| *known == key) {
                            model.push((own, key));
                        } else if result.is_err() {
                            prop_assert!(count(&model, own) >= CAPACITY - model.len());
                        }
                    }
                    Step::Remove(key) => {
                        prop_assert_eq!(map.remove(&key).is_some(), model.iter().any(|(_, known)| *known == key));
                        model.retain(|(_, known)| *known != key);
                    }
                    Step::End(key) => {
                        if let Some(value) = map.get_mut(&key) {
                            *value = true;
                        }
                    }
                }
                prop_assert!(map.len() <= CAPACITY);
                prop_assert_eq!(map.len(), model.len());
                for number in 0..4 {
                    prop_assert_eq!(map.count_of(holder(number)), count(&model, holder(number)));
                }
                prop_assert!(model.iter().all(|(_, key)| map.get(key).is_some()));
                prop_assert_eq!(map.iter().count(), model.len());
            }
        }
    }

    #[test]
    fn one_holder_leaves_room_for_others() {
        let mut map = SharedMap::new(1_000);
        let fill = |map: &mut SharedMap<usize, ()>, number: u8| {
            let keys = (0..2_000).map(|key| usize::from(number) * 10_000 + key);
            let add = |key| map.get_or_try_insert(holder(number), key, || (), |()| false).is_ok();
            keys.map(add).filter(|is_added| *is_added).count()
        };
        assert_eq!(fill(&mut map, 1), 500);
        assert_eq!(fill(&mut map, 2), 250);
        assert!(fill(&mut map, 3) > 100);
    }

    #[test]
    fn entries_that_are_over_make_room() {
        let mut map = SharedMap::new(100);
        for key in 0..50 {
            map.get_or_try_insert(holder(1), key, || true, |_| false).unwrap();
        }
        for key in 100..150 {
            map.get_or_try_insert(holder(1), key, || false, |is_over| *is_over).unwrap();
        }
        assert_eq!(map.count_of(holder(1)), 50);
    }
}
