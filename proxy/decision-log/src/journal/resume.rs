//! Continues a chain that an earlier process, or a failed write, left: from the last signed head and the contents of the files.
//!
//! The head so far is stored next to the log and below `state.dir`. It is rewritten whenever the queue is empty, and every 100
//! ms under load, and says how many lines of which file were signed. A process that was killed may have written more: such
//! lines are kept, and a `recovered` event says that they were not signed. Lines after those that this process wrote, or that a
//! process signed as it shut down, cannot be ours: an `altered` event says that somebody else wrote them. The same event
//! reports signed lines that are missing or changed.

use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::SystemTime;

use uuid::Uuid;
use wayleave_clock::Clock;
use wayleave_evidence::chain::event::{EVENT_PREFIX, EventKind, LogEvent};
use wayleave_evidence::chain::handover::{KeyHandover, keys_until};
use wayleave_evidence::chain::head::is_signed_by;
use wayleave_evidence::chain::link::previous_digest;
use wayleave_evidence::chain::{HashChain, LogCount, MerkleTree, TreeHead};
use wayleave_evidence::files::{ends_in_line, file_number, is_compressed};
use wayleave_evidence::log_files::{LogFile, LogFilesReader, OwnLog, SignedPart};
use wayleave_evidence::{HeadFiles, Sha256Digest, regular_file};
use wayleave_signing::SigningKey;

use super::super::files::unused_name;

/// The chain after a known line, and the size of its last file up to there.
#[derive(Clone, Debug)]
pub(super) struct ChainState {
    pub(super) chain: HashChain,
    pub(super) count: LogCount,
    /// The handovers of the log from earlier keys.
    pub(super) handovers: Vec<KeyHandover>,
    pub(super) bytes: u64,
    /// The time of the latest line.
    pub(super) latest_at: SystemTime,
    /// Whether the last line says that the process shut down.
    pub(super) is_stopped: bool,
    /// Whether the process that wrote these lines wrote nothing after them.
    pub(super) is_complete: bool,
}

impl ChainState {
    pub(super) fn new() -> Self {
        Self {
            chain: HashChain::new(),
            count: LogCount::new(new_log_id()),
            handovers: Vec::new(),
            bytes: 0,
            latest_at: SystemTime::UNIX_EPOCH,
            is_stopped: false,
            is_complete: false,
        }
    }

    /// Returns the state before the first line of a file of the same log as `known`.
    fn start_of_file(file: u64, known: Option<&Self>) -> Self {
        let chain = HashChain { file, ..HashChain::new() };
        let count = known.map(|known| match known.chain.file {
            before if before < file => known.count.at_next_file(),
            _ => known.count.at_start_of_file(),
        });
        let handovers = known.map(|known| known.handovers.clone()).unwrap_or_default();
        let new = Self::new();
        Self { chain, count: count.unwrap_or(new.count), handovers, ..new }
    }

    fn next_file(&self) -> Self {
        let chain = self.chain.next_file();
        let count = self.count.at_next_file();
        Self { chain, count, bytes: 0, is_stopped: false, ..self.clone() }
    }

    /// Returns the keys that the log has had, the present `key` last.
    pub(super) fn keys(&self, key: &SigningKey) -> Vec<String> {
        keys_until(&key.public_base64(), &self.count.log, &self.handovers)
    }

    /// Returns the head of a file that is still being written.
    pub(super) fn current_head(&self, key: &SigningKey, clock: Clock) -> TreeHead {
        TreeHead {
            peaks: self.chain.tree.peaks().to_vec(),
            stopped: self.is_stopped,
            ..self.head(key, clock)
        }
    }

    /// Returns it signed.
    pub(super) fn sign_head(&self, key: &SigningKey, head: TreeHead) -> Vec<u8> {
        self.chain.sign_head(key.pair(), self.latest_at, head)
    }

