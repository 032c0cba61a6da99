mod dns;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::internal::why_internal;
use super::*;
use crate::error::UpstreamError;

impl Egress {
    /// Returns the addresses that the route dials.
    async fn addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, EgressError> {
        let Route { addresses, .. } = self.route(host, port, RouteRequester::default()).await?;
        Ok(addresses.into_iter().map(CheckedAddress::socket_address).collect())
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address and port")
}

/// Makes checked addresses of public ones.
fn checked(texts: &[&str]) -> Vec<CheckedAddress> {
    let check = AddressCheck::default();
    let pass = |text: &&str| check.check(at(text)).expect("public");
    texts.iter().map(pass).collect()
}

fn overrides(lines: &[(&str, &str)]) -> Vec<DnsOverride> {
    let parse = |&(key, value): &(&str, &str)| DnsOverride::parse(key, value).expect("valid");
    lines.iter().map(parse).collect()
}

/// Makes an egress whose DNS server is a closed port, so that a test that asks it fails.
fn egress(options: EgressSettings) -> Egress {
    let servers = vec![at("127.0.0.1:9")];
    Egress::new(EgressSettings { dns_servers: servers, ..options }).expect("servers are given")
}

/// First and last addresses of every internal block, and the well-known ones in between.
const INTERNAL: &[(&str, &str)] = &[
    ("0.0.0.0", "unspecified"),
    ("0.0.0.1", "this network"),
    ("0.255.255.255", "this network"),
    ("10.0.0.0", "private"),
    ("10.255.255.255", "private"),
    ("100.64.0.0", "shared (carrier-grade NAT)"),
    ("100.100.100.200", "shared (carrier-grade NAT)"),
    ("100.127.255.255", "shared (carrier-grade NAT)"),
    ("127.0.0.1", "loopback"),
    ("127.255.255.255", "loopback"),
    ("168.63.129.16", "cloud metadata"),
    ("169.254.0.0", "link-local"),
    ("169.254.169.254", "cloud metadata"),
    ("169.254.255.255", "link-local"),
    ("172.16.0.0", "private"),
    ("172.31.255.255", "private"),
    ("192.0.0.0", "protocol assignments"),
    ("192.0.0.192", "protocol assignments"),
    ("192.0.0.255", "protocol assignments"),
    ("192.0.2.0", "documentation"),
    ("192.0.2.255", "documentation"),
    ("192.88.99.1", "6to4 relay anycast"),
    ("192.168.0.0", "private"),
    ("192.168.255.255", "private"),
    ("198.18.0.0", "benchmarking"),
    ("198.19.255.255", "benchmarking"),
    ("198.51.100.7", "documentation"),
    ("203.0.113.7", "documentation"),
    ("224.0.0.0", "multicast"),
    ("239.255.255.255", "multicast"),
    ("240.0.0.0", "reserved"),
    ("255.255.255.254", "reserved"),
    ("255.255.255.255", "broadcast"),
    ("::", "unspecified"),
    ("::1", "loopback"),
    ("::7f00:1", "loopback"),
    ("::2", "this network"),
    ("::ffff:127.0.0.1", "loopback"),
    ("::ffff:10.1.2.3", "private"),
    ("::ffff:169.254.169.254", "cloud metadata"),
    ("64:ff9b::10.1.2.3", "private"),
    ("64:ff9b::7f00:1", "loopback"),
    ("64:ff9b:1::", "local-use NAT64"),
    ("64:ff9b:1:ffff:ffff:ffff:808:808", "local-use NAT64"),
    ("64:ff9b:0:0:1::808:808", "not global unicast"),
    ("100::1", "discard-only"),
    ("1fff:ffff::", "not global unicast"),
    ("2001:0:7f00:1::f7f7:f7f7", "loopback"),
    ("2001:0:808:808::80ff:fffe", "loopback"),
    ("2001:2::1", "benchmarking"),
    ("2001:10::1", "protocol assignments"),
    ("2001:1ff:ffff::", "protocol assignments"),
    ("2001:db8::1", "documentation"),
    ("2001:db8:ffff::1", "documentation"),
    ("2002:7f00:1::1", "loopback"),
    ("2002:a01:203::1", "private"),
    ("2002:c0a8:1::1", "private"),
    ("3fff::1", "documentation"),
    ("3fff:fff:ffff::", "documentation"),
    ("4000::1", "not global unicast"),
    ("5f00::1", "segment routing"),
    ("fc00::1", "unique local"),
    ("fd00:ec2::254", "unique local"),
    ("fdff:ffff::1", "unique local"),
    ("fe80::1", "link-local"),
    ("febf:ffff::1", "link-local"),
    ("fec0::1", "site-local"),
    ("feff::1", "site-local"),
    ("ff02::1", "multicast"),
    ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "multicast"),
];

