//! Files with the certificates of authorities.

use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// A PEM file, and its contents when the configuration was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PemFile {
    pub path: PathBuf,
    /// At least one.
    pub certificates: Vec<CertificateDer<'static>>,
}

impl PemFile {
    /// Reads a file with at least one certificate, each of which can serve as a root.
    ///
    /// # Errors
    ///
    /// Describes the fault of the file.
    pub fn read(path: PathBuf) -> Result<Self, String> {
        let certificates = read_certificates(&path)?;
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            // Found here, the mistake is one of the configuration, and not of the first connection.
            roots.add(certificate.clone()).map_err(|error| {
                format!("{}: contains a certificate that is not a root: {error}", path.display())
            })?;
        }
        Ok(Self { path, certificates })
    }
}

/// Returns the certificates in a file, at least one.
///
/// # Errors
///
/// Describes the fault of the file.
pub(super) fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| format!("{}: {error}", path.display()))?;
    if found.is_empty() {
        return Err(format!("{} contains no certificate", path.display()));
    }
    Ok(found)
}
