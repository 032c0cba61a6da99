//! The decision log: JSON lines in a file that is rotated by size and age, each linked to the one before.
//!
//! ```text
//!  batch      the lines of one write
//!  resume     continues a chain that an earlier process, or a failed write, left
//!  open_file  the file that lines are appended to
//!  published  finds out whether a head that was published is in the log
//!  config     location, rotation and retention
//!  retention  deletes rotated files
//!  holds      the files that must not be deleted, as the log records it
//!  next_key   replaces the key that signs the log
//!  compress   compresses rotated files, in a thread of its own
//! ```

mod batch;
mod compress;
mod config;
mod holds;
mod next_key;
mod open_file;
mod published;
mod resume;
mod retention;
#[cfg(test)]
mod tests;

use std::fs;
use std::io::{self, Write};
use std::mem;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use wayleave_clock::Clock;
use wayleave_evidence::chain::TreeHead;
use wayleave_evidence::chain::event::{EventKind, LogEvent, STOP_PREFIX};
use wayleave_evidence::log_files::{ForeignFile, LogFiles, LogFilesReader, OwnLog};
use wayleave_evidence::{HeadFiles, LogHead, Sha256Digest};
use wayleave_signing::{Jwk, SigningKey};

use self::batch::{LineBatch, LogChanges};
use self::compress::CompressionThread;
pub use self::config::JournalConfig;
use self::holds::JournalHolds;
pub use self::next_key::{next_key_path, take_next_key};
use self::open_file::OpenFile;
use self::resume::{ChainState, ResumableLog, ResumedChain};
use self::retention::{ExpiredFile, HeldFiles};
use super::files::unused_name;

/// The amount of buffered lines, in bytes, at which they are written.
const FLUSH_BYTES: usize = 256 * 1024;
/// The shortest time between two heads, and the longest that a line goes without one: signing and saving a head costs as much as
/// writing hundreds of lines.
const SIGN_INTERVAL: Duration = Duration::from_millis(100);
/// The time after which a head that could not be saved is tried again.
const SIGN_RETRY: Duration = Duration::from_secs(1);
/// The time after which a failed rotation is tried again.
const ROTATE_RETRY: Duration = Duration::from_mins(1);

/// The log's current file, and the lines buffered for it.
#[derive(Debug)]
pub struct Journal {
    config: JournalConfig,
    key: SigningKey,
    clock: Clock,
    heads: HeadFiles,
    /// Whether the key is older than this log: it existed, and no head shows its signatures.
    has_earlier_key: bool,
    /// The number of alterations found and not yet counted.
    altered: u64,
    /// The earliest time for the next rotation, after one that failed.
    rotate_after: Option<Instant>,
    /// Serialised objects, each with a line feed, not linked yet.
    buffer: Vec<u8>,
    /// The open file; `None` after a failure, so that it is opened again.
    open_file: Option<OpenFile>,
    /// The chain after the last line that this process knows.
    state: Option<ChainState>,
    /// The number of decisions in the log when this process continued it, or last found it altered.
    resumed_decisions: Option<u64>,
    /// The last head that was saved, until it is taken.
    saved_head: Option<Vec<u8>>,
    /// The time at which this process last saved a head for the file.
    signed_at: Option<Instant>,
    /// Whether the log is in regular files: there is no head beside a device.
    is_regular: bool,
    /// The time by which the next head is to be saved; none while the saved one covers all lines.
    sign_at: Option<Instant>,
    /// Events of the log itself that are not written yet.
    events: Vec<EventKind>,
    /// The number of lost decisions that the log does not mention yet. The head already counts them: it is overwritten in
    /// place, so that a full disk still takes it.
    lost: u64,
    /// Why no file takes the head; `None` while one does.
    head_fault: Option<String>,
    /// Whether only one of the two files takes it.
    lacks_copy: bool,
    /// Whether a file was begun, so that rotated files are to be deleted or compressed once it has a line.
    needs_cleanup: bool,
    /// Files to delete; the log records their deletion, or will with its next lines.
    expired: Vec<ExpiredFile>,
    held: HeldFiles,
    holds: JournalHolds,
    files: LogFilesReader,
    /// The files found beside the log that do not belong to it.
    foreign: Vec<ForeignFile>,
    /// The warnings as they were last asked for.
    warnings: Arc<JournalWarnings>,
    compression: CompressionThread,
}

/// The settings of a journal, and its public key.
#[derive(Debug)]
pub struct JournalDescription {
    pub config: JournalConfig,
    /// The public half of the key.
    pub key: Jwk,
}

