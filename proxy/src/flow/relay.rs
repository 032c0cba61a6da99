//! Both bodies, both ways at once: the client's to the origin, the origin's to the client.

use bytes::Bytes;
use http::{StatusCode, Version};
use pingora_core::protocols::http::ServerSession;
use pingora_core::protocols::http::client::HttpSession;
use pingora_error::{Error, ErrorType as PingoraError};
use pingora_http::{RequestHeader, ResponseHeader};

use super::fields;
use crate::fault::{Fault, describe};

/// A response that reached the client whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Relayed {
    pub(super) status: u16,
    pub(super) connection_serves_again: bool,
}

/// What broke an exchange that was under way.
#[derive(Debug)]
pub(super) enum Broken {
    /// The origin or the way to it. `answered`: the client has a response's head already.
    Origin { fault: Fault, answered: bool },
    /// The client sent a body that is none.
    Body { details: String, answered: bool },
    /// The client left.
    Gone,
}

impl From<Fault> for Broken {
    fn from(fault: Fault) -> Self {
        Self::Origin {
            fault,
            answered: false,
        }
    }
}

/// Sends `request` and the client's body to the origin, and its response to the client.
pub(super) async fn relay(
    client: &mut ServerSession,
    origin: &mut HttpSession,
    request: Box<RequestHeader>,
    name: &str,
) -> Result<Relayed, Broken> {
    origin
        .write_request_header(request)
        .await
        .map_err(|error| origin_broke(error, false))?;
    let mut upload = Upload {
        is_done: client.is_body_done(),
    };
    if upload.is_done {
        origin
            .finish_request_body()
            .await
            .map_err(|error| origin_broke(error, false))?;
    }
    let response = await_response(client, origin, &mut upload).await?;
    check(client, &response)?;
    let status = response.status;
    send_head(client, &response, name).await?;
    if status == StatusCode::SWITCHING_PROTOCOLS {
        upload.is_done = false;
    }
    relay_bodies(client, origin, &mut upload).await?;
    let upgraded = status == StatusCode::SWITCHING_PROTOCOLS;
    Ok(Relayed {
        status: status.as_u16(),
        connection_serves_again: upload.is_done && !upgraded,
    })
}

/// Refuses a response that could be read in two ways, or that changes the protocol unasked.
fn check(client: &ServerSession, response: &ResponseHeader) -> Result<(), Broken> {
    let unasked = response.status == StatusCode::SWITCHING_PROTOCOLS
        && !fields::asks_for_websocket(client.req_header());
    let wrong = fields::ambiguous_framing(response).or(unasked.then_some("a 101 nobody asked for"));
    match wrong {
        None => Ok(()),
        Some(wrong) => {
            let error = Error::explain(PingoraError::InvalidHTTPHeader, wrong);
            Err(origin_broke(error, false))
        }
    }
}

/// The final response's head. Passes interim ones on (RFC 9110 section 15.2), and the client's body
/// meanwhile.
async fn await_response(
    client: &mut ServerSession,
    origin: &mut HttpSession,
    upload: &mut Upload,
) -> Result<ResponseHeader, Broken> {
    loop {
        tokio::select! {
            biased;
            read = origin.read_response_header() => {
                read.map_err(|error| origin_broke(error, false))?;
                let response = origin.response_header().expect("a head was just read");
                let status = response.status;
                if !status.is_informational() || status == StatusCode::SWITCHING_PROTOCOLS {
                    return Ok(response.clone());
                }
                send_interim(client, response).await?;
            }
            chunk = client.read_body_or_idle(upload.is_done) => {
                upload.pass(chunk.map_err(|error| client_broke(&error, false))?, origin, false).await?;
            }
        }
    }
}

async fn send_interim(client: &mut ServerSession, interim: &ResponseHeader) -> Result<(), Broken> {
    // HTTP/1.0 knows no interim responses.
    if client.req_header().version == Version::HTTP_10 {
        return Ok(());
    }
    let interim = Box::new(interim.clone());
    client
        .write_response_header(interim)
        .await
        .map_err(|_| Broken::Gone)
}

async fn send_head(
    client: &mut ServerSession,
    response: &ResponseHeader,
    name: &str,
) -> Result<(), Broken> {
    let request = client.req_header();
    let response = fields::onward_response(response, &request.method, request.version, name)
        .map_err(|error| origin_broke(error, false))?;
    client
        .write_response_header(Box::new(response))
        .await
        .map_err(|_| Broken::Gone)
}

async fn relay_bodies(
    client: &mut ServerSession,
    origin: &mut HttpSession,
    upload: &mut Upload,
) -> Result<(), Broken> {
    while !origin.response_done() {
        tokio::select! {
            biased;
            chunk = origin.read_response_body() => {
                let Some(chunk) = chunk.map_err(|error| origin_broke(error, true))? else { break };
                client.write_response_body(chunk, false).await.map_err(|_| Broken::Gone)?;
            }
            chunk = client.read_body_or_idle(false), if !upload.is_done => {
                upload.pass(chunk.map_err(|error| client_broke(&error, true))?, origin, true).await?;
            }
        }
    }
    relay_trailers(client, origin).await
}

/// Trailers pass between HTTP/2 peers; pingora's HTTP/1 drops them, as a proxy may
/// (RFC 9110 section 6.5.1).
async fn relay_trailers(
    client: &mut ServerSession,
    origin: &mut HttpSession,
) -> Result<(), Broken> {
    let HttpSession::H2(origin) = origin else {
        return Ok(());
    };
    let trailers = origin
        .read_trailers()
        .await
        .map_err(|error| origin_broke(error, true))?;
    match trailers {
        Some(trailers) if client.is_http2() => client
            .write_response_trailers(trailers)
            .await
            .map_err(|_| Broken::Gone),
        _ => Ok(()),
    }
}

/// The client's body on its way.
#[derive(Debug)]
struct Upload {
    is_done: bool,
}

impl Upload {
    /// Passes on what the client sent; `None` is the body's end.
    async fn pass(
        &mut self,
        chunk: Option<Bytes>,
        origin: &mut HttpSession,
        answered: bool,
    ) -> Result<(), Broken> {
        if let HttpSession::H1(origin) = origin {
            origin.maybe_upgrade_body_writer();
        }
        let passed = match chunk {
            Some(chunk) if chunk.is_empty() => Ok(()),
            Some(chunk) => origin.write_request_body(chunk, false).await,
            None => {
                self.is_done = true;
                origin.finish_request_body().await
            }
        };
        passed.map_err(|error| origin_broke(error, answered))
    }
}

fn origin_broke(error: Box<Error>, answered: bool) -> Broken {
    Broken::Origin {
        fault: Fault::from(error),
        answered,
    }
}

fn client_broke(error: &Error, answered: bool) -> Broken {
    match error.etype() {
        PingoraError::ConnectionClosed | PingoraError::ReadError | PingoraError::H2Error => {
            Broken::Gone
        }
        _ => Broken::Body {
            details: describe(error),
            answered,
        },
    }
}
