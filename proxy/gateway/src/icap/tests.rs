use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wayleave_admission::SeenBody;
use wayleave_admission::request::ClientConnection;
use wayleave_http_wire::http1::HeadError;

use super::body::IcapBody;
use super::error::{IcapError, IcapStatus};
use super::head::{Encapsulated, IcapHead, IcapMethod, IcapService, head_end};
use super::message::IcapMessage;
use super::peer::IcapPeer;
use crate::credentials::GatewayIdentity;

const REQMOD: &str = "REQMOD icap://127.0.0.1:1344/request ICAP/1.0\r\nHost: 127.0.0.1\r\n";
const RESPMOD: &str = "RESPMOD icap://127.0.0.1:1344/response ICAP/1.0\r\nHost: 127.0.0.1\r\n";

/// Parses the head of a message with these fields.
fn parsed(line: &str, fields: &str) -> Result<IcapHead, IcapError> {
    IcapHead::parse(format!("{line}{fields}\r\n").as_bytes())
}

fn status(result: &Result<IcapHead, IcapError>) -> Option<IcapStatus> {
    match result {
        Ok(_) => None,
        Err(IcapError::Refused { status, .. }) => Some(*status),
        Err(IcapError::Gone) => panic!("nobody is gone"),
    }
}

#[test]
fn heads_say_where_the_parts_inside_begin() {
    let head = parsed(REQMOD, "Encapsulated: req-hdr=0, null-body=44\r\nAllow: 204, trailers\r\n");
    let head = head.unwrap();
    assert_eq!((head.method, head.service), (IcapMethod::ReqMod, IcapService::Requests));
    let parts = Encapsulated { request_bytes: 44, response_bytes: None, has_body: false };
    assert_eq!((head.encapsulated, head.preview, head.allows_204), (Some(parts), None, true));
    let fields =
        "Encapsulated: req-hdr=0, res-hdr=44 ,res-body=100\r\nPreview: 0\r\nConnection: Close\r\n";
    let head = parsed(RESPMOD, fields).unwrap();
    let parts = Encapsulated { request_bytes: 44, response_bytes: Some(56), has_body: true };
    assert_eq!((head.encapsulated, head.preview, head.allows_204), (Some(parts), Some(0), false));
    assert!(head.closes);
    let options = "OPTIONS icap://127.0.0.1/response ICAP/1.0\r\n";
    for fields in ["", "Encapsulated: null-body=0\r\n"] {
        let head = parsed(options, fields).unwrap();
        assert_eq!((head.method, head.encapsulated), (IcapMethod::Options, None));
    }
}

