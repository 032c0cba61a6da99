//! The attackers: one thread with many connections to the proxy, which ask as fast as they are answered.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context;
use bytes::{Bytes, BytesMut};
use h2::client::{self, SendRequest};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::Options;
use crate::http1::read_response;
use crate::origin::{Origins, Ports};
use crate::proxy::Proxy;
use crate::rows::{Protocol, Row};
use crate::tls::{PROXY, STREAMS};

/// The time after which an answer is given up.
const PATIENCE: Duration = Duration::from_secs(60);
/// The pause after a connection that failed.
const PAUSE: Duration = Duration::from_millis(50);
/// Streams that are not read: how many on a connection, how long it is kept, and the time to open them.
const UNREAD_STREAMS: usize = 100;
const UNREAD_TIME: Duration = Duration::from_secs(20);
const OPENING_TIME: Duration = Duration::from_millis(300);
/// What clients such as curl and browsers let a server send before they read.
const STREAM_WINDOW: u32 = 8 << 20;
const CONNECTION_WINDOW: u32 = 128 << 20;
/// Attackers would not use the proxy's processors: their threads here let others go first.
const NICENESS: i32 = 10;

/// The number of answers of each status; 0 stands for none.
pub(crate) type Answers = BTreeMap<u16, u64>;

/// A running attack. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Attack {
    shared: Arc<Shared>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    row: &'static Row,
    ports: Ports,
    plain: SocketAddr,
    tls: SocketAddr,
    client: Arc<ClientConfig>,
    streams: usize,
    /// The number of requests in all, if there is one.
    most: Option<u64>,
    asked: AtomicU64,
    answers: Mutex<Answers>,
}

/// Lets other threads go before this one.
pub(crate) fn give_way() {
    // Without it the figures are worse, but no less true.
    let _ = rustix::process::nice(NICENESS);
}

impl Attack {
    /// Begins an attack.
    pub(crate) fn start(
        options: &Options,
        proxy: &Proxy,
        origins: &Origins,
        row: &'static Row,
        protocol: Protocol,
    ) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared {
            row,
            ports: origins.attacked,
            plain: proxy.plain,
            tls: proxy.tls,
            client: Arc::clone(&proxy.client),
            streams: options.streams,
            most: row.lasts_for_names.then_some(options.names),
            asked: AtomicU64::new(0),
            answers: Mutex::default(),
        });
        let (end, ended) = oneshot::channel();
        let (attackers, connections) = (Arc::clone(&shared), options.connections);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = thread::Builder::new().name("attackers".to_owned()).spawn(move || {
            give_way();
            runtime.block_on(async {
                for _ in 0..connections {
                    tokio::spawn(attack(Arc::clone(&attackers), protocol));
                }
                let _ = ended.await;
            });
        })?;
        Ok(Self { shared, end: Some(end), thread: Some(thread) })
    }

    pub(crate) fn answers(&self) -> Answers {
        self.shared.answers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether all requests have been sent, if their number is bounded.
    pub(crate) fn is_over(&self) -> bool {
        self.shared.most.is_none_or(|most| self.shared.asked.load(Ordering::Relaxed) >= most)
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Returns the number of the next request, which is not sent if there were enough.
    async fn next(&self) -> u64 {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        if self.most.is_some_and(|most| number >= most) {
            std::future::pending::<()>().await;
        }
        number
    }

    fn count(&self, status: u16) {
        *self.answers.lock().unwrap_or_else(PoisonError::into_inner).entry(status).or_default() +=
            1;
    }

    /// Opens a connection with TLS to the proxy, or through a tunnel to the host that has HTTP/2.
    async fn connect_tls(&self, in_tunnel: bool) -> anyhow::Result<TlsStream<TcpStream>> {
        let mut stream = TcpStream::connect(if in_tunnel { self.plain } else { self.tls }).await?;
        stream.set_nodelay(true)?;
        if in_tunnel {
            let authority = format!("{STREAMS}:{}", self.ports.https);
            let head = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            read_response(&mut stream, &mut BytesMut::new(), true).await?;
        }
        let name = ServerName::try_from(if in_tunnel { STREAMS } else { PROXY })?;
        Ok(TlsConnector::from(Arc::clone(&self.client)).connect(name, stream).await?)
    }
}

/// Opens one connection after another.
async fn attack(shared: Arc<Shared>, protocol: Protocol) {
    loop {
        let outcome = match protocol {
            Protocol::Http1 => ask_by_http1(&shared).await,
            Protocol::Http2 => ask_by_http2(&shared).await,
            Protocol::UnreadHttp2 => open_without_reading(&shared).await,
        };
        if outcome.is_err() {
            shared.count(0);
            sleep(PAUSE).await;
        }
    }
}

/// Asks until the connection ends.
async fn ask_by_http1(shared: &Shared) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(shared.plain).await?;
    stream.set_nodelay(true)?;
    let mut buffer = BytesMut::new();
    loop {
        let ask = shared.row.ask(shared.ports, shared.next().await);
        stream.write_all(ask.to_http1().as_bytes()).await?;
        let reading = read_response(&mut stream, &mut buffer, ask.method == "HEAD");
        let response = timeout(PATIENCE, reading).await.context("no answer")??;
        shared.count(response.status);
        if !response.is_kept {
            return Ok(());
        }
    }
}

/// Asks on several streams until the connection ends.
async fn ask_by_http2(shared: &Arc<Shared>) -> anyhow::Result<()> {
    let (sender, connection) = client::handshake(shared.connect_tls(false).await?).await?;
    let mut tasks = JoinSet::new();
    tasks.spawn(async { Ok(connection.await?) });
    for _ in 0..shared.streams {
        tasks.spawn(ask_on_stream(Arc::clone(shared), sender.clone()));
    }
    tasks.join_next().await.context("no tasks")??
}

async fn ask_on_stream(shared: Arc<Shared>, sender: SendRequest<Bytes>) -> anyhow::Result<()> {
    let mut sender = sender;
    loop {
        let ask = shared.row.ask(shared.ports, shared.next().await);
        sender = sender.ready().await?;
        let (response, _) = sender.send_request(ask.to_http2()?, true)?;
        let response = timeout(PATIENCE, response).await.context("no answer")??;
        let status = response.status().as_u16();
        let mut body = response.into_body();
        while let Some(data) = body.data().await {
            let length = data?.len();
            body.flow_control().release_capacity(length)?;
        }
        shared.count(status);
    }
}

/// Asks on many streams, and then reads no more.
async fn open_without_reading(shared: &Shared) -> anyhow::Result<()> {
    let tls = shared.connect_tls(true).await?;
    let (mut sender, mut connection) = client::Builder::new()
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .handshake::<_, Bytes>(tls)
        .await?;
    let opening = async {
        let mut responses = Vec::new();
        for _ in 0..UNREAD_STREAMS {
            let ask = shared.row.ask(shared.ports, shared.next().await);
            sender = sender.clone().ready().await?;
            responses.push(sender.send_request(ask.to_http2()?, true)?);
        }
        sleep(OPENING_TIME).await;
        anyhow::Ok(responses)
    };
    let _responses = tokio::select! {
        responses = opening => responses?,
        ended = &mut connection => return Ok(ended?),
    };
    sleep(UNREAD_TIME).await;
    Ok(())
}
