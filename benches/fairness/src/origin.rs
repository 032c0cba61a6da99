//! The origins: one that the attackers ask, by HTTP/1, HTTP/2 and FTP, and one for the polite client, on a thread of its own.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc;
use std::thread;

use anyhow::Context;
use bytes::BytesMut;
use h2::server;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::attack;
use crate::http1::{field, read_head};
use crate::pages::{self, Answer, ETAG};
use crate::tls::Certificate;

/// The ports of the attackers' origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(crate) http: u16,
    pub(crate) https: u16,
    pub(crate) ftp: u16,
}

/// The running origins.
#[derive(Debug)]
pub(crate) struct Origins {
    pub(crate) attacked: Ports,
    /// The polite client's.
    pub(crate) polite: SocketAddr,
}

impl Origins {
    pub(crate) fn start(certificate: &Certificate) -> anyhow::Result<Self> {
        let acceptor = TlsAcceptor::from(certificate.server()?);
        let attacked = spawn("attacked origin", || async move {
            attack::give_way();
            let listeners = [bind().await?, bind().await?, bind().await?];
            let [http, https, ftp] = listeners.each_ref().map(|(_, address)| address.port());
            let [(plain, _), (tls, _), (files, _)] = listeners;
            accept(plain, serve_http1);
            accept(tls, move |stream| serve_tls(acceptor.clone(), stream));
            accept(files, serve_ftp);
            Ok(Ports { http, https, ftp })
        })?;
        let polite = spawn("polite client's origin", || async {
            let (listener, address) = bind().await?;
            accept(listener, serve_http1);
            Ok(address)
        })?;
        Ok(Self { attacked, polite })
    }
}

/// Runs an origin on a thread of its own for ever, and returns where it listens.
fn spawn<T, F>(name: &str, begin: impl FnOnce() -> F + Send + 'static) -> anyhow::Result<T>
where
    T: Send + 'static,
    F: Future<Output = io::Result<T>>,
{
    let (tell, told) = mpsc::channel();
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            // Told to a thread that waits.
            let _ = tell.send(begin().await);
            std::future::pending::<()>().await;
        });
    })?;
    Ok(told.recv().context("the origin ended")??)
}

async fn bind() -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Serves all connections of a listener. A connection that fails ends.
fn accept<F>(listener: TcpListener, serve: impl Fn(TcpStream) -> F + Send + 'static)
where
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    tokio::spawn(async move {
        loop {
            if let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                let serving = serve(stream);
                tokio::spawn(async move { drop(serving.await) });
            }
        }
    });
}

async fn serve_http1<S>(mut stream: S) -> anyhow::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let mut buffer = BytesMut::new();
    while let Some(end) = read_head(&mut stream, &mut buffer).await? {
        let head = buffer.split_to(end);
        let line = head[..].split(|byte| *byte == b'\r').next().unwrap_or_default();
        let mut words = std::str::from_utf8(line)?.split(' ');
        let path = words.nth(1).unwrap_or_default();
        let answer = pages::answer(field(&head, b"host").unwrap_or_default(), path);
        stream.write_all(&head_of(&answer)).await?;
        stream.write_all(&answer.body).await?;
    }
    Ok(())
}

fn head_of(answer: &Answer) -> Vec<u8> {
    let fields = answer.fields.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
    let (media_type, length) = (answer.media_type, answer.body.len());
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\nETag: {ETAG}\r\n{}\r\n",
        fields.collect::<String>()
    )
    .into_bytes()
}

async fn serve_tls(acceptor: TlsAcceptor, stream: TcpStream) -> anyhow::Result<()> {
    let tls = acceptor.accept(stream).await?;
    if tls.get_ref().1.alpn_protocol() != Some(b"h2") {
        return serve_http1(tls).await;
    }
    let mut connection = server::handshake(tls).await?;
    while let Some(request) = connection.accept().await {
        let (request, mut respond) = request?;
        let authority = request.uri().authority().map_or("", |authority| authority.as_str());
        let answer = pages::answer(authority, request.uri().path());
        let head = http::Response::builder().header("content-type", answer.media_type);
        let mut body = respond.send_response(head.body(())?, false)?;
        // All streams share the bytes that wait.
        body.send_data(answer.body, true)?;
    }
    Ok(())
}

/// Serves directories, all alike, without MLSD.
async fn serve_ftp(stream: TcpStream) -> anyhow::Result<()> {
    let mut control = BufReader::new(stream);
    control.write_all(b"220 Ready\r\n").await?;
    let mut passive = None;
    let mut line = String::new();
    while control.read_line(&mut line).await? > 0 {
        let command = line.trim_end();
        let mut reply = match command.split(' ').next().unwrap_or_default() {
            "USER" => "331 Password\r\n",
            "PASS" => "230 Welcome\r\n",
            "TYPE" => "200 Fine\r\n",
            "CWD" if command.ends_with('/') => "250 Here\r\n",
            "QUIT" => "221 Goodbye\r\n",
            "MLSD" => "500 Unknown\r\n",
            _ => "550 Not found\r\n",
        }
        .to_owned();
        if command == "PASV" {
            let (listener, address) = bind().await?;
            let [high, low] = address.port().to_be_bytes();
            passive = Some(listener);
            reply = format!("227 Passive (127,0,0,1,{high},{low})\r\n");
        }
        if let Some(listener) = passive.take_if(|_| command == "LIST") {
            control.write_all(b"150 Listing\r\n").await?;
            let (mut data, _) = listener.accept().await?;
            data.write_all(&pages::listing()).await?;
            data.shutdown().await?;
            reply = "226 Done\r\n".to_owned();
        }
        control.write_all(reply.as_bytes()).await?;
        line.clear();
    }
    Ok(())
}
