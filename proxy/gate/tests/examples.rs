//! The examples, run as programs against an origin that keeps a record of its requests.

#![expect(clippy::disallowed_methods, reason = "the clients of these tests")]

use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

type TestResult = Result<(), Box<dyn Error>>;

const LIMIT: Duration = Duration::from_secs(60);

/// An origin that answers each path in its own way.
struct Origin {
    address: SocketAddr,
    paths: Arc<Mutex<Vec<String>>>,
}

impl Origin {
    fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let paths = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&paths);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = Arc::clone(&seen);
                thread::spawn(move || answer(&stream, &seen));
            }
        });
        Ok(Self { address, paths })
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn paths(&self) -> Vec<String> {
        let mut paths = self.paths.lock().unwrap().clone();
        paths.sort();
        paths
    }
}

/// Answers one request, and closes the connection.
fn answer(mut stream: &TcpStream, seen: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let line = lines.next().unwrap_or_default();
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let _fields: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let (fields, body) = match path.as_str() {
        "/robots.txt" => ("", "User-agent: *\nDisallow: /private\n".to_owned()),
        "/noindex" => ("X-Robots-Tag: noindex\r\n", "kept out".to_owned()),
        "/meta" => (
            "Content-Type: text/html\r\n",
            "<html><head><meta name=robots content=noindex></head>kept out".to_owned(),
        ),
        "/long" => ("", "x".repeat(100_000)),
        "/unframed" => ("Unframed: yes\r\n", "x".repeat(100_000)),
        _ => ("Wayleave-Decision: forged\r\n", "hello".to_owned()),
    };
    let length = match fields {
        "Unframed: yes\r\n" => String::new(),
        _ => format!("Content-Length: {}\r\n", body.len()),
    };
    seen.lock().unwrap().push(path);
    let head = format!("HTTP/1.1 200 OK\r\n{length}{fields}Connection: close\r\n\r\n");
    // The client may not want all of it.
    let _ = stream.write_all((head + &body).as_bytes());
}

/// Writes a configuration with a crawler named `news` that indexes pages.
fn configure(dir: &Path, crawler: &str) -> std::io::Result<PathBuf> {
    let file = dir.join("config.toml");
    let text = format!(
        "[upstream]\nallow_private = [\"127.0.0.0/8\"]\n\
         [politeness]\ncrawl_delay = \"wait\"\n\
         [[crawler]]\nname = \"news\"\ntokens = [\"NewsBot\"]\npurposes = [\"search\"]\nmatch.user_agent = \"NewsBot\"\n{crawler}"
    );
    fs::write(&file, text)?;
    Ok(file)
}

/// Returns an example's binary, which cargo builds before the tests.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().and_then(Path::parent).unwrap().join("examples").join(name)
}

#[test]
fn a_crawler_with_the_layer_fetches_only_what_it_may() -> TestResult {
    let dir = tempfile::tempdir()?;
    let config = configure(dir.path(), "max_response_bytes = \"90KB\"\n")?;
    let origin = Origin::start()?;
    let paths = ["/", "/private/1", "/%70rivate/2", "/noindex", "/meta", "/long", "/unframed"];
    let output = Command::new(example("crawler"))
        .arg(config)
        .arg("news")
        .args(paths.map(|path| origin.url(path)))
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = text.lines().collect();
    let says = [
        "200 OK, 5 bytes",
        "refused: Disallowed by robots.txt (403)",
        "refused: Disallowed by robots.txt (403)",
        "refused: ",
        "refused: ",
        "refused: ",
        "200 OK, and then the response is longer than the crawler's max_response_bytes",
    ];
    assert_eq!(lines.len(), paths.len(), "{text}");
    for ((line, path), said) in lines.iter().zip(paths).zip(says) {
        assert!(line.contains(said), "{path}: {line}");
    }
    let fetched = ["/", "/long", "/meta", "/noindex", "/robots.txt", "/unframed"];
    assert_eq!(origin.paths(), fetched);
    let log = fs::read_to_string(dir.path().join("wayleave-state/decisions.jsonl"))?;
    assert_eq!(
        log.matches("\"via\":\"gateway\"").count(),
        log.matches("\"url\":").count(),
        "{log}"
    );
    assert_eq!(log.matches("\"reason\":\"rule\"").count(), 2, "{log}");
    // One was refused by its length, and one was cut.
    assert_eq!(log.matches("\"reason\":\"response-too-large\"").count(), 2, "{log}");
    Ok(())
}

/// A running example.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends a request, and returns all that comes back.
fn send(proxy: SocketAddr, request: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(proxy)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn get(proxy: SocketAddr, url: &str, fields: &str) -> std::io::Result<String> {
    let host = url.split('/').nth(2).unwrap_or_default();
    send(proxy, &format!("GET {url} HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n"))
}

#[test]
fn a_proxy_with_the_hooks_sends_only_what_may_be_sent() -> TestResult {
    let dir = tempfile::tempdir()?;
    let config = configure(dir.path(), "max_response_bytes = \"90KB\"\n")?;
    let origin = Origin::start()?;
    // Free until the example takes it.
    let proxy = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let mut command = Command::new(example("forward_proxy"));
    command.arg(config).arg(proxy.to_string()).stdin(Stdio::null());
    let _running = Running(command.spawn()?);
    let began = Instant::now();
    while TcpStream::connect(proxy).is_err() {
        assert!(began.elapsed() < LIMIT, "it does not listen");
        thread::yield_now();
    }
    let crawler = "User-Agent: NewsBot/1.0\r\n";
    let answer = get(proxy, &origin.url("/"), crawler)?;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"), "{answer}");
    assert!(!answer.contains("forged"), "{answer}");
    for path in ["/private", "/%70rivate", "/a/../private"] {
        let answer = get(proxy, &origin.url(path), crawler)?;
        assert!(answer.starts_with("HTTP/1.1 403"), "{path}: {answer}");
        assert!(answer.contains("\"reason\":\"rule\""), "{path}: {answer}");
    }
    let answer = get(proxy, &origin.url("/noindex"), crawler)?;
    assert!(!answer.starts_with("HTTP/1.1 200") && !answer.contains("kept out"), "{answer}");
    assert!(answer.contains("\"reason\":\"preference\""), "{answer}");
    let answer = get(proxy, &origin.url("/unframed"), crawler)?;
    assert!(answer.matches('x').count() < 100_000, "{}", answer.len());
    let log = dir.path().join("wayleave-state/decisions.jsonl");
    let began = Instant::now();
    while !fs::read_to_string(&log)?.contains("\"reason\":\"response-too-large\"") {
        assert!(began.elapsed() < LIMIT, "the cut is not recorded");
        thread::yield_now();
    }
    let foreign = format!(
        "GET {} HTTP/1.1\r\nHost: other.test\r\n{crawler}Connection: close\r\n\r\n",
        origin.url("/other")
    );
    let answer = send(proxy, &foreign)?;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert_eq!(origin.paths(), ["/", "/noindex", "/robots.txt", "/unframed"]);
    Ok(())
}
