//! The quota that an origin says is left: `RateLimit` (draft-ietf-httpapi-ratelimit-headers), its forms in earlier drafts, and
//! the `X-RateLimit-*` of servers before them.

use std::cmp::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sfv::{BareItem, Dictionary, Item, List, ListEntry, Parser};
use wayleave_http_wire::field_pairs::{FieldPair, first, values};

/// The quota that is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceLimit {
    /// The requests, or other units, that are left.
    pub remaining: u64,
    /// The time until there are more; `None` if that is not stated.
    pub reset: Option<Duration>,
    /// Whether it is the quota of one partition (`pk`), and so are all others of which as little is left.
    pub is_partitioned: bool,
}

/// Whole seconds from which on a reset is a time, in seconds since 1970, and not a span: the year 2001, or 31 years.
const EPOCH_SECONDS: u64 = 1_000_000_000;
/// `EPOCH_SECONDS` in milliseconds.
const EPOCH_MILLIS: u64 = 1_000 * EPOCH_SECONDS;

/// The names of the other fields, as pairs of the remaining quota and its reset. Those of the drafts up to 06 come first; a
/// span comes before a time, which depends on the origin's clock.
const OLDER_FIELDS: [(&str, &[&str]); 3] = [
    ("ratelimit-remaining", &["ratelimit-reset"]),
    ("x-ratelimit-remaining", &["x-ratelimit-reset-after", "x-ratelimit-reset"]),
    ("x-rate-limit-remaining", &["x-rate-limit-reset"]),
];

/// The most policies of a `RateLimit-Policy` that are read: each limit is compared with each of them.
const MAX_POLICIES: usize = 16;
/// The longest value of a field that is read, in bytes. Real ones have some dozens.
const MAX_FIELD_BYTES: usize = 4 * 1024;

