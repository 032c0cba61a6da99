//! An origin server that sends exactly what a test wants, valid or not.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// The server's treatment of a request.
pub(super) enum Answer {
    /// Sends the bytes and closes.
    Whole(Vec<u8>),
    /// Sends the first bytes, then the others again and again while somebody reads them.
    Endless(Vec<u8>, Vec<u8>),
    /// Sends the bytes and then nothing more.
    Stall(Vec<u8>),
    /// Sends the bytes and resets the connection.
    Reset(Vec<u8>),
}

/// Returns a response with this `status` line, further header lines, and a body of this length.
pub(super) fn response(status: &str, lines: &str, body: &[u8]) -> Answer {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{lines}\r\n");
    Answer::Whole([head.as_bytes(), body].concat())
}

/// A server on loopback; it ends when dropped.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    _connections: JoinSet<()>,
}

impl Server {
    /// Answers requests by their heads.
    pub(super) async fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        Self::start_over(None, answer).await
    }

    /// The same over TLS.
    pub(super) async fn start_tls(
        tls: Arc<rustls::ServerConfig>,
        answer: impl Fn(&str) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::start_over(Some(TlsAcceptor::from(tls)), answer).await
    }

    async fn start_over(
        tls: Option<TlsAcceptor>,
        answer: impl Fn(&str) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let heads = asked.clone();
        let answer = Arc::new(answer);
        let mut connections = JoinSet::new();
        connections.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let tls = tls.clone();
                let answer = answer.clone();
                let heads = heads.clone();
                open.spawn(async move {
                    let Some(tls) = tls else {
                        return serve_plain(stream, &*answer, &heads).await;
                    };
                    if let Ok(mut stream) = tls.accept(stream).await {
                        serve(&mut stream, &*answer, &heads).await;
                    }
                });
            }
        });
        Self { address, asked, _connections: connections }
    }

    /// Returns the heads of all requests so far.
    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

async fn serve_plain(
    mut stream: TcpStream,
    answer: &(impl Fn(&str) -> Answer + Sync),
    heads: &Mutex<Vec<String>>,
) {
    if serve(&mut stream, answer, heads).await == Ending::Reset {
        socket_reset(stream);
    }
}

fn socket_reset(stream: TcpStream) {
    // Closing with zero linger time sends RST instead of FIN.
    let _ = stream.set_zero_linger();
    drop(stream);
}

#[derive(PartialEq)]
enum Ending {
    Close,
    Reset,
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    answer: &(impl Fn(&str) -> Answer + Sync),
    heads: &Mutex<Vec<String>>,
) -> Ending {
    let Some(head) = read_head(stream).await else {
        return Ending::Close;
    };
    let answer = answer(&head);
    heads.lock().unwrap().push(head);
    match answer {
        Answer::Whole(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
            Ending::Close
        }
        Answer::Endless(bytes, others) => {
            let mut taken = stream.write_all(&bytes).await;
            while taken.is_ok() {
                taken = stream.write_all(&others).await;
            }
            Ending::Close
        }
        Answer::Stall(bytes) => {
            let _ = stream.write_all(&bytes).await;
            std::future::pending().await
        }
        Answer::Reset(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.flush().await;
            Ending::Reset
        }
    }
}

async fn read_head<S: AsyncRead + Unpin>(stream: &mut S) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    String::from_utf8(head).ok()
}
