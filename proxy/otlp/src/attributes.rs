//! Attributes of spans and of log records, named by OpenTelemetry's semantic conventions for HTTP. Those of wayleave begin with `wayleave.`.

use std::borrow::Cow;

use http::Uri;
use opentelemetry::KeyValue;
use percent_encoding::percent_decode_str;
use wayleave_decision::RequestOutcome;
use wayleave_lifecycle::FetchOutcome;
use wayleave_record::DecisionRecord;
use wayleave_usage_preferences::Preference;

/// The methods that the conventions list. Span names must have low cardinality.
const METHODS: &[&str] =
    &["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// Query parameters, in lower case, that are credentials: those that the conventions list, and those of other clouds.
const SECRETS: &[&str] = &[
    "api-key",
    "api_key",
    "apikey",
    "auth",
    "authorization",
    "awsaccesskeyid",
    "code",
    "googleaccessid",
    "jwt",
    "key",
    "key-pair-id",
    "pass",
    "passwd",
    "pwd",
    "samlresponse",
    "session",
    "sid",
    "sig",
];
/// Endings of further such names: `X-Amz-Signature`, `X-Goog-Credential`, `access_token`.
const SECRET_ENDINGS: &[&str] =
    &["credential", "password", "secret", "sessid", "sessionid", "signature", "token"];

/// Returns the method as the name of a span: `HTTP` if it is not well known.
pub fn method(decision: &DecisionRecord) -> &'static str {
    METHODS.iter().copied().find(|method| *method == decision.method).unwrap_or("HTTP")
}

/// Returns whether the request was sent to its origin.
pub fn was_sent_upstream(decision: &DecisionRecord) -> bool {
    // A `CONNECT` opens a connection but sends no request to the origin.
    matches!(
        decision.request_outcome(),
        Some(RequestOutcome::Forwarded | RequestOutcome::Observed | RequestOutcome::Failed)
    ) && decision.method != "CONNECT"
        && decision.from.is_none()
        && decision.via.is_none()
        && !decision.failed_before_sending()
}

/// Returns the error of the upstream side of an exchange, if it was not successful.
pub fn upstream_error(decision: &DecisionRecord) -> Option<String> {
    match decision.request_outcome() {
        Some(RequestOutcome::Failed) => Some(decision.reason.to_string()),
        _ => (decision.status >= 400).then(|| decision.status.to_string()),
    }
}

/// Returns the attributes of the whole exchange, as the client sees it.
pub fn exchange_attributes(decision: &DecisionRecord) -> Vec<KeyValue> {
    let mut all = vec![
        KeyValue::new("client.address", decision.client.to_string()),
        status(decision.status),
        KeyValue::new("wayleave.decision.id", decision.id.to_string()),
        KeyValue::new("wayleave.outcome", decision.outcome.to_text()),
        KeyValue::new("wayleave.reason", decision.reason.to_text()),
        KeyValue::new("wayleave.crawler", decision.crawler.clone()),
        KeyValue::new("wayleave.identity", decision.identity.to_text()),
    ];
    push_request_method(decision, &mut all);
    if let Ok(uri) = decision.url.parse::<Uri>() {
        push_server(&uri, &mut all);
        if let Some(scheme) = uri.scheme_str() {
            all.push(KeyValue::new("url.scheme", scheme.to_owned()));
            all.push(KeyValue::new("url.path", uri.path().to_owned()));
        }
        if let Some(query) = uri.query() {
            all.push(KeyValue::new("url.query", redacted(query)));
        }
    }
    if let Some(token) = decision.tokens.first() {
        all.push(KeyValue::new("wayleave.product_token", token.clone()));
    }
    all.extend(verdict_attributes(decision));
    all.extend(decision.via.as_ref().map(|via| KeyValue::new("wayleave.via", via.to_text())));
    all
}

