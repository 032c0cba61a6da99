//! The verdict on each URL of a plan, and its place in the sums.

use std::sync::Arc;
use std::time::SystemTime;

use wayleave_admission::offline::InputSource;
use wayleave_admission::preview::Question;
use wayleave_admission::record;
use wayleave_config::Config;
use wayleave_decision::{Crawler, Identity, RequestOutcome, crawl_delay};
use wayleave_lifecycle::FetchIdentity;
use wayleave_pacing::PacingConfig;
use wayleave_plan::{OriginPlan, PlannedVerdict};
use wayleave_robots_cache::FetchIdentities;

use crate::admin::preview::Preview;
use crate::cli::check::url_list::with_escaped_spaces;
use crate::cli::check::verdict::{ProxySettings, is_undecided};

/// The crawler of a plan, and the settings that decide about its requests.
pub(crate) struct CrawlJudge {
    settings: ProxySettings,
    /// The question about a URL, without the URL.
    question: Question,
    identity: Identity,
    /// The settings of the pace.
    pub(crate) pacing: PacingConfig,
    now: SystemTime,
}

impl CrawlJudge {
    /// Prepares for questions like this one.
    ///
    /// # Errors
    ///
    /// Returns the mistake in the question.
    pub(crate) fn new(
        config: &Config,
        question: Question,
        now: SystemTime,
    ) -> Result<Self, String> {
        let settings = ProxySettings::new(config);
        let identity = question.identified(settings.crawlers())?.identity;
        Ok(Self { settings, question, identity, pacing: config.politeness, now })
    }

    /// Returns the crawler, if it is configured.
    pub(crate) fn crawler(&self) -> Option<&Crawler> {
        self.identity.crawler()
    }

    /// Returns the crawler's name, or what stands for it.
    pub(crate) fn label(&self) -> &str {
        match self.crawler() {
            Some(crawler) => &crawler.name,
            None if self.question.user_agent.is_empty() => "a crawler without a name",
            None => &self.question.user_agent,
        }
    }

    /// Returns the identity that robots.txt is fetched as.
    pub(crate) fn fetch_identity(&self, identities: &FetchIdentities) -> Arc<FetchIdentity> {
        identities.of(&self.identity, self.question.user_agent.as_bytes())
    }

    /// Decides about a URL, and counts it in the plan of its origin.
    ///
    /// # Errors
    ///
    /// Returns the mistake in the URL.
    pub(crate) fn judge(
        &self,
        url: &str,
        source: &mut impl InputSource,
        plan: &mut OriginPlan,
    ) -> Result<Preview, String> {
        let question = Question { url: with_escaped_spaces(url), ..self.question.clone() };
        let previewed = self.settings.preview(&question, &[], source, self.now)?;
        let facts = &previewed.verdict.facts;
        plan.note_pace(facts);
        // Once: it is a walk through the rules. A file that did not count is not fetched for it.
        if facts.finding.is_some() && !plan.is_robots_delay_known {
            let robots_txt = source.robots_txt(&plan.origin);
            plan.note_robots_delay(crawl_delay(robots_txt.access(), &previewed.identity));
        }
        let read_as = previewed.identity.dialect();
        let (decision, dialects) = record::preview(previewed, self.now);
        let verdict = Preview::of_record(decision.clone(), dialects, read_as);
        let planned = match verdict.outcome() {
            _ if is_undecided(&verdict) => PlannedVerdict::Undecided,
            RequestOutcome::Forwarded | RequestOutcome::Tunnelled => PlannedVerdict::Forward,
            RequestOutcome::Observed => PlannedVerdict::Observe,
            RequestOutcome::Refused | RequestOutcome::Failed => PlannedVerdict::Refuse,
        };
        plan.count(&decision, planned);
        Ok(verdict)
    }
}
