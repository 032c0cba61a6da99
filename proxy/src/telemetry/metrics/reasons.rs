//! The closed set of reasons, and the outcomes of each, behind `wayleave_requests_total`.

/// The label of crawlers that are not configured: their names are only asserted.
pub(crate) const ASSERTED: &str = "asserted";

const FORWARDED: &str = "forwarded";
const TUNNELLED: &str = "tunnelled";
const OBSERVED: &str = "observed";
const REFUSED: &str = "refused";
const FAILED: &str = "failed";

pub(super) const OUTCOMES: [&str; 5] = [FORWARDED, TUNNELLED, OBSERVED, REFUSED, FAILED];

/// Each reason with its outcomes.
pub(super) type Reasons = [(&'static str, &'static [&'static str])];

/// The reasons for requests, by crawler. `docs/metrics.md` explains each.
pub(super) const OF_CRAWLERS: &Reasons = &[
    ("rule", &[FORWARDED, OBSERVED, REFUSED]),
    ("no-matching-rule", &[FORWARDED, TUNNELLED]),
    ("no-matching-group", &[FORWARDED, TUNNELLED]),
    ("robots-txt-itself", &[FORWARDED]),
    ("unavailable", &[FORWARDED, TUNNELLED, OBSERVED, REFUSED]),
    ("redirect-lost", &[FORWARDED, TUNNELLED, OBSERVED, REFUSED]),
    ("unreachable", &[FORWARDED, TUNNELLED, OBSERVED, REFUSED]),
    ("policy-exception", &[FORWARDED, TUNNELLED]),
    ("bypass", &[TUNNELLED]),
    ("too-costly", &[OBSERVED, REFUSED]),
    ("policy-rule", &[OBSERVED, REFUSED]),
    ("preference", &[OBSERVED, REFUSED]),
    ("payment", &[FORWARDED]),
    ("crawl-delay", &[OBSERVED, REFUSED]),
    ("origin-rests", &[OBSERVED, REFUSED]),
    ("concurrency", &[OBSERVED, REFUSED]),
    ("unrecorded", &[REFUSED]),
    ("https-refused", &[OBSERVED, REFUSED]),
    ("unidentified", &[OBSERVED, REFUSED]),
    ("foreign-token", &[OBSERVED, REFUSED]),
    ("token-missing", &[OBSERVED, REFUSED]),
    ("wrong-password", &[REFUSED]),
    ("wrong-certificate", &[REFUSED]),
    ("password-checks", &[REFUSED]),
    ("destination_ip_prohibited", &[REFUSED, FAILED]),
    ("dns_error", &[FAILED]),
    ("malformed-request", &[REFUSED, FAILED]),
    ("misdirected", &[REFUSED]),
    ("unsupported-scheme", &[REFUSED]),
    ("proxy_loop_detected", &[REFUSED, FAILED]),
    ("proxy_configuration_error", &[FAILED]),
    ("max-forwards", &[REFUSED]),
    ("dns_timeout", &[FAILED]),
    ("destination_ip_unroutable", &[FAILED]),
    ("connection_refused", &[FAILED]),
    ("connection_terminated", &[FAILED]),
    ("connection_timeout", &[FAILED]),
    ("connection_write_timeout", &[FAILED]),
    ("tls_protocol_error", &[FAILED]),
    ("tls_certificate_error", &[FAILED]),
    ("tls_alert_received", &[FAILED]),
    ("http_request_error", &[FAILED]),
    ("http_response_incomplete", &[FAILED]),
    ("http_response_header_section_size", &[FAILED]),
    ("http_response_timeout", &[FAILED]),
    ("http_protocol_error", &[FAILED]),
    ("body-timeout", &[FAILED]),
    ("client-closed", &[FAILED]),
    ("shutdown", &[FAILED]),
];

/// The reasons before there is a request, and so no crawler.
pub(super) const OF_NOBODY: &Reasons = &[
    ("head-too-large", &[REFUSED]),
    ("head-timeout", &[REFUSED]),
    ("unsupported-version", &[REFUSED]),
    ("connection_limit_reached", &[REFUSED]),
    ("proxy-protocol", &[REFUSED]),
    ("tls-required", &[REFUSED]),
];

/// Returns whether the reason can have this outcome.
pub(super) fn is_known(outcome: &str, reason: &str) -> bool {
    let mut all = OF_CRAWLERS.iter().chain(OF_NOBODY);
    all.any(|(known, outcomes)| *known == reason && outcomes.contains(&outcome))
}
