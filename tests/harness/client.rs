//! Clients that write exact bytes to a proxy (or directly to an origin) and read the responses.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::response::{self, Counted, Response};
use super::{DEADLINE, tls};

/// The `User-Agent` of requests that name no other.
pub const AGENT: &str = "ExampleBot/1.0";

/// Has a connection reset, not ended, when it is dropped.
pub fn reset_when_dropped(tcp: &TcpStream) {
    let linger = socket2::SockRef::from(tcp).set_linger(Some(Duration::ZERO));
    linger.expect("a reset instead of an end");
}

/// A request in the making.
#[derive(Debug, Clone)]
pub struct Ask {
    pub method: String,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Ask {
    pub fn new(method: &str, url: &str) -> Self {
        Self {
            method: method.to_owned(),
            url: url.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    pub fn get(url: &str) -> Self {
        Self::new("GET", url)
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn agent(self, agent: &str) -> Self {
        self.header("User-Agent", agent)
    }

    /// Asks for a WebSocket, with the key that RFC 6455 section 1.3 has for an example.
    pub fn websocket(self) -> Self {
        self.header("Connection", "Upgrade")
            .header("Upgrade", "websocket")
            .header("Sec-WebSocket-Version", "13")
            .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
    }

    pub fn body(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.body = bytes.as_ref().to_vec();
        self
    }

    /// `(scheme, authority, path and query)` of the URL.
    pub fn parts(&self) -> (&str, &str, &str) {
        let (scheme, rest) = self.url.split_once("://").expect("tests ask for absolute URLs");
        let path = rest.find(['/', '?']).unwrap_or(rest.len());
        (scheme, &rest[..path], &rest[path..])
    }

    /// The bytes of this request with `target` in the request line.
    pub fn bytes(&self, target: &str) -> Vec<u8> {
        let (_, authority, _) = self.parts();
        let named =
            |name: &str| self.headers.iter().any(|(field, _)| field.eq_ignore_ascii_case(name));
        let mut head = format!("{} {target} HTTP/1.1\r\n", self.method);
        if !named("host") {
            head += &format!("Host: {authority}\r\n");
        }
        if !named("user-agent") {
            head += &format!("User-Agent: {AGENT}\r\n");
        }
        if !self.body.is_empty() && !named("content-length") && !named("transfer-encoding") {
            head += &format!("Content-Length: {}\r\n", self.body.len());
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        [head.as_bytes(), b"\r\n", &self.body].concat()
    }
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// One connection of a client. Every read has the harness's deadline.
pub struct Wire {
    stream: Box<dyn Stream>,
    pub tcp: TcpStream,
    buffer: Vec<u8>,
}

impl Wire {
    #[track_caller]
    pub fn connect(address: SocketAddr) -> Self {
        let tcp = TcpStream::connect(address)
            .unwrap_or_else(|error| panic!("no connection to {address}: {error}"));
        Self::over(tcp)
    }

    /// From a loopback address of choice.
    pub fn connect_from(from: [u8; 4], to: SocketAddr) -> Self {
        let connecting = async {
            let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
            socket.bind((from, 0).into()).expect("all of 127/8 is ours");
            let stream = socket.connect(to).await.expect("a connection");
            stream.into_std().expect("it is registered")
        };
        let stream = super::runtime().block_on(connecting);
        stream.set_nonblocking(false).expect("a socket can block");
        Self::over(stream)
    }

    /// Over a connection that is open.
    pub fn over(tcp: TcpStream) -> Self {
        tcp.set_read_timeout(Some(DEADLINE)).expect("the deadline is not zero");
        tcp.set_write_timeout(Some(DEADLINE)).expect("the deadline is not zero");
        tcp.set_nodelay(true).expect("TCP_NODELAY can be set on TCP sockets");
        let stream = Box::new(tcp.try_clone().expect("a socket can be duplicated"));
        Self { stream, tcp, buffer: Vec::new() }
    }

    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).expect("the other side reads what it is sent");
    }

    /// Sends to a peer that may already have closed.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())?;
        self.stream.flush()
    }

    /// Sends an end of file; reading goes on.
    pub fn end_sending(&mut self) {
        self.tcp.shutdown(Shutdown::Write).expect("the socket is connected");
    }

    /// Reads one answer to a request other than HEAD.
    #[track_caller]
    pub fn response(&mut self) -> Response {
        self.try_response(false)
            .expect("an answer can be read")
            .expect("an answer comes before the connection closes")
    }

    #[track_caller]
    pub fn response_to_head(&mut self) -> Response {
        self.try_response(true)
            .expect("an answer can be read")
            .expect("an answer comes before the connection closes")
    }

    /// Reads one answer; `Ok(None)` if the connection closed instead.
    pub fn try_response(&mut self, head_only: bool) -> io::Result<Option<Response>> {
        let Some(mut response) = response::read_head(&mut self.stream, &mut self.buffer)? else {
            return Ok(None);
        };
        let mut body = Vec::new();
        let read = response::read_body(
            &mut response,
            head_only,
            &mut self.stream,
            &mut self.buffer,
            |piece| body.extend_from_slice(piece),
        );
        response.body = body;
        read.map(|()| Some(response))
    }

    /// Reads one head and leaves its body unread.
    #[track_caller]
    pub fn response_head(&mut self) -> Response {
        response::read_head(&mut self.stream, &mut self.buffer)
            .expect("an answer can be read")
            .expect("an answer comes")
    }

    /// Reads the body of an answer whose head was read, counting it.
    pub fn counted_body(&mut self, head: &mut Response) -> io::Result<Counted> {
        let mut counted = Counted::default();
        response::read_body(head, false, &mut self.stream, &mut self.buffer, |piece| {
            counted.add(piece);
        })?;
        Ok(counted)
    }

    /// Reads exactly this many bytes.
    #[track_caller]
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let filled = self.fill(length);
        let have = self.buffer.len();
        filled.unwrap_or_else(|error| panic!("{error} after {have} of {length} bytes"));
        self.take(length)
    }

    /// Reads until this many bytes are at hand.
    pub fn fill(&mut self, length: usize) -> io::Result<()> {
        while self.buffer.len() < length {
            let mut piece = [0; 4096];
            match self.stream.read(&mut piece)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => self.buffer.extend_from_slice(&piece[..read]),
            }
        }
        Ok(())
    }

    /// Bytes that are at hand.
    pub fn take(&mut self, length: usize) -> Vec<u8> {
        self.buffer.drain(..length).collect()
    }

    /// Waits for the other side to close, and fails if it sends anything first.
    #[track_caller]
    pub fn expect_close(&mut self) {
        assert!(self.buffer.is_empty(), "unread bytes: {}", String::from_utf8_lossy(&self.buffer));
        let mut byte = [0; 1];
        match self.stream.read(&mut byte) {
            Ok(0) => {}
            Ok(_) => panic!("a byte came instead of the end: {byte:?}"),
            Err(error)
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
            {
                panic!("the connection stays open")
            }
            Err(_) => {}
        }
    }

    /// Expects the same within `limit`, for connections that would otherwise end later.
    #[track_caller]
    pub fn expect_close_within(&mut self, limit: Duration) {
        let limited = self.tcp.set_read_timeout(Some(limit));
        limited.expect("the limit is not zero");
        self.expect_close();
    }

    /// Asks a proxy for a tunnel; an answer other than 2xx is handed back.
    #[track_caller]
    pub fn connect_tunnel(&mut self, authority: &str) -> Response {
        self.send(format!(
            "CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: {AGENT}\r\n\r\n"
        ));
        let head = self.response_head();
        if head.status / 100 == 2 {
            return head;
        }
        let mut refusal = head;
        let mut body = Vec::new();
        response::read_body(&mut refusal, false, &mut self.stream, &mut self.buffer, |piece| {
            body.extend_from_slice(piece)
        })
        .expect("a refusal can be read");
        refusal.body = body;
        refusal
    }

    /// Starts TLS as `name`, trusting `ca_pem`; returns the protocol chosen by ALPN and the peer's chain as well.
    pub fn start_tls(self, name: &str, ca_pem: &[u8], protocols: &[&str]) -> io::Result<Secured> {
        self.start_tls_with(name, tls::client_config(ca_pem, protocols))
    }

    /// Starts TLS with custom settings; inside TLS this is TLS in TLS.
    pub fn start_tls_with(self, name: &str, config: Arc<ClientConfig>) -> io::Result<Secured> {
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let session = ClientConnection::new(config, name).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(session, self.stream);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        let protocol =
            stream.conn.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned());
        let chain = stream
            .conn
            .peer_certificates()
            .unwrap_or_default()
            .iter()
            .map(|der| der.to_vec())
            .collect();
        Ok(Secured {
            wire: Self { stream: Box::new(stream), tcp: self.tcp, buffer: Vec::new() },
            protocol,
            chain,
        })
    }
}

/// A connection after its TLS handshake.
pub struct Secured {
    pub wire: Wire,
    pub protocol: Option<String>,
    /// The peer's certificates, DER, leaf first.
    pub chain: Vec<Vec<u8>>,
}

/// Sends raw bytes on a fresh connection and reads one answer, if one comes, and whether the connection then closes.
#[track_caller]
pub fn raw(address: SocketAddr, bytes: impl AsRef<[u8]>) -> Option<Response> {
    let mut wire = Wire::connect(address);
    wire.send(bytes);
    wire.try_response(false).expect("an answer can be read")
}
