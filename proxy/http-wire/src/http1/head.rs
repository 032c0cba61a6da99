//! Heads of requests and responses. A head that two readers could read differently is refused, because it would allow
//! request smuggling (RFC 9112 section 11.2).

use std::borrow::Cow;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use httparse::ParserConfig;
use memchr::{memchr, memmem};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::fields::{HeaderFields, is_end_to_end, is_underscore_alias, range_within, write_fields};
use super::framing::{BodyFraming, single_content_length};
use super::oddities::{Oddities, Oddity};
use super::repair::{LineEndings, SectionStart, repair, section_end};

/// The longest head of a request that is accepted, in bytes.
pub const MAX_REQUEST_HEAD_BYTES: usize = 64 * 1024;
const REQUEST_HEAD_TOO_LONG: &str = "the head is longer than 64 KiB";
/// The longest head of a response that is accepted, in bytes: as much as browsers read. Sites with long policies send
/// more than the 64 KiB that are enough for requests.
pub const MAX_RESPONSE_HEAD_BYTES: usize = 256 * 1024;
/// The largest number of fields that a head may have. The byte limit is the real bound; this one caps per-field work.
pub const MAX_FIELDS: usize = 1000;
/// The largest number of options in `Connection`.
const MAX_CONNECTION_OPTIONS: usize = 100;
/// The largest number of trailers over HTTP/2.
pub const MAX_HTTP2_TRAILERS: usize = 100;
/// The status after which a connection carries another protocol (RFC 9110 section 15.2.2).
pub const SWITCHING_PROTOCOLS: u16 = 101;
/// The number of bytes read at a time. Body bytes that arrive with the head can be written out with it, if both are
/// small enough to gather.
const READ_BYTES: usize = 8 * 1024;

/// A reason why a head could not be read.
#[derive(Debug)]
pub enum HeadError {
    /// The connection ended or broke before the first byte.
    Closed,
    /// The connection broke, or ended in the middle of the head.
    Broken(io::Error),
    /// The bytes are not a head, or can be read in two ways.
    Malformed(Cow<'static, str>),
    /// The head is too long or has too many fields.
    TooLarge(&'static str),
    /// The message is of an unsupported version of HTTP.
    UnsupportedVersion,
}

impl From<&'static str> for HeadError {
    fn from(details: &'static str) -> Self {
        Self::Malformed(details.into())
    }
}

impl From<String> for HeadError {
    fn from(details: String) -> Self {
        Self::Malformed(details.into())
    }
}

/// A checked request head.
#[derive(Debug)]
pub struct RequestHead {
    /// The request line, checked once to be text so that its parts can be handed out as `&str`.
    line: String,
    method: Range<usize>,
    target: Range<usize>,
    is_http_1_0: bool,
    framing: BodyFraming,
    fields: HeaderFields,
}

impl RequestHead {
    /// Reads the next request head from `stream`. `buffered` holds bytes that were read before; bytes after the head
    /// remain in it. A read that is cancelled loses nothing.
    pub async fn read<S: AsyncRead + Unpin>(
        stream: &mut S,
        buffered: &mut BytesMut,
    ) -> Result<Self, HeadError> {
        Self::parse(&read_head(stream, buffered, MessageKind::Request).await?)
    }

    /// Returns the head of a `CONNECT` to this host and port without any other field.
    pub(crate) fn connect(authority: &str) -> Result<Self, HeadError> {
        let head = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
        Self::parse(&head.into())
    }

    /// Builds a proxy-style request head from these parts, as if it had been read.
    pub(crate) fn of_parts<'a>(
        (method, target, host): (&[u8], &[u8], &[u8]),
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<Self, HeadError> {
        // White space would end the part early and smuggle in another.
        let ends_a_part = |part: &[u8]| part.iter().any(|byte| b" \t\r\n".contains(byte));
        if ends_a_part(method) || ends_a_part(target) || ends_a_part(host) {
            return Err("the method, the target or Host contains white space".into());
        }
        let mut head = BytesMut::with_capacity(1024);
        for part in [method, b" ", target, b" HTTP/1.1\r\nHost: ", host, b"\r\n"] {
            head.extend_from_slice(part);
        }
        write_fields(&mut head, fields);
        head.extend_from_slice(b"\r\n");
        if head.len() > MAX_REQUEST_HEAD_BYTES {
            return Err(HeadError::TooLarge(REQUEST_HEAD_TOO_LONG));
        }
        Self::parse(&head.freeze())
    }

