//! Connections to origins, and HTTP on them.
//!
//! `egress` finds a route of checked addresses, `connector` dials it, and nothing else does. `pool` keeps connections;
//! `http2` and `session` exchange messages on them, and never send a request again (`exchange::attempt` does). A connection belongs to an origin, not to an address, so a later
//! request for the same origin needs no DNS.
//!
//! This crate knows nothing of robots.txt, crawlers or clients. Begin reading at [`Upstream`].

mod connector;
mod describe;
mod destination;
pub mod egress;
pub mod error;
mod ftp;
mod http2;
mod link;
mod parent_tunnel;
mod pool;
mod request_form;
mod session;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use quick_cache::sync::Cache;
use rustls::ClientConfig;
use tokio::time::Instant;
use wayleave_decision::Reason;
use wayleave_http_wire::http1::oddities::Oddities;
use wayleave_robots_txt::{Origin, UrlScheme};
use wayleave_telemetry::metrics::{ConnectionAge, Metrics, OpenConnection};
use wayleave_transport::http::transport::BoxedStream;

use self::connector::{ConnectOptions, DialledConnection, OpenedConnection, UpstreamConnector};
pub use self::destination::Destination;
use self::egress::{Egress, EgressError, ParentProxy, Route, pace_network};
use self::error::UpstreamError;
pub use self::ftp::{ByteRange as FtpRange, FtpConnection, FtpRequest, start as start_ftp};
use self::http2::{FlowWindow, Http2Stream};
pub use self::link::{UpstreamLink, local_address, reset_on_drop};
pub use self::parent_tunnel::{may_be_own_response, own_response_error};
use self::pool::{ConnectionPool, PoolKey, PooledConnection, PooledProtocol};
pub use self::request_form::{TargetForm, VersionPreference};
pub use self::session::{
    MAX_INTERIM, UpstreamHead, UpstreamReader, UpstreamWriter, endless_interim_responses,
    start_http1, start_http2,
};

/// The most origins of which it is remembered that they want HTTP/1.1.
const HTTP1_ORIGINS: usize = 10_000;

/// The settings of connections to origins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamSettings {
    /// The timeout of DNS, TCP and TLS together.
    pub connect_timeout: Duration,
    /// The timeout of the response's first byte, and between bytes.
    pub response_timeout: Duration,
    /// Our pseudonym in `Via`, which parent proxies get.
    pub pseudonym: String,
    /// The most connections in the pool, over all origins: idle HTTP/1 ones, and HTTP/2 ones also while they are in use.
    pub idle_connections: usize,
}

/// A connection, or a stream of one, for one request.
pub struct UpstreamSession {
    pub connection: UpstreamConnection,
    pub lease: ConnectionLease,
    /// The form of request targets on this connection.
    pub target_form: TargetForm,
}

impl UpstreamSession {
    /// Returns whether a request may be sent on it: an HTTP/2 origin that was silent for long has to answer a PING first.
    pub async fn is_alive(&self) -> bool {
        match &self.connection {
            UpstreamConnection::Http2(stream) if stream.is_doubtful() => {
                // Boxed because it is rare.
                Box::pin(stream.is_alive()).await
            }
            _ => true,
        }
    }
}

/// A connection, by its protocol.
pub enum UpstreamConnection {
    Http1(BoxedStream),
    Http2(Box<Http2Stream>),
    /// A control connection, which serves one request.
    Ftp(Box<FtpConnection>),
}

/// A connection's properties while it serves a request.
pub struct ConnectionLease {
    /// Whether earlier requests used the connection: then it may have died unnoticed.
    pub is_reused: bool,
    /// The parent proxy that the connection goes through.
    pub parent: Option<Arc<ParentProxy>>,
    /// The network of the address that accepted the connection, if the request keeps the pace of one.
    pub network: Option<IpNet>,
    key: PoolKey,
    _open: OpenConnection,
}

/// Opens and keeps connections to origins.
pub struct Upstream {
    settings: UpstreamSettings,
    connector: UpstreamConnector,
    pool: Arc<ConnectionPool>,
    /// Origins that want HTTP/1.1, although they agree on HTTP/2.
    http1_only: Cache<Origin, ()>,
    metrics: Arc<Metrics>,
}

