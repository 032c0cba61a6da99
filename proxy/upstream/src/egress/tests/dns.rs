//! Lookups by DNS servers on loopback.

use hickory_resolver::proto::op::{Message, ResponseCode};
use hickory_resolver::proto::rr::{RData, Record, RecordType};

use super::*;
use crate::egress::dns::MAX_ADDRESSES;
use crate::egress::dns::MAX_LOOKUPS_PER_CLIENT;

/// Starts a DNS server on loopback that answers by the first label: `mixed` and `internal` have addresses, `many` has
/// 40, `brief` one that expires at once, `fails` is SERVFAIL, `empty` has no addresses, everything else does not exist.
async fn dns_server() -> SocketAddr {
    let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let answer = |query: &[u8]| {
        let query = Message::from_vec(query).unwrap();
        let question = query.queries[0].clone();
        let mut response = query.into_response();
        let name = question.name().to_ascii();
        let label = name.split('.').next().unwrap();
        let many: Vec<_> = (0..40).map(|n| format!("8.8.4.{n}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        let addresses: &[&str] = match label {
            "mixed" => &["10.0.0.1", "8.8.8.8", "127.0.0.1", "2600::1", "fd00::1"],
            "internal" => &["10.0.0.1", "fd00::1"],
            "many" => &many,
            "brief" => &["8.8.8.8"],
            "empty" => &[],
            "fails" => {
                response.metadata.response_code = ResponseCode::ServFail;
                &[]
            }
            _ => {
                response.metadata.response_code = ResponseCode::NXDomain;
                &[]
            }
        };
        let records = addresses.iter().map(|address| RData::from(ip(address)));
        for data in records.filter(|data| data.record_type() == question.query_type()) {
            let ttl = if label == "brief" { 0 } else { 60 };
            response.add_answer(Record::from_rdata(question.name().clone(), ttl, data));
        }
        response.to_vec().unwrap()
    };
    tokio::spawn(async move {
        let mut buffer = [0; 1024];
        while let Ok((length, client)) = socket.recv_from(&mut buffer).await {
            let response = answer(&buffer[..length]);
            socket.send_to(&response, client).await.unwrap();
        }
    });
    address
}

#[tokio::test]
async fn dns_answers_are_filtered_and_failures_named() {
    let dns_servers = vec![dns_server().await];
    let egress = Egress::new(EgressSettings { dns_servers, ..EgressSettings::default() });
    let egress = egress.unwrap();
    assert_eq!(
        egress.addresses("mixed.example", 443).await,
        Ok(vec![at("[2600::1]:443"), at("8.8.8.8:443")])
    );
    let prohibited = EgressError::Prohibited { address: ip("10.0.0.1"), why: "private" };
    assert_eq!(egress.addresses("internal.example", 443).await, Err(prohibited));
    for (name, rcode) in [
        ("fails.example", "SERVFAIL"),
        ("empty.example", "NOERROR"),
        ("absent.example", "NXDOMAIN"),
    ] {
        let rcode = rcode.to_owned();
        assert_eq!(egress.addresses(name, 80).await, Err(EgressError::Dns { rcode }), "{name}");
    }
}

#[tokio::test]
async fn addresses_are_cached_for_their_ttl_up_to_a_limit() {
    let egress = Egress::new(EgressSettings {
        dns_servers: vec![dns_server().await],
        ..EgressSettings::default()
    });
    let egress = egress.unwrap();
    let known = |host: &str| egress.dns.cached(host);
    for (host, count, is_kept) in
        [("many.example", MAX_ADDRESSES, true), ("brief.example", 1, false)]
    {
        assert_eq!(egress.addresses(host, 80).await.unwrap().len(), count);
        let before = known(host).unwrap();
        assert_eq!(egress.addresses(host, 80).await.unwrap().len(), count);
        assert_eq!(Arc::ptr_eq(&before, &known(host).unwrap()), is_kept, "{host}");
    }
    egress.addresses("absent.example", 80).await.unwrap_err();
    assert!(known("absent.example").is_none());
}

#[tokio::test(start_paused = true)]
async fn silent_dns_server_causes_a_timeout() {
    let silent = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let egress = Egress::new(EgressSettings {
        dns_servers: vec![silent.local_addr().unwrap()],
        ..EgressSettings::default()
    });
    let failure = egress.unwrap().addresses("site.example", 80).await;
    assert_eq!(failure, Err(EgressError::DnsTimeout));
}

/// Starts a DNS server on loopback that records the names it is queried for, and answers only those that are not
/// `slow`.
async fn recording_dns_server()
-> (SocketAddr, Arc<std::sync::Mutex<std::collections::HashSet<String>>>) {
    let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let queried = Arc::new(std::sync::Mutex::new(std::collections::HashSet::new()));
    let recorded = Arc::clone(&queried);
    tokio::spawn(async move {
        let mut buffer = [0; 1024];
        while let Ok((length, client)) = socket.recv_from(&mut buffer).await {
            let query = Message::from_vec(&buffer[..length]).unwrap();
            let question = query.queries[0].clone();
            let name = question.name().to_ascii();
            recorded.lock().unwrap().insert(name.clone());
            if name.contains("slow") {
                continue;
            }
            let mut response = query.into_response();
            if question.query_type() == RecordType::A {
                let data = RData::from(ip("8.8.8.8"));
                response.add_answer(Record::from_rdata(question.name().clone(), 60, data));
            }
            let bytes = response.to_vec().unwrap();
            socket.send_to(&bytes, client).await.unwrap();
        }
    });
    (address, queried)
}

#[tokio::test]
async fn concurrent_lookups_of_a_client_are_limited() {
    let (server, queried) = recording_dns_server().await;
    let egress =
        Egress::new(EgressSettings { dns_servers: vec![server], ..EgressSettings::default() });
    let egress = Arc::new(egress.unwrap());
    let route = |host: String, client: &str| {
        let egress = Arc::clone(&egress);
        let client = Some(ip(client));
        async move {
            let source = None;
            egress.route(&host, 80, RouteRequester { source, client }).await
        }
    };
    // All addresses of a network of IPv6 are one client's.
    let greedy: Vec<_> = (0..3 * MAX_LOOKUPS_PER_CLIENT)
        .map(|n| tokio::spawn(route(format!("slow{n}.example"), &format!("2001:db8::{n:x}"))))
        .collect();
    let others = route("quick.example".to_owned(), "2001:db8:0:1::1");
    assert!(others.await.is_ok());
    let slow = || queried.lock().unwrap().iter().filter(|name| name.contains("slow")).count();
    assert_eq!(slow(), MAX_LOOKUPS_PER_CLIENT);
    // A lookup that is cancelled makes room for others, and leaves nothing behind.
    for task in &greedy {
        task.abort();
    }
    for task in greedy {
        assert!(task.await.unwrap_err().is_cancelled());
    }
    assert!(egress.dns.lookups.is_empty());
    let own = route("mine.example".to_owned(), "2001:db8::1");
    assert!(own.await.is_ok());
}

/// Starts a DNS server on loopback that answers queries of a type as `answer` says: with a code and an address, or never.
async fn scripted_dns_server(
    answer: impl Fn(RecordType) -> Option<(ResponseCode, Option<&'static str>)> + Send + 'static,
) -> SocketAddr {
    let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 1024];
        while let Ok((length, client)) = socket.recv_from(&mut buffer).await {
            let query = Message::from_vec(&buffer[..length]).unwrap();
            let question = query.queries[0].clone();
            let Some((code, found)) = answer(question.query_type()) else {
                continue;
            };
            let mut response = query.into_response();
            response.metadata.response_code = code;
            if let Some(found) = found {
                let data = RData::from(ip(found));
                response.add_answer(Record::from_rdata(question.name().clone(), 60, data));
            }
            socket.send_to(&response.to_vec().unwrap(), client).await.unwrap();
        }
    });
    address
}

