//! The requests of a report over time.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use utoipa::ToSchema;
use wayleave_decision::RequestOutcome;

use super::entry::ReportEntry;

/// The most steps.
const MAX_STEPS: u64 = 100;
/// The lengths of a step in seconds, of which the shortest is chosen that has not too many steps.
const STEPS: [u64; 20] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 14_400, 21_600, 28_800,
    43_200, 86_400,
];
/// The most crawlers of a step that are counted by name.
const MAX_NAMES: usize = 64;
/// The name of the others.
const OTHERS: &str = "(others)";

/// The requests over time.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ReportTimeline)]
pub struct Timeline {
    /// The length of a step, in seconds.
    pub step_seconds: u64,
    /// The oldest first; steps without requests included.
    pub points: Vec<TimelinePoint>,
}

/// The requests of one step.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[schema(as = ReportStep)]
pub struct TimelinePoint {
    /// The end of the step, in milliseconds since 1970.
    pub at_ms: u64,
    /// The requests by outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// The requests that were refused, by crawler.
    pub refused_by_crawler: BTreeMap<String, u64>,
    /// The requests that were refused, by reason.
    pub refused_by_reason: BTreeMap<String, u64>,
}

impl Timeline {
    pub(super) fn new(since: SystemTime, until: SystemTime) -> Self {
        let since = seconds(since);
        let until = seconds(until);
        let span = until.saturating_sub(since);
        let step = STEPS.into_iter().find(|step| span / step < MAX_STEPS);
        // Of years: as many days as are needed.
        let days = || (span / (86_400 * MAX_STEPS) + 1) * 86_400;
        let step_seconds = step.unwrap_or_else(days);
        let point = |number: u64| TimelinePoint {
            at_ms: (number + 1) * step_seconds * 1000,
            ..TimelinePoint::default()
        };
        let points = (since / step_seconds..=until / step_seconds).map(point).collect();
        Self { step_seconds, points }
    }

    pub(super) fn count(&mut self, entry: &ReportEntry<'_>, at: SystemTime) {
        let first = self.points.first().map_or(0, |point| point.at_ms / 1000);
        let steps = (seconds(at) + self.step_seconds).saturating_sub(first) / self.step_seconds;
        let index = usize::try_from(steps).unwrap_or(usize::MAX);
        let Some(point) = self.points.get_mut(index) else {
            return;
        };
        add(&mut point.outcomes, &entry.outcome);
        if entry.outcome == RequestOutcome::Refused {
            add(&mut point.refused_by_crawler, &entry.crawler);
            add(&mut point.refused_by_reason, &entry.reason);
        }
    }
}

fn seconds(at: SystemTime) -> u64 {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

/// Counts one request by a name, which is only copied if it is new.
fn add(counts: &mut BTreeMap<String, u64>, name: &str) {
    if let Some(count) = counts.get_mut(name) {
        *count += 1;
        return;
    }
    let name = if counts.len() < MAX_NAMES { name } else { OTHERS };
    *counts.entry(name.to_owned()).or_default() += 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_at_most_a_hundred_and_one_steps() {
        let until = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_123);
        for (span, step) in [
            (300, 5),
            (3600, 60),
            (86_400, 900),
            (7 * 86_400, 7200),
            (30 * 86_400, 28_800),
            (1_800_000_123, 18_057_600),
        ] {
            let timeline = Timeline::new(until - Duration::from_secs(span), until);
            assert!(timeline.points.len() <= 101, "{span}: {}", timeline.points.len());
            assert_eq!(timeline.step_seconds, step, "{span}");
            let first = &timeline.points[0];
            let last = timeline.points.last().expect("one");
            assert!(first.at_ms / 1000 > 1_800_000_123 - span, "{span}");
            assert!(last.at_ms / 1000 > 1_800_000_123, "{span}");
        }
    }
}