impl Upstream {
    /// Makes connections through `egress`, and checks origins' certificates as `tls` says.
    pub fn new(
        settings: UpstreamSettings,
        egress: Egress,
        tls: &ClientConfig,
        metrics: Arc<Metrics>,
    ) -> Self {
        metrics.upstream_proxy(egress.has_parent());
        Self {
            connector: UpstreamConnector::new(egress, tls, &settings.pseudonym),
            pool: ConnectionPool::new(settings.idle_connections),
            http1_only: Cache::new(HTTP1_ORIGINS),
            settings,
            metrics,
        }
    }

    /// Takes an idle connection to `destination` from the pool, or a stream of a shared one, for a request that can be
    /// repeated.
    pub fn reuse(
        &self,
        destination: Destination<'_>,
        preference: VersionPreference,
    ) -> Option<UpstreamSession> {
        let any_http1 = || {
            self.take_http1(destination, PooledProtocol::Http1)
                .or_else(|| self.take_http1(destination, PooledProtocol::Http1Fallback))
        };
        match preference {
            VersionPreference::OnlyHttp1 => any_http1(),
            // Upgrade is hop-by-hop, so a parent that forwards requests drops it (RFC 9110 section 7.8).
            VersionPreference::Upgrade if self.is_forwarded_by_parent(destination.origin) => {
                self.take_http1(destination, PooledProtocol::Http1ThroughTunnel)
            }
            VersionPreference::Upgrade => any_http1(),
            VersionPreference::Http1 => any_http1().or_else(|| self.share(destination, preference)),
            VersionPreference::Http2 if self.wants_http1(destination.origin) => any_http1(),
            // Ordinary HTTP/1 connections are not used: the origin may support HTTP/2.
            VersionPreference::Http2 => self
                .share_http2(destination)
                .or_else(|| self.take_http1(destination, PooledProtocol::Http1Fallback)),
        }
    }

    /// Takes a stream of a shared connection to `destination`, for a request that cannot be repeated. Its origin may just
    /// be closing an idle HTTP/1 connection, and nobody would know whether it had served the request.
    pub fn share(
        &self,
        destination: Destination<'_>,
        preference: VersionPreference,
    ) -> Option<UpstreamSession> {
        match self.settled(destination.origin, preference) {
            VersionPreference::Http1 | VersionPreference::Http2 => self.share_http2(destination),
            VersionPreference::OnlyHttp1 | VersionPreference::Upgrade => None,
        }
    }

    /// Remembers that an origin wants HTTP/1.1, although it agrees on HTTP/2.
    pub fn remember_http1(&self, origin: &Origin) {
        self.http1_only.insert(origin.clone(), ());
    }

    fn wants_http1(&self, origin: &Origin) -> bool {
        self.http1_only.get(origin).is_some()
    }

    fn settled(&self, origin: &Origin, preference: VersionPreference) -> VersionPreference {
        match preference {
            VersionPreference::Http1 | VersionPreference::Http2 if self.wants_http1(origin) => {
                VersionPreference::OnlyHttp1
            }
            preference => preference,
        }
    }

    fn take_http1(
        &self,
        destination: Destination<'_>,
        protocol: PooledProtocol,
    ) -> Option<UpstreamSession> {
        let (key, stream) = self.pool.take(self.pool.key(destination, protocol))?;
        let form = match protocol {
            // Inside the tunnel, the origin itself gets the request.
            PooledProtocol::Http1ThroughTunnel => TargetForm::Origin,
            _ => self.target_form(destination.origin, VersionPreference::OnlyHttp1),
        };
        Some(self.new_session(
            UpstreamConnection::Http1(stream),
            destination,
            (key, form),
            ConnectionAge::Reused,
        ))
    }

    fn share_http2(&self, destination: Destination<'_>) -> Option<UpstreamSession> {
        // HTTP/2 is only negotiated inside TLS, so there is no need to look.
        if destination.origin.scheme() != UrlScheme::Https {
            return None;
        }
        let key = self.pool.key(destination, PooledProtocol::Http2);
        let connection = UpstreamConnection::Http2(Box::new(self.pool.share(key)?));
        let key_and_form = (key, TargetForm::Origin);
        Some(self.new_session(connection, destination, key_and_form, ConnectionAge::Reused))
    }