fn egress_asking(dns_servers: Vec<SocketAddr>) -> Egress {
    Egress::new(EgressSettings { dns_servers, ..EgressSettings::default() }).unwrap()
}

/// The answer of a server that knows an IPv4 address only.
fn known(kind: RecordType) -> Option<(ResponseCode, Option<&'static str>)> {
    Some((ResponseCode::NoError, (kind == RecordType::A).then_some("8.8.8.8")))
}

const REFUSALS: [(ResponseCode, &str, bool); 5] = [
    (ResponseCode::ServFail, "SERVFAIL", false),
    (ResponseCode::Refused, "REFUSED", true),
    (ResponseCode::NotImp, "NOTIMP", true),
    (ResponseCode::FormErr, "FORMERR", true),
    (ResponseCode::NotAuth, "RCODE 9", true),
];

#[tokio::test]
async fn another_dns_server_is_asked_after_an_error() {
    for (code, _, _) in REFUSALS {
        let bad = scripted_dns_server(move |_| Some((code, None))).await;
        let unreachable = at("127.0.0.1:9");
        let good = scripted_dns_server(known).await;
        for servers in [vec![bad, good], vec![good, bad], vec![bad, unreachable, bad, good]] {
            let egress = egress_asking(servers.clone());
            let found = egress.addresses("site.example", 80).await;
            assert_eq!(found, Ok(vec![at("8.8.8.8:80")]), "{code} {servers:?}");
        }
    }
}

