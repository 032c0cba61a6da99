//! Clients' certificates, and the names by which they identify crawlers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use rustls::pki_types::CertificateDer;
use wayleave_decision::CertificateName;
use wayleave_evidence::Sha256Digest;
use wayleave_transport::tls::server::ServerTls;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// The certificate that a client presented when its connection began, and that was valid then.
#[derive(Debug)]
pub struct ClientCertificate {
    chain: Vec<CertificateDer<'static>>,
    /// The names, the most specific kind first: URIs, DNS names, common names, the fingerprint.
    names: Vec<CertificateName>,
    not_after: SystemTime,
    /// The id of the TLS settings that verified it last.
    verified_by: AtomicU64,
}

impl ClientCertificate {
    /// Parses a chain that `tls` has just verified, leaf first; none if it cannot be parsed.
    pub fn from_chain(chain: &[CertificateDer<'_>], tls: &ServerTls) -> Option<Self> {
        let leaf = chain.first()?;
        let (_, parsed) = X509Certificate::from_der(leaf).ok()?;
        let not_after = u64::try_from(parsed.validity().not_after.timestamp()).ok()?;
        Some(Self {
            names: names(&parsed, Sha256Digest::of(leaf).0),
            not_after: SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(not_after),
            chain: chain.iter().map(|certificate| certificate.clone().into_owned()).collect(),
            verified_by: AtomicU64::new(tls.id()),
        })
    }

    /// Returns the first name.
    pub fn name(&self) -> &CertificateName {
        &self.names[0]
    }

    /// Returns all names by which it may identify a crawler.
    pub fn names(&self) -> &[CertificateName] {
        &self.names
    }

    /// Returns whether it is valid now. It is verified again only if the trusted authorities have changed.
    pub(crate) fn is_still_valid(&self, tls: Option<&ServerTls>, now: SystemTime) -> bool {
        let Some(tls) = tls.filter(|_| now <= self.not_after) else {
            return false;
        };
        // A value that another thread has just replaced only costs another verification.
        if self.verified_by.load(Ordering::Relaxed) == tls.id() {
            return true;
        }
        let is_accepted = tls.accepts_client(&self.chain, now);
        if is_accepted {
            self.verified_by.store(tls.id(), Ordering::Relaxed);
        }
        is_accepted
    }
}

fn names(parsed: &X509Certificate<'_>, fingerprint: [u8; 32]) -> Vec<CertificateName> {
    let extension = parsed.subject_alternative_name().ok().flatten();
    let common = parsed
        .subject()
        .iter_common_name()
        .filter_map(|name| name.as_str().ok())
        .map(|name| CertificateName::CommonName(name.to_owned()));
    let alternative = extension.map_or(&[][..], |extension| &extension.value.general_names);
    let hosts = alternative.iter().filter_map(|name| match name {
        // In lower case, as in the configuration: DNS ignores case.
        GeneralName::DNSName(host) => Some(CertificateName::Dns(host.to_ascii_lowercase())),
        _ => None,
    });
    let uris = alternative.iter().filter_map(|name| match name {
        GeneralName::URI(uri) => Some(CertificateName::Uri((*uri).to_owned())),
        _ => None,
    });
    let fingerprint = CertificateName::Fingerprint(fingerprint);
    uris.chain(hosts).chain(common).chain([fingerprint]).collect()
}
