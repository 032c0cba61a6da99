//! The head of an HTTP/1 request, read before pingora sees it and refused if two readers could
//! read it differently (RFC 9112; request smuggling).

use std::io;
use std::ops::Range;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use memchr::{memchr_iter, memmem};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, timeout, timeout_at};

use super::exchange::Refusal;
use super::fields;
use super::request::Request;
use crate::proxy_status::ErrorType;

/// The longest head that is read, in bytes.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// The most fields that a head may have.
const MAX_FIELDS: usize = 100;
/// Read from the socket at a time.
const READ_BYTES: usize = 4096;

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// For the first byte of a request on an open connection.
    pub(crate) idle: Duration,
    /// From then on for the whole head.
    pub(crate) head: Duration,
}

/// Why there is no head.
#[derive(Debug)]
pub(crate) enum NoHead {
    /// The client closed the connection, or kept it idle too long: nothing to answer.
    Closed,
    /// What came is no request that may be served.
    Refused(Box<Refusal>),
}

/// A checked request head.
#[derive(Debug)]
pub(crate) struct Head {
    bytes: BytesMut,
    method: Range<usize>,
    target: Range<usize>,
    is_http_10: bool,
    fields: Vec<Field>,
}

#[derive(Clone, Debug)]
struct Field {
    name: Range<usize>,
    value: Range<usize>,
}

impl Head {
    /// Reads the next head from `stream`. `ahead` holds bytes that were read already; those behind
    /// the head stay in it.
    pub(crate) async fn read<S: AsyncRead + Unpin>(
        stream: &mut S,
        ahead: &mut BytesMut,
        patience: Patience,
    ) -> Result<Self, NoHead> {
        skip_empty_lines(ahead);
        if ahead.is_empty() {
            let first = timeout(patience.idle, fill(stream, ahead)).await;
            first.map_err(|_| NoHead::Closed)??;
        }
        let deadline = Instant::now() + patience.head;
        let mut scanned = 0;
        loop {
            skip_empty_lines(ahead);
            if let Some(end) = head_end(ahead, scanned)? {
                return Self::parse(ahead.split_to(end))
                    .map_err(|refusal| NoHead::Refused(Box::new(refusal)));
            }
            if ahead.len() > MAX_HEAD_BYTES {
                return Err(too_large("the head is longer than 64 KiB").into());
            }
            scanned = ahead.len();
            let more = timeout_at(deadline, fill(stream, ahead)).await;
            more.map_err(|_| NoHead::from(too_slow()))??;
        }
    }

    /// Checks the head in `bytes`, which ends with an empty line.
    fn parse(bytes: BytesMut) -> Result<Self, Refusal> {
        let mut slots = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut request = httparse::Request::new(&mut slots);
        let start = bytes.as_ptr() as usize;
        let range = |part: &[u8]| {
            let from = part.as_ptr() as usize - start;
            from..from + part.len()
        };
        check_request_line(&bytes)?;
        match request.parse(&bytes) {
            Ok(httparse::Status::Complete(end)) if end == bytes.len() => {}
            Ok(_) => return Err(Refusal::malformed("the head ends where it should not")),
            Err(httparse::Error::TooManyHeaders) => return Err(too_large("more than 100 fields")),
            Err(error) => return Err(Refusal::malformed(format!("malformed head: {error}"))),
        }
        let fields: Vec<Field> = request
            .headers
            .iter()
            .map(|field| Field {
                name: range(field.name.as_bytes()),
                value: range(field.value),
            })
            .collect();
        let head = Self {
            method: range(request.method.unwrap_or_default().as_bytes()),
            target: range(request.path.unwrap_or_default().as_bytes()),
            is_http_10: request.version == Some(0),
            fields,
            bytes,
        };
        head.check_host()?;
        head.check_framing()?;
        Ok(head)
    }

    pub(crate) fn is_connect(&self) -> bool {
        self.text(&self.method) == "CONNECT"
    }

    /// Whether a body follows.
    pub(crate) fn has_body(&self) -> bool {
        self.values("transfer-encoding").next().is_some()
            || self
                .values("content-length")
                .next()
                .is_some_and(|length| length != b"0")
    }

