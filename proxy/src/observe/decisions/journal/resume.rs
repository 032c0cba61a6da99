//! Continues a chain that an earlier process, or a failed write, left: from the last signed head and the contents of the files.
//!
//! The head so far is stored next to the log and below `state.dir`. It is rewritten whenever the queue is empty, and every 100
//! ms under load, and says how many lines of which file were signed. A process that was killed may have written more: such
//! lines are kept, and a `recovered` event says that they were not signed. Lines after those that this process wrote, or that a
//! process signed as it shut down, cannot be ours: an `altered` event says that somebody else wrote them. The same event
//! reports signed lines that are missing or changed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::SystemTime;

use super::super::files::{contents, is_compressed, rotated_files, vacant};
use super::heads::Heads;
use crate::clock::calendar;
use crate::observe::chain::event::{Event, What};
use crate::observe::chain::head::is_signed_by;
use crate::observe::chain::link::previous;
use crate::observe::chain::{Chain, Tree};
use crate::observe::digest::Digest;
use crate::signing::Key;

/// The chain after a known line, and the size of its last file up to there.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) chain: Chain,
    pub(super) bytes: u64,
    /// The time of the latest line.
    pub(super) latest: SystemTime,
    /// Whether the last line says that the process shut down.
    pub(super) is_stopped: bool,
    /// Whether the process that wrote these lines wrote nothing after them.
    pub(super) is_all: bool,
}

impl Known {
    pub(super) fn new() -> Self {
        Self {
            chain: Chain::new(),
            bytes: 0,
            latest: SystemTime::UNIX_EPOCH,
            is_stopped: false,
            is_all: false,
        }
    }

    fn at_the_start_of(file: u64) -> Self {
        let chain = Chain {
            file,
            ..Chain::new()
        };
        Self {
            chain,
            ..Self::new()
        }
    }

    fn next_file(&self) -> Self {
        Self {
            chain: self.chain.next_file(),
            bytes: 0,
            is_stopped: false,
            ..*self
        }
    }

    /// Returns the signed head of a file that is still being written.
    pub(super) fn head(&self, key: &Key) -> Vec<u8> {
        self.chain
            .so_far(key, self.latest, self.bytes, self.is_stopped)
    }

    /// Returns the event for signed lines that are missing or changed or, with `foreign_lines`, for that many appended by
    /// somebody else.
    fn altered(&self, foreign_lines: Option<u64>) -> What {
        What::Altered {
            file: self.chain.file,
            lines: self.chain.tree.lines(),
            expected_sha256: self.chain.last,
            foreign_lines,
        }
    }
}

/// The chain to continue, and the events to write first.
#[derive(Debug)]
pub(super) struct Resumed {
    pub(super) known: Known,
    pub(super) events: Vec<What>,
    /// The number of alterations found, including those whose events are already written.
    pub(super) altered: u64,
}

impl Resumed {
    fn new(known: Known, events: Vec<What>) -> Self {
        let altered = events.iter().filter(|what| is_altered(what)).count() as u64;
        Self {
            known,
            events,
            altered,
        }
    }
}

fn is_altered(what: &What) -> bool {
    matches!(what, What::Altered { .. })
}

/// Returns the state that the newest head shows, if it was signed with this key.
fn signed_before(heads: &Heads, key: &Key) -> Option<Known> {
    let line = heads.signed_by(key)?;
    let Event {
        what: What::Head(head),
        at,
    } = Event::read(&line)?
    else {
        return None;
    };
    let tree: Tree = head.tree()?;
    let (bytes, last, file) = (head.bytes?, previous(&line)?, head.file);
    Some(Known {
        chain: Chain { file, last, tree },
        bytes,
        latest: at,
        is_stopped: head.stopped,
        is_all: head.stopped,
    })
}