#[test]
fn internal_blocks_are_covered_to_their_bounds() {
    for (address, why) in INTERNAL {
        assert_eq!(why_internal(ip(address)), Some(*why), "{address}");
    }
}

#[test]
fn neighbours_of_internal_blocks_are_global() {
    let cases = [
        "1.0.0.0",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "168.63.129.15",
        "168.63.129.17",
        "169.253.255.255",
        "169.255.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "191.255.255.255",
        "192.0.1.0",
        "192.0.3.0",
        "192.88.98.255",
        "192.88.100.0",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "198.51.99.255",
        "198.51.101.0",
        "203.0.112.255",
        "203.0.114.0",
        "223.255.255.255",
        "8.8.8.8",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "2000::1",
        "2001:0:808:808::f7f7:f7f7",
        "2001:200::1",
        "2001:db7:ffff::1",
        "2001:db9::1",
        "2001:4860:4860::8888",
        "2002:808:808::1",
        "2003::1",
        "2600::1",
        "3ffe:ffff::1",
        "3fff:1000::1",
    ];
    for address in cases {
        assert_eq!(why_internal(ip(address)), None, "{address}");
    }
}

#[tokio::test]
async fn literals_are_checked_like_names() {
    let egress = egress(EgressSettings::default());
    assert_eq!(egress.addresses("8.8.8.8", 80).await, Ok(vec![at("8.8.8.8:80")]));
    assert_eq!(egress.addresses("[2600::1]", 443).await, Ok(vec![at("[2600::1]:443")]));
    for host in ["127.0.0.1", "[::1]", "169.254.169.254", "[::ffff:10.0.0.1]", "[fe80::1]"] {
        let error = egress.addresses(host, 80).await.unwrap_err();
        assert_eq!(
            UpstreamError::from(error).reason.as_str(),
            "destination_ip_prohibited",
            "{host}"
        );
    }
}

#[tokio::test]
async fn localhost_is_looked_up_and_refused() {
    let error = egress(EgressSettings::default()).addresses("localhost", 80).await;
    let why = "loopback";
    let loopback = |address: IpAddr| Err(EgressError::Prohibited { address, why });
    assert!(error == loopback(ip("127.0.0.1")) || error == loopback(ip("::1")), "{error:?}");
}

#[tokio::test]
async fn allow_private_permits_only_its_networks() {
    let allow_private = vec!["127.0.0.2/32".parse().unwrap(), "10.1.0.0/16".parse().unwrap()];
    let egress = egress(EgressSettings { allow_private, ..EgressSettings::default() });
    assert!(egress.addresses("127.0.0.2", 80).await.is_ok());
    assert!(egress.addresses("10.1.255.255", 80).await.is_ok());
    assert!(egress.addresses("127.0.0.1", 80).await.is_err());
    assert!(egress.addresses("10.2.0.0", 80).await.is_err());
    // On the wire a mapped address is the IPv4 address, so it is opened, and dialled, as that.
    assert_eq!(egress.addresses("[::ffff:10.1.0.1]", 80).await, Ok(vec![at("10.1.0.1:80")]));
    assert!(egress.addresses("[64:ff9b::10.1.0.1]", 80).await.is_err());
}

#[tokio::test]
async fn overridden_addresses_are_checked() {
    let lines = overrides(&[("site.test", "127.0.0.1"), ("8.8.4.4", "10.0.0.1")]);
    let egress = egress(EgressSettings { dns_overrides: lines, ..EgressSettings::default() });
    for host in ["site.test", "8.8.4.4"] {
        let error = egress.addresses(host, 80).await.unwrap_err();
        assert_eq!(
            UpstreamError::from(error).reason.as_str(),
            "destination_ip_prohibited",
            "{host}"
        );
    }
}