#[test]
fn heads_that_could_be_read_in_two_ways_are_refused() {
    let whole = "Encapsulated: req-hdr=0, null-body=44\r\n";
    for (line, fields) in [
        (REQMOD, ""),
        (REQMOD, "Encapsulated:\r\n"),
        (REQMOD, "Encapsulated: null-body=0\r\n"),
        (REQMOD, "Encapsulated: req-hdr=0\r\n"),
        (REQMOD, "Encapsulated: req-hdr=0, null-body=0\r\n"),
        (REQMOD, "Encapsulated: req-hdr=1, null-body=44\r\n"),
        (REQMOD, "Encapsulated: req-hdr=0, null-body=44,\r\n"),
        (REQMOD, "Encapsulated: req-hdr=0, null-body=+44\r\n"),
        (REQMOD, "Encapsulated: req-hdr=0, null-body=0x44\r\n"),
        (REQMOD, "Encapsulated: req-hdr=0, null-body=44444444\r\n"),
        (REQMOD, "Encapsulated: req-hdr=0, res-body=44\r\n"),
        (REQMOD, "Encapsulated: REQ-HDR=0, null-body=44\r\n"),
        (REQMOD, "Encapsulated: null-body=44, req-hdr=0\r\n"),
        (REQMOD, "Encapsulated: req-hdr=0, req-hdr=4, null-body=44\r\n"),
        (REQMOD, "Encapsulated: req-hdr=0, req-body=44, null-body=45\r\n"),
        (REQMOD, "Encapsulated: req-hdr=0; null-body=44\r\n"),
        (REQMOD, "Encapsulated: req-hdr=0\r\nEncapsulated: null-body=44\r\n"),
        (REQMOD, &format!("{whole}{whole}")),
        (REQMOD, &format!("{whole}Preview: 0\r\nPreview: 0\r\n")),
        (REQMOD, &format!("{whole}Preview: x\r\n")),
        (REQMOD, &format!("{whole}Preview: -1\r\n")),
        (REQMOD, &format!("{whole}Preview: 65537\r\n")),
        (REQMOD, &format!("{whole}Content-Length: 3\r\n")),
        (REQMOD, &format!("{whole}Transfer-Encoding: chunked\r\n")),
        (REQMOD, &format!("{whole}Trailer: X\r\n")),
        (REQMOD, &format!("{whole} folded\r\n")),
        (REQMOD, &format!("{whole}X : a\r\n")),
        (REQMOD, &format!("{whole}: a\r\n")),
        (REQMOD, &format!("{whole}X\r\n")),
        (REQMOD, &format!("{whole}X: \0\r\n")),
        (REQMOD, &format!("{whole}X: a\rb\r\n")),
        (RESPMOD, whole),
        (RESPMOD, "Encapsulated: res-hdr=0, res-body=44\r\n"),
        (RESPMOD, "Encapsulated: req-hdr=0, res-hdr=44, res-body=44\r\n"),
        (RESPMOD, "Encapsulated: req-hdr=0, res-hdr=44, res-body=43\r\n"),
        (RESPMOD, "Encapsulated: req-hdr=0, res-hdr=0, res-body=43\r\n"),
        (RESPMOD, "Encapsulated: res-hdr=0, req-hdr=4, res-body=43\r\n"),
        (RESPMOD, "Encapsulated: req-hdr=0, res-hdr=4, req-body=43\r\n"),
        ("OPTIONS icap://127.0.0.1/request ICAP/1.0\r\n", "Encapsulated: opt-body=0\r\n"),
        ("REQMOD  icap://127.0.0.1/request ICAP/1.0\r\n", whole),
        ("REQMOD icap://127.0.0.1/request  ICAP/1.0\r\n", whole),
        ("reqmod icap://127.0.0.1/request ICAP/1.0\r\n", whole),
        ("REQMOD /request ICAP/1.0\r\n", whole),
        ("REQMOD icap://127.0.0.1 ICAP/1.0\r\n", whole),
        ("REQMOD icap://127.0.0.1/request HTTP/1.1\r\n", whole),
        ("REQMOD icap://127.0.0.1/request\r\n", whole),
        ("", whole),
    ] {
        let found = status(&parsed(line, fields));
        assert_eq!(found, Some(IcapStatus::BadRequest), "{line:?} {fields:?}");
    }
}

#[test]
fn other_statuses_name_the_mistake() {
    let whole = "Encapsulated: req-hdr=0, null-body=44\r\n";
    for (line, expected) in [
        ("REQMOD icap://127.0.0.1/reqmod ICAP/1.0\r\n", IcapStatus::NotFound),
        ("REQMOD icap://127.0.0.1/request?a ICAP/1.0\r\n", IcapStatus::NotFound),
        ("REQMOD icap://127.0.0.1/response ICAP/1.0\r\n", IcapStatus::MethodNotAllowed),
        ("RESPMOD icap://127.0.0.1/request ICAP/1.0\r\n", IcapStatus::MethodNotAllowed),
        ("FILEMOD icap://127.0.0.1/request ICAP/1.0\r\n", IcapStatus::MethodNotAllowed),
        ("REQMOD icap://127.0.0.1/request ICAP/2.0\r\n", IcapStatus::VersionNotSupported),
    ] {
        assert_eq!(status(&parsed(line, whole)), Some(expected), "{line}");
    }
    let many = format!("{whole}{}", "X: y\r\n".repeat(100));
    assert_eq!(status(&parsed(REQMOD, &many)), Some(IcapStatus::TooLarge));
}

#[test]
fn clients_and_decisions_are_named_once() {
    let named = |fields: &str| {
        let fields = format!("Encapsulated: req-hdr=0, null-body=44\r\n{fields}");
        parsed(REQMOD, &fields).unwrap()
    };
    let client = |fields: &str| named(fields).client().map_err(|_| ());
    assert_eq!(client(""), Ok(None));
    assert_eq!(client("X-Client-IP: ::ffff:192.0.2.7\r\n"), Ok(Some([192, 0, 2, 7].into())));
    for fields in [
        "X-Client-IP: -\r\n",
        "X-Client-IP: 192.0.2.7, 192.0.2.8\r\n",
        "X-Client-IP: 192.0.2.7\r\nX-Client-IP: 192.0.2.7\r\n",
    ] {
        assert_eq!(client(fields), Err(()), "{fields}");
    }
    let decision = |fields: &str| named(fields).decision().is_ok();
    assert!(decision("Wayleave-Decision: 01939f6e27a17a3e8d0c6f0f6a1d2b3c\r\n"));
    assert!(!decision("Wayleave-Decision: x\r\n"));
}

