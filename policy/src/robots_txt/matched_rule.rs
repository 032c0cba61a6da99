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

/// A rule that matches, as a number that is the greater the sooner the rule decides: the bytes of its pattern, or where
/// order decides how early it stands; then whether it allows, then how early it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MatchedRule(NonZeroU64);

impl MatchedRule {
    const ALLOW: u64 = 1 << 32;
    const EARLY: u64 = Self::ALLOW - 1;
    const LENGTH: u32 = 33;
    const MAX_LENGTH: usize = (1 << 31) - 1;

    /// Takes the length of the pattern in bytes and which statement of the file it is.
    pub(crate) fn new(length: usize, allow: bool, statement: usize) -> Self {
        let allow = if allow { Self::ALLOW } else { 0 };
        let early = Self::EARLY - statement as u64;
        let number = (length as u64) << Self::LENGTH | allow | early;
        Self(NonZeroU64::new(number).expect("a file has far less than 2^32 statements"))
    }

    /// The same where the first rule that matches decides.
    pub(crate) fn in_order(allow: bool, statement: usize) -> Self {
        Self::new(Self::MAX_LENGTH - statement, allow, statement)
    }

    /// Whether the pattern is empty.
    pub(crate) fn is_empty(self) -> bool {
        self.0.get() >> Self::LENGTH == 0
    }

    pub(crate) fn is_allow(self) -> bool {
        self.0.get() & Self::ALLOW != 0
    }

    /// Which statement of the file it is.
    pub(crate) fn statement(self) -> usize {
        (Self::EARLY - (self.0.get() & Self::EARLY)) as usize
    }
}
