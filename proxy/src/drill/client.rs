//! Requests through the proxy's own listener, as clients send them.

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

use crate::downstream::listeners::{ListenAddress, ListenProtocol};
use crate::tls;
use crate::upstream::egress::drill_hosts;

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
    listener: Option<ListenAddress>,
    /// Trusts the interception CA alone.
    tls: TlsConnector,
}

impl DrillClient {
    pub(super) fn new(listener: Option<ListenAddress>, authority: &str) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_slice(authority.as_bytes());
        roots.add(certificate.context("reading the certificate of the interception CA")?)?;
        let config = ClientConfig::builder_with_provider(tls::provider())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { listener, tls: tls::connector_offering(&config, &[b"http/1.1"]) })
    }

    /// Asks for a URL; by `https` through a tunnel.
    ///
    /// # Errors
    ///
    /// Returns an error if the listener cannot be reached, or breaks the connection.
    pub(super) async fn get(
        &self,
        scheme: UrlScheme,
        host: &str,
        path: &str,
        user_agent: Option<&str>,
    ) -> anyhow::Result<DrillAnswer> {
        let plain = self.listener.filter(|listener| listener.protocol == ListenProtocol::Http);
        let listener = plain.context("no listener of proxy.listen is an HTTP proxy without TLS")?;
        #[expect(clippy::disallowed_methods, reason = "the proxy's own listener")]
        let tcp = TcpStream::connect(listener.address).await?;
        let own = format!("WayleaveDrill/1.0 ({})", drill_hosts::token());
        let user_agent = user_agent.unwrap_or(&own);
        let mut sender = start(tcp).await?;
        if scheme == UrlScheme::Http {
            let target = format!("http://{host}{path}");
            return read(sender.send_request(get(&target, host, user_agent)?).await?).await;
        }
        let authority = format!("{host}:443");
        let connect = Request::connect(&authority)
            .header(HOST, &authority)
            .header(USER_AGENT, user_agent)
            .header(ACCEPT, "application/problem+json")
            .body(Empty::<Bytes>::new())?;
        let answer = sender.send_request(connect).await?;
        if answer.status() != StatusCode::OK {
            return read(answer).await;
        }
        let tunnel = TokioIo::new(hyper::upgrade::on(answer).await?);
        let name = ServerName::try_from(host.to_owned())?;
        let Ok(inside) = self.tls.connect(name, tunnel).await else {
            return Ok(DrillAnswer { status: 200, reason: None, is_uninspected: true });
        };
        let mut sender = start(inside).await?;
        read(sender.send_request(get(path, host, user_agent)?).await?).await
    }
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
