//! Connections to origins, and HTTP on them.
//!
//! `egress` finds a route of checked addresses, `connect` dials it, and nothing else does. `pool` keeps connections;
//! `http2` and `session` exchange messages on them. A connection belongs to an origin, not to an address, so a later
//! request for the same origin needs no DNS.

mod cause;
mod connect;
mod destination;
pub mod egress;
pub(crate) mod error;
mod form;
mod ftp;
mod http2;
mod link;
mod parent;
mod pool;
mod session;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::time::Instant;
use wayleave_robots_txt::{Origin, Scheme};

use self::connect::{Door, Opened, Terms};
pub(crate) use self::destination::Destination;
use self::egress::{Egress, EgressError, Parent, Route};
use self::error::Fault;
pub(crate) use self::form::{Form, Preference};
pub(crate) use self::ftp::{FtpConnection, FtpRequest, Range as FtpRange, start as start_ftp};
use self::http2::{Http2Stream, Window};
pub(crate) use self::link::{Link, break_off};
pub(crate) use self::parent::{may_be_own, own_answer};
use self::pool::{Kept, Pool, PoolKey, Speaks};
pub(crate) use self::session::{
    MAX_INTERIM, OriginHead, OriginReader, OriginWriter, only_interim, start_http1, start_http2,
};
use crate::http::http1::oddities::Oddities;
use crate::http::proxy_status::ErrorType;
use crate::http::transport::Stream;
use crate::observe::metrics::{Metrics, OpenConnection};

/// The part of `[upstream]` in effect here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// For DNS, TCP and TLS together.
    pub(crate) connect_timeout: Duration,
    /// For the response's first byte, and between bytes.
    pub(crate) response_timeout: Duration,
    /// Our pseudonym in `Via`, which parent proxies get.
    pub(crate) name: String,
    /// The most idle connections that are kept, over all origins.
    pub(crate) idle_connections: usize,
}

/// A connection, or a stream of one, for one request.
pub(crate) struct Session {
    pub(crate) connection: Connection,
    pub(crate) lease: Lease,
    /// The form of request targets on this connection.
    pub(crate) form: Form,
}

/// A connection, by its protocol.
pub(crate) enum Connection {
    Http1(Stream),
    Http2(Box<Http2Stream>),
    /// A control connection, which serves one request.
    Ftp(Box<FtpConnection>),
}

/// A connection's properties while it serves a request.
pub(crate) struct Lease {
    /// Whether earlier requests used the connection: then it may have died unnoticed.
    pub(crate) is_reused: bool,
    /// The parent proxy that the connection goes through.
    pub(crate) parent: Option<Arc<Parent>>,
    key: PoolKey,
    _open: OpenConnection,
}

/// Opens and keeps connections to origins.
pub(crate) struct Upstream {
    options: Options,
    door: Door,
    pool: Arc<Pool>,
    metrics: Arc<Metrics>,
}

impl Upstream {
    /// Makes connections through `egress`, and checks origins' certificates as `tls` says.
    pub(crate) fn new(
        options: Options,
        egress: Egress,
        tls: &ClientConfig,
        metrics: Arc<Metrics>,
    ) -> Self {
        metrics.upstream_proxy(egress.has_parent());
        Self {
            door: Door::new(egress, tls, &options.name),
            pool: Pool::new(options.idle_connections),
            options,
            metrics,
        }
    }

    /// Takes an idle connection to `destination` from the pool, or a stream of a shared one.
    pub(crate) fn reuse(
        &self,
        destination: Destination<'_>,
        preference: Preference,
    ) -> Option<Session> {
        let any_http1 = || {
            let kept = self.take(destination, Speaks::Http1);
            kept.or_else(|| self.take(destination, Speaks::Http1InsteadOf2))
        };
        match preference {
            Preference::OnlyHttp1 => any_http1(),
            // Upgrade is hop-by-hop, so a parent that forwards requests drops it (RFC 9110 section 7.8).
            Preference::Upgrade if self.is_forwarded(destination.origin) => {
                self.take(destination, Speaks::Http1ByTunnel)
            }
            Preference::Upgrade => any_http1(),
            Preference::Http1 => any_http1().or_else(|| self.share(destination)),
            Preference::Http2 => {
                // Ordinary HTTP/1 connections are not used: the origin may support HTTP/2.
                let shared = self.share(destination);
                shared.or_else(|| self.take(destination, Speaks::Http1InsteadOf2))
            }
        }
    }

    fn take(&self, destination: Destination<'_>, speaks: Speaks) -> Option<Session> {
        let key = self.pool.key(destination, speaks);
        let stream = self.pool.take(key)?;
        let form = match speaks {
            Speaks::Http1ByTunnel => Form::Origin,
            _ => self.form(destination.origin, Preference::OnlyHttp1),
        };
        Some(self.session(
            Connection::Http1(stream),
            destination.origin,
            (key, form),
            true,
        ))
    }

    fn share(&self, destination: Destination<'_>) -> Option<Session> {
        // HTTP/2 is only negotiated inside TLS, so there is no need to look.
        if destination.origin.scheme() != Scheme::Https {
            return None;
        }
        let key = self.pool.key(destination, Speaks::Http2);
        let stream = Box::new(self.pool.share(key)?);
        let held = (key, Form::Origin);
        Some(self.session(Connection::Http2(stream), destination.origin, held, true))
    }