#[test]
fn the_end_of_a_head_is_found_however_it_arrives() {
    let head = format!("{REQMOD}Encapsulated: req-hdr=0, null-body=44\r\n\r\n");
    let followed = format!("{head}GET / HTTP/1.1\n");
    for length in 0..followed.len() {
        let expected = (length >= head.len()).then_some(head.len());
        assert_eq!(head_end(&followed.as_bytes()[..length]), Ok(expected), "{length}");
    }
    for broken in ["A\nB", "A\rB", "A\r\nB\n\n", "\r\nA", "\n", "A\r\r\n"] {
        assert!(head_end(broken.as_bytes()).is_err(), "{broken:?}");
    }
}

/// The end of a body, as it is read of a peer that sends these bytes and no more.
#[derive(Debug, PartialEq, Eq)]
struct ReadBody {
    /// The body, or the status of the answer; 0 if the peer was gone.
    body: Result<Vec<u8>, &'static str>,
    /// Whether the peer was asked to go on.
    went_on: bool,
}

async fn read_body(preview: Option<usize>, wire: &[u8], step: usize) -> ReadBody {
    let (near, mut far) = duplex(step);
    let mut peer = IcapPeer::new(near);
    let head =
        IcapHead { preview, ..parsed(REQMOD, "Encapsulated: req-hdr=0, req-body=44\r\n").unwrap() };
    let (parts, rest) = match preview {
        // A peer sends the rest only once it is asked to.
        Some(_) => wire.split_at(memchr::memmem::find(wire, b"|").unwrap_or(wire.len())),
        None => (wire, &b""[..]),
    };
    let sending = async {
        // The reader may stop early.
        let _ = far.write_all(parts).await;
        let mut asked = [0; 25];
        let went_on = !rest.is_empty() && far.read_exact(&mut asked).await.is_ok();
        if went_on {
            assert_eq!(&asked, b"ICAP/1.0 100 Continue\r\n\r\n");
            let _ = far.write_all(&rest[1..]).await;
        }
        let _ = far.shutdown().await;
        went_on
    };
    let reading = async move {
        let mut body = IcapBody::new(&mut peer, &head);
        let mut bytes = Vec::new();
        loop {
            match body.next_chunk().await {
                Ok(Some(part)) => {
                    assert!(!part.is_empty());
                    bytes.extend_from_slice(&part);
                }
                Ok(None) => return Ok(bytes),
                Err(IcapError::Gone) => return Err("gone"),
                Err(IcapError::Refused { status, .. }) => return Err(status.as_str()),
            }
        }
    };
    let (body, went_on) = tokio::join!(reading, sending);
    ReadBody { body, went_on }
}

#[tokio::test]
async fn bodies_end_where_their_chunks_say() {
    let bad = Err("400 Bad Request");
    for (preview, wire, body) in [
        (None, "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", Ok("hello world")),
        (None, "0\r\n\r\n", Ok("")),
        (None, "00\r\n\r\n", Ok("")),
        (Some(0), "0\r\n\r\n|5\r\nhello\r\n0\r\n\r\n", Ok("hello")),
        (Some(5), "5\r\nhello\r\n0; ieof\r\n\r\n", Ok("hello")),
        (Some(9), "5\r\nhello\r\n0\r\n\r\n|1\r\n!\r\n0\r\n\r\n", Ok("hello!")),
        (Some(0), "0; ieof\r\n\r\n", Ok("")),
        (Some(4), "5\r\nhello\r\n0; ieof\r\n\r\n", bad),
        (Some(9), "5\r\nhello\r\n5\r\nworld\r\n0; ieof\r\n\r\n", bad),
        (None, "5\r\nhello\r\n0; ieof\r\n\r\n", bad),
        (Some(0), "0\r\n\r\n|5\r\nhello\r\n0; ieof\r\n\r\n", bad),
        (Some(9), "5; ieof\r\nhello\r\n0\r\n\r\n", bad),
        (Some(0), "0;ieof\r\n\r\n", bad),
        (Some(0), "0; ieof; x\r\n\r\n", bad),
        (None, "5;a=b\r\nhello\r\n0\r\n\r\n", bad),
        (None, "5\r\nhello!\r\n0\r\n\r\n", bad),
        (None, "5\r\nhello\n0\r\n\r\n", bad),
        (None, "5\nhello\r\n0\r\n\r\n", bad),
        (None, "0\r\nX-Sum: 1\r\n\r\n", bad),
        (None, "0x5\r\nhello\r\n0\r\n\r\n", bad),
        (None, "+5\r\nhello\r\n0\r\n\r\n", bad),
        (None, "-1\r\n", bad),
        (None, " 5\r\nhello\r\n", bad),
        (None, "5 \r\nhello\r\n", bad),
        (None, "\r\n", bad),
        (None, "10000000000000000\r\n", bad),
        (None, "5\r\nhell", Err("gone")),
        (None, "5\r\nhello\r\n", Err("gone")),
        (None, "0\r\n", Err("gone")),
        (Some(9), "5\r\nhello\r\n", Err("gone")),
        (None, "ffffffffffffffff\r\nhello", Err("gone")),
    ] {
        for step in [1, 3, 4096] {
            let read = read_body(preview, wire.as_bytes(), step).await;
            let expected = body.map(|body| body.as_bytes().to_vec());
            assert_eq!(read.body, expected, "{preview:?} {wire:?} by {step}");
            assert_eq!(read.went_on, wire.contains('|'), "{preview:?} {wire:?} by {step}");
        }
    }
}

