//! Gateways that ask by HTTP: Envoy's `ext_authz`, nginx `auth_request`, Traefik, Caddy, and the helper for squid.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::ext::ReasonPhrase;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use wayleave_http_wire::http1::MAX_FIELDS;

use crate::credentials::GatewayIdentity;
use crate::given_slots::SentNotice;
use crate::mistake::Mistake;
use crate::question::{self, QuestionError};
use crate::server::{GatewayServer, serve_until};
use wayleave_admission::asked::AskedVerdict;

/// The time that a request's head may take, and that a connection may be idle: longer than gateways keep theirs.
const HEAD_TIMEOUT: Duration = Duration::from_mins(5);
/// The longest head of a request to us: that of the longest client's request, and where the gateway repeats its target.
const MAX_HEAD_BYTES: usize = 160 * 1024;
/// The longest notice.
const MAX_NOTICE_BYTES: usize = 16 * 1024;

/// The label of the answers in metrics.
const PROTOCOL: &str = "http";

type HttpAnswer = Response<Full<Bytes>>;

impl GatewayServer {
    /// Serves a connection of the gateway at `peer` until it ends, or until `stopping` and the end of its present request.
    pub async fn serve_http(
        self: Arc<Self>,
        stream: TcpStream,
        peer: IpAddr,
        stopping: CancellationToken,
    ) {
        let peer = peer.to_canonical();
        let service = service_fn(|request| {
            let server = Arc::clone(&self);
            async move { Ok::<_, Infallible>(server.answer(peer, request).await) }
        });
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(MAX_HEAD_BYTES)
            .max_headers(MAX_FIELDS)
            .serve_connection(TokioIo::new(stream), service);
        serve_until(serving, stopping).await;
    }

    /// Answers one request to us.
    async fn answer(self: Arc<Self>, peer: IpAddr, request: Request<Incoming>) -> HttpAnswer {
        let metrics = Arc::clone(&self.gate.metrics);
        self.try_to_answer(peer, request).await.unwrap_or_else(|mistake| {
            metrics.gateway_answer(PROTOCOL, "mistake");
            mistake.response()
        })
    }

    async fn try_to_answer(
        self: Arc<Self>,
        peer: IpAddr,
        request: Request<Incoming>,
    ) -> Result<HttpAnswer, Mistake> {
        let (asking, body) = request.into_parts();
        let settings = self.gate.decider.settings();
        let gateway = GatewayIdentity::new(&settings, peer, &asking.headers)?;
        match asking.uri.path() {
            path @ ("/sent" | "/answered") => {
                let is_sent = path == "/sent";
                self.take_notice(gateway, is_sent, &asking.method, body).await?;
                self.gate.metrics.gateway_answer(PROTOCOL, "noted");
                Ok(with_status(Bytes::new(), StatusCode::NO_CONTENT))
            }
            _ => self.answer_question(gateway, asking).await,
        }
    }

    async fn answer_question(
        self: Arc<Self>,
        gateway: GatewayIdentity,
        asking: Parts,
    ) -> Result<HttpAnswer, Mistake> {
        let connection = gateway.connection(&asking.headers);
        let received = match question::read(&asking, gateway.token.is_some()) {
            Ok(received) => Ok(received),
            Err(QuestionError::Mistake(mistake)) => return Err(mistake),
            Err(QuestionError::Head(error)) => Err(error),
        };
        let verdict = self.decide(PROTOCOL, gateway, connection, received).await;
        let panicked = || with_status(Bytes::new(), StatusCode::INTERNAL_SERVER_ERROR);
        Ok(verdict.map_or_else(panicked, response))
    }

    /// Takes a notice about an allowed request.
    async fn take_notice(
        &self,
        gateway: GatewayIdentity,
        is_sent: bool,
        method: &Method,
        body: Incoming,
    ) -> Result<(), Mistake> {
        if method != Method::POST {
            return Err(Mistake::new("send POST with JSON"));
        }
        let body = Limited::new(body, MAX_NOTICE_BYTES).collect();
        let limit = self.gate.decider.settings().options.header_timeout;
        let Ok(Ok(body)) = timeout(limit, body).await else {
            return Err(Mistake::new("the body is cut short, longer than 16 KiB, or too slow"));
        };
        let body = body.to_bytes();
        if is_sent {
            let SentNotice { id } = parse(&body)?;
            return self.given(|given| given.sent(gateway, id));
        }
        let notice = parse(&body)?;
        self.given(|given| given.answered(&self.gate, gateway, &notice))
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Mistake> {
    serde_json::from_slice(body)
        .map_err(|error| Mistake::new(format!("the body is wrong: {error}")))
}

/// Returns a verdict as a response.
fn response(verdict: AskedVerdict) -> HttpAnswer {
    let status = StatusCode::from_u16(verdict.status).unwrap_or(StatusCode::FORBIDDEN);
    let mut response = with_status(verdict.body.into(), status);
    if let Ok(phrase) = ReasonPhrase::try_from(verdict.title.as_bytes()) {
        response.extensions_mut().insert(phrase);
    }
    for (name, value) in verdict.fields {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(&name), HeaderValue::from_bytes(&value))
        {
            response.headers_mut().append(name, value);
        }
    }
    response
}

fn with_status(body: Bytes, status: StatusCode) -> HttpAnswer {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response
}
