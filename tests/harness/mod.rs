//! The harness: the real program on free ports, scripted origins on loopback that record what reached them, and clients that
//! write exact bytes.

pub mod client;
pub mod crawler;
pub mod dns;
pub mod h2_client;
pub mod h2_frames;
pub mod origin;
pub mod passwords;
pub mod ports;
pub mod program;
pub mod prometheus;
pub mod refusal;
pub mod response;
mod selftest;
pub mod servers;
pub mod tls;
pub mod tools;
pub mod wayleave;

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

pub use client::{Request, Wire};
pub use h2_client::H2Client;
pub use origin::reply::{Gate, Reply};
pub use origin::{ContentHandling, Origin};
pub use response::Response;
pub use tls::Certificate;
pub use wayleave::Wayleave;

/// The longest time that a test waits for anything. Generous, because a loaded machine must not fail a test.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Returns the runtime of all origins and HTTP/2 clients; tests themselves are blocking functions.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        // More workers than processors: a task that computes for long keeps its worker from all other tests' origins.
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(8).enable_all().build().expect("a runtime can be started")
    })
}

/// Returns the lines of a decision log that are decisions, without the log's own events.
pub fn decisions(log: &str) -> impl Iterator<Item = &str> {
    log.lines().filter(|line| !line.starts_with("{\"event\":"))
}

/// Waits until `condition` holds; fails the test, naming `what`, if it never does.
#[track_caller]
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < DEADLINE, "waited {DEADLINE:?} for this: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}
