//! The closed set of reasons for which requests are forwarded or refused, or fail.
//!
//! A new reason is one entry of the table below, and one in [`Reason::is_before_request`] if no request has been read by then.
//! `docs/metrics.md`, `docs/refusals.md`, the admin page and the OpenAPI document have tables of their own, which a test compares
//! with this one; CONTRIBUTING.md has the command that rewrites them ("What goes where").

use std::fmt;

use RequestOutcome::{Failed, Forwarded, Observed, Refused, Tunnelled};

/// The fate of a request, as the metric `wayleave_requests_total` labels it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestOutcome {
    Forwarded,
    Tunnelled,
    Observed,
    Refused,
    Failed,
}

impl RequestOutcome {
    /// Every outcome.
    pub const ALL: &[Self] = &[Forwarded, Tunnelled, Observed, Refused, Failed];

    /// Returns the outcome as the log and the metrics write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Forwarded => "forwarded",
            Tunnelled => "tunnelled",
            Observed => "observed",
            Refused => "refused",
            Failed => "failed",
        }
    }

    /// Returns the outcome with this name, as [`Self::as_str`] gives it. A log may have words of other versions.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|outcome| outcome.as_str() == name)
    }

    /// Returns whether the request was allowed and sent: by itself, or in a tunnel that is not inspected. One that was only
    /// observed was not allowed.
    pub fn was_let_through(self) -> bool {
        matches!(self, Forwarded | Tunnelled)
    }

    /// Returns whether the request was sent, or its tunnel opened, even if it should have been refused.
    pub fn is_sent(self) -> bool {
        matches!(self, Forwarded | Tunnelled | Observed)
    }

    /// Returns whether the request was refused, or would have been.
    pub fn is_refusal(self) -> bool {
        matches!(self, Refused | Observed)
    }
}

/// The answer that wayleave gives by itself for a reason, unless the decision says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultAnswer {
    /// The status code of the answer.
    pub status: u16,
    /// The title of the problem details (RFC 9457).
    pub title: &'static str,
    /// The error type in `Proxy-Status` (RFC 9209 section 2.3).
    pub proxy_error: &'static str,
}

/// The meaning of a reason for some of its outcomes.
#[derive(Clone, Copy, Debug)]
pub struct ReasonMeaning {
    pub outcomes: &'static [RequestOutcome],
    /// A phrase in Markdown.
    pub text: &'static str,
}

