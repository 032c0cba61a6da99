//! `[politeness]`: the pace of requests to origins.

use std::time::Duration;

use wayleave_pacing::{CrawlDelayMode, PaceShare, PacingConfig};

use super::reader::{MAX_COUNT, Section, boolean, count, duration};

pub(super) fn read(section: &mut Section<'_>) -> PacingConfig {
    let second = Duration::from_secs(1);
    let modes = [CrawlDelayMode::Ignore, CrawlDelayMode::Wait, CrawlDelayMode::Reject];
    let words = modes.map(|mode| (mode.as_str(), mode));
    let shares = [PaceShare::Origin, PaceShare::Domain, PaceShare::Address];
    let shares = shares.map(|share| (share.as_str(), share));
    let pacing = PacingConfig {
        crawl_delay: section.word("crawl_delay", CrawlDelayMode::Reject, &words),
        max_wait: section.key("max_wait", 30 * second, duration),
        default_delay: section.key("default_delay", Duration::ZERO, duration),
        min_delay: section.key("min_delay", Duration::ZERO, duration),
        max_delay: section.key("max_delay", 300 * second, duration),
        share: section.word("share", PaceShare::Origin, &shares),
        adaptive: section.key("adaptive", false, boolean),
        max_concurrent_per_origin: section.key("max_concurrent_per_origin", 0, count(0, MAX_COUNT)),
        rate_limit_fields: section.key("rate_limit_fields", true, boolean),
    };
    // The pacer would cut it to max_delay without a word.
    if pacing.default_delay > pacing.max_delay {
        let delays = [pacing.default_delay, pacing.max_delay].map(humantime::format_duration);
        let message = format!("{} is longer than max_delay, {}", delays[0], delays[1]);
        section.report("default_delay", message);
    }
    pacing
}
