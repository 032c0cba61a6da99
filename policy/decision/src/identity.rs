//! The crawler behind a request, and objections to the name that it gives itself.

use std::sync::Arc;

use wayleave_robots_txt::{Dialect, ProductToken};
use wayleave_usage_preferences::PurposeSet;

use crate::crawler::{ClientFacts, Crawler, EnforcementMode};
use crate::crawlers::{ClaimedNames, Crawlers};
use crate::reason::Reason;
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
        /// How robots.txt is read for it.
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

/// The crawler behind a request, with what speaks against it.
#[derive(Debug)]
pub struct Identified {
    /// The crawler.
    pub identity: Identity,
    /// The objection to the name that it gives itself, or to what it failed to prove.
    pub objection: Option<Refusal>,
    /// The crawler whose purposes count instead of its own, for a preview.
    pub purposes_from: Option<Arc<Crawler>>,
}

impl Identified {
    /// Returns an identity that nothing speaks against.
    #[must_use]
    pub fn without_objection(identity: Identity) -> Self {
        Self {
            identity,
            objection: None,
            purposes_from: None,
        }
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
        self.declaring()
            .map_or(PurposeSet::NONE, |crawler| crawler.declaration.purposes)
    }
}

impl Crawlers {
    /// Identifies the crawler behind a request, and objects to a name that is not its own.
    #[must_use]
    pub fn identify(&self, client: &ClientFacts<'_>) -> Identified {
        let identity = self.identity_of(client);
        Identified {
            objection: self.objection_to(&identity, client.user_agent),
            identity,
            purposes_from: None,
        }
    }

    /// Returns the configured crawler behind a request, or else the name that the client gives itself.
    #[must_use]
    pub fn identity_of(&self, client: &ClientFacts<'_>) -> Identity {
        match self.find(client) {
            Some(crawler) => Identity::Known(Arc::clone(crawler)),
            None => Identity::Asserted {
                claim: self.claim(client.user_agent),
                dialect: self.dialect,
                mode: self.mode,
            },
        }
    }

    /// Returns what speaks against an identity and the name it gives itself.
    fn objection_to(&self, identity: &Identity, user_agent: &[u8]) -> Option<Refusal> {
        let crawler = identity.crawler();
        if crawler.is_none() && self.require_crawler {
            let details = "no [[crawler]] matches this request";
            return Some(Refusal::by_policy(Reason::Unidentified, details));
        }
        if let Some(owner) = self.claim(user_agent).foreign_owner(crawler) {
            let details = format!(
                "User-Agent names a crawler of {owner}, and no [[crawler]] here owns that token"
            );
            return Some(Refusal::by_policy(Reason::ForeignToken, details));
        }
        let crawler = crawler?;
        let must_be_named = crawler.user_agent_must_contain_token;
        (must_be_named && !crawler.is_named_in(user_agent)).then(|| {
            let details = format!("User-Agent contains no token of crawler {}", crawler.name);
            Refusal::by_policy(Reason::TokenMissing, details)
        })
    }
}
