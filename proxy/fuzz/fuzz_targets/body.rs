//! A body in chunks is the same however it comes in pieces, and reads back when it is written anew.

#![no_main]

#[path = "../../src/http/http1/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the proxy uses the rest")]
mod http1;
mod ready;

use bytes::{Bytes, BytesMut};
use http1::{BodyReader, BodyWriter, Framing, Trailers};
use libfuzzer_sys::fuzz_target;
use ready::ready;
use tokio::io::{AsyncRead, AsyncReadExt};

/// A body, its trailers, and what follows it.
type Whole = (Vec<u8>, Trailers, Vec<u8>);

// The first byte says where the input falls into two reads.
fuzz_target!(|input: &[u8]| {
    let Some((&at, input)) = input.split_first() else { return };
    let (first, second) = input.split_at(usize::from(at).min(input.len()));
    let whole = read(input);
    assert_eq!(read(first.chain(second)), whole);
    let Some((data, trailers, _)) = whole else { return };
    let mut written = Vec::new();
    let mut writer = BodyWriter::new(Framing::Chunked);
    for part in data.chunks(7) {
        ready(writer.write(&mut written, part)).expect("memory takes all");
    }
    ready(writer.finish(&mut written, &trailers)).expect("memory takes all");
    // What follows must not become part of it.
    written.extend(b"GET");
    assert_eq!(read(&written[..]), Some((data, trailers, b"GET".to_vec())));
});

fn read(mut stream: impl AsyncRead + Unpin) -> Option<Whole> {
    let mut reader = BodyReader::new(Framing::Chunked);
    let (mut ahead, mut data) = (BytesMut::new(), Vec::new());
    while let Some(part) = ready(reader.next(&mut stream, &mut ahead)).ok()? {
        assert!(!part.is_empty());
        data.extend_from_slice(&part);
    }
    let trailers: Vec<(Bytes, Bytes)> = reader.take_trailers();
    let mut rest = ahead.to_vec();
    ready(stream.read_to_end(&mut rest)).expect("memory gives all");
    Some((data, trailers, rest))
}
