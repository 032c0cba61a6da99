//! Values of directives: delays, rates, times, hosts, parameters.

use std::time::Duration;

/// `Clean-param: a&b /path`: parameters that do not change the pages below a path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct CleanParam {
    /// The names of the parameters.
    pub params: Vec<String>,
    /// The pattern of the paths concerned; `/` if none is given.
    pub path: String,
}

impl CleanParam {
    pub(crate) fn read(value: &str) -> Option<Self> {
        let mut words = value.split_whitespace();
        let names = words.next()?.split('&').filter(|name| !name.is_empty());
        let params: Vec<String> = names.map(str::to_owned).collect();
        let path = words.next().unwrap_or("/").to_owned();
        (!params.is_empty()).then_some(Self { params, path })
    }
}

/// `Request-rate: 1/10s 0600-0845`: so many requests in so much time, at some hours or all.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct RequestRate {
    /// The number of requests.
    pub requests: u32,
    /// The time in which they may be made.
    pub within: Duration,
    /// The hours at which this applies; always if none are given or readable.
    pub at: Option<DailyHours>,
}

impl RequestRate {
    pub(crate) fn read(value: &str) -> Option<Self> {
        let (rate, at) = match value.split_once(char::is_whitespace) {
            Some((rate, at)) => (rate, DailyHours::read(at.trim_start())),
            None => (value, None),
        };
        let (requests, within) = rate.split_once('/')?;
        let digits = within.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match within[digits.len()..].to_ascii_lowercase().as_str() {
            "" | "s" => 1,
            "m" => 60,
            "h" => 3_600,
            "d" => 86_400,
            _ => return None,
        };
        let seconds = parse_saturating(digits)?.saturating_mul(unit);
        let requests = parse_saturating(requests)?.try_into().unwrap_or(u32::MAX);
        // Any number of requests in no time is no limit.
        (seconds > 0).then_some(Self {
            requests,
            within: Duration::from_secs(seconds).min(MAX_DURATION),
            at,
        })
    }

    /// Returns the time between requests that keep to this rate evenly.
    pub(crate) fn pause(&self) -> Duration {
        // No request in a period means never.
        let never = self.within.saturating_mul(u32::MAX);
        self.within.checked_div(self.requests).unwrap_or(never)
    }
}

/// A range of times of day, UTC; it spans midnight if it ends before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DailyHours {
    /// The first minute.
    pub from: TimeOfDay,
    /// The last minute.
    pub to: TimeOfDay,
}

impl DailyHours {
    pub(crate) fn read(value: &str) -> Option<Self> {
        let (from, to) = value.split_once(['-', ' '])?;
        Some(Self { from: TimeOfDay::read(from.trim())?, to: TimeOfDay::read(to.trim())? })
    }
}

/// A minute of a day, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TimeOfDay {
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
}

impl TimeOfDay {
    /// Parses `0715`, `07:15` or `07.15`.
    fn read(text: &str) -> Option<Self> {
        let digits: String = text.chars().filter(|c| !matches!(c, ':' | '.')).collect();
        if digits.len() != 4 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let hour = digits[..2].parse().ok()?;
        let minute = digits[2..].parse().ok()?;
        (hour < 24 && minute < 60).then_some(Self { hour, minute })
    }
}

/// The longest time that is represented: 136 years.
const MAX_DURATION: Duration = Duration::from_secs(u32::MAX as u64);

/// Parses a time: a number of seconds, whole or decimal, with an exponent or infinite, capped at 136 years. Brackets and
/// quotes around it do not count, and a unit may follow. `None` for a negative number.
pub(crate) fn parse_seconds(value: &str) -> Option<Duration> {
    let value = value.trim_matches(['[', ']', '(', ')', '"', '\'']).trim();
    let seconds: f64 = match value.parse() {
        Ok(seconds) => seconds,
        Err(_) => {
            let number = value.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '.');
            seconds_in_unit(&value[number.len()..])? * number.trim_end().parse::<f64>().ok()?
        }
    };
    // Checked in the text, because `-0` is not less than zero.
    let is_time = !value.starts_with('-') && !seconds.is_nan();
    is_time.then(|| Duration::from_secs_f64(seconds.min(MAX_DURATION.as_secs_f64())))
}

/// Returns how many seconds a unit of time has.
fn seconds_in_unit(unit: &str) -> Option<f64> {
    let unit = unit.trim_end_matches('.').to_ascii_lowercase();
    Some(match unit.as_str() {
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "ms" | "msec" | "millisecond" | "milliseconds" => 0.001,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    })
}

/// Parses digits as a number, capped at the largest.
fn parse_saturating(digits: &str) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u64::MAX))
}

/// Returns whether a value could be a host name with an optional port, as Yandex requires.
pub(crate) fn is_host(value: &str) -> bool {
    let host = value.strip_prefix("https://").or(value.strip_prefix("http://")).unwrap_or(value);
    let (name, port) = host.split_once(':').unwrap_or((host, "80"));
    let label_fits = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_alphanumeric() || c == '-')
    };
    let is_address = name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    port.parse::<u16>().is_ok_and(|port| port != 0)
        && name.contains('.')
        && !is_address
        && name.split('.').all(label_fits)
}
