//! One connection to a proxy or an origin, as crawlers open them.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, LazyLock};

use anyhow::{Context, bail};
use bytes::Bytes;
use http::header::{HOST, USER_AGENT};
use http::{Request, Uri};
use http_body_util::{BodyExt, Empty, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::envoy::{
    Attributes, CHECK, CheckRequest, CheckResponse, HttpRequest, HttpResponse, RequestAttributes,
};
use crate::options::Options;

/// A connection for requests.
pub(crate) struct Client {
    sender: Sender,
    /// The authority inside a tunnel; without one each request names its own.
    tunnel: Option<String>,
}

#[derive(Clone)]
enum Sender {
    Http1(Arc<tokio::sync::Mutex<http1::SendRequest<Empty<Bytes>>>>),
    Http2(http2::SendRequest<Empty<Bytes>>),
    Grpc(http2::SendRequest<Full<Bytes>>),
}

impl Client {
    /// Connects; for HTTPS with a tunnel to `authority` and TLS inside.
    pub(crate) async fn connect(options: &Options, authority: &str) -> anyhow::Result<Self> {
        let origin = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
        let mut tcp = TcpStream::connect(options.via.unwrap_or(origin)).await?;
        tcp.set_nodelay(true)?;
        if options.socks5 {
            open_socks5(&mut tcp, authority).await?;
        }
        if options.grpc {
            let io = TokioIo::new(tcp);
            let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
            // An error shows in the requests.
            tokio::spawn(async move { drop(connection.await) });
            return Ok(Self { sender: Sender::Grpc(sender), tunnel: None });
        }
        if !options.https {
            return Ok(Self { sender: http1_sender(tcp).await?, tunnel: None });
        }
        if options.via.is_some() && !options.socks5 {
            open_tunnel(&mut tcp, authority, &options.user_agent).await?;
        }
        let config = if options.http2 { &*TLS_HTTP2 } else { &*TLS_HTTP1 };
        let (host, _) = authority.rsplit_once(':').context("no port")?;
        let name = ServerName::try_from(host.to_owned())?;
        let connector = TlsConnector::from(Arc::clone(config));
        let tls = connector.connect(name, tcp).await?;
        let sender = if options.http2 {
            if tls.get_ref().1.alpn_protocol() != Some(b"h2") {
                bail!("HTTP/2 was not agreed on");
            }
            http2_sender(tls).await?
        } else {
            http1_sender(tls).await?
        };
        Ok(Self { sender, tunnel: Some(authority.to_owned()) })
    }

    /// Returns a client that shares the connection, for HTTP/2's streams.
    pub(crate) fn share(&self) -> Self {
        Self { sender: self.sender.clone(), tunnel: self.tunnel.clone() }
    }

    /// Sends a request, reads all of the response, and returns its status and length.
    pub(crate) async fn ask(
        &mut self,
        options: &Options,
        authority: &str,
    ) -> anyhow::Result<(u16, usize)> {
        if let Sender::Grpc(sender) = &mut self.sender {
            return ask_for_leave(sender, options, authority).await;
        }
        let request = self.request(options, authority)?;
        let response = match &mut self.sender {
            Sender::Grpc(_) => bail!("asked above"),
            Sender::Http1(sender) => {
                let mut sender = sender.lock().await;
                sender.ready().await?;
                sender.send_request(request).await?
            }
            Sender::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
        };
        let status = response.status().as_u16();
        let mut body = response.into_body();
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            length += frame?.data_ref().map_or(0, Bytes::len);
        }
        Ok((status, length))
    }

    fn request(&self, options: &Options, authority: &str) -> anyhow::Result<Request<Empty<Bytes>>> {
        let authority = self.tunnel.as_deref().unwrap_or(authority);
        let path = &options.path;
        let is_http2 = matches!(self.sender, Sender::Http2(_));
        let uri: Uri = if is_http2 {
            format!("https://{authority}{path}").parse()?
        } else if self.tunnel.is_some() || options.via.is_none() || options.socks5 {
            path.parse()?
        } else {
            format!("http://{authority}{path}").parse()?
        };
        let mut request = Request::get(uri)
            .header(USER_AGENT, &options.user_agent)
            .header("Accept", "*/*")
            .header("Accept-Encoding", "gzip, deflate");
        if !is_http2 {
            request = request.header(HOST, authority);
        }
        Ok(request.body(Empty::new())?)
    }
}

