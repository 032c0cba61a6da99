//! Five crawlers of three agents over the nodes of a fleet, while keys are replaced and the configuration is reloaded.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};

use serde_json::{Value, json};

use super::agents::{AGENTS, CRAWLERS, as_json, key_ids, keys_folder, protocol_01, sets, start};
use super::signing::keys;
use crate::fleet::engines::{Product, Server};
use crate::fleet::proxies::{is_up, joined};
use crate::harness::origin::ReceivedRequest;
use crate::harness::{Origin, Request, Wayleave, eventually};

/// The requests that the verifier gets at a time.
const BATCH: usize = 5_000;
const HOSTS: usize = 20;
const NODES: usize = 3;

/// The keys that an agent has published so far: a verifier may have a copy of any time.
type Published = Mutex<BTreeMap<&'static str, Vec<Value>>>;

fn remember(published: &Published, node: &Wayleave) {
    let now = sets(node, &AGENTS);
    let mut published = published.lock().expect("nothing panics with it");
    for agent in AGENTS {
        let set: Value =
            serde_json::from_str(now[agent]["body"].as_str().expect("a body")).expect("JSON");
        for key in set["keys"].as_array().expect("keys") {
            let known = published.entry(agent).or_default();
            if !known.contains(key) {
                known.push(key.clone());
            }
        }
    }
}

/// Copies the keys of one node over those of another, as whoever deploys them does.
fn copy_keys(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-rp").arg(from.join("keys")).arg(to).status();
    assert!(copied.expect("cp starts").success());
}

fn fleet(origin: &Origin, server: &Server) -> Vec<Wayleave> {
    let mut nodes: Vec<Wayleave> = Vec::new();
    for _ in 0..NODES {
        let node = start(origin, |settings| {
            if let Some(first) = nodes.first() {
                fs::remove_dir_all(settings.dir.join("keys")).expect("its own keys");
                copy_keys(first.dir.path(), &settings.dir);
            }
            joined(settings.set("signing.lifetime", "\"3h\""), server)
        });
        nodes.push(node);
    }
    nodes
}

/// Replaces the key of one crawler after another: each node publishes a new one, then they sign with it, then the old one goes.
fn rotate(nodes: &[Wayleave], published: &Published, is_over: &AtomicBool) -> usize {
    let first = nodes[0].dir.path();
    let reload = |node: &Wayleave| assert_eq!(node.admin_request("POST", "/v1/reload").status, 200);
    let mut rounds = 0;
    while rounds < 2 || !is_over.load(Ordering::Relaxed) {
        let (name, _, agent) = CRAWLERS[rounds % CRAWLERS.len()];
        let folder = keys_folder(agent);
        let young = format!("{name}-{rounds}");
        keys(first, &["--config", "config.toml", "new", &young, "--agent", agent]);
        for node in nodes {
            if node.dir.path() != first {
                copy_keys(first, node.dir.path());
            }
            reload(node);
            remember(published, node);
        }
        for node in nodes {
            let text = fs::read_to_string(node.dir.path().join("config.toml")).expect("readable");
            let is_own =
                |line: &&str| line.starts_with(&format!("signing_key = \"{folder}/{name}"));
            let old = text.lines().find(is_own).expect("its key").to_owned();
            let new = format!("signing_key = \"{folder}/{young}.pem\"");
            node.write_config(&text.replace(&old, &new));
            reload(node);
            let path = old.split('"').nth(1).expect("a path");
            fs::remove_file(node.dir.path().join(path)).expect("it is there");
            reload(node);
        }
        rounds += 1;
    }
    rounds
}

/// Sends requests of one crawler through all nodes in turn.
fn crawl(nodes: &[Wayleave], token: &str, count: usize) {
    let mut wires: Vec<_> = nodes.iter().map(Wayleave::connect).collect();
    for number in 0..count {
        let url = format!("http://site-{}.test/{token}/{number}", number % HOSTS);
        let request = Request::get(&url).agent(&format!("{token}/1.0"));
        let wire = &mut wires[number % NODES];
        wire.send(request.absolute_form());
        assert_eq!(wire.expect_response(false).status, 200, "{url}");
    }
}

#[test]
fn no_request_is_signed_under_a_wrong_agent() {
    let requests = env::var("WAYLEAVE_SIGNED_REQUESTS")
        .map_or(3_000, |count| count.parse().expect("a number"));
    let origin = Origin::start();
    let server = Server::start(Product::Redis);
    let nodes = fleet(&origin, &server);
    eventually("every node is in the fleet", || nodes.iter().all(is_up));
    let published = Published::default();
    remember(&published, &nodes[0]);
    let is_over = AtomicBool::new(false);
    let rounds = thread::scope(|scope| {
        let rotation = scope.spawn(|| rotate(&nodes, &published, &is_over));
        let clients: Vec<_> = CRAWLERS
            .iter()
            .map(|(_, token, _)| {
                let nodes = &nodes;
                scope.spawn(move || crawl(nodes, token, requests / CRAWLERS.len()))
            })
            .collect();
        let answered: Vec<_> = clients.into_iter().map(ScopedJoinHandle::join).collect();
        // Even if a client failed, or the rotation would go on for ever.
        is_over.store(true, Ordering::Relaxed);
        assert!(answered.iter().all(Result::is_ok), "every request is answered");
        rotation.join().expect("every reload succeeds")
    });
    let arrived = origin.requests();
    let is_page = |request: &&ReceivedRequest| {
        CRAWLERS.iter().any(|it| request.target.starts_with(&format!("/{}/", it.1)))
    };
    assert_eq!(
        arrived.iter().map(|it| &**it).filter(is_page).count(),
        requests / CRAWLERS.len() * CRAWLERS.len()
    );
    let published = published.into_inner().expect("nothing panicked");
    let set = |(agent, keys): (&&str, &Vec<Value>)| {
        ((*agent).to_owned(), json!({ "status": 200, "body": json!({ "keys": keys }).to_string() }))
    };
    let all_sets = Value::Object(published.iter().map(set).collect());
    let mut used = BTreeSet::new();
    for batch in arrived.chunks(BATCH) {
        let question: Vec<_> = batch.iter().map(|request| as_json(request)).collect();
        let verdicts = protocol_01("verify", &json!({ "requests": question, "sets": all_sets }));
        for (request, verdict) in batch.iter().zip(&verdicts) {
            let sender = request.header("user-agent").expect("it has one");
            let (_, _, agent) = CRAWLERS.iter().find(|it| sender.contains(it.1)).expect("known");
            let key = verdict.strip_prefix(&format!("verified {agent} "));
            used.insert(
                key.unwrap_or_else(|| panic!("{sender}: {verdict}: {request:?}")).to_owned(),
            );
        }
    }
    let all_keys: usize = AGENTS.iter().map(|agent| key_ids(&all_sets[*agent]).len()).sum();
    println!(
        "{} requests, {rounds} rotations, {} of {all_keys} keys used",
        arrived.len(),
        used.len()
    );
    assert!(used.len() >= CRAWLERS.len(), "each crawler signed");
}
