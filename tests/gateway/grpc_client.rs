//! A client of Envoy's `ext_authz` by gRPC that keeps its connection, as Envoy does. It states messages in its own words; the
//! client that is made from Envoy's protocol files compares them.

use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::SendRequest;
use prost::Message;
use serde_json::Value;
use tokio::net::TcpSocket;
use tokio::task::JoinHandle;

use crate::harness::runtime;

pub const CHECK: &str = "http://gateway.test/envoy.service.auth.v3.Authorization/Check";

/// A request that is asked about.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    pub method: &'a str,
    pub scheme: &'a str,
    pub host: &'a str,
    pub path: &'a str,
    pub fields: &'a [(&'a str, &'a str)],
    pub client: &'a str,
}

impl Question<'static> {
    /// A request that is allowed unless a test says otherwise.
    pub const PLAIN: Self = Self {
        method: "GET",
        scheme: "http",
        host: "shop.test",
        path: "/a",
        fields: &[],
        client: "192.0.2.1",
    };
}

/// The answer to a call.
#[derive(Debug, Default)]
pub struct CallAnswer {
    /// The status of gRPC, such as 3 for INVALID_ARGUMENT.
    pub code: i32,
    /// The verdict's status, 200 if the request may leave; 0 without a verdict.
    pub status: i32,
    pub fields: Vec<(String, String)>,
    pub body: String,
}

impl CallAnswer {
    pub fn field(&self, wanted: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        Some(&fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted))?.1)
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }
}

/// A connection to a `grpc://` listener.
pub struct Caller {
    send: SendRequest<Bytes>,
}

impl Caller {
    /// Connects from 127.0.0.`from`.
    #[track_caller]
    pub fn connect_from(from: u8, gateway: SocketAddr) -> Self {
        let send = runtime().block_on(async move {
            let socket = TcpSocket::new_v4().expect("a socket");
            socket.bind(([127, 0, 0, from], 0).into()).expect("all of 127/8 is ours");
            let tcp = socket.connect(gateway).await.expect("a connection");
            tcp.set_nodelay(true).expect("TCP_NODELAY can be set");
            let (send, connection) = h2::client::handshake(tcp).await.expect("a handshake");
            tokio::spawn(connection);
            send
        });
        Self { send }
    }

    /// Asks, and waits for the answer.
    #[track_caller]
    pub fn ask(&self, question: &Question<'_>) -> CallAnswer {
        let message = message(question);
        runtime().block_on(call(self.send.clone(), message)).expect("the call ends well")
    }

    /// Asks. The call is cancelled if the handle is aborted.
    pub fn begin(&self, question: &Question<'_>) -> JoinHandle<Result<CallAnswer, h2::Error>> {
        runtime().spawn(call(self.send.clone(), message(question)))
    }

    /// Begins a call whose message never ends, and waits for its answer.
    #[track_caller]
    pub fn begin_without_end(&self, message: Bytes) -> Result<CallAnswer, h2::Error> {
        runtime().block_on(async {
            let mut send = self.send.clone().ready().await?;
            let (answer, mut upload) = send.send_request(head(), false)?;
            upload.send_data(message, false)?;
            read(answer.await?).await
        })
    }
}

fn head() -> http::Request<()> {
    let head = http::Request::post(CHECK).version(http::Version::HTTP_2);
    let head = head.header("content-type", "application/grpc").header("te", "trailers");
    head.body(()).expect("a valid request")
}

async fn call(send: SendRequest<Bytes>, message: Bytes) -> Result<CallAnswer, h2::Error> {
    let mut send = send.ready().await?;
    let (answer, mut upload) = send.send_request(head(), false)?;
    upload.send_data(message, true)?;
    read(answer.await?).await
}

async fn read(answer: http::Response<h2::RecvStream>) -> Result<CallAnswer, h2::Error> {
    let (head, mut stream) = answer.into_parts();
    let mut message = Vec::new();
    while let Some(data) = stream.data().await {
        let data = data?;
        stream.flow_control().release_capacity(data.len())?;
        message.extend_from_slice(&data);
    }
    let trailers = stream.trailers().await?.unwrap_or_default();
    // A call without a message has its status in the head.
    let code = trailers.get("grpc-status").or_else(|| head.headers.get("grpc-status"));
    let code = code.and_then(|code| code.to_str().ok()?.parse().ok()).expect("a status");
    if message.is_empty() {
        return Ok(CallAnswer { code, ..CallAnswer::default() });
    }
    let answer = CheckResponse::decode(&message[5..]).expect("a message");
    Ok(match (answer.denied, answer.ok) {
        (Some(denied), None) => CallAnswer {
            code,
            status: denied.status.unwrap_or_default().code,
            fields: pairs(denied.headers),
            body: denied.body,
        },
        (None, Some(ok)) => {
            assert_eq!(answer.status.unwrap_or_default().code, 0);
            CallAnswer { code, status: 200, fields: pairs(ok.headers), body: String::new() }
        }
        other => panic!("no verdict: {other:?}"),
    })
}

