//! A decision in one piece of memory.
//!
//! As values it is a dozen allocations. Kept for thousands of requests, each would be far from every cache by the time it
//! is freed and its place handed out again, and every request would wait for that memory.

use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::decision::{Decision, DecisionId, Finding, Policy};
use crate::digest::Digest;

/// What most decisions have room in.
const USUAL: usize = 512;

/// Appends `decision` to `bytes`.
pub(super) fn pack(decision: &Decision, bytes: &mut Vec<u8>) {
    bytes.reserve(USUAL);
    let mut to = Packer(bytes);
    to.bytes(&decision.id.to_bytes());
    to.instant(decision.at);
    to.text(&decision.outcome);
    to.text(&decision.reason);
    to.number(decision.status.into());
    to.text(&decision.crawler);
    to.text(&decision.identity);
    to.number(decision.tokens.len() as u64);
    decision.tokens.iter().for_each(|token| to.text(token));
    to.address(decision.client);
    to.text(&decision.method);
    to.text(&decision.url);
    to.some(decision.origin.as_deref(), Packer::text);
    to.some(decision.policy.as_ref(), Packer::policy);
    to.some(decision.finding.as_ref(), Packer::finding);
    to.some(decision.would_be.map(u64::from), Packer::number);
    to.text(&decision.mode);
    to.number(decision.configuration);
    to.some(decision.details.as_deref(), Packer::text);
    to.number(decision.decided_us);
    to.number(decision.waited_us);
    to.number(decision.took_us);
}

/// The decision in `bytes`, which [`pack`] made.
pub(super) fn unpack(bytes: &[u8]) -> Decision {
    let mut from = Unpacker(bytes);
    Decision {
        id: DecisionId::from_bytes(from.array()),
        at: from.instant(),
        outcome: from.text().into(),
        reason: from.text().into(),
        status: from.number() as u16,
        crawler: from.text().into(),
        identity: from.text().into(),
        tokens: (0..from.number()).map(|_| from.text()).collect(),
        client: from.address(),
        method: from.text(),
        url: from.text(),
        origin: from.some(Unpacker::text),
        policy: from.some(Unpacker::policy),
        finding: from.some(Unpacker::finding),
        would_be: from.some(|from| from.number() as u16),
        mode: from.text().into(),
        configuration: from.number(),
        details: from.some(Unpacker::text),
        decided_us: from.number(),
        waited_us: from.number(),
        took_us: from.number(),
    }
}

struct Packer<'a>(&'a mut Vec<u8>);

impl Packer<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes(text.as_bytes());
    }

    fn some<T>(&mut self, value: Option<T>, pack: impl FnOnce(&mut Self, T)) {
        self.0.push(value.is_some().into());
        if let Some(value) = value {
            pack(self, value);
        }
    }

    /// Before 1970 is no time at which anything was decided or fetched.
    fn instant(&mut self, at: SystemTime) {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.number(since.as_secs());
        self.number(since.subsec_nanos().into());
    }

    fn address(&mut self, address: IpAddr) {
        self.0.push(address.is_ipv4().into());
        let mapped = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        self.bytes(&mapped.octets());
    }

    fn policy(&mut self, policy: &Policy) {
        self.number(policy.number as u64);
        self.text(&policy.action);
        self.some(policy.owner.as_deref(), Self::text);
        self.some(policy.reason.as_deref(), Self::text);
    }

    fn finding(&mut self, finding: &Finding) {
        self.text(&finding.verdict);
        self.text(&finding.basis);
        self.text(&finding.dialect);
        self.some(finding.line.map(u64::from), Self::number);
        self.some(finding.rule.as_deref(), Self::text);
        self.some(finding.robots_sha256, |to, digest| to.bytes(&digest.0));
        self.some(finding.robots_fetched_at, Self::instant);
    }
}

/// Reads what was packed here a moment ago: it is all there.
struct Unpacker<'a>(&'a [u8]);

impl<'a> Unpacker<'a> {
    fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N));
        array
    }

    fn number(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    fn text(&mut self) -> String {
        let length = self.number() as usize;
        String::from_utf8_lossy(self.bytes(length)).into_owned()
    }

    fn is_so(&mut self) -> bool {
        self.array() == [1]
    }

    fn some<T>(&mut self, unpack: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.is_so().then(|| unpack(self))
    }

    fn instant(&mut self) -> SystemTime {
        let seconds = Duration::from_secs(self.number());
        UNIX_EPOCH + seconds + Duration::from_nanos(self.number())
    }

    fn address(&mut self) -> IpAddr {
        let is_ipv4 = self.is_so();
        let address = Ipv6Addr::from(self.array::<16>());
        let mapped = address.to_ipv4_mapped().filter(|_| is_ipv4);
        mapped.map_or(IpAddr::V6(address), IpAddr::V4)
    }

    fn policy(&mut self) -> Policy {
        Policy {
            number: self.number() as usize,
            action: self.text().into(),
            owner: self.some(Self::text),
            reason: self.some(Self::text),
        }
    }

    fn finding(&mut self) -> Finding {
        Finding {
            verdict: self.text().into(),
            basis: self.text().into(),
            dialect: self.text().into(),
            line: self.some(|from| from.number() as u32),
            rule: self.some(Self::text),
            robots_sha256: self.some(|from| Digest(from.array())),
            robots_fetched_at: self.some(Self::instant),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{bare, decision, full};
    use super::*;

    #[test]
    fn a_decision_comes_out_as_it_went_in() {
        for decision in [decision(), full(), bare()] {
            let mut bytes = Vec::new();
            pack(&decision, &mut bytes);
            let expected = serde_json::to_value(&decision).unwrap();
            assert_eq!(serde_json::to_value(unpack(&bytes)).unwrap(), expected);
        }
    }
}