    /// Parses a head that is complete.
    fn parse(received: &Bytes) -> Result<Self, HeadError> {
        let bytes = &escape_target(received);
        let line = check_request_line(bytes)?;
        // Uninitialised: writing 32 KiB of empty fields for each head would take longer than parsing it.
        let mut slots = [const { MaybeUninit::uninit() }; MAX_FIELDS];
        let mut request = httparse::Request::new(&mut []);
        require_complete(request.parse_with_uninit_headers(bytes, &mut slots), bytes)?;
        let method = range_within(bytes, request.method.unwrap_or_default().as_bytes());
        let target = range_within(bytes, request.path.unwrap_or_default().as_bytes());
        let is_http_1_0 = request.version == Some(0);
        let fields = HeaderFields::new(bytes.clone(), request.headers);
        check_host(&fields, is_http_1_0)?;
        check_connection_options(&fields)?;
        // CGI-style servers behind us would see a second Host or Content-Length that we did not check.
        if fields.iter().any(|(name, _)| is_underscore_alias(name)) {
            return Err("a field name has \"_\" where servers may read \"-\"".into());
        }
        // Which crawler this is must not depend on which of two fields a reader takes.
        if fields.values("user-agent").nth(1).is_some() {
            return Err("more than one User-Agent".into());
        }
        let length = single_content_length(fields.values("content-length"))?;
        let codings = fields.values("transfer-encoding");
        // A request that states neither has no body (RFC 9112 section 6.3).
        let framing = BodyFraming::from_http1_request(length, codings, is_http_1_0)?
            .unwrap_or(BodyFraming::Length(0));
        Ok(Self { line, method, target, is_http_1_0, framing, fields })
    }

    pub fn method(&self) -> &str {
        &self.line[self.method.clone()]
    }

    pub fn target(&self) -> &str {
        &self.line[self.target.clone()]
    }

    pub fn is_http_1_0(&self) -> bool {
        self.is_http_1_0
    }

    /// Returns how the end of the body is marked.
    pub fn framing(&self) -> BodyFraming {
        self.framing
    }

    pub fn fields(&self) -> &HeaderFields {
        &self.fields
    }

    /// Returns whether the client wants to reuse the connection (RFC 9112 section 9.3). Never for HTTP/1.0, whose keep-alive
    /// does not work through proxies.
    pub fn keeps_alive(&self) -> bool {
        !self.is_http_1_0 && !has_close_option(&self.fields)
    }
}

/// A checked response head, repaired where that was needed.
#[derive(Debug)]
pub struct ResponseHead {
    status: u16,
    reason: Range<usize>,
    is_http_1_0: bool,
    framing: Option<BodyFraming>,
    fields: HeaderFields,
    oddities: Oddities,
}

impl ResponseHead {
    /// Reads the next response head from `stream`; `buffered` is used as in [`RequestHead::read`].
    pub async fn read<S: AsyncRead + Unpin>(
        stream: &mut S,
        buffered: &mut BytesMut,
    ) -> Result<Self, HeadError> {
        let bytes = read_head(stream, buffered, MessageKind::Response).await?;
        let (bytes, mut oddities) = repair(bytes, SectionStart::StartLine)?;
        let mut slots = [const { MaybeUninit::uninit() }; MAX_FIELDS];
        let mut response = httparse::Response::new(&mut []);
        let parsed = ParserConfig::default().parse_response_with_uninit_headers(
            &mut response,
            &bytes,
            &mut slots,
        );
        require_complete(parsed, &bytes)?;
        let status = response.code.unwrap_or_default();
        match status {
            100..=599 => {}
            // Invalid, but RFC 9110 section 15 says how a client treats it, so it can be forwarded.
            600..=999 => oddities.insert(Oddity::StatusOutOfRange),
            _ => return Err(format!("status code {status:03} is outside 100-999").into()),
        }
        let reason = match response.reason {
            // httparse returns a static string for an empty reason, which is no part of `bytes`.
            None | Some("") => 0..0,
            Some(reason) => range_within(&bytes, reason.as_bytes()),
        };
        let is_http_1_0 = response.version == Some(0);
        let fields = HeaderFields::new(bytes.clone(), response.headers);
        let lengths = fields.values("content-length");
        let codings = fields.values("transfer-encoding");
        let (framing, framing_oddities) =
            BodyFraming::from_http1_response(lengths, codings, is_http_1_0)?;
        oddities = oddities.union(framing_oddities);
        // Interim responses have no content (RFC 9110 section 15.2), but the origin may have sent some anyway.
        if (100..=199).contains(&status) && !matches!(framing, None | Some(BodyFraming::Length(0)))
        {
            oddities.insert(Oddity::FramedInterim);
        }
        Ok(Self { status, reason, is_http_1_0, framing, fields, oddities })
    }

