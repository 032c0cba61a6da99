//! Files with the certificates of authorities.

use std::fs;
use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};
use wayleave_evidence::Sha256Digest;

/// A PEM file, and its contents when the configuration was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PemFile {
    pub path: PathBuf,
    /// At least one.
    pub certificates: Vec<CertificateDer<'static>>,
    /// The digest of the whole file.
    pub(super) digest: Sha256Digest,
}

impl PemFile {
    /// Reads a file with at least one certificate, each of which can serve as a root.
    ///
    /// # Errors
    ///
    /// Describes the fault of the file.
    pub fn read(path: PathBuf) -> Result<Self, String> {
        let (certificates, digest) = read_certificates(&path)?;
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            // Found here, the mistake is one of the configuration, and not of the first connection.
            roots.add(certificate.clone()).map_err(|error| {
                format!("{}: contains a certificate that is not a root: {error}", path.display())
            })?;
        }
        Ok(Self { path, certificates, digest })
    }
}

/// Returns the certificates in a file, at least one, and the digest of the file.
///
/// # Errors
///
/// Describes the fault of the file.
pub(super) fn read_certificates(
    path: &Path,
) -> Result<(Vec<CertificateDer<'static>>, Sha256Digest), String> {
    let fault = |error: pem::Error| format!("{}: {error}", path.display());
    let text = fs::read(path).map_err(|error| fault(pem::Error::Io(error)))?;
    let found = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(fault)?;
    if found.is_empty() {
        return Err(format!("{} contains no certificate", path.display()));
    }
    Ok((found, Sha256Digest::of(&text)))
}
