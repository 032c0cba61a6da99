//! Clients that do not trust the CA: those that end the TLS handshake with an alert, and those that may only be distrustful,
//! because they leave during the handshake or after it without a request, as Node.js does.

use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use crate::decision_log::LoggedClient;

/// The last client that did not trust the CA, for operators who connect a crawler and see no request.
#[derive(Debug, Default)]
pub(crate) struct UntrustingClients(Mutex<Option<UntrustingClient>>);

/// A client that does not trust the CA.
#[derive(Clone, Debug)]
pub(crate) struct UntrustingClient {
    pub(crate) at: SystemTime,
    /// The client's address as the decision log writes it.
    pub(crate) client: LoggedClient,
    /// The origin that it wanted.
    pub(crate) origin: String,
    /// Whether it sent an alert.
    pub(crate) has_alerted: bool,
}

impl UntrustingClients {
    pub(super) fn add(&self, client: UntrustingClient) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(client);
    }

    /// Returns the last one since the start.
    pub(crate) fn last(&self) -> Option<UntrustingClient> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
