//! State that outlives the process: robots.txt files after restarts and crashes.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::harness::wayleave::Settings;
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
fn a_restart_fetches_nothing_that_is_fresh() {
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
        .args(["serve", "--config"])
        .arg(proxy.dir.path().join("config.toml"))
        .current_dir(proxy.dir.path())
        .output()
        .expect("the binary can be started");
    assert!(!second.status.success());
    let stderr = String::from_utf8_lossy(&second.stderr);
    assert!(stderr.contains("in use by another process"), "{stderr}");
}

#[test]
fn on_a_full_disk_the_proxy_works_from_memory_and_reports_it() {
    let origin = Origin::start();
    let proxy = Wayleave::start_on_full_disk(&origin, 2048);
    let mut hosts = 0;
    // A small entry may still fit on the disk after a large one did not: then the store works again for a moment.
    eventually("the store fails, and it is reported", || {
        for _ in 0..20 {
            let host = format!("host{hosts}.test");
            let unlike_others = format!("{KEEP_OUT}Disallow: /{}\n", "x".repeat(20_000 + hosts));
            origin.site(&host).robots(unlike_others);
            assert_eq!(proxy.get(&format!("http://{host}/private")).status, 403);
            hosts += 1;
        }
        let ready = proxy.admin_get("/readyz");
        assert_eq!(ready.status, 200);
        let problems = proxy.admin_get("/v1/problems").text();
        ready.text().contains("the store fails") && problems.contains("state-unwritable")
    });
    assert!(proxy.metric("wayleave_store_errors_total", &[]) > 0.0);
    for number in 0..hosts {
        let private = format!("http://host{number}.test/private");
        assert_eq!(proxy.get(&private).status, 403);
    }
    let fetches = robots_fetches(&origin);
    assert_eq!(fetches.len(), hosts);
    assert!(fetches.values().all(|count| *count == 1), "{fetches:?}");
}

/// Whether a proxy that may be killed at any moment responds with 200.
fn is_served(proxy: SocketAddr, url: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(proxy) else {
        return false;
    };
    let request = Request::get(url).header("Connection", "close").absolute_form();
    let mut answer = Vec::new();
    let is_whole = stream.write_all(&request).is_ok() && stream.read_to_end(&mut answer).is_ok();
    is_whole && answer.starts_with(b"HTTP/1.1 200 ")
}

/// Sends requests to new hosts until `is_over`, and notes when each response had arrived.
fn send_until(
    proxy: &Wayleave,
    round: usize,
    next: &AtomicUsize,
    is_over: &AtomicBool,
    served: &Mutex<Vec<(String, Instant)>>,
) {
    while !is_over.load(Ordering::SeqCst) {
        let number = next.fetch_add(1, Ordering::SeqCst);
        let host = format!("r{round}-{number}.test");
        if is_served(proxy.proxy, &format!("http://{host}/a")) {
            served.lock().expect("no holder panics").push((host, Instant::now()));
        }
        // Hundreds of new hosts a second: more would only have to be asked for again at the end.
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// Returns the longest time that the disk took to store a few bytes. The proxy cannot have stored anything sooner.
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
        // Pauses between samples, so that they do not load the disk.
        std::thread::sleep(Duration::from_millis(10));
    }
    longest
}

/// Kills the proxy under load, after `least`. Returns its directory and settings, and the hosts that were served more than a
/// second, and the slowest sync of the disk, before.
fn kill_under_load(
    proxy: Wayleave,
    round: usize,
    least: Duration,
) -> ((TempDir, Settings), Vec<String>) {
    let next = AtomicUsize::new(0);
    let is_over = AtomicBool::new(false);
    let served = Mutex::new(Vec::new());
    let started = Instant::now();
    let mut killed_at = started;
    let mut may_be_lost = Duration::from_secs(1);
    std::thread::scope(|scope| {
        let syncing = scope.spawn(|| longest_sync(proxy.dir.path(), &is_over));
        for _ in 0..3 {
            scope.spawn(|| send_until(&proxy, round, &next, &is_over, &served));
        }
        eventually("there was load for long enough", || started.elapsed() > least);
        killed_at = Instant::now();
        proxy.signal("KILL");
        is_over.store(true, Ordering::SeqCst);
        may_be_lost += syncing.join().expect("the disk can be written to");
    });
    let served = served.into_inner().expect("no holder panicked");
    let is_old = |at: &Instant| killed_at.duration_since(*at) > may_be_lost;
    let old = served.into_iter().filter(|(_, at)| is_old(at)).map(|(host, _)| host).collect();
    (proxy.kill(), old)
}

#[test]
fn twenty_kills_under_load_lose_nothing_older_than_a_second() {
    let origin = Origin::start();
    origin.site("*").robots(KEEP_OUT).page("/a", Reply::text("a"));
    let mut proxy = Wayleave::start(&origin);
    let mut known = Vec::new();
    for round in 0..20 {
        let least = Duration::from_millis(1300 + 37 * round as u64);
        let ((dir, settings), old) = kill_under_load(proxy, round, least);
        known.extend(old);
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