    /// What deciding needs; `name` is the proxy's pseudonym.
    pub(crate) fn request(&self, name: &str) -> Request<'_> {
        Request {
            method: self.text(&self.method),
            target: self.text(&self.target),
            scheme: None,
            authority: self
                .values("host")
                .next()
                .and_then(|host| str::from_utf8(host).ok()),
            user_agent: self.values("user-agent").next().unwrap_or_default(),
            is_loop: fields::passed_by(self.values("via"), name),
        }
    }

    /// The head for pingora's session: its target and `Host` are ours, which nobody disputes,
    /// because what is sent on comes from the resolved target alone.
    pub(crate) fn for_session(&self, rest: &BytesMut) -> BytesMut {
        let mut head = BytesMut::with_capacity(self.bytes.len() + rest.len() + 16);
        head.extend_from_slice(&self.bytes[self.method.clone()]);
        head.extend_from_slice(if self.is_http_10 {
            b" / HTTP/1.0\r\n"
        } else {
            b" / HTTP/1.1\r\n"
        });
        head.extend_from_slice(b"Host: -\r\n");
        for field in &self.fields {
            if !self.bytes[field.name.clone()].eq_ignore_ascii_case(b"host") {
                head.extend_from_slice(&self.bytes[field.name.clone()]);
                head.extend_from_slice(b": ");
                head.extend_from_slice(&self.bytes[field.value.clone()]);
                head.extend_from_slice(b"\r\n");
            }
        }
        head.extend_from_slice(b"\r\n");
        head.extend_from_slice(rest);
        head
    }

    /// The values of all fields of this name, which is given in lower case.
    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.fields
            .iter()
            .filter(move |field| {
                self.bytes[field.name.clone()].eq_ignore_ascii_case(name.as_bytes())
            })
            .map(|field| &self.bytes[field.value.clone()])
    }

    /// The ranges are of what httparse took for tokens and targets: ASCII.
    fn text(&self, range: &Range<usize>) -> &str {
        str::from_utf8(&self.bytes[range.clone()]).unwrap_or_default()
    }

    /// RFC 9112 section 3.2: exactly one, but HTTP/1.0 may have none.
    fn check_host(&self) -> Result<(), Refusal> {
        let mut hosts = self.values("host");
        match (hosts.next(), hosts.next()) {
            (None, _) if self.is_http_10 => Ok(()),
            (None, _) => Err(Refusal::malformed("Host is missing")),
            (Some(_), Some(_)) => Err(Refusal::malformed("more than one Host")),
            (Some(host), None) if host.iter().all(|&byte| is_authority_byte(byte)) => Ok(()),
            (Some(_), None) => Err(Refusal::malformed("Host is malformed")),
        }
    }

    /// RFC 9112 section 6: one way to tell where the body ends, told once.
    fn check_framing(&self) -> Result<(), Refusal> {
        let mut lengths = self.values("content-length");
        let length = lengths.next();
        if lengths.next().is_some() {
            return Err(Refusal::malformed("more than one Content-Length"));
        }
        if length.is_some_and(|length| length.is_empty() || !length.iter().all(u8::is_ascii_digit))
        {
            return Err(Refusal::malformed("Content-Length is not a number"));
        }
        let mut codings = self.values("transfer-encoding");
        let Some(coding) = codings.next() else {
            return Ok(());
        };
        if length.is_some() {
            return Err(Refusal::malformed(
                "both Content-Length and Transfer-Encoding",
            ));
        }
        if self.is_http_10 {
            return Err(Refusal::malformed("Transfer-Encoding in HTTP/1.0"));
        }
        if codings.next().is_some() || !coding.eq_ignore_ascii_case(b"chunked") {
            return Err(Refusal::malformed("Transfer-Encoding other than chunked"));
        }
        Ok(())
    }
}