/// Returns the number of a file from its first line; `None` if it is not a file of a chain.
pub(crate) fn number(path: &Path) -> Option<u64> {
    let mut first = Vec::new();
    let file = File::open(path).ok()?;
    // The first line of a chain is short; the bound keeps foreign files without line feeds from being read whole.
    let begin = contents(&file).take(4096);
    BufReader::new(begin).read_until(b'\n', &mut first).ok()?;
    match Event::read(first.strip_suffix(b"\n")?)?.what {
        What::File { file, .. } => Some(file),
        _ => None,
    }
}

/// A log that is to be continued.
pub(super) struct Log<'a> {
    pub(super) path: &'a Path,
    pub(super) heads: &'a Heads,
    pub(super) key: &'a Key,
    /// Whether the key is older than this log as far as its heads show: then there was another log, which is gone.
    pub(super) begins_again: bool,
}

impl Log<'_> {
    /// Finds out how to continue the log. `own` is the state that this process left, if it has written to the log.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be read, put aside or ended.
    pub(super) fn resume(&self, own: Option<Known>) -> io::Result<Resumed> {
        let path = self.path;
        let known = own.or_else(|| signed_before(self.heads, self.key));
        if let Some(file) = number(path) {
            return self.within(file, known);
        }
        if fs::metadata(path).is_ok_and(|found| found.len() > 0) {
            // The file is of a version without a chain, or not a log at all.
            fs::rename(path, vacant(path))?;
        }
        self.behind(known)
    }

    /// Continues an existing file.
    fn within(&self, file: u64, known: Option<Known>) -> io::Result<Resumed> {
        if let Some(known) = known.as_ref().filter(|known| known.chain.file == file)
            && let Some(read) = Found::behind(self.path, known, self.key)?
        {
            let told = read.told(known);
            return Ok(Resumed::new(read.known, told));
        }
        let start = Known::at_the_start_of(file);
        let read = Found::on(self.path, start.clone(), self.key)?;
        // A process may have ended after it began this file and before it saved the file's first head.
        let is_next = match &known {
            Some(known) => known.chain.file + 1 == file && !known.is_all,
            None => file == 1 && !self.heads.is_there(),
        };
        let told = if is_next {
            read.told(&start)
        } else {
            vec![known.unwrap_or(start).altered(None)]
        };
        Ok(Resumed::new(read.known, told))
    }

    /// Begins a new file. The last one has been rotated; if it does not end in a head yet, one is added.
    fn behind(&self, known: Option<Known>) -> io::Result<Resumed> {
        let has_head = known.is_some();
        let aside = rotated_files(self.path)?.into_iter();
        let mut aside: Vec<_> = aside
            .filter_map(|path| Some((number(&path)?, path)))
            .collect();
        aside.sort();
        let known = match (known, aside.last()) {
            (Some(known), _) => known,
            (None, Some((file, _))) => Known::at_the_start_of(*file),
            (None, None) => Known::new(),
        };
        if known.chain.tree.lines() == 0 && (has_head || aside.is_empty()) {
            let is_lost = !has_head && (self.begins_again || self.heads.is_there());
            let told = is_lost.then(|| known.altered(None));
            return Ok(Resumed::new(known, told.into_iter().collect()));
        }
        let mut last = aside.into_iter().rev();
        match last.find(|(file, _)| *file == known.chain.file) {
            Some((_, last)) => self.end(&last, &known),
            None => Ok(Resumed::new(known.next_file(), vec![known.altered(None)])),
        }
    }

    /// Makes sure that a rotated file ends in a head.
    fn end(&self, path: &Path, known: &Known) -> io::Result<Resumed> {
        if is_compressed(&File::open(path)?) {
            // Nothing can be appended to it. It was not compressed by wayleave, which begins the next file first.
            return Ok(Resumed::new(known.next_file(), vec![known.altered(None)]));
        }
        let (mut read, told) = match Found::behind(path, known, self.key)? {
            // Its final head, which is signed with our key, also covers the lines after the saved head.
            Some(read) if read.is_ended => (read, Vec::new()),
            Some(read) => {
                let told = read.told(known);
                (read, told)
            }
            None => {
                let start = Known::at_the_start_of(known.chain.file);
                let read = Found::on(path, start, self.key)?;
                (read, vec![known.altered(None)])
            }
        };
        if read.is_ended {
            return Ok(Resumed::new(read.known.next_file(), told));
        }
        let altered = told.iter().filter(|what| is_altered(what)).count() as u64;
        // The events go into the file that they are about, because it may be exported without the next one.
        let mut lines = Vec::new();
        for what in told {
            let object = Event::new(what, calendar()).object();
            lines.extend_from_slice(&read.known.chain.add(&object));
            lines.push(b'\n');
        }
        let head = read.known.chain.end(self.key, calendar());
        read.known.chain.take(&head);
        lines.extend_from_slice(&head);
        lines.push(b'\n');
        let mut file = OpenOptions::new().append(true).open(path)?;
        file.write_all(&lines)?;
        Ok(Resumed {
            known: read.known.next_file(),
            events: Vec::new(),
            altered,
        })
    }
}

