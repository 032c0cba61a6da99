//! URLs from a file: a list, or the log of a crawl.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;

use serde_json::Value;

/// The URLs that a file names, each once.
#[derive(Debug, Default)]
pub(super) struct UrlList {
    pub(super) urls: Vec<String>,
    /// The lines that name them first, counted from 1.
    pub(super) lines: Vec<usize>,
    /// The lines that name no URL, apart from empty ones and remarks.
    pub(super) without_url: Vec<usize>,
}

impl UrlList {
    /// Reads a file; "-" is standard input.
    ///
    /// # Errors
    ///
    /// Returns the error of reading it.
    pub(super) fn read(file: &Path) -> io::Result<Self> {
        let bytes = if file == Path::new("-") {
            let mut bytes = Vec::new();
            io::copy(&mut io::stdin().lock(), &mut bytes)?;
            bytes
        } else {
            fs::read(file)?
        };
        // Logs may contain anything; what is no UTF-8 is in no URL that can be requested.
        Ok(Self::parse(&String::from_utf8_lossy(&bytes)))
    }

    fn parse(text: &str) -> Self {
        let mut list = Self::default();
        let mut known = HashSet::new();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (line, number) in text.lines().zip(1..) {
            match url_in(line) {
                Some(url) => {
                    if known.insert(url.clone()) {
                        list.urls.push(url);
                        list.lines.push(number);
                    }
                }
                None if line.trim().is_empty() || line.trim_start().starts_with('#') => {}
                None => list.without_url.push(number),
            }
        }
        list
    }
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
            "\u{feff}https://a.test/\r\n\n# b\nshop.test\nhttps://b.test/\nhttps://a.test/\n",
        );
        assert_eq!(list.urls, ["https://a.test/", "https://b.test/"]);
        assert_eq!(list.lines, [1, 5]);
        assert_eq!(list.without_url, [4]);
    }
}
