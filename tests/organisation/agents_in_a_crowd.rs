//! Five crawlers of three agents, while keys are replaced and the configuration is reloaded.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::{Value, json};

use super::agents::{AGENTS, CRAWLERS, as_json, key_ids, keys_folder, protocol_01, sets, start};
use super::signing::keys;
use crate::harness::{Origin, Request, Wayleave};

/// The requests that the verifier gets at a time.
const BATCH: usize = 5_000;
const HOSTS: usize = 20;

/// The keys that an agent has published so far: a verifier may have a copy of any time.
type Published = Mutex<BTreeMap<&'static str, Vec<Value>>>;

fn remember(published: &Published, proxy: &Wayleave) {
    let now = sets(proxy, &AGENTS);
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

/// Replaces the key of one crawler after another: a new one is published, then it signs, then the old one is deleted.
fn rotate(proxy: &Wayleave, published: &Published, is_over: &AtomicBool) -> usize {
    let dir = proxy.dir.path();
    let file = dir.join("config.toml");
    let mut rounds = 0;
    while !is_over.load(Ordering::Relaxed) {
        let (name, _, agent) = CRAWLERS[rounds % CRAWLERS.len()];
        let text = fs::read_to_string(&file).expect("readable");
        let folder = keys_folder(agent);
        let is_own = |line: &&str| line.starts_with(&format!("signing_key = \"{folder}/{name}"));
        let old = text.lines().find(is_own).expect("its key").to_owned();
        let young = format!("{name}-{rounds}");
        keys(dir, &["--config", "config.toml", "new", &young, "--agent", agent]);
        let reload = || assert_eq!(proxy.admin_request("POST", "/v1/reload").status, 200);
        reload();
        remember(published, proxy);
        proxy.write_config(&text.replace(&old, &format!("signing_key = \"{folder}/{young}.pem\"")));
        reload();
        let path = old.split('"').nth(1).expect("a path");
        fs::remove_file(dir.join(path)).expect("it is there");
        reload();
        rounds += 1;
    }
    rounds
}

#[test]
fn no_request_is_signed_under_a_wrong_agent() {
    let requests = env::var("WAYLEAVE_SIGNED_REQUESTS")
        .map_or(3_000, |count| count.parse().expect("a number"));
    let origin = Origin::start();
    let proxy = start(&origin, |settings| settings.set("signing.lifetime", "\"3h\""));
    let published = Published::default();
    remember(&published, &proxy);
    let is_over = AtomicBool::new(false);
    let rounds = thread::scope(|scope| {
        let rotation = scope.spawn(|| rotate(&proxy, &published, &is_over));
        let clients: Vec<_> = CRAWLERS
            .iter()
            .map(|(_, token, _)| {
                let proxy = &proxy;
                scope.spawn(move || {
                    let mut wire = proxy.connect();
                    for number in 0..requests / CRAWLERS.len() {
                        let url = format!("http://site-{}.test/{token}/{number}", number % HOSTS);
                        let request = Request::get(&url).agent(&format!("{token}/1.0"));
                        wire.send(request.absolute_form());
                        assert_eq!(wire.expect_response(false).status, 200, "{url}");
                    }
                })
            })
            .collect();
        for client in clients {
            client.join().expect("every request is answered");
        }
        is_over.store(true, Ordering::Relaxed);
        rotation.join().expect("every reload succeeds")
    });
    assert!(rounds > 0, "nothing was rotated");
    let arrived = origin.requests();
    assert!(arrived.len() >= requests / CRAWLERS.len() * CRAWLERS.len());
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
    assert!(used.len() > CRAWLERS.len(), "keys were replaced while requests ran");
}
