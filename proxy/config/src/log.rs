//! `[log]`: the event log and the decision log.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytesize::ByteSize;
use url::Url;
use wayleave_admission::settings::LogFailureMode;
use wayleave_decision_log::{ClientForm, JournalConfig};
use wayleave_telemetry::logging::LogFormat;

use super::reader::{
    Section, at_least, boolean, checked, duration, fixed, none_if_empty, path_in,
    positive_duration, size, size_or_zero,
};
use super::traces;

/// The settings of the event log and the decision log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Text for people or JSON for programs.
    pub format: LogFormat,
    /// Whether each decision is also written as an event.
    pub events: bool,
    /// The decision log; none: decisions are only written as events.
    pub decisions: Option<JournalConfig>,
    /// The form in which clients' addresses are recorded.
    pub client_address: ClientForm,
    /// The treatment of requests while decisions cannot be recorded.
    pub on_failure: LogFailureMode,
    /// Whether the digests of responses' bodies are recorded.
    pub digests_bodies: bool,
    /// The collector that decisions are sent to, to which `/v1/logs` is added.
    pub otlp_endpoint: Option<Url>,
}

/// Reads `[log]`. Paths are relative to `state_dir`; `key` is the file of the key that signs the decision log.
pub(super) fn read(section: &mut Section<'_>, state_dir: &Path, key: PathBuf) -> LogConfig {
    let day = Duration::from_hours(24);
    // Every key is read even if there is no decision log: one that is not read would be reported as unknown.
    let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
    let format = section.word("format", LogFormat::Text, &formats);
    let events = section.key("events", true, boolean);
    let failure_modes = [("forward", LogFailureMode::Forward), ("refuse", LogFailureMode::Refuse)];
    let on_failure = section.word("on_failure", LogFailureMode::Forward, &failure_modes);
    let digests = [("none", false), ("sha-256", true)];
    let digests_bodies = section.word("body_digest", false, &digests);
    let forms = [
        ("full", ClientForm::Full),
        ("network", ClientForm::Network),
        ("keyed", ClientForm::Keyed),
    ];
    let client_address = section.word("client_address", ClientForm::Full, &forms);
    let otlp_endpoint =
        section.key(fixed("otlp_endpoint"), None, none_if_empty(traces::parse_collector));
    let path = section.key(
        "decisions",
        Some(state_dir.join("decisions.jsonl")),
        none_if_empty(path_in(state_dir)),
    );
    let max_size = section.key(
        "decisions_max_size",
        ByteSize::mib(100),
        checked(size, at_least(ByteSize::kib(64))),
    );
    let max_age = section.key("decisions_max_age", day, positive_duration);
    let keep = section.key("decisions_keep", 30 * day, duration);
    let total = section.key("decisions_max_total", ByteSize::b(0), size_or_zero);
    let max_total_bytes = (total.as_u64() > 0).then_some(total.as_u64());
    // The newest file grows to its maximum before a rotated one can be deleted, so two must fit.
    if max_total_bytes.is_some_and(|total| total < max_size.as_u64().saturating_mul(2)) {
        let message = "is less than twice log.decisions_max_size: a rotated file must fit next to the current one";
        section.report("decisions_max_total", message);
    }
    let compresses = section.key("decisions_compress", false, boolean);
    LogConfig {
        format,
        events,
        client_address,
        on_failure,
        digests_bodies,
        otlp_endpoint,
        decisions: path.map(|path| JournalConfig {
            path,
            max_size_bytes: max_size.as_u64(),
            max_age,
            keep,
            max_total_bytes,
            compresses,
            key,
            state_dir: state_dir.to_owned(),
        }),
    }
}
