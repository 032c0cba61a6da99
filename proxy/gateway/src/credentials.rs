//! The gateway behind a request to us: its token, or else its address.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use wayleave_admission::request::{AskingGateway, ClientConnection, GatewayCrawler};
use wayleave_admission::settings::Settings;
use wayleave_evidence::Sha256Digest;

use crate::mistake::Mistake;

/// The field of the addresses that a request has come through, of which the gateway wrote the last.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// The gateway that asks. Only notices of its own about its requests count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GatewayIdentity {
    pub(crate) token: Option<Sha256Digest>,
    pub(crate) address: IpAddr,
}

impl GatewayIdentity {
    /// Identifies the gateway at this address.
    ///
    /// # Errors
    ///
    /// Returns the mistake if there are tokens, and it sends credentials with none of them.
    pub(crate) fn new(
        settings: &Settings,
        address: IpAddr,
        fields: &HeaderMap,
    ) -> Result<Self, Mistake> {
        let mut credentials = fields.get_all(AUTHORIZATION).iter();
        // Without tokens, the field is the client's, for the origin.
        let Some(first) = credentials.next().filter(|_| !settings.gateway_tokens.is_empty()) else {
            return Ok(Self { token: None, address });
        };
        let token = bearer_token(first.as_bytes()).filter(|_| credentials.next().is_none());
        let sha256 = Sha256Digest::of(token.ok_or_else(Mistake::unknown_token)?);
        match settings.crawler_of_token(&sha256) {
            Some(_) => Ok(Self { token: Some(sha256), address }),
            None => Err(Mistake::unknown_token()),
        }
    }

    /// Returns the connection of the client that these fields name, or else of the gateway itself.
    pub(crate) fn connection(&self, fields: &HeaderMap) -> ClientConnection {
        self.connection_of(client_behind(fields))
    }

    /// Returns the connection of the client that the gateway names, or else of the gateway itself.
    pub(crate) fn connection_of(&self, named: Option<IpAddr>) -> ClientConnection {
        ClientConnection {
            peer: named.map(|_| self.address),
            gateway: Some(Box::new(AskingGateway {
                crawler: self.token.map(GatewayCrawler::OfToken),
                shows_responses: false,
            })),
            ..ClientConnection::new(named.unwrap_or(self.address))
        }
    }
}

/// Returns the token of `Bearer` credentials (RFC 6750 section 2.1).
fn bearer_token(credentials: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = credentials.split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token.trim_ascii())
}

/// Returns the address of the gateway's client: the last that the request has come through. Those before are the client's word.
fn client_behind(fields: &HeaderMap) -> Option<IpAddr> {
    let last = fields.get_all(FORWARDED_FOR).iter().next_back()?.to_str().ok()?;
    let element = last.rsplit(',').next()?.trim().trim_matches('"');
    let address = element.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let address: IpAddr = address.unwrap_or(element).parse().ok()?;
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_client_is_the_last_that_the_gateway_names() {
        for (values, client) in [
            (&["192.0.2.7"][..], Some("192.0.2.7")),
            (&["10.0.0.1, 192.0.2.7 "], Some("192.0.2.7")),
            (&["10.0.0.1", "192.0.2.7, \"[2001:db8::1]\""], Some("2001:db8::1")),
            (&["::ffff:192.0.2.7"], Some("192.0.2.7")),
            (&["192.0.2.7, unknown"], None),
            (&["192.0.2.7,"], None),
            (&[], None),
        ] {
            let mut fields = HeaderMap::new();
            for value in values {
                fields.append(FORWARDED_FOR, HeaderValue::from_static(value));
            }
            assert_eq!(
                client_behind(&fields),
                client.map(|text| text.parse().unwrap()),
                "{values:?}"
            );
        }
    }

    #[test]
    fn only_bearer_credentials_have_a_token() {
        assert_eq!(bearer_token(b"bearer  abc "), Some(&b"abc"[..]));
        for other in [&b"Basic abc"[..], b"Bearer", b"", b"Bearerabc"] {
            assert_eq!(bearer_token(other), None);
        }
    }
}
