//! The instructions of one request for an origin that asks for nothing: no Crawl-delay, no rest, no limit. Each takes a decision,
//! from the client's identity over rules, robots.txt and usage preferences to its slot, and gives the slot back.
//!
//! `cargo bench -p wayleave-benches --bench decision` (Debian: `valgrind`). It runs the whole proxy, which is this program again,
//! below callgrind. With the path of another version's program in `WAYLEAVE_BENCH_BEFORE`, that is measured as well. Instructions
//! show a hundredth of a decision, and time on a busy machine does not. Functions that the compiler has put into their callers
//! have no row.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The parts of the path of a request that are shown, and how the names of their functions begin and end.
const PARTS: [(&str, &str, &str); 5] = [
    ("the request", "PROGRAM TOTALS", ""),
    ("  decision and slot", "wayleave_admission::pace::", "decide_and_wait::{{closure}}"),
    ("    of these, slot", "wayleave_pacing::", "wait_for_slot::{{closure}}"),
    ("  answer noted in slot", "wayleave_pacing::PacingSlot::record_answer", ""),
    ("  slot given back", "core::ptr::drop_in_place<wayleave_pacing::PacingSlot>", ""),
];

/// The numbers of requests in two runs. Their difference is free of the start, and of the first fetches.
const REQUESTS: [u32; 2] = [200, 1_200];

/// The file of robots.txt, with more than one group and a statement of use, but without a delay.
const ROBOTS: &str = "User-agent: *\nContent-Usage: train-ai=n\nDisallow: /private/\nAllow: /private/open/\n\n\
    User-agent: OtherBot\nDisallow: /\n";

const SETTINGS: &str = r#"
[[crawler]]
name = "news"
tokens = ["NewsBot"]
match = { user_agent = "NewsBot" }
purposes = ["search"]

[[rule]]
action = "refuse"
hosts = ["other.test"]
"#;

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--config") {
        return wayleave::cli::run();
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("valgrind is not installed");
        return ExitCode::SUCCESS;
    }
    let origin = start_origin();
    let this = std::env::current_exe().expect("this program has a path");
    let before = std::env::var_os("WAYLEAVE_BENCH_BEFORE").map(PathBuf::from);
    for (version, program) in [("before", before), ("now", Some(this))] {
        let Some(program) = program else { continue };
        for (settings, politeness) in [
            ("defaults", ""),
            ("crawl_delay = \"ignore\"", "politeness.crawl_delay = \"ignore\"\n"),
            ("share = \"domain\"", "politeness.share = \"domain\"\n"),
        ] {
            // The key may be unknown to an earlier version.
            let Some(few) = count(&program, origin, politeness, REQUESTS[0]) else { continue };
            let many = count(&program, origin, politeness, REQUESTS[1]).expect("it ran before");
            println!("{version}, {settings}");
            for (part, (few, many)) in PARTS.iter().zip(few.into_iter().zip(many)) {
                if many > 0 {
                    let each = many.saturating_sub(few) / u64::from(REQUESTS[1] - REQUESTS[0]);
                    println!("  {:24} {each:8}", part.0);
                }
            }
        }
    }
    ExitCode::SUCCESS
}

/// Starts an origin on loopback, which answers whatever it is asked.
fn start_origin() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has free ports");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer_all(stream));
        }
    });
    address
}

fn answer_all(mut stream: TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let head = read_head(&mut reader)?;
        let (status, body) = match head.split(' ').nth(1)? {
            "/robots.txt" => ("200 OK", ROBOTS),
            "/page" => ("200 OK", "page"),
            _ => ("404 Not Found", ""),
        };
        let length = body.len();
        write!(stream, "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n{body}").ok()?;
    }
}

/// Returns the head of the next message; `None` at the end.
fn read_head(reader: &mut impl BufRead) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        reader.read_line(&mut head).ok().filter(|length| *length > 0)?;
    }
    Some(head)
}

