//! Clients' addresses in the log: whole, reduced to their networks, or as keyed digests, which can be matched only with the
//! key.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, anyhow};
use ipnet::IpNet;
use ring::hmac;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use wayleave_evidence::regular_file;
use wayleave_fairness::Holder;
use wayleave_signing::{SECRET_BYTES, new_secret, write_secret};

/// The prefix lengths of networks: shorter than what providers assign to one customer, so that none can be singled out.
const PREFIX_V4: u8 = 24;
const PREFIX_V6: u8 = 48;
/// The length of a truncated digest: enough to distinguish the addresses of one crawl.
const DIGEST_BYTES: usize = 16;

/// The form of logged addresses: `log.client_address`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientForm {
    Full,
    Network,
    Keyed,
}

/// A client as it is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedClient {
    Address(IpAddr),
    Network(IpNet),
    Keyed([u8; DIGEST_BYTES]),
}

/// The form in which clients' addresses are logged, with the key if they are hidden by one.
#[derive(Clone, Debug)]
pub enum ClientMask {
    Full,
    Network,
    Keyed(hmac::Key),
}

impl ClientMask {
    /// Uses the given form. `key` is the file with the key of digests, which is created if it is needed and missing.
    ///
    /// # Errors
    ///
    /// Returns an error if a key is needed and can neither be read nor made.
    pub fn new(form: ClientForm, key: &Path) -> anyhow::Result<Self> {
        Ok(match form {
            ClientForm::Full => Self::Full,
            ClientForm::Network => Self::Network,
            // Not hashed without a key: there are few enough IPv4 addresses to try them all.
            ClientForm::Keyed => {
                Self::Keyed(hmac::Key::new(hmac::HMAC_SHA256, &read_or_create_key(key)?))
            }
        })
    }

    /// Returns the client in this form. One that is already a network or a digest is returned unchanged.
    pub fn apply(&self, client: LoggedClient) -> LoggedClient {
        // An IPv4 client of a dual-stack listener is `::ffff:192.0.2.77`, and must be the same client.
        let address = match client {
            LoggedClient::Address(address) => address.to_canonical(),
            _ => return client,
        };
        match self {
            Self::Full => client,
            Self::Network => {
                let prefix = if address.is_ipv4() { PREFIX_V4 } else { PREFIX_V6 };
                let network = IpNet::new(address, prefix).expect("an address has so many bits");
                LoggedClient::Network(network.trunc())
            }
            Self::Keyed(key) => {
                let tag = hmac::sign(key, address.to_string().as_bytes());
                let digest = tag.as_ref()[..DIGEST_BYTES].try_into();
                LoggedClient::Keyed(digest.expect("a tag is longer"))
            }
        }
    }
}

impl LoggedClient {
    /// Returns the address, if it is logged whole.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Address(address) => Some(*address),
            _ => None,
        }
    }

    /// Returns the owner of shares, as far as the form distinguishes clients.
    pub(super) fn holder(&self) -> Holder {
        Holder::of_client(match self {
            Self::Address(address) => address.to_canonical(),
            Self::Network(network) => network.addr(),
            // A digest has as many bytes as an address, and its first half tells clients apart as well.
            Self::Keyed(digest) => Ipv6Addr::from(*digest).into(),
        })
    }
}

impl From<IpAddr> for LoggedClient {
    fn from(address: IpAddr) -> Self {
        Self::Address(address)
    }
}

impl fmt::Display for LoggedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Network(network) => network.fmt(f),
            Self::Keyed(digest) => digest.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

impl FromStr for LoggedClient {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        // No form can be taken for another: networks have a slash, and digests neither dots nor colons.
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        if let Ok(network) = text.parse() {
            return Ok(Self::Network(network));
        }
        let unknown = || anyhow!("{text:?} is not an address, a network or 32 hexadecimal digits");
        let number = u128::from_str_radix(text, 16).map_err(|_| unknown())?;
        (text.len() == 2 * DIGEST_BYTES)
            .then(|| Self::Keyed(number.to_be_bytes()))
            .ok_or_else(unknown)
    }
}

impl Serialize for LoggedClient {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            // The same text, for which serde does not need a formatter.
            Self::Address(address) => address.serialize(serializer),
            Self::Network(_) | Self::Keyed(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for LoggedClient {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

fn read_or_create_key(path: &Path) -> anyhow::Result<[u8; SECRET_BYTES]> {
    let shown = path.display();
    match regular_file::read(path) {
        Ok(bytes) => <[u8; SECRET_BYTES]>::try_from(bytes.as_slice())
            .map_err(|_| anyhow!("{shown} is not {SECRET_BYTES} bytes long")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            create_key(path).with_context(|| format!("making {shown}"))
        }
        Err(error) => Err(error).with_context(|| format!("reading {shown}")),
    }
}

fn create_key(path: &Path) -> anyhow::Result<[u8; SECRET_BYTES]> {
    let key = new_secret()?;
    write_secret(path, &key)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn logged_client_parses_and_hides_address() {
        let dir = tempfile::tempdir().unwrap();
        let key = dir.path().join("state/client-address.key");
        let address = |text: &str| LoggedClient::from(text.parse::<IpAddr>().unwrap());
        let shown = |form, text: &str| {
            let shown = ClientMask::new(form, &key).unwrap().apply(address(text));
            assert_eq!(shown.to_string().parse::<LoggedClient>().unwrap(), shown);
            shown.to_string()
        };
        assert_eq!(shown(ClientForm::Full, "192.0.2.77"), "192.0.2.77");
        assert!(!key.exists(), "no key without need");
        assert_eq!(shown(ClientForm::Network, "192.0.2.77"), "192.0.2.0/24");
        assert_eq!(shown(ClientForm::Network, "2001:db8:1:2::3"), "2001:db8:1::/48");
        let keyed = shown(ClientForm::Keyed, "192.0.2.77");
        assert_eq!(keyed.len(), 32);
        assert_eq!(shown(ClientForm::Keyed, "192.0.2.77"), keyed, "by the same key");
        assert_eq!(shown(ClientForm::Keyed, "::ffff:192.0.2.77"), keyed);
        assert_ne!(shown(ClientForm::Keyed, "192.0.2.78"), keyed);
        fs::remove_file(&key).unwrap();
        assert_ne!(shown(ClientForm::Keyed, "192.0.2.77"), keyed, "by another key");
        fs::write(&key, "short").unwrap();
        assert!(ClientMask::new(ClientForm::Keyed, &key).is_err());
    }
}
