//! How a chain goes on that an earlier process, or an earlier failure, left: by what was signed last, and what is in the files.
//!
//! Beside a log, and below `state.dir`, lies its head so far, which is written anew when nothing more comes, or every 100 ms. It says
//! how many lines of which file were signed. A process that was killed may have written more: these lines are taken over, and said to
//! be unsigned. Behind what this process wrote itself, and behind what one signed as it stopped, there is nothing of ours: such
//! lines are said to be somebody else's. If signed lines are missing or others, that is said, too.

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

/// A chain, and how long its last file is.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) chain: Chain,
    pub(super) bytes: u64,
    /// When it was last written to.
    pub(super) latest: SystemTime,
    /// The last line says that the process stopped.
    pub(super) is_stopped: bool,
    /// Nothing behind it was written by the process that wrote it.
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

    /// The line that says what is signed of a file that goes on.
    pub(super) fn head(&self, key: &Key) -> Vec<u8> {
        self.chain
            .so_far(key, self.latest, self.bytes, self.is_stopped)
    }

    /// What is said if the lines are not those that were signed, or if so many behind them are somebody else's.
    fn altered(&self, foreign_lines: Option<u64>) -> What {
        What::Altered {
            file: self.chain.file,
            lines: self.chain.tree.lines(),
            expected_sha256: self.chain.last,
            foreign_lines,
        }
    }
}

/// What is gone on with, and what is to be said about it.
#[derive(Debug)]
pub(super) struct Resumed {
    pub(super) known: Known,
    pub(super) events: Vec<What>,
    /// How often it was found altered; it may be said already.
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

/// What was signed before this process, if this key signed it.
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

/// The number of a file of a chain: its first line says it.
pub(crate) fn number(path: &Path) -> Option<u64> {
    let mut first = Vec::new();
    let file = File::open(path).ok()?;
    let begin = contents(&file).take(4096);
    BufReader::new(begin).read_until(b'\n', &mut first).ok()?;
    match Event::read(first.strip_suffix(b"\n")?)?.what {
        What::File { file, .. } => Some(file),
        _ => None,
    }
}

/// A log that is to be gone on with.
pub(super) struct Log<'a> {
    pub(super) path: &'a Path,
    pub(super) heads: &'a Heads,
    pub(super) key: &'a Key,
    /// The key was there before this log, as far as is known: there was another.
    pub(super) begins_again: bool,
}

impl Log<'_> {
    /// How to go on with it. `own`: by what this process wrote itself.
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
            // It is from before there was a chain, or nothing of ours.
            fs::rename(path, vacant(path))?;
        }
        self.behind(known)
    }

    /// Goes on in a file that is there.
    fn within(&self, file: u64, known: Option<Known>) -> io::Result<Resumed> {
        if let Some(known) = known.as_ref().filter(|known| known.chain.file == file)
            && let Some(read) = Found::behind(self.path, known, self.key)?
        {
            let told = read.told(known);
            return Ok(Resumed::new(read.known, told));
        }
        let start = Known::at_the_start_of(file);
        let read = Found::on(self.path, start.clone(), self.key)?;
        // The process may have ended before it wrote the file's first head.
        let is_next = match &known {
            Some(known) => known.chain.file + 1 == file && !known.is_all,
            None => file == 1 && !self.heads.is_there(),
        };
        let told = match is_next {
            true => read.told(&start),
            false => vec![known.unwrap_or(start).altered(None)],
        };
        Ok(Resumed::new(read.known, told))
    }

    /// Begins another file; the last, if there was one, has been put aside, and is ended if that was not done.
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

    /// Makes sure that a file that was put aside ends in a head.
    fn end(&self, path: &Path, known: &Known) -> io::Result<Resumed> {
        if is_compressed(&File::open(path)?) {
            // Not by this program, which lets the next file begin before: nothing can be added to it.
            return Ok(Resumed::new(known.next_file(), vec![known.altered(None)]));
        }
        let (mut read, told) = match Found::behind(path, known, self.key)? {
            // The head that ends it signs what is behind the one that was kept.
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
        // Said in the file itself, before it is signed: it may be shown without the next.
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

/// Whether the known part of a file ends in the line that it is known to end in.
fn ends_in(file: &mut File, known: &Known) -> io::Result<bool> {
    if known.bytes == 0 {
        return Ok(true);
    }
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

/// What was found in a file behind what is known.
struct Found {
    known: Known,
    lines: u64,
    torn: Option<Digest>,
    /// The last line is the head that ends the file, signed by us.
    is_ended: bool,
}

impl Found {
    /// Reads what is behind the lines that are known; nothing if the last of these is not where it was.
    fn behind(path: &Path, known: &Known, key: &Key) -> io::Result<Option<Self>> {
        let mut file = File::open(path)?;
        if file.metadata()?.len() < known.bytes || !ends_in(&mut file, known)? {
            return Ok(None);
        }
        Self::on(path, known.clone(), key).map(Some)
    }

    /// Reads on to the end of the file, and ends a line that is torn.
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

    /// What is said of the lines behind those that are `known`.
    fn told(&self, known: &Known) -> Vec<What> {
        if self.lines == 0 {
            return Vec::new();
        }
        let told = match known.is_all {
            true => known.altered(Some(self.lines)),
            false => What::Recovered {
                unsigned_lines: self.lines,
                torn_sha256: self.torn,
            },
        };
        vec![told]
    }
}
