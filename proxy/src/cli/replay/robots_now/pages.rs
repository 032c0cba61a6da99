//! The fetches of a decision log: which page, and by whom.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::ControlFlow;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use wayleave_decision::{ASSERTED, RequestOutcome, TargetScope};
use wayleave_decision_log::{
    DecisionQuery, DecisionRecord, LogGaps, LogPlace, ScanStep, TimeRange, scan_log,
};
use wayleave_evidence::Sha256Digest;

use super::settings::unnamed_crawler;

/// The most different names of clients that match no `[[crawler]]`.
const MAX_UNNAMED: usize = 1_000;

/// The start of the SHA-256 of a page and of who fetched it.
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
    /// Returns the page of a decision; `None` if nothing was sent that robots.txt is about. `unnamed` are the product tokens of
    /// clients that have a crawler in the run, if it is about one purpose.
    pub(super) fn of(decision: &DecisionRecord, unnamed: Option<&[Vec<String>]>) -> Option<Self> {
        let is_copy = decision.from.is_some();
        let is_robots_txt =
            decision.scope.as_ref().is_some_and(|scope| *scope == TargetScope::RobotsTxt);
        let is_sent = decision.request_outcome().is_some_and(RequestOutcome::is_sent);
        if !is_sent || decision.is_own_request() || is_copy || is_robots_txt {
            return None;
        }
        let is_asserted = decision.crawler == ASSERTED;
        let stand_in = || unnamed?.iter().position(|tokens| *tokens == decision.tokens);
        let crawler = if is_asserted {
            stand_in().map(unnamed_crawler)
        } else {
            Some(decision.crawler.to_string())
        };
        let unknowable = if decision.subresource.is_some() {
            Some("a file that was fetched because of its page")
        } else if crawler.is_none() && unnamed.is_some() {
            Some("the client gave itself no name")
        } else if crawler.is_none() && decision.user_agent_cut {
            Some("the User-Agent was cut off")
        } else {
            None
        };
        let user_agent = decision.user_agent.clone().unwrap_or_default();
        // As unknown, it matches no addresses of a [[crawler]].
        let client = decision.client.address().unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        let identified = match &crawler {
            Some(name) => format!("crawler {name}"),
            None => format!("client {client} {user_agent}"),
        };
        let key = [unknowable.unwrap_or_default(), &identified, &decision.method, &decision.url];
        Some(Self {
            key: PageKey::of(&key.join("\n")),
            crawler,
            client,
            user_agent,
            method: decision.method.clone(),
            url: decision.url.clone(),
            origin: decision.origin.clone().unwrap_or_default(),
            is_tunnel: decision.outcome == RequestOutcome::Tunnelled
                || decision.method == "CONNECT",
            unknowable,
        })
    }

    /// Returns whether the response of a page can be asked for again without an effect.
    pub(super) fn is_repeatable(&self) -> bool {
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

/// The part of a log that a run is about.
#[derive(Clone, Copy)]
pub(super) struct LogSpan<'a> {
    pub(super) log: LogPlace<'a>,
    pub(super) range: TimeRange,
    /// The product tokens of clients that have a crawler in the run, if it is about one purpose.
    pub(super) unnamed: Option<&'a [Vec<String>]>,
}

impl LogSpan<'_> {
    /// Passes each page that was fetched, with its decision, to `take` until it breaks, or no more is wanted. Returns the gaps in
    /// the log.
    ///
    /// # Errors
    ///
    /// Returns an error if the log cannot be read.
    pub(super) fn read(
        &self,
        is_wanted: impl Fn() -> bool,
        mut take: impl FnMut(&DecisionRecord, LoggedPage) -> ControlFlow<()>,
    ) -> anyhow::Result<LogGaps> {
        scan_log(self.log, self.range, &DecisionQuery::default(), |step| {
            match step {
                ScanStep::Decision(decision, _) => match LoggedPage::of(&decision, self.unnamed) {
                    Some(page) => take(&decision, page),
                    None => ControlFlow::Continue(()),
                },
                // There may be gigabytes without a page.
                ScanStep::Progress { .. } if !is_wanted() => ControlFlow::Break(()),
                ScanStep::Progress { .. } => ControlFlow::Continue(()),
            }
        })
        .with_context(|| format!("the decision log {} cannot be read", self.log.path.display()))
    }
}

/// Returns the product tokens of all clients that match no `[[crawler]]`.
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
        {
            found.insert(decision.tokens);
        }
        if found.len() > MAX_UNNAMED { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .with_context(|| format!("the decision log {}", log.path.display()))?;
    anyhow::ensure!(
        found.len() <= MAX_UNNAMED,
        "clients that match no [[crawler]] used more than {MAX_UNNAMED} different names; try a later --since"
    );
    Ok(found.into_iter().collect())
}
