//! What the steps of an exchange are done with.

use std::fmt;
use std::sync::Arc;

use crate::decide::Decider;
use crate::observe::decisions::Decisions;
use crate::observe::metrics::Metrics;
use crate::observe::traces::Traces;
use crate::politeness::Politeness;

/// Everything that a request meets on its way.
pub(crate) struct Exchanges {
    pub(crate) decider: Arc<Decider>,
    pub(crate) politeness: Politeness,
    pub(crate) decisions: Arc<Decisions>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) traces: Option<Arc<Traces>>,
}

impl fmt::Debug for Exchanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchanges")
            .field("decider", &self.decider)
            .finish_non_exhaustive()
    }
}
