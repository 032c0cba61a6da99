//! The messages of Envoy's `envoy.service.auth.v3.Authorization`, as far as they are read or written here. The numbers are those of
//! Envoy's protocol files; fields that are not listed are skipped.

use std::collections::HashMap;

use prost::{Message, Oneof};

/// The path of the only method.
pub(crate) const CHECK: &str = "/envoy.service.auth.v3.Authorization/Check";

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CheckRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) attributes: Option<Attributes>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Attributes {
    /// The client.
    #[prost(message, optional, tag = "1")]
    pub(crate) source: Option<Peer>,
    #[prost(message, optional, tag = "4")]
    pub(crate) request: Option<RequestAttributes>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Peer {
    #[prost(message, optional, tag = "1")]
    pub(crate) address: Option<Address>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Address {
    #[prost(message, optional, tag = "1")]
    pub(crate) socket_address: Option<SocketAddress>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SocketAddress {
    #[prost(string, tag = "2")]
    pub(crate) address: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RequestAttributes {
    #[prost(message, optional, tag = "2")]
    pub(crate) http: Option<HttpRequest>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HttpRequest {
    #[prost(string, tag = "2")]
    pub(crate) method: String,
    /// Fields by name; several lines of one are joined by commas. Empty with `encode_raw_headers`.
    #[prost(map = "string, string", tag = "3")]
    pub(crate) headers: HashMap<String, String>,
    /// The request target with its query.
    #[prost(string, tag = "4")]
    pub(crate) path: String,
    #[prost(string, tag = "5")]
    pub(crate) host: String,
    #[prost(string, tag = "6")]
    pub(crate) scheme: String,
    /// Fields as they were received, with `encode_raw_headers`.
    #[prost(message, optional, tag = "13")]
    pub(crate) header_map: Option<HeaderMap>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HeaderMap {
    #[prost(message, repeated, tag = "1")]
    pub(crate) headers: Vec<HeaderValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HeaderValue {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) raw_value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CheckResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<RpcStatus>,
    #[prost(oneof = "HttpResponse", tags = "2, 3")]
    pub(crate) http_response: Option<HttpResponse>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum HttpResponse {
    #[prost(message, tag = "2")]
    Denied(DeniedResponse),
    #[prost(message, tag = "3")]
    Ok(OkResponse),
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RpcStatus {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeniedResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<HttpStatus>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) headers: Vec<HeaderOption>,
    #[prost(string, tag = "3")]
    pub(crate) body: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HttpStatus {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OkResponse {
    /// Fields for the client's response.
    #[prost(message, repeated, tag = "6")]
    pub(crate) response_headers_to_add: Vec<HeaderOption>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HeaderOption {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<HeaderValue>,
}
