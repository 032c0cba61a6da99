//! What clients fetch to use the proxy: the CA's certificate and a proxy auto-configuration file.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use super::parts::Admin;

pub(super) async fn certificate(State(admin): State<Admin>) -> Response {
    let pem = admin.certificate_pem.to_string();
    ([(CONTENT_TYPE, "application/x-pem-file")], pem).into_response()
}

/// Everything goes through the proxy but this machine's own names, which it would refuse.
pub(super) async fn proxy_auto_config(State(admin): State<Admin>) -> Response {
    let text = format!(
        "function FindProxyForURL(url, host) {{\n\
         \x20 if (host == \"localhost\" || host == \"127.0.0.1\" || host == \"::1\" || host == \"[::1]\") {{\n\
         \x20   return \"DIRECT\";\n\
         \x20 }}\n\
         \x20 return \"PROXY {}\";\n\
         }}\n",
        admin.proxy
    );
    let kind = "application/x-ns-proxy-autoconfig";
    ([(CONTENT_TYPE, kind)], text).into_response()
}
