//! Three nodes before one server of known capacity, with real programs and real times: how much of it they use, how much it
//! refuses, how long its answers take, and how evenly its tenants and their crawlers are served. Takes minutes, and is not run by
//! default: `cargo test --test integration -- --ignored --nocapture --test-threads 1 fleet::capacity`. docs/politeness.md has the
//! results.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::engines::{Product, Server};
use super::proxies::node;
use crate::harness::wayleave::Settings;
use crate::harness::{Origin, Wayleave};

const TENANTS: usize = 15;
const CRAWLERS: [&str; 4] = ["NewsBot", "ImageBot", "ShopBot", "Other"];
const SERVICE: Duration = Duration::from_millis(100);
const WARM_UP: Duration = Duration::from_secs(90);
const MEASURED: Duration = Duration::from_secs(120);

/// A server with so many workers, each of which takes about the time of `SERVICE` for a page, in the order of arrival. With more
/// requests than `queue` before it, it answers 429 at once.
struct LimitedServer {
    address: SocketAddr,
    state: Arc<Mutex<ServerState>>,
}

struct ServerState {
    /// The times at which workers are free.
    free_at: Vec<Instant>,
    queue: usize,
    random: u64,
    served: Vec<ServedPage>,
}

/// A page that was answered or refused.
#[derive(Clone)]
struct ServedPage {
    at: Instant,
    /// The time until the answer; `None` if it was refused.
    took: Option<Duration>,
    tenant: String,
    crawler: String,
}

impl LimitedServer {
    fn start(workers: usize, queue: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let state = Arc::new(Mutex::new(ServerState {
            free_at: vec![Instant::now(); workers],
            queue,
            random: 88_172_645_463_325_252,
            served: Vec::new(),
        }));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                thread::spawn(move || serve(&connection, &state));
            }
        });
        Self { address, state }
    }

    fn served(&self) -> Vec<ServedPage> {
        self.state.lock().expect("no thread panics with it").served.clone()
    }
}

impl ServerState {
    /// Returns the time of the answer; `None` if the request is refused.
    fn admit(&mut self, now: Instant) -> Option<Instant> {
        let workers = self.free_at.len();
        let worker = (0..workers).min_by_key(|worker| self.free_at[*worker]).expect("a worker");
        let begins_at = self.free_at[worker].max(now);
        let waiting = begins_at - now;
        if waiting > SERVICE.mul_f64((self.queue as f64 + 0.5) / workers as f64) {
            return None;
        }
        for (shift, is_left) in [(13, true), (7, false), (17, true)] {
            self.random ^= if is_left { self.random << shift } else { self.random >> shift };
        }
        let random = (self.random >> 11) as f64 / (1_u64 << 53) as f64;
        self.free_at[worker] = begins_at + SERVICE.mul_f64(0.8 + 0.4 * random);
        Some(self.free_at[worker])
    }
}

/// Answers the requests of one connection.
fn serve(connection: &TcpStream, state: &Mutex<ServerState>) {
    let mut lines = BufReader::new(connection).lines();
    loop {
        let mut head = Vec::new();
        while let Some(Ok(line)) = lines.next()
            && !line.is_empty()
        {
            head.push(line);
        }
        let Some(first) = head.first() else { return };
        let status = if first.contains(" /robots.txt ") {
            "404 Not Found"
        } else {
            let field = |name: &str| {
                let value = head.iter().find_map(|line| {
                    line.split_once(": ").filter(|(field, _)| field.eq_ignore_ascii_case(name))
                });
                value.map_or_else(String::new, |(_, value)| value.to_owned())
            };
            let (tenant, crawler) = (field("host"), field("user-agent"));
            let at = Instant::now();
            let answer_at = state.lock().expect("no thread panics with it").admit(at);
            if let Some(answer_at) = answer_at {
                thread::sleep(answer_at.saturating_duration_since(Instant::now()));
            }
            // By its schedule, which a busy machine does not delay.
            let took = answer_at.map(|answer_at| answer_at - at);
            let page = ServedPage { at, took, tenant, crawler };
            state.lock().expect("no thread panics with it").served.push(page);
            if took.is_some() { "200 OK" } else { "429 Too Many Requests\r\nRetry-After: 1" }
        };
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
        if (&*connection).write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn nodes(origin: &Origin, engine: &Server, server: &LimitedServer, share: &str) -> [Wayleave; 3] {
    [(); 3].map(|()| {
        node(origin, engine, |settings: Settings| {
            let settings = (0..TENANTS).fold(settings, |settings, tenant| {
                settings.resolve(&format!("t{tenant}.shop.test:80"), server.address)
            });
            let settings = settings
                .set("politeness.share", &format!("{share:?}"))
                .set("politeness.adaptive", "true")
                .set("politeness.crawl_delay", "\"wait\"")
                .set("politeness.max_wait", "\"5m\"");
            let named = CRAWLERS[..3].iter();
            named.fold(settings, |settings, name| settings.crawler(&name.to_lowercase(), name))
        })
    })
}

/// Has four crawlers at each node request pages of all tenants until `end`. The first wants twice as much as each other.
fn crawl(nodes: &[Wayleave; 3], end: Instant) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for proxy in nodes {
            for (number, crawler) in CRAWLERS.into_iter().enumerate() {
                for client in 0..TENANTS * if number == 0 { 2 } else { 1 } {
                    let is_over = &is_over;
                    scope.spawn(move || {
                        let url = format!("http://t{}.shop.test/", client % TENANTS);
                        while Instant::now() < end && !is_over.load(Ordering::Relaxed) {
                            let status = proxy.get_as(&format!("{crawler}/1"), &url).status;
                            if ![200, 429].contains(&status) {
                                is_over.store(true, Ordering::Relaxed);
                                panic!("{status}");
                            }
                        }
                    });
                }
            }
        }
    });
}

