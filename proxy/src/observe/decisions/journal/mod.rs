//! The decision log: JSON lines in a file that is rotated by size and age, each linked to the one before.
//!
//! ```text
//!  batch      the lines of one write
//!  resume     continues a chain that an earlier process, or a failed write, left
//!  head_files the last signed head, next to the log and below state.dir
//!  open_file  the file that lines are appended to
//!  config     location, rotation and retention
//!  retention  deletes rotated files
//!  compress   compresses rotated files, in a thread of its own
//! ```

mod batch;
mod compress;
pub(crate) mod heads;
mod keeping;
mod open_file;
mod options;
pub(crate) mod resume;
#[cfg(test)]
mod tests;

use std::fs;
use std::io::{self, Write};
use std::mem;
use std::time::{Duration, Instant};

use anyhow::Context;

use self::batch::{Batch, News};
use self::compress::Compressing;
use self::heads::Heads;
use self::keeping::Outworn;
use self::open_file::Open;
pub(crate) use self::options::JournalOptions;
use self::resume::{Known, Log, Resumed};
use super::files::vacant;
use crate::clock::calendar;
use crate::observe::chain::event::{Event, STOP, What};
use crate::observe::digest::Digest;
use crate::signing::{Jwk, Key};

/// The amount of buffered lines, in bytes, at which they are written.
const FULL_BYTES: usize = 256 * 1024;
/// The interval at which the head is signed and saved under load: doing so costs as much as writing hundreds of lines.
const SIGN_EVERY: Duration = Duration::from_millis(100);
/// The time after which a failed rotation is tried again.
const ROTATE_AGAIN: Duration = Duration::from_mins(1);

/// The log's current file, and the lines buffered for it.
#[derive(Debug)]
pub(crate) struct Journal {
    options: JournalOptions,
    key: Key,
    heads: Heads,
    /// Whether the key is older than this log: it existed, and no head shows what it signed.
    begins_again: bool,
    /// The number of alterations found and not yet counted.
    altered: u64,
    /// The earliest time for the next rotation, after one that failed.
    rotate_after: Option<Instant>,
    /// Serialised objects, each with a line feed, not linked yet.
    waiting: Vec<u8>,
    /// The open file; `None` after a failure, so that it is opened again.
    open: Option<Open>,
    /// The chain after the last line that this process knows.
    known: Option<Known>,
    /// The time at which this process last saved a head for the file.
    signed_at: Option<Instant>,
    /// Whether there are lines that the saved head does not cover.
    is_unsigned: bool,
    /// Events of the log itself that are not written yet.
    events: Vec<What>,
    /// The number of lost decisions that the log does not mention yet.
    lost: u64,
    /// Whether a file was begun, so that rotated files are to be deleted or compressed once it has a line.
    is_untidy: bool,
    /// Files to delete, as the log says, or will with its next lines.
    outworn: Vec<Outworn>,
    compressing: Compressing,
}

/// The settings of a journal, and its public key.
#[derive(Debug)]
pub(crate) struct LogFile {
    pub(crate) options: JournalOptions,
    /// The public half of the key.
    pub(crate) key: Jwk,
}

/// The decisions that could not be written, and the error.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(super) lines: u64,
    pub(super) error: anyhow::Error,
}

impl Journal {
    /// Opens the log's current file, to be continued, and reads or creates its key.
    ///
    /// # Errors
    ///
    /// Returns an error if one of them cannot be opened or made.
    pub(crate) fn open(options: JournalOptions) -> anyhow::Result<Self> {
        let open = Open::new(&options.path)
            .with_context(|| format!("opening the decision log {}", options.path.display()))?;
        let heads = Heads::of(&options);
        let is_known = options.key.exists();
        let key = Key::read_or_create(&options.key).context("evidence.key")?;
        // Only a key in the state directory is known to belong to this log: one from elsewhere may have signed other logs.
        let is_of_here = options.key.parent() == Some(options.state_dir.as_path());
        if !is_known && !heads.is_there() {
            heads
                .begin(&Known::new().head(&key))
                .context("keeping the log's head")?;
        }
        Ok(Self {
            begins_again: is_known && is_of_here && !heads.is_any_kept(),
            altered: 0,
            key,
            heads,
            options,
            rotate_after: None,
            waiting: Vec::with_capacity(FULL_BYTES),
            open: Some(open),
            known: None,
            signed_at: None,
            is_unsigned: false,
            events: Vec::new(),
            lost: 0,
            is_untidy: false,
            outworn: Vec::new(),
            compressing: Compressing::default(),
        })
    }

