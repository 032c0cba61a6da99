//! Buffered lines in front of a file: writing a line only copies it, and a thread writes many lines at once.
//!
//! The thread sleeps while there is nothing to write. Under load it wakes a few dozen times a second, whatever the number
//! of lines.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The most that is buffered. While the reader of the log stalls, further lines are dropped rather than requests delayed.
const MAX_BUFFERED_BYTES: usize = 32 * 1024 * 1024;
/// The time for which lines are collected before they are written.
const GATHER_INTERVAL: Duration = Duration::from_millis(25);

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
    is_ending: bool,
}

impl LineWriter {
    /// Starts a thread that writes lines to `output`.
    pub(crate) fn spawn(output: impl Write + Send + 'static) -> (Self, LineWriterGuard) {
        let shared = Arc::new(LineBuffer::default());
        let buffer = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || buffer.write_to(output))
            .expect("the system has room for one thread at the start");
        let guard = LineWriterGuard { shared: Arc::clone(&shared), thread: Some(thread) };
        (Self { shared }, guard)
    }

    /// Lets `write` append whole lines to the buffer; drops them if the buffer is full.
    pub fn append(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut buffered = self.shared.lock();
        // Only the first line wakes the thread; it takes all that follow along.
        let was_empty = buffered.bytes.is_empty();
        if buffered.bytes.len() > MAX_BUFFERED_BYTES {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        write(&mut buffered.bytes);
        // Released first: otherwise the thread would wake up only to wait for the lock.
        drop(buffered);
        if was_empty {
            self.shared.changed.notify_one();
        }
    }
}

impl LineBuffer {
    fn lock(&self) -> MutexGuard<'_, BufferedLines> {
        // A panic inside `append` leaves an incomplete line at worst.
        self.buffered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_to(&self, mut output: impl Write) {
        let mut batch = Vec::new();
        loop {
            let is_ending = self.take(&mut batch);
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
            // A single line is written at once; those that follow it closely are collected.
            drop(
                self.changed.wait_timeout_while(self.lock(), GATHER_INTERVAL, |buffered| {
                    !buffered.is_ending
                }),
            );
        }
    }

    /// Waits for lines and moves them into `batch`. Returns whether they are the last.
    fn take(&self, batch: &mut Vec<u8>) -> bool {
        let is_idle =
            |buffered: &mut BufferedLines| buffered.bytes.is_empty() && !buffered.is_ending;
        let mut buffered =
            self.changed.wait_while(self.lock(), is_idle).unwrap_or_else(PoisonError::into_inner);
        // Swapped rather than copied, so that the two buffers keep their capacity.
        std::mem::swap(batch, &mut buffered.bytes);
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
mod tests {
    use super::*;
    use std::io;
    use std::sync::mpsc;

    /// Sends each batch that is written to the test.
    struct Output(mpsc::Sender<Vec<u8>>);

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
        let (lines, _writing) = LineWriter::spawn(Output(sender));
        lines.append(|buffer| buffer.extend_from_slice(b"one\n"));
        assert_eq!(written.recv().unwrap(), b"one\n");
        lines.append(|buffer| buffer.extend_from_slice(b"two\n"));
        assert_eq!(written.recv().unwrap(), b"two\n");
    }

    #[test]
    fn all_lines_are_written_in_order_at_the_end() {
        let (sender, written) = mpsc::channel();
        let (lines, writing) = LineWriter::spawn(Output(sender));
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
}
