//! Whether upgraded connections and uninspected tunnels, which outlast an exchange, are still allowed after a reload.

use super::Exchanges;
use crate::decide::request::{Connection, Request};
use crate::decide::resolve::Resolved;
use crate::decide::settings::Settings;

/// What outlasts its exchange, as it was asked for.
pub(super) struct Lasting<'a> {
    pub(super) connection: &'a Connection,
    pub(super) request: &'a Request<'a>,
    pub(super) resolved: &'a Resolved,
}

impl Exchanges {
    /// Waits until it would no longer be opened as it is. `configuration`: by which it was. `keeps`: whether these settings
    /// would open it in the same way, whatever they say of the request.
    pub(super) async fn revoked(
        &self,
        lasting: Lasting<'_>,
        configuration: u64,
        keeps: impl Fn(&Settings) -> bool,
    ) {
        let Lasting {
            connection,
            request,
            resolved,
        } = lasting;
        let decider = &self.decider;
        let mut now = decider.settings_after(configuration).await;
        while keeps(&now) && decider.stands(&now, connection, request, resolved).await {
            now = decider.settings_after(now.configuration).await;
        }
    }
}
