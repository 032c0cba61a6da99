//! The combined format: `ADDRESS IDENT USER [TIME] "REQUEST" STATUS BYTES "REFERER" "USER-AGENT"`.
//!
//! By hand, since strangers write most of it: a field may contain anything, also quotes in the escapes of Apache (`\"`) and
//! nginx (`\x22`).

use std::borrow::Cow;

use memchr::memmem;

use super::request::{LoggedRequest, split_once, target_of};

pub(super) fn parse(line: &[u8]) -> Result<LoggedRequest<'_>, &'static str> {
    let line = line.trim_ascii_end();
    // A virtual host, the address and the user come before.
    let at = memmem::find(line, b"] \"").ok_or("no [time] \"request\"")?;
    let (request, rest) = quoted(&line[at + 2..]).ok_or("the request has no closing quote")?;
    let rest = rest.trim_ascii_start();
    let (status, rest) = split_once(rest, b' ').ok_or("no status")?;
    if status.len() != 3 || !status.iter().all(u8::is_ascii_digit) {
        return Err("no status");
    }
    let (bytes, rest) = split_once(rest, b' ').unwrap_or((rest, b""));
    let bytes = match bytes {
        b"-" => 0,
        digits => {
            str::from_utf8(digits).ok().and_then(|text| text.parse().ok()).ok_or("no size")?
        }
    };
    let no_agent = "no \"referer\" \"user-agent\": crawlers cannot be told in a log without them";
    let (referer, rest) = quoted(rest.trim_ascii_start()).ok_or(no_agent)?;
    let (user_agent, _) = quoted(rest.trim_ascii_start()).ok_or(no_agent)?;
    let target = match unescape(request) {
        Cow::Borrowed(request) => target_of(request).map(Cow::Borrowed),
        Cow::Owned(request) => target_of(&request).map(|target| Cow::Owned(target.to_vec())),
    };
    Ok(LoggedRequest {
        target: target.ok_or("no request")?,
        user_agent: unescape(user_agent),
        referer: unescape(if referer == b"-" { b"" } else { referer }),
        content_type: Cow::Borrowed(b""),
        bytes,
    })
}

/// Returns the content of the quoted field that a text begins with, and the text after it.
fn quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.strip_prefix(b"\"")?;
    let mut from = 0;
    loop {
        let at = from + memchr::memchr2(b'"', b'\\', &text[from..])?;
        // A quote ends the field only before a space: some servers do not escape those within.
        match (text[at], text.get(at + 1)) {
            (b'\\', _) => from = (at + 2).min(text.len()),
            (_, None | Some(b' ')) => return Some((&text[..at], &text[at + 1..])),
            _ => from = at + 1,
        }
    }
}

/// Returns a field as it was sent, without the escapes of Apache and nginx.
fn unescape(field: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', field).is_none() {
        return Cow::Borrowed(field);
    }
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, after @ ..] = rest {
        let (byte, next) = match (first, after) {
            (b'\\', [b'x' | b'X', high, low, next @ ..])
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                (hex(*high) << 4 | hex(*low), next)
            }
            (b'\\', [b'n', next @ ..]) => (b'\n', next),
            (b'\\', [b'r', next @ ..]) => (b'\r', next),
            (b'\\', [b't', next @ ..]) => (b'\t', next),
            (b'\\', [escaped @ (b'"' | b'\\'), next @ ..]) => (*escaped, next),
            _ => (*first, after),
        };
        plain.push(byte);
        rest = next;
    }
    Cow::Owned(plain)
}

