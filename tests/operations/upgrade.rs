//! A new process replaces an old one without any client noticing.

use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::harness::client::Secured;
use crate::harness::h2_frames::{DATA, connect, frame, open_proxied};
use crate::harness::ports::free_address;
use crate::harness::tls::Authority;
use crate::harness::wayleave::{BINARY, Settings};
use crate::harness::{Gate, Origin, Reply, Request, Wayleave, Wire, eventually};
use crate::requests::tls_listener::write_certificate;

/// Returns a shell that becomes the binary with `listener` as its inherited socket (sd_listen_fds(3)).
fn inheriting(listener: &TcpListener) -> Command {
    let socket = listener.try_clone().expect("a socket can be duplicated");
    let mut shell = Command::new("sh");
    shell
        .arg("-c")
        .arg("exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\"")
        .arg(BINARY)
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(socket)));
    shell
}

/// Sends requests, each on a new connection, until `done`, and counts the responses.
fn send_until(done: &AtomicBool, proxy: SocketAddr, served: &AtomicUsize) {
    while !done.load(Ordering::SeqCst) {
        let mut wire = Wire::connect(proxy);
        wire.send_get("http://shop.test/a");
        assert_eq!(wire.response().status, 200);
        served.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_new_process_takes_over_the_socket_without_refusals() {
    let origin = Origin::start();
    let gate = Gate::closed();
    origin.site("shop.test").page("/slow", Reply::in_halves(&gate));
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("a bound socket has an address");
    let settings = |settings: Settings| settings.set("proxy.listen", &format!("[\"{address}\"]"));
    let dir = tempfile::tempdir().expect("a directory");
    let (mut old, settings) =
        Wayleave::start_inheriting(inheriting(&socket), &origin, &dir, settings);
    let mut download = Wire::connect(address);
    download.send_get("http://shop.test/slow");
    download.response_head();

    let (done, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    let wait_for_more = || {
        let before = served.load(Ordering::SeqCst);
        eventually("clients are served", || served.load(Ordering::SeqCst) > before + 20);
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> =
            (0..4).map(|_| scope.spawn(|| send_until(&done, address, &served))).collect();
        wait_for_more();
        // The new process waits until the old one closes the store; clients wait in the queue of the socket.
        let new = scope.spawn(|| Wayleave::replace(inheriting(&socket), &dir, &settings));
        old.signal("TERM");
        eventually("the old one stops", || old.log().contains("stopping"));
        assert!(old.is_running(), "a download is in progress");
        gate.open();
        assert_eq!(download.bytes(22), b"first half,second half");
        assert_eq!(old.wait().code(), Some(0));
        let new = new.join().expect("the new one starts");
        wait_for_more();
        assert_ne!(new.pid(), old.pid());
        done.store(true, Ordering::SeqCst);
        for client in clients {
            client.join().expect("no request failed");
        }
    });
    // The new process did not fetch again what the old one had learned.
    let seen = origin.seen();
    let fetched = seen.iter().filter(|line| line.ends_with("/robots.txt"));
    assert_eq!(fetched.count(), 1);
}

#[test]
fn the_admin_address_is_taken_over_with_the_socket() {
    let origin = Origin::start();
    let gate = Gate::closed();
    origin.site("shop.test").page("/slow", Reply::in_halves(&gate));
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("a bound socket has an address");
    let admin = free_address();
    let dir = tempfile::tempdir().expect("a directory");
    let (mut old, settings) =
        Wayleave::start_inheriting(inheriting(&socket), &origin, &dir, |settings| {
            settings
                .set("proxy.listen", &format!("[\"{address}\"]"))
                .set("admin.listen", &format!("\"{admin}\""))
        });
    let mut download = Wire::connect(address);
    download.send_get("http://shop.test/slow");
    download.response_head();
    std::thread::scope(|scope| {
        let new = scope.spawn(|| Wayleave::replace(inheriting(&socket), &dir, &settings));
        old.signal("TERM");
        eventually("the old one reports that it stops", || old.admin_get("/readyz").status == 503);
        gate.open();
        assert_eq!(download.bytes(22), b"first half,second half");
        assert_eq!(old.wait().code(), Some(0));
        let new = new.join().expect("the new one starts");
        assert_eq!(new.admin, admin);
        assert_eq!(new.admin_get("/livez").status, 200);
        assert_eq!(new.get("http://shop.test/a").status, 200);
    });
}

#[test]
fn an_ordinary_start_does_not_wait_for_a_taken_address() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let admin = taken.local_addr().expect("a bound socket has an address");
    let dir = tempfile::tempdir().expect("a directory");
    let text = format!("proxy.listen = [\"127.0.0.1:0\"]\nadmin.listen = \"{admin}\"\n");
    std::fs::write(dir.path().join("config.toml"), text).expect("writable");
    let output =
        crate::harness::wayleave::command().current_dir(dir.path()).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains(&format!("listening on {admin}")), "{stderr}");
}

