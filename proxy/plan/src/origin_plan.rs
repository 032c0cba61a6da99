//! The URLs of one origin: the verdicts on them, and the pace of those that are sent.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use wayleave_admission::delay_of;
use wayleave_decision::{Crawler, DecisionFacts, Reason, TargetScope};
use wayleave_decision_log::rule_name_of;
use wayleave_pacing::{PaceUnit, PacingConfig};
use wayleave_record::{DecisionRecord, PaymentRecord};
use wayleave_robots_txt::Origin;

/// The verdict on a URL, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlannedVerdict {
    Forward,
    Observe,
    Refuse,
    /// It may be another one when the origin, or DNS, answers again.
    Undecided,
}

/// The plan for the URLs of one origin.
#[derive(Clone, Debug)]
pub struct OriginPlan {
    pub origin: Origin,
    /// The unit that keeps one pace.
    pub unit: PaceUnit,
    /// The time between two requests.
    pub delay: Duration,
    pub forwarded: u64,
    pub observed: u64,
    pub refused: u64,
    pub undecided: u64,
    /// The number of requests for robots.txt, which are answered from the copy: they keep no pace, and are free.
    pub from_copy: u64,
    /// The refused URLs, by the rule that refuses, as reports name it.
    pub refused_by: BTreeMap<String, RefusedUrls>,
    /// The prices that licences ask for, and the number of URLs that each refuses otherwise, by the price as JSON.
    pub licence_prices: BTreeMap<String, (PaymentRecord, u64)>,
    /// The reason why the first undecided URL is so, in a sentence or a word.
    pub undecided_because: Option<String>,
    /// The longest delay that robots.txt asks for.
    robots_delay: Option<Duration>,
    /// Whether that is known, also if it asks for none.
    pub is_robots_delay_known: bool,
    /// Whether requests keep no pace, because its tunnels are not inspected.
    is_bypassed: bool,
}

/// The URLs that one rule refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedUrls {
    pub count: u64,
    /// The first of them.
    pub example: String,
}

impl OriginPlan {
    pub fn new(origin: Origin) -> Self {
        Self {
            unit: PaceUnit::Origin(origin.clone()),
            origin,
            delay: Duration::ZERO,
            forwarded: 0,
            observed: 0,
            refused: 0,
            undecided: 0,
            from_copy: 0,
            refused_by: BTreeMap::new(),
            licence_prices: BTreeMap::new(),
            undecided_because: None,
            robots_delay: None,
            is_robots_delay_known: false,
            is_bypassed: false,
        }
    }

    /// Notes the pace that a decision about one of its URLs leads to.
    pub fn note_pace(&mut self, facts: &DecisionFacts) {
        self.is_bypassed |= facts.scope == Some(TargetScope::Bypass);
        self.robots_delay = self.robots_delay.max(facts.delay);
    }

    /// Notes the delay that its robots.txt asks for. Decisions that refuse have none.
    pub fn note_robots_delay(&mut self, delay: Option<Duration>) {
        self.is_robots_delay_known = true;
        self.robots_delay = self.robots_delay.max(delay);
    }

    /// Counts the verdict on a URL, which the log would record as `decision`.
    pub fn count(&mut self, decision: &DecisionRecord, verdict: PlannedVerdict) {
        match verdict {
            PlannedVerdict::Forward => self.forwarded += 1,
            PlannedVerdict::Observe => self.observed += 1,
            PlannedVerdict::Undecided => {
                self.undecided += 1;
                let why =
                    || decision.details.clone().unwrap_or_else(|| decision.reason.to_string());
                self.undecided_because.get_or_insert_with(why);
            }
            PlannedVerdict::Refuse => {
                self.refused += 1;
                let rule = rule_name_of(decision).into_owned();
                let example = || RefusedUrls { count: 0, example: decision.url.clone() };
                self.refused_by.entry(rule).or_insert_with(example).count += 1;
            }
        }
        if let Some(payment) = &decision.payment {
            let price = self.licence_prices.entry(json!(payment).to_string());
            price.or_insert_with(|| (payment.clone(), 0)).1 += 1;
        }
        let is_sent = matches!(verdict, PlannedVerdict::Forward | PlannedVerdict::Observe);
        if is_sent && decision.reason == Reason::RobotsTxtItself {
            self.from_copy += 1;
        }
    }

    /// Sets the delay that the proxy keeps, and the unit that keeps it.
    pub fn set_pace(&mut self, pacing: &PacingConfig, crawler: Option<&Crawler>, unit: PaceUnit) {
        if !self.is_bypassed {
            self.delay = delay_of(pacing, crawler, self.robots_delay);
            self.unit = unit;
        }
    }

    /// Returns the number of URLs.
    pub fn urls(&self) -> u64 {
        self.requests() + self.refused + self.undecided
    }

    /// Returns the number of requests that would be sent or answered.
    pub fn requests(&self) -> u64 {
        self.forwarded + self.observed
    }

    /// Returns the number of requests that would be sent to the origin.
    pub fn sent(&self) -> u64 {
        self.requests() - self.from_copy
    }

    /// Returns the time that its requests take, in seconds, if no other origin shares its pace.
    pub fn seconds(&self) -> f64 {
        self.sent() as f64 * self.delay.as_secs_f64()
    }

    /// Returns the members of its row.
    pub(crate) fn to_json(&self) -> Value {
        let mut row = json!({
            "host": self.origin.host(),
            "origin": self.origin.to_string(),
            "urls": self.urls(),
            "requests": self.requests(),
            "refused": self.refused,
            "undecided": self.undecided,
            "delay_seconds": self.delay.as_secs_f64(),
            "hours": self.seconds() / 3600.0,
            "unit": self.unit.to_string(),
        });
        if let Some(why) = &self.undecided_because {
            row["undecided_because"] = why.as_str().into();
        }
        row
    }
}
