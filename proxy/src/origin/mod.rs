//! Connections to origins: from the pool if it has one, else new ones, through egress.
//!
//! pingora keeps HTTP/2's pools; the rest is done here, because what a forward proxy needs is not
//! pingora's: addresses checked and raced (RFC 8305), one TLS configuration for all origins so
//! that sessions resume, and errors that say what failed. A connection belongs to an origin, not to
//! an address: whoever asks for the same origin again needs no DNS.

pub mod egress;
pub(crate) mod error;
mod http2;
pub(crate) mod pool;
mod session;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use pingora_core::connectors::ConnectorOptions;
use pingora_core::connectors::http::v2;
use pingora_core::protocols::http::v2::client::Http2Session;
use quick_cache::sync::Cache;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use wayleave_policy::{Origin, Scheme};

use self::http2::{Http2Stream, IDLE_TIMEOUT, PoolKey};
use self::pool::Idle;
pub(crate) use self::session::{OriginHead, OriginReader, OriginWriter, start_http1, start_http2};
use crate::http::http1::oddities::Oddities;
use crate::http::proxy_status::ErrorType;
use crate::http::transport::{Stream, to_origin};
use crate::observe::metrics::{Metrics, OpenConnection};
use crate::origin::egress::{Egress, EgressError, Route};
use crate::origin::error::{Fault, describe};
use crate::tls;

/// How many origins are remembered not to agree on protocols; each saves a handshake per connection.
const ORIGINS_WITHOUT_ALPN: usize = 10_000;

/// What upstream needs to know; part of `[upstream]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// For DNS, TCP and TLS together.
    pub(crate) connect_timeout: Duration,
    /// For the response's first byte, and between bytes.
    pub(crate) response_timeout: Duration,
    /// Unused connections kept open, over all origins.
    pub(crate) idle_connections: usize,
}

/// The HTTP version that a request prefers on the way to its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Preference {
    /// HTTP/1.1 and nothing else: only there can the request be said.
    OnlyHttp1,
    /// HTTP/1.1, as the client speaks it, which needs no translation; HTTP/2 if the origin takes nothing else.
    Http1,
    /// HTTP/2 if the origin takes it.
    Http2,
}

/// A connection, or a stream of one, that can take one request.
pub(crate) struct Session {
    pub(crate) connection: Connection,
    pub(crate) lease: Lease,
}

/// A connection by what it speaks.
pub(crate) enum Connection {
    Http1(Stream),
    Http2(Box<Http2Stream>),
}

/// What is known of a connection while it serves a request.
pub(crate) struct Lease {
    /// Whether earlier requests used the connection: then it may have died unnoticed.
    pub(crate) is_reused: bool,
    key: PoolKey,
    _open: OpenConnection,
}

/// Opens and keeps connections to origins.
pub(crate) struct Upstream {
    options: Options,
    egress: Arc<Egress>,
    http1: TlsConnector,
    http2: TlsConnector,
    idle: Arc<Idle>,
    pool: Arc<v2::Connector>,
    /// Origins that agree on no protocol whatever they are offered: by what their connections are kept by.
    without_alpn: Cache<u64, ()>,
    metrics: Arc<Metrics>,
}

