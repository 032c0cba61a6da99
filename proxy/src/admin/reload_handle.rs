//! A handle to reload the configuration and to read its status. The reloading task holds the other ends of its channels.

use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use utoipa::ToSchema;
use wayleave_config::Config;

/// The result of a successful reload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Reloaded {
    /// The version of the configuration in use, counted from 1 at the start.
    pub(crate) configuration: u64,
    /// Sections and keys that were changed and take effect only after a restart.
    pub(crate) needs_restart: Vec<String>,
    /// The names of the crawlers that the configuration had before, and has no longer.
    pub(crate) removed_crawlers: Vec<String>,
}

/// The result of a reload, or every mistake in the file.
pub(crate) type ReloadResult = Result<Reloaded, Vec<String>>;

/// A request to reload, which the result is sent to.
pub(crate) type ReloadReply = oneshot::Sender<ReloadResult>;

/// The configuration in effect, and the result of the last reload.
#[derive(Clone, Debug)]
pub(crate) struct ConfigStatus {
    /// The version of the configuration, counted from 1 at the start.
    pub(crate) configuration: u64,
    /// The file that was read; none: the built-in defaults are in effect.
    pub(crate) file: Option<String>,
    /// The files that it includes, in their order.
    pub(crate) included: Vec<String>,
    pub(crate) read_at: SystemTime,
    pub(crate) last_attempt: Option<ReloadAttempt>,
    pub(crate) needs_restart: Vec<String>,
    /// The configuration as TOML, without secrets.
    pub(crate) toml: String,
    /// The part of that which differs from the defaults.
    pub(crate) changed_toml: String,
}

/// One attempt to reload the file.
#[derive(Clone, Debug)]
pub(crate) struct ReloadAttempt {
    pub(crate) at: SystemTime,
    pub(crate) cause: String,
    /// The mistakes found in the file; if there are none, it is in effect.
    pub(crate) mistakes: Vec<String>,
}

/// A handle to the task that reloads the configuration.
#[derive(Clone, Debug)]
pub(crate) struct ReloadHandle {
    requests: mpsc::Sender<ReloadReply>,
    status: Arc<ArcSwap<ConfigStatus>>,
    published: Arc<ArcSwap<Config>>,
}

impl ReloadHandle {
    pub(crate) fn new(
        requests: mpsc::Sender<ReloadReply>,
        status: Arc<ArcSwap<ConfigStatus>>,
        published: Arc<ArcSwap<Config>>,
    ) -> Self {
        Self { requests, status, published }
    }

    /// Returns the configuration in effect, for what is published about the crawlers. During a reload it comes before the settings of
    /// requests: a key is published before it signs.
    pub(crate) fn published(&self) -> Arc<Config> {
        self.published.load_full()
    }

    /// Reloads the file now, and waits for the result.
    ///
    /// # Errors
    ///
    /// Returns every mistake; the running configuration remains in effect.
    pub(crate) async fn reload(&self) -> ReloadResult {
        let (reply, result) = oneshot::channel();
        // The task runs as long as the process.
        let stopping = || vec!["the proxy is stopping".to_owned()];
        self.requests.send(reply).await.map_err(|_| stopping())?;
        result.await.map_err(|_| stopping())?
    }

    /// Returns the current status.
    pub(crate) fn status(&self) -> ConfigStatus {
        ConfigStatus::clone(&self.status.load())
    }
}