    pub fn status(&self) -> u16 {
        self.status
    }

    pub fn reason(&self) -> &[u8] {
        &self.fields.bytes()[self.reason.clone()]
    }

    pub fn is_http_1_0(&self) -> bool {
        self.is_http_1_0
    }

    pub fn fields(&self) -> &HeaderFields {
        &self.fields
    }

    /// Returns the length of a body delimited by Content-Length.
    pub fn content_length(&self) -> Option<u64> {
        match self.framing {
            Some(BodyFraming::Length(length)) => Some(length),
            _ => None,
        }
    }

    /// Returns the oddities found in the head.
    pub fn oddities(&self) -> Oddities {
        self.oddities
    }

    /// Returns how the end of the body is marked in a response to `method` (RFC 9112 section 6.3).
    pub fn framing(&self, method: &str) -> BodyFraming {
        if has_content(self.status, method) {
            self.framing.unwrap_or(BodyFraming::UntilClose)
        } else {
            BodyFraming::Length(0)
        }
    }

    /// Returns whether the connection can serve further requests after this response to `method`.
    pub fn keeps_alive(&self, method: &str) -> bool {
        // Some origins send the content that the head announces even where the response has none (HEAD, 304). It would be read
        // as the next response (RFC 9112 section 11.1).
        let announces_no_content = matches!(self.framing, None | Some(BodyFraming::Length(0)));
        let has_expected_framing = announces_no_content || has_content(self.status, method);
        !self.is_http_1_0 && has_expected_framing && !has_close_option(&self.fields)
    }
}

/// Returns whether a final response to `method` with this status has content (RFC 9110 section 6.4.1).
pub fn has_content(status: u16, method: &str) -> bool {
    method != "HEAD" && !matches!(status, 100..=199 | 204 | 304)
}

fn has_close_option(fields: &HeaderFields) -> bool {
    connection_options(fields).any(|option| option.eq_ignore_ascii_case(b"close"))
}

fn connection_options(fields: &HeaderFields) -> impl Iterator<Item = &[u8]> {
    fields
        .values("connection")
        .flat_map(|value| value.split(|&byte| byte == b','))
        .map(<[u8]>::trim_ascii)
}

/// A request or a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageKind {
    Request,
    Response,
}

