//! HTTP/2 frame by frame, because origins of the tests must be able to break it.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::wire::{Connection, Transport};
use crate::harness::h2_frames::{ACK, GOAWAY, HEADERS, PING, SETTINGS, frame};

/// Kind, flags and payload; the stream is the request's.
pub type Frame = (u8, u8, Vec<u8>);

/// The client's connection preface (RFC 9113 section 3.4).
const PREFACE: usize = 24;

pub async fn serve(mut stream: impl Transport, connection: &Connection) -> io::Result<()> {
    stream.read_exact(&mut [0; PREFACE]).await?;
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
    loop {
        stream.flush().await?;
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        stream.read_exact(&mut payload).await?;
        let number = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        match (head[3], head[4]) {
            (SETTINGS, flags) if flags & ACK == 0 => {
                stream.write_all(&frame(SETTINGS, ACK, 0, &[])).await?;
            }
            (PING, flags) if flags & ACK == 0 => {
                stream.write_all(&frame(PING, ACK, 0, &payload)).await?;
            }
            (HEADERS, _) => {
                for (kind, flags, payload) in connection.frames() {
                    // It is about the connection.
                    let number = if kind == GOAWAY { 0 } else { number };
                    stream.write_all(&frame(kind, flags, number, &payload)).await?;
                }
            }
            _ => {}
        }
    }
}
