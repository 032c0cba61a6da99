//! What a path holds, found out when it is first asked: to pass over patterns without searching.

use super::effort::search_cost;
use super::pattern::{Body, Path, matches};
use super::sight::Sight;
use super::stream::Event;
use crate::forms::hex_pair;
use crate::spelling;

/// What is spent on searches before it pays to know the path's pieces: some forty of short paths, two of one of 16 KiB,
/// whose octets somebody may have chosen to make searching slow.
const FEW_SEARCHES: usize = 24 * 1024;

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
        self.sight.take_if(|sight| !sight.turn_to(path.octets()));
    }

    pub(super) fn octets(&mut self, path: &Path<'_>) -> Octets {
        *self.octets.get_or_insert_with(|| Octets::of(path.octets()))
    }

    /// Whether it is known that the last literal octet of a pattern is not where it must be, or that it or the one
    /// behind the first star is nowhere in the path turned to: enough to pass over most rules. To look costs less than to
    /// take the pattern apart.
    #[inline]
    pub(super) fn lacks_an_end_of(&self, body: Body<'_>, path: &Path<'_>) -> bool {
        let Some(sight) = &self.sight else {
            return false;
        };
        let last = last_octet(body.text).filter(|&octet| spelling::is_plain(octet));
        if last.is_some_and(|octet| sight.lacks(octet)) {
            return true;
        }
        if body.anchored && !body.text.ends_with(b"*") {
            return last.is_some_and(|octet| path.octets().last() != Some(&octet));
        }
        let behind_star = memchr::memchr(b'*', body.text).and_then(|star| body.text.get(star + 1));
        behind_star.is_some_and(|&octet| spelling::is_plain(octet) && sight.lacks(octet))
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
        self.sight.as_mut().is_none_or(may_hold) && self.matches(path, parts, anchored)
    }

    /// The same, if it was asked before what the path holds.
    pub(super) fn matches<'a>(
        &mut self,
        path: &Path<'_>,
        parts: impl Iterator<Item = &'a [u8]>,
        anchored: bool,
    ) -> bool {
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
        if self.spent < FEW_SEARCHES {
            self.spent += search_cost(octets);
            return true;
        }
        self.sight
            .get_or_insert_with(|| Box::new(Sight::new(octets)));
        false
    }

    /// Whether a part might be in the path, at a place or behind it, as far as is known. Goes on to where it ends at the
    /// soonest.
    pub(super) fn may_hold(&mut self, from: &mut usize, part: &[u8]) -> bool {
        let sight = self.sight.as_mut();
        sight.is_none_or(|sight| sight.may_hold(from, part))
    }

    /// Whether a rule says what one judged before did, as far as is remembered since much was searched.
    #[inline]
    pub(super) fn is_again(&mut self, stream: &[u8], event: &Event<'_>) -> bool {
        let sight = self.sight.as_mut();
        sight.is_some_and(|sight| sight.seen.is_again(stream, event))
    }
}

/// The last literal octet of a pattern, if it is not of an escape.
#[inline]
fn last_octet(mut pattern: &[u8]) -> Option<u8> {
    while let [before @ .., b'*'] = pattern {
        pattern = before;
    }
    match pattern {
        [.., b'%', high, low] if hex_pair(&[*high, *low]).is_some() => None,
        _ => pattern.last().copied(),
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
