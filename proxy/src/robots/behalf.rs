//! On whose behalf a robots.txt, or a document beside it, is fetched.

use std::net::IpAddr;
use std::sync::Arc;

use super::fetch::FetchAs;
use super::queue::Asker;
use super::redirect::ChosenBy;
use super::refresh::Wish;
use wayleave_robots_txt::lifecycle::Snapshot;

use crate::identity::Crawler;
use crate::signing::SignedBy;

/// On whose behalf an origin's robots.txt is wanted: fetches are shared out among crawlers and their clients.
#[derive(Clone, Copy, Debug, Default)]
pub struct Behalf<'a> {
    /// The crawler's name.
    pub crawler: &'a str,
    /// Where the request came from.
    pub client: Option<IpAddr>,
    /// If that causes a fetch, it is made by this `User-Agent` instead of the usual one.
    pub user_agent: Option<&'a Arc<str>>,
    /// And signed by this.
    pub(crate) signed_by: Option<&'a SignedBy>,
    /// And sent from this address.
    pub source: Option<IpAddr>,
    /// The proxies that the request has come by.
    pub(crate) via: Option<&'a Arc<[u8]>>,
    /// Who named the host.
    pub(crate) chosen: ChosenBy,
}

impl<'a> Behalf<'a> {
    /// Whose name is `label`: a known crawler's, or only asserted.
    pub(crate) fn of(
        label: &'a str,
        crawler: Option<&'a Crawler>,
        client: IpAddr,
        signed_by: Option<&'a SignedBy>,
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

    /// What counts of what is known.
    pub(super) fn told(self, snapshot: Arc<Snapshot>) -> Arc<Snapshot> {
        match self.signed_by {
            Some(_) => snapshot.to_signers(),
            None => snapshot,
        }
    }

    /// Whether there is something in what a fetch brought: for those who sign, nothing is in what others were told.
    pub(super) fn may_go_by(self, snapshot: &Snapshot) -> bool {
        self.signed_by.is_none() || snapshot.fetched_at().is_some() || snapshot.failures() > 0
    }

    pub(super) fn wish(self) -> Wish {
        Wish {
            asker: Asker::of(self.crawler, self.client),
            fetch_as: self.fetch_as(),
        }
    }

    pub(super) fn fetch_as(self) -> FetchAs {
        FetchAs {
            user_agent: self.user_agent.cloned(),
            signed_by: self.signed_by.cloned(),
            source: self.source,
            via: self.via.cloned(),
            chosen: self.chosen,
            is_refetch: false,
        }
    }
}
