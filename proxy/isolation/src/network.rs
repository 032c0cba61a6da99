//! The network inside: every address is local, and our sockets listen on the captured ports.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::Context;
use rtnetlink::packet_route::route::{RouteScope, RouteType};
use rtnetlink::{Handle, LinkUnspec, RouteMessageBuilder};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::names;

/// The index of `lo`, the first interface of every network namespace.
const LOOPBACK: u32 = 1;
/// The routing table that is looked at first, of addresses that are this machine (RT_TABLE_LOCAL).
const LOCAL_TABLE: u32 = 255;
/// The port of name servers.
pub(super) const DNS_PORT: u16 = 53;
/// The connections that may wait to be accepted, unless the system allows fewer.
const BACKLOG: i32 = 4096;

/// Sets up the network of this process's namespace, which is new, and returns the sockets that listen on `ports` and on the
/// port of name servers.
///
/// # Errors
///
/// Returns an error if the process lacks a capability in its namespace.
pub(super) fn set_up(ports: &[u16]) -> anyhow::Result<Vec<Socket>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let has_ipv6 = runtime.block_on(configure()).context("setting up the network")?;
    let any: IpAddr =
        if has_ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let mut sockets = Vec::new();
    for port in ports.iter().copied().chain([DNS_PORT]) {
        sockets.push(bind((any, port).into(), Type::STREAM)?);
    }
    // Replies come from the address that was asked, as resolvers require: the source of an IPv4 packet to a local address is
    // that address. IPv6 would choose another, so only the loopback address is served there.
    sockets.push(bind((Ipv4Addr::UNSPECIFIED, DNS_PORT).into(), Type::DGRAM)?);
    if has_ipv6 {
        sockets.push(bind((Ipv6Addr::LOCALHOST, DNS_PORT).into(), Type::DGRAM)?);
    }
    Ok(sockets)
}

/// Makes every address local. Returns whether the kernel has IPv6.
async fn configure() -> anyhow::Result<bool> {
    let (connection, handle, _) = rtnetlink::new_connection()?;
    let driver = tokio::spawn(connection);
    handle.link().set(LinkUnspec::new_with_index(LOOPBACK).up().build()).execute().await?;
    let everything = RouteMessageBuilder::<Ipv4Addr>::new()
        .output_interface(LOOPBACK)
        .table_id(LOCAL_TABLE)
        .kind(RouteType::Local)
        .scope(RouteScope::Host);
    handle.route().add(everything.build()).execute().await?;
    add_address(&handle, names::OWN_IPV4.into()).await?;
    let has_ipv6 = configure_ipv6(&handle).await.is_ok();
    driver.abort();
    Ok(has_ipv6)
}

async fn configure_ipv6(handle: &Handle) -> Result<(), rtnetlink::Error> {
    let everything = RouteMessageBuilder::<Ipv6Addr>::new()
        .output_interface(LOOPBACK)
        .table_id(LOCAL_TABLE)
        .kind(RouteType::Local);
    handle.route().add(everything.build()).execute().await?;
    add_address(handle, names::OWN_IPV6.into()).await
}

/// Adds an address besides the loopback address, without which resolvers believe that the machine has no network
/// (getaddrinfo(3), AI_ADDRCONFIG).
async fn add_address(handle: &Handle, address: IpAddr) -> Result<(), rtnetlink::Error> {
    let bits = if address.is_ipv4() { 32 } else { 128 };
    handle.address().add(LOOPBACK, address, bits).execute().await
}

/// Binds a socket; one of IPv6 takes IPv4, too, if it is bound to every address.
fn bind(address: SocketAddr, kind: Type) -> anyhow::Result<Socket> {
    let bound = || -> io::Result<Socket> {
        let protocol = if kind == Type::STREAM { Protocol::TCP } else { Protocol::UDP };
        let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
        if address.is_ipv6() {
            socket.set_only_v6(!address.ip().is_unspecified())?;
        }
        socket.bind(&SockAddr::from(address))?;
        if kind == Type::STREAM {
            socket.listen(BACKLOG)?;
        }
        // tokio requires it.
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    bound().with_context(|| format!("listening on {address} inside"))
}
