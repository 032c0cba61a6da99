//! Requests through a listener of the proxy, as clients send them.

use std::net::SocketAddr;

use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use http::header::{ACCEPT, CONNECTION, HOST, USER_AGENT};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use wayleave_decision::Reason;
use wayleave_robots_txt::UrlScheme;
use wayleave_transport::tls;

use super::probes::TOKEN;

/// The most bytes of an answer that are read.
const MAX_BYTES: usize = 64 * 1024;

/// The answer to one request.
#[derive(Clone, Debug)]
pub(super) struct DrillAnswer {
    pub(super) status: u16,
    /// The reason of a refusal.
    pub(super) reason: Option<Reason>,
    /// Whether the tunnel opened, but the proxy did not look into it.
    pub(super) is_uninspected: bool,
}

/// Returns the error for a request that got no answer in time.
pub(super) fn no_answer() -> anyhow::Result<DrillAnswer> {
    Err(anyhow!("no answer in time"))
}

/// Sends requests through a listener of the proxy.
pub(super) struct DrillClient {
    listener: SocketAddr,
    /// Trusts the interception CA alone; none: tunnels are not inspected.
    tls: Option<TlsConnector>,
}

impl DrillClient {
    /// Prepares requests through `listener`, for plain HTTP. `authority` is the certificate of the interception CA, if tunnels are
    /// inspected.
    ///
    /// # Errors
    ///
    /// Returns an error if the certificate cannot be read.
    pub(super) fn new(listener: SocketAddr, authority: Option<&str>) -> anyhow::Result<Self> {
        Ok(Self { listener, tls: authority.map(connector).transpose()? })
    }

    /// Returns whether tunnels are inspected, so that requests inside can be asked.
    pub(super) fn is_inspecting(&self) -> bool {
        self.tls.is_some()
    }

    /// Asks for a URL; by `https` through a tunnel.
    ///
    /// # Errors
    ///
    /// Returns an error if the listener cannot be reached, or breaks the connection.
    pub(super) async fn get(
        &self,
        scheme: UrlScheme,
        authority: &str,
        path: &str,
        user_agent: Option<&str>,
    ) -> anyhow::Result<DrillAnswer> {
        #[expect(clippy::disallowed_methods, reason = "the proxy's listener")]
        let tcp = TcpStream::connect(self.listener)
            .await
            .with_context(|| format!("connecting to the proxy at {}", self.listener))?;
        let own = format!("{TOKEN}/1.0");
        let user_agent = user_agent.unwrap_or(&own);
        let mut sender = start(tcp).await?;
        let Some(tls) = self.tls.as_ref().filter(|_| scheme == UrlScheme::Https) else {
            let target = format!("http://{authority}{path}");
            return read(sender.send_request(get(&target, authority, user_agent)?).await?).await;
        };
        let connect = Request::connect(authority)
            .header(HOST, authority)
            .header(USER_AGENT, user_agent)
            .header(ACCEPT, "application/problem+json")
            .body(Empty::<Bytes>::new())?;
        let answer = sender.send_request(connect).await?;
        if answer.status() != StatusCode::OK {
            return read(answer).await;
        }
        let tunnel = TokioIo::new(hyper::upgrade::on(answer).await?);
        let address: SocketAddr = authority.parse()?;
        let Ok(inside) = tls.connect(ServerName::from(address.ip()), tunnel).await else {
            return Ok(DrillAnswer { status: 200, reason: None, is_uninspected: true });
        };
        let mut sender = start(inside).await?;
        read(sender.send_request(get(path, authority, user_agent)?).await?).await
    }
}

/// Returns a connector that trusts this certificate alone.
fn connector(authority: &str) -> anyhow::Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_slice(authority.as_bytes());
    roots.add(certificate.context("reading the certificate of the interception CA")?)?;
    let config = ClientConfig::builder_with_provider(tls::provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(tls::connector_offering(&config, &[b"http/1.1"]))
}

fn get(target: &str, host: &str, user_agent: &str) -> anyhow::Result<Request<Empty<Bytes>>> {
    let request = Request::get(target)
        .header(HOST, host)
        .header(USER_AGENT, user_agent)
        .header(ACCEPT, "application/problem+json, */*;q=0.1")
        .header(CONNECTION, "close");
    Ok(request.body(Empty::new())?)
}

async fn start(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> anyhow::Result<SendRequest<Empty<Bytes>>> {
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    // It ends when the sender is dropped.
    tokio::spawn(connection.with_upgrades());
    Ok(sender)
}

async fn read(response: http::Response<Incoming>) -> anyhow::Result<DrillAnswer> {
    let (head, body) = response.into_parts();
    // An origin's response may be any text; a refusal is the proxy's own.
    let is_own = head.headers.contains_key("proxy-status");
    let body = match Limited::new(body, MAX_BYTES).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => bail!("the answer breaks off: {error}"),
    };
    let reason = serde_json::from_slice::<Value>(&body)
        .ok()
        .filter(|_| is_own)
        .and_then(|problem| problem["reason"].as_str().and_then(Reason::named));
    Ok(DrillAnswer { status: head.status.as_u16(), reason, is_uninspected: false })
}
