//! Decisions as events of the program's log. They are formatted here because tracing's visitors take five times as long for as
//! many fields.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use anstyle::AnsiColor;
use wayleave_decision::{ASSERTED, RequestOutcome};
use wayleave_notation::harmless::{escape_controls, escape_json};
use wayleave_notation::json_object::{JsonObject, push_json_text};
use wayleave_record::{DecisionRecord, crawler_in_words};
use wayleave_telemetry::logging::{DECISION_TARGET, LineForm, LogHandle, time_of_day};

/// The initial capacity for a line, which most lines fit.
const TYPICAL_LINE_BYTES: usize = 768;

/// Logs a decision, unless the configuration or `RUST_LOG` says not to.
pub(super) fn log_decision(log: &LogHandle, decision: &DecisionRecord) {
    if !log.has_decisions() {
        return;
    }
    let line = event_line(decision, log.form());
    // Formatted before the buffer is locked, so that exchanges do not wait for each other's formatting.
    log.lines.append(|buffer| {
        buffer.extend_from_slice(&line);
        buffer.push(b'\n');
    });
}

/// Returns the line without a line feed.
pub(super) fn event_line(decision: &DecisionRecord, form: LineForm) -> Vec<u8> {
    let mut line = Vec::with_capacity(TYPICAL_LINE_BYTES);
    match form {
        LineForm::Text => {
            write_text(decision, &mut line).expect("writing to memory does not fail");
            escape_json(line)
        }
        LineForm::Terminal => terminal_line(decision).into_bytes(),
        LineForm::Json => {
            write_json(decision, &mut line);
            line
        }
    }
}

/// Returns the time of the event: the end of the exchange, of which `at` is the beginning.
fn ended_at(decision: &DecisionRecord) -> SystemTime {
    decision.at + Duration::from_micros(decision.took_us)
}

fn write_json(decision: &DecisionRecord, line: &mut Vec<u8>) {
    let finding = decision.finding.as_ref();
    let fetched_at = finding.and_then(|finding| finding.robots_fetched_at);
    let mut object = JsonObject::begin(line);
    object.display("timestamp", Some(humantime::format_rfc3339_micros(ended_at(decision))));
    object.text("level", Some("INFO"));
    object.text("target", Some(DECISION_TARGET));
    object.display("decision_id", Some(decision.id));
    object.text("outcome", Some(&decision.outcome));
    object.text("reason", Some(&decision.reason));
    object.unescaped("status", Some(decision.status));
    object.unescaped("would_be", decision.would_be);
    object.text("crawler", Some(&decision.crawler));
    object.text("identity", Some(&decision.identity));
    object.text("proven_by", decision.proven_by.as_deref());
    object.text("token", decision.tokens.first().map(String::as_str));
    object.unescaped("client", Some(decision.client));
    object.text("method", Some(&decision.method));
    object.text("url", Some(&decision.url));
    object.text("dialect", finding.map(|finding| &*finding.dialect));
    object.unescaped("line", finding.and_then(|finding| finding.line));
    object.text("rule", finding.and_then(|finding| finding.rule.as_deref()));
    object.display("robots_sha256", finding.and_then(|finding| finding.robots_sha256));
    object.display("robots_fetched_at", fetched_at.map(humantime::format_rfc3339_micros));
    object.text("details", decision.details.as_deref());
    object.unescaped("took_us", Some(decision.took_us));
    object.text("via", decision.via.as_deref());
    object.end();
}

/// Returns a line for people at a terminal: the time of day, the outcome in colour, the request, and why.
fn terminal_line(decision: &DecisionRecord) -> String {
    let colour = match decision.request_outcome() {
        Some(RequestOutcome::Refused | RequestOutcome::Failed) => AnsiColor::Red,
        Some(RequestOutcome::Observed) => AnsiColor::Yellow,
        _ => AnsiColor::Green,
    };
    let style = colour.on_default();
    let timestamp = humantime::format_rfc3339_seconds(ended_at(decision)).to_string();
    let crawler = crawler_in_words(&decision.crawler);
    let DecisionRecord { id, outcome, status, reason, method, url, .. } = decision;
    let mut rest = format!("{status} {reason} {method} {url} {crawler}");
    if let Some(token) = asserted_name(decision) {
        rest += &format!(" {token}");
    }
    if let Some(details) = &decision.details {
        rest += &format!(" ({details})");
    }
    // Coloured last: the escape sequences of colours must remain.
    let at = time_of_day(&timestamp);
    let rest = escape_controls(&rest);
    format!("{at} {style}{outcome:<9}{style:#} {rest} {id}")
}

