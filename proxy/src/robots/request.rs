//! One request of a fetch: dial, negotiate TLS, send the request and read the response's head.

use std::fmt::Display;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, Version, header};
use http_body_util::Empty;
use hyper::body::{Body, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::rt::Executor;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use url::Url;
use wayleave_policy::lifecycle::{FetchError, FetchErrorKind, Validators};
use wayleave_policy::{Origin, Target};

use super::fetch::HttpFetch;
use super::fields;
use super::read_limit::{Allowance, Allowed};
use super::redirect::{Answered, ChosenBy, Redirect};
use crate::http::http1::has_content;
use crate::http::transport::{Stream, to_origin};
use crate::origin::egress::{EgressError, Route};
use crate::tls;

/// The head of a response, with the interim responses before it; what is longer ends the fetch.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// What a server may send of a body ahead of our reading.
const WINDOW_BYTES: usize = 64 * 1024;
/// A body in small pieces takes so many times its octets: each octet may be a chunk of its own.
const FRAMING: usize = 8;

/// How long a connection whose response was read may take to come free.
const HANDING_OVER: Duration = Duration::from_millis(50);

/// A response whose body is still to be read.
pub(super) struct Exchange {
    pub(super) response: Response<Incoming>,
    /// It came from a public address.
    pub(super) is_public: bool,
    connection: Connection,
}

/// A connection, and what is spoken there.
struct Connected {
    stream: Stream,
    version: Version,
    is_public: bool,
}

/// What moves the bytes of an exchange. Dropped, it closes the connection.
enum Connection {
    /// Ends with the stream if that could serve another request.
    Http1(JoinSet<Option<Stream>>),
    Http2 {
        _until: DropGuard,
    },
}

impl Exchange {
    /// The connection, if the response was read to its end and another request may follow. Only a
    /// told length shows that for sure.
    pub(super) async fn into_connection(mut self) -> Option<Stream> {
        let options = self.response.headers().get_all(header::CONNECTION);
        let closes = options
            .iter()
            .flat_map(|options| options.as_bytes().split(|&byte| byte == b','))
            .any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"));
        let Connection::Http1(connection) = &mut self.connection else {
            return None;
        };
        let is_http11 = self.response.version() == Version::HTTP_11;
        // Content that such an answer does not have may come all the same, and would answer the next request.
        let tells_more = !has_content(self.response.status().as_u16(), "GET")
            && (self.response.headers().contains_key(header::CONTENT_LENGTH)
                || self
                    .response
                    .headers()
                    .contains_key(header::TRANSFER_ENCODING));
        let is_read = self.response.body().is_end_stream() && !tells_more;
        let may_follow = is_http11 && !closes && is_read;
        if !may_follow {
            return None;
        }
        let ended = timeout(HANDING_OVER, connection.join_next()).await;
        ended.ok()??.ok()?
    }
}

impl HttpFetch {
    /// Asks for `url`, whose host was `chosen`, and reads the response's head.
    pub(super) async fn ask(
        &self,
        url: &Url,
        validators: Option<&Validators>,
        user_agent: &str,
        chosen: ChosenBy,
    ) -> Result<Exchange, FetchError> {
        let connected = self.connect(url, chosen).await?;
        let Connected {
            stream, version, ..
        } = connected;
        let request = request(url, validators, user_agent, version)?;
        let allowance = Allowance::new(MAX_HEAD_BYTES + WINDOW_BYTES);
        let stream = TokioIo::new(Allowed::new(stream, allowance.clone()));
        let (response, connection) = match version {
            Version::HTTP_2 => http2(stream, request).await,
            _ => http1(stream, request).await,
        }?;
        allowance.add(self.options.max_size.saturating_mul(FRAMING));
        Ok(Exchange {
            response,
            is_public: connected.is_public,
            connection,
        })
    }

    /// Asks where a redirect leads, if that passes the gate.
    pub(super) async fn pass(
        &self,
        url: &Url,
        asking: impl Future<Output = Result<Exchange, FetchError>> + Send,
    ) -> Result<Exchange, FetchError> {
        let Some(gate) = self.gate.get() else {
            return asking.await;
        };
        let target = Target::parse(url.as_str())
            .map_err(|error| failure(FetchErrorKind::BadRedirect, &error))?;
        let mut exchange = None;
        let asking = async {
            let exchange = exchange.insert(asking.await?);
            let response = &exchange.response;
            let now = self.clock.now();
            let retry_at = fields::read(response.headers(), now).retry_at;
            Ok(Answered {
                status: response.status().as_u16(),
                retry_after: retry_at.map(|at| at.duration_since(now).unwrap_or_default()),
            })
        };
        gate(Redirect { target }, Box::pin(asking)).await?;
        exchange.ok_or_else(|| failure(FetchErrorKind::Internal, "it was not asked"))
    }

    /// Leaves the connection to the requests that wait for this robots.txt, or come soon.
    pub(super) async fn hand_over(&self, origin: &Origin, exchange: Exchange) {
        if let Some(idle) = &self.idle
            && let Some(connection) = exchange.into_connection().await
        {
            idle.keep(idle.key(origin, false), connection);
        }
    }

    /// A new connection to `url`'s host.
    async fn connect(&self, url: &Url, chosen: ChosenBy) -> Result<Connected, FetchError> {
        let limit = self.options.connect_timeout;
        let deadline = Instant::now() + limit;
        let port = url.port_or_known_default().unwrap_or_default();
        let looking_up = self.egress.route(host(url), port);
        let mut route = timeout_at(deadline, looking_up)
            .await
            .unwrap_or(Err(EgressError::DnsTimeout))
            .map_err(|error| egress_failure(&error, chosen))?;
        if chosen == ChosenBy::Public {
            let detail = "a public origin's redirect leads to an internal address";
            let internal = || failure(FetchErrorKind::RedirectProhibited, detail);
            route = route.public_only().ok_or_else(internal)?;
        }
        timeout_at(deadline, self.open(url, &route))
            .await
            .unwrap_or_else(|_| {
                let detail = format!("no connection within {limit:?}");
                Err(failure(FetchErrorKind::ConnectTimeout, detail))
            })
    }

    async fn open(&self, url: &Url, route: &Route) -> Result<Connected, FetchError> {
        let tcp = dial(route).await?;
        if url.scheme() == "http" {
            return Ok(Connected {
                is_public: route.is_public(),
                stream: to_origin(tcp),
                version: Version::HTTP_11,
            });
        }
        let mut agreed = self.agree_on_tls(&self.tls, url, tcp).await;
        if !settles(&agreed) {
            // Closed first: some servers take one connection at a time.
            drop(agreed);
            let tcp = dial(route).await?;
            agreed = self.agree_on_tls(&self.tls_any, url, tcp).await;
        }
        let tls = agreed.map_err(|error| failure(FetchErrorKind::Tls, &error))?;
        let version = match tls.get_ref().1.alpn_protocol() {
            Some(b"h2") => Version::HTTP_2,
            _ => Version::HTTP_11,
        };
        Ok(Connected {
            is_public: route.is_public(),
            stream: to_origin(tls),
            version,
        })
    }

    async fn agree_on_tls(
        &self,
        tls: &TlsConnector,
        url: &Url,
        stream: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let host = host(url);
        let name = match host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
            Some(v6) => v6.parse::<IpAddr>().map(ServerName::from).ok(),
            None => ServerName::try_from(host.to_owned()).ok(),
        };
        let name =
            name.ok_or_else(|| io::Error::other("the host cannot be a name in a certificate"))?;
        tls.connect(name, stream).await
    }
}

