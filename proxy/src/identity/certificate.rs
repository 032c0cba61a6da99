//! Clients' certificates: what one says of its holder, and by which name a crawler is recognised.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::telemetry::digest::Sha256Digest;
use crate::tls::server::ServerTls;

/// A name in a certificate: `match.certificate`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CertificateName {
    /// A URI of the subject alternative name, such as a SPIFFE ID.
    Uri(String),
    /// A DNS name of the subject alternative name.
    Dns(String),
    /// The subject's common name.
    CommonName(String),
    /// The SHA-256 of the certificate itself.
    Fingerprint(Sha256Digest),
}

impl FromStr for CertificateName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unusable = || {
            format!(
                "{text:?} is not a URI (\"spiffe://corp/crawler\"), \"CN=...\", \"DNS:...\" or \
                 \"sha256:\" with 64 hexadecimal digits"
            )
        };
        let rest = |prefix| {
            text.strip_prefix(prefix)
                .filter(|rest: &&str| !rest.is_empty())
        };
        if let Some(name) = rest("CN=") {
            return Ok(Self::CommonName(name.to_owned()));
        }
        if let Some(name) = rest("DNS:") {
            return Ok(Self::Dns(name.to_ascii_lowercase()));
        }
        if let Some(digits) = rest("sha256:") {
            // As `openssl x509 -fingerprint` writes it, too.
            let digest = Sha256Digest::from_hex(&digits.replace(':', ""));
            return digest.map(Self::Fingerprint).ok_or_else(unusable);
        }
        match text.split_once("://") {
            Some((scheme, rest)) if !scheme.is_empty() && !rest.is_empty() => {
                Ok(Self::Uri(text.to_owned()))
            }
            _ => Err(unusable()),
        }
    }
}

impl fmt::Display for CertificateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uri(uri) => f.write_str(uri),
            Self::Dns(name) => write!(f, "DNS:{name}"),
            Self::CommonName(name) => write!(f, "CN={name}"),
            Self::Fingerprint(digest) => write!(f, "sha256:{digest}"),
        }
    }
}

/// The certificate that a client showed when its connection began, and that was found good then.
#[derive(Debug)]
pub(crate) struct ClientCertificate {
    chain: Vec<CertificateDer<'static>>,
    /// The most telling first: URIs, DNS names, common names, the fingerprint.
    names: Vec<CertificateName>,
    not_after: SystemTime,
    /// The entrance that found it good last.
    verified_by: AtomicU64,
}

impl ClientCertificate {
    /// Of a chain that `entrance` has just found good, leaf first; none if it cannot be read.
    pub(crate) fn from_chain(chain: &[CertificateDer<'_>], entrance: &ServerTls) -> Option<Self> {
        let leaf = chain.first()?;
        let (_, parsed) = X509Certificate::from_der(leaf).ok()?;
        let not_after = u64::try_from(parsed.validity().not_after.timestamp()).ok()?;
        Some(Self {
            names: names(&parsed, Sha256Digest::of(leaf)),
            not_after: SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(not_after),
            chain: chain.iter().map(|part| part.clone().into_owned()).collect(),
            verified_by: AtomicU64::new(entrance.id()),
        })
    }

    /// What it says first.
    pub(crate) fn name(&self) -> &CertificateName {
        &self.names[0]
    }

    pub(crate) fn has_name(&self, name: &CertificateName) -> bool {
        self.names.contains(name)
    }

    /// Whether it would be found good now. It is verified again only where other authorities are trusted than before.
    pub(crate) fn is_still_valid(&self, entrance: Option<&ServerTls>, now: SystemTime) -> bool {
        let Some(entrance) = entrance.filter(|_| now <= self.not_after) else {
            return false;
        };
        if self.verified_by.load(Ordering::Relaxed) == entrance.id() {
            return true;
        }
        let is_taken = entrance.accepts_client(&self.chain, now);
        if is_taken {
            self.verified_by.store(entrance.id(), Ordering::Relaxed);
        }
        is_taken
    }
}

fn names(parsed: &X509Certificate<'_>, digest: Sha256Digest) -> Vec<CertificateName> {
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
    named
        .chain([CertificateName::Fingerprint(digest)])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_shown() {
        let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        for text in [
            "spiffe://corp/crawler/news",
            "CN=News crawler",
            "DNS:news.corp.example",
            &format!("sha256:{hex}"),
        ] {
            let name: CertificateName = text.parse().unwrap();
            assert_eq!(name.to_string(), text);
        }
        let with_colons: Vec<_> = hex
            .as_bytes()
            .chunks(2)
            .map(String::from_utf8_lossy)
            .collect();
        let with_colons = format!("sha256:{}", with_colons.join(":").to_uppercase());
        assert_eq!(
            with_colons.parse::<CertificateName>().unwrap().to_string(),
            format!("sha256:{hex}")
        );
        for text in [
            "",
            "news",
            "CN=",
            "DNS:",
            "sha256:12",
            "://",
            "cn=news",
            "C=DE",
        ] {
            assert!(text.parse::<CertificateName>().is_err(), "{text}");
        }
    }
}
