//! Identities under which documents are fetched.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

/// The party that chose a host, which decides where a fetch may lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "u8", into = "u8")]
pub enum ChosenBy {
    /// A crawler asked for the host.
    #[default]
    Crawler,
    /// A redirect or a robots.txt named it, with only internal addresses before it.
    Internal,
    /// A redirect or a robots.txt named it, with a public address before it. A public server must not send us to an
    /// internal one, not even to one that crawlers may use.
    Public,
}

impl From<ChosenBy> for u8 {
    fn from(chosen: ChosenBy) -> Self {
        match chosen {
            ChosenBy::Crawler => 0,
            ChosenBy::Internal => 1,
            ChosenBy::Public => 2,
        }
    }
}

impl From<u8> for ChosenBy {
    fn from(number: u8) -> Self {
        match number {
            0 => Self::Crawler,
            1 => Self::Internal,
            // A number that a later version wrote is read as the narrowest.
            _ => Self::Public,
        }
    }
}

impl ChosenBy {
    /// Returns who chooses the next host, after one whose address is public or not.
    #[must_use]
    pub fn for_next_host(self, is_public: bool) -> Self {
        match self {
            Self::Crawler | Self::Internal if !is_public => Self::Internal,
            _ => Self::Public,
        }
    }

    const fn suffix(self) -> &'static str {
        match self {
            Self::Crawler => "",
            Self::Internal => "+internal",
            Self::Public => "+public",
        }
    }
}

/// The identity of a fetch: everything by which an origin may answer one crawler otherwise than another. The default is
/// that of the proxy itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FetchIdentity {
    /// The name of the configured crawler, if it is one's.
    pub crawler: Option<Arc<str>>,
    /// The `User-Agent`; empty to send none. `None`: the proxy's own.
    pub user_agent: Option<Arc<str>>,
    /// The thumbprint of the key that signs the requests.
    pub key: Option<Arc<str>>,
    /// The URL of the agent that the signatures name.
    pub agent: Option<Arc<str>>,
    /// The address that the requests are sent from, if not the default.
    pub source: Option<IpAddr>,
    /// The party that chose the host. Origins cannot see it, but a fetch for one of them may fail where another succeeds.
    pub chosen: ChosenBy,
}

static PROXY: LazyLock<Arc<FetchIdentity>> = LazyLock::new(Arc::default);

impl FetchIdentity {
    /// Returns the proxy's own identity.
    #[must_use]
    pub fn proxy() -> Arc<Self> {
        Arc::clone(&PROXY)
    }

    /// Returns the identity of a client that is no configured crawler.
    #[must_use]
    pub fn of_client(user_agent: impl Into<Arc<str>>) -> Self {
        Self { user_agent: Some(user_agent.into()), ..Self::default() }
    }

    /// Returns whether it is that of a client that is no configured crawler.
    #[must_use]
    pub fn is_client(&self) -> bool {
        self.crawler.is_none() && self.user_agent.is_some()
    }

    /// Returns the crawler's name; `-` for the proxy itself, and `asserted` for a client that is no configured crawler.
    #[must_use]
    pub fn name(&self) -> &str {
        let other = if self.is_client() { "asserted" } else { "-" };
        self.crawler.as_deref().unwrap_or(other)
    }

    /// Returns the same identity for a host that another party chose.
    #[must_use]
    pub fn with_chosen(self: &Arc<Self>, chosen: ChosenBy) -> Arc<Self> {
        if self.chosen == chosen {
            return Arc::clone(self);
        }
        Arc::new(Self { chosen, ..Self::clone(self) })
    }

    /// Returns whether both look the same to an origin.
    #[must_use]
    pub fn looks_like(&self, other: &Self) -> bool {
        self.user_agent == other.user_agent
            && self.key == other.key
            && self.agent == other.agent
            && self.source == other.source
    }

    /// Returns the holder of the copy that it shares with everybody for whom the host was chosen by the same party; `None` for
    /// the one of crawlers that ask for the host themselves.
    #[must_use]
    pub fn shared_holder(&self) -> Option<&'static str> {
        Some(self.chosen.suffix()).filter(|suffix| !suffix.is_empty())
    }

    /// Returns the name under which its own copies are held: one for each crawler, and for each `User-Agent` of clients
    /// that are none. Two may have the same name by chance; the copy itself says for whom it counts.
    #[must_use]
    pub fn holder(&self) -> String {
        let suffix = self.chosen.suffix();
        match &self.crawler {
            Some(crawler) => format!("{crawler}{suffix}"),
            None => {
                let mut hasher = DefaultHasher::new();
                self.user_agent.hash(&mut hasher);
                format!("~{:016x}{suffix}", hasher.finish())
            }
        }
    }
}

/// The requesters that an outcome counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Everybody.
    Everybody,
    /// Those that look to the origin like the one that fetched.
    SameLook,
    /// Those that look the same, and for whom the host was chosen by the same party.
    SameRequest,
}

impl Audience {
    /// Returns whether an outcome with this audience, fetched as `fetched_as`, counts for `other`.
    #[must_use]
    pub fn includes(self, fetched_as: &FetchIdentity, other: &FetchIdentity) -> bool {
        match self {
            Self::Everybody => true,
            Self::SameLook => fetched_as.looks_like(other),
            Self::SameRequest => fetched_as.looks_like(other) && fetched_as.chosen == other.chosen,
        }
    }
}
