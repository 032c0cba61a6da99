//! A scripted origin: many host names at one HTTP and one HTTPS port on loopback, and a record of all that arrived.

mod frames;
mod http1;
mod http2;
pub mod reply;
mod wire;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

use tokio::net::TcpListener;
use tokio::sync::Notify;

use self::reply::{Gate, Reply};
use super::tls::Certificate;
use super::{DEADLINE, runtime};

/// A request as an origin received it.
#[derive(Debug)]
pub struct ReceivedRequest {
    /// The time at which its head was complete.
    pub at: Instant,
    pub connection: usize,
    /// The client's address.
    pub peer: IpAddr,
    /// `http` or `https`, by the port.
    pub scheme: &'static str,
    /// The server name in the ClientHello.
    pub sni: Option<String>,
    /// `HTTP/1.0`, `HTTP/1.1` or `HTTP/2`.
    pub version: &'static str,
    pub method: String,
    /// The exact request target (HTTP/2: `:path`).
    pub target: String,
    /// The value of `Host` (HTTP/2: `:authority`).
    pub authority: String,
    pub headers: Vec<(String, String)>,
    pub body: Mutex<Body>,
}

/// The part of a request's body that has arrived.
#[derive(Debug, Default, Clone)]
pub struct Body {
    pub length: u64,
    /// The first 64 KiB.
    pub start: Vec<u8>,
    /// Whether any byte differs from `reply::pattern`.
    pub off_pattern: bool,
    pub trailers: Vec<(String, String)>,
    pub complete: bool,
}

impl ReceivedRequest {
    /// Returns whether the head announces content.
    pub fn has_content(&self) -> bool {
        self.header("transfer-encoding").is_some()
            || self.header("content-length").is_some_and(|length| length != "0")
    }

    /// Returns whether it is the last on its connection.
    pub fn closes(&self) -> bool {
        self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    /// Returns the host of the authority, in lower case, without port.
    pub fn host(&self) -> String {
        host_of(&self.authority)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub fn body(&self) -> Body {
        self.body.lock().expect("no test panics while it holds a body").clone()
    }
}

/// Returns the host of an authority, in lower case, without port.
pub fn host_of(authority: &str) -> String {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    host.to_ascii_lowercase()
}

/// The treatment of requests' content by an HTTP/1 origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentHandling {
    #[default]
    Proper,
    /// The origin reads no content and takes what follows a head for the next request.
    IgnoresContent,
    /// The origin also ignores `Connection: close` (RFC 9112 section 9.6).
    IgnoresContentAndClose,
}

/// The script of a host name.
#[derive(Clone, Debug, Default)]
pub struct Site {
    pub robots: Option<Reply>,
    /// The robots.txt for requests whose `User-Agent` contains a text, instead of `robots`.
    pub robots_by_agent: Vec<(String, Reply)>,
    pub pages: HashMap<String, Reply>,
    /// The response to requests whose `User-Agent` contains a text, instead of a page.
    pub pages_by_agent: Vec<(String, Reply)>,
    /// The response to requests without a signature, instead of a page.
    pub unsigned: Option<Reply>,
    /// The response to requests for robots.txt without a signature.
    pub unsigned_robots: Option<Reply>,
    pub certificate: Certificate,
    /// The protocols offered in TLS; all if empty.
    pub protocols: &'static [&'static str],
    /// The frames of every HTTP/2 response; none for the usual responses.
    pub frames: Vec<frames::Frame>,
    /// Whether TLS is completed with a client that offers none of `protocols`.
    pub ignores_alpn: bool,
    pub content_handling: ContentHandling,
    /// The reset by which HTTP/2 requests are refused, and for how many of each target. robots.txt is served all the same.
    pub refusals: Option<(h2::Reason, usize)>,
    /// The most concurrent streams of an HTTP/2 connection.
    pub max_streams: Option<u32>,
    /// The gate at which connections of HTTP/2 wait before they send SETTINGS.
    pub settings_gate: Option<Gate>,
}