/// The warnings for operators about the log's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalWarnings {
    /// Why no head can be saved, so that lines are not signed.
    pub head_fault: Option<String>,
    /// Files beside the log that do not belong to it.
    pub foreign: Vec<ForeignFile>,
    /// Sentences about changes to the holds that were not signed with the log's key.
    pub holds: Vec<String>,
}

/// The decisions that could not be written, and the error.
#[derive(Debug)]
pub struct LostLines {
    pub(super) lines: u64,
    pub(super) error: anyhow::Error,
}

impl Journal {
    /// Opens the log's current file, to be continued, and reads or creates its key.
    ///
    /// # Errors
    ///
    /// Returns an error if one of them cannot be opened or made.
    pub fn open(options: JournalConfig, clock: Clock) -> anyhow::Result<Self> {
        let open = OpenFile::new(&options.path)
            .with_context(|| format!("opening the decision log {}", options.path.display()))?;
        let mut heads = HeadFiles::for_log(&options.path, &options.state_dir);
        let is_known = options.key.exists();
        let key = SigningKey::read_or_create(&options.key).context("evidence.key")?;
        // Only a key in the state directory is known to belong to this log: one from elsewhere may have signed other logs.
        let belongs_here = options.key.parent() == Some(options.state_dir.as_path());
        // Written before the first line: a key without any head then means that a log is gone.
        if !is_known && !heads.exists() {
            let first = ChainState::new();
            // Holds that are there already are taken over.
            let line = first.sign_head(&key, first.current_head(&key, clock));
            heads.save_first(&line).context("saving the log's head")?;
        }
        // The process before may have stopped while the disk was full.
        let lost = resume::signed_before(&heads, &key).map_or(0, |(_, head)| head.lost);
        Ok(Self {
            has_earlier_key: is_known && belongs_here && !heads.has_any_copy(),
            altered: 0,
            key,
            clock,
            heads,
            config: options,
            rotate_after: None,
            buffer: Vec::with_capacity(FLUSH_BYTES),
            is_regular: open.is_regular,
            open_file: Some(open),
            state: None,
            resumed_decisions: None,
            saved_head: None,
            signed_at: None,
            sign_at: None,
            events: Vec::new(),
            lost,
            head_fault: None,
            lacks_copy: false,
            needs_cleanup: false,
            expired: Vec::new(),
            held: HeldFiles::default(),
            holds: JournalHolds::default(),
            files: LogFilesReader::default(),
            foreign: Vec::new(),
            warnings: Arc::default(),
            compression: CompressionThread::default(),
        })
    }

    /// Returns the journal's settings and public key.
    pub(super) fn describe(&self) -> JournalDescription {
        JournalDescription { config: self.config.clone(), key: self.key.jwk() }
    }

    /// Continues where `before` ended, if that wrote to the same file, so that the file need not be read again.
    pub(super) fn continue_from(&mut self, before: &mut Self) {
        if before.config.path == self.config.path {
            self.state = before.state.take();
            self.resumed_decisions = before.resumed_decisions;
            self.altered += before.altered;
            self.head_fault = before.head_fault.take();
            self.lacks_copy = before.lacks_copy;
            self.lost = before.lost;
            self.events.splice(0..0, mem::take(&mut before.events));
            self.expired = mem::take(&mut before.expired);
            self.held = mem::take(&mut before.held);
            self.holds = mem::take(&mut before.holds);
            self.files = mem::take(&mut before.files);
            self.foreign = mem::take(&mut before.foreign);
            self.compression = mem::take(&mut before.compression);
        }
    }

    /// Buffers a decision's line, to which the digest of its configuration is added.
    pub fn push(&mut self, line: &[u8], config_sha256: Option<Sha256Digest>) {
        // Spliced in as text: parsing and writing the line again would cost more than everything else.
        let open = line.strip_suffix(b"}\n").unwrap_or(line);
        self.buffer.extend_from_slice(open);
        if let Some(digest) = config_sha256 {
            self.buffer.extend_from_slice(b",\"config_sha256\":\"");
            self.buffer.extend_from_slice(&digest.hex());
            self.buffer.push(b'"');
        }
        self.buffer.extend_from_slice(b"}\n");
    }

    /// Buffers an event.
    pub fn push_event(&mut self, event: EventKind) {
        self.buffer.extend_from_slice(&LogEvent::new(event, self.clock.shown()).to_json());
        self.buffer.push(b'\n');
    }

    /// Adds decisions that were lost before they reached the journal.
    pub(super) fn add_lost(&mut self, decisions: u64) {
        self.lost += decisions;
    }

