//! Gateways that ask by ICAP (RFC 3507).

mod attempts;
mod clients;
mod equal;
mod messages;
mod responses;
mod squid;

use std::net::SocketAddr;

use super::Gated;
use crate::harness::client::Wire;
use crate::harness::ports::free_address;
use crate::harness::wayleave::Settings;
use crate::harness::{Origin, Response, Wayleave};

/// A running proxy that gateways ask by ICAP, and by HTTP.
struct IcapGated {
    gated: Gated,
    icap: SocketAddr,
}

/// An answer by ICAP.
#[derive(Debug)]
struct IcapAnswer {
    /// The status and the fields of the answer itself.
    icap: Response,
    /// The message inside, without its body.
    inside: String,
    body: Vec<u8>,
}

impl IcapGated {
    #[track_caller]
    fn start(origin: &Origin) -> Self {
        Self::start_with(origin, |settings| settings)
    }

    #[track_caller]
    fn start_with(origin: &Origin, change: impl FnOnce(Settings) -> Settings) -> Self {
        let gateway = free_address();
        let icap = free_address();
        let listen = format!("[\"http://{gateway}\", \"icap://{icap}\"]");
        let proxy = Wayleave::start_with(origin, |settings| {
            change(settings.set("gateway.listen", &listen))
        });
        Self { gated: Gated { proxy, gateway }, icap }
    }

    fn connect(&self) -> IcapWire {
        IcapWire(Wire::connect(self.icap))
    }

    /// Sends one message on a connection of its own.
    #[track_caller]
    fn ask(&self, message: impl AsRef<[u8]>) -> IcapAnswer {
        let mut wire = self.connect();
        wire.0.send(message);
        wire.answer()
    }

    /// Asks about a request without a body.
    #[track_caller]
    fn request(&self, head: &str) -> IcapAnswer {
        self.ask(reqmod(head, "Allow: 204\r\n", None))
    }
}

/// A connection on which ICAP is spoken.
struct IcapWire(Wire);

impl IcapWire {
    /// Reads an answer; of a message that has none inside, only its head.
    #[track_caller]
    fn answer(&mut self) -> IcapAnswer {
        let icap = self.head().expect("an answer comes before the connection closes");
        let parts = icap.header("encapsulated").unwrap_or_default();
        let (_, end) = parts.rsplit_once('=').expect("an offset");
        let head = self.0.bytes(end.parse().expect("a number"));
        let has_body = !parts.contains("null-body");
        let body = if has_body { self.body() } else { Vec::new() };
        IcapAnswer { icap, inside: String::from_utf8(head).expect("text"), body }
    }

    /// Reads the head of an answer; `None` if the connection closed instead.
    #[track_caller]
    fn head(&mut self) -> Option<Response> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if self.0.fill(1).is_err() {
                assert!(head.is_empty(), "{}", String::from_utf8_lossy(&head));
                return None;
            }
            head.extend(self.0.take(1));
        }
        let text = String::from_utf8(head).expect("text");
        let mut lines = text.trim_end().split("\r\n");
        let line = lines.next().unwrap_or_default();
        let status = line.strip_prefix("ICAP/1.0 ").expect("an answer of ICAP");
        let (status, reason) = status.split_once(' ').expect("a phrase");
        let field = |line: &str| {
            let (name, value) = line.split_once(": ").expect("a field");
            (name.to_owned(), value.to_owned())
        };
        Some(Response {
            status: status.parse().expect("a number"),
            reason: reason.to_owned(),
            headers: lines.map(field).collect(),
            ..Response::default()
        })
    }

    /// Reads a body in chunks.
    #[track_caller]
    fn body(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let mut line = Vec::new();
            while !line.ends_with(b"\r\n") {
                line.extend(self.0.bytes(1));
            }
            let size = std::str::from_utf8(&line).expect("text").trim_end();
            let size = usize::from_str_radix(size, 16).expect("a size");
            body.extend(self.0.bytes(size));
            assert_eq!(self.0.bytes(2), b"\r\n");
            if size == 0 {
                return body;
            }
        }
    }
}

impl IcapAnswer {
    /// Returns the status of the response inside; `None` if the message remains as it is.
    fn http_status(&self) -> Option<u16> {
        let line = self.inside.strip_prefix("HTTP/1.1 ")?;
        line.get(..3)?.parse().ok()
    }

    fn has(&self, field: &str) -> bool {
        self.inside.lines().any(|line| line == field)
    }

    #[track_caller]
    fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }
}

/// Returns a REQMOD about a request with this head. `body` is the wire's.
fn reqmod(head: &str, fields: &str, body: Option<&str>) -> String {
    let kind = if body.is_some() { "req-body" } else { "null-body" };
    format!(
        "REQMOD icap://wayleave.test/request ICAP/1.0\r\nHost: wayleave.test\r\n{fields}\
         Encapsulated: req-hdr=0, {kind}={}\r\n\r\n{head}{}",
        head.len(),
        body.unwrap_or_default()
    )
}

/// Returns a RESPMOD about a request and a response with these heads.
fn respmod(request: &str, response: &str, fields: &str, body: Option<&str>) -> String {
    let kind = if body.is_some() { "res-body" } else { "null-body" };
    format!(
        "RESPMOD icap://wayleave.test/response ICAP/1.0\r\nHost: wayleave.test\r\n{fields}\
         Encapsulated: req-hdr=0, res-hdr={}, {kind}={}\r\n\r\n{request}{response}{}",
        request.len(),
        request.len() + response.len(),
        body.unwrap_or_default()
    )
}

/// Returns the head of a GET.
fn get(url: &str, fields: &str) -> String {
    let host = url.split('/').nth(2).unwrap_or_default();
    let agent = if fields.contains("User-Agent:") { "" } else { "User-Agent: ExampleBot/1.0\r\n" };
    format!("GET {url} HTTP/1.1\r\nHost: {host}\r\n{agent}{fields}\r\n")
}

/// Returns a body as one chunk.
fn chunked(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
}