/// Writes one short line for people in tracing's text format: outcome, reason, request, crawler and client. Text that
/// others chose is quoted as JSON. Everything else can be looked up by the id.
fn write_text(decision: &DecisionRecord, line: &mut Vec<u8>) -> io::Result<()> {
    let timestamp = humantime::format_rfc3339_micros(ended_at(decision));
    write!(line, "{timestamp}  INFO wayleave::decision:")?;
    push_word(line, " ", &decision.outcome);
    write!(line, " {}", decision.status)?;
    push_word(line, " ", &decision.reason);
    if let Some(would_be) = decision.would_be {
        write!(line, " would_be={would_be}")?;
    }
    push_quoted(line, " ", &decision.method);
    push_quoted(line, " ", &decision.url);
    push_word(line, " crawler=", &decision.crawler);
    if let Some(token) = asserted_name(decision) {
        push_quoted(line, " token=", token);
    }
    write!(line, " client={}", decision.client)?;
    if let Some(details) = &decision.details {
        push_quoted(line, " details=", details);
    }
    if let Some(digest) = decision.finding.as_ref().and_then(|finding| finding.robots_sha256) {
        write!(line, " robots_sha256={digest}")?;
    }
    if let Some(via) = &decision.via {
        push_word(line, " via=", via);
    }
    write!(line, " took_us={} decision_id={}", decision.took_us, decision.id)
}

/// Returns the name that a client which matches no `[[crawler]]` gives itself: the product token in its User-Agent.
fn asserted_name(decision: &DecisionRecord) -> Option<&str> {
    let is_unnamed = decision.crawler == ASSERTED;
    decision.tokens.first().filter(|_| is_unnamed).map(String::as_str)
}

fn push_word(line: &mut Vec<u8>, key: &str, value: &str) {
    line.extend_from_slice(key.as_bytes());
    line.extend_from_slice(value.as_bytes());
}

fn push_quoted(line: &mut Vec<u8>, key: &str, value: &str) {
    line.extend_from_slice(key.as_bytes());
    push_json_text(line, value);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};
    use serde_json::Value;

    use super::super::encoded_decision::EncodedDecision;
    use super::super::tests::{any_decision, decision, draws};
    use super::*;

    #[test]
    fn text_event_is_one_line() {
        let mut decision = decision();
        decision.url = "http://shop.test/a\n\"b\"".to_owned();
        let line = event_line(&decision, LineForm::Text);
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
    fn an_unnamed_client_is_shown_with_the_name_that_it_gives() {
        let mut decision = decision();
        let shown = |decision: &DecisionRecord, form| {
            String::from_utf8(event_line(decision, form)).expect("text")
        };
        assert!(!shown(&decision, LineForm::Text).contains("token="), "the crawler has a name");
        decision.crawler = ASSERTED.into();
        let text = shown(&decision, LineForm::Text);
        assert!(text.contains(" crawler=asserted token=\"ExampleBot\" client="), "{text}");
        let terminal = shown(&decision, LineForm::Terminal);
        assert!(terminal.contains(" unnamed ExampleBot "), "{terminal}");
        // Such as a request without a User-Agent.
        decision.tokens.clear();
        let text = shown(&decision, LineForm::Text);
        assert!(text.contains(" crawler=asserted client="), "{text}");
    }

    #[test]
    fn control_characters_from_others_are_escaped() {
        let mut decision = decision();
        let rule = "Disallow: /\u{9b}31m\u{202e}\u{2028}\u{1b}";
        decision.details = Some(rule.to_owned());
        decision.finding.as_mut().unwrap().rule = Some(rule.to_owned());
        for form in [LineForm::Text, LineForm::Json] {
            let line = String::from_utf8(event_line(&decision, form)).unwrap();
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
        let line = String::from_utf8(event_line(&decision, LineForm::Terminal));
        let expected = format!(
            "08:00:00 \u{1b}[31mrefused  \u{1b}[0m 403 rule GET http://shop.test/a\\u{{1b}}[2J\\u{{202e}} news \
             (Disallow: /a (line 2)) {}",
            decision.id
        );
        assert_eq!(line.unwrap(), expected);
    }

    #[test]
    fn json_event_is_one_line_of_the_record_s_members() {
        let mut decision = decision();
        decision.details = Some("by \"rule\"".to_owned());
        let line = String::from_utf8(event_line(&decision, LineForm::Json)).unwrap();
        let expected = concat!(
            r#"{"timestamp":"2027-01-15T08:00:00.000003Z","level":"INFO","target":"wayleave::decision","decision_id":"ID","#,
            r#""outcome":"refused","reason":"rule","status":403,"crawler":"news","identity":"known","token":"ExampleBot","#,
            r#""client":"127.0.0.1","method":"GET","url":"https://[::1]:8443/a","dialect":"rfc9309","line":2,"#,
            r#""rule":"Disallow: /a","robots_sha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad","#,
            r#""robots_fetched_at":"1970-01-01T00:00:00.000000Z","details":"by \"rule\"","took_us":2}"#,
        );
        assert_eq!(line, expected.replace("ID", &decision.id.to_string()));
    }

    proptest! {
        #[test]
        fn json_event_says_what_the_record_says(draws in draws()) {
            let decision = any_decision(draws);
            let line = event_line(&decision, LineForm::Json);
            let event: serde_json::Map<String, Value> = serde_json::from_slice(&line).unwrap();
            let record = serde_json::to_value(&decision).unwrap();
            for (name, value) in &event {
                let recorded = match name.as_str() {
                    "level" | "target" | "timestamp" => continue,
                    "decision_id" => &record["id"],
                    "token" => &record["tokens"][0],
                    name => &record[name],
                };
                prop_assert_eq!(value, recorded, "{}", name);
            }
        }
    }
}