    /// Returns the journal's settings and public key.
    pub(super) fn log_file(&self) -> LogFile {
        LogFile {
            options: self.options.clone(),
            key: self.key.jwk(),
        }
    }

    /// Continues where `before` ended, if that wrote to the same file, so that the file need not be read again.
    pub(super) fn follow(&mut self, before: &mut Self) {
        if before.options.path == self.options.path {
            self.known = before.known.take();
            self.altered += before.altered;
            self.lost = before.lost;
            self.events.splice(0..0, mem::take(&mut before.events));
            self.outworn = mem::take(&mut before.outworn);
            self.compressing = mem::take(&mut before.compressing);
        }
    }

    /// Buffers a decision's line, to which the digest of its configuration is added.
    pub(crate) fn push(&mut self, line: &[u8], config_sha256: Option<Digest>) {
        // Spliced in as text: parsing and writing the line again would cost more than everything else.
        let open = line.strip_suffix(b"}\n").unwrap_or(line);
        self.waiting.extend_from_slice(open);
        if let Some(digest) = config_sha256 {
            self.waiting.extend_from_slice(b",\"config_sha256\":\"");
            self.waiting.extend_from_slice(&digest.hex());
            self.waiting.push(b'"');
        }
        self.waiting.extend_from_slice(b"}\n");
    }

    /// Buffers an event.
    pub(crate) fn note(&mut self, what: What) {
        let event = Event::new(what, calendar());
        self.waiting.extend_from_slice(&event.object());
        self.waiting.push(b'\n');
    }

    /// Adds decisions that were lost before they reached the journal.
    pub(super) fn note_lost(&mut self, decisions: u64) {
        self.lost += decisions;
    }

    /// Returns the number of alterations found since the last call.
    pub(super) fn take_altered(&mut self) -> u64 {
        mem::take(&mut self.altered)
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= FULL_BYTES
    }

    /// Writes the buffered lines, after rotating the file if that is due. Returns whether there were any.
    ///
    /// # Errors
    ///
    /// Returns the number of decisions that could not be written, which are lost.
    pub(crate) fn flush(&mut self) -> Result<bool, Lost> {
        if self.waiting.is_empty() {
            return Ok(false);
        }
        self.rotate();
        let written = self.write();
        let lost = written.map_err(|(lines, error)| Lost {
            lines,
            error: anyhow::Error::new(error).context(self.options.path.display().to_string()),
        });
        // Not tried again: the queue behind would grow, and the log says how many decisions are missing.
        self.waiting.clear();
        if let Err(lost) = &lost {
            self.lost += lost.lines;
            self.open = None;
        }
        lost.map(|()| true)
    }

    /// Signs and saves a head, if there are lines that the saved one does not cover.
    pub(crate) fn sign(&mut self) {
        if let Some(known) = self.known.as_ref().filter(|_| self.is_unsigned) {
            self.heads.keep(&known.head(&self.key));
            self.signed_at = Some(Instant::now());
            self.is_unsigned = false;
        }
    }

    /// Rotates a file that is due. If that fails, the file is continued: too large is better than incomplete.
    fn rotate(&mut self) {
        let (max_size_bytes, max_age) = (self.options.max_size_bytes, self.options.max_age);
        let is_due = |open: &Open| open.is_due(max_size_bytes, max_age);
        let may = self.rotate_after.is_none_or(|at| at <= Instant::now());
        if !may || !self.open.as_ref().is_some_and(is_due) {
            return;
        }
        let path = &self.options.path;
        match fs::rename(path, vacant(path)) {
            Ok(()) => {
                // It gets its final head when the next file is begun.
                self.open = None;
                self.rotate_after = None;
            }
            Err(error) => {
                tracing::warn!(%error, file = %path.display(), "the decision log cannot be rotated and keeps growing");
                self.rotate_after = Some(Instant::now() + ROTATE_AGAIN);
            }
        }
    }

