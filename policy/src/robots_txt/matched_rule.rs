//! A rule that matches a path, and what a file answers.

use std::num::NonZeroU64;

/// What a file says about a path; of two that are said of one path, the greater counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Answer {
    NoGroup,
    NoRule,
    Rule(MatchedRule),
    /// More than any rule: the budget was spent before all that could decide was looked at.
    TooCostly,
}

/// A rule that matches, as a number that is the greater the sooner the rule decides: the bytes of
/// its pattern, whether it allows, and that it stands early in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MatchedRule(NonZeroU64);

impl MatchedRule {
    const ALLOW: u64 = 1 << 32;
    const EARLY: u64 = Self::ALLOW - 1;

    /// Takes the length of the pattern in bytes, zero where order decides, and the offset of the event.
    pub(crate) fn new(length: usize, allow: bool, offset: usize) -> Self {
        let allow = if allow { Self::ALLOW } else { 0 };
        let early = Self::EARLY - offset as u64;
        let number = (length as u64) << 33 | allow | early;
        Self(NonZeroU64::new(number).expect("offsets are far below 4 GiB"))
    }

    pub(crate) fn length(self) -> u64 {
        self.0.get() >> 33
    }

    pub(crate) fn is_allow(self) -> bool {
        self.0.get() & Self::ALLOW != 0
    }

    pub(crate) fn offset(self) -> usize {
        (Self::EARLY - self.early()) as usize
    }

    /// Where this rule stands among those of which the first decides: the greater the earlier.
    pub(crate) fn early(self) -> u64 {
        self.0.get() & Self::EARLY
    }
}
