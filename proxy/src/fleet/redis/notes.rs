//! What nodes tell each other: notes in each partition's log, numbered without holes.

use std::sync::PoisonError;

use futures_util::future::try_join_all;

use super::super::engine::{Changes, Failure, Note, Positions, Server, What};
use super::{Redis, read};

/// Notes read of one partition at a time.
const NOTES: usize = 1000;

/// A line of a log: its id and its fields.
type Line = (String, Vec<(String, String)>);

impl Redis {
    /// Where to begin to read.
    pub(super) async fn start(&self) -> Result<Changes, Failure> {
        let servers = self.servers().await?.into_iter();
        Ok(Changes {
            positions: servers.map(|(last_note, _)| Some(last_note)).collect(),
            ..Changes::default()
        })
    }

    /// What was noted from these positions on.
    pub(super) async fn changes_since(&self, positions: &Positions) -> Result<Changes, Failure> {
        let from: Vec<_> = positions
            .iter()
            .map(|position| position.unwrap_or(0))
            .enumerate()
            .collect();
        // On a cluster a command may name the keys of one slot only.
        let at_once = if self.connection.is_cluster() {
            1
        } else {
            from.len()
        };
        let reading = from.chunks(at_once).map(|from| self.read_notes(from));
        let mut changes = Changes {
            positions: positions.clone(),
            ..Changes::default()
        };
        for (partition, (id, fields)) in try_join_all(reading).await?.into_iter().flatten() {
            let known = changes.positions[partition].unwrap_or(0);
            let found = number(&id).unwrap_or(known);
            if found > known + 1 {
                changes.gaps.push(partition);
            }
            changes.positions[partition] = Some(found);
            if let Some((note, at)) = noted(&fields, &self.options.node) {
                changes.notes.push(note);
                changes.times.extend(at);
            }
        }
        if changes.notes.len() < NOTES {
            self.find_lost_notes(&mut changes);
        }
        changes.gaps.dedup();
        Ok(changes)
    }

    /// The notes in these partitions, each from a position on.
    async fn read_notes(&self, from: &[(usize, u64)]) -> Result<Vec<(usize, Line)>, Failure> {
        let mut command = redis::cmd("XREAD");
        command.arg("COUNT").arg(NOTES).arg("STREAMS");
        for (partition, _) in from {
            let [log, _] = self.log(*partition);
            command.arg(log);
        }
        for (_, position) in from {
            command.arg(format!("{position}-1"));
        }
        let value = self.connection.send(&command).await?;
        let streams: Option<Vec<(String, Vec<Line>)>> = read(value, "XREAD")?;
        let mut lines = Vec::new();
        for (key, noted) in streams.into_iter().flatten() {
            let is_its = |(partition, _): &&(usize, u64)| self.log(*partition)[0] == key;
            let Some((partition, _)) = from.iter().find(is_its) else {
                continue;
            };
            lines.extend(noted.into_iter().map(|line| (*partition, line)));
        }
        Ok(lines)
    }

    /// Keeps the numbers of the last notes, to be compared with what can be read.
    pub(super) fn set_heads(&self, servers: Vec<(u64, Server)>) {
        let heads = servers.into_iter().map(|(last_note, _)| last_note);
        let heads = Some(heads.collect());
        *self.heads.lock().unwrap_or_else(PoisonError::into_inner) = heads;
    }

    /// Finds partitions whose last note is later than what can be read there.
    fn find_lost_notes(&self, changes: &mut Changes) {
        let heads = self
            .heads
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        for (partition, head) in heads.into_iter().flatten().enumerate() {
            let position = &mut changes.positions[partition];
            if position.is_some_and(|position| position < head) {
                changes.gaps.push(partition);
                *position = Some(head);
            }
        }
    }
}

/// The number of a note, by its id.
fn number(id: &str) -> Option<u64> {
    id.split_once('-')?.0.parse().ok()
}

/// What another node's note says, and when; nothing of our own.
fn noted(fields: &[(String, String)], own: &str) -> Option<(Note, Option<u64>)> {
    let field = |name| {
        let mut named = fields.iter().filter(|(field, _)| field == name);
        named.next().map(|(_, value)| value.as_str())
    };
    let what = match field("w")? {
        "changed" => What::Changed,
        "forgotten" => What::Forgotten,
        "rests" => What::Rests,
        "rested" => What::Rested,
        _ => return None,
    };
    let origin = field("o")?.to_owned();
    let at = field("t").and_then(|at| at.parse().ok());
    (field("n")? != own).then_some((Note { origin, what }, at))
}
