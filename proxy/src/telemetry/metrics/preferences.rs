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
            PreferenceSource::AiTxt,
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
    let labels = ["source", "purpose", "value", "stage"];
    let help = "What sites say about use, by purpose of the crawler.";
    counters(registry, "preferences_total", help, &labels)
}

pub(super) fn start_at_zero(counters: &IntCounterVec) {
    let (allow, refuse, unstated) =
        (Preference::Allow.as_str(), Preference::Refuse.as_str(), Preference::Unstated.as_str());
    for purpose in Purpose::ALL.map(Purpose::as_str) {
        for (stage, sources) in SOURCES {
            for source in sources {
                for value in [allow, refuse] {
                    let labels = [source.as_str(), purpose, value, stage.as_str()];
                    counters.with_label_values(&labels);
                }
            }
        }
        counters.with_label_values(&[NONE, purpose, unstated, PreferenceStage::Before.as_str()]);
    }
}

pub(super) fn count(counters: &IntCounterVec, say: &PurposePreference) {
    let statement = say.statement.as_ref();
    let source = statement.map_or(NONE, |it| it.source.as_str());
    let stage = statement.map_or(PreferenceStage::Before, |it| it.stage);
    let (purpose, value) = (say.purpose.as_str(), say.preference.as_str());
    let labels = [source, purpose, value, stage.as_str()];
    counters.with_label_values(&labels).inc();
}
