//! `[traces]`: the collector that spans are sent to.

use url::Url;
use wayleave_otlp::traces::TraceConfig;

use super::reader::{ParseResult, Section, ValueNode, checked, none_if_empty, number, parse_with};

pub(super) fn read(section: &mut Section<'_>) -> TraceConfig {
    TraceConfig {
        otlp_endpoint: section.key("otlp_endpoint", None, none_if_empty(parse_collector)),
        sample_ratio: section.key("sample_ratio", 1.0, checked(number, check_ratio)),
    }
}

fn check_ratio(ratio: &f64) -> Result<(), String> {
    if (0.0..=1.0).contains(ratio) { Ok(()) } else { Err("is not between 0 and 1".to_owned()) }
}

/// Parses the URL of a collector.
pub(super) fn parse_collector(node: &ValueNode<'_>) -> ParseResult<Url> {
    parse_with(node, |text| {
        // `/v1/traces` or `/v1/logs` is appended to it, which a query or a fragment would swallow.
        let is_base = |url: &Url| {
            let is_http = matches!(url.scheme(), "http" | "https");
            is_http && url.has_host() && url.query().is_none() && url.fragment().is_none()
        };
        let has_credentials = |url: &Url| !url.username().is_empty() || url.password().is_some();
        match Url::parse(text) {
            Ok(url) if is_base(&url) && !has_credentials(&url) => Ok(url),
            // The client would send them within `Host`, where they identify nobody.
            Ok(url) if is_base(&url) => {
                Err("has credentials: put them into OTEL_EXPORTER_OTLP_HEADERS, as Authorization"
                    .to_owned())
            }
            _ => Err(format!(
                "{text:?} is not the URL of a collector, such as \"http://127.0.0.1:4318\""
            )),
        }
    })
}