fn request(
    url: &Url,
    validators: Option<&Validators>,
    user_agent: &str,
    version: Version,
) -> Result<Request<Empty<Bytes>>, FetchError> {
    let authority = match url.port() {
        Some(port) => format!("{}:{port}", host(url)),
        None => host(url).to_owned(),
    };
    let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let request = Request::get(match version {
        Version::HTTP_2 => format!("{}://{authority}{path}", url.scheme()),
        _ => path.to_owned(),
    });
    let mut request = match version {
        Version::HTTP_2 => request,
        _ => request.header(header::HOST, &authority),
    }
    .header(header::USER_AGENT, user_agent)
    .header(header::ACCEPT, "text/plain, */*;q=0.5")
    .header(header::ACCEPT_ENCODING, "gzip");
    if let Some(etag) = validators.and_then(|v| v.etag.as_deref()) {
        request = request.header(header::IF_NONE_MATCH, etag);
    }
    if let Some(date) = validators.and_then(|v| v.last_modified.as_deref()) {
        request = request.header(header::IF_MODIFIED_SINCE, date);
    }
    request
        .body(Empty::new())
        .map_err(|error| failure(FetchErrorKind::Internal, &error))
}

/// Whether what came of offering HTTP/1.1 alone is what can be had. A server that speaks none of the protocols offered
/// ought to refuse (RFC 7301, 3.2); many go on as if nothing had been offered instead, and would answer in HTTP/2 or,
/// worse, with an error that says nothing about robots.txt.
fn settles(agreed: &io::Result<TlsStream<TcpStream>>) -> bool {
    match agreed {
        Ok(tls) => tls.get_ref().1.alpn_protocol().is_some(),
        Err(error) => !tls::cause(error).is_some_and(tls::refuses_protocols),
    }
}

