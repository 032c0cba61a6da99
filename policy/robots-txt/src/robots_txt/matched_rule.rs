//! The outcome of matching a path against a file.

use std::num::NonZeroU64;

/// The outcome of matching a path against a file. If there are two outcomes for one path, the greater decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MatchOutcome {
    NoGroup,
    NoRule,
    Rule(MatchedRule),
    /// The budget was spent before all candidates were checked. Greater than any rule, so that it prevails.
    TooCostly,
}

/// A matching rule, as a number that is greater the sooner the rule decides. It consists of the length of its pattern
/// or, where order decides, of its position counted backwards; then whether it allows; then its position counted
/// backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MatchedRule(NonZeroU64);

impl MatchedRule {
    const ALLOW: u64 = 1 << 32;
    const EARLY: u64 = Self::ALLOW - 1;
    const LENGTH: u32 = 33;
    const MAX_LENGTH: usize = (1 << 31) - 1;

    /// Creates a match from the length of the pattern in bytes and the index of the statement.
    pub(crate) fn new(length: usize, allow: bool, statement: usize) -> Self {
        let allow = if allow { Self::ALLOW } else { 0 };
        // Of equal rules the first one is reported.
        let early = Self::EARLY - statement as u64;
        let number = (length as u64) << Self::LENGTH | allow | early;
        Self(NonZeroU64::new(number).expect("a file has far less than 2^32 statements"))
    }

    /// Creates a match for a dialect in which the first matching rule decides.
    pub(crate) fn by_position(allow: bool, statement: usize) -> Self {
        // A file of 256 MiB has fewer statements than that, so the earlier rule is always the greater.
        Self::new(Self::MAX_LENGTH - statement, allow, statement)
    }

    /// Returns whether the pattern is empty.
    pub(crate) fn is_empty(self) -> bool {
        self.0.get() >> Self::LENGTH == 0
    }

    pub(crate) fn is_allow(self) -> bool {
        self.0.get() & Self::ALLOW != 0
    }

    /// Returns the index of the statement.
    pub(crate) fn statement(self) -> usize {
        (Self::EARLY - (self.0.get() & Self::EARLY)) as usize
    }
}
