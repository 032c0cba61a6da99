//! The listening sockets: inherited from the service manager if it holds one for an address, otherwise bound here.
//!
//! A socket that systemd holds (systemd.socket(5)) outlives the process: while one wayleave ends and the next one starts,
//! connections wait in its queue instead of being refused.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use anyhow::{Context, ensure};
use listenfd::ListenFd;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::time::Instant;
use wayleave_config::{GatewayListen, GatewayProtocol, ListenAddress, ListenProtocol};

/// The connections that may wait to be accepted, unless the system allows fewer (`net.core.somaxconn`, whose default this is).
/// The packets of further ones are dropped, and their clients retry after a second at the earliest.
const BACKLOG: i32 = 4096;
/// The interval at which binding an address in use is retried; clients wait at most this long once it is free.
const BIND_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// A listening socket for clients, bound to its address. It belongs to no runtime yet: it is bound before the runtime that
/// accepts its connections exists.
#[derive(Debug)]
pub struct BoundListener {
    pub listener: TcpListener,
    /// The address, with the port that the system chose.
    pub listen_address: ListenAddress,
}

impl BoundListener {
    /// Takes over a listening, non-blocking socket.
    ///
    /// # Errors
    ///
    /// Returns an error if the socket has no address, or cannot take the connections of its protocol.
    pub fn new(listener: TcpListener, protocol: ListenProtocol) -> io::Result<Self> {
        let address = listener.local_addr()?;
        if protocol == ListenProtocol::Tproxy {
            accept_foreign_destinations(&listener, address)?;
        }
        Ok(Self { listener, listen_address: ListenAddress { address, protocol } })
    }

    pub fn url(&self) -> String {
        self.listen_address.url()
    }
}

/// The listening sockets of a process, but for the operators' one.
#[derive(Debug)]
pub struct BoundListeners {
    pub clients: Vec<BoundListener>,
    pub gateways: Vec<BoundGateway>,
}

/// A listening socket where gateways ask.
#[derive(Debug)]
pub struct BoundGateway {
    pub protocol: GatewayProtocol,
    pub bound: BoundListener,
}

impl BoundGateway {
    pub fn listen(&self) -> GatewayListen {
        GatewayListen { protocol: self.protocol, address: self.bound.listen_address.address }
    }
}

/// The listening sockets that this process was started with.
#[derive(Debug)]
pub struct InheritedSockets {
    sockets: Vec<(SocketAddr, TcpListener)>,
}

impl InheritedSockets {
    /// Takes over the sockets of `LISTEN_FDS`. Call it once, before anything else opens descriptors.
    ///
    /// # Errors
    ///
    /// Returns an error if one of them is not a listening TCP socket.
    pub fn from_environment() -> anyhow::Result<Self> {
        let mut given = ListenFd::from_env();
        let mut sockets = Vec::with_capacity(given.len());
        for index in 0..given.len() {
            let taken = given
                .take_tcp_listener(index)
                .with_context(|| format!("inherited socket {index} is not a TCP listener"))?;
            if let Some(socket) = taken {
                // tokio requires it, and a service manager may pass blocking sockets.
                socket.set_nonblocking(true)?;
                sockets.push((socket.local_addr()?, socket));
            }
        }
        Ok(Self { sockets })
    }

    /// Returns whether none were inherited, or all are in use.
    pub fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }

    /// Returns the inherited listener for the address of `key`, or binds a new one.
    ///
    /// # Errors
    ///
    /// Returns an error if the address cannot be bound.
    pub fn take_or_bind(
        &mut self,
        key: &str,
        listen_address: ListenAddress,
    ) -> anyhow::Result<BoundListener> {
        let ListenAddress { address, protocol } = listen_address;
        let listener = match self.take(address) {
            Some(socket) => Ok(socket),
            None => bind(address),
        };
        let bound = listener.and_then(|listener| BoundListener::new(listener, protocol));
        bound.map_err(|error| explain(key, address, error))
    }

    /// Takes the inherited listener for `address`, if there is one.
    pub fn take(&mut self, address: SocketAddr) -> Option<TcpListener> {
        let index = self.sockets.iter().position(|(own, _)| *own == address)?;
        Some(self.sockets.swap_remove(index).1)
    }

    /// Checks that every inherited socket is in use.
    ///
    /// # Errors
    ///
    /// Names the sockets whose address is not in the configuration: their clients would wait forever.
    pub fn ensure_all_used(&self) -> anyhow::Result<()> {
        let unused: Vec<String> =
            self.sockets.iter().map(|(address, _)| address.to_string()).collect();
        ensure!(
            unused.is_empty(),
            "inherited sockets that proxy.listen, gateway.listen and admin.listen do not name: {}",
            unused.join(", ")
        );
        Ok(())
    }
}

