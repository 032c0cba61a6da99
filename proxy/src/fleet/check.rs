//! A check that tries every verb, to find what an engine does not permit a node.

use std::time::Duration;

use super::engine::{
    Answer, Claim, Engine, Failure, Kind, Positions, Queue, Record, Settlement, Turn,
};

use super::sealed::TOLERATED;
use super::watch::offset;

/// An origin that cannot exist (RFC 2606).
const ORIGIN: &str = "https://check.invalid";
const SECOND: Duration = Duration::from_secs(1);

/// A verb and its result.
pub type Tried = (&'static str, Result<(), Failure>);

/// Tries all that a node does, and leaves nothing in the engine for longer than seconds. Begins with a beat, because nothing
/// else can work without one. With `is_keyed` the clocks must agree, too.
pub async fn check(engine: &dyn Engine, is_keyed: bool) -> Vec<Tried> {
    let (beat, offset) = match engine.beat("check").await {
        Ok(beat) => (Ok(()), offset(beat.time)),
        Err(failure) => return vec![("beat", Err(failure))],
    };
    if is_keyed && Duration::from_millis(offset.unsigned_abs()) > TOLERATED {
        return vec![("beat", beat), ("clock", Err(is_off(offset)))];
    }
    let turn = Turn {
        queue: Queue {
            origin: ORIGIN.to_owned(),
            name: "check".to_owned(),
        },
        number: 0,
        most: 1,
        delay: SECOND,
        term: SECOND,
        patience: Duration::ZERO,
        is_under_way: false,
    };
    let claim = Claim {
        origin: ORIGIN.to_owned(),
        newer_than: None,
        lease: SECOND,
        distrusted: 0,
    };
    let (kept, forgotten) = (settlement(Kind::Changed), settlement(Kind::Forgotten));
    let positions = match engine.changes(&Positions::new()).await {
        Ok(changes) => changes.positions,
        Err(failure) => return vec![("beat", beat), ("changes", Err(failure))],
    };
    let partition = engine.partition(ORIGIN);
    vec![
        ("beat", beat),
        ("claim", engine.claim(&claim).await.map(drop)),
        ("settle", engine.settle(&kept).await.map(drop)),
        ("record", engine.record(ORIGIN).await.map(drop)),
        ("changes", engine.changes(&positions).await.map(drop)),
        ("take", engine.take(&turn).await.map(drop)),
        ("leave", engine.leave(&turn).await),
        ("answered", engine.answered(&answer(429)).await.map(drop)),
        ("resting", engine.resting(partition).await.map(drop)),
        ("rested", engine.answered(&answer(200)).await.map(drop)),
        ("forget", engine.settle(&forgotten).await.map(drop)),
    ]
}

fn is_off(offset: i64) -> Failure {
    let seconds = (offset.unsigned_abs() + 500) / 1000;
    let how = if offset < 0 { "ahead of" } else { "behind" };
    Failure::Denied(format!(
        "this machine's clock is {seconds} s {how} the engine's; with store.key_file {} s are tolerated",
        TOLERATED.as_secs()
    ))
}

fn settlement(kind: Kind) -> Settlement {
    Settlement {
        origin: ORIGIN.to_owned(),
        token: 0,
        kind,
        record: Record {
            bytes: b"check".to_vec(),
            age: Duration::ZERO,
            version: 0,
        },
        fresh_for: SECOND,
        keep: SECOND,
    }
}

fn answer(status: u16) -> Answer {
    Answer {
        origin: ORIGIN.to_owned(),
        status,
        retry_after: None,
        longest: SECOND,
    }
}