    /// Opens a connection to `destination`. If it uses HTTP/2, other requests may share it.
    ///
    /// # Errors
    ///
    /// Returns the step that failed: the name, the address, the connection or TLS.
    pub async fn connect(
        &self,
        destination: Destination<'_>,
        preference: VersionPreference,
    ) -> Result<UpstreamSession, UpstreamError> {
        let deadline = self.connect_deadline();
        let route = self.route(destination, deadline).await?;
        let options = ConnectOptions { preference, window: FlowWindow::SHARED, via: None };
        let session = self.open(destination, options, &route, deadline).await?;
        if let UpstreamConnection::Http2(stream) = &session.connection {
            // In the pool from the start, so that concurrent requests share it.
            let connection = PooledConnection::Http2(stream.connection());
            self.pool.keep(session.lease.key, connection);
        }
        Ok(session)
    }

    /// Opens a connection to `destination` by `route` for one short response, which no other request shares. It uses
    /// HTTP/1.1 if the origin does, because then it can serve others once it is released. `via` names the proxies
    /// that the request behind it has passed.
    ///
    /// # Errors
    ///
    /// Returns the step that failed: the connection or TLS.
    pub async fn connect_unshared(
        &self,
        destination: Destination<'_>,
        route: &Route,
        via: &[u8],
        deadline: Instant,
    ) -> Result<UpstreamSession, UpstreamError> {
        let options = ConnectOptions {
            preference: VersionPreference::Http1,
            window: FlowWindow::SMALL,
            via: Some(via),
        };
        self.open(destination, options, route, deadline).await
    }

    /// Opens a connection to `destination` for a tunnel that passed the proxies in `via`, and returns it with the
    /// guard that counts it.
    ///
    /// # Errors
    ///
    /// Returns the step that failed: the name, the address or the connection.
    pub async fn dial_tunnel(
        &self,
        destination: Destination<'_>,
        via: &[u8],
    ) -> Result<(UpstreamLink, OpenConnection), UpstreamError> {
        let deadline = self.connect_deadline();
        let route = self.route(destination, deadline).await?;
        let dial = || self.connector.dial(destination.origin, &route, via, deadline);
        let link = self
            .with_room(dial)
            .await
            .map_err(|error| error.through_parent(route.parent().map(|parent| &**parent)))?;
        Ok((link, self.metrics.upstream_connection(ConnectionAge::New)))
    }

    /// Returns the time by which a connection attempt that starts now must succeed.
    pub fn connect_deadline(&self) -> Instant {
        Instant::now() + self.settings.connect_timeout
    }

    /// Returns the route to `destination`, if it is found before the deadline.
    ///
    /// # Errors
    ///
    /// As [`Egress::route`].
    pub async fn route(
        &self,
        destination: Destination<'_>,
        deadline: Instant,
    ) -> Result<Route, EgressError> {
        self.connector.route(destination, deadline).await
    }

    async fn open(
        &self,
        destination: Destination<'_>,
        options: ConnectOptions<'_>,
        route: &Route,
        deadline: Instant,
    ) -> Result<UpstreamSession, UpstreamError> {
        let origin = destination.origin;
        let preference = self.settled(origin, options.preference);
        let options = ConnectOptions { preference, ..options };
        let open = || self.connector.open(origin, options, route, deadline);
        let DialledConnection { opened, peer } = self
            .with_room(open)
            .await
            .map_err(|error| error.through_parent(route.parent().map(|parent| &**parent)))?;
        let form = self.target_form(origin, options.preference);
        let (connection, protocol) = match opened {
            OpenedConnection::Http1(stream)
                if options.preference == VersionPreference::Upgrade
                    && self.is_forwarded_by_parent(origin) =>
            {
                (UpstreamConnection::Http1(stream), PooledProtocol::Http1ThroughTunnel)
            }
            OpenedConnection::Http1(stream) => {
                (UpstreamConnection::Http1(stream), PooledProtocol::Http1)
            }
            // It serves one request and is never kept, so its key does not matter.
            OpenedConnection::Ftp(control) => {
                (UpstreamConnection::Ftp(control), PooledProtocol::Http1)
            }
            OpenedConnection::Http1Fallback(stream) => {
                (UpstreamConnection::Http1(stream), PooledProtocol::Http1Fallback)
            }
            OpenedConnection::Http2(connection) => {
                let stream = connection.open_stream().ok_or_else(|| no_stream_error(origin))?;
                (UpstreamConnection::Http2(Box::new(stream)), PooledProtocol::Http2)
            }
        };
        // Its own network, so that it never serves a request that was paced for another one.
        let network = destination.network.and(peer).and_then(pace_network);
        let destination = Destination { network, ..destination };
        let key = self.pool.key(destination, protocol);
        Ok(self.new_session(connection, destination, (key, form), ConnectionAge::New))
    }

