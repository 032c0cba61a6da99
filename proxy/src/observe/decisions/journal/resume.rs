//! How a chain goes on that an earlier process, or an earlier failure, left: by what was signed last, and what is in the files.
//!
//! Beside a log lies its head so far (`decisions.jsonl.head`), which is written anew when nothing more comes, or every 100 ms.
//! It says how many lines of which file were signed. Lines behind them are taken over, and said to be; if signed lines are missing or others, that
//! is said, too.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::super::files::{contents, is_compressed, rotated_files, vacant};
use crate::clock::calendar;
use crate::observe::chain::event::{Event, What};
use crate::observe::chain::head::is_signed_by;
use crate::observe::chain::link::previous;
use crate::observe::chain::{Chain, Tree};
use crate::observe::digest::Digest;
use crate::signing::Key;

/// The head is written over the one before, in one piece: it is always this long, however many subtrees it names.
const HEAD_BYTES: usize = 8192;

/// A chain, and how long its last file is.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) chain: Chain,
    pub(super) bytes: u64,
    /// When it was last written to.
    pub(super) latest: SystemTime,
}

impl Known {
    pub(super) fn new() -> Self {
        Self {
            chain: Chain::new(),
            bytes: 0,
            latest: SystemTime::UNIX_EPOCH,
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
            latest: self.latest,
        }
    }

    /// What is said if the lines are not those that were signed.
    fn altered(&self) -> What {
        What::Altered {
            file: self.chain.file,
            lines: self.chain.tree.lines(),
            expected_sha256: self.chain.last,
        }
    }
}

/// What is gone on with, and what is to be said about it.
#[derive(Debug)]
pub(super) struct Resumed {
    pub(super) known: Known,
    pub(super) events: Vec<What>,
}

/// Where the head so far of the log at `path` is.
pub(crate) fn head_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".head");
    name.into()
}

/// Writes the head so far. That it could not be is told by the next that resumes.
pub(super) fn keep_head(path: &Path, known: &Known, key: &Key) {
    let mut line = known.chain.so_far(key, known.latest, known.bytes);
    line.resize(HEAD_BYTES - 1, b' ');
    line.push(b'\n');
    let write = || {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o640)
            .open(head_path(path))?
            .write_all_at(&line, 0)
    };
    if let Err(error) = write() {
        tracing::debug!(%error, "the decision log's head cannot be written");
    }
}

/// The line of the head beside the log at `path`.
pub(crate) fn kept_head(path: &Path) -> io::Result<Vec<u8>> {
    let mut line = fs::read(head_path(path))?;
    line.truncate(line.trim_ascii_end().len());
    Ok(line)
}

