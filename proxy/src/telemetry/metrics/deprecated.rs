//! Names that metrics had before, exported until the next release for the queries and alerts that use them.

use prometheus::proto::{Counter, Metric, MetricFamily};

/// Former names, with the present ones.
const RENAMED: [(&str, &str); 4] = [
    ("wayleave_crawl_delay_waits_seconds", "wayleave_crawl_delay_wait_duration_seconds"),
    ("wayleave_fleet_born_total", "wayleave_fleet_engine_restarts_total"),
    ("wayleave_fleet_call_seconds", "wayleave_fleet_call_duration_seconds"),
    // It had no labels.
    ("wayleave_snapshot_swaps_total", "wayleave_robots_changes_total"),
];

/// Adds the families of renamed metrics under their former names.
pub(super) fn add_former_names(families: &mut Vec<MetricFamily>) {
    for (former, present) in RENAMED {
        let Some(family) = families.iter().find(|family| family.name() == present) else {
            continue;
        };
        let mut copy = family.clone();
        copy.set_name(former.to_owned());
        copy.set_help(format!("Deprecated: use {present}."));
        if former == "wayleave_snapshot_swaps_total" {
            copy.set_metric(vec![sum(family.get_metric())]);
        }
        families.push(copy);
    }
    families.sort_unstable_by(|a, b| a.name().cmp(b.name()));
}

fn sum(counters: &[Metric]) -> Metric {
    let total = counters.iter().map(|metric| metric.get_counter().get_value()).sum();
    let mut counter = Counter::default();
    counter.set_value(total);
    let mut metric = Metric::default();
    metric.set_counter(counter);
    metric
}
