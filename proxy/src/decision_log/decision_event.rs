//! Decisions as events of the program's log. They are formatted here because tracing's visitors take five times as long for as
//! many fields.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use anstyle::AnsiColor;
use serde::Serialize;
use wayleave_evidence::{Sha256Digest, rfc3339};

use super::client_address::LoggedClient;
use super::record::{DecisionId, DecisionRecord, crawler_in_words};
use crate::telemetry::harmless::{escape_controls, escape_json};
use crate::telemetry::logging::{LineForm, LogHandle, time_of_day};

/// The target of these events, by which `RUST_LOG` can filter them.
const TARGET: &str = "wayleave::decision";

/// The initial capacity for a line, which most lines fit.
const TYPICAL_LINE_BYTES: usize = 768;

/// Logs a decision, unless the configuration or `RUST_LOG` says not to.
pub(super) fn log_decision(log: &LogHandle, decision: &DecisionRecord) {
    if !log.has_decisions() || !tracing::enabled!(target: TARGET, tracing::Level::INFO) {
        return;
    }
    let line = DecisionEvent::new(decision).to_line(log.form());
    // Formatted before the buffer is locked, so that exchanges do not wait for each other's formatting.
    log.lines.append(|buffer| {
        buffer.extend_from_slice(&line);
        buffer.push(b'\n');
    });
}

#[derive(Serialize)]
struct DecisionEvent<'a> {
    #[serde(serialize_with = "rfc3339::serialize")]
    timestamp: SystemTime,
    level: &'static str,
    target: &'static str,
    decision_id: DecisionId,
    outcome: &'a str,
    reason: &'a str,
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    would_be: Option<u16>,
    crawler: &'a str,
    identity: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    proven_by: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
    client: LoggedClient,
    method: &'a str,
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dialect: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    robots_sha256: Option<Sha256Digest>,
    #[serde(serialize_with = "rfc3339::serialize_some", skip_serializing_if = "Option::is_none")]
    robots_fetched_at: Option<SystemTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a str>,
    took_us: u64,
}

impl<'a> DecisionEvent<'a> {
    fn new(decision: &'a DecisionRecord) -> Self {
        let finding = decision.finding.as_ref();
        Self {
            // The event happens at the end of the exchange; `at` is its beginning.
            timestamp: decision.at + Duration::from_micros(decision.took_us),
            level: "INFO",
            target: TARGET,
            decision_id: decision.id,
            outcome: &decision.outcome,
            reason: &decision.reason,
            status: decision.status,
            would_be: decision.would_be,
            crawler: &decision.crawler,
            identity: &decision.identity,
            proven_by: decision.proven_by.as_deref(),
            token: decision.tokens.first().map(String::as_str),
            client: decision.client,
            method: &decision.method,
            url: &decision.url,
            dialect: finding.map(|finding| &*finding.dialect),
            line: finding.and_then(|finding| finding.line),
            rule: finding.and_then(|finding| finding.rule.as_deref()),
            robots_sha256: finding.and_then(|finding| finding.robots_sha256),
            robots_fetched_at: finding.and_then(|finding| finding.robots_fetched_at),
            details: decision.details.as_deref(),
            took_us: decision.took_us,
        }
    }

    /// Returns the line without a line feed.
    fn to_line(&self, form: LineForm) -> Vec<u8> {
        let mut line = Vec::with_capacity(TYPICAL_LINE_BYTES);
        let written = match form {
            LineForm::Text => self.write_text(&mut line),
            LineForm::Terminal => return self.terminal_line().into_bytes(),
            LineForm::Json => serde_json::to_writer(&mut line, self).map_err(Into::into),
        };
        written.expect("writing to memory does not fail, and every field can be written");
        escape_json(line)
    }

    /// Returns what a person at a terminal reads: the time of day, the outcome in colour, the request, and why.
    fn terminal_line(&self) -> String {
        let colour = match self.outcome {
            "refused" | "failed" => AnsiColor::Red,
            "observed" => AnsiColor::Yellow,
            _ => AnsiColor::Green,
        };
        let style = colour.on_default();
        let timestamp = humantime::format_rfc3339_seconds(self.timestamp).to_string();
        let crawler = crawler_in_words(self.crawler);
        let (method, url, id) = (self.method, self.url, self.decision_id);
        let mut rest = format!("{} {} {method} {url} {crawler}", self.status, self.reason);
        if let Some(details) = self.details {
            rest += &format!(" ({details})");
        }
        // Coloured last: the escape sequences of colours must remain.
        let (at, outcome, rest) = (time_of_day(&timestamp), self.outcome, escape_controls(&rest));
        format!("{at} {style}{outcome:<9}{style:#} {rest} {id}")
    }

