//! Notes, by which nodes notify each other: a log in each partition, numbered without gaps.

use std::sync::PoisonError;

use futures_util::future::{join_all, try_join_all};
use redis::Value;
use tokio::time::sleep;

use super::super::engine::{
    ChangeBatch, ChangeNote, EngineFailure, EngineServer, LogPositions, MAX_LISTENING, NoteKind,
    VERSION_LIMIT,
};
use super::{RedisEngine, read};

/// The most notes read of a partition at a time.
const NOTES_PER_READ: usize = 1000;

/// An entry of a log: its id and its fields.
type StreamEntry = (String, Vec<(Vec<u8>, Vec<u8>)>);

impl RedisEngine {
    /// Returns the positions at which a node begins to read: the end of each log.
    pub(super) async fn first_positions(&self) -> Result<ChangeBatch, EngineFailure> {
        let servers = self.servers().await?.into_iter();
        // Numbers read earlier are lower and would look like a restart of the log.
        self.heads.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(ChangeBatch {
            positions: servers.map(|(last_note, _)| Some(last_note)).collect(),
            ..ChangeBatch::default()
        })
    }

    /// Returns the notes after these positions.
    pub(super) async fn changes_since(
        &self,
        positions: &LogPositions,
    ) -> Result<ChangeBatch, EngineFailure> {
        let mut changes = ChangeBatch { positions: positions.clone(), ..ChangeBatch::default() };
        let heads =
            self.heads.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
        // The last note is before the position read: the log was restarted.
        note_gaps(&mut changes, &heads, |position, head| position > head);
        for (partition, (id, fields)) in self.read_all_notes(&mut changes).await? {
            let position = changes.positions[partition].unwrap_or(0);
            let number = note_number(&id).unwrap_or(position);
            if number >= VERSION_LIMIT {
                // No node wrote it. The next note restarts the log.
                continue;
            }
            // Numbers have no gaps, so the notes in between were deleted.
            if number > position.saturating_add(1) {
                changes.gaps.push(partition);
            }
            changes.positions[partition] = Some(number);
            if let Some((note, at)) = parse_note(&fields, &self.settings.node) {
                changes.notes.push(note);
                changes.times.extend(at);
            }
        }
        // After a full read the rest of a log may just not have been read yet.
        if changes.notes.len() < NOTES_PER_READ {
            // The last note is after all that can be read: the end of the log was lost.
            note_gaps(&mut changes, &heads, |position, head| position < head);
        }
        changes.gaps.sort_unstable();
        changes.gaps.dedup();
        Ok(changes)
    }

    /// Reads the notes after the positions in `changes`, each with its partition, and notes the partitions that are damaged.
    async fn read_all_notes(
        &self,
        changes: &mut ChangeBatch,
    ) -> Result<Vec<(usize, StreamEntry)>, EngineFailure> {
        let from: Vec<_> =
            changes.positions.iter().map(|position| position.unwrap_or(0)).enumerate().collect();
        // On a cluster a command may only name keys of one hash slot.
        let at_once = if self.connection.is_cluster() { 1 } else { from.len() };
        let reads = from.chunks(at_once).map(|from| self.read_notes(from));
        match try_join_all(reads).await {
            Ok(entries) => return Ok(entries.into_iter().flatten().collect()),
            // Perhaps only one partition is damaged: read them one by one.
            Err(EngineFailure::Corrupt(_)) => {}
            Err(failure) => return Err(failure),
        }
        let reads = from.chunks(1).map(|from| self.read_notes(from));
        let mut entries = Vec::new();
        for (partition, read) in join_all(reads).await.into_iter().enumerate() {
            match read {
                Err(EngineFailure::Corrupt(_)) => changes.unreadable.push(partition),
                read => entries.extend(read?),
            }
        }
        Ok(entries)
    }

    /// Reads the notes of these partitions, each after a position.
    async fn read_notes(
        &self,
        from: &[(usize, u64)],
    ) -> Result<Vec<(usize, StreamEntry)>, EngineFailure> {
        let mut command = redis::cmd("XREAD");
        command.arg("COUNT").arg(NOTES_PER_READ).arg("STREAMS");
        for (partition, _) in from {
            let [log, _] = self.log_keys(*partition);
            command.arg(log);
        }
        for (_, position) in from {
            // The script gives each note the id NUMBER-1; XREAD returns the entries after it.
            command.arg(format!("{position}-1"));
        }
        let value = self.connection.send(&command).await?;
        let streams: Option<Vec<(String, Vec<StreamEntry>)>> = read(value, "XREAD")?;
        let mut entries = Vec::new();
        // The server leaves out streams without new entries.
        for (key, stream) in streams.into_iter().flatten() {
            let Some((partition, _)) =
                from.iter().find(|(partition, _)| self.log_keys(*partition)[0] == key)
            else {
                continue;
            };
            entries.extend(stream.into_iter().map(|entry| (*partition, entry)));
        }
        Ok(entries)
    }

    /// Waits until a note is written from now on, this node's own among them. Returns whether there was one.
    pub(super) async fn listen(&self) -> Result<bool, EngineFailure> {
        // A command may only name keys of one hash slot.
        if self.connection.is_cluster() {
            sleep(MAX_LISTENING).await;
            return Ok(false);
        }
        if !self.listening.is_open() {
            self.listening.open().await?;
        }
        let mut command = redis::cmd("XREAD");
        let limit = MAX_LISTENING.as_millis().to_string();
        command.arg("COUNT").arg(1).arg("BLOCK").arg(limit).arg("STREAMS");
        for partition in 0..self.settings.partitions {
            let [log, _] = self.log_keys(partition);
            command.arg(log);
        }
        for _ in 0..self.settings.partitions {
            command.arg("$");
        }
        let answer = self.listening.send(&command).await;
        if answer.is_err() {
            self.listening.close();
        }
        Ok(answer? != Value::Nil)
    }

    /// Keeps the numbers of the last notes, to compare them with those that can be read.
    pub(super) fn set_heads(&self, servers: Vec<(u64, EngineServer)>) {
        let heads = servers.into_iter().map(|(last_note, _)| last_note).collect();
        *self.heads.lock().unwrap_or_else(PoisonError::into_inner) = Some(heads);
    }
}

/// Notes the partitions with a gap between the position read and the last note, and continues after it.
fn note_gaps(changes: &mut ChangeBatch, heads: &[u64], is_gap: impl Fn(u64, u64) -> bool) {
    for (partition, (position, head)) in changes.positions.iter_mut().zip(heads).enumerate() {
        if position.is_some_and(|position| is_gap(position, *head)) {
            changes.gaps.push(partition);
            *position = Some(*head);
        }
    }
}

/// Returns the number in a note's id.
fn note_number(id: &str) -> Option<u64> {
    id.split_once('-')?.0.parse().ok()
}

/// Parses a note and the time of writing it. Returns `None` for a note of this node.
fn parse_note(fields: &[(Vec<u8>, Vec<u8>)], own: &str) -> Option<(ChangeNote, Option<u64>)> {
    let field = |name: &str| {
        let mut named = fields.iter().filter(|(field, _)| field == name.as_bytes());
        str::from_utf8(&named.next()?.1).ok()
    };
    let kind = match field("w")? {
        "changed" => NoteKind::Changed,
        "forgotten" => NoteKind::Forgotten,
        "rests" => NoteKind::RestStarted,
        "rested" => NoteKind::RestEnded,
        _ => return None,
    };
    let origin = field("o")?.to_owned();
    let at = field("t").and_then(|at| at.parse().ok());
    (field("n")? != own).then_some((ChangeNote { origin, kind }, at))
}
