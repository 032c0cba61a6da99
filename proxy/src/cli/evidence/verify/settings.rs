//! Derives the identity, rules and usage preferences of a request again, from the configuration that decided.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::rc::Rc;

use toml::{Table, Value};
use wayleave_decision::{
    ClientFacts, Crawler, Crawlers, EnforcementMode, PolicyRules, RuleMatch, RuleQuery,
    TargetScope, find_rule, query,
};
use wayleave_evidence::Sha256Digest;
use wayleave_evidence::verify::CheckedMaterials;
use wayleave_robots_txt::{AccessResult, Target};
use wayleave_usage_preferences::{PreferenceDocument, PurposeSet};

use crate::config::Config;
use crate::decide::rederive;
use crate::decision_log::{DecisionRecord, DocumentRecord, MAX_USER_AGENT_BYTES, UsePreference};

/// The tables that affect decisions. The others say where files and other machines are, which may not exist here.
const DECIDING: [&str; 6] = ["crawler", "rule", "proxy", "preferences", "politeness", "robots"];
/// A placeholder for password hashes, which are not stored with the configuration, so that it can be parsed.
const ANY_HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// A cache of parsed configurations.
#[derive(Default)]
pub(super) struct PastSettingsCache {
    read: HashMap<Sha256Digest, Result<Rc<PastSettings>, String>>,
}

