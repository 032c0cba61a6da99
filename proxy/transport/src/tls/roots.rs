//! The system's root certificates.

use std::fmt;
use std::path::{Path, PathBuf};

use rustls::pki_types::CertificateDer;
use rustls_native_certs::{CertificateResult, load_certs_from_paths, load_native_certs};

use super::intercept::is_wayleave_ca;

/// The system's certificates in one file, where distributions have it.
pub const BUNDLES: [&str; 5] = [
    // Debian, Arch, Gentoo
    "/etc/ssl/certs/ca-certificates.crt",
    // Fedora
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    // openSUSE
    "/etc/ssl/ca-bundle.pem",
    // Alpine
    "/etc/ssl/cert.pem",
];

/// The system's roots, as they were read.
#[derive(Clone, PartialEq, Eq)]
pub struct SystemRoots(pub Vec<CertificateDer<'static>>);

impl fmt::Debug for SystemRoots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SystemRoots").field(&self.0.len()).finish()
    }
}

/// Returns the files and directories that change with the system's roots. Some may not exist.
pub fn root_paths() -> Vec<PathBuf> {
    let named = ["SSL_CERT_FILE", "SSL_CERT_DIR"].into_iter().filter_map(std::env::var_os);
    let named = named.flat_map(|paths| std::env::split_paths(&paths).collect::<Vec<_>>());
    named.chain(BUNDLES.iter().map(PathBuf::from)).collect()
}

/// Returns the system's roots, or those that `SSL_CERT_FILE` and `SSL_CERT_DIR` name instead.
pub fn system_roots() -> Vec<CertificateDer<'static>> {
    let found = with_system_roots(load_native_certs(), || {
        let bundle = BUNDLES.iter().map(Path::new).find(|path| path.exists());
        load_certs_from_paths(bundle, None)
    });
    // One unreadable root must not keep the proxy from starting: only its origins fail to verify.
    for error in &found.errors {
        tracing::warn!(%error, "a system root certificate could not be read");
    }
    found.certs
}

/// Adds the roots of the `system` to the `named` ones if these are nothing but CAs of wayleave.
fn with_system_roots(
    mut named: CertificateResult,
    system: impl FnOnce() -> CertificateResult,
) -> CertificateResult {
    let mut certificates = named.certs.iter();
    // In a shell with `wayleave env`, the variable is meant for clients of the proxy, which see no other certificates. The named
    // ones stay: another wayleave may be our parent proxy.
    if !named.certs.is_empty() && certificates.all(|certificate| is_wayleave_ca(certificate)) {
        let system = system();
        named.certs.extend(system.certs);
        named.errors.extend(system.errors);
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::intercept::CertificateAuthority;

    fn made_by_wayleave() -> CertificateDer<'static> {
        use rustls::pki_types::pem::PemObject;
        let dir = tempfile::tempdir().unwrap();
        let made = CertificateAuthority::load_or_create(dir.path()).unwrap();
        CertificateDer::from_pem_slice(made.certificate_pem().as_bytes()).unwrap()
    }

    fn other() -> CertificateDer<'static> {
        let key = rcgen::KeyPair::generate().unwrap();
        rcgen::CertificateParams::default().self_signed(&key).unwrap().der().clone()
    }

    fn roots(named: &[CertificateDer<'static>], system: &CertificateDer<'static>) -> usize {
        let result = |certs: &[CertificateDer<'static>]| {
            let mut result = CertificateResult::default();
            result.certs = certs.to_vec();
            result
        };
        let found = with_system_roots(result(named), || result(std::slice::from_ref(system)));
        found.certs.len()
    }

    #[test]
    fn only_the_cas_of_wayleave_do_not_stand_for_the_system() {
        let ours = made_by_wayleave();
        let system = other();
        let other = other();
        assert_eq!(roots(std::slice::from_ref(&ours), &system), 2);
        assert_eq!(roots(&[ours.clone(), made_by_wayleave()], &system), 3);
        assert_eq!(roots(&[ours, other.clone()], &system), 2);
        assert_eq!(roots(&[other], &system), 1);
        assert_eq!(roots(&[], &system), 0);
    }
}
