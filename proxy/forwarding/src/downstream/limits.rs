//! Limits on downstream connections: in total, and per client.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wayleave_config::ConnectionLimitsConfig;
use wayleave_decision::{Reason, Refusal};
use wayleave_fairness::{Holder, HolderCountGuard, HolderCounts};

/// The connections beyond the limits that are answered with a 503 at once; further ones are closed without an answer.
const MAX_CONCURRENT_REJECTIONS: usize = 1024;
/// The most of them that are answered on a reserved descriptor.
const MAX_RESERVED_REJECTIONS: usize = 8;

/// Counts connections, and grants each a permit while the limits allow it.
#[derive(Debug)]
pub struct ConnectionLimits {
    total: Arc<Semaphore>,
    rejections: Arc<Semaphore>,
    reserved_rejections: Arc<Semaphore>,
    pub options: ConnectionLimitsConfig,
    /// Empty if there is no limit per client.
    per_client: Arc<HolderCounts>,
}

/// A connection's share of the limits, which is returned when dropped.
#[derive(Debug)]
pub struct ConnectionPermit {
    _permit: OwnedSemaphorePermit,
    _counted: Option<HolderCountGuard>,
}

/// The limit that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitReached {
    Total,
    PerClient,
    /// All descriptors are in use but for those that are reserved.
    Descriptors,
}

impl LimitReached {
    /// Returns the answer to a connection that exceeds the limit.
    pub(super) fn refusal(self) -> Refusal {
        let details = match self {
            Self::Total => "proxy.max_connections connections are open",
            Self::Descriptors => "the process has no file descriptor for it (RLIMIT_NOFILE)",
            Self::PerClient => {
                "proxy.max_connections_per_client connections of this client are open"
            }
        };
        Refusal {
            retry_after: Some(Duration::from_secs(1)),
            closes_connection: true,
            ..Refusal::new(Reason::ConnectionLimitReached, details)
        }
    }
}

impl ConnectionLimits {
    pub fn new(options: ConnectionLimitsConfig) -> Self {
        Self {
            total: Arc::new(Semaphore::new(options.connections)),
            rejections: Arc::new(Semaphore::new(MAX_CONCURRENT_REJECTIONS)),
            reserved_rejections: Arc::new(Semaphore::new(MAX_RESERVED_REJECTIONS)),
            options,
            per_client: Arc::default(),
        }
    }

    /// Grants a permit for a connection of `client`.
    ///
    /// # Errors
    ///
    /// Returns the limit that is reached.
    pub fn acquire(&self, client: IpAddr) -> Result<ConnectionPermit, LimitReached> {
        // First, so that a client over its limit does not take a place from the others, not even for a moment.
        let counted = self.count_for_client(client)?;
        Ok(ConnectionPermit { _permit: self.acquire_total()?, _counted: counted })
    }

    /// Grants a permit for a connection whose client is not known yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the total is reached.
    pub fn acquire_for_unknown_client(&self) -> Result<ConnectionPermit, LimitReached> {
        Ok(ConnectionPermit { _permit: self.acquire_total()?, _counted: None })
    }

    /// Counts a permit for `client`, now that the client is known.
    ///
    /// # Errors
    ///
    /// Returns an error if that client's limit is reached; the permit is returned then.
    pub fn assign_client(
        &self,
        permit: ConnectionPermit,
        client: IpAddr,
    ) -> Result<ConnectionPermit, LimitReached> {
        Ok(ConnectionPermit { _counted: self.count_for_client(client)?, ..permit })
    }

    fn acquire_total(&self) -> Result<OwnedSemaphorePermit, LimitReached> {
        Arc::clone(&self.total).try_acquire_owned().map_err(|_| LimitReached::Total)
    }

    fn count_for_client(&self, client: IpAddr) -> Result<Option<HolderCountGuard>, LimitReached> {
        match self.options.per_client {
            0 => Ok(None),
            most => {
                let counted = self.per_client.count(Holder::of_client(client), most);
                counted.ok_or(LimitReached::PerClient).map(Some)
            }
        }
    }

    /// Grants a permit to answer a connection that exceeds the limits, unless too many are being answered.
    pub fn acquire_rejection(&self, limit: LimitReached) -> Option<OwnedSemaphorePermit> {
        let rejections = match limit {
            LimitReached::Total | LimitReached::PerClient => &self.rejections,
            LimitReached::Descriptors => &self.reserved_rejections,
        };
        Arc::clone(rejections).try_acquire_owned().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_most(connections: usize, per_client: usize) -> ConnectionLimitsConfig {
        ConnectionLimitsConfig { connections, per_client }
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn each_client_has_its_own_limit() {
        let limits = ConnectionLimits::new(at_most(10, 2));
        let one = address("192.0.2.1");
        let other = address("192.0.2.2");
        let first = limits.acquire(one).unwrap();
        let _second = limits.acquire(one).unwrap();
        assert_eq!(limits.acquire(one).unwrap_err(), LimitReached::PerClient);
        let _third = limits.acquire(other).unwrap();
        drop(first);
        let _fourth = limits.acquire(one).unwrap();
        assert_eq!(limits.acquire(one).unwrap_err(), LimitReached::PerClient);
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_client() {
        let limits = ConnectionLimits::new(at_most(10, 1));
        let _first = limits.acquire(address("2001:db8::1")).unwrap();
        assert_eq!(limits.acquire(address("2001:db8::2")).unwrap_err(), LimitReached::PerClient);
        assert!(limits.acquire(address("2001:db8:0:1::1")).is_ok());
    }

    #[test]
    fn a_connection_beyond_the_total_counts_for_no_client() {
        let limits = ConnectionLimits::new(at_most(1, 1));
        let one = address("192.0.2.1");
        let other = address("192.0.2.2");
        let first = limits.acquire(one).unwrap();
        assert_eq!(limits.acquire(other).unwrap_err(), LimitReached::Total);
        drop(first);
        assert!(limits.acquire(other).is_ok());
        assert!(limits.per_client.is_empty());
    }

    #[test]
    fn a_client_that_is_assigned_later_is_counted() {
        let limits = ConnectionLimits::new(at_most(2, 1));
        let client = address("192.0.2.1");
        let first =
            limits.assign_client(limits.acquire_for_unknown_client().unwrap(), client).unwrap();
        let second = limits.acquire_for_unknown_client().unwrap();
        assert_eq!(limits.acquire_for_unknown_client().unwrap_err(), LimitReached::Total);
        assert_eq!(limits.assign_client(second, client).unwrap_err(), LimitReached::PerClient);
        let third = limits.acquire_for_unknown_client().unwrap();
        drop(first);
        assert!(limits.assign_client(third, client).is_ok());
        assert!(limits.per_client.is_empty());
    }

    #[test]
    fn without_a_limit_no_client_is_counted() {
        let limits = ConnectionLimits::new(at_most(10, 0));
        let taken: Vec<_> = (0..10).map(|_| limits.acquire(address("::1"))).collect();
        assert!(taken.iter().all(Result::is_ok));
        assert!(limits.per_client.is_empty());
    }
}
