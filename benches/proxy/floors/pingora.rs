//! floor-pingora: bare pingora-proxy as a forward proxy that passes everything through but the
//! paths below `/private/`. It decides nothing, logs nothing and counts nothing.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use clap::Parser;
use pingora_core::apps::{HttpServerApp, ServerApp};
use pingora_core::listeners::tls::Acceptor;
use pingora_core::protocols::http::ServerSession;
use pingora_core::protocols::l4::stream::Stream as TcpSession;
use pingora_core::protocols::{ALPN, Ssl, Stream};
use pingora_core::server::ShutdownWatch;
use pingora_core::server::configuration::ServerConf;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_error::{Error, ErrorType, Result};
use pingora_http::{RequestHeader, ResponseHeader};
use pingora_proxy::{HttpProxy, ProxyHttp, Session};
use rcgen::{CertificateParams, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls_pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[derive(Debug, Parser)]
struct Options {
    #[arg(long)]
    listen: SocketAddr,
    /// The CA that signs leaf certificates: certificate and key, PEM.
    #[arg(long)]
    ca_certificate: PathBuf,
    #[arg(long)]
    ca_key: PathBuf,
    /// The roots for origins' certificates, PEM.
    #[arg(long)]
    origin_roots: String,
}

const REFUSED: &[u8] = b"refused\n";

/// The destination of a request, from its target, or from `Host` inside a tunnel.
#[derive(Default)]
struct Way {
    authority: String,
    path: String,
    is_https: bool,
}

struct Forward {
    hasher: RandomState,
}

#[async_trait]
impl ProxyHttp for Forward {
    type CTX = Way;

    fn new_ctx(&self) -> Way {
        Way::default()
    }

    async fn request_filter(&self, session: &mut Session, way: &mut Way) -> Result<bool> {
        *way = way_of(session.req_header())?;
        if way.path.starts_with("/private/") {
            let mut refusal = ResponseHeader::build(403, None)?;
            refusal.insert_header("Content-Length", REFUSED.len())?;
            session.write_response_header(Box::new(refusal), false).await?;
            let body = bytes::Bytes::from_static(REFUSED);
            session.write_response_body(Some(body), true).await?;
            return Ok(true);
        }
        Ok(false)
    }

    async fn upstream_peer(&self, _: &mut Session, way: &mut Way) -> Result<Box<HttpPeer>> {
        let (host, port) = way.authority.rsplit_once(':').unwrap_or((&way.authority, "80"));
        let address = (Ipv4Addr::LOCALHOST, port.parse().unwrap_or(80));
        let mut peer = HttpPeer::new(address, way.is_https, host.to_owned());
        peer.group_key = self.hasher.hash_one(&way.authority);
        Ok(Box::new(peer))
    }

    async fn upstream_request_filter(
        &self,
        _: &mut Session,
        request: &mut RequestHeader,
        way: &mut Way,
    ) -> Result<()> {
        request.set_raw_path(way.path.as_bytes())?;
        request.insert_header("Host", &way.authority)?;
        request.insert_header("Via", "1.1 floor")?;
        Ok(())
    }
}

fn way_of(request: &RequestHeader) -> Result<Way> {
    let target = str::from_utf8(request.raw_path()).unwrap_or_default();
    if let Some(rest) = target.strip_prefix("http://") {
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        return Ok(Way { authority: authority.to_owned(), path: path.to_owned(), is_https: false });
    }
    let host = request.headers.get("host").and_then(|host| host.to_str().ok());
    let authority = request.uri.authority().map(http::uri::Authority::as_str).or(host);
    let authority = authority.ok_or_else(|| Error::new(ErrorType::InvalidHTTPHeader))?;
    let path = request.uri.path_and_query().map_or("/", |path| path.as_str());
    Ok(Way { authority: authority.to_owned(), path: path.to_owned(), is_https: true })
}

/// The TLS configurations by host, made once.
struct Leaves {
    issuer: Issuer<'static, KeyPair>,
    key: KeyPair,
    kept: Mutex<HashMap<String, Arc<ServerConfig>>>,
}

impl Leaves {
    fn config(&self, host: &str) -> anyhow::Result<Arc<ServerConfig>> {
        let mut kept = self.kept.lock().expect("nobody panics with it");
        if let Some(config) = kept.get(host) {
            return Ok(Arc::clone(config));
        }
        let leaf = CertificateParams::new([host.to_owned()])?.signed_by(&self.key, &self.issuer)?;
        let key = PrivateKeyDer::Pkcs8(self.key.serialize_der().into());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let config = Arc::new(config);
        kept.insert(host.to_owned(), Arc::clone(&config));
        Ok(config)
    }
}

struct Server {
    proxy: Arc<HttpProxy<Forward>>,
    leaves: Leaves,
    shutdown: ShutdownWatch,
}

impl Server {
    async fn serve(&self, mut tcp: TcpStream) -> anyhow::Result<()> {
        tcp.set_nodelay(true)?;
        let mut first = [0; 1];
        tcp.peek(&mut first).await?;
        if first != *b"C" {
            self.http1(Box::new(TcpSession::from(tcp))).await;
            return Ok(());
        }
        let mut head = Vec::with_capacity(256);
        while !head.ends_with(b"\r\n\r\n") {
            anyhow::ensure!(tcp.read_buf(&mut head).await? > 0, "no head");
        }
        let head = String::from_utf8(head)?;
        let authority = head.split(' ').nth(1).unwrap_or_default();
        let (host, _) = authority.rsplit_once(':').unwrap_or((authority, ""));
        tcp.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
        let acceptor = Acceptor::from_server_config(self.leaves.config(host)?);
        let tls = acceptor.tls_handshake(TcpSession::from(tcp)).await?;
        if matches!(tls.selected_alpn_proto(), Some(ALPN::H2)) {
            self.proxy.process_new(Box::new(tls), &self.shutdown).await;
        } else {
            self.http1(Box::new(tls)).await;
        }
        Ok(())
    }

    async fn http1(&self, stream: Stream) {
        let mut session = ServerSession::new_http1(stream);
        session.set_keepalive(Some(60));
        while let Some(reused) = self.proxy.process_new_http(session, &self.shutdown).await {
            let (stream, settings) = reused.consume();
            session = ServerSession::new_http1(stream);
            if let Some(settings) = settings {
                settings.apply_to_session(&mut session);
            }
        }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let provider = rustls::crypto::ring::default_provider();
    // Some other part of this process may have been first.
    let _ = provider.install_default();
    let key = KeyPair::from_pem(&std::fs::read_to_string(&options.ca_key)?)?;
    let certificate = std::fs::read_to_string(&options.ca_certificate)?;
    let conf = Arc::new(ServerConf {
        ca_file: Some(options.origin_roots),
        upstream_keepalive_pool_size: 1024,
        ..ServerConf::default()
    });
    let forward = Forward { hasher: RandomState::new() };
    let (_keep, shutdown) = tokio::sync::watch::channel(false);
    let server = Arc::new(Server {
        proxy: Arc::new(pingora_proxy::http_proxy(&conf, forward)),
        leaves: Leaves {
            issuer: Issuer::from_ca_cert_pem(&certificate, key)?,
            key: KeyPair::generate()?,
            kept: Mutex::default(),
        },
        shutdown,
    });
    let listener = TcpListener::bind(options.listen).await?;
    loop {
        let (tcp, _) = listener.accept().await?;
        let server = Arc::clone(&server);
        tokio::spawn(async move {
            // Clients may leave at any time.
            drop(server.serve(tcp).await);
        });
    }
}
