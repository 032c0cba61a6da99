//! Inputs after public reports and real files, each asked as a crawler would ask.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::Deserialize;
use wayleave_robots_txt::{AccessResult, CrawlerRules, Dialect, ProductToken, RobotsTxt};

#[derive(Deserialize)]
struct PublicCase {
    id: String,
    robots: Option<String>,
    robots_base64: Option<String>,
    user_agent: String,
    dialect: String,
    url: String,
    right: String,
    why: String,
}

impl PublicCase {
    fn answer(&self) -> &'static str {
        let body = match (&self.robots, &self.robots_base64) {
            (Some(text), _) => text.clone().into_bytes(),
            (None, Some(text)) => BASE64_STANDARD.decode(text).expect("base64"),
            (None, None) => panic!("{}: no file", self.id),
        };
        let token = ProductToken::from_user_agent(self.user_agent.as_bytes())
            .unwrap_or_else(ProductToken::anonymous);
        let dialect: Dialect = self.dialect.parse().expect("a dialect");
        let access = AccessResult::from(RobotsTxt::parse(&body));
        let crawler = CrawlerRules::new(access, vec![token]).dialect(dialect);
        match crawler.allows(&self.url) {
            Ok(true) => "allow",
            Ok(false) => "disallow",
            Err(_) => "error",
        }
    }
}

#[test]
fn every_public_case_is_right() {
    let cases: Vec<PublicCase> = include_str!("cases/public.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).expect("a case"))
        .collect();
    let wrong: Vec<String> = cases
        .iter()
        .filter(|case| case.answer() != case.right)
        .map(|case| format!("{} {}: {}, not {}", case.id, case.dialect, case.answer(), case.why))
        .collect();
    assert_eq!(cases.len(), 500);
    assert!(wrong.is_empty(), "{}: {wrong:#?}", wrong.len());
}
