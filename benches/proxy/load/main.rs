//! bench-load: requests through a forward proxy, counted and timed.
//!
//! Says `ready` on standard output when its connections are warm, waits for a line on standard
//! input, so that its caller can look at the proxy's processes, then measures and prints
//! one line of JSON. All its traffic goes to loopback.

mod client;
#[allow(dead_code, reason = "the messages of the proxy, of which this needs some")]
#[path = "../../../proxy/gateway/src/envoy.rs"]
mod envoy;
mod options;
mod report;
mod worker;

use std::io::{BufRead, Write};
use std::sync::Arc;

use clap::Parser;
use tokio::task::JoinSet;

use crate::options::Options;
use crate::report::{Report, Tally};
use crate::worker::{Gate, Worker};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let options = Arc::new(Options::parse());
    let gate = Arc::new(Gate::new(&options));
    let mut workers = JoinSet::new();
    for number in 0..options.connections {
        let worker = Worker::new(number, Arc::clone(&options), Arc::clone(&gate));
        workers.spawn(worker.run());
    }
    gate.all_are_warm().await;
    println!("ready");
    std::io::stdout().flush()?;
    tokio::task::spawn_blocking(|| std::io::stdin().lock().lines().next()).await?;
    let started = gate.open();
    let mut tally = Tally::default();
    while let Some(worker) = workers.join_next().await {
        tally.add(worker?);
    }
    let report = Report::new(tally, started.elapsed());
    println!("{}", serde_json::to_string(&report)?);
    // Open connections need no orderly shutdown.
    std::process::exit(0);
}
