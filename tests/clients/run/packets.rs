//! What leaves the machine while a command runs: a packet counter outside its namespaces.

use std::process::Command;
use std::time::Duration;

use super::{OPEN, Stage};
use crate::harness::tools::{clean, output_of, program, sbin, test_in_namespaces};

/// Set inside the machine.
const INSIDE: &str = "WAYLEAVE_TEST_MACHINE";

/// A machine whose network takes everything and leads nowhere.
const SETUP: &str = r#"
set -eu
PATH=$PATH:/usr/sbin:/sbin
ip link set lo up
ip link add net0 type veth peer name net1
ip address add 10.78.0.1/24 dev net0
ip link set net0 up
ip link set net1 up
ip route add default dev net0
exec "$0" "$@"
"#;

/// An allowed page by HTTP and HTTPS, and what else a client might try.
const COMMAND: &str = "
curl -sS http://shop.test/open https://shop.test/open
curl -s -m 5 http://192.0.2.1:8080/ http://192.0.2.1/ https://192.0.2.1/
for to in tcp/192.0.2.1/22 udp/192.0.2.1/53 udp/192.0.2.1/443; do
    bash -c \"echo leak > /dev/$to\"
done
getent hosts leak.example
true";

#[test]
fn no_packet_leaves_but_those_of_the_proxy() {
    if std::env::var_os(INSIDE).is_some() {
        count_packets();
        return;
    }
    let test = "clients::run::packets::no_packet_leaves_but_those_of_the_proxy";
    test_in_namespaces(&[], SETUP, test, INSIDE, Duration::from_secs(600));
}

fn count_packets() {
    let stage = Stage::new();
    let ports = format!("{{ {}, {} }}", stage.origin.http.port(), stage.origin.https.port());
    let rules = format!(
        "table inet packets {{
            counter others {{ }}
            chain output {{
                type filter hook output priority 0;
                tcp dport {ports} accept
                tcp sport {ports} accept
                meta l4proto icmpv6 accept
                counter name others
            }}
        }}"
    );
    output_of(nft().args(["-f", "-"]), rules.as_bytes(), super::LIMIT);
    let (printed, errors) = stage.shell(COMMAND);
    assert_eq!(printed.matches(OPEN).count(), 2, "{printed} {errors}");
    assert!(packets_counted().contains("packets 0 "), "{}", packets_counted());

    // The counter would have seen them.
    let mut outside = clean(program("bash"));
    output_of(outside.args(["-c", "echo leak > /dev/udp/192.0.2.1/53"]), b"", super::LIMIT);
    assert!(packets_counted().contains("packets 1 "), "{}", packets_counted());
}

fn nft() -> Command {
    clean(sbin("nft"))
}

fn packets_counted() -> String {
    output_of(nft().args(["list", "counters"]), b"", super::LIMIT)
}
