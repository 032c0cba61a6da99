//! `Proxy-Status` and its error types (RFC 9209), which state why the proxy answered instead of the origin.

/// An error type of RFC 9209 section 2.3 that wayleave uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyErrorType {
    DnsTimeout,
    DnsError,
    DestinationUnavailable,
    DestinationIpProhibited,
    DestinationIpUnroutable,
    ConnectionRefused,
    ConnectionTerminated,
    ConnectionTimeout,
    ConnectionWriteTimeout,
    ConnectionLimitReached,
    TlsProtocolError,
    TlsCertificateError,
    TlsAlertReceived,
    HttpRequestError,
    HttpRequestDenied,
    HttpResponseIncomplete,
    HttpResponseHeaderSectionSize,
    HttpResponseTimeout,
    HttpProtocolError,
    ProxyLoopDetected,
    ProxyConfigurationError,
}

impl ProxyErrorType {
    /// Returns the type's name in `Proxy-Status`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DnsTimeout => "dns_timeout",
            Self::DnsError => "dns_error",
            Self::DestinationUnavailable => "destination_unavailable",
            Self::DestinationIpProhibited => "destination_ip_prohibited",
            Self::DestinationIpUnroutable => "destination_ip_unroutable",
            Self::ConnectionRefused => "connection_refused",
            Self::ConnectionTerminated => "connection_terminated",
            Self::ConnectionTimeout => "connection_timeout",
            Self::ConnectionWriteTimeout => "connection_write_timeout",
            Self::ConnectionLimitReached => "connection_limit_reached",
            Self::TlsProtocolError => "tls_protocol_error",
            Self::TlsCertificateError => "tls_certificate_error",
            Self::TlsAlertReceived => "tls_alert_received",
            Self::HttpRequestError => "http_request_error",
            Self::HttpRequestDenied => "http_request_denied",
            Self::HttpResponseIncomplete => "http_response_incomplete",
            Self::HttpResponseHeaderSectionSize => "http_response_header_section_size",
            Self::HttpResponseTimeout => "http_response_timeout",
            Self::HttpProtocolError => "http_protocol_error",
            Self::ProxyLoopDetected => "proxy_loop_detected",
            Self::ProxyConfigurationError => "proxy_configuration_error",
        }
    }
}

/// Returns the value of `Proxy-Status`: `name; error=TYPE; next-hop="…"; details="…"` (RFC 9209 section 2). The texts
/// are structured strings (RFC 8941 section 3.3.3), in which anything but printable ASCII becomes `?`.
pub fn field_value(name: &str, error: &str, next_hop: Option<&str>, details: &str) -> String {
    let mut value = String::with_capacity(name.len() + details.len() + 64);
    for part in [name, "; error=", error] {
        value.push_str(part);
    }
    if let Some(next_hop) = next_hop {
        push_parameter(&mut value, "next-hop", next_hop);
    }
    push_parameter(&mut value, "details", details);
    value
}

fn push_parameter(value: &mut String, key: &str, text: &str) {
    for part in ["; ", key, "=\""] {
        value.push_str(part);
    }
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                value.push('\\');
                value.push(character);
            }
            ' '..='~' => value.push(character),
            '\u{2026}' => value.push_str("..."),
            _ => value.push('?'),
        }
    }
    value.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_are_a_structured_string() {
        let value = field_value(
            "wayleave",
            ProxyErrorType::HttpRequestDenied.as_str(),
            Some("proxy.corp:3128"),
            "say \"no\"\\\n\u{e9}",
        );
        assert_eq!(
            value,
            r#"wayleave; error=http_request_denied; next-hop="proxy.corp:3128"; details="say \"no\"\\??""#
        );
    }
}
