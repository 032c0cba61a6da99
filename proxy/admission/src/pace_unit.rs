//! The unit that shares the pace of a request's origin (`politeness.share`).

use std::sync::Arc;

use wayleave_pacing::{PaceShare, PaceUnit};
use wayleave_upstream::{Destination, Upstream};

/// Returns the pace unit of an origin; `None` if the origin has a pace of its own. By address, the name is looked up as for a
/// connection. The origin has its own pace if that fails, and behind a parent proxy, which looks it up itself.
pub async fn find(
    share: PaceShare,
    upstream: &Upstream,
    destination: Destination<'_>,
) -> Option<Arc<PaceUnit>> {
    let unit = match share {
        PaceShare::Origin => return None,
        PaceShare::Domain => PaceUnit::of_domain(destination.origin),
        PaceShare::Address => {
            let route = upstream.route(destination, upstream.connect_deadline()).await.ok()?;
            PaceUnit::Network(route.network()?)
        }
    };
    Some(Arc::new(unit))
}
