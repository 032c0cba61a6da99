//! Whether a crawler may fetch some URLs: `cargo run --example allows`.

#![allow(clippy::disallowed_macros, reason = "an example prints")]

use wayleave_robots_txt::{InvalidProductToken, RobotsTxt};

const ROBOTS_TXT: &[u8] = b"User-agent: *
Disallow: /

User-agent: ExampleBot
Disallow: /private
";

fn main() -> Result<(), InvalidProductToken> {
    for url in ["https://example.com/news", "https://example.com/private/diary"] {
        println!("{url}: {}", if may_fetch(url)? { "allowed" } else { "disallowed" });
    }
    Ok(())
}

fn may_fetch(url: &str) -> Result<bool, InvalidProductToken> {
    Ok(RobotsTxt::parse(ROBOTS_TXT).for_crawler(["ExampleBot-News", "ExampleBot"])?.allows(url))
}

#[test]
fn the_group_of_the_second_name_decides() {
    assert_eq!(may_fetch("https://example.com/news"), Ok(true));
    assert_eq!(may_fetch("https://example.com/private/diary"), Ok(false));
}
