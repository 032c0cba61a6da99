//! The names in the User-Agents of known crawlers.

use serde::Deserialize;
use wayleave_robots_txt::ProductToken;

/// The User-Agents of crawlers: those of npm `crawler-user-agents` 1.60.0, with the text by which that list knows each.
///
/// Copyright (c) 2017 Martin Monperrus, MIT licence: `tests/user_agents/LICENSE`.
const KNOWN: &str = include_str!("user_agents/crawler_user_agents.jsonl");

#[derive(Deserialize)]
struct KnownUserAgent {
    /// Texts of the field that patterns of the list match.
    names: Vec<String>,
    user_agent: String,
}

/// Returns whether a name is one of the documented texts or a part of one: letters and digits compare, ignoring case,
/// and of an address, such as `yandex.com/bots`, a word of four letters or more.
fn is_documented(name: &str, documented: &str) -> bool {
    let plain = |text: &str| text.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "");
    let name = plain(name);
    let whole = plain(documented);
    let lower = documented.to_lowercase();
    let mut words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    let is_word_of_name = |word: &str| {
        let names_nobody = ["http", "https", "bots", "crawler", "spider"];
        word.len() > 3 && !names_nobody.contains(&word) && name.contains(word)
    };
    !name.is_empty()
        && (whole.contains(&name) || name.contains(&whole) || words.any(is_word_of_name))
}

fn name(field: &str) -> Option<String> {
    ProductToken::from_user_agent(field.as_bytes()).map(|token| token.as_str().to_owned())
}

#[test]
fn nearly_all_known_crawlers_are_named() {
    let known: Vec<KnownUserAgent> =
        KNOWN.lines().map(|line| serde_json::from_str(line).expect("a row")).collect();
    let is_right = |known: &&KnownUserAgent| {
        let name = name(&known.user_agent).unwrap_or_default();
        known.names.iter().any(|documented| is_documented(&name, documented))
    };
    let right = known.iter().filter(is_right).count();
    assert_eq!(known.len(), 2_118);
    assert!(100 * right >= 97 * known.len(), "{right} of {}", known.len());
    // `Mozilla` stands for fields that name nobody.
    let others = [
        "android",
        "apache-httpclient",
        "applewebkit",
        "blackberry",
        "chrome",
        "cpu",
        "curl",
        "docomo",
        "edge",
        "en",
        "firefox",
        "gecko",
        "http.rb",
        "intel",
        "iphone",
        "java",
        "kddi",
        "khtml",
        "libwww-perl",
        "linux",
        "mac",
        "macintosh",
        "mobile",
        "msie",
        "nokia",
        "okhttp",
        "opera",
        "php",
        "python",
        "python-requests",
        "safari",
        "samsung",
        "ubuntu",
        "version",
        "win64",
        "windows",
        "x11",
        "x64",
    ];
    for wrong in known.iter().filter(|value| !is_right(value)) {
        let name = name(&wrong.user_agent).unwrap_or_default().to_lowercase();
        let start = name.split(|c: char| c.is_ascii_digit()).next().unwrap_or_default();
        assert!(!others.contains(&&*name), "{name}: {}", wrong.user_agent);
        assert!(name.is_empty() || !others.contains(&start.trim_end_matches('-')), "{name}");
    }
}
