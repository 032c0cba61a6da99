//! Checks of complete refusals (RFC 9209, RFC 9457).

use serde_json::Value;

use super::response::Response;

impl Response {
    /// Checks that this is a complete refusal by the proxy, and returns its problem document. HTTP/2 has no `phrase` to check.
    #[track_caller]
    pub fn expect_refusal(&self, status: u16, phrase: Option<&str>, error: &str) -> Value {
        assert_eq!(self.status, status, "{self:?}\n{}", self.text());
        if self.version != "HTTP/2" {
            assert!(
                self.reason.is_ascii() && !self.reason.is_empty() && self.reason.len() <= 64,
                "a short ASCII reason phrase: {self:?}"
            );
            if let Some(phrase) = phrase {
                assert_eq!(self.reason, phrase);
            }
        }
        let proxy_status = self.proxy_status();
        assert_eq!(proxy_status.proxy, "wayleave");
        assert_eq!(proxy_status.error, error, "{proxy_status:?}");
        assert!(!proxy_status.details.is_empty(), "details say why: {self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let problem = self.json();
        assert_eq!(problem["status"], status, "{problem}");
        for member in ["type", "title", "detail", "decision_id", "reason"] {
            assert!(
                problem[member].as_str().is_some_and(|text| !text.is_empty()),
                "`{member}` is missing: {problem}"
            );
        }
        if let Some(seconds) = self.header("retry-after") {
            let seconds: u64 = seconds.parse().expect("Retry-After is a number of seconds");
            assert_eq!(problem["retry_after"], seconds, "{problem}");
        }
        problem
    }

    /// Checks a refusal by robots.txt, which names the deciding line and rule.
    #[track_caller]
    pub fn expect_disallowed(&self, robots_url: &str, line: u64, rule: &str) {
        let problem =
            self.expect_refusal(403, Some("Disallowed by robots.txt"), "http_request_denied");
        assert_eq!(problem["robots_url"], robots_url, "{problem}");
        assert_eq!(problem["line"], line, "{problem}");
        assert_eq!(problem["rule"], rule, "{problem}");
        assert!(self.header("retry-after").is_none(), "a retry would be refused as well: {self:?}");
    }

    /// Checks a refusal because robots.txt is unreachable, which has a time for a retry.
    #[track_caller]
    pub fn expect_unreachable(&self, robots_url: &str) {
        let problem =
            self.expect_refusal(503, Some("Robots.txt unreachable"), "destination_unavailable");
        assert_eq!(problem["robots_url"], robots_url, "{problem}");
        let seconds: u64 =
            self.header("retry-after").expect("Retry-After is there").parse().expect("in seconds");
        assert!((1..=3600).contains(&seconds), "Retry-After: {seconds}");
    }
}
