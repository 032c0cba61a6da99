//! The files of a decision log: their names, their numbers, and their decompressed contents.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use flate2::GzBuilder;
use flate2::bufread::MultiGzDecoder;

use crate::chain::event::{EventKind, LogEvent};
use crate::chain::link::previous_digest;
use crate::digest::Sha256Digest;
use crate::regular_file;

/// The longest line that is read. Lines that wayleave writes are far shorter: request heads and quoted texts are bounded.
pub const MAX_LINE_BYTES: u64 = 4 << 20;
/// The first bytes of a gzip file (RFC 1952 section 2.3.1). No line begins with them.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// The part of a file in which its last line is looked for: a head is far shorter.
pub(crate) const TAIL_BYTES: u64 = 64 * 1024;
/// The part of a file in which its first line is looked for.
const BEGIN_BYTES: usize = 8192;
/// The size of read buffers.
const BUFFER_BYTES: usize = 256 * 1024;

/// Returns the directory of the log at `path` and its rotated files.
pub fn log_directory(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

/// Returns the name of a rotated file after its compression.
pub fn compressed_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".gz");
    name.into()
}

/// Returns the rotated files of the log at `path`, sorted by name and thus by age. If a file exists both compressed and
/// uncompressed, only the latter is returned: compression was interrupted before it could be deleted.
///
/// # Errors
///
/// Returns an error if their directory is there and cannot be listed.
pub fn rotated_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(log_directory(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found: BTreeMap<OsString, PathBuf> = BTreeMap::new();
    for entry in entries {
        let file = entry?.path();
        if is_rotated(path, &file) {
            found.insert(file.as_os_str().to_owned(), file);
        } else if file.extension().is_some_and(|extension| extension == "gz")
            && is_rotated(path, &file.with_extension(""))
        {
            let plain = file.with_extension("").into_os_string();
            found.entry(plain).or_insert(file);
        }
    }
    // An uncompressed file that was listed after its compressed form has replaced it in the map.
    Ok(found.into_values().collect())
}

/// Returns whether the name of `file` is that of a rotated, uncompressed file of the log at `path`.
fn is_rotated(path: &Path, file: &Path) -> bool {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let is_time =
        |time: &str| time.ends_with('Z') && time.starts_with(|c: char| c.is_ascii_digit());
    // The time of the rotation is between the stem and the extension.
    let time = name.strip_prefix(&*stem).and_then(|rest| rest.strip_prefix('.'));
    file.extension() == path.extension() && time.is_some_and(is_time)
}

/// Returns whether a file is compressed.
pub fn is_compressed(file: &File) -> bool {
    let mut begin = [0; GZIP_MAGIC.len()];
    file.read_exact_at(&mut begin, 0).is_ok() && begin == GZIP_MAGIC
}

/// Returns a reader of the decompressed contents of a file that has just been opened.
pub fn decompressed(file: &File) -> Box<dyn BufRead + '_> {
    let plain = BufReader::with_capacity(BUFFER_BYTES, file);
    if !is_compressed(file) {
        return Box::new(plain);
    }
    let unpacked = MultiGzDecoder::new(plain);
    Box::new(BufReader::with_capacity(BUFFER_BYTES, unpacked))
}

/// Returns the last line of an uncompressed file without its line feed; `None` if it has none, or no line feed at its end.
///
/// # Errors
///
/// Returns an error if it cannot be read.
pub fn last_line(mut file: &File) -> io::Result<Option<Vec<u8>>> {
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut end = Vec::new();
    BufReader::new(file.take(TAIL_BYTES)).read_to_end(&mut end)?;
    let Some(lines) = end.strip_suffix(b"\n") else {
        return Ok(None);
    };
    let from = memchr::memrchr(b'\n', lines).map_or(0, |at| at + 1);
    Ok((from > 0 || length <= TAIL_BYTES).then(|| lines[from..].to_vec()))
}

