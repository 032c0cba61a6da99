//! TLS to the proxy itself: the certificate it presents, and the client certificates it accepts.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use anyhow::Context;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;
use wayleave_evidence::Sha256Digest;

use super::pem_file::{self, PemFile};
use crate::tls;

/// A certificate with its chain and key, as read from two files.
#[derive(Clone)]
pub struct ServerCertificate {
    pub path: PathBuf,
    pub(crate) key_path: PathBuf,
    /// The digests of both files, the key's last.
    digests: [Sha256Digest; 2],
    certified: Arc<CertifiedKey>,
}

impl ServerCertificate {
    /// Reads both files.
    ///
    /// # Errors
    ///
    /// If one of them cannot be read or used, or if they do not belong together.
    pub fn read(certificate: &Path, key: &Path) -> anyhow::Result<Self> {
        let (chain, digest) =
            pem_file::read_certificates(certificate).map_err(anyhow::Error::msg)?;
        let read_key = fs::read(key)
            .map_err(pem::Error::Io)
            .and_then(|text| Ok((PrivateKeyDer::from_pem_slice(&text)?, Sha256Digest::of(&text))));
        let (private, key_digest) = read_key.with_context(|| key.display().to_string())?;
        let certified = CertifiedKey::from_der(chain, private, &tls::provider())
            .with_context(|| format!("{} and {}", certificate.display(), key.display()))?;
        Ok(Self {
            path: certificate.to_owned(),
            key_path: key.to_owned(),
            digests: [digest, key_digest],
            certified: Arc::new(certified),
        })
    }
}

impl PartialEq for ServerCertificate {
    fn eq(&self, other: &Self) -> bool {
        // The key belongs to the certificate, so it need not be compared.
        (&self.path, &self.key_path) == (&other.path, &other.key_path)
            && self.certified.cert == other.certified.cert
    }
}

impl Eq for ServerCertificate {}

impl fmt::Debug for ServerCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerCertificate").field(&self.path).finish()
    }
}

/// The settings of TLS to the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTlsSettings {
    pub certificate: ServerCertificate,
    /// The authorities of client certificates, if clients are asked for them.
    pub client_authorities: Option<PemFile>,
}

/// Terminates TLS to the proxy, and verifies client certificates.
pub struct ServerTls {
    settings: ServerTlsSettings,
    /// A number that no other instance has.
    id: u64,
    config: Arc<ServerConfig>,
    client_verifier: Option<Arc<dyn ClientCertVerifier>>,
}

impl ServerTls {
    /// Creates an instance with these settings.
    ///
    /// # Errors
    ///
    /// If they cannot be used.
    pub fn new(settings: ServerTlsSettings) -> anyhow::Result<Self> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let builder = ServerConfig::builder_with_provider(tls::provider())
            .with_safe_default_protocol_versions()?;
        let client_verifier =
            settings.client_authorities.as_ref().map(client_verifier).transpose()?;
        let builder = match &client_verifier {
            Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
            None => builder.with_no_client_auth(),
        };
        let certified = SingleCertAndKey::from(Arc::clone(&settings.certificate.certified));
        let mut config = builder.with_cert_resolver(Arc::new(certified));
        // Our order, which begins with AES-128 (`tls::provider`).
        config.ignore_client_order = true;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Ok(Self { settings, id, config: Arc::new(config), client_verifier })
    }

    /// Returns whether clients are asked for certificates.
    pub fn requests_client_certificates(&self) -> bool {
        self.client_verifier.is_some()
    }

    /// Returns the files that the settings were read from, with the digest of each.
    pub fn files(&self) -> Vec<(PathBuf, Sha256Digest)> {
        let ServerCertificate { path, key_path, digests, .. } = &self.settings.certificate;
        let mut files = vec![(path.clone(), digests[0]), (key_path.clone(), digests[1])];
        let authorities = self.settings.client_authorities.iter();
        files.extend(authorities.map(|file| (file.path.clone(), file.digest)));
        files
    }

    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }

    /// Returns a number that no other instance has.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns whether a client could present this chain, leaf first, at this time.
    pub fn accepts_client(&self, chain: &[CertificateDer<'_>], now: SystemTime) -> bool {
        let (Some(verifier), Some((leaf, intermediates))) =
            (&self.client_verifier, chain.split_first())
        else {
            return false;
        };
        let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(since_epoch);
        verifier.verify_client_cert(leaf, intermediates, now).is_ok()
    }
}

/// Creates the verifier of client certificates. A client may present none: then it is identified by other means, or not
/// at all.
fn client_verifier(roots: &PemFile) -> anyhow::Result<Arc<dyn ClientCertVerifier>> {
    let mut store = RootCertStore::empty();
    for root in &roots.certificates {
        store.add(root.clone())?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(store), tls::provider());
    Ok(builder.allow_unauthenticated().build()?)
}

impl PartialEq for ServerTls {
    fn eq(&self, other: &Self) -> bool {
        self.settings == other.settings
    }
}

impl Eq for ServerTls {}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").field("settings", &self.settings).finish_non_exhaustive()
    }
}
