//! SOCKS5 (RFC 1928): the client names a destination, and perhaps itself (RFC 1929). Only CONNECT is served.
//!
//! "Succeeded" means that the client may send its first bytes, which decide; a target that is known to be refused before is
//! refused with a reply code.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use wayleave_admission::identify;
use wayleave_admission::outcome::ExchangeOutcome;
use wayleave_admission::request::{ClientConnection, DialledDestination};
use wayleave_config::ListenProtocol;
use wayleave_decision::{Reason, Refusal};
use wayleave_transport::http::transport::BufferedStream;

use super::captured::{self, CapturedConnection};
use super::http1::late_requests_over;
use super::server::DownstreamServer;
use super::tunnel;
use crate::exchange::error_response;
use crate::exchange::tunnel::{OpenedTunnel, TunnelContent};

const VERSION: u8 = 5;
/// The version of the messages about user name and password (RFC 1929 section 2).
const PASSWORD_VERSION: u8 = 1;
/// The size of the first reads; every message of a usual client is shorter.
const READ_BYTES: usize = 512;

/// The methods of authentication (RFC 1928 section 3).
mod method {
    pub(super) const NONE: u8 = 0;
    pub(super) const PASSWORD: u8 = 2;
    pub(super) const NO_ACCEPTABLE: u8 = 0xff;
}

/// The command that is served (RFC 1928 section 4).
const CONNECT: u8 = 1;

/// The types of addresses (RFC 1928 section 5).
mod address_type {
    pub(super) const IPV4: u8 = 1;
    pub(super) const NAME: u8 = 3;
    pub(super) const IPV6: u8 = 4;
}

/// The reply codes (RFC 1928 section 6).
mod reply {
    pub(super) const SUCCEEDED: u8 = 0;
    pub(super) const GENERAL_FAILURE: u8 = 1;
    pub(super) const NOT_ALLOWED: u8 = 2;
    pub(super) const NETWORK_UNREACHABLE: u8 = 3;
    pub(super) const HOST_UNREACHABLE: u8 = 4;
    pub(super) const CONNECTION_REFUSED: u8 = 5;
    pub(super) const COMMAND_NOT_SUPPORTED: u8 = 7;
    pub(super) const ADDRESS_TYPE_NOT_SUPPORTED: u8 = 8;
}

/// The reason why a handshake leads to no connection.
enum HandshakeError {
    Closed,
    /// The client does not speak SOCKS5.
    NotSocks(Box<Refusal>),
    /// The client is refused by these bytes.
    Refused(Box<Refusal>, Vec<u8>),
}

impl From<io::Error> for HandshakeError {
    fn from(_: io::Error) -> Self {
        Self::Closed
    }
}

/// A connection after its handshake.
enum SocksUse<'a> {
    /// The first bytes decide.
    Inspected(Box<CapturedConnection>),
    Bypass(Box<OpenedTunnel<'a>>),
}

/// Serves a connection until it ends.
pub(super) async fn serve(
    server: &Arc<DownstreamServer>,
    incoming: BufferedStream,
    connection: ClientConnection,
) {
    let handshake = Handshake { server, incoming, connection };
    // This runs once per connection. Boxed, it does not enlarge the future of every idle connection.
    match Box::pin(handshake.run()).await {
        None => {}
        Some(SocksUse::Inspected(captured)) => captured.serve(server).await,
        Some(SocksUse::Bypass(opened)) => tunnel::serve(server, opened).await,
    }
}

/// A handshake in progress.
struct Handshake<'a> {
    server: &'a DownstreamServer,
    incoming: BufferedStream,
    connection: ClientConnection,
}