    /// Writes one short line for people in tracing's text format: outcome, reason, request, crawler and client. Text that
    /// others chose is quoted as JSON. Everything else can be looked up by the id.
    fn write_text(&self, line: &mut Vec<u8>) -> io::Result<()> {
        let timestamp = humantime::format_rfc3339_micros(self.timestamp);
        write!(line, "{timestamp}  INFO wayleave::decision:")?;
        write_word(line, " ", self.outcome);
        write!(line, " {}", self.status)?;
        write_word(line, " ", self.reason);
        if let Some(would_be) = self.would_be {
            write!(line, " would_be={would_be}")?;
        }
        write_quoted(line, " ", self.method)?;
        write_quoted(line, " ", self.url)?;
        write_word(line, " crawler=", self.crawler);
        write!(line, " client={}", self.client)?;
        if let Some(details) = self.details {
            write_quoted(line, " details=", details)?;
        }
        if let Some(digest) = self.robots_sha256 {
            write!(line, " robots_sha256={digest}")?;
        }
        write!(line, " took_us={}", self.took_us)?;
        write!(line, " decision_id={}", self.decision_id)
    }
}

fn write_word(line: &mut Vec<u8>, key: &str, value: &str) {
    line.extend_from_slice(key.as_bytes());
    line.extend_from_slice(value.as_bytes());
}

fn write_quoted(line: &mut Vec<u8>, key: &str, value: &str) -> io::Result<()> {
    line.extend_from_slice(key.as_bytes());
    serde_json::to_writer(line, value).map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use super::super::record::EncodedDecision;
    use super::super::tests::decision;
    use super::*;

    #[test]
    fn text_event_is_one_line() {
        let mut decision = decision();
        decision.url = "http://shop.test/a\n\"b\"".to_owned();
        let line = DecisionEvent::new(&decision).to_line(LineForm::Text);
        let line = String::from_utf8(line).unwrap();
        assert!(!line.contains('\n'), "{line}");
        for expected in [
            "2027-01-15T08:00:00.000003Z  INFO wayleave::decision: refused 403 rule \"GET\" ",
            " \"http://shop.test/a\\n\\\"b\\\"\" crawler=news client=127.0.0.1 robots_sha256=ba7816bf8f01cfea4141",
            "ad took_us=2 decision_id=",
        ] {
            assert!(line.contains(expected), "{expected} in {line}");
        }
    }

    #[test]
    fn control_characters_from_others_are_escaped() {
        let mut decision = decision();
        let rule = "Disallow: /\u{9b}31m\u{202e}\u{2028}\u{1b}";
        decision.details = Some(rule.to_owned());
        decision.finding.as_mut().unwrap().rule = Some(rule.to_owned());
        for form in [LineForm::Text, LineForm::Json] {
            let line = String::from_utf8(DecisionEvent::new(&decision).to_line(form)).unwrap();
            let expected = "Disallow: /\\u009b31m\\u202e\\u2028\\u001b";
            assert!(line.contains(expected), "{line}");
            assert!(line.is_ascii(), "{line}");
        }
        let recorded = EncodedDecision::new(&decision);
        assert!(recorded.line.is_ascii());
        let read: DecisionRecord = serde_json::from_slice(&recorded.line).unwrap();
        assert_eq!(read.finding.unwrap().rule.unwrap(), rule);
    }

    #[test]
    fn line_for_a_terminal_is_short_and_coloured() {
        let mut decision = decision();
        decision.url = "http://shop.test/a\u{1b}[2J\u{202e}".to_owned();
        decision.details = Some("Disallow: /a (line 2)".to_owned());
        let line = String::from_utf8(DecisionEvent::new(&decision).to_line(LineForm::Terminal));
        let expected = format!(
            "08:00:00 \u{1b}[31mrefused  \u{1b}[0m 403 rule GET http://shop.test/a\\u{{1b}}[2J\\u{{202e}} news \
             (Disallow: /a (line 2)) {}",
            decision.id
        );
        assert_eq!(line.unwrap(), expected);
    }

    #[test]
    fn json_event_has_same_members() {
        let decision = decision();
        let event = serde_json::to_value(DecisionEvent::new(&decision)).unwrap();
        assert_eq!(event["level"], "INFO");
        assert_eq!(event["decision_id"], decision.id.to_string());
        assert_eq!(event["rule"], "Disallow: /a");
        assert_eq!(event.get("details"), None);
    }
}