/// Returns whether the known part of a file still ends in the known last line.
fn ends_in(file: &mut File, known: &Known) -> io::Result<bool> {
    if known.bytes == 0 {
        return Ok(true);
    }
    // Only the last line is hashed. Lines are rarely longer than this, so the file is hardly ever read twice.
    let mut length = 64 * 1024;
    loop {
        let from = known.bytes.saturating_sub(length);
        let mut part = Vec::new();
        file.seek(SeekFrom::Start(from))?;
        file.take(known.bytes - from).read_to_end(&mut part)?;
        let Some(lines) = part.strip_suffix(b"\n") else {
            return Ok(false);
        };
        match memchr::memrchr(b'\n', lines) {
            Some(end) => return Ok(Digest::of(&lines[end + 1..]) == known.chain.last),
            None if from == 0 => return Ok(Digest::of(lines) == known.chain.last),
            None => length *= 8,
        }
    }
}

/// The lines of a file after a known one.
struct Found {
    known: Known,
    lines: u64,
    torn: Option<Digest>,
    /// Whether the last line is the head that ends the file, signed with our key.
    is_ended: bool,
}

impl Found {
    /// Reads the lines after the known ones; `None` if the last known line is no longer at its place.
    fn behind(path: &Path, known: &Known, key: &Key) -> io::Result<Option<Self>> {
        let mut file = File::open(path)?;
        if file.metadata()?.len() < known.bytes || !ends_in(&mut file, known)? {
            return Ok(None);
        }
        Self::on(path, known.clone(), key).map(Some)
    }

    /// Reads from the known state to the end of the file, and terminates a torn last line.
    fn on(path: &Path, known: Known, key: &Key) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).append(true).open(path)?;
        file.seek(SeekFrom::Start(known.bytes))?;
        let mut read = Self {
            known,
            lines: 0,
            torn: None,
            is_ended: false,
        };
        let mut lines = BufReader::new(&file);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line)? > 0 {
            let whole = line.strip_suffix(b"\n");
            let bytes = whole.unwrap_or(&line);
            read.torn = whole.is_none().then(|| Digest::of(bytes));
            read.known.chain.take(bytes);
            read.known.bytes += bytes.len() as u64 + 1;
            read.known.is_stopped = false;
            read.lines += 1;
            read.is_ended = Event::head(bytes).is_some_and(|head| {
                let is_ours = head.key == key.public() && is_signed_by(bytes, &head.key);
                head.next.is_some() && is_ours
            });
            line.clear();
        }
        if read.torn.is_some() {
            file.write_all(b"\n")?;
        }
        Ok(read)
    }

    /// Returns the event to write about the lines after the `known` ones.
    fn told(&self, known: &Known) -> Vec<What> {
        if self.lines == 0 {
            return Vec::new();
        }
        let told = if known.is_all {
            known.altered(Some(self.lines))
        } else {
            What::Recovered {
                unsigned_lines: self.lines,
                torn_sha256: self.torn,
            }
        };
        vec![told]
    }
}
