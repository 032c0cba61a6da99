//! The data that an engine stores of origins and nodes, for how long, and the detection of missing data.

use std::time::Duration;

use wayleave::fleet::engine::{
    ClaimAnswer, EngineFailure, LogPositions, PacingResponse, Settlement, SharedEngine, SlotAnswer,
    SlotRequest,
};
use wayleave::fleet::redis::RedisSettings;

use super::engines::{Product, Server};
use super::servers::{MINUTE, ORIGIN, begun, claim, joined, settlement, turn};
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
        let begun = b.changes(&LogPositions::new()).await.expect("an answer");
        let settlement = Settlement { origin, ..settlement(1) };
        a.settle(&settlement).await.expect("an answer");
        server.tell(&["del", &format!("wl:{{{partition}}}:l")]);
        // With one of so many it looks what the last note was.
        for _ in 0..30 {
            b.beat("0.1.0").await.expect("an answer");
        }
        let heard = b.changes(&begun.positions).await.expect("an answer");
        assert_eq!((heard.notes.len(), heard.gaps), (0, vec![partition]));
    });
}

#[test]
fn an_engine_that_lost_its_data_waits_for_home_nodes() {
    let server = Server::start(Product::Redis);
    run(async {
        let home = RedisSettings { home_window: MINUTE, ..options(server.address(), "a") };
        let node = joined(home).await;
        let short = turn(Duration::from_millis(1), 1);
        let answer = node.take(&short).await.expect("an answer");
        assert!(matches!(answer, SlotAnswer::NotInTime(wait) if wait > MINUTE / 2), "{answer:?}");
    });
}

#[test]
fn a_node_that_is_silent_for_long_leaves_the_fleet() {
    let server = Server::start(Product::Redis);
    run(async {
        let node = joined(options(server.address(), "a")).await;
        let time = server.tell(&["time"]);
        let seconds = time.lines().next().and_then(|it| it.parse::<u64>().ok());
        let seconds = seconds.expect("a time");
        for (name, heard_at) in [("gone", seconds - 6), ("here", seconds + 4)] {
            let heard = format!("{heard_at}000000 0.1.0");
            server.tell(&["hset", "wl:{0}:nodes", name, &heard]);
        }
        let members = node.beat("0.1.0").await.expect("an answer").members;
        let members: Vec<_> = members.into_iter().map(|member| member.node).collect();
        assert_eq!(members, ["a", "here"]);
        assert_eq!(server.tell(&["hlen", "wl:{0}:nodes"]).trim(), "2");
    });
}

/// The keys of the origin, each with the kind that it is of; all go by themselves.
#[track_caller]
fn expiring(server: &Server) -> Vec<String> {
    let keys = server.tell(&["keys", &format!("*{ORIGIN}*")]);
    let mut kinds = Vec::new();
    for key in keys.lines().filter(|key| !key.is_empty()) {
        let left = server.tell(&["pttl", key]);
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
        a.claim(&claim()).await.expect("an answer");
        b.settle(&settlement(1)).await.expect("an answer");
        let short = SlotRequest { timeout: MINUTE, ..turn(Duration::from_millis(1), 1) };
        while a.take(&short).await != Ok(SlotAnswer::Granted) {}
        let answer = b.take(&short).await.expect("an answer");
        assert!(matches!(answer, SlotAnswer::Queued(_)), "{answer:?}");
        let refused = PacingResponse {
            origin: ORIGIN.to_owned(),
            status: 503,
            retry_after: Some(MINUTE),
            max_rest: MINUTE,
        };
        a.answered(&refused).await.expect("an answer");
        assert_eq!(expiring(&server), ["e", "f", "r", "t", "w"]);
        server.tell(&["flushall"]);
        a.leave(&begun(&short)).await.expect("an answer");
        assert_eq!(expiring(&server), ["t"]);
    });
}

#[test]
fn a_lease_ends_with_the_fetch_even_if_the_engine_is_full() {
    let server = Server::start(Product::Redis);
    run(async {
        let a = joined(options(server.address(), "a")).await;
        let b = joined(options(server.address(), "b")).await;
        let claimed = a.claim(&claim()).await.expect("an answer");
        let ClaimAnswer::Fetch { token, .. } = claimed else {
            panic!("{claimed:?}");
        };
        server.tell(&["config", "set", "maxmemory", "1"]);
        let settlement = Settlement { token, ..settlement(10) };
        assert_eq!(a.settle(&settlement).await, Err(EngineFailure::Full));
        let claimed = b.claim(&claim()).await.expect("an answer");
        assert!(matches!(claimed, ClaimAnswer::Fetch { .. }), "{claimed:?}");
    });
}
