//! Opening of connections to origins, for requests, robots.txt fetches and tunnels alike.
//!
//! A forward proxy needs addresses that are checked and raced (RFC 8305), one TLS configuration for all origins so
//! that sessions resume, and errors that name what failed. docs/design.md explains why pingora's connectors are not
//! used.

use std::io;
use std::sync::Arc;

use pingora_core::protocols::UniqueID;
use quick_cache::sync::Cache;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use wayleave_robots_txt::{Origin, Scheme};

use super::cause;
use super::destination::Destination;
use super::egress::{Asker, DialError, Egress, EgressError, Parent, Route, Speaks};
use super::error::Fault;
use super::form::{Form, Preference};
use super::ftp::FtpConnection;
use super::http2::{Http2Connection, Window};
use super::link::{Link, over_tcp, over_tls};
use super::parent;
use crate::http::proxy_status::ErrorType;
use crate::http::received::Version;
use crate::http::transport::{Stream, to_origin};
use crate::tls;

/// The number of origins remembered not to negotiate a protocol. Each of them saves a handshake per connection.
const ORIGINS_WITHOUT_ALPN: usize = 10_000;

/// Opens connections through egress.
pub(super) struct Door {
    egress: Egress,
    offering_http1: TlsConnector,
    offering_http2: TlsConnector,
    /// Origins that negotiate no protocol, whatever they are offered.
    without_alpn: Cache<Origin, ()>,
    /// A `Via` entry of ours alone, for tunnels through parent proxies that several requests share.
    via: Vec<u8>,
}

/// A new connection, by its protocol.
pub(super) enum Opened {
    Http1(Stream),
    Ftp(Box<FtpConnection>),
    /// HTTP/1, although HTTP/2 was offered.
    Http1InsteadOf2(Stream),
    Http2(Http2Connection),
}

/// The parameters of a connection that depend on its use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms<'a> {
    pub(super) preference: Preference,
    pub(super) window: Window,
    /// For parent proxies: the proxies that the request passed, this one last. `None` for a shared connection.
    pub(super) via: Option<&'a [u8]>,
}

/// The protocols offered to an origin (ALPN, RFC 7301).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offer {
    Http1,
    /// HTTP/2, and HTTP/1.1 as an alternative.
    Http2,
}

impl Door {
    /// Opens connections through `egress`, and checks origins' certificates as `tls` says. The protocols that `tls`
    /// offers are replaced.
    pub(super) fn new(egress: Egress, tls: &ClientConfig, name: &str) -> Self {
        Self {
            egress,
            via: Version::Http11.via(name).into_bytes(),
            offering_http1: tls::offering(tls, &[b"http/1.1"]),
            offering_http2: tls::offering(tls, &[b"h2", b"http/1.1"]),
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
        let Destination {
            origin,
            source,
            client,
        } = destination;
        let asker = Asker { source, client };
        let finding = self.egress.route(origin.host(), origin.port(), asker);
        timeout_at(deadline, finding)
            .await
            .unwrap_or(Err(EgressError::DnsTimeout))
    }

    /// Returns the proxy through which `origin` is reached, if there is one.
    pub(super) fn parent_for(&self, origin: &Origin) -> Option<&Arc<Parent>> {
        self.egress.parent_for(origin.host())
    }

    /// Opens a connection to `origin` by `route`. If there is a parent proxy, it opens a tunnel through it and sends
    /// it `via`.
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
    ) -> Result<Link, Fault> {
        let link = self.reach(origin, route, deadline).await?;
        let Some(parent) = route.parent() else {
            return Ok(link);
        };
        let tunnelling = parent::tunnel(link, parent, origin, via);
        let tunnel = timeout_at(deadline, tunnelling).await;
        tunnel.unwrap_or_else(|_| Err(too_late(origin)))
    }

    /// Opens a connection to the next hop of `route`: `origin`, or the parent proxy.
    async fn reach(
        &self,
        origin: &Origin,
        route: &Route,
        deadline: Instant,
    ) -> Result<Link, Fault> {
        let tcp = dial_tcp(origin, route, deadline).await?;
        // Any TLS with the origin itself comes later, inside the tunnel.
        let Some(parent) = route.parent().filter(|it| it.speaks == Speaks::Https) else {
            return Ok(over_tcp(tcp));
        };
        let name = server_name(&parent.host)?;
        let agreed = timeout_at(deadline, self.offering_http1.connect(name, tcp)).await;
        let agreed = agreed.map_err(|_| too_late(origin))?;
        Ok(over_tls(agreed.map_err(|error| tls_fault(&error))?))
    }

    /// Opens a connection to `origin` by `route` for HTTP, or for FTP.
    ///
    /// # Errors
    ///
    /// Returns what failed: the connection, TLS or HTTP/2, or the deadline.
    pub(super) async fn open(
        &self,
        origin: &Origin,
        terms: Terms<'_>,
        route: &Route,
        deadline: Instant,
    ) -> Result<Opened, Fault> {
        if origin.scheme() != Scheme::Https {
            return self.open_plain(origin, terms, route, deadline).await;
        }
        // Most origins choose HTTP/2 if it is offered, so HTTP/1.1 has to be offered alone.
        let mut offer = match terms.preference {
            Preference::OnlyHttp1 | Preference::Upgrade | Preference::Http1 => Offer::Http1,
            Preference::Http2 => Offer::Http2,
        };
        let mut agreed = self.agree(origin, offer, route, deadline).await;
        if terms.preference == Preference::Http1 && !self.settles(origin, &agreed) {
            // Closed first: some servers accept one connection at a time.
            drop(agreed);
            offer = Offer::Http2;
            agreed = self.agree(origin, offer, route, deadline).await;
        }
        let tls = agreed.map_err(Failure::fault)?;
        let id = tls.get_ref().0.id();
        let protocol = tls.get_ref().1.alpn_protocol();
        if offer == Offer::Http1 {
            return Ok(Opened::Http1(to_origin(tls, id)));
        }
        if protocol != Some(b"h2") {
            // Remembered, so that the next HTTP/1.1 connection needs no second handshake.
            if protocol.is_none() {
                self.without_alpn.insert(origin.clone(), ());
            }
            return Ok(Opened::Http1InsteadOf2(to_origin(tls, id)));
        }
        let opening = Http2Connection::open(to_origin(tls, id), terms.window);
        let opened = timeout_at(deadline, opening).await;
        let opened = opened
            .map_err(|_| too_late(origin))?
            .map_err(|error| Fault::new(ErrorType::HttpProtocolError, cause::http2(&error)));
        Ok(Opened::Http2(opened?))
    }

