//! What the configuration says of the way of a request: one value, replaced as a whole when it is read again.

use std::sync::Arc;
use std::time::Duration;

use crate::crawlers::Crawlers;
use crate::https;
use crate::politeness;
use crate::rules::Rules;
use crate::upstream::Upstream;

/// Part of `[proxy]`.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// The pseudonym in `Via` and `Proxy-Status`. Default `wayleave`.
    pub(crate) name: String,
    /// How long a client may take for a request's head. Default 10 s.
    pub(crate) header_timeout: Duration,
    /// How long a connection may be silent between requests. Default 60 s.
    pub(crate) idle_timeout: Duration,
    /// How long exchanges under way may go on when the process ends. Default 10 s.
    pub(crate) shutdown_grace: Duration,
}

/// What one exchange goes by from its beginning to its end.
pub(crate) struct Settings {
    /// Which configuration this is, counted from 1 at the start.
    pub(crate) configuration: u64,
    pub(crate) options: Options,
    pub(crate) https: https::Options,
    pub(crate) crawlers: Crawlers,
    pub(crate) rules: Rules,
    pub(crate) politeness: politeness::Options,
    pub(crate) upstream: Arc<Upstream>,
}
