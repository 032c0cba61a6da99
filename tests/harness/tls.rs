//! Certificates: a test CA that the proxy trusts, one that it does not, and good and bad leaves made on demand.

use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// A fault in the TLS of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Certificate {
    #[default]
    Good,
    Expired,
    NotYetValid,
    OtherName,
    SelfSigned,
    /// `own_authority`, whatever the host.
    OwnAuthority,
    UnknownAuthority,
    /// The origin responds to the ClientHello with a fatal alert.
    Alert,
    /// The origin responds to the ClientHello in plain HTTP.
    PlainText,
}

/// A CA of the tests, never of the proxy.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub pem: String,
}

impl Authority {
    /// Returns the CA in `upstream.extra_roots` of all proxies.
    pub fn trusted() -> &'static Self {
        static TRUSTED: OnceLock<Authority> = OnceLock::new();
        TRUSTED.get_or_init(|| Self::new("wayleave test root"))
    }

    /// Returns the CA of `Certificate::UnknownAuthority`.
    pub fn unknown() -> &'static Self {
        static UNKNOWN: OnceLock<Authority> = OnceLock::new();
        UNKNOWN.get_or_init(|| Self::new("an untrusted root"))
    }

    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("P-256 keys can be generated");
        let certificate = params.self_signed(&key).expect("the parameters are complete");
        Self { pem: certificate.pem(), issuer: Issuer::new(params, key) }
    }
}

/// Returns the certificate of `own.test`, as PEM, and its key. It is self-signed and says that it is an authority, as those of
/// many appliances do.
pub fn own_authority() -> &'static (String, KeyPair) {
    static OWN: OnceLock<(String, KeyPair)> = OnceLock::new();
    OWN.get_or_init(|| {
        let mut params =
            CertificateParams::new(vec!["own.test".to_owned()]).expect("the name is valid");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("P-256 keys can be generated");
        (params.self_signed(&key).expect("the parameters are complete").pem(), key)
    })
}

/// Returns the TLS settings of an origin `host` that offers `protocols` by ALPN.
pub fn server_config(host: &str, certificate: Certificate, protocols: &[&str]) -> ServerConfig {
    let (chain, key) = leaf(host, certificate);
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring speaks TLS 1.2 and 1.3")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("the key belongs to the certificate");
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    config
}

/// The contents of a client's certificate.
#[derive(Clone, Debug, Default)]
pub struct Holder {
    pub common_name: Option<&'static str>,
    pub uri: Option<&'static str>,
    pub dns: Option<&'static str>,
    /// `None` for a time far in the future.
    pub not_after: Option<std::time::SystemTime>,
}

/// Makes a client's certificate by `authority`, and its key, as PEM.
pub fn client_pair(authority: &Authority, holder: &Holder) -> (String, String) {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    if let Some(name) = holder.common_name {
        params.distinguished_name.push(DnType::CommonName, name);
    }
    let uri = holder.uri.map(|uri| SanType::URI(uri.try_into().expect("ASCII")));
    let dns = holder.dns.map(|dns| SanType::DnsName(dns.try_into().expect("ASCII")));
    params.subject_alt_names = uri.into_iter().chain(dns).collect();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.not_before = rcgen::date_time_ymd(2019, 1, 1);
    if let Some(at) = holder.not_after {
        params.not_after = at.into();
    }
    let key = KeyPair::generate().expect("P-256 keys can be generated");
    let made = params.signed_by(&key, &authority.issuer);
    (made.expect("the parameters are complete").pem(), key.serialize_pem())
}

/// Makes a good certificate of `host`, and its key, as PEM.
pub fn pem_pair(host: &str) -> (String, String) {
    let (chain, key) = leaf(host, Certificate::Good);
    let block = |label: &str, der: &[u8]| {
        let text = base64::engine::general_purpose::STANDARD.encode(der);
        format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
    };
    let certificate = block("CERTIFICATE", &chain[0]);
    (certificate, block("PRIVATE KEY", key.secret_der()))
}

fn leaf(
    host: &str,
    certificate: Certificate,
) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    if certificate == Certificate::OwnAuthority {
        let (pem, key) = own_authority();
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).expect("rcgen wrote it");
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("rcgen writes PKCS #8");
        return (vec![certificate], key);
    }
    let name = if certificate == Certificate::OtherName { "other.invalid" } else { host };
    let mut params =
        CertificateParams::new(vec![name.to_owned()]).expect("host names and addresses are valid");
    params.distinguished_name.push(DnType::CommonName, "origin");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    match certificate {
        Certificate::Expired => {
            params.not_before = rcgen::date_time_ymd(2019, 1, 1);
            params.not_after = rcgen::date_time_ymd(2020, 1, 1);
        }
        Certificate::NotYetValid => params.not_before = rcgen::date_time_ymd(3000, 1, 1),
        _ => {}
    }
    let key = KeyPair::generate().expect("P-256 keys can be generated");
    let made = match certificate {
        Certificate::SelfSigned => params.self_signed(&key),
        Certificate::UnknownAuthority => params.signed_by(&key, &Authority::unknown().issuer),
        _ => params.signed_by(&key, &Authority::trusted().issuer),
    };
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("rcgen writes PKCS #8");
    (vec![made.expect("the parameters are complete").der().clone()], key)
}

/// Returns the TLS settings of a client that trusts only the CA in `ca_pem`.
pub fn client_config(ca_pem: &[u8], protocols: &[&str]) -> Arc<ClientConfig> {
    client_config_with(ca_pem, protocols, None)
}

/// Adds a client certificate and its key to these settings.
pub fn client_config_with(
    ca_pem: &[u8],
    protocols: &[&str],
    pair: Option<&(String, String)>,
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_pem) {
        roots
            .add(certificate.expect("the CA file holds PEM"))
            .expect("the CA's certificate can be parsed");
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring speaks TLS 1.2 and 1.3")
        .with_root_certificates(roots);
    let mut config = match pair {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => {
            let certificate = CertificateDer::from_pem_slice(certificate.as_bytes());
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes());
            let chain = vec![certificate.expect("the harness wrote it")];
            config
                .with_client_auth_cert(chain, key.expect("the harness wrote it"))
                .expect("the key belongs to the certificate")
        }
    };
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}
