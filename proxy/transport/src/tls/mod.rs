//! TLS settings, downstream and upstream.

pub mod intercept;
pub mod listed_certificates;
pub mod pem_file;
pub mod roots;
pub mod server;

use std::io;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::{AlertDescription, CipherSuite, ClientConfig};
use tokio_rustls::TlsConnector;

/// The first byte of a TLS handshake record (RFC 8446 section 5.1).
pub const HANDSHAKE_RECORD: u8 = 0x16;

/// Returns ring with AES-128 before AES-256. No attacker can exploit the difference: TLS 1.3 requires AES-128 of
/// everyone, and most large origins choose it. Its SHA-256 takes a fifth of the time of SHA-384 on processors with
/// SHA instructions, and a handshake computes a few hundred of them.
pub fn provider() -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    // A stable sort: the other suites keep rustls' order.
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

/// Creates a connector from `config` that offers these protocols (ALPN, RFC 7301), the preferred one first.
pub fn connector_offering(config: &ClientConfig, protocols: &[&[u8]]) -> TlsConnector {
    let mut offering = config.clone();
    offering.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    TlsConnector::from(Arc::new(offering))
}

/// Returns the TLS error inside `error`, if there is one.
pub fn rustls_error(error: &io::Error) -> Option<&rustls::Error> {
    // tokio-rustls wraps it, because its streams report I/O errors.
    error.get_ref()?.downcast_ref()
}

/// Returns whether the peer supports none of the protocols that it was offered (RFC 7301 section 3.2).
pub fn is_alpn_refusal(error: &rustls::Error) -> bool {
    *error == rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)
}

#[cfg(test)]
mod tests {
    use rustls::SupportedCipherSuite;

    use super::*;

    #[test]
    fn aes_128_is_first_and_no_suite_is_lost() {
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
