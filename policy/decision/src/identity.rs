//! The crawler behind a request, and objections to the name that it gives itself.

use std::sync::Arc;

use wayleave_robots_txt::{Dialect, ProductToken};
use wayleave_usage_preferences::PurposeSet;

use crate::claimed_names::ClaimedNames;
use crate::crawler::{Crawler, EnforcementMode};
use crate::refusal::Refusal;

/// The label of crawlers that the configuration does not know: their name is only their own word.
pub const ASSERTED: &str = "asserted";

/// The crawler behind a request.
#[derive(Clone, Debug)]
pub enum Identity {
    /// A crawler that the configuration knows.
    Known(Arc<Crawler>),
    /// A client that only says which crawler it is.
    Asserted {
        /// The names in its `User-Agent`.
        claim: Arc<ClaimedNames>,
        /// The dialect in which robots.txt is read for it.
        dialect: Dialect,
        /// Whether refusals are enforced.
        mode: EnforcementMode,
    },
}

impl Identity {
    /// Returns the configured crawler, if it is one.
    #[must_use]
    pub fn crawler(&self) -> Option<&Crawler> {
        match self {
            Self::Known(crawler) => Some(crawler),
            Self::Asserted { .. } => None,
        }
    }

    /// Returns the crawler's configured name, or [`ASSERTED`].
    #[must_use]
    pub fn label(&self) -> &str {
        match self {
            Self::Known(crawler) => &crawler.name,
            Self::Asserted { .. } => ASSERTED,
        }
    }

    /// Returns the product tokens that are looked for in robots.txt, in order of preference.
    #[must_use]
    pub fn tokens(&self) -> &[ProductToken] {
        match self {
            Self::Known(crawler) => &crawler.tokens,
            Self::Asserted { claim, .. } => &claim.tokens,
        }
    }

    /// Returns the dialect in which robots.txt is read.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        match self {
            Self::Known(crawler) => crawler.dialect,
            Self::Asserted { dialect, .. } => *dialect,
        }
    }

    /// Returns whether refusals are enforced.
    #[must_use]
    pub fn mode(&self) -> EnforcementMode {
        match self {
            Self::Known(crawler) => crawler.mode,
            Self::Asserted { mode, .. } => *mode,
        }
    }
}

/// The crawler behind a request, with an objection to it.
#[derive(Clone, Debug)]
pub struct Identified {
    /// The crawler.
    pub identity: Identity,
    /// The objection to the name that it gives itself, or to a proof that failed.
    pub objection: Option<Refusal>,
    /// The crawler whose purposes count instead of its own, for a preview.
    pub purposes_from: Option<Arc<Crawler>>,
}

impl Identified {
    /// Creates an identity without an objection.
    #[must_use]
    pub fn without_objection(identity: Identity) -> Self {
        Self { identity, objection: None, purposes_from: None }
    }

    /// Returns the crawler whose purposes count, if it declares any.
    #[must_use]
    pub fn declaring(&self) -> Option<&Arc<Crawler>> {
        let known = match &self.identity {
            Identity::Known(crawler) => Some(crawler),
            Identity::Asserted { .. } => None,
        };
        let crawler = self.purposes_from.as_ref().or(known)?;
        (!crawler.declaration.purposes.is_empty()).then_some(crawler)
    }

    /// Returns the purposes that the crawler declares.
    #[must_use]
    pub fn purposes(&self) -> PurposeSet {
        self.declaring().map_or(PurposeSet::NONE, |crawler| crawler.declaration.purposes)
    }
}

#[cfg(test)]
mod tests {
    use wayleave_usage_preferences::Purpose;

    use super::*;
    use crate::crawler::tests::crawler;

    #[test]
    fn a_preview_may_ask_for_other_purposes() {
        let with_purpose = |purpose| {
            let mut crawler = crawler("example");
            crawler.declaration.purposes = PurposeSet::of(&[purpose]);
            Arc::new(crawler)
        };
        let known = Identity::Known(with_purpose(Purpose::Search));
        let mut identified = Identified::without_objection(known);
        assert_eq!(identified.purposes(), PurposeSet::of(&[Purpose::Search]));
        identified.purposes_from = Some(with_purpose(Purpose::TrainAi));
        assert_eq!(identified.purposes(), PurposeSet::of(&[Purpose::TrainAi]));
    }
}