/// Binds a listener with a longer queue than the library's 128 connections, which crawlers that start together exceed.
fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    SockRef::from(&listener).listen(BACKLOG)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Lets the kernel hand connections to the listener whose destination is not this machine's (TPROXY). systemd can do that for an
/// inherited socket (`Transparent=yes`); otherwise it takes a capability.
fn accept_foreign_destinations(listener: &TcpListener, address: SocketAddr) -> io::Result<()> {
    let socket = SockRef::from(listener);
    let (is_transparent, set) = match address {
        SocketAddr::V4(_) => (socket.ip_transparent_v4()?, socket.set_ip_transparent_v4(true)),
        SocketAddr::V6(_) => (socket.ip_transparent_v6()?, socket.set_ip_transparent_v6(true)),
    };
    match set {
        Err(error) if !is_transparent && error.kind() == ErrorKind::PermissionDenied => {
            let details =
                "tproxy:// needs CAP_NET_ADMIN, or a socket of systemd's with Transparent=yes";
            Err(io::Error::new(error.kind(), details))
        }
        Err(error) if !is_transparent => Err(error),
        _ => Ok(()),
    }
}

/// Binds `address`, and retries until `timeout` while another process still uses it.
///
/// # Errors
///
/// Returns an error, which names the `key` of the address, if it cannot be bound in that time.
pub async fn bind_when_free(
    key: &str,
    address: SocketAddr,
    timeout: Duration,
) -> anyhow::Result<TcpListener> {
    let until = Instant::now() + timeout;
    loop {
        match bind(address) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < until => {
                tokio::time::sleep(BIND_RETRY_INTERVAL).await;
            }
            bound => return bound.map_err(|error| explain(key, address, error)),
        }
    }
}

/// Adds the key of the address that cannot be listened on, and the remedies for the usual reasons.
fn explain(key: &str, address: SocketAddr, error: io::Error) -> anyhow::Error {
    let advice = match error.kind() {
        ErrorKind::AddrInUse => {
            " (is another wayleave running? stop what listens there, or choose another port)"
        }
        ErrorKind::AddrNotAvailable => {
            " (no interface of this machine has this address; 0.0.0.0 and [::] stand for all of them)"
        }
        ErrorKind::PermissionDenied if address.port() < 1024 => {
            " (ports below 1024 need CAP_NET_BIND_SERVICE or a socket from systemd; choose another port)"
        }
        _ => "",
    };
    anyhow::Error::new(error).context(format!("{key}: listening on {address}{advice}"))
}

/// Accepts the next connection, and logs an error as long as that fails. Cancelling it loses no connection.
pub async fn accept(listener: &tokio::net::TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                // Usually the process is out of descriptors: an immediate retry would fail again, in a busy loop.
                tracing::error!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn hundreds_of_connections_wait_to_be_accepted() {
        let mut inherited = InheritedSockets { sockets: Vec::new() };
        let address = "127.0.0.1:0".parse().unwrap();
        let bound = inherited.take_or_bind("proxy.listen", address).unwrap();
        #[expect(clippy::disallowed_methods, reason = "clients")]
        let connecting = (0..300).map(|_| TcpStream::connect(bound.listen_address.address));
        let connected = futures_util::future::try_join_all(connecting);
        // Connections beyond the queue would not be established at all.
        let connected = tokio::time::timeout(Duration::from_secs(10), connected).await;
        assert_eq!(connected.unwrap().unwrap().len(), 300);
    }
}
