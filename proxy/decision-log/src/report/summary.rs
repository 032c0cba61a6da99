//! The summary of a log by crawler, host, rule or reason: how many requests, and how many of them were refused.

use serde::Serialize;
use utoipa::ToSchema;
use wayleave_decision::RequestOutcome;

use super::dimension::{NO_NAME, ReportDimension};
use super::entry::ReportEntry;
use super::payments::PaymentCost;
use super::query::ReportBounds;
use crate::bounded_map::{BoundedMap, Weight};

/// The most names among which the first of a client, a token or a User-Agent is found: these names may be long.
const MAX_NAMES_OF_SENDERS: usize = 4;

/// The requests of one crawler or client, to one host, or decided by one rule or for one reason.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Counts)]
pub struct SummaryRow {
    pub name: String,
    /// The team or the address that answers for a crawler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    pub requests: u64,
    pub refused: u64,
    /// The part of the requests that was refused, from 0 to 1.
    pub refused_share: f64,
    /// The requests that were forwarded only because refusals are observed.
    pub would_be_refused: u64,
    pub would_be_refused_share: f64,
    /// The requests that enforcement would have held for a while, and then sent.
    pub would_wait: u64,
    /// The time for which enforcement would have held these, all together.
    pub would_wait_seconds: f64,
    /// The time for which the requests waited for their slots, all together.
    pub waited_seconds: f64,
    pub failed: u64,
    /// The rule of the most frequent pair of rule and host by which requests were refused, or would have been. Of a host or an
    /// origin, that of rule and crawler; of a rule or a reason, the pair of crawler and host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_rule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_crawler: Option<String>,
    /// The product token of most requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_user_agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_client: Option<String>,
    /// The sum of demands for payment, in each currency. Only by crawler and by host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub would_have_cost: Vec<PaymentCost>,
}

impl SummaryRow {
    /// Returns the name of another dimension that is first, if it is one of [`ReportDimension::others`].
    pub fn first(&self, of: ReportDimension) -> Option<&str> {
        match of {
            ReportDimension::Crawler => self.first_crawler.as_deref(),
            ReportDimension::Host => self.first_host.as_deref(),
            ReportDimension::Rule => self.first_rule.as_deref(),
            ReportDimension::Reason | ReportDimension::Origin => None,
            ReportDimension::Token => self.first_token.as_deref(),
            ReportDimension::UserAgent => self.first_user_agent.as_deref(),
            ReportDimension::Client => self.first_client.as_deref(),
        }
    }
}

/// A summary in the making.
#[derive(Debug)]
pub(super) struct Summary {
    by: ReportDimension,
    max_names: usize,
    groups: BoundedMap<Box<str>, SummaryGroup>,
}

/// The names in the two other dimensions of which the first are told.
#[derive(Debug)]
enum FirstNames {
    /// The refusals by pairs of names: those that are first must have been refused together.
    Pairs(BoundedMap<Box<str>, u64>),
    /// The requests of a sender by the names in each dimension.
    Each([BoundedMap<Box<str>, u64>; 2]),
}

/// The character between the names of a pair. Neither hosts nor names of crawlers, which come second, have it.
const PAIRED: &str = "\n";

impl FirstNames {
    fn new(by: ReportDimension, max_names: usize) -> Self {
        let names = || BoundedMap::new(max_names, |count| (*count, 0));
        if by.is_sender() { Self::Each([names(), names()]) } else { Self::Pairs(names()) }
    }

    fn count(&mut self, names: [&str; 2]) {
        match self {
            Self::Pairs(pairs) => {
                *pairs.entry(names.join(PAIRED).into(), u64::default) += 1;
            }
            Self::Each(counts) => {
                for (counts, name) in counts.iter_mut().zip(names) {
                    *entry_of(counts, name, u64::default) += 1;
                }
            }
        }
    }

    fn first(&self) -> [Option<String>; 2] {
        match self {
            Self::Pairs(pairs) => {
                let first = pairs.first().and_then(|(pair, _)| pair.rsplit_once(PAIRED));
                [first.map(|(one, _)| one.to_owned()), first.map(|(_, other)| other.to_owned())]
            }
            Self::Each(counts) => {
                counts.each_ref().map(|names| names.first().map(|(name, _)| name.to_string()))
            }
        }
    }
}

#[derive(Debug)]
struct SummaryGroup {
    owner: Option<Box<str>>,
    requests: u64,
    refused: u64,
    observed: u64,
    would_wait: u64,
    would_wait_us: u64,
    waited_us: u64,
    failed: u64,
    names: FirstNames,
}

impl SummaryGroup {
    fn new(by: ReportDimension, max_names: usize) -> Self {
        Self {
            owner: None,
            requests: 0,
            refused: 0,
            observed: 0,
            would_wait: 0,
            would_wait_us: 0,
            waited_us: 0,
            failed: 0,
            names: FirstNames::new(by, max_names),
        }
    }

    fn weight(&self) -> Weight {
        (self.refused + self.observed, self.requests)
    }

