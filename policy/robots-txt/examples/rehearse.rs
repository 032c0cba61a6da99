//! What a new robots.txt would shut crawlers out of, by the requests of an access log: `cargo run --example rehearse`.

#![allow(clippy::disallowed_macros, reason = "an example prints")]

use std::collections::BTreeMap;
use std::error::Error;

use wayleave_robots_txt::{Dialect, ProductToken, RobotsTxt};

const OLD: &[u8] = b"User-agent: *\nDisallow: /cart\n";
const NEW: &[u8] = b"User-agent: *\nDisallow: /cart\nDisallow: /*.pdf$\n\nUser-agent: Googlebot\nDisallow: /search\n";

/// The paths and User-Agents of a log.
const REQUESTS: [(&str, &[u8]); 4] = [
    ("/cart", b"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"),
    ("/search?q=a", b"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"),
    ("/terms.pdf", b"Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)"),
    ("/cart", b"Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)"),
];

fn main() -> Result<(), Box<dyn Error>> {
    for ((crawler, change), requests) in changes()? {
        println!("{crawler}: {change}: {requests}");
    }
    Ok(())
}

/// Counts the requests about which the new file decides otherwise than the old one.
fn changes() -> Result<BTreeMap<(String, String), u64>, Box<dyn Error>> {
    let (old, new) = (RobotsTxt::parse(OLD), RobotsTxt::parse(NEW));
    let mut changes = BTreeMap::new();
    for (path, user_agent) in REQUESTS {
        let Some(token) = ProductToken::from_user_agent(user_agent) else {
            continue;
        };
        let dialect =
            if token.as_str() == "Googlebot" { Dialect::Google } else { Dialect::default() };
        let [before, after] = [&old, &new].map(|robots| robots.for_crawler(token.as_str()));
        let (before, after) = (before?.dialect(dialect), after?.dialect(dialect));
        let (before, after) = (before.decide(path)?, after.decide(path)?);
        let change = match (before.verdict().is_allow(), after.verdict().is_allow()) {
            (true, false) => format!("shut out by line {}", after.line().unwrap_or_default()),
            (false, true) => format!("let in past line {}", before.line().unwrap_or_default()),
            _ => continue,
        };
        *changes.entry((token.to_string(), change)).or_default() += 1;
    }
    Ok(changes)
}

#[test]
fn a_group_of_its_own_lets_a_crawler_into_the_cart() {
    let changes: Vec<_> = changes().unwrap().into_keys().collect();
    let expected = [
        ("Googlebot", "let in past line 2"),
        ("Googlebot", "shut out by line 6"),
        ("bingbot", "shut out by line 3"),
    ];
    assert_eq!(changes, expected.map(|(name, change)| (name.to_owned(), change.to_owned())));
}