/// Returns the value of a hexadecimal digit.
fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(line: &str) -> Result<[String; 3], &'static str> {
        let request = parse(line.as_bytes())?;
        let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
        Ok([text(&request.target), text(&request.referer), text(&request.user_agent)])
    }

    #[test]
    fn lines_of_several_servers_are_read() {
        for (line, target, referer, user_agent) in [
            // Apache's own example.
            (
                r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326 "http://www.example.com/start.html" "Mozilla/4.08 [en] (Win98; I ;Nav)""#,
                "/apache_pb.gif",
                "http://www.example.com/start.html",
                "Mozilla/4.08 [en] (Win98; I ;Nav)",
            ),
            (
                r#"shop.test:443 2001:db8::1 - - [x] "GET /a?b HTTP/2.0" 304 - "-" "B/1""#,
                "/a?b",
                "",
                "B/1",
            ),
            // Fields after the User-Agent.
            (
                "1 - - [x] \"GET / HTTP/1.1\" 200 1 \"-\" \"B\" \"203.0.113.9\" 0.003\r",
                "/",
                "",
                "B",
            ),
            (
                r#"1 - - [x] "GET /a\x22b\" c HTTP/1.1" 200 1 "-" "B \"x\" \\ \xC3\xA9""#,
                "/a\"b\" c",
                "",
                "B \"x\" \\ \u{e9}",
            ),
            // A server that does not escape quotes.
            (r#"1 - - [x] "GET /a"b HTTP/1.1" 200 1 "-" "B "x"""#, "/a\"b", "", "B \"x\""),
            (r#"1 - - [x] "GET /old" 200 1 "-" "B""#, "/old", "", "B"),
            (
                r#"1 - - [x] "GET http://shop.test/a HTTP/1.1" 200 1 "-" """#,
                "http://shop.test/a",
                "",
                "",
            ),
        ] {
            let expected = [target, referer, user_agent].map(str::to_owned);
            assert_eq!(fields(line), Ok(expected), "{line}");
        }
        let sizes = |size: &str| {
            let line = format!(r#"1 - - [x] "GET / HTTP/1.1" 200 {size} "-" "B""#);
            parse(line.as_bytes()).map(|request| request.bytes)
        };
        assert_eq!(["0", "-", "4294967296"].map(sizes), [Ok(0), Ok(0), Ok(4_294_967_296)]);
        assert_eq!(sizes("x"), Err("no size"));
    }

    #[test]
    fn what_is_no_request_is_refused_with_its_reason() {
        for (line, why) in [
            ("", "no [time] \"request\""),
            ("garbage \0\u{e9}", "no [time] \"request\""),
            ("1 - - [x] \"GET / HTTP/1.1", "the request has no closing quote"),
            ("1 - - [x] \"GET / HTTP/1.1\\\"", "the request has no closing quote"),
            ("1 - - [x] \"GET / HTTP/1.1\\", "the request has no closing quote"),
            ("1 - - [x] \"GET / HTTP/1.1\"", "no status"),
            ("1 - - [x] \"GET / HTTP/1.1\" 2000 1 \"-\" \"B\"", "no status"),
            ("1 - - [x] \"-\" 408 0 \"-\" \"-\"", "no request"),
            ("1 - - [x] \"\\x16\\x03\\x01\" 400 0 \"-\" \"-\"", "no request"),
            ("1 - - [x] \"GET  HTTP/1.1\" 400 0 \"-\" \"-\"", "no request"),
            (
                "1 - - [x] \"GET / HTTP/1.1\" 200 1",
                "no \"referer\" \"user-agent\": crawlers cannot be told in a log without them",
            ),
        ] {
            assert_eq!(fields(line), Err(why), "{line}");
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let line = br#"1 - - [x] "GET /a\x2" 200 1 "-\" "B\\""#;
        for cut in 0..=line.len() {
            for byte in [b'"', b'\\', b' ', b'x', 0xff] {
                let mut broken = line.to_vec();
                broken.splice(cut..cut, [byte]);
                // Whether it can be read does not matter here.
                let _ = parse(&broken);
                let _ = parse(&broken[..cut]);
            }
        }
        assert_eq!(unescape(b"\\x4\\"), &b"\\x4\\"[..]);
    }
}
