//! What the origin's answer says of the next turns.

use std::time::{Duration, SystemTime};

use wayleave_policy::Origin;

use crate::politeness::Turn;
use crate::upstream::OriginHead;

/// Ends a turn with the origin's answer.
pub(super) fn hear(turn: &Turn<'_>, origin: &Origin, head: &OriginHead) {
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
            Some(at.duration_since(SystemTime::now()).unwrap_or_default())
        }
    }
}
