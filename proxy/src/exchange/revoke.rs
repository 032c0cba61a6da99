//! Revokes upgraded connections and uninspected tunnels, which outlast their exchange, when a reload no longer allows them.

use wayleave_decision::ResolvedTarget;
use wayleave_gate::request::{ClientConnection, RequestView};
use wayleave_gate::settings::Settings;

use super::ExchangeServices;

/// The request behind a connection that outlasts its exchange.
pub(super) struct LongLivedRequest<'a> {
    pub(super) connection: &'a ClientConnection,
    pub(super) request: &'a RequestView<'a>,
    pub(super) resolved: &'a ResolvedTarget,
}

impl ExchangeServices {
    /// Waits until the connection would no longer be allowed. `configuration` is the one that allowed it; `permits` returns
    /// whether other settings would open it in the same way, apart from their decision about the request.
    pub(super) async fn until_revoked(
        &self,
        long_lived: LongLivedRequest<'_>,
        configuration: u64,
        permits: impl Fn(&Settings) -> bool,
    ) {
        let LongLivedRequest { connection, request, resolved } = long_lived;
        let decider = &self.decider;
        // Only reloads are waited for: a new robots.txt does not cut off what it allowed when it began (docs/design.md).
        let mut settings = decider.settings_after(configuration).await;
        while permits(&settings)
            && decider.is_still_allowed(&settings, connection, request, resolved).await
        {
            settings = decider.settings_after(settings.configuration).await;
        }
    }
}
