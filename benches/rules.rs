//! The time to find the organisation's rule for a request, by the number of rules.
//!
//! `cargo bench -p wayleave-benches --bench rules`. Single-threaded; compare how the figures grow from 10 rules to
//! 10,000. On two cores that were busy with other work (load 14), with 10, 1,000 and 10,000 rules:
//!
//! ```text
//! other hosts            0.34 us    0.29 us     0.27 us    the usual request: no rule is for its host
//! one rule per host      0.62 us    0.68 us     0.75 us    only the last rule is for its host
//! one host, no path      0.61 us    0.67 us     0.76 us    all rules are for its host, none for its path
//! one host, one path     2.2  us    11   us     25   us    all rules are for its host, the last one for its path
//! every host, no path    0.52 us    1.7  us     15   us    all rules are for all hosts, and for paths with wildcards
//! every host, one path   3.8  us    15   us     148  us
//! ```

use std::hint::black_box;
use std::time::{Duration, SystemTime};

use criterion::{BenchmarkId, Criterion};
use wayleave_decision::{PolicyRule, PolicyRules, RuleQuery};
use wayleave_robots_txt::Target;
use wayleave_usage_preferences::PurposeSet;

/// The numbers of rules.
const COUNTS: [usize; 3] = [10, 1_000, 10_000];

fn main() {
    let mut criterion = Criterion::default()
        .measurement_time(Duration::from_secs(1))
        .warm_up_time(Duration::from_millis(500))
        .sample_size(30)
        .configure_from_args();
    let by_host = |number: usize| rule(&format!("*.host-{number}.example"), &["/private/"]);
    let by_path = |number: usize| rule(".shop.example", &[&format!("/private/{number}/")]);
    let everywhere = |number: usize| rule("*", &[&format!("/*/{number}.pdf$")]);
    for (name, rule_for, url, expect_match) in [
        (
            "other hosts",
            &by_host as &dyn Fn(usize) -> PolicyRule,
            "https://www.example.org/private/a",
            false,
        ),
        ("one rule per host", &by_host, "https://www.host-7.example/private/a", true),
        ("one host, no path", &by_path, "https://www.shop.example/public/page?id=7", false),
        ("one host, one path", &by_path, "https://www.shop.example/private/7/a", true),
        ("every host, no path", &everywhere, "https://www.shop.example/public/a.pdf", false),
        ("every host, one path", &everywhere, "https://www.shop.example/public/7.pdf", true),
    ] {
        let mut group = criterion.benchmark_group(name);
        for count in COUNTS {
            // Only the last rule can match.
            let rules =
                (0..count).map(|index| rule_for(if index == count - 1 { 7 } else { index + 8 }));
            let rules = PolicyRules::new(rules.collect());
            let target = Target::parse(url).expect("a URL");
            let query = RuleQuery {
                target: &target,
                method: "GET",
                crawler: "news",
                purposes: PurposeSet::NONE,
                now: SystemTime::UNIX_EPOCH,
            };
            assert_eq!(rules.find(query).is_some(), expect_match, "{name}");
            group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
                bencher.iter(|| rules.find(black_box(query)));
            });
        }
        group.finish();
    }
    criterion.final_summary();
}

fn rule(host: &str, paths: &[&str]) -> PolicyRule {
    PolicyRule {
        hosts: vec![host.parse().expect("a host pattern")],
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        ..PolicyRule::default()
    }
}
