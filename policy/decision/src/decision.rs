//! The decision about one request: every rule in its order, asking the caller for the inputs that it needs.

use std::time::{Duration, SystemTime};

use wayleave_robots_txt::{AccessReason, MatchContext, Origin, Target};
use wayleave_usage_preferences::{PreferenceSettings, PurposeSet};

use crate::applied_rule;
use crate::crawlers::Crawlers;
use crate::documents::{DocumentBatch, DocumentPending, DocumentResult};
use crate::https::InterceptionSettings;
use crate::identity::Identified;
use crate::preference_finding::{PreferenceFinding, document_pending};
use crate::reason::Reason;
use crate::refusal::Refusal;
use crate::robots::{AccessFinding, RobotsCopy, ask_robots_txt, crawl_delay, no_usable_robots_txt};
use crate::robots_answer::RobotsAnswer;
use crate::rules::{PolicyRules, RuleAction, RuleQuery};
use crate::subresource::{Subresource, SubresourcePolicy};
use crate::target::{ResolvedTarget, TargetScope};
use crate::verdict::{DecisionFacts, Permit, Verdict};

/// The most statements in a file that is judged without delay: a walk through all of them takes microseconds.
const MAX_BRIEF_STATEMENTS: usize = 10_000;
/// The longest path, in bytes, that is judged without delay if it may have other spellings: finding them takes long in itself.
const MAX_BRIEF_PATH_BYTES: usize = 2 * 1024;

/// The settings that decide.
#[derive(Clone, Copy, Debug)]
pub struct DecisionSettings<'a> {
    /// The configured crawlers.
    pub crawlers: &'a Crawlers,
    /// The organisation's own rules.
    pub rules: &'a PolicyRules,
    /// The treatment of HTTPS.
    pub interception: &'a InterceptionSettings,
    /// The settings for reading statements about use.
    pub preferences: &'a PreferenceSettings,
}

/// The parts of a request that the decision depends on.
#[derive(Debug)]
pub struct DecisionRequest<'a> {
    /// The crawler behind it.
    pub identified: &'a Identified,
    /// The method as received.
    pub method: &'a str,
    /// The target.
    pub resolved: ResolvedTarget,
    /// Whether it comes through a tunnel, or asks for one.
    pub is_by_tunnel: bool,
    /// The subresource that it is for, if a page that the crawler was just allowed to fetch causes it.
    pub subresource: Option<&'a Subresource>,
    /// The time against which rules' expiry is checked.
    pub now: SystemTime,
}

/// An input that a decision needs.
#[derive(Debug)]
pub enum Input {
    /// The robots.txt of an origin, fetched if need be: [`Decision::add_robots_txt`], or [`Decision::robots_txt_pending`].
    RobotsTxt(Origin),
    /// The robots.txt of an origin if it is cached, for the pace of a request that a rule allows: [`Decision::add_cached_robots_txt`].
    CachedRobotsTxt(Origin),
    /// Documents about use that could still refuse the request: [`Decision::add_documents`].
    Documents(Box<DocumentBatch>),
}

/// The next step of a decision.
#[derive(Debug)]
pub enum Step {
    /// Supply this, then call [`Decision::step`] again.
    Need(Input),
    /// The decision is made: [`Decision::into_verdict`].
    Done,
}

/// A decision in progress.
///
/// It asks for inputs only while they can change the verdict: for robots.txt only if no rule decides, for documents only if
/// robots.txt allows the request and nothing refuses its use yet.
#[derive(Debug)]
pub struct Decision<'a> {
    settings: DecisionSettings<'a>,
    request: DecisionRequest<'a>,
    /// The refusal that would have been the verdict by now, were it not only observed.
    observed: Option<Refusal>,
    /// The answer to a request for robots.txt itself.
    robots_answer: Option<RobotsAnswer>,
    facts: DecisionFacts,
    state: DecisionState,
}

/// The state of a decision, without the settings and the request, so that it can go on on another thread.
#[derive(Debug)]
pub struct SuspendedDecision {
    observed: Option<Refusal>,
    robots_answer: Option<RobotsAnswer>,
    facts: DecisionFacts,
    state: DecisionState,
}

