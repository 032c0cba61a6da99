//! Checks user names and passwords: `Proxy-Authorization: Basic` (RFC 7617).

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
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
use wayleave_fairness::{Holder, HolderCounts};

/// The number of verified credentials that are remembered, and of rejected ones. Each kind has its own cache, so that guesses
/// evict no verified credentials.
const CREDENTIAL_CAPACITY: usize = 4096;
/// The most verifications that wait at one time: of all clients, of one client, and for one user name, where all names without an
/// account count as one. Each takes some 30 ms, so none waits much longer than a second; guesses at one name, wherever they come
/// from, leave places for other names.
const MAX_WAITING: usize = 32;
const MAX_WAITING_OF_CLIENT: usize = 4;
const MAX_WAITING_OF_NAME: usize = 8;

/// Verifies user names and passwords.
///
/// A verification takes tens of milliseconds of a processor on purpose, so it runs off the async
/// threads, few at a time, and its result is remembered under a keyed hash of the credentials.
pub(super) struct PasswordChecker {
    accounts: HashMap<String, CheckedAccount>,
    /// An account with the costliest hash, for names without an account: a guess at them takes as long as at others.
    unknown_account: CheckedAccount,
    verified: Cache<CredentialTag, ()>,
    /// The rejected credentials. Clients that present the same credentials wait for one verification.
    rejected: Cache<CredentialTag, ()>,
    key: hmac::Key,
    /// The places of verifications that run at one time.
    running: Arc<Semaphore>,
    waiting: Semaphore,
    waiting_by_client: Arc<HolderCounts>,
}

/// The account of a user name.
struct CheckedAccount {
    hash: Arc<str>,
    waiting: Semaphore,
}

impl CheckedAccount {
    fn new(hash: &str) -> Self {
        Self { hash: hash.into(), waiting: Semaphore::new(MAX_WAITING_OF_NAME) }
    }
}

/// A keyed hash of credentials.
type CredentialTag = [u8; 32];

/// A user name that was proved, and the hash of the password that proved it.
#[derive(Clone)]
pub struct PasswordProof {
    pub username: Arc<str>,
    hash: Arc<str>,
}

impl fmt::Debug for PasswordProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Proof").field(&self.username).finish()
    }
}

/// The error for a verification beyond those that may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyChecks;

impl PasswordChecker {
    /// Creates a checker of these user names, at least one, with their argon2 hashes in PHC form.
    pub(super) fn new(hashes: &HashMap<String, String>) -> Self {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .expect("the system has random bytes");
        // The other half of the processors continues to serve requests.
        let running = available_parallelism().map_or(1, |count| count.get().div_ceil(2));
        let costliest = hashes.values().max_by_key(|hash| cost(hash));
        Self {
            unknown_account: CheckedAccount::new(costliest.map_or("", String::as_str)),
            accounts: hashes
                .iter()
                .map(|(name, hash)| (name.clone(), CheckedAccount::new(hash)))
                .collect(),
            verified: Cache::new(CREDENTIAL_CAPACITY),
            rejected: Cache::new(CREDENTIAL_CAPACITY),
            key,
            running: Arc::new(Semaphore::new(running)),
            waiting: Semaphore::new(MAX_WAITING),
            waiting_by_client: Arc::default(),
        }
    }

    /// Returns whether the accounts are exactly these.
    pub(super) fn has_accounts(&self, hashes: &HashMap<String, String>) -> bool {
        self.accounts.len() == hashes.len()
            && hashes.iter().all(|(name, hash)| {
                self.accounts.get(name).is_some_and(|account| *account.hash == **hash)
            })
    }

    /// Returns whether the same password would still prove the name.
    pub(super) fn is_still_valid(&self, proof: &PasswordProof) -> bool {
        self.accounts.get(&*proof.username).is_some_and(|account| account.hash == proof.hash)
    }

    /// Returns the user name that the value of `Proxy-Authorization` proves, if it proves one.
    ///
    /// # Errors
    ///
    /// Returns an error if too many verifications wait, or too many of this client's or of this user name.
    pub(super) async fn prove(
        &self,
        client: IpAddr,
        field: &[u8],
    ) -> Result<Option<PasswordProof>, TooManyChecks> {
        let Some(credentials) = basic(field) else {
            return Ok(None);
        };
        // A user name contains no colon (RFC 7617 section 2), so no other pair has the same text.
        let Some((username, password)) = credentials.split_once(':') else {
            return Ok(None);
        };
        let signature = hmac::sign(&self.key, credentials.as_bytes());
        let tag: CredentialTag = signature.as_ref().try_into().expect("SHA-256 has 32 bytes");
        let account = self.accounts.get(username);
        let is_verified = self.is_verified(client, tag, account, password).await?;
        let proof = account.map(|account| PasswordProof {
            username: username.into(),
            hash: Arc::clone(&account.hash),
        });
        Ok(proof.filter(|_| is_verified))
    }

