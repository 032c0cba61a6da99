//! The messages of Envoy's `ext_authz` that a question and leave need.

use prost::Message;

/// The path of the only method.
pub(crate) const CHECK: &str = "/envoy.service.auth.v3.Authorization/Check";

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CheckRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) attributes: Option<Attributes>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Attributes {
    #[prost(message, optional, tag = "4")]
    pub(crate) request: Option<RequestAttributes>,
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
    #[prost(map = "string, string", tag = "3")]
    pub(crate) headers: std::collections::HashMap<String, String>,
    #[prost(string, tag = "4")]
    pub(crate) path: String,
    #[prost(string, tag = "5")]
    pub(crate) host: String,
    #[prost(string, tag = "6")]
    pub(crate) scheme: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CheckResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<RpcStatus>,
    /// Leave.
    #[prost(message, optional, tag = "3")]
    pub(crate) ok: Option<OkResponse>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RpcStatus {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OkResponse {}
