//! Whether upgraded connections and uninspected tunnels, which outlast an exchange, are still allowed after a reload.

use super::ExchangeServices;
use crate::decide::request::{ClientConnection, RequestView};
use crate::decide::settings::Settings;
use crate::decide::target::ResolvedTarget;

/// What outlasts its exchange, as it was asked for.
pub(super) struct LongLivedRequest<'a> {
    pub(super) connection: &'a ClientConnection,
    pub(super) request: &'a RequestView<'a>,
    pub(super) resolved: &'a ResolvedTarget,
}

impl ExchangeServices {
    /// Waits until it would no longer be opened as it is. `configuration`: by which it was. `keeps`: whether these settings
    /// would open it in the same way, whatever they say of the request.
    pub(super) async fn until_revoked(
        &self,
        lasting: LongLivedRequest<'_>,
        configuration: u64,
        keeps: impl Fn(&Settings) -> bool,
    ) {
        let LongLivedRequest {
            connection,
            request,
            resolved,
        } = lasting;
        let decider = &self.decider;
        let mut now = decider.settings_after(configuration).await;
        while keeps(&now)
            && decider
                .is_still_allowed(&now, connection, request, resolved)
                .await
        {
            now = decider.settings_after(now.configuration).await;
        }
    }
}