/// Returns Jain's index of fairness: 1 if all are the same.
fn jain<'a>(pages: &'a [&ServedPage], of: impl Fn(&'a ServedPage) -> &'a String) -> f64 {
    let mut counts = HashMap::<_, f64>::new();
    for page in pages {
        *counts.entry(of(page)).or_default() += 1.0;
    }
    let sum: f64 = counts.values().sum();
    let squares: f64 = counts.values().map(|count| count * count).sum();
    sum * sum / (counts.len() as f64 * squares)
}

/// Measures how three nodes use a server with these numbers of workers and of requests that may wait: at least this part.
fn measure(workers: usize, queue: usize, share: &str, least: f64) {
    let (origin, engine) = (Origin::start(), Server::start(Product::Redis));
    let server = LimitedServer::start(workers, queue);
    let nodes = nodes(&origin, &engine, &server, share);
    let begun_at = Instant::now();
    crawl(&nodes, begun_at + WARM_UP + MEASURED);
    let served = server.served();
    let measured = begun_at + WARM_UP..begun_at + WARM_UP + MEASURED;
    let all: Vec<_> = served.iter().filter(|page| measured.contains(&page.at)).collect();
    let pages: Vec<_> = all.iter().copied().filter(|page| page.took.is_some()).collect();
    let mut took: Vec<_> = pages.iter().filter_map(|page| page.took).collect();
    took.sort();
    let p99 = took[took.len() * 99 / 100].as_secs_f64() / SERVICE.mul_f64(1.2).as_secs_f64();
    let capacity = workers as f64 / SERVICE.as_secs_f64();
    let used = pages.len() as f64 / MEASURED.as_secs_f64() / capacity;
    let refused = (all.len() - pages.len()) as f64 / all.len() as f64;
    let [tenants, crawlers] = [jain(&pages, |it| &it.tenant), jain(&pages, |it| &it.crawler)];
    let load = std::fs::read_to_string("/proc/loadavg").expect("Linux has it");
    println!(
        "{workers} workers, {queue} may wait, share = {share:?}: {:.1} % used, {:.2} % refused, p99 {p99:.2} of idle, \
         Jain {tenants:.3} of tenants, {crawlers:.3} of crawlers; load {}",
        100.0 * used,
        100.0 * refused,
        load.split(' ').next().unwrap_or_default()
    );
    for proxy in &nodes {
        println!("{}", proxy.admin_get("/v1/pace").text());
    }
    assert!(used >= least && refused < 0.01, "{used} {refused}");
    assert!(tenants >= 0.97 && crawlers >= 0.97, "{tenants} {crawlers}");
    assert!(p99 <= 1.5, "{p99}: is the machine quiet?");
}

#[test]
#[ignore = "takes minutes"]
fn three_nodes_use_what_a_server_with_a_queue_can_take() {
    for share in ["domain", "address"] {
        measure(8, 16, share, 0.9);
    }
}

#[test]
#[ignore = "takes minutes"]
fn three_nodes_use_what_a_server_without_a_queue_can_take() {
    // Where nothing may wait, requests that do not arrive at even intervals are refused before all workers are busy.
    measure(8, 1, "domain", 0.75);
}

#[test]
#[ignore = "takes minutes"]
fn three_nodes_use_what_a_slow_server_can_take() {
    measure(1, 8, "domain", 0.9);
}
