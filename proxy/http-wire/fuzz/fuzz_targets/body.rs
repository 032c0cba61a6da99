//! A chunked body reads the same in one piece and in two, and reads back after it is written again.

#![no_main]

mod ready;

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use ready::ready;
use tokio::io::{AsyncRead, AsyncReadExt};
use wayleave_http_wire::http1::{BodyFraming, BodyReader, BodyWriter, Trailers};

/// A body, its trailers, and the bytes after it.
type Whole = (Vec<u8>, Trailers, Vec<u8>);

// The first byte selects where the input is split into two reads.
fuzz_target!(|input: &[u8]| {
    let Some((&at, input)) = input.split_first() else { return };
    let (first, second) = input.split_at(usize::from(at).min(input.len()));
    let whole = read(input);
    assert_eq!(read(first.chain(second)), whole);
    let Some((data, trailers, _)) = whole else { return };
    let mut written = Vec::new();
    let mut writer = BodyWriter::new(BodyFraming::Chunked);
    for chunk in data.chunks(7) {
        ready(writer.write(&mut written, chunk)).expect("memory takes all");
    }
    ready(writer.finish(&mut written, &trailers)).expect("memory takes all");
    // Bytes after the body must not become part of it.
    written.extend(b"GET");
    assert_eq!(read(&written[..]), Some((data, trailers, b"GET".to_vec())));
});

fn read(mut stream: impl AsyncRead + Unpin) -> Option<Whole> {
    let mut reader = BodyReader::strict(BodyFraming::Chunked);
    let mut buffered = BytesMut::new();
    let mut data = Vec::new();
    while let Some(chunk) = ready(reader.next_chunk(&mut stream, &mut buffered)).ok()? {
        assert!(!chunk.is_empty());
        data.extend_from_slice(&chunk);
    }
    let trailers: Vec<(Bytes, Bytes)> = reader.take_trailers();
    let mut rest = buffered.to_vec();
    ready(stream.read_to_end(&mut rest)).expect("memory gives all");
    Some((data, trailers, rest))
}