    /// Writes the buffered lines.
    ///
    /// # Errors
    ///
    /// Returns how many decisions are not in the file, and the cause.
    fn write(&mut self) -> Result<(), (u64, io::Error)> {
        // Taken out of `self`, so that an error on the way leaves no open file behind and it is opened again.
        let taken = self.take_open();
        let mut open = taken.map_err(|error| (batch::decisions(&self.waiting), error))?;
        let known = self.known.get_or_insert_with(Known::new);
        let news = News {
            events: &self.events,
            lost: self.lost,
            latest: known.latest,
        };
        let batch = Batch::new(&known.chain, news, &self.waiting);
        let written = open.file.write_all(&batch.bytes);
        // A full disk may accept a part.
        let (whole, is_all) = match &written {
            Ok(()) => (batch.bytes.len(), true),
            Err(_) => open.keep_whole_lines(&batch.bytes),
        };
        *known = Known {
            chain: batch.chain_until(whole, &known.chain),
            bytes: open.grow(whole),
            latest: batch.at,
            is_stopped: batch.ends_in(STOP, whole),
            is_all,
        };
        // Events that are not in the file are kept for the next write.
        let is_told = whole >= batch.news_bytes;
        if is_told {
            self.events.clear();
            self.lost = 0;
        }
        self.is_unsigned = open.is_regular;
        self.open = Some(open);
        if self.signed_at.is_none_or(|at| at.elapsed() >= SIGN_EVERY) {
            self.sign();
        }
        self.tidy(is_told);
        written.map_err(|error| (batch::decisions(&batch.bytes[whole..]), error))
    }

    /// Takes the file to write to, whose contents are known. Opens it and reads what is new in it, if necessary.
    fn take_open(&mut self) -> io::Result<Open> {
        let known = self.known.as_ref();
        self.open
            .take_if(|open| !open.look(known.map(|known| known.bytes)));
        let path = &self.options.path;
        if let Some(open) = self.open.take_if(|open| open.is_begun) {
            return Ok(open);
        }
        let mut open = match self.open.take() {
            Some(open) => open,
            None => Open::new(path)?,
        };
        if open.is_regular {
            let log = Log {
                path,
                heads: &self.heads,
                key: &self.key,
                begins_again: self.begins_again,
            };
            let Resumed {
                known,
                events,
                altered,
            } = log.resume(self.known.clone())?;
            if altered > 0 {
                tracing::error!(
                    file = %path.display(),
                    "the decision log was altered by somebody else; it says so, and evidence verify names the place"
                );
            }
            self.altered += altered;
            // `resume` may have renamed the file that was open.
            open = Open::new(path)?;
            self.known = Some(known);
            self.events.splice(0..0, events);
            self.announce_outworn();
            // The saved head is of another file, or there is none.
            self.signed_at = None;
        }
        open.is_begun = true;
        Ok(open)
    }

    /// Adds events for the files that will be deleted. They must precede the deletions: a log without files whose deletion it
    /// does not mention counts as altered.
    fn announce_outworn(&mut self) {
        self.is_untidy = true;
        if self.outworn.is_empty() {
            self.outworn = keeping::outworn(&self.options);
            let numbers = self.outworn.iter().filter_map(|file| file.number);
            self.events
                .extend(numbers.map(|file| What::Deleted { file }));
        }
    }

    /// Deletes expired files and starts compressing the rest. The files are deleted even if the events about them could not be
    /// written, because the disk may be full of them; the events are then written later.
    fn tidy(&mut self, is_told: bool) {
        for outworn in mem::take(&mut self.outworn) {
            outworn.delete();
        }
        let known = self.known.as_ref().filter(|_| is_told && self.is_untidy);
        if let Some(known) = known.filter(|_| self.options.compresses) {
            self.compressing.start(&self.options.path, known.chain.file);
        }
        self.is_untidy &= !is_told;
    }
}
