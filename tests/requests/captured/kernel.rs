//! Connections that the kernel brings: a gateway with nftables, and three machines behind it, each a network namespace.

use std::time::Duration;

use super::{captured, listener, refused};
use crate::harness::tools::{clean, sbin, status_and_output, test_in_namespaces};
use crate::harness::{Origin, Wayleave, Wire, eventually};

/// Set inside the namespaces.
const INSIDE: &str = "WAYLEAVE_TEST_GATEWAY";

/// The gateway, whose rules redirect what is for two addresses, hand over what is for two others, and catch its own traffic to a
/// fifth.
const SETUP: &str = r#"
set -eu
PATH=$PATH:/usr/sbin:/sbin
mount -t tmpfs tmpfs /run
ip link set lo up
for n in 1 2 3; do
    ip netns add client$n
    ip link add v$n type veth peer name eth0 netns client$n
    ip address add 10.77.$n.1/24 dev v$n
    ip address add fd77:$n::1/64 dev v$n nodad
    ip link set v$n up
    ip -n client$n address add 10.77.$n.2/24 dev eth0
    ip -n client$n address add fd77:$n::2/64 dev eth0 nodad
    ip -n client$n link set lo up
    ip -n client$n link set eth0 up
    ip -n client$n route add default via 10.77.$n.1
    ip -n client$n route add default via fd77:$n::1
done
nft -f - <<'RULES'
table inet capture {
    chain redirected {
        type nat hook prerouting priority dstnat; policy accept;
        ip daddr 203.0.113.10 tcp dport { 80, 443 } redirect to :3131
        ip6 daddr 2001:db8::10 tcp dport { 80, 443 } redirect to :3131
    }
    chain transparent {
        type filter hook prerouting priority mangle; policy accept;
        ip daddr 203.0.113.20 tcp dport { 80, 443 } tproxy ip to :3132 meta mark set 1 accept
        ip6 daddr 2001:db8::20 tcp dport { 80, 443 } tproxy ip6 to :3132 meta mark set 1 accept
    }
    chain own {
        type nat hook output priority -100; policy accept;
        ip daddr 203.0.113.30 tcp dport { 80, 443 } redirect to :3131
    }
}
RULES
ip route add 203.0.113.30 via 10.77.1.2
ip rule add fwmark 1 lookup 100
ip route add local default dev lo table 100
ip -6 rule add fwmark 1 lookup 100
ip -6 route add local default dev lo table 100
exec "$0" "$@"
"#;

#[test]
fn a_gateway_captures_what_the_kernel_brings() {
    if std::env::var_os(INSIDE).is_some() {
        let gateway = Gateway::start();
        gateway.check_clients();
        gateway.check_addresses();
        gateway.check_straight_connections();
        gateway.check_loops();
        return;
    }
    let test = "requests::captured::kernel::a_gateway_captures_what_the_kernel_brings";
    let options = ["--mount", "--propagation", "private"];
    test_in_namespaces(&options, SETUP, test, INSIDE, Duration::from_secs(600));
}

struct Gateway {
    origin: Origin,
    proxy: Wayleave,
}

impl Gateway {
    fn start() -> Self {
        let origin = Origin::start();
        origin.site("shop.test").disallows("/private");
        let listen = "[\"127.0.0.1:0\", \"redirect://[::]:3131\", \"tproxy://[::]:3132\"]";
        let proxy = Wayleave::start_with(&origin, |settings| {
            settings
                .set("proxy.listen", listen)
                .set("https.bypass", "[\"loop.test\"]")
                .set("upstream.allow_private", "[\"127.0.0.1/32\", \"203.0.113.30/32\"]")
                .resolve("loop.test:80", ([203, 0, 113, 30], 80).into())
                .resolve("loop.test:443", ([203, 0, 113, 30], 443).into())
        });
        assert_eq!(listener(&proxy, "tproxy").port(), 3132);
        Self { origin, proxy }
    }

