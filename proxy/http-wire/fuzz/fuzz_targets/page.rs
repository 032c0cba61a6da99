//! The beginning of a page is forwarded unchanged, read up to a limit, and reads the same in one piece and in two, in every
//! content coding and charset.

#![no_main]

use std::time::SystemTime;

use libfuzzer_sys::fuzz_target;
use wayleave_http_wire::field_pairs::FieldPair;
use wayleave_http_wire::page::PageBuffer;
use wayleave_robots_txt::{Dialect, ProductToken};
use wayleave_usage_preferences::{
    CrawlerDeclaration, PreferenceQuery, PreferenceSettings, PreferenceState, PurposeSet,
};

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

// The first byte selects the coding and the charset, the second where the page is split in two.
fuzz_target!(|input: &[u8]| {
    let [chosen, at, body @ ..] = input else { return };
    let chosen = usize::from(*chosen);
    let fields: [FieldPair<'_>; 2] = [
        (b"Content-Encoding", CODINGS[chosen % 8].as_bytes()),
        (b"Content-Type", TYPES[chosen / 8 % 8].as_bytes()),
    ];
    let (first, second) = body.split_at(usize::from(*at).min(body.len()));
    let whole = read(&fields, &[body]);
    let in_two = read(&fields, &[first, second]);
    // How far a malformed page is decoded depends on the pieces.
    let is_read_whole = |page: &PageBuffer| page.wants_more() && !page.is_doubtful();
    if is_read_whole(&whole) && is_read_whole(&in_two) {
        assert!(whole.texts().eq(in_two.texts()));
    }
    for text in whole.texts() {
        // A byte that is no character becomes U+FFFD, three bytes.
        assert!(text.len() <= 3 * LIMIT, "{}", text.len());
        read_preferences(&text);
    }
    assert_eq!(whole.into_buffered(), body);
    assert_eq!(in_two.into_buffered(), body);
});

fn read(fields: &[FieldPair<'_>], parts: &[&[u8]]) -> PageBuffer {
    let mut page = PageBuffer::new(fields, LIMIT);
    for part in parts {
        page.take(part);
    }
    page
}

fn read_preferences(text: &str) {
    let declaration =
        CrawlerDeclaration { purposes: PurposeSet::ALL, ..CrawlerDeclaration::default() };
    let query = PreferenceQuery {
        declaration: &declaration,
        settings: &PreferenceSettings::default(),
        tokens: &[ProductToken::new("ExampleBot").expect("a name")],
        dialect: Dialect::Rfc9309,
        all_spellings: true,
        now: SystemTime::UNIX_EPOCH,
    };
    let mut state = PreferenceState::new(query, "https://site.test/a", "/a");
    state.add_page(query, text);
    let _judgement = state.judge(query);
    let missing = state.missing_licences();
    assert!(missing.len() <= 8, "{missing:?}");
}
