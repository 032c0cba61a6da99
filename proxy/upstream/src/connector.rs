//! Opening of connections to origins, for requests, robots.txt fetches and tunnels alike.
//!
//! A forward proxy needs addresses that are checked and raced (RFC 8305), one TLS configuration for all origins so
//! that sessions resume, and errors that name the step that failed. docs/design.md explains why pingora's connectors are not
//! used.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use quick_cache::sync::Cache;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use wayleave_decision::Reason;
use wayleave_http_wire::received::HttpVersion;
use wayleave_robots_txt::{Origin, UrlScheme};
use wayleave_transport::descriptors;
use wayleave_transport::http::transport::BoxedStream;
use wayleave_transport::tls;

use super::describe;
use super::destination::Destination;
use super::egress::{
    DialError, Egress, EgressError, ParentProtocol, ParentProxy, Route, RouteRequester,
};
use super::error::UpstreamError;
use super::ftp::FtpConnection;
use super::http2::{FlowWindow, Http2Connection};
use super::link::{UpstreamLink, over_tcp, over_tls, peer_address};
use super::parent_tunnel;
use super::request_form::{TargetForm, VersionPreference};

/// The most origins remembered as negotiating no protocol. Each saves a handshake per connection.
const ORIGINS_WITHOUT_ALPN: usize = 10_000;

/// Opens connections through egress.
pub(super) struct UpstreamConnector {
    egress: Egress,
    offering_http1: TlsConnector,
    offering_http2: TlsConnector,
    /// Origins that negotiate no protocol, whatever they are offered.
    without_alpn: Cache<Origin, ()>,
    /// A `Via` entry of ours alone, for tunnels through parent proxies that several requests share.
    via: Vec<u8>,
}

/// A new connection, by its protocol.
pub(super) enum OpenedConnection {
    Http1(BoxedStream),
    Ftp(Box<FtpConnection>),
    /// HTTP/1, although HTTP/2 was offered.
    Http1Fallback(BoxedStream),
    Http2(Http2Connection),
}

/// A new connection, and the address that accepted it.
pub(super) struct DialledConnection {
    pub(super) opened: OpenedConnection,
    /// `None` if the connection is gone already.
    pub(super) peer: Option<IpAddr>,
}

/// The parameters of a connection that depend on its use.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectOptions<'a> {
    pub(super) preference: VersionPreference,
    pub(super) window: FlowWindow,
    /// For parent proxies: the proxies that the request passed, this one last. `None` for a shared connection.
    pub(super) via: Option<&'a [u8]>,
}

/// The protocols offered to an origin (ALPN, RFC 7301).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AlpnOffer {
    Http1,
    /// HTTP/2, and HTTP/1.1 as an alternative.
    Http2,
}

impl UpstreamConnector {
    /// Opens connections through `egress`, and checks origins' certificates as `tls` says. The protocols that `tls`
    /// offers are replaced.
    pub(super) fn new(egress: Egress, tls: &ClientConfig, name: &str) -> Self {
        Self {
            egress,
            via: HttpVersion::Http11.via_entry(name).into_bytes(),
            offering_http1: tls::connector_offering(tls, &[b"http/1.1"]),
            offering_http2: tls::connector_offering(tls, &[b"h2", b"http/1.1"]),
            without_alpn: Cache::new(ORIGINS_WITHOUT_ALPN),
        }
    }

    /// Returns the route to `destination`, if it is found before the deadline.
    ///
    /// # Errors
    ///
    /// As [`Egress::route`].
    pub(super) async fn route(
        &self,
        destination: Destination<'_>,
        deadline: Instant,
    ) -> Result<Route, EgressError> {
        let Destination { origin, source, client, network } = destination;
        let requester = RouteRequester { source, client };
        let finding = self.egress.route(origin.host(), origin.port(), requester);
        // Nothing but DNS takes time here.
        let mut route =
            timeout_at(deadline, finding).await.unwrap_or(Err(EgressError::DnsTimeout))?;
        if let Some(network) = network {
            route.put_first(network);
        }
        Ok(route)
    }

    /// Returns the proxy through which `origin` is reached, if there is one.
    pub(super) fn parent_for(&self, origin: &Origin) -> Option<&Arc<ParentProxy>> {
        self.egress.parent_for(origin.host())
    }

    /// Opens a connection to `origin` by `route`: through a parent proxy, by a tunnel, whose request carries `via`.
    ///
    /// # Errors
    ///
    /// If no address accepts a connection before the deadline, or the parent refuses the tunnel.
    pub(super) async fn dial(
        &self,
        origin: &Origin,
        route: &Route,
        via: &[u8],
        deadline: Instant,
    ) -> Result<UpstreamLink, UpstreamError> {
        let link = self.dial_next_hop(origin, route, deadline).await?;
        let Some(parent) = route.parent() else {
            return Ok(link);
        };
        timeout_at(deadline, parent_tunnel::open_tunnel(link, parent, origin, via))
            .await
            .unwrap_or_else(|_| Err(connect_timed_out(origin).on_this_side()))
    }

