//! Limits on downstream connections: in total, and per client.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::decide::refusal::Refusal;
use crate::http::proxy_status::ErrorType;
use crate::identity::per_client::{Counted, PerClient};

/// The connections beyond the limits that are answered with a 503 at once; further ones are closed without an answer.
const TURNED_AWAY_AT_ONCE: usize = 1024;

/// The limits, as read from the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// The connections in total; further ones are answered with 503.
    pub(crate) connections: usize,
    /// The connections of one client address (IPv6: of one /64); 0 means no limit.
    pub(crate) per_client: usize,
}

/// Counts connections, and grants each a permit while the limits allow it.
#[derive(Debug)]
pub(crate) struct Limits {
    all: Arc<Semaphore>,
    turned_away: Arc<Semaphore>,
    /// 0 means no limit.
    most_per_client: usize,
    /// Empty if there is no limit per client.
    per_client: Arc<PerClient>,
}

/// A connection's share of the limits, which is returned when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    _place: OwnedSemaphorePermit,
    _counted: Option<Counted>,
}

/// The limit that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    All,
    Client,
}

impl Full {
    /// Returns the answer to a connection that exceeds the limit.
    pub(super) fn refusal(self) -> Refusal {
        let error = ErrorType::ConnectionLimitReached;
        let details = match self {
            Self::All => "proxy.max_connections connections are open",
            Self::Client => "proxy.max_connections_per_client connections of this client are open",
        };
        Refusal {
            retry_after: Some(Duration::from_secs(1)),
            closes: true,
            ..Refusal::new(503, error.phrase(), error, error.as_str(), details)
        }
    }
}

impl Limits {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            all: Arc::new(Semaphore::new(options.connections)),
            turned_away: Arc::new(Semaphore::new(TURNED_AWAY_AT_ONCE)),
            most_per_client: options.per_client,
            per_client: Arc::default(),
        }
    }

    /// Grants a permit for a connection of `client`.
    ///
    /// # Errors
    ///
    /// Returns the limit that is reached.
    pub(crate) fn take(&self, client: IpAddr) -> Result<Slot, Full> {
        // First, so that a client over its limit does not take a place from the others, not even for a moment.
        let counted = self.count(client)?;
        Ok(Slot {
            _place: self.place()?,
            _counted: counted,
        })
    }

    /// Grants a permit for a connection whose client is not known yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the total is reached.
    pub(crate) fn take_unnamed(&self) -> Result<Slot, Full> {
        Ok(Slot {
            _place: self.place()?,
            _counted: None,
        })
    }

    /// Counts a permit for `client`, now that the client is known.
    ///
    /// # Errors
    ///
    /// Returns an error if that client's limit is reached; the permit is returned then.
    pub(crate) fn name(&self, slot: Slot, client: IpAddr) -> Result<Slot, Full> {
        Ok(Slot {
            _counted: self.count(client)?,
            ..slot
        })
    }

    fn place(&self) -> Result<OwnedSemaphorePermit, Full> {
        let place = Arc::clone(&self.all).try_acquire_owned();
        place.map_err(|_| Full::All)
    }

    fn count(&self, client: IpAddr) -> Result<Option<Counted>, Full> {
        match self.most_per_client {
            0 => Ok(None),
            most => self
                .per_client
                .count(client, most)
                .ok_or(Full::Client)
                .map(Some),
        }
    }

    /// Grants a permit to answer a connection that exceeds the limits, unless too many are being answered.
    pub(crate) fn turn_away(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.turned_away).try_acquire_owned().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_most(connections: usize, per_client: usize) -> Options {
        Options {
            connections,
            per_client,
        }
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn each_client_has_its_own_limit() {
        let limits = Limits::new(at_most(10, 2));
        let (one, other) = (address("192.0.2.1"), address("192.0.2.2"));
        let first = limits.take(one).unwrap();
        let _second = limits.take(one).unwrap();
        assert_eq!(limits.take(one).unwrap_err(), Full::Client);
        let _third = limits.take(other).unwrap();
        drop(first);
        let _fourth = limits.take(one).unwrap();
        assert_eq!(limits.take(one).unwrap_err(), Full::Client);
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_client() {
        let limits = Limits::new(at_most(10, 1));
        let _first = limits.take(address("2001:db8::1")).unwrap();
        assert_eq!(
            limits.take(address("2001:db8::2")).unwrap_err(),
            Full::Client
        );
        assert!(limits.take(address("2001:db8:0:1::1")).is_ok());
    }

    #[test]
    fn a_connection_beyond_the_total_counts_for_no_client() {
        let limits = Limits::new(at_most(1, 1));
        let (one, other) = (address("192.0.2.1"), address("192.0.2.2"));
        let first = limits.take(one).unwrap();
        assert_eq!(limits.take(other).unwrap_err(), Full::All);
        drop(first);
        assert!(limits.take(other).is_ok());
        assert!(limits.per_client.is_empty());
    }

    #[test]
    fn a_client_that_is_assigned_later_is_counted() {
        let limits = Limits::new(at_most(2, 1));
        let client = address("192.0.2.1");
        let first = limits.name(limits.take_unnamed().unwrap(), client).unwrap();
        let second = limits.take_unnamed().unwrap();
        assert_eq!(limits.take_unnamed().unwrap_err(), Full::All);
        assert_eq!(limits.name(second, client).unwrap_err(), Full::Client);
        let third = limits.take_unnamed().unwrap();
        drop(first);
        assert!(limits.name(third, client).is_ok());
        assert!(limits.per_client.is_empty());
    }

    #[test]
    fn without_a_limit_no_client_is_counted() {
        let limits = Limits::new(at_most(10, 0));
        let taken: Vec<_> = (0..10).map(|_| limits.take(address("::1"))).collect();
        assert!(taken.iter().all(Result::is_ok));
        assert!(limits.per_client.is_empty());
    }
}