impl Upstream {
    /// Connections through `egress`, with origins' certificates checked as `tls` says.
    pub(crate) fn new(
        options: Options,
        egress: Arc<Egress>,
        tls: &ClientConfig,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            http1: tls::offering(tls, &[b"http/1.1"]),
            http2: tls::offering(tls, &[b"h2", b"http/1.1"]),
            idle: pool::swept(options.idle_connections, IDLE_TIMEOUT),
            pool: Arc::new(v2::Connector::new(Some(ConnectorOptions::new(
                options.idle_connections,
            )))),
            without_alpn: Cache::new(ORIGINS_WITHOUT_ALPN),
            options,
            egress,
            metrics,
        }
    }

    /// Where connections that others opened, by the same rules, serve requests, too.
    pub(crate) fn idle(&self) -> Arc<Idle> {
        Arc::clone(&self.idle)
    }

    pub(crate) fn egress(&self) -> &Egress {
        &self.egress
    }

    /// A kept connection to `origin`, if one is free.
    pub(crate) async fn reuse(&self, origin: &Origin, preference: Preference) -> Option<Session> {
        let key = self.key(origin, preference);
        if preference == Preference::Http2
            && let Some(session) = self.reuse_http2(key.clone()).await
        {
            return Some(session);
        }
        if let Some(stream) = self.idle.take(key.0) {
            return Some(self.session(Connection::Http1(stream), key, true));
        }
        if preference != Preference::Http1 || origin.scheme() != Scheme::Https {
            return None;
        }
        self.reuse_http2(self.key(origin, Preference::Http2)).await
    }

    async fn reuse_http2(&self, key: PoolKey) -> Option<Session> {
        let session = self.pool.reused_http_session(&key).await.ok().flatten()?;
        let stream = self.http2_stream(session, &key);
        Some(self.session(stream, key, true))
    }

    fn http2_stream(&self, session: Http2Session, key: &PoolKey) -> Connection {
        let stream = Http2Stream::new(session, &self.pool, key.clone());
        Connection::Http2(Box::new(stream))
    }

    /// A new connection to `origin`.
    ///
    /// # Errors
    ///
    /// Returns what failed: the name, the address, the connection or TLS.
    pub(crate) async fn connect(
        &self,
        origin: &Origin,
        preference: Preference,
    ) -> Result<Session, Fault> {
        let deadline = Instant::now() + self.options.connect_timeout;
        let route = self.route(origin, deadline).await?;
        let opening = async {
            match self.open(origin, preference, &route).await {
                Err(Unopened::WithoutHttp1(_)) if preference == Preference::Http1 => {
                    self.open(origin, Preference::Http2, &route).await
                }
                opened => opened,
            }
        };
        let opened = timeout_at(deadline, opening)
            .await
            .map_err(|_| too_late(origin))?;
        let (connection, key) = opened.map_err(Unopened::fault)?;
        Ok(self.session(connection, key, false))
    }

    /// A new TCP connection to `origin` for a tunnel, and what counts it.
    ///
    /// # Errors
    ///
    /// Returns what failed: the name, the address or the connection.
    pub(crate) async fn dial(&self, origin: &Origin) -> Result<(TcpStream, OpenConnection), Fault> {
        let deadline = Instant::now() + self.options.connect_timeout;
        let route = self.route(origin, deadline).await?;
        let tcp = timeout_at(deadline, tcp(origin, &route))
            .await
            .map_err(|_| too_late(origin))??;
        Ok((tcp, self.metrics.upstream_connection(false)))
    }

    async fn route(&self, origin: &Origin, deadline: Instant) -> Result<Route, EgressError> {
        let resolving = self.egress.route(origin.host(), origin.port());
        timeout_at(deadline, resolving)
            .await
            .unwrap_or(Err(EgressError::DnsTimeout))
    }

    /// Counts what had to be mended of a response.
    pub(crate) fn count(&self, oddities: Oddities) {
        self.metrics.origin_oddities(oddities);
    }

    /// How long an origin may take for the next byte, or to take one.
    pub(crate) fn patience(&self) -> Duration {
        self.options.response_timeout
    }

    /// Takes back an HTTP/1 connection whose response was read to its end, so that it serves again if it can. A stream of
    /// HTTP/2 gives itself back.
    pub(crate) fn release(&self, lease: &Lease, writer: OriginWriter, reader: OriginReader) {
        let OriginWriter::Http1 { stream: write, .. } = writer else {
            return;
        };
        // One that was mended might be read differently: what follows it would be nobody's either.
        let is_clear = reader.oddities().leave_framing_alone();
        let OriginReader::Http1 {
            stream,
            ahead,
            keeps_alive,
            ..
        } = reader
        else {
            return;
        };
        // Bytes behind a response are nobody's answer.
        if keeps_alive && is_clear && ahead.is_empty() {
            let stream = stream.unsplit(write);
            self.idle.keep(lease.key.0, stream);
        }
    }

    fn session(&self, connection: Connection, key: PoolKey, is_reused: bool) -> Session {
        let _open = self.metrics.upstream_connection(is_reused);
        Session {
            connection,
            lease: Lease {
                is_reused,
                key,
                _open,
            },
        }
    }

    fn key(&self, origin: &Origin, preference: Preference) -> PoolKey {
        PoolKey(self.idle.key(origin, preference == Preference::Http2))
    }

    async fn open(
        &self,
        origin: &Origin,
        preference: Preference,
        route: &Route,
    ) -> Result<(Connection, PoolKey), Unopened> {
        let key = self.key(origin, preference);
        let tcp = tcp(origin, route).await?;
        if origin.scheme() == Scheme::Http {
            return Ok((Connection::Http1(to_origin(tcp)), key));
        }
        let connector = match preference {
            Preference::OnlyHttp1 | Preference::Http1 => &self.http1,
            Preference::Http2 => &self.http2,
        };
        let name = server_name(origin)?;
        let tls = connector
            .connect(name, tcp)
            .await
            .map_err(|error| Unopened::by_tls(origin, &error))?;
        let protocol = tls.get_ref().1.alpn_protocol();
        if protocol.is_none() && !self.speaks_http1(origin, preference) {
            let details = format!("{origin} and wayleave share no protocol");
            let fault = Fault::new(ErrorType::TlsProtocolError, details);
            return Err(Unopened::WithoutHttp1(fault));
        }
        let speaks_http2 = protocol == Some(b"h2");
        let stream = to_origin(tls);
        if !speaks_http2 {
            return Ok((Connection::Http1(stream), key));
        }
        let connection = self.open_http2(stream, &key).await.map_err(|details| {
            Fault::new(
                ErrorType::HttpProtocolError,
                format!("HTTP/2 with {origin}: {details}"),
            )
        })?;
        Ok((connection, key))
    }

    /// Whether to speak HTTP/1.1 with an origin whose TLS agreed on no protocol after what `preference` offers: one that
    /// speaks HTTP/2 alone should have refused, but not all do.
    fn speaks_http1(&self, origin: &Origin, preference: Preference) -> bool {
        let PoolKey(key) = self.key(origin, Preference::Http1);
        match preference {
            Preference::OnlyHttp1 => true,
            Preference::Http1 => self.without_alpn.get(&key).is_some(),
            Preference::Http2 => {
                self.without_alpn.insert(key, ());
                true
            }
        }
    }

    async fn open_http2(&self, stream: Stream, key: &PoolKey) -> Result<Connection, String> {
        let connection = http2::handshake(stream).await;
        let connection = connection.map_err(|error| error.to_string())?;
        let stream = connection.spawn_stream().await;
        let stream = stream.map_err(|error| describe(&error))?;
        let stream = stream.ok_or("the origin accepts no more streams")?;
        if connection.more_streams_allowed() {
            self.pool.in_use_pool().insert(key.0, connection);
        }
        Ok(self.http2_stream(stream, key))
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

fn server_name(origin: &Origin) -> Result<ServerName<'static>, Fault> {
    let host = origin.host().trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(host.to_owned()).map_err(|_| {
        let details = format!("{host} cannot be a name in a certificate");
        Fault::new(ErrorType::TlsCertificateError, details)
    })
}

