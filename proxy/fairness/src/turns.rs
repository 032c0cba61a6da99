//! A queue that serves holders in turn.

use std::collections::{BTreeMap, VecDeque};

use crate::Holder;

/// A queue that serves holders in turn, and each holder's own items in order.
#[derive(Debug)]
pub struct Turns<T> {
    /// The holders with items, the next to be served first.
    order: VecDeque<Holder>,
    /// The items of each of these.
    waiting: BTreeMap<Holder, VecDeque<T>>,
    len: usize,
}

impl<T> Turns<T> {
    /// Creates an empty queue.
    #[must_use]
    pub const fn new() -> Self {
        Self { order: VecDeque::new(), waiting: BTreeMap::new(), len: 0 }
    }

    /// Returns the number of items of all holders.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an item behind all others of its holder.
    pub fn push(&mut self, holder: Holder, item: T) {
        self.len += 1;
        let items = self.waiting.entry(holder).or_default();
        if items.is_empty() {
            self.order.push_back(holder);
        }
        items.push_back(item);
    }

    /// Removes the next item. Its holder's other items wait until all other holders had a turn.
    pub fn pop(&mut self) -> Option<T> {
        let holder = self.order.pop_front()?;
        let items = self.waiting.get_mut(&holder)?;
        let item = items.pop_front()?;
        if items.is_empty() {
            self.waiting.remove(&holder);
        } else {
            self.order.push_back(holder);
        }
        self.len -= 1;
        Some(item)
    }
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::*;

    fn holder(number: u8) -> Holder {
        Holder::of_client(IpAddr::from([192, 0, 2, number]))
    }

    proptest! {
        #[test]
        fn nobody_is_served_twice_while_another_waits(
            steps in prop::collection::vec(prop::option::weighted(0.6, 0..5u8), 1..200),
        ) {
            let mut turns = Turns::new();
            // The items of each holder in order, and how often it was served since it began to wait.
            let mut waiting: HashMap<u8, (Vec<usize>, usize)> = HashMap::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Some(owner) => {
                        turns.push(holder(owner), (owner, number));
                        waiting.entry(owner).or_default().0.push(number);
                    }
                    None => {
                        let Some((owner, item)) = turns.pop() else {
                            prop_assert!(waiting.is_empty());
                            continue;
                        };
                        let (items, _) = waiting.get_mut(&owner).unwrap();
                        prop_assert_eq!(items.remove(0), item, "each holder's items stay in order");
                        for (other, (_, passed_over)) in &mut waiting {
                            *passed_over = if *other == owner { 0 } else { *passed_over + 1 };
                        }
                        waiting.retain(|_, (items, _)| !items.is_empty());
                        let holders = waiting.len();
                        for (_, passed_over) in waiting.values() {
                            prop_assert!(*passed_over <= 5, "{} of {}", passed_over, holders);
                        }
                    }
                }
                prop_assert_eq!(turns.len(), waiting.values().map(|(items, _)| items.len()).sum::<usize>());
            }
        }
    }
}