/// Bytes that follow a preview before its answer are another message to one reader, and the rest of the body to another.
#[tokio::test]
async fn nothing_may_follow_a_preview_before_its_answer() {
    let wire = b"5\r\nhello\r\n0\r\n\r\nREQMOD";
    assert_eq!(read_body(Some(9), wire, 4096).await.body, Err("400 Bad Request"));
}

/// Returns the next of some numbers that look random (xorshift).
fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    usize::try_from(*state >> 33).unwrap_or_default()
}

/// Changes some bytes of a message, leaves some out or repeats some.
fn mutated(message: &[u8], state: &mut u64) -> Vec<u8> {
    const BYTES: &[u8] = b"\r\n\0 :;,=0159af+-/\tX";
    let mut bytes = message.to_vec();
    for _ in 0..=next(state) % 3 {
        let at = next(state) % bytes.len();
        match next(state) % 4 {
            0 => bytes[at] = BYTES[next(state) % BYTES.len()],
            1 => drop(bytes.remove(at)),
            2 => bytes.insert(at, BYTES[next(state) % BYTES.len()]),
            _ => {
                let end = (at + next(state) % 40).min(bytes.len());
                let part = bytes[at..end].to_vec();
                let to = next(state) % bytes.len();
                bytes.splice(to..to, part);
            }
        }
    }
    bytes
}

/// Whoever reads a changed message otherwise than the one who sent it may find another request in it: the heads that are read
/// fill exactly the bytes that are said to be theirs, and a body that ends well is made of whole chunks.
#[tokio::test]
async fn changed_messages_are_refused_or_read_to_their_end() {
    let inside = "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\n";
    let message = format!(
        "{REQMOD}Allow: 204\r\nPreview: 9\r\nEncapsulated: req-hdr=0, req-body={}\r\n\r\n{inside}\
         5\r\nhello\r\n0; ieof\r\n\r\n",
        inside.len()
    );
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let mut read_well = 0;
    for _ in 0..20_000 {
        let bytes = mutated(message.as_bytes(), &mut state);
        let mut peer = IcapPeer::new(tokio::io::join(&bytes[..], tokio::io::sink()));
        let stopping = CancellationToken::new();
        let Ok(Some(head)) = peer.next_head(&stopping).await else { continue };
        let Some(parts) = head.encapsulated else { continue };
        let Ok(request) = peer.section(parts.request_bytes).await else { continue };
        let Ok(response) = peer.section(parts.response_bytes.unwrap_or_default()).await else {
            continue;
        };
        let (has_body, preview) = (parts.has_body, head.preview);
        let message = IcapMessage {
            gateway: GatewayIdentity { token: None, address: [127, 0, 0, 1].into() },
            connection: ClientConnection::new([127, 0, 0, 1].into()),
            istag: String::new(),
            head,
            request,
            response,
        };
        let Ok(Ok(received)) = message.received().await else { continue };
        assert!(message.request.ends_with(b"\r\n\r\n"));
        let ends = memchr::memmem::find(&message.request, b"\r\n\r\n");
        assert_eq!(ends, Some(message.request.len() - 4));
        assert!(!received.method().contains(' '));
        let mut body = IcapBody::new(&mut peer, &message.head);
        let mut length = 0;
        while let Ok(Some(part)) = body.next_chunk().await {
            length += part.len();
        }
        if has_body && body.has_ended() {
            assert!(preview.is_none_or(|most| length <= most));
            read_well += 1;
        }
    }
    // Most changes are to names, and harmless.
    assert!((1_000..15_000).contains(&read_well), "{read_well}");
}

