//! Proof of a client's identity: passwords and certificates.

mod certificate;
mod passwords;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use wayleave_clock::system_time;
use wayleave_decision::Crawler;
use wayleave_transport::tls::server::ServerTls;

pub use self::certificate::ClientCertificate;
use self::passwords::PasswordChecker;
pub use self::passwords::{PasswordProof, TooManyChecks, check_hash};

/// Checks the passwords and certificates of clients.
#[derive(Debug, Default)]
pub struct Authenticator {
    /// None if no crawler has a password.
    passwords: Option<Arc<PasswordChecker>>,
    /// The settings of `https://` listeners, which determine the certificates that are accepted.
    tls: Option<Arc<ServerTls>>,
}

impl Authenticator {
    /// Creates the authenticator for these crawlers. If no password has changed, it keeps the results of `before`, so that a
    /// reload costs no client another verification.
    pub fn replacing(
        before: Option<&Self>,
        crawlers: &[Crawler],
        tls: Option<Arc<ServerTls>>,
    ) -> Self {
        let hashes: HashMap<_, _> = crawlers
            .iter()
            .filter_map(|crawler| crawler.account.as_ref())
            .map(|account| (account.username.clone(), account.password_hash.clone()))
            .collect();
        let kept = before
            .and_then(|before| before.passwords.clone())
            .filter(|passwords| passwords.has_accounts(&hashes));
        let passwords =
            kept.or_else(|| (!hashes.is_empty()).then(|| Arc::new(PasswordChecker::new(&hashes))));
        Self { passwords, tls }
    }

    /// Returns whether a certificate that was verified is still valid.
    pub(crate) fn is_still_trusted(&self, certificate: &ClientCertificate) -> bool {
        // Certificates state calendar time, which a `Clock` does not follow exactly.
        certificate.is_still_valid(self.tls.as_deref(), system_time())
    }

    /// Returns whether some crawler is recognised by a user name.
    pub fn uses_passwords(&self) -> bool {
        self.passwords.is_some()
    }

    /// Checks the value of `Proxy-Authorization`. Returns none if it proves nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if too many verifications wait.
    pub async fn prove(
        &self,
        client: IpAddr,
        credentials: &[u8],
    ) -> Result<Option<PasswordProof>, TooManyChecks> {
        match &self.passwords {
            Some(passwords) => passwords.prove(client, credentials).await,
            None => Ok(None),
        }
    }

    /// Returns whether the password that was proved is still the account's.
    pub(crate) fn is_still_valid(&self, proof: &PasswordProof) -> bool {
        self.passwords.as_ref().is_some_and(|passwords| passwords.is_still_valid(proof))
    }
}

#[cfg(test)]
mod tests {

    use wayleave_decision::ProxyAccount;
    use wayleave_robots_txt::ProductToken;

    use super::*;

    fn crawler(hash: &str) -> Crawler {
        Crawler {
            account: Some(ProxyAccount {
                username: "news".to_owned(),
                password_hash: hash.to_owned(),
            }),
            ..Crawler::new("news", vec![ProductToken::new("ExampleBot").unwrap()])
        }
    }

    #[test]
    fn a_reload_keeps_what_was_verified_unless_a_password_changed() {
        let before = Authenticator::replacing(None, &[crawler("one")], None);
        let kept = |hash| {
            let after = Authenticator::replacing(Some(&before), &[crawler(hash)], None);
            let before = before.passwords.as_ref();
            let after = after.passwords;
            Arc::ptr_eq(before.expect("one has"), &after.expect("one has"))
        };
        assert!(kept("one"));
        assert!(!kept("other"));
        let none = Authenticator::replacing(Some(&before), &[], None);
        assert!(!none.uses_passwords());
    }
}
