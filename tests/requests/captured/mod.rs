//! Clients that know no HTTP proxy: SOCKS5, and connections that the kernel brings.

mod clients;
mod kernel;
mod socks5;

use std::net::{IpAddr, SocketAddr};

use crate::harness::wayleave::Settings;
use crate::harness::{Origin, Request, Response, Wayleave, Wire, eventually};

/// "Succeeded", with the unspecified address.
const SUCCEEDED: [u8; 10] = [5, 0, 0, 1, 0, 0, 0, 0, 0, 0];

/// A proxy with a listener for HTTP and one for SOCKS5.
pub struct SocksProxy {
    pub proxy: Wayleave,
    pub socks: SocketAddr,
}

/// Starts such a proxy. The origin's `shop.test` disallows `/private`, and `closed.test` everything.
pub fn start(origin: &Origin, change: impl FnOnce(Settings) -> Settings) -> SocksProxy {
    origin.site("shop.test").disallows("/private");
    origin.site("closed.test").disallows("/");
    let proxy = Wayleave::start_with(origin, |settings| {
        change(settings.set("proxy.listen", "[\"127.0.0.1:0\", \"socks5://127.0.0.1:0\"]"))
    });
    let socks = listener(&proxy, "socks5");
    SocksProxy { proxy, socks }
}

/// Returns the address of the listener for this protocol.
fn listener(proxy: &Wayleave, protocol: &str) -> SocketAddr {
    let text = proxy.log();
    let line = text.lines().find_map(|line| line.split_once(&format!("{protocol}://")));
    let (_, address) = line.expect("the listener is announced");
    address.trim().parse().expect("an address")
}

/// Returns a SOCKS5 request, after its command, for a name or an address.
fn destination(host: &str, port: u16) -> Vec<u8> {
    let host = match host.parse() {
        Ok(IpAddr::V4(address)) => [&[1][..], &address.octets()].concat(),
        Ok(IpAddr::V6(address)) => [&[4][..], &address.octets()].concat(),
        Err(_) => {
            let length = u8::try_from(host.len()).expect("a short name");
            [&[3, length], host.as_bytes()].concat()
        }
    };
    [host, port.to_be_bytes().to_vec()].concat()
}

impl SocksProxy {
    /// Sends a command without authentication, and returns the connection and the reply code.
    fn request(&self, command: u8, host: &str, port: u16) -> (Wire, u8) {
        let mut wire = Wire::connect(self.socks);
        wire.send([5, 1, 0]);
        assert_eq!(wire.bytes(2), [5, 0]);
        wire.send([&[5, command, 0][..], &destination(host, port)].concat());
        let reply = wire.bytes(10);
        assert_eq!((reply[0], &reply[2..]), (5, &SUCCEEDED[2..]), "{reply:?}");
        (wire, reply[1])
    }

    #[track_caller]
    pub fn open(&self, host: &str, port: u16) -> Wire {
        let (wire, code) = self.request(1, host, port);
        assert_eq!(code, 0, "{host}:{port}");
        wire
    }

    /// Opens a connection, and TLS with the proxy inside.
    #[track_caller]
    fn open_tls(&self, host: &str, port: u16, server_name: &str) -> Wire {
        let tls = self.open(host, port).start_tls(server_name, &self.proxy.ca_pem(), &["http/1.1"]);
        tls.expect("the leaf is trusted through the CA").wire
    }

    fn captured(&self, result: &str) -> f64 {
        captured(&self.proxy, "socks5", result)
    }

    /// Waits until as many connections have this result.
    #[track_caller]
    pub fn expect_captured(&self, result: &str, count: usize) {
        eventually(&format!("{count} connections are {result}"), || {
            self.captured(result) == count as f64
        });
    }

    #[track_caller]
    pub fn expect_refused(&self, reason: &str, count: usize) {
        eventually(&format!("{count} refusals because of {reason}"), || {
            refused(&self.proxy, reason) == count as f64
        });
    }
}

fn captured(proxy: &Wayleave, listener: &str, result: &str) -> f64 {
    let labels = [("listener", listener), ("result", result)];
    proxy.metric("wayleave_captured_connections_total", &labels)
}

pub fn refused(proxy: &Wayleave, reason: &str) -> f64 {
    proxy.metric("wayleave_requests_total", &[("outcome", "refused"), ("reason", reason)])
}

/// Sends a request as to an origin, and returns the response.
pub fn get(wire: &mut Wire, url: &str) -> Response {
    wire.send(Request::get(url).origin_form());
    wire.response()
}

#[track_caller]
fn expect_disallowed(answer: &Response) {
    let problem = answer.expect_refusal(403, None, "http_request_denied");
    assert_eq!(problem["reason"], "rule", "{problem}");
}
