//! Makes a decision again, by the configuration and the documents that its line names.

mod compare;

use std::rc::Rc;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use wayleave_decision::{
    DocumentBatch, DocumentResult, Identified, ResolvedTarget, RobotsCopy, Verdict,
};
use wayleave_decision_log::DecisionRecord;
use wayleave_evidence::chain::link;
use wayleave_evidence::verify::CheckedMaterials;
use wayleave_robots_txt::{Dialect, Origin};

pub(crate) use self::compare::may_refuse_after_permission;
use crate::decide_again::{PastInputs, decide_again, was_refused_inside_tunnel};
use crate::documents::ParsedDocuments;
use crate::missing::Missing;
use crate::robots::{ParsedRobots, fetch_error_kind};
use crate::settings::{PastSettings, PastSettingsCache};

/// The number of derived decisions by their inputs. A decision may rest on several.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct DerivedCounts {
    pub robots: u64,
    pub rules: u64,
    pub identities: u64,
    pub preferences: u64,
    /// Decisions that rest on nothing in the export: malformed requests, requests that came too fast, and failures.
    pub others: u64,
}

/// Derives decisions again.
pub struct DecisionDeriver {
    materials: CheckedMaterials,
    robots: ParsedRobots,
    documents: ParsedDocuments,
    settings: PastSettingsCache,
}

impl DecisionDeriver {
    /// Creates a deriver that has the documents and configurations of an export.
    pub fn new(materials: CheckedMaterials) -> Self {
        Self {
            materials,
            robots: ParsedRobots::new(),
            documents: ParsedDocuments::new(),
            settings: PastSettingsCache::default(),
        }
    }

    /// Derives the decision of `line` again, and counts it.
    ///
    /// # Errors
    ///
    /// Returns a description of each difference, and of missing inputs.
    pub fn derive(
        &mut self,
        decision: &DecisionRecord,
        line: &[u8],
        derived: &mut DerivedCounts,
    ) -> Result<(), String> {
        let settings = self.settings_of(line)?;
        let is_by_identity = settings.derive_identity(decision)?;
        derived.identities += u64::from(is_by_identity);
        if decision.is_decided() {
            self.decide_and_compare(&settings, decision)?;
        } else {
            compare::check_undecided(decision)?;
        }
        let has_rule = decision.policy.is_some();
        let has_finding = decision.finding.is_some();
        derived.rules += u64::from(has_rule);
        derived.robots += u64::from(has_finding);
        derived.preferences += u64::from(compare::has_derivable_preferences(decision));
        derived.others += u64::from(!is_by_identity && !has_rule && !has_finding);
        Ok(())
    }

    /// Decides again, and compares the verdict with the line.
    ///
    /// # Errors
    ///
    /// Returns a description of each difference, and of missing inputs.
    fn decide_and_compare(
        &self,
        settings: &PastSettings,
        decision: &DecisionRecord,
    ) -> Result<(), String> {
        let derive = |now| compare::compare(&self.decide(settings, decision, now)?, decision);
        derive(decision.at).or_else(|difference| {
            // A rule may have expired while the request was waiting.
            let took = Duration::from_micros(decision.took_us);
            derive(decision.at + took).map_err(|_| difference)
        })
    }

    /// Returns the verdict on the request of a line.
    ///
    /// # Errors
    ///
    /// Returns an error if something is missing, or the line cannot be read.
    pub fn verdict(&mut self, decision: &DecisionRecord, line: &[u8]) -> Result<Verdict, String> {
        let settings = self.settings_of(line)?;
        self.decide(&settings, decision, decision.at)
    }

    fn settings_of(&mut self, line: &[u8]) -> Result<Rc<PastSettings>, String> {
        let digest = link::config_digest(line).ok_or("the line names no configuration")?;
        self.settings.get(digest, &self.materials)
    }

    /// Decides about the request of a line, with the inputs that the line names.
    fn decide(
        &self,
        settings: &PastSettings,
        decision: &DecisionRecord,
        now: SystemTime,
    ) -> Result<Verdict, String> {
        let verdict =
            decide_again(settings, decision, &mut NamedInputs { deriver: self, settings, now });
        verdict.map_err(|missing| missing.as_str().to_owned())
    }
}

/// The inputs that a line names, in an export.
struct NamedInputs<'a> {
    deriver: &'a DecisionDeriver,
    settings: &'a PastSettings,
    now: SystemTime,
}

