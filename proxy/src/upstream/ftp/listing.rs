//! Directory listings, as an HTML page or as plain names.

use std::fmt::Write;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use suppaftp::list::ListParser;

use crate::telemetry::harmless::escape_html;

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

/// Returns the names in a listing, those of directories with a slash. Lines that cannot be parsed are skipped.
pub(super) fn parse_names(listing: &[u8], format: ListingFormat) -> Vec<String> {
    let text = String::from_utf8_lossy(listing);
    let files = text.lines().filter_map(|line| match format {
        ListingFormat::Mlsd => ListParser::parse_mlsd(line).ok(),
        ListingFormat::List => {
            ListParser::parse_posix(line).or_else(|_| ListParser::parse_dos(line)).ok()
        }
    });
    // A name must not lead to another directory, nor break a line of the page.
    let is_inside = |name: &str| {
        !matches!(name, "" | "." | "..") && !name.contains('/') && !name.contains(char::is_control)
    };
    let mut names: Vec<String> =
        files
            .filter(|file| is_inside(file.name()))
            .map(|file| {
                if file.is_directory() {
                    format!("{}/", file.name())
                } else {
                    file.name().to_owned()
                }
            })
            .collect();
    names.sort();
    names
}

/// Returns one name a line.
pub(super) fn to_text(names: &[String]) -> String {
    names.iter().map(|name| format!("{name}\n")).collect()
}

/// Returns a page with a link for each name.
pub(super) fn to_html(path: &str, names: &[String]) -> String {
    let title = escape_html(path);
    let mut page = format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<title>Index of {title}</title>\n<h1>Index of {title}</h1>\n<ul>\n"
    );
    if path != "/" {
        page.push_str("<li><a href=\"../\">../</a>\n");
    }
    for name in names {
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
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_give_the_same_names() {
        let facts = b"type=cdir;modify=20260101000000; .\r\ntype=dir;modify=20260101000000; sub\r\ntype=file;size=3;modify=20260101000000; a b.txt\r\n";
        let people = b"total 8\r\ndrwxr-xr-x 2 ftp ftp 4096 Jan 01 2026 sub\r\n-rw-r--r-- 1 ftp ftp 3 Jan 01 2026 a b.txt\r\ngarbage\r\n";
        assert_eq!(parse_names(facts, ListingFormat::Mlsd), ["a b.txt", "sub/"]);
        assert_eq!(parse_names(people, ListingFormat::List), ["a b.txt", "sub/"]);
    }

    #[test]
    fn names_are_escaped_on_the_page() {
        let names = ["<script>\"".to_owned(), "javascript:x".to_owned(), "a b/".to_owned()];
        let page = to_html("/p&q/", &names);
        assert!(!page.contains("<script>"), "{page}");
        assert!(page.contains("href=\"./javascript%3Ax\""), "{page}");
        assert!(page.contains("href=\"./a%20b/\""), "{page}");
        assert!(page.contains("Index of /p&amp;q/"), "{page}");
    }
}
