//! Which line decides about a page, for several crawlers and in every dialect: `cargo run --example explain`.

#![allow(clippy::disallowed_macros, reason = "an example prints")]

use std::error::Error;

use wayleave_robots_txt::{Dialect, RobotsTxt};

const ROBOTS_TXT: &[u8] = b"User-agent: *
Disallow: /shop
Allow: /shop/sale

User-agent: ExampleBot
Disallow:
";

fn main() -> Result<(), Box<dyn Error>> {
    for name in ["ExampleBot", "OtherBot"] {
        for &dialect in Dialect::ALL {
            println!("{}", explain(name, dialect)?);
        }
    }
    Ok(())
}

fn explain(name: &str, dialect: Dialect) -> Result<String, Box<dyn Error>> {
    let crawler = RobotsTxt::parse(ROBOTS_TXT).for_crawler(name)?.dialect(dialect);
    let decision = crawler.decide("https://example.com/shop/sale")?;
    let mut text = format!("{name}, {dialect}: {}, {}", decision.verdict(), decision.reason());
    if let (Some(line), Some(rule)) = (decision.line(), decision.rule()) {
        text += &format!(", line {line}: {rule}");
    }
    Ok(text)
}

#[test]
fn dialects_explain_themselves() {
    for (name, dialect, expected) in [
        ("OtherBot", Dialect::Rfc9309, "OtherBot, rfc9309: allow, rule, line 3: Allow: /shop/sale"),
        (
            "OtherBot",
            Dialect::Koster1996,
            "OtherBot, koster1996: disallow, rule, line 2: Disallow: /shop",
        ),
        ("ExampleBot", Dialect::Rfc9309, "ExampleBot, rfc9309: allow, no-matching-rule"),
    ] {
        assert_eq!(explain(name, dialect).unwrap(), expected);
    }
}