    /// Runs curl on the machine of this number, with `shop.test` at `address`. Returns what it prints.
    fn curl(&self, machine: usize, address: &str, arguments: &[&str]) -> String {
        let mut command = clean(sbin("ip"));
        command.args(["netns", "exec", &format!("client{machine}"), "curl"]);
        command.args(["-q", "-sS", "--max-time", "60", "-w", " %{http_code}\n", "--cacert"]);
        command.arg(self.proxy.ca_file());
        for port in [80, 443] {
            command.args(["--resolve", &format!("shop.test:{port}:{address}")]);
        }
        status_and_output(command.args(arguments)).1
    }

    /// Every machine is judged, by HTTP and HTTPS, over IPv4 and IPv6, and the log has its address.
    fn check_clients(&self) {
        for machine in 1..=3 {
            for address in ["203.0.113.10", "203.0.113.20", "[2001:db8::10]", "[2001:db8::20]"] {
                for scheme in ["http", "https"] {
                    let open = format!("{scheme}://shop.test/{machine}/{}", address.len());
                    let private = format!("{scheme}://shop.test/private");
                    let printed = self.curl(machine, address, &[&open, &private]);
                    assert!(printed.contains(" 200\n"), "{machine} {address} {scheme}: {printed}");
                    assert!(printed.contains(" 403\n"), "{machine} {address} {scheme}: {printed}");
                }
            }
        }
        assert!(!self.origin.seen().iter().any(|line| line.contains("/private")));
        for listener in ["redirect", "tproxy"] {
            for result in ["http", "tls"] {
                assert_eq!(captured(&self.proxy, listener, result), 6.0, "{listener} {result}");
            }
        }
        let answer = self.proxy.admin_get("/v1/decisions?limit=100").json();
        let decisions = answer["decisions"].as_array().expect("a list");
        assert_eq!(decisions.len(), 48, "{answer}");
        for decision in decisions.iter().filter(|it| it["outcome"] == "forwarded") {
            let url = decision["url"].as_str().expect("a URL");
            let mut parts = url.rsplit('/');
            let (length, machine) = (parts.next(), parts.next().expect("the machine"));
            let expected = if length == Some("12") {
                format!("10.77.{machine}.2")
            } else {
                format!("fd77:{machine}::2")
            };
            assert_eq!(decision["client"], expected, "{decision}");
        }
    }

    /// Checks that connections without a name are decided by the address that was dialled.
    fn check_addresses(&self) {
        for address in ["203.0.113.10", "203.0.113.20"] {
            for scheme in ["http", "https"] {
                let printed = self.curl(1, address, &["-k", &format!("{scheme}://{address}/")]);
                assert!(printed.contains("destination_ip_prohibited"), "{address}: {printed}");
            }
        }
    }

    fn check_straight_connections(&self) {
        for (count, port) in [(1, 3131), (2, 3132)] {
            let printed = self.curl(1, "10.77.1.1", &[&format!("http://10.77.1.1:{port}/")]);
            assert!(printed.contains("not-redirected") && printed.contains(" 400\n"), "{printed}");
            assert_eq!(refused(&self.proxy, "not-redirected"), f64::from(count));
        }
        for listener in ["redirect", "tproxy"] {
            assert_eq!(captured(&self.proxy, listener, "not-redirected"), 1.0, "{listener}");
        }
    }

    /// The kernel brings back what the proxy itself sends, by mistake.
    fn check_loops(&self) {
        for (count, host) in [(1, "loop.test"), (2, "203.0.113.30")] {
            let bypass = format!("[{host:?}]");
            self.proxy.reload(&self.proxy.settings.clone().set("https.bypass", &bypass));
            let mut wire = self.proxy.connect();
            assert_eq!(wire.connect_tunnel(&format!("{host}:443")).status, 200);
            assert!(wire.start_tls(host, &self.proxy.ca_pem(), &[]).is_err(), "{host}");
            eventually("the loop is noticed", || {
                refused(&self.proxy, "proxy_loop_detected") >= f64::from(count)
            });
        }
        let answer = self.proxy.get("http://loop.test/a");
        assert!(answer.status >= 500, "{answer:?}");
        let mut open = Wire::connect(self.proxy.proxy);
        open.send_get("http://shop.test/after");
        assert_eq!(open.response().status, 200);
    }
}
