//! Message framing for both versions of HTTP (RFC 9112 section 6, RFC 9113 section 8.1.1). No other module decides
//! where content ends.
//!
//! A request whose length is not stated once and unambiguously is refused: a reader that sees another end takes the
//! rest for the next message. A response may say more than it should where RFC 9112 says which part decides; nothing is read
//! after it on its connection.

use super::oddities::{Oddities, Oddity};

/// The way the end of a body is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFraming {
    /// By a length in bytes; zero if there is no body.
    Length(u64),
    /// By a last chunk.
    Chunked,
    /// By the end of the connection. Also used for the bytes after a 101.
    UntilClose,
}

impl BodyFraming {
    /// Returns the framing that a request's `Content-Length` and `Transfer-Encoding` state; `None` without either.
    pub(super) fn from_http1_request<'a>(
        length: Option<u64>,
        mut codings: impl Iterator<Item = &'a [u8]>,
        is_http_1_0: bool,
    ) -> Result<Option<Self>, &'static str> {
        let Some(coding) = codings.next() else {
            return Ok(length.map(Self::Length));
        };
        // RFC 9112 section 6.3 gives Transfer-Encoding priority. A reader that uses the length finds another end.
        if length.is_some() {
            return Err("both Content-Length and Transfer-Encoding");
        }
        // A recipient of HTTP/1.0 need not know Transfer-Encoding (RFC 9112 section 6.1).
        if is_http_1_0 {
            return Err("Transfer-Encoding in HTTP/1.0");
        }
        // `gzip, chunked` is valid, but many readers look only for `chunked` somewhere in the value.
        if codings.next().is_some() || !coding.eq_ignore_ascii_case(b"chunked") {
            return Err("Transfer-Encoding other than chunked");
        }
        Ok(Some(Self::Chunked))
    }

    /// Returns the framing that a response's `Content-Length` and `Transfer-Encoding` state, with the oddities of them;
    /// `None` without either. Whatever else stands beside `chunked`, the chunks mark the end of the body (RFC 9112
    /// section 6.3).
    pub(super) fn from_http1_response<'a>(
        lengths: impl Iterator<Item = &'a [u8]>,
        codings: impl Iterator<Item = &'a [u8]>,
        is_http_1_0: bool,
    ) -> Result<(Option<Self>, Oddities), &'static str> {
        let (length, mut oddities) = agreed_content_length(lengths)?;
        let mut codings = codings.flat_map(|value| value.split(|&byte| byte == b','));
        let Some(first) = codings.next() else {
            return Ok((length.map(Self::Length), oddities));
        };
        // The clients behind us would get a body that is still coded (RFC 9112 section 7.2).
        let is_chunked = |coding: &[u8]| coding.trim_ascii().eq_ignore_ascii_case(b"chunked");
        let others: Vec<_> = codings.collect();
        if !is_chunked(first) || !others.iter().all(|coding| is_chunked(coding)) {
            return Err("Transfer-Encoding other than chunked");
        }
        if !others.is_empty() {
            oddities.insert(Oddity::RepeatedChunked);
        }
        if length.is_some() {
            oddities.insert(Oddity::LengthBesideChunked);
        }
        if is_http_1_0 {
            oddities.insert(Oddity::ChunkedInHttp10);
        }
        Ok((Some(Self::Chunked), oddities))
    }

    /// Returns the framing of an HTTP/2 request for an HTTP/1 connection. `has_body` is false if the head ended the
    /// stream.
    pub fn from_http2_request<'a>(
        lengths: impl Iterator<Item = &'a [u8]>,
        has_body: bool,
    ) -> Result<Self, &'static str> {
        match single_content_length(lengths)? {
            Some(length) if has_body || length == 0 => Ok(Self::Length(length)),
            Some(_) => Err("Content-Length without content"),
            None if has_body => Ok(Self::Chunked),
            None => Ok(Self::Length(0)),
        }
    }
}

/// Returns the length on which all values of a response's `Content-Length` agree, in separate fields or in a list;
/// `None` without any. Repeating the same length is an oddity, but unambiguous (RFC 9112 section 6.3).
pub fn agreed_content_length<'a>(
    values: impl Iterator<Item = &'a [u8]>,
) -> Result<(Option<u64>, Oddities), &'static str> {
    let mut lengths = values.flat_map(|value| value.split(|&byte| byte == b','));
    let Some(first) = lengths.next() else {
        return Ok((None, Oddities::default()));
    };
    let length = parse_content_length(first.trim_ascii())?;
    let mut oddities = Oddities::default();
    for repeated in lengths {
        if parse_content_length(repeated.trim_ascii())? != length {
            return Err("more than one Content-Length");
        }
        oddities.insert(Oddity::RepeatedContentLength);
    }
    Ok((Some(length), oddities))
}

/// Returns the length of a request, which may state it only once.
pub(super) fn single_content_length<'a>(
    mut lengths: impl Iterator<Item = &'a [u8]>,
) -> Result<Option<u64>, &'static str> {
    let length = lengths.next().map(parse_content_length).transpose()?;
    match lengths.next() {
        None => Ok(length),
        Some(_) => Err("more than one Content-Length"),
    }
}

/// Parses a Content-Length: only digits (RFC 9110 section 8.6), and at most 63 bits, since a larger number is an
/// attack.
fn parse_content_length(value: &[u8]) -> Result<u64, &'static str> {
    // `parse` alone would accept a plus sign.
    let is_number = value.iter().all(u8::is_ascii_digit);
    str::from_utf8(value)
        .ok()
        .filter(|_| is_number)
        .and_then(|digits| digits.parse::<u64>().ok())
        .filter(|length| *length <= i64::MAX.unsigned_abs())
        .ok_or("Content-Length is not a number")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values<'a>(values: &'a [&str]) -> impl Iterator<Item = &'a [u8]> {
        values.iter().map(|value| value.as_bytes())
    }

    #[test]
    fn http_2_request_has_at_most_one_length() {
        let cases: &[(&[&str], bool, Option<BodyFraming>)] = &[
            (&[], false, Some(BodyFraming::Length(0))),
            (&[], true, Some(BodyFraming::Chunked)),
            (&["0"], false, Some(BodyFraming::Length(0))),
            (&["0"], true, Some(BodyFraming::Length(0))),
            (&["05"], true, Some(BodyFraming::Length(5))),
            (&["5"], false, None),
            (&[""], false, None),
            (&[""], true, None),
            (&["5", "5"], true, None),
            (&["5", ""], true, None),
            (&["5, 5"], true, None),
            (&["+5"], true, None),
            (&["99999999999999999999"], true, None),
        ];
        for (lengths, has_body, expected) in cases {
            let framing = BodyFraming::from_http2_request(values(lengths), *has_body);
            assert_eq!(framing.ok(), *expected, "{lengths:?} {has_body}");
        }
    }

    #[test]
    fn response_may_repeat_the_same_length() {
        let cases: &[(&[&str], Option<Option<u64>>)] = &[
            (&[], Some(None)),
            (&["2"], Some(Some(2))),
            (&["2", "2", "02"], Some(Some(2))),
            (&["2", "3"], None),
            (&["2", ""], None),
            (&["", ""], None),
            (&["2, 2", "2"], Some(Some(2))),
            (&["2, 3"], None),
            (&["2,"], None),
            (&["-2"], None),
        ];
        for (lengths, expected) in cases {
            let length = agreed_content_length(values(lengths)).ok().map(|(length, _)| length);
            assert_eq!(length, *expected, "{lengths:?}");
        }
    }
}
