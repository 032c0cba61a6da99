//! The decision log: JSON lines in a file that is rotated by size and age, each linked to the one before.
//!
//! ```text
//!  batch      what is written at once
//!  resume     how the chain goes on that a process or a failure left
//!  heads      what was signed last, beside the log and below state.dir
//!  open_file  the file that is written to
//!  options    what is written where, and what of it is kept
//!  keeping    which files that were rotated away stay
//!  compress   makes these smaller, in a thread of its own
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

/// Lines are written together once they are this long.
const FULL_BYTES: usize = 256 * 1024;
/// How often the head beside the log is written while lines keep coming. To sign, and to write the head, costs as much as
/// hundreds of lines.
const SIGN_EVERY: Duration = Duration::from_millis(100);
/// When a file that could not be rotated away is tried again.
const ROTATE_AGAIN: Duration = Duration::from_mins(1);

/// The log's open file, and lines that wait to be written to it.
#[derive(Debug)]
pub(crate) struct Journal {
    options: JournalOptions,
    key: Key,
    heads: Heads,
    /// The key was there, and nothing tells of what it signed.
    begins_again: bool,
    /// How often the log was found altered, not counted yet.
    altered: u64,
    /// Rotating failed: it is not tried again before.
    rotate_after: Option<Instant>,
    /// Objects, each with the end of its line, but not linked yet.
    waiting: Vec<u8>,
    /// `None` after a failure: it is opened anew.
    open: Option<Open>,
    /// What is in the file as far as this process knows.
    known: Option<Known>,
    /// When the head beside it was written, if that was done for a line of this process.
    signed_at: Option<Instant>,
    /// Whether there are lines that the head does not know.
    is_unsigned: bool,
    /// Happened to the log itself, and is not written yet.
    events: Vec<What>,
    /// Decisions that are missing in the log, which does not say so yet.
    lost: u64,
    /// A file was begun, and what was rotated away before is to be looked after once the file has a line.
    is_untidy: bool,
    /// Files that the log says are deleted, or will say with its next lines.
    outworn: Vec<Outworn>,
    compressing: Compressing,
}

/// Where the log's files are, and who signs them.
#[derive(Debug)]
pub(crate) struct LogFile {
    pub(crate) options: JournalOptions,
    /// The public half of the key.
    pub(crate) key: Jwk,
}

/// Lines that could not be written, and why.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(super) lines: u64,
    pub(super) error: anyhow::Error,
}

impl Journal {
    /// Opens the log's file, to go on with what is in it, and its key.
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
        // A key from elsewhere may have signed elsewhere.
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

    /// The file that is written to, and who signs it.
    pub(super) fn log_file(&self) -> LogFile {
        LogFile {
            options: self.options.clone(),
            key: self.key.jwk(),
        }
    }

    /// Goes on where `before` ended, if that wrote to the same file; what it knows need not be read again then.
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

    /// Adds a decision's line to those that wait, with the configuration that it was made by.
    pub(crate) fn push(&mut self, line: &[u8], config_sha256: Option<Digest>) {
        let open = line.strip_suffix(b"}\n").unwrap_or(line);
        self.waiting.extend_from_slice(open);
        if let Some(digest) = config_sha256 {
            self.waiting.extend_from_slice(b",\"config_sha256\":\"");
            self.waiting.extend_from_slice(&digest.hex());
            self.waiting.push(b'"');
        }
        self.waiting.extend_from_slice(b"}\n");
    }

    /// Adds an event to what waits.
    pub(crate) fn note(&mut self, what: What) {
        let event = Event::new(what, calendar());
        self.waiting.extend_from_slice(&event.object());
        self.waiting.push(b'\n');
    }

    /// So many decisions were lost before they came here.
    pub(super) fn note_lost(&mut self, decisions: u64) {
        self.lost += decisions;
    }

    /// How often the log was found altered since this was asked.
    pub(super) fn take_altered(&mut self) -> u64 {
        mem::take(&mut self.altered)
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= FULL_BYTES
    }

    /// Writes the lines that wait, to a new file if it is time for one. Whether there were any.
    ///
    /// # Errors
    ///
    /// Returns those that could not be written, which are lost.
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
        self.waiting.clear();
        if let Err(lost) = &lost {
            self.lost += lost.lines;
            self.open = None;
        }
        lost.map(|()| true)
    }

    /// Signs what the head beside the log does not know yet.
    pub(crate) fn sign(&mut self) {
        if let Some(known) = self.known.as_ref().filter(|_| self.is_unsigned) {
            self.heads.keep(&known.head(&self.key));
            self.signed_at = Some(Instant::now());
            self.is_unsigned = false;
        }
    }

    /// Puts a file that is full or old aside. One that cannot be is gone on with: better too large than incomplete.
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
                // It gets its head when the next is begun.
                self.open = None;
                self.rotate_after = None;
            }
            Err(error) => {
                tracing::warn!(%error, file = %path.display(), "the decision log cannot be rotated and keeps growing");
                self.rotate_after = Some(Instant::now() + ROTATE_AGAIN);
            }
        }
    }

    /// Writes the lines that wait.
    ///
    /// # Errors
    ///
    /// Returns how many decisions are not in the file, and why.
    fn write(&mut self) -> Result<(), (u64, io::Error)> {
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
        // A full disk takes a part.
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

    /// The file to write to, with what is in it known.
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
            // What was there before the chain was put aside.
            open = Open::new(path)?;
            self.known = Some(known);
            self.events.splice(0..0, events);
            self.announce_outworn();
            // The head beside is that of another file, or none.
            self.signed_at = None;
        }
        open.is_begun = true;
        Ok(open)
    }

    /// Says which files do not stay, before they are deleted: a log that lacks files it does not speak of was altered.
    fn announce_outworn(&mut self) {
        self.is_untidy = true;
        if self.outworn.is_empty() {
            self.outworn = keeping::outworn(&self.options);
            let numbers = self.outworn.iter().filter_map(|file| file.number);
            self.events
                .extend(numbers.map(|file| What::Deleted { file }));
        }
    }

    /// Deletes what the log has said is deleted, and compresses the rest. What could not be said is deleted all the same, because the
    /// disk may be full of it, and said later.
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