/// Returns the quota that a response says is left, of several the one that allows least. `None` if the response states none
/// that can be read, or comes from a cache. `now` returns the time by which a reset that is a time is read, as hardly any is.
pub fn read_service_limit(
    fields: &[FieldPair<'_>],
    now: fn() -> SystemTime,
) -> Option<ServiceLimit> {
    // In a cached response they are about another request (section 7.3).
    let age = first(fields, "age").and_then(|age| str::from_utf8(age).ok()?.trim().parse().ok());
    if age.is_some_and(|seconds: u64| seconds > 0) {
        return None;
    }
    read_standard(fields).or_else(|| {
        OLDER_FIELDS.iter().find_map(|(remaining, resets)| {
            let remaining = whole_number(first(fields, remaining)?)?;
            let reset = resets.iter().find_map(|name| read_reset(first(fields, name)?, now()));
            Some(ServiceLimit { remaining, reset, is_partitioned: false })
        })
    })
}

/// Returns whether `field`, which is `RateLimit` or `RateLimit-Policy`, is absent or a list as in the draft, so that a member
/// can be added to it.
pub fn is_absent_or_list(fields: &[FieldPair<'_>], field: &str) -> bool {
    let is_list =
        |text: Vec<u8>| text.len() <= MAX_FIELD_BYTES && Parser::new(&text).parse::<List>().is_ok();
    joined(fields, field).is_none_or(is_list)
}

fn joined(fields: &[FieldPair<'_>], name: &str) -> Option<Vec<u8>> {
    let lines: Vec<_> = values(fields, name).collect();
    (!lines.is_empty()).then(|| lines.join(&b", "[..]))
}

fn read_standard(fields: &[FieldPair<'_>]) -> Option<ServiceLimit> {
    let is_short = |text: &Vec<u8>| text.len() <= MAX_FIELD_BYTES;
    let text = joined(fields, "ratelimit").filter(is_short)?;
    let Ok(list) = Parser::new(&text).parse::<List>() else {
        return read_dictionary(&text);
    };
    let policies = joined(fields, "ratelimit-policy").filter(is_short);
    let policies = policies.and_then(|text| Parser::new(&text).parse::<List>().ok());
    let policies: Vec<_> = policies.iter().flat_map(items).take(MAX_POLICIES).collect();
    let is_counted = |item: &&Item| {
        // A limit on concurrency says nothing: this request itself was in progress. A limit without a policy that was read applies.
        let policy = policies.iter().find(|policy| policy.bare_item == item.bare_item);
        let unit = policy.and_then(|policy| policy.params.get("qu")?.as_string());
        unit.is_none_or(|unit| unit.as_str() != "concurrent-requests")
    };
    let limits = items(&list).filter(is_counted).filter_map(|item| {
        let remaining = non_negative(item.params.get("r")?)?;
        let reset = item.params.get("t").and_then(non_negative).map(Duration::from_secs);
        Some(ServiceLimit { remaining, reset, is_partitioned: item.params.contains_key("pk") })
    });
    // If several policies are exhausted, the one that lasts longest applies: to all requests if one of them does.
    limits.reduce(|one, other| match one.remaining.cmp(&other.remaining) {
        Ordering::Less => one,
        Ordering::Greater => other,
        Ordering::Equal => ServiceLimit {
            remaining: one.remaining,
            reset: one.reset.max(other.reset),
            is_partitioned: one.is_partitioned && other.is_partitioned,
        },
    })
}

fn items(list: &List) -> impl Iterator<Item = &Item> {
    list.iter().filter_map(|entry| match entry {
        ListEntry::Item(item) => Some(item),
        ListEntry::InnerList(_) => None,
    })
}

/// Reads the form of draft 07: `limit=10, remaining=0, reset=5`.
fn read_dictionary(text: &[u8]) -> Option<ServiceLimit> {
    let dictionary = Parser::new(text).parse::<Dictionary>().ok()?;
    let number = |key: &str| match dictionary.get(key)? {
        ListEntry::Item(item) => non_negative(&item.bare_item),
        ListEntry::InnerList(_) => None,
    };
    let remaining = number("remaining")?;
    let reset = number("reset").map(Duration::from_secs);
    Some(ServiceLimit { remaining, reset, is_partitioned: false })
}

fn non_negative(value: &BareItem) -> Option<u64> {
    u64::try_from(i64::from(value.as_integer()?)).ok()
}

fn whole_number(value: &[u8]) -> Option<u64> {
    let text = str::from_utf8(value).ok()?.trim();
    // Some servers write `0.0`.
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = fraction.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| whole.parse().ok())?
}

/// Reads a span in seconds, a time in seconds or milliseconds since 1970, or a date.
fn read_reset(value: &[u8], now: SystemTime) -> Option<Duration> {
    let text = str::from_utf8(value).ok()?.trim();
    let at = match whole_number(value) {
        Some(millis) if millis >= EPOCH_MILLIS => UNIX_EPOCH + Duration::from_millis(millis),
        Some(seconds) if seconds >= EPOCH_SECONDS => UNIX_EPOCH + Duration::from_secs(seconds),
        Some(seconds) => {
            let has_fraction = text.contains('.') && !text.ends_with(".0");
            return Some(Duration::from_secs(seconds + u64::from(has_fraction)));
        }
        None => httpdate::parse_http_date(text)
            .ok()
            .or_else(|| humantime::parse_rfc3339_weak(text).ok())?,
    };
    Some(at.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    const CASES: &str = include_str!("rate_limit_cases.jsonl");
    /// 2026-11-26T00:00:00Z, in seconds since 1970.
    const NOW: u64 = 1_795_651_200;

    #[derive(Deserialize)]
    struct Case {
        id: String,
        fields: Vec<(String, String)>,
        expect: Option<Expected>,
        because: String,
    }

    #[derive(Deserialize)]
    struct Expected {
        remaining: u64,
        reset: Option<u64>,
        #[serde(default)]
        partitioned: bool,
    }

    #[test]
    fn every_case_states_what_is_left() {
        let cases: Vec<Case> =
            CASES.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(cases.len() >= 40, "{}", cases.len());
        let now = || UNIX_EPOCH + Duration::from_secs(NOW);
        for Case { id, fields, expect, because } in cases {
            let fields: Vec<FieldPair<'_>> =
                fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
            let expected = expect.map(|Expected { remaining, reset, partitioned }| ServiceLimit {
                remaining,
                reset: reset.map(Duration::from_secs),
                is_partitioned: partitioned,
            });
            assert_eq!(read_service_limit(&fields, now), expected, "{id}: {because}");
        }
    }

    fn limit_of(limits: &str, policies: &str) -> Option<u64> {
        let fields = [("RateLimit", limits), ("RateLimit-Policy", policies)];
        let fields = fields.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        read_service_limit(&fields, || UNIX_EPOCH).map(|limit| limit.remaining)
    }

    #[test]
    fn sixteen_policies_are_read_and_all_limits() {
        let policy = |number: usize| format!("\"{number}\";q=9;qu=\"concurrent-requests\"");
        let limit = |number: usize| format!("\"{number}\";r={number}");
        let policies: Vec<_> = (0..90).map(policy).collect();
        let policies = policies.join(",");
        assert_eq!(limit_of(&limit(15), &policies), None);
        assert_eq!(limit_of(&limit(16), &policies), Some(16));
        let limits: Vec<_> = (0..300).map(limit).collect();
        assert_eq!(limit_of(&limits.join(","), &policies), Some(16));
        let least = [limits.join(","), "\"last\";r=3".to_owned()].join(",");
        assert_eq!(limit_of(&least, &policies), Some(3));
        let long = [least, " ".repeat(MAX_FIELD_BYTES)].concat();
        assert_eq!(limit_of(&long, &policies), None, "too long to be read");
        let long_policies = [&policies, ",", &policies].concat();
        assert_eq!(limit_of(&limit(15), &long_policies), Some(15), "as if there were none");
    }
}