    /// Closes the connections that are kept without being used, for their descriptors. Returns whether there were any.
    pub fn close_idle_connections(&self) -> bool {
        self.pool.close_idle()
    }

    /// Opens a connection, for which idle ones are closed if there is no descriptor left.
    async fn with_room<T, F>(&self, open: impl Fn() -> F) -> Result<T, UpstreamError>
    where
        F: Future<Output = Result<T, UpstreamError>>,
    {
        match open().await {
            Err(fault) if fault.reason == Reason::ProxyInternalError && self.pool.close_idle() => {
                open().await
            }
            opened => opened,
        }
    }

    /// Counts the repairs to a response.
    pub fn count_oddities(&self, oddities: Oddities) {
        self.metrics.origin_oddities(oddities);
    }

    /// Counts interim responses that were not forwarded to their client.
    pub fn count_dropped_interim(&self, count: u64) {
        self.metrics.dropped_interim(count);
    }

    /// Returns our pseudonym.
    pub fn pseudonym(&self) -> &str {
        &self.settings.pseudonym
    }

    /// Returns how long an origin may take to send, or to accept, the next byte.
    pub fn response_timeout(&self) -> Duration {
        self.settings.response_timeout
    }

    /// Returns an HTTP/1 connection to the pool after its response was read to the end, if it can serve again. HTTP/2
    /// streams need no release.
    pub fn release(&self, lease: &ConnectionLease, writer: UpstreamWriter, reader: UpstreamReader) {
        let UpstreamWriter::Http1 { stream: write, .. } = writer else {
            return;
        };
        // Another reader might end a repaired message elsewhere, and take the rest for the next response.
        let is_clear = reader.oddities().is_framing_certain();
        let UpstreamReader::Http1 { stream, buffered, keeps_alive, .. } = reader else {
            return;
        };
        // Bytes after a response belong to no request: response splitting (RFC 9112 section 11.1).
        if keeps_alive && is_clear && buffered.is_empty() {
            self.pool.keep(lease.key, PooledConnection::Http1(stream.unsplit(write)));
        }
    }

    /// Returns whether a parent proxy forwards requests to `origin` in plain HTTP, instead of opening a tunnel.
    fn is_forwarded_by_parent(&self, origin: &Origin) -> bool {
        let form = self.target_form(origin, VersionPreference::OnlyHttp1);
        matches!(form, TargetForm::Absolute(_))
    }

    fn target_form(&self, origin: &Origin, preference: VersionPreference) -> TargetForm {
        TargetForm::choose(self.connector.parent_for(origin), origin, preference)
    }

    fn new_session(
        &self,
        connection: UpstreamConnection,
        destination: Destination<'_>,
        (key, form): (PoolKey, TargetForm),
        age: ConnectionAge,
    ) -> UpstreamSession {
        let _open = self.metrics.upstream_connection(age);
        UpstreamSession {
            connection,
            lease: ConnectionLease {
                is_reused: age == ConnectionAge::Reused,
                parent: self.connector.parent_for(destination.origin).cloned(),
                network: destination.network,
                key,
                _open,
            },
            target_form: form,
        }
    }
}

fn no_stream_error(origin: &Origin) -> UpstreamError {
    // SETTINGS_MAX_CONCURRENT_STREAMS may be zero (RFC 9113 section 6.5.2).
    let details = format!("HTTP/2 with {origin}: the origin accepts no streams");
    UpstreamError::new(Reason::HttpProtocolError, details)
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("settings", &self.settings).finish_non_exhaustive()
    }
}