#[tokio::test(start_paused = true)]
async fn a_slow_peer_is_told_so() {
    for (wire, expected) in [
        ("REQMOD icap://", "408 Request Timeout"),
        ("OPTIONS icap://127.0.0.1/request ICAP/1.0\r\nX: ", "408 Request Timeout"),
    ] {
        let (near, mut far) = duplex(4096);
        let mut peer = IcapPeer::new(near);
        far.write_all(wire.as_bytes()).await.unwrap();
        let stopping = CancellationToken::new();
        let began_at = Instant::now();
        let Err(IcapError::Refused { status, .. }) = peer.next_head(&stopping).await else {
            panic!("{wire}");
        };
        assert_eq!(began_at.elapsed().as_secs(), 30);
        assert_eq!(status.as_str(), expected);
    }
    // An idle connection ends without a word.
    let (near, _far) = duplex(4096);
    let mut peer = IcapPeer::new(near);
    assert_eq!(
        peer.next_head(&CancellationToken::new()).await.map(|head| head.is_some()),
        Ok(false)
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stops_is_not_waited_for() {
    let (near, mut far) = duplex(4096);
    let mut peer = IcapPeer::new(near);
    far.write_all(b"5\r\nhel").await.unwrap();
    let head = parsed(REQMOD, "Encapsulated: req-hdr=0, req-body=44\r\n").unwrap();
    let mut body = IcapBody::new(&mut peer, &head);
    assert_eq!(body.next_chunk().await, Ok(Some(Bytes::from_static(b"hel"))));
    let began_at = Instant::now();
    let timed_out = body.next_chunk().await;
    // By a clock that only moves when nothing else can.
    assert_eq!(began_at.elapsed().as_secs(), 60);
    assert!(matches!(timed_out, Err(IcapError::Refused { status: IcapStatus::Timeout, .. })));
}

#[tokio::test]
async fn an_endless_head_is_refused() {
    let wire = format!("{REQMOD}X: {}", "x".repeat(32 * 1024));
    let mut peer = IcapPeer::new(tokio::io::join(wire.as_bytes(), tokio::io::sink()));
    let read = peer.next_head(&CancellationToken::new()).await;
    assert!(matches!(read, Err(IcapError::Refused { status: IcapStatus::TooLarge, .. })));
}

/// Reads the request inside a message.
async fn received(request: &[u8]) -> Result<Result<String, HeadError>, IcapError> {
    let message = IcapMessage {
        head: parsed(REQMOD, "Encapsulated: req-hdr=0, null-body=44\r\n").unwrap(),
        gateway: GatewayIdentity { token: None, address: [127, 0, 0, 1].into() },
        connection: ClientConnection::new([127, 0, 0, 1].into()),
        request: Bytes::copy_from_slice(request),
        response: Bytes::new(),
        istag: String::new(),
    };
    Ok(message.received().await?.map(|received| received.target().into_owned()))
}

#[tokio::test]
async fn a_head_inside_fills_its_part() {
    let head = "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\n";
    assert!(
        matches!(received(head.as_bytes()).await, Ok(Ok(target)) if target == "http://shop.test/a")
    );
    let twice = format!("{head}{head}");
    for misplaced in [
        &head[..head.len() - 1],
        &head[..20],
        &twice,
        &format!("\r\n{head}"),
        &format!("{head}\r\n"),
    ] {
        assert!(received(misplaced.as_bytes()).await.is_err(), "{misplaced:?}");
    }
}

#[tokio::test]
async fn host_is_that_of_the_target() {
    for (target, host, is_read) in [
        ("http://shop.test/", "shop.test:80", true),
        ("http://SHOP.test:80/", "shop.TEST", true),
        ("https://shop.test:443/", "shop.test", true),
        ("http://user@shop.test:81/", "shop.test:81", true),
        ("http://shop.test/", "other.test", false),
        ("http://shop.test/", "shop.test:81", false),
        ("https://shop.test/", "shop.test:80", false),
        ("http://shop.test/", "", false),
    ] {
        let head = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let read = received(head.as_bytes()).await.unwrap();
        assert_eq!(read.is_ok(), is_read, "{target} {host}");
    }
    let tunnel = b"CONNECT shop.test:443 HTTP/1.1\r\nHost: other.test\r\n\r\n";
    assert!(received(tunnel).await.unwrap().is_ok());
}