impl Site {
    /// Returns the scripted response; without a script a small page, and no robots.txt.
    pub fn reply(&self, request: &ReceivedRequest) -> Reply {
        let path = &*request.target;
        if let Some(unsigned) = &self.unsigned
            && request.header("signature").is_none()
            && path != "/robots.txt"
        {
            return unsigned.clone();
        }
        if let Some(unsigned) = &self.unsigned_robots
            && request.header("signature").is_none()
            && path == "/robots.txt"
        {
            return unsigned.clone();
        }
        let agent = request.header("user-agent").unwrap_or_default();
        let own = self.pages_by_agent.iter().find(|(part, _)| agent.contains(part));
        if let Some((_, reply)) = own.filter(|_| path != "/robots.txt") {
            return reply.clone();
        }
        if let Some(page) = self.pages.get(path) {
            return page.clone();
        }
        if path == "/robots.txt" {
            let own = self.robots_by_agent.iter().find(|(part, _)| agent.contains(part));
            if let Some((_, reply)) = own {
                return reply.clone();
            }
            return self
                .robots
                .clone()
                .unwrap_or_else(|| Reply::new(404).body("no robots.txt here"));
        }
        Reply::html(format!("<!doctype html><title>page</title><p>{path}"))
    }
}

/// The record of what has arrived.
#[derive(Debug, Default)]
pub struct Arrived {
    pub connections: usize,
    /// The number of responses that have ended, whole or cut off by the other side.
    pub answered: usize,
    pub requests: Vec<Arc<ReceivedRequest>>,
}

#[derive(Debug)]
pub struct Shared {
    sites: Mutex<HashMap<String, Site>>,
    arrived: Mutex<Arrived>,
    changed: Condvar,
    closed: AtomicBool,
    closing: Notify,
}

impl Shared {
    pub fn site(&self, host: &str) -> Site {
        let sites = lock(&self.sites);
        sites.get(host).or_else(|| sites.get("*")).cloned().unwrap_or_default()
    }

    pub fn connected(&self) -> usize {
        let mut arrived = lock(&self.arrived);
        arrived.connections += 1;
        self.changed.notify_all();
        arrived.connections
    }

    /// Returns the number of requests for `target` so far.
    pub fn count(&self, target: &str) -> usize {
        lock(&self.arrived).requests.iter().filter(|request| request.target == target).count()
    }

    pub fn answer_ended(&self) {
        lock(&self.arrived).answered += 1;
        self.changed.notify_all();
    }

    pub fn received(&self, request: ReceivedRequest) -> Arc<ReceivedRequest> {
        let request = Arc::new(request);
        lock(&self.arrived).requests.push(Arc::clone(&request));
        self.changed.notify_all();
        request
    }

    pub fn body_grew(&self, request: &ReceivedRequest, bytes: &[u8]) {
        let mut body = lock(&request.body);
        let from = body.length;
        body.off_pattern |= !reply::is_pattern(bytes, from);
        body.length += bytes.len() as u64;
        let kept = 65_536_usize.saturating_sub(body.start.len()).min(bytes.len());
        body.start.extend_from_slice(&bytes[..kept]);
        drop(body);
        self.notify();
    }

    pub fn body_ended(&self, request: &ReceivedRequest, trailers: Vec<(String, String)>) {
        let mut body = lock(&request.body);
        body.trailers = trailers;
        body.complete = true;
        drop(body);
        self.notify();
    }

