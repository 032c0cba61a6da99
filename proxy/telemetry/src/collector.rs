//! The HTTP client for the collector. Its address is not checked like that of an origin: the operator chose it, and it may be
//! internal.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use bytes::Bytes;
use http::header::HOST;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use opentelemetry::KeyValue;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_sdk::Resource;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use url::Url;

/// The timeout of one request, from name resolution to the last byte.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest response that is read. Collectors send far shorter ones.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;

/// The certificates that collectors are verified by. A reload replaces them.
pub type CollectorTls = Arc<ArcSwap<ClientConfig>>;

/// An HTTP/1.1 client that opens a connection for each request: there is one every few seconds.
#[derive(Clone)]
pub struct CollectorClient {
    tls: CollectorTls,
    /// The runtime for requests: the library calls from a thread of its own, outside of any.
    runtime: Handle,
}

/// Returns the URL of a signal, such as `traces`, at a collector.
pub fn signal_url(endpoint: &Url, signal: &str) -> String {
    format!("{}/v1/{signal}", endpoint.as_str().trim_end_matches('/'))
}

/// Returns the resource that all signals are from.
pub fn resource() -> Resource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    Resource::builder().with_service_name("wayleave").with_attribute(version).build()
}

impl std::fmt::Debug for CollectorClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CollectorClient").finish_non_exhaustive()
    }
}

impl CollectorClient {
    pub fn new(tls: &CollectorTls) -> Self {
        Self { tls: Arc::clone(tls), runtime: Handle::current() }
    }

    async fn send(self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let uri = request.uri().clone();
        let host = (uri.host().ok_or("the endpoint has no host")?)
            .trim_start_matches('[')
            .trim_end_matches(']');
        let is_https = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_https { 443 } else { 80 });
        #[expect(
            clippy::disallowed_methods,
            reason = "the operator's own collector, wherever it is"
        )]
        let tcp = TcpStream::connect((host, port)).await?;
        tcp.set_nodelay(true)?;
        if !is_https {
            return exchange(tcp, request, &uri).await;
        }
        let name = ServerName::try_from(host.to_owned())?;
        let mut tls = ClientConfig::clone(&self.tls.load());
        // This client speaks only HTTP/1.1, whatever the configuration offers elsewhere.
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let stream = TlsConnector::from(Arc::new(tls)).connect(name, tcp).await?;
        exchange(stream, request, &uri).await
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Bytes>,
    uri: &Uri,
) -> Result<Response<Bytes>, HttpError> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let sending = async {
        let (mut head, body) = request.into_parts();
        let authority = uri.authority().ok_or("the endpoint has no authority")?;
        head.headers.insert(HOST, HeaderValue::from_str(authority.as_str())?);
        // hyper sends the URI as given, and servers expect the origin form (RFC 9112 section 3.2.1).
        if let Some(path) = uri.path_and_query() {
            head.uri = path.as_str().parse()?;
        }
        let request = Request::from_parts(head, Full::new(body));
        let (head, body) = sender.send_request(request).await?.into_parts();
        let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await?;
        Ok(Response::from_parts(head, body.to_bytes()))
    };
    let driver = tokio::spawn(connection);
    let response = sending.await;
    // The response is complete, and there is no further request for this connection.
    driver.abort();
    response
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let collector = self.clone();
        let sending = async move { timeout(REQUEST_TIMEOUT, collector.send(request)).await };
        let timed_out = |_| io::Error::from(io::ErrorKind::TimedOut);
        self.runtime.spawn(sending).await?.map_err(timed_out)?
    }
}
