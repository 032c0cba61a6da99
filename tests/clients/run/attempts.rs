//! Attempts to get out of `wayleave run`, or past wayleave: rows of a table, each with the result that stops it.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{self, UnixListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use serde_json::json;

use super::Stage;
use crate::harness::tools::output_of;

const REFUSED: &str = "ECONNREFUSED";
const FORBIDDEN: &str = "EPERM";
const NO_FAMILY: &str = "EAFNOSUPPORT";
const ABSENT: &str = "ENOENT";

/// The attempts of attempts.py, each with its result, or with those of different kernels.
const ROWS: &[(&str, &str)] = &[
    ("tcp to a service of the machine at loopback4", REFUSED),
    ("udp to a service of the machine at loopback4", REFUSED),
    ("tcp to a service of the machine at loopback6", REFUSED),
    ("udp to a service of the machine at loopback6", REFUSED),
    ("tcp to a service of the machine at machine", REFUSED),
    ("udp to a service of the machine at machine", REFUSED),
    ("tcp to 192.0.2.1 port 22", REFUSED),
    ("tcp to 192.0.2.1 port 25", REFUSED),
    ("tcp to 192.0.2.1 port 8080", REFUSED),
    ("tcp to 192.0.2.1 port 8443", REFUSED),
    ("tcp to 10.0.0.1 port 22", REFUSED),
    ("tcp to 10.0.0.1 port 25", REFUSED),
    ("tcp to 10.0.0.1 port 8080", REFUSED),
    ("tcp to 10.0.0.1 port 8443", REFUSED),
    ("tcp to 169.254.169.254 port 22", REFUSED),
    ("tcp to 169.254.169.254 port 25", REFUSED),
    ("tcp to 169.254.169.254 port 8080", REFUSED),
    ("tcp to 169.254.169.254 port 8443", REFUSED),
    ("tcp to 203.0.113.9 port 22", REFUSED),
    ("tcp to 203.0.113.9 port 25", REFUSED),
    ("tcp to 203.0.113.9 port 8080", REFUSED),
    ("tcp to 203.0.113.9 port 8443", REFUSED),
    ("tcp to 2001:db8::1 port 22", REFUSED),
    ("tcp to 2001:db8::1 port 25", REFUSED),
    ("tcp to 2001:db8::1 port 8080", REFUSED),
    ("tcp to 2001:db8::1 port 8443", REFUSED),
    ("tcp to fe80::1%lo port 22", "EINVAL|ECONNREFUSED"),
    ("tcp to fe80::1%lo port 25", "EINVAL|ECONNREFUSED"),
    ("tcp to fe80::1%lo port 8080", "EINVAL|ECONNREFUSED"),
    ("tcp to fe80::1%lo port 8443", "EINVAL|ECONNREFUSED"),
    ("udp to 192.0.2.1", REFUSED),
    ("quic to 192.0.2.1", REFUSED),
    ("dns over tls to 192.0.2.1", REFUSED),
    ("ntp to 192.0.2.1", REFUSED),
    ("udp to 169.254.169.254", REFUSED),
    ("quic to 169.254.169.254", REFUSED),
    ("dns over tls to 169.254.169.254", REFUSED),
    ("ntp to 169.254.169.254", REFUSED),
    ("udp to 2001:db8::1", REFUSED),
    ("quic to 2001:db8::1", REFUSED),
    ("dns over tls to 2001:db8::1", REFUSED),
    ("ntp to 2001:db8::1", REFUSED),
    ("multicast or broadcast to 224.0.0.251", "EINVAL|EACCES|ENETUNREACH"),
    ("multicast or broadcast to 255.255.255.255", "EINVAL|EACCES|ENETUNREACH"),
    ("multicast or broadcast to 239.1.2.3", "EINVAL|EACCES|ENETUNREACH"),
    // Answered inside, with an address that leads nowhere else.
    ("a query carries data out", "198.18"),
    ("a query by tcp carries data out", "198.18"),
    ("dns over https", "502"),
    ("a page at a bare address", "502"),
    ("a page of the machine", "502"),
    ("a page of the metadata service", "502"),
    ("a disallowed page under another name", "403"),
    ("something other than http on port 80", "connected, b'HTTP/1.1 400 Bad "),
    ("something other than tls on port 443", "connected, b'HTTP/1.1 400 Bad "),
    ("a raw icmp socket", FORBIDDEN),
    ("a raw icmpv6 socket", FORBIDDEN),
    ("a raw ip socket", FORBIDDEN),
    ("a ping socket", "EACCES"),
    ("a packet socket", NO_FAMILY),
    ("a packet socket without a link header", NO_FAMILY),
    ("a vsock to the hypervisor", NO_FAMILY),
    ("a bluetooth socket", NO_FAMILY),
    ("a socket of the crypto api", NO_FAMILY),
    ("a tipc socket", NO_FAMILY),
    ("an xdp socket", NO_FAMILY),
    ("an io_uring, whose requests open sockets", "ENOSYS"),
    ("sctp", "EPROTONOSUPPORT|ECONNREFUSED"),
    ("dccp", "ESOCKTNOSUPPORT|EPROTONOSUPPORT|ECONNREFUSED"),
    ("mptcp", "ECONNREFUSED|EPROTONOSUPPORT"),
    ("udp-lite", "ECONNREFUSED|EPROTONOSUPPORT"),
    ("an abstract unix socket outside", REFUSED),
    ("a unix socket outside", REFUSED),
    ("the socket of docker", ABSENT),
    ("the bus of the system", ABSENT),
    ("the manager of the user's services", ABSENT),
    ("processes outside are seen", "none"),
    ("files of the test's process", ABSENT),
    ("memory of the test's process", ABSENT),
    ("root of the test's process", ABSENT),
    ("network of the test's process", ABSENT),
    ("a signal to the test's process", "ESRCH"),
    ("ptrace of process 1", FORBIDDEN),
    ("memory of process 1", "EACCES"),
    ("memory of the kernel", ABSENT),
    ("the network of process 1", "EACCES"),
    ("descriptors that lead out", "none"),
    ("a network namespace of its own", FORBIDDEN),
    ("a mount namespace of its own", FORBIDDEN),
    ("a process namespace of its own", FORBIDDEN),
    ("a namespace inside: its network", "0: curl: (7)"),
    ("a namespace inside: our routes", "2"),
    ("a namespace inside: a device", "1"),
    ("a namespace inside: what is over /run", "32"),
    ("a namespace inside: what is over resolv.conf", "32"),
    ("a namespace inside: what is over a socket", "32"),
    ("a namespace inside: the whole machine's mounts", "32"),
    ("a namespace inside: the network of process 1", "1"),
    ("su", "failed"),
    ("mount", "failed"),
    ("chroot", "failed"),
    ("umount of /run", "failed"),
    ("nsenter of process 1", "failed"),
    ("a new address", "failed"),
    ("a new route", "failed"),
    ("a packet filter", "failed"),
    ("a name of the machine", "failed"),
    ("a service of systemd", "failed"),
    ("a service of the user's systemd", "failed"),
    ("interfaces", "lo"),
    ("an internal name", "198.18"),
];

