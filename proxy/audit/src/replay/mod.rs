//! Decides about the requests of the decision log again, by another configuration.
//!
//! ```text
//!  mod ─┬─ replayer    decides about one request, by its origin as it was known then
//!       └─ summary     counts by crawler, host and rule
//! ```

mod replayer;
mod summary;

use std::io;
use std::mem;
use std::ops::ControlFlow;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use anyhow::Context;
use wayleave_decision_log::{
    DecisionQuery, DecisionRecord, LogGaps, LogPlace, ScanStep, TimeRange, scan_log,
};
use wayleave_evidence::Sha256Digest;
use wayleave_evidence::chain::link;

pub use self::replayer::Replayer;
pub use self::summary::{ChangeSummary, GroupRow, NOT_REPLAYED, ReplaySummary};

/// The number of batches of decisions that may wait.
const MAX_WAITING_BATCHES: usize = 4;

/// The bytes that have been read of the log, and all of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadBytes {
    pub read: u64,
    pub total: u64,
}

/// Decisions of the log, each with the configuration that made it.
struct ReadBatch {
    decisions: Vec<(DecisionRecord, Option<Sha256Digest>)>,
    progress: ReadBytes,
}

/// Replays the decisions of a log that match, until `goes_on` says otherwise after some of them.
///
/// # Errors
///
/// Returns an error if the log cannot be read.
pub fn replay_log(
    log: LogPlace<'_>,
    span: TimeRange,
    query: &DecisionQuery,
    mut replayer: Replayer<'_>,
    mut goes_on: impl FnMut(&ReplaySummary, ReadBytes) -> ControlFlow<()>,
) -> anyhow::Result<ReplaySummary> {
    let mut summary = ReplaySummary::new(log.path, span.since);
    // Reading a line takes longer than deciding about it.
    let (sender, batches) = sync_channel::<ReadBatch>(MAX_WAITING_BATCHES);
    let scanned = thread::scope(|scope| {
        let scanning = scope.spawn(move || scan(log, span, query, &sender));
        for ReadBatch { decisions, progress } in batches {
            for (decision, configuration) in decisions {
                summary.add(&decision, &replayer.replay(&decision, configuration));
            }
            if goes_on(&summary, progress).is_break() {
                break;
            }
        }
        scanning.join().unwrap_or_else(|_| Err(io::Error::other("reading it failed")))
    });
    let path = log.path.display();
    let gaps = scanned.with_context(|| format!("the decision log {path} cannot be read"))?;
    summary.note_missing(&gaps, span);
    Ok(summary)
}

/// Sends the decisions of the log in its order. Returns the gaps in it.
fn scan(
    log: LogPlace<'_>,
    span: TimeRange,
    query: &DecisionQuery,
    sender: &SyncSender<ReadBatch>,
) -> io::Result<LogGaps> {
    let mut decisions = Vec::new();
    let mut progress = ReadBytes::default();
    let gaps = scan_log(log, span, query, |step| {
        match step {
            ScanStep::Decision(decision, line) => {
                decisions.push((decision, link::config_digest(line)));
                return ControlFlow::Continue(());
            }
            ScanStep::Progress { bytes, total_bytes } => {
                progress = ReadBytes { read: bytes, total: total_bytes };
            }
        }
        // Even one without decisions: whoever asked may have given up meanwhile.
        let batch = ReadBatch { decisions: mem::take(&mut decisions), progress };
        // The other side is gone if it needs no more, or failed.
        if sender.send(batch).is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    // Nobody waits for it only if no more is needed.
    let _ = sender.send(ReadBatch { decisions, progress });
    Ok(gaps)
}
