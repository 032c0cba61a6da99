//! What an engine stores about origins and nodes, for how long, and how lost data is detected.

use std::time::Duration;

use wayleave_fleet::engine::{
    ClaimAnswer, EngineFailure, LogPositions, PacingResponse, Settlement, SharedEngine, SlotAnswer,
    SlotRequest,
};
use wayleave_fleet::redis::RedisSettings;

use super::engines::{Product, Server};
use super::servers::{MINUTE, ORIGIN, begun, claim, joined, settlement, slot};
use super::{options, run};

#[test]
fn lost_notes_at_the_end_are_detected_in_their_partition() {
    let server = Server::start(Product::Redis);
    run(async {
        let a = joined(options(server.address(), "a")).await;
        let b = joined(options(server.address(), "b")).await;
        let mut origins = (0..).map(|number| format!("https://shop{number}.test"));
        let origin = origins.find(|origin| a.partition(origin) > 0);
        let origin = origin.expect("it is in any of them");
        let partition = a.partition(&origin);
        let begun = b.changes(&LogPositions::new()).await.expect("the engine responds");
        let settlement = Settlement { origin, ..settlement(1) };
        a.settle(&settlement).await.expect("the engine responds");
        server.command(&["del", &format!("wl:{{{partition}}}:l")]);
        // One beat in about 30 reads which note was the last.
        for _ in 0..30 {
            b.beat("0.1.0").await.expect("the engine responds");
        }
        let changes = b.changes(&begun.positions).await.expect("the engine responds");
        assert_eq!((changes.notes.len(), changes.gaps), (0, vec![partition]));
    });
}

#[test]
fn an_engine_that_lost_its_data_waits_for_home_nodes() {
    let server = Server::start(Product::Redis);
    run(async {
        let home = RedisSettings { home_window: MINUTE, ..options(server.address(), "a") };
        let node = joined(home).await;
        let short = slot(Duration::from_millis(1), 1);
        let answer = node.take_slot(&short).await.expect("the engine responds");
        assert!(matches!(answer, SlotAnswer::NotInTime(wait) if wait > MINUTE / 2), "{answer:?}");
    });
}

#[test]
fn a_node_that_is_silent_for_long_leaves_the_fleet() {
    let server = Server::start(Product::Redis);
    run(async {
        let node = joined(options(server.address(), "a")).await;
        let time = server.command(&["time"]);
        let seconds = time.lines().next().and_then(|text| text.parse::<u64>().ok());
        let seconds = seconds.expect("a time");
        for (name, beat_at) in [("silent", seconds - 6), ("recent", seconds + 4)] {
            let beat = format!("{beat_at}000000 0.1.0");
            server.command(&["hset", "wl:{0}:nodes", name, &beat]);
        }
        let members = node.beat("0.1.0").await.expect("the engine responds").members;
        let members: Vec<_> = members.into_iter().map(|member| member.node).collect();
        assert_eq!(members, ["a", "recent"]);
        assert_eq!(server.command(&["hlen", "wl:{0}:nodes"]).trim(), "2");
    });
}

/// Returns the kinds of the keys of the origin. All must expire.
#[track_caller]
fn expiring(server: &Server) -> Vec<String> {
    let keys = server.command(&["keys", &format!("*{ORIGIN}*")]);
    let mut kinds = Vec::new();
    for key in keys.lines().filter(|key| !key.is_empty()) {
        let left = server.command(&["pttl", key]);
        assert!(left.trim().parse().is_ok_and(|left: i64| left > 0), "{key}");
        kinds.extend(key.split(':').nth(2).map(str::to_owned));
    }
    kinds.sort();
    kinds
}

#[test]
fn data_about_an_origin_expires_by_itself() {
    let server = Server::start(Product::Redis);
    run(async {
        let a = joined(options(server.address(), "a")).await;
        let b = joined(options(server.address(), "b")).await;
        a.claim(&claim()).await.expect("the engine responds");
        b.settle(&settlement(1)).await.expect("the engine responds");
        let short = SlotRequest { timeout: MINUTE, ..slot(Duration::from_millis(1), 1) };
        while a.take_slot(&short).await != Ok(SlotAnswer::Granted) {}
        let answer = b.take_slot(&short).await.expect("the engine responds");
        assert!(matches!(answer, SlotAnswer::Queued(_)), "{answer:?}");
        let refused = PacingResponse {
            origin: ORIGIN.to_owned(),
            status: 503,
            retry_after: Some(MINUTE),
            max_rest: MINUTE,
        };
        a.answered(&refused).await.expect("the engine responds");
        assert_eq!(expiring(&server), ["e", "f", "r", "t", "w"]);
        server.command(&["flushall"]);
        a.release_slot(&begun(&short)).await.expect("the engine responds");
        assert_eq!(expiring(&server), ["t"]);
    });
}

#[test]
fn a_lease_ends_with_the_fetch_even_if_the_engine_is_full() {
    let server = Server::start(Product::Redis);
    run(async {
        let a = joined(options(server.address(), "a")).await;
        let b = joined(options(server.address(), "b")).await;
        let claimed = a.claim(&claim()).await.expect("the engine responds");
        let ClaimAnswer::Fetch { token, .. } = claimed else {
            panic!("{claimed:?}");
        };
        server.command(&["config", "set", "maxmemory", "1"]);
        let settlement = Settlement { token, ..settlement(10) };
        assert_eq!(a.settle(&settlement).await, Err(EngineFailure::Full));
        let claimed = b.claim(&claim()).await.expect("the engine responds");
        assert!(matches!(claimed, ClaimAnswer::Fetch { .. }), "{claimed:?}");
    });
}