/// Returns the attributes of a decision's log record.
pub fn log_attributes(decision: &DecisionRecord) -> Vec<KeyValue> {
    let mut all = exchange_attributes(decision);
    let text = |key: &'static str, text: &Option<String>| {
        text.clone().map(|text| KeyValue::new(key, text))
    };
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    all.extend(text("user_agent.original", &decision.user_agent));
    all.extend(text("user.name", &decision.username));
    all.extend(text("wayleave.owner", &decision.owner));
    all.push(KeyValue::new("wayleave.mode", decision.mode.to_text()));
    all.push(KeyValue::new("wayleave.configuration", number(decision.configuration)));
    all.push(KeyValue::new("wayleave.decided_us", number(decision.decided_us)));
    all.push(KeyValue::new("wayleave.waited_us", number(decision.waited_us)));
    all.push(KeyValue::new("wayleave.took_us", number(decision.took_us)));
    let size = decision.body_bytes.map(number);
    all.extend(size.map(|size| KeyValue::new("http.response.body.size", size)));
    let digest = decision.finding.as_ref().and_then(|finding| finding.robots_sha256);
    all.extend(digest.map(|digest| KeyValue::new("wayleave.robots.sha256", digest.to_string())));
    let refused =
        decision.preferences.iter().find(|preference| preference.preference == Preference::Refuse);
    all.extend(refused.map(|preference| {
        KeyValue::new("wayleave.preference.purpose", preference.purpose.to_text())
    }));
    // By the conventions, this says that something failed.
    let is_failure = decision.outcome == RequestOutcome::Failed;
    let error = is_failure.then(|| decision.reason.to_text());
    all.extend(error.map(|reason| KeyValue::new("error.type", reason)));
    all
}

/// Returns the attributes for the verdicts of robots.txt and the organisation's rules.
pub(crate) fn verdict_attributes(decision: &DecisionRecord) -> Vec<KeyValue> {
    let mut all = Vec::new();
    if let Some(finding) = &decision.finding {
        let words = [
            ("wayleave.robots.verdict", finding.verdict.to_text()),
            ("wayleave.robots.basis", finding.basis.to_text()),
            ("wayleave.robots.dialect", finding.dialect.to_text()),
        ];
        all.extend(words.map(|(key, word)| KeyValue::new(key, word)));
        all.extend(finding.line.map(|line| KeyValue::new("wayleave.robots.line", i64::from(line))));
        all.extend(finding.rule.clone().map(|rule| KeyValue::new("wayleave.robots.rule", rule)));
    }
    if let Some(policy) = &decision.policy {
        let number = i64::try_from(policy.number).unwrap_or(i64::MAX);
        all.push(KeyValue::new("wayleave.policy.rule", number));
    }
    all
}

/// Returns the attributes of the request to the origin.
pub fn upstream_attributes(decision: &DecisionRecord) -> Vec<KeyValue> {
    let mut all = vec![KeyValue::new("url.full", redacted_url(&decision.url))];
    push_request_method(decision, &mut all);
    if let Ok(uri) = decision.url.parse::<Uri>() {
        push_server(&uri, &mut all);
    }
    // The status of a failed request is wayleave's own, not the origin's.
    if decision.outcome != RequestOutcome::Failed {
        all.push(status(decision.status));
    }
    all
}

/// Returns the attributes of a fetch of robots.txt.
pub(crate) fn fetch_attributes(uri: &str, outcome: &FetchOutcome) -> Vec<KeyValue> {
    let redirects = i64::try_from(outcome.redirects.len()).unwrap_or(i64::MAX);
    let mut all = vec![
        KeyValue::new("http.request.method", "GET"),
        KeyValue::new("url.full", redacted_url(uri)),
        KeyValue::new("wayleave.robots.result", outcome.result().as_str()),
        KeyValue::new("wayleave.robots.redirects", redirects),
    ];
    if let Ok(uri) = uri.parse::<Uri>() {
        push_server(&uri, &mut all);
    }
    all.extend(outcome.status().map(status));
    all
}

/// Returns the error of a fetch, if it was not successful.
pub(crate) fn fetch_error(outcome: &FetchOutcome) -> Option<String> {
    if let Some(error) = outcome.error() {
        return Some(error.kind.as_str().to_owned());
    }
    outcome.status().filter(|status| *status >= 400).map(|status| status.to_string())
}