/// Returns whether the first `bytes` of an uncompressed file end in the line with this digest. The position in the file does not
/// change.
///
/// # Errors
///
/// Returns an error if it cannot be read.
pub fn ends_in_line(file: &File, bytes: u64, digest: Sha256Digest) -> io::Result<bool> {
    if file.metadata()?.len() < bytes {
        return Ok(false);
    }
    // Only the last line is hashed. Lines are rarely longer than this, so the file is hardly ever read twice.
    let mut length = TAIL_BYTES as usize;
    loop {
        let from = bytes.saturating_sub(length as u64);
        let mut part = vec![0; length.min(bytes as usize)];
        file.read_exact_at(&mut part, from)?;
        let Some(lines) = part.strip_suffix(b"\n") else {
            return Ok(false);
        };
        match memchr::memrchr(b'\n', lines) {
            Some(end) => return Ok(Sha256Digest::of(&lines[end + 1..]) == digest),
            None if from == 0 => return Ok(Sha256Digest::of(lines) == digest),
            None => length *= 8,
        }
    }
}

/// Returns whether a file has a complete line at its beginning, or more bytes than the first line of a file of a chain.
pub(crate) fn has_line(file: &File) -> bool {
    let mut begin = [0; BEGIN_BYTES];
    let length = file.read_at(&mut begin, 0).unwrap_or_default();
    length == BEGIN_BYTES || begin[..length].contains(&b'\n')
}

/// Returns a builder of the compressed form of a file that ends in a head. It repeats the head at its beginning, as the comment
/// of RFC 1952 section 2.3.1, so that nobody need read all of it to know when it ended.
///
/// # Errors
///
/// Returns an error if the file cannot be read.
pub fn gzip_builder(file: &File) -> io::Result<GzBuilder> {
    let head = last_line(file)?.filter(|line| LogEvent::parse_head(line).is_some());
    Ok(head.map_or_else(GzBuilder::new, |head| GzBuilder::new().comment(head)))
}

/// Passes the lines of a log to `take`, without their line feeds, until it returns false. Lines that are too long are skipped.
///
/// # Errors
///
/// Returns an error if the log cannot be read on.
pub fn read_lines(mut lines: impl BufRead, mut take: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = lines.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
        if read as u64 == MAX_LINE_BYTES && !line.ends_with(b"\n") {
            lines.skip_until(b'\n')?;
        } else if read == 0 || !take(line.strip_suffix(b"\n").unwrap_or(&line)) {
            return Ok(());
        }
    }
}

/// The first line of a file of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileBegin {
    /// The number of the file.
    pub number: u64,
    /// The time at which the file was begun, and the one before it had ended.
    pub at: SystemTime,
    /// The digest of the last line of the file before, as the line says.
    pub previous: Option<Sha256Digest>,
}

impl FileBegin {
    /// Reads the first line of a file; `None` if it is not a file of a chain. The position in the file does not change.
    pub fn read(file: &File) -> Option<Self> {
        // The first line of a chain is short; the bound keeps foreign files without line feeds from being read whole.
        let mut begin = [0; BEGIN_BYTES];
        let length = file.read_at(&mut begin, 0).ok()?;
        let begin = &begin[..length];
        let mut first = Vec::new();
        if begin.starts_with(&GZIP_MAGIC) {
            let unpacked = MultiGzDecoder::new(begin).take(4096);
            // The rest of the packed data is missing, but not the part with this line.
            BufReader::new(unpacked).read_until(b'\n', &mut first).ok()?;
        } else {
            first.extend(begin.split_inclusive(|byte| *byte == b'\n').next()?);
        }
        let line = first.strip_suffix(b"\n")?;
        let event = LogEvent::parse(line)?;
        match event.kind {
            EventKind::File { file, .. } => {
                Some(Self { number: file, at: event.at, previous: previous_digest(line) })
            }
            _ => None,
        }
    }
}

/// Returns the number of a file from its first line; `None` if it is not a file of a chain.
pub fn file_number(path: &Path) -> Option<u64> {
    let file = regular_file::open(path).ok()?;
    FileBegin::read(&file).map(|begin| begin.number)
}
