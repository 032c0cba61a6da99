//! A store's file that is only read. redb repairs a file that a killed process left, and wants to write for that: its writes
//! stay in memory, so that a command that reads changes nothing, whoever runs it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::backends::FileBackend;
use redb::{BackendError, DatabaseError, StorageBackend};

/// The size of the parts in which the writes are kept.
const PAGE_BYTES: u64 = 4096;

type Page = [u8; PAGE_BYTES as usize];

/// A file, and the writes over it.
#[derive(Debug)]
pub(super) struct ReadOnlyFile {
    file: FileBackend,
    written: Mutex<WrittenPages>,
}

#[derive(Debug)]
struct WrittenPages {
    length: u64,
    /// The length up to which the file counts. It was cut there, and grew again.
    file_length: u64,
    pages: HashMap<u64, Box<Page>>,
}

impl ReadOnlyFile {
    pub(super) fn new(file: File) -> Result<Self, DatabaseError> {
        let file = FileBackend::new(file)?;
        let length = file.len()?;
        let written = WrittenPages { length, file_length: length, pages: HashMap::new() };
        Ok(Self { file, written: Mutex::new(written) })
    }

    fn written(&self) -> MutexGuard<'_, WrittenPages> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the page with this number as the file has it, with zeros after its end.
    fn page_of_file(&self, number: u64, file_length: u64) -> io::Result<Box<Page>> {
        let mut page = Box::new([0; PAGE_BYTES as usize]);
        let from = number * PAGE_BYTES;
        let there = file_length.saturating_sub(from).min(PAGE_BYTES) as usize;
        if there > 0 {
            self.file.read(from, &mut page[..there])?;
        }
        Ok(page)
    }
}

/// Returns the page that contains an offset, the place in it, and how many of `left` bytes are on it from there.
fn place(offset: u64, left: usize) -> (u64, usize, usize) {
    let at = (offset % PAGE_BYTES) as usize;
    (offset / PAGE_BYTES, at, left.min(PAGE_BYTES as usize - at))
}

impl StorageBackend for ReadOnlyFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.written().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let written = self.written();
        if offset.saturating_add(out.len() as u64) > written.length {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if written.pages.is_empty() && written.length == written.file_length {
            return self.file.read(offset, out);
        }
        let mut done = 0;
        while done < out.len() {
            let (number, at, bytes) = place(offset + done as u64, out.len() - done);
            let part = &mut out[done..done + bytes];
            match written.pages.get(&number) {
                Some(page) => part.copy_from_slice(&page[at..at + bytes]),
                None => {
                    let page = self.page_of_file(number, written.file_length)?;
                    part.copy_from_slice(&page[at..at + bytes]);
                }
            }
            done += bytes;
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut written = self.written();
        if length < written.length {
            written.file_length = written.file_length.min(length);
            written.pages.retain(|number, _| number * PAGE_BYTES < length);
        }
        written.length = length;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut written = self.written();
        let file_length = written.file_length;
        let mut done = 0;
        while done < data.len() {
            let (number, at, bytes) = place(offset + done as u64, data.len() - done);
            let page = match written.pages.entry(number) {
                Entry::Occupied(page) => page.into_mut(),
                Entry::Vacant(vacant) => vacant.insert(self.page_of_file(number, file_length)?),
            };
            page[at..at + bytes].copy_from_slice(&data[done..done + bytes]);
            done += bytes;
        }
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    // A process that writes has locked the file for itself. Only others that read may have it open as well.
    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}
