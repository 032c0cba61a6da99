//! Uploads by HTTP/2 that are answered before they end: many clients do not read the answer before all of it is sent.

use crate::harness::client::Wire;
use crate::harness::h2_frames::{
    DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, RST_STREAM, WINDOW_UPDATE, block, frame,
    get, open,
};
use crate::harness::{Origin, Reply, Wayleave};

const MIB: usize = 1024 * 1024;
/// The stream of the upload.
const STREAM: u32 = 1;

/// An upload as its client sees it.
#[derive(Debug, Default)]
struct Upload {
    /// Whether the head of an answer came.
    is_answered: bool,
    /// The code of a reset.
    reset: Option<Vec<u8>>,
    sent: usize,
}

impl Upload {
    /// Uploads `total` bytes to `path` of `shop.test`, or as much as is taken.
    fn run(proxy: &Wayleave, path: &str, total: usize) -> Self {
        let mut wire = open(proxy, "shop.test:443");
        let mut fields = get("shop.test", path);
        fields[0] = (":method", "POST");
        wire.send(frame(HEADERS, END_HEADERS, STREAM, &block(&fields)));
        let mut upload = Self::default();
        // For the stream and for the connection.
        let mut windows = [65_535_usize; 2];
        let piece = [b'x'; 16 * 1024];
        while upload.sent < total && upload.reset.is_none() {
            let length = piece.len().min(windows[0]).min(windows[1]).min(total - upload.sent);
            if length == 0 {
                upload.note(&wire.frame().expect("the connection remains open"), &mut windows);
                continue;
            }
            wire.send(frame(DATA, 0, STREAM, &piece[..length]));
            upload.sent += length;
            windows = windows.map(|window| window - length);
        }
        if upload.reset.is_none() {
            wire.send(frame(DATA, END_STREAM, STREAM, &[]));
            upload.read_to_answer(&mut wire, &mut windows);
        }
        upload
    }

    fn read_to_answer(&mut self, wire: &mut Wire, windows: &mut [usize; 2]) {
        while !self.is_answered && self.reset.is_none() {
            self.note(&wire.frame().expect("the connection remains open"), windows);
        }
    }

    fn note(&mut self, frame: &Frame, windows: &mut [usize; 2]) {
        assert_ne!(frame.kind, GOAWAY, "{frame:?}");
        match (frame.kind, frame.stream) {
            (WINDOW_UPDATE, stream) => {
                let added: [u8; 4] = frame.payload[..].try_into().expect("four bytes");
                windows[usize::from(stream == 0)] += u32::from_be_bytes(added) as usize;
            }
            (HEADERS, STREAM) => self.is_answered = true,
            (RST_STREAM, STREAM) => self.reset = Some(frame.payload.clone()),
            _ => {}
        }
    }
}

#[test]
fn a_refused_upload_is_read_to_its_end() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/no");
    let proxy = Wayleave::start(&origin);
    let upload = Upload::run(&proxy, "/no", 5 * MIB);
    assert!(upload.is_answered && upload.reset.is_none(), "{upload:?}");
    assert_eq!(upload.sent, 5 * MIB);
    assert_eq!(origin.seen(), ["GET https://shop.test/robots.txt"]);
}

#[test]
fn an_upload_that_its_origin_answers_early_is_read_to_its_end() {
    let origin = Origin::start();
    origin.site("shop.test").page("/up", Reply::new(413).body("too much").early());
    let proxy = Wayleave::start(&origin);
    let upload = Upload::run(&proxy, "/up", 5 * MIB);
    assert!(upload.is_answered && upload.reset.is_none(), "{upload:?}");
    assert_eq!(upload.sent, 5 * MIB);
}

#[test]
fn an_endless_upload_is_reset_without_an_error() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/no");
    let proxy = Wayleave::start(&origin);
    let upload = Upload::run(&proxy, "/no", usize::MAX);
    assert!(upload.is_answered, "{upload:?}");
    // NO_ERROR (RFC 9113 section 8.1).
    assert_eq!(upload.reset.as_deref(), Some(&[0; 4][..]));
    assert!(upload.sent < 80 * MIB, "{}", upload.sent);
}
