//! TLS settings towards clients and origins.

pub(crate) mod entrance;
pub(crate) mod intercept;
pub(crate) mod pem_file;

use std::io;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::{AlertDescription, CipherSuite, ClientConfig};
use tokio_rustls::TlsConnector;

/// The first byte of a TLS handshake record (RFC 8446 section 5.1).
pub(crate) const HANDSHAKE: u8 = 0x16;

/// ring, with AES-128 before AES-256, which no attacker makes a difference between: it is what TLS 1.3 demands of
/// everyone, most large origins choose it, and its SHA-256 costs processors with SHA instructions a fifth of SHA-384.
/// A handshake computes a few hundred of them.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    // Stable: the others keep rustls' order.
    provider.cipher_suites.sort_by_key(|suite| {
        let is_preferred = matches!(
            suite.suite(),
            CipherSuite::TLS13_AES_128_GCM_SHA256
                | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
                | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
        );
        !is_preferred
    });
    Arc::new(provider)
}

/// Connects by `config`, but offers these protocols (ALPN, RFC 7301), the preferred one first.
pub(crate) fn offering(config: &ClientConfig, protocols: &[&[u8]]) -> TlsConnector {
    let mut config = config.clone();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

/// What went wrong in TLS, if that is what `error` is about.
pub(crate) fn cause(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// Whether the peer takes none of the protocols that it was offered (RFC 7301 section 3.2).
pub(crate) fn refuses_protocols(error: &rustls::Error) -> bool {
    *error == rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)
}

#[cfg(test)]
mod tests {
    use rustls::SupportedCipherSuite;

    use super::*;

    #[test]
    fn aes_128_comes_first_and_nothing_is_missing() {
        let suites = |provider: &CryptoProvider| {
            let suites = provider.cipher_suites.iter();
            suites.map(SupportedCipherSuite::suite).collect::<Vec<_>>()
        };
        let ours = suites(&provider());
        let mut theirs = suites(&ring::default_provider());
        assert_eq!(ours[0], CipherSuite::TLS13_AES_128_GCM_SHA256);
        assert_eq!(ours.len(), theirs.len());
        theirs.retain(|suite| !ours.contains(suite));
        assert_eq!(theirs, []);
    }
}