    /// Like [`Self::open`], without TLS.
    async fn open_plain(
        &self,
        origin: &Origin,
        terms: Terms<'_>,
        route: &Route,
        deadline: Instant,
    ) -> Result<Opened, Fault> {
        let link = match Form::of(route.parent(), origin, terms.preference) {
            // The parent gets the request itself, so no tunnel is opened.
            Form::Absolute(_) => self.reach(origin, route, deadline).await?,
            Form::Origin if origin.scheme() == Scheme::Ftp => {
                return self.open_ftp(route, origin, deadline).await;
            }
            Form::Origin => {
                let via = terms.via.unwrap_or(&self.via);
                self.dial(origin, route, via, deadline).await?
            }
        };
        Ok(Opened::Http1(Box::new(link)))
    }

    async fn open_ftp(
        &self,
        route: &Route,
        origin: &Origin,
        deadline: Instant,
    ) -> Result<Opened, Fault> {
        if route.parent().is_some() {
            let details = "FTP goes through HTTP proxies only".to_owned();
            return Err(Fault::new(ErrorType::ProxyConfigurationError, details));
        }
        Ok(Opened::Ftp(Box::new(FtpConnection {
            tcp: dial_tcp(origin, route, deadline).await?,
            data: self.egress.beside(route),
        })))
    }

    async fn agree(
        &self,
        origin: &Origin,
        offer: Offer,
        route: &Route,
        deadline: Instant,
    ) -> Result<TlsStream<Link>, Failure> {
        let name = server_name(origin.host())?;
        let link = self.dial(origin, route, &self.via, deadline).await?;
        let connector = match offer {
            Offer::Http1 => &self.offering_http1,
            Offer::Http2 => &self.offering_http2,
        };
        let agreed = timeout_at(deadline, connector.connect(name, link)).await;
        agreed
            .map_err(|_| too_late(origin))?
            .map_err(Failure::OfTls)
    }

    /// Returns whether the result of offering HTTP/1.1 alone is final. A server that supports none of the offered
    /// protocols ought to refuse (RFC 7301 section 3.2). Many continue as if nothing had been offered instead, and
    /// would answer in HTTP/2 or with an error.
    fn settles(&self, origin: &Origin, agreed: &Result<TlsStream<Link>, Failure>) -> bool {
        match agreed {
            Ok(tls) => {
                tls.get_ref().1.alpn_protocol().is_some() || self.without_alpn.get(origin).is_some()
            }
            Err(Failure::OfTls(error)) => !tls::cause(error).is_some_and(tls::refuses_protocols),
            Err(Failure::Other(_)) => true,
        }
    }
}

/// A reason why there is no TLS with an origin.
enum Failure {
    OfTls(io::Error),
    Other(Fault),
}

impl Failure {
    fn fault(self) -> Fault {
        match self {
            Self::OfTls(error) => tls_fault(&error),
            Self::Other(fault) => fault,
        }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Other(fault)
    }
}

async fn dial_tcp(origin: &Origin, route: &Route, deadline: Instant) -> Result<TcpStream, Fault> {
    let dialled = timeout_at(deadline, route.dial()).await;
    let dialled = dialled.map_err(|_| too_late(origin))?;
    dialled.map_err(|failed| connect_fault(&failed))
}

fn server_name(host: &str) -> Result<ServerName<'static>, Fault> {
    // rustls expects IPv6 addresses without brackets.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(host.to_owned()).map_err(|_| {
        let details = format!("{host} cannot be a name in a certificate");
        Fault::new(ErrorType::TlsCertificateError, details)
    })
}

fn too_late(origin: &Origin) -> Fault {
    let details = format!("no connection to {origin} within upstream.connect_timeout");
    Fault::new(ErrorType::ConnectionTimeout, details)
}

fn connect_fault(DialError { address, error }: &DialError) -> Fault {
    let kind = match error.kind() {
        io::ErrorKind::ConnectionRefused => ErrorType::ConnectionRefused,
        io::ErrorKind::TimedOut => ErrorType::ConnectionTimeout,
        io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::AddrNotAvailable => ErrorType::DestinationIpUnroutable,
        _ => ErrorType::ConnectionTerminated,
    };
    Fault::new(kind, cause::unconnected(*address, error))
}

fn tls_fault(error: &io::Error) -> Fault {
    let kind = match tls::cause(error) {
        Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented) => {
            ErrorType::TlsCertificateError
        }
        Some(rustls::Error::AlertReceived(_)) => ErrorType::TlsAlertReceived,
        Some(_) => ErrorType::TlsProtocolError,
        None => ErrorType::ConnectionTerminated,
    };
    Fault::new(kind, cause::handshake(error))
}
