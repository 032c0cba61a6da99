//! URLs from a file: a list, or the log of a crawl.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use wayleave_evidence::chain::event::EVENT_PREFIX;
use wayleave_robots_txt::{InvalidUrl, Target, UrlPath};

use crate::cli::terminal::print_errors;

/// The URLs that a file names, each once.
#[derive(Debug, Default)]
pub(crate) struct UrlList {
    pub(crate) urls: Vec<String>,
    /// The lines that name them first, counted from 1.
    pub(crate) lines: Vec<usize>,
    /// The lines without a URL that can be requested, apart from empty ones and remarks.
    pub(crate) mistakes: Vec<LineMistake>,
}

/// A line without a URL that can be requested.
#[derive(Debug, Serialize)]
pub(crate) struct LineMistake {
    /// The URL, if the line has a malformed one.
    url: Option<String>,
    /// The line, counted from 1.
    pub(crate) line: usize,
    error: String,
    /// The number of URLs that come before it.
    #[serde(skip)]
    pub(crate) urls_before: usize,
}

impl fmt::Display for LineMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.url {
            Some(url) => write!(f, "{url:?}: {}", self.error),
            None => f.write_str(&self.error),
        }
    }
}

impl UrlList {
    /// Reads a file, and reports the lines that have no URL.
    ///
    /// # Errors
    ///
    /// Returns a message if the file cannot be read or names no URL, so that a wrong file is not a success.
    pub(crate) fn read_and_report(file: &Path) -> Result<Self, String> {
        let name = file.display();
        let list = Self::read(file).map_err(|error| format!("{name}: {error}"))?;
        list.report_mistakes(file);
        if list.urls.is_empty() {
            return Err(format!("{name}: no line has an http(s) URL"));
        }
        Ok(list)
    }

    pub(super) fn report_mistakes(&self, file: &Path) {
        for mistake in &self.mistakes {
            print_errors(&format!("wayleave: {}:{}: {mistake}\n", file.display(), mistake.line));
        }
    }

    /// Reads a file; "-" is standard input.
    ///
    /// # Errors
    ///
    /// Returns the error of reading it.
    fn read(file: &Path) -> io::Result<Self> {
        let bytes = if file == Path::new("-") {
            let mut bytes = Vec::new();
            io::copy(&mut io::stdin().lock(), &mut bytes)?;
            bytes
        } else {
            fs::read(file)?
        };
        Ok(Self::parse(&bytes))
    }

    fn parse(bytes: &[u8]) -> Self {
        let mut list = Self::default();
        let mut known = HashSet::new();
        let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        for (bytes, number) in bytes.split(|byte| *byte == b'\n').zip(1..) {
            // Logs may contain anything.
            let line = String::from_utf8_lossy(bytes);
            let is_skipped = line.trim().is_empty()
                || line.trim_start().starts_with('#')
                || bytes.starts_with(EVENT_PREFIX);
            if is_skipped {
                continue;
            }
            let Some(url) = url_in(&line) else {
                list.add_mistake(None, number, "no http(s) URL in this line".to_owned());
                continue;
            };
            // With replacements for such bytes it would be another URL.
            let is_altered = matches!(line, Cow::Owned(_)) && url.contains('\u{fffd}');
            let error = if is_altered {
                Some("it is not UTF-8".to_owned())
            } else {
                find_mistake(&url, false)
            };
            if let Some(error) = error {
                list.add_mistake(Some(url), number, error);
            } else if known.insert(url.clone()) {
                list.urls.push(url);
                list.lines.push(number);
            }
        }
        list
    }

    /// Reads a text with a URL, or with `accepts_paths` a path, in each line.
    pub(super) fn parse_lines(text: &str, accepts_paths: bool) -> Self {
        let mut list = Self::default();
        for (line, number) in text.lines().map(str::trim).zip(1..) {
            if line.is_empty() {
                continue;
            }
            if let Some(error) = find_mistake(line, accepts_paths) {
                list.add_mistake(Some(line.to_owned()), number, error);
            } else {
                list.urls.push(line.to_owned());
                list.lines.push(number);
            }
        }
        list
    }

    fn add_mistake(&mut self, url: Option<String>, line: usize, error: String) {
        self.mistakes.push(LineMistake { url, line, error, urls_before: self.urls.len() });
    }
}

/// Describes why a text is neither an absolute URL nor, if they are accepted, a path. Spaces are accepted in both, as in URLs
/// that people paste.
pub(crate) fn find_mistake(url: &str, accepts_paths: bool) -> Option<String> {
    let error = if accepts_paths && url.starts_with('/') {
        InvalidUrl::Character(url.chars().find(char::is_ascii_control)?)
    } else {
        let target = Target::parse(&with_escaped_spaces(url));
        target.err().or_else(|| UrlPath::of_url(url).err())?
    };
    let hint = match (&error, accepts_paths) {
        (InvalidUrl::NotAbsolute, true) => ", or a path that starts with /",
        (InvalidUrl::NotAbsolute, false) => " (paths need --robots)",
        _ => "",
    };
    Some(format!("{error}{hint}"))
}

