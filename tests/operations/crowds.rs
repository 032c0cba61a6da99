//! Service for other clients while one takes all it can, measured in minutes. Not run by default:
//! `cargo test --release --test integration -- --ignored --nocapture --test-threads 1 crowds`.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::{StreamExt as _, stream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::harness::crawler::Crawler;
use crate::harness::{Origin, Reply, Request, Wayleave, Wire, eventually, passwords, runtime};

/// The waiting times of other clients, in chronological order.
#[derive(Default)]
struct Waits(Vec<Duration>);

impl Waits {
    fn measure<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let done = work();
        self.0.push(started.elapsed());
        done
    }

    /// Prints the statistics, and returns the 99th percentile.
    fn print(mut self, what: &str) -> Duration {
        self.0.sort_unstable();
        let at = |percent: usize| self.0[(self.0.len() - 1) * percent / 100];
        let (median, p99, most) = (at(50), at(99), at(100));
        let load = std::fs::read_to_string("/proc/loadavg").expect("Linux has it");
        println!(
            "{what}: {} requests, median {median:.1?}, p99 {p99:.1?}, most {most:.1?}; load {}",
            self.0.len(),
            load.split(' ').next().unwrap_or_default()
        );
        p99
    }
}

/// The number of tarpits requested at first, and in each second after.
const TARPITS: usize = 3000;
const NEW_TARPITS: u32 = 31;
const SECONDS: u64 = 60;

/// Requests a page of a tarpit, without waiting for the response.
fn request_tarpit(proxy: &Wayleave, number: usize) -> std::net::TcpStream {
    use std::io::Write as _;
    let url = format!("http://h{number}.tarpit.test/a");
    let mut wire = std::net::TcpStream::connect(proxy.proxy).expect("it listens");
    let request = Request::get(&url).agent("Other/1").absolute_form();
    wire.write_all(&request).expect("it can be sent");
    wire
}

/// Starts an origin that accepts all connections and sends nothing.
fn tarpit() -> SocketAddr {
    let listener = runtime().block_on(TcpListener::bind("127.0.0.1:0"));
    let listener = listener.expect("loopback can be listened at");
    let address = listener.local_addr().expect("it is bound");
    runtime().spawn(async move {
        let mut held = VecDeque::new();
        while let Ok(connection) = listener.accept().await {
            held.push_back(connection);
            // More than the proxy opens at one time: it has given up the others.
            if held.len() > 2000 {
                held.pop_front();
            }
        }
    });
    address
}

#[test]
#[ignore = "takes a minute and a quiet machine"]
fn tarpits_of_one_crawler_leave_others_served_within_a_second() {
    let origin = Origin::start();
    let tarpit = tarpit();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.resolve("*.tarpit.test:80", tarpit).crawler("news", "NewsBot")
    });
    let known = |number: u64| format!("http://known{}.test/{number}", number % 10);
    for number in 0..10 {
        let short = Reply::text("User-agent: *\nDisallow: /private\n");
        let site = origin.site(&format!("known{number}.test"));
        site.robots_reply(short.header("Cache-Control", "max-age=5"));
    }
    let get = |url: &str| proxy.get_as("NewsBot/1", url).status;
    (0..10).for_each(|number| assert_eq!(get(&known(number)), 200));
    let is_over = AtomicBool::new(false);
    let (mut new_waits, mut known_waits) = (Waits::default(), Waits::default());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut open: VecDeque<_> = (0..TARPITS).map(|n| request_tarpit(&proxy, n)).collect();
            for number in TARPITS.. {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                // A steady rate of new tarpits.
                std::thread::sleep(Duration::from_secs(1) / NEW_TARPITS);
                open.push_back(request_tarpit(&proxy, number));
                open.pop_front();
            }
        });
        let started = Instant::now();
        for number in 0.. {
            if started.elapsed() > Duration::from_secs(SECONDS) {
                break;
            }
            let new = format!("http://new{number}.test/a");
            assert_eq!(new_waits.measure(|| get(&new)), 200, "{new}");
            assert_eq!(known_waits.measure(|| get(&known(number))), 200);
            // The measured client must not be a load itself.
            std::thread::sleep(Duration::from_millis(20));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    known_waits.print("known origins beside tarpits");
    let p99 = new_waits.print("first requests to new origins beside tarpits");
    assert!(p99 < Duration::from_secs(1), "{p99:?}");
}