    /// Opens a connection to `destination`. If it uses HTTP/2, other requests may share it.
    ///
    /// # Errors
    ///
    /// Returns what failed: the name, the address, the connection or TLS.
    pub(crate) async fn connect(
        &self,
        destination: Destination<'_>,
        preference: Preference,
    ) -> Result<Session, Fault> {
        let deadline = self.connect_deadline();
        let route = self.route(destination, deadline).await?;
        let terms = Terms {
            preference,
            window: Window::SHARED,
            via: None,
        };
        let session = self.open(destination, terms, &route, deadline).await?;
        if let Connection::Http2(stream) = &session.connection {
            // In the pool from the start, so that concurrent requests share it.
            let connection = Kept::Http2(stream.connection());
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
    /// Returns what failed: the connection or TLS.
    pub(crate) async fn open_for_one(
        &self,
        destination: Destination<'_>,
        route: &Route,
        via: &[u8],
        deadline: Instant,
    ) -> Result<Session, Fault> {
        let terms = Terms {
            preference: Preference::Http1,
            window: Window::SMALL,
            via: Some(via),
        };
        self.open(destination, terms, route, deadline).await
    }

    /// Opens a connection to `destination` for a tunnel that passed the proxies in `via`, and returns it with the
    /// guard that counts it.
    ///
    /// # Errors
    ///
    /// Returns what failed: the name, the address or the connection.
    pub(crate) async fn dial(
        &self,
        destination: Destination<'_>,
        via: &[u8],
    ) -> Result<(Link, OpenConnection), Fault> {
        let deadline = self.connect_deadline();
        let route = self.route(destination, deadline).await?;
        let dialling = self.door.dial(destination.origin, &route, via, deadline);
        let dialled = dialling.await;
        let link = dialled.map_err(|fault| fault.by(route.parent().map(|it| &**it)))?;
        Ok((link, self.metrics.upstream_connection(false)))
    }

    /// Returns the time by which a connection attempt that starts now must succeed.
    pub(crate) fn connect_deadline(&self) -> Instant {
        Instant::now() + self.options.connect_timeout
    }

    /// Returns the route to `destination`, if it is found before the deadline.
    ///
    /// # Errors
    ///
    /// As [`Egress::route`].
    pub(crate) async fn route(
        &self,
        destination: Destination<'_>,
        deadline: Instant,
    ) -> Result<Route, EgressError> {
        self.door.route(destination, deadline).await
    }

    async fn open(
        &self,
        destination: Destination<'_>,
        terms: Terms<'_>,
        route: &Route,
        deadline: Instant,
    ) -> Result<Session, Fault> {
        let origin = destination.origin;
        let opened = self.door.open(origin, terms, route, deadline);
        let opened = opened.await;
        let opened = opened.map_err(|fault| fault.by(route.parent().map(|it| &**it)))?;
        let form = self.form(origin, terms.preference);
        let (connection, speaks) = match opened {
            Opened::Http1(stream)
                if terms.preference == Preference::Upgrade && self.is_forwarded(origin) =>
            {
                (Connection::Http1(stream), Speaks::Http1ByTunnel)
            }
            Opened::Http1(stream) => (Connection::Http1(stream), Speaks::Http1),
            Opened::Ftp(control) => (Connection::Ftp(control), Speaks::Http1),
            Opened::Http1InsteadOf2(stream) => (Connection::Http1(stream), Speaks::Http1InsteadOf2),
            Opened::Http2(connection) => {
                let stream = connection.stream().ok_or_else(|| no_stream(origin))?;
                (Connection::Http2(Box::new(stream)), Speaks::Http2)
            }
        };
        let held = (self.pool.key(destination, speaks), form);
        Ok(self.session(connection, origin, held, false))
    }

    /// Counts what was repaired in a response.
    pub(crate) fn count(&self, oddities: Oddities) {
        self.metrics.origin_oddities(oddities);
    }

    /// Counts interim responses that were not forwarded to their client.
    pub(crate) fn count_dropped_interim(&self, count: u64) {
        self.metrics.dropped_interim(count);
    }

    /// Returns our pseudonym.
    pub(crate) fn name(&self) -> &str {
        &self.options.name
    }

    /// Returns how long an origin may take to send, or to accept, the next byte.
    pub(crate) fn patience(&self) -> Duration {
        self.options.response_timeout
    }

    /// Returns an HTTP/1 connection to the pool after its response was read to the end, if it can serve again. HTTP/2
    /// streams need no release.
    pub(crate) fn release(&self, lease: &Lease, writer: OriginWriter, reader: OriginReader) {
        let OriginWriter::Http1 { stream: write, .. } = writer else {
            return;
        };
        // Another reader might end a repaired message elsewhere, and take the rest for the next response.
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
        // Bytes after a response belong to no request: response splitting (RFC 9112 section 11.1).
        if keeps_alive && is_clear && ahead.is_empty() {
            self.pool
                .keep(lease.key, Kept::Http1(stream.unsplit(write)));
        }
    }

    /// Returns whether a parent proxy forwards requests to `origin` in plain HTTP, instead of opening a tunnel.
    fn is_forwarded(&self, origin: &Origin) -> bool {
        let form = self.form(origin, Preference::OnlyHttp1);
        matches!(form, Form::Absolute(_))
    }

    fn form(&self, origin: &Origin, preference: Preference) -> Form {
        Form::of(self.door.parent_for(origin), origin, preference)
    }

    fn session(
        &self,
        connection: Connection,
        origin: &Origin,
        (key, form): (PoolKey, Form),
        is_reused: bool,
    ) -> Session {
        let _open = self.metrics.upstream_connection(is_reused);
        Session {
            connection,
            lease: Lease {
                is_reused,
                parent: self.door.parent_for(origin).cloned(),
                key,
                _open,
            },
            form,
        }
    }
}

fn no_stream(origin: &Origin) -> Fault {
    let details = format!("HTTP/2 with {origin}: the origin accepts no streams");
    Fault::new(ErrorType::HttpProtocolError, details)
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