#[tokio::test]
async fn own_listeners_are_never_dialled() {
    let allow_private = vec!["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()];
    let egress = |listener: &str| {
        egress(EgressSettings {
            allow_private: allow_private.clone(),
            own_listeners: vec![at(listener)],
            ..EgressSettings::default()
        })
    };
    let own = egress("127.0.0.1:3128");
    assert!(own.addresses("127.0.0.1", 3128).await.is_err());
    assert!(own.addresses("[::ffff:127.0.0.1]", 3128).await.is_err());
    assert!(own.addresses("0.0.0.0", 3128).await.is_err());
    assert!(own.addresses("127.0.0.1", 3129).await.is_ok());
    assert!(own.addresses("127.0.0.2", 3128).await.is_ok());
    for wildcard in ["0.0.0.0:3128", "[::]:3128"] {
        let own = egress(wildcard);
        assert!(own.addresses("127.0.0.9", 3128).await.is_err(), "{wildcard}");
        assert!(own.addresses("[::1]", 3128).await.is_err(), "{wildcard}");
        assert!(own.addresses("10.77.77.77", 3128).await.is_ok(), "{wildcard}");
        assert!(own.addresses("127.0.0.9", 80).await.is_ok(), "{wildcard}");
    }
}

#[tokio::test]
async fn most_specific_override_wins() {
    let lines = overrides(&[
        ("a.site.test:8080", "9.0.0.1:1001"),
        ("a.site.test", "9.0.0.2"),
        ("*.site.test:8080", "9.0.0.3"),
        ("*.site.test", "9.0.0.4:1004"),
        ("*.test", "[2600::5]:1005"),
        ("[2600::9]", "2600::6"),
        ("*.bücher.example.", "9.0.0.7"),
        ("192.0.2.1", "9.0.0.8"),
    ]);
    let egress = egress(EgressSettings { dns_overrides: lines, ..EgressSettings::default() });
    let cases = [
        ("a.site.test", 8080, "9.0.0.1:1001"),
        ("a.site.test", 443, "9.0.0.2:443"),
        ("b.site.test", 8080, "9.0.0.3:8080"),
        ("b.site.test", 443, "9.0.0.4:1004"),
        ("c.b.site.test", 80, "9.0.0.4:1004"),
        ("site.test", 80, "[2600::5]:1005"),
        ("[2600:0::9]", 80, "[2600::6]:80"),
        ("a.xn--bcher-kva.example", 80, "9.0.0.7:80"),
        ("[::ffff:c000:201]", 80, "9.0.0.8:80"),
    ];
    for (host, port, address) in cases {
        assert_eq!(egress.addresses(host, port).await, Ok(vec![at(address)]), "{host}:{port}");
    }
    assert!(egress.overrides.find("test", 80).is_none());
    assert!(egress.overrides.find("notsite.example", 80).is_none());
}

#[test]
fn invalid_overrides_are_errors() {
    for key in [
        "",
        "*",
        "*.",
        "a..b",
        "a b",
        "host:",
        "host:0",
        "host:70000",
        "host:+80",
        "[::1",
        "[::g]",
        "::1",
        ".a.test",
        "*a.test",
        "*.*.test",
        "ü*.test",
        "a/b",
    ] {
        let parsed = DnsOverride::parse(key, "127.0.0.1");
        assert_eq!(parsed, Err(InvalidDnsOverride::Key(key.to_owned())), "{key}");
    }
    for value in
        ["", "host", "127.0.0.1:", "127.0.0.1:0", "[127.0.0.1]:80", "[::1", "::1]:80", "127.1"]
    {
        let parsed = DnsOverride::parse("host", value);
        assert_eq!(parsed, Err(InvalidDnsOverride::Value(value.to_owned())), "{value}");
    }
    let spelt = DnsOverride::parse("WWW.Site.Test.", "[::1]").expect("valid");
    assert_eq!(Ok(spelt), DnsOverride::parse("www.site.test", "::1"));
}

#[test]
fn address_families_alternate_ipv6_first() {
    let given = ["1.0.0.1:1", "1.0.0.2:1", "1.0.0.3:1", "[2600::1]:1"];
    let ordered = ["[2600::1]:1", "1.0.0.1:1", "1.0.0.2:1", "1.0.0.3:1"];
    assert_eq!(interleave(checked(&given)), checked(&ordered));
    let given = ["1.0.0.1:1", "1.0.0.2:1", "[2600::1]:1", "[2600::2]:1"];
    let ordered = ["[2600::1]:1", "1.0.0.1:1", "[2600::2]:1", "1.0.0.2:1"];
    assert_eq!(interleave(checked(&given)), checked(&ordered));
}
