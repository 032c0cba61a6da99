//! The findings about the pace of a server, which the nodes of a fleet share.

use std::fmt;

use super::cause::SlowDownCause;
use super::round::{FIRST_RATE, MIN_RATE};

/// The pace of a server as found so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FoundPace {
    /// The most requests per second; `None` if there is no limit.
    pub(super) rate: Option<f64>,
    /// The average pace at which signs came last; `None` before the first.
    pub(super) ceiling: Option<f64>,
    /// The number of signs in a row at about the same pace.
    pub(super) signs_at_ceiling: u32,
    /// The number of rounds above the ceiling.
    pub(super) rounds_above: i32,
    pub(super) last_cause: Option<SlowDownCause>,
}

impl Default for FoundPace {
    fn default() -> Self {
        Self {
            rate: Some(FIRST_RATE),
            ceiling: None,
            signs_at_ceiling: 0,
            rounds_above: 0,
            last_cause: None,
        }
    }
}

impl FoundPace {
    /// Parses the text of another node. Returns `None` if it cannot be read, such as that of a later version.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let mut word = || words.next();
        let pace = Self {
            rate: parse_rate(word()?)?,
            ceiling: parse_rate(word()?)?,
            signs_at_ceiling: word()?.parse().ok()?,
            rounds_above: word()?.parse().ok()?,
            last_cause: parse_cause(word()?)?,
        };
        words.next().is_none().then_some(pace)
    }

    /// Returns whether this is slower than `other`.
    #[must_use]
    pub(crate) fn is_slower_than(&self, other: &Self) -> bool {
        self.rate.unwrap_or(f64::INFINITY) < other.rate.unwrap_or(f64::INFINITY)
    }
}

/// Writes the text that other nodes parse: its fields, in their order.
impl fmt::Display for FoundPace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rate, ceiling, signs_at_ceiling, rounds_above, last_cause } = self;
        for rate in [rate, ceiling] {
            match rate {
                Some(rate) => write!(f, "{rate} ")?,
                None => f.write_str("- ")?,
            }
        }
        let cause = last_cause.map_or("-", SlowDownCause::as_str);
        write!(f, "{signs_at_ceiling} {rounds_above} {cause}")
    }
}

fn parse_rate(word: &str) -> Option<Option<f64>> {
    if word == "-" {
        return Some(None);
    }
    let rate: f64 = word.parse().ok()?;
    // Anything else would stop the crawl, or end all limits.
    (MIN_RATE..f64::INFINITY).contains(&rate).then_some(Some(rate))
}

fn parse_cause(word: &str) -> Option<Option<SlowDownCause>> {
    if word == "-" {
        return Some(None);
    }
    let found = SlowDownCause::ALL.into_iter().find(|cause| cause.as_str() == word);
    found.map(Some)
}