#[derive(Debug)]
enum DecisionState {
    /// A rule allows the request, which has to keep the pace that robots.txt asks for.
    NeedsPace,
    NeedsRobotsTxt,
    /// Robots.txt allows the request for this reason, and documents may still refuse its use.
    NeedsDocuments(Reason),
    Decided(Result<Reason, Refusal>),
}

impl<'a> Decision<'a> {
    /// Begins a decision: objections to the crawler and to HTTPS, and the organisation's rules, need no input.
    #[must_use]
    pub fn new(settings: DecisionSettings<'a>, request: DecisionRequest<'a>) -> Self {
        let facts = DecisionFacts {
            origin: Some(request.resolved.target.origin().clone()),
            scope: Some(request.resolved.scope),
            ..DecisionFacts::default()
        };
        let mut decision = Self {
            settings,
            request,
            observed: None,
            robots_answer: None,
            facts,
            state: DecisionState::NeedsRobotsTxt,
        };
        if let Err(refusal) = decision.apply_objections().and_then(|()| decision.apply_rules()) {
            decision.state = DecisionState::Decided(Err(refusal));
        }
        decision
    }

    fn apply_objections(&mut self) -> Result<(), Refusal> {
        let request = &self.request;
        let objection = request.identified.objection.clone().or_else(|| {
            let interception = self.settings.interception;
            interception.refusal(&request.resolved, request.is_by_tunnel)
        });
        self.observe_or_refuse(objection)
    }

    fn apply_rules(&mut self) -> Result<(), Refusal> {
        let request = &self.request;
        let identity = &request.identified.identity;
        let scope = request.resolved.scope;
        let query = RuleQuery {
            target: &request.resolved.target,
            method: request.method,
            crawler: identity.label(),
            purposes: request.identified.purposes(),
            now: request.now,
        };
        let rule = applied_rule::find(self.settings.rules, query, scope, identity.mode());
        let action = rule.as_ref().map(|found| found.rule.action);
        let refusal = rule.as_ref().and_then(applied_rule::refusal);
        // The log names the rule whatever it does.
        self.facts.rule = rule;
        if action == Some(RuleAction::Allow) {
            self.state = DecisionState::NeedsPace;
            return Ok(());
        }
        self.observe_or_refuse(refusal)?;
        // The organisation's rules apply to a bypassed host, its robots.txt does not.
        if scope == TargetScope::Bypass {
            self.state = DecisionState::Decided(Ok(Reason::Bypass));
        }
        Ok(())
    }

    /// Keeps a refusal that is only observed, unless there is an earlier one.
    ///
    /// # Errors
    ///
    /// Returns the refusal if it is enforced.
    fn observe_or_refuse(&mut self, refusal: Option<Refusal>) -> Result<(), Refusal> {
        if let Some(refusal) = refusal {
            let observed = refusal.observe_or_refuse(self.request.identified.identity.mode())?;
            self.observed.get_or_insert(observed);
        }
        Ok(())
    }

    /// Returns the input that is needed next: the same one until it is supplied.
    pub fn step(&mut self) -> Step {
        let origin = || self.request.resolved.target.origin().clone();
        match &self.state {
            DecisionState::NeedsPace => Step::Need(Input::CachedRobotsTxt(origin())),
            DecisionState::NeedsRobotsTxt => Step::Need(Input::RobotsTxt(origin())),
            DecisionState::NeedsDocuments(reason) => {
                let reason = *reason;
                let batch = self.facts.preferences.as_mut().and_then(|preferences| {
                    preferences.documents_to_fetch(self.settings.preferences)
                });
                match batch {
                    Some(batch) => Step::Need(Input::Documents(Box::new(batch))),
                    // No document could change the judgement any more.
                    None => {
                        self.judge_use(reason);
                        Step::Done
                    }
                }
            }
            DecisionState::Decided(_) => Step::Done,
        }
    }

    /// Supplies the robots.txt that the decision needs, if it is cached.
    pub fn add_cached_robots_txt(&mut self, robots_txt: Option<&RobotsCopy>) {
        if let DecisionState::NeedsPace = self.state {
            let identity = &self.request.identified.identity;
            self.facts.delay = robots_txt.and_then(|copy| crawl_delay(copy.access(), identity));
            self.state = DecisionState::Decided(Ok(Reason::PolicyException));
        }
    }

