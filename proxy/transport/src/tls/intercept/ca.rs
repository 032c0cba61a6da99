//! The organisation's certificate authority: loaded, or created at the first start. It issues a leaf certificate for
//! each host.

use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail, ensure};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SerialNumber,
};
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use time::OffsetDateTime;
use wayleave_clock::system_time;
use wayleave_evidence::regular_file;
use x509_parser::time::ASN1Time;

const CERTIFICATE_FILE: &str = "ca.crt";
/// The organization of every CA that wayleave makes.
const ORGANIZATION: &str = "wayleave";
const KEY_FILE: &str = "ca.key";

/// The users of crawlers may read the certificate, whose name they know, but not list the directory.
const DIR_MODE: u32 = 0o711;
const KEY_MODE: u32 = 0o600;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The time by which certificates are backdated, for clients whose clocks are slow.
const BACKDATED: Duration = DAY;
const CA_LIFETIME: Duration = Duration::from_secs(3650 * 24 * 60 * 60);
/// The lifetime of leaves. Browsers refuse more than 398 days; short-lived ones need no revocation.
pub(crate) const LEAF_LIFETIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A certificate authority that clients are configured to trust.
pub struct CertificateAuthority {
    issuer: Issuer<'static, KeyPair>,
    chain: Vec<CertificateDer<'static>>,
    pem: String,
    path: PathBuf,
    expires_at: SystemTime,
}

impl CertificateAuthority {
    /// Loads the CA in `dir`, or creates one if neither of its files exists. If others may read the key, its mode is
    /// restricted where possible, and an error is logged in either case: anyone who read it can impersonate any
    /// origin.
    ///
    /// # Errors
    ///
    /// If only one of the two files exists, if they cannot be read, written or parsed, or if the key does not belong
    /// to the certificate.
    pub fn load_or_create(dir: &Path) -> anyhow::Result<Self> {
        let certificate = dir.join(CERTIFICATE_FILE);
        let key = dir.join(KEY_FILE);
        match (certificate.exists(), key.exists()) {
            (true, true) => {}
            (false, false) => create(dir, &certificate, &key)?,
            (true, false) => {
                bail!("{} is missing, but there is a {CERTIFICATE_FILE}", key.display())
            }
            (false, true) => {
                bail!("{} is missing, but there is a {KEY_FILE}", certificate.display())
            }
        }
        if let Some(exposed) = exposed_key_warning(dir) {
            let is_fixed = fs::set_permissions(&key, Permissions::from_mode(KEY_MODE)).is_ok();
            tracing::error!(is_fixed, "{exposed}");
        }
        Self::load(dir)
    }

    /// Loads the CA in `dir`.
    ///
    /// # Errors
    ///
    /// As [`CertificateAuthority::load_or_create`], and if a file is missing.
    pub fn load(dir: &Path) -> anyhow::Result<Self> {
        let path = dir.join(CERTIFICATE_FILE);
        let key_path = dir.join(KEY_FILE);
        let (pem, chain) = read_chain(&path)?;
        let first = &chain[0];
        let key_pem = read(&key_path)?;
        let private_key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes())
            .with_context(|| format!("{} contains no private key", key_path.display()))?;
        let signing_key = any_supported_type(&private_key).with_context(|| {
            format!("{} contains a key of an unsupported type", key_path.display())
        })?;
        CertifiedKey::new(chain.clone(), signing_key).keys_match().with_context(|| {
            format!("{} is not the key of {}", key_path.display(), path.display())
        })?;
        let key = KeyPair::try_from(&private_key)
            .with_context(|| format!("{} contains a key that cannot sign", key_path.display()))?;
        let issuer = Issuer::from_ca_cert_der(first, key)
            .with_context(|| format!("{} is not a CA certificate", path.display()))?;
        let expires_at =
            check_authority(first).with_context(|| format!("{} cannot be used", path.display()))?;
        Ok(Self { issuer, chain, pem, path, expires_at })
    }

    /// Returns the time after which no client trusts the CA's certificates.
    #[must_use]
    pub fn expires_at(&self) -> SystemTime {
        self.expires_at
    }

    /// Returns the certificate (and its chain, if it has one) in PEM, as clients import it.
    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        &self.pem
    }

    /// Returns the path of the certificate.
    #[must_use]
    pub fn certificate_path(&self) -> &Path {
        &self.path
    }

    /// Returns the SHA-256 of the certificate, as `AB:CD:…`.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        fingerprint(&self.chain[0])
    }

    /// Returns whether a certificate is that of this CA.
    pub fn is(&self, certificate: &CertificateDer<'_>) -> bool {
        self.chain[0] == *certificate
    }

    /// Returns the fingerprint and the PEM of the certificate in `dir`, without reading the key.
    ///
    /// # Errors
    ///
    /// If the certificate cannot be read or parsed.
    pub fn read_public(dir: &Path) -> anyhow::Result<(String, String)> {
        let (pem, chain) = read_chain(&dir.join(CERTIFICATE_FILE))?;
        Ok((fingerprint(&chain[0]), pem))
    }

    /// Issues a certificate for `host` (a name, or an IP address without brackets) and `key`, and returns it with the
    /// chain to present. It is valid from a day before `now` for [`LEAF_LIFETIME`].
    ///
    /// # Errors
    ///
    /// If `host` cannot be a name in a certificate.
    pub(crate) fn mint(
        &self,
        host: &str,
        key: &KeyPair,
        now: SystemTime,
    ) -> Result<Vec<CertificateDer<'static>>, rcgen::Error> {
        let mut params = CertificateParams::new([host.to_owned()])?;
        params.distinguished_name = DistinguishedName::new();
        // X.520 limits a common name to 64 characters. Clients check the alternative name, which is always set.
        if host.len() <= 64 {
            params.distinguished_name.push(DnType::CommonName, host);
        }
        params.not_before = OffsetDateTime::from(now - BACKDATED);
        params.not_after = OffsetDateTime::from(now + LEAF_LIFETIME);
        params.serial_number = Some(serial_number());
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let leaf = params.signed_by(key, &self.issuer)?;
        let mut chain = vec![leaf.der().clone()];
        chain.extend(self.chain.iter().cloned());
        Ok(chain)
    }
}

