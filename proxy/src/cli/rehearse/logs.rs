//! Reads access logs in blocks of lines, and counts them on all processors.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use flate2::read::MultiGzDecoder;
use memchr::{memchr_iter, memrchr};
use wayleave_rehearsal::{LinePlace, LogFormat, Rehearsal, RobotsPair};

use crate::cli::progress::ProgressLine;

/// The size of a block. A line that is longer is no request.
const BLOCK_BYTES: usize = 1024 * 1024;
/// The part of such a line that is counted, which is too long for any format.
const TOO_LONG_BYTES: usize = 128 * 1024;
/// The most threads that count. Each has its own counts, whose memory adds up.
const MAX_THREADS: usize = 4;

/// The first bytes of packed files that are not unpacked here, with the programs that do.
const OTHER_PACKERS: [(&[u8], &str); 3] =
    [(b"\x28\xb5\x2f\xfd", "zstdcat"), (b"\xfd7zXZ", "xzcat"), (b"BZh", "bzcat")];

/// Whole lines of a log.
struct LogBlock {
    lines: Vec<u8>,
    /// The place of the first.
    place: LinePlace,
}

/// Counts all lines of the logs.
///
/// # Errors
///
/// Says which log cannot be read.
pub(super) fn read<'a>(
    logs: &[PathBuf],
    robots: &'a RobotsPair,
    format: Option<LogFormat>,
) -> Result<Rehearsal<'a>, String> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
    let progress = ProgressLine::open_ended("lines");
    let (sender, receiver) = sync_channel(threads);
    let receiver = Mutex::new(receiver);
    thread::scope(|scope| {
        let count = || count(&receiver, Rehearsal::new(robots, format));
        let counting: Vec<_> = (0..threads).map(|_| scope.spawn(count)).collect();
        let mut total = 0;
        let sent = logs.iter().enumerate().try_for_each(|(file, log)| {
            let name = log.display();
            let mut input = open(log).map_err(|error| format!("{name}: {error}"))?;
            send(&mut input, file, &sender, |lines| {
                total += lines;
                progress.set_position(total);
            })
            .map_err(|error| format!("{name}: {error}"))
        });
        // Without a sender, the threads end.
        drop(sender);
        let mut all = Rehearsal::new(robots, format);
        for part in counting {
            all.merge(part.join().expect("a thread that counts does not panic"));
        }
        sent.map(|()| all)
    })
}

/// Counts blocks until there are no more.
fn count<'a>(receiver: &Mutex<Receiver<LogBlock>>, mut rehearsal: Rehearsal<'a>) -> Rehearsal<'a> {
    loop {
        let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(LogBlock { lines, mut place }) = next else {
            return rehearsal;
        };
        for line in lines.split(|byte| *byte == b'\n') {
            rehearsal.add_line(line, place);
            place.line += 1;
        }
    }
}

/// Opens a log, and unpacks it if it begins like a file of gzip.
fn open(log: &Path) -> io::Result<Box<dyn BufRead>> {
    let mut raw: Box<dyn Read> = if log == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(log)?)
    };
    let mut head = Vec::new();
    raw.by_ref().take(6).read_to_end(&mut head)?;
    if let Some((_, program)) = OTHER_PACKERS.iter().find(|(magic, _)| head.starts_with(magic)) {
        let message = format!("packed, but not by gzip: pipe the output of {program} to --log -");
        return Err(io::Error::new(io::ErrorKind::Unsupported, message));
    }
    let is_gzip = head.starts_with(b"\x1f\x8b");
    let whole = BufReader::with_capacity(BLOCK_BYTES / 4, Cursor::new(head).chain(raw));
    if is_gzip {
        // Parts that were packed one after the other are one log.
        return Ok(Box::new(BufReader::new(MultiGzDecoder::new(whole))));
    }
    Ok(Box::new(whole))
}

/// Sends the lines of a log. `counted` is told how many have been.
fn send(
    input: &mut dyn BufRead,
    file: usize,
    sender: &SyncSender<LogBlock>,
    mut counted: impl FnMut(u64),
) -> io::Result<()> {
    let mut place = LinePlace { file, line: 1 };
    let mut rest = Vec::new();
    loop {
        let mut lines = std::mem::take(&mut rest);
        let room = BLOCK_BYTES - lines.len();
        input.take(room as u64).read_to_end(&mut lines)?;
        let is_end = lines.len() < BLOCK_BYTES;
        match memrchr(b'\n', &lines) {
            _ if is_end => {}
            Some(end) => {
                rest = lines.split_off(end + 1);
                // Without its line end, the block has no empty line after it.
                lines.pop();
            }
            None => {
                lines.truncate(TOO_LONG_BYTES);
                input.skip_until(b'\n')?;
            }
        }
        let count = memchr_iter(b'\n', &lines).count() as u64 + 1;
        if sender.send(LogBlock { lines, place }).is_err() {
            // Only if all threads that count have panicked, which is noticed where they are joined.
            return Ok(());
        }
        counted(count);
        place.line += count;
        if is_end {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lines of the blocks that are sent, with their numbers.
    fn lines(log: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let (sender, receiver) = sync_channel(1_000);
        let mut total = 0;
        send(&mut &*log, 0, &sender, |count| total += count).expect("memory can be read");
        drop(sender);
        let blocks = receiver.into_iter().flat_map(|LogBlock { lines, place }| {
            let lines: Vec<_> = lines.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            (place.line..).zip(lines).collect::<Vec<_>>()
        });
        let all: Vec<_> = blocks.collect();
        assert_eq!(total, all.len() as u64);
        all.into_iter().filter(|(_, line)| !line.is_empty()).collect()
    }

    #[test]
    fn blocks_cut_no_line() {
        for end in ["", "\n"] {
            let text: Vec<_> = (1..=300_000).map(|number| format!("line {number}")).collect();
            let found = lines((text.join("\n") + end).as_bytes());
            assert_eq!(found.len(), text.len());
            for ((number, line), (expected, text)) in found.iter().zip((1..).zip(&text)) {
                assert_eq!((*number, &**line), (expected, text.as_bytes()));
            }
        }
        assert_eq!(lines(b""), []);
    }

    #[test]
    fn a_line_without_end_is_one_line() {
        let mut log = b"first\n".to_vec();
        log.extend(std::iter::repeat_n(b'x', 3 * BLOCK_BYTES));
        log.extend_from_slice(b"\nlast");
        let found = lines(&log);
        let ends = [&found[0], &found[found.len() - 1]].map(|(number, line)| (*number, &**line));
        assert_eq!(ends, [(1, &b"first"[..]), (3, &b"last"[..])]);
        assert_eq!((found.len(), found[1].0, found[1].1.len()), (3, 2, TOO_LONG_BYTES));
        // Of exactly one block.
        let exact = [vec![b'x'; BLOCK_BYTES - 1], b"\nlast".to_vec()].concat();
        let numbers: Vec<_> = lines(&exact).into_iter().map(|(number, _)| number).collect();
        assert_eq!(numbers, [1, 2]);
    }
}
