//! Engines that lose data, are full, are misconfigured, or restrict access.

use std::time::Duration;

use wayleave_fleet::engine::{
    ClaimAnswer, EngineFailure, FetchClaim, LogPositions, QueueId, RecordChange, SettleAnswer,
    Settlement, SharedEngine, SharedRecord, SlotAnswer, SlotRequest,
};
use wayleave_fleet::redis::{RedisAddress, RedisEngine, RedisSettings};

use super::engines::{Product, Server};
use super::{engine, options, run};
use crate::harness::tls::Authority;

pub const MINUTE: Duration = Duration::from_secs(60);
pub const ORIGIN: &str = "https://shop.test";

pub async fn joined(options: RedisSettings) -> RedisEngine {
    let engine = engine(options);
    engine.beat("0.1.0").await.expect("it joins");
    engine
}

/// Returns a request for a slot that does not wait for one.
pub fn slot(delay: Duration, max_concurrent: usize) -> SlotRequest {
    SlotRequest {
        queue: QueueId { origin: ORIGIN.to_owned(), name: "news".to_owned() },
        number: 1,
        max_concurrent,
        delay,
        remembered_for: Duration::ZERO,
        lease: MINUTE,
        timeout: Duration::ZERO,
        obeys_rest: false,
        keeps_turn: false,
        is_held: false,
    }
}

/// Returns the same request after a slot was granted.
pub fn begun(slot: &SlotRequest) -> SlotRequest {
    SlotRequest { is_held: true, ..slot.clone() }
}

pub fn settlement(bytes: usize) -> Settlement {
    Settlement {
        origin: ORIGIN.to_owned(),
        token: 0,
        change: RecordChange::Changed,
        record: SharedRecord { bytes: vec![b'x'; bytes], age: Duration::ZERO, version: 0 },
        fresh_for: MINUTE,
        retention: MINUTE,
    }
}

pub fn claim() -> FetchClaim {
    FetchClaim { origin: ORIGIN.to_owned(), max_age: None, lease: MINUTE, rejected_version: 0 }
}

/// Releases a slot and has the server lose its data: no slot is granted before the delay has passed.
#[track_caller]
fn expect_delay_after(product: Product, lose_data: &impl AsyncFn(&mut Server, &RedisEngine)) {
    let mut server = Server::start(product);
    run(async {
        let node = joined(options(server.address(), "a")).await;
        // A server that was just started grants nothing before the first delay has passed.
        while node.take_slot(&slot(Duration::from_millis(1), 1)).await != Ok(SlotAnswer::Granted) {}
        let minute = slot(MINUTE, 1);
        node.release_slot(&begun(&minute)).await.expect("the engine responds");
        lose_data(&mut server, &node).await;
        let answer = node.take_slot(&minute).await.expect("the engine responds");
        assert!(matches!(answer, SlotAnswer::NotInTime(wait) if wait > MINUTE / 2), "{answer:?}");
    });
}

async fn restart(server: &mut Server, node: &RedisEngine) {
    server.kill();
    let gone = node.take_slot(&slot(MINUTE, 1)).await;
    assert!(matches!(gone, Err(EngineFailure::Connection(_))), "{gone:?}");
    server.revive();
    let gone = node.take_slot(&slot(MINUTE, 1)).await;
    assert!(
        matches!(gone, Err(EngineFailure::Connection(_))),
        "only a beat connects again: {gone:?}"
    );
    node.beat("0.1.0").await.expect("it connects");
}

#[test]
fn an_empty_restarted_redis_grants_no_slot_before_the_delay() {
    expect_delay_after(Product::Redis, &restart);
}

#[test]
fn an_empty_restarted_valkey_grants_no_slot_before_the_delay() {
    expect_delay_after(Product::Valkey, &restart);
}

#[test]
fn a_flushed_engine_grants_no_slot_before_the_delay() {
    expect_delay_after(Product::Redis, &async |server, _| {
        server.command(&["flushall"]);
    });
}

