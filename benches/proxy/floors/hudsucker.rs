//! floor-hudsucker: a proxy around the hudsucker crate that passes everything through except the
//! paths below `/private/`. It decides nothing else, and logs and counts nothing: a floor, that is, a
//! lower bound for the comparison.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Parser;
use http::{Request, Response, StatusCode};
use hudsucker::certificate_authority::RcgenAuthority;
use hudsucker::rcgen::{Issuer, KeyPair};
use hudsucker::rustls::crypto::aws_lc_rs;
use hudsucker::rustls::{ClientConfig, RootCertStore};
use hudsucker::{Body, HttpContext, HttpHandler, Proxy, RequestOrResponse};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

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
    origin_roots: PathBuf,
}

#[derive(Clone, Debug)]
struct RefusePrivate;

impl HttpHandler for RefusePrivate {
    async fn handle_request(
        &mut self,
        _context: &HttpContext,
        request: Request<Body>,
    ) -> RequestOrResponse {
        if !request.uri().path().starts_with("/private/") {
            return request.into();
        }
        let response =
            Response::builder().status(StatusCode::FORBIDDEN).body(Body::from("refused\n"));
        response.expect("a valid response").into()
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let key = KeyPair::from_pem(&std::fs::read_to_string(&options.ca_key)?)?;
    let certificate = std::fs::read_to_string(&options.ca_certificate)?;
    let issuer = Issuer::from_ca_cert_pem(&certificate, key)?;
    let authority = RcgenAuthority::new(issuer, 10_000, aws_lc_rs::default_provider());
    let proxy = Proxy::builder()
        .with_addr(options.listen)
        .with_ca(authority)
        .with_http_connector(connector(&options)?)
        .with_http_handler(RefusePrivate)
        .build()?;
    proxy.start().await?;
    Ok(())
}

type Addresses = std::iter::Once<SocketAddr>;
type LoopbackResolver =
    tower::util::ServiceFn<fn(Name) -> std::future::Ready<Result<Addresses, Infallible>>>;

/// Returns hudsucker's own connector, except that every name resolves to localhost and the roots are the benchmark's.
fn connector(
    options: &Options,
) -> anyhow::Result<hyper_rustls::HttpsConnector<HttpConnector<LoopbackResolver>>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(&options.origin_roots)? {
        roots.add(certificate?)?;
    }
    let tls = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let resolve: fn(Name) -> _ =
        |_| std::future::ready(Ok(std::iter::once((Ipv4Addr::LOCALHOST, 0).into())));
    let mut http = HttpConnector::new_with_resolver(tower::service_fn(resolve));
    http.enforce_http(false);
    Ok(hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .enable_http2()
        .wrap_connector(http))
}