    /// Returns the number of alterations found since the last call.
    pub(super) fn take_altered(&mut self) -> u64 {
        mem::take(&mut self.altered)
    }

    /// Returns whether no lines are buffered.
    pub(super) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.buffer.len() >= FLUSH_BYTES
    }

    /// Writes the buffered lines, after rotating the file if that is due. Returns whether there were any.
    ///
    /// # Errors
    ///
    /// Returns the number of decisions that could not be written, which are lost.
    pub fn flush(&mut self) -> Result<bool, LostLines> {
        if self.buffer.is_empty() {
            return Ok(false);
        }
        self.rotate();
        if self.state.is_some() && self.holds.is_due() {
            self.check_holds();
        }
        let result = self.write().map_err(|(lines, error)| LostLines {
            lines,
            error: anyhow::Error::new(error).context(self.config.path.display().to_string()),
        });
        // Not tried again: the queue would grow meanwhile, and the log says how many decisions are missing.
        self.buffer.clear();
        if let Err(lost) = &result {
            self.lost += lost.lines;
            self.open_file = None;
            self.need_head(self.is_regular);
        }
        result.map(|()| true)
    }

    /// Saves a head, at once or soon, for what has just changed in the log if that is a regular file.
    fn need_head(&mut self, is_regular: bool) {
        let now = Instant::now();
        if !is_regular {
            self.sign_at = None;
        } else if self.sign_at.is_none() {
            self.sign_at = Some(now + SIGN_INTERVAL);
        }
        self.save_head_if_due(now);
    }

    /// Saves a head if it is time for that: either the first line without one has waited long enough, or the last head is so old
    /// that the lines of this write need not wait.
    pub(super) fn save_head_if_due(&mut self, now: Instant) {
        let is_due = self.sign_at.is_some_and(|at| at <= now);
        let is_old = self.signed_at.is_none_or(|at| now.duration_since(at) >= SIGN_INTERVAL);
        // While the head cannot be saved, only the time to try again counts.
        if is_due || (is_old && self.head_fault.is_none()) {
            self.save_head();
        }
    }

    /// Signs and saves a head, if there are lines that the saved one does not cover, or decisions that were lost.
    pub fn save_head(&mut self) {
        if self.sign_at.is_none() {
            return;
        }
        // Cleared below if saving succeeds.
        self.sign_at = Some(Instant::now() + SIGN_RETRY);
        // If nothing could be written at all, the previous process's head is signed again, with the number of lost decisions.
        let before = || resume::signed_before(&self.heads, &self.key).map(|(state, _)| state);
        let Some(state) = self.state.clone().or_else(before) else {
            return;
        };
        let head = TreeHead {
            lost: self.lost,
            holds: Some(self.holds.recorded.count()),
            ..state.current_head(&self.key, self.clock)
        };
        let head = state.sign_head(&self.key, head);
        let failures = self.heads.save(&head);
        let describe = |(file, error): &(&Path, io::Error)| format!("{}: {error}", file.display());
        let fault = failures.iter().map(describe).collect::<Vec<_>>().join("; ");
        // One of the two files is enough: the newer counts.
        let is_saved = failures.len() < HeadFiles::COUNT;
        if is_saved {
            self.sign_at = None;
            self.signed_at = Some(Instant::now());
            self.saved_head = Some(head);
            let lacks_copy = !fault.is_empty();
            if lacks_copy && !self.lacks_copy {
                tracing::warn!(
                    error = fault,
                    "only one of the two files takes the decision log's head"
                );
            }
            self.lacks_copy = lacks_copy;
        }
        self.set_head_fault((!is_saved).then_some(fault));
    }

    fn set_head_fault(&mut self, fault: Option<String>) {
        match (&self.head_fault, &fault) {
            (None, Some(error)) => {
                tracing::warn!(
                    error,
                    "the decision log's head cannot be written: its lines are not signed"
                );
            }
            (Some(_), None) => tracing::info!("the decision log's head is writable again"),
            _ => {}
        }
        self.head_fault = fault;
    }

    /// Returns when [`Self::save_head_if_due`] is to be called; `None` while the saved head covers all lines.
    pub(super) fn sign_at(&self) -> Option<Instant> {
        self.sign_at
    }

    /// Returns the faults of the log's files.
    pub(super) fn warnings(&mut self) -> Arc<JournalWarnings> {
        // Called with every write, and the result hardly ever changes.
        let known = &self.warnings;
        let is_known = known.head_fault == self.head_fault
            && known.foreign == self.foreign
            && known.holds == self.holds.findings;
        if !is_known {
            self.warnings = Arc::new(JournalWarnings {
                head_fault: self.head_fault.clone(),
                foreign: self.foreign.clone(),
                holds: self.holds.findings.clone(),
            });
        }
        Arc::clone(&self.warnings)
    }

    /// Returns the head that was saved since the last call.
    pub(super) fn take_saved_head(&mut self) -> Option<Vec<u8>> {
        self.saved_head.take()
    }

    /// Looks for a head of this log that was published, and if the log lacks it, has the log say so. The event is buffered.
    pub(super) fn compare_with(&mut self, published: &LogHead) {
        let rotated = self.read_files();
        let Some(state) =
            self.state.as_mut().filter(|state| state.count.log == published.count.log)
        else {
            return;
        };
        if published::is_in_log(published, &self.config.path, &rotated, state) {
            return;
        }
        let there = self.resumed_decisions.unwrap_or_default();
        let missing = published.count.total().saturating_sub(there).max(1);
        let lost = published.count.lost_decisions.max(state.count.lost_decisions);
        state.count.lost_decisions = lost.saturating_add(missing);
        tracing::error!(
            file = %self.config.path.display(),
            decisions = missing,
            "the decision log was cut back behind a head that the fleet knows; its next line records that"
        );
        self.altered += 1;
        self.push_event(EventKind::Altered {
            file: published.head.file,
            lines: published.head.lines,
            expected_sha256: published.last,
            foreign_lines: None,
        });
    }

    /// Rotates a file that is due. If that fails, the file is continued: too large is better than incomplete.
    fn rotate(&mut self) {
        let max_size_bytes = self.config.max_size_bytes;
        let max_age = self.config.max_age;
        let may_rotate = self.rotate_after.is_none_or(|at| at <= Instant::now());
        if !may_rotate
            || !self.open_file.as_ref().is_some_and(|open| open.is_due(max_size_bytes, max_age))
        {
            return;
        }
        let path = &self.config.path;
        match fs::rename(path, unused_name(path)) {
            Ok(()) => {
                // It gets its final head when the next file is begun.
                self.open_file = None;
                self.rotate_after = None;
            }
            Err(error) => {
                tracing::warn!(%error, file = %path.display(), "the decision log cannot be rotated and keeps growing");
                self.rotate_after = Some(Instant::now() + ROTATE_RETRY);
            }
        }
    }

    /// Writes the buffered lines.
    ///
    /// # Errors
    ///
    /// Returns how many decisions are not in the file, and the cause.
    fn write(&mut self) -> Result<(), (u64, io::Error)> {
        // Taken out of `self`: after an error, no open file is left, and the next write opens it again.
        let mut open =
            self.take_open_file().map_err(|error| (batch::count_decisions(&self.buffer), error))?;
        let state = self.state.get_or_insert_with(ChainState::new);
        let changes = LogChanges {
            events: &self.events,
            lost: self.lost,
            latest_at: state.latest_at,
            at: self.clock.shown(),
        };
        let batch = LineBatch::new(&state.chain, changes, &self.buffer);
        let written = open.file.write_all(&batch.bytes);
        // A full disk may accept a part.
        let (written_bytes, is_all) = match &written {
            Ok(()) => (batch.bytes.len(), true),
            Err(_) => open.truncate_to_whole_lines(&batch.bytes),
        };
        *state = ChainState {
            chain: batch.chain_until(written_bytes, &state.chain),
            count: state.count.plus(batch::count_decisions(&batch.bytes[..written_bytes])),
            handovers: mem::take(&mut state.handovers),
            bytes: open.add_bytes(written_bytes),
            latest_at: batch.at,
            is_stopped: batch.ends_in_line(STOP_PREFIX, written_bytes),
            is_complete: is_all,
        };
        // Events that are not in the file are kept for the next write.
        let are_events_written = written_bytes >= batch.event_bytes;
        if are_events_written {
            self.events.clear();
            self.lost = 0;
        }
        let is_regular = open.is_regular;
        self.open_file = Some(open);
        self.need_head(is_regular);
        self.clean_up(are_events_written);
        written.map_err(|error| (batch::count_decisions(&batch.bytes[written_bytes..]), error))
    }

    /// Takes the file to write to, whose contents are known. Opens it and reads its new lines, if necessary.
    fn take_open_file(&mut self) -> io::Result<OpenFile> {
        let known_bytes = self.state.as_ref().map(|state| state.bytes);
        self.open_file.take_if(|open| !open.refresh(known_bytes));
        let path = &self.config.path;
        if let Some(open) = self.open_file.take_if(|open| open.is_started) {
            return Ok(open);
        }
        let mut open = match self.open_file.take() {
            Some(open) => open,
            None => OpenFile::new(path)?,
        };
        if open.is_regular {
            if self.state.is_none() {
                // Before `resume` renames files.
                let head = self.heads.newest_signed_by(&self.key.public_base64());
                self.holds = JournalHolds::read(path, head.as_deref());
            }
            let log = ResumableLog {
                path,
                heads: &self.heads,
                key: &self.key,
                clock: self.clock,
                has_earlier_key: self.has_earlier_key,
            };
            let known_file = self.state.as_ref().map(|state| state.chain.file);
            let ResumedChain { state, events, altered, mentioned_lost } =
                log.resume(self.state.clone())?;
            if self.state.is_none() {
                self.lost = self.lost.saturating_sub(mentioned_lost);
            }
            if altered > 0 {
                tracing::error!(
                    file = %path.display(),
                    "the decision log was altered; its next line records that, and evidence verify names the place"
                );
            }
            self.altered += altered;
            if altered > 0 || self.resumed_decisions.is_none() {
                self.resumed_decisions = Some(state.count.total());
            }
            // `resume` may have renamed the file that was open.
            open = OpenFile::new(path)?;
            // The events of a file whose first line could not be written are still waiting for the next write.
            let is_new_file = state.chain.tree.lines() == 0 && known_file != Some(state.chain.file);
            self.state = Some(state);
            self.events.splice(0..0, events);
            if is_new_file {
                self.events.extend(self.holds.recorded.events());
            }
            self.check_holds();
            self.announce_deletions();
            // No head of this file is saved.
            self.signed_at = None;
        }
        open.is_started = true;
        Ok(open)
    }

    /// Adds events for holds that were made or released since the last look.
    fn check_holds(&mut self) {
        let events = self.holds.check(&self.config.state_dir, &self.key.public_base64());
        self.events.extend(events);
    }

    /// Adds events for the files that will be deleted. They must precede the deletions: a log without files whose deletion it
    /// does not mention counts as altered.
    fn announce_deletions(&mut self) {
        self.needs_cleanup = true;
        if !self.expired.is_empty() {
            return;
        }
        let files = self.read_files();
        let now = self.clock.settled();
        let Some(holds) = self.holds.in_effect() else {
            return;
        };
        self.expired = retention::expired_files(&self.config, &files, now, &holds, &mut self.held);
        match retention::deletions_to_record(&self.config, &self.key, &files, &self.expired) {
            Ok(numbers) => {
                let deleted = numbers.into_iter().map(|file| EventKind::Deleted { file });
                self.events.extend(deleted);
            }
            Err(error) => {
                let error = format!("{error:#}");
                tracing::error!(error, "old decision logs are not deleted");
                self.expired.clear();
            }
        }
    }

    /// Reads the signatures of the rotated files, and logs foreign files that were not there the last time.
    fn read_files(&mut self) -> LogFiles {
        let path = &self.config.path;
        let state = self.state.as_ref();
        let keys = match state {
            Some(state) => state.keys(&self.key),
            None => vec![self.key.public_base64()],
        };
        let log = OwnLog {
            path,
            keys: &keys,
            id: state.map(|state| state.count.log.as_str()),
            newest: Some(state.map_or(0, |state| state.chain.file)),
            signed: None,
        };
        let files = self.files.read(log).unwrap_or_else(|error| {
            tracing::error!(%error, file = %path.display(), "the decision log's files cannot be listed");
            LogFiles::default()
        });
        for file in files.foreign.iter().filter(|file| !self.foreign.contains(file)) {
            tracing::warn!(
                file = %file.path.display(),
                reason = file.reason,
                "a file beside the decision log does not belong to it, and is left alone"
            );
        }
        self.foreign.clone_from(&files.foreign);
        files
    }

    /// Deletes expired files and starts compressing the rest. The files are deleted even if the events about them could not be
    /// written, because the disk may be full of them; the events are then written later.
    fn clean_up(&mut self, are_events_written: bool) {
        for expired in mem::take(&mut self.expired) {
            expired.delete();
        }
        if are_events_written && self.needs_cleanup && self.config.compresses {
            let files = self.read_files().files;
            self.compression.start(files.into_iter().map(|file| file.path).collect());
        }
        self.needs_cleanup &= !are_events_written;
    }
}
