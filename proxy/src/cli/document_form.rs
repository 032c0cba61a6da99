//! The forms of documents that are sent to others, and may hold text from strangers.

use wayleave_notation::harmless::{escape_controls, escape_html};

use super::cells::Cells;

const STYLE: &str = ":root{color-scheme:light dark}body{font:1rem/1.5 sans-serif;margin:2rem}table{border-collapse:collapse}\
    th,td{padding:.2rem .8rem;text-align:left;border-bottom:1px solid #8886;overflow-wrap:break-word;max-width:36rem}\
    div{overflow-x:auto}\
    .number{text-align:right;font-variant-numeric:tabular-nums}";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DocumentForm {
    Markdown,
    Html,
}

impl DocumentForm {
    pub(super) fn begin(self, title: &str) -> String {
        let title = self.text(title);
        match self {
            Self::Markdown => format!("# {title}\n"),
            Self::Html => format!(
                "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
                 <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
                 <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
            ),
        }
    }

    pub(super) fn end(self) -> &'static str {
        match self {
            Self::Markdown => "",
            Self::Html => "</body>\n</html>\n",
        }
    }

    pub(super) fn paragraph(self, text: &str) -> String {
        let text = self.text(text);
        match self {
            Self::Markdown => format!("\n{text}\n"),
            Self::Html => format!("<p>{text}</p>\n"),
        }
    }

    /// Returns a table with its title; nothing if it has no rows.
    pub(super) fn table(self, title: &str, cells: &Cells) -> String {
        if cells.rows.is_empty() {
            return String::new();
        }
        let heads: Vec<_> = cells.heads.iter().map(|head| self.text(head)).collect();
        let rows = cells.rows.iter().map(|row| row.iter().map(|cell| self.text(cell)).collect());
        let rows: Vec<Vec<String>> = rows.collect();
        let mut text = match self {
            Self::Markdown => {
                let rule = cells.is_number.iter().map(|is| if *is { "---:" } else { "---" });
                let rule = rule.map(str::to_owned).collect::<Vec<_>>();
                let lines = [&heads, &rule].into_iter().chain(&rows);
                let lines = lines.map(|row| format!("| {} |\n", row.join(" | ")));
                format!("\n## {title}\n\n{}", lines.collect::<String>())
            }
            Self::Html => {
                let line = |row: &Vec<String>, tag: &str| {
                    let cells = row.iter().zip(&cells.is_number).map(|(cell, is_number)| {
                        let class = if *is_number { " class=\"number\"" } else { "" };
                        format!("<{tag}{class}>{cell}</{tag}>")
                    });
                    format!("<tr>{}</tr>\n", cells.collect::<String>())
                };
                let body: String = rows.iter().map(|row| line(row, "td")).collect();
                format!(
                    "<h2>{title}</h2>\n<div>\n<table>\n{}{body}</table>\n</div>\n",
                    line(&heads, "th")
                )
            }
        };
        if cells.more > 0 {
            text += &self.paragraph(&format!("{} more rows ({})", cells.more, cells.all_by));
        }
        text
    }

    /// Returns untrusted text as text: hosts and rules come from strangers' sites.
    fn text(self, untrusted: &str) -> String {
        let text = escape_controls(untrusted);
        match self {
            Self::Html => escape_html(&text),
            // Punctuation may begin emphasis, a link, HTML or a cell (CommonMark 2.4).
            Self::Markdown => text.chars().fold(String::new(), |mut escaped, c| {
                if "\\`*_{}[]<>#|!&~".contains(c) {
                    escaped.push('\\');
                }
                escaped.push(c);
                escaped
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_strangers_is_markup() {
        let hostile = "<b>|[x](y)_`\u{202e}";
        let html = DocumentForm::Html.text(hostile);
        assert_eq!(html, "&lt;b&gt;|[x](y)_`\\u{202e}");
        let markdown = DocumentForm::Markdown.text(hostile);
        assert_eq!(markdown, "\\<b\\>\\|\\[x\\](y)\\_\\`\\\\u\\{202e\\}");
    }
}
