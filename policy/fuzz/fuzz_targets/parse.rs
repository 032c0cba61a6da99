//! Any octets parse; what is kept stays in proportion; lint points at lines that exist.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wayleave_robots_txt::{Dialect, RobotsTxt};
use wayleave_usage_preferences::lint;

fuzz_target!(|body: &[u8]| {
    let robots = RobotsTxt::parse(body);
    // Short lines cost most: a record for each, and a tag for an agent; and there is the file itself.
    assert!(robots.heap_bytes() <= 16 * body.len() + 256);
    let lines = body.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count() as u32 + 1;
    for directive in robots.directives() {
        assert!((1..=lines).contains(&directive.line));
    }
    for &dialect in Dialect::ALL {
        let all = robots.directives().count();
        assert!(robots.group_directives(dialect, &[]).count() <= all);
        let rates = robots.request_rates(dialect, &[]).len();
        let times = robots.visit_times(dialect, &[]).len();
        assert!(rates + times <= all);
        assert!(robots.crawl_delay(dialect, &[]).is_none() || all > 0);
    }
    robots.sitemaps().chain(robots.host()).for_each(drop);
    robots.clean_params().for_each(drop);
    for finding in lint(body, Dialect::ALL) {
        assert!((1..=lines).contains(&finding.line), "{finding}");
    }
});
