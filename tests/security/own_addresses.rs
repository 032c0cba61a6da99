//! Requests to public addresses of the proxy's own machine, in a separate network namespace, which has some.

use std::time::Duration;

use super::internal::check_refused;
use crate::harness::tools::test_in_namespaces;
use crate::harness::{Origin, Wayleave};

/// Set inside the network namespace.
const INSIDE: &str = "WAYLEAVE_TEST_OWN_NETWORK";

/// Addresses of all kinds: alone, two of one network, of IPv6, and a network that a route makes local.
const SETUP: &str = "ip link set lo up && ip address add 9.9.9.9/32 dev lo && ip address add 9.9.8.8/24 dev lo \
    && ip address add 9.9.8.9/24 dev lo && ip address add 2600::9/128 dev lo && ip route add local 9.1.0.0/16 dev lo \
    && exec \"$0\" \"$@\"";

#[test]
fn addresses_of_the_proxys_own_machine_are_internal() {
    if std::env::var_os(INSIDE).is_some() {
        own_addresses_are_internal();
        foreign_addresses_that_can_be_bound_are_not();
        return;
    }
    let test = "security::own_addresses::addresses_of_the_proxys_own_machine_are_internal";
    test_in_namespaces(&[], SETUP, test, INSIDE, Duration::from_secs(300));
}

fn own_addresses_are_internal() {
    let origin = Origin::start();
    let service = Origin::start_at("::");
    let port = service.http.port();
    let named = [("mine.example", "9.9.9.9"), ("mapped.example", "::ffff:9.9.8.8")];
    let proxy = Wayleave::start_with(&origin, |settings| {
        named.iter().fold(settings, |settings, (name, address)| {
            settings.set(&format!("dns.overrides.{name:?}"), &format!("{address:?}"))
        })
    });
    for host in [
        "9.9.9.9",
        "9.9.8.8",
        "9.9.8.9",
        "9.1.2.3",
        "[2600::9]",
        "[::ffff:9.9.9.9]",
        "[64:ff9b::9.9.9.9]",
        "[2002:909:909::1]",
        "0.0.0.0",
        "[::]",
        "mine.example",
        "mapped.example",
    ] {
        check_refused(host, &proxy, host, port);
    }
    assert_eq!(service.connections(), 0, "{:?}", service.seen());
    let open = Wayleave::start_with(&origin, |settings| {
        settings.set("upstream.allow_private", "[\"9.9.9.9/32\"]")
    });
    assert_eq!(open.get(&format!("http://9.9.9.9:{port}/a")).status, 200);
    check_refused("9.9.8.8", &open, "9.9.8.8", port);
}

/// Machines that take over addresses from each other can bind addresses that are not theirs.
fn foreign_addresses_that_can_be_bound_are_not() {
    for family in ["ipv4", "ipv6"] {
        let path = format!("/proc/sys/net/{family}/ip_nonlocal_bind");
        std::fs::write(path, "1").expect("the namespace is separate");
    }
    let origin = Origin::start();
    let service = Origin::start_at("::");
    let port = service.http.port();
    let proxy = Wayleave::start(&origin);
    for host in ["9.9.9.9", "9.9.8.9", "9.1.2.3", "[2600::9]", "[2002:909:909::1]"] {
        check_refused(host, &proxy, host, port);
    }
    for host in ["8.8.8.8", "[2600::8]"] {
        let url = format!("http://{host}:{port}");
        let answer = proxy.get(&format!("{url}/a"));
        answer.expect_unreachable(&format!("{url}/robots.txt"));
    }
    assert_eq!(service.connections(), 0, "{:?}", service.seen());
}
