//! bench-fairness: how long a polite client waits while others send the dearest requests that we know.
//!
//! For each row, protocol and build it starts a proxy, watches a polite client beside nothing, begins the attack and
//! watches the polite client again. All traffic goes to loopback.
//!
//! ```text
//! main ├─ rows    the dearest requests
//!      ├─ pages   what their origins answer
//!      ├─ origin  serves that by HTTP/1, HTTP/2 and FTP
//!      ├─ attack  sends the requests, from many connections
//!      ├─ polite  sends a request every 20 ms, and takes the time
//!      ├─ proxy   the process that is measured
//!      ├─ http1   the least of HTTP/1 for all of these
//!      ├─ tls     certificates
//!      └─ table   the Markdown
//! ```

mod attack;
mod http1;
mod origin;
mod pages;
mod polite;
mod proxy;
mod rows;
mod table;
mod tls;

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;

use crate::attack::Attack;
use crate::origin::Origins;
use crate::polite::{Patience, PoliteClient};
use crate::proxy::Proxy;
use crate::rows::{BASE_LINE, Protocol, ROWS, Row};
use crate::table::Measurement;
use crate::tls::Certificate;

/// The time to watch the polite client before an attack.
const IDLE: Duration = Duration::from_secs(2);
/// The time from the beginning of an attack until the polite client is watched.
const RAMP: Duration = Duration::from_secs(1);
/// The pause between two looks at the proxy's memory.
const SAMPLING: Duration = Duration::from_millis(50);
/// The memory with which an attack has won, before it takes the machine's.
const MAX_MEMORY: u64 = 4 << 30;
/// The most time for a row that lasts until all its names are asked for.
const MAX_ROW: Duration = Duration::from_secs(240);

/// Measures how long a polite client waits while others send the dearest requests that we know.
#[derive(Debug, Parser)]
struct Options {
    /// The rows, by the beginnings of their names, such as `spellings,names h1`; default: all. The base line is always
    /// measured.
    #[arg(long, value_delimiter = ',')]
    rows: Vec<String>,
    /// The time to watch the polite client in each row.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// A build to measure, as NAME=PATH; several are measured in turns.
    #[arg(long, value_parser = proxy::parse_build, default_value = "wayleave=target/dist/wayleave")]
    wayleave: Vec<(String, PathBuf)>,
    /// The connections of an attack.
    #[arg(long, default_value_t = 200)]
    connections: usize,
    /// The requests at a time on each HTTP/2 connection.
    #[arg(long, default_value_t = 4)]
    streams: usize,
    /// The names of the wildcard domain.
    #[arg(long, default_value_t = 250_000)]
    names: u64,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    rlimit::increase_nofile_limit(u64::MAX)?;
    let certificate = Certificate::new()?;
    let origins = Origins::start(&certificate)?;
    println!("{}\n", table::heading());
    let mut found: Vec<Measurement> = Vec::new();
    for (row, protocol) in chosen(&options.rows) {
        for (name, program) in &options.wayleave {
            let proxy = Proxy::start(program, &certificate)?;
            let mut measured = measure(&options, &proxy, &origins, row, protocol)?;
            measured.build.clone_from(name);
            eprintln!("{}", table::line(&measured, &found));
            found.push(measured);
        }
    }
    println!("{}", table::table(&found));
    Ok(())
}

/// Returns the rows to measure, the base line first.
fn chosen(names: &[String]) -> Vec<(&'static Row, Protocol)> {
    let is_chosen = |row: &Row, protocol: Protocol| {
        let name = format!("{} {protocol}", row.name);
        names.is_empty()
            || row.name == BASE_LINE
            || names.iter().any(|begin| name.starts_with(begin))
    };
    let all =
        ROWS.iter().flat_map(|row| row.protocols.iter().map(move |protocol| (row, *protocol)));
    all.filter(|(row, protocol)| is_chosen(row, *protocol)).collect()
}

fn measure(
    options: &Options,
    proxy: &Proxy,
    origins: &Origins,
    row: &'static Row,
    protocol: Protocol,
) -> anyhow::Result<Measurement> {
    // The first request fetches robots.txt, and opens connections.
    watch(proxy, origins, Duration::from_millis(500));
    let idle = watch(proxy, origins, IDLE);
    let idle_memory = proxy.memory()?;
    let attack = Attack::start(options, proxy, origins, row, protocol)?;
    thread::sleep(RAMP);
    let (polite, begun) = (PoliteClient::start(proxy.plain, origins.polite), Instant::now());
    let (asked_before, used_before) = (attack.answers(), proxy.processor_time()?);
    let duration = Duration::from_secs_f64(options.seconds);
    let mut memory = idle_memory;
    while begun.elapsed() < duration || (!attack.is_over() && begun.elapsed() < MAX_ROW) {
        thread::sleep(SAMPLING);
        memory = memory.max(proxy.memory()?);
        if memory > MAX_MEMORY {
            break;
        }
    }
    let took = begun.elapsed();
    let answers = table::difference(&attack.answers(), &asked_before);
    let used = proxy.processor_time()?.saturating_sub(used_before);
    // The attack goes on until the last request of the polite client is answered.
    let loaded = polite.stop();
    drop(attack);
    Ok(Measurement {
        row: row.name,
        protocol,
        build: String::new(),
        idle,
        loaded,
        answers,
        took,
        processors: used.as_secs_f64() / took.as_secs_f64(),
        memory: memory.saturating_sub(idle_memory),
        is_cut_short: memory > MAX_MEMORY,
    })
}

/// Watches the polite client for a time.
fn watch(proxy: &Proxy, origins: &Origins, duration: Duration) -> Patience {
    let polite = PoliteClient::start(proxy.plain, origins.polite);
    thread::sleep(duration);
    polite.stop()
}