impl<'a> Handshake<'a> {
    /// Runs the handshake. Returns `None` if the client was refused, or is gone.
    async fn run(mut self) -> Option<SocksUse<'a>> {
        let server = self.server;
        let header_timeout = server.settings().options.header_timeout;
        let request = tokio::select! {
            request = timeout(header_timeout, self.read_request()) => request,
            () = late_requests_over(server) => Ok(Err(HandshakeError::Closed)),
        };
        let result = match request {
            Ok(Ok(dialled)) => return self.open(dialled).await,
            Ok(Err(HandshakeError::Closed)) => "closed",
            Err(_) => "timeout",
            Ok(Err(HandshakeError::NotSocks(refusal))) => {
                let exchanges = &self.server.exchanges;
                self.count("malformed");
                // It most likely speaks HTTP.
                exchanges.refuse_connection(self.incoming.stream, &self.connection, *refusal).await;
                return None;
            }
            Ok(Err(HandshakeError::Refused(refusal, answer))) => {
                self.server.exchanges.record_refused_connection(&self.connection, *refusal);
                self.count("refused");
                answer_and_close(self.incoming, &answer).await;
                return None;
            }
        };
        self.count(result);
        None
    }

    fn count(&self, result: &'static str) {
        captured::count(self.server, ListenProtocol::Socks5, result);
    }

    /// Reads everything that the client sends before it gets the reply to its request.
    async fn read_request(&mut self) -> Result<DialledDestination, HandshakeError> {
        let greeting = self.read(2).await?;
        check_version(greeting[0], VERSION)?;
        let offered = self.read(greeting[1].into()).await?;
        let uses_passwords = self.server.settings().authenticator.uses_passwords();
        let chosen = choose_method(&offered, uses_passwords);
        if chosen == method::NO_ACCEPTABLE {
            let details =
                "SOCKS5: the client offers neither no authentication nor user name and password";
            let refusal = Box::new(Refusal::malformed(details));
            return Err(HandshakeError::Refused(refusal, vec![VERSION, chosen]));
        }
        self.write(&[VERSION, chosen]).await?;
        if chosen == method::PASSWORD {
            self.authenticate().await?;
        }
        let mut head = self.read(4).await?;
        check_version(head.get_u8(), VERSION)?;
        let command = head.get_u8();
        let _ = head.get_u8();
        let address_type = head.get_u8();
        let dialled = self.read_destination(address_type).await?;
        if command != CONNECT {
            let details = format!("SOCKS5 command {command}: only CONNECT (1) is served");
            return Err(refused(details, reply::COMMAND_NOT_SUPPORTED));
        }
        Ok(dialled)
    }

    /// Reads user name and password, which are those of Proxy-Authorization.
    async fn authenticate(&mut self) -> Result<(), HandshakeError> {
        let head = self.read(2).await?;
        check_version(head[0], PASSWORD_VERSION)?;
        let username = self.read(head[1].into()).await?;
        let length = self.read(1).await?[0];
        let password = self.read(length.into()).await?;
        let credentials = [&username[..], b":", &password].concat();
        let basic = format!("Basic {}", STANDARD.encode(credentials));
        let settings = self.server.settings();
        let authenticator = &settings.authenticator;
        let client = self.connection.client;
        match identify::prove_password(authenticator, client, basic.as_bytes()).await {
            Ok(proof) => self.connection.proof = proof,
            Err(refusal) => {
                let failure = vec![PASSWORD_VERSION, reply::GENERAL_FAILURE];
                return Err(HandshakeError::Refused(Box::new(refusal), failure));
            }
        }
        Ok(self.write(&[PASSWORD_VERSION, reply::SUCCEEDED]).await?)
    }

    async fn read_destination(
        &mut self,
        address_type: u8,
    ) -> Result<DialledDestination, HandshakeError> {
        let dialled = match address_type {
            address_type::IPV4 => {
                let mut address = self.read(4 + 2).await?;
                let ip = Ipv4Addr::from(address.get_u32());
                DialledDestination::at((ip, address.get_u16()).into())
            }
            address_type::IPV6 => {
                let mut address = self.read(16 + 2).await?;
                let ip = Ipv6Addr::from(address.get_u128());
                DialledDestination::at((ip, address.get_u16()).into())
            }
            address_type::NAME => {
                let length = self.read(1).await?[0];
                let name = self.read(length.into()).await?;
                let port = self.read(2).await?.get_u16();
                DialledDestination::new(&String::from_utf8_lossy(&name), port)
            }
            other => {
                let details = format!("SOCKS5 request: address type {other} is unknown");
                return Err(refused(details, reply::ADDRESS_TYPE_NOT_SUPPORTED));
            }
        };
        dialled.map_err(|error| refused(format!("SOCKS5 request: {error}"), reply::GENERAL_FAILURE))
    }

    /// Answers the request: whether the client may send its first bytes.
    async fn open(self, dialled: DialledDestination) -> Option<SocksUse<'a>> {
        let Self { server, incoming, connection } = self;
        let connection = ClientConnection { dialled: Some(dialled.clone()), ..connection };
        let authority = dialled.authority(None);
        let content = TunnelContent::Unknown;
        let decided =
            captured::decide_tunnel(server, incoming, &connection, &authority, content).await;
        let (permit, incoming) = match decided {
            Ok(opened) => opened,
            Err(refused) => {
                captured::count(server, ListenProtocol::Socks5, "refused");
                let answer = reply_of(reply_code(&refused.outcome));
                answer_and_close(refused.client.into_connection()?, &answer).await;
                return None;
            }
        };
        let incoming = match incoming {
            Some(incoming) => confirm(incoming).await,
            None => None,
        };
        if permit.blind.is_some() {
            captured::count(server, ListenProtocol::Socks5, "bypass");
            let opened = OpenedTunnel { incoming, connection, permit };
            return Some(SocksUse::Bypass(Box::new(opened)));
        }
        Some(SocksUse::Inspected(Box::new(CapturedConnection {
            incoming: incoming?,
            connection,
            dialled,
            listener: ListenProtocol::Socks5,
            peer: None,
        })))
    }

    /// Reads this many bytes.
    async fn read(&mut self, count: usize) -> io::Result<BytesMut> {
        let BufferedStream { stream, buffered } = &mut self.incoming;
        while buffered.len() < count {
            buffered.reserve(READ_BYTES);
            if stream.read_buf(buffered).await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(buffered.split_to(count))
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.incoming.stream.write_all(bytes).await?;
        self.incoming.stream.flush().await
    }
}

