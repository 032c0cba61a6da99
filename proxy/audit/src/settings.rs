//! The settings of a decision: those of the configuration that its line names, and the crawler that it names.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::rc::Rc;

use toml::{Table, Value};
use wayleave_config::Config;
use wayleave_decision::{
    ASSERTED, ClaimedNames, ClientFacts, Crawler, Crawlers, DecisionSettings, Identified, Identity,
    PolicyRules, Reason, Refusal,
};
use wayleave_decision_log::{DecisionRecord, MAX_USER_AGENT_BYTES};
use wayleave_evidence::Sha256Digest;
use wayleave_evidence::verify::CheckedMaterials;

/// The tables that affect decisions. The others say where files and other machines are, which may not exist here.
const DECIDING: [&str; 7] =
    ["crawler", "rule", "proxy", "https", "preferences", "politeness", "robots"];
/// The keys that affect decisions of tables that also name files.
const DECIDING_KEYS: [(&str, &[&str]); 2] =
    [("proxy", &["require_crawler", "mode", "name"]), ("https", &["mode", "bypass"])];
/// Keys of `[preferences]` that earlier versions wrote, with the only values that there still are.
const FORMER_KEYS: [(&str, &str); 2] = [("robots_meta", "\"google\""), ("legacy_labels", "true")];
/// A directory that cannot exist, for the paths of defaults.
const NOWHERE: &str = "/dev/null";
/// A placeholder for password hashes, which are not stored with the configuration, so that it can be parsed.
const ANY_HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
/// Objections to the name that a crawler gives itself.
const NAME_OBJECTIONS: [Reason; 3] =
    [Reason::Unidentified, Reason::ForeignToken, Reason::TokenMissing];
/// Objections to a crawler's proofs, which cannot be checked again.
pub(crate) const PROOF_OBJECTIONS: [Reason; 3] =
    [Reason::WrongPassword, Reason::WrongCertificate, Reason::PasswordChecks];

/// A cache of parsed configurations.
#[derive(Default)]
pub(crate) struct PastSettingsCache {
    read: HashMap<Sha256Digest, Result<Rc<PastSettings>, String>>,
}

/// The part of a configuration that affects decisions.
pub struct PastSettings {
    config: Config,
    rules: PolicyRules,
    crawlers: Crawlers,
    /// Whether a crawler is recognised by its certificate.
    by_certificate: bool,
}

impl PastSettingsCache {
    /// Returns the configuration with this digest.
    ///
    /// # Errors
    ///
    /// Returns an error if it is missing, or cannot be parsed.
    pub(crate) fn get(
        &mut self,
        digest: Sha256Digest,
        materials: &CheckedMaterials,
    ) -> Result<Rc<PastSettings>, String> {
        let read = || {
            let text = materials.configuration(digest);
            let text = text.ok_or_else(|| format!("the configuration {digest} is missing"))?;
            let settings = PastSettings::read(&text);
            let settings =
                settings.map_err(|error| format!("the configuration {digest}: {error}"))?;
            Ok(Rc::new(settings))
        };
        self.read.entry(digest).or_insert_with(read).clone()
    }
}

impl PastSettings {
    /// Reads an archived configuration.
    ///
    /// # Errors
    ///
    /// Returns the mistakes in it.
    pub(crate) fn read(text: &[u8]) -> Result<Self, String> {
        let text = str::from_utf8(text).map_err(|error| error.to_string())?;
        Self::read_deciding(text).map_err(|mistakes| mistakes.join("; "))
    }

