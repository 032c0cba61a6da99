//! The report as CSV (RFC 4180).

use wayleave_decision_log::{ReportDimension, ReportRow, SummaryRow};
use wayleave_notation::csv::quote_field;

use super::cells::costs;

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
        "{},owner,requests,refused,refused_share,would_be_refused,would_be_refused_share,would_wait,failed,\
         first_rule,first_host,first_crawler,first_token,first_user_agent,first_client,\
         would_have_cost,waited_seconds,would_wait_seconds\r\n",
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
            row.would_wait.to_string(),
            row.failed.to_string(),
            optional(&row.first_rule),
            optional(&row.first_host),
            optional(&row.first_crawler),
            optional(&row.first_token),
            optional(&row.first_user_agent),
            optional(&row.first_client),
            quote_field(&costs(row)),
            format!("{:.6}", row.waited_seconds),
            format!("{:.6}", row.would_wait_seconds),
        ];
        text += &fields.join(",");
        text += "\r\n";
    }
    text
}