async fn tcp(origin: &Origin, route: &Route) -> Result<TcpStream, Fault> {
    let dialled = route.dial().await;
    dialled.map_err(|error| connect_fault(origin, &error))
}

fn too_late(origin: &Origin) -> Fault {
    let details = format!("no connection to {origin} within the connect timeout");
    Fault::new(ErrorType::ConnectionTimeout, details)
}

fn connect_fault(origin: &Origin, error: &io::Error) -> Fault {
    let kind = match error.kind() {
        io::ErrorKind::ConnectionRefused => ErrorType::ConnectionRefused,
        io::ErrorKind::TimedOut => ErrorType::ConnectionTimeout,
        io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::AddrNotAvailable => ErrorType::DestinationIpUnroutable,
        _ => ErrorType::ConnectionTerminated,
    };
    Fault::new(kind, format!("connecting to {origin}: {error}"))
}

/// Why no connection was opened.
enum Unopened {
    /// The origin takes none of the protocols that it was offered (RFC 7301 section 3.2), or does not say which it takes.
    WithoutHttp1(Fault),
    Failed(Fault),
}

impl Unopened {
    fn by_tls(origin: &Origin, error: &io::Error) -> Self {
        let cause = tls::cause(error);
        let fault = tls_fault(origin, error, cause);
        match cause {
            Some(cause) if tls::refuses_protocols(cause) => Self::WithoutHttp1(fault),
            _ => Self::Failed(fault),
        }
    }

    fn fault(self) -> Fault {
        match self {
            Self::WithoutHttp1(fault) | Self::Failed(fault) => fault,
        }
    }
}

impl From<Fault> for Unopened {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault)
    }
}

fn tls_fault(origin: &Origin, error: &io::Error, tls: Option<&rustls::Error>) -> Fault {
    let kind = match tls {
        Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented) => {
            ErrorType::TlsCertificateError
        }
        Some(rustls::Error::AlertReceived(_)) => ErrorType::TlsAlertReceived,
        Some(_) => ErrorType::TlsProtocolError,
        None => ErrorType::ConnectionTerminated,
    };
    Fault::new(kind, format!("TLS with {origin}: {error}"))
}
