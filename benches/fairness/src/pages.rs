//! What origins answer, by host and path.

use std::iter::repeat_n;
use std::sync::LazyLock;

use bytes::Bytes;

/// The validator of all answers.
pub(crate) const ETAG: &str = "\"1\"";
/// What is read of a robots.txt.
const ROBOTS_BYTES: usize = 500 * 1024;
/// What is read of a page, by default.
const PAGE_BYTES: usize = 64 * 1024;
/// The longest listing that is served.
const LISTING_BYTES: usize = 1024 * 1024;

const SMALL: &str = "<!doctype html><title>Small</title><p>A small page.";
const ORDINARY: &str =
    "User-agent: *\nDisallow: /private/\nDisallow: /*?sort=\nAllow: /private/help\n";
const WILD: &str = "User-agent: *\nCrawl-delay: 300\n";

/// An answer with status 200.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) media_type: &'static str,
    pub(crate) fields: Vec<(&'static str, &'static str)>,
    pub(crate) body: Bytes,
}

/// Returns the answer to a request for a path, at a host with its port.
pub(crate) fn answer(authority: &str, path: &str) -> Answer {
    let text = |media_type, text: &'static str| Answer {
        media_type,
        fields: Vec::new(),
        body: Bytes::from_static(text.as_bytes()),
    };
    let page = |body| text("text/html", body);
    match path {
        "/robots.txt" => Answer { body: robots_txt(authority), ..text("text/plain", "") },
        "/licence.xml" => text("application/rsl+xml", &LICENCE),
        "/rate-limit" => Answer { fields: RATE_LIMIT.clone(), ..page(SMALL) },
        "/robots-tag" => Answer { fields: ROBOTS_TAG.clone(), ..page(SMALL) },
        "/long-page" => page(&LONG_PAGE),
        "/big" => text("application/octet-stream", &BIG),
        _ => page(SMALL),
    }
}

/// Returns a directory of FTP, as `ls -l` writes it.
pub(crate) fn listing() -> Bytes {
    Bytes::from_static(LISTING.as_bytes())
}

fn robots_txt(authority: &str) -> Bytes {
    if authority.starts_with("licence") {
        return format!("License: http://{authority}/licence.xml\nUser-agent: *\nAllow: /\n")
            .into();
    }
    let text: &'static str = if authority.starts_with("chains") {
        &CHAINS
    } else if authority.starts_with("long") {
        &LONG_FILE
    } else if authority.contains(".wild.") {
        WILD
    } else {
        ORDINARY
    };
    Bytes::from_static(text.as_bytes())
}

/// Repeats numbered text up to a length.
fn repeated(bytes: usize, part: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    let mut parts = (0..).map(part);
    while let Some(part) = parts.next().filter(|part| text.len() + part.len() <= bytes) {
        text.push_str(&part);
    }
    text
}

/// Returns text that lives as long as the program.
fn lasting(text: String) -> &'static str {
    text.leak()
}

/// Patterns whose first and last byte match at each second byte of a path, and nothing in between: 60 of them take 0.92 of
/// what a decision may cost.
static CHAINS: LazyLock<String> = LazyLock::new(|| {
    let rules: String = (0..60).map(|number| format!("Disallow: /*ab{number:03}b\n")).collect();
    format!("User-agent: *\n{rules}")
});

static LONG_FILE: LazyLock<String> = LazyLock::new(|| {
    let rules =
        repeated(ROBOTS_BYTES - 100, |number| format!("Disallow: /section-{number}/page\n"));
    format!("User-agent: *\n{rules}")
});

/// As many elements as are read.
static LICENCE: LazyLock<String> = LazyLock::new(|| {
    let content = repeated(ROBOTS_BYTES - 200, |number| {
        format!(
            "<content url=\"/*{number}\"><license><permits type=\"usage\">all</permits></license></content>"
        )
    });
    format!("<rsl xmlns=\"https://rslstandard.org/rsl\">{content}</rsl>")
});

static LONG_PAGE: LazyLock<String> = LazyLock::new(|| {
    let (begin, end) = ("<!doctype html><svg>", "<meta name=robots content=all>");
    let elements = "<x>".repeat((PAGE_BYTES - begin.len() - end.len()) / 3);
    format!("{begin}{elements}{end}")
});

static BIG: LazyLock<String> = LazyLock::new(|| "x".repeat(1 << 20));

static LISTING: LazyLock<String> = LazyLock::new(|| {
    repeated(LISTING_BYTES, |number| {
        format!("-rw-r--r--   1 ftp      ftp          1024 Nov 28 12:00 file-{number}\r\n")
    })
});

/// Quotas of which something is left, and their policies, 58 KB together.
static RATE_LIMIT: LazyLock<Vec<(&'static str, &'static str)>> = LazyLock::new(|| {
    let list = |parameters: &'static str| {
        let items = repeated(29_000, |number| format!("\"p{number}\";{parameters},"));
        lasting(items.trim_end_matches(',').to_owned())
    };
    vec![("RateLimit", list("r=9;t=9")), ("RateLimit-Policy", list("q=9;w=9"))]
});

static ROBOTS_TAG: LazyLock<Vec<(&'static str, &'static str)>> = LazyLock::new(|| {
    let dates: Vec<_> = repeat_n("unavailable_after:1", 1_450).collect();
    vec![("X-Robots-Tag", lasting(dates.join(","))), ("X-Robots-Tag", lasting("a:".repeat(14_500)))]
});
