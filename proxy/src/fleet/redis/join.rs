//! Joining a fleet: checks that the engine is configured for it and that the fleet uses this node's format.

use super::super::engine::{Failure, Server};
use super::{Redis, read};

/// The version of the layout of keys and values. A node does not join a fleet of another version.
const FORMAT: u32 = 1;

impl Redis {
    /// Connects and checks the engine and the fleet's format.
    pub(super) async fn join(&self) -> Result<(), Failure> {
        self.connection.open().await?;
        let joined = self.check().await;
        if joined.is_err() {
            self.connection.close();
        }
        joined
    }

    async fn check(&self) -> Result<(), Failure> {
        let servers = self
            .servers()
            .await
            .map_err(|failure| self.of_prefix(failure))?;
        for (_, Server { name, policy, .. }) in &servers {
            if policy != "noeviction" {
                return Err(Failure::Denied(format!(
                    "{name} has the maxmemory-policy {policy}, which may drop what keeps the pace; set noeviction"
                )));
            }
        }
        let own = format!("format {FORMAT}, {} partitions", self.options.partitions);
        let meta = format!("{}:meta", self.options.prefix);
        let found = self.meta(&meta, &own).await;
        let found = found.map_err(|failure| self.of_prefix(failure))?;
        if found != own {
            return Err(Failure::Denied(format!(
                "the fleet of the prefix {} has {found}; this node has {own}",
                self.options.prefix
            )));
        }
        self.set_heads(servers);
        Ok(())
    }

    /// Returns the fleet's format, which its first node set; this one, if there was none.
    async fn meta(&self, key: &str, own: &str) -> Result<String, Failure> {
        let mut get = redis::cmd("GET");
        get.arg(key);
        let found = self.connection.send(&get).await?;
        if let Some(found) = read(found, "meta")? {
            // Read before it is set, so that a node can join while the engine's memory is full.
            return Ok(found);
        }
        let mut set = redis::cmd("SET");
        self.connection
            .send(set.arg(key).arg(own).arg("NX"))
            .await?;
        read(self.connection.send(&get).await?, "meta")
    }

    /// Returns the failure of a node whose name another process has.
    pub(super) fn is_twin(&self) -> Failure {
        Failure::Denied(format!(
            "another process is the node {:?}: give each node a store.node of its own, or none",
            self.options.node
        ))
    }

    /// Returns the failure of a node whose settings differ from the fleet's.
    pub(super) fn differs(&self, theirs: &str) -> Failure {
        Failure::Denied(format!(
            "the nodes of this fleet have [robots] {theirs}; this one has {}: stop all before you start one with another",
            self.options.settings
        ))
    }

    /// Adds the prefix to a failure about keys, because the server does not name them.
    fn of_prefix(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Denied(text) if text.contains("keys") => {
                let prefix = &self.options.prefix;
                Failure::Denied(format!("{text}: the user needs ~{prefix}:*"))
            }
            failure => failure,
        }
    }
}
