//! The rate at which a fleet's engine ends: eight nodes, each a process with the proxy's own fleet, robots.txt cache and pacer,
//! and one Redis; the origins answer without a network. Needs `redis-server` and `taskset`.
//!
//! `fleet_load MIX [ORIGINS [SECONDS [RATE...]]]` offers each RATE of decisions a second (1,000, doubled up to 32,000) to the
//! whole fleet for SECONDS (10), whatever becomes of them. The engine has processor 0 and the nodes have processor 1. Popularity
//! is Zipf's with exponent 1 over ORIGINS (20,000), which all nodes know before. The mixes:
//!
//! - `free`: origins without a delay.
//! - `delay`: origins with a delay of 1 s, which answer after 20 ms; a request that comes too soon is refused.
//! - `waiting`: the same, but requests wait for up to 2 s.
//! - `concurrent`: at most 100 requests at a time to an origin, which answers after 20 ms.
//! - `slow`: the same, but origins answer after 5 s.
//! - `crowded`: at most 10 requests at a time to an origin, which answers after 200 ms; others wait for up to 2 s.
//! - `unknown`: every request is to another origin, which no node knows.
//! - `mixed`: one origin in ten has a delay, and one request in a hundred is to an unknown origin.
//!
//! A node reports when it sent each request to an origin with a delay, and when that was answered. `least gap` is the shortest
//! time from an answer to the next request of any node.
//!
//! To see the nodes beyond the engine's end on few processors, limit the engine's: its process id is printed first, and a
//! cgroup's `cpu.cfs_quota_us` or `cpu.max` takes it.

mod node;
mod nodes;
mod server;

use std::error::Error;
use std::time::Duration;

use self::node::Mix;
use self::nodes::{FleetNodes, NODES, StepReport};
use self::server::{RedisFigures, RedisServer};

/// The columns.
const COLUMNS: [&str; 18] = [
    "offered", "begun/s", "made/s", "sent/s", "lost/s", "calls", "us/call", "redis %", "nodes %",
    "us/node", "p50 us", "p99 us", "failed", "opens", "away %", "gap ms", "going", "MiB",
];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: usize| match arguments.get(at) {
        Some(text) => text.replace('_', "").parse(),
        None => Ok(default),
    };
    let mix = Mix::parse(arguments.first().map_or("mixed", String::as_str))?;
    let origins = number(1, 20_000)?;
    if arguments.get(2).is_some_and(|argument| argument == "node") {
        return node::run(mix, origins, number(3, 0)?, number(4, 0)?);
    }
    let seconds = number(2, 10)? as f64;
    let rates: Result<Vec<usize>, _> = (3..arguments.len()).map(|at| number(at, 0)).collect();
    let mut rates = rates?;
    if rates.is_empty() {
        rates = (0..6).map(|doubled| 1000 << doubled).collect();
    }
    let server = RedisServer::start()?;
    println!("redis-server is process {}", server.process());
    let mut nodes = FleetNodes::start(mix, server.port(), origins)?;
    println!("{} requests to {origins} origins, {seconds} s a step; {}", mix.name(), load()?);
    println!("{}", COLUMNS.map(|name| format!("{name:>8}")).concat());
    for rate in rates {
        let before = server.figures()?;
        let nodes_before = nodes.processor_time()?;
        let step = nodes.offer(rate, Duration::from_secs_f64(seconds))?;
        let of_nodes = nodes.processor_time()? - nodes_before;
        let of_step = server.figures()?.since(&before);
        println!("{}", row(rate, seconds, &step, &of_step, of_nodes));
    }
    println!("{}", load()?);
    Ok(())
}

/// Returns a line of the table: about a step of so many seconds, in which the nodes took so many seconds of processor time.
fn row(
    rate: usize,
    seconds: f64,
    step: &StepReport,
    redis: &RedisFigures,
    of_nodes: f64,
) -> String {
    let counts = &step.counts;
    let a_second = |count: u64| count as f64 / seconds;
    let made = counts.made as f64;
    let away = counts.away_ms as f64 / 1e3 / NODES as f64;
    let gap = step.least_gap().map_or(f64::NAN, |gap| gap as f64 / 1e3);
    let numbers = [
        (rate as f64, 0),
        (a_second(counts.begun), 0),
        (a_second(counts.made), 0),
        (a_second(counts.sent), 0),
        (a_second(counts.engine_away), 0),
        (redis.calls / made, 3),
        (redis.processor * 1e6 / redis.calls.max(1.0), 1),
        (100.0 * redis.processor / seconds, 0),
        (100.0 * of_nodes / seconds, 0),
        (of_nodes * 1e6 / made, 1),
        (counts.latency(0.5) as f64, 0),
        (counts.latency(0.99) as f64, 0),
        (counts.failed as f64, 0),
        (counts.opened as f64, 0),
        (100.0 * away / seconds, 1),
        (gap, 1),
        (counts.most_in_progress as f64, 0),
        ((redis.memory >> 20) as f64, 0),
    ];
    numbers.map(|(number, digits)| format!("{number:>8.digits$}")).concat()
}

/// Returns the load of the machine, which others may use as well.
fn load() -> std::io::Result<String> {
    Ok(format!("load of the machine: {}", std::fs::read_to_string("/proc/loadavg")?.trim()))
}
