//! An agent: the name that requests are signed under, and the place where its keys are published.

use std::path::PathBuf;
use std::sync::Arc;

use url::{Position, Url};

use super::key::SigningKey;

/// The well-known path of an origin's key directory.
pub const DIRECTORY_PATH: &str = "/.well-known/http-message-signatures-directory";

/// The way in which a verifier gets from `Signature-Agent` to an agent's keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyDiscovery {
    /// `Signature-Agent` is the agent's origin, and the keys are at its well-known path (revision 00, and deployed verifiers).
    #[default]
    Origin,
    /// `Signature-Agent` is the URL of the JWK Set (draft-ietf-webbotauth-httpsig-protocol-01 section 5.1.1).
    Uri,
}

/// A name that requests are signed under, with the keys that sign for it. No key belongs to two agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningAgent {
    url: Url,
    discovery: KeyDiscovery,
    /// The published keys, including those not yet or no longer in use, so that a key can be replaced without a gap.
    pub keys: Vec<Arc<SigningKey>>,
}

/// A key, and the agent that it signs for.
#[derive(Clone, Debug)]
pub struct AgentKey {
    pub agent: Arc<SigningAgent>,
    pub key: Arc<SigningKey>,
}

impl SigningAgent {
    /// Creates the agent at `url`, which is valid for this form of discovery.
    pub fn new(url: Url, discovery: KeyDiscovery, keys: Vec<Arc<SigningKey>>) -> Self {
        Self { url, discovery, keys }
    }

