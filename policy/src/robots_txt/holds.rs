//! What a path holds, found out when it is first asked: to pass over patterns without searching.

use super::effort::search_cost;
use super::pattern::{Path, find, matches};
use super::sight::Sight;

/// What is spent on searches before it pays to know where the path's octets are: some twenty of short paths, none of one of
/// 16 KiB, whose octets somebody may have chosen to make searching slow.
const FEW_SEARCHES: usize = 12 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Holds {
    octets: Option<Octets>,
    spent: usize,
    sight: Option<Box<Sight>>,
}

impl Holds {
    /// Turns to a path. What is known stays known if it reads as the one before.
    #[inline]
    pub(crate) fn turn_to(&mut self, path: &Path<'_>) {
        self.octets = None;
        self.sight.take_if(|sight| !sight.is_of(path.octets()));
    }

    pub(super) fn octets(&mut self, path: &Path<'_>) -> Octets {
        *self.octets.get_or_insert_with(|| Octets::of(path.octets()))
    }

    /// Whether the parts match the path, the first one at its start. Once many were searched, what the path holds
    /// tells of most without searching.
    #[inline]
    pub(super) fn search<'a>(
        &mut self,
        path: &Path<'_>,
        parts: impl Iterator<Item = &'a [u8]> + Clone,
        anchored: bool,
    ) -> bool {
        let may_hold = |sight: &mut Box<Sight>| sight.may_hold_all(parts.clone());
        if !self.sight.as_mut().is_none_or(may_hold) {
            return false;
        }
        if self.spend(path) {
            return matches(parts, anchored, path.octets());
        }
        let sight = self.sight.as_mut();
        sight.is_some_and(|sight| sight.matches(parts, anchored))
    }

    /// Notes that a pattern is searched for, or written to be. Says whether the path may go on unseen; if not, it is
    /// looked at now.
    pub(super) fn spend(&mut self, path: &Path<'_>) -> bool {
        let octets = path.octets();
        self.spent += search_cost(octets);
        if self.spent <= FEW_SEARCHES {
            return true;
        }
        self.sight
            .get_or_insert_with(|| Box::new(Sight::new(octets)));
        false
    }

    /// Where in the path a part first is, from a place on.
    pub(super) fn find(&mut self, path: &Path<'_>, from: usize, part: &[u8]) -> Option<usize> {
        match &mut self.sight {
            Some(sight) => sight.find(from, part),
            None => find(&path.octets()[from..], part).map(|at| from + at),
        }
    }
}

/// A small set of single octets and pairs, with false positives.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Octets {
    singles: u64,
    pairs: u64,
}

impl Octets {
    pub(super) const ALL: Self = Self {
        singles: u64::MAX,
        pairs: u64::MAX,
    };

    pub(super) fn of(text: &[u8]) -> Self {
        let mut octets = Self::default();
        octets.add(text);
        octets
    }

    pub(super) fn add(&mut self, text: &[u8]) {
        let Some((&first, rest)) = text.split_first() else {
            return;
        };
        self.singles |= 1 << (first & 63);
        let mut before = u32::from(first);
        for &byte in rest {
            let byte = u32::from(byte);
            self.singles |= 1 << (byte & 63);
            self.pairs |= 1 << ((before * 5 + byte) & 63);
            before = byte;
        }
    }

    #[inline]
    pub(super) fn holds(self, other: Self) -> bool {
        (other.singles & !self.singles) | (other.pairs & !self.pairs) == 0
    }
}