fn pairs(fields: Vec<HeaderOption>) -> Vec<(String, String)> {
    let fields = fields.into_iter().filter_map(|field| field.header);
    fields.map(|field| (field.key, field.value)).collect()
}

/// Returns the message of a question, after the five bytes that begin it.
pub fn message(question: &Question<'_>) -> Bytes {
    let fields = question.fields.iter().map(|(name, value)| HeaderValue {
        key: (*name).to_owned(),
        raw_value: value.as_bytes().to_vec(),
        ..HeaderValue::default()
    });
    let http = HttpRequest {
        method: question.method.to_owned(),
        path: question.path.to_owned(),
        host: question.host.to_owned(),
        scheme: question.scheme.to_owned(),
        header_map: Some(HeaderMap { headers: fields.collect() }),
    };
    let address = SocketAddress { address: question.client.to_owned() };
    let source = Peer { address: Some(Address { socket_address: Some(address) }) };
    let request = RequestAttributes { http: Some(http) };
    let attributes = Attributes { source: Some(source), request: Some(request) };
    let message = CheckRequest { attributes: Some(attributes) }.encode_to_vec();
    let length = u32::try_from(message.len()).expect("short");
    [&[0][..], &length.to_be_bytes(), &message].concat().into()
}

#[derive(Clone, PartialEq, Message)]
struct CheckRequest {
    #[prost(message, optional, tag = "1")]
    attributes: Option<Attributes>,
}

#[derive(Clone, PartialEq, Message)]
struct Attributes {
    #[prost(message, optional, tag = "1")]
    source: Option<Peer>,
    #[prost(message, optional, tag = "4")]
    request: Option<RequestAttributes>,
}

#[derive(Clone, PartialEq, Message)]
struct Peer {
    #[prost(message, optional, tag = "1")]
    address: Option<Address>,
}

#[derive(Clone, PartialEq, Message)]
struct Address {
    #[prost(message, optional, tag = "1")]
    socket_address: Option<SocketAddress>,
}

#[derive(Clone, PartialEq, Message)]
struct SocketAddress {
    #[prost(string, tag = "2")]
    address: String,
}

#[derive(Clone, PartialEq, Message)]
struct RequestAttributes {
    #[prost(message, optional, tag = "2")]
    http: Option<HttpRequest>,
}

#[derive(Clone, PartialEq, Message)]
struct HttpRequest {
    #[prost(string, tag = "2")]
    method: String,
    #[prost(string, tag = "4")]
    path: String,
    #[prost(string, tag = "5")]
    host: String,
    #[prost(string, tag = "6")]
    scheme: String,
    #[prost(message, optional, tag = "13")]
    header_map: Option<HeaderMap>,
}

#[derive(Clone, PartialEq, Message)]
struct HeaderMap {
    #[prost(message, repeated, tag = "1")]
    headers: Vec<HeaderValue>,
}

#[derive(Clone, PartialEq, Message)]
struct HeaderValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
    #[prost(bytes = "vec", tag = "3")]
    raw_value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct CheckResponse {
    #[prost(message, optional, tag = "1")]
    status: Option<StatusCode>,
    #[prost(message, optional, tag = "2")]
    denied: Option<Denied>,
    #[prost(message, optional, tag = "3")]
    ok: Option<Leave>,
}

#[derive(Clone, PartialEq, Message)]
struct StatusCode {
    #[prost(int32, tag = "1")]
    code: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Denied {
    #[prost(message, optional, tag = "1")]
    status: Option<StatusCode>,
    #[prost(message, repeated, tag = "2")]
    headers: Vec<HeaderOption>,
    #[prost(string, tag = "3")]
    body: String,
}

#[derive(Clone, PartialEq, Message)]
struct Leave {
    #[prost(message, repeated, tag = "6")]
    headers: Vec<HeaderOption>,
}

#[derive(Clone, PartialEq, Message)]
struct HeaderOption {
    #[prost(message, optional, tag = "1")]
    header: Option<HeaderValue>,
}
