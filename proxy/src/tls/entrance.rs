//! TLS to the proxy itself.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::TlsAcceptor;

use crate::tls;

/// A certificate with its chain and its key, as two files had them.
#[derive(Clone)]
pub(crate) struct OwnCertificate {
    pub(crate) path: PathBuf,
    pub(crate) key_path: PathBuf,
    certified: Arc<CertifiedKey>,
}

impl OwnCertificate {
    /// Reads both files.
    ///
    /// # Errors
    ///
    /// Returns an error if one of them cannot be read or used, or if they do not belong together.
    pub(crate) fn read(certificate: &Path, key: &Path) -> anyhow::Result<Self> {
        let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
        let chain: Vec<_> = chain.with_context(|| certificate.display().to_string())?;
        ensure!(
            !chain.is_empty(),
            "{} contains no certificate",
            certificate.display()
        );
        let private = PrivateKeyDer::from_pem_file(key);
        let private = private.with_context(|| key.display().to_string())?;
        let certified = CertifiedKey::from_der(chain, private, &tls::provider());
        let certified = certified
            .with_context(|| format!("{} and {}", certificate.display(), key.display()))?;
        Ok(Self {
            path: certificate.to_owned(),
            key_path: key.to_owned(),
            certified: Arc::new(certified),
        })
    }
}

impl PartialEq for OwnCertificate {
    fn eq(&self, other: &Self) -> bool {
        // The key belongs to the certificate.
        (&self.path, &self.key_path) == (&other.path, &other.key_path)
            && self.certified.cert == other.certified.cert
    }
}

impl Eq for OwnCertificate {}

impl fmt::Debug for OwnCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnCertificate").field(&self.path).finish()
    }
}

/// How TLS to the proxy is ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) certificate: OwnCertificate,
}

/// Ends TLS to the proxy.
pub(crate) struct Entrance {
    options: Options,
    config: Arc<ServerConfig>,
}

impl Entrance {
    /// An entrance with these options.
    ///
    /// # Errors
    ///
    /// Returns an error if they cannot be used.
    pub(crate) fn new(options: Options) -> anyhow::Result<Self> {
        let builder = ServerConfig::builder_with_provider(tls::provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth();
        let certified = SingleCertAndKey::from(Arc::clone(&options.certificate.certified));
        let mut config = builder.with_cert_resolver(Arc::new(certified));
        config.ignore_client_order = true;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            options,
            config: Arc::new(config),
        })
    }

    /// The files that it was read from.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let OwnCertificate { path, key_path, .. } = &self.options.certificate;
        vec![path.clone(), key_path.clone()]
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }
}

impl PartialEq for Entrance {
    fn eq(&self, other: &Self) -> bool {
        self.options == other.options
    }
}

impl Eq for Entrance {}

impl fmt::Debug for Entrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entrance")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
