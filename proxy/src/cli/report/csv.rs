//! The rows as CSV (RFC 4180).

use crate::decisions::Row;

pub(super) fn rows(rows: &[Row]) -> String {
    let mut text =
        "outcome,crawler,host,reason,rule,status,count,first_at,last_at,example\r\n".to_owned();
    for row in rows {
        let instant = |at| humantime::format_rfc3339_micros(at).to_string();
        let fields = [
            field(&row.outcome),
            field(&row.crawler),
            field(row.host.as_deref().unwrap_or_default()),
            field(&row.reason),
            field(row.rule.as_deref().unwrap_or_default()),
            row.status.to_string(),
            row.count.to_string(),
            instant(row.first_at),
            instant(row.last_at),
            field(&row.example),
        ];
        text += &fields.join(",");
        text += "\r\n";
    }
    text
}

/// Quoted where it must be. What a spreadsheet would take for a formula is quoted for that, too: hosts and rules are
/// written by strangers.
fn field(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let guard = if is_formula { "'" } else { "" };
    if is_formula || text.contains([',', '"', '\r', '\n']) {
        format!("\"{guard}{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        assert_eq!(field("Disallow: /a"), "Disallow: /a");
        assert_eq!(field("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
        assert_eq!(field("=1+1"), "\"'=1+1\"");
    }
}
