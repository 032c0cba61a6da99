//! `ftp:` URLs at their limits: a file as large as memory, IPv6, a crawler's own address, and servers that drip.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use super::ftp::{Scripted, correct_reply, get, passive, pyftpd_at, start, vsftpd};
use super::programs::Program;
use crate::harness::crawler::crawler;
use crate::harness::{Origin, Request, Wayleave};

const GIBIBYTE: u64 = 1 << 30;
/// The memory that a download may use in addition to the proxy itself.
const FLAT_KIB: u64 = 32 * 1024;

/// Adds a sparse file of a gibibyte to the files of a server.
fn with_gibibyte(server: Program) -> Program {
    let path = server.dir.path().join("root/pub/gibibyte");
    let file = File::create(path).expect("it can be made");
    file.set_len(GIBIBYTE).expect("a sparse file");
    server
}

#[test]
fn a_gibibyte_streams_flat() {
    for server in [vsftpd(), pyftpd_at([127, 0, 0, 1].into(), &[])] {
        let server = with_gibibyte(server);
        let proxy = start(server.address);
        assert_eq!(get(&proxy, "/pub/a%20b.txt").status, 200);
        let before = proxy.memory_kib("VmHWM");
        let url = "ftp://files.test/pub/gibibyte";
        let mut wire = proxy.connect();
        wire.send(Request::get(url).header("Host", "files.test").absolute_form());
        let mut head = wire.response_head();
        assert_eq!(head.status, 200);
        let counted = wire.counted_body(&mut head).expect("the whole file arrives");
        assert_eq!(counted.length, GIBIBYTE);
        let grown = proxy.memory_kib("VmHWM").saturating_sub(before);
        println!("a gibibyte by FTP: {grown} KiB more at most");
        assert!(grown < FLAT_KIB, "{grown} KiB");
    }
}

#[test]
fn ftp_uses_ipv6_and_the_crawlers_own_address() {
    let server = pyftpd_at(Ipv6Addr::LOCALHOST.into(), &[]);
    let proxy = start_with(server.address, "");
    assert_eq!(get(&proxy, "/pub/a%20b.txt").text(), "hello");
    assert_eq!(get(&proxy, "/pub/").status, 200);
    assert_eq!(get(&proxy, "/private/x.txt").status, 403);
    // This server refuses data connections from another address than the control connection's.
    let server = pyftpd_at([127, 0, 0, 1].into(), &[]);
    let crawler = crawler("news", "NewsBot").set("source_address", "127.0.0.7");
    let proxy = start_with(server.address, &crawler.into_toml());
    let file = proxy.get_as("NewsBot/1.0", "ftp://files.test/pub/a%20b.txt");
    assert_eq!(file.text(), "hello");
    let logged = server.read("out");
    for file in ["a b.txt", "robots.txt"] {
        let mut lines = logged.lines();
        assert!(lines.any(|line| line.contains("127.0.0.7:") && line.contains(file)), "{logged}");
    }
}

fn start_with(server: SocketAddr, table: &str) -> Wayleave {
    let origin = Origin::start();
    Wayleave::start_with(&origin, |settings| {
        settings
            .set("upstream.allow_private", "[\"127.0.0.0/8\", \"::1/128\"]")
            .resolve("files.test:21", server)
            .table(table)
    })
}

/// Sends one byte after another, slowly, until the client closes.
fn drip(mut stream: &TcpStream, byte: u8) {
    stream.set_read_timeout(Some(Duration::from_millis(100))).expect("not zero");
    let mut buffer = [0; 64];
    loop {
        // Nothing arrives: the timeout is the pause between bytes.
        let waited = stream.read(&mut buffer);
        if matches!(waited, Ok(0)) || stream.write_all(&[byte]).is_err() {
            return;
        }
    }
}

#[test]
fn a_listing_that_drips_is_given_up_in_time() {
    let pasv = passive(|stream| drip(&stream, b'x'));
    let server = Scripted::start(move |command| match command.split(' ').next() {
        Some("PASV") => Some(pasv.clone()),
        Some("MLSD") => Some("150 here\r\n".to_owned()),
        Some("RETR") => Some("550 none\r\n".to_owned()),
        _ => correct_reply(command),
    });
    let proxy = start(server.address);
    get(&proxy, "/pub/").expect_refusal(504, None, "http_response_timeout");
}

#[test]
fn replies_that_drip_are_given_up_in_time() {
    for byte in *b"2\n-" {
        let control = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = control.local_addr().expect("it is bound");
        std::thread::spawn(move || {
            for stream in control.incoming() {
                let stream = stream.expect("a connection");
                std::thread::spawn(move || drip(&stream, byte));
            }
        });
        let refused = get(&start(address), "/pub/a.txt");
        refused.expect_unreachable("ftp://files.test/robots.txt");
    }
}
