//! The plan of a whole crawl.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use serde_json::{Value, json};
use wayleave_record::PaymentRecord;

use crate::crawl_time::CrawlTime;
use crate::history::{CrawlHistory, HostHistory};
use crate::origin_plan::{OriginPlan, RefusedUrls};

/// The plan of a crawl.
#[derive(Debug)]
pub struct CrawlPlan {
    /// The origins, in the order of their first URLs.
    pub origins: Vec<OriginPlan>,
    pub time: CrawlTime,
    pub history: CrawlHistory,
}

/// A price that is known before the crawl.
#[derive(Debug)]
pub struct PlannedPrice<'p> {
    pub host: &'p str,
    /// The number of URLs that it concerns; of those from the log, the most.
    pub urls: u64,
    pub payment: &'p PaymentRecord,
    pub from: PriceSource,
}

/// The source of a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PriceSource {
    /// The licence that the site publishes.
    Licence,
    /// The decision log: the host asked for that at least once, perhaps not for each page.
    Log,
}

impl CrawlPlan {
    /// Returns the sum of a number of all origins.
    pub fn sum(&self, number: impl Fn(&OriginPlan) -> u64) -> u64 {
        self.origins.iter().map(number).sum()
    }

    /// Returns the hosts, each once, in their order.
    pub fn hosts(&self) -> Vec<&str> {
        let mut known = HashSet::new();
        let hosts = self.origins.iter().map(|plan| plan.origin.host());
        hosts.filter(|host| known.insert(*host)).collect()
    }

    /// Returns the share of hosts that turned requests away at the edge before; `None` if nothing is known.
    pub fn edge_share(&self) -> Option<f64> {
        let hosts = self.hosts();
        let refusing = hosts.iter().filter(|host| self.history.has_refused(host)).count();
        self.history.missing.is_none().then(|| refusing as f64 / hosts.len().max(1) as f64)
    }

    /// Returns the hosts that turned requests away at the edge before, those that did so most often first.
    pub fn edge_hosts(&self) -> Vec<(&str, &HostHistory)> {
        let hosts = self.hosts().into_iter();
        let known = hosts.filter_map(|host| Some((host, self.history.hosts.get(host)?)));
        let mut refusing: Vec<_> = known.filter(|(_, history)| history.refused > 0).collect();
        refusing.sort_by_key(|(_, history)| std::cmp::Reverse(history.refused));
        refusing
    }

    /// Returns the rules that refuse, with the URLs that each refuses, the most first. The names are those of reports: a line of a
    /// robots.txt is a rule of its origin, and a `[[rule]]` refuses at any.
    pub fn refused(&self) -> Vec<(&str, RefusedUrls)> {
        let mut rules = HashMap::<_, RefusedUrls>::new();
        for (rule, urls) in self.origins.iter().flat_map(|plan| &plan.refused_by) {
            rules
                .entry(rule.as_str())
                .and_modify(|found| found.count += urls.count)
                .or_insert_with(|| urls.clone());
        }
        let mut rules: Vec<_> = rules.into_iter().collect();
        rules
            .sort_by(|one, other| other.1.count.cmp(&one.1.count).then_with(|| one.0.cmp(other.0)));
        rules
    }

    /// Returns the prices that are known, in the order of the hosts: those of licences, and those that hosts asked for before.
    pub fn prices(&self) -> Vec<PlannedPrice<'_>> {
        let mut prices = Vec::new();
        for plan in &self.origins {
            let host = plan.origin.host();
            let licences = plan.licence_prices.values();
            prices.extend(licences.map(|(payment, urls)| PlannedPrice {
                host,
                urls: *urls,
                payment,
                from: PriceSource::Licence,
            }));
            let asked_before = self.history.hosts.get(host).and_then(|it| it.payment.as_ref());
            if let Some(payment) = asked_before.filter(|_| plan.sent() > 0) {
                prices.push(PlannedPrice {
                    host,
                    urls: plan.sent(),
                    payment,
                    from: PriceSource::Log,
                });
            }
        }
        prices
    }

    /// Returns the row of an origin as JSON.
    pub fn origin_to_json(&self, plan: &OriginPlan) -> Value {
        let mut row = plan.to_json();
        if let Some(history) = self.history.hosts.get(plan.origin.host()) {
            row["edge"] = json!(history);
        }
        row
    }

    /// Returns the row of each pace unit as JSON.
    pub fn units_to_json(&self) -> impl Iterator<Item = Value> {
        self.time.units.iter().map(|unit| {
            json!({
                "unit": unit.unit.to_string(),
                "origins": unit.origins,
                "requests": unit.requests,
                "hours": unit.seconds / 3600.0,
            })
        })
    }

    /// Returns the sums as JSON. `notes` are sentences for people.
    pub fn total_to_json(&self, crawler: &str, notes: &[String]) -> Value {
        let refused = self.refused().into_iter().map(
            |(rule, urls)| json!({ "rule": rule, "count": urls.count, "example": urls.example }),
        );
        let prices = self.prices().into_iter().map(|known| {
            let mut row = json!(known.payment);
            row["host"] = known.host.into();
            row["urls"] = known.urls.into();
            row["from"] = json!(known.from);
            row
        });
        let edge_hosts: Vec<_> = self.edge_hosts().into_iter().map(|(host, _)| host).collect();
        json!({
            "crawler": crawler,
            "urls": self.sum(OriginPlan::urls),
            "hosts": self.hosts().len(),
            "forwarded": self.sum(|plan| plan.forwarded),
            "observed": self.sum(|plan| plan.observed),
            "refused_urls": self.sum(|plan| plan.refused),
            "undecided": self.sum(|plan| plan.undecided),
            "requests": self.sum(OriginPlan::requests),
            "hours": self.time.seconds / 3600.0,
            "hours_at_pace": self.time.pace_seconds / 3600.0,
            "limit": self.time.limit.as_str(),
            "refused": refused.collect::<Vec<_>>(),
            "prices": prices.collect::<Vec<_>>(),
            "edge_share": self.edge_share(),
            "edge_hosts": if self.history.missing.is_some() { Value::Null } else { json!(edge_hosts) },
            "notes": notes,
        })
    }
}
