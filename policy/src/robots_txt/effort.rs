//! Effort: what an index costs to build, and how much of that one decision may take upon itself.

use super::stream::{PLAIN, WILD};

/// What is left for one decision. What it cannot afford, it searches rule by rule, and a later
/// decision builds the index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort(usize);

impl Effort {
    /// About a millisecond, and 10,000 rules of 64 octets. No index costs more, for groups with more rules have none.
    pub(super) const MOST: usize = 480_000;

    /// Whether another index may be begun: only the first may take all, since to search a group once costs far less.
    pub(super) fn may_begin(self) -> bool {
        self.0 > Self::MOST / 4 * 3
    }

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

/// What a rule adds to the cost of an index, in units of about two nanoseconds: to sort it costs more than its octets, but
/// a value with stars may be all parts, and one that dialects rewrite is written anew.
pub(super) fn cost(form: u8, octets: usize) -> usize {
    match form {
        PLAIN => 32 + octets / 4,
        WILD => 40 + octets * 5 / 2,
        _ => 160 + octets * 5 / 2,
    }
}

/// What a search in vain costs, in octets read.
pub(super) fn search_cost(path: &[u8]) -> usize {
    const SETTING_OUT: usize = 512;
    SETTING_OUT + path.len()
}
