//! The store's file: opened, limited in size, and set aside when it is damaged.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::ops::{Bound, Deref};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use redb::backends::{FileBackend, InMemoryBackend};
use redb::{BackendError, Builder, Database, DatabaseError, StorageBackend};

use super::failure::{StoreFailure, catching_panics};
use super::read_only::ReadOnlyFile;

/// The mode of the directory: other users need only the CA's certificate in it, so they may enter but not list it.
const DIR_MODE: u32 = 0o711;
/// The mode of the file: the URLs that crawlers fetch are private.
const FILE_MODE: u32 = 0o600;
/// redb doubles a file up to this length, and then extends it by this much at a time.
const REGION_BYTES: u64 = 4 << 30;
/// The length of a new file.
const MIN_FILE_BYTES: u64 = 1 << 20;
/// redb's own data in such a file, and more.
const OVERHEAD_BYTES: u64 = 64 << 10;

/// An open database, whose panics on closing are caught.
pub(super) struct OpenDatabase(Option<Database>);

impl Deref for OpenDatabase {
    type Target = Database;

    fn deref(&self) -> &Database {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl OpenDatabase {
    pub(super) fn compact(&mut self) -> Result<bool, StoreFailure> {
        let database = self.0.as_mut().expect("it is there until it is dropped");
        catching_panics(|| Ok(database.compact()?))
    }
}

impl Drop for OpenDatabase {
    fn drop(&mut self) {
        let database = self.0.take();
        if let Err(failure) = catching_panics(|| {
            drop(database);
            Ok(())
        }) {
            tracing::warn!(%failure, "the store was not closed cleanly");
        }
    }
}

/// Opens the file at `path` without ever changing it.
pub(super) fn open_to_read(path: &Path, cache: usize) -> Result<OpenDatabase, StoreFailure> {
    catching_panics(|| {
        let file = ReadOnlyFile::new(File::open(path).map_err(DatabaseError::from)?)?;
        let mut builder = Builder::new();
        builder.set_cache_size(cache);
        Ok(OpenDatabase(Some(builder.create_with_backend(file)?)))
    })
}

/// Opens or creates the file at `path`; without a path, a database in memory. The file grows to `longest` bytes at
/// most, and `cache` bytes of it are cached in memory.
pub(super) fn open_database(
    path: Option<&Path>,
    longest: u64,
    cache: usize,
) -> Result<OpenDatabase, StoreFailure> {
    catching_panics(|| {
        let mut builder = Builder::new();
        builder.set_cache_size(cache);
        let database = match path {
            None => builder.create_with_backend(InMemoryBackend::new())?,
            Some(path) => {
                let file = open_file(path).map_err(DatabaseError::from)?;
                let file = FileBackend::new(file)?;
                builder.create_with_backend(BoundedFile { file, max_bytes: longest })?
            }
        };
        Ok(OpenDatabase(Some(database)))
    })
}

fn open_file(path: &Path) -> io::Result<File> {
    if let Some(dir) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir)?;
    }
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(FILE_MODE)
        .open(path)?;
    if file.metadata()?.permissions().mode() & 0o077 != 0
        && let Err(error) = file.set_permissions(Permissions::from_mode(FILE_MODE))
    {
        tracing::warn!(%error, file = %path.display(), "other users can read this file: chmod 600 it");
    }
    Ok(file)
}

/// Returns how much of a file of `longest` bytes redb can fill, given that it grows by doubling and by whole regions.
pub(super) fn capacity(longest: u64) -> u64 {
    let mut length = MIN_FILE_BYTES;
    while length < REGION_BYTES && 2 * length + OVERHEAD_BYTES <= longest {
        length *= 2;
    }
    while length >= REGION_BYTES
        && length + REGION_BYTES + OVERHEAD_BYTES * (length / REGION_BYTES + 1) <= longest
    {
        length += REGION_BYTES;
    }
    length
}

/// Renames a damaged file so that a new one can be created. Only the newest damaged file is kept for inspection,
/// because each may be as long as `state.max_size`.
///
/// # Errors
///
/// If it cannot be renamed.
pub(super) fn set_aside(path: &Path, now: SystemTime) -> io::Result<PathBuf> {
    let time = humantime::format_rfc3339_millis(now).to_string();
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".damaged-");
    name.push(time.replace(['-', ':'], ""));
    let aside = path.with_file_name(name);
    let older = damaged_files(path);
    fs::rename(path, &aside)?;
    for old in older.into_iter().filter(|old| *old != aside) {
        match fs::remove_file(&old) {
            Ok(()) => tracing::info!(file = %old.display(), "an older damaged store was deleted"),
            Err(error) => {
                tracing::warn!(%error, file = %old.display(), "a damaged store could not be deleted");
            }
        }
    }
    Ok(aside)
}

/// Returns the damaged files that were set aside before.
fn damaged_files(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let start = format!("{name}.damaged-");
    let entries = path.parent().and_then(|dir| fs::read_dir(dir).ok());
    entries
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&start))
        .map(|entry| entry.path())
        .collect()
}

/// A file that does not grow beyond `max_bytes`. The entries are limited long before; this guards against miscounting.
#[derive(Debug)]
struct BoundedFile {
    file: FileBackend,
    max_bytes: u64,
}

impl StorageBackend for BoundedFile {
    fn set_len(&self, length: u64) -> io::Result<()> {
        // A file that was too long when it was opened may still shrink.
        if length > self.max_bytes && length > self.file.len()? {
            let what = format!("the file would grow to {length} bytes, over state.max_size");
            return Err(io::Error::new(ErrorKind::QuotaExceeded, what));
        }
        self.file.set_len(length)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
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