    /// Returns the signed head that ends the file.
    fn final_head(&self, key: &SigningKey, clock: Clock) -> Vec<u8> {
        let head = TreeHead { next: Some(self.chain.file + 1), ..self.head(key, clock) };
        self.chain.sign_head(key.pair(), clock.shown(), head)
    }

    fn head(&self, key: &SigningKey, clock: Clock) -> TreeHead {
        TreeHead {
            bytes: Some(self.bytes),
            count: Some(self.count.clone()),
            clock: clock.unsettled_steps(),
            handovers: self.handovers.clone(),
            ..self.chain.tree_head(key.pair())
        }
    }

    /// Returns the event for signed lines that are missing or changed or, with `foreign_lines`, for that many appended by
    /// somebody else.
    fn altered_event(&self, foreign_lines: Option<u64>) -> EventKind {
        EventKind::Altered {
            file: self.chain.file,
            lines: self.chain.tree.lines(),
            expected_sha256: self.chain.last,
            foreign_lines,
        }
    }
}

/// The chain to continue, and the events to write first.
#[derive(Debug)]
pub(super) struct ResumedChain {
    pub(super) state: ChainState,
    pub(super) events: Vec<EventKind>,
    /// The number of alterations found, including those whose events are already written.
    pub(super) altered: u64,
    /// The number of lost decisions that lines after the saved head mention.
    pub(super) mentioned_lost: u64,
}

impl ResumedChain {
    fn new(state: ChainState, events: Vec<EventKind>) -> Self {
        Self { altered: count_altered(&events), state, events, mentioned_lost: 0 }
    }
}

fn count_altered(events: &[EventKind]) -> u64 {
    events.iter().filter(|event| matches!(event, EventKind::Altered { .. })).count() as u64
}

/// Returns an id that no other log has.
fn new_log_id() -> String {
    Uuid::now_v7().simple().to_string()
}

/// Returns the state that the newest head shows, if it was signed with this key.
pub(super) fn signed_before(heads: &HeadFiles, key: &SigningKey) -> Option<(ChainState, TreeHead)> {
    let line = heads.newest_signed_by(&key.public_base64())?;
    let LogEvent { kind: EventKind::Head(head), at } = LogEvent::parse(&line)? else {
        return None;
    };
    let tree: MerkleTree = head.tree()?;
    let state = ChainState {
        chain: HashChain { file: head.file, last: previous_digest(&line)?, tree },
        count: head.count.clone().unwrap_or_else(|| LogCount::new(new_log_id())),
        handovers: head.handovers.clone(),
        bytes: head.bytes?,
        latest_at: at,
        is_stopped: head.stopped,
        is_complete: head.stopped,
    };
    Some((state, head))
}

/// A log that is to be continued.
pub(super) struct ResumableLog<'a> {
    pub(super) path: &'a Path,
    pub(super) heads: &'a HeadFiles,
    pub(super) key: &'a SigningKey,
    pub(super) clock: Clock,
    /// Whether the key is older than this log as far as its heads show: then there was another log, which is gone.
    pub(super) has_earlier_key: bool,
}