    /// Opens a connection to the next hop of `route`: `origin`, or the parent proxy.
    async fn dial_next_hop(
        &self,
        origin: &Origin,
        route: &Route,
        deadline: Instant,
    ) -> Result<UpstreamLink, UpstreamError> {
        let dialled = self.dial_tcp_or_tls(origin, route, deadline).await;
        // The origin is not to blame for its parent proxy.
        if route.parent().is_some() {
            dialled.map_err(UpstreamError::on_this_side)
        } else {
            dialled
        }
    }

    async fn dial_tcp_or_tls(
        &self,
        origin: &Origin,
        route: &Route,
        deadline: Instant,
    ) -> Result<UpstreamLink, UpstreamError> {
        let tcp = dial_tcp(origin, route, deadline).await?;
        // Any TLS with the origin itself comes later, inside the tunnel.
        let Some(parent) = route.parent().filter(|parent| parent.protocol == ParentProtocol::Https)
        else {
            return Ok(over_tcp(tcp));
        };
        let name = server_name(&parent.host)?;
        let tls = timeout_at(deadline, self.offering_http1.connect(name, tcp))
            .await
            .map_err(|_| connect_timed_out(origin))?
            .map_err(|error| tls_error(&error))?;
        Ok(over_tls(tls))
    }

    /// Opens a connection to `origin` by `route` for HTTP, or for FTP.
    ///
    /// # Errors
    ///
    /// Returns the step that failed: the connection, TLS or HTTP/2, or the deadline.
    pub(super) async fn open(
        &self,
        origin: &Origin,
        options: ConnectOptions<'_>,
        route: &Route,
        deadline: Instant,
    ) -> Result<DialledConnection, UpstreamError> {
        if origin.scheme() != UrlScheme::Https {
            return self.open_plain(origin, options, route, deadline).await;
        }
        // Most origins choose HTTP/2 if it is offered, so HTTP/1.1 has to be offered alone.
        let mut offer = match options.preference {
            VersionPreference::OnlyHttp1
            | VersionPreference::Upgrade
            | VersionPreference::Http1 => AlpnOffer::Http1,
            VersionPreference::Http2 => AlpnOffer::Http2,
        };
        let mut handshake = self.handshake(origin, offer, route, deadline).await;
        if options.preference == VersionPreference::Http1 && !self.is_settled(origin, &handshake) {
            // Closed first: some servers accept one connection at a time.
            drop(handshake);
            offer = AlpnOffer::Http2;
            handshake = self.handshake(origin, offer, route, deadline).await;
        }
        let tls = handshake.map_err(HandshakeFailure::into_error)?;
        let (link, session) = tls.get_ref();
        let peer = peer_of(link);
        // HTTP/1.1 alone was offered, so it is spoken whether or not the origin confirmed it.
        if offer == AlpnOffer::Http1 {
            return Ok(DialledConnection { opened: OpenedConnection::Http1(Box::new(tls)), peer });
        }
        let protocol = session.alpn_protocol();
        if protocol != Some(b"h2") {
            // Remembered, so that the next HTTP/1.1 connection needs no second handshake.
            if protocol.is_none() {
                self.without_alpn.insert(origin.clone(), ());
            }
            let opened = OpenedConnection::Http1Fallback(Box::new(tls));
            return Ok(DialledConnection { opened, peer });
        }
        let connection = timeout_at(deadline, Http2Connection::open(Box::new(tls), options.window))
            .await
            .map_err(|_| connect_timed_out(origin))?
            .map_err(|error| {
                UpstreamError::new(Reason::HttpProtocolError, describe::http2(&error))
            })?;
        Ok(DialledConnection { opened: OpenedConnection::Http2(connection), peer })
    }

    /// Does the same as [`Self::open`] without TLS.
    async fn open_plain(
        &self,
        origin: &Origin,
        options: ConnectOptions<'_>,
        route: &Route,
        deadline: Instant,
    ) -> Result<DialledConnection, UpstreamError> {
        let link = match TargetForm::choose(route.parent(), origin, options.preference) {
            // The parent gets the request itself, so no tunnel is opened.
            TargetForm::Absolute(_) => self.dial_next_hop(origin, route, deadline).await?,
            TargetForm::Origin if origin.scheme() == UrlScheme::Ftp => {
                return self.open_ftp(route, origin, deadline).await;
            }
            TargetForm::Origin => {
                let via = options.via.unwrap_or(&self.via);
                self.dial(origin, route, via, deadline).await?
            }
        };
        let peer = peer_of(&link);
        Ok(DialledConnection { opened: OpenedConnection::Http1(Box::new(link)), peer })
    }

