//! A check of the verbs that between them need every right, to find those that an engine does not permit a node.

use std::time::Duration;

use super::engine::{
    EngineFailure, FetchClaim, LogPositions, PacingResponse, QueueId, RecordChange, Settlement,
    SharedEngine, SharedRecord, SlotRequest,
};

use super::seal::MAX_CLOCK_SKEW;
use super::watch::clock_offset;

/// An origin that cannot exist (RFC 2606).
const ORIGIN: &str = "https://check.invalid";
const SECOND: Duration = Duration::from_secs(1);

/// Tries all that a node does, and leaves nothing in the engine for longer than seconds. Begins with a beat, because nothing
/// else can work without one. With `is_keyed` the clocks must agree, too.
pub async fn check(
    engine: &dyn SharedEngine,
    is_keyed: bool,
) -> Vec<(&'static str, Result<(), EngineFailure>)> {
    let (beat, offset) = match engine.beat("check").await {
        Ok(beat) => (Ok(()), clock_offset(beat.time)),
        Err(failure) => return vec![("beat", Err(failure))],
    };
    if is_keyed && Duration::from_millis(offset.unsigned_abs()) > MAX_CLOCK_SKEW {
        return vec![("beat", beat), ("clock", Err(is_off(offset)))];
    }
    let request = SlotRequest {
        queue: QueueId { origin: ORIGIN.to_owned(), name: "check".to_owned() },
        number: 0,
        max_concurrent: 1,
        delay: SECOND,
        remembered_for: Duration::ZERO,
        lease: SECOND,
        timeout: Duration::ZERO,
        obeys_rest: true,
        keeps_turn: false,
        is_held: false,
    };
    let claim =
        FetchClaim { origin: ORIGIN.to_owned(), max_age: None, lease: SECOND, rejected_version: 0 };
    // Deleted at the end; a crash in between leaves it for a second.
    let (kept, forgotten) =
        (settlement(RecordChange::Changed), settlement(RecordChange::Forgotten));
    let positions = match engine.changes(&LogPositions::new()).await {
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
        ("take", engine.take_slot(&request).await.map(drop)),
        ("leave", engine.release_slot(&request).await),
        ("answered", engine.answered(&response(429)).await.map(drop)),
        ("resting", engine.resting(partition).await.map(drop)),
        ("rested", engine.answered(&response(200)).await.map(drop)),
        ("forget", engine.settle(&forgotten).await.map(drop)),
        ("heads", engine.heads().await.map(drop)),
    ]
}

fn is_off(offset: i64) -> EngineFailure {
    let seconds = (offset.unsigned_abs() + 500) / 1000;
    let how = if offset < 0 { "ahead of" } else { "behind" };
    EngineFailure::Denied(format!(
        "this machine's clock is {seconds} s {how} the engine's; with store.key_file {} s are allowed",
        MAX_CLOCK_SKEW.as_secs()
    ))
}

fn settlement(change: RecordChange) -> Settlement {
    Settlement {
        origin: ORIGIN.to_owned(),
        token: 0,
        change,
        record: SharedRecord { bytes: b"check".to_vec(), age: Duration::ZERO, version: 0 },
        fresh_for: SECOND,
        retention: SECOND,
    }
}

fn response(status: u16) -> PacingResponse {
    PacingResponse { origin: ORIGIN.to_owned(), status, retry_after: None, max_rest: SECOND }
}
