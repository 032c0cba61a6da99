//! Notes what the origin's response means for the next requests: Retry-After, 429 and 503.

use std::time::Duration;

use wayleave_policy::Origin;

use crate::clock::calendar;
use crate::origin::OriginHead;
use crate::politeness::Turn;

/// Ends a turn with the origin's answer.
pub(crate) fn note_answer(turn: &Turn<'_>, origin: &Origin, head: &OriginHead) {
    let status = head.status();
    let retry_after = matches!(status, 429 | 503).then(|| {
        let fields = head.fields();
        let mut named = fields
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case(b"retry-after"));
        named.next().and_then(|(_, value)| read_retry_after(value))
    });
    turn.answered(origin, status, retry_after.flatten());
}

/// `Retry-After` is seconds or a date (RFC 9110 section 10.2.3).
fn read_retry_after(value: &[u8]) -> Option<Duration> {
    let text = str::from_utf8(value).ok()?.trim();
    match text.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => {
            let at = httpdate::parse_http_date(text).ok()?;
            Some(at.duration_since(calendar()).unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let seconds = |count| Some(Duration::from_secs(count));
        assert_eq!(read_retry_after(b" 120 "), seconds(120));
        let past = read_retry_after(b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(past, seconds(0));
        let at = calendar() + Duration::from_secs(3600);
        let date = httpdate::fmt_http_date(at);
        let hour = read_retry_after(date.as_bytes()).expect("a date");
        assert!(hour <= Duration::from_secs(3600) && hour > Duration::from_secs(1800));
        for wrong in ["", "-1", "soon", "1.5", "99999999999999999999"] {
            assert_eq!(read_retry_after(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
