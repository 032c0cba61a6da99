//! Tunnels through a parent proxy, by CONNECT or SOCKS5, and the responses that the parent itself made.

use std::io;

use bytes::BytesMut;
use sfv::{Item, List, ListEntry, Parser};
use tokio::io::AsyncWriteExt;
use tokio_socks::tcp::Socks5Stream;
use tokio_socks::{Error as SocksError, TargetAddr};
use wayleave_decision::Reason;
use wayleave_http_wire::field_pairs::{FieldPair, first, values};
use wayleave_http_wire::http1::{HeadError, ResponseHead, write_fields};
use wayleave_robots_txt::Origin;

use super::egress::{ParentProtocol, ParentProxy, parse_literal};
use super::error::UpstreamError;
use super::link::UpstreamLink;
use super::session::{MAX_INTERIM, UpstreamHead, endless_interim_responses};

/// The most characters of a parent's message that are repeated.
const MAX_QUOTED_CHARS: usize = 100;
/// The parameter of `Proxy-Status` that reports a loop (RFC 9209 section 2.3.32).
const LOOP_DETECTED: &[u8] = b"error=proxy_loop_detected";
/// The beginnings of the fields by which a parent that sells access marks its own errors: Bright Data, once Luminati.
/// Other fields of it are on responses of origins, too.
const VENDOR_ERRORS: [&[u8]; 2] = [b"x-brd-err", b"x-luminati-err"];

/// Turns a connection to `parent` into one to `origin`. `via` names the proxies that the tunnel passed, us last, so
/// that any of them notices if the parent leads back to it (RFC 9110 section 7.6.3).
///
/// # Errors
///
/// Returns the parent's refusal, or that it closed the connection.
pub(super) async fn open_tunnel(
    link: UpstreamLink,
    parent: &ParentProxy,
    origin: &Origin,
    via: &[u8],
) -> Result<UpstreamLink, UpstreamError> {
    match parent.protocol {
        ParentProtocol::Http | ParentProtocol::Https => {
            tunnel_by_connect(link, parent, origin, via).await
        }
        ParentProtocol::Socks5 => tunnel_by_socks5(link, parent, origin).await,
    }
}

async fn tunnel_by_connect(
    mut link: UpstreamLink,
    parent: &ParentProxy,
    origin: &Origin,
    via: &[u8],
) -> Result<UpstreamLink, UpstreamError> {
    // With the port, even if it is the default one (RFC 9110 section 9.3.6).
    let authority = format!("{}:{}", origin.host(), origin.port());
    let mut head = BytesMut::from(format!("CONNECT {authority} HTTP/1.1\r\n").as_bytes());
    write_fields(&mut head, [(&b"Host"[..], authority.as_bytes()), (b"Via", via)]);
    parent.write_authorization(&mut head);
    head.extend_from_slice(b"\r\n");
    let sending = async {
        link.write_all(&head).await?;
        link.flush().await
    };
    sending.await.map_err(|error| connection_broke(&error))?;
    let mut buffered = BytesMut::new();
    for _ in 0..MAX_INTERIM {
        let head = ResponseHead::read(&mut link, &mut buffered)
            .await
            .map_err(|error| head_error(&error))?;
        match head.status() {
            100..=199 => {}
            // Bytes after the head are the origin's.
            200..=299 => return Ok(link.with_buffered(buffered.freeze())),
            // The tunnel would lead back to a proxy that it passed.
            status if any_contains(head.fields().values("proxy-status"), LOOP_DETECTED) => {
                let details = quote_status(status, head.reason());
                return Err(UpstreamError::new(Reason::ProxyLoopDetected, details));
            }
            status => return Err(refused(status, head.reason())),
        }
    }
    Err(endless_interim_responses())
}

async fn tunnel_by_socks5(
    link: UpstreamLink,
    parent: &ParentProxy,
    origin: &Origin,
) -> Result<UpstreamLink, UpstreamError> {
    let host = origin.host();
    let port = origin.port();
    let target = match parse_literal(host) {
        Some(address) => TargetAddr::Ip((address, port).into()),
        // The parent looks the name up.
        None => TargetAddr::Domain(host.into(), port),
    };
    let connected = match &parent.credentials {
        None => Socks5Stream::connect_with_socket(link, target).await,
        Some((user, password)) => {
            Socks5Stream::connect_with_password_and_socket(link, target, user, password).await
        }
    };
    Ok(connected.map_err(|error| socks_error(&error))?.into_inner())
}

/// Returns an error if a response to a request in absolute-form was made by the parent itself. Such a response is not
/// the origin's: it says nothing about the origin's pace or prices, and its client has nothing to do with our
/// credentials at the parent.
pub fn own_response_error(head: &UpstreamHead) -> Option<UpstreamError> {
    let status = head.status();
    let fields = head.fields();
    let is_own = match status {
        // Only a proxy asks for proxy authentication; an origin answers 401.
        407 => true,
        // An origin that answers these turns the request away, or asks for a slower pace.
        402 | 403 | 429 | 503 => is_marked_as_own(&fields) || is_from_nearest_squid(&fields),
        _ => status >= 300 && is_from_nearest_squid(&fields),
    };
    is_own.then(|| refused(status, head.reason()))
}

/// Returns whether a response to a request in absolute-form may be the parent's own. An origin may answer the same
/// way, but where the difference would allow everything, the response is not taken for the origin's.
pub fn may_be_own_response(head: &UpstreamHead) -> bool {
    let status = head.status();
    let fields = head.fields();
    // Proxies refuse requests with 403 and others, but hardly with 404 or 410, which are common at origins.
    let is_doubtful = (400..=499).contains(&status) && !matches!(status, 404 | 410);
    is_doubtful
        || any_contains(values(&fields, "proxy-status"), b"error=")
        || first(&fields, "proxy-authenticate").is_some()
        || is_from_nearest_squid(&fields)
}