fn redacted_url(url: &str) -> String {
    match url.split_once('?') {
        Some((url, query)) => format!("{url}?{}", redacted(query)),
        None => url.to_owned(),
    }
}

/// Returns the query with the values of credentials replaced.
fn redacted(query: &str) -> String {
    // Many servers separate parameters at semicolons, too.
    let parameters = query.split_inclusive(['&', ';']).map(|parameter| {
        let text = parameter.trim_end_matches(['&', ';']);
        match text.split_once('=') {
            Some((name, _)) if is_secret(name) => {
                Cow::Owned(format!("{name}=REDACTED{}", &parameter[text.len()..]))
            }
            _ => Cow::Borrowed(parameter),
        }
    });
    parameters.collect()
}

/// Returns whether a parameter is a credential, in any case and percent-encoding of its name.
fn is_secret(name: &str) -> bool {
    // Servers decode names before they compare them, so `X%2DAmz%2DSignature` is a credential, too.
    let name = percent_decode_str(name).decode_utf8_lossy().to_ascii_lowercase();
    // PHP and others read `a[token]` as a member of `a`.
    let name = name.trim_end_matches(']');
    SECRETS.contains(&name) || SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

fn push_request_method(decision: &DecisionRecord, all: &mut Vec<KeyValue>) {
    match method(decision) {
        "HTTP" => {
            all.push(KeyValue::new("http.request.method", "_OTHER"));
            all.push(KeyValue::new("http.request.method_original", decision.method.clone()));
        }
        method => all.push(KeyValue::new("http.request.method", method)),
    }
}

fn status(code: u16) -> KeyValue {
    KeyValue::new("http.response.status_code", i64::from(code))
}

fn push_server(uri: &Uri, all: &mut Vec<KeyValue>) {
    let Some(host) = uri.host() else { return };
    // The conventions ask for IPv6 addresses without brackets.
    let address = host.trim_start_matches('[').trim_end_matches(']');
    all.push(KeyValue::new("server.address", address.to_owned()));
    let default = match uri.scheme_str() {
        Some("https") => Some(443),
        Some("http") => Some(80),
        _ => None,
    };
    let port = uri.port_u16().or(default).map(i64::from);
    all.extend(port.map(|port| KeyValue::new("server.port", port)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_redacted() {
        let query = "a=b&sig=c%3D=&Signature=&sig&x=sig=y;sig=z;&b";
        let shown = "a=b&sig=REDACTED&Signature=REDACTED&sig&x=sig=y;sig=REDACTED;&b";
        assert_eq!(redacted(query), shown);
        assert_eq!(redacted(""), "");
    }

    #[test]
    fn credentials_of_all_clouds_are_redacted_in_any_spelling() {
        for name in [
            "X-Amz-Signature",
            "x-amz-signature",
            "X-Amz-Credential",
            "X-Amz-Security-Token",
            "X%2DAmz%2DSignature",
            "AWSAccessKeyId",
            "awsaccesskeyid",
            "X-Goog-Signature",
            "X-Goog-Credential",
            "GoogleAccessId",
            "SIG",
            "Signature",
            "Key-Pair-Id",
            "token",
            "access_token",
            "api_key",
            "apiKey",
            "client_secret",
            "Password",
            "pass",
            "code",
            "PHPSESSID",
            "SAMLResponse",
            "a[token]",
        ] {
            let query = format!("a=1&{name}=s3cret&b=s3cret%20too");
            let shown = format!("a=1&{name}=REDACTED&b=s3cret%20too");
            assert_eq!(redacted(&query), shown);
        }
        for name in ["X-Amz-Date", "X-Amz-Expires", "page", "monkey", "design", "tokens"] {
            let query = format!("{name}=1");
            assert_eq!(redacted(&query), query);
        }
    }

    #[test]
    fn credentials_in_licence_urls_are_redacted() {
        let shown = redacted_url("https://law.test/l.xml?v=2&sig=abc");
        assert_eq!(shown, "https://law.test/l.xml?v=2&sig=REDACTED");
        assert_eq!(redacted_url("https://law.test/sig=abc"), "https://law.test/sig=abc");
    }
}