    /// Takes the lock that waiters hold while they check, so that no change falls between their check and their wait.
    fn notify(&self) {
        drop(lock(&self.arrived));
        self.changed.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A running origin; its ports close when it is dropped.
#[derive(Debug)]
pub struct Origin {
    pub http: SocketAddr,
    pub https: SocketAddr,
    shared: Arc<Shared>,
}

impl Origin {
    pub fn start() -> Self {
        Self::start_at("127.0.0.1")
    }

    /// Listens on another loopback address, such as one that the proxy may not dial.
    pub fn start_at(address: &str) -> Self {
        let shared = Arc::new(Shared {
            sites: Mutex::default(),
            arrived: Mutex::default(),
            changed: Condvar::new(),
            closed: AtomicBool::new(false),
            closing: Notify::new(),
        });
        let http = Self::listen(address, "http", &shared);
        let https = Self::listen(address, "https", &shared);
        Self { http, https, shared }
    }

    fn listen(address: &str, scheme: &'static str, shared: &Arc<Shared>) -> SocketAddr {
        let listener =
            runtime().block_on(TcpListener::bind((address, 0))).expect("loopback has free ports");
        let bound = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::clone(shared);
        runtime().spawn(async move {
            loop {
                let closing = shared.closing.notified();
                if shared.closed.load(Ordering::SeqCst) {
                    return;
                }
                let stream = tokio::select! {
                    accepted = listener.accept() => accepted.expect("accepting on loopback works").0,
                    () = closing => return,
                };
                let connection = shared.connected();
                runtime().spawn(wire::serve(stream, scheme, connection, Arc::clone(&shared)));
            }
        });
        bound
    }

    /// Closes the ports; open connections remain.
    pub fn stop_listening(&self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        self.shared.closing.notify_waiters();
        for address in [self.http, self.https] {
            super::eventually("the origin's ports close", || {
                std::net::TcpStream::connect(address).is_err()
            });
        }
    }

    /// Returns the script of `host` to change it; `"*"` is every host without its own.
    pub fn site(&self, host: &str) -> SiteHandle<'_> {
        lock(&self.shared.sites).entry(host.to_owned()).or_default();
        SiteHandle { origin: self, host: host.to_owned() }
    }

    /// Returns all requests so far as `METHOD scheme://authority/target`, in order of arrival.
    pub fn seen(&self) -> Vec<String> {
        self.requests().iter().map(|request| line(request)).collect()
    }

    /// Returns how often `url` was requested by GET.
    pub fn count_gets(&self, url: &str) -> usize {
        let line = format!("GET {url}");
        self.seen().iter().filter(|seen| **seen == line).count()
    }

    /// Returns how often the robots.txt of a host was requested, by HTTP and HTTPS.
    pub fn robots_fetches(&self, host: &str) -> usize {
        let requests = self.requests();
        let fetches = requests.iter().filter(|request| request.target == "/robots.txt");
        fetches.filter(|request| request.host() == host).count()
    }

    pub fn requests(&self) -> Vec<Arc<ReceivedRequest>> {
        lock(&self.shared.arrived).requests.clone()
    }

    /// Returns the only request apart from those for robots.txt.
    #[track_caller]
    pub fn only_request(&self) -> Arc<ReceivedRequest> {
        let mut requests = self.requests();
        requests.retain(|request| request.target != "/robots.txt");
        assert_eq!(
            requests.len(),
            1,
            "one request apart from robots.txt was expected: {:?}",
            self.seen()
        );
        requests.remove(0)
    }

    /// Returns the number of TCP connections accepted so far, on both ports.
    pub fn connections(&self) -> usize {
        lock(&self.shared.arrived).connections
    }

    /// Waits until what has arrived meets a condition.
    #[track_caller]
    pub fn wait_for(&self, what: &str, condition: impl Fn(&Arrived) -> bool) {
        let started = Instant::now();
        let mut arrived = lock(&self.shared.arrived);
        while !condition(&arrived) {
            let left = DEADLINE.saturating_sub(started.elapsed());
            assert!(
                !left.is_zero(),
                "the origin waited {DEADLINE:?} for this: {what}; arrived: {:?}",
                arrived.requests
            );
            arrived = self
                .shared
                .changed
                .wait_timeout(arrived, left)
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .0;
        }
    }

    /// Waits until a request for `target` has arrived, and returns it.
    #[track_caller]
    pub fn wait_for_target(&self, target: &str) -> Arc<ReceivedRequest> {
        self.wait_for(&format!("a request for {target}"), |arrived| {
            arrived.requests.iter().any(|request| request.target == target)
        });
        self.requests()
            .into_iter()
            .find(|request| request.target == target)
            .expect("it has arrived")
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        self.shared.closing.notify_waiters();
    }
}

fn line(request: &ReceivedRequest) -> String {
    format!("{} {}://{}{}", request.method, request.scheme, request.authority, request.target)
}

/// The script of one host, to be changed.
#[derive(Clone, Debug)]
pub struct SiteHandle<'a> {
    origin: &'a Origin,
    host: String,
}

