//! TCP connections to the first of several addresses that accepts one (RFC 8305 section 5).

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::net::{TcpSocket, TcpStream};
use wayleave_transport::descriptors;
use wayleave_transport::http::transport::{self, UNACKNOWLEDGED_TIMEOUT};

use super::check::CheckedAddress;
use super::error::DialError;
use super::{DataRoute, Route};

/// The time before the next address is tried concurrently: the value that RFC 8305 section 8 recommends.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

impl Route {
    /// Opens a connection to one of the route's addresses. The next address is tried when one fails, or concurrently
    /// when one is slow. There is no deadline: the caller sets one.
    ///
    /// # Errors
    ///
    /// The error of the address that failed last, if all did; of one that failed for a reason on this side only if all did.
    pub async fn dial(&self) -> Result<TcpStream, DialError> {
        let addresses = self.addresses.iter().copied();
        let connect = |checked: CheckedAddress| async move {
            let address = checked.socket_address();
            connect(address, self.sources.matching_family(address))
                .await
                .map_err(|error| DialError { address: Some(address), error })
        };
        let stream = race(addresses, connect).await.map_err(decisive_error)?;
        transport::set_tcp_options(&stream, UNACKNOWLEDGED_TIMEOUT)?;
        Ok(stream)
    }
}

impl DataRoute {
    /// Opens a connection to `address`, if it may be dialled.
    ///
    /// # Errors
    ///
    /// If it may not, or does not accept one.
    pub(crate) async fn dial(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let address = self.check.check(address).map_err(io::Error::other)?.socket_address();
        let stream = connect(address, self.sources.matching_family(address)).await?;
        transport::set_tcp_options(&stream, UNACKNOWLEDGED_TIMEOUT)?;
        Ok(stream)
    }
}

/// Connects to an address that was checked. This is the only connect to an origin; clippy.toml forbids others.
#[expect(clippy::disallowed_methods)]
async fn connect(address: SocketAddr, source: Option<IpAddr>) -> io::Result<TcpStream> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    if descriptors::is_reserved(&socket) {
        return Err(descriptors::used_up());
    }
    if let Some(source) = source {
        // The message names the source address: it may not be this machine's any more.
        socket
            .bind(SocketAddr::new(source, 0))
            .map_err(|error| io::Error::new(error.kind(), format!("from {source}: {error}")))?;
    }
    socket.connect(address).await
}

/// Returns the last error that shows something about the host, or else the last of all. On a machine without IPv6, a host's
/// IPv6 addresses fail for a reason on this side.
fn decisive_error(errors: Vec<DialError>) -> DialError {
    let decisive = errors.into_iter().max_by_key(|error| !error.is_local());
    decisive.unwrap_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable).into())
}

/// Returns the first connection that is made, or every address's error.
async fn race<A, S, E, F>(
    mut addresses: impl Iterator<Item = A>,
    connect: impl Fn(A) -> F,
) -> Result<S, Vec<E>>
where
    F: Future<Output = Result<S, E>>,
{
    // Attempts that were overtaken continue: a slow address may still win.
    let mut attempts = FuturesUnordered::new();
    let mut errors = Vec::new();
    loop {
        match addresses.next() {
            Some(address) => attempts.push(connect(address)),
            None if attempts.is_empty() => return Err(errors),
            None => {}
        }
        let mut delay = pin!(tokio::time::sleep(ATTEMPT_DELAY));
        tokio::select! {
            Some(outcome) = attempts.next() => match outcome {
                Ok(stream) => return Ok(stream),
                Err(error) => errors.push(error),
            },
            () = &mut delay => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Egress, EgressSettings, RouteRequester};
    use super::*;

    /// Returns numbers that stand for addresses.
    fn addresses() -> std::vec::IntoIter<u16> {
        vec![1, 2, 3].into_iter()
    }

    #[tokio::test(start_paused = true)]
    async fn silent_address_delays_by_a_quarter_second() {
        let started = tokio::time::Instant::now();
        let reached: Result<_, Vec<io::Error>> = race(addresses(), |address| async move {
            if address == 1 {
                std::future::pending::<()>().await;
            }
            Ok(address)
        })
        .await;
        assert_eq!(reached.ok(), Some(2));
        let took = started.elapsed();
        assert!(took >= ATTEMPT_DELAY && took < ATTEMPT_DELAY * 2, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn refusing_address_causes_no_delay() {
        let started = tokio::time::Instant::now();
        let reached = race(addresses(), |address| async move {
            match address {
                3 => Ok(3),
                _ => Err(io::Error::from(io::ErrorKind::ConnectionRefused)),
            }
        })
        .await;
        assert_eq!(reached.ok(), Some(3));
        assert_eq!(started.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn last_error_of_the_host_is_reported_when_all_fail() {
        use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
        for (kinds, expected) in [
            ([ConnectionRefused, ConnectionRefused, HostUnreachable], HostUnreachable),
            ([NetworkUnreachable, ConnectionRefused, NetworkUnreachable], ConnectionRefused),
            ([NetworkUnreachable; 3], NetworkUnreachable),
        ] {
            let reached: Result<(), Vec<DialError>> =
                race(kinds.into_iter(), |kind| async move { Err(io::Error::from(kind).into()) })
                    .await;
            assert_eq!(decisive_error(reached.unwrap_err()).error.kind(), expected, "{kinds:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_first_address_can_still_win() {
        let reached: Result<_, Vec<io::Error>> = race(addresses(), |address| async move {
            if address != 1 {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(Duration::from_secs(3)).await;
            Ok(address)
        })
        .await;
        assert_eq!(reached.ok(), Some(1));
    }

    #[tokio::test]
    async fn dialled_sockets_have_a_user_timeout() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let egress = Egress::new(EgressSettings {
            allow_private: vec!["127.0.0.1/32".parse().unwrap()],
            ..EgressSettings::default()
        });
        let port = listener.local_addr().unwrap().port();
        let route =
            egress.unwrap().route("127.0.0.1", port, RouteRequester::default()).await.unwrap();
        let timeout = socket2::SockRef::from(&route.dial().await.unwrap()).tcp_user_timeout();
        assert_eq!(timeout.unwrap(), Some(UNACKNOWLEDGED_TIMEOUT));
    }
}
