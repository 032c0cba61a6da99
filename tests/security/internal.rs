//! Internal addresses in every spelling, and the refusals that requests for them get.

use crate::harness::dns::{Answer, NameServer};
use crate::harness::{Origin, Request, Wayleave};

/// Spellings of prohibited addresses. The port is that of an origin at 127.0.0.2.
#[rustfmt::skip]
const SPELLINGS: &[(&str, &str)] = &[
    ("loopback", "127.0.0.2"),
    ("loopback as one number", "2130706434"),
    ("loopback in hexadecimal", "0x7f000002"),
    ("loopback in octal", "0177.0.0.2"),
    ("loopback in two parts", "127.2"),
    ("loopback in three parts", "127.0.2"),
    ("loopback in mixed radices", "0x7f.0.0.02"),
    ("loopback with a trailing dot", "127.0.0.2."),
    ("loopback, escaped", "%31%32%37.0.0.2"),
    ("loopback in full-width digits", "%EF%BC%91%EF%BC%92%EF%BC%97.0.0.2"),
    ("loopback, mapped into IPv6", "[::ffff:127.0.0.2]"),
    ("loopback, mapped into IPv6 in hexadecimal", "[::ffff:7f00:2]"),
    ("loopback, compatible with IPv6", "[::127.0.0.2]"),
    ("loopback behind NAT64", "[64:ff9b::127.0.0.2]"),
    ("loopback behind local NAT64", "[64:ff9b:1::127.0.0.2]"),
    ("loopback behind 6to4", "[2002:7f00:2::]"),
    ("loopback behind Teredo", "[2001:0:7f00:2::1]"),
    ("IPv6 loopback", "[::1]"),
    ("IPv6 loopback at full length", "[0:0:0:0:0:0:0:1]"),
    ("IPv6 unspecified", "[::]"),
    ("unspecified", "0.0.0.0"),
    ("unspecified as one digit", "0"),
    ("this network", "0.1.2.3"),
    ("private 10", "10.0.0.1"),
    ("private 172", "172.16.0.1"),
    ("private 192", "192.168.0.1"),
    ("carrier-grade NAT", "100.64.0.1"),
    ("link-local", "169.254.1.1"),
    ("cloud metadata", "169.254.169.254"),
    ("cloud metadata as one number", "2852039166"),
    ("cloud metadata over IPv6", "[fd00:ec2::254]"),
    ("IPv6 link-local", "[fe80::1]"),
    ("IPv6 site-local", "[fec0::1]"),
    ("IPv6 unique local", "[fc00::1]"),
    ("IPv6 multicast", "[ff02::1]"),
    ("IPv6 documentation", "[2001:db8::1]"),
    ("multicast", "224.0.0.1"),
    ("broadcast", "255.255.255.255"),
    ("reserved", "240.0.0.1"),
    ("benchmarking", "198.18.0.1"),
    ("documentation", "192.0.2.1"),
    ("protocol assignments", "192.0.0.1"),
];

/// Names with internal addresses.
#[rustfmt::skip]
const NAMES: &[(&str, &str, &[&str])] = &[
    ("a name for loopback", "inside.example", &["127.0.0.2"]),
    ("a name for two internal addresses", "two.example", &["127.0.0.2", "10.0.0.1"]),
    ("a name for a mapped address", "mapped.example", &["::ffff:127.0.0.2"]),
    ("a name for metadata", "metadata.example", &["169.254.169.254"]),
    ("a name for IPv6 loopback", "six.example", &["::1"]),
];

pub fn names() -> Vec<String> {
    let spellings = SPELLINGS.iter().map(|(name, _)| format!("internal: {name}"));
    let by_name = NAMES.iter().map(|(name, ..)| format!("internal: {name}"));
    spellings.chain(by_name).collect()
}

/// Expects refusals of requests for `host`: by http, by https in absolute form, and by `CONNECT`.
#[track_caller]
pub fn check_refused(name: &str, proxy: &Wayleave, host: &str, port: u16) {
    for scheme in ["http", "https"] {
        let url = format!("{scheme}://{host}:{port}/");
        let mut wire = proxy.connect();
        wire.send(Request::get(&url).header("Host", "x.test").absolute_form());
        let answer = wire.response();
        assert_eq!(answer.status, 502, "{name}: {url}: {answer:?}");
        assert_eq!(answer.proxy_status().error, "destination_ip_prohibited", "{name}");
    }
    let mut wire = proxy.connect();
    wire.send(format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: x.test\r\n\r\n"));
    let answer = wire.response();
    answer.expect_refusal(502, Some("Prohibited address"), "destination_ip_prohibited");
}

#[test]
fn no_spelling_of_an_internal_address_is_connected_to() {
    let origin = Origin::start();
    let internal = Origin::start_at("127.0.0.2");
    let proxy = Wayleave::start(&origin);
    for (name, host) in SPELLINGS {
        check_refused(name, &proxy, host, internal.http.port());
    }
    assert_eq!(internal.connections(), 0, "{:?}", internal.seen());
}

#[test]
fn no_name_of_an_internal_address_is_connected_to() {
    let origin = Origin::start();
    let internal = Origin::start_at("127.0.0.2");
    let names = NameServer::start();
    for (_, host, addresses) in NAMES {
        let addresses = addresses.iter().map(|text| text.parse().expect("an address"));
        names.set(host, Answer::Addresses(addresses.collect()));
    }
    let proxy = Wayleave::start_with(&origin, |settings| settings.resolver(&names));
    for (name, host, _) in NAMES {
        check_refused(name, &proxy, host, internal.http.port());
    }
    assert_eq!(internal.connections(), 0, "{:?}", internal.seen());
}

#[test]
fn only_the_configured_private_addresses_are_allowed() {
    let origin = Origin::start();
    let opened = Origin::start_at("127.0.0.2");
    let closed = Origin::start_at("127.0.0.3");
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("upstream.allow_private", "[\"127.0.0.1/32\", \"127.0.0.2/32\"]")
    });
    assert_eq!(proxy.get(&format!("http://127.0.0.2:{}/a", opened.http.port())).status, 200);
    let answer = proxy.get(&format!("http://127.0.0.3:{}/a", closed.http.port()));
    answer.expect_refusal(502, None, "destination_ip_prohibited");
    // An IPv4-mapped IPv6 address is the same address.
    let mapped = format!("http://[::ffff:127.0.0.2]:{}/a", opened.http.port());
    assert_eq!(proxy.get(&mapped).status, 200);
    assert_eq!(closed.connections(), 0);
}