    /// Supplies the robots.txt that the decision needs. Judging by it may take milliseconds.
    pub fn add_robots_txt(&mut self, robots_txt: &RobotsCopy) {
        // A match that a whole budget does not find is too costly, which is a verdict.
        let _ = self.judge_by_robots_txt(robots_txt, MatchContext::default(), false);
    }

    /// Supplies the robots.txt that the decision needs, unless judging by it takes long. Then the decision still needs it, and
    /// this returns false.
    pub fn try_add_robots_txt(&mut self, robots_txt: &RobotsCopy) -> bool {
        let path = self.request.resolved.target.path().as_str();
        let has_no_other_spelling =
            || !["%", "\\", ";", "//", "/."].iter().any(|part| path.contains(part));
        (path.len() <= MAX_BRIEF_PATH_BYTES || has_no_other_spelling())
            && robots_txt.access().statements() <= MAX_BRIEF_STATEMENTS
            && self.judge_by_robots_txt(robots_txt, MatchContext::brief(), true)
    }

    /// Judges by a robots.txt, within the budget of `context`. If `is_brief`, and the budget runs out, keeps nothing and returns
    /// false.
    fn judge_by_robots_txt(
        &mut self,
        robots_txt: &RobotsCopy,
        mut context: MatchContext,
        is_brief: bool,
    ) -> bool {
        let request = &self.request;
        let settings = self.settings;
        let identity = &request.identified.identity;
        let outcome = ask_robots_txt(robots_txt, identity, &request.resolved, &mut context);
        // Patterns that were left unmatched may change the finding.
        if is_brief && context.is_spent() {
            return false;
        }
        let passed = self.passed_subresource(&outcome.finding).filter(|_| outcome.result.is_err());
        let result = if passed.is_some() { Ok(Reason::SubresourceOf) } else { outcome.result };
        let declaring = request.identified.declaring().filter(|_| result.is_ok());
        // For a crawler with purposes, statements about use are matched as well as rules, within the same budget.
        let mut preferences = declaring.and_then(|crawler| {
            PreferenceFinding::from_robots_txt(
                robots_txt.clone(),
                settings.preferences,
                crawler,
                request.method,
                &request.resolved,
                context,
            )
        });
        if is_brief
            && let Some(preferences) = &mut preferences
            && !preferences.extend_budget()
        {
            return false;
        }
        self.facts.finding = Some(outcome.finding);
        self.facts.delay = match passed {
            Some(_) => crawl_delay(robots_txt.access(), identity),
            None => outcome.delay,
        };
        self.facts.subresource = passed.cloned();
        self.robots_answer = (request.resolved.scope == TargetScope::RobotsTxt)
            .then(|| RobotsAnswer::new(robots_txt, identity, &request.resolved.target));
        self.facts.preferences = preferences;
        self.state = match result {
            Err(refusal) => self.refused(refusal),
            Ok(reason) if self.facts.preferences.is_some() => DecisionState::NeedsDocuments(reason),
            Ok(reason) => DecisionState::Decided(Ok(reason)),
        };
        true
    }

    /// Separates the decision from the values that it borrows.
    pub fn suspend(self) -> (DecisionRequest<'a>, SuspendedDecision) {
        let Self { request, observed, robots_answer, facts, state, .. } = self;
        (request, SuspendedDecision { observed, robots_answer, facts, state })
    }

    /// Continues a decision about the same request.
    #[must_use]
    pub fn resume(
        settings: DecisionSettings<'a>,
        request: DecisionRequest<'a>,
        suspended: SuspendedDecision,
    ) -> Self {
        let SuspendedDecision { observed, robots_answer, facts, state } = suspended;
        Self { settings, request, observed, robots_answer, facts, state }
    }