/// Escapes the spaces that a pasted URL may contain, as browsers do.
pub(crate) fn with_escaped_spaces(url: &str) -> String {
    url.replace(' ', "%20")
}

/// Returns the path of a URL or a path. One that starts with `/` is a path even if it starts with two, where a reference would
/// name a host (RFC 3986 section 4.2).
pub(crate) fn path_of(url: &str) -> UrlPath<'_> {
    UrlPath::parse(url)
        .or_else(|_| UrlPath::of_url(url))
        .expect("what is neither has been refused before")
}

/// Joins the rows about URLs and those about mistakes, in the order of their lines.
pub(super) fn join_rows(
    rows: impl Iterator<Item = String>,
    mistakes: &[LineMistake],
    row_of_mistake: impl Fn(&LineMistake) -> String,
) -> String {
    let mut mistakes = mistakes.iter().peekable();
    let mut text = String::new();
    for (index, row) in rows.enumerate() {
        while let Some(mistake) = mistakes.next_if(|mistake| mistake.urls_before <= index) {
            text += &row_of_mistake(mistake);
        }
        text += &row;
    }
    text.extend(mistakes.map(row_of_mistake));
    text
}
/// Returns the member `url` of a line that is a JSON object, or else the first word of the line that is an http(s) URL, also
/// in quotation marks.
fn url_in(line: &str) -> Option<String> {
    let is_url = |word: &&str| {
        let scheme = word.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        matches!(scheme.as_deref(), Some("http" | "https"))
    };
    if line.trim_start().starts_with('{') {
        let object: Value = serde_json::from_str(line).ok()?;
        return object["url"].as_str().filter(is_url).map(str::to_owned);
    }
    let mut words = line.split_whitespace().map(|word| word.trim_matches('"'));
    words.find(is_url).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_logs_name_urls() {
        for (line, expected) in [
            ("https://shop.test/a", Some("https://shop.test/a")),
            ("  HTTP://shop.test/a\t# a remark", Some("HTTP://shop.test/a")),
            (r#"{"url":"https://shop.test/\u0061","status":200}"#, Some("https://shop.test/a")),
            (r#"{"url":5}"#, None),
            (r#"{"referrer":"https://shop.test/"}"#, None),
            // Heritrix, Squid, and wayleave's events.
            (
                "2026-11-26T08:00:00.000Z   200 61 https://shop.test/a LLL https://shop.test/ text/html",
                Some("https://shop.test/a"),
            ),
            (
                "1764144000.000 30 10.0.0.7 TCP_MISS/200 61 GET http://shop.test/a - HIER_DIRECT/192.0.2.1 text/html",
                Some("http://shop.test/a"),
            ),
            (
                r#"2026-11-26T08:00:00Z  INFO wayleave::decision: forwarded 200 rule "GET" "https://shop.test/a" crawler=news"#,
                Some("https://shop.test/a"),
            ),
            ("dns:shop.test", None),
            ("shop.test/a", None),
            ("ftp://shop.test/a", None),
        ] {
            assert_eq!(url_in(line).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn each_url_has_its_first_line() {
        let list = UrlList::parse(
            "\u{feff}https://a.test/\r\n\n# b\nshop.test\nhttps://b.test/\nhttps://a.test/\n"
                .as_bytes(),
        );
        assert_eq!(list.urls, ["https://a.test/", "https://b.test/"]);
        assert_eq!(list.lines, [1, 5]);
        let mistakes: Vec<_> =
            list.mistakes.iter().map(|mistake| (mistake.line, mistake.urls_before)).collect();
        assert_eq!(mistakes, [(4, 1)]);
    }

    #[test]
    fn each_malformed_line_is_a_mistake_of_its_own() {
        let list = UrlList::parse(
            b"http://[::1\nhttp://a.test/\xFF\nhttp://a.test/\xEF\xBF\xBD\nhttp://[::1\n\xFF http://a.test/\n",
        );
        assert_eq!(list.urls, ["http://a.test/\u{fffd}", "http://a.test/"]);
        assert_eq!(list.lines, [3, 5]);
        let mistakes: Vec<String> = list.mistakes.iter().map(ToString::to_string).collect();
        let malformed = "\"http://[::1\": invalid host \"[::1\"";
        let not_text = "\"http://a.test/\u{fffd}\": it is not UTF-8";
        assert_eq!(mistakes, [malformed, not_text, malformed]);
    }

    #[test]
    fn events_of_a_decision_log_are_no_mistakes() {
        let list = UrlList::parse(
            b"{\"event\":\"stop\",\"at\":\"2026-11-28T00:00:00Z\"}\n{\"id\":\"1\",\"url\":\"http://a.test/\"}\n",
        );
        assert_eq!((list.lines, list.mistakes.len()), (vec![2], 0));
    }
}
