//! What became of a request, and the record of it.

use std::net::IpAddr;
use std::time::{Instant, SystemTime};

use crate::flow::decide::identify::Identity;
use crate::flow::decide::permit::Facts;
use crate::flow::decide::refusal::Refusal;
use crate::observe::decisions::DecisionId;
use crate::observe::traces::Parent;

/// What became of a request.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// The origin's response reached the client whole.
    Forward { status: u16, reason: &'static str },
    /// The same, though it would have been refused if that were not only observed.
    Observe { status: u16, refusal: Refusal },
    /// A tunnel opened into which nobody looks.
    Tunnel { reason: &'static str },
    /// Nothing of it left this proxy.
    Refuse(Refusal),
    /// It was allowed, but the origin or the way to it failed; or the client left.
    Fail(Refusal),
}

impl Outcome {
    /// The metric's label.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Forward { .. } => "forwarded",
            Self::Observe { .. } => "observed",
            Self::Tunnel { .. } => "tunnelled",
            Self::Refuse(_) => "refused",
            Self::Fail(_) => "failed",
        }
    }

    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Forward { reason, .. } | Self::Tunnel { reason } => reason,
            Self::Observe { refusal, .. } | Self::Refuse(refusal) | Self::Fail(refusal) => {
                refusal.reason
            }
        }
    }

    /// Why it was refused or failed, or would have been refused.
    pub(crate) fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Forward { .. } | Self::Tunnel { .. } => None,
            Self::Observe { refusal, .. } | Self::Refuse(refusal) | Self::Fail(refusal) => {
                Some(refusal)
            }
        }
    }

    pub(crate) fn status(&self) -> u16 {
        match self {
            Self::Forward { status, .. } | Self::Observe { status, .. } => *status,
            Self::Tunnel { .. } => 200,
            Self::Refuse(refusal) | Self::Fail(refusal) => refusal.status,
        }
    }
}

/// One request, from its head to the end of its response.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) id: DecisionId,
    pub(crate) started: Instant,
    pub(crate) started_at: SystemTime,
    pub(crate) client: IpAddr,
    pub(crate) method: String,
    /// The target if it was understood, else the request target as received.
    pub(crate) url: String,
    pub(crate) identity: Option<Identity>,
    /// Which configuration it met, counted from 1.
    pub(crate) configuration: u64,
    /// The trace that the request says it is part of; only while traces are sent.
    pub(crate) parent: Parent,
    pub(crate) facts: Facts,
    pub(crate) outcome: Outcome,
}