impl std::fmt::Debug for CertificateAuthority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CertificateAuthority").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Returns a random serial number. Firefox rejects a second certificate of a CA with the same number (RFC 5280
/// section 4.1.2.2). 128 bits are as unlikely to collide as keys, and with a sign byte fit into the 20 bytes allowed.
fn serial_number() -> SerialNumber {
    let random: ring::rand::Random<[u8; 16]> =
        ring::rand::generate(&ring::rand::SystemRandom::new())
            .expect("the system has random numbers");
    SerialNumber::from_slice(&random.expose())
}

/// Returns until when clients that trust the certificate trust those that it signs, or an error if they do not trust it
/// today.
fn check_authority(certificate: &CertificateDer<'_>) -> anyhow::Result<SystemTime> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate)?;
    ensure!(certificate.is_ca(), "it is not a CA certificate (basic constraints)");
    // The key usage counts only if the certificate states one (RFC 5280 section 6.1.4).
    let may_sign = certificate.key_usage()?.is_none_or(|usage| usage.value.key_cert_sign());
    ensure!(may_sign, "it may not sign certificates (key usage)");
    let validity = certificate.validity();
    let now = ASN1Time::from(OffsetDateTime::from(system_time()));
    ensure!(
        validity.is_valid_at(now),
        "it is only valid from {} to {}",
        validity.not_before,
        validity.not_after
    );
    Ok(validity.not_after.to_datetime().into())
}

/// Returns a warning if users other than the owner may read the key in `dir`.
pub fn exposed_key_warning(dir: &Path) -> Option<String> {
    let key = dir.join(KEY_FILE);
    let mode = fs::metadata(&key).ok()?.permissions().mode() & 0o777;
    let advice = "anyone who has it can impersonate any origin: chmod 600 it, and create a new CA if anyone may have read it";
    (mode & 0o077 != 0)
        .then(|| format!("other users can read {} (mode {mode:03o}); {advice}", key.display()))
}

/// Reads the PEM file with a certificate and its issuers, of which there may be none.
fn read_chain(path: &Path) -> anyhow::Result<(String, Vec<CertificateDer<'static>>)> {
    let pem = read(path)?;
    let chain = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .with_context(|| format!("{} is not PEM", path.display()))?;
    ensure!(!chain.is_empty(), "{} contains no certificate", path.display());
    Ok((pem, chain))
}

fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
    let pairs: Vec<String> = digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
    pairs.join(":")
}

/// Returns whether wayleave made this CA, here or elsewhere.
pub fn is_wayleave_ca(certificate: &[u8]) -> bool {
    let Ok((_, parsed)) = x509_parser::parse_x509_certificate(certificate) else {
        return false;
    };
    let mut organizations = parsed.subject().iter_organization();
    let is_ours = organizations.any(|name| name.as_str().is_ok_and(|name| name == ORGANIZATION));
    is_ours && parsed.is_ca()
}