const GUESSERS: u32 = 300;
/// The hash of `secret`, at the cost that config.toml advises.
const HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$6G4RVhNf4sYzxbGJQzsImNwnF3BnniV+nogjylwdjiA";
const OWNERS: usize = 20;

/// Returns a crawler for each right password, because a verified one is not verified again.
fn owners() -> impl Iterator<Item = Crawler> {
    let owner = |number| {
        let name = format!("owner{number}");
        passwords::crawler(&name, &name, HASH)
    };
    (0..OWNERS).map(owner)
}

fn credentials(number: usize, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("owner{number}:{password}")))
}

/// Sends wrong passwords, one after the other, from its own address.
async fn guess(from: Ipv4Addr, to: SocketAddr) {
    for number in 0_u64.. {
        let url = "http://open.test/";
        let wrong = credentials(0, &number.to_string());
        let request = Request::get(url).header("Proxy-Authorization", &wrong);
        let request = request.header("Connection", "close").absolute_form();
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind((from, 0).into()).expect("all of 127/8 is ours");
        let mut stream = socket.connect(to).await.expect("it listens");
        let mut answer = Vec::new();
        let _maybe_closed = stream.write_all(&request).await;
        let _maybe_reset = stream.read_to_end(&mut answer).await;
    }
}

#[test]
#[ignore = "takes a minute and a quiet machine"]
fn right_passwords_are_verified_in_two_seconds_beside_guessers() {
    let origin = Origin::start();
    origin.site("open.test");
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .set("proxy.listen", "[\"0.0.0.0:0\"]")
            .with_all(owners())
            .crawler("news", "NewsBot")
    });
    let proxy_address = SocketAddr::from(([127, 0, 0, 1], proxy.proxy.port()));
    let others = |waits: &mut Waits| {
        let request = Request::get("http://open.test/").agent("NewsBot/1");
        assert_eq!(waits.measure(|| exchange(proxy_address, &request)), 200);
    };
    let (mut usual, mut others_waits, mut right) = Default::default();
    (0..1000).for_each(|_| others(&mut usual));
    let mut guessing = JoinSet::new();
    for number in 0..GUESSERS {
        let from = Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 1, 0, 1)) + number);
        guessing.spawn_on(guess(from, proxy_address), runtime().handle());
    }
    let checks = || proxy.metric("wayleave_requests_total", &[("reason", "wrong-password")]);
    eventually("guesses are verified", || checks() > 50.0);
    // The owner of the guessed name may be refused, too.
    for number in 1..OWNERS {
        let password = credentials(number, "secret");
        let request = Request::get("http://open.test/").agent("OwnerBot/1");
        let request = request.header("Proxy-Authorization", &password);
        let status = Waits::measure(&mut right, || exchange(proxy_address, &request));
        assert_eq!(status, 200);
        (0..100).for_each(|_| others(&mut others_waits));
    }
    let refused = proxy.metric("wayleave_requests_total", &[("reason", "password-checks")]);
    println!("{} guesses verified, {refused} refused unverified", checks());
    drop(guessing);
    usual.print("requests without a password");
    others_waits.print("the same beside guessers");
    let p99 = right.print("right passwords, each for the first time, beside guessers");
    assert!(p99 < Duration::from_secs(2), "{p99:?}");
}

