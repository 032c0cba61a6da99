//! An Ed25519 key in a file, and its public forms.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail, ensure};
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use ring::digest;
use ring::signature::{Ed25519KeyPair, KeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use serde::Serialize;
use utoipa::ToSchema;
use wayleave_evidence::regular_file;

use super::secret::{new_secret, write_secret};

/// The PKCS#8 bytes before the 32 bytes of an Ed25519 key (RFC 8410 section 7). ring writes the version that includes the public
/// key, which OpenSSL before 3 cannot read.
const PKCS8_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// A key that signs.
pub struct SigningKey {
    pair: Ed25519KeyPair,
    thumbprint: String,
    path: PathBuf,
}

/// The public key as a JWK (RFC 8037 section 2), with members in the order of the draft's examples.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Jwk {
    kty: &'static str,
    crv: &'static str,
    kid: String,
    x: String,
    #[serde(rename = "use")]
    purpose: &'static str,
}

impl SigningKey {
    /// Reads a key (PKCS#8 in PEM) from a file that only its owner may read.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, is not an Ed25519 key, or is readable by other users.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        let metadata = fs::metadata(path).with_context(|| format!("reading {name}"))?;
        let mode = metadata.permissions().mode() & 0o777;
        ensure!(
            mode & 0o077 == 0,
            "other users can read {name} (mode {mode:03o}): chmod 600 it, and create a new key if anyone may have read it"
        );
        let pem = regular_file::read(path).with_context(|| format!("reading {name}"))?;
        let der = PrivatePkcs8KeyDer::from_pem_slice(&pem)
            .map_err(|_| anyhow!("{name} contains no PKCS#8 key (BEGIN PRIVATE KEY)"))?;
        Self::from_pkcs8(der.secret_pkcs8_der(), path)
            .with_context(|| format!("{name} cannot be used"))
    }

    fn from_pkcs8(der: &[u8], path: &Path) -> anyhow::Result<Self> {
        // OpenSSL writes keys without their public half, with which ring would compare the private one.
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der)
            .map_err(|error| anyhow!("not an Ed25519 key: {error}"))?;
        let thumbprint = thumbprint(pair.public_key().as_ref());
        Ok(Self { pair, thumbprint, path: path.to_owned() })
    }

    /// Reads the key in a file, or creates one if there is no such file.
    ///
    /// # Errors
    ///
    /// As [`Self::read`] and [`Self::create`].
    pub fn read_or_create(path: &Path) -> anyhow::Result<Self> {
        // If it is unknown whether the file exists, reading it gives the better error.
        match path.try_exists() {
            Ok(false) => Self::create(path),
            _ => Self::read(path),
        }
    }

    /// Creates a key in a new file, and the folders above it.
    ///
    /// # Errors
    ///
    /// Returns an error if the file exists or cannot be written.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        let mut der = PKCS8_PREFIX.to_vec();
        der.extend_from_slice(&new_secret()?);
        let text = format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            BASE64_STANDARD.encode(&der)
        );
        // Never overwritten: signatures with the old key could not be made again.
        let written = write_secret(path, text.as_bytes());
        if let Err(error) = &written
            && error.kind() == io::ErrorKind::AlreadyExists
        {
            bail!("{} already exists; choose another name, or remove it", path.display());
        }
        written.with_context(|| format!("writing {}", path.display()))?;
        Self::from_pkcs8(&der, path)
    }

    /// Returns the JWK thumbprint (RFC 7638, RFC 8037 appendix A.3), which is the `keyid`.
    pub fn thumbprint(&self) -> &str {
        &self.thumbprint
    }

    /// Returns the file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the public key as a JWK.
    pub fn jwk(&self) -> Jwk {
        Jwk {
            kty: "OKP",
            crv: "Ed25519",
            kid: self.thumbprint.clone(),
            x: self.public_base64(),
            purpose: "sig",
        }
    }

    /// Returns the public key in base64url (RFC 8037 section 2, `x`).
    pub fn public_base64(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.pair.public_key())
    }

    /// Returns the key pair.
    pub fn pair(&self) -> &Ed25519KeyPair {
        &self.pair
    }

    /// Signs bytes.
    pub fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        self.pair.sign(bytes).as_ref().to_vec()
    }
}

fn thumbprint(public: &[u8]) -> String {
    let x = BASE64_URL_SAFE_NO_PAD.encode(public);
    // RFC 7638 section 3: the required members in lexicographic order, without whitespace.
    let json = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#);
    BASE64_URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, json.as_bytes()))
}

impl PartialEq for SigningKey {
    fn eq(&self, other: &Self) -> bool {
        (&self.thumbprint, &self.path) == (&other.thumbprint, &other.path)
    }
}

impl Eq for SigningKey {}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Key").field(&self.thumbprint).finish()
    }
}

/// Returns the key of RFC 9421 appendix B.1.4, with which the draft's examples are signed.
#[cfg(test)]
pub(super) fn test_key() -> SigningKey {
    let der = BASE64_STANDARD
        .decode("MC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF")
        .unwrap();
    SigningKey::from_pkcs8(&der, Path::new("test-key-ed25519.pem")).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thumbprint_is_that_of_rfc_8037() {
        let x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
        let public = BASE64_URL_SAFE_NO_PAD.decode(x).unwrap();
        let expected = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k";
        assert_eq!(thumbprint(&public), expected);
    }

    #[test]
    fn a_new_key_is_its_owners_and_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys/news.pem");
        let made = SigningKey::create(&path).unwrap();
        assert_eq!(SigningKey::read(&path).unwrap(), made);
        let again = SigningKey::create(&path).unwrap_err();
        assert!(format!("{again:#}").contains("exists"), "{again:#}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let exposed = SigningKey::read(&path).unwrap_err().to_string();
        assert!(exposed.contains("other users can read"), "{exposed}");
    }

    #[test]
    fn another_kind_of_key_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("other.pem");
        let other = rcgen::KeyPair::generate().unwrap().serialize_pem();
        for (text, expected) in [(&*other, "not an Ed25519 key"), ("", "contains no PKCS#8 key")] {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            let error = format!("{:#}", SigningKey::read(&path).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }
}
