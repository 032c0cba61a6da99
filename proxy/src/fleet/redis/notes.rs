//! Notes, by which nodes notify each other: a log in each partition, numbered without gaps.

use std::sync::PoisonError;

use futures_util::future::{join_all, try_join_all};

use super::super::engine::{Changes, Failure, Note, Positions, Server, UNSOUND_VERSION, What};
use super::{Redis, read};

/// The most notes read of a partition at a time.
const NOTES: usize = 1000;

/// An entry of a log: its id and its fields.
type Line = (String, Vec<(Vec<u8>, Vec<u8>)>);

impl Redis {
    /// Returns the positions at which a node begins to read: the end of each log.
    pub(super) async fn start(&self) -> Result<Changes, Failure> {
        let servers = self.servers().await?.into_iter();
        // Numbers read earlier are lower and would look like a restart of the log.
        self.heads
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        Ok(Changes {
            positions: servers.map(|(last_note, _)| Some(last_note)).collect(),
            ..Changes::default()
        })
    }

    /// Returns the notes after these positions.
    pub(super) async fn changes_since(&self, positions: &Positions) -> Result<Changes, Failure> {
        let mut changes = Changes {
            positions: positions.clone(),
            ..Changes::default()
        };
        let heads = self
            .heads
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let heads = heads.unwrap_or_default();
        go_back(&mut changes, &heads);
        let positions = &changes.positions;
        let from: Vec<_> = positions
            .iter()
            .map(|position| position.unwrap_or(0))
            .enumerate()
            .collect();
        // On a cluster a command may only name keys of one hash slot.
        let at_once = if self.connection.is_cluster() {
            1
        } else {
            from.len()
        };
        let reading = from.chunks(at_once).map(|from| self.read_notes(from));
        let mut lines = match try_join_all(reading).await {
            // Perhaps only one partition is damaged: read them one by one.
            Err(Failure::Corrupt(_)) => {
                let reading = from.chunks(1).map(|from| self.read_notes(from));
                let mut lines = Vec::new();
                for (partition, read) in join_all(reading).await.into_iter().enumerate() {
                    match read {
                        Err(Failure::Corrupt(_)) => changes.unreadable.push(partition),
                        read => lines.push(read?),
                    }
                }
                lines
            }
            lines => lines?,
        };
        for (partition, (id, fields)) in lines.drain(..).flatten() {
            let known = changes.positions[partition].unwrap_or(0);
            let found = number(&id).unwrap_or(known);
            if found >= UNSOUND_VERSION {
                // No node wrote it. The next note restarts the log.
                continue;
            }
            if found > known.saturating_add(1) {
                changes.gaps.push(partition);
            }
            changes.positions[partition] = Some(found);
            if let Some((note, at)) = noted(&fields, &self.options.node) {
                changes.notes.push(note);
                changes.times.extend(at);
            }
        }
        if changes.notes.len() < NOTES {
            go_forward(&mut changes, &heads);
        }
        changes.gaps.sort_unstable();
        changes.gaps.dedup();
        Ok(changes)
    }

    /// Reads the notes of these partitions, each after a position.
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

    /// Keeps the numbers of the last notes, to compare them with what can be read.
    pub(super) fn set_heads(&self, servers: Vec<(u64, Server)>) {
        let heads = servers.into_iter().map(|(last_note, _)| last_note);
        let heads = Some(heads.collect());
        *self.heads.lock().unwrap_or_else(PoisonError::into_inner) = heads;
    }
}

/// Finds partitions whose last note is before the position read there: the log was restarted.
fn go_back(changes: &mut Changes, heads: &[u64]) {
    for (partition, (position, head)) in changes.positions.iter_mut().zip(heads).enumerate() {
        if position.is_some_and(|position| position > *head) {
            changes.gaps.push(partition);
            *position = Some(*head);
        }
    }
}

/// Finds partitions whose last note is after what can be read there: the end of the log was lost.
fn go_forward(changes: &mut Changes, heads: &[u64]) {
    for (partition, (position, head)) in changes.positions.iter_mut().zip(heads).enumerate() {
        if position.is_some_and(|position| position < *head) {
            changes.gaps.push(partition);
            *position = Some(*head);
        }
    }
}

/// Returns the number in a note's id.
fn number(id: &str) -> Option<u64> {
    id.split_once('-')?.0.parse().ok()
}

/// Parses a note and the time of writing it. Returns `None` for a note of this node.
fn noted(fields: &[(Vec<u8>, Vec<u8>)], own: &str) -> Option<(Note, Option<u64>)> {
    let field = |name: &str| {
        let mut named = fields.iter().filter(|(field, _)| field == name.as_bytes());
        str::from_utf8(&named.next()?.1).ok()
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