async fn read_head<S: AsyncRead + Unpin>(
    stream: &mut S,
    buffered: &mut BytesMut,
    kind: MessageKind,
) -> Result<Bytes, HeadError> {
    let (line_endings, limit, too_long) = match kind {
        MessageKind::Request => {
            (LineEndings::CrlfOnly, MAX_REQUEST_HEAD_BYTES, REQUEST_HEAD_TOO_LONG)
        }
        MessageKind::Response => {
            (LineEndings::CrlfOrLf, MAX_RESPONSE_HEAD_BYTES, "the head is longer than 256 KiB")
        }
    };
    let mut scanned = 0;
    loop {
        // RFC 9112 section 2.2: an empty line before a request line is ignored.
        while buffered.starts_with(b"\r\n") {
            buffered.advance(2);
            scanned = 0;
        }
        let end = section_end(buffered, scanned, line_endings)?;
        if end.unwrap_or(buffered.len()) > limit {
            return Err(HeadError::TooLarge(too_long));
        }
        if let Some(end) = end {
            return Ok(buffered.split_to(end).freeze());
        }
        // Already scanned without finding the end; do not rescan them when a head arrives slowly.
        scanned = buffered.len();
        buffered.reserve(READ_BYTES);
        match stream.read_buf(buffered).await {
            Ok(0) if buffered.is_empty() => return Err(HeadError::Closed),
            Ok(0) => return Err(HeadError::Broken(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => {}
            // A connection that is reset while idle has ended, no matter how.
            Err(_) if buffered.is_empty() => return Err(HeadError::Closed),
            Err(error) => return Err(HeadError::Broken(error)),
        }
    }
}

/// Turns the result of httparse into an error unless it parsed all of `bytes`.
fn require_complete(parsed: httparse::Result<usize>, bytes: &[u8]) -> Result<(), HeadError> {
    match parsed {
        Ok(httparse::Status::Complete(end)) if end == bytes.len() => Ok(()),
        Ok(_) => Err("the head ends too early".into()),
        Err(httparse::Error::TooManyHeaders) => Err(HeadError::TooLarge("more than 1,000 fields")),
        Err(error) => Err(HeadError::Malformed(format!("malformed head: {error}").into())),
    }
}

/// Percent-encodes the non-ASCII bytes in the target's path and query. curl and others send them as they are, and browsers
/// escape them. The escaped form is judged and sent, so no one sees a path other than the one we judged.
fn escape_target(head: &Bytes) -> Bytes {
    let line = &head[..memchr(b'\r', head).unwrap_or(head.len())];
    if line.is_ascii() {
        return head.clone();
    }
    let Some(method_end) = memchr(b' ', line) else {
        return head.clone();
    };
    let target = &line[method_end + 1..];
    let authority_at = match target.first() {
        Some(b'/') => Some(0),
        _ => memmem::find(target, b"://").map(|at| at + 3),
    };
    let path_at = authority_at.and_then(|begin| {
        let path = target[begin..].iter().position(|byte| matches!(byte, b'/' | b'?'));
        path.map(|at| method_end + 1 + begin + at)
    });
    // Such bytes before the path are left alone; `check_request_line` refuses them.
    let Some(path_at) = path_at else {
        return head.clone();
    };
    let path_end = memchr(b' ', &line[path_at..]).map_or(line.len(), |at| path_at + at);
    let mut escaped = BytesMut::with_capacity(head.len() + 64);
    escaped.extend_from_slice(&head[..path_at]);
    for &byte in &head[path_at..path_end] {
        if byte.is_ascii() {
            escaped.put_u8(byte);
        } else {
            escaped.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
    escaped.extend_from_slice(&head[path_end..]);
    escaped.freeze()
}

/// Checks that the request line has exactly one space between its three parts, and a target of visible ASCII (RFC
/// 9112 section 3).
fn check_request_line(head: &[u8]) -> Result<String, HeadError> {
    let end = memchr(b'\r', head).unwrap_or(head.len());
    let line = str::from_utf8(&head[..end])
        .map_err(|_| "the request line contains bytes that are not allowed in a URI")?;
    let mut parts = line.split(' ');
    let (Some(_), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err("the request line is not method, target and version".into());
    };
    if target.is_empty() || !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("the request target contains bytes that are not allowed in a URI".into());
    }
    match version {
        // httparse rejects other versions, too, but as malformed: 400 where 505 is due.
        "HTTP/1.1" | "HTTP/1.0" => Ok(line.to_owned()),
        version if version.starts_with("HTTP/") => Err(HeadError::UnsupportedVersion),
        _ => Err("the request line does not end in an HTTP version".into()),
    }
}

/// Checks that there is exactly one Host, which HTTP/1.0 may omit (RFC 9112 section 3.2).
fn check_host(fields: &HeaderFields, is_http_1_0: bool) -> Result<(), HeadError> {
    let mut hosts = fields.values("host");
    match (hosts.next(), hosts.next()) {
        (None, _) if is_http_1_0 => Ok(()),
        (None, _) => Err("Host is missing".into()),
        (Some(_), Some(_)) => Err("more than one Host".into()),
        // There is no `@` in the set: userinfo can mislead a reader about the host.
        (Some(host), None) if host.iter().all(|&byte| is_authority_byte(byte)) => Ok(()),
        (Some(_), None) => Err("Host is malformed".into()),
    }
}

fn is_authority_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:[]%".contains(&byte)
}

/// Checks that Connection has a sensible number of options, and lists no field that every recipient needs (RFC 9110 section
/// 7.6.1): the next hop would drop it.
fn check_connection_options(fields: &HeaderFields) -> Result<(), HeadError> {
    if connection_options(fields).nth(MAX_CONNECTION_OPTIONS).is_some() {
        return Err("Connection has more than 100 options".into());
    }
    match connection_options(fields).find(|option| is_end_to_end(option)) {
        None => Ok(()),
        Some(option) => {
            let name = String::from_utf8_lossy(option);
            let details = format!("Connection lists {name}, which is an end-to-end field");
            Err(HeadError::Malformed(details.into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    fn error_kind(error: &HeadError) -> &'static str {
        match error {
            HeadError::Closed => "closed",
            HeadError::Broken(_) => "broken",
            HeadError::Malformed(_) => "malformed",
            HeadError::TooLarge(_) => "too large",
            HeadError::UnsupportedVersion => "version",
        }
    }

    /// Reads `bytes` at once and byte by byte, and asserts that both give the same result.
    async fn request(bytes: &[u8]) -> Result<RequestHead, &'static str> {
        let read = RequestHead::read(&mut &bytes[..], &mut BytesMut::new()).await;
        let read = read.map_err(|error| error_kind(&error));
        let (mut near, mut far) = tokio::io::duplex(1);
        let sending = async move {
            // The reader may have stopped early.
            let _ = far.write_all(bytes).await;
        };
        let reading = async move { RequestHead::read(&mut near, &mut BytesMut::new()).await };
        let (in_pieces, ()) = tokio::join!(reading, sending);
        let in_pieces = in_pieces.map_err(|error| error_kind(&error));
        assert_eq!(format!("{in_pieces:?}"), format!("{read:?}"));
        read
    }

    async fn response(bytes: &[u8]) -> Result<ResponseHead, &'static str> {
        let read = ResponseHead::read(&mut &bytes[..], &mut BytesMut::new()).await;
        read.map_err(|error| error_kind(&error))
    }

    #[tokio::test]
    async fn accepts_a_plain_request() {
        let bytes = b"\r\nPOST http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 2\r\n\r\nxyGET";
        let mut buffered = BytesMut::new();
        let head = RequestHead::read(&mut &bytes[..], &mut buffered).await.unwrap();
        assert_eq!((head.method(), head.target()), ("POST", "http://shop.test/a"));
        assert_eq!(head.framing(), BodyFraming::Length(2));
        assert_eq!(head.fields().values("HOST").next(), Some(&b"shop.test"[..]));
        assert!(head.keeps_alive());
        assert_eq!(&buffered[..], b"xyGET");
    }

    #[tokio::test]
    async fn bytes_beyond_ascii_in_a_path_are_escaped() {
        for (target, escaped) in [
            ("/caf\u{e9}?q=\u{20ac}", "/caf%C3%A9?q=%E2%82%AC"),
            ("http://shop.test/caf\u{e9}", "http://shop.test/caf%C3%A9"),
            ("http://shop.test?\u{e9}", "http://shop.test?%C3%A9"),
            ("/%c3%a9/\u{e9}", "/%c3%a9/%C3%A9"),
        ] {
            let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\nX: \u{e9}\r\n\r\n");
            let head = request(head.as_bytes()).await.unwrap();
            assert_eq!((head.method(), head.target()), ("GET", escaped));
            assert_eq!(head.fields().values("x").next(), Some("\u{e9}".as_bytes()));
        }
        // Latin-1, as old links have it.
        let head = request(b"GET /caf\xe9 HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        assert_eq!(head.target(), "/caf%E9");
    }

    #[tokio::test]
    async fn refuses_ambiguous_requests() {
        let cases: &[(&[u8], &str)] = &[
            (b"GET /\r\n\r\n", "malformed"),
            (b"\r\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "malformed"),
            (b"GET / HTTP/1.1\nHost: a\n\n", "malformed"),
            (b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", "malformed"),
            (b"GET / HTTP/1.1\r\nHost: a\r\nX: b\rc\r\n\r\n", "malformed"),
            (b"GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n", "malformed"),
            (b"GET / HTTP/1.1\r\nHost: a\r\nX : b\r\n\r\n", "malformed"),
            (b"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", "malformed"),
            (b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", "malformed"),
            (b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", "malformed"),
            (b"GET /\t HTTP/1.1\r\nHost: a\r\n\r\n", "malformed"),
            (b"G\xc3\xa9T / HTTP/1.1\r\nHost: a\r\n\r\n", "malformed"),
            (b"GET http://\xc3\xa9/ HTTP/1.1\r\nHost: a\r\n\r\n", "malformed"),
            (b"GET http://a\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n", "malformed"),
            (b"CONNECT \xc3\xa9:443 HTTP/1.1\r\nHost: a\r\n\r\n", "malformed"),
            (b"GET /a HTTP/1.1\xc3\xa9\r\nHost: a\r\n\r\n", "version"),
            (b"GET /\xc3\xa9\x01 HTTP/1.1\r\nHost: a\r\n\r\n", "malformed"),
            (b"GET /\xc3\xa9 b HTTP/1.1\r\nHost: a\r\n\r\n", "malformed"),
            (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", "version"),
            (b"GET / http/1.1\r\nHost: a\r\n\r\n", "malformed"),
            (b"GET / HTTP/1.1\r\n\r\n", "malformed"),
            (b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "malformed"),
            (b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "malformed"),
            (b"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: a\r\nuser-agent: b\r\n\r\n", "malformed"),
            (b"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", "malformed"),
            (b"P / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", "malformed"),
            (b"P / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n", "malformed"),
            (b"P / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", "malformed"),
            (b"P / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\n", "malformed"),
            (b"P / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", "malformed"),
            (b"P / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", "malformed"),
            (b"P / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "malformed"),
            (b"P / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "malformed"),
            (b"P / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "malformed"),
            (b"P / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "malformed"),
            (b"GET / HTTP/1.1\r\nHost: a\r\nUser_Agent: b\r\n\r\n", "malformed"),
            (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: User-Agent\r\n\r\n", "malformed"),
            (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nConnection: X,\thost\r\n\r\n", "malformed"),
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n", "malformed"),
            (b"GET / HTTP/1.1\r\nHost: a\r\n", "broken"),
            (b"", "closed"),
        ];
        for (bytes, expected) in cases {
            let printable = String::from_utf8_lossy(bytes).into_owned();
            assert_eq!(request(bytes).await.err(), Some(*expected), "{printable:?}");
        }
    }

    #[tokio::test]
    async fn refuses_ambiguous_responses() {
        for fields in [
            "Content-Length: 1\r\nContent-Length: 2\r\n",
            "Content-Length: 1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: x\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: chunked, gzip\r\n",
            "Transfer-Encoding: chunked,\r\n",
            "Transfer-Encoding: xchunked\r\n",
            "Content-Length: 1\r\nTransfer-Encoding:\r\n",
            "Content-Length: 1\r\n 1\r\n",
            " X: a\r\n",
            "Content Length: 1\r\n",
            "Content-Length: 1\x01\r\n",
            "X: a\r\n \x01b\r\n",
        ] {
            let bytes = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
            assert_eq!(response(bytes.as_bytes()).await.err(), Some("malformed"), "{fields:?}");
        }
        for line in ["HTTP/1.1 099 Odd", "HTTP/1.1 1000 Odd", "HTTP/1.1 OK", "ICY 200 OK"] {
            let bytes = format!("{line}\r\n\r\n");
            assert_eq!(response(bytes.as_bytes()).await.err(), Some("malformed"), "{line:?}");
        }
    }

    #[tokio::test]
    async fn repairs_what_rfc_9112_permits() {
        for (head, status, length, found) in [
            ("HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n", 200, 5, "space-before-colon"),
            ("HTTP/1.1 200 OK\r\nContent-Length:\r\n 5\r\n\r\n", 200, 5, "folded-field"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n", 200, 5, "repeated-content-length"),
            ("HTTP/1.1 999 OK\r\nContent-Length: 5\r\n\r\n", 999, 5, "status-out-of-range"),
            ("HTTP/1.1 200 OK\nContent-Length: 5\n\n", 200, 5, "bare-lf"),
        ] {
            let repaired = response(head.as_bytes()).await.unwrap();
            let oddities: Vec<_> = repaired.oddities().iter().map(Oddity::as_str).collect();
            assert_eq!(
                (repaired.status(), repaired.content_length(), &oddities[..]),
                (status, Some(length), &[found][..]),
                "{head:?}"
            );
        }
    }

    #[tokio::test]
    async fn chunks_mark_the_end_whatever_else_a_response_says() {
        for (head, found) in [
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n", &[][..]),
            ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n", &["chunked-in-http-1.0"]),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n",
                &["length-beside-chunked"],
            ),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n", &["repeated-chunked"]),
            (
                "HTTP/1.0 200 OK\r\nContent-Length: 0\r\nTransfer-Encoding:\r\n chunked\r\n\
                 Transfer-Encoding : chunked\r\n",
                &[
                    "space-before-colon",
                    "folded-field",
                    "chunked-in-http-1.0",
                    "length-beside-chunked",
                    "repeated-chunked",
                ],
            ),
        ] {
            let read = response(format!("{head}\r\n").as_bytes()).await.unwrap();
            let oddities: Vec<_> = read.oddities().iter().map(Oddity::as_str).collect();
            let framing = (read.framing("GET"), read.framing("HEAD"), read.content_length());
            assert_eq!(framing, (BodyFraming::Chunked, BodyFraming::Length(0), None), "{head:?}");
            assert_eq!(oddities, found, "{head:?}");
        }
    }

    #[tokio::test]
    async fn interim_responses_that_announce_content_are_odd() {
        for (fields, found) in [
            ("Content-Length: 0\r\n", &[][..]),
            ("Content-Length: 5\r\n", &["framed-interim"]),
            ("Transfer-Encoding: chunked\r\n", &["framed-interim"]),
        ] {
            let head = format!("HTTP/1.1 103 Early Hints\r\n{fields}\r\n");
            let read = response(head.as_bytes()).await.unwrap();
            let oddities: Vec<_> = read.oddities().iter().map(Oddity::as_str).collect();
            assert_eq!((read.framing("GET"), &oddities[..]), (BodyFraming::Length(0), found));
        }
    }

    #[tokio::test]
    async fn response_framing_depends_on_status_and_method() {
        let head = response(b"HTTP/1.1 200 Fine by me\r\nContent-Length: 5\r\n\r\n").await.unwrap();
        assert_eq!((head.status(), head.reason()), (200, &b"Fine by me"[..]));
        assert_eq!(head.framing("GET"), BodyFraming::Length(5));
        assert_eq!(head.framing("HEAD"), BodyFraming::Length(0));
        let head = response(b"HTTP/1.1 304\r\nContent-Length: 5\r\n\r\n").await.unwrap();
        assert_eq!((head.framing("GET"), head.reason()), (BodyFraming::Length(0), &b""[..]));
        let head = response(b"HTTP/1.0 200 OK\r\n\r\n").await.unwrap();
        assert_eq!(
            (head.framing("GET"), head.keeps_alive("GET")),
            (BodyFraming::UntilClose, false)
        );
    }

    #[tokio::test]
    async fn a_connection_field_has_at_most_a_hundred_options() {
        for (options, error) in [(100, None), (101, Some("malformed"))] {
            let listed = vec!["x"; options].join(",");
            let head = format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: {listed}\r\n\r\n");
            assert_eq!(request(head.as_bytes()).await.err(), error, "{options}");
        }
    }

    #[tokio::test]
    async fn refuses_an_endless_head() {
        let mut long = b"GET / HTTP/1.1\r\nHost: a\r\nX: ".to_vec();
        long.resize(2 * MAX_REQUEST_HEAD_BYTES, b'x');
        assert_eq!(request(&long).await.err(), Some("too large"));
        long.extend_from_slice(b"\r\n\r\n");
        assert_eq!(request(&long).await.err(), Some("too large"));
        let fields = b"X: y\r\n".repeat(MAX_FIELDS);
        let many = [&b"GET / HTTP/1.1\r\nHost: a\r\n"[..], &fields, b"\r\n"].concat();
        assert_eq!(request(&many).await.err(), Some("too large"));
    }

    #[tokio::test]
    async fn a_response_may_have_a_longer_head_than_a_request() {
        let with_field = |start: &str, length: usize| {
            let mut bytes = start.as_bytes().to_vec();
            bytes.extend_from_slice(b"X: ");
            bytes.resize(length - 4, b'x');
            bytes.extend_from_slice(b"\r\n\r\n");
            bytes
        };
        let status = "HTTP/1.1 200 OK\r\n";
        let longest = with_field(status, MAX_RESPONSE_HEAD_BYTES);
        assert_eq!(response(&longest).await.map(|head| head.status()), Ok(200));
        let longer = with_field(status, MAX_RESPONSE_HEAD_BYTES + 1);
        assert_eq!(response(&longer).await.err(), Some("too large"));
        let line = "GET / HTTP/1.1\r\nHost: a\r\n";
        assert!(request(&with_field(line, MAX_REQUEST_HEAD_BYTES)).await.is_ok());
        let longer = with_field(line, MAX_REQUEST_HEAD_BYTES + 1);
        assert_eq!(request(&longer).await.err(), Some("too large"));
    }
}
