//! Decides again about a logged request: the only loop over a decision's inputs in which one may be missing.

use std::time::{Duration, SystemTime};

use wayleave_decision::{
    Decision, DecisionRequest, DocumentBatch, DocumentResult, Identified, Input, Reason,
    ResolvedTarget, RobotsCopy, Step, Verdict, decide_own_request,
};
use wayleave_decision_log::DecisionRecord;
use wayleave_robots_txt::{Dialect, Origin, UrlScheme};

use super::missing::Missing;
use super::settings::PastSettings;

/// The inputs of a past decision, each of which may be missing.
pub(crate) trait PastInputs {
    /// Returns the time against which rules' expiry is checked.
    fn now(&self, line: &DecisionRecord) -> SystemTime;

    /// Returns the target as the settings see it, and whether it comes through a tunnel.
    fn target(
        &mut self,
        line: &DecisionRecord,
        resolved: ResolvedTarget,
    ) -> Result<(ResolvedTarget, bool), Missing>;

    /// Returns the crawler.
    fn identify(&mut self, line: &DecisionRecord) -> Result<Identified, Missing>;

    /// Returns the robots.txt of the request's origin; none if it had not come in time.
    fn robots_txt(
        &mut self,
        line: &DecisionRecord,
        origin: &Origin,
        dialect: Dialect,
    ) -> Result<Option<RobotsCopy>, Missing>;

    /// Returns the documents of a batch.
    fn documents(
        &mut self,
        line: &DecisionRecord,
        batch: &mut DocumentBatch,
    ) -> Result<Vec<DocumentResult>, Missing>;
}

/// Decides about a line's request under these settings.
///
/// # Errors
///
/// Returns the first input that is missing, or the part of the line that cannot be read.
pub(crate) fn decide_again(
    settings: &PastSettings,
    line: &DecisionRecord,
    inputs: &mut impl PastInputs,
) -> Result<Verdict, Missing> {
    let resolved = line.resolved().map_err(Missing::Unreadable)?;
    let now = inputs.now(line);
    if line.is_own_request() {
        return Ok(decide_own_request(settings.rules(), &resolved.target, now));
    }
    let (resolved, is_by_tunnel) = inputs.target(line, resolved)?;
    let identified = inputs.identify(line)?;
    let subresource = line.passed_subresource().map_err(Missing::Unreadable)?;
    let request = DecisionRequest {
        identified: &identified,
        method: &line.method,
        subresource: subresource.as_ref(),
        resolved,
        is_by_tunnel,
        now,
    };
    let mut decision = Decision::new(settings.for_decisions(), request);
    while let Step::Need(input) = decision.step() {
        match input {
            // This only gives a request that a rule allows its pace, which is not derived again.
            Input::CachedRobotsTxt(_) => decision.add_cached_robots_txt(None),
            Input::RobotsTxt(origin) => {
                let dialect = identified.identity.dialect();
                match inputs.robots_txt(line, &origin, dialect)? {
                    Some(copy) => decision.add_robots_txt(&copy),
                    None => {
                        decision.robots_txt_pending("it was not fetched in time", Duration::ZERO);
                    }
                }
            }
            Input::Documents(mut batch) => {
                let results = inputs.documents(line, &mut batch)?;
                decision.add_documents(*batch, &results);
            }
        }
    }
    Ok(decision.into_verdict())
}

/// Returns whether plain HTTP was refused because it came through a tunnel: where HTTPS is refused, so is plain HTTP inside its
/// tunnels. The log does not say of other requests whether they came through one.
pub(crate) fn was_refused_inside_tunnel(line: &DecisionRecord, resolved: &ResolvedTarget) -> bool {
    let is_https = resolved.target.origin().scheme() == UrlScheme::Https;
    !is_https && line.reason == Reason::HttpsRefused
}