/// Returns the method of authentication. Clients that have a password offer to do without one, too.
fn choose_method(offered: &[u8], uses_passwords: bool) -> u8 {
    let offers = |method| offered.contains(&method);
    if offers(method::PASSWORD) && (uses_passwords || !offers(method::NONE)) {
        method::PASSWORD
    } else if offers(method::NONE) {
        method::NONE
    } else {
        method::NO_ACCEPTABLE
    }
}

fn check_version(version: u8, expected: u8) -> Result<(), HandshakeError> {
    if version == expected {
        return Ok(());
    }
    let details = "this listener speaks SOCKS5: write socks5h:// in the URL of the proxy";
    Err(HandshakeError::NotSocks(Box::new(Refusal::malformed(details))))
}

fn refused(details: String, code: u8) -> HandshakeError {
    HandshakeError::Refused(Box::new(Refusal::malformed(details)), reply_of(code))
}

/// Returns a reply to the request. The address in it is the unspecified one: which one origins see is nothing to the client.
fn reply_of(code: u8) -> Vec<u8> {
    vec![VERSION, code, 0, address_type::IPV4, 0, 0, 0, 0, 0, 0]
}

/// Returns the code that fits a tunnel that does not open.
fn reply_code(outcome: &ExchangeOutcome) -> u8 {
    match outcome.reason() {
        Reason::DnsError | Reason::DnsTimeout | Reason::ConnectionTimeout => {
            reply::HOST_UNREACHABLE
        }
        Reason::DestinationIpUnroutable => reply::NETWORK_UNREACHABLE,
        Reason::ConnectionRefused => reply::CONNECTION_REFUSED,
        _ if matches!(outcome, ExchangeOutcome::Refuse(_)) => reply::NOT_ALLOWED,
        _ => reply::GENERAL_FAILURE,
    }
}

/// Replies that the client may send its first bytes. Returns `None` if it is gone.
async fn confirm(mut incoming: BufferedStream) -> Option<BufferedStream> {
    incoming.stream.write_all(&reply_of(reply::SUCCEEDED)).await.ok()?;
    incoming.stream.flush().await.ok()?;
    Some(incoming)
}

async fn answer_and_close(mut incoming: BufferedStream, answer: &[u8]) {
    // The client may be gone already, which changes nothing.
    let _ = incoming.stream.write_all(answer).await;
    error_response::close_gracefully(incoming.stream).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_asked_for_where_it_counts_or_nothing_else_is_offered() {
        for (offered, uses_passwords, expected) in [
            (&[0][..], false, 0),
            (&[0], true, 0),
            (&[0, 2], false, 0),
            (&[2, 0], true, 2),
            (&[1, 2], false, 2),
            (&[1], true, 0xff),
            (&[], false, 0xff),
        ] {
            assert_eq!(choose_method(offered, uses_passwords), expected, "{offered:?}");
        }
    }
}
