//! Tunnels through a parent proxy, by CONNECT or SOCKS5, and the responses that the parent itself made.

use std::io;

use bytes::BytesMut;
use tokio::io::AsyncWriteExt;
use tokio_socks::tcp::Socks5Stream;
use tokio_socks::{Error as SocksError, TargetAddr};
use wayleave_robots_txt::Origin;

use super::egress::{Parent, Speaks, literal};
use super::error::Fault;
use super::link::Link;
use super::session::{MAX_INTERIM, OriginHead, only_interim};
use crate::http::field_pairs::{Pair, first, values};
use crate::http::http1::{HeadError, ResponseHead, write_fields};
use crate::http::proxy_status::ErrorType;

/// The most characters of a parent's message that are repeated.
const TOLD: usize = 100;
/// The parameter of `Proxy-Status` that reports a loop (RFC 9209 section 2.3.32).
const LOOP: &[u8] = b"error=proxy_loop_detected";

/// Turns a connection to `parent` into one to `origin`. `via` names the proxies that the tunnel passed, us last, so
/// that any of them notices if the parent leads back to it (RFC 9110 section 7.6.3).
///
/// # Errors
///
/// Returns the parent's refusal, or that it closed the connection.
pub(super) async fn tunnel(
    link: Link,
    parent: &Parent,
    origin: &Origin,
    via: &[u8],
) -> Result<Link, Fault> {
    match parent.speaks {
        Speaks::Http | Speaks::Https => by_connect(link, parent, origin, via).await,
        Speaks::Socks5 => by_socks5(link, parent, origin).await,
    }
}

async fn by_connect(
    mut link: Link,
    parent: &Parent,
    origin: &Origin,
    via: &[u8],
) -> Result<Link, Fault> {
    let authority = format!("{}:{}", origin.host(), origin.port());
    let mut head = BytesMut::from(format!("CONNECT {authority} HTTP/1.1\r\n").as_bytes());
    write_fields(
        &mut head,
        [(&b"Host"[..], authority.as_bytes()), (b"Via", via)],
    );
    parent.write_authorization(&mut head);
    head.extend_from_slice(b"\r\n");
    let sending = async {
        link.write_all(&head).await?;
        link.flush().await
    };
    sending.await.map_err(|error| broken(&error))?;
    let mut ahead = BytesMut::new();
    for _ in 0..MAX_INTERIM {
        let head = ResponseHead::read(&mut link, &mut ahead).await;
        let head = head.map_err(|error| head_fault(&error))?;
        match head.status() {
            100..=199 => {}
            // Bytes after the head are the origin's.
            200..=299 => return Ok(link.with_read_ahead(ahead.freeze())),
            status if say(head.fields().values("proxy-status"), LOOP) => {
                return Err(looped(status, head.reason()));
            }
            status => return Err(denied(status, head.reason())),
        }
    }
    Err(only_interim())
}

async fn by_socks5(link: Link, parent: &Parent, origin: &Origin) -> Result<Link, Fault> {
    let (host, port) = (origin.host(), origin.port());
    let target = match literal(host) {
        Some(address) => TargetAddr::Ip((address, port).into()),
        // The parent looks the name up.
        None => TargetAddr::Domain(host.into(), port),
    };
    let connecting = match &parent.credentials {
        None => Socks5Stream::connect_with_socket(link, target).await,
        Some((user, password)) => {
            Socks5Stream::connect_with_password_and_socket(link, target, user, password).await
        }
    };
    let connected = connecting.map_err(|error| socks_fault(&error))?;
    Ok(connected.into_inner())
}

/// Returns an error if a response to a request in absolute-form was made by the parent itself. Such a response is not
/// the origin's, and its client has nothing to do with our credentials at the parent.
pub(crate) fn own_answer(head: &OriginHead) -> Option<Fault> {
    let (status, fields) = (head.status(), head.fields());
    // Only a proxy asks for proxy authentication; an origin answers 401.
    let is_own = status == 407 || status >= 300 && is_of_first_squid(&fields);
    is_own.then(|| denied(status, head.reason()))
}

