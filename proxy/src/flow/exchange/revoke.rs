//! Whether upgraded connections and uninspected tunnels, which outlast an exchange, are still allowed after a reload.

use std::sync::Arc;

use super::Flow;
use crate::flow::decide;
use crate::flow::decide::identify::{self, Identified};
use crate::flow::decide::request::Connection;
use crate::flow::decide::request::Request;
use crate::flow::decide::resolve::Resolved;
use crate::flow::decide::settings::Settings;

impl Flow {
    /// What holds once it is not the configuration of this number any more.
    pub(crate) async fn settings_after(&self, configuration: u64) -> Arc<Settings> {
        let mut current = self.configuration.subscribe();
        if current.wait_for(|now| *now != configuration).await.is_err() {
            // There will be no others.
            std::future::pending::<()>().await;
        }
        self.settings()
    }

    /// Whether a request would be let go on by these settings; what it proved when it came counts for as long as its password.
    pub(crate) async fn stands(
        &self,
        settings: &Settings,
        connection: &Connection,
        request: &Request<'_>,
        resolved: &Resolved,
    ) -> bool {
        let crawlers = &settings.crawlers;
        let Ok(proof) = identify::proven_before(crawlers, connection) else {
            return false;
        };
        let identity = identify::recognise(crawlers, connection, proof.as_ref(), request);
        let objection = identify::object(crawlers, &identity, request);
        let is_inside = connection.tunnel.is_some() || resolved.is_unseen();
        let objection = objection.or_else(|| decide::https_refusal(settings, resolved, is_inside));
        let mut identified = Identified {
            client: connection.client,
            identity,
            proof,
            objection,
        };
        let (_, judged) = self
            .decide(settings, &mut identified, request.method, resolved.clone())
            .await;
        judged.is_ok()
    }
}