/// Returns whether one of these values of `Proxy-Status` contains `words`.
fn any_contains<'a>(mut statuses: impl Iterator<Item = &'a [u8]>, words: &[u8]) -> bool {
    statuses.any(|value| value.windows(words.len()).any(|part| part == words))
}

/// Returns whether a response says that the nearest proxy made it.
fn is_marked_as_own(fields: &[FieldPair<'_>]) -> bool {
    let has_vendor_mark = fields.iter().any(|(name, _)| {
        let starts_with = |prefix: &&[u8]| {
            name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        };
        VENDOR_ERRORS.iter().any(starts_with)
    });
    has_vendor_mark || passes_one_proxy_at_most(fields) && is_error_of_last_proxy(fields)
}

/// Returns whether the last member of `Proxy-Status`, the nearest proxy's, is an error of that proxy itself, and not one
/// that it received (RFC 9209 section 2).
fn is_error_of_last_proxy(fields: &[FieldPair<'_>]) -> bool {
    let lines: Vec<_> = values(fields, "proxy-status").collect();
    let statuses = Parser::new(&lines.join(&b", "[..])).parse::<List>();
    match statuses.ok().and_then(|mut statuses| statuses.pop()) {
        Some(ListEntry::Item(Item { params, .. })) => {
            params.contains_key("error") && !params.contains_key("received-status")
        }
        _ => false,
    }
}

/// Returns whether the response is an error of the nearest Squid, which marks its errors. Those of a Squid in front
/// of the origin have passed two proxies.
fn is_from_nearest_squid(fields: &[FieldPair<'_>]) -> bool {
    passes_one_proxy_at_most(fields) && first(fields, "x-squid-error").is_some()
}

fn passes_one_proxy_at_most(fields: &[FieldPair<'_>]) -> bool {
    let via = values(fields, "via");
    let passed: usize = via.map(|value| value.split(|&byte| byte == b',').count()).sum();
    passed <= 1
}

fn refused(status: u16, phrase: &[u8]) -> UpstreamError {
    let (reason, meaning) = match status {
        407 => (Reason::ProxyConfigurationError, ": it does not accept our credentials"),
        504 => (Reason::ConnectionTimeout, ""),
        500..=599 => (Reason::ConnectionTerminated, ""),
        _ => (Reason::ConnectionRefused, ""),
    };
    let fault = UpstreamError::new(reason, format!("{}{meaning}", quote_status(status, phrase)));
    if status == 407 { fault.on_this_side() } else { fault }
}

fn quote_status(status: u16, reason: &[u8]) -> String {
    let reason: String = String::from_utf8_lossy(reason).chars().take(MAX_QUOTED_CHARS).collect();
    format!("it answered {status} {reason}")
}

fn head_error(error: &HeadError) -> UpstreamError {
    let fault = match error {
        HeadError::Closed => UpstreamError::new(
            Reason::ConnectionTerminated,
            "it closed the connection instead of answering".to_owned(),
        ),
        HeadError::Broken(error) => return connection_broke(error),
        _ => UpstreamError::new(
            Reason::HttpProtocolError,
            "its answer to CONNECT is not HTTP/1".to_owned(),
        ),
    };
    fault.on_this_side()
}

fn connection_broke(error: &io::Error) -> UpstreamError {
    let details = format!("the connection broke: {error}");
    UpstreamError::new(Reason::ConnectionTerminated, details).on_this_side()
}

fn socks_error(error: &SocksError) -> UpstreamError {
    let reason = match error {
        SocksError::PasswordAuthFailure(_)
        | SocksError::NoAcceptableAuthMethods
        | SocksError::UnknownAuthMethod
        | SocksError::InvalidAuthValues(_) => Reason::ProxyConfigurationError,
        SocksError::ConnectionRefused | SocksError::ConnectionNotAllowedByRuleset => {
            Reason::ConnectionRefused
        }
        SocksError::NetworkUnreachable | SocksError::HostUnreachable => {
            Reason::DestinationIpUnroutable
        }
        SocksError::TtlExpired => Reason::ConnectionTimeout,
        SocksError::Io(_) => Reason::ConnectionTerminated,
        _ => Reason::HttpProtocolError,
    };
    let fault = UpstreamError::new(reason, format!("SOCKS5: {error}"));
    // The others are the proxy's answers about the origin.
    let is_proxys = matches!(
        reason,
        Reason::ProxyConfigurationError | Reason::ConnectionTerminated | Reason::HttpProtocolError
    );
    if is_proxys { fault.on_this_side() } else { fault }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::link::over_tcp;

    #[tokio::test]
    // To its own listener.
    #[expect(clippy::disallowed_methods)]
    async fn a_tunnel_opens_after_interim_responses() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let parent: ParentProxy = format!("http://{address}").parse().unwrap();
        let origin = Origin::parse("https://shop.test").unwrap();
        let responding = async {
            let mut stream = listener.accept().await.unwrap().0;
            let answer = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n\
                           HTTP/1.1 200 OK\r\n\r\nhello";
            stream.write_all(answer).await.unwrap();
            stream
        };
        let opening = async {
            let link = over_tcp(TcpStream::connect(address).await.unwrap());
            open_tunnel(link, &parent, &origin, b"1.1 wayleave").await
        };
        let (link, _stream) = tokio::join!(opening, responding);
        let mut hello = [0; 5];
        link.unwrap_or_else(|error| panic!("{}", error.details))
            .read_exact(&mut hello)
            .await
            .unwrap();
        assert_eq!(&hello, b"hello");
    }
}
