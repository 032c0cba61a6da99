//! The holds in effect for others than the process that writes the log: those that the log records, with the lists that its
//! key has signed since.

use std::path::{Path, PathBuf};

use crate::chain::event::LogEvent;
use crate::head_files::HeadFiles;
use crate::holds::{Hold, HoldFolder};
use crate::recorded_holds::RecordedHolds;

/// Reads the holds in effect, again and again.
#[derive(Debug)]
pub struct HoldsInEffect {
    state_dir: PathBuf,
    /// The log; without one, nothing is signed.
    log: Option<PathBuf>,
    /// The holds that the log was found to record, or that its key has signed since.
    known: Option<RecordedHolds>,
}

impl HoldsInEffect {
    /// Creates a reader of the holds in a state directory, for the log at that path.
    #[must_use]
    pub fn new(state_dir: &Path, log: Option<&Path>) -> Self {
        Self { state_dir: state_dir.to_owned(), log: log.map(Path::to_owned), known: None }
    }

    /// Returns the holds in effect.
    ///
    /// # Errors
    ///
    /// Returns an error if one cannot be read, or the log's records cannot. Nothing may be deleted then.
    pub fn read(&mut self) -> anyhow::Result<Vec<Hold>> {
        let folder = HoldFolder::in_state_dir(&self.state_dir);
        let Some(log) = &self.log else {
            return folder.active();
        };
        let line = HeadFiles::for_log(log, &self.state_dir).newest();
        let line = line.unwrap_or_default();
        let Some(head) = LogEvent::parse_head(&line) else {
            // Nobody can tell which releases are true.
            let all = folder.read()?.into_iter();
            return Ok(all.map(|hold| Hold { released_at: None, ..hold }).collect());
        };
        let is_complete = |known: &RecordedHolds| head.holds == Some(known.count());
        let mut known = self.known.take().unwrap_or_default();
        if !is_complete(&known) || !known.is_recording() {
            // It may record one whose file is gone by now.
            let recorded = RecordedHolds::read(log, &line)?;
            if recorded.is_recording() {
                known.begin_recording();
            }
            recorded.events().iter().for_each(|event| known.apply(event));
        }
        for event in known.compare(&folder.read_stored(&head.key)?).events {
            known.apply(&event);
        }
        known.begin_recording();
        let active = known.active();
        self.known = Some(known);
        Ok(active)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::SystemTime;

    use ring::signature::Ed25519KeyPair;

    use super::*;
    use crate::chain::{HashChain, TreeHead};

    const AT: SystemTime = SystemTime::UNIX_EPOCH;

    fn key(seed: u8) -> Ed25519KeyPair {
        Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()
    }

    fn hold(host: &str) -> Hold {
        Hold {
            id: 0,
            host: host.to_owned(),
            crawler: None,
            since: None,
            until: None,
            reason: "a letter".to_owned(),
            made_at: AT,
            released_at: None,
        }
    }

    /// Writes a log that records the holds in the folder.
    fn write_log(path: &Path, state_dir: &Path, holds: &RecordedHolds) {
        let mut chain = HashChain::new();
        let mut text = Vec::new();
        let events = holds.events().into_iter().map(|kind| LogEvent::new(kind, AT));
        for event in [chain.file_event(AT)].into_iter().chain(events) {
            text.extend(chain.append(&event.to_json()));
            text.push(b'\n');
        }
        fs::write(path, &text).unwrap();
        let head = TreeHead {
            bytes: Some(text.len() as u64),
            holds: Some(holds.count()),
            peaks: chain.tree.peaks().to_vec(),
            ..chain.tree_head(&key(1))
        };
        let head = chain.sign_head(&key(1), AT, head);
        assert!(HeadFiles::for_log(path, state_dir).save(&head).is_empty());
    }

    #[test]
    fn nobody_without_the_key_ends_a_hold() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("decisions.jsonl");
        let folder = HoldFolder::in_state_dir(dir.path());
        let mut reader = HoldsInEffect::new(dir.path(), Some(&log));
        let hosts = |reader: &mut HoldsInEffect| -> Vec<String> {
            reader.read().unwrap().into_iter().map(|hold| hold.host).collect()
        };
        // Before there is a log.
        folder.add(&hold("a.test"), None).unwrap();
        assert_eq!(hosts(&mut reader), ["a.test"]);
        let mut recorded = RecordedHolds::default();
        for event in recorded.compare(&folder.read_stored("").unwrap()).events {
            recorded.apply(&event);
        }
        write_log(&log, dir.path(), &recorded);
        let mut again = HoldsInEffect::new(dir.path(), Some(&log));
        let both = |reader: &mut HoldsInEffect, again: &mut HoldsInEffect| {
            assert_eq!(hosts(reader), hosts(again));
            hosts(reader)
        };
        assert_eq!(both(&mut reader, &mut again), ["a.test"]);
        let mut released = Hold { id: 1, released_at: Some(AT), ..hold("a.test") };
        folder.replace(&released, Some(&key(2))).unwrap();
        assert_eq!(both(&mut reader, &mut again), ["a.test"], "another key");
        fs::remove_file(dir.path().join("holds/1.json")).unwrap();
        assert_eq!(both(&mut reader, &mut again), ["a.test"], "its file is gone");
        let mut again = HoldsInEffect::new(dir.path(), Some(&log));
        assert_eq!(both(&mut reader, &mut again), ["a.test"], "the log has it");
        folder.replace(&Hold { id: 2, ..hold("planted.test") }, None).unwrap();
        assert_eq!(both(&mut reader, &mut again), ["a.test"]);
        folder.replace(&Hold { id: 3, ..hold("b.test") }, Some(&key(1))).unwrap();
        assert_eq!(both(&mut reader, &mut again), ["a.test", "b.test"]);
        released.id = 1;
        folder.replace(&released, Some(&key(1))).unwrap();
        assert_eq!(both(&mut reader, &mut again), ["b.test"]);
        // Without a head, nothing is released.
        for entry in fs::read_dir(dir.path()).unwrap().flatten() {
            if entry.path().extension().is_some_and(|extension| extension == "head") {
                fs::remove_file(entry.path()).unwrap();
            }
        }
        assert_eq!(both(&mut reader, &mut again), ["a.test", "planted.test", "b.test"]);
    }
}
