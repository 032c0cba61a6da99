//! Makes the programs of a command trust the CA: by variables, and by files that they see instead of the system's certificates.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use wayleave_isolation::MountPlan;
use wayleave_transport::tls::roots::BUNDLES;

use crate::cli::terminal::print_errors;
use crate::environment::{PROXY_VARIABLES, trust_variables};

/// The system's certificates for Java.
const JAVA_STORES: [&str; 2] = ["/etc/ssl/certs/java/cacerts", "/etc/pki/java/cacerts"];
/// The name of the file with the system's certificates and the CA's.
const BUNDLE: &str = "certificates.pem";

/// Sets the variables that make programs trust the bundle in `dir`, and removes those that name a proxy: none
/// could be reached.
pub(super) fn set_variables(command: &mut Command, dir: &Path) {
    let bundle = dir.join(BUNDLE);
    for name in trust_variables() {
        command.env(name, &bundle);
    }
    for name in PROXY_VARIABLES {
        command.env_remove(name).env_remove(name.to_ascii_uppercase());
    }
}

/// Writes the files that hold the CA's `certificate` to `dir`, and adds to `plan` the files that they stand in for.
///
/// # Errors
///
/// Returns an error if a file cannot be written.
pub(super) fn prepare(dir: &Path, certificate: &str, plan: &mut MountPlan) -> anyhow::Result<()> {
    let system = BUNDLES.iter().find_map(|path| fs::read_to_string(path).ok());
    // After the system's: connections to hosts of https.bypass end at the origin.
    let all = format!("{}\n{certificate}", system.unwrap_or_default());
    let bundle = dir.join(BUNDLE);
    fs::write(&bundle, &all).context("writing the certificates")?;
    for path in BUNDLES {
        plan.replace(bundle.clone(), path);
    }
    let store = dir.join("cacerts");
    fs::write(&store, java_key_store(&all)).context("writing the certificates for Java")?;
    for path in JAVA_STORES.into_iter().map(PathBuf::from).chain(java_stores()) {
        plan.replace(store.clone(), path);
    }
    let alone = dir.join("wayleave.pem");
    fs::write(&alone, certificate)?;
    if let Err(error) = trust_in_nss(dir, &alone, plan) {
        print_errors(&format!("wayleave: warning: Chromium will not trust the CA: {error:#}\n"));
    }
    Ok(())
}

/// Returns where the Java of `JAVA_HOME`, and the one on `PATH`, have their certificates.
fn java_stores() -> impl Iterator<Item = PathBuf> {
    let on_path = find_program("java").and_then(|java| java.canonicalize().ok());
    let on_path = on_path.and_then(|java| Some(java.parent()?.parent()?.to_owned()));
    let homes = std::env::var_os("JAVA_HOME").map(PathBuf::from).into_iter().chain(on_path);
    homes.map(|home| home.join("lib/security/cacerts"))
}

fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// Returns the certificates of a PEM file as a key store of Java, in its first format (JKS), which every version reads. It is
/// not documented; this is the output of `keytool -importcert -storetype JKS`.
fn java_key_store(pem: &str) -> Vec<u8> {
    const MAGIC: u32 = 0xfeed_feed;
    const VERSION: u32 = 2;
    const TRUSTED_CERTIFICATE: u32 = 2;
    /// The password of the store, which protects it from accidents, not from attackers: everybody knows it.
    const PASSWORD: &str = "changeit";
    const SALT: &[u8] = b"Mighty Aphrodite";
    let certificates: Vec<_> =
        CertificateDer::pem_slice_iter(pem.as_bytes()).filter_map(Result::ok).collect();
    let mut store = Vec::new();
    let number = |store: &mut Vec<u8>, number: usize| {
        store.extend(u32::try_from(number).unwrap_or(u32::MAX).to_be_bytes());
    };
    let text = |store: &mut Vec<u8>, text: &str| {
        store.extend(u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
        store.extend(text.as_bytes());
    };
    store.extend(MAGIC.to_be_bytes());
    store.extend(VERSION.to_be_bytes());
    number(&mut store, certificates.len());
    for (index, certificate) in certificates.iter().enumerate() {
        store.extend(TRUSTED_CERTIFICATE.to_be_bytes());
        text(&mut store, &format!("wayleave-{index}"));
        // The time at which it was added, in milliseconds since 1970.
        store.extend(0_u64.to_be_bytes());
        text(&mut store, "X.509");
        number(&mut store, certificate.len());
        store.extend_from_slice(certificate);
    }
    let mut hashed: Vec<u8> = PASSWORD.encode_utf16().flat_map(u16::to_be_bytes).collect();
    hashed.extend_from_slice(SALT);
    hashed.extend_from_slice(&store);
    let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, &hashed);
    store.extend_from_slice(digest.as_ref());
    store
}

/// Shows Chromium a copy of the user's NSS database that has the CA. Without `certutil` Chromium does not trust it.
///
/// # Errors
///
/// Returns an error if there is a database, and the CA cannot be added to its copy.
fn trust_in_nss(dir: &Path, certificate: &Path, plan: &mut MountPlan) -> anyhow::Result<()> {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_dir());
    let Some((home, certutil)) = home.zip(find_program("certutil")) else {
        return Ok(());
    };
    let own = home.join(".pki/nssdb");
    let copy = dir.join("nssdb");
    // The copy is mounted there; Chromium creates the directory, too.
    fs::create_dir_all(&own)
        .and_then(|()| copy_files(&own, &copy))
        .with_context(|| format!("copying {}", own.display()))?;
    let mut database = OsString::from("sql:");
    database.push(&copy);
    // A nickname belongs to one subject only: a fixed one may be taken by the CA of another wayleave.
    let nickname = subject(&fs::read(certificate)?)?;
    let mut add = Command::new(certutil);
    add.args(["-A", "-n", &nickname, "-t", "C,,", "-d"]).arg(database).arg("-i").arg(certificate);
    let added = add.stdin(Stdio::null()).stdout(Stdio::null()).output().context("certutil")?;
    ensure!(added.status.success(), "certutil: {}", String::from_utf8_lossy(&added.stderr).trim());
    plan.replace(copy, own);
    Ok(())
}

/// Returns the name of a certificate in PEM, such as `wayleave CA 1a2b3c4d`.
fn subject(pem: &[u8]) -> anyhow::Result<String> {
    let certificate = CertificateDer::from_pem_slice(pem)?;
    let (_, parsed) = x509_parser::parse_x509_certificate(&certificate)?;
    let common_name =
        parsed.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
    Ok(common_name.map_or_else(|| parsed.subject().to_string(), str::to_owned))
}

fn copy_files(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use wayleave_transport::tls::intercept::CertificateAuthority;

    use super::*;

    #[test]
    fn two_authorities_have_different_nicknames() {
        let names = [0; 2].map(|_| {
            let dir = tempfile::tempdir().unwrap();
            let authority = CertificateAuthority::load_or_create(dir.path()).unwrap();
            subject(authority.certificate_pem().as_bytes()).unwrap()
        });
        assert!(names.iter().all(|name| name.starts_with("wayleave CA ")), "{names:?}");
        assert_ne!(names[0], names[1]);
    }
}
