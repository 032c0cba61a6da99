//! The handover of a log from one key to the next: the old key signs the new one, and every later head repeats that.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

/// The most handovers that a head repeats, the latest: it must fit in its file.
const MAX_HANDOVERS: usize = 16;

/// A statement that heads of a log are signed with another key from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyHandover {
    /// The public half of the old key.
    pub from: String,
    /// That of the new key.
    pub to: String,
    /// The signature of the old key over the log's id and both keys.
    pub signature: String,
}

impl KeyHandover {
    fn sign(log: &str, from: &Ed25519KeyPair, to: &str) -> Self {
        let public = BASE64_URL_SAFE_NO_PAD.encode(from.public_key());
        let signature = from.sign(&statement(log, &public, to));
        let signature = BASE64_URL_SAFE_NO_PAD.encode(signature.as_ref());
        Self { from: public, to: to.to_owned(), signature }
    }

    fn is_signed(&self, log: &str) -> bool {
        let check = || {
            let signature = BASE64_URL_SAFE_NO_PAD.decode(&self.signature).ok()?;
            let from = BASE64_URL_SAFE_NO_PAD.decode(&self.from).ok()?;
            let statement = statement(log, &self.from, &self.to);
            UnparsedPublicKey::new(&ED25519, from).verify(&statement, &signature).ok()
        };
        check().is_some()
    }
}

fn statement(log: &str, from: &str, to: &str) -> Vec<u8> {
    format!("wayleave-log-key {log} {from} {to}").into_bytes()
}

/// Adds the handover of a log from one key to another to those that it had before.
pub(super) fn hand_over(
    handovers: &mut Vec<KeyHandover>,
    log: &str,
    from: &Ed25519KeyPair,
    to: &str,
) {
    handovers.push(KeyHandover::sign(log, from, to));
    let surplus = handovers.len().saturating_sub(MAX_HANDOVERS);
    handovers.drain(..surplus);
}

/// Returns the keys of a log, the present one last, and before it those that have handed the log over to the next.
#[must_use]
pub fn keys_until(key: &str, log: &str, handovers: &[KeyHandover]) -> Vec<String> {
    let mut keys = vec![key.to_owned()];
    for handover in handovers.iter().rev() {
        if keys.last() != Some(&handover.to) || !handover.is_signed(log) {
            break;
        }
        keys.push(handover.from.clone());
    }
    keys.reverse();
    keys
}

#[cfg(test)]
mod tests {
    use super::super::head::public_key;
    use super::*;

    fn key(seed: u8) -> Ed25519KeyPair {
        Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()
    }

    #[test]
    fn only_the_old_key_hands_a_log_over() {
        let publics: Vec<_> = (0..20).map(|seed| public_key(&key(seed))).collect();
        let mut handovers = Vec::new();
        for (from, to) in (0..19).zip(&publics[1..]) {
            hand_over(&mut handovers, "a", &key(from), to);
        }
        assert_eq!(keys_until(&publics[19], "a", &handovers), publics[3..]);
        assert_eq!(keys_until(&publics[19], "b", &handovers), publics[19..], "another log");
        assert_eq!(keys_until(&publics[18], "a", &handovers), [&*publics[18]], "it is over");
        let mut forged = handovers.clone();
        forged[14].signature = forged[13].signature.clone();
        assert_eq!(keys_until(&publics[19], "a", &forged), publics[18..]);
        forged[14] = KeyHandover { from: publics[0].clone(), ..handovers[14].clone() };
        assert_eq!(keys_until(&publics[19], "a", &forged), publics[18..]);
    }
}