/// The part of a configuration that affects decisions.
pub(super) struct PastSettings {
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
    pub(super) fn get(
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
    fn read(text: &[u8]) -> Result<Self, String> {
        let text = str::from_utf8(text).map_err(|error| error.to_string())?;
        let all: Table = text.parse().map_err(|error| format!("{error}"))?;
        let mut deciding: Table =
            all.into_iter().filter(|(name, _)| DECIDING.contains(&name.as_str())).collect();
        if let Some(Value::Table(proxy)) = deciding.get_mut("proxy") {
            proxy.retain(|key, _| matches!(key, "require_crawler" | "mode" | "name"));
        }
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
        let text = toml::to_string(&deciding).map_err(|error| error.to_string())?;
        let config = Config::from_toml("configuration", &text)
            .map_err(|mistakes| mistakes.iter().map(|it| format!("{it}; ")).collect::<String>())?;
        Ok(Self {
            rules: PolicyRules::new(config.rules.clone()),
            crawlers: Crawlers::new(config.crawlers.clone()),
            config,
            by_certificate,
        })
    }

    /// Derives the crawler's identity again. Returns whether the identity was the reason of the decision.
    ///
    /// # Errors
    ///
    /// Returns what comes out differently.
    pub(super) fn identity(&self, decision: &DecisionRecord) -> Result<bool, String> {
        // Clients' certificates are not logged.
        let may_be = !self.by_certificate && decision.crawler != "wayleave";
        let Some(user_agent) = decision.user_agent.as_ref().filter(|_| may_be) else {
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
        let seen = ClientFacts { client, username, certificate: &[], user_agent };
        let identified = self.crawlers.identify(&seen);
        let identity = identified.identity;
        if identity.label() != decision.crawler {
            let (derived, said) = (identity.label(), &decision.crawler);
            return Err(format!("the crawler is {derived:?}, not {said:?}"));
        }
        if identity.mode().as_str() != decision.mode {
            return Err(format!("the mode is {:?}", identity.mode().as_str()));
        }
        let derived = identified.objection.map(|refusal| refusal.reason.as_str());
        let said = Some(&*decision.reason);
        let by_identity = ["unidentified", "foreign-token", "token-missing"];
        let is_by_identity = by_identity.contains(&&*decision.reason);
        if is_by_identity && derived != said && identity.label() == decision.crawler {
            let derived = derived.unwrap_or("none");
            return Err(format!("the objection to who asks is {derived:?}"));
        }
        Ok(is_by_identity)
    }

    /// Derives again which rule matches. Returns whether one does.
    ///
    /// # Errors
    ///
    /// Returns what comes out differently.
    pub(super) fn rules(
        &self,
        decision: &DecisionRecord,
        (target, scope): (&Target, TargetScope),
    ) -> Result<bool, String> {
        let found = |now| self.rule(decision, (target, scope), now);
        let said = decision.policy.as_ref();
        let is_said = |found: &Option<RuleMatch>| match (found, said) {
            (Some(found), Some(said)) => {
                found.number == said.number && found.rule.action.as_str() == said.action
            }
            (None, None) => true,
            _ => false,
        };
        // A rule may have expired while the request was waiting.
        let took = std::time::Duration::from_micros(decision.took_us);
        let derived = found(decision.at);
        if is_said(&derived) || is_said(&found(decision.at + took)) {
            return Ok(said.is_some());
        }
        let name = |number: Option<usize>| {
            number.map_or("none".to_owned(), |number| format!("[[rule]] {number}"))
        };
        Err(format!(
            "the rule is {}, not {}",
            name(derived.map(|found| found.number)),
            name(said.map(|said| said.number))
        ))
    }

    fn rule(
        &self,
        decision: &DecisionRecord,
        (target, scope): (&Target, TargetScope),
        now: std::time::SystemTime,
    ) -> Option<RuleMatch> {
        let is_redirect = decision.crawler == "wayleave";
        let declaring = self.crawlers.named(&decision.crawler);
        let asked = RuleQuery {
            target,
            method: &decision.method,
            crawler: if is_redirect { "" } else { &decision.crawler },
            purposes: declaring.map_or(PurposeSet::NONE, |it| it.declaration.purposes),
            now,
        };
        let mode = match &*decision.mode {
            "observe" => EnforcementMode::Observe,
            _ => EnforcementMode::Enforce,
        };
        if is_redirect {
            self.rules.find_for_redirect(asked)
        } else {
            find_rule(&self.rules, asked, scope, mode)
        }
    }

    /// Derives the usage preferences again from robots.txt and other documents, unless the response stated any. Returns whether
    /// there are any to derive.
    ///
    /// # Errors
    ///
    /// Returns a description of what comes out differently, or is missing.
    pub(super) fn preferences(
        &self,
        decision: &DecisionRecord,
        access: &AccessResult,
        read: impl Fn(&DocumentRecord) -> Result<Option<PreferenceDocument>, String>,
    ) -> Result<bool, String> {
        let is_by_answer =
            |said: &UsePreference| matches!(said.stage.as_deref(), Some("head" | "body"));
        let Some(crawler) = self.crawlers.named(&decision.crawler) else {
            return Ok(false);
        };
        if decision.preferences.is_empty() || decision.preferences.iter().any(is_by_answer) {
            return Ok(false);
        }
        let asker = query(&crawler, &self.config.preferences.reading, decision.at);
        let judgement = rederive::by_preferences(asker, decision, access, read)?;
        let derived = judgement.map_or_else(Vec::new, |judgement| judgement.by_purpose);
        if derived.len() != decision.preferences.len() {
            return Err("the preferences about use are of other purposes".to_owned());
        }
        for (derived, said) in derived.iter().map(UsePreference::from).zip(&decision.preferences) {
            if !derived.agrees_with(said) {
                return Err(format!(
                    "the preference about {} is {} by {:?}, not {} by {:?}",
                    said.purpose,
                    derived.preference,
                    derived.statement,
                    said.preference,
                    said.statement
                ));
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    const CONFIGURATION: &str = r#"
        [proxy]
        require_crawler = true
        [[crawler]]
        name = "news"
        tokens = ["NewsBot"]
        match = { user_agent = "NewsBot" }
        mode = "observe"
        [[rule]]
        action = "allow"
        hosts = ["shop.test"]
        owner = "legal"
        reason = "contract"
        expires = "2026-01-02"
    "#;

    /// Parses a line of the log, with other members added.
    fn decision(others: Json) -> DecisionRecord {
        let mut line = json!({
            "id": "019a00000000700080000000000000a1", "at": "2026-01-01T00:00:05.000Z",
            "outcome": "forwarded", "reason": "rule", "status": 200,
            "crawler": "news", "identity": "known", "user_agent": "NewsBot/1", "client": "10.0.0.1",
            "method": "GET", "url": "https://shop.test/", "mode": "observe",
            "configuration": 1, "decided_us": 1, "took_us": 10,
        });
        let Json::Object(others) = others else { panic!("{others}") };
        line.as_object_mut().expect("an object").extend(others);
        serde_json::from_value(line).expect("a line of the log")
    }

    #[test]
    fn identity_mode_and_objection_are_derived() {
        let settings = PastSettings::read(CONFIGURATION.as_bytes()).unwrap();
        let identity = |others| settings.identity(&decision(others));
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

    #[test]
    fn rule_expired_during_wait_may_or_may_not_apply() {
        let settings = PastSettings::read(CONFIGURATION.as_bytes()).unwrap();
        let target = Target::parse("https://shop.test/").unwrap();
        let rules = |at: &str, took_us: u64, policy: Json| {
            let others = json!({"at": at, "took_us": took_us, "policy": policy});
            settings.rules(&decision(others), (&target, TargetScope::Path))
        };
        let (before, behind) = ("2026-01-01T23:59:55.000Z", "2026-01-02T00:00:01.000Z");
        let policy = json!({"number": 1, "action": "allow"});
        assert_eq!(rules(before, 10, policy.clone()), Ok(true));
        assert!(rules(before, 10, Json::Null).is_err());
        assert_eq!(rules(before, 6_000_000, policy.clone()), Ok(true));
        assert_eq!(rules(before, 6_000_000, Json::Null), Ok(false));
        assert_eq!(rules(behind, 10, Json::Null), Ok(false));
        assert!(rules(behind, 10, policy).is_err());
    }
}
