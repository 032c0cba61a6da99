//! Joining a fleet: the engine has to be fit for it, and of the format that this node knows.

use super::super::engine::{Failure, Server};
use super::{Redis, read};

/// What keys and values look like. Nodes of another format refuse to join.
const FORMAT: u32 = 1;

impl Redis {
    /// Connects and checks whether the engine is fit, and the fleet's own.
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

    /// What this fleet goes by: what the first node of it set, or this one does.
    async fn meta(&self, key: &str, own: &str) -> Result<String, Failure> {
        let mut get = redis::cmd("GET");
        get.arg(key);
        let found = self.connection.send(&get).await?;
        if let Some(found) = read(found, "meta")? {
            // Whoever joins when the engine is full has nothing to set.
            return Ok(found);
        }
        let mut set = redis::cmd("SET");
        self.connection
            .send(set.arg(key).arg(own).arg("NX"))
            .await?;
        read(self.connection.send(&get).await?, "meta")
    }

    /// Another process is this node.
    pub(super) fn is_twin(&self) -> Failure {
        Failure::Denied(format!(
            "another process is the node {:?}: give each node a store.node of its own, or none",
            self.options.node
        ))
    }

    /// The fleet has other settings.
    pub(super) fn differs(&self, theirs: &str) -> Failure {
        Failure::Denied(format!(
            "the nodes of this fleet have [robots] {theirs}; this one has {}: stop all before you start one with another",
            self.options.settings
        ))
    }

    /// The server does not say which keys it is about.
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