async fn dial(route: &Route) -> Result<TcpStream, FetchError> {
    let dialled = route.dial().await;
    dialled.map_err(|error| failure(FetchErrorKind::Connect, &error))
}

/// A URL's host as egress takes it.
fn host(url: &Url) -> &str {
    let host = url.host_str().unwrap_or_default();
    host.strip_suffix('.').unwrap_or(host)
}

async fn http1(
    stream: TokioIo<Allowed>,
    request: Request<Empty<Bytes>>,
) -> Result<(Response<Incoming>, Connection), FetchError> {
    let mut builder = http1::Builder::new();
    builder
        .max_buf_size(MAX_HEAD_BYTES)
        .max_header_size(MAX_HEAD_BYTES)
        // What is mended of pages is mended here as well (RFC 9112 sections 5.1 and 5.2).
        .allow_spaces_after_header_name_in_responses(true)
        .allow_obsolete_multiline_headers_in_responses(true);
    let handshake = builder.handshake(stream).await;
    let (mut sender, connection) = handshake.map_err(|error| http_failure(&error))?;
    let mut connecting = JoinSet::new();
    connecting.spawn(async move {
        // What goes wrong on the connection is told to whoever reads the response.
        let parts = connection.without_shutdown().await.ok()?;
        // Bytes behind a response are nobody's answer.
        let is_clean = parts.read_buf.is_empty();
        is_clean.then(|| parts.io.into_inner().into_inner())
    });
    let response = sender
        .send_request(request)
        .await
        .map_err(|error| http_failure(&error))?;
    check_framing(response.headers())?;
    Ok((response, Connection::Http1(connecting)))
}

/// What hyper lets pass although it could be read in two ways, and is refused of pages: a file misread disallows nothing.
fn check_framing(fields: &HeaderMap) -> Result<(), FetchError> {
    let mut codings = fields.get_all(header::TRANSFER_ENCODING).iter();
    let Some(coding) = codings.next() else {
        return Ok(());
    };
    let is_chunked = coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    let detail = if fields.contains_key(header::CONTENT_LENGTH) {
        "both Content-Length and Transfer-Encoding"
    } else if codings.next().is_some() || !is_chunked {
        "Transfer-Encoding other than chunked"
    } else {
        return Ok(());
    };
    Err(failure(FetchErrorKind::Http, detail))
}

async fn http2(
    stream: TokioIo<Allowed>,
    request: Request<Empty<Bytes>>,
) -> Result<(Response<Incoming>, Connection), FetchError> {
    let over = CancellationToken::new();
    let tasks = Tasks(over.clone());
    let until = over.drop_guard();
    let mut builder = http2::Builder::new(tasks.clone());
    builder
        .initial_stream_window_size(WINDOW_BYTES as u32)
        .initial_connection_window_size(WINDOW_BYTES as u32)
        .max_header_list_size(MAX_HEAD_BYTES as u32);
    let handshake = builder.handshake(stream).await;
    let (mut sender, connection) = handshake.map_err(|error| http_failure(&error))?;
    tasks.execute(async move {
        // As above.
        let _ = connection.await;
    });
    let response = sender
        .send_request(request)
        .await
        .map_err(|error| http_failure(&error))?;
    Ok((response, Connection::Http2 { _until: until }))
}

/// Runs what hyper makes of an HTTP/2 connection until that is over. By itself such a task takes leave of the server
/// first, however long that reads nothing.
#[derive(Clone)]
struct Tasks(CancellationToken);

impl<F> Executor<F> for Tasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, task: F) {
        tokio::spawn(self.0.clone().run_until_cancelled_owned(task));
    }
}

fn egress_failure(error: &EgressError, chosen: ChosenBy) -> FetchError {
    let is_redirected = chosen != ChosenBy::Crawler;
    let kind = match error {
        EgressError::Prohibited { .. } if is_redirected => FetchErrorKind::RedirectProhibited,
        EgressError::Prohibited { .. } => FetchErrorKind::Prohibited,
        EgressError::DnsTimeout => FetchErrorKind::DnsTimeout,
        // Where a redirect leads nowhere, the origin itself is there.
        error if error.is_no_such_name() && !is_redirected => FetchErrorKind::NoSuchName,
        EgressError::Dns { .. } => FetchErrorKind::Dns,
    };
    failure(kind, error)
}

/// hyper says the cause in the source of its errors only.
fn http_failure(error: &hyper::Error) -> FetchError {
    let detail = match std::error::Error::source(&error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    failure(FetchErrorKind::Http, detail)
}

fn failure(kind: FetchErrorKind, detail: impl Display) -> FetchError {
    let detail = detail.to_string();
    FetchError { kind, detail }
}
