//! One certificate for the proxy's listener and the origin, and the configurations around it.

use std::path::Path;
use std::sync::Arc;

use rcgen::{CertifiedKey, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// The name of the proxy's `https://` listener.
pub(crate) const PROXY: &str = "proxy.test";
/// The host that has HTTP/2.
pub(crate) const STREAMS: &str = "streams.test";

/// A certificate that signs itself, with its key.
pub(crate) struct Certificate(CertifiedKey<KeyPair>);

impl Certificate {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let names = vec![PROXY.to_owned(), STREAMS.to_owned()];
        Ok(Self(rcgen::generate_simple_self_signed(names)?))
    }

    pub(crate) fn pem(&self) -> String {
        self.0.cert.pem()
    }

    pub(crate) fn key_pem(&self) -> String {
        self.0.signing_key.serialize_pem()
    }

    /// Returns the configuration of an origin with HTTP/2.
    pub(crate) fn server(&self) -> anyhow::Result<Arc<ServerConfig>> {
        let key = PrivateKeyDer::from_pem_slice(self.key_pem().as_bytes())?;
        let mut config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![self.0.cert.der().clone()], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// Returns the configuration of a client that has HTTP/2 with the proxy, and inside of its tunnels.
    pub(crate) fn client(&self, proxy_ca: &Path) -> anyhow::Result<Arc<ClientConfig>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.cert.der().clone())?;
        roots.add(CertificateDer::from_pem_file(proxy_ca)?)?;
        let mut config =
            ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(config))
    }
}
