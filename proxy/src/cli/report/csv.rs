//! The report as CSV (RFC 4180).

use crate::decision_log::{ReportDimension, ReportRow, SummaryRow};
use crate::telemetry::harmless::escape_controls;

pub(super) fn to_csv(rows: &[ReportRow]) -> String {
    let mut text =
        "outcome,crawler,host,reason,rule,status,count,first_at,last_at,example\r\n".to_owned();
    for row in rows {
        let instant = |at| humantime::format_rfc3339_micros(at).to_string();
        let fields = [
            quote_field(&row.outcome),
            quote_field(&row.crawler),
            quote_field(row.host.as_deref().unwrap_or_default()),
            quote_field(&row.reason),
            quote_field(row.rule.as_deref().unwrap_or_default()),
            row.status.to_string(),
            row.count.to_string(),
            instant(row.first_at),
            instant(row.last_at),
            quote_field(&row.example),
        ];
        text += &fields.join(",");
        text += "\r\n";
    }
    text
}

/// Returns a summary; shares are from 0 to 1.
pub(super) fn summary_to_csv(rows: &[SummaryRow], by: ReportDimension) -> String {
    let mut text = format!(
        "{},owner,requests,refused,refused_share,would_be_refused,would_be_refused_share,failed,\
         first_rule,first_host,first_crawler\r\n",
        by.as_str()
    );
    for row in rows {
        let optional = |text: &Option<String>| quote_field(text.as_deref().unwrap_or_default());
        let fields = [
            quote_field(&row.name),
            optional(&row.owner),
            row.requests.to_string(),
            row.refused.to_string(),
            format!("{:.6}", row.refused_share),
            row.would_be_refused.to_string(),
            format!("{:.6}", row.would_be_refused_share),
            row.failed.to_string(),
            optional(&row.first_rule),
            optional(&row.first_host),
            optional(&row.first_crawler),
        ];
        text += &fields.join(",");
        text += "\r\n";
    }
    text
}

/// The characters that start a formula in a spreadsheet, with the full-width forms that some convert to them.
const FORMULA_STARTS: [char; 8] =
    ['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];

/// Quotes a field where necessary, also for programs that separate fields at semicolons or tabs. An apostrophe keeps
/// spreadsheets from running a field as a formula: hosts and rules come from untrusted sites.
fn quote_field(text: &str) -> String {
    let text = escape_controls(text);
    // Some programs skip white space before a formula.
    let is_formula = text.trim_start().starts_with(FORMULA_STARTS);
    let guard = if is_formula { "'" } else { "" };
    if is_formula || text.contains([',', ';', '\t', '"']) {
        format!("\"{guard}{}\"", text.replace('"', "\"\""))
    } else {
        text.into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        assert_eq!(quote_field("Disallow: /a"), "Disallow: /a");
        assert_eq!(quote_field("a,\"b\"\n"), "\"a,\"\"b\"\"\\n\"");
        assert_eq!(quote_field("a;=1+1"), "\"a;=1+1\"");
        assert_eq!(quote_field("a\t=1+1"), "\"a\t=1+1\"");
    }

    #[test]
    fn no_field_is_a_formula() {
        for text in ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1", "\u{ff1d}1", "\u{3000}+1"] {
            assert_eq!(quote_field(text), format!("\"'{text}\""));
        }
        assert_eq!(quote_field("\r=1"), "\\r=1");
        assert_eq!(quote_field("Disallow: /=1"), "Disallow: /=1");
    }

    #[test]
    fn no_terminal_obeys_a_field() {
        assert_eq!(quote_field("/\u{1b}[2J\u{202e}"), "/\\u{1b}[2J\\u{202e}");
    }
}