    async fn is_verified(
        &self,
        client: IpAddr,
        tag: CredentialTag,
        account: Option<&CheckedAccount>,
        password: &str,
    ) -> Result<bool, TooManyChecks> {
        // Requests after the first one end here.
        if self.verified.get(&tag).is_some() {
            return Ok(true);
        }
        let Err(verdict) = self.rejected.get_value_or_guard_async(&tag).await else {
            return Ok(false);
        };
        // The verification that this one waited for may have succeeded.
        if self.verified.get(&tag).is_some() {
            return Ok(true);
        }
        let is_verified = self.verify(client, account, password.to_owned()).await?;
        if is_verified {
            self.verified.insert(tag, ());
        } else {
            // If the entry was evicted meanwhile, the next attempt is verified again.
            let _ = verdict.insert(());
        }
        Ok(is_verified)
    }

    /// Verifies a password; without an `account` it takes as long and fails. If the caller gives up, its place is free again, but a
    /// verification that has begun runs to its end.
    async fn verify(
        &self,
        client: IpAddr,
        account: Option<&CheckedAccount>,
        password: String,
    ) -> Result<bool, TooManyChecks> {
        let _of_client = self
            .waiting_by_client
            .count(Holder::of_client(client), MAX_WAITING_OF_CLIENT)
            .ok_or(TooManyChecks)?;
        let checked = account.unwrap_or(&self.unknown_account);
        let hash = Arc::clone(&checked.hash);
        let _of_name = checked.waiting.try_acquire().map_err(|_| TooManyChecks)?;
        let _waiting = self.waiting.try_acquire().map_err(|_| TooManyChecks)?;
        let permit = Arc::clone(&self.running).acquire_owned().await;
        let verifying = tokio::task::spawn_blocking(move || {
            let _permit = permit.expect("it is never closed");
            let hash = PasswordHash::new(&hash).expect("it was checked when it was read");
            Argon2::default().verify_password(password.as_bytes(), &hash).is_ok()
        });
        // A verification that panicked proves nothing.
        Ok(verifying.await.unwrap_or(false) && account.is_some())
    }
}

impl fmt::Debug for PasswordChecker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passwords").finish_non_exhaustive()
    }
}

/// Returns the cost of verifying a hash: memory times rounds.
fn cost(hash: &str) -> u64 {
    PasswordHash::new(hash)
        .ok()
        .and_then(|parsed| argon2::Params::try_from(&parsed).ok())
        .map_or(0, |params| u64::from(params.m_cost()) * u64::from(params.t_cost()))
}

/// Returns the user name and password of Basic credentials with a colon between them.
fn basic(field: &[u8]) -> Option<String> {
    let (scheme, encoded) = str::from_utf8(field).ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = STANDARD.decode(encoded.trim()).ok()?;
    String::from_utf8(decoded).ok()
}

