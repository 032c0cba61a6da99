//! The Markdown.

use std::fs;
use std::time::Duration;

use crate::attack::Answers;
use crate::polite::{Latencies, Patience};
use crate::rows::{BASE_LINE, Protocol};

/// A row, by one protocol, of one build.
#[derive(Debug)]
pub(crate) struct Measurement {
    pub(crate) row: &'static str,
    pub(crate) protocol: Protocol,
    pub(crate) build: String,
    /// The polite client before the attack, and beside it.
    pub(crate) idle: Patience,
    pub(crate) loaded: Patience,
    /// The answers that the attackers got, and in which time.
    pub(crate) answers: Answers,
    pub(crate) took: Duration,
    /// The processors that the proxy kept busy.
    pub(crate) processors: f64,
    /// The memory above idle, in bytes.
    pub(crate) memory: u64,
    /// Whether it was stopped for its memory.
    pub(crate) is_cut_short: bool,
}

/// Returns the answers that came after `before`.
pub(crate) fn difference(answers: &Answers, before: &Answers) -> Answers {
    let since = |(status, count): (&u16, &u64)| {
        (*status, count - before.get(status).copied().unwrap_or_default())
    };
    answers.iter().map(since).filter(|(_, count)| *count > 0).collect()
}

/// Describes the machine at this time.
pub(crate) fn heading() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{processors} processors, Linux {}, load before {}", kernel.trim(), load.trim())
}

/// Returns the table of all measurements.
pub(crate) fn table(found: &[Measurement]) -> String {
    const COLUMNS: [&str; 10] = [
        "row",
        "build",
        "polite median, ms",
        "x refusals",
        "polite p99, ms",
        "failed",
        "direct median, p99, ms",
        "answers/s (statuses)",
        "processors",
        "MiB above idle",
    ];
    let mut lines =
        vec![cells(&COLUMNS.map(str::to_owned)), cells(&COLUMNS.map(|_| "---".to_owned()))];
    // Each build has one of these.
    let begins =
        |measured: &&Measurement| measured.row == BASE_LINE && measured.protocol == Protocol::Http1;
    let builds = found.iter().filter(begins).map(|measured| &measured.build);
    lines.extend(builds.map(|build| idle_line(build, found)));
    lines.extend(found.iter().map(|measured| line(measured, found)));
    lines.join("\n")
}

/// Returns the line of a measurement; `found` has that of the refusals.
pub(crate) fn line(measured: &Measurement, found: &[Measurement]) -> String {
    let Measurement { row, protocol, build, loaded, answers, took, .. } = measured;
    let base = found.iter().find(|base| {
        base.row == BASE_LINE && &base.build == build && is_beside(base.protocol, *protocol)
    });
    let median = loaded.proxied.percentile(50);
    let ratio = base.map_or(1.0, |base| {
        median.as_secs_f64() / base.loaded.proxied.percentile(50).as_secs_f64()
    });
    let per_second = answers.values().sum::<u64>() as f64 / took.as_secs_f64();
    let statuses = answers.keys().map(|status| match status {
        0 => "none".to_owned(),
        status => status.to_string(),
    });
    let stopped = if measured.is_cut_short { " (stopped)" } else { "" };
    cells(&[
        format!("{row} {protocol}"),
        build.clone(),
        milliseconds(median),
        format!("{ratio:.1}"),
        milliseconds(loaded.proxied.percentile(99)),
        loaded.proxied.failures.to_string(),
        pair(&loaded.direct),
        format!("{per_second:.0} ({})", statuses.collect::<Vec<_>>().join(", ")),
        format!("{:.1}", measured.processors),
        format!("{}{stopped}", measured.memory >> 20),
    ])
}

/// Returns the line of a build without an attack, over all measurements.
fn idle_line(build: &str, found: &[Measurement]) -> String {
    let (mut proxied, mut direct) = (Latencies::default(), Latencies::default());
    for measured in found.iter().filter(|measured| measured.build == build) {
        proxied.extend(&measured.idle.proxied);
        direct.extend(&measured.idle.direct);
    }
    let [row, build] = ["idle", build].map(str::to_owned);
    let (median, p99) = (proxied.percentile(50), proxied.percentile(99));
    let failures = proxied.failures.to_string();
    let none = String::new;
    cells(&[
        row,
        build,
        milliseconds(median),
        none(),
        milliseconds(p99),
        failures,
        pair(&direct),
        none(),
        none(),
        none(),
    ])
}

/// Returns whether a base line is that of a protocol.
fn is_beside(base: Protocol, protocol: Protocol) -> bool {
    (base == Protocol::Http1) == (protocol == Protocol::Http1)
}

fn pair(latencies: &Latencies) -> String {
    format!(
        "{}, {}",
        milliseconds(latencies.percentile(50)),
        milliseconds(latencies.percentile(99))
    )
}

fn milliseconds(duration: Duration) -> String {
    let milliseconds = duration.as_secs_f64() * 1e3;
    if milliseconds < 100.0 { format!("{milliseconds:.1}") } else { format!("{milliseconds:.0}") }
}

fn cells(cells: &[String]) -> String {
    format!("| {} |", cells.join(" | "))
}
