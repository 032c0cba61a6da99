//! The decision log about the hosts of a plan: whether they turned requests away at the edge, and the prices that they asked for.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::ControlFlow;
use std::time::SystemTime;

use serde::Serialize;
use wayleave_decision::RequestOutcome;
use wayleave_decision_log::{DecisionQuery, LogPlace, ScanStep, TimeRange, scan_log};
use wayleave_notation::rfc3339;
use wayleave_record::{DecisionRecord, PaymentRecord};

/// The number of days for which the decision log is read.
pub(crate) const HISTORY_DAYS: u64 = 30;

/// The answers of hosts, by host.
#[derive(Clone, Debug, Default)]
pub struct CrawlHistory {
    pub hosts: HashMap<String, HostHistory>,
    /// A sentence that says why there is none.
    pub missing: Option<String>,
    /// Phrases that say which decisions could not be read.
    pub gaps: Vec<String>,
}

/// The answers of one host to requests that robots.txt allows.
#[derive(Clone, Debug, Serialize)]
pub struct HostHistory {
    /// The requests that it answered.
    pub answered: u64,
    /// Those that it turned away at the edge.
    pub refused: u64,
    /// The same by kind: `challenge`, `forbidden`, `rate`, `payment` or `unavailable`.
    pub kinds: BTreeMap<String, u64>,
    #[serde(serialize_with = "rfc3339::serialize")]
    pub last_at: SystemTime,
    /// The last price that it asked for.
    #[serde(skip)]
    pub payment: Option<PaymentRecord>,
}

impl CrawlHistory {
    /// Returns a history that is not there, for this reason.
    pub fn missing(why: String) -> Self {
        Self { missing: Some(why), ..Self::default() }
    }

    /// Reads the decisions since a time about these hosts, and passes on how many bytes of all were read.
    ///
    /// # Errors
    ///
    /// Returns an error if the log cannot be read.
    pub fn read<'h>(
        log: LogPlace<'_>,
        since: SystemTime,
        hosts: impl Iterator<Item = &'h str>,
        mut progress: impl FnMut(u64, u64),
    ) -> io::Result<Self> {
        let none = HostHistory {
            answered: 0,
            refused: 0,
            kinds: BTreeMap::new(),
            last_at: SystemTime::UNIX_EPOCH,
            payment: None,
        };
        let mut hosts: HashMap<_, _> = hosts.map(|host| (host.to_owned(), none.clone())).collect();
        let range = TimeRange { since: Some(since), until: None };
        let gaps = scan_log(log, range, &DecisionQuery::default(), |step| {
            match step {
                ScanStep::Decision(decision, _) => {
                    let host = decision.host().and_then(|host| hosts.get_mut(host));
                    if let Some(host) = host {
                        host.count(&decision);
                    }
                }
                ScanStep::Progress { bytes, total_bytes } => progress(bytes, total_bytes),
            }
            ControlFlow::Continue(())
        })?;
        hosts.retain(|_, host| host.answered > 0);
        // Whoever asks for thirty days means those that were deleted, too.
        let mut phrases = gaps.phrases(true);
        if gaps.damaged_lines > 0 {
            phrases.push(format!("damaged lines: {}", gaps.damaged_lines));
        }
        Ok(Self { hosts, missing: None, gaps: phrases })
    }

    /// Returns whether a host turned requests away at the edge.
    pub fn has_refused(&self, host: &str) -> bool {
        self.hosts.get(host).is_some_and(|host| host.refused > 0)
    }
}

impl HostHistory {
    fn count(&mut self, decision: &DecisionRecord) {
        let is_sent = decision.request_outcome().is_some_and(RequestOutcome::is_sent);
        let is_answered = is_sent && decision.from.is_none() && !decision.is_own_request();
        if decision.edge.is_none() && !is_answered {
            return;
        }
        self.answered += 1;
        self.last_at = self.last_at.max(decision.at);
        if let Some(kind) = &decision.edge {
            self.refused += 1;
            *self.kinds.entry(kind.to_string()).or_default() += 1;
        }
        // A licence's price is known anew by the plan's own fetch.
        if let Some(payment) = decision.payment.as_ref().filter(|_| decision.edge.is_some()) {
            self.payment = Some(payment.clone());
        }
    }
}