/// Returns whether a response to a request in absolute-form may be the parent's own. An origin may answer the same
/// way, but where the difference would allow everything, the response is not taken for the origin's.
pub(crate) fn may_be_own(head: &OriginHead) -> bool {
    let (status, fields) = (head.status(), head.fields());
    // Proxies refuse requests with 403 and others, but hardly with 404 or 410, which are common at origins.
    let is_doubtful = (400..=499).contains(&status) && !matches!(status, 404 | 410);
    is_doubtful
        || say(values(&fields, "proxy-status"), b"error=")
        || first(&fields, "proxy-authenticate").is_some()
        || is_of_first_squid(&fields)
}

/// Returns whether one of these values of `Proxy-Status` contains `words`.
fn say<'a>(mut statuses: impl Iterator<Item = &'a [u8]>, words: &[u8]) -> bool {
    statuses.any(|value| value.windows(words.len()).any(|part| part == words))
}

/// Returns whether the response is an error of the nearest Squid, which marks its errors. Those of a Squid in front
/// of the origin have passed two proxies.
fn is_of_first_squid(fields: &[Pair<'_>]) -> bool {
    let via = values(fields, "via");
    let passed: usize = via
        .map(|value| value.split(|&byte| byte == b',').count())
        .sum();
    passed <= 1 && first(fields, "x-squid-error").is_some()
}

fn denied(status: u16, reason: &[u8]) -> Fault {
    let (kind, meaning) = match status {
        407 => (
            ErrorType::ProxyConfigurationError,
            ": it does not accept our credentials",
        ),
        504 => (ErrorType::ConnectionTimeout, ""),
        500..=599 => (ErrorType::ConnectionTerminated, ""),
        _ => (ErrorType::ConnectionRefused, ""),
    };
    Fault::new(kind, format!("{}{meaning}", answered(status, reason)))
}

/// Makes the error for a tunnel that would lead back to a proxy that it passed.
fn looped(status: u16, reason: &[u8]) -> Fault {
    Fault::new(ErrorType::ProxyLoopDetected, answered(status, reason))
}

fn answered(status: u16, reason: &[u8]) -> String {
    let reason = String::from_utf8_lossy(reason);
    let reason: String = reason.chars().take(TOLD).collect();
    format!("it answered {status} {reason}")
}

fn head_fault(error: &HeadError) -> Fault {
    match error {
        HeadError::Closed => Fault::new(
            ErrorType::ConnectionTerminated,
            "it closed the connection instead of answering".to_owned(),
        ),
        HeadError::Broken(error) => broken(error),
        _ => Fault::new(
            ErrorType::HttpProtocolError,
            "its answer to CONNECT is not HTTP/1".to_owned(),
        ),
    }
}

fn broken(error: &io::Error) -> Fault {
    Fault::new(
        ErrorType::ConnectionTerminated,
        format!("the connection broke: {error}"),
    )
}

fn socks_fault(error: &SocksError) -> Fault {
    let kind = match error {
        SocksError::PasswordAuthFailure(_)
        | SocksError::NoAcceptableAuthMethods
        | SocksError::UnknownAuthMethod
        | SocksError::InvalidAuthValues(_) => ErrorType::ProxyConfigurationError,
        SocksError::ConnectionRefused | SocksError::ConnectionNotAllowedByRuleset => {
            ErrorType::ConnectionRefused
        }
        SocksError::NetworkUnreachable | SocksError::HostUnreachable => {
            ErrorType::DestinationIpUnroutable
        }
        SocksError::TtlExpired => ErrorType::ConnectionTimeout,
        SocksError::Io(_) => ErrorType::ConnectionTerminated,
        _ => ErrorType::HttpProtocolError,
    };
    Fault::new(kind, format!("SOCKS5: {error}"))
}
