//! Clients' addresses in the log: whole, reduced to their networks, or as keyed digests, which can be matched only with the
//! key.

use std::net::Ipv6Addr;
use std::path::Path;

use anyhow::{Context, anyhow};
use ipnet::IpNet;
use ring::hmac;
use wayleave_evidence::regular_file;
use wayleave_fairness::Holder;
use wayleave_record::{CLIENT_DIGEST_BYTES, LoggedClient};
use wayleave_signing::{SECRET_BYTES, new_secret, write_secret};

/// The prefix lengths of networks: shorter than the networks that providers assign to one customer, so that none can be
/// singled out.
const PREFIX_V4: u8 = 24;
const PREFIX_V6: u8 = 48;

/// The form of logged addresses: `log.client_address`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientForm {
    Full,
    Network,
    Keyed,
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
                let digest = tag.as_ref()[..CLIENT_DIGEST_BYTES].try_into();
                LoggedClient::Keyed(digest.expect("a tag is longer"))
            }
        }
    }
}

/// Returns the owner of shares, as far as the form distinguishes clients.
pub(super) fn holder_of(client: LoggedClient) -> Holder {
    Holder::of_client(match client {
        LoggedClient::Address(address) => address.to_canonical(),
        LoggedClient::Network(network) => network.addr(),
        // A digest has as many bytes as an address, and its first half tells clients apart as well.
        LoggedClient::Keyed(digest) => Ipv6Addr::from(digest).into(),
    })
}

fn read_or_create_key(path: &Path) -> anyhow::Result<[u8; SECRET_BYTES]> {
    let file = path.display();
    match regular_file::read(path) {
        Ok(bytes) => <[u8; SECRET_BYTES]>::try_from(bytes.as_slice())
            .map_err(|_| anyhow!("{file} is not {SECRET_BYTES} bytes long")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            create_key(path).with_context(|| format!("making {file}"))
        }
        Err(error) => Err(error).with_context(|| format!("reading {file}")),
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
    use std::net::IpAddr;

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
