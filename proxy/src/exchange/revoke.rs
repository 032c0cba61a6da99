//! Revokes upgraded connections and uninspected tunnels, which outlast their exchange, when a reload no longer allows them.

use wayleave_decision::ResolvedTarget;

use super::ExchangeServices;
use crate::decide::request::{ClientConnection, RequestView};
use crate::decide::settings::Settings;

/// The request behind a connection that outlasts its exchange.
pub(super) struct LongLivedRequest<'a> {
    pub(super) connection: &'a ClientConnection,
    pub(super) request: &'a RequestView<'a>,
    pub(super) resolved: &'a ResolvedTarget,
}

impl ExchangeServices {
    /// Waits until the connection would no longer be allowed. `configuration` is the one that allowed it; `keeps` returns
    /// whether other settings would open it in the same way, apart from what they say about the request.
    pub(super) async fn until_revoked(
        &self,
        lasting: LongLivedRequest<'_>,
        configuration: u64,
        keeps: impl Fn(&Settings) -> bool,
    ) {
        let LongLivedRequest { connection, request, resolved } = lasting;
        let decider = &self.decider;
        let mut now = decider.settings_after(configuration).await;
        while keeps(&now) && decider.is_still_allowed(&now, connection, request, resolved).await {
            now = decider.settings_after(now.configuration).await;
        }
    }
}