    async fn open_ftp(
        &self,
        route: &Route,
        origin: &Origin,
        deadline: Instant,
    ) -> Result<DialledConnection, UpstreamError> {
        if route.parent().is_some() {
            let details = "FTP goes through HTTP proxies only".to_owned();
            return Err(UpstreamError::new(Reason::ProxyConfigurationError, details));
        }
        let tcp = dial_tcp(origin, route, deadline).await?;
        let peer = tcp.peer_addr().ok().map(|address| address.ip());
        let data_route = self.egress.data_route(route);
        let opened = OpenedConnection::Ftp(Box::new(FtpConnection { tcp, data_route }));
        Ok(DialledConnection { opened, peer })
    }

    async fn handshake(
        &self,
        origin: &Origin,
        offer: AlpnOffer,
        route: &Route,
        deadline: Instant,
    ) -> Result<TlsStream<UpstreamLink>, HandshakeFailure> {
        let name = server_name(origin.host())?;
        // Several requests may share the connection, so a tunnel for it names no proxy but this one.
        let link = self.dial(origin, route, &self.via, deadline).await?;
        let connector = match offer {
            AlpnOffer::Http1 => &self.offering_http1,
            AlpnOffer::Http2 => &self.offering_http2,
        };
        timeout_at(deadline, connector.connect(name, link))
            .await
            .map_err(|_| connect_timed_out(origin))?
            .map_err(HandshakeFailure::Tls)
    }

    /// Returns whether the result of offering HTTP/1.1 alone is final. A server that supports none of the offered
    /// protocols ought to refuse (RFC 7301 section 3.2). Many continue as if nothing had been offered instead, and
    /// would answer in HTTP/2 or with an error.
    fn is_settled(
        &self,
        origin: &Origin,
        handshake: &Result<TlsStream<UpstreamLink>, HandshakeFailure>,
    ) -> bool {
        match handshake {
            Ok(tls) => {
                tls.get_ref().1.alpn_protocol().is_some() || self.without_alpn.get(origin).is_some()
            }
            Err(HandshakeFailure::Tls(error)) => {
                !tls::rustls_error(error).is_some_and(tls::is_alpn_refusal)
            }
            Err(HandshakeFailure::Other(_)) => true,
        }
    }
}

/// A reason why there is no TLS with an origin.
enum HandshakeFailure {
    Tls(io::Error),
    Other(UpstreamError),
}

impl HandshakeFailure {
    fn into_error(self) -> UpstreamError {
        match self {
            Self::Tls(error) => tls_error(&error),
            Self::Other(error) => error,
        }
    }
}

impl From<UpstreamError> for HandshakeFailure {
    fn from(error: UpstreamError) -> Self {
        Self::Other(error)
    }
}

fn peer_of(link: &UpstreamLink) -> Option<IpAddr> {
    peer_address(link).ok().map(|address| address.ip())
}

async fn dial_tcp(
    origin: &Origin,
    route: &Route,
    deadline: Instant,
) -> Result<TcpStream, UpstreamError> {
    timeout_at(deadline, route.dial())
        .await
        .map_err(|_| connect_timed_out(origin))?
        .map_err(|error| dial_error(&error))
}

fn server_name(host: &str) -> Result<ServerName<'static>, UpstreamError> {
    // rustls expects IPv6 addresses without brackets.
    let name = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(name.to_owned()).map_err(|_| {
        let details = format!("{name} cannot be a name in a certificate");
        UpstreamError::new(Reason::TlsCertificateError, details)
    })
}

fn connect_timed_out(origin: &Origin) -> UpstreamError {
    let details = format!("no connection to {origin} within upstream.connect_timeout");
    UpstreamError::new(Reason::ConnectionTimeout, details)
}

fn dial_error(failed: &DialError) -> UpstreamError {
    let DialError { address, error } = failed;
    let reason = match error.kind() {
        _ if descriptors::are_used_up(error) => Reason::ProxyInternalError,
        io::ErrorKind::ConnectionRefused => Reason::ConnectionRefused,
        io::ErrorKind::TimedOut => Reason::ConnectionTimeout,
        io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::AddrNotAvailable => Reason::DestinationIpUnroutable,
        _ => Reason::ConnectionTerminated,
    };
    let fault = UpstreamError::new(reason, describe::failed_connect(*address, error));
    if failed.is_local() { fault.on_this_side() } else { fault }
}

fn tls_error(error: &io::Error) -> UpstreamError {
    let reason = match tls::rustls_error(error) {
        Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented) => {
            Reason::TlsCertificateError
        }
        Some(rustls::Error::AlertReceived(_)) => Reason::TlsAlertReceived,
        Some(_) => Reason::TlsProtocolError,
        // The connection below TLS broke.
        None => Reason::ConnectionTerminated,
    };
    UpstreamError::new(reason, describe::failed_handshake(error))
}
