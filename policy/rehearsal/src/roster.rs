//! The crawlers that User-Agents name.

use std::collections::HashMap;

use wayleave_decision::WellKnownCrawler;
use wayleave_robots_txt::{Dialect, ProductToken};

/// Names of browsers, which all send, and makers of devices whose names look like a crawler's.
const NOT_CRAWLERS: [&str; 3] = ["mozilla", "opera", "cubot"];

/// A crawler as a log names it.
#[derive(Clone, Debug)]
pub(crate) struct NamedCrawler {
    pub(crate) name: String,
    /// Its names in robots.txt, in order of preference.
    pub(crate) tokens: Vec<ProductToken>,
    pub(crate) dialect: Dialect,
    /// What its owner documents, if it is in the list.
    pub(crate) listed: Option<&'static WellKnownCrawler>,
}

impl NamedCrawler {
    /// Creates the crawler with this name.
    pub(crate) fn new(name: &ProductToken) -> Self {
        match WellKnownCrawler::with_token(name.as_str()) {
            Some(listed) => Self::listed(listed),
            None => Self {
                name: name.as_str().to_owned(),
                tokens: vec![name.clone()],
                dialect: Dialect::default(),
                listed: None,
            },
        }
    }

    /// Creates a crawler of the list.
    pub(crate) fn listed(listed: &'static WellKnownCrawler) -> Self {
        let names = [Some(listed.token), listed.after];
        let token = |name: &str| ProductToken::new(name).expect("a test tries every token");
        Self {
            name: listed.token.to_owned(),
            tokens: names.into_iter().flatten().map(token).collect(),
            dialect: listed.dialect,
            listed: Some(listed),
        }
    }
}

/// The names that are a crawler's for certain, though no list has them: those that the files have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roster(HashMap<String, ProductToken>);

impl Roster {
    pub(crate) fn new(names: impl Iterator<Item = ProductToken>) -> Self {
        Self(names.map(|name| (name.as_str().to_ascii_lowercase(), name)).collect())
    }

    /// Returns the crawler that a `User-Agent` names: one of the list, one that a file names, or another whose name looks
    /// like a crawler's. None for people and for programs that give no such name.
    pub(crate) fn find(&self, user_agent: &[u8]) -> Option<NamedCrawler> {
        if let Some(listed) = WellKnownCrawler::named_in(user_agent) {
            return Some(NamedCrawler::listed(listed));
        }
        let name = ProductToken::from_user_agent(user_agent)?;
        let folded = name.as_str().to_ascii_lowercase();
        if NOT_CRAWLERS.iter().any(|start| folded.starts_with(start)) {
            return None;
        }
        if let Some(name) = self.0.get(&folded) {
            return Some(NamedCrawler::new(name));
        }
        let is_listed = WellKnownCrawler::with_token(&folded).is_some();
        let looks_like_one = ["bot", "crawl", "spider"].iter().any(|word| folded.contains(word));
        (is_listed || looks_like_one).then(|| NamedCrawler::new(&name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crawlers_and_people_are_told_apart() {
        let named = ["shop-fetcher", "Mozilla"].map(|name| ProductToken::new(name).unwrap());
        let roster = Roster::new(named.into_iter());
        for (user_agent, name) in [
            (
                "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; Googlebot/2.1; +http://www.google.com/bot.html) Chrome/1 Safari/537.36",
                Some("Googlebot"),
            ),
            ("googlebot-image/1.0", Some("Googlebot-Image")),
            (
                "Mozilla/5.0 (compatible; archive.org_bot +http://archive.org/details/archive.org_bot)",
                Some("archive.org_bot"),
            ),
            ("Mozilla/5.0 (compatible; MJ12bot/v1.4.8; http://mj12bot.com/)", Some("MJ12bot")),
            ("Shop-Fetcher/2.0", Some("shop-fetcher")),
            ("ShopSpider/1.0 (+https://spider.test/)", Some("ShopSpider")),
            ("Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0", None),
            (
                "Mozilla/5.0 (Linux; Android 9; CUBOT_X18_Plus) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Mobile Safari/537.36",
                None,
            ),
            ("curl/8.5.0", None),
            ("-", None),
            ("", None),
        ] {
            let found = roster.find(user_agent.as_bytes()).map(|crawler| crawler.name);
            assert_eq!(found.as_deref(), name, "{user_agent}");
        }
    }

    #[test]
    fn a_crawler_may_follow_the_group_of_another() {
        let named = |name| NamedCrawler::new(&ProductToken::new(name).unwrap());
        let image = named("googlebot-image");
        let tokens: Vec<_> = image.tokens.iter().map(ProductToken::as_str).collect();
        assert_eq!(
            (tokens, image.dialect),
            (vec!["Googlebot-Image", "Googlebot"], Dialect::Google)
        );
        let other = named("ExampleBot");
        assert_eq!((other.tokens.len(), other.dialect), (1, Dialect::Rfc9309));
    }
}
