//! A name by which a client's certificate identifies a crawler.

use std::fmt;
use std::str::FromStr;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};

/// A name in a certificate: `match.certificate`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateName {
    /// A URI of the subject alternative name, such as a SPIFFE ID.
    Uri(String),
    /// A DNS name of the subject alternative name.
    Dns(String),
    /// The subject's common name.
    CommonName(String),
    /// The SHA-256 of the certificate itself.
    Fingerprint([u8; 32]),
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
        let rest = |prefix| text.strip_prefix(prefix).filter(|rest: &&str| !rest.is_empty());
        if let Some(name) = rest("CN=") {
            return Ok(Self::CommonName(name.to_owned()));
        }
        if let Some(name) = rest("DNS:") {
            // DNS names are compared without case (RFC 4343).
            return Ok(Self::Dns(name.to_ascii_lowercase()));
        }
        if let Some(digits) = rest("sha256:") {
            // `openssl x509 -fingerprint` writes colons between the bytes.
            let fingerprint = parse_fingerprint(&digits.replace(':', ""));
            return fingerprint.map(Self::Fingerprint).ok_or_else(unusable);
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
            Self::Fingerprint(fingerprint) => write!(f, "sha256:{}", HEXLOWER.encode(fingerprint)),
        }
    }
}

fn parse_fingerprint(digits: &str) -> Option<[u8; 32]> {
    HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).ok()?.try_into().ok()
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
        let with_colons: Vec<_> = hex.as_bytes().chunks(2).map(String::from_utf8_lossy).collect();
        let with_colons = format!("sha256:{}", with_colons.join(":").to_uppercase());
        assert_eq!(
            with_colons.parse::<CertificateName>().unwrap().to_string(),
            format!("sha256:{hex}")
        );
        for text in ["", "news", "CN=", "DNS:", "sha256:12", "://", "cn=news", "C=DE"] {
            assert!(text.parse::<CertificateName>().is_err(), "{text}");
        }
    }
}
