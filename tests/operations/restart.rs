//! State that outlives the process: every robots.txt, through restarts and crashes.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::harness::{Origin, Reply, Request, Wayleave, eventually};

const KEEP_OUT: &str = "User-agent: *\nDisallow: /private\n";

fn robots_fetches(origin: &Origin) -> HashMap<String, usize> {
    let mut fetches = HashMap::new();
    for request in origin.requests() {
        if request.target == "/robots.txt" {
            *fetches.entry(request.host()).or_default() += 1;
        }
    }
    fetches
}

#[test]
fn a_restart_asks_for_nothing_that_is_fresh() {
    let origin = Origin::start();
    origin.site("rules.test").robots(KEEP_OUT);
    origin.site("none.test").robots_reply(Reply::new(404));
    origin.site("down.test").robots_reply(Reply::new(503));
    let statuses = |proxy: &Wayleave| {
        ["rules.test/a", "rules.test/private", "none.test/private", "down.test/a"]
            .map(|url| proxy.get(&format!("http://{url}")).status)
    };
    let expected = [200, 403, 200, 503];
    let proxy = Wayleave::start(&origin);
    assert_eq!(statuses(&proxy), expected);
    let (dir, settings) = proxy.stop();
    let proxy = Wayleave::start_in(dir, settings);
    assert_eq!(statuses(&proxy), expected);
    let fetches = robots_fetches(&origin);
    assert_eq!(fetches.len(), 3);
    assert!(fetches.values().all(|count| *count == 1), "{fetches:?}");
}

#[test]
fn a_second_process_on_one_state_directory_is_refused() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let second = crate::harness::wayleave::command()
        .arg("serve")
        .arg("--config")
        .arg(proxy.dir.path().join("config.toml"))
        .current_dir(proxy.dir.path())
        .output()
        .expect("the binary can be started");
    assert!(!second.status.success());
    let told = String::from_utf8_lossy(&second.stderr);
    assert!(told.contains("in use by another process"), "{told}");
}

#[test]
fn on_a_full_disk_the_proxy_goes_on_from_memory_and_says_so() {
    let origin = Origin::start();
    let proxy = Wayleave::start_on_full_disk(&origin, 2048);
    let mut hosts = 0;
    eventually("the store fails", || {
        for _ in 0..20 {
            let host = format!("host{hosts}.test");
            let unlike_others = format!("{KEEP_OUT}Disallow: /{}\n", "x".repeat(20_000 + hosts));
            origin.site(&host).robots(unlike_others);
            assert_eq!(proxy.get(&format!("http://{host}/private")).status, 403);
            hosts += 1;
        }
        proxy.metric("wayleave_store_errors_total", &[]) > 0.0
    });
    let ready = proxy.admin_get("/readyz");
    assert_eq!(ready.status, 200);
    assert!(ready.text().contains("the store fails"), "{}", ready.text());
    for number in 0..hosts {
        let private = format!("http://host{number}.test/private");
        assert_eq!(proxy.get(&private).status, 403);
    }
    let fetches = robots_fetches(&origin);
    assert_eq!(fetches.len(), hosts);
    assert!(fetches.values().all(|count| *count == 1), "{fetches:?}");
}

/// Whether 200 comes from a proxy that may go away at any moment.
fn is_answered(proxy: SocketAddr, url: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(proxy) else {
        return false;
    };
    let request = Request::get(url).header("Connection", "close").absolute_form();
    let mut answer = Vec::new();
    let is_whole = stream.write_all(&request).is_ok() && stream.read_to_end(&mut answer).is_ok();
    is_whole && answer.starts_with(b"HTTP/1.1 200 ")
}

/// Asks for new hosts until the proxy is gone; notes when each answer had come.
fn ask_until_gone(
    proxy: &Wayleave,
    round: usize,
    next: &AtomicUsize,
    is_over: &AtomicBool,
    learned: &Mutex<Vec<(String, Instant)>>,
) {
    while !is_over.load(Ordering::SeqCst) {
        let number = next.fetch_add(1, Ordering::SeqCst);
        let host = format!("r{round}-{number}.test");
        if is_answered(proxy.proxy, &format!("http://{host}/a")) {
            let came_at = Instant::now();
            learned.lock().expect("no holder panics").push((host, came_at));
        }
    }
}

/// The longest that the disk took to keep a few bytes. What nobody can have kept sooner is not the proxy's to lose.
fn longest_sync(dir: &Path, is_over: &AtomicBool) -> Duration {
    let path = dir.join("sync");
    let mut longest = Duration::ZERO;
    while !is_over.load(Ordering::SeqCst) {
        let started = Instant::now();
        let file = File::create(&path).and_then(|mut file| {
            file.write_all(b"kept")?;
            file.sync_all()
        });
        file.expect("the directory can be written to");
        longest = longest.max(started.elapsed());
        std::thread::park_timeout(Duration::from_millis(10));
    }
    longest
}

/// Kills the proxy under load, not before `least` have passed. Returns what was learned more than a second before, and longer
/// than the disk's slowest answer meanwhile.
fn learn_and_kill(proxy: &mut Wayleave, round: usize, least: Duration) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let is_over = AtomicBool::new(false);
    let learned = Mutex::new(Vec::new());
    let started = Instant::now();
    let mut killed_at = started;
    let mut patience = Duration::from_secs(1);
    std::thread::scope(|scope| {
        let syncing = scope.spawn(|| longest_sync(proxy.dir.path(), &is_over));
        for _ in 0..3 {
            scope.spawn(|| ask_until_gone(proxy, round, &next, &is_over, &learned));
        }
        eventually("there was load for long enough", || started.elapsed() > least);
        killed_at = Instant::now();
        proxy.signal("KILL");
        is_over.store(true, Ordering::SeqCst);
        patience += syncing.join().expect("the disk can be written to");
    });
    proxy.wait();
    let learned = learned.into_inner().expect("no holder panicked");
    let is_old = |came_at: &Instant| killed_at.duration_since(*came_at) > patience;
    learned.into_iter().filter(|(_, came_at)| is_old(came_at)).map(|(host, _)| host).collect()
}

#[test]
fn twenty_kills_under_load_lose_nothing_older_than_a_second() {
    let origin = Origin::start();
    origin.site("*").robots(KEEP_OUT).page("/a", Reply::text("a"));
    let mut proxy = Wayleave::start(&origin);
    let mut known = Vec::new();
    for round in 0..20 {
        let least = Duration::from_millis(1300 + 37 * round as u64);
        let learned = learn_and_kill(&mut proxy, round, least);
        known.extend(learned);
        let empty = tempfile::tempdir().expect("a temporary directory can be made");
        let dir = std::mem::replace(&mut proxy.dir, empty);
        let settings = proxy.settings.clone();
        proxy = Wayleave::start_in(dir, settings);
        assert!(!proxy.log().contains("damaged"), "{}", proxy.log());
    }
    assert!(!known.is_empty(), "there was load");
    for host in &known {
        assert_eq!(proxy.get(&format!("http://{host}/private")).status, 403, "{host}");
    }
    let fetches = robots_fetches(&origin);
    let again: Vec<_> = known.iter().filter(|host| fetches[*host] != 1).collect();
    assert!(again.is_empty(), "{} of {} were fetched again: {again:?}", again.len(), known.len());
}
