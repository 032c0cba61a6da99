//! The requests to each host, as a site may be told of them: by day and purpose, and the refusals by the line that refused.
//!
//! URLs, clients and the organisation's own rules are left out: a statement is for whoever knows the host.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use serde::Serialize;
use wayleave_decision::{ASSERTED, Reason, RequestOutcome, well_known_owner};
use wayleave_record::{DecisionRecord, UsePreference, Word};
use wayleave_robots_txt::ProductToken;
use wayleave_usage_preferences::{Purpose, PurposeSet};

use super::rule_name::rank_of_preference;

/// The most tokens of a crawler.
const MAX_TOKENS: usize = 100;
/// The word for the purposes of a client that states something else.
const UNKNOWN_PURPOSE: &str = "unknown";

/// The requests of a time range, by host.
#[derive(Debug, Default)]
pub struct SiteRequests {
    hosts: BTreeMap<String, HostRequests>,
    /// The times of the first and of the last decision about any host.
    pub first_at: Option<SystemTime>,
    pub last_at: Option<SystemTime>,
}

/// The requests to one host.
#[derive(Debug, Default)]
pub struct HostRequests {
    by_day: BTreeMap<DayOfRequests, OutcomeCounts>,
    refusals: BTreeMap<SiteRefusal, RefusalCount>,
    /// The first product token of requests, by crawler: the name by which robots.txt stops it.
    tokens: BTreeMap<String, BTreeSet<String>>,
}

/// The requests of a crawler on one day for the same purposes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct DayOfRequests {
    /// The day, in UTC.
    pub day: String,
    /// The crawler's configured name; `asserted` for clients that match none, `wayleave` for the proxy itself.
    pub crawler: String,
    /// The purposes that the client states, or else those that the crawler declares.
    pub purposes: Vec<Word<Purpose>>,
}

/// The numbers of these requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OutcomeCounts {
    /// The number of requests with each outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// The number of refused requests that had reached the origin, and whose response was withheld.
    pub withheld: u64,
}

/// The cause of refusals, as far as the site made it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SiteRefusal {
    pub crawler: String,
    /// `refused`, or `observed`: the request was sent, although it should have been refused.
    pub outcome: String,
    pub reason: String,
    /// The robots.txt that refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub robots_txt: Option<String>,
    /// The number of its line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The line, or the statement about use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The purpose that the statement about use refuses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
    /// The place of that statement, such as `robots.txt:17`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carrier: Option<String>,
}

/// The number of refusals with one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusalCount {
    pub count: u64,
    pub first_day: String,
    pub last_day: String,
}

impl SiteRequests {
    /// Counts a decision; one without an origin is about no host.
    pub fn count(&mut self, decision: &DecisionRecord) {
        let Some(host) = decision.host() else {
            return;
        };
        self.first_at = Some(self.first_at.map_or(decision.at, |first| first.min(decision.at)));
        self.last_at = self.last_at.max(Some(decision.at));
        match self.hosts.get_mut(host) {
            Some(found) => found.count(decision),
            None => self.hosts.entry(host.to_owned()).or_default().count(decision),
        }
    }

    /// Returns the hosts in alphabetical order.
    pub fn hosts(&self) -> impl Iterator<Item = (&str, &HostRequests)> {
        self.hosts.iter().map(|(host, requests)| (host.as_str(), requests))
    }
}

