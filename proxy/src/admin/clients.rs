//! The files and settings that clients need to use the proxy: the CA's certificate, a proxy auto-configuration file, and
//! lines for a shell.

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use wayleave_clock::system_time;
use wayleave_config::ListenProtocol;
use wayleave_transport::tls::intercept::ProofNonce;

use super::parameters::QueryParameters;
use super::response::{ErrorBody, SafeJson, bad_request, error_response};
use super::state::AdminState;
use crate::environment::{KnownClient, ProxyUrl, general_variables, shell_lines};

/// The certificate of the interception CA, which clients must trust.
#[utoipa::path(get, path = "/ca.pem", tag = "clients", security(()), responses((status = 200, body = String, content_type = "application/x-pem-file")))]
pub(super) async fn certificate(State(admin): State<AdminState>) -> Response {
    let pem = admin.authority.certificate_pem().to_owned();
    ([(CONTENT_TYPE, "application/x-pem-file")], pem).into_response()
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ProofParameters {
    /// A random number of 32 hexadecimal digits in lower case.
    #[param(pattern = "^[0-9a-f]{32}$")]
    nonce: String,
}

/// The proof that this proxy has the key of the CA: a certificate for `NONCE.proof.wayleave.invalid`, which the CA issues now.
#[utoipa::path(get, path = "/ca-proof.cer", tag = "clients", security(()), params(ProofParameters), responses((status = 200, body = Vec<u8>, content_type = "application/pkix-cert"), (status = 400, body = ErrorBody, description = "The nonce is malformed")))]
pub(super) async fn proof(
    State(admin): State<AdminState>,
    QueryParameters(parameters): QueryParameters<ProofParameters>,
) -> Response {
    let Some(nonce) = ProofNonce::parse(&parameters.nonce) else {
        return bad_request("nonce: expected 32 hexadecimal digits in lower case");
    };
    match admin.authority.prove(&nonce, system_time()) {
        Ok(certificate) => ([(CONTENT_TYPE, "application/pkix-cert")], certificate).into_response(),
        Err(error) => error_response(StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}")),
    }
}

/// A proxy auto-configuration file: everything goes through the proxy but this machine's own names, which it would refuse.
#[utoipa::path(get, path = "/proxy.pac", tag = "clients", security(()), responses((status = 200, body = String, content_type = "application/x-ns-proxy-autoconfig"), (status = 404, body = ErrorBody, description = "No listener is an HTTP proxy")))]
pub(super) async fn proxy_auto_config(State(admin): State<AdminState>) -> Response {
    let Some(proxy) = admin.proxy else {
        return no_http_proxy();
    };
    // In these files, `HTTPS` means TLS to the proxy itself, whatever is requested through it.
    let kind = if proxy.protocol == ListenProtocol::Https { "HTTPS" } else { "PROXY" };
    let text = format!(
        "function FindProxyForURL(url, host) {{\n\
         \x20 if (host == \"localhost\" || host == \"127.0.0.1\" || host == \"::1\" || host == \"[::1]\") {{\n\
         \x20   return \"DIRECT\";\n\
         \x20 }}\n\
         \x20 return \"{kind} {}\";\n\
         }}\n",
        proxy.address
    );
    ([(CONTENT_TYPE, "application/x-ns-proxy-autoconfig")], text).into_response()
}

fn no_http_proxy() -> Response {
    error_response(StatusCode::NOT_FOUND, "no listener of proxy.listen is an HTTP proxy")
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ConnectParameters {
    /// The proxy's URL as seen from the crawler's machine, such as `http://proxy.example:3128`; default: as seen from this one.
    #[param(format = "origin")]
    proxy: Option<String>,
    /// The path of the CA's certificate on the crawler's machine; default: its path on this one.
    #[param(pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    ca: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Connecting)]
struct ConnectSettings {
    /// The proxy's URL in the lines.
    proxy: String,
    /// The path of the CA's certificate in the lines.
    ca: String,
    /// The SHA-256 of the CA's certificate, which `/ca.pem` returns.
    ca_sha256: String,
    clients: Vec<ClientLines>,
    /// The lines for a POSIX shell that suit most other clients: what `wayleave env` prints without a client.
    general: String,
    /// The variables that those lines set.
    variables: Vec<Variable>,
}

/// A variable of the environment.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Variable)]
struct Variable {
    name: &'static str,
    value: String,
}

#[derive(Debug, Serialize, ToSchema)]
struct ClientLines {
    /// The name for `wayleave env --client`.
    name: String,
    title: &'static str,
    /// The lines for a POSIX shell that `wayleave env` prints.
    lines: String,
}

/// The settings that make each client use this proxy and trust its CA.
#[utoipa::path(
    get,
    path = "/v1/connect",
    tag = "clients",
    params(ConnectParameters),
    responses(
        (status = 200, body = ConnectSettings),
        (status = 400, body = ErrorBody, description = "A parameter is malformed"),
        (status = 404, body = ErrorBody, description = "No listener is an HTTP proxy, and `proxy` is not given"),
    )
)]
pub(super) async fn connect(
    State(admin): State<AdminState>,
    QueryParameters(parameters): QueryParameters<ConnectParameters>,
) -> Response {
    let proxy = match (parameters.proxy.as_deref().map(str::parse::<ProxyUrl>), admin.proxy) {
        (Some(Ok(proxy)), _) => proxy,
        (Some(Err(mistake)), _) => return bad_request(format!("proxy: {mistake}")),
        (None, Some(listen)) => ProxyUrl::from(listen),
        (None, None) => return no_http_proxy(),
    };
    let ca = parameters.ca.as_deref().unwrap_or(&admin.certificate_path);
    // The lines are pasted into a terminal, which obeys control characters before a shell can see the quotes around them.
    if ca.contains(char::is_control) {
        return bad_request("ca: a path has no control characters");
    }
    let clients = KnownClient::ALL.map(|(client, title)| ClientLines {
        // Every client has a value: none is hidden from the command line.
        name: client
            .to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned()),
        title,
        lines: shell_lines(Some(client), &proxy, ca),
    });
    SafeJson(ConnectSettings {
        proxy: proxy.as_str().to_owned(),
        ca: ca.to_owned(),
        ca_sha256: admin.fingerprint.to_string(),
        clients: clients.into(),
        general: shell_lines(None, &proxy, ca),
        variables: general_variables(&proxy, ca)
            .into_iter()
            .map(|(name, value)| Variable { name, value })
            .collect(),
    })
    .into_response()
}
