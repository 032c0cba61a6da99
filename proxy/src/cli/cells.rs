//! Tables, the same in all forms, and as text for a terminal.

use std::fmt::Write as _;

use wayleave_notation::harmless::escape_controls;

use super::paint::Tone;

/// A table with its heads. Numbers are to the right.
#[derive(Debug)]
pub(super) struct Cells {
    pub(super) heads: Vec<&'static str>,
    pub(super) is_number: Vec<bool>,
    pub(super) rows: Vec<Vec<String>>,
    /// The number of rows that were left out.
    pub(super) more: usize,
    /// The option that leaves none out.
    pub(super) all_by: &'static str,
}

/// Formats a table with its title.
pub(super) fn section(title: &str, cells: &Cells) -> String {
    let mut text = format!("\n{}\n", Tone::Heading.paint(title));
    if cells.rows.is_empty() {
        return text;
    }
    let heads: Vec<_> = cells.heads.iter().map(|head| (*head).to_owned()).collect();
    // In characters, as `format!` counts when it pads.
    let width = |column: usize| {
        let widths = cells.rows.iter().chain([&heads]).map(|row| row[column].chars().count());
        widths.max().unwrap_or_default()
    };
    let last = heads.len() - 1;
    for row in [&heads].into_iter().chain(&cells.rows) {
        let padded = row.iter().enumerate().map(|(column, cell)| match column {
            // Rules may be long, and are followed by nothing.
            column if column == last => cell.clone(),
            column if cells.is_number[column] => format!("{cell:>0$}", width(column)),
            column => format!("{cell:<0$}", width(column)),
        });
        push_line(&mut text, &format!("  {}", padded.collect::<Vec<_>>().join("  ")));
    }
    if cells.more > 0 {
        let Cells { more, all_by, .. } = cells;
        push_line(&mut text, &format!("  ... rows left out: {more}; {all_by} shows them"));
    }
    text
}

/// Appends a line, with untrusted text made harmless.
pub(super) fn push_line(text: &mut String, line: &str) {
    writeln!(text, "{}", escape_controls(line)).expect("writing to a String cannot fail");
}