#[test]
fn held_slots_are_reported_to_an_engine_that_lost_them() {
    let server = Server::start(Product::Redis);
    run(async {
        let a = joined(options(server.address(), "a")).await;
        let b = joined(options(server.address(), "b")).await;
        let one = slot(Duration::ZERO, 1);
        while a.take_slot(&one).await != Ok(SlotAnswer::Granted) {}
        server.command(&["flushall"]);
        let answer = b.take_slot(&one).await.expect("the engine responds");
        assert!(matches!(answer, SlotAnswer::NotInTime(_)), "{answer:?}");
        assert_eq!(a.take_slot(&begun(&one)).await, Ok(SlotAnswer::Granted));
        let answer = b.take_slot(&one).await.expect("the engine responds");
        assert!(matches!(answer, SlotAnswer::NotInTime(_)), "{answer:?}");
    });
}

#[test]
fn a_node_hears_of_a_note_when_it_is_written() {
    let server = Server::start(Product::Redis);
    run(async {
        let a = joined(options(server.address(), "a")).await;
        let b = joined(options(server.address(), "b")).await;
        assert_eq!(b.next_note().await, Ok(false), "there is none");
        let writing = async {
            // Blocked, as the server says.
            while !server.command(&["client", "list"]).contains(" flags=b ") {
                tokio::task::yield_now().await;
            }
            a.settle(&settlement(1)).await.expect("the engine responds");
        };
        let (heard, ()) = tokio::join!(b.next_note(), writing);
        assert_eq!(heard, Ok(true));
    });
}

#[test]
fn an_engine_that_lost_notes_reports_a_gap() {
    let server = Server::start(Product::Redis);
    run(async {
        let a = joined(options(server.address(), "a")).await;
        let b = joined(options(server.address(), "b")).await;
        let begun = b.changes(&LogPositions::new()).await.expect("the engine responds");
        a.settle(&settlement(1)).await.expect("the engine responds");
        let changes = b.changes(&begun.positions).await.expect("the engine responds");
        assert_eq!((changes.notes.len(), changes.gaps.len()), (1, 0));
        server.command(&["flushall"]);
        a.settle(&settlement(2)).await.expect("the engine responds");
        let changes = b.changes(&changes.positions).await.expect("the engine responds");
        assert_eq!(changes.gaps, [b.partition(ORIGIN)]);
        assert_eq!(changes.notes.len(), 1);
    });
}

#[test]
fn a_full_engine_keeps_the_pace_and_stores_nothing_new() {
    for product in [Product::Redis, Product::Valkey] {
        let server = Server::start(product);
        run(async {
            let a = joined(options(server.address(), "a")).await;
            let b = joined(options(server.address(), "b")).await;
            assert_eq!(a.settle(&settlement(10)).await, Ok(SettleAnswer::Kept));
            server.command(&["config", "set", "maxmemory", "1"]);
            assert_eq!(a.settle(&settlement(11)).await, Err(EngineFailure::Full));
            let other = FetchClaim { origin: "https://other.test".to_owned(), ..claim() };
            let claimed = a.claim(&other).await.expect("the engine responds");
            assert!(matches!(claimed, ClaimAnswer::Fetch { .. }), "{claimed:?}");
            let claimed = b.claim(&other).await.expect("the engine responds");
            assert!(matches!(claimed, ClaimAnswer::Wait(_)), "{claimed:?}");
            let short = slot(Duration::from_millis(1), 1);
            while a.take_slot(&short).await != Ok(SlotAnswer::Granted) {}
            let answer = b.take_slot(&short).await.expect("the engine responds");
            assert!(matches!(answer, SlotAnswer::NotInTime(_)), "{answer:?}");
            a.release_slot(&begun(&short)).await.expect("the engine responds");
            a.beat("0.1.0").await.expect("the engine responds");
        });
    }
}

#[track_caller]
fn expect_denied(options: RedisSettings, part: &str) {
    let refused = run(engine(options).beat("0.1.0"));
    let Err(EngineFailure::Denied(reason)) = &refused else {
        panic!("{refused:?}");
    };
    assert!(reason.contains(part), "{reason}");
}

