//! An origin's head that is accepted reads the same in one piece and in two, and its chunks, if any, mark its end.

#![no_main]

mod ready;

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use ready::ready;
use tokio::io::AsyncReadExt;
use wayleave_http_wire::http1::{BodyFraming, ResponseHead};

// The first byte selects where the input is split into two reads.
fuzz_target!(|input: &[u8]| {
    let Some((&at, input)) = input.split_first() else { return };
    let head = ready(ResponseHead::read(&mut &*input, &mut BytesMut::new()));
    let (first, second) = input.split_at(usize::from(at).min(input.len()));
    let in_two = ready(ResponseHead::read(&mut first.chain(second), &mut BytesMut::new()));
    assert_eq!(head.is_ok(), in_two.is_ok(), "{head:?} {in_two:?}");
    let (Ok(head), Ok(in_two)) = (head, in_two) else { return };
    assert_eq!(format!("{head:?}"), format!("{in_two:?}"));
    check(&head);
});

fn check(head: &ResponseHead) {
    assert!((100..=999).contains(&head.status()));
    let is_chunked = head.fields().values("transfer-encoding").next().is_some();
    let lengths: Vec<_> = head.fields().values("content-length").collect();
    assert_eq!(head.content_length().is_some(), !is_chunked && !lengths.is_empty());
    let is_odd = is_chunked && (head.is_http_1_0() || !lengths.is_empty());
    assert!(!is_odd || !head.oddities().is_framing_certain());
    match head.framing("GET") {
        BodyFraming::Length(0) if matches!(head.status(), 100..=199 | 204 | 304) => {}
        BodyFraming::Length(length) => assert_eq!(head.content_length(), Some(length)),
        BodyFraming::Chunked => assert!(is_chunked),
        BodyFraming::UntilClose => assert!(!is_chunked && lengths.is_empty()),
    }
    for (name, value) in head.fields().iter() {
        assert!(!name.is_empty() && !name.contains(&b' ') && !name.contains(&b'\t'));
        assert!(!value.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t'));
    }
}