impl ResumableLog<'_> {
    /// Finds out how to continue the log. `own` is the state that this process left, if it has written to the log.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be read, renamed or ended.
    pub(super) fn resume(&self, own: Option<ChainState>) -> io::Result<ResumedChain> {
        let path = self.path;
        let known = own.or_else(|| self.signed_before());
        if let Some(file) = file_number(path) {
            return self.resume_file(file, known);
        }
        if fs::metadata(path).is_ok_and(|found| found.len() > 0) {
            // The file was written by a version without a chain, or is not a log at all.
            fs::rename(path, unused_name(path))?;
        }
        self.begin_next_file(known)
    }

    /// Returns the state that the process before signed, and continues its judgement of the clock.
    fn signed_before(&self) -> Option<ChainState> {
        let (state, head) = signed_before(self.heads, self.key)?;
        if state.chain.tree.lines() > 0 {
            self.clock.continue_from(&head.clock, state.latest_at);
        }
        Some(state)
    }

    /// Continues an existing file.
    fn resume_file(&self, file: u64, known: Option<ChainState>) -> io::Result<ResumedChain> {
        if let Some(known) = known.as_ref().filter(|known| known.chain.file == file)
            && let Some(tail) = FileTail::after_known(self.path, known, self.key)?
        {
            let events = tail.events(known);
            let mentioned_lost = tail.lost;
            return Ok(ResumedChain { mentioned_lost, ..ResumedChain::new(tail.state, events) });
        }
        let start = ChainState::start_of_file(file, known.as_ref());
        let tail = FileTail::read_on(self.path, start.clone(), self.key)?;
        // A process may have ended after it began this file and before it saved the file's first head.
        let is_next = match &known {
            Some(known) => known.chain.file + 1 == file && !known.is_complete,
            None => file == 1 && !self.heads.exists(),
        };
        let events = if is_next {
            tail.events(&start)
        } else {
            vec![known.unwrap_or(start).altered_event(None)]
        };
        Ok(ResumedChain::new(tail.state, events))
    }

    /// Begins a new file. The last one has been rotated; if it does not end in a head yet, one is added.
    fn begin_next_file(&self, known: Option<ChainState>) -> io::Result<ResumedChain> {
        let has_head = known.is_some();
        let rotated = self.rotated_files(known.as_ref())?;
        let known = match (known, rotated.last()) {
            (Some(known), _) => known,
            (None, Some(last)) => ChainState::start_of_file(last.number, None),
            (None, None) => ChainState::new(),
        };
        if known.chain.tree.lines() == 0 && (has_head || rotated.is_empty()) {
            let is_lost = !has_head && (self.has_earlier_key || self.heads.exists());
            let events = is_lost.then(|| known.altered_event(None)).into_iter().collect();
            return Ok(ResumedChain::new(known, events));
        }
        match rotated.iter().find(|file| file.number == known.chain.file) {
            Some(last) => self.finish_file(&last.path, &known),
            None => Ok(ResumedChain::new(known.next_file(), vec![known.altered_event(None)])),
        }
    }

    /// Returns the rotated files that belong to the log. Without a head, only the key tells.
    fn rotated_files(&self, known: Option<&ChainState>) -> io::Result<Vec<LogFile>> {
        let keys = match known {
            Some(known) => known.keys(self.key),
            None => vec![self.key.public_base64()],
        };
        let log = OwnLog {
            path: self.path,
            keys: &keys,
            id: known.map(|known| known.count.log.as_str()),
            newest: known.map(|known| known.chain.file),
            signed: known.filter(|known| known.bytes > 0).map(|known| SignedPart {
                file: known.chain.file,
                bytes: known.bytes,
                last: known.chain.last,
            }),
        };
        Ok(LogFilesReader::default().read(log)?.files)
    }

    /// Makes sure that a rotated file ends in a head.
    fn finish_file(&self, path: &Path, known: &ChainState) -> io::Result<ResumedChain> {
        if is_compressed(&regular_file::open(path)?) {
            // Nothing can be appended to it. It was not compressed by wayleave, which begins the next file first.
            return Ok(ResumedChain::new(known.next_file(), vec![known.altered_event(None)]));
        }
        let (mut tail, events) = match FileTail::after_known(path, known, self.key)? {
            // Its final head, which is signed with our key, also covers the lines after the saved head.
            Some(tail) if tail.is_ended => (tail, Vec::new()),
            Some(tail) => {
                let events = tail.events(known);
                (tail, events)
            }
            None => {
                let start = ChainState::start_of_file(known.chain.file, Some(known));
                let tail = FileTail::read_on(path, start, self.key)?;
                (tail, vec![known.altered_event(None)])
            }
        };
        let mentioned_lost = tail.lost;
        if tail.is_ended {
            let chain = ResumedChain::new(tail.state.next_file(), events);
            return Ok(ResumedChain { mentioned_lost, ..chain });
        }
        let altered = count_altered(&events);
        // The events go into the file that they are about, because it may be exported without the next one.
        let mut lines = Vec::new();
        for event in events {
            let object = LogEvent::new(event, self.clock.shown()).to_json();
            let line = tail.state.chain.append(&object);
            tail.state.bytes += line.len() as u64 + 1;
            lines.extend_from_slice(&line);
            lines.push(b'\n');
        }
        let head = tail.state.final_head(self.key, self.clock);
        tail.state.chain.push_line(&head);
        lines.extend_from_slice(&head);
        lines.push(b'\n');
        append_all_or_nothing(path, &lines)?;
        let chain = ResumedChain::new(tail.state.next_file(), Vec::new());
        Ok(ResumedChain { altered, mentioned_lost, ..chain })
    }
}

