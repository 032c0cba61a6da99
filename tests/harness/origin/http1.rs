//! HTTP/1.1 byte by byte, because origins of the tests must be able to break it.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use super::reply::{Framing, Reply, Step, pattern_pieces};
use super::wire::{Connection, Transport};
use super::{Body, ContentHandling, ReceivedRequest, Shared};

pub async fn serve(stream: impl Transport, connection: &Connection) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut content_handling = ContentHandling::Proper;
    while let Some(request) = read_head(&mut stream, content_handling, connection).await? {
        let site = connection.shared.site(&request.host());
        content_handling = site.content_handling;
        let reply = site.reply(&request);
        if content_handling != ContentHandling::Proper {
            if request.has_content() {
                // The content has arrived before the response is sent.
                stream.fill_buf().await?;
            }
            let ignores_close = content_handling == ContentHandling::IgnoresContentAndClose;
            if !send_reply(&mut stream, &request, &reply).await?
                || request.closes() && !ignores_close
            {
                break;
            }
            continue;
        }
        let wants_continue = request
            .header("expect")
            .is_some_and(|value| value.eq_ignore_ascii_case("100-continue"));
        if wants_continue && !reply.early {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        if !reply.early {
            read_body(&mut stream, &request, &connection.shared).await?;
        }
        let last = reply.early
            || matches!(reply.framing, Framing::UntilClose | Framing::Raw)
            || request.closes()
            || request.version == "HTTP/1.0";
        let sent = send_reply(&mut stream, &request, &reply).await;
        connection.shared.answer_ended();
        if !sent? || last {
            break;
        }
    }
    stream.shutdown().await
}

/// Reads the next head. An origin that never reads content skips lines until one is a request line.
async fn read_head<T: Transport>(
    stream: &mut BufReader<T>,
    content_handling: ContentHandling,
    connection: &Connection,
) -> io::Result<Option<Arc<ReceivedRequest>>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_until(b'\n', &mut head).await? == 0 {
            return Ok(None);
        }
        let begins = head.split(|&byte| byte == b'\n').next();
        let is_request = begins.is_some_and(|line| line.ends_with(b" HTTP/1.1\r"));
        if content_handling != ContentHandling::Proper && !is_request {
            head.clear();
        }
    }
    let mut fields = [httparse::EMPTY_HEADER; 1100];
    let mut parsed = httparse::Request::new(&mut fields);
    let status = parsed.parse(&head).map_err(io::Error::other)?;
    assert!(status.is_complete(), "a head that ends in an empty line is complete");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers: Vec<_> =
        parsed.headers.iter().map(|field| (field.name.to_owned(), text(field.value))).collect();
    let host = headers
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("host"))
        .map(|(_, value)| value.clone());
    Ok(Some(connection.shared.received(ReceivedRequest {
        at: std::time::Instant::now(),
        connection: connection.number,
        peer: connection.peer,
        scheme: connection.scheme,
        sni: connection.sni.clone(),
        version: if parsed.version == Some(0) { "HTTP/1.0" } else { "HTTP/1.1" },
        method: parsed.method.unwrap_or_default().to_owned(),
        target: parsed.path.unwrap_or_default().to_owned(),
        authority: host.unwrap_or_default(),
        headers,
        body: Body::default().into(),
    })))
}

async fn read_body<T: Transport>(
    stream: &mut BufReader<T>,
    request: &ReceivedRequest,
    shared: &Shared,
) -> io::Result<()> {
    let mut trailers = Vec::new();
    if request
        .header("transfer-encoding")
        .is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
    {
        loop {
            let line = read_line(stream).await?;
            let size = u64::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16)
                .map_err(io::Error::other)?;
            if size == 0 {
                break;
            }
            read_counted(stream, size, request, shared).await?;
            read_line(stream).await?;
        }
        loop {
            let line = read_line(stream).await?;
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            trailers.push((name.to_owned(), value.trim().to_owned()));
        }
    } else if let Some(length) = request.header("content-length") {
        let length = length.parse().map_err(io::Error::other)?;
        read_counted(stream, length, request, shared).await?;
    }
    shared.body_ended(request, trailers);
    Ok(())
}

