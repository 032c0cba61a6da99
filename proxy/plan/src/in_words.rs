//! A plan in sentences, and its numbers as people write them.

use std::time::Duration;

use crate::crawl_plan::CrawlPlan;
use crate::crawl_time::CrawlLimit;
use crate::history::HISTORY_DAYS;
use crate::origin_plan::OriginPlan;

/// The most sentences about single hosts.
const MAX_SENTENCES: usize = 5;

/// Returns the summary. `notes` are further sentences.
pub fn sentences(plan: &CrawlPlan, crawler: &str, notes: &[String]) -> Vec<String> {
    let hosts = plan.hosts().len();
    let mut sentences = vec![
        format!(
            "{} of {} for {crawler}: {} forwarded, {} observed, {} refused, {} undecided",
            with_noun(plan.sum(OriginPlan::urls), "URL"),
            with_noun(hosts as u64, "host"),
            thousands(plan.sum(|origin| origin.forwarded)),
            thousands(plan.sum(|origin| origin.observed)),
            thousands(plan.sum(|origin| origin.refused)),
            thousands(plan.sum(|origin| origin.undecided)),
        ),
        whole_time(plan),
    ];
    let slowest = slowest(plan).into_iter().filter(|origin| origin.seconds() > 0.0);
    sentences.extend(slowest.take(MAX_SENTENCES).map(|origin| {
        let pages = with_noun(origin.sent(), "page");
        let delay = shown_delay(origin.delay);
        let time = shown_time(origin.seconds());
        format!("{pages} of {} at {delay}: {time}", host_label(plan, origin))
    }));
    let at_once = plan.origins.iter().filter(|origin| origin.sent() > 0 && origin.delay.is_zero());
    let without_pace = at_once.clone().count();
    if without_pace > 0 {
        sentences.push(format!(
            "{} of {} without a delay: counted as 0 h",
            with_noun(at_once.map(OriginPlan::sent).sum(), "page"),
            with_noun(without_pace as u64, "origin")
        ));
    }
    if let Some(share) = plan.edge_share() {
        sentences.push(format!(
            "turned requests away at the edge before, in the last {HISTORY_DAYS} days: {} of {} ({:.0} %)",
            plan.edge_hosts().len(),
            with_noun(hosts as u64, "host"),
            share * 100.0
        ));
    }
    if plan.prices().is_empty() {
        sentences.push("no prices are known".to_owned());
    }
    sentences.extend(notes.iter().cloned());
    sentences
}

/// Says how long the crawl takes, and why.
fn whole_time(plan: &CrawlPlan) -> String {
    let time = shown_time(plan.time.seconds);
    let alone = shown_time(plan.time.pace_seconds);
    match plan.time.limit {
        CrawlLimit::None => format!("the crawl takes {time}: no site sets a pace"),
        CrawlLimit::Pace => format!("the crawl takes {time} (hosts in parallel)"),
        CrawlLimit::RequestsPerDay | CrawlLimit::NewOriginsPerDay => {
            let limit = plan.time.limit.as_str();
            format!("the crawl takes {time} because of {limit}; at the pace alone {alone}")
        }
    }
}

/// Returns the origins, those that take longest first.
pub fn slowest(plan: &CrawlPlan) -> Vec<&OriginPlan> {
    let mut origins: Vec<_> = plan.origins.iter().collect();
    origins.sort_by(|one, other| other.seconds().total_cmp(&one.seconds()));
    origins
}

/// Returns the host with its port, and the scheme if the host has several origins.
pub fn host_label(plan: &CrawlPlan, origin: &OriginPlan) -> String {
    let text = origin.origin.to_string();
    let host = origin.origin.host();
    let is_alone = plan.origins.iter().filter(|other| other.origin.host() == host).count() == 1;
    let authority = text.split_once("://").filter(|_| is_alone);
    authority.map_or(text.clone(), |(_, authority)| authority.to_owned())
}

/// Returns a number with the noun that it counts: `1 page`, `1,800 pages`.
fn with_noun(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", thousands(count))
}

/// Formats a number as `1,800`.
pub fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a delay as `10 s` or `0.5 s`.
pub fn shown_delay(delay: Duration) -> String {
    format!("{} s", delay.as_secs_f64())
}

/// Formats a time as `45 s`, `12 min`, `5 h`, `5.5 h` or `6.3 days`.
pub fn shown_time(seconds: f64) -> String {
    let [minutes, hours, days] = [60.0, 3600.0, 24.0 * 3600.0].map(|unit| seconds / unit);
    if seconds < 1.0 && seconds > 0.0 {
        "less than 1 s".to_owned()
    } else if seconds == 0.0 {
        "0 h".to_owned()
    } else if seconds.round() < 60.0 {
        format!("{seconds:.0} s")
    } else if minutes.round() < 60.0 {
        format!("{minutes:.0} min")
    } else if days < 3.0 {
        format!("{} h", rounded(hours))
    } else {
        format!("{} days", rounded(days))
    }
}

/// Formats a number with a decimal if that says anything.
fn rounded(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_numbers_are_shown_as_people_say_them() {
        for (seconds, shown) in [
            (0.0, "0 h"),
            (0.25, "less than 1 s"),
            (45.0, "45 s"),
            (59.4, "59 s"),
            (59.7, "1 min"),
            (3569.0, "59 min"),
            (3599.0, "1 h"),
            (720.0, "12 min"),
            (18_000.0, "5 h"),
            (19_800.0, "5.5 h"),
            (259_199.0, "72 h"),
            (544_320.0, "6.3 days"),
            (3.0e14, "3472222222.2 days"),
        ] {
            assert_eq!(shown_time(seconds), shown);
        }
        for (count, shown) in
            [(0, "0"), (999, "999"), (1800, "1,800"), (12_345, "12,345"), (1_000_000, "1,000,000")]
        {
            assert_eq!(thousands(count), shown);
        }
        assert_eq!(shown_delay(Duration::from_millis(500)), "0.5 s");
        assert_eq!(shown_delay(Duration::from_secs(10)), "10 s");
    }
}
