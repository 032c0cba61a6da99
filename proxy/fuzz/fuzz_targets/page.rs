//! The beginning of a page is passed on as it came, read to a limit, and reads the same however it comes in pieces, in every
//! coding and charset.

#![no_main]

mod http;
#[path = "../../src/exchange/page/mod.rs"]
mod page;

use std::time::SystemTime;

use http::field_pairs::Pair;
use libfuzzer_sys::fuzz_target;
use page::Page;
use wayleave_usage_preferences::{Asker, Declaration, Preferences, Purposes, Reading};
use wayleave_robots_txt::{Dialect, ProductToken};

const LIMIT: usize = 4096;
const CODINGS: [&str; 8] =
    ["", "gzip", "deflate", "br", "zstd", "gzip, br", "zstd, deflate", "unknown"];
const TYPES: [&str; 8] = [
    "text/html",
    "text/html; charset=utf-16le",
    "text/html; charset=utf-16be",
    "text/html; charset=shift_jis",
    "text/html; charset=iso-2022-jp",
    "application/xhtml+xml; charset=windows-1252",
    "html; charset=unknown",
    "",
];

// The first byte chooses the coding and the charset, the second says where the page falls into two parts.
fuzz_target!(|input: &[u8]| {
    let [chosen, at, body @ ..] = input else { return };
    let chosen = usize::from(*chosen);
    let fields: [Pair<'_>; 2] = [
        (b"Content-Encoding", CODINGS[chosen % 8].as_bytes()),
        (b"Content-Type", TYPES[chosen / 8 % 8].as_bytes()),
    ];
    let (first, second) = body.split_at(usize::from(*at).min(body.len()));
    let whole = read(&fields, &[body]);
    let in_two = read(&fields, &[first, second]);
    // What is broken is read as far as it was decoded, which is a matter of the pieces.
    if whole.takes_more() && in_two.takes_more() {
        assert_eq!(whole.text(), in_two.text());
    }
    let text = whole.text().into_owned();
    // A byte becomes three where it stands for no character.
    assert!(text.len() <= 3 * LIMIT, "{}", text.len());
    hear(&text);
    assert_eq!(whole.into_held(), body);
    assert_eq!(in_two.into_held(), body);
});

fn read(fields: &[Pair<'_>], parts: &[&[u8]]) -> Page {
    let mut page = Page::new(fields, LIMIT);
    for part in parts {
        page.take(part);
    }
    page
}

fn hear(text: &str) {
    let declaration = Declaration {
        purposes: Purposes::ALL,
        ..Declaration::default()
    };
    let asker = Asker {
        declaration: &declaration,
        reading: &Reading::default(),
        tokens: &[ProductToken::new("ExampleBot").expect("a name")],
        dialect: Dialect::Rfc9309,
        strict: true,
        now: SystemTime::UNIX_EPOCH,
    };
    let mut heard = Preferences::new(asker, "https://site.test/a", "/a");
    heard.hear_page(asker, text);
    let _judgement = heard.judge(asker);
    let missing = heard.missing_licences();
    assert!(missing.len() <= 8, "{missing:?}");
}
