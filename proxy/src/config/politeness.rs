//! `[politeness]`: the pace of requests to origins.

use std::time::Duration;

use super::file::{MOST, Section, count, duration};
use crate::politeness::{CrawlDelay, Options};

pub(super) fn politeness(section: &mut Section<'_>) -> Options {
    let second = Duration::from_secs(1);
    let words = [CrawlDelay::Ignore, CrawlDelay::Wait, CrawlDelay::Reject];
    let words = words.map(|word| (word.as_str(), word));
    let options = Options {
        crawl_delay: section.word("crawl_delay", CrawlDelay::Reject, &words),
        max_wait: section.key("max_wait", 30 * second, duration),
        default_delay: section.key("default_delay", Duration::ZERO, duration),
        max_delay: section.key("max_delay", 300 * second, duration),
        max_concurrent_per_origin: section.key("max_concurrent_per_origin", 0, count(0, MOST)),
    };
    if options.default_delay > options.max_delay {
        let delays = [options.default_delay, options.max_delay].map(humantime::format_duration);
        let message = format!("{} is longer than max_delay, {}", delays[0], delays[1]);
        section.mistake("default_delay", message);
    }
    options
}
