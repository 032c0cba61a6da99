//! TCP connections to the first of several addresses that accepts one (RFC 8305 section 5).

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::net::{TcpSocket, TcpStream};

use super::check::CheckedAddress;
use super::error::DialError;
use super::{DataRoute, Route};
use crate::http::transport::{self, UNACKNOWLEDGED_TIMEOUT};

/// The time before the next address is tried concurrently: the value that RFC 8305 section 8 recommends.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

impl Route {
    /// Opens a connection to one of the route's addresses. The next address is tried when one fails, or concurrently
    /// when one is slow. There is no deadline: the caller sets one.
    ///
    /// # Errors
    ///
    /// The error of the address that failed last, if all did.
    pub async fn dial(&self) -> Result<TcpStream, DialError> {
        if let Some(origin) = self.drill {
            return Ok(connect(origin, None).await?);
        }
        let addresses = self.addresses.iter().copied();
        let connect = |checked: CheckedAddress| async move {
            let address = checked.socket_address();
            connect(address, self.sources.matching_family(address))
                .await
                .map_err(|error| DialError { address: Some(address), error })
        };
        let stream = race(addresses, connect).await?;
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
    let Some(source) = source else {
        return TcpStream::connect(address).await;
    };
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // The message names the source address: it may not be this machine's any more.
    socket
        .bind(SocketAddr::new(source, 0))
        .map_err(|error| io::Error::new(error.kind(), format!("from {source}: {error}")))?;
    socket.connect(address).await
}

async fn race<A, S, E, F>(
    mut addresses: impl Iterator<Item = A>,
    connect: impl Fn(A) -> F,
) -> Result<S, E>
where
    E: From<io::Error>,
    F: Future<Output = Result<S, E>>,
{
    // Attempts that were overtaken continue: a slow address may still win.
    let mut attempts = FuturesUnordered::new();
    let mut last_error = E::from(io::ErrorKind::AddrNotAvailable.into());
    loop {
        match addresses.next() {
            Some(address) => attempts.push(connect(address)),
            None if attempts.is_empty() => return Err(last_error),
            None => {}
        }
        let mut delay = pin!(tokio::time::sleep(ATTEMPT_DELAY));
        tokio::select! {
            Some(outcome) = attempts.next() => match outcome {
                Ok(stream) => return Ok(stream),
                Err(error) => last_error = error,
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
        let reached: io::Result<_> = race(addresses(), |address| async move {
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
    async fn last_error_is_reported_when_all_fail() {
        let reached: io::Result<()> = race(addresses(), |address| async move {
            Err(match address {
                3 => io::Error::from(io::ErrorKind::HostUnreachable),
                _ => io::Error::from(io::ErrorKind::ConnectionRefused),
            })
        })
        .await;
        assert_eq!(reached.unwrap_err().kind(), io::ErrorKind::HostUnreachable);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_first_address_can_still_win() {
        let reached: io::Result<_> = race(addresses(), |address| async move {
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