macro_rules! reasons {
    ($(
        $(#[$attribute:meta])*
        $variant:ident = $name:literal, $status:literal $title:literal $proxy_error:literal {
            $([$($outcome:ident),+] $text:literal)*
        }
    )+) => {
        /// The reason for a request's outcome, as a word that users know.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Reason {
            $($(#[$attribute])* $variant,)+
        }

        impl Reason {
            /// Every reason, in the order of the documents.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Returns the reason as the log, the metrics and the problem details write it.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Returns the answer for this reason. Reasons that only forward have one as well, which is never sent.
            pub const fn default_answer(self) -> DefaultAnswer {
                match self {
                    $(Self::$variant => DefaultAnswer {
                        status: $status,
                        title: $title,
                        proxy_error: $proxy_error,
                    },)+
                }
            }

            /// Returns the meanings of this reason; none if requests of crawlers never have it.
            pub const fn meanings(self) -> &'static [ReasonMeaning] {
                match self {
                    $(Self::$variant => &[
                        $(ReasonMeaning { outcomes: &[$($outcome),+], text: $text },)*
                    ],)+
                }
            }
        }
    };
}

// Names with underscores are error types of RFC 9209 section 2.3, which `Proxy-Status` repeats.
reasons! {
    Rule = "rule", 403 "Disallowed by robots.txt" "http_request_denied" {
        [Forwarded, Observed, Refused] "a rule of the crawler's group in robots.txt"
    }
    NoMatchingRule = "no-matching-rule", 403 "Request denied" "http_request_denied" {
        [Forwarded, Tunnelled] "no rule of the group matches"
    }
    NoMatchingGroup = "no-matching-group", 403 "Request denied" "http_request_denied" {
        [Forwarded, Tunnelled] "no group names the crawler, and there is none for `*`"
    }
    RobotsTxtItself = "robots-txt-itself", 403 "Request denied" "http_request_denied" {
        [Forwarded] "`/robots.txt` is always allowed"
    }
    Unavailable = "unavailable", 403 "Disallowed by robots.txt" "http_request_denied" {
        [Forwarded, Tunnelled] "there is no robots.txt (4xx)"
        [Observed, Refused] "robots.txt was answered with 401 or 403, after which koster1996 disallows everything"
    }
    RedirectLost = "redirect-lost", 403 "Disallowed by robots.txt" "http_request_denied" {
        [Forwarded, Tunnelled] "the redirects of robots.txt led nowhere (too many, or no usable `Location`): treated as if there were none"
        [Observed, Refused] "the redirects of robots.txt led nowhere (too many, or no usable `Location`), after which koster1996 disallows everything"
    }
    Unreachable = "unreachable", 503 "Robots.txt unreachable" "destination_unavailable" {
        [Observed, Refused] "robots.txt cannot be fetched, and there is no usable copy"
        [Forwarded, Tunnelled] "robots.txt could not be fetched for longer than `robots.max_stale`, and there never was a copy"
    }
    TooCostly = "too-costly", 403 "Disallowed by robots.txt" "http_request_denied" {
        [Observed, Refused] "robots.txt, or another statement of the origin about use, takes too long to match against this URL, which counts as disallowed"
    }
    PolicyException = "policy-exception", 403 "Request denied" "http_request_denied" {
        [Forwarded, Tunnelled] "one of your rules (`[[rule]]`) allows it"
    }
    Bypass = "bypass", 403 "Request denied" "http_request_denied" {
        [Tunnelled] "`https.bypass` lists the host"
    }
    PolicyRule = "policy-rule", 403 "Refused by policy" "http_request_denied" {
        [Observed, Refused] "one of your rules (`[[rule]]`) refuses it"
    }
    Payment = "payment", 403 "Request denied" "http_request_denied" {
        [Forwarded] "the origin answered with 402, or with 401 and a request for a licence; the client gets that response, and nothing is paid"
    }
    Preference = "preference", 403 "Refused by usage preference" "http_request_denied" {
        [Observed, Refused] "the site refuses the use for one of the crawler's `purposes`, or states nothing about it and `unstated` is `\"refuse\"`"
    }
    SubresourceOf = "subresource-of", 403 "Request denied" "http_request_denied" {
        [Forwarded] "robots.txt disallows it, but the crawler has `subresources = \"page\"`, and a page loads it that was just allowed"
    }
    SubresourceType = "subresource-type", 403 "Not a subresource" "http_request_denied" {
        [Observed, Refused] "robots.txt disallows it, and the response is not the script, style sheet, image, font or media for which a page's request may pass"
    }
    ResponseTooLarge = "response-too-large", 502 "Response too large" "http_response_body_size" {
        [Observed, Refused] "the response is longer than `max_response_bytes` of the crawler"
        [Failed] "the response grew longer than `max_response_bytes` of the crawler, and was cut"
    }
    CrawlDelay = "crawl-delay", 429 "Crawl delay" "http_request_denied" {
        [Observed, Refused] "too soon after the crawler's last request to the origin"
    }
    OriginRests = "origin-rests", 429 "Crawl delay" "http_request_denied" {
        [Observed, Refused] "after a 429 or 503, or a `RateLimit` of which nothing is left, the origin or this URL gets no requests for a while, from any client or from this one"
    }
    Unrecorded = "unrecorded", 503 "Decision log unavailable" "http_request_denied" {
        [Refused] "the decision log cannot be written, and `log.on_failure` is \"refuse\""
    }
    Concurrency = "concurrency", 429 "Crawl delay" "http_request_denied" {
        [Observed, Refused] "`politeness.max_concurrent_per_origin` requests of the crawler are in progress"
    }
    Budget = "budget", 429 "Daily budget spent" "http_request_denied" {
        [Observed, Refused] "`requests_per_day`, `bytes_per_day` or `new_origins_per_day` of the crawler is spent until midnight UTC"
    }
    Unidentified = "unidentified", 407 "Proxy authentication required" "http_request_error" {
        [Observed, Refused] "`proxy.require_crawler`, and no `[[crawler]]` matches"
    }
    WrongPassword = "wrong-password", 407 "Wrong user name or password" "http_request_error" {
        [Refused] "wrong credentials in Proxy-Authorization or for SOCKS5, or changed since the tunnel was opened"
    }
    WrongCertificate = "wrong-certificate", 403 "Certificate no longer good" "http_request_denied" {
        [Refused] "the client's certificate expired, or `proxy.client_ca` changed, since its connection began"
    }
    PasswordChecks = "password-checks", 429 "Too many password checks" "http_request_denied" {
        [Refused] "too many passwords are waiting to be checked: 4 from one client address, or 32 in total"
    }
    HttpsRefused = "https-refused", 403 "HTTPS refused" "http_request_denied" {
        [Observed, Refused] "`https.mode = \"refuse\"`"
    }
    ForeignToken = "foreign-token", 403 "Token belongs to another" "http_request_denied" {
        [Observed, Refused] "User-Agent is the name of someone else's well-known crawler"
    }
    PurposeNotDeclared = "purpose-not-declared", 403 "Purpose not declared" "http_request_denied" {
        [Refused] "`Wayleave-Purpose` states what no matching `[[crawler]]` declares"
    }
    TokenMissing = "token-missing", 403 "Token missing in User-Agent" "http_request_denied" {
        [Observed, Refused] "User-Agent names none of the crawler's tokens"
    }
    DestinationIpProhibited = "destination_ip_prohibited", 502 "Prohibited address" "destination_ip_prohibited" {
        [Refused] "the name resolves to an internal address"
        [Failed] "the name resolves to an internal address, which was found only when connecting"
    }
    MalformedRequest = "malformed-request", 400 "Bad request" "http_request_error" {
        [Refused] "the request is malformed"
        [Failed] "the request's body is malformed"
    }
    Misdirected = "misdirected", 421 "Misdirected request" "http_request_error" {
        [Refused] "inside a tunnel, but for another origin; or captured, but for another port"
    }
    UnsupportedScheme = "unsupported-scheme", 501 "Scheme not supported" "http_request_error" {
        [Refused] "neither `http`, `https` nor `ftp`, or `ftp` with a method other than GET and HEAD"
    }
    ProxyLoopDetected = "proxy_loop_detected", 502 "Proxy loop detected" "proxy_loop_detected" {
        [Refused] "the request has already passed through this proxy, or a captured connection is the proxy's own"
        [Failed] "the parent proxy is this proxy"
    }
    ProxyConfigurationError = "proxy_configuration_error", 502 "Proxy configuration error" "proxy_configuration_error" {
        [Failed] "the parent proxy does not accept our credentials"
    }
    ProxyInternalError = "proxy_internal_error", 503 "Proxy out of resources" "proxy_internal_error" {
        [Failed] "this machine lacks something that a connection needs, such as a file descriptor; the origin was not asked, and did not fail"
    }
    TargetTooLong = "target-too-long", 414 "URI too long" "http_request_error" {
        [Refused] "the request target is longer than 16 KiB, the most that is judged"
    }
    HeadTooLarge = "head-too-large", 431 "Request header fields too large" "http_request_error" {
        [Refused] "the request head is too large"
    }
    HeadTimeout = "head-timeout", 408 "Request timeout" "http_request_error" {
        [Refused] "the request head, or the first bytes in an uninspected tunnel, did not arrive within `proxy.header_timeout`"
    }
    UnsupportedVersion = "unsupported-version", 505 "HTTP version not supported" "http_request_error" {
        [Refused] "the request is in an HTTP version other than 1.0, 1.1 and 2"
    }
    BodyTimeout = "body-timeout", 408 "Request timeout" "http_request_error" {
        [Failed] "the client stopped sending the request's body, or sent it too slowly while it held a slot of `politeness.max_concurrent_per_origin`"
    }
    MaxForwards = "max-forwards", 200 "OK" "http_request_denied" {
        [Refused] "OPTIONS or TRACE with `Max-Forwards: 0`: answered with 200 here, and not forwarded"
    }
    ConnectionLimitReached = "connection_limit_reached", 503 "Connection limit reached" "connection_limit_reached" {
        [Refused] "`proxy.max_connections` are open, or `proxy.max_connections_per_client`, or almost as many files as the process may open"
    }
    ProxyProtocol = "proxy-protocol", 400 "Bad request" "http_request_error" {
        [Refused] "a load balancer in `proxy.proxy_protocol` sent no valid PROXY header"
    }
    TlsRequired = "tls-required", 400 "Bad request" "http_request_error" {
        [Refused] "plain HTTP arrived at an `https://` listener"
    }
    NotHttp = "not-http", 400 "Bad request" "http_request_error" {
        [Refused] "on a captured connection, neither TLS nor HTTP came, and `https.bypass` does not list the host"
    }
    NotRedirected = "not-redirected", 400 "Bad request" "http_request_error" {
        [Refused] "a client connected to a `redirect://` or `tproxy://` listener by itself"
    }
    DnsError = "dns_error", 502 "DNS error" "dns_error" {
        [Failed] "the origin's name does not exist, or could not be resolved"
    }
    DnsTimeout = "dns_timeout", 504 "DNS timeout" "dns_timeout" {
        [Failed] "the origin's name was not resolved in time"
    }
    DestinationUnavailable = "destination_unavailable", 503 "Destination unavailable" "destination_unavailable" {}
    DestinationIpUnroutable = "destination_ip_unroutable", 502 "Address unroutable" "destination_ip_unroutable" {
        [Failed] "no route to the origin's address"
    }
    ConnectionRefused = "connection_refused", 502 "Connection refused" "connection_refused" {
        [Failed] "no connection to the origin, or the parent proxy did not open a tunnel to it"
    }
    ConnectionTimeout = "connection_timeout", 504 "Connection timeout" "connection_timeout" {
        [Failed] "no connection to the origin in time, or the parent proxy did not open a tunnel to it in time"
    }
    ConnectionTerminated = "connection_terminated", 502 "Connection terminated" "connection_terminated" {
        [Failed] "the connection broke"
    }
    ConnectionWriteTimeout = "connection_write_timeout", 504 "Connection write timeout" "connection_write_timeout" {
        [Failed] "the connection stalled"
    }
    TlsProtocolError = "tls_protocol_error", 502 "TLS protocol error" "tls_protocol_error" {
        [Failed] "the TLS handshake with the origin failed"
    }
    TlsCertificateError = "tls_certificate_error", 502 "TLS certificate error" "tls_certificate_error" {
        [Failed] "the origin's certificate is not valid for it"
    }
    TlsAlertReceived = "tls_alert_received", 502 "TLS alert received" "tls_alert_received" {
        [Failed] "the origin ended the TLS handshake with an alert"
    }
    HttpRequestError = "http_request_error", 400 "Bad request" "http_request_error" {
        [Failed] "the request cannot be expressed in the origin's HTTP version"
    }
    HttpRequestDenied = "http_request_denied", 403 "Request denied" "http_request_denied" {}
    HttpResponseIncomplete = "http_response_incomplete", 502 "Response incomplete" "http_response_incomplete" {
        [Failed] "the response was cut short"
    }
    HttpResponseTimeout = "http_response_timeout", 504 "Response timeout" "http_response_timeout" {
        [Failed] "the response did not arrive in time"
    }
    HttpResponseHeaderSectionSize = "http_response_header_section_size", 502 "Response header too large" "http_response_header_section_size" {
        [Failed] "the response's head is too large"
    }
    HttpProtocolError = "http_protocol_error", 502 "HTTP protocol error" "http_protocol_error" {
        [Failed] "the response is not HTTP"
    }
    ClientClosed = "client-closed", 499 "Client closed request" "connection_terminated" {
        [Failed] "the client left or stopped reading before the response was complete; the origin did not fail"
    }
    Shutdown = "shutdown", 503 "Proxy shutting down" "connection_terminated" {
        [Failed] "the proxy ended before the response was complete: `proxy.shutdown_grace` was over, or a second signal to stop arrived"
    }
    /// The proxy's own fetch that a redirect of a robots.txt asks for.
    RobotsRedirect = "robots-redirect", 502 "Destination unavailable" "destination_unavailable" {}
    /// The proxy's own fetch of a document about usage preferences.
    PreferenceDocument = "preference-document", 502 "Destination unavailable" "destination_unavailable" {}
}

impl Reason {
    /// Returns the reason with this name, as [`Self::as_str`] gives it.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.as_str() == name)
    }

    /// Returns whether requests can end in this way for this reason.
    pub fn has_outcome(self, outcome: RequestOutcome) -> bool {
        let mut meanings = self.meanings().iter();
        meanings.any(|meaning| meaning.outcomes.contains(&outcome))
    }

    /// Returns whether only connections without a request have this reason, so that no crawler is known.
    pub const fn is_before_request(self) -> bool {
        matches!(
            self,
            Self::HeadTooLarge
                | Self::HeadTimeout
                | Self::UnsupportedVersion
                | Self::ConnectionLimitReached
                | Self::ProxyProtocol
                | Self::TlsRequired
                | Self::NotHttp
                | Self::NotRedirected
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Reason::ALL.len());
    }
}
