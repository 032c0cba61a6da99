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

use crate::identity::per_client::ClientCounts;

/// Verified credentials that are remembered: right ones, and wrong ones apart from them, so that no guessing drives a right one out.
const CREDENTIAL_CAPACITY: usize = 4096;
/// Verifications that wait at one time, of all clients, of one, and for one user name, all that nobody has being one. Each takes
/// some 30 ms, so that who may wait does not wait much longer than a second; guessers of one name, wherever they come from, leave
/// room for the others.
const MAX_WAITING: usize = 32;
const MAX_WAITING_OF_CLIENT: usize = 4;
const MAX_WAITING_OF_NAME: usize = 8;

/// Verifies user names and passwords.
///
/// A verification takes tens of milliseconds of a processor on purpose, so it runs off the async
/// threads, few at a time, and its result is remembered under a keyed hash of the credentials.
pub(super) struct PasswordChecker {
    accounts: HashMap<String, CheckedAccount>,
    /// With the costliest of their hashes, for names that nobody has: a guess takes as long as for one that somebody has.
    unknown_account: CheckedAccount,
    right: Cache<CredentialTag, ()>,
    /// Those that show the same credentials wait for one verification.
    wrong: Cache<CredentialTag, ()>,
    key: hmac::Key,
    at_once: Arc<Semaphore>,
    waiting: Semaphore,
    waiting_by_client: Arc<ClientCounts>,
}

/// What a user name stands for.
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

/// A user name that was proved, and by which password.
#[derive(Clone)]
pub(crate) struct PasswordProof {
    pub(crate) username: Arc<str>,
    hash: Arc<str>,
}

impl fmt::Debug for PasswordProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Proof").field(&self.username).finish()
    }
}

/// As many verifications wait as may, of all or of some kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyChecks;

impl PasswordChecker {
    /// `hashes` are user names with argon2 hashes in PHC form, of which there is at least one.
    pub(super) fn new(hashes: &HashMap<String, String>) -> Self {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .expect("the system has random bytes");
        // Half of the processors go on serving.
        let at_once = available_parallelism().map_or(1, |count| count.get().div_ceil(2));
        let costliest = hashes.values().max_by_key(|hash| cost(hash));
        let hashes = hashes.iter();
        Self {
            unknown_account: CheckedAccount::new(costliest.map_or("", String::as_str)),
            accounts: hashes
                .map(|(name, hash)| (name.clone(), CheckedAccount::new(hash)))
                .collect(),
            right: Cache::new(CREDENTIAL_CAPACITY),
            wrong: Cache::new(CREDENTIAL_CAPACITY),
            key,
            at_once: Arc::new(Semaphore::new(at_once)),
            waiting: Semaphore::new(MAX_WAITING),
            waiting_by_client: Arc::default(),
        }
    }

    /// Whether these are the accounts.
    pub(super) fn has_accounts(&self, hashes: &HashMap<String, String>) -> bool {
        let has = |(name, hash): (&String, &String)| {
            let own = self.accounts.get(name);
            own.is_some_and(|own| *own.hash == **hash)
        };
        self.accounts.len() == hashes.len() && hashes.iter().all(has)
    }

    /// Whether what was proved once would be by the same password now.
    pub(super) fn is_still_valid(&self, proof: &PasswordProof) -> bool {
        let account = self.accounts.get(&*proof.username);
        account.is_some_and(|account| account.hash == proof.hash)
    }

    /// What the value of `Proxy-Authorization` proves, if it proves anything.
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
        // A user name holds no colon, so no others are written the same.
        let Some((username, password)) = credentials.split_once(':') else {
            return Ok(None);
        };
        let tag = hmac::sign(&self.key, credentials.as_bytes());
        let tag: CredentialTag = tag.as_ref().try_into().expect("SHA-256 has 32 bytes");
        let known = self.accounts.get(username);
        let proof = known.map(|account| PasswordProof {
            username: username.into(),
            hash: Arc::clone(&account.hash),
        });
        let is_right = self.is_right(client, tag, known, password).await?;
        Ok(proof.filter(|_| is_right))
    }

    async fn is_right(
        &self,
        client: IpAddr,
        tag: CredentialTag,
        account: Option<&CheckedAccount>,
        password: &str,
    ) -> Result<bool, TooManyChecks> {
        if self.right.get(&tag).is_some() {
            return Ok(true);
        }
        let Err(verdict) = self.wrong.get_value_or_guard_async(&tag).await else {
            return Ok(false);
        };
        // Who waited for this verdict finds it here.
        if self.right.get(&tag).is_some() {
            return Ok(true);
        }
        let is_right = self.verify(client, account, password.to_owned()).await?;
        if is_right {
            self.right.insert(tag, ());
        } else {
            // A verdict that was forgotten meanwhile is reached again.
            let _ = verdict.insert(());
        }
        Ok(is_right)
    }

    /// Verifies a password, of nobody without an `account`. Giving it up gives the place up; a verification that has begun ends first.
    async fn verify(
        &self,
        client: IpAddr,
        account: Option<&CheckedAccount>,
        password: String,
    ) -> Result<bool, TooManyChecks> {
        let counted = self.waiting_by_client.count(client, MAX_WAITING_OF_CLIENT);
        let _counted = counted.ok_or(TooManyChecks)?;
        let is_known = account.is_some();
        let account = account.unwrap_or(&self.unknown_account);
        let _of_name = account.waiting.try_acquire().map_err(|_| TooManyChecks)?;
        let _waiting = self.waiting.try_acquire().map_err(|_| TooManyChecks)?;
        let hash = Arc::clone(&account.hash);
        let permit = Arc::clone(&self.at_once).acquire_owned().await;
        let verifying = tokio::task::spawn_blocking(move || {
            let _permit = permit.expect("it is never closed");
            let hash = PasswordHash::new(&hash).expect("it was checked when it was read");
            let verified = Argon2::default().verify_password(password.as_bytes(), &hash);
            verified.is_ok()
        });
        // A verification that panicked proves nothing.
        Ok(verifying.await.unwrap_or(false) && is_known)
    }
}

