//! Responses as a client reads them, down to the reason phrase.

use std::io::{self, Read};

use serde_json::Value;

use super::origin::reply::is_pattern;

/// A response.
#[derive(Debug, Default, Clone)]
pub struct Response {
    /// `HTTP/1.0`, `HTTP/1.1` or `HTTP/2`.
    pub version: String,
    pub status: u16,
    pub reason: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub trailers: Vec<(String, String)>,
    /// The statuses of the interim responses before it, by HTTP/2.
    pub interim: Vec<u16>,
}

/// A parsed `Proxy-Status` field with one member (RFC 9209).
#[derive(Debug, PartialEq, Eq)]
pub struct ProxyStatus {
    pub proxy: String,
    pub error: String,
    pub details: String,
}

/// A long patterned body, counted instead of kept.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub length: u64,
    pub off_pattern: bool,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("not JSON ({error}): {}", self.text()))
    }

    /// Parses the only member of `Proxy-Status`, a structured field.
    #[track_caller]
    pub fn proxy_status(&self) -> ProxyStatus {
        let field =
            self.header("proxy-status").unwrap_or_else(|| panic!("no Proxy-Status in {self:?}"));
        let list = sfv::Parser::new(field)
            .parse::<sfv::List>()
            .unwrap_or_else(|error| panic!("Proxy-Status is not a list ({error}): {field}"));
        let [sfv::ListEntry::Item(member)] = &list[..] else {
            panic!("Proxy-Status does not have one member: {field}")
        };
        let text = |item: &sfv::BareItem| {
            let token = item.as_token().map(|token| token.as_str().to_owned());
            token.or_else(|| item.as_string().map(|text| text.as_str().to_owned()))
        };
        let parameter = |name: &str| member.params.get(name).and_then(text);
        ProxyStatus {
            proxy: text(&member.bare_item)
                .unwrap_or_else(|| panic!("the proxy has no name: {field}")),
            error: member
                .params
                .get("error")
                .and_then(sfv::BareItem::as_token)
                .map_or_else(String::new, |error| error.as_str().to_owned()),
            details: parameter("details").unwrap_or_default(),
        }
    }
}

/// Reads a head, and leaves the bytes after it in `buffer`. `Ok(None)` if the connection closed before any byte.
pub fn read_head(stream: &mut dyn Read, buffer: &mut Vec<u8>) -> io::Result<Option<Response>> {
    loop {
        let mut fields = [httparse::EMPTY_HEADER; 1100];
        let mut parsed = httparse::Response::new(&mut fields);
        if let httparse::Status::Complete(length) =
            parsed.parse(buffer).map_err(io::Error::other)?
        {
            let response = Response {
                version: if parsed.version == Some(0) { "HTTP/1.0" } else { "HTTP/1.1" }.to_owned(),
                status: parsed.code.unwrap_or_default(),
                reason: parsed.reason.unwrap_or_default().to_owned(),
                headers: parsed
                    .headers
                    .iter()
                    .map(|field| {
                        (field.name.to_owned(), String::from_utf8_lossy(field.value).into_owned())
                    })
                    .collect(),
                ..Response::default()
            };
            buffer.drain(..length);
            return Ok(Some(response));
        }
        if !read_more(stream, buffer)? {
            return if buffer.is_empty() {
                Ok(None)
            } else {
                Err(io::ErrorKind::UnexpectedEof.into())
            };
        }
    }
}

/// Reads the body of `response` and passes it on piece by piece. Fails if it ends early.
pub fn read_body(
    response: &mut Response,
    head_only: bool,
    stream: &mut dyn Read,
    buffer: &mut Vec<u8>,
    mut piece: impl FnMut(&[u8]),
) -> io::Result<()> {
    if head_only || matches!(response.status, 100..=199 | 204 | 304) {
        return Ok(());
    }
    if response
        .header("transfer-encoding")
        .is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
    {
        return read_chunked(response, stream, buffer, &mut piece);
    }
    if let Some(length) = response.header("content-length") {
        let length = length.parse().map_err(io::Error::other)?;
        return read_exactly(length, stream, buffer, &mut piece);
    }
    loop {
        piece(buffer);
        buffer.clear();
        if !read_more(stream, buffer)? {
            return Ok(());
        }
    }
}

fn read_chunked(
    response: &mut Response,
    stream: &mut dyn Read,
    buffer: &mut Vec<u8>,
    piece: &mut dyn FnMut(&[u8]),
) -> io::Result<()> {
    loop {
        let line = read_line(stream, buffer)?;
        let size = u64::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16)
            .map_err(io::Error::other)?;
        if size == 0 {
            break;
        }
        read_exactly(size, stream, buffer, piece)?;
        read_line(stream, buffer)?;
    }
    loop {
        let line = read_line(stream, buffer)?;
        let Some((name, value)) = line.split_once(':') else {
            return Ok(());
        };
        response.trailers.push((name.to_owned(), value.trim().to_owned()));
    }
}

fn read_line(stream: &mut dyn Read, buffer: &mut Vec<u8>) -> io::Result<String> {
    loop {
        if let Some(end) = buffer.windows(2).position(|pair| pair == b"\r\n") {
            let line = String::from_utf8_lossy(&buffer[..end]).into_owned();
            buffer.drain(..end + 2);
            return Ok(line);
        }
        if !read_more(stream, buffer)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

fn read_exactly(
    length: u64,
    stream: &mut dyn Read,
    buffer: &mut Vec<u8>,
    piece: &mut dyn FnMut(&[u8]),
) -> io::Result<()> {
    let mut left = length;
    while left > 0 {
        if buffer.is_empty() && !read_more(stream, buffer)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let taken = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        piece(&buffer[..taken]);
        buffer.drain(..taken);
        left -= taken as u64;
    }
    Ok(())
}

/// Reads once; false at the end of the stream.
fn read_more(stream: &mut dyn Read, buffer: &mut Vec<u8>) -> io::Result<bool> {
    let mut bytes = [0; 65_536];
    let read = stream.read(&mut bytes)?;
    buffer.extend_from_slice(&bytes[..read]);
    Ok(read > 0)
}

impl Counted {
    pub fn add(&mut self, bytes: &[u8]) {
        self.off_pattern |= !is_pattern(bytes, self.length);
        self.length += bytes.len() as u64;
    }
}
