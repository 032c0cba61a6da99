//! The request for which a robots.txt, or a document next to it, is looked up.

use std::net::IpAddr;
use std::sync::Arc;

use super::fetch::FetchIdentity;
use super::own_request::ChosenBy;
use super::queue::FairnessKey;
use super::refresh::FetchDemand;
use wayleave_decision::Crawler;
use wayleave_lifecycle::Snapshot;

use crate::signing::KeySigner;

/// The request for which a document is looked up. Fetches are shared out fairly among crawlers and their clients.
#[derive(Clone, Copy, Debug, Default)]
pub struct Requester<'a> {
    /// The crawler's name.
    pub crawler: &'a str,
    /// The client's address; `None` for a look-up that no client waits for.
    pub client: Option<IpAddr>,
    /// The `User-Agent` of a fetch that this look-up causes, if not the usual one.
    pub user_agent: Option<&'a Arc<str>>,
    /// The key that signs such a fetch.
    pub(crate) signed_by: Option<&'a KeySigner>,
    /// The address that such a fetch is sent from.
    pub source: Option<IpAddr>,
    /// The proxies that the request passed through.
    pub(crate) via: Option<&'a Arc<[u8]>>,
    /// The party that chose the host.
    pub(crate) chosen: ChosenBy,
}

impl<'a> Requester<'a> {
    /// Returns the requester for a request of the crawler called `label`, whether configured or only asserted.
    pub(crate) fn of(
        label: &'a str,
        crawler: Option<&'a Crawler>,
        client: IpAddr,
        signed_by: Option<&'a KeySigner>,
    ) -> Self {
        Self {
            signed_by,
            source: crawler.and_then(|crawler| crawler.source_address),
            crawler: label,
            client: Some(client),
            user_agent: crawler.and_then(|crawler| crawler.robots_user_agent.as_ref()),
            via: None,
            chosen: ChosenBy::Crawler,
        }
    }

    /// Returns the view of a snapshot that applies to this requester: an answer that asks for a signature is none for
    /// those who sign.
    pub(super) fn view_of(self, snapshot: Arc<Snapshot>) -> Arc<Snapshot> {
        match self.signed_by {
            Some(_) => snapshot.for_signed_requests(),
            None => snapshot,
        }
    }

    /// Returns whether a fetched snapshot holds anything for this requester. For those who sign, an answer to an
    /// unsigned request may hold nothing.
    pub(super) fn can_use(self, snapshot: &Snapshot) -> bool {
        self.signed_by.is_none() || snapshot.fetched_at().is_some() || snapshot.failures() > 0
    }

    pub(super) fn demand(self) -> FetchDemand {
        FetchDemand { key: FairnessKey::new(self.crawler, self.client), identity: self.identity() }
    }

    pub(super) fn identity(self) -> FetchIdentity {
        FetchIdentity {
            user_agent: self.user_agent.cloned(),
            signed_by: self.signed_by.cloned(),
            source: self.source,
            via: self.via.cloned(),
            chosen: self.chosen,
            is_refetch: false,
        }
    }
}
