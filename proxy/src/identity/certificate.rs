//! Clients' certificates, and the names by which they identify crawlers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use rustls::pki_types::CertificateDer;
use wayleave_decision::CertificateName;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::telemetry::digest::Sha256Digest;
use crate::tls::server::ServerTls;

/// The certificate that a client showed when its connection began, and that was found good then.
#[derive(Debug)]
pub(crate) struct ClientCertificate {
    chain: Vec<CertificateDer<'static>>,
    /// The names, the most specific kind first: URIs, DNS names, common names, the fingerprint.
    names: Vec<CertificateName>,
    not_after: SystemTime,
    /// The id of the TLS settings that found it good last.
    verified_by: AtomicU64,
}

impl ClientCertificate {
    /// Reads a chain that `tls` has just found good, leaf first; none if it cannot be read.
    pub(crate) fn from_chain(chain: &[CertificateDer<'_>], tls: &ServerTls) -> Option<Self> {
        let leaf = chain.first()?;
        let (_, parsed) = X509Certificate::from_der(leaf).ok()?;
        let not_after = u64::try_from(parsed.validity().not_after.timestamp()).ok()?;
        Some(Self {
            names: names(&parsed, Sha256Digest::of(leaf).0),
            not_after: SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(not_after),
            chain: chain.iter().map(|part| part.clone().into_owned()).collect(),
            verified_by: AtomicU64::new(tls.id()),
        })
    }

    /// Returns the first name.
    pub(crate) fn name(&self) -> &CertificateName {
        &self.names[0]
    }

    /// Returns all names by which it may identify a crawler.
    pub(crate) fn names(&self) -> &[CertificateName] {
        &self.names
    }

    /// Returns whether it would be found good now. It is verified again only if the trusted authorities have changed.
    pub(crate) fn is_still_valid(&self, tls: Option<&ServerTls>, now: SystemTime) -> bool {
        let Some(tls) = tls.filter(|_| now <= self.not_after) else {
            return false;
        };
        if self.verified_by.load(Ordering::Relaxed) == tls.id() {
            return true;
        }
        let is_taken = tls.accepts_client(&self.chain, now);
        if is_taken {
            self.verified_by.store(tls.id(), Ordering::Relaxed);
        }
        is_taken
    }
}

fn names(parsed: &X509Certificate<'_>, fingerprint: [u8; 32]) -> Vec<CertificateName> {
    let alternative = parsed.subject_alternative_name().ok().flatten();
    let alternative = alternative.map_or(&[][..], |extension| &extension.value.general_names);
    let uris = alternative.iter().filter_map(|name| match name {
        GeneralName::URI(uri) => Some(CertificateName::Uri((*uri).to_owned())),
        _ => None,
    });
    let hosts = alternative.iter().filter_map(|name| match name {
        GeneralName::DNSName(host) => Some(CertificateName::Dns(host.to_ascii_lowercase())),
        _ => None,
    });
    let common = parsed.subject().iter_common_name();
    let common = common.filter_map(|name| name.as_str().ok());
    let common = common.map(|name| CertificateName::CommonName(name.to_owned()));
    let named = uris.chain(hosts).chain(common);
    named.chain([CertificateName::Fingerprint(fingerprint)]).collect()
}
