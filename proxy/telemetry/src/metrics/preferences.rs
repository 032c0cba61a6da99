//! Metrics of usage preferences. Each label has a closed set of values.

use prometheus::{IntCounterVec, Registry};
use wayleave_usage_preferences::{
    Preference, PreferenceSource, PreferenceStage, Purpose, PurposePreference,
};

use super::constructors::counters;

/// The label of the source if nothing is stated.
const NONE: &str = "none";

/// The families of statements that are read at each stage.
const SOURCES: [(PreferenceStage, &[PreferenceSource]); 3] = [
    (
        PreferenceStage::Before,
        &[
            PreferenceSource::ContentUsage,
            PreferenceSource::ContentSignal,
            PreferenceSource::AiTrainingRule,
            PreferenceSource::PolicyToken,
            PreferenceSource::Tdmrep,
            PreferenceSource::Rsl,
        ],
    ),
    (
        PreferenceStage::Head,
        &[
            PreferenceSource::ContentUsage,
            PreferenceSource::ContentSignal,
            PreferenceSource::Tdmrep,
            PreferenceSource::Rsl,
            PreferenceSource::RobotsMeta,
            PreferenceSource::Payment,
        ],
    ),
    (
        PreferenceStage::Body,
        &[PreferenceSource::Tdmrep, PreferenceSource::Rsl, PreferenceSource::RobotsMeta],
    ),
];

pub(super) fn register(registry: &Registry) -> anyhow::Result<IntCounterVec> {
    let help = "Preferences of sites about use, by purpose of the crawler.";
    counters(registry, "preferences_total", help, &["source", "purpose", "value", "stage"])
}

pub(super) fn start_at_zero(counters: &IntCounterVec) {
    let (allow, refuse, unstated) =
        (Preference::Allow.as_str(), Preference::Refuse.as_str(), Preference::Unstated.as_str());
    for purpose in Purpose::ALL.map(Purpose::as_str) {
        for (stage, sources) in SOURCES {
            for source in sources {
                for value in [allow, refuse] {
                    counters.with_label_values(&[source.as_str(), purpose, value, stage.as_str()]);
                }
            }
        }
        counters.with_label_values(&[NONE, purpose, unstated, PreferenceStage::Before.as_str()]);
    }
}

pub(super) fn count(counters: &IntCounterVec, preference: &PurposePreference) {
    let (source, stage) = match &preference.statement {
        Some(statement) => (statement.source.as_str(), statement.stage),
        None => (NONE, PreferenceStage::Before),
    };
    let purpose = preference.purpose.as_str();
    let value = preference.preference.as_str();
    counters.with_label_values(&[source, purpose, value, stage.as_str()]).inc();
}
