//! Gateways that ask by gRPC: Envoy's `ext_authz`, and Istio, which is Envoy.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::server::{Grpc, UnaryService};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;
use wayleave_http_wire::received::ReceivedHead;

use crate::credentials::GatewayIdentity;
use crate::envoy::{
    self, CheckRequest, CheckResponse, DeniedResponse, HeaderOption, HttpRequest, HttpResponse,
    HttpStatus, OkResponse, RpcStatus,
};
use crate::mistake::Mistake;
use crate::question::{OF_OUR_MESSAGE, QuestionError, SCHEME, absolute_form, is_ambiguous_host};
use crate::question_shares::excess;
use crate::server::{EXCESS, GatewayServer, serve_until};
use wayleave_admission::asked::{ALLOWED, AskedVerdict};

/// The longest question, with as many bytes for fields as by HTTP.
const MAX_QUESTION_BYTES: usize = 256 * 1024;
/// The bytes before a message: that it is not compressed, and its length.
const EMPTY_MESSAGE: [u8; 5] = [0; 5];
/// The interval of PINGs, by which a connection is noticed that broke without a word.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// The most questions of a connection at a time.
const MAX_STREAMS: u32 = 1024;
/// The label of the answers in metrics.
const PROTOCOL: &str = "grpc";

impl GatewayServer {
    /// Serves a connection of the gateway at `peer` until it ends, or until `stopping` and the end of its present requests.
    pub async fn serve_grpc(
        self: Arc<Self>,
        stream: TcpStream,
        peer: IpAddr,
        stopping: CancellationToken,
    ) {
        let peer = peer.to_canonical();
        let service = service_fn(|request| {
            let server = Arc::clone(&self);
            async move { Ok::<_, Infallible>(server.answer_call(peer, request).await) }
        });
        let serving = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .max_concurrent_streams(MAX_STREAMS)
            .serve_connection(TokioIo::new(stream), service);
        serve_until(serving, stopping).await;
    }

    /// Answers one call.
    async fn answer_call(
        self: Arc<Self>,
        peer: IpAddr,
        request: Request<Incoming>,
    ) -> Response<Body> {
        if request.uri().path() != envoy::CHECK {
            return Status::unimplemented("only Authorization/Check of envoy.service.auth.v3")
                .into_http();
        }
        let settings = self.gate.decider.settings();
        let gateway = match GatewayIdentity::new(&settings, peer, request.headers()) {
            Ok(gateway) => gateway,
            Err(mistake) => return self.refuse_mistake(&mistake).into_http(),
        };
        // Counted while it is read, so that questions that never end are a share of the memory only.
        let reading = self.shares.begin(&gateway, peer);
        let has_room = reading.is_some();
        let (head, body) = request.into_parts();
        let question = timeout(settings.options.header_timeout, read_question(body, has_room));
        let message =
            question.await.unwrap_or_else(|_| Err(Mistake::new("the question is too slow")));
        drop(reading);
        let message = match message {
            Ok(message) => message,
            Err(mistake) => return self.refuse_mistake(&mistake).into_http(),
        };
        let request = Request::from_parts(head, Full::new(message));
        let codec = ProstCodec::<CheckResponse, CheckRequest>::default();
        let mut grpc =
            Grpc::new(codec).apply_max_message_size_config(Some(MAX_QUESTION_BYTES), None);
        grpc.unary(CheckCall { server: self, gateway, has_room }, request).await
    }

    fn refuse_mistake(&self, mistake: &Mistake) -> Status {
        self.gate.metrics.gateway_answer(PROTOCOL, "mistake");
        mistake.grpc_status()
    }
}

/// Reads a question with the bytes that begin its message. If there is no room for it, it is discarded, and an empty one returned:
/// whoever has sent all of it also reads the answer.
async fn read_question(mut body: Incoming, has_room: bool) -> Result<Bytes, Mistake> {
    if has_room {
        let limited = Limited::new(body, MAX_QUESTION_BYTES + EMPTY_MESSAGE.len());
        let read = limited.collect().await;
        let cut = |_| Mistake::new("the question is cut short, or longer than 256 KiB");
        return Ok(read.map_err(cut)?.to_bytes());
    }
    while let Some(Ok(_)) = body.frame().await {}
    Ok(Bytes::from_static(&EMPTY_MESSAGE))
}

/// One call of `Check`.
struct CheckCall {
    server: Arc<GatewayServer>,
    gateway: GatewayIdentity,
    /// Whether the question was read.
    has_room: bool,
}

impl UnaryService<CheckRequest> for CheckCall {
    type Response = CheckResponse;
    type Future =
        Pin<Box<dyn Future<Output = Result<tonic::Response<CheckResponse>, Status>> + Send>>;