    /// Reads the part of a configuration that decides, and nothing that it names: neither files nor other machines.
    ///
    /// # Errors
    ///
    /// Returns all mistakes in it.
    pub(crate) fn read_deciding(text: &str) -> Result<Self, Vec<String>> {
        let mut deciding: Table = text.parse().map_err(|error| vec![format!("{error}")])?;
        deciding.retain(|name, _| DECIDING.contains(&name));
        for (name, keys) in DECIDING_KEYS {
            if let Some(Value::Table(table)) = deciding.get_mut(name) {
                table.retain(|key, _| keys.contains(&key));
            }
        }
        // The lines that pinned texts decided name them.
        if let Some(Value::Table(robots)) = deciding.get_mut("robots") {
            robots.remove("pinned");
        }
        remove_former_defaults(&mut deciding);
        let mut by_certificate = false;
        let crawlers = deciding.get_mut("crawler").and_then(Value::as_array_mut);
        for crawler in crawlers.into_iter().flatten().filter_map(Value::as_table_mut) {
            crawler.remove("signing_key");
            let matched = crawler.get_mut("match").and_then(Value::as_table_mut);
            if let Some(matched) = matched
                && matched.remove("certificate").is_some()
            {
                by_certificate = true;
                // No request ever proves this user name, so the crawler is never recognised by it.
                matched.insert("username".to_owned(), "certificate".into());
                crawler.insert("password_hash".to_owned(), ANY_HASH.into());
            }
            crawler.remove("source_address");
            if let Some(hash) = crawler.get_mut("password_hash") {
                *hash = Value::String(ANY_HASH.to_owned());
            }
        }
        let text = toml::to_string(&deciding).map_err(|error| vec![error.to_string()])?;
        let config = Config::from_toml_in(Path::new(NOWHERE), "", &text).map_err(|mistakes| {
            // Without lines, which would be those of the text generated above.
            let mistakes = mistakes.iter();
            let messages = mistakes.map(|mistake| match mistake.key() {
                "" => mistake.message().to_owned(),
                key => format!("{key}: {}", mistake.message()),
            });
            messages.collect::<Vec<_>>()
        })?;
        Ok(Self {
            rules: PolicyRules::new(config.rules.clone()),
            crawlers: Crawlers::new(config.crawlers.clone()),
            config,
            by_certificate,
        })
    }

    /// Returns the settings that decide.
    pub(crate) fn for_decisions(&self) -> DecisionSettings<'_> {
        DecisionSettings {
            crawlers: &self.crawlers,
            rules: &self.rules,
            interception: &self.config.https.interception,
            preferences: &self.config.preferences.reading,
        }
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn rules(&self) -> &PolicyRules {
        &self.rules
    }

    pub(crate) fn crawlers(&self) -> &Crawlers {
        &self.crawlers
    }

    /// Returns whether a crawler is recognised by its certificate.
    pub(crate) fn is_by_certificate(&self) -> bool {
        self.by_certificate
    }

    /// Derives the crawler's identity again. Returns whether the identity was the reason of the decision.
    ///
    /// # Errors
    ///
    /// Returns the difference.
    pub(crate) fn derive_identity(&self, decision: &DecisionRecord) -> Result<bool, String> {
        // Clients' certificates are not logged.
        let is_derivable = !self.by_certificate && !decision.is_own_request();
        let Some(user_agent) = decision.user_agent.as_ref().filter(|_| is_derivable) else {
            return Ok(false);
        };
        // The whole User-Agent decided. Earlier versions do not record that they cut it.
        if decision.user_agent_cut || user_agent.len() >= MAX_USER_AGENT_BYTES {
            return Ok(false);
        }
        let by_address = |crawler: &Crawler| !crawler.addresses.is_empty();
        let client = match decision.client.address() {
            Some(client) => client,
            // Addresses decide, and this one is logged as a network or a digest only.
            None if self.config.crawlers.crawlers.iter().any(by_address) => return Ok(false),
            None => Ipv4Addr::UNSPECIFIED.into(),
        };
        let username = decision.username.as_deref();
        let user_agent = user_agent.as_bytes();
        let purposes = &decision.stated_purposes;
        let seen = ClientFacts { client, username, certificate: &[], user_agent, purposes };
        let identified = self.crawlers.identify(&seen);
        let identity = identified.identity;
        if identity.label() != decision.crawler {
            let derived = identity.label();
            let recorded = &decision.crawler;
            return Err(format!("the crawler is {derived:?}, not {recorded:?}"));
        }
        check_mode(&identity, decision)?;
        let derived = identified.objection.map(|refusal| refusal.reason.as_str());
        let is_by_identity = decision.reason.known().is_some_and(is_name_objection);
        if is_by_identity && derived != Some(&*decision.reason) {
            let derived = derived.unwrap_or("none");
            return Err(format!("the objection to the crawler is {derived:?}"));
        }
        Ok(is_by_identity)
    }

    /// Returns the crawler that the line names, with the objection that was the reason of the decision, if one was. Neither
    /// passwords nor certificates are logged, so that not everything about a client can be derived from its request.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration has another such crawler, or none.
    pub(crate) fn identified(&self, decision: &DecisionRecord) -> Result<Identified, String> {
        let tokens = decision.product_tokens()?;
        let identity = if decision.crawler == ASSERTED {
            Identity::Asserted {
                claim: ClaimedNames::with_tokens(tokens).into(),
                dialect: self.crawlers.dialect,
                mode: self.crawlers.mode,
            }
        } else {
            let name = &decision.crawler;
            let crawler = self.crawlers.named(name);
            let crawler = crawler
                .ok_or_else(|| format!("the configuration has no crawler named {name:?}"))?;
            if crawler.tokens != tokens {
                return Err(format!("the crawler's tokens differ from {:?}", decision.tokens));
            }
            Identity::Known(crawler)
        };
        check_mode(&identity, decision)?;
        let objection = recorded_objection(decision);
        Ok(Identified { objection, ..Identified::without_objection(identity) })
    }
}

