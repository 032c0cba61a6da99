//! Fields of CSV (RFC 4180) that neither a spreadsheet nor a terminal obeys.

use crate::harmless::escape_controls;

/// The characters that start a formula in a spreadsheet, with the full-width forms that some convert to them.
const FORMULA_STARTS: [char; 8] =
    ['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];

/// Quotes a field where necessary, also for programs that separate fields at semicolons or tabs. An apostrophe keeps
/// spreadsheets from running a field as a formula: hosts and rules come from untrusted sites.
pub fn quote_field(text: &str) -> String {
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
