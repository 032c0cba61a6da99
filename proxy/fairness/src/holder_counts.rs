//! Counts of limited things for each holder.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Holder;

/// The current count of each holder, such as of its connections. A count of zero takes no memory.
#[derive(Debug, Default)]
pub struct HolderCounts(Mutex<HashMap<Holder, usize>>);

/// One thing that a holder has, counted until this is dropped.
#[derive(Debug)]
pub struct HolderCountGuard {
    counts: Arc<HolderCounts>,
    holder: Holder,
}

impl HolderCounts {
    /// Counts one more of a holder's, unless it has `most`.
    pub fn count(self: &Arc<Self>, holder: Holder, most: usize) -> Option<HolderCountGuard> {
        let mut counts = self.lock();
        if counts.get(&holder).copied().unwrap_or_default() >= most {
            return None;
        }
        *counts.entry(holder).or_default() += 1;
        Some(HolderCountGuard { counts: Arc::clone(self), holder })
    }

    /// Returns whether no holder has any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Holder, usize>> {
        // A panic cannot leave a count half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HolderCountGuard {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        if let Some(count) = counts.get_mut(&self.holder) {
            *count -= 1;
            // Clients come and go, so the map must not keep them all.
            if *count == 0 {
                counts.remove(&self.holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_has_as_many_as_it_may_and_nobody_else_is_concerned() {
        let counts = Arc::<HolderCounts>::default();
        let one = Holder::of_client([192, 0, 2, 1].into());
        let held = [counts.count(one, 2), counts.count(one, 2)];
        assert!(held.iter().all(Option::is_some));
        assert!(counts.count(one, 2).is_none());
        assert!(counts.count(Holder::OWN, 1).is_some());
        drop(held);
        assert!(counts.is_empty());
        assert!(counts.count(one, 0).is_none() && counts.is_empty());
    }
}
