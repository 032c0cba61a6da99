//! Answers DNS inside. Every name that a URL may have exists, and has the addresses reserved for it: wayleave resolves it outside
//! once a request for it may be forwarded. Nothing is asked outside for a query, so queries carry nothing out either.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Edns, Message, MessageType, Metadata, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA};
use hickory_proto::rr::{DNSClass, RData, Record, RecordType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;
use wayleave_robots_txt::{Origin, UrlScheme};

use super::names::ReservedNames;

/// The time for which clients may keep an address, in seconds. The name keeps it for much longer.
const TTL: u32 = 60;
/// The largest message that clients may send by UDP (RFC 6891 section 6.2.5).
const MAX_MESSAGE_BYTES: usize = 4096;
/// The time for which a TCP connection may be idle (RFC 7766 section 6.2.3 recommends seconds).
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// The name server inside.
#[derive(Clone, Debug)]
pub struct DnsServer {
    names: Arc<ReservedNames>,
    /// Whether names have addresses of IPv6.
    has_ipv6: bool,
}

impl DnsServer {
    pub fn new(names: Arc<ReservedNames>, has_ipv6: bool) -> Self {
        Self { names, has_ipv6 }
    }

    /// Answers queries on `socket`; returns only if it fails.
    pub async fn serve_udp(&self, socket: &UdpSocket) -> io::Result<()> {
        let mut query = [0; MAX_MESSAGE_BYTES];
        loop {
            let (length, client): (usize, SocketAddr) = socket.recv_from(&mut query).await?;
            if let Some(response) = self.answer(&query[..length]) {
                // The client may be gone, and resolvers ask again.
                let _ = socket.send_to(&response, client).await;
            }
        }
    }

    /// Answers queries on a TCP connection, until its client is done or sends anything but a query.
    pub async fn serve_tcp(&self, mut tcp: TcpStream) {
        while let Ok(Ok(query)) = timeout(IDLE_TIMEOUT, read_message(&mut tcp)).await {
            let Some(response) = self.answer(&query) else {
                return;
            };
            // Two bytes with the length precede each message (RFC 1035 section 4.2.2).
            let length = u16::try_from(response.len()).unwrap_or(u16::MAX).to_be_bytes();
            if tcp.write_all(&[&length[..], &response].concat()).await.is_err() {
                return;
            }
        }
    }

    /// Returns the response to a query, or `None` if it is not one.
    fn answer(&self, query: &[u8]) -> Option<Vec<u8>> {
        let query = Message::from_vec(query).ok()?;
        if query.metadata.message_type != MessageType::Query {
            return None;
        }
        let mut response = Message::response(query.metadata.id, query.metadata.op_code);
        response.metadata = Metadata::response_from_request(&query.metadata);
        response.metadata.recursion_available = true;
        response.add_queries(query.queries.iter().cloned());
        if query.edns.is_some() {
            response.set_edns(Edns::new());
        }
        let code = match (query.metadata.op_code, query.queries.as_slice()) {
            (OpCode::Query, [question]) => match self.data(question) {
                Ok(data) => {
                    let record = |data| Record::from_rdata(question.name().clone(), TTL, data);
                    response.add_answers(data.map(record));
                    ResponseCode::NoError
                }
                Err(code) => code,
            },
            (OpCode::Query, _) => ResponseCode::FormErr,
            _ => ResponseCode::NotImp,
        };
        response.metadata.response_code = code;
        response.to_vec().ok()
    }

    /// Returns the data that a name has of the type asked for. Names have addresses and nothing else, not even the keys for
    /// Encrypted Client Hello, so that TLS shows the name.
    fn data(&self, question: &Query) -> Result<Option<RData>, ResponseCode> {
        if question.query_class() != DNSClass::IN {
            return Err(ResponseCode::Refused);
        }
        let name = question.name().to_lowercase().to_ascii();
        let name = name.trim_end_matches('.');
        let (ipv4, ipv6) = if name == "localhost" || name.ends_with(".localhost") {
            (Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST)
        } else if may_be_host(name) {
            self.names.addresses(name)
        } else {
            return Err(ResponseCode::NXDomain);
        };
        Ok(match question.query_type() {
            RecordType::A => Some(RData::A(A(ipv4))),
            RecordType::AAAA if self.has_ipv6 => Some(RData::AAAA(AAAA(ipv6))),
            _ => None,
        })
    }
}

/// Returns whether a URL may have this name as its host. Addresses have no addresses, and names for them (RFC 1035 section 3.5)
/// are no hosts.
fn may_be_host(name: &str) -> bool {
    let is_for_address = name.ends_with(".arpa") || name.parse::<Ipv4Addr>().is_ok();
    let origin = Origin::from_authority(UrlScheme::Http, name);
    !is_for_address && origin.is_ok_and(|origin| origin.host() == name)
}

async fn read_message(tcp: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut message = vec![0; usize::from(tcp.read_u16().await?)];
    tcp.read_exact(&mut message).await?;
    Ok(message)
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use hickory_proto::rr::Name;

    use super::*;

    fn answered(name: &str, kind: RecordType) -> (ResponseCode, Vec<RData>) {
        let server = DnsServer::new(Arc::default(), true);
        let mut query = Message::query();
        query.add_query(Query::query(Name::from_str(name).unwrap(), kind));
        let response = server.answer(&query.to_vec().unwrap()).unwrap();
        let response = Message::from_vec(&response).unwrap();
        assert_eq!(response.metadata.id, query.metadata.id);
        assert_eq!(response.queries, query.queries);
        let data = response.answers.into_iter().map(|record| record.data).collect();
        (response.metadata.response_code, data)
    }

    #[test]
    fn each_name_has_addresses_of_the_reserved_ranges() {
        let ipv4 = RData::A(A(Ipv4Addr::new(198, 18, 1, 0)));
        let ipv6 = RData::AAAA(AAAA("fd77:6179:6c65::100".parse().unwrap()));
        for name in ["shop.example.", "SHOP.example.", "localhost.example.", "under_score.example."]
        {
            assert_eq!(answered(name, RecordType::A), (ResponseCode::NoError, vec![ipv4.clone()]));
            assert_eq!(answered(name, RecordType::AAAA).1, std::slice::from_ref(&ipv6));
        }
        let local = RData::A(A(Ipv4Addr::LOCALHOST));
        assert_eq!(answered("LOCALHOST.", RecordType::A).1, [local]);
    }

    #[test]
    fn names_have_addresses_only() {
        for kind in [RecordType::HTTPS, RecordType::MX, RecordType::TXT, RecordType::ANY] {
            assert_eq!(answered("shop.example.", kind), (ResponseCode::NoError, Vec::new()));
        }
    }

    #[test]
    fn names_that_no_url_can_have_do_not_exist() {
        for name in [".", "192.0.2.1.", "1.2.0.192.in-addr.arpa.", "0x7f.1."] {
            assert_eq!(answered(name, RecordType::A).0, ResponseCode::NXDomain, "{name}");
        }
    }

    #[test]
    fn a_response_is_not_answered() {
        let server = DnsServer::new(Arc::default(), true);
        let response = Message::response(1, OpCode::Query).to_vec().unwrap();
        assert_eq!(server.answer(&response), None);
        assert_eq!(server.answer(b"GET / HTTP/1.1\r\n\r\n"), None);
    }
}