/// Removes keys that no longer exist if their value means what is always done now. Another value read statements in a way that
/// is gone: it stays, and is reported as an unknown key.
fn remove_former_defaults(deciding: &mut Table) {
    let Some(Value::Table(preferences)) = deciding.get_mut("preferences") else {
        return;
    };
    for (key, value) in FORMER_KEYS {
        if preferences.get(key).is_some_and(|written| written.to_string() == value) {
            preferences.remove(key);
        }
    }
}

fn check_mode(identity: &Identity, decision: &DecisionRecord) -> Result<(), String> {
    let mode = identity.mode();
    if decision.mode == mode { Ok(()) } else { Err(format!("the mode is {:?}", mode.as_str())) }
}

/// Returns the objection to the crawler that was the reason of a decision, if one was.
pub(crate) fn recorded_objection(decision: &DecisionRecord) -> Option<Refusal> {
    let reason = decision.reason.known()?;
    let is_policy = NAME_OBJECTIONS.contains(&reason);
    let is_objection = is_name_objection(reason) || PROOF_OBJECTIONS.contains(&reason);
    is_objection.then(|| Refusal { is_policy, ..Refusal::new(reason, "") })
}

/// Returns whether a reason objects to a crawler's name, or to purposes that it does not declare.
fn is_name_objection(reason: Reason) -> bool {
    NAME_OBJECTIONS.contains(&reason) || reason == Reason::PurposeNotDeclared
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    pub(crate) const CONFIGURATION: &str = r#"
        [proxy]
        require_crawler = true
        [[crawler]]
        name = "news"
        tokens = ["NewsBot"]
        match = { user_agent = "NewsBot" }
        mode = "observe"
        [[crawler]]
        name = "enforced"
        tokens = ["Enforced"]
        match = { user_agent = "Enforced" }
        [[rule]]
        action = "allow"
        hosts = ["shop.test"]
        owner = "legal"
        reason = "contract"
        expires = "2026-01-02"
    "#;

    /// Parses a line of the log, with other members in it.
    pub(crate) fn decision(others: Json) -> DecisionRecord {
        let mut line = json!({
            "id": "019a00000000700080000000000000a1", "at": "2026-01-01T00:00:05.000Z",
            "outcome": "forwarded", "reason": "rule", "status": 200,
            "crawler": "news", "identity": "known", "tokens": ["NewsBot"], "user_agent": "NewsBot/1",
            "client": "10.0.0.1", "method": "GET", "url": "https://shop.test/", "mode": "observe",
            "configuration": 1, "decided_us": 1, "took_us": 10,
        });
        let Json::Object(others) = others else { panic!("{others}") };
        line.as_object_mut().expect("an object").extend(others);
        serde_json::from_value(line).expect("a line of the log")
    }

    #[test]
    fn configurations_of_earlier_versions_are_read() {
        let read = |keys: &str| PastSettings::read(format!("[preferences]\n{keys}").as_bytes());
        assert!(read("robots_meta = \"google\"\nlegacy_labels = true\n").is_ok());
        for other in ["robots_meta = \"bing\"", "legacy_labels = false"] {
            assert!(read(other).err().expect("it reads otherwise").contains("unknown key"));
        }
    }

    #[test]
    fn identity_mode_and_objection_are_derived() {
        let settings = PastSettings::read(CONFIGURATION.as_bytes()).unwrap();
        let identity = |others| settings.derive_identity(&decision(others));
        assert_eq!(identity(json!({})), Ok(false));
        let unknown = json!({"user_agent": "Other/1", "crawler": "asserted", "mode": "enforce",
            "identity": "asserted", "reason": "unidentified"});
        assert_eq!(identity(unknown), Ok(true));
        // The part that was cut off may have contained another token.
        for agent in [
            json!({"user_agent": "Other/1", "user_agent_cut": true}),
            json!({"user_agent": "o".repeat(512)}),
        ] {
            assert_eq!(identity(agent), Ok(false));
        }
        for (others, objection) in [
            (json!({"crawler": "images"}), "the crawler is \"news\""),
            (json!({"mode": "enforce"}), "the mode is \"observe\""),
            (json!({"reason": "unidentified"}), "is \"none\""),
        ] {
            let error = identity(others).unwrap_err();
            assert!(error.contains(objection), "{error}");
        }
    }
}
