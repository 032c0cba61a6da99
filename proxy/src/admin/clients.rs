//! What clients download to use the proxy: the CA's certificate and a proxy auto-configuration file.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use super::state::Admin;

/// The certificate of the interception CA, which clients must trust.
#[utoipa::path(get, path = "/ca.pem", tag = "clients", security(()), responses((status = 200, body = String, content_type = "application/x-pem-file")))]
pub(super) async fn certificate(State(admin): State<Admin>) -> Response {
    let pem = admin.certificate_pem.to_string();
    ([(CONTENT_TYPE, "application/x-pem-file")], pem).into_response()
}

/// A proxy auto-configuration file: everything goes through the proxy but this machine's own names, which it would refuse.
#[utoipa::path(get, path = "/proxy.pac", tag = "clients", security(()), responses((status = 200, body = String, content_type = "application/x-ns-proxy-autoconfig")))]
pub(super) async fn proxy_auto_config(State(admin): State<Admin>) -> Response {
    let proxy = admin.proxy;
    let kind = if proxy.is_tls { "HTTPS" } else { "PROXY" };
    let text = format!(
        "function FindProxyForURL(url, host) {{\n\
         \x20 if (host == \"localhost\" || host == \"127.0.0.1\" || host == \"::1\" || host == \"[::1]\") {{\n\
         \x20   return \"DIRECT\";\n\
         \x20 }}\n\
         \x20 return \"{kind} {}\";\n\
         }}\n",
        proxy.address
    );
    let kind = "application/x-ns-proxy-autoconfig";
    ([(CONTENT_TYPE, kind)], text).into_response()
}