async fn read_line<T: Transport>(stream: &mut BufReader<T>) -> io::Result<String> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

async fn read_counted<T: Transport>(
    stream: &mut BufReader<T>,
    length: u64,
    request: &ReceivedRequest,
    shared: &Shared,
) -> io::Result<()> {
    let mut left = length;
    let mut buffer = vec![0; 65_536];
    while left > 0 {
        let most = usize::try_from(left.min(65_536)).expect("at most 65,536");
        let read = stream.read(&mut buffer[..most]).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        shared.body_grew(request, &buffer[..read]);
        left -= read as u64;
    }
    Ok(())
}

/// Sends the response. Returns false if the connection must not be reused.
async fn send_reply<T: Transport>(
    stream: &mut BufReader<T>,
    request: &ReceivedRequest,
    reply: &Reply,
) -> io::Result<bool> {
    let bodiless = reply.framing != Framing::Raw
        && (request.method == "HEAD" || matches!(reply.status, 101 | 204 | 304));
    if reply.framing != Framing::Raw {
        stream.write_all(head(reply).as_bytes()).await?;
    }
    for step in &reply.steps {
        match step {
            Step::Bytes(_) | Step::Pattern(_) if bodiless => {}
            Step::Bytes(bytes) => send_chunk(stream, reply.framing, bytes).await?,
            Step::Pattern(length) => send_pattern(stream, reply.framing, *length).await?,
            Step::Wait(gate) => {
                stream.flush().await?;
                gate.passed().await;
            }
            Step::Hang => {
                stream.flush().await?;
                tokio::io::copy(stream, &mut tokio::io::sink()).await?;
                return Ok(false);
            }
            Step::Reset => {
                stream.flush().await?;
                stream.get_ref().reset();
                return Ok(false);
            }
            Step::Close => return Ok(false),
            Step::Cut => {
                stream.flush().await?;
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            Step::Echo => return echo(stream).await.map(|()| false),
        }
    }
    if reply.framing == Framing::Chunked && !bodiless {
        stream.write_all(b"0\r\n").await?;
        for (name, value) in &reply.trailers {
            stream.write_all(format!("{name}: {value}\r\n").as_bytes()).await?;
        }
        stream.write_all(b"\r\n").await?;
    }
    stream.flush().await?;
    Ok(true)
}

fn head(reply: &Reply) -> String {
    let mut head = format!("HTTP/1.1 {} Scripted\r\n", reply.status);
    for (name, value) in &reply.headers {
        head += &format!("{name}: {value}\r\n");
    }
    if !matches!(reply.status, 204 | 304 | 101) {
        head += &match reply.framing {
            Framing::Length => format!("Content-Length: {}\r\n", reply.length()),
            Framing::Chunked => "Transfer-Encoding: chunked\r\n".to_owned(),
            Framing::UntilClose | Framing::Raw => "Connection: close\r\n".to_owned(),
        };
    }
    head + "\r\n"
}

async fn send_chunk<T: Transport>(
    stream: &mut BufReader<T>,
    framing: Framing,
    bytes: &[u8],
) -> io::Result<()> {
    if framing == Framing::Chunked && !bytes.is_empty() {
        stream.write_all(format!("{:x}\r\n", bytes.len()).as_bytes()).await?;
        stream.write_all(bytes).await?;
        return stream.write_all(b"\r\n").await;
    }
    stream.write_all(bytes).await
}

async fn send_pattern<T: Transport>(
    stream: &mut BufReader<T>,
    framing: Framing,
    length: u64,
) -> io::Result<()> {
    for piece in pattern_pieces(length) {
        send_chunk(stream, framing, piece).await?;
    }
    Ok(())
}

async fn echo<T: Transport>(stream: &mut BufReader<T>) -> io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..read]).await?;
        stream.flush().await?;
    }
}