fn connect_tls(address: SocketAddr, protocol: &str) -> Secured {
    let roots = Authority::trusted().pem.as_bytes();
    let secured = Wire::connect(address).start_tls("localhost", roots, &[protocol]);
    secured.expect("the proxy is trusted")
}

/// Opens a tunnel to `shop.test:80` as the first stream of a new connection.
fn tunnel(address: SocketAddr) -> Wire {
    let mut wire = open_proxied(address);
    wire.send(connect(1, "shop.test:80"));
    assert!(wire.stream_is_200(1));
    wire
}

#[test]
fn a_tls_listener_is_taken_over_with_a_new_certificate() {
    let origin = Origin::start();
    let gate = Gate::closed();
    origin.site("shop.test").page("/slow", Reply::in_halves(&gate));
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("a bound socket has an address");
    let dir = tempfile::tempdir().expect("a directory");
    write_certificate(dir.path(), "localhost");
    let listen = format!("[\"127.0.0.1:0\", \"https://{address}\"]");
    let settings = |settings: Settings| {
        let settings = settings.set("proxy.listen", &listen);
        let settings = settings.set("proxy.certificate", "\"proxy.crt\"");
        settings.set("proxy.key", "\"proxy.key\"")
    };
    let (mut old, settings) =
        Wayleave::start_inheriting(inheriting(&socket), &origin, &dir, settings);
    let connect = |protocol: &str| connect_tls(address, protocol);
    let slow = "http://shop.test/slow";
    let mut download = connect("http/1.1");
    let first = download.chain[0].clone();
    download.wire.send_get(slow);
    download.wire.response_head();
    // Again, as an HTTP/2 stream inside a tunnel.
    let mut streams = tunnel(address);
    streams.send(frame(DATA, 0, 1, &Request::get(slow).origin_form()));
    assert!(streams.data(1).starts_with(b"HTTP/1.1 200 "));

    write_certificate(dir.path(), "localhost");
    eventually("the old one uses the new certificate", || connect("http/1.1").chain[0] != first);
    let second = connect("h2").chain[0].clone();
    std::thread::scope(|scope| {
        let new = scope.spawn(|| Wayleave::replace(inheriting(&socket), &dir, &settings));
        old.signal("TERM");
        eventually("the old one stops", || old.log().contains("stopping"));
        // New connections now wait in the queue of the socket for the new process.
        let late = scope.spawn(|| {
            let mut late = connect("http/1.1");
            late.wire.send_get("http://shop.test/a");
            (late.wire.response().status, late.chain[0].clone())
        });
        assert!(old.is_running(), "downloads are in progress");
        gate.open();
        assert_eq!(download.wire.bytes(22), b"first half,second half");
        let mut through = Vec::new();
        while !through.ends_with(b"second half") {
            through.extend(streams.data(1));
        }
        assert_eq!(old.wait().code(), Some(0));
        let _new = new.join().expect("the new one starts");
        assert_eq!(late.join().expect("it is served"), (200, second));
        tunnel(address);
    });
    let seen = origin.seen();
    let fetched = seen.iter().filter(|line| line.ends_with("/robots.txt"));
    assert_eq!(fetched.count(), 1, "{seen:?}");
}
