//! Clients that write exact bytes to a proxy (or directly to an origin) and read the responses.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::response::{self, Counted, Response};
use super::{DEADLINE, tls};

/// The `User-Agent` of requests that set none.
pub const AGENT: &str = "ExampleBot/1.0";

/// Makes the close of a connection a reset.
pub fn reset_when_dropped(tcp: &TcpStream) {
    let linger = socket2::SockRef::from(tcp).set_linger(Some(Duration::ZERO));
    linger.expect("a reset instead of an end");
}

/// A request that a client sends.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
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

    /// Requests a WebSocket, with the example key of RFC 6455 section 1.3.
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

    /// Returns scheme, authority, and path with query.
    pub fn parts(&self) -> (&str, &str, &str) {
        let (scheme, rest) = self.url.split_once("://").expect("an absolute URL");
        let path = rest.find(['/', '?']).unwrap_or(rest.len());
        (scheme, &rest[..path], &rest[path..])
    }

    /// Returns the bytes with the URL as the target, as a proxy gets them (RFC 9112 section 3.2.2).
    pub fn absolute_form(&self) -> Vec<u8> {
        self.bytes(&self.url)
    }

    /// Returns the bytes with path and query as the target, as an origin gets them (RFC 9112 section 3.2.1).
    pub fn origin_form(&self) -> Vec<u8> {
        self.bytes(self.parts().2)
    }

    /// Returns the bytes with `target` in the request line.
    pub fn bytes(&self, target: &str) -> Vec<u8> {
        let (_, authority, _) = self.parts();
        let has_field =
            |name: &str| self.headers.iter().any(|(field, _)| field.eq_ignore_ascii_case(name));
        let mut head = format!("{} {target} HTTP/1.1\r\n", self.method);
        if !has_field("host") {
            head += &format!("Host: {authority}\r\n");
        }
        if !has_field("user-agent") {
            head += &format!("User-Agent: {AGENT}\r\n");
        }
        if !self.body.is_empty() && !has_field("content-length") && !has_field("transfer-encoding")
        {
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

/// A client's connection. Reads and writes fail after the harness's deadline.
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

    /// Connects from a given loopback address.
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

    /// Wraps an open connection.
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

    /// Sends a GET in absolute form, as to a proxy.
    #[track_caller]
    pub fn send_get(&mut self, url: &str) {
        self.send(Request::get(url).absolute_form());
    }

    /// Sends a CONNECT with the Host that belongs to it, and `fields`, each a line with its end.
    #[track_caller]
    pub fn send_connect(&mut self, authority: &str, fields: &str) {
        self.send(format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{fields}\r\n"));
    }

    /// Sends to a peer that may already have closed.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())?;
        self.stream.flush()
    }

    /// Ends the sending side; reading continues.
    pub fn end_sending(&mut self) {
        self.tcp.shutdown(Shutdown::Write).expect("the socket is connected");
    }

    /// Reads a response to a request other than HEAD.
    #[track_caller]
    pub fn response(&mut self) -> Response {
        self.expect_response(false)
    }

    #[track_caller]
    pub fn response_to_head(&mut self) -> Response {
        self.expect_response(true)
    }

    #[track_caller]
    pub fn expect_response(&mut self, head_only: bool) -> Response {
        self.try_response(head_only)
            .expect("a response can be read")
            .expect("a response comes before the connection closes")
    }

    /// Reads one response; `Ok(None)` if the connection closed instead.
    pub fn try_response(&mut self, head_only: bool) -> io::Result<Option<Response>> {
        let Some(mut response) = response::read_head(&mut self.stream, &mut self.buffer)? else {
            return Ok(None);
        };
        self.read_body(&mut response, head_only)?;
        Ok(Some(response))
    }

    fn read_body(&mut self, response: &mut Response, head_only: bool) -> io::Result<()> {
        let mut body = Vec::new();
        response::read_body(response, head_only, &mut self.stream, &mut self.buffer, |piece| {
            body.extend_from_slice(piece);
        })?;
        response.body = body;
        Ok(())
    }

    /// Reads one head and leaves its body unread.
    #[track_caller]
    pub fn response_head(&mut self) -> Response {
        response::read_head(&mut self.stream, &mut self.buffer)
            .expect("a head can be read")
            .expect("a head comes before the connection closes")
    }

    /// Reads and counts the body after `response_head`.
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

    /// Reads until the buffer holds this many bytes.
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

    /// Removes this many bytes from the buffer.
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
                panic!("the connection remains open")
            }
            Err(_) => {}
        }
    }

    /// Opens a tunnel through a proxy. Returns the head of a 2xx response, or any other response whole.
    #[track_caller]
    pub fn connect_tunnel(&mut self, authority: &str) -> Response {
        self.send_connect(authority, &format!("User-Agent: {AGENT}\r\n"));
        let mut response = self.response_head();
        if response.status / 100 != 2 {
            self.read_body(&mut response, false).expect("a refusal can be read");
        }
        response
    }

    /// Starts TLS with the server name `name`, trusting `ca_pem`.
    pub fn start_tls(self, name: &str, ca_pem: &[u8], protocols: &[&str]) -> io::Result<Secured> {
        self.start_tls_with(name, tls::client_config(ca_pem, protocols))
    }

    /// Starts TLS with custom settings, inside TLS if the connection has it already.
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
    /// The protocol chosen by ALPN.
    pub protocol: Option<String>,
    /// The peer's certificates, DER, leaf first.
    pub chain: Vec<Vec<u8>>,
}

/// Sends raw bytes on a new connection and reads the response, if one comes.
#[track_caller]
pub fn raw(address: SocketAddr, bytes: impl AsRef<[u8]>) -> Option<Response> {
    let mut wire = Wire::connect(address);
    wire.send(bytes);
    wire.try_response(false).expect("a response can be read")
}
