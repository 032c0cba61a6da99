//! Revokes upgraded connections and uninspected tunnels, which outlast their exchange, when a reload no longer allows them.

use wayleave_decision::ResolvedTarget;

use crate::request::{ClientConnection, RequestView};
use crate::settings::Settings;

use super::gate::Gate;

/// The request behind a connection that outlasts its exchange.
pub struct LongLivedRequest<'a> {
    pub connection: &'a ClientConnection,
    pub request: &'a RequestView<'a>,
    pub resolved: &'a ResolvedTarget,
}

impl Gate {
    /// Waits until the connection would no longer be allowed. `configuration` is the one that allowed it; `permits` returns
    /// whether other settings would open it in the same way, apart from their decision about the request.
    pub async fn until_revoked(
        &self,
        long_lived: LongLivedRequest<'_>,
        configuration: u64,
        permits: impl Fn(&Settings) -> bool,
    ) {
        let LongLivedRequest { connection, request, resolved } = long_lived;
        let decider = &self.decider;
        // Only reloads are waited for: a new robots.txt does not cut off a tunnel that was allowed when it began
        // (docs/design.md).
        let mut settings = decider.settings_after(configuration).await;
        while permits(&settings)
            && decider.is_still_allowed(&settings, connection, request, resolved).await
        {
            settings = decider.settings_after(settings.configuration).await;
        }
    }
}
