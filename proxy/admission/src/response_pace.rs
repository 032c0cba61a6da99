//! The pace that a response asks for, and the fields that report it to the client.

use std::time::Duration;

use wayleave_clock::system_time;
use wayleave_http_wire::field_pairs::{FieldPair, first};
use wayleave_http_wire::received::ReceivedHead;
use wayleave_pacing::{
    CredentialsMark, PacingSlot, ServiceLimit, ToldQuota, credentials_mark, is_absent_or_list,
    read_service_limit,
};
use wayleave_robots_txt::Target;
use wayleave_transport::http::downstream::{ResponseField, response_field};

use super::gated_request::GatedRequest;
use super::settings::Settings;

/// Applies a response to the pace. Returns the fields that report the pace to the client.
pub(crate) fn apply(
    slot: &PacingSlot<'_>,
    request: &GatedRequest<'_, '_>,
    target: &Target,
    status: u16,
    fields: &[FieldPair<'_>],
) -> Vec<ResponseField<'static>> {
    let reads_quotas = request.settings.pacing.rate_limit_fields;
    record_answer(slot, reads_quotas, || credentials_of(request.received), target, status, fields);
    pace_fields(slot, &request.settings, target, fields)
}

/// Returns the mark of the credentials that a request has, to which a quota may belong.
pub(crate) fn credentials_of(received: &ReceivedHead) -> Option<CredentialsMark> {
    credentials_mark(received.field("authorization"), received.field("cookie"))
}

/// Records the origin's response in the slot: the delay starts, and Retry-After, 429, 503 and a quota that is used up apply to the
/// next requests.
pub(crate) fn record_answer(
    slot: &PacingSlot<'_>,
    reads_quotas: bool,
    credentials: impl FnOnce() -> Option<CredentialsMark>,
    target: &Target,
    status: u16,
    fields: &[FieldPair<'_>],
) {
    // On a redirect, Retry-After is the time until the other URL may be requested (RFC 9110 section 10.2.3).
    let retry_after = if matches!(status, 429 | 503) {
        first(fields, "retry-after").and_then(read_retry_after)
    } else {
        None
    };
    slot.record_answer(target, status, retry_after);
    // Retry-After takes precedence (draft-ietf-httpapi-ratelimit-headers, section 7).
    if reads_quotas
        && retry_after.is_none()
        && let Some(ServiceLimit { remaining, reset: Some(reset), is_partitioned }) =
            read_service_limit(fields, system_time)
    {
        let credentials = credentials();
        slot.record_quota(target, &ToldQuota { remaining, reset, is_partitioned, credentials });
    }
}

/// Returns the fields that report its pace to the client, as more members of the origin's own lists. A field of the origin in the form
/// of an earlier draft is left as it is: with a member more, nobody could read it.
pub(crate) fn pace_fields(
    slot: &PacingSlot<'_>,
    settings: &Settings,
    target: &Target,
    fields: &[FieldPair<'_>],
) -> Vec<ResponseField<'static>> {
    if !settings.pacing.rate_limit_fields {
        return Vec::new();
    }
    let name = &settings.options.name;
    let Some(limit) = slot.client_limit(target) else {
        return Vec::new();
    };
    let policy = limit.policy(name).map(|policy| ("RateLimit-Policy", policy));
    let members = policy.into_iter().chain([("RateLimit", limit.limit(name))]);
    let added = members.filter(|(field, _)| is_absent_or_list(fields, field));
    added.map(|(field, member)| response_field(field, member)).collect()
}

/// Parses `Retry-After`, in seconds or as a date (RFC 9110 section 10.2.3).
fn read_retry_after(value: &[u8]) -> Option<Duration> {
    let text = str::from_utf8(value).ok()?.trim();
    match text.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => {
            let at = httpdate::parse_http_date(text).ok()?;
            Some(at.duration_since(system_time()).unwrap_or_default())
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
        let at = system_time() + Duration::from_secs(3600);
        let date = httpdate::fmt_http_date(at);
        let hour = read_retry_after(date.as_bytes()).expect("a date");
        assert!(hour <= Duration::from_secs(3600) && hour > Duration::from_secs(1800));
        for wrong in ["", "-1", "soon", "1.5", "99999999999999999999"] {
            assert_eq!(read_retry_after(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
