//! The shares of gateways, and of the clients behind them, in the questions that may be in progress at a time.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::StatusCode;
use wayleave_admission::asked::AskedVerdict;
use wayleave_evidence::Sha256Digest;
use wayleave_fairness::Holder;

use crate::credentials::GatewayIdentity;
use crate::mistake;

/// The limits on questions in progress, with those that wait for robots.txt or for a slot.
#[derive(Clone, Copy, Debug)]
pub struct QuestionLimits {
    /// The most of all gateways.
    pub total: usize,
    /// The most of one client; 0: only its share limits it.
    pub per_client: usize,
}

/// Grants shares. A gateway's share is as large as the room that all together have left, and a client's as the room that its
/// gateway has left, so the next gateway, and the next client, always find some.
#[derive(Debug)]
pub(crate) struct QuestionShares {
    limits: QuestionLimits,
    in_progress: Mutex<QuestionCounts>,
}

#[derive(Debug, Default)]
struct QuestionCounts {
    total: usize,
    gateways: HashMap<GatewayHolder, usize>,
    clients: HashMap<ClientHolder, usize>,
}

/// The owner of a gateway's share. Those with a token may have several addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum GatewayHolder {
    Token(Sha256Digest),
    Address(Holder),
}

type ClientHolder = (GatewayHolder, Holder);

/// A question in progress, until it is dropped.
#[derive(Debug)]
pub(crate) struct QuestionInProgress {
    shares: Arc<QuestionShares>,
    client: ClientHolder,
}

impl QuestionShares {
    pub(crate) fn new(limits: QuestionLimits) -> Arc<Self> {
        Arc::new(Self { limits, in_progress: Mutex::default() })
    }

    /// Counts a question about a request of this client, unless there is no room left for it.
    pub(crate) fn begin(
        self: &Arc<Self>,
        gateway: &GatewayIdentity,
        client: IpAddr,
    ) -> Option<QuestionInProgress> {
        let by = match gateway.token {
            Some(token) => GatewayHolder::Token(token),
            None => GatewayHolder::Address(Holder::of_client(gateway.address)),
        };
        let client = (by, Holder::of_client(client));
        let mut counts = self.lock();
        let of_gateway = counts.gateways.get(&by).copied().unwrap_or_default();
        let of_client = counts.clients.get(&client).copied().unwrap_or_default();
        let room = self.limits.total.saturating_sub(counts.total);
        // Each further question takes from the room of all as well, hence half.
        let room_of_gateway = room.saturating_sub(of_gateway).div_ceil(2);
        let most = match self.limits.per_client {
            0 => room_of_gateway,
            limit => room_of_gateway.min(limit),
        };
        if of_client >= most {
            return None;
        }
        counts.total += 1;
        counts.gateways.insert(by, of_gateway + 1);
        counts.clients.insert(client, of_client + 1);
        drop(counts);
        Some(QuestionInProgress { shares: Arc::clone(self), client })
    }

    fn lock(&self) -> MutexGuard<'_, QuestionCounts> {
        // A panic cannot leave a count half changed.
        self.in_progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for QuestionInProgress {
    fn drop(&mut self) {
        let mut counts = self.shares.lock();
        counts.total -= 1;
        remove_one(&mut counts.gateways, &self.client.0);
        remove_one(&mut counts.clients, &self.client);
    }
}

/// Counts one less. Clients come and go, so the map must not keep them all.
fn remove_one<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// Returns the answer to a question for which there is no room. 429 because Envoy takes 5xx for a failure, after which it may
/// be set up to let requests leave.
pub(crate) fn excess() -> AskedVerdict {
    let status = StatusCode::TOO_MANY_REQUESTS;
    let detail = "too many questions of this client, or of its gateway, are in progress: proxy.max_connections of all gateways \
                  together, and of those a share for each";
    let fields = [
        ("Content-Type", "application/problem+json"),
        ("Cache-Control", "no-store"),
        ("Retry-After", "1"),
    ];
    AskedVerdict {
        status: status.as_u16(),
        title: "Too Many Requests",
        fields: fields
            .map(|(name, value)| (name.as_bytes().into(), value.as_bytes().into()))
            .into(),
        body: mistake::problem(status, detail).into_bytes(),
        allowed: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: QuestionLimits = QuestionLimits { total: 1000, per_client: 0 };

    fn gateway(last: u8) -> GatewayIdentity {
        GatewayIdentity { token: None, address: [10, 0, 0, last].into() }
    }

    /// Begins questions until there is no room left.
    fn fill(
        shares: &Arc<QuestionShares>,
        gateway: &GatewayIdentity,
        client: u8,
    ) -> Vec<QuestionInProgress> {
        std::iter::from_fn(|| shares.begin(gateway, [192, 0, 2, client].into())).collect()
    }

    #[test]
    fn the_next_client_and_the_next_gateway_find_room() {
        let shares = QuestionShares::new(LIMITS);
        let one = gateway(1);
        let mut held: Vec<_> = (1..=4).map(|client| fill(&shares, &one, client)).collect();
        assert_eq!(held.iter().map(Vec::len).collect::<Vec<_>>(), [250, 125, 63, 31]);
        held.extend((5..=20).map(|client| fill(&shares, &one, client)));
        assert_eq!(held.iter().map(Vec::len).sum::<usize>(), 500);
        assert_eq!(fill(&shares, &gateway(2), 1).len(), 125);
        drop(held);
        let counts = shares.lock();
        assert!(counts.total == 0 && counts.gateways.is_empty() && counts.clients.is_empty());
    }

    #[test]
    fn a_token_is_one_gateway_at_every_address() {
        let shares = QuestionShares::new(LIMITS);
        let token = Some(Sha256Digest::of(b"a"));
        let held = fill(&shares, &GatewayIdentity { token, ..gateway(1) }, 1);
        assert!(fill(&shares, &GatewayIdentity { token, ..gateway(2) }, 1).is_empty());
        let other = Some(Sha256Digest::of(b"b"));
        assert!(!fill(&shares, &GatewayIdentity { token: other, ..gateway(1) }, 1).is_empty());
        drop(held);
    }

    #[test]
    fn a_client_has_no_more_than_its_limit() {
        let limits = QuestionLimits { per_client: 3, ..LIMITS };
        let shares = QuestionShares::new(limits);
        let held = fill(&shares, &gateway(1), 1);
        assert_eq!(held.len(), 3);
        assert_eq!(fill(&shares, &gateway(1), 2).len(), 3);
    }
}
