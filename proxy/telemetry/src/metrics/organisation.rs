//! Metrics of the configuration, rules, crawlers, the decision log and waits for slots.

use prometheus::{Histogram, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry};

use super::constructors::{counter, counters, gauge, gauges, gauges_by, histogram};

/// Buckets from a tenth of a second to the default of `politeness.max_delay`.
const WAIT_SECONDS: &[f64] = &[0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0];
const BUDGET_USED: &str =
    "Use of a crawler's daily budget since midnight UTC, on all nodes as far as this one knows.";
const BUDGET_LIMIT: &str = "A crawler's daily budget; no series without one.";
const CA_EXPIRY: &str = "Time at which the certificate of the interception CA expires.";
const CRAWL_DELAY_WAITS: &str = "Time that requests waited for a slot at an origin.";
const SLOW_DOWNS: &str =
    "Times that requests to a server were slowed down, by cause (politeness.adaptive).";
const SLOWED_PACES: &str =
    "Paces that are slowed down, of servers and of single clients there (politeness.adaptive).";
const DECISIONS_DROPPED: &str = "Decisions missing from the decision log: the writer was too slow, or the file could not be written.";
const DECISION_LOG_ALTERED: &str =
    "Times that the decision log was found altered, each an `altered` line in it.";
const DECISION_LOG_UNSIGNED: &str = "1 while the head of the decision log cannot be written, so that new lines are not signed, else 0.";
const DECISION_LOG_FOREIGN_FILES: &str =
    "Files beside the decision log that have such names and do not belong to it.";
const EXCEPTION_EXPIRY: &str =
    "Time at which the next exception to robots.txt expires; 0 if there is none.";
const RELOAD_SUCCESSFUL: &str = "1 if the last reload of the configuration succeeded, else 0.";
const RELOAD_SUCCESS_AT: &str = "Time of the last successful reload of the configuration.";
const RULES: &str = "The organisation's rules, by whether they are active or expired.";
const USER_AGENT_MISMATCHES: &str =
    "Requests of known crawlers whose User-Agent contains none of their tokens.";

/// The metrics of the organisation's configuration.
#[derive(Debug)]
pub(super) struct OrganisationMetrics {
    pub(super) user_agent_mismatches: IntCounterVec,
    pub(super) budget_used: IntGaugeVec,
    pub(super) budget_limit: IntGaugeVec,
    pub(super) rules: IntGaugeVec,
    pub(super) exception_expiry: IntGauge,
    pub(super) ca_expiry: IntGauge,
    pub(super) decisions_dropped: IntCounter,
    pub(super) decision_log_altered: IntCounter,
    pub(super) decision_log_unsigned: IntGauge,
    pub(super) decision_log_foreign_files: IntGauge,
    pub(super) crawl_delay_waits: Histogram,
    pub(super) slow_downs: IntCounterVec,
    pub(super) slowed_paces: IntGauge,
    pub(super) reload_successful: IntGauge,
    pub(super) reload_success_at: IntGauge,
}

impl OrganisationMetrics {
    pub(super) fn new(registry: &Registry) -> anyhow::Result<Self> {
        Ok(Self {
            user_agent_mismatches: counters(
                registry,
                "user_agent_mismatches_total",
                USER_AGENT_MISMATCHES,
                &["crawler"],
            )?,
            budget_used: gauges_by(registry, "budget_used", BUDGET_USED, &["crawler", "budget"])?,
            budget_limit: gauges_by(
                registry,
                "budget_limit",
                BUDGET_LIMIT,
                &["crawler", "budget"],
            )?,
            rules: gauges(registry, "rules", RULES, "state")?,
            exception_expiry: gauge(
                registry,
                "exception_expiry_timestamp_seconds",
                EXCEPTION_EXPIRY,
            )?,
            ca_expiry: gauge(registry, "ca_expiry_timestamp_seconds", CA_EXPIRY)?,
            slow_downs: counters(registry, "slow_downs_total", SLOW_DOWNS, &["cause"])?,
            slowed_paces: gauge(registry, "slowed_paces", SLOWED_PACES)?,
            crawl_delay_waits: histogram(
                registry,
                "crawl_delay_wait_duration_seconds",
                CRAWL_DELAY_WAITS,
                WAIT_SECONDS,
            )?,
            reload_successful: gauge(registry, "config_last_reload_successful", RELOAD_SUCCESSFUL)?,
            reload_success_at: gauge(
                registry,
                "config_last_reload_success_timestamp_seconds",
                RELOAD_SUCCESS_AT,
            )?,
            decisions_dropped: counter(registry, "decisions_dropped_total", DECISIONS_DROPPED)?,
            decision_log_unsigned: gauge(registry, "decision_log_unsigned", DECISION_LOG_UNSIGNED)?,
            decision_log_foreign_files: gauge(
                registry,
                "decision_log_foreign_files",
                DECISION_LOG_FOREIGN_FILES,
            )?,
            decision_log_altered: counter(
                registry,
                "decision_log_altered_total",
                DECISION_LOG_ALTERED,
            )?,
        })
    }
}