fn read(path: &Path) -> anyhow::Result<String> {
    regular_file::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

fn create(dir: &Path, certificate: &Path, key_path: &Path) -> anyhow::Result<()> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    // Two CAs with the same name and different keys confuse clients that look issuers up by name.
    let digest = ring::digest::digest(&ring::digest::SHA256, key.public_key_raw());
    let mark: String = digest.as_ref()[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    params.distinguished_name.push(DnType::CommonName, format!("wayleave CA {mark}"));
    params.distinguished_name.push(DnType::OrganizationName, ORGANIZATION);
    params.serial_number = Some(serial_number());
    // No further authorities below this one.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let now = system_time();
    params.not_before = OffsetDateTime::from(now - BACKDATED);
    params.not_after = OffsetDateTime::from(now + CA_LIFETIME);
    let made = params.self_signed(&key)?;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(DIR_MODE)
        .create(dir)
        .with_context(|| format!("creating the directory {}", dir.display()))?;
    // If the process dies between the two, the next start reports the missing certificate.
    write_new(key_path, KEY_MODE, &key.serialize_pem())?;
    write_new(certificate, 0o644, &made.pem())
}

fn write_new(path: &Path, mode: u32, text: &str) -> anyhow::Result<()> {
    let write = || {
        let mut file = OpenOptions::new()
            .write(true)
            // Two processes that start at once must not replace each other's CA.
            .create_new(true)
            .mode(mode)
            .open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ca_is_created_once_then_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let ca_dir = dir.path().join("deep/ca");
        let made = CertificateAuthority::load_or_create(&ca_dir).unwrap();
        let found = CertificateAuthority::load_or_create(&ca_dir).unwrap();
        assert_eq!(made.fingerprint(), found.fingerprint());
        let mode = fs::metadata(ca_dir.join(KEY_FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn lone_file_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        CertificateAuthority::load_or_create(dir.path()).unwrap();
        fs::remove_file(dir.path().join(KEY_FILE)).unwrap();
        let error = CertificateAuthority::load_or_create(dir.path()).unwrap_err();
        assert!(error.to_string().contains("ca.key is missing"), "{error}");
    }

    #[test]
    fn key_of_another_certificate_is_an_error() {
        let one = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        CertificateAuthority::load_or_create(one.path()).unwrap();
        CertificateAuthority::load_or_create(other.path()).unwrap();
        fs::copy(other.path().join(KEY_FILE), one.path().join(KEY_FILE)).unwrap();
        let error = CertificateAuthority::load(one.path()).unwrap_err();
        assert!(error.to_string().contains("is not the key of"), "{error}");
    }

    #[test]
    fn certificate_without_ca_rights_is_an_error() {
        let changes: [fn(&mut CertificateParams) -> &'static str; 3] = [
            |params| {
                params.is_ca = IsCa::NoCa;
                "not a CA certificate"
            },
            |params| {
                params.key_usages = vec![KeyUsagePurpose::CrlSign];
                "may not sign"
            },
            |params| {
                params.not_before = rcgen::date_time_ymd(2020, 1, 1);
                params.not_after = rcgen::date_time_ymd(2021, 1, 1);
                "valid from"
            },
        ];
        for change in changes {
            let dir = tempfile::tempdir().unwrap();
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::default();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let expected = change(&mut params);
            let made = params.self_signed(&key).unwrap();
            fs::write(dir.path().join(KEY_FILE), key.serialize_pem()).unwrap();
            fs::write(dir.path().join(CERTIFICATE_FILE), made.pem()).unwrap();
            let error = format!("{:#}", CertificateAuthority::load(dir.path()).unwrap_err());
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }

    #[test]
    fn serial_numbers_are_unique() {
        let dir = tempfile::tempdir().unwrap();
        let ca = CertificateAuthority::load_or_create(dir.path()).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut seen = std::collections::HashSet::new();
        let minted = (0..300).map(|_| ca.mint("shop.test", &key, system_time()).unwrap());
        for certificate in
            minted.flat_map(|chain| chain.into_iter().take(1)).chain(ca.chain.clone())
        {
            let (_, parsed) = x509_parser::parse_x509_certificate(&certificate).unwrap();
            let raw = parsed.raw_serial();
            assert!(raw.len() <= 20, "{raw:02x?}");
            assert_eq!(raw[0] & 0x80, 0, "negative: {raw:02x?}");
            assert!(seen.insert(raw.to_owned()), "twice: {raw:02x?}");
        }
    }

    #[test]
    fn leaves_are_issued_for_names_and_addresses() {
        let dir = tempfile::tempdir().unwrap();
        let ca = CertificateAuthority::load_or_create(dir.path()).unwrap();
        let key = KeyPair::generate().unwrap();
        let long = format!("{}.test", "a".repeat(63));
        for host in ["shop.test", "192.0.2.1", "2001:db8::1", "under_score.test", &long] {
            let chain = ca.mint(host, &key, system_time()).unwrap();
            assert_eq!(chain.len(), 2, "{host}");
            let (_, leaf) = x509_parser::parse_x509_certificate(&chain[0]).unwrap();
            let common_names = leaf.subject().iter_common_name();
            assert_eq!(common_names.count(), usize::from(host != long), "{host}");
        }
    }
}
