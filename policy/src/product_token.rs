//! A crawler's name as robots.txt spells it.

use std::fmt;
use std::str::FromStr;

use crate::name_tag::tag_of_value;
use crate::user_agent;

/// The name by which a crawler finds its group (RFC 9309 §2.2.1, "product token").
///
/// The standard's alphabet is letters, `_` and `-`; names in use go beyond it (`MJ12bot`,
/// `archive.org_bot`), so this type takes anything that can stand on a user-agent line. Names
/// compare without regard to ASCII case.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProductToken {
    text: Box<str>,
    folded: Box<str>,
    tag: u8,
}

impl ProductToken {
    /// Takes a name as the crawler spells it.
    ///
    /// # Errors
    ///
    /// If the name could never be found in a robots.txt: it is empty, starts or ends with white
    /// space, or holds a control character or `#`.
    pub fn new(name: &str) -> Result<Self, InvalidProductToken> {
        let reason = if name.is_empty() {
            "it is empty"
        } else if name.trim_matches(|c: char| c.is_ascii_whitespace()) != name {
            "it starts or ends with white space"
        } else if name.chars().any(|c| c.is_ascii_control()) {
            "it holds a control character"
        } else if name.contains('#') {
            "it holds '#', which starts a comment in robots.txt"
        } else {
            return Ok(Self::from_checked(name));
        };
        Err(InvalidProductToken {
            name: name.to_owned(),
            reason,
        })
    }

    /// The crawler that gives no name: only the group of `*` can be meant for it.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::from_checked("")
    }

    /// Takes the name out of a `User-Agent` field: the first product, or for those who call
    /// themselves Mozilla the one that follows `compatible;` or otherwise looks like a crawler.
    ///
    /// `None` if the field names no product at all.
    #[must_use]
    pub fn from_user_agent(field: &[u8]) -> Option<Self> {
        let name = user_agent::crawler_name(field)?;
        Self::new(&name).ok()
    }

    /// The name as given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The name in ASCII lower case.
    pub(crate) fn folded(&self) -> &[u8] {
        self.folded.as_bytes()
    }

    /// What user-agent lines that name this crawler have in common.
    pub(crate) fn tag(&self) -> u8 {
        self.tag
    }

    fn from_checked(name: &str) -> Self {
        let folded = name.to_ascii_lowercase();
        Self {
            text: name.into(),
            tag: tag_of_value(folded.as_bytes()),
            folded: folded.into(),
        }
    }
}

impl fmt::Debug for ProductToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProductToken").field(&self.text).finish()
    }
}

impl fmt::Display for ProductToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl FromStr for ProductToken {
    type Err = InvalidProductToken;

    fn from_str(name: &str) -> Result<Self, InvalidProductToken> {
        Self::new(name)
    }
}

/// A name that no user-agent line can hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidProductToken {
    name: String,
    reason: &'static str,
}

impl fmt::Display for InvalidProductToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no product token: {}", self.name, self.reason)
    }
}

impl std::error::Error for InvalidProductToken {}
