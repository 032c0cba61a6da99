//! The polite client: a request every 20 ms, from an address of its own, and the same to the origin without the proxy.
//!
//! A request does not wait for the one before: each takes a connection that is free, or a new one. So a proxy that
//! stands still is seen by all requests of that time.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::http1::read_response;

/// The time between two requests.
const INTERVAL: Duration = Duration::from_millis(20);
/// The time after which an answer is given up, and counts as long.
const PATIENCE: Duration = Duration::from_secs(30);
/// The client's address; any port.
const ADDRESS: ([u8; 4], u16) = ([127, 0, 0, 2], 0);
/// The connections that take turns, so that every thread of the proxy is seen.
const CONNECTIONS: usize = 4;
const HOST: &str = "polite.test";

/// How long requests took.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies {
    took: Vec<Duration>,
    /// The requests without an answer of status 200.
    pub(crate) failures: usize,
}

/// What a polite client saw.
#[derive(Debug)]
pub(crate) struct Patience {
    pub(crate) proxied: Latencies,
    /// Without the proxy, at the same time.
    pub(crate) direct: Latencies,
}

/// A polite client at work, on a thread of its own.
#[derive(Debug)]
pub(crate) struct PoliteClient {
    end: oneshot::Sender<()>,
    thread: JoinHandle<Patience>,
}

impl Latencies {
    /// Returns the time within which so many of a hundred requests were answered.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.took.clone();
        sorted.sort_unstable();
        let rank = sorted.len() * percent / 100;
        sorted.get(rank.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        self.took.extend(&other.took);
        self.failures += other.failures;
    }
}

impl PoliteClient {
    pub(crate) fn start(proxy: SocketAddr, origin: SocketAddr) -> Self {
        let (end, ended) = oneshot::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(watch(proxy, origin, ended))
        });
        Self { end, thread }
    }

    /// Waits for the last answers.
    pub(crate) fn stop(self) -> Patience {
        drop(self.end);
        self.thread.join().expect("it does not panic")
    }
}

async fn watch(proxy: SocketAddr, origin: SocketAddr, ended: oneshot::Receiver<()>) -> Patience {
    let authority = format!("{HOST}:{}", origin.port());
    let proxied = Path::new(proxy, &format!("http://{authority}"), &authority);
    let direct = Path::new(origin, "", &authority);
    let mut ticks = interval(INTERVAL / 2);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut ended = std::pin::pin!(ended);
    let mut requests = JoinSet::new();
    for path in [&proxied, &direct].into_iter().cycle() {
        tokio::select! {
            _ = &mut ended => break,
            _ = ticks.tick() => requests.spawn(Arc::clone(path).ask()),
        };
    }
    requests.join_all().await;
    Patience { proxied: proxied.latencies(), direct: direct.latencies() }
}

/// A way to the origin.
#[derive(Debug)]
struct Path {
    dialled: SocketAddr,
    request: String,
    /// Connections that are free, the one longest so first.
    free: Mutex<VecDeque<(TcpStream, BytesMut)>>,
    latencies: Mutex<Latencies>,
}

impl Path {
    fn new(dialled: SocketAddr, prefix: &str, authority: &str) -> Arc<Self> {
        let request = format!(
            "GET {prefix}/page HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: PoliteBot/1.0\r\n\r\n"
        );
        Arc::new(Self { dialled, request, free: Mutex::default(), latencies: Mutex::default() })
    }

    fn latencies(&self) -> Latencies {
        self.latencies.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends a request, and takes its time.
    async fn ask(self: Arc<Self>) {
        let begun = Instant::now();
        let status = timeout(PATIENCE, self.exchange()).await;
        let took = begun.elapsed();
        let mut latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        latencies.took.push(took);
        latencies.failures += usize::from(!matches!(status, Ok(Ok(200))));
    }

    async fn exchange(&self) -> io::Result<u16> {
        let (mut stream, mut buffer) = match self.free_connection() {
            Some(free) => free,
            None => (self.connect().await?, BytesMut::new()),
        };
        stream.write_all(self.request.as_bytes()).await?;
        let response = read_response(&mut stream, &mut buffer, false).await?;
        if response.is_kept {
            self.free.lock().unwrap_or_else(PoisonError::into_inner).push_back((stream, buffer));
        }
        Ok(response.status)
    }

    /// Returns a connection that is free once there are enough.
    fn free_connection(&self) -> Option<(TcpStream, BytesMut)> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < CONNECTIONS { None } else { free.pop_front() }
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(ADDRESS.into())?;
        let stream = socket.connect(self.dialled).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}
