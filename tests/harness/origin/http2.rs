//! HTTP/2 by the `h2` crate.

use std::io;

use bytes::Bytes;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::reply::{Framing, Reply, Step, pattern_pieces};
use super::wire::Connection;
use super::{Body, ReceivedRequest};

pub async fn serve(stream: TlsStream<TcpStream>, connection: &Connection) -> io::Result<()> {
    let mut builder = h2::server::Builder::new();
    let site = connection.shared.site(connection.sni.as_deref().unwrap_or("*"));
    if let Some(gate) = &site.settings_gate {
        gate.passed().await;
    }
    if let Some(max) = site.max_streams {
        builder.max_concurrent_streams(max);
    }
    let mut session = builder.handshake(stream).await.map_err(io::Error::other)?;
    while let Some(accepted) = session.accept().await {
        let (request, respond) = accepted.map_err(io::Error::other)?;
        let connection = connection.clone();
        tokio::spawn(async move { answer_http2(request, respond, &connection).await });
    }
    Ok(())
}

async fn answer_http2(
    request: http::Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
    connection: &Connection,
) -> Result<(), h2::Error> {
    let (parts, mut body) = request.into_parts();
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let request = connection.shared.received(ReceivedRequest {
        at: std::time::Instant::now(),
        connection: connection.number,
        peer: connection.peer,
        scheme: connection.scheme,
        sni: connection.sni.clone(),
        version: "HTTP/2",
        method: parts.method.to_string(),
        target: parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        authority: parts.uri.authority().map(ToString::to_string).unwrap_or_default(),
        headers: parts
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), text(value)))
            .collect(),
        body: Body::default().into(),
    });
    let site = connection.shared.site(&request.host());
    if let Some((reason, times)) = site.refusals
        && request.target != "/robots.txt"
        && connection.shared.count(&request.target) <= times
    {
        respond.send_reset(reason);
        return Ok(());
    }
    let reply = site.reply(&request);
    if !reply.early {
        while let Some(data) = body.data().await {
            let data = data?;
            connection.shared.body_grew(&request, &data);
            body.flow_control().release_capacity(data.len())?;
        }
        let trailers = body.trailers().await?.unwrap_or_default();
        let trailers =
            trailers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        connection.shared.body_ended(&request, trailers);
    }
    let sent = send_http2_reply(&request, &reply, &mut respond).await;
    connection.shared.answer_ended();
    sent
}

async fn send_http2_reply(
    request: &ReceivedRequest,
    reply: &Reply,
    respond: &mut h2::server::SendResponse<Bytes>,
) -> Result<(), h2::Error> {
    let mut head = http::Response::builder().status(reply.status.max(200));
    for (name, value) in &reply.headers {
        head = head.header(name.to_ascii_lowercase(), value);
    }
    let bodiless = request.method == "HEAD" || matches!(reply.status, 204 | 304);
    if reply.framing == Framing::Length && !matches!(reply.status, 204 | 304) {
        head = head.header("content-length", reply.length());
    }
    if reply.framing == Framing::Raw {
        // HTTP/2 has no raw answers; only how they end is kept.
        if matches!(reply.steps.last(), Some(Step::Hang)) {
            std::future::poll_fn(|context| respond.poll_reset(context)).await?;
        }
        respond.send_reset(h2::Reason::INTERNAL_ERROR);
        return Ok(());
    }
    let head = head.body(()).expect("tests script valid fields");
    let mut stream = respond.send_response(head, bodiless)?;
    if bodiless {
        return Ok(());
    }
    for step in &reply.steps {
        match step {
            Step::Bytes(bytes) => send_data(&mut stream, bytes).await?,
            Step::Pattern(length) => {
                for piece in pattern_pieces(*length) {
                    send_data(&mut stream, piece).await?;
                }
            }
            Step::Wait(gate) => gate.passed().await,
            Step::Hang => {
                std::future::poll_fn(|context| stream.poll_reset(context)).await?;
                return Ok(());
            }
            Step::Reset | Step::Close | Step::Cut | Step::Echo => {
                stream.send_reset(h2::Reason::INTERNAL_ERROR);
                return Ok(());
            }
        }
    }
    if reply.trailers.is_empty() {
        return stream.send_data(Bytes::new(), true);
    }
    let mut trailers = http::HeaderMap::new();
    for (name, value) in &reply.trailers {
        let name: http::HeaderName = name.parse().expect("tests script valid trailers");
        trailers.insert(name, value.parse().expect("tests script valid trailers"));
    }
    stream.send_trailers(trailers)
}

async fn send_data(stream: &mut h2::SendStream<Bytes>, mut bytes: &[u8]) -> Result<(), h2::Error> {
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len());
        let Some(granted) = std::future::poll_fn(|context| stream.poll_capacity(context)).await
        else {
            // The proxy has reset the stream: nothing of what remains can be sent.
            return Err(h2::Reason::CANCEL.into());
        };
        let granted = granted?.min(bytes.len());
        stream.send_data(Bytes::copy_from_slice(&bytes[..granted]), false)?;
        bytes = &bytes[granted..];
    }
    Ok(())
}