/// The clock jumps over the tries of the server that is silent.
#[tokio::test(start_paused = true)]
async fn the_error_of_all_dns_servers_stays() {
    for (code, name, is_refused_lookup) in REFUSALS {
        let bad = scripted_dns_server(move |_| Some((code, None))).await;
        for servers in [vec![bad], vec![bad, at("127.0.0.1:9")]] {
            let failure = egress_asking(servers).addresses("site.example", 80).await.unwrap_err();
            assert_eq!(failure, EgressError::Dns { rcode: name.to_owned() });
            assert_eq!(failure.is_refused_lookup(), is_refused_lookup, "{name}");
        }
    }
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_asked_of_nobody_else() {
    let absent = scripted_dns_server(|_| Some((ResponseCode::NXDomain, None))).await;
    let silent = scripted_dns_server(|_| None).await;
    let failure = egress_asking(vec![absent, silent]).addresses("site.example", 80).await;
    assert_eq!(failure, Err(EgressError::Dns { rcode: "NXDOMAIN".to_owned() }));
}

/// The clock jumps to the next deadline once nothing else can happen: it would jump to the timeouts of the queries.
#[tokio::test(start_paused = true)]
async fn a_silent_family_is_not_waited_for() {
    let only_a = scripted_dns_server(|kind| known(kind).filter(|_| kind == RecordType::A)).await;
    let only_aaaa = scripted_dns_server(|kind| {
        (kind == RecordType::AAAA).then_some((ResponseCode::NoError, Some("2600::1")))
    });
    let only_aaaa = only_aaaa.await;
    for (server, expected) in [(only_a, "8.8.8.8:80"), (only_aaaa, "[2600::1]:80")] {
        let egress = egress_asking(vec![server]);
        let began = tokio::time::Instant::now();
        assert_eq!(egress.addresses("site.example", 80).await, Ok(vec![at(expected)]));
        assert!(began.elapsed() < std::time::Duration::from_secs(1), "{:?}", began.elapsed());
        assert!(egress.dns.cached("site.example").unwrap().is_partial);
    }
}

#[tokio::test]
async fn a_late_family_is_waited_for_if_the_other_is_useless() {
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    // IPv4 is prohibited, and the first query for IPv6 is lost.
    let server = scripted_dns_server(move |kind| match kind {
        RecordType::A => Some((ResponseCode::NoError, Some("10.0.0.1"))),
        _ if counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0 => None,
        _ => Some((ResponseCode::NoError, Some("2600::1"))),
    });
    let egress = egress_asking(vec![server.await]);
    assert_eq!(egress.addresses("site.example", 80).await, Ok(vec![at("[2600::1]:80")]));
    assert!(!egress.dns.cached("site.example").unwrap().is_partial);
}

#[tokio::test]
async fn hosts_are_known_without_dns_servers() {
    let system_names = SystemNames {
        hosts: b"8.8.4.4 box.example\n2600::2 box.example\n".to_vec(),
        ..SystemNames::default()
    };
    let egress = egress(EgressSettings { system_names, ..EgressSettings::default() });
    let found = egress.addresses("box.example", 80).await;
    assert_eq!(found, Ok(vec![at("[2600::2]:80"), at("8.8.4.4:80")]));
}