    /// Parses the URL of an agent: an https origin, or with [`KeyDiscovery::Uri`] that of a JWK Set. An origin stands for its
    /// well-known path, so both spellings give the same URL.
    ///
    /// # Errors
    ///
    /// Returns the expected form, a phrase that follows "is not".
    pub fn parse_url(text: &str, discovery: KeyDiscovery) -> Result<Url, &'static str> {
        const ORIGIN: &str = "an https URL without a path, such as \"https://bot.example\"; signing.discovery = \"uri\" allows one";
        const FILE: &str = "an https origin or the URL of a JWK Set, such as \"https://bot.example/search\": its path has letters, digits, \
            \"-\", \"_\", \".\", \"~\" and \"/\", and does not end in \"/\"";
        let expected = match discovery {
            KeyDiscovery::Origin => ORIGIN,
            KeyDiscovery::Uri => FILE,
        };
        let mut url = Url::parse(text).map_err(|_| expected)?;
        let has_user = !url.username().is_empty() || url.password().is_some();
        // A verifier discards the query from the identifier, so two agents could not differ by it.
        let has_query_or_fragment = url.query().is_some() || url.fragment().is_some();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte);
        let is_right_path = match url.path() {
            "/" => true,
            path => {
                // Two slashes would share the folder of keys with one.
                discovery == KeyDiscovery::Uri
                    && !path.ends_with('/')
                    && !path.contains("//")
                    && path.bytes().all(is_plain)
            }
        };
        if url.scheme() != "https" || has_user || has_query_or_fragment || !is_right_path {
            return Err(expected);
        }
        if url.path() == DIRECTORY_PATH {
            url.set_path("/");
        }
        Ok(url)
    }

    /// Returns the form of discovery.
    pub fn discovery(&self) -> KeyDiscovery {
        self.discovery
    }

    /// Returns the agent's URL, without the slash of an empty path.
    pub fn url(&self) -> &str {
        self.url.as_str().trim_end_matches('/')
    }

    /// Returns the origin at which the agent's cards and pages are, such as `https://bot.example`.
    pub fn origin(&self) -> &str {
        &self.url[..Position::AfterPort]
    }

    /// Returns the host, with the port unless it is the scheme's default.
    pub fn authority(&self) -> &str {
        &self.url[Position::BeforeHost..Position::AfterPort]
    }

    /// Returns the path of the JWK Set.
    pub fn key_set_path(&self) -> &str {
        match self.url.path() {
            "/" => DIRECTORY_PATH,
            path => path,
        }
    }

    /// Returns the URL of the JWK Set.
    pub fn key_set_url(&self) -> String {
        format!("{}{}", self.origin(), self.key_set_path())
    }

    /// Returns the value of `Signature-Agent`, without quotes.
    pub fn signature_agent(&self) -> String {
        match self.discovery {
            KeyDiscovery::Origin => self.url().to_owned(),
            KeyDiscovery::Uri => self.key_set_url(),
        }
    }

    /// Returns whether a value of `Signature-Agent` names this agent.
    pub fn is_named_by(&self, value: &str) -> bool {
        let Ok(mut named) = Url::parse(value) else {
            return false;
        };
        named.set_query(None);
        let is_key_set = named.as_str() == self.key_set_url();
        // An origin stands for its well-known path, in revision 00 and for deployed verifiers.
        is_key_set || self.url.path() == "/" && named == self.url
    }

    /// Returns the folder of its keys, below the folder of all keys.
    pub fn keys_folder(&self) -> PathBuf {
        Self::keys_folder_of(&self.url)
    }

    /// Returns the folder of the keys of the agent at `url`, below the folder of all keys: the URL without the scheme.
    pub fn keys_folder_of(url: &Url) -> PathBuf {
        let folder = &url[Position::BeforeHost..Position::AfterPath];
        PathBuf::from(folder.trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(text: &str, discovery: KeyDiscovery) -> SigningAgent {
        let url =
            SigningAgent::parse_url(text, discovery).unwrap_or_else(|why| panic!("{text}: {why}"));
        SigningAgent::new(url, discovery, Vec::new())
    }

    #[test]
    fn each_form_of_discovery_has_its_value_and_key_set() {
        let well_known = "https://bot.example/.well-known/http-message-signatures-directory";
        for (text, discovery, value, key_set) in [
            ("https://BOT.example/", KeyDiscovery::Origin, "https://bot.example", well_known),
            ("https://bot.example", KeyDiscovery::Uri, well_known, well_known),
            (well_known, KeyDiscovery::Uri, well_known, well_known),
            (
                "https://bot.example:443/search",
                KeyDiscovery::Uri,
                "https://bot.example/search",
                "https://bot.example/search",
            ),
        ] {
            let agent = agent(text, discovery);
            assert_eq!(agent.signature_agent(), value, "{text}");
            assert_eq!(agent.key_set_url(), key_set, "{text}");
            assert_eq!(agent.origin(), "https://bot.example");
            assert!(agent.is_named_by(value), "{text}");
        }
        let with_port = agent("https://bot.example:8443/a/b", KeyDiscovery::Uri);
        assert_eq!(with_port.authority(), "bot.example:8443");
        for (text, folder) in [
            ("https://b.example:8443/a/b", "b.example:8443/a/b"),
            ("https://b.example", "b.example"),
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!(SigningAgent::keys_folder_of(&url), PathBuf::from(folder));
        }
    }

    #[test]
    fn another_url_names_another_agent() {
        let search = agent("https://bot.example/search", KeyDiscovery::Uri);
        for own in ["https://bot.example/search", "https://BOT.example:443/x/../search?v=2"] {
            assert!(search.is_named_by(own), "{own}");
        }
        for other in [
            "https://bot.example",
            "https://bot.example/",
            "https://bot.example/search/",
            "https://bot.example/Search",
            "https://bot.example/search2",
            "https://bot.example:8443/search",
            "https://bot.example/search#x",
            "https://me@bot.example/search",
            "http://bot.example/search",
            "https://other.example/search",
            "search",
        ] {
            assert!(!search.is_named_by(other), "{other}");
        }
        let origin = agent("https://bot.example", KeyDiscovery::Origin);
        assert!(origin.is_named_by(&origin.key_set_url()));
        assert!(!origin.is_named_by("https://bot.example/search"));
    }

    #[test]
    fn urls_that_cannot_be_an_agent_are_refused() {
        for text in
            ["bot.example", "http://bot.example", "https://me@bot.example", "https://b.example/#a"]
        {
            for discovery in [KeyDiscovery::Origin, KeyDiscovery::Uri] {
                assert!(SigningAgent::parse_url(text, discovery).is_err(), "{text}");
            }
        }
        for text in ["https://b.example/a", "https://b.example/?a"] {
            assert!(SigningAgent::parse_url(text, KeyDiscovery::Origin).is_err(), "{text}");
        }
        for text in ["https://b.example/a/", "https://b.example/a?b", "https://b.example/a%20b"] {
            assert!(SigningAgent::parse_url(text, KeyDiscovery::Uri).is_err(), "{text}");
        }
    }
}
