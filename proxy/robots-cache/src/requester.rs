//! The request for which a robots.txt, or a document next to it, is looked up.

use std::net::IpAddr;
use std::sync::Arc;

use wayleave_lifecycle::{ChosenBy, FetchIdentity, Resource};

use super::queue::FairnessKey;
use super::refresh::FetchDemand;

/// The request for which a document is looked up. Fetches are shared out fairly among crawlers and their clients.
#[derive(Clone, Debug)]
pub struct Requester<'a> {
    /// The crawler's name, whether configured or only asserted.
    pub crawler: &'a str,
    /// The client's address; `None` for a look-up that no client waits for.
    pub client: Option<IpAddr>,
    /// The identity for which an answer has to count.
    pub identity: Arc<FetchIdentity>,
    /// The proxies that the request passed through.
    pub via: Option<&'a Arc<[u8]>>,
}

/// The proxy itself.
impl Default for Requester<'_> {
    fn default() -> Self {
        Self { crawler: "", client: None, identity: FetchIdentity::proxy(), via: None }
    }
}

impl Requester<'_> {
    /// Returns the same requester for a host that another party chose.
    pub fn with_chosen(&self, chosen: ChosenBy) -> Self {
        Self { identity: self.identity.with_chosen(chosen), ..self.clone() }
    }

    /// Returns the demand for `resource`. A copy that may serve everybody is fetched in the name of a configured crawler, or
    /// else in the proxy's: the name of any other client is only used where origins answer clients differently.
    pub(super) fn demand(&self, resource: &Resource) -> FetchDemand {
        let identity = if resource.is_shared() && self.identity.is_client() {
            FetchIdentity::proxy().with_chosen(self.identity.chosen)
        } else {
            Arc::clone(&self.identity)
        };
        FetchDemand {
            key: FairnessKey::new(self.crawler, self.client),
            identity,
            via: self.via.cloned(),
        }
    }
}