    /// Returns the subresource if it passes robots.txt. Only URLs that a rule disallows pass: an origin whose robots.txt
    /// cannot be fetched, or that answers it with 401 or 403 in a dialect where that disallows everything, may want no
    /// request at all.
    fn passed_subresource(&self, finding: &AccessFinding) -> Option<&'a Subresource> {
        let request = &self.request;
        let crawler = request.identified.identity.crawler()?;
        let passes = crawler.subresources == SubresourcePolicy::Page
            && finding.basis == AccessReason::Rule
            && request.method == "GET"
            && request.resolved.scope == TargetScope::Path;
        request.subresource.filter(|_| passes)
    }

    /// Reports that the robots.txt that the decision needs has not arrived in time.
    pub fn robots_txt_pending(&mut self, details: &str, retry_after: Duration) {
        let refusal = no_usable_robots_txt(&self.request.resolved.target, details, retry_after);
        self.state = self.refused(refusal);
    }

    /// Supplies the documents that the decision needs, in the order of the batch.
    pub fn add_documents(&mut self, batch: DocumentBatch, results: &[DocumentResult]) {
        let DecisionState::NeedsDocuments(reason) = self.state else {
            return;
        };
        let Some(preferences) = &mut self.facts.preferences else {
            return;
        };
        match preferences.add_documents(self.settings.preferences, batch, results) {
            Ok(()) => self.judge_use(reason),
            Err(DocumentPending { retry_after }) => {
                // The lines that were read so far decide nothing, so they are not shown either.
                self.facts.preferences = None;
                self.state = self.refused(document_pending(retry_after));
            }
        }
    }

    /// Decides by the statements about use.
    fn judge_use(&mut self, reason: Reason) {
        let refusal = self
            .facts
            .preferences
            .as_ref()
            .and_then(|preferences| preferences.refusal_before_request(&self.request.resolved));
        self.state = match refusal {
            Some(refusal) => self.refused(refusal),
            None => DecisionState::Decided(Ok(reason)),
        };
    }

    /// Decides by a refusal: in mode "observe" the request is forwarded, and the reason is the refusal's.
    fn refused(&mut self, refusal: Refusal) -> DecisionState {
        let reason = refusal.reason;
        let decided = self.observe_or_refuse(Some(refusal));
        DecisionState::Decided(decided.map(|()| reason))
    }

    /// Returns the findings so far.
    #[must_use]
    pub fn facts(&self) -> &DecisionFacts {
        &self.facts
    }

    /// Returns the verdict.
    ///
    /// # Panics
    ///
    /// Panics if an input is missing: call this after [`Step::Done`].
    #[must_use]
    pub fn into_verdict(self) -> Verdict {
        let DecisionState::Decided(result) = self.state else {
            unreachable!("the verdict was taken before the decision was made");
        };
        // Checked last: if something else refuses the request, its client should learn that.
        let method = check_method(self.request.method);
        let permit = result.and_then(|reason| {
            method?;
            Ok(Permit {
                reason,
                observed: self.observed,
                purposes: self.request.identified.purposes(),
                robots_answer: self.robots_answer,
                subresource: self.facts.subresource.as_ref().map(|subresource| subresource.kind),
                resolved: self.request.resolved,
            })
        });
        Verdict { facts: self.facts, result: permit }
    }
}

/// Decides about a request of the proxy's own, for a redirected robots.txt or a document about use. Only those of
/// the organisation's rules count that name neither crawlers nor purposes, because the fetch serves them all.
#[must_use]
pub fn decide_own_request(rules: &PolicyRules, target: &Target, now: SystemTime) -> Verdict {
    let query = RuleQuery { target, method: "GET", crawler: "", purposes: PurposeSet::NONE, now };
    let rule = rules.find(query);
    Verdict {
        result: match rule.as_ref().and_then(applied_rule::refusal) {
            Some(refusal) => Err(refusal),
            None => Ok(Permit {
                resolved: ResolvedTarget { target: target.clone(), scope: TargetScope::Path },
                reason: Reason::RobotsRedirect,
                observed: None,
                purposes: PurposeSet::NONE,
                robots_answer: None,
                subresource: None,
            }),
        },
        facts: DecisionFacts {
            origin: Some(target.origin().clone()),
            rule,
            ..DecisionFacts::default()
        },
    }
}

/// Refuses methods in lower case. They are compared exactly (RFC 9110 section 9.1), but not by every origin: some take
/// `post` for `POST`, so that it would evade rules that name methods.
fn check_method(method: &str) -> Result<(), Refusal> {
    if method.bytes().any(|byte| byte.is_ascii_lowercase()) {
        let details = format!("{method:?} is not an upper-case method");
        return Err(Refusal::malformed(details));
    }
    Ok(())
}
