//! Reads the response fields that the lifecycle of a robots.txt depends on.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, header};
use wayleave_lifecycle::ResponseFields;
use wayleave_signing::SIGNATURE_FIELDS;

/// The maximum length of a field value that is kept with an entry.
const MAX_VALUE_BYTES: usize = 1024;

/// Reads the fields of a response that arrived at `now`.
pub(super) fn read(headers: &HeaderMap, now: SystemTime) -> ResponseFields {
    let text = |name: HeaderName| joined(headers, name).map(String::into_boxed_str);
    let date = joined(headers, header::DATE).and_then(|date| httpdate::parse_http_date(&date).ok());
    ResponseFields {
        age: text(header::AGE),
        cache_control: text(header::CACHE_CONTROL),
        content_type: text(header::CONTENT_TYPE),
        etag: text(header::ETAG),
        expires_at: joined(headers, header::EXPIRES).map(|value| expires_at(&value, date, now)),
        last_modified: text(header::LAST_MODIFIED),
        retry_at: joined(headers, header::RETRY_AFTER)
            .and_then(|value| retry_at(&value, date, now)),
        varies: varies(headers),
    }
}

/// Returns whether others may get another response (RFC 9110, 12.5.5): `Vary` names a field that identifies crawlers, or
/// everything, or cannot be read.
pub(super) fn varies(headers: &HeaderMap) -> bool {
    let tells_apart = |name: &str| {
        name == "*"
            || name.eq_ignore_ascii_case("user-agent")
            || SIGNATURE_FIELDS.iter().any(|field| name.eq_ignore_ascii_case(field))
    };
    headers.get_all(header::VARY).iter().any(|line| match line.to_str() {
        Ok(names) => names.split(',').any(|name| tells_apart(name.trim())),
        Err(_) => true,
    })
}

/// Returns all lines of a field as one value; `None` if it is not text or too long.
fn joined(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    let mut value = String::new();
    for line in headers.get_all(name) {
        if !value.is_empty() {
            value.push_str(", ");
        }
        value.push_str(line.to_str().ok()?);
    }
    (!value.is_empty() && value.len() <= MAX_VALUE_BYTES).then_some(value)
}

/// Returns the expiry time, counted from the origin's own `Date` because both come from the same clock (RFC 9111,
/// 4.2.1). An invalid date is in the past (RFC 9111, 5.3).
fn expires_at(value: &str, date: Option<SystemTime>, now: SystemTime) -> SystemTime {
    match httpdate::parse_http_date(value) {
        Ok(expires) => on_our_clock(expires, date, now),
        Err(_) => SystemTime::UNIX_EPOCH,
    }
}

/// Returns the time named by a `Retry-After`, in seconds or as a date (RFC 9110, 10.2.3).
fn retry_at(value: &str, date: Option<SystemTime>, now: SystemTime) -> Option<SystemTime> {
    if let Ok(seconds) = value.trim().parse::<u32>() {
        return Some(now + Duration::from_secs(seconds.into()));
    }
    let at = httpdate::parse_http_date(value).ok()?;
    Some(on_our_clock(at, date, now))
}

fn on_our_clock(theirs: SystemTime, date: Option<SystemTime>, now: SystemTime) -> SystemTime {
    let span = theirs.duration_since(date.unwrap_or(now));
    span.map_or(SystemTime::UNIX_EPOCH, |span| now + span)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn now() -> SystemTime {
        httpdate::parse_http_date("Sat, 21 Nov 2026 08:00:00 GMT").expect("a date")
    }

    fn fields(lines: &[(&'static str, &str)]) -> ResponseFields {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().expect("a field value"));
        }
        read(&headers, now())
    }

    #[test]
    fn expiry_is_counted_by_the_origins_own_clock() {
        let found = fields(&[
            ("date", "Sat, 21 Nov 2020 08:00:00 GMT"),
            ("expires", "Sat, 21 Nov 2020 08:10:00 GMT"),
        ]);
        assert_eq!(found.expires_at, Some(now() + Duration::from_secs(600)));
        let found = fields(&[("expires", "Sat, 21 Nov 2026 08:10:00 GMT")]);
        assert_eq!(found.expires_at, Some(now() + Duration::from_secs(600)));
        for past in ["0", "-1", "soon", "Sat, 21 Nov 2020 08:10:00 GMT"] {
            assert_eq!(fields(&[("expires", past)]).expires_at, Some(SystemTime::UNIX_EPOCH));
        }
        assert_eq!(fields(&[]), ResponseFields::default());
    }

    #[test]
    fn vary_counts_if_it_tells_crawlers_apart() {
        for (lines, expected) in [
            (&[][..], false),
            (&["Accept-Encoding, Origin"], false),
            (&["accept-encoding", "user-agent"], true),
            (&["User-Agent-Hint"], false),
            (&["Signature"], true),
            (&["Accept, Signature-Input"], true),
            (&["SIGNATURE-AGENT"], true),
            (&["*"], true),
            (&["Accept,*"], true),
            (&["caf\u{e9}"], true),
        ] {
            let lines: Vec<_> = lines.iter().map(|line| ("vary", *line)).collect();
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                headers.append(name, HeaderValue::from_bytes(value.as_bytes()).expect("a value"));
            }
            assert_eq!(varies(&headers), expected, "{headers:?}");
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let in_two_minutes = Some(now() + Duration::from_secs(120));
        assert_eq!(fields(&[("retry-after", "120")]).retry_at, in_two_minutes);
        let date = "Sat, 21 Nov 2026 08:02:00 GMT";
        assert_eq!(fields(&[("retry-after", date)]).retry_at, in_two_minutes);
        for nothing in ["soon", "-5", "1.5", "99999999999"] {
            assert_eq!(fields(&[("retry-after", nothing)]).retry_at, None, "{nothing}");
        }
    }

    #[test]
    fn lines_are_joined_and_oversized_values_left_out() {
        let found = fields(&[("cache-control", "no-cache"), ("cache-control", "max-age=5")]);
        assert_eq!(found.cache_control.as_deref(), Some("no-cache, max-age=5"));
        let found = fields(&[("etag", &"x".repeat(MAX_VALUE_BYTES + 1))]);
        assert_eq!(found.etag, None);
    }
}