/// Appends lines to a file. A part that a full disk took would later count as lines that somebody else wrote.
fn append_all_or_nothing(path: &Path, lines: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).open(path)?;
    let bytes_before = file.metadata()?.len();
    let written = file.write_all(lines);
    if written.is_err() {
        file.set_len(bytes_before)?;
    }
    written
}

/// The lines of a file after a known one.
struct FileTail {
    state: ChainState,
    lines: u64,
    torn: Option<Sha256Digest>,
    /// The number of lost decisions that the lines mention.
    lost: u64,
    /// Whether the last line is the head that ends the file, signed with our key.
    is_ended: bool,
}

impl FileTail {
    /// Reads the lines after the known ones; `None` if the last known line is no longer at its place.
    fn after_known(path: &Path, known: &ChainState, key: &SigningKey) -> io::Result<Option<Self>> {
        let file = regular_file::open(path)?;
        if known.bytes > 0 && !ends_in_line(&file, known.bytes, known.chain.last)? {
            return Ok(None);
        }
        Self::read_on(path, known.clone(), key).map(Some)
    }

    /// Reads from the known state to the end of the file, and terminates a torn last line.
    fn read_on(path: &Path, known: ChainState, key: &SigningKey) -> io::Result<Self> {
        let keys = known.keys(key);
        let mut file = OpenOptions::new().read(true).append(true).open(path)?;
        file.seek(SeekFrom::Start(known.bytes))?;
        let mut tail = Self { state: known, lines: 0, torn: None, lost: 0, is_ended: false };
        let mut lines = BufReader::new(&file);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line)? > 0 {
            let complete = line.strip_suffix(b"\n");
            let bytes = complete.unwrap_or(&line);
            tail.torn = complete.is_none().then(|| Sha256Digest::of(bytes));
            tail.state.chain.push_line(bytes);
            if complete.is_some() && !bytes.starts_with(EVENT_PREFIX) {
                tail.state.count.decisions += 1;
            }
            tail.state.bytes += bytes.len() as u64 + 1;
            tail.state.is_stopped = false;
            tail.lines += 1;
            if let Some(EventKind::Lost { decisions }) =
                LogEvent::parse(bytes).map(|event| event.kind)
            {
                tail.lost = tail.lost.saturating_add(decisions);
            }
            tail.is_ended = LogEvent::parse_head(bytes).is_some_and(|head| {
                let is_ours = keys.contains(&head.key) && is_signed_by(bytes, &head.key);
                head.next.is_some() && is_ours
            });
            line.clear();
        }
        if tail.torn.is_some() {
            file.write_all(b"\n")?;
        }
        Ok(tail)
    }

    /// Returns the event to write about the lines after the `known` ones.
    fn events(&self, known: &ChainState) -> Vec<EventKind> {
        if self.lines == 0 {
            return Vec::new();
        }
        let event = if known.is_complete {
            known.altered_event(Some(self.lines))
        } else {
            EventKind::Recovered { unsigned_lines: self.lines, torn_sha256: self.torn }
        };
        vec![event]
    }
}