/// Services outside, which count whatever reaches them.
struct Outside {
    reached: Arc<AtomicUsize>,
}

impl Outside {
    fn start() -> Self {
        Self { reached: Arc::default() }
    }

    /// Listens by TCP and UDP on a port of `address`, which is `None` if the machine has no such address.
    fn listen(&self, address: &str) -> Option<SocketAddr> {
        let address: IpAddr = address.parse().expect("an address");
        let tcp = TcpListener::bind((address, 0)).ok()?;
        let bound = tcp.local_addr().expect("it is bound");
        let udp = UdpSocket::bind(bound).expect("no other test uses UDP");
        self.count(move || tcp.accept().map(drop));
        self.count(move || udp.recv_from(&mut [0]).map(drop));
        Some(bound)
    }

    fn listen_unix(&self, address: &net::SocketAddr) {
        let listener = UnixListener::bind_addr(address).expect("nobody has it");
        self.count(move || listener.accept().map(drop));
    }

    fn count(&self, receive: impl Fn() -> std::io::Result<()> + Send + 'static) {
        let reached = Arc::clone(&self.reached);
        std::thread::spawn(move || {
            while receive().is_ok() {
                reached.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
}

/// Returns an address of this machine that is not loopback.
fn own_address() -> Option<String> {
    // No packet is sent: this only chooses a route.
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip().to_string())
}

/// Makes all attempts in one run. Returns their results.
fn results() -> &'static BTreeMap<String, String> {
    static RESULTS: OnceLock<BTreeMap<String, String>> = OnceLock::new();
    RESULTS.get_or_init(|| {
        let stage = Stage::new();
        let outside = Outside::start();
        let abstract_name = format!("wayleave-attempts-{}", std::process::id());
        let unix = stage.dir.path().join("service.sock");
        outside.listen_unix(&net::SocketAddr::from_pathname(&unix).expect("a path"));
        outside.listen_unix(&net::SocketAddr::from_abstract_name(&abstract_name).expect("a name"));
        let place = |address: &str| {
            let bound = outside.listen(address);
            bound.map(|bound| (bound.ip().to_string(), bound.port()))
        };
        let outside_places = json!({
            "loopback4": place("127.0.0.1"),
            "loopback6": place("::1"),
            "machine": own_address().and_then(|address| place(&address)),
            "abstract": abstract_name,
            "unix": unix,
            "pid": std::process::id(),
        });
        let script = super::copy_script("attempts.py", stage.dir.path()).display().to_string();
        let words = ["/usr/bin/python3", &*script, &*outside_places.to_string()];
        // Not root, who may make fewer namespaces inside.
        let printed = output_of(&mut stage.command_of_user(&words), b"", super::LIMIT);
        assert_eq!(
            outside.reached.load(Ordering::SeqCst),
            0,
            "services outside were reached: {printed}"
        );
        let seen = stage.origin.seen();
        assert!(seen.iter().all(|line| line.ends_with("/robots.txt")), "{seen:?}");
        let row = |line| serde_json::from_str::<(String, String)>(line).expect("a row");
        printed.lines().map(row).collect()
    })
}

/// Returns whether a result is the expected one; that of a script is its status, then a colon and what it printed.
fn is_result(result: &str, expected: &str) -> bool {
    result == expected || result.split_once(':').is_some_and(|(status, _)| status == expected)
}

#[test]
fn no_attempt_gets_out() {
    let results = results();
    let mut different = Vec::new();
    for (name, expected) in ROWS {
        match results.get(*name) {
            Some(result) if expected.split('|').any(|one| is_result(result, one)) => {}
            Some(result) => different.push(format!("{name}: {result}, not {expected}")),
            // A machine without IPv6, or without a network.
            None if name.contains("at loopback6") || name.contains("at machine") => {}
            None => different.push(format!("{name}: not tried")),
        }
    }
    let unknown = results.keys().filter(|name| !ROWS.iter().any(|(row, _)| row == name));
    different.extend(unknown.map(|name| format!("{name}: not in the table")));
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn there_are_a_hundred_attempts() {
    assert!(ROWS.len() >= 100, "{}", ROWS.len());
}