    fn into_row(self, name: Box<str>, by: ReportDimension) -> SummaryRow {
        let share = |count: u64| count as f64 / self.requests.max(1) as f64;
        let mut row = SummaryRow {
            name: name.into(),
            owner: None,
            requests: self.requests,
            refused: self.refused,
            refused_share: share(self.refused),
            would_be_refused: self.observed,
            would_be_refused_share: share(self.observed),
            would_wait: self.would_wait,
            would_wait_seconds: self.would_wait_us as f64 / 1e6,
            waited_seconds: self.waited_us as f64 / 1e6,
            failed: self.failed,
            first_rule: None,
            first_host: None,
            first_crawler: None,
            first_token: None,
            first_user_agent: None,
            first_client: None,
            would_have_cost: Vec::new(),
        };
        for (other, first) in by.others().into_iter().zip(self.names.first()) {
            match other {
                ReportDimension::Rule => row.first_rule = first,
                ReportDimension::Host => row.first_host = first,
                ReportDimension::Crawler => row.first_crawler = first,
                ReportDimension::Reason | ReportDimension::Origin => {}
                ReportDimension::Token => row.first_token = first,
                ReportDimension::UserAgent => row.first_user_agent = first,
                ReportDimension::Client => row.first_client = first,
            }
        }
        row.owner = self.owner.map(Into::into);
        row
    }
}

impl Summary {
    pub(super) fn new(by: ReportDimension, bounds: ReportBounds) -> Self {
        let groups = BoundedMap::new(bounds.groups, SummaryGroup::weight);
        Self { by, max_names: max_names(by, bounds), groups }
    }

    /// Returns the property that it counts by.
    pub(super) fn by(&self) -> ReportDimension {
        self.by
    }

    /// Counts one decision. `rule`: its rule or reason, if it is a refusal or if they are counted.
    pub(super) fn count(&mut self, entry: &ReportEntry<'_>, rule: &str) {
        let name = |by| match by {
            ReportDimension::Crawler => &*entry.crawler,
            ReportDimension::Host => entry.host().unwrap_or(NO_NAME),
            ReportDimension::Origin => entry.origin().unwrap_or(NO_NAME),
            ReportDimension::Rule => rule,
            ReportDimension::Reason => &*entry.reason,
            ReportDimension::Token => entry.token().unwrap_or(NO_NAME),
            ReportDimension::UserAgent => entry.user_agent().unwrap_or(NO_NAME),
            ReportDimension::Client => entry.client().unwrap_or(NO_NAME),
        };
        let by = self.by;
        let max_names = self.max_names;
        let group = entry_of(&mut self.groups, name(by), || SummaryGroup::new(by, max_names));
        group.requests += 1;
        if let Some(wait_us) = entry.would_wait_us() {
            group.would_wait += 1;
            group.would_wait_us = group.would_wait_us.saturating_add(wait_us);
        }
        group.waited_us = group.waited_us.saturating_add(entry.waited_us);
        match entry.request_outcome() {
            Some(RequestOutcome::Refused) => group.refused += 1,
            Some(RequestOutcome::Observed) => group.observed += 1,
            Some(RequestOutcome::Failed) => group.failed += 1,
            _ => {}
        }
        if entry.is_refusal() || self.by.is_sender() {
            group.names.count(by.others().map(name));
        }
        // The last one counts: an owner may have changed.
        if self.by == ReportDimension::Crawler && group.owner.as_deref() != entry.owner.as_deref() {
            group.owner = entry.owner.as_deref().map(Into::into);
        }
    }

    /// Returns the number of names that were left out, and the rows: those with most refusals first.
    pub(super) fn into_rows(self) -> (u64, Vec<SummaryRow>) {
        let by = self.by;
        let left_out = self.groups.forgotten();
        let rows = self.groups.into_entries().map(|(name, group)| group.into_row(name, by));
        let mut rows: Vec<_> = rows.collect();
        let refusals = |row: &SummaryRow| row.refused + row.would_be_refused;
        rows.sort_unstable_by(|one, other| {
            (refusals(other).cmp(&refusals(one)))
                .then(other.requests.cmp(&one.requests))
                .then_with(|| one.name.cmp(&other.name))
        });
        (left_out, rows)
    }
}

/// Returns the most names among which the first of another dimension is found.
fn max_names(by: ReportDimension, bounds: ReportBounds) -> usize {
    match by {
        ReportDimension::Crawler | ReportDimension::Reason => bounds.names_of_few,
        ReportDimension::Host | ReportDimension::Origin | ReportDimension::Rule => {
            bounds.names_of_many
        }
        ReportDimension::Token | ReportDimension::UserAgent | ReportDimension::Client => {
            MAX_NAMES_OF_SENDERS
        }
    }
}

/// Returns the value of a name, which is only copied if it is new.
fn entry_of<'a, V>(
    map: &'a mut BoundedMap<Box<str>, V>,
    name: &str,
    new: impl FnOnce() -> V,
) -> &'a mut V {
    if map.find(name).is_some() {
        return map.find(name).expect("it was found");
    }
    map.entry(name.into(), new)
}