/// What the head beside the log says, if this key signed it.
fn signed_before(path: &Path, key: &Key) -> Option<Known> {
    let line = kept_head(path).ok()?;
    let Event {
        what: What::Head(head),
        at,
    } = Event::read(&line)?
    else {
        return None;
    };
    let is_ours = head.key == key.public() && is_signed_by(&line, &head.key);
    let tree: Tree = head.tree().filter(|_| is_ours)?;
    let (bytes, last, file) = (head.bytes?, previous(&line)?, head.file);
    Some(Known {
        chain: Chain { file, last, tree },
        bytes,
        latest: at,
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

/// How to go on with the log at `path`. `known`: by what this process wrote itself.
///
/// # Errors
///
/// Returns an error if a file cannot be read, put aside or ended.
pub(super) fn resume(path: &Path, known: Option<Known>, key: &Key) -> io::Result<Resumed> {
    let known = known.or_else(|| signed_before(path, key));
    if let Some(file) = number(path) {
        return within(path, file, known);
    }
    if fs::metadata(path).is_ok_and(|found| found.len() > 0) {
        // It is from before there was a chain, or nothing of ours.
        fs::rename(path, vacant(path))?;
    }
    behind(path, known, key)
}

/// Goes on in a file that is there.
fn within(path: &Path, file: u64, known: Option<Known>) -> io::Result<Resumed> {
    if let Some(known) = known.as_ref().filter(|known| known.chain.file == file)
        && let Some(read) = read_behind(path, known)?
    {
        return Ok(read.resumed());
    }
    let read = Found::on(path, Known::at_the_start_of(file))?;
    let is_next = match &known {
        Some(known) => known.chain.file + 1 == file,
        None => file == 1,
    };
    if is_next {
        // The process ended before it wrote the file's first head.
        return Ok(read.resumed());
    }
    let signed = known.unwrap_or_else(|| Known::at_the_start_of(file));
    Ok(Resumed {
        events: vec![signed.altered()],
        known: read.known,
    })
}

/// Begins another file; the last, if there was one, has been put aside, and is ended if that was not done.
fn behind(path: &Path, known: Option<Known>, key: &Key) -> io::Result<Resumed> {
    let has_head = known.is_some();
    let aside = rotated_files(path)?.into_iter();
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
        let events = Vec::new();
        return Ok(Resumed { known, events });
    }
    let mut last = aside.into_iter().rev();
    match last.find(|(file, _)| *file == known.chain.file) {
        Some((_, last)) => end(&last, &known, key),
        None => Ok(Resumed {
            events: vec![known.altered()],
            known: known.next_file(),
        }),
    }
}

/// Makes sure that a file that was put aside ends in a head.
fn end(path: &Path, known: &Known, key: &Key) -> io::Result<Resumed> {
    if is_compressed(&File::open(path)?) {
        // Not by this program, which lets the next file begin before: nothing can be added to it.
        return Ok(Resumed {
            events: vec![known.altered()],
            known: known.next_file(),
        });
    }
    let (mut read, events) = match read_behind(path, known)? {
        Some(read) => (read, Vec::new()),
        None => {
            let start = Known::at_the_start_of(known.chain.file);
            (Found::on(path, start)?, vec![known.altered()])
        }
    };
    if !read.is_ended {
        let mut lines = Vec::new();
        for event in read.recovered() {
            let object = Event::new(event, calendar()).object();
            lines.extend_from_slice(&read.known.chain.add(&object));
            lines.push(b'\n');
        }
        let head = read.known.chain.end(key, calendar());
        read.known.chain.take(&head);
        lines.extend_from_slice(&head);
        lines.push(b'\n');
        let mut file = OpenOptions::new().append(true).open(path)?;
        file.write_all(&lines)?;
    }
    Ok(Resumed {
        known: read.known.next_file(),
        events,
    })
}

/// What is behind the lines that are known; nothing if the last of these is not where it was.
fn read_behind(path: &Path, known: &Known) -> io::Result<Option<Found>> {
    let mut file = File::open(path)?;
    if file.metadata()?.len() < known.bytes || !ends_in(&mut file, known)? {
        return Ok(None);
    }
    Found::on(path, known.clone()).map(Some)
}

/// Whether the known part of a file ends in the line that it is known to end in.
fn ends_in(file: &mut File, known: &Known) -> io::Result<bool> {
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

/// What was found in a file behind what is signed.
struct Found {
    known: Known,
    lines: u64,
    torn: Option<Digest>,
    /// The last line is the head that ends the file.
    is_ended: bool,
}

impl Found {
    /// Reads on to the end of the file, and ends a line that is torn.
    fn on(path: &Path, known: Known) -> io::Result<Self> {
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
            read.lines += 1;
            read.is_ended = Event::head(bytes).is_some_and(|head| head.next.is_some());
            line.clear();
        }
        if read.torn.is_some() {
            file.write_all(b"\n")?;
        }
        Ok(read)
    }

    fn recovered(&self) -> Vec<What> {
        let recovered = What::Recovered {
            unsigned_lines: self.lines,
            torn_sha256: self.torn,
        };
        (self.lines > 0).then_some(recovered).into_iter().collect()
    }

    fn resumed(self) -> Resumed {
        Resumed {
            events: self.recovered(),
            known: self.known,
        }
    }
}