impl From<Refusal> for NoHead {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

impl From<io::Error> for NoHead {
    /// The connection broke.
    fn from(_: io::Error) -> Self {
        Self::Closed
    }
}

/// RFC 9112 section 2.2: a server should ignore an empty line before the request line.
fn skip_empty_lines(ahead: &mut BytesMut) {
    while ahead.starts_with(b"\r\n") {
        ahead.advance(2);
    }
}

async fn fill<S: AsyncRead + Unpin>(stream: &mut S, ahead: &mut BytesMut) -> Result<(), NoHead> {
    ahead.reserve(READ_BYTES);
    match stream.read_buf(ahead).await {
        Ok(0) if ahead.is_empty() => Err(NoHead::Closed),
        Ok(0) => Err(Refusal::malformed("the head is cut off").into()),
        Ok(_) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Where the head ends, if it is whole. The first `scanned` bytes hold no mistake and no end.
fn head_end(ahead: &BytesMut, scanned: usize) -> Result<Option<usize>, Refusal> {
    let from = scanned.saturating_sub(3);
    let end = memmem::find(&ahead[from..], b"\r\n\r\n").map(|at| from + at + 4);
    let head = &ahead[from..end.unwrap_or(ahead.len())];
    let bare = memchr_iter(b'\n', head).any(|at| match at.checked_sub(1) {
        Some(before) => head[before] != b'\r',
        None => from == 0,
    });
    if bare {
        return Err(Refusal::malformed("a line ends without CR"));
    }
    match end {
        Some(end) if end > MAX_HEAD_BYTES => Err(too_large("the head is longer than 64 KiB")),
        end => Ok(end),
    }
}

/// One space between the three parts, and a target of visible ASCII (RFC 9112 section 3).
fn check_request_line(head: &[u8]) -> Result<(), Refusal> {
    let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let parts: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let [_, target, version] = parts[..] else {
        return Err(Refusal::malformed(
            "the request line is not method, target and version",
        ));
    };
    if target.is_empty() || !target.iter().all(u8::is_ascii_graphic) {
        return Err(Refusal::malformed(
            "the request target holds bytes that no URI has",
        ));
    }
    if version == b"HTTP/1.1" || version == b"HTTP/1.0" {
        return Ok(());
    }
    Err(Refusal {
        closes: true,
        ..Refusal::new(
            if version.starts_with(b"HTTP/") {
                505
            } else {
                400
            },
            "HTTP version not supported",
            ErrorType::HttpRequestError,
            "unsupported-version",
            "neither HTTP/1.1 nor HTTP/1.0",
        )
    })
}

fn is_authority_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:[]%".contains(&byte)
}

fn too_large(details: &'static str) -> Refusal {
    let phrase = "Request header fields too large";
    let refusal = Refusal::new(
        431,
        phrase,
        ErrorType::HttpRequestError,
        "head-too-large",
        details,
    );
    Refusal {
        closes: true,
        ..refusal
    }
}

fn too_slow() -> Refusal {
    let details = "the head did not come in time";
    let refusal = Refusal::new(
        408,
        "Request timeout",
        ErrorType::HttpRequestError,
        "head-timeout",
        details,
    );
    Refusal {
        closes: true,
        ..refusal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience = Patience {
        idle: Duration::from_secs(60),
        head: Duration::from_secs(10),
    };

    async fn read(bytes: &[u8]) -> Result<Head, u16> {
        let mut ahead = BytesMut::new();
        Head::read(&mut &bytes[..], &mut ahead, PATIENCE)
            .await
            .map_err(|no_head| match no_head {
                NoHead::Closed => 0,
                NoHead::Refused(refusal) => refusal.status,
            })
    }

    #[tokio::test]
    async fn takes_a_plain_request() {
        let head = read(
            b"\r\nGET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: Bot/1\r\n\r\n",
        );
        let head = head.await.unwrap();
        let request = head.request("wayleave");
        assert_eq!(
            (request.method, request.target),
            ("GET", "http://shop.test/a")
        );
        assert_eq!(
            (request.authority, request.user_agent),
            (Some("shop.test"), &b"Bot/1"[..])
        );
    }

    #[tokio::test]
    async fn refuses_what_can_be_read_in_two_ways() {
        let cases: &[(&[u8], u16)] = &[
            (b"GET /\r\n\r\n", 400),
            (b"GET / HTTP/1.1\nHost: a\n\n", 400),
            (b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost: a\r\nX: b\rc\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost: a\r\nX : b\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400),
            (b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            (b"GET /\t HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            (b"GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
            (b"GET / http/1.1\r\nHost: a\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", 400),
            (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400),
            (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n", 400),
            (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", 400),
            (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\n", 400),
            (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", 400),
            (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
            (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 400),
            (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
            (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n", 400),
            (b"GET / HTTP/1.1\r\nHost: a\r\n", 400),
            (b"", 0),
        ];
        for (bytes, status) in cases {
            let shown = String::from_utf8_lossy(bytes).into_owned();
            assert_eq!(read(bytes).await.err(), Some(*status), "{shown:?}");
        }
    }

    #[tokio::test]
    async fn refuses_a_head_without_end() {
        let mut long = b"GET / HTTP/1.1\r\nHost: a\r\nX: ".to_vec();
        long.resize(2 * MAX_HEAD_BYTES, b'x');
        assert_eq!(read(&long).await.err(), Some(431));
        long.extend_from_slice(b"\r\n\r\n");
        assert_eq!(read(&long).await.err(), Some(431));
        let many = [
            &b"GET / HTTP/1.1\r\nHost: a\r\n"[..],
            &b"X: y\r\n".repeat(MAX_FIELDS),
            b"\r\n",
        ]
        .concat();
        assert_eq!(read(&many).await.err(), Some(431));
    }

    #[tokio::test(start_paused = true)]
    async fn gives_up_on_a_head_that_drips() {
        let (near, mut far) = tokio::io::duplex(64);
        let mut near = near;
        tokio::spawn(async move {
            use tokio::io::AsyncWriteExt;
            while far.write_all(b"G").await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        let read = Head::read(&mut near, &mut BytesMut::new(), PATIENCE).await;
        let Err(NoHead::Refused(refusal)) = read else {
            panic!("{read:?}")
        };
        assert_eq!(refusal.status, 408);
    }

    #[tokio::test]
    async fn leaves_what_follows_and_hides_the_target_from_the_session() {
        let bytes = b"POST http://a/b HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nxyGET";
        let mut ahead = BytesMut::new();
        let head = Head::read(&mut &bytes[..], &mut ahead, PATIENCE)
            .await
            .unwrap();
        assert_eq!(&ahead[..], b"xyGET");
        let session = head.for_session(&ahead);
        assert_eq!(
            String::from_utf8_lossy(&session),
            "POST / HTTP/1.1\r\nHost: -\r\nContent-Length: 2\r\n\r\nxyGET"
        );
    }
}