fn exchange(proxy: SocketAddr, request: &Request) -> u16 {
    let mut wire = Wire::connect(proxy);
    wire.send(request.absolute_form());
    wire.response().status
}

const LONG_FILES: usize = 4000;
const AT_ONCE: usize = 400;
const MIB: u64 = 1 << 20;

/// Starts an origin where each host has a robots.txt of 500 kB that shares no line with others.
fn origin_of_long_files() -> SocketAddr {
    let listener = runtime().block_on(TcpListener::bind("127.0.0.1:0"));
    let listener = listener.expect("loopback can be listened at");
    let address = listener.local_addr().expect("it is bound");
    runtime().spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = vec![0; 4096];
                let length = stream.read(&mut head).await.unwrap_or_default();
                let head = String::from_utf8_lossy(&head[..length]).to_ascii_lowercase();
                let host = head.split("host: ").nth(1).unwrap_or_default();
                let digits: String = host.chars().filter(char::is_ascii_digit).collect();
                let body = unique(digits.parse().unwrap_or_default());
                let head = "HTTP/1.1 200 OK\r\nContent-Length: 500000\r\n\r\n";
                let _maybe_closed = stream.write_all(&[head.as_bytes(), &body].concat()).await;
            });
        }
    });
    address
}

/// Returns rules that do not compress.
fn unique(number: u64) -> Vec<u8> {
    let mut state = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut body = b"User-agent: *\n".to_vec();
    while body.len() < 500_000 {
        body.extend(b"Disallow: /");
        for _ in 0..8 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            body.extend(state.to_le_bytes().map(|byte| b'A' + byte % 32));
        }
        body.push(b'\n');
    }
    body.truncate(500_000);
    body
}

async fn send_get(number: usize, proxy: SocketAddr) -> u16 {
    let url = format!("http://h{number}.long.test/robots.txt.html");
    let request = Request::get(&url).header("Connection", "close").absolute_form();
    let mut stream = TcpStream::connect(proxy).await.expect("it listens");
    stream.write_all(&request).await.expect("it can be sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("the response is complete");
    let status = String::from_utf8_lossy(&answer[..answer.len().min(12)]).into_owned();
    status.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
}

/// Requests long files, prints memory statistics, and returns the most memory used.
fn flood_with_long_files(memory: u64) -> u64 {
    let origin = origin_of_long_files();
    let other = Origin::start();
    let proxy = Wayleave::start_with(&other, |settings| {
        settings
            .resolve("*.long.test:80", origin)
            .set("robots.memory", &format!("\"{}MiB\"", memory / MIB))
            .set("state.max_size", "\"256MiB\"")
    });
    let address = proxy.proxy;
    let answers = runtime().block_on(async move {
        let responses = stream::iter(0..LONG_FILES).map(move |number| send_get(number, address));
        responses.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await
    });
    let known = answers.iter().filter(|&&status| status == 200).count();
    let late = answers.iter().filter(|&&status| status == 503).count();
    let most = proxy.memory_kib("VmHWM") * 1024;
    let mapped = proxy.memory_kib("RssFile") * 1024;
    println!(
        "robots.memory {} MiB, {LONG_FILES} long files, {AT_ONCE} at once: {known} fetched, {late} not in time; {} MiB at \
         most, {} MiB of that mapped from files at the end",
        memory / MIB,
        most / MIB,
        mapped / MIB
    );
    most
}

#[test]
#[ignore = "takes minutes"]
fn hundreds_of_long_files_take_the_memory_of_config_toml() {
    let memory = 256 * MIB;
    let most = flood_with_long_files(memory);
    assert!(most < memory + 140 * MIB, "{} MiB", most / MIB);
}

#[test]
#[ignore = "takes minutes"]
fn hundreds_of_long_files_fit_a_small_robots_memory() {
    let memory = 64 * MIB;
    let most = flood_with_long_files(memory);
    assert!(most < memory + 140 * MIB, "{} MiB", most / MIB);
}