impl SiteHandle<'_> {
    fn change(self, change: impl FnOnce(&mut Site)) -> Self {
        change(lock(&self.origin.shared.sites).get_mut(&self.host).expect("made by Origin::site"));
        self
    }

    /// Serves this text as robots.txt.
    pub fn robots(self, body: impl AsRef<[u8]>) -> Self {
        self.robots_reply(Reply::text(body))
    }

    /// Serves a robots.txt that disallows this path, and only this, to everybody.
    pub fn disallows(self, path: &str) -> Self {
        self.robots(format!("User-agent: *\nDisallow: {path}\n"))
    }

    /// Serves a robots.txt that allows everything.
    pub fn allows_all(self) -> Self {
        self.robots("User-agent: *\nAllow: /\n")
    }

    pub fn robots_reply(self, reply: Reply) -> Self {
        self.change(|site| site.robots = Some(reply))
    }

    /// Serves this robots.txt to clients whose `User-Agent` contains `agent`.
    pub fn robots_to(self, agent: &str, reply: Reply) -> Self {
        self.change(|site| site.robots_by_agent.push((agent.to_owned(), reply)))
    }

    pub fn unsigned_robots(self, reply: Reply) -> Self {
        self.change(|site| site.unsigned_robots = Some(reply))
    }

    pub fn unsigned(self, reply: Reply) -> Self {
        self.change(|site| site.unsigned = Some(reply))
    }

    pub fn pages_to(self, agent: &str, reply: Reply) -> Self {
        self.change(|site| site.pages_by_agent.push((agent.to_owned(), reply)))
    }

    pub fn page(self, target: &str, reply: Reply) -> Self {
        self.change(|site| {
            site.pages.insert(target.to_owned(), reply);
        })
    }

    pub fn certificate(self, certificate: Certificate) -> Self {
        self.change(|site| site.certificate = certificate)
    }

    pub fn content_handling(self, content_handling: ContentHandling) -> Self {
        self.change(|site| site.content_handling = content_handling)
    }

    /// Refuses the first `times` HTTP/2 requests for each target but robots.txt.
    pub fn refuse_streams(self, reason: h2::Reason, times: usize) -> Self {
        self.change(|site| site.refusals = Some((reason, times)))
    }

    pub fn max_streams(self, max: u32) -> Self {
        self.change(|site| site.max_streams = Some(max))
    }

    /// Sends nothing on connections of HTTP/2 until the gate is open.
    pub fn settings_after(self, gate: &Gate) -> Self {
        self.change(|site| site.settings_gate = Some(gate.clone()))
    }

    /// Responds to every request by HTTP/2 with these frames on its stream: `(kind, flags, payload)`.
    pub fn frames(self, frames: &[frames::Frame]) -> Self {
        self.change(|site| site.frames = frames.to_vec())
    }

    /// Offers only HTTP/1.1.
    pub fn http1_only(self) -> Self {
        self.change(|site| site.protocols = &["http/1.1"])
    }

    /// Offers only HTTP/2.
    pub fn http2_only(self) -> Self {
        self.change(|site| site.protocols = &["h2"])
    }

    /// Offers only HTTP/2, and uses it without agreement. RFC 7301 section 3.2 requires an alert there, which many servers built
    /// on OpenSSL do not send.
    pub fn http2_without_agreement(self) -> Self {
        self.http2_only().change(|site| site.ignores_alpn = true)
    }

    /// Uses HTTP/1.1 without ALPN.
    pub fn without_alpn(self) -> Self {
        self.change(|site| {
            // No client offers this.
            site.protocols = &["http/0.9"];
            site.ignores_alpn = true;
        })
    }
}
