//! How operators have the configuration read again, and what they are told of it; who reads it holds the other ends.

use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use utoipa::ToSchema;

/// What a reload did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Reloaded {
    /// The version of the configuration in use, counted from 1 at the start.
    pub(crate) configuration: u64,
    /// Sections and keys that were changed and take effect only after a restart.
    pub(crate) needs_restart: Vec<String>,
}

/// What an operator hears: what was done, or every mistake.
pub(crate) type Answer = Result<Reloaded, Vec<String>>;

/// An operator who waits for the configuration to be read again.
pub(crate) type Asked = oneshot::Sender<Answer>;

/// The configuration that holds, and how reading it again went.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    /// Which it is, counted from 1 at the start.
    pub(crate) configuration: u64,
    /// None: the built-in defaults hold.
    pub(crate) file: Option<String>,
    pub(crate) read_at: SystemTime,
    pub(crate) last_attempt: Option<Attempt>,
    pub(crate) needs_restart: Vec<String>,
    /// All of it, for everyone to see.
    pub(crate) toml: String,
}

/// One time that the file was read again.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) at: SystemTime,
    pub(crate) cause: String,
    /// None: what it says holds.
    pub(crate) mistakes: Vec<String>,
}

/// Has the configuration read again, by whoever holds the other ends.
#[derive(Clone, Debug)]
pub(crate) struct Reload {
    asking: mpsc::Sender<Asked>,
    status: Arc<ArcSwap<Status>>,
}

impl Reload {
    pub(crate) fn new(asking: mpsc::Sender<Asked>, status: Arc<ArcSwap<Status>>) -> Self {
        Self { asking, status }
    }

    /// Reads the file now.
    ///
    /// # Errors
    ///
    /// Returns every mistake; the running configuration stays.
    pub(crate) async fn now(&self) -> Answer {
        let (reply, answer) = oneshot::channel();
        let gone = || vec!["the proxy is stopping".to_owned()];
        self.asking.send(reply).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// What holds now.
    pub(crate) fn status(&self) -> Status {
        Status::clone(&self.status.load())
    }
}
