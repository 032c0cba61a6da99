//! Prints whether a crawler may fetch some URLs: `cargo run --example allows`.

#![allow(clippy::disallowed_macros, reason = "an example prints")]

use std::error::Error;

use wayleave_robots_txt::RobotsTxt;

const ROBOTS_TXT: &[u8] = b"User-agent: *
Disallow: /

User-agent: ExampleBot
Disallow: /private
";

fn main() -> Result<(), Box<dyn Error>> {
    for url in ["https://example.com/news", "https://example.com/private/diary"] {
        println!("{url}: {}", if may_fetch(url)? { "allowed" } else { "disallowed" });
    }
    Ok(())
}

fn may_fetch(url: &str) -> Result<bool, Box<dyn Error>> {
    let crawler = RobotsTxt::parse(ROBOTS_TXT).for_crawler(["ExampleBot-News", "ExampleBot"])?;
    Ok(crawler.allows(url)?)
}

#[test]
fn the_group_of_the_second_name_decides() {
    assert!(may_fetch("https://example.com/news").unwrap());
    assert!(!may_fetch("https://example.com/private/diary").unwrap());
    assert!(may_fetch("mailto:editor@example.com").is_err());
}