impl PastInputs for NamedInputs<'_> {
    fn now(&self, _: &DecisionRecord) -> SystemTime {
        self.now
    }

    fn target(
        &mut self,
        line: &DecisionRecord,
        resolved: ResolvedTarget,
    ) -> Result<(ResolvedTarget, bool), Missing> {
        let is_by_tunnel = resolved.is_blind() || was_refused_inside_tunnel(line, &resolved);
        Ok((resolved, is_by_tunnel))
    }

    fn identify(&mut self, line: &DecisionRecord) -> Result<Identified, Missing> {
        self.settings.identified(line).map_err(Missing::Unreadable)
    }

    fn robots_txt(
        &mut self,
        line: &DecisionRecord,
        _: &Origin,
        _: Dialect,
    ) -> Result<Option<RobotsCopy>, Missing> {
        let Some(finding) = &line.finding else {
            return Ok(None);
        };
        let body = |digest| self.deriver.materials.body(digest);
        let access = self.deriver.robots.access(finding, &body).map_err(Missing::Unreadable)?;
        let error_kind = fetch_error_kind(line);
        Ok(Some(RobotsCopy::Archived { access, error_kind, at: line.at }))
    }

    fn documents(
        &mut self,
        line: &DecisionRecord,
        batch: &mut DocumentBatch,
    ) -> Result<Vec<DocumentResult>, Missing> {
        let body = |digest| self.deriver.materials.body(digest);
        self.deriver.documents.results(line, batch, &body).map_err(Missing::Unreadable)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::settings::tests::{CONFIGURATION, decision};

    /// A robots.txt that allows everything, as a line records it.
    fn allowed_by_robots_txt(mut others: Json) -> Json {
        let finding = json!({
            "reason": "unavailable", "verdict": "allow", "basis": "unavailable", "dialect": "rfc9309",
            "robots_access": "unavailable", "robots_status": 404,
        });
        let Json::Object(finding) = finding else { panic!("{finding}") };
        others.as_object_mut().expect("an object").extend(finding);
        others
    }

    fn compared(others: Json) -> Result<(), String> {
        compared_by("", others)
    }

    /// Compares by a configuration with more tables.
    fn compared_by(tables: &str, others: Json) -> Result<(), String> {
        let settings = PastSettings::read(format!("{CONFIGURATION}{tables}").as_bytes()).unwrap();
        let deriver = DecisionDeriver::new(CheckedMaterials::default());
        deriver.decide_and_compare(&settings, &decision(others))
    }

    #[test]
    fn rule_expired_during_wait_may_or_may_not_apply() {
        let by_rule = |at: &str, took_us: u64| {
            let policy = json!({"number": 1, "action": "allow"});
            compared(json!({
                "at": at, "took_us": took_us, "reason": "policy-exception", "policy": policy,
            }))
        };
        let by_robots_txt = |at: &str, took_us: u64| {
            compared(allowed_by_robots_txt(json!({"at": at, "took_us": took_us})))
        };
        let before = "2026-01-01T23:59:55.000Z";
        let after = "2026-01-02T00:00:01.000Z";
        assert_eq!(by_rule(before, 10), Ok(()));
        assert_eq!(by_robots_txt(before, 10), Err("the rule is [[rule]] 1, not none".to_owned()));
        assert_eq!(by_rule(before, 6_000_000), Ok(()));
        assert_eq!(by_robots_txt(before, 6_000_000), Ok(()));
        assert_eq!(by_robots_txt(after, 10), Ok(()));
        assert_eq!(by_rule(after, 10), Err("the rule is none, not [[rule]] 1".to_owned()));
    }

    #[test]
    fn outcomes_that_do_not_follow_are_found() {
        let at = "2026-01-03T00:00:00.000Z";
        let with = |reason: &str, outcome: &str| {
            let mut line = allowed_by_robots_txt(json!({"at": at}));
            line["reason"] = reason.into();
            line["outcome"] = outcome.into();
            compared(line)
        };
        for (reason, outcome) in [
            ("unavailable", "forwarded"),
            ("payment", "forwarded"),
            ("crawl-delay", "observed"),
            ("unrecorded", "refused"),
            ("connection_refused", "failed"),
        ] {
            assert_eq!(with(reason, outcome), Ok(()), "{outcome} for {reason}");
        }
        for (reason, outcome) in [
            ("unavailable", "tunnelled"),
            ("no-matching-rule", "forwarded"),
            ("unavailable", "refused"),
            ("policy-rule", "refused"),
            ("preference", "refused"),
            ("foreign-token", "refused"),
            ("https-refused", "refused"),
        ] {
            let error = with(reason, outcome).unwrap_err();
            let words = format!("{outcome} for {reason} does not follow");
            assert!(error.starts_with(&words), "{error}");
        }
        let error = with("wrong-password", "refused").unwrap_err();
        assert_eq!(error, "the decision is not based on robots.txt");
    }

    #[test]
    fn contradictions_to_configuration_and_robots_txt_are_found() {
        for (member, value, difference) in [
            ("crawler", "images", "the configuration has no crawler named \"images\""),
            ("mode", "enforce", "the mode is \"observe\""),
            ("scope", "all", "scope \"all\" is not known to this version"),
            ("verdict", "disallow", "verdict is \"allow\", not \"disallow\""),
            ("basis", "redirect-lost", "basis is \"unavailable\", not \"redirect-lost\""),
            ("dialect", "google", "dialect is \"rfc9309\", not \"google\""),
            ("rule", "Disallow: /", "rule is \"\", not \"Disallow: /\""),
        ] {
            let mut line = allowed_by_robots_txt(json!({"at": "2026-01-03T00:00:00.000Z"}));
            line[member] = value.into();
            assert_eq!(compared(line), Err(difference.to_owned()));
        }
        let mut line = allowed_by_robots_txt(json!({"at": "2026-01-03T00:00:00.000Z"}));
        line["tokens"] = json!(["OtherBot"]);
        let difference = "the crawler's tokens differ from [\"OtherBot\"]";
        assert_eq!(compared(line), Err(difference.to_owned()));
    }

    #[test]
    fn refusals_of_https_follow_from_the_configuration() {
        let line = |url: &str, outcome: &str, reason: &str| {
            let mut line = allowed_by_robots_txt(json!({"at": "2026-01-03T00:00:00.000Z"}));
            (line["url"], line["outcome"], line["reason"]) =
                (url.into(), outcome.into(), reason.into());
            line
        };
        let refuses = "[https]\nmode = \"refuse\"\nca_dir = \"elsewhere\"\n";
        for (tables, url, outcome, reason, follows) in [
            (refuses, "https://shop.test/", "observed", "https-refused", true),
            (refuses, "https://shop.test/", "forwarded", "unavailable", false),
            // Plain HTTP in a tunnel that was opened all the same.
            (refuses, "http://shop.test/", "observed", "https-refused", true),
            (refuses, "http://shop.test/", "forwarded", "unavailable", true),
            ("", "https://shop.test/", "forwarded", "unavailable", true),
            ("", "http://shop.test/", "refused", "https-refused", false),
        ] {
            let compared = compared_by(tables, line(url, outcome, reason));
            assert_eq!(compared.is_ok(), follows, "{tables}{url} {outcome}: {compared:?}");
        }
    }

    #[test]
    fn only_a_crawler_of_pages_passes_robots_txt() {
        let subresource = json!({"page": "https://other.test/", "kind": "image"});
        let line = |outcome: &str, reason: &str, subresource: &Json| {
            json!({
                "at": "2026-01-03T00:00:00.000Z", "url": "https://other.test/a", "mode": "enforce",
                "crawler": "pages", "tokens": ["PageBot"], "user_agent": "PageBot/1",
                "outcome": outcome, "reason": reason, "status": 200, "subresource": subresource,
                // As koster1996 has it, and no rule: the file of the origin is not in this test's export.
                "verdict": "disallow", "basis": "unavailable", "dialect": "koster1996",
                "robots_access": "unavailable", "robots_status": 403,
            })
        };
        let pages = "[[crawler]]\nname = \"pages\"\ntokens = [\"PageBot\"]\n\
                     match = { user_agent = \"PageBot\" }\ndialect = \"koster1996\"\nsubresources = \"page\"\n";
        let not_passed = "the request does not pass robots.txt as a page's subresource";
        let compared = |line| compared_by(pages, line);
        assert_eq!(compared(line("refused", "unavailable", &Json::Null)), Ok(()));
        let error = compared(line("forwarded", "subresource-of", &Json::Null)).unwrap_err();
        assert_eq!(error, "forwarded for subresource-of does not follow from the decision");
        let passed = line("forwarded", "subresource-of", &subresource);
        assert_eq!(compared(passed).unwrap_err(), not_passed, "no rule disallows it");
        let other = json!({"page": "https://other.test/", "kind": "page"});
        let error = compared(line("forwarded", "subresource-of", &other)).unwrap_err();
        assert_eq!(error, "subresource kind \"page\" is not known to this version");
    }

    #[test]
    fn robots_txt_that_could_not_be_fetched_decides_again() {
        let line = |reason: &str, status: u16, outcome: &str| {
            json!({
                "at": "2026-01-03T00:00:00.000Z", "url": "https://other.test/", "mode": "enforce",
                "crawler": "enforced", "tokens": ["Enforced"], "user_agent": "Enforced/1",
                "outcome": outcome, "reason": reason, "status": status,
                "verdict": "disallow", "basis": "unreachable", "dialect": "rfc9309", "robots_access": "unreachable",
            })
        };
        for (reason, status, outcome) in [
            ("unreachable", 503, "refused"),
            ("dns_error", 502, "failed"),
            ("dns_error", 503, "failed"),
            // As earlier versions recorded it.
            ("dns_error", 502, "refused"),
            ("dns_timeout", 503, "failed"),
            ("destination_ip_prohibited", 502, "refused"),
        ] {
            assert_eq!(compared(line(reason, status, outcome)), Ok(()), "{reason} {status}");
        }
        for (reason, outcome) in
            [("unreachable", "forwarded"), ("rule", "refused"), ("connection_refused", "failed")]
        {
            assert!(compared(line(reason, 503, outcome)).is_err(), "{outcome} for {reason}");
        }
        let mut pending = line("unreachable", 503, "refused");
        for member in ["verdict", "basis", "dialect", "robots_access"] {
            pending.as_object_mut().expect("an object").remove(member);
        }
        pending["origin"] = "https://other.test".into();
        assert_eq!(compared(pending), Ok(()), "it had not come in time");
    }
}
