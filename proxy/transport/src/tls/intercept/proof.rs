//! The proof that a process has the CA's key: a certificate for a name that nobody could have known before. Everybody has the CA's
//! certificate, so that whoever shows it proves nothing.

use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use ring::rand::SystemRandom;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

use super::ca::CertificateAuthority;
use crate::tls;

/// The domain of the names, which no origin can have (RFC 6761 section 6.4).
const DOMAIN: &str = "proof.wayleave.invalid";

/// A number that is used once, to ask for a proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProofNonce(String);

impl ProofNonce {
    /// The number of its hexadecimal digits.
    const DIGITS: usize = 32;

    pub fn random() -> Self {
        let random: ring::rand::Random<[u8; Self::DIGITS / 2]> =
            ring::rand::generate(&SystemRandom::new()).expect("the system has random numbers");
        Self(random.expose().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Parses the number in a request.
    pub fn parse(text: &str) -> Option<Self> {
        let is_nonce = text.len() == Self::DIGITS
            && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        is_nonce.then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn name(&self) -> String {
        format!("{}.{DOMAIN}", self.0)
    }
}

impl CertificateAuthority {
    /// Returns the proof for `nonce`, in DER.
    ///
    /// # Errors
    ///
    /// Returns an error if no key can be generated.
    pub fn prove(&self, nonce: &ProofNonce, now: SystemTime) -> anyhow::Result<Vec<u8>> {
        // Its private half is dropped: nobody can serve the name.
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).context("generating a key")?;
        let chain = self.mint(&nonce.name(), &key, now)?;
        Ok(chain[0].to_vec())
    }
}

/// Returns whether `proof` was made for `nonce` with the key of the CA that has this certificate, which is PEM.
pub fn is_proof(certificate: &[u8], proof: &[u8], nonce: &ProofNonce, now: SystemTime) -> bool {
    let check = || -> anyhow::Result<()> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(certificate)?)?;
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), tls::provider())
                .build()?;
        let leaf = CertificateDer::from(proof);
        let name = ServerName::try_from(nonce.name())?;
        let now = UnixTime::since_unix_epoch(now.duration_since(SystemTime::UNIX_EPOCH)?);
        verifier.verify_server_cert(&leaf, &[], &name, &[], now)?;
        Ok(())
    };
    check().is_ok()
}

#[cfg(test)]
mod tests {
    use wayleave_clock::system_time;

    use super::*;

    fn authority() -> CertificateAuthority {
        let dir = tempfile::tempdir().unwrap();
        CertificateAuthority::load_or_create(dir.path()).unwrap()
    }

    #[test]
    fn only_the_holder_of_the_key_proves_it() {
        let own = authority();
        let other = authority();
        let now = system_time();
        let nonce = ProofNonce::random();
        let certificate = own.certificate_pem().as_bytes();
        let proof = own.prove(&nonce, now).unwrap();
        assert!(is_proof(certificate, &proof, &nonce, now));
        let others = other.prove(&nonce, now).unwrap();
        let earlier = own.prove(&ProofNonce::random(), now).unwrap();
        let its_own = CertificateDer::from_pem_slice(certificate).unwrap();
        for wrong in [&others, &earlier, &*its_own, certificate, b"", b"nothing"] {
            assert!(!is_proof(certificate, wrong, &nonce, now), "{wrong:x?}");
        }
    }

    #[test]
    fn a_nonce_is_not_any_name() {
        let nonce = ProofNonce::random();
        assert_eq!(ProofNonce::parse(nonce.as_str()), Some(nonce.clone()));
        assert_ne!(ProofNonce::random(), nonce);
        let upper = "A".repeat(ProofNonce::DIGITS);
        for text in
            ["", "shop.example", &upper, &nonce.as_str()[1..], &format!("{}0", nonce.as_str())]
        {
            assert_eq!(ProofNonce::parse(text), None, "{text}");
        }
    }
}
