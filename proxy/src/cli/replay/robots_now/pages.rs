//! The fetches of a decision log: which page, and by whom.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::ControlFlow;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use wayleave_decision::{ASSERTED, RequestOutcome, TargetScope};
use wayleave_decision_log::{
    DecisionQuery, DecisionRecord, LogPlace, ScanStep, TimeRange, scan_log,
};
use wayleave_evidence::Sha256Digest;

use super::settings::unnamed_crawler;

/// The most lists of names that clients without a `[[crawler]]` may have.
const MAX_UNNAMED: usize = 1_000;

/// A page and who fetched it: the start of their SHA-256.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub(super) struct PageKey([u64; 2]);

/// A page that was fetched, and by whom.
#[derive(Clone, Debug)]
pub(super) struct LoggedPage {
    pub(super) key: PageKey,
    /// The name of a crawler of the run; `None` for a client to be identified by its names.
    pub(super) crawler: Option<String>,
    pub(super) client: IpAddr,
    pub(super) user_agent: String,
    pub(super) method: String,
    pub(super) url: String,
    pub(super) origin: String,
    /// Whether it was a tunnel that was not inspected.
    pub(super) is_tunnel: bool,
    /// The reason why today's answer cannot be known.
    pub(super) unknowable: Option<&'static str>,
}

impl LoggedPage {
    /// Returns the page of a decision; `None` if it let nothing through that robots.txt is about. `unnamed` are the lists of
    /// names that have a crawler in the run.
    pub(super) fn of(decision: &DecisionRecord, unnamed: &[Vec<String>]) -> Option<Self> {
        let is_copy = decision.from.is_some();
        let is_robots_txt =
            decision.scope.as_ref().is_some_and(|scope| *scope == TargetScope::RobotsTxt);
        if !decision.was_let_through() || decision.is_own_request() || is_copy || is_robots_txt {
            return None;
        }
        let is_asserted = decision.crawler == ASSERTED;
        let position = || unnamed.iter().position(|tokens| *tokens == decision.tokens);
        let crawler = match is_asserted {
            true => position().map(unnamed_crawler),
            false => Some(decision.crawler.to_string()),
        };
        let user_agent = decision.user_agent.clone().unwrap_or_default();
        // Of a named crawler's requests, their User-Agent does not decide.
        let named = crawler.as_deref().unwrap_or(&user_agent);
        let key = format!("{named}\n{}\n{}", decision.method, decision.url);
        let unknowable = if decision.subresource.is_some() {
            Some("a file that was fetched because of its page")
        } else if is_asserted && crawler.is_none() && decision.user_agent_cut {
            Some("the User-Agent was cut off")
        } else {
            None
        };
        Some(Self {
            key: PageKey::of(&key),
            crawler,
            // As unknown, it matches no addresses of a [[crawler]].
            client: decision.client.address().unwrap_or(Ipv4Addr::UNSPECIFIED.into()),
            user_agent,
            method: decision.method.clone(),
            url: decision.url.clone(),
            origin: decision.origin.clone().unwrap_or_default(),
            is_tunnel: decision.outcome == RequestOutcome::Tunnelled,
            unknowable,
        })
    }

    /// Returns whether the response of a page can be asked for again without an effect.
    pub(super) fn is_read(&self) -> bool {
        !self.is_tunnel && matches!(&*self.method, "GET" | "HEAD")
    }
}

impl PageKey {
    fn of(text: &str) -> Self {
        let digest = Sha256Digest::of(text.as_bytes()).0;
        let half = |at: usize| u64::from_be_bytes(std::array::from_fn(|index| digest[at + index]));
        Self([half(0), half(8)])
    }
}

/// Returns the lists of names of clients that match no `[[crawler]]`.
///
/// # Errors
///
/// Returns an error if the log cannot be read, or has too many.
pub(super) fn unnamed_tokens(
    log: LogPlace<'_>,
    range: TimeRange,
) -> anyhow::Result<Vec<Vec<String>>> {
    let mut found = BTreeSet::new();
    scan_log(log, range, &DecisionQuery::default(), |step| {
        if let ScanStep::Decision(decision, _) = step
            && decision.crawler == ASSERTED
            && !decision.tokens.is_empty()
            && decision.was_let_through()
        {
            found.insert(decision.tokens);
        }
        if found.len() > MAX_UNNAMED { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .with_context(|| format!("the decision log {}", log.path.display()))?;
    anyhow::ensure!(
        found.len() <= MAX_UNNAMED,
        "clients that match no [[crawler]] gave themselves more than {MAX_UNNAMED} names; --since has fewer of them"
    );
    Ok(found.into_iter().collect())
}
