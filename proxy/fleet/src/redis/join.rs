//! Joining a fleet: checks that the engine is configured for it and that the fleet uses this node's format.

use super::super::engine::EngineFailure;
use super::{RedisEngine, read};

/// The version of the layout of keys and values. A node does not join a fleet of another version.
const FORMAT: u32 = 1;

impl RedisEngine {
    /// Connects and checks the engine and the fleet's format.
    pub(super) async fn join(&self) -> Result<(), EngineFailure> {
        self.connection.open().await?;
        let joined = self.check().await;
        if joined.is_err() {
            self.connection.close();
        }
        joined
    }

    async fn check(&self) -> Result<(), EngineFailure> {
        let servers = self.servers().await.map_err(|failure| self.with_prefix_hint(failure))?;
        for (_, server) in &servers {
            let name = &server.name;
            let policy = &server.eviction_policy;
            if policy != "noeviction" {
                return Err(EngineFailure::Denied(format!(
                    "{name} has the maxmemory-policy {policy}, which may delete delays; set noeviction"
                )));
            }
        }
        let own = format!("format {FORMAT}, {} partitions", self.settings.partitions);
        let meta = format!("{}:meta", self.settings.prefix);
        let found = self
            .agreed_format(&meta, &own)
            .await
            .map_err(|failure| self.with_prefix_hint(failure))?;
        if found != own {
            return Err(EngineFailure::Denied(format!(
                "the fleet of the prefix {} has {found}; this node has {own}",
                self.settings.prefix
            )));
        }
        self.set_heads(servers);
        Ok(())
    }

    /// Returns the fleet's format, which its first node set; this one, if there was none.
    async fn agreed_format(&self, key: &str, own: &str) -> Result<String, EngineFailure> {
        let mut get = redis::cmd("GET");
        get.arg(key);
        let found = self.connection.send(&get).await?;
        if let Some(found) = read(found, "meta")? {
            // Read before it is set, so that a node can join while the engine's memory is full.
            return Ok(found);
        }
        // NX: of several nodes that join at once, one sets it and all read it.
        let mut set = redis::cmd("SET");
        self.connection.send(set.arg(key).arg(own).arg("NX")).await?;
        read(self.connection.send(&get).await?, "meta")
    }

    /// Returns the failure of a node whose name another process has.
    pub(super) fn twin_failure(&self) -> EngineFailure {
        EngineFailure::Denied(format!(
            "another process is the node {:?}: give each node its own store.node, or none",
            self.settings.node
        ))
    }

    /// Returns the failure of a node whose settings differ from the fleet's.
    pub(super) fn settings_failure(&self, theirs: &str) -> EngineFailure {
        EngineFailure::Denied(format!(
            "the nodes of this fleet have [robots] {theirs}; this one has {}: stop all nodes before you start one with other settings",
            self.settings.shared_settings
        ))
    }

    /// Adds the prefix to a failure about keys, because the server does not name them.
    fn with_prefix_hint(&self, failure: EngineFailure) -> EngineFailure {
        match failure {
            EngineFailure::Denied(text) if text.contains("keys") => {
                let prefix = &self.settings.prefix;
                EngineFailure::Denied(format!("{text}: the user needs ~{prefix}:*"))
            }
            failure => failure,
        }
    }
}