    fn call(&mut self, request: tonic::Request<CheckRequest>) -> Self::Future {
        let server = Arc::clone(&self.server);
        let gateway = self.gateway;
        let has_room = self.has_room;
        Box::pin(async move {
            if !has_room {
                server.gate.metrics.gateway_answer(PROTOCOL, EXCESS);
                return Ok(tonic::Response::new(answer(excess())));
            }
            let asked = request.into_inner();
            let connection = gateway.connection_of(client_of(&asked));
            let received = match question(&asked) {
                Ok(received) => Ok(received),
                Err(QuestionError::Mistake(mistake)) => return Err(server.refuse_mistake(&mistake)),
                Err(QuestionError::Head(error)) => Err(error),
            };
            let verdict = server.decide(PROTOCOL, gateway, connection, received).await;
            let verdict = verdict.ok_or_else(|| Status::internal("the decision panicked"))?;
            Ok(tonic::Response::new(answer(verdict)))
        })
    }
}

/// Returns the address of the gateway's client.
fn client_of(asked: &CheckRequest) -> Option<IpAddr> {
    let source = asked.attributes.as_ref()?.source.as_ref()?;
    let address: IpAddr = source.address.as_ref()?.socket_address.as_ref()?.address.parse().ok()?;
    Some(address.to_canonical())
}

/// Reads the request that is asked about.
fn question(asked: &CheckRequest) -> Result<ReceivedHead, QuestionError> {
    let request = asked.attributes.as_ref().and_then(|attributes| attributes.request.as_ref());
    let http = request.and_then(|request| request.http.as_ref());
    let http = http.ok_or_else(|| Mistake::new("attributes.request.http is missing"))?;
    let method = http.method.as_bytes();
    let host = http.host.as_bytes();
    if is_ambiguous_host(host) {
        return Err(Mistake::new("attributes.request.http.host is not one host").into());
    }
    let target = match (method, http.scheme.as_str()) {
        (b"CONNECT", _) => host.to_owned(),
        (_, "http" | "https") => {
            absolute_form(method, [http.scheme.as_bytes(), host, http.path.as_bytes()])
                .ok_or_else(|| Mistake::new("attributes.request.http.path does not begin with /"))?
        }
        _ => {
            return Err(
                Mistake::new("attributes.request.http.scheme is neither http nor https").into()
            );
        }
    };
    let fields = fields(http)?;
    let fields = fields.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
    ReceivedHead::of_parts((method, &target, host), fields).map_err(QuestionError::Head)
}

/// Returns the client's fields.
fn fields(http: &HttpRequest) -> Result<Vec<(HeaderName, HeaderValue)>, Mistake> {
    let joined = http.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    let raw = http.header_map.iter().flat_map(|map| &map.headers).map(|field| {
        let value =
            if field.raw_value.is_empty() { field.value.as_bytes() } else { &field.raw_value };
        (field.key.as_str(), value)
    });
    let is_clients = |(name, _): &(&str, &[u8])| {
        let name = name.to_ascii_lowercase();
        // Envoy's own, beside what `host` and `scheme` say.
        !name.starts_with(':') && name != SCHEME && !OF_OUR_MESSAGE.contains(&name.as_str())
    };
    let checked = |(name, value): (&str, &[u8])| {
        let pair =
            HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_bytes(value).ok());
        pair.ok_or_else(|| {
            Mistake::new("a field of attributes.request.http.headers is none of HTTP")
        })
    };
    joined.chain(raw).filter(is_clients).map(checked).collect()
}

/// Returns a verdict as Envoy reads it.
fn answer(verdict: AskedVerdict) -> CheckResponse {
    let fields = verdict.fields.into_iter().map(|(name, value)| HeaderOption {
        header: Some(envoy::HeaderValue {
            key: String::from_utf8_lossy(&name).into_owned(),
            value: String::from_utf8_lossy(&value).into_owned(),
            raw_value: Vec::new(),
        }),
    });
    let fields = fields.collect();
    let (code, response) = if verdict.status == ALLOWED {
        (Code::Ok, HttpResponse::Ok(OkResponse { response_headers_to_add: fields }))
    } else {
        let status = Some(HttpStatus { code: verdict.status.into() });
        let body = String::from_utf8_lossy(&verdict.body).into_owned();
        (
            Code::PermissionDenied,
            HttpResponse::Denied(DeniedResponse { status, headers: fields, body }),
        )
    };
    CheckResponse { status: Some(RpcStatus { code: code as i32 }), http_response: Some(response) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(key: &str, value: &str, raw_value: &[u8]) -> envoy::HeaderValue {
        envoy::HeaderValue {
            key: key.to_owned(),
            value: value.to_owned(),
            raw_value: raw_value.to_owned(),
        }
    }

    #[test]
    fn a_field_has_its_bytes_or_else_its_text() {
        let headers = vec![
            field("X-A", "", b"\xe9"),
            field("X-B", "text", b""),
            field(":path", "", b"/b"),
            field("Content-Length", "", b"7"),
            field("X-Forwarded-Proto", "", b"https"),
        ];
        let header_map = Some(envoy::HeaderMap { headers });
        let read = fields(&HttpRequest { header_map, ..HttpRequest::default() }).unwrap();
        let read: Vec<_> =
            read.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        assert_eq!(read, [("x-a", &b"\xe9"[..]), ("x-b", b"text")]);
    }
}
