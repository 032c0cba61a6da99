//! The closed sets of outcomes and reasons behind `wayleave_requests_total`.

/// The label of crawlers that no configuration knows, whose name is only their own word.
pub(crate) const ASSERTED: &str = "asserted";

/// Reasons by outcome, for every crawler.
pub(super) const OF_CRAWLERS: &[(&str, &[&str])] = &[
    (
        "forwarded",
        &[
            "rule",
            "no-matching-rule",
            "no-matching-group",
            "robots-txt-itself",
            "unavailable",
            "redirect-lost",
            "unreachable",
            "policy-exception",
        ],
    ),
    (
        "tunnelled",
        &[
            "no-matching-rule",
            "no-matching-group",
            "unavailable",
            "redirect-lost",
            "unreachable",
            "policy-exception",
            "bypass",
        ],
    ),
    (
        "observed",
        &[
            "rule",
            "unavailable",
            "redirect-lost",
            "unreachable",
            "too-costly",
            "policy-rule",
            "crawl-delay",
            "origin-rests",
            "concurrency",
            "https-refused",
            "unidentified",
            "foreign-token",
            "token-missing",
        ],
    ),
    (
        "refused",
        &[
            "rule",
            "unavailable",
            "redirect-lost",
            "unreachable",
            "too-costly",
            "policy-rule",
            "crawl-delay",
            "origin-rests",
            "concurrency",
            "https-refused",
            "unidentified",
            "wrong-password",
            "password-checks",
            "foreign-token",
            "token-missing",
            "destination_ip_prohibited",
            "dns_error",
            "malformed-request",
            "misdirected",
            "unsupported-scheme",
            "proxy_loop_detected",
            "max-forwards",
        ],
    ),
    (
        "failed",
        &[
            "dns_timeout",
            "dns_error",
            "destination_ip_prohibited",
            "destination_ip_unroutable",
            "connection_refused",
            "connection_terminated",
            "connection_timeout",
            "connection_write_timeout",
            "tls_protocol_error",
            "tls_certificate_error",
            "tls_alert_received",
            "http_request_error",
            "http_response_incomplete",
            "http_response_header_section_size",
            "http_response_timeout",
            "http_protocol_error",
            "malformed-request",
            "body-timeout",
            "client-closed",
        ],
    ),
];

/// Reasons by outcome where nobody could be asked who they are: there was no request.
pub(super) const OF_NOBODY: &[(&str, &[&str])] = &[(
    "refused",
    &[
        "head-too-large",
        "head-timeout",
        "unsupported-version",
        "connection_limit_reached",
    ],
)];

/// Whether this reason is one for this outcome.
pub(super) fn is_known(outcome: &str, reason: &str) -> bool {
    let mut all = OF_CRAWLERS.iter().chain(OF_NOBODY);
    all.any(|(known, reasons)| *known == outcome && reasons.contains(&reason))
}
