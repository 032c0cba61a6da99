//! A line buffer in front of a file: writing a line only copies it; a thread writes many at once.
//!
//! The thread sleeps while there is nothing to write. Under load it wakes ten times a second, whatever the number of lines.

use std::io::Write;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Buffer limit. If the log's reader stalls, lines are dropped so that requests are not delayed.
const MAX_BUFFERED_BYTES: usize = 32 * 1024 * 1024;
/// The capacity that a buffer keeps after it was written. Hardly any batch is larger unless the log's reader stalls.
const KEPT_BYTES: usize = 1024 * 1024;
/// The longest wait for the last lines to be written: the process must end even if nobody reads its log.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// The time for which lines that follow each other closely are collected before they are written.
pub(crate) const GATHER_INTERVAL: Duration = Duration::from_millis(100);

/// Appends lines to the buffer. Clones share it.
#[derive(Clone, Debug)]
pub struct LineWriter {
    shared: Arc<LineBuffer>,
}

/// Keeps the writing thread alive. Dropping it writes the buffered lines, and waits for that, but not longer than five seconds.
#[derive(Debug)]
pub struct LineWriterGuard {
    shared: Arc<LineBuffer>,
    /// Disconnected when the thread has ended.
    thread: Mutex<Receiver<()>>,
}

#[derive(Debug, Default)]
struct LineBuffer {
    buffered: Mutex<BufferedLines>,
    changed: Condvar,
    /// The number of lines that were lost since the last report.
    lost: AtomicU64,
}

#[derive(Debug, Default)]
struct BufferedLines {
    bytes: Vec<u8>,
    /// Whether the thread sleeps until there is a line.
    is_awaited: bool,
    /// Whether the lines so far are to be written at once.
    is_urgent: bool,
    is_ending: bool,
}

impl LineWriter {
    /// Starts a thread that writes lines to `output`, and collects those that follow each other closely for `gather_interval`.
    pub(crate) fn spawn(
        output: impl Write + Send + 'static,
        gather_interval: Duration,
    ) -> (Self, LineWriterGuard) {
        let shared = Arc::new(LineBuffer::default());
        let buffer = Arc::clone(&shared);
        let (running, thread) = mpsc::channel();
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || {
                buffer.write_to(output, gather_interval);
                drop(running);
            })
            .expect("the system has room for one thread at the start");
        let guard = LineWriterGuard { shared: Arc::clone(&shared), thread: Mutex::new(thread) };
        (Self { shared }, guard)
    }

    /// Lets `write` append whole lines to the buffer; drops them if the buffer is full.
    pub fn append(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut buffered = self.shared.lock();
        if buffered.bytes.len() > MAX_BUFFERED_BYTES {
            drop(buffered);
            let mut dropped = Vec::new();
            write(&mut dropped);
            self.shared.count_lost(&dropped);
            return;
        }
        write(&mut buffered.bytes);
        // Only the first line wakes the thread, which picks up all those that follow.
        let is_awaited = mem::take(&mut buffered.is_awaited);
        // Released first: otherwise the thread would wake up only to wait for the lock.
        drop(buffered);
        if is_awaited {
            self.shared.changed.notify_one();
        }
    }

    /// Asks for the lines so far to be written immediately, without waiting.
    pub(crate) fn flush_soon(&self) {
        self.shared.lock().is_urgent = true;
        self.shared.changed.notify_one();
    }
}

impl LineBuffer {
    fn lock(&self) -> MutexGuard<'_, BufferedLines> {
        // A panic inside `append` leaves an incomplete line at worst.
        self.buffered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the lines in `bytes` as lost.
    fn count_lost(&self, bytes: &[u8]) {
        let lines = bytes.iter().filter(|&&byte| byte == b'\n').count();
        self.lost.fetch_add(lines as u64, Ordering::Relaxed);
    }

    fn write_to(&self, mut output: impl Write, gather_interval: Duration) {
        let mut batch = Vec::new();
        let mut wrote_at: Option<Instant> = None;
        let mut is_written = true;
        loop {
            let is_ending = self.take(&mut batch, is_written);
            // An event like others, in the log's format. The buffer has just become empty, so that there is room for it. While
            // nothing can be written, it would only be lost, too.
            let lost = if is_written { self.lost.swap(0, Ordering::Relaxed) } else { 0 };
            if lost > 0 {
                tracing::warn!(
                    lines = lost,
                    "lines of the log were lost: whatever reads it is too slow, or it could not be written"
                );
            }
            let is_busy = wrote_at.is_some_and(|at| at.elapsed() < 2 * gather_interval);
            is_written = output.write_all(&batch).and_then(|()| output.flush()).is_ok();
            if !is_written {
                // Some may have been written, but it is not known which.
                self.count_lost(&batch);
            }
            batch.clear();
            batch.shrink_to(KEPT_BYTES);
            // Once more after a report, which is in the buffer now.
            if is_ending && lost == 0 {
                return;
            }
            wrote_at = Some(Instant::now());
            // A single line is written at once; those that follow it closely are collected.
            if is_busy {
                drop(self.changed.wait_timeout_while(self.lock(), gather_interval, |buffered| {
                    !buffered.is_urgent && !buffered.is_ending
                }));
            }
        }
    }

