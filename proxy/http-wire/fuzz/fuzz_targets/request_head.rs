//! A head that is accepted can be read in one way only: the simplest reader finds the same in it.

#![no_main]

mod ready;

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use ready::ready;
use tokio::io::AsyncReadExt;
use wayleave_http_wire::http1::{BodyFraming, RequestHead};

// The first byte selects where the input is split into two reads.
fuzz_target!(|input: &[u8]| {
    let Some((&at, input)) = input.split_first() else { return };
    let mut rest = BytesMut::new();
    let head = ready(RequestHead::read(&mut &*input, &mut rest));
    let (first, second) = input.split_at(usize::from(at).min(input.len()));
    let mut rest_of_two = BytesMut::new();
    let in_two = ready(RequestHead::read(&mut first.chain(second), &mut rest_of_two));
    assert_eq!(head.is_ok(), in_two.is_ok(), "{head:?} {in_two:?}");
    let Ok(head) = head else { return };
    // Unread bytes remain in the stream, so only those that were read can be compared.
    assert!(input.windows(rest.len().max(1)).any(|part| part == &rest[..]) || rest.is_empty());
    check(&head, input);
});

fn check(head: &RequestHead, input: &[u8]) {
    let blank = input.chunks(2).take_while(|pair| pair == b"\r\n").count() * 2;
    let text = &input[blank..];
    let end = text.windows(4).position(|four| four == b"\r\n\r\n").expect("a head ends");
    let text = &text[..end];
    assert!(!text.contains(&0));
    let mut lines = split(text, b"\r\n");
    let line = lines.remove(0);
    let parts = split(line, b" ");
    assert_eq!(parts.len(), 3, "{line:?}");
    assert_eq!(
        (parts[0], &escaped(parts[1])[..]),
        (head.method().as_bytes(), head.target().as_bytes())
    );
    assert_eq!(parts[2] == b"HTTP/1.0", head.is_http_1_0());
    assert!(head.target().bytes().all(|byte| byte.is_ascii_graphic()));
    let fields: Vec<_> = lines.iter().map(|line| field(line)).collect();
    let found: Vec<_> = head.fields().iter().collect();
    assert_eq!(found, fields);
    check_framing(head, &fields);
}

/// Returns a target with its bytes beyond ASCII percent-encoded.
fn escaped(target: &[u8]) -> Vec<u8> {
    let escape = |&byte: &u8| {
        if byte.is_ascii() { vec![byte] } else { format!("%{byte:02X}").into_bytes() }
    };
    target.iter().flat_map(escape).collect()
}

fn check_framing(head: &RequestHead, fields: &[(&[u8], &[u8])]) {
    let values = |name: &str| {
        let named = fields.iter().filter(|(found, _)| found.eq_ignore_ascii_case(name.as_bytes()));
        named.map(|(_, value)| *value).collect::<Vec<_>>()
    };
    assert!(values("host").len() == 1 || head.is_http_1_0() && values("host").is_empty());
    let lengths = values("content-length");
    let codings = values("transfer-encoding");
    let expected = match (&lengths[..], &codings[..]) {
        ([], []) => BodyFraming::Length(0),
        ([length], []) => {
            assert!(length.iter().all(u8::is_ascii_digit));
            let length = std::str::from_utf8(length).expect("digits");
            BodyFraming::Length(length.parse().expect("a number"))
        }
        ([], [coding]) if coding.eq_ignore_ascii_case(b"chunked") => BodyFraming::Chunked,
        _ => panic!("two framings: {fields:?}"),
    };
    assert_eq!(head.framing(), expected);
}

/// A line's name, and its value without the white space around it.
fn field(line: &[u8]) -> (&[u8], &[u8]) {
    assert!(!line.contains(&b'\r') && !line.contains(&b'\n'), "{line:?}");
    let colon = line.iter().position(|&byte| byte == b':').expect("a colon");
    let name = &line[..colon];
    assert!(
        !name.is_empty()
            && name
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)),
        "{name:?}"
    );
    let mut value = &line[colon + 1..];
    while let [b' ' | b'\t', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    (name, value)
}

fn split<'a>(text: &'a [u8], by: &[u8]) -> Vec<&'a [u8]> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.windows(by.len()).position(|part| part == by) {
        parts.push(&rest[..at]);
        rest = &rest[at + by.len()..];
    }
    parts.push(rest);
    parts
}