/// Runs a version of the proxy for so many requests. Returns the instructions of each part; `None` if it does not start.
fn count(
    program: &Path,
    origin: SocketAddr,
    politeness: &str,
    requests: u32,
) -> Option<[u64; PARTS.len()]> {
    let dir = std::env::temp_dir().join(format!("wayleave-decision-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a directory can be made");
    let [proxy, admin] = free_ports();
    let state = dir.join("state");
    let settings = format!(
        "proxy.listen = [\"{proxy}\"]\nadmin.listen = \"{admin}\"\nstate.dir = {state:?}\n\
         dns.overrides.\"shop.test:80\" = \"{origin}\"\nupstream.allow_private = [\"127.0.0.1/32\"]\n\
         robots.fetch_timeout = \"30s\"\n{politeness}{SETTINGS}"
    );
    fs::write(dir.join("config.toml"), settings).expect("a file can be written");
    let mut child = start_proxy(program, &dir);
    let stream = connect(proxy, &mut child);
    let counted = stream.map(|stream| {
        send(stream, requests);
        stop(&mut child);
        read_counts(&dir)
    });
    fs::remove_dir_all(&dir).expect("the directory can be removed");
    counted
}

/// Returns addresses that nobody listens at.
fn free_ports() -> [SocketAddr; 2] {
    let listeners = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    listeners.map(|it| it.and_then(|it| it.local_addr()).expect("loopback has free ports"))
}

fn start_proxy(program: &Path, dir: &Path) -> Child {
    let mut command = Command::new("valgrind");
    command
        .args(["--quiet", "--tool=callgrind"])
        .arg(format!("--callgrind-out-file={}", dir.join("counts").display()))
        .arg(program)
        .arg("--config")
        .arg(dir.join("config.toml"))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().expect("valgrind is installed")
}

/// Connects as soon as the proxy listens; `None` if it ends before.
fn connect(proxy: SocketAddr, child: &mut Child) -> Option<TcpStream> {
    let started = Instant::now();
    while started.elapsed() < Duration::from_mins(5) {
        if let Ok(stream) = TcpStream::connect(proxy) {
            return Some(stream);
        }
        if child.try_wait().is_ok_and(|ended| ended.is_some()) {
            return None;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("the proxy does not listen");
}

/// Sends requests for one page, one after another.
fn send(mut stream: TcpStream, requests: u32) {
    let mut reader = BufReader::new(stream.try_clone().expect("a socket can be shared"));
    for _ in 0..requests {
        let head = b"GET http://shop.test/page HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: NewsBot/1\r\n\r\n";
        stream.write_all(head).expect("the proxy reads requests");
        let head = read_head(&mut reader).expect("the proxy answers");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        reader.read_exact(&mut [0; "page".len()]).expect("the page is whole");
    }
}

/// Ends the proxy, which makes callgrind write its counts.
fn stop(child: &mut Child) {
    let signalled = Command::new("kill").arg(child.id().to_string()).status();
    assert!(signalled.is_ok_and(|status| status.success()));
    child.wait().expect("it ends");
}

/// Returns the instructions of each part, with all that it calls.
fn read_counts(dir: &Path) -> [u64; PARTS.len()] {
    let annotate = Command::new("callgrind_annotate")
        .args(["--inclusive=yes", "--threshold=100", "--show-percs=no", "--auto=no"])
        .arg(dir.join("counts"))
        .output()
        .expect("it comes with valgrind");
    let text = String::from_utf8_lossy(&annotate.stdout);
    PARTS.map(|(_, begins, ends)| {
        // A line is a count, a file, a colon, a function and, in brackets, the program.
        let counts = text.lines().filter_map(|line| {
            let (count, place) = line.trim_start().split_once(' ')?;
            let at = place.find(begins)?;
            let function = place[at..].split(" [").next()?;
            let before = place[..at].trim_start();
            let is_it = (before.is_empty() || before.ends_with(':')) && function.ends_with(ends);
            is_it.then(|| count.replace(',', "").parse().unwrap_or(0))
        });
        // With debug information there are lines for what it inlines from other files too, which the first one contains.
        counts.max().unwrap_or(0)
    })
}