    /// Waits for lines, or for the loss of some if it `can_report` that, and moves them into `batch`. Returns whether they are the
    /// last.
    fn take(&self, batch: &mut Vec<u8>, can_report: bool) -> bool {
        let is_idle = |buffered: &mut BufferedLines| {
            let has_report = can_report && self.lost.load(Ordering::Relaxed) > 0;
            buffered.is_awaited = buffered.bytes.is_empty() && !buffered.is_ending && !has_report;
            buffered.is_awaited
        };
        let mut buffered =
            self.changed.wait_while(self.lock(), is_idle).unwrap_or_else(PoisonError::into_inner);
        buffered.is_urgent = false;
        // Swapped rather than copied, so that the two buffers keep most of their capacity.
        mem::swap(batch, &mut buffered.bytes);
        buffered.is_ending
    }
}

impl LineWriterGuard {
    /// Has the buffered lines written, and returns whether the thread has ended within `timeout`. Otherwise it goes on writing.
    fn end_within(&self, timeout: Duration) -> bool {
        self.shared.lock().is_ending = true;
        self.shared.changed.notify_one();
        // A panic of the thread, which ends it, too, has been reported by the panic hook.
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        thread.recv_timeout(timeout) == Err(RecvTimeoutError::Disconnected)
    }
}

impl Drop for LineWriterGuard {
    fn drop(&mut self) {
        self.end_within(END_TIMEOUT);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io;

    /// Sends each batch that is written to the test.
    pub(crate) struct Output(pub(crate) mpsc::Sender<Vec<u8>>);

    impl Write for Output {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Fails once the test no longer receives.
            let _ = self.0.send(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Sends each batch to the test, and waits until the test says whether it is written, or no longer can.
    pub(crate) struct GatedOutput(pub(crate) Output, pub(crate) Receiver<bool>);

    impl Write for GatedOutput {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let written = self.0.write(bytes);
            if self.1.recv() == Ok(false) {
                Err(io::ErrorKind::StorageFull.into())
            } else {
                written
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn line_is_written_while_program_runs() {
        let (sender, written) = mpsc::channel();
        let (lines, _writing) = LineWriter::spawn(Output(sender), GATHER_INTERVAL);
        lines.append(|buffer| buffer.extend_from_slice(b"one\n"));
        assert_eq!(written.recv().unwrap(), b"one\n");
        lines.append(|buffer| buffer.extend_from_slice(b"two\n"));
        assert_eq!(written.recv().unwrap(), b"two\n");
    }

    #[test]
    fn all_lines_are_written_in_order_at_the_end() {
        let (sender, written) = mpsc::channel();
        let (lines, writing) = LineWriter::spawn(Output(sender), GATHER_INTERVAL);
        let mut expected = Vec::new();
        for number in 0..10_000 {
            let line = format!("{number}\n");
            lines.append(|buffer| buffer.extend_from_slice(line.as_bytes()));
            expected.extend_from_slice(line.as_bytes());
        }
        drop(writing);
        let seen: Vec<u8> = written.into_iter().flatten().collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn lines_that_follow_closely_are_written_together() {
        let (sender, written) = mpsc::channel();
        // Longer than any test: what is written before is written for another reason.
        let (lines, writing) = LineWriter::spawn(Output(sender), Duration::from_hours(1));
        let append = |line: &[u8]| lines.append(|buffer| buffer.extend_from_slice(line));
        for line in [b"one\n", b"two\n"] {
            append(line);
            assert_eq!(written.recv().unwrap(), line, "nothing was close before it");
        }
        append(b"three\n");
        append(b"four\n");
        lines.flush_soon();
        assert_eq!(written.recv().unwrap(), b"three\nfour\n");
        append(b"five\n");
        drop(writing);
        assert_eq!(written.recv().unwrap(), b"five\n");
    }

    #[test]
    fn nobody_waits_long_for_a_log_that_is_not_read() {
        let (sender, written) = mpsc::channel();
        let (permit, permits) = mpsc::channel();
        let output = GatedOutput(Output(sender), permits);
        let (lines, writing) = LineWriter::spawn(output, GATHER_INTERVAL);
        lines.append(|buffer| buffer.extend_from_slice(b"one\n"));
        assert!(!writing.end_within(Duration::from_millis(1)), "it is blocked");
        drop(permit);
        drop(writing);
        assert_eq!(written.recv().unwrap(), b"one\n");
    }

    #[test]
    fn memory_of_a_large_batch_is_given_back() {
        let (sender, written) = mpsc::channel();
        let (lines, _writing) = LineWriter::spawn(Output(sender), Duration::ZERO);
        // Both buffers are in use in turn.
        for _ in 0..2 {
            lines.append(|buffer| buffer.resize(MAX_BUFFERED_BYTES, b'a'));
            assert_eq!(written.recv().unwrap().len(), MAX_BUFFERED_BYTES);
            lines.append(|buffer| buffer.push(b'\n'));
            assert_eq!(written.recv().unwrap(), b"\n");
            assert!(lines.shared.lock().bytes.capacity() <= KEPT_BYTES);
        }
    }
}
