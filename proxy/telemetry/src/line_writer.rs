//! Buffered lines in front of a file: writing a line only copies it, and a thread writes many lines at once.
//!
//! The thread sleeps while there is nothing to write. Under load it wakes ten times a second, whatever the number of lines.

use std::io::Write;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The most that is buffered. While the reader of the log stalls, further lines are dropped rather than requests delayed.
const MAX_BUFFERED_BYTES: usize = 32 * 1024 * 1024;
/// The time for which lines that follow each other closely are collected before they are written.
pub(crate) const GATHER_INTERVAL: Duration = Duration::from_millis(100);

/// Appends lines to the buffer. Clones share it.
#[derive(Clone, Debug)]
pub struct LineWriter {
    shared: Arc<LineBuffer>,
}

/// Keeps the writing thread alive. Dropping it writes the buffered lines and waits for the thread to end.
#[derive(Debug)]
pub struct LineWriterGuard {
    shared: Arc<LineBuffer>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct LineBuffer {
    buffered: Mutex<BufferedLines>,
    changed: Condvar,
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
        let thread = std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || buffer.write_to(output, gather_interval))
            .expect("the system has room for one thread at the start");
        let guard = LineWriterGuard { shared: Arc::clone(&shared), thread: Some(thread) };
        (Self { shared }, guard)
    }

    /// Lets `write` append whole lines to the buffer; drops them if the buffer is full.
    pub fn append(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut buffered = self.shared.lock();
        if buffered.bytes.len() > MAX_BUFFERED_BYTES {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        write(&mut buffered.bytes);
        // Only the first line wakes the thread; it takes all that follow along.
        let is_awaited = mem::take(&mut buffered.is_awaited);
        // Released first: otherwise the thread would wake up only to wait for the lock.
        drop(buffered);
        if is_awaited {
            self.shared.changed.notify_one();
        }
    }

    /// Has the lines so far written at once. Does not wait for that.
    pub(crate) fn hurry(&self) {
        self.shared.lock().is_urgent = true;
        self.shared.changed.notify_one();
    }
}

impl LineBuffer {
    fn lock(&self) -> MutexGuard<'_, BufferedLines> {
        // A panic inside `append` leaves an incomplete line at worst.
        self.buffered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_to(&self, mut output: impl Write, gather_interval: Duration) {
        let mut batch = Vec::new();
        let mut wrote_at: Option<Instant> = None;
        loop {
            let is_ending = self.take(&mut batch);
            let is_busy = wrote_at.is_some_and(|at| at.elapsed() < 2 * gather_interval);
            // If the log itself cannot be written, there is nowhere to report it.
            let _ = output.write_all(&batch).and_then(|()| output.flush());
            let lost = self.lost.swap(0, Ordering::Relaxed);
            if lost > 0 {
                let _ = writeln!(
                    output,
                    "{lost} log lines were lost: whatever reads the log is too slow"
                );
            }
            batch.clear();
            if is_ending {
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

    /// Waits for lines and moves them into `batch`. Returns whether they are the last.
    fn take(&self, batch: &mut Vec<u8>) -> bool {
        let is_idle = |buffered: &mut BufferedLines| {
            buffered.is_awaited = buffered.bytes.is_empty() && !buffered.is_ending;
            buffered.is_awaited
        };
        let mut buffered =
            self.changed.wait_while(self.lock(), is_idle).unwrap_or_else(PoisonError::into_inner);
        buffered.is_urgent = false;
        // Swapped rather than copied, so that the two buffers keep their capacity.
        mem::swap(batch, &mut buffered.bytes);
        buffered.is_ending
    }
}

impl Drop for LineWriterGuard {
    fn drop(&mut self) {
        self.shared.lock().is_ending = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io;
    use std::sync::mpsc;

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
        lines.hurry();
        assert_eq!(written.recv().unwrap(), b"three\nfour\n");
        append(b"five\n");
        drop(writing);
        assert_eq!(written.recv().unwrap(), b"five\n");
    }
}
