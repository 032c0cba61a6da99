//! Directory listings, as an HTML page or as plain names.

use std::fmt::Write;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use suppaftp::list::ListParser;
use wayleave_notation::harmless::escape_html;

const LINK_ENCODE_SET: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The format of a listing.
#[derive(Clone, Copy, Debug)]
pub(super) enum ListingFormat {
    /// MLSD (RFC 3659 section 7).
    Mlsd,
    /// LIST, in the format of `ls -l` or DIR.
    List,
}

/// The most names of a listing that are served, and the most lines that are read for them: each takes microseconds.
const MAX_NAMES: usize = 2_000;
const MAX_LINES: usize = 2 * MAX_NAMES;
/// The length of a line, with which the time is estimated.
const TYPICAL_LINE_BYTES: usize = 100;
/// The time to read a line of a listing, as `ls` writes it, for each byte.
const TIME_FOR_BYTE: Duration = Duration::from_nanos(300);

/// The names in a listing, in their order; those of directories end in a slash.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Listing {
    names: Vec<String>,
    /// The number of lines that were not read.
    lines_left_out: usize,
}

impl Listing {
    /// Reads a listing up to a bound. Lines that cannot be parsed are skipped.
    pub(super) fn parse(listing: &[u8], format: ListingFormat) -> Self {
        let text = String::from_utf8_lossy(listing);
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let mut names = Vec::new();
        for line in lines.by_ref().take(MAX_LINES) {
            names.extend(name_in(line, format));
            if names.len() == MAX_NAMES {
                break;
            }
        }
        names.sort();
        Self { names, lines_left_out: lines.count() }
    }

    /// Returns the estimated time to parse a listing of so many bytes.
    pub(super) fn time_to_parse(bytes: usize) -> Duration {
        let lines = bytes.min(MAX_LINES * TYPICAL_LINE_BYTES);
        TIME_FOR_BYTE.saturating_mul(u32::try_from(lines).unwrap_or(u32::MAX))
    }

    /// Returns a sentence if lines were left out.
    fn note(&self) -> Option<String> {
        let Self { names, lines_left_out } = self;
        let read = names.len();
        (*lines_left_out > 0).then(|| {
            format!("{lines_left_out} further lines of the server's listing are left out, after {read} names")
        })
    }

    /// Returns one name a line.
    pub(super) fn to_text(&self) -> String {
        let note = self.note().map(|note| format!("({note})"));
        self.names.iter().chain(note.iter()).map(|line| format!("{line}\n")).collect()
    }

    /// Returns a page with a link for each name.
    pub(super) fn to_html(&self, path: &str) -> String {
        let title = escape_html(path);
        let mut page = format!(
            "<!doctype html>\n<meta charset=\"utf-8\">\n<title>Index of {title}</title>\n<h1>Index of {title}</h1>\n<ul>\n"
        );
        if path != "/" {
            page.push_str("<li><a href=\"../\">../</a>\n");
        }
        for name in &self.names {
            let (bare, slash) = match name.strip_suffix('/') {
                Some(bare) => (bare, "/"),
                None => (&**name, ""),
            };
            // Relative to the current directory, so that no name is read as a scheme (`javascript:`).
            let link = utf8_percent_encode(bare, LINK_ENCODE_SET);
            // Writing to a String cannot fail.
            let _ = writeln!(page, "<li><a href=\"./{link}{slash}\">{}</a>", escape_html(name));
        }
        page.push_str("</ul>\n");
        page.extend(self.note().map(|note| format!("<p>{note}.</p>\n")));
        page
    }
}

/// Returns the name in a line, unless it would lead to another directory or break a line of the page.
fn name_in(line: &str, format: ListingFormat) -> Option<String> {
    let file = match format {
        ListingFormat::Mlsd => ListParser::parse_mlsd(line).ok(),
        ListingFormat::List => {
            ListParser::parse_posix(line).or_else(|_| ListParser::parse_dos(line)).ok()
        }
    }?;
    let name = file.name();
    let is_inside =
        !matches!(name, "" | "." | "..") && !name.contains('/') && !name.contains(char::is_control);
    let slash = if file.is_directory() { "/" } else { "" };
    is_inside.then(|| format!("{name}{slash}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_give_the_same_names() {
        let facts = b"type=cdir;modify=20260101000000; .\r\ntype=dir;modify=20260101000000; sub\r\ntype=file;size=3;modify=20260101000000; a b.txt\r\n";
        let people = b"total 8\r\ndrwxr-xr-x 2 ftp ftp 4096 Jan 01 2026 sub\r\n-rw-r--r-- 1 ftp ftp 3 Jan 01 2026 a b.txt\r\ngarbage\r\n";
        for listing in [
            Listing::parse(facts, ListingFormat::Mlsd),
            Listing::parse(people, ListingFormat::List),
        ] {
            assert_eq!(listing.to_text(), "a b.txt\nsub/\n");
        }
    }

    #[test]
    fn two_thousand_names_are_served_and_the_rest_is_counted() {
        let line = |number: usize| format!("type=file;size=3; {number:05}\r\n");
        let lines = |count: usize| (0..count).map(line).collect::<String>();
        let whole = Listing::parse(lines(2_000).as_bytes(), ListingFormat::Mlsd);
        assert_eq!((whole.names.len(), whole.lines_left_out), (2_000, 0));
        assert!(!whole.to_html("/").contains("left out"));
        let cut = Listing::parse(lines(20_000).as_bytes(), ListingFormat::Mlsd);
        assert_eq!((cut.names.len(), cut.lines_left_out), (2_000, 18_000));
        let note = "18000 further lines of the server's listing are left out, after 2000 names";
        assert!(cut.to_html("/").ends_with(&format!("<p>{note}.</p>\n")));
        assert!(cut.to_text().ends_with(&format!("01999\n({note})\n")));
        // Lines without a name take time as well.
        let garbage = Listing::parse("x\n".repeat(500_000).as_bytes(), ListingFormat::List);
        assert_eq!(garbage, Listing { names: Vec::new(), lines_left_out: 496_000 });
    }

    #[test]
    fn long_listings_are_estimated_above_and_short_ones_below_what_runs_inline() {
        let inline = Duration::from_micros(200);
        assert!(Listing::time_to_parse(600) <= inline);
        assert!(Listing::time_to_parse(1_000) > inline);
        assert_eq!(Listing::time_to_parse(1 << 20), Listing::time_to_parse(usize::MAX));
    }

    #[test]
    fn names_are_escaped_on_the_page() {
        let names = ["<script>\"".to_owned(), "javascript:x".to_owned(), "a b/".to_owned()];
        let page = Listing { names: names.to_vec(), lines_left_out: 0 }.to_html("/p&q/");
        assert!(!page.contains("<script>"), "{page}");
        assert!(page.contains("href=\"./javascript%3Ax\""), "{page}");
        assert!(page.contains("href=\"./a%20b/\""), "{page}");
        assert!(page.contains("Index of /p&amp;q/"), "{page}");
    }
}
