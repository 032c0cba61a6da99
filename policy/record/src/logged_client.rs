//! The client's address in a record: whole, reduced to its network, or as a keyed digest.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The length of a truncated digest: enough to distinguish the addresses of one crawl.
pub const CLIENT_DIGEST_BYTES: usize = 16;

/// A client as it is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedClient {
    Address(IpAddr),
    Network(IpNet),
    Keyed([u8; CLIENT_DIGEST_BYTES]),
}

impl LoggedClient {
    /// Returns the address, if it is logged whole.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Address(address) => Some(*address),
            _ => None,
        }
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
    type Err = UnknownClient;

    fn from_str(text: &str) -> Result<Self, UnknownClient> {
        // No form can be taken for another: networks have a slash, and digests neither dots nor colons.
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        if let Ok(network) = text.parse() {
            return Ok(Self::Network(network));
        }
        let unknown = || UnknownClient(text.to_owned());
        let number = u128::from_str_radix(text, 16).map_err(|_| unknown())?;
        (text.len() == 2 * CLIENT_DIGEST_BYTES)
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

/// The error for text that is no client in any form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownClient(String);

impl fmt::Display for UnknownClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not an address, a network or 32 hexadecimal digits", self.0)
    }
}

impl std::error::Error for UnknownClient {}