impl fmt::Debug for PasswordChecker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passwords").finish_non_exhaustive()
    }
}

/// What it takes to verify a hash: memory times rounds.
fn cost(hash: &str) -> u64 {
    let parsed = PasswordHash::new(hash).ok();
    let params = parsed.and_then(|parsed| argon2::Params::try_from(&parsed).ok());
    params.map_or(0, |params| u64::from(params.m_cost()) * u64::from(params.t_cost()))
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
    use std::net::Ipv4Addr;
    use std::pin::Pin;

    use argon2::password_hash::PasswordHasher;
    use futures_util::FutureExt;

    use super::*;

    fn field(credentials: &str) -> Vec<u8> {
        format!("Basic {}", STANDARD.encode(credentials)).into_bytes()
    }

    /// Cheap to verify.
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
    async fn nobody_is_as_dear_as_the_dearest_and_proves_nothing() {
        let params = argon2::Params::new(64, 3, 1, None).unwrap();
        let dear: PasswordHash =
            Argon2::from(params).hash_password_with_salt(b"other", b"saltsalt").unwrap();
        let passwords = passwords([("a", hash("secret")), ("b", dear.to_string())]);
        assert_eq!(*passwords.unknown_account.hash, dear.to_string());
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

    /// Credentials on their way to a verdict that does not come.
    struct Guess<'a>(
        Pin<Box<dyn Future<Output = Result<Option<PasswordProof>, TooManyChecks>> + 'a>>,
    );

    impl<'a> Guess<'a> {
        fn new(passwords: &'a PasswordChecker, client: IpAddr, credentials: &str) -> Self {
            let field = field(credentials);
            Self(Box::pin(async move { passwords.prove(client, &field).await }))
        }

        /// Whether it waits after it was looked at once.
        fn waits(&mut self) -> bool {
            let polled = self.0.as_mut().now_or_never();
            match polled {
                None => true,
                Some(Err(TooManyChecks)) => false,
                Some(Ok(_)) => panic!("nobody can be verified"),
            }
        }
    }

    #[tokio::test]
    async fn as_many_wait_as_may_in_all_of_each_client_and_for_each_name() {
        let names = ["news", "a", "b", "c", "d", "e"];
        let passwords = passwords(names.map(|name| (name, hash("secret"))));
        assert!(proven(&passwords, "news:secret").await.is_some());
        let taken = passwords.at_once.available_permits();
        let busy = Arc::clone(&passwords.at_once);
        let busy = busy.try_acquire_many_owned(taken.try_into().unwrap());
        let busy = busy.unwrap();
        let guess = |client, number: usize| {
            let mut guess = Guess::new(&passwords, client, &format!("news:{number}"));
            guess.waits().then_some(guess)
        };
        let mut own: Vec<_> = (0..10).filter_map(|n| guess(CLIENT, n)).collect();
        assert_eq!(own.len(), MAX_WAITING_OF_CLIENT);
        let mut same = Guess::new(&passwords, CLIENT, "news:0");
        assert!(same.waits(), "one verification is for all who show the same");
        assert!(guess(OTHER, 100).is_some(), "others have room");
        assert!(proven(&passwords, "news:secret").await.is_some(), "it is known");
        own.pop();
        own.extend(guess(CLIENT, 20));
        assert_eq!(own.len(), MAX_WAITING_OF_CLIENT, "who left made room");
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
            let mut right = Guess::new(&passwords, CLIENT, "a:secret");
            assert!(right.waits(), "another name has room beside {name}");
        }
        let at_all: Vec<_> = names.map(guesses_from_everywhere).into();
        assert_eq!(at_all.iter().flatten().count(), MAX_WAITING);
        drop((at_all, busy));
        assert_eq!(proven(&passwords, "news:30").await, None, "all is as before");
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
