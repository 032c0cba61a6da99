//! A name server on loopback with scripted answers.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// The response to queries for a name.
#[derive(Clone, Debug)]
pub enum Answer {
    Addresses(Vec<IpAddr>),
    NameError,
    ServerFailure,
    Refusal,
    Silence,
    /// An IPv4 address; queries for others are dropped.
    OnlyIpv4(IpAddr),
}

/// A running name server. Names without a script do not exist.
#[derive(Debug)]
pub struct NameServer {
    pub address: SocketAddr,
    answers: Arc<Mutex<HashMap<String, Answer>>>,
    queried: Arc<Mutex<HashSet<String>>>,
    stop: Arc<std::sync::atomic::AtomicBool>,
}

impl NameServer {
    pub fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has free ports");
        socket.set_read_timeout(Some(Duration::from_millis(200))).expect("the timeout is not zero");
        let server = Self {
            address: socket.local_addr().expect("a bound socket has an address"),
            answers: Arc::default(),
            queried: Arc::default(),
            stop: Arc::default(),
        };
        let (answers, stop) = (Arc::clone(&server.answers), Arc::clone(&server.stop));
        let queried = Arc::clone(&server.queried);
        std::thread::spawn(move || {
            let mut query = [0; 1500];
            while !stop.load(std::sync::atomic::Ordering::SeqCst) {
                let Ok((length, client)) = socket.recv_from(&mut query) else {
                    continue;
                };
                let answers =
                    answers.lock().expect("no test panics while it scripts names").clone();
                queried
                    .lock()
                    .expect("no test panics while it reads names")
                    .insert(name(&query[..length]).0);
                if let Some(message) = answer(&query[..length], &answers) {
                    socket.send_to(&message, client).expect("loopback takes datagrams");
                }
            }
        });
        server
    }

    /// Returns the name server that all tests share which resolve no name.
    pub fn without_names() -> &'static Self {
        static SERVER: OnceLock<NameServer> = OnceLock::new();
        SERVER.get_or_init(Self::start)
    }

    /// Returns the names that were queried.
    pub fn queried(&self) -> HashSet<String> {
        let queried = self.queried.lock();
        queried.expect("the server's thread does not panic").clone()
    }

    /// Sets the response to queries for `name`.
    pub fn set(&self, name: &str, answer: Answer) {
        self.answers
            .lock()
            .expect("the server's thread does not panic")
            .insert(name.to_owned(), answer);
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.stop.store(true, std::sync::atomic::Ordering::SeqCst);
    }
}

/// The offset of the question in a message.
const QUESTION_AT: usize = 12;

/// Returns the name in a query, and the offset of its end.
fn name(query: &[u8]) -> (String, usize) {
    let mut labels = Vec::new();
    let mut at = QUESTION_AT;
    while query[at] != 0 {
        let length = usize::from(query[at]);
        labels.push(String::from_utf8_lossy(&query[at + 1..=at + length]).to_ascii_lowercase());
        at += length + 1;
    }
    (labels.join("."), at)
}

/// Returns the response message for `query` (RFC 1035 section 4.1); none for a silent name.
fn answer(query: &[u8], answers: &HashMap<String, Answer>) -> Option<Vec<u8>> {
    const TYPE_A: u16 = 1;
    const TYPE_AAAA: u16 = 28;
    let (name, at) = name(query);
    let question_ends = at + 5;
    let kind = u16::from_be_bytes([query[at + 1], query[at + 2]]);
    let has_type = |address: &IpAddr| match address {
        IpAddr::V4(_) => kind == TYPE_A,
        IpAddr::V6(_) => kind == TYPE_AAAA,
    };
    let (code, addresses): (u8, Vec<IpAddr>) = match answers
        .get(&name)
        .unwrap_or(&Answer::NameError)
    {
        Answer::Addresses(addresses) => (0, addresses.iter().copied().filter(has_type).collect()),
        Answer::NameError => (3, Vec::new()),
        Answer::ServerFailure => (2, Vec::new()),
        Answer::Refusal => (5, Vec::new()),
        Answer::OnlyIpv4(address) if kind == TYPE_A => (0, vec![*address]),
        Answer::OnlyIpv4(_) | Answer::Silence => return None,
    };
    let mut message = query[..2].to_vec();
    let count = u8::try_from(addresses.len()).expect("tests name few addresses");
    message.extend([0x81, 0x80 | code, 0, 1, 0, count, 0, 0, 0, 0]);
    message.extend(&query[QUESTION_AT..question_ends]);
    for address in addresses {
        let octets = match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        let length = u8::try_from(octets.len()).expect("16 at most");
        let kind = u8::try_from(kind).expect("both types are below 256");
        // A pointer to the question's name, its type, class IN, no caching, the octets.
        message.extend([0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 0, 0, length]);
        message.extend(octets);
    }
    Some(message)
}
