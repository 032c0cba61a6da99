//! A forward proxy on pingora for plain HTTP that sends nothing which robots.txt disallows.
//!
//! ```sh
//! cargo run -p wayleave-gate --features pingora --example forward_proxy -- config.toml 127.0.0.1:3128
//! ```

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Uri, header};
use pingora_core::prelude::{HttpPeer, Server};
use pingora_error::{Error as PingoraError, ErrorType, OkOrErr, OrErr, Result};
use pingora_http::{RequestHeader, ResponseHeader};
use pingora_proxy::{ProxyHttp, Session, http_proxy_service};
use tokio::sync::OnceCell;
use wayleave_gate::Gate;
use wayleave_gate::pingora::{GateContext, client_of};

struct ForwardProxy {
    config: String,
    /// Built on the runtime that serves requests.
    gate: OnceCell<Gate>,
}

#[derive(Default)]
struct ExchangeContext {
    gate: GateContext,
    /// The target of the admitted request.
    target: Uri,
}

#[async_trait]
impl ProxyHttp for ForwardProxy {
    type CTX = ExchangeContext;

    fn new_ctx(&self) -> ExchangeContext {
        ExchangeContext::default()
    }

    async fn request_filter(
        &self,
        session: &mut Session,
        context: &mut ExchangeContext,
    ) -> Result<bool> {
        let building = Gate::from_config(&self.config);
        let gate = self.gate.get_or_try_init(|| building).await;
        let gate = gate.or_err(ErrorType::InternalError, "building the gate")?;
        let client = client_of(session).or_err(ErrorType::InternalError, "no address")?;
        if context.gate.request_filter(gate, &client, session).await? {
            return Ok(true);
        }
        let target = session.req_header().raw_path();
        context.target =
            Uri::try_from(target).or_err(ErrorType::InvalidHTTPHeader, "the target")?;
        Ok(false)
    }

    async fn upstream_peer(
        &self,
        _session: &mut Session,
        context: &mut ExchangeContext,
    ) -> Result<Box<HttpPeer>> {
        let host = context.target.host().unwrap_or_default().trim_matches(['[', ']']);
        let port = context.target.port_u16().unwrap_or(80);
        let mut addresses = tokio::net::lookup_host((host, port))
            .await
            .or_err(ErrorType::ConnectProxyFailure, "resolving the host")?;
        let address: SocketAddr =
            addresses.next().or_err(ErrorType::ConnectProxyFailure, "the host has no address")?;
        let mut peer = HttpPeer::new(address, false, String::new());
        peer.options.connection_timeout = Some(Duration::from_secs(10));
        Ok(Box::new(peer))
    }

    async fn upstream_request_filter(
        &self,
        _session: &mut Session,
        request: &mut RequestHeader,
        context: &mut ExchangeContext,
    ) -> Result<()> {
        let path = context.target.path_and_query().map_or("/", |path| path.as_str());
        request.set_raw_path(path.as_bytes())?;
        let authority = context.target.authority().map_or("", |authority| authority.as_str());
        request.insert_header(header::HOST, authority)?;
        request.remove_header(&header::PROXY_AUTHORIZATION);
        context.gate.upstream_request_filter();
        Ok(())
    }

    async fn response_filter(
        &self,
        session: &mut Session,
        response: &mut ResponseHeader,
        context: &mut ExchangeContext,
    ) -> Result<()> {
        context.gate.response_filter(session, response).await
    }

    fn response_body_filter(
        &self,
        _session: &mut Session,
        body: &mut Option<Bytes>,
        _is_end: bool,
        context: &mut ExchangeContext,
    ) -> Result<Option<Duration>> {
        context.gate.response_body_filter(body.as_ref())?;
        Ok(None)
    }

    async fn logging(
        &self,
        _session: &mut Session,
        error: Option<&PingoraError>,
        context: &mut ExchangeContext,
    ) {
        context.gate.logging(error);
    }
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let config = arguments.next().ok_or("usage: forward_proxy CONFIG ADDRESS:PORT")?;
    let address = arguments.next().ok_or("usage: forward_proxy CONFIG ADDRESS:PORT")?;
    let mut server = Server::new(None)?;
    server.bootstrap();
    let proxy = ForwardProxy { config, gate: OnceCell::new() };
    let mut service = http_proxy_service(&server.configuration, proxy);
    service.add_tcp(&address);
    server.add_service(service);
    server.run_forever();
}
