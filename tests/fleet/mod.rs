//! A fleet: all engines behave the same, and several proxies with one engine act as one towards origins.

mod capacity;
mod checked;
mod conformance;
mod distrust;
mod documents;
pub mod engines;
mod faults;
mod gateways;
mod identity;
mod lost_logs;
mod pace_conformance;
pub mod proxies;
pub mod relay;
mod servers;
mod shared_pace;
mod size;
mod stopped;
mod stored;

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Builder;
use wayleave_fleet::memory::MemoryEngine;
use wayleave_fleet::redis::{RedisAddress, RedisEngine, RedisSettings};

use self::conformance::{Node, conforms};
use self::engines::{Cluster, Product, Server};

fn options(address: RedisAddress, node: &str) -> RedisSettings {
    RedisSettings {
        address,
        prefix: "wl".to_owned(),
        partitions: 8,
        timeout: Duration::from_secs(5),
        node: node.to_owned(),
        shared_settings: String::new(),
        home_window: Duration::ZERO,
    }
}

fn engine(options: RedisSettings) -> RedisEngine {
    RedisEngine::new(options).expect("an address")
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

fn redis_conforms(address: &RedisAddress) {
    run(conforms(async |name| {
        let engine: Node = Arc::new(engine(options(address.clone(), name)));
        engine.beat("0.1.0").await.expect("it joins");
        engine
    }));
}

#[test]
fn the_engine_in_memory_conforms() {
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let memory = MemoryEngine::new("");
        conforms(async |name| Arc::new(memory.add_node(name)) as Node).await;
    });
}

#[test]
fn the_engine_on_redis_conforms() {
    let server = Server::start(Product::Redis);
    redis_conforms(&server.address());
}

#[test]
fn the_engine_on_valkey_conforms() {
    let server = Server::start(Product::Valkey);
    redis_conforms(&server.address());
}

#[test]
fn the_engine_on_a_cluster_of_redis_conforms() {
    let cluster = Cluster::start(Product::Redis);
    redis_conforms(&cluster.address());
}

#[test]
fn the_engine_on_a_cluster_of_valkey_conforms() {
    let cluster = Cluster::start(Product::Valkey);
    redis_conforms(&cluster.address());
}