/// Checks that `hash` is an argon2id hash in PHC form that can be verified.
///
/// # Errors
///
/// Describes the fault.
pub fn check_hash(hash: &str) -> Result<(), String> {
    // Messages omit quoted secrets, but not an example that "such as" introduces.
    let unusable = "is not an argon2id hash in PHC form, such as \"$argon2id$v=19$...\"";
    if !hash.starts_with("$argon2id$") {
        return Err(unusable.to_owned());
    }
    let parsed = PasswordHash::new(hash).map_err(|error| format!("{unusable}: {error}"))?;
    if parsed.salt.is_none() || parsed.hash.is_none() {
        return Err(format!("{unusable}: salt or hash is missing"));
    }
    argon2::Params::try_from(&parsed).map_err(|error| format!("{unusable}: {error}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::pin::Pin;

    use argon2::password_hash::PasswordHasher;
    use futures_util::FutureExt;

    use super::*;

    fn field(credentials: &str) -> Vec<u8> {
        format!("Basic {}", STANDARD.encode(credentials)).into_bytes()
    }

    /// Returns a hash that is cheap to verify.
    fn hash(password: &str) -> String {
        let params = argon2::Params::new(8, 1, 1, None).unwrap();
        let hash: PasswordHash =
            Argon2::from(params).hash_password_with_salt(password.as_bytes(), b"saltsalt").unwrap();
        hash.to_string()
    }

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

    fn passwords<const N: usize>(hashes: [(&str, String); N]) -> PasswordChecker {
        let hashes = hashes.map(|(name, hash)| (name.to_owned(), hash));
        PasswordChecker::new(&HashMap::from(hashes))
    }

    async fn proven(passwords: &PasswordChecker, credentials: &str) -> Option<String> {
        let proof = passwords.prove(CLIENT, &field(credentials)).await;
        proof.unwrap().map(|proof| proof.username.to_string())
    }

    #[tokio::test]
    async fn only_the_right_password_proves_a_name() {
        let passwords = passwords([("news", hash("secret"))]);
        for _ in 0..2 {
            let name = proven(&passwords, "news:secret").await;
            assert_eq!(name.as_deref(), Some("news"));
            assert_eq!(proven(&passwords, "news:wrong").await, None);
            assert_eq!(proven(&passwords, "other:secret").await, None);
        }
        for other in [&b"Bearer abc"[..], b"Basic !"] {
            let proof = passwords.prove(CLIENT, other).await;
            assert!(proof.unwrap().is_none());
        }
    }

    #[tokio::test]
    async fn unknown_name_costs_as_much_as_the_costliest() {
        let params = argon2::Params::new(64, 3, 1, None).unwrap();
        let costly: PasswordHash =
            Argon2::from(params).hash_password_with_salt(b"other", b"saltsalt").unwrap();
        let passwords = passwords([("a", hash("secret")), ("b", costly.to_string())]);
        assert_eq!(*passwords.unknown_account.hash, costly.to_string());
        assert_eq!(proven(&passwords, "c:other").await, None);
        assert_eq!(proven(&passwords, "b:other").await.as_deref(), Some("b"));
        assert_eq!(proven(&passwords, "a:se\0cret").await, None);
    }

    #[tokio::test]
    async fn a_proof_holds_for_as_long_as_its_password() {
        let before = passwords([("news", hash("secret"))]);
        let proof = before.prove(CLIENT, &field("news:secret")).await;
        let proof = proof.unwrap().unwrap();
        assert!(before.is_still_valid(&proof));
        assert!(!passwords([("news", hash("other"))]).is_still_valid(&proof));
        assert!(!passwords([("other", hash("secret"))]).is_still_valid(&proof));
    }

    /// Credentials that wait for a verification that does not begin.
    struct Guess<'a>(
        Pin<Box<dyn Future<Output = Result<Option<PasswordProof>, TooManyChecks>> + 'a>>,
    );

    impl<'a> Guess<'a> {
        fn new(passwords: &'a PasswordChecker, client: IpAddr, credentials: &str) -> Self {
            let field = field(credentials);
            Self(Box::pin(async move { passwords.prove(client, &field).await }))
        }

        /// Polls it once, and returns whether it waits.
        fn waits(&mut self) -> bool {
            match self.0.as_mut().now_or_never() {
                None => true,
                Some(Err(TooManyChecks)) => false,
                Some(Ok(_)) => panic!("nobody can be verified"),
            }
        }
    }

    #[tokio::test]
    async fn waiting_is_limited_in_all_by_client_and_by_name() {
        let names = ["news", "a", "b", "c", "d", "e"];
        let passwords = passwords(names.map(|name| (name, hash("secret"))));
        assert!(proven(&passwords, "news:secret").await.is_some());
        let permits = passwords.running.available_permits().try_into().unwrap();
        let busy = Arc::clone(&passwords.running).try_acquire_many_owned(permits).unwrap();
        let guess = |client, number: usize| {
            let mut guess = Guess::new(&passwords, client, &format!("news:{number}"));
            guess.waits().then_some(guess)
        };
        let mut own: Vec<_> = (0..10).filter_map(|n| guess(CLIENT, n)).collect();
        assert_eq!(own.len(), MAX_WAITING_OF_CLIENT);
        let mut same = Guess::new(&passwords, CLIENT, "news:0");
        assert!(same.waits(), "one verification is for all that present the same");
        assert!(guess(OTHER, 100).is_some(), "other clients have places");
        assert!(proven(&passwords, "news:secret").await.is_some(), "it is known");
        own.pop();
        own.extend(guess(CLIENT, 20));
        assert_eq!(own.len(), MAX_WAITING_OF_CLIENT, "the place is free again");
        drop((own, same));
        let guesses_from_everywhere = |name: &str| -> Vec<_> {
            let guess = |last: u8| {
                let credentials = format!("{name}:{last}");
                let mut guess = Guess::new(&passwords, [198, 51, 100, last].into(), &credentials);
                guess.waits().then_some(guess)
            };
            (0..255).filter_map(guess).collect()
        };
        for name in ["news", "nobody"] {
            let at_one = guesses_from_everywhere(name);
            assert_eq!(at_one.len(), MAX_WAITING_OF_NAME, "{name}");
            let mut other = Guess::new(&passwords, CLIENT, "a:secret");
            assert!(other.waits(), "another name than {name} has places");
        }
        let at_all: Vec<_> = names.map(guesses_from_everywhere).into();
        assert_eq!(at_all.iter().flatten().count(), MAX_WAITING);
        drop((at_all, busy));
        assert_eq!(proven(&passwords, "news:30").await, None, "all is as before");
    }

    #[test]
    fn a_hash_is_checked_before_it_is_used() {
        assert_eq!(check_hash(&hash("secret")), Ok(()));
        for unusable in [
            "secret",
            "$argon2id$",
            "$argon2id$v=19$m=8,t=1,p=1",
            "$argon2i$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$AAAA",
        ] {
            assert!(check_hash(unusable).is_err(), "{unusable}");
        }
    }
}
