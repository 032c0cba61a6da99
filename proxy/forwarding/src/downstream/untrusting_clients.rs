//! Clients that do not trust the CA: those that end the TLS handshake with an alert, and those that may only be distrustful,
//! because they leave during the handshake or after it without a request, as Node.js does.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use wayleave_decision_log::LoggedClient;
use wayleave_fairness::{Holder, SharedMap};

/// The most clients that are known.
const MAX_CLIENTS: usize = 256;
/// The most recent times that are known of a client.
pub const MAX_TIMES: usize = 100;

/// The clients that did not trust the CA lately, for operators who connect a crawler and see no request.
#[derive(Debug)]
pub struct UntrustingClients(Mutex<SharedMap<IpAddr, UntrustingClient>>);

/// A client that does not trust the CA.
#[derive(Clone, Debug)]
pub struct UntrustingClient {
    /// The last times, the newest last.
    times: Vec<SystemTime>,
    /// The client's address as the decision log writes it.
    pub client: LoggedClient,
    /// The origin that it wanted last.
    pub origin: String,
    /// Whether it sent an alert then.
    pub has_alerted: bool,
}

impl UntrustingClient {
    /// Returns the last time.
    pub fn at(&self) -> SystemTime {
        self.times.last().copied().unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// Returns how often it was since `since`; a hundred times at most.
    pub fn times_since(&self, since: SystemTime) -> usize {
        self.times.iter().filter(|at| **at >= since).count()
    }
}

impl Default for UntrustingClients {
    fn default() -> Self {
        Self(Mutex::new(SharedMap::new(MAX_CLIENTS)))
    }
}

impl UntrustingClients {
    pub(super) fn add(
        &self,
        address: IpAddr,
        client: LoggedClient,
        origin: String,
        has_alerted: bool,
        now: SystemTime,
    ) {
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut times = match clients.get_mut(&address) {
            Some(known) => std::mem::take(&mut known.times),
            None => Vec::new(),
        };
        if times.len() == MAX_TIMES {
            times.remove(0);
        }
        times.push(now);
        let known = UntrustingClient { times, client, origin, has_alerted };
        clients.insert(Holder::of_client(address), address, known, |_| false);
    }

    /// Returns the last one since the start.
    pub fn last(&self) -> Option<UntrustingClient> {
        self.within(Duration::MAX, SystemTime::UNIX_EPOCH).into_iter().next()
    }

    /// Returns those of the last `span`, the latest first.
    pub fn within(&self, span: Duration, now: SystemTime) -> Vec<UntrustingClient> {
        let since = now.checked_sub(span).unwrap_or(SystemTime::UNIX_EPOCH);
        let clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = clients.iter().map(|(_, client)| client);
        let mut found: Vec<_> = all.filter(|client| client.at() >= since).cloned().collect();
        found.sort_by_key(|client| std::cmp::Reverse(client.at()));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_for_each_client() {
        let clients = UntrustingClients::default();
        let address = |last| IpAddr::from([192, 0, 2, last]);
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let add = |last: u8, seconds| {
            let client = LoggedClient::Address(address(last));
            clients.add(address(last), client, "https://a.test".to_owned(), true, at(seconds));
        };
        for (last, seconds) in [(1, 10), (1, 400), (2, 410), (1, 420), (3, 20)] {
            add(last, seconds);
        }
        let now = at(600);
        let span = Duration::from_mins(5);
        let found = clients.within(span, now);
        let counts =
            found.iter().map(|client| (client.client.to_string(), client.times_since(now - span)));
        let expected = [("192.0.2.1".to_owned(), 2), ("192.0.2.2".to_owned(), 1)];
        assert_eq!(counts.collect::<Vec<_>>(), expected);
        assert_eq!(clients.last().map(|last| last.at()), Some(at(420)));
        for seconds in 1000..2000 {
            add(4, seconds);
        }
        assert_eq!(clients.last().map(|last| last.times_since(at(0))), Some(MAX_TIMES));
    }
}