impl HostRequests {
    fn count(&mut self, decision: &DecisionRecord) {
        let crawler = decision.crawler.clone().into_owned();
        let day = day_of(decision.at);
        let purposes = purposes(decision);
        let key = DayOfRequests { day: day.clone(), crawler: crawler.clone(), purposes };
        let counts = self.by_day.entry(key).or_default();
        *counts.outcomes.entry(decision.outcome.to_string()).or_default() += 1;
        counts.withheld += u64::from(decision.reached_origin);
        if decision.request_outcome().is_some_and(RequestOutcome::is_refusal) {
            let found = self.refusals.entry(SiteRefusal::of(decision));
            let count = found.or_insert_with(|| RefusalCount {
                count: 0,
                first_day: day.clone(),
                last_day: day.clone(),
            });
            count.count += 1;
            // Lines are in the order in which exchanges ended, and nodes are read one after the other.
            if day < count.first_day {
                count.first_day.clone_from(&day);
            }
            if day > count.last_day {
                count.last_day = day;
            }
        }
        let is_asserted = crawler == ASSERTED;
        let tokens = self.tokens.entry(crawler).or_default();
        // Clients that match no [[crawler]] choose their own. The name of somebody else's crawler must not get into the lines
        // that stop ours: a site that copies them would stop that one.
        let was_sent = decision.request_outcome().is_some_and(RequestOutcome::is_sent);
        let may_name = |token: &&String| {
            let is_ours = !is_asserted || was_sent && well_known_owner(token).is_none();
            is_ours && ProductToken::new(token).is_ok()
        };
        let token = decision.tokens.first().filter(may_name);
        tokens.extend(token.filter(|_| tokens.len() < MAX_TOKENS).cloned());
    }

    /// Returns the requests, by day.
    pub fn by_day(&self) -> impl Iterator<Item = (&DayOfRequests, &OutcomeCounts)> {
        self.by_day.iter()
    }

    /// Returns the refusals by their cause.
    pub fn refusals(&self) -> impl Iterator<Item = (&SiteRefusal, &RefusalCount)> {
        self.refusals.iter()
    }

    /// Returns the crawlers, each with the names by which robots.txt stops it.
    pub fn crawlers(&self) -> impl Iterator<Item = (&str, &BTreeSet<String>)> {
        self.tokens.iter().map(|(crawler, tokens)| (crawler.as_str(), tokens))
    }
}

impl SiteRefusal {
    fn of(decision: &DecisionRecord) -> Self {
        let mut refusal = Self {
            crawler: decision.crawler.clone().into_owned(),
            outcome: decision.outcome.to_string(),
            reason: decision.reason.to_string(),
            robots_txt: None,
            line: None,
            rule: None,
            purpose: None,
            carrier: None,
        };
        // By the reason: the record may also name a rule of robots.txt that allowed the request.
        match decision.reason.known() {
            Some(Reason::Rule) => {
                let finding = decision.finding.as_ref();
                refusal.robots_txt =
                    decision.origin.as_ref().map(|origin| format!("{origin}/robots.txt"));
                refusal.line = finding.and_then(|found| found.line);
                refusal.rule = finding.and_then(|found| found.rule.clone());
            }
            Some(Reason::Preference) => {
                let found = deciding(&decision.preferences);
                refusal.purpose = found.map(|it| it.purpose.to_string());
                refusal.carrier = found.and_then(|it| it.carrier.clone());
                refusal.rule = found.and_then(|it| it.statement.clone());
            }
            _ => {}
        }
        refusal
    }
}

/// Returns the preference that refused.
fn deciding(preferences: &[UsePreference]) -> Option<&UsePreference> {
    let ranked = preferences
        .iter()
        .filter_map(|it| Some((rank_of_preference(&it.preference, it.stage.as_ref())?, it)));
    ranked.min_by_key(|(rank, _)| *rank).map(|(_, it)| it)
}

/// Returns the purposes of a request: those that its client states, or else those that its crawler declares. Earlier versions
/// only recorded these with the preferences about them.
fn purposes(decision: &DecisionRecord) -> Vec<Word<Purpose>> {
    if !decision.stated_purposes.is_empty() {
        let stated = decision.stated_purposes.iter();
        // A word that names no purpose is the client's own text. Such a request was refused, whatever the word is.
        let known: Result<PurposeSet, _> = stated.map(|word| word.parse::<Purpose>()).collect();
        return known.map_or_else(
            |_| vec![Word::from(UNKNOWN_PURPOSE)],
            |known| known.iter().map(Word::Known).collect(),
        );
    }
    if decision.purposes.is_empty() {
        return decision.preferences.iter().map(|it| it.purpose.clone()).collect();
    }
    decision.purposes.clone()
}

/// Returns the day of an instant, in UTC.
fn day_of(at: SystemTime) -> String {
    let mut text = humantime::format_rfc3339_seconds(at).to_string();
    text.truncate("2026-11-29".len());
    text
}
