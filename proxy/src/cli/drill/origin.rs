//! The origins of a drill: a port of a loopback address for each. Others on this machine may connect as well, and find nothing of
//! value.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use wayleave_clock::system_time;
use wayleave_robots_txt::UrlScheme;
use wayleave_transport::tls::intercept::{CertificateAuthority, TlsInterceptor};

use super::probes::{self, DrillHost};

const CONTENT_USAGE: HeaderName = HeaderName::from_static("content-usage");

/// The running origins.
pub(super) struct DrillOrigin {
    /// The addresses by label and scheme.
    addresses: HashMap<(&'static str, UrlScheme), SocketAddr>,
    arrived: Arrivals,
}

/// The times at which requests for the drill's paths arrived.
type Arrivals = Arc<Mutex<Vec<Instant>>>;

impl DrillOrigin {
    /// Starts to listen at ports of `address`, with certificates of `authority` for `https`.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no port, or no certificate.
    pub(super) async fn start(
        address: Ipv4Addr,
        authority: Option<&Arc<CertificateAuthority>>,
    ) -> anyhow::Result<Self> {
        let acceptor = authority.map(|authority| acceptor(address, authority)).transpose()?;
        let mut origin = Self { addresses: HashMap::new(), arrived: Arrivals::default() };
        for label in probes::LABELS {
            for scheme in [UrlScheme::Http, UrlScheme::Https] {
                let listener = TcpListener::bind((address, 0)).await;
                let listener = listener.with_context(|| format!("listening at {address}"))?;
                origin.addresses.insert((label, scheme), listener.local_addr()?);
                let tls = acceptor.clone().filter(|_| scheme == UrlScheme::Https);
                tokio::spawn(serve(listener, tls, label, Arc::clone(&origin.arrived)));
            }
        }
        Ok(origin)
    }

    /// Returns the host and the port that a request is for.
    pub(super) fn authority_of(&self, host: DrillHost, scheme: UrlScheme) -> String {
        match host {
            DrillHost::Label(label) => self.addresses[&(label, scheme)].to_string(),
            DrillHost::Address(address) => format!("{address}:{}", scheme.default_port()),
        }
    }

    /// Returns when requests arrived since the last call of [`Self::forget_arrivals`].
    pub(super) fn arrivals(&self) -> Vec<Instant> {
        lock(&self.arrived).clone()
    }

    pub(super) fn forget_arrivals(&self) {
        lock(&self.arrived).clear();
    }
}

fn lock(arrived: &Mutex<Vec<Instant>>) -> MutexGuard<'_, Vec<Instant>> {
    arrived.lock().unwrap_or_else(PoisonError::into_inner)
}

fn acceptor(
    address: Ipv4Addr,
    authority: &Arc<CertificateAuthority>,
) -> anyhow::Result<TlsAcceptor> {
    let interceptor = TlsInterceptor::new(Arc::clone(authority))?;
    let (config, _) = interceptor.server_config(&address.to_string(), system_time())?;
    let mut config = Arc::unwrap_or_clone(config);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Answers every connection for as long as the process runs.
async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    label: &'static str,
    arrived: Arrivals,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let tls = tls.clone();
        let arrived = Arc::clone(&arrived);
        // Whatever fails on the way, the proxy's answer is judged.
        tokio::spawn(async move {
            match tls {
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        serve_connection(stream, label, arrived).await;
                    }
                }
                None => serve_connection(stream, label, arrived).await,
            }
        });
    }
}

async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    label: &'static str,
    arrived: Arrivals,
) {
    let service = service_fn(|request: Request<Incoming>| {
        let response = answer(label, request.uri().path(), &arrived);
        async { Ok::<_, Infallible>(response) }
    });
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

fn answer(label: &str, path: &str, arrived: &Mutex<Vec<Instant>>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    if path == "/robots.txt" {
        match robots_txt(label) {
            Some(text) => *response.body_mut() = text.into(),
            None => *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR,
        }
    } else if path.starts_with(probes::PATHS) {
        lock(arrived).push(Instant::now());
        *response.body_mut() = "drill\n".into();
        if label == probes::STATED {
            response.headers_mut().insert(CONTENT_USAGE, HeaderValue::from_static("train-ai=n"));
        }
    } else {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

/// Returns the robots.txt of an origin; none: it cannot be fetched.
fn robots_txt(label: &str) -> Option<String> {
    match label {
        probes::UNREACHABLE => None,
        probes::SITE => Some(probes::ROBOTS_TXT.to_owned()),
        probes::PACED => {
            Some(format!("User-agent: *\nCrawl-delay: {}\n", probes::CRAWL_DELAY.as_secs()))
        }
        _ => Some("User-agent: *\nAllow: /\n".to_owned()),
    }
}
