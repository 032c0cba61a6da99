//! The delays of `Crawl-delay` and `Request-rate`, however large the number.

use std::time::Duration;

use wayleave_robots_txt::{Dialect, ProductToken, RobotsTxt};

fn delay(value: &str) -> Option<Duration> {
    let robots = RobotsTxt::parse(format!("User-agent: *\nCrawl-delay: {value}\n").as_bytes());
    robots.crawl_delay(Dialect::Rfc9309, &[])
}

fn rate(value: &str) -> Option<(u32, Duration)> {
    let robots = RobotsTxt::parse(format!("User-agent: *\nRequest-rate: {value}\n").as_bytes());
    let rates = robots.request_rates(Dialect::Rfc9309, &[]);
    rates.first().map(|rate| (rate.requests, rate.within))
}

/// 136 years: whoever waits has a limit far below.
const LONGEST: Duration = Duration::from_secs(u32::MAX as u64);

#[test]
fn a_delay_too_long_to_count_is_the_longest() {
    for value in [
        "inf",
        "Infinity",
        "+inf",
        "1e308",
        "1e999",
        "4294967296",
        "18446744073709551615",
        "99999999999999999999999999999999999",
    ] {
        assert_eq!(delay(value), Some(LONGEST), "{value}");
    }
}

#[test]
fn a_delay_is_a_number_of_seconds() {
    for (value, millis) in [("0", 0), ("1.5", 1500), (".5", 500), ("1e1", 10_000), ("+2", 2_000)] {
        assert_eq!(delay(value), Some(Duration::from_millis(millis)), "{value}");
    }
    for value in ["", "-1", "-0", "-inf", "nan", "-nan", "1,5", "ten", "0x10", "1e", "s", "[]"] {
        assert_eq!(delay(value), None, "{value}");
    }
}

#[test]
fn a_delay_may_have_a_unit_or_brackets() {
    for (value, millis) in [
        ("10s", 10_000),
        ("10 sec", 10_000),
        ("10 sec.", 10_000),
        ("10 Seconds", 10_000),
        ("1.5s", 1_500),
        ("[5]", 5_000),
        ("\"5\"", 5_000),
        ("[5 s]", 5_000),
        ("2 min", 120_000),
        ("1h", 3_600_000),
        ("500ms", 500),
    ] {
        assert_eq!(delay(value), Some(Duration::from_millis(millis)), "{value}");
    }
    for value in ["-1s", "-0 sec", "10 x", "10 per s", "1e1 e", "5 apples", "1/10s"] {
        assert_eq!(delay(value), None, "{value}");
    }
}

#[test]
fn the_delay_of_the_next_name_is_not_that_of_this_one() {
    let body = b"User-agent: a\nCrawl-delay: 1\n\nUser-agent: b\nUser-agent: c\nCrawl-delay: 20\nCrawl-delay: 9\n\n\
                 User-agent: d\nCrawl-delay: 3\nUser-agent: a\nCrawl-delay: 2\nRequest-rate: 1/40\nDisallow: /x\n";
    let robots = RobotsTxt::parse(body);
    for (name, delay, longest) in [("a", 2, 40), ("b", 20, 40), ("c", 20, 40), ("d", 3, 40)] {
        let tokens = [ProductToken::new(name).unwrap()];
        let found = robots.crawl_delay(Dialect::Rfc9309, &tokens);
        assert_eq!(found, Some(Duration::from_secs(delay)), "{name}");
        let found = robots.longest_delay(Dialect::Rfc9309, &tokens).map(|(delay, _)| delay);
        assert_eq!(found, Some(Duration::from_secs(longest)), "{name}");
    }
}

#[test]
fn the_longest_of_several_delays_counts() {
    for (lines, seconds, line) in [
        ("Crawl-delay: 0\nCrawl-delay: 10\nCrawl-delay: 5\n", 10, 3),
        ("Crawl-delay: 10\nCrawl-delay: 0\n", 10, 2),
        ("Crawl-delay: 10\nCrawl-delay: 10\n", 10, 2),
        ("Crawl-delay: x\nCrawl-delay: 3\n\nUser-agent: *\nCrawl-delay: 4 s\n", 4, 6),
        ("Request-rate: 1/20\nCrawl-delay: 10\nCrawl-delay: 30\n", 30, 4),
        ("Crawl-delay: 10\nRequest-rate: 1/20\nRequest-rate: 1/5\n", 20, 3),
    ] {
        let robots = RobotsTxt::parse(format!("User-agent: *\n{lines}").as_bytes());
        let expected = Duration::from_secs(seconds);
        assert_eq!(robots.longest_delay(Dialect::Rfc9309, &[]), Some((expected, line)), "{lines}");
        if !lines.contains("Request-rate") {
            assert_eq!(robots.crawl_delay(Dialect::Rfc9309, &[]), Some(expected), "{lines}");
        }
    }
}

#[test]
fn a_rate_too_slow_to_count_is_the_slowest() {
    for value in [
        "1/4294967296",
        "1/18446744073709551616",
        "1/18446744073709551615d",
        "1/99999999999999999999999h",
    ] {
        assert_eq!(rate(value), Some((1, LONGEST)), "{value}");
    }
    let second = Duration::from_secs(1);
    assert_eq!(rate("99999999999/1"), Some((u32::MAX, second)));
    assert_eq!(rate("0/1"), Some((0, second)));
    for value in ["1/", "/1", "1/0", "-1/1", "1/-1", "+1/1", "1/1w"] {
        assert_eq!(rate(value), None, "{value}");
    }
}

#[test]
fn the_strictest_reading_chooses_the_group_as_rfc_9309_does() {
    let body = b"Useragent: foobot\nCrawl-delay: 5\nUser-agent: *\nCrawl-delay: 1\n";
    let robots = RobotsTxt::parse(body);
    let tokens = [ProductToken::new("foobot").unwrap()];
    for (dialect, seconds) in [(Dialect::Google, 5), (Dialect::Rfc9309, 1), (Dialect::Strictest, 1)]
    {
        let delay = robots.crawl_delay(dialect, &tokens);
        assert_eq!(delay, Some(Duration::from_secs(seconds)), "{dialect}");
    }
}
