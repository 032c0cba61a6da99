//! Who proved a user name by its password: `Proxy-Authorization: Basic` (RFC 7617).

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::thread::available_parallelism;

use argon2::Argon2;
use argon2::password_hash::PasswordVerifier;
use argon2::password_hash::phc::PasswordHash;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use quick_cache::sync::Cache;
use ring::hmac;
use ring::rand::SystemRandom;
use tokio::sync::Semaphore;

/// Verified credentials that are remembered, right and wrong ones.
const REMEMBERED: usize = 4096;
/// Verifies user names and passwords.
///
/// A verification takes tens of milliseconds of a processor on purpose, so it runs off the async
/// threads, few at a time, and its result is remembered under a keyed hash of the credentials.
pub(super) struct Passwords {
    hashes: HashMap<String, String>,
    /// The costliest of them, for names that nobody has: a guess takes as long as for one that somebody has.
    nobodys: String,
    remembered: Cache<[u8; 32], bool>,
    key: hmac::Key,
    at_once: Semaphore,
}

impl Passwords {
    /// `hashes` are user names with argon2 hashes in PHC form, of which there is at least one.
    pub(super) fn new(hashes: HashMap<String, String>) -> Self {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .expect("the system has random bytes");
        // Half of the processors go on serving.
        let at_once = available_parallelism().map_or(1, |count| count.get().div_ceil(2));
        let costliest = hashes.values().max_by_key(|hash| cost(hash));
        Self {
            nobodys: costliest.cloned().unwrap_or_default(),
            hashes,
            remembered: Cache::new(REMEMBERED),
            key,
            at_once: Semaphore::new(at_once),
        }
    }

    /// Whether these are the accounts.
    pub(super) fn are_for(&self, hashes: &HashMap<String, String>) -> bool {
        self.hashes == *hashes
    }

    /// The user name that the value of `Proxy-Authorization` proves.
    pub(super) async fn prove(&self, field: &[u8]) -> Option<Arc<str>> {
        let credentials = basic(field)?;
        // A user name holds no colon, so no others are written the same.
        let (username, password) = credentials.split_once(':')?;
        let tag = hmac::sign(&self.key, credentials.as_bytes());
        let tag: [u8; 32] = tag.as_ref().try_into().expect("SHA-256 has 32 bytes");
        let is_right = match self.remembered.get(&tag) {
            Some(is_right) => is_right,
            None => {
                let is_right = self.verify(username, password.to_owned()).await;
                self.remembered.insert(tag, is_right);
                is_right
            }
        };
        is_right.then(|| username.into())
    }

    async fn verify(&self, username: &str, password: String) -> bool {
        let known = self.hashes.get(username).cloned();
        let is_known = known.is_some();
        let hash = known.unwrap_or_else(|| self.nobodys.clone());
        let _permit = self.at_once.acquire().await.expect("it is never closed");
        let verifying = tokio::task::spawn_blocking(move || {
            let hash = PasswordHash::new(&hash).expect("it was checked when it was read");
            let verified = Argon2::default().verify_password(password.as_bytes(), &hash);
            verified.is_ok()
        });
        // A verification that panicked proves nothing.
        verifying.await.unwrap_or(false) && is_known
    }
}

impl fmt::Debug for Passwords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passwords").finish_non_exhaustive()
    }
}

/// What it takes to verify a hash: memory times rounds.
fn cost(hash: &str) -> u64 {
    let parsed = PasswordHash::new(hash).ok();
    let params = parsed.and_then(|parsed| argon2::Params::try_from(&parsed).ok());
    params.map_or(0, |params| {
        u64::from(params.m_cost()) * u64::from(params.t_cost())
    })
}

/// The user name and password of Basic credentials, a colon between them.
fn basic(field: &[u8]) -> Option<String> {
    let (scheme, encoded) = str::from_utf8(field).ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = STANDARD.decode(encoded.trim()).ok()?;
    String::from_utf8(decoded).ok()
}

/// Whether `hash` is an argon2id hash in PHC form that can be verified.
///
/// # Errors
///
/// Returns what is wrong with it.
pub(crate) fn check_hash(hash: &str) -> Result<(), String> {
    let wrong = "is not an argon2id hash in PHC form ($argon2id$...)";
    if !hash.starts_with("$argon2id$") {
        return Err(wrong.to_owned());
    }
    let parsed = PasswordHash::new(hash).map_err(|error| format!("{wrong}: {error}"))?;
    if parsed.salt.is_none() || parsed.hash.is_none() {
        return Err(format!("{wrong}: salt or hash is missing"));
    }
    argon2::Params::try_from(&parsed).map_err(|error| format!("{wrong}: {error}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use argon2::password_hash::PasswordHasher;

    use super::*;

    fn field(credentials: &str) -> Vec<u8> {
        format!("Basic {}", STANDARD.encode(credentials)).into_bytes()
    }

    /// Cheap to verify.
    fn hash(password: &str) -> String {
        let params = argon2::Params::new(8, 1, 1, None).unwrap();
        let hash: PasswordHash = Argon2::from(params)
            .hash_password_with_salt(password.as_bytes(), b"saltsalt")
            .unwrap();
        hash.to_string()
    }

    #[tokio::test]
    async fn only_the_right_password_proves_a_name() {
        let passwords = Passwords::new(HashMap::from([("news".to_owned(), hash("secret"))]));
        for _ in 0..2 {
            let proven = passwords.prove(&field("news:secret")).await;
            assert_eq!(proven.as_deref(), Some("news"));
            assert_eq!(passwords.prove(&field("news:wrong")).await, None);
            assert_eq!(passwords.prove(&field("other:secret")).await, None);
        }
        assert_eq!(passwords.prove(b"Bearer abc").await, None);
        assert_eq!(passwords.prove(b"Basic !").await, None);
    }

    #[tokio::test]
    async fn nobody_is_as_dear_as_the_dearest_and_proves_nothing() {
        let params = argon2::Params::new(64, 3, 1, None).unwrap();
        let dear: PasswordHash = Argon2::from(params)
            .hash_password_with_salt(b"other", b"saltsalt")
            .unwrap();
        let hashes = [("a", hash("secret")), ("b", dear.to_string())];
        let hashes = hashes.map(|(name, hash)| (name.to_owned(), hash));
        let passwords = Passwords::new(HashMap::from(hashes));
        assert_eq!(passwords.nobodys, dear.to_string());
        assert_eq!(passwords.prove(&field("c:other")).await, None);
        assert_eq!(
            passwords.prove(&field("b:other")).await.as_deref(),
            Some("b")
        );
        assert_eq!(passwords.prove(&field("a:se\0cret")).await, None);
    }

    #[test]
    fn a_hash_is_checked_before_it_is_used() {
        assert_eq!(check_hash(&hash("secret")), Ok(()));
        for wrong in [
            "secret",
            "$argon2id$",
            "$argon2id$v=19$m=8,t=1,p=1",
            "$argon2i$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$AAAA",
        ] {
            assert!(check_hash(wrong).is_err(), "{wrong}");
        }
    }
}
