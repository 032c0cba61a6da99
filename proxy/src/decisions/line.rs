//! A decision as a line of the log: what serde makes of it, which takes five times as long.

use std::io::Write;
use std::time::SystemTime;

use super::decision::{Decision, Finding, Policy};
use super::instant;
use crate::json::{self, Object};

/// Appends `decision` as a JSON object and the end of the line.
pub(super) fn write(decision: &Decision, to: &mut Vec<u8>) {
    let id = decision.id.digits();
    let mut line = Object::begin(to, "id", str::from_utf8(&id).expect("digits are ASCII"));
    instant(line.member("at"), decision.at);
    line.string("outcome", &decision.outcome);
    line.string("reason", &decision.reason);
    line.number("status", decision.status);
    line.string("crawler", &decision.crawler);
    line.string("identity", &decision.identity);
    if !decision.tokens.is_empty() {
        tokens(line.member("tokens"), &decision.tokens);
    }
    write!(line.member("client"), "\"{}\"", decision.client).expect("memory takes every string");
    line.string("method", &decision.method);
    line.string("url", &decision.url);
    if let Some(origin) = &decision.origin {
        line.string("origin", origin);
    }
    if let Some(found) = &decision.policy {
        policy(line.member("policy"), found);
    }
    if let Some(found) = &decision.finding {
        finding(&mut line, found);
    }
    if let Some(would_be) = decision.would_be {
        line.number("would_be", would_be);
    }
    line.string("mode", &decision.mode);
    line.number("configuration", decision.configuration);
    if let Some(details) = &decision.details {
        line.string("details", details);
    }
    line.number("decided_us", decision.decided_us);
    line.number("waited_us", decision.waited_us);
    line.number("took_us", decision.took_us);
    line.end();
    to.push(b'\n');
}

fn finding(line: &mut Object<'_>, finding: &Finding) {
    line.string("verdict", &finding.verdict);
    line.string("basis", &finding.basis);
    line.string("dialect", &finding.dialect);
    if let Some(number) = finding.line {
        line.number("line", number);
    }
    if let Some(rule) = &finding.rule {
        line.string("rule", rule);
    }
    if let Some(digest) = finding.robots_sha256 {
        let digits = digest.digits();
        line.string(
            "robots_sha256",
            str::from_utf8(&digits).expect("digits are ASCII"),
        );
    }
    if let Some(at) = finding.robots_fetched_at {
        instant(line.member("robots_fetched_at"), at);
    }
}

fn policy(to: &mut Vec<u8>, policy: &Policy) {
    serde_json::to_writer(to, policy).expect("strings and numbers serialise");
}

fn tokens(to: &mut Vec<u8>, tokens: &[String]) {
    for (index, token) in tokens.iter().enumerate() {
        to.push(if index == 0 { b'[' } else { b',' });
        json::string(to, token);
    }
    to.push(b']');
}

fn instant(to: &mut Vec<u8>, at: SystemTime) {
    to.push(b'"');
    instant::write(to, at);
    to.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::super::tests::{bare, decision, full};
    use super::*;

    #[test]
    fn a_line_is_what_serde_would_write() {
        for decision in [decision(), full(), bare()] {
            let mut line = Vec::new();
            write(&decision, &mut line);
            let expected = serde_json::to_string(&decision).unwrap() + "\n";
            assert_eq!(String::from_utf8(line).unwrap(), expected);
        }
    }
}
