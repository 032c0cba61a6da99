//! Effort: what an index costs to build, and how much of that one decision may take upon itself.

use super::stream::{PLAIN, WILD};

/// What is left for one decision. What it cannot afford, it searches rule by rule, and a later
/// decision builds the index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort(usize);

impl Effort {
    /// About a third of a millisecond: 12,000 ordinary rules. No index costs more, for groups with
    /// more rules have none.
    pub(super) const MOST: usize = 500_000;

    /// Takes off a cost, and says whether enough was there.
    pub(super) fn spend(&mut self, cost: usize) -> bool {
        let left = self.0.checked_sub(cost);
        self.0 = left.unwrap_or(0);
        left.is_some()
    }
}

impl Default for Effort {
    fn default() -> Self {
        Self(Self::MOST)
    }
}

/// What a rule adds to the cost of an index: the octets of its value, and a little more; much more
/// if dialects have to rewrite it.
pub(super) fn cost(form: u8, octets: usize) -> usize {
    let besides = match form {
        PLAIN | WILD => 16,
        _ => 160,
    };
    besides + octets
}
