//! Termination of TLS in place of the origin, with a server configuration and a leaf certificate for each host.

mod ca;
mod proof;

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context;
use quick_cache::sync::Cache;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::{ProducesTickets, ServerSessionMemoryCache, StoresServerSessions};
use rustls::sign::{CertifiedKey, SigningKey, SingleCertAndKey};
use rustls::{AlertDescription, ServerConfig};

use self::ca::LEAF_LIFETIME;
pub use self::ca::{CertificateAuthority, exposed_key_warning, is_wayleave_ca};
pub use self::proof::{ProofNonce, is_proof};
use crate::tls;

/// The most hosts whose leaf is cached, at about 2 KiB each. The least used are evicted.
const MAX_CACHED_LEAVES: usize = 10_000;
const MAX_CACHED_SESSIONS: usize = 10_000;

/// The source of a server configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafCacheResult {
    /// It was cached.
    Hit,
    /// Its certificate was issued now.
    Minted,
}

impl LeafCacheResult {
    /// Returns the metric's label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Minted => "minted",
        }
    }
}

/// A source of server configurations for intercepted hosts, with a cache.
///
/// All leaves share one key, which lives as long as the process. That is safe: the leaf binds the key to a host, and only
/// a holder of the CA's key can issue one.
pub struct TlsInterceptor {
    authority: Arc<CertificateAuthority>,
    key: KeyPair,
    signing_key: Arc<dyn SigningKey>,
    provider: Arc<CryptoProvider>,
    sessions: Arc<dyn StoresServerSessions>,
    ticketer: Arc<dyn ProducesTickets>,
    leaves: Cache<String, CachedLeaf>,
}

#[derive(Clone)]
struct CachedLeaf {
    config: Arc<ServerConfig>,
    minted_at: SystemTime,
    replace_at: SystemTime,
}

impl TlsInterceptor {
    /// Creates an interceptor that issues certificates from `authority`.
    ///
    /// # Errors
    ///
    /// If no key can be generated.
    pub fn new(authority: Arc<CertificateAuthority>) -> anyhow::Result<Self> {
        let key =
            KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).context("generating the leaf key")?;
        let private_key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        Ok(Self {
            authority,
            signing_key: rustls::crypto::ring::sign::any_ecdsa_type(&private_key)?,
            key,
            provider: tls::provider(),
            sessions: ServerSessionMemoryCache::new(MAX_CACHED_SESSIONS),
            ticketer: rustls::crypto::ring::Ticketer::new()?,
            leaves: Cache::new(MAX_CACHED_LEAVES),
        })
    }

    /// Returns the configuration that terminates TLS for `host`: a name, or an IP address without brackets.
    ///
    /// # Errors
    ///
    /// If `host` cannot be a name in a certificate.
    pub fn server_config(
        &self,
        host: &str,
        now: SystemTime,
    ) -> anyhow::Result<(Arc<ServerConfig>, LeafCacheResult)> {
        if let Some(cached) = self.leaves.get(host) {
            // A leaf from the future was issued before the clock was set back, and may not be valid yet.
            if cached.minted_at <= now && now < cached.replace_at {
                return Ok((cached.config, LeafCacheResult::Hit));
            }
            self.leaves.remove(host);
        }
        let mut result = LeafCacheResult::Hit;
        // Concurrent connections to a new host wait for one certificate.
        let leaf = self.leaves.get_or_insert_with(host, || {
            result = LeafCacheResult::Minted;
            self.mint(host, now)
        })?;
        Ok((leaf.config, result))
    }

    fn mint(&self, host: &str, now: SystemTime) -> anyhow::Result<CachedLeaf> {
        let chain = self
            .authority
            .mint(host, &self.key, now)
            .with_context(|| format!("minting a certificate for {host}"))?;
        let certified = CertifiedKey::new(chain, Arc::clone(&self.signing_key));
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        // Most clients list a costlier suite first without preferring it.
        config.ignore_client_order = true;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.session_storage = Arc::clone(&self.sessions);
        config.ticketer = Arc::clone(&self.ticketer);
        Ok(CachedLeaf {
            config: Arc::new(config),
            minted_at: now,
            replace_at: now + LEAF_LIFETIME / 2,
        })
    }
}

impl fmt::Debug for TlsInterceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsInterceptor").field("authority", &self.authority).finish_non_exhaustive()
    }
}

/// Returns whether a handshake failed because the client does not trust our CA.
pub fn is_untrusted_ca(error: &std::io::Error) -> bool {
    // TLS libraries differ in the alert that they send.
    matches!(
        tls::rustls_error(error),
        Some(rustls::Error::AlertReceived(
            AlertDescription::UnknownCA
                | AlertDescription::BadCertificate
                | AlertDescription::CertificateUnknown
        ))
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use wayleave_clock::system_time;

    use super::*;

    fn interceptor() -> (tempfile::TempDir, TlsInterceptor) {
        let dir = tempfile::tempdir().unwrap();
        let authority = CertificateAuthority::load_or_create(dir.path()).unwrap();
        (dir, TlsInterceptor::new(Arc::new(authority)).unwrap())
    }

    #[test]
    fn leaf_is_issued_once_per_host() {
        let (_dir, interceptor) = interceptor();
        let now = system_time();
        let (first, minted) = interceptor.server_config("shop.test", now).unwrap();
        let (second, hit) = interceptor.server_config("shop.test", now).unwrap();
        assert_eq!((minted, hit), (LeafCacheResult::Minted, LeafCacheResult::Hit));
        assert!(Arc::ptr_eq(&first, &second));
    }

    #[test]
    fn leaf_is_replaced_at_half_its_lifetime() {
        let (_dir, interceptor) = interceptor();
        let now = system_time();
        interceptor.server_config("shop.test", now).unwrap();
        let later = now + LEAF_LIFETIME / 2 + Duration::from_secs(1);
        let (_, leaf) = interceptor.server_config("shop.test", later).unwrap();
        assert_eq!(leaf, LeafCacheResult::Minted);
    }

    #[test]
    fn leaf_from_the_future_is_replaced() {
        let (_dir, interceptor) = interceptor();
        let now = system_time();
        let wrong = now + 40 * Duration::from_secs(24 * 60 * 60);
        interceptor.server_config("shop.test", wrong).unwrap();
        let (_, leaf) = interceptor.server_config("shop.test", now).unwrap();
        assert_eq!(leaf, LeafCacheResult::Minted);
        let (_, leaf) = interceptor.server_config("shop.test", now).unwrap();
        assert_eq!(leaf, LeafCacheResult::Hit);
    }
}