/// Asks about a request. Returns 200 and the length of the answer if it may leave.
async fn ask_for_leave(
    sender: &mut http2::SendRequest<Full<Bytes>>,
    options: &Options,
    authority: &str,
) -> anyhow::Result<(u16, usize)> {
    let fields = [("user-agent", &*options.user_agent), ("accept", "*/*")];
    let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let http = HttpRequest {
        method: "GET".to_owned(),
        headers: fields.into(),
        path: options.path.clone(),
        host: authority.to_owned(),
        scheme: "http".to_owned(),
        ..HttpRequest::default()
    };
    let request = Some(RequestAttributes { http: Some(http) });
    let attributes = Some(Attributes { request, ..Attributes::default() });
    let message = CheckRequest { attributes }.encode_to_vec();
    let length = u32::try_from(message.len())?;
    let message = [&[0][..], &length.to_be_bytes(), &message].concat();
    let request = Request::post(format!("http://gateway.test{CHECK}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(Bytes::from(message)))?;
    sender.ready().await?;
    let answer = sender.send_request(request).await?.into_body().collect().await?.to_bytes();
    let leave = CheckResponse::decode(answer.get(5..).context("no message")?)?;
    let is_leave = matches!(leave.http_response, Some(HttpResponse::Ok(_)));
    Ok((if is_leave { 200 } else { 403 }, answer.len()))
}

async fn http1_sender<S>(stream: S) -> anyhow::Result<Sender>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // An error shows in the requests.
    tokio::spawn(async move { drop(connection.await) });
    Ok(Sender::Http1(Arc::new(tokio::sync::Mutex::new(sender))))
}

async fn http2_sender<S>(stream: S) -> anyhow::Result<Sender>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(stream);
    let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
    tokio::spawn(async move { drop(connection.await) });
    Ok(Sender::Http2(sender))
}

async fn open_tunnel(tcp: &mut TcpStream, authority: &str, user_agent: &str) -> anyhow::Result<()> {
    let head = format!(
        "CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: {user_agent}\r\n\r\n"
    );
    tcp.write_all(head.as_bytes()).await?;
    let mut answer = Vec::with_capacity(256);
    while !answer.ends_with(b"\r\n\r\n") {
        if tcp.read_buf(&mut answer).await? == 0 || answer.len() > 8192 {
            bail!("no answer to CONNECT: {}", String::from_utf8_lossy(&answer));
        }
    }
    if !answer.starts_with(b"HTTP/1.1 200") && !answer.starts_with(b"HTTP/1.0 200") {
        bail!("CONNECT: {}", String::from_utf8_lossy(&answer));
    }
    Ok(())
}

async fn open_socks5(tcp: &mut TcpStream, authority: &str) -> anyhow::Result<()> {
    let (host, port) = authority.rsplit_once(':').context("no port")?;
    let (length, port) = (u8::try_from(host.len())?, port.parse::<u16>()?);
    // Without authentication, so that both messages can leave at once.
    let greeting = [5, 1, 0];
    let connect = [&[5, 1, 0, 3, length], host.as_bytes(), &port.to_be_bytes()].concat();
    tcp.write_all(&[&greeting[..], &connect].concat()).await?;
    let mut answer = [0; 12];
    tcp.read_exact(&mut answer).await?;
    if answer[..4] != [5, 0, 5, 0] {
        bail!("SOCKS5: {answer:?}");
    }
    Ok(())
}

static TLS_HTTP1: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| tls(b"http/1.1"));
static TLS_HTTP2: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| tls(b"h2"));

/// Returns a configuration without resumption, as most crawlers' clients have: every handshake is full.
fn tls(protocol: &[u8]) -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("ring has ciphers for all versions")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    Arc::new(config)
}

/// A verifier that trusts every proxy's CA; the client's cost is not measured.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
