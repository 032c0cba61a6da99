//! The names in a `User-Agent`.

use wayleave_robots_txt::ProductToken;

use crate::crawler::Crawler;
use crate::well_known::{WellKnownCrawler, find_well_known};

/// The names in a `User-Agent`.
#[derive(Debug, Default)]
pub struct ClaimedNames {
    /// The product token; none if no product is named.
    pub tokens: Vec<ProductToken>,
    /// Well-known crawlers that are named anywhere.
    well_known: Vec<&'static WellKnownCrawler>,
}

impl ClaimedNames {
    /// Reads the value of `User-Agent`.
    #[must_use]
    pub fn parse(user_agent: &[u8]) -> Self {
        let token = ProductToken::from_user_agent(user_agent);
        let well_known =
            find_well_known(user_agent).filter(|named| named.owner.is_some()).collect();
        Self { tokens: token.into_iter().collect(), well_known }
    }

    /// Returns the names of a crawler that names itself, and no other, in its `User-Agent`.
    #[must_use]
    pub fn with_tokens(tokens: Vec<ProductToken>) -> Self {
        Self { tokens, well_known: Vec::new() }
    }

    /// Returns the owner of a well-known crawler that is named, other than `crawler` itself.
    #[must_use]
    pub fn foreign_owner(&self, crawler: Option<&Crawler>) -> Option<&'static str> {
        // A crawler that lists the token among its own is the well-known one.
        let is_own = |named: &WellKnownCrawler| {
            crawler.is_some_and(|crawler| crawler.owns_token(named.token))
        };
        self.well_known.iter().find(|named| !is_own(named))?.owner
    }
}