#[test]
fn an_engine_that_may_drop_keys_is_refused() {
    let server = Server::start_with(Product::Redis, &["--maxmemory-policy", "allkeys-lru"]);
    let refused = run(engine(options(server.address(), "a")).beat("0.1.0"));
    let reason = refused.expect_err("it is refused").to_string();
    assert!(reason.contains("allkeys-lru") && !reason.contains("~wl"), "{reason}");
}

#[test]
fn a_node_with_other_partitions_is_refused() {
    let server = Server::start(Product::Redis);
    run(joined(options(server.address(), "a")));
    let more = RedisSettings { partitions: 16, ..options(server.address(), "b") };
    expect_denied(more.clone(), "format 1, 8 partitions");
    let another_fleet = RedisSettings { prefix: "other".to_owned(), ..more };
    run(joined(another_fleet));
}

#[test]
fn tenants_of_one_engine_are_separate() {
    let server = Server::start(Product::Valkey);
    let tenant = |prefix: &str| {
        let prefix = prefix.to_owned();
        joined(RedisSettings { prefix, ..options(server.address(), "a") })
    };
    run(async {
        let (one, other) = (tenant("one").await, tenant("other").await);
        one.settle(&settlement(1)).await.expect("the engine responds");
        assert_eq!(other.record(ORIGIN).await, Ok(None));
        let members = other.beat("0.1.0").await.expect("the engine responds").members;
        assert_eq!(members.len(), 1);
        let short = slot(Duration::from_millis(1), 1);
        while one.take_slot(&short).await != Ok(SlotAnswer::Granted) {}
        while other.take_slot(&short).await != Ok(SlotAnswer::Granted) {}
    });
}

/// The user of docs/fleet.md.
pub const USER: &[&str] = &[
    "acl",
    "setuser",
    "wayleave",
    "on",
    ">secret",
    "resetkeys",
    "~wl:*",
    "resetchannels",
    "-@all",
    "+eval",
    "+evalsha",
    "+time",
    "+info",
    "+get",
    "+set",
    "+del",
    "+getrange",
    "+pttl",
    "+pexpire",
    "+hget",
    "+hmget",
    "+hgetall",
    "+hset",
    "+hdel",
    "+hincrby",
    "+zadd",
    "+zrem",
    "+zrank",
    "+zcard",
    "+zrange",
    "+zremrangebyscore",
    "+xadd",
    "+xread",
    "+hello",
    "+ping",
];

#[test]
fn a_user_with_the_documented_rights_suffices() {
    for product in [Product::Redis, Product::Valkey] {
        let server = Server::start(product);
        server.command(USER);
        let user = |password: &str| RedisAddress {
            urls: vec![server.url().replace("//", "//wayleave@")],
            password: Some(password.to_owned()),
            ..server.address()
        };
        run(super::conforms(async |name| {
            let engine = joined(options(user("secret"), name)).await;
            std::sync::Arc::new(engine) as super::Node
        }));
        expect_denied(options(user("wrong"), "a"), "this user or password");
        let elsewhere =
            RedisSettings { prefix: "other".to_owned(), ..options(user("secret"), "a") };
        expect_denied(elsewhere, "ermission");
    }
}

#[test]
fn an_engine_is_reached_by_tls_with_a_checked_certificate() {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let (_server, port) = Server::start_with_tls(Product::Redis, dir.path());
    let address = |ca: Option<&str>| RedisAddress {
        urls: vec![format!("rediss://127.0.0.1:{port}")],
        is_cluster: false,
        password: None,
        ca: ca.map(|ca| ca.as_bytes().to_vec()),
    };
    let trusted = &Authority::trusted().pem;
    run(joined(options(address(Some(trusted)), "a")));
    let refused = run(engine(options(address(None), "a")).beat("0.1.0"));
    assert!(matches!(refused, Err(EngineFailure::Connection(_))), "{refused:?}");
}
