//! The signed facts about the files in a log's directory that have names of rotated files. Names, times, sizes and owners of
//! files prove nothing: files are copied, restored, touched and planted.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, Metadata};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use flate2::bufread::MultiGzDecoder;

use crate::chain::TreeHead;
use crate::chain::event::{EventKind, LogEvent};
use crate::chain::head::is_signed_by;
use crate::chain::link::previous_digest;
use crate::clock_steps::ClockStep;
use crate::digest::Sha256Digest;
use crate::files::{
    FileBegin, TAIL_BYTES, decompressed, ends_in_line, has_line, is_compressed, last_line,
    read_lines, rotated_files,
};
use crate::regular_file;

/// The bytes of a gzip file that may be more than those in it: its head and trailers.
const GZIP_OVERHEAD: u64 = 16 * 1024;

/// The reason against a file that has another first line, or none.
const NOT_OF_A_LOG: &str = "does not begin as a file of a log";

/// A rotated file that belongs to the log.
#[derive(Clone, Debug)]
pub struct LogFile {
    pub number: u64,
    pub path: PathBuf,
    /// The size that counts: at most the one that its head signs.
    pub bytes: u64,
    /// The settled time at which it ended, and those before it had; `None`: it does not end in a head yet.
    pub ended_at: Option<SystemTime>,
    /// The digest of the head that ends it.
    end: Option<Sha256Digest>,
}

/// A file that has the name of a rotated file and does not belong to the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignFile {
    pub path: PathBuf,
    /// Why, to be read after its name.
    pub reason: String,
}

/// The files of a log, and others that have such names.
#[derive(Debug, Default)]
pub struct LogFiles {
    /// The rotated ones, sorted by number.
    pub files: Vec<LogFile>,
    /// The file at the log's path, opened before the others were listed, unless it is foreign.
    pub current: Option<File>,
    /// Whether that is shorter than its signed part.
    pub is_truncated: bool,
    pub foreign: Vec<ForeignFile>,
}

/// The log that files must belong to.
#[derive(Clone, Copy, Debug)]
pub struct OwnLog<'a> {
    pub path: &'a Path,
    /// The public halves of its keys: the present one, and those that handed the log over.
    pub keys: &'a [String],
    /// Its id; earlier versions have not signed it in every file.
    pub id: Option<&'a str>,
    /// The number of its newest file; none: the highest that its key signed, or the one after.
    pub newest: Option<u64>,
    /// The part of a file that is signed, if its last head is known.
    pub signed: Option<SignedPart>,
}

/// The beginning of a file that a head next to the log signs.
#[derive(Clone, Copy, Debug)]
pub struct SignedPart {
    pub file: u64,
    pub bytes: u64,
    /// The digest of its last line.
    pub last: Sha256Digest,
}

impl SignedPart {
    /// Returns why an open file, which has the number of this one, is another; `None` if it can be this one, cut off or not.
    fn reason_against(self, file: &File) -> Option<String> {
        let is_shorter = self.is_cut_off(file);
        let is_there = is_shorter || ends_in_line(file, self.bytes, self.last).unwrap_or(false);
        (!is_there).then(|| "does not have the line that was signed last".to_owned())
    }

    fn is_cut_off(self, file: &File) -> bool {
        file.metadata().is_ok_and(|found| found.len() < self.bytes)
    }
}

/// The last line of a file that ends in a head.
#[derive(Clone, Debug)]
struct FinalHead {
    head: TreeHead,
    digest: Sha256Digest,
    at: SystemTime,
    /// The number of bytes of the file up to its end, as far as they were read.
    read_bytes: Option<u64>,
}

/// A file by its name, with its first and last lines.
struct NamedFile {
    path: PathBuf,
    begin: FileBegin,
    end: Option<FinalHead>,
    /// Its device and inode.
    identity: (u64, u64),
    /// Its size, or its space on disk if that is less.
    stored_bytes: u64,
    is_compressed: bool,
}

/// Reads logs' directories, and remembers the ends of compressed files that do not have them at their beginning.
#[derive(Debug, Default)]
pub struct LogFilesReader {
    /// By device, inode, size and time of the last change, which tell a file from another that replaced it.
    ends: HashMap<(u64, u64, u64, i64, i64), Option<FinalHead>>,
}

impl LogFilesReader {
    /// Reads the signatures of a log's files, for the process that writes it: the current file is its own.
    ///
    /// # Errors
    ///
    /// Returns an error if their directory cannot be listed.
    pub fn read(&mut self, log: OwnLog<'_>) -> io::Result<LogFiles> {
        let current = regular_file::open(log.path).ok();
        let begin = current.as_ref().and_then(FileBegin::read);
        let found = self.read_rotated(log, current.as_ref(), begin)?;
        Ok(LogFiles { current, ..found })
    }

    /// Reads the signatures of the files of the log at `path`, for others. `line` is the newest head that is saved.
    ///
    /// # Errors
    ///
    /// As [`Self::read`], or if the line is no head.
    pub fn read_by_head(&mut self, path: &Path, line: &[u8]) -> io::Result<LogFiles> {
        let head = LogEvent::parse_head(line);
        let (Some(head), Some(last)) = (head, previous_digest(line)) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the log's head cannot be read",
            ));
        };
        let part = |bytes| SignedPart { file: head.file, bytes, last };
        let signed = head.bytes.filter(|_| head.lines > 0).map(part);
        // After the head, which cannot be about a later file then, and before the others: it is rotated at any moment.
        let current = regular_file::open(path).ok();
        let begin = current.as_ref().and_then(FileBegin::read);
        let mut reason =
            current.as_ref().and_then(|file| reason_against_current(file, begin, &head, signed));
        let begin = begin.filter(|_| reason.is_none());
        let keys = head.keys();
        let log = OwnLog {
            path,
            keys: &keys,
            id: head.count.as_ref().map(|count| count.log.as_str()),
            newest: Some(begin.map_or(head.file, |begin| begin.number)),
            signed,
        };
        let mut found = self.read_rotated(log, current.as_ref(), begin)?;
        if begin.is_some_and(|begin| begin.number > head.file && !found.is_continued_by(begin)) {
            reason = Some("does not continue the file before it".to_owned());
        }
        let is_signed_part = begin.is_some_and(|begin| begin.number == head.file);
        match (reason, &current) {
            (Some(reason), _) => found.foreign.push(ForeignFile { path: path.to_owned(), reason }),
            (None, Some(file)) => {
                let signed = signed.filter(|_| is_signed_part);
                found.is_truncated = signed.is_some_and(|signed| signed.is_cut_off(file));
                found.current = current;
            }
            (None, None) => {}
        }
        Ok(found)
    }

    /// Reads the rotated files. `begin` is the first line of the `current` one.
    fn read_rotated(
        &mut self,
        log: OwnLog<'_>,
        current: Option<&File>,
        begin: Option<FileBegin>,
    ) -> io::Result<LogFiles> {
        let mut found = LogFiles::default();
        let mut by_number: BTreeMap<u64, Vec<NamedFile>> = BTreeMap::new();
        let current_identity = current.and_then(|file| Some(identity(&file.metadata().ok()?)));
        for path in rotated_files(log.path)? {
            match self.inspect(&path) {
                Ok(file)
                    if Some(file.identity) == current_identity && has_left(log.path, &file) => {}
                Ok(file) => by_number.entry(file.begin.number).or_default().push(file),
                // Renamed by compression, or deleted by the process that writes the log.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    found.foreign.push(ForeignFile { path, reason: error.to_string() });
                }
            }
        }
        let newest = log.newest.unwrap_or_else(|| newest_of(&by_number, log.keys));
        let current = begin.filter(|begin| begin.number == newest);
        let mut next = current;
        // From the newest: each file names the last line of the one before it.
        for (number, same) in by_number.into_iter().rev() {
            let link = next.filter(|next| number.checked_add(1) == Some(next.number));
            let link = link.and_then(|next| next.previous);
            let mut own = None;
            let is_current = current.is_some_and(|current| current.number == number);
            for file in same {
                match reason_against(&file, log, newest, link) {
                    None if own.is_none() && !is_current => own = Some(file),
                    None => found.add_foreign(file, format!("is a second file {number}")),
                    Some(reason) => found.add_foreign(file, reason),
                }
            }
            next = own.as_ref().map(|file| file.begin).or(next);
            found.files.extend(own.map(NamedFile::into_own));
        }
        found.files.reverse();
        found.order_ends();
        Ok(found)
    }

    fn inspect(&mut self, path: &Path) -> io::Result<NamedFile> {
        let file = regular_file::open(path)?;
        let metadata = file.metadata()?;
        let none = || io::Error::new(io::ErrorKind::InvalidData, NOT_OF_A_LOG);
        let begin = FileBegin::read(&file).ok_or_else(none)?;
        let is_compressed = is_compressed(&file);
        let end = if is_compressed {
            match FinalHead::of_gzip_comment(&file) {
                Some(end) => Some(end),
                None => {
                    // By the time of the last change, which nobody but root can set.
                    let changed = metadata.ctime();
                    let nanos = metadata.ctime_nsec();
                    let key = (metadata.dev(), metadata.ino(), metadata.len(), changed, nanos);
                    self.ends.entry(key).or_insert_with(|| FinalHead::of_lines(&file)).clone()
                }
            }
        } else {
            FinalHead::of_tail(&file)?
        };
        // A file of zeros that were never written takes no space.
        let stored_bytes =
            metadata.len().min(metadata.blocks().saturating_mul(512).max(TAIL_BYTES));
        let identity = identity(&metadata);
        Ok(NamedFile { path: path.to_owned(), begin, end, identity, stored_bytes, is_compressed })
    }
}

/// Returns why the file at the log's path, which has this first line, does not belong to the log of which `head` was saved.
fn reason_against_current(
    file: &File,
    begin: Option<FileBegin>,
    head: &TreeHead,
    signed: Option<SignedPart>,
) -> Option<String> {
    let Some(begin) = begin else {
        // Its first line may still be being written.
        return has_line(file).then(|| NOT_OF_A_LOG.to_owned());
    };
    if begin.number < head.file {
        let number = begin.number;
        let newest = head.file;
        return Some(format!("is file {number}, but the newest of the log is {newest}"));
    }
    let signed = signed.filter(|signed| signed.file == begin.number)?;
    signed.reason_against(file)
}

/// Returns the device and inode of a file, which do not change when it is renamed.
fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// Returns whether the current file of the log at `path` was rotated after it was opened. Else, it has a second name.
fn has_left(path: &Path, rotated: &NamedFile) -> bool {
    fs::metadata(path).map_or(true, |current| identity(&current) != rotated.identity)
}

/// Returns the number of the newest file of the log with these keys. The file after the last that one signed may have no head yet.
fn newest_of(by_number: &BTreeMap<u64, Vec<NamedFile>>, keys: &[String]) -> u64 {
    let is_signed =
        |file: &NamedFile| file.end.as_ref().is_some_and(|end| keys.contains(&end.head.key));
    let signed = by_number.iter().rfind(|(_, same)| same.iter().any(is_signed));
    let last = by_number.last_key_value().map_or(0, |(number, _)| *number);
    signed.map_or(last, |(number, _)| number.saturating_add(1).min(last))
}

/// Returns why a file does not belong to a log with this `newest` file. `link` is the last line of it that the next file names, if
/// that is there.
fn reason_against(
    file: &NamedFile,
    log: OwnLog<'_>,
    newest: u64,
    link: Option<Sha256Digest>,
) -> Option<String> {
    let number = file.begin.number;
    let is_last = number == newest && !file.is_compressed && link.is_none();
    // Whatever somebody has added to it: the next process ends it.
    if let Some(signed) = log.signed.filter(|signed| is_last && signed.file == number) {
        return signed.reason_against(&regular_file::open(&file.path).ok()?);
    }
    let Some(end) = &file.end else {
        return (!is_last).then(|| "does not end in a signed head".to_owned());
    };
    if number > newest {
        return Some(format!("is file {number}, but the newest of the log is {newest}"));
    }
    if end.head.file != number || end.head.next.is_none() {
        return Some("ends in the head of another file".to_owned());
    }
    let is_linked = link.map(|link| link == end.digest);
    let id = end.head.count.as_ref().map(|count| count.log.as_str());
    // After the loss of a key, the log has another id; but it continued this file.
    if let (Some(id), Some(own)) = (id, log.id)
        && id != own
        && is_linked != Some(true)
    {
        return Some(format!("is a file of another log, {id}"));
    }
    // A file that was signed with an earlier key belongs to the log if the next one continues it.
    let has_key = log.keys.contains(&end.head.key);
    let is_own = if has_key && id.is_some() { true } else { is_linked.unwrap_or(has_key) };
    (!is_own).then(|| "is not continued by the next file of the log".to_owned())
}

impl NamedFile {
    fn into_own(self) -> LogFile {
        let end = self.end.as_ref();
        let signed = end.and_then(|end| end.head.bytes.or(end.read_bytes));
        let most = match signed {
            Some(bytes) if self.is_compressed => bytes.saturating_add(GZIP_OVERHEAD),
            Some(bytes) => bytes.saturating_add(TAIL_BYTES),
            None => u64::MAX,
        };
        LogFile {
            number: self.begin.number,
            path: self.path,
            bytes: self.stored_bytes.min(most),
            ended_at: end.map(|end| ClockStep::settled(&end.head.clock, end.at)),
            end: end.map(|end| end.digest),
        }
    }
}

impl LogFiles {
    /// Returns the rotated file with this number.
    #[must_use]
    pub fn numbered(&self, number: u64) -> Option<&LogFile> {
        self.files.iter().find(|file| file.number == number)
    }

    /// Returns whether the file with this first line follows the last of them.
    fn is_continued_by(&self, begin: FileBegin) -> bool {
        self.files.last().is_some_and(|last| {
            last.number.checked_add(1) == Some(begin.number) && last.end == begin.previous
        })
    }

    fn add_foreign(&mut self, file: NamedFile, reason: String) {
        self.foreign.push(ForeignFile { path: file.path, reason });
    }

    /// Makes no file end before the one before it: the clock was wrong when that was written.
    fn order_ends(&mut self) {
        let mut latest = SystemTime::UNIX_EPOCH;
        for at in self.files.iter_mut().filter_map(|file| file.ended_at.as_mut()) {
            latest = latest.max(*at);
            *at = latest;
        }
    }
}

impl FinalHead {
    fn parse(line: &[u8], read_bytes: Option<u64>) -> Option<Self> {
        let LogEvent { kind: EventKind::Head(head), at } = LogEvent::parse(line)? else {
            return None;
        };
        let is_signed = is_signed_by(line, &head.key);
        is_signed.then(|| Self { head, digest: Sha256Digest::of(line), at, read_bytes })
    }

    /// Reads the last line of an uncompressed file.
    fn of_tail(file: &File) -> io::Result<Option<Self>> {
        Ok(last_line(file)?.and_then(|line| Self::parse(&line, None)))
    }

    /// Reads the last line of a compressed file from its beginning, where [`crate::files::gzip_builder`] puts it.
    fn of_gzip_comment(mut file: &File) -> Option<Self> {
        file.seek(SeekFrom::Start(0)).ok()?;
        let unpacked = MultiGzDecoder::new(BufReader::new(file.take(TAIL_BYTES)));
        Self::parse(unpacked.header()?.comment()?, None)
    }

    /// Reads the last line of a compressed file at its end, and thus all of it.
    fn of_lines(mut file: &File) -> Option<Self> {
        file.seek(SeekFrom::Start(0)).ok()?;
        let mut last = Vec::new();
        let mut bytes = 0;
        read_lines(decompressed(file), |line| {
            last.clear();
            last.extend_from_slice(line);
            bytes += line.len() as u64 + 1;
            true
        })
        .ok()?;
        Self::parse(&last, Some(bytes))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::time::Duration;

    use flate2::Compression;
    use ring::signature::Ed25519KeyPair;
    use tempfile::TempDir;

    use super::*;
    use crate::chain::head::public_key;
    use crate::chain::{HashChain, LogCount};
    use crate::files::gzip_builder;

    /// The day of the first file's end; each file takes a day.
    const FIRST: u64 = 20_000;

    fn key(seed: u8) -> Ed25519KeyPair {
        Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()
    }

    fn day(number: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_hours(24) * u32::try_from(number).unwrap()
    }

    struct TestFiles {
        dir: TempDir,
        chain: HashChain,
    }

    impl TestFiles {
        fn new() -> Self {
            Self { dir: tempfile::tempdir().unwrap(), chain: HashChain::new() }
        }

        fn path(&self) -> PathBuf {
            self.dir.path().join("decisions.jsonl")
        }

        fn rotated(&self, number: u64) -> PathBuf {
            self.dir.path().join(format!("decisions.{number:04}Z.jsonl"))
        }

        /// Writes a file of two lines and its head. Without the log's id it is of the version before.
        fn write(&mut self, key: &Ed25519KeyPair, log: Option<&str>) {
            let number = self.chain.file;
            let at = day(FIRST + number - 1);
            let mut lines = vec![self.chain.append(&self.chain.file_event(at).to_json())];
            lines.push(self.chain.append(br#"{"id":"1"}"#));
            let head = TreeHead {
                next: Some(number + 1),
                count: log.map(|log| LogCount::new(log.to_owned())),
                bytes: log.map(|_| lines.iter().map(|line| line.len() as u64 + 1).sum()),
                ..self.chain.tree_head(key)
            };
            let head = self.chain.sign_head(key, at, head);
            self.chain.push_line(&head);
            lines.push(head);
            self.chain = self.chain.next_file();
            fs::write(self.rotated(number), [lines.join(&b'\n'), vec![b'\n']].concat()).unwrap();
        }

        /// Begins the current file.
        fn begin(&mut self) {
            let mut chain = self.chain.clone();
            let line = chain.append(&chain.file_event(day(FIRST)).to_json());
            fs::write(self.path(), [line, vec![b'\n']].concat()).unwrap();
        }

        /// Returns the numbers of the files that belong to the log of key 1, and why others do not.
        fn read(&self, reader: &mut LogFilesReader) -> (Vec<u64>, Vec<String>) {
            let keys = [public_key(&key(1))];
            let path = self.path();
            let log = OwnLog {
                path: &path,
                keys: &keys,
                id: Some("a"),
                newest: Some(self.chain.file),
                signed: None,
            };
            let found = reader.read(log).unwrap();
            let numbers = found.files.iter().map(|file| file.number).collect();
            (numbers, found.foreign.into_iter().map(|file| file.reason).collect())
        }
    }

    #[test]
    fn an_end_is_read_from_the_beginning_of_a_compressed_file() {
        let mut files = TestFiles::new();
        files.write(&key(1), Some("a"));
        let plain = File::open(files.rotated(1)).unwrap();
        let name = crate::files::compressed_name(&files.rotated(1));
        let builder = gzip_builder(&plain).unwrap();
        let mut gzip = builder.write(File::create(name).unwrap(), Compression::default());
        gzip.write_all(&fs::read(files.rotated(1)).unwrap()).unwrap();
        gzip.finish().unwrap();
        fs::remove_file(files.rotated(1)).unwrap();
        files.begin();
        let mut reader = LogFilesReader::default();
        assert_eq!(files.read(&mut reader), (vec![1], vec![]));
        assert!(reader.ends.is_empty(), "it was not unpacked");
    }

    #[test]
    fn a_compressed_file_of_the_version_before_is_read_to_its_end_once() {
        let mut files = TestFiles::new();
        files.write(&key(1), None);
        let text = fs::read(files.rotated(1)).unwrap();
        let name = crate::files::compressed_name(&files.rotated(1));
        let mut gzip =
            flate2::write::GzEncoder::new(File::create(name).unwrap(), Compression::default());
        gzip.write_all(&text).unwrap();
        gzip.finish().unwrap();
        fs::remove_file(files.rotated(1)).unwrap();
        files.begin();
        let mut reader = LogFilesReader::default();
        for _ in 0..2 {
            assert_eq!(files.read(&mut reader), (vec![1], vec![]));
            assert_eq!(reader.ends.len(), 1);
        }
    }

    #[test]
    fn files_without_the_log_s_id_belong_if_the_next_continues_them() {
        for seed in [1, 2] {
            let mut files = TestFiles::new();
            // Key 2 is one that the log had before.
            files.write(&key(seed), None);
            files.write(&key(1), Some("a"));
            files.begin();
            assert_eq!(files.read(&mut LogFilesReader::default()), (vec![1, 2], vec![]), "{seed}");
            let mut other = TestFiles::new();
            other.write(&key(seed), None);
            let text = fs::read_to_string(other.rotated(1)).unwrap();
            fs::write(files.rotated(1), text.replace("\"1\"", "\"2\"")).unwrap();
            // Its lines do not matter for its identity: its head does.
            assert_eq!(files.read(&mut LogFilesReader::default()).0, [1, 2], "{seed}");
            other.chain = HashChain::new();
            other.chain.append(b"{}");
            other.write(&key(seed), None);
            fs::copy(other.rotated(1), files.rotated(1)).unwrap();
            let (numbers, reasons) = files.read(&mut LogFilesReader::default());
            assert_eq!(numbers, [2], "{seed}");
            assert_eq!(reasons, ["is not continued by the next file of the log"], "{seed}");
        }
    }

    #[test]
    fn files_of_another_log_or_none_are_foreign() {
        let mut files = TestFiles::new();
        files.write(&key(1), Some("a"));
        files.write(&key(1), Some("b"));
        files.write(&key(2), Some("a"));
        files.write(&key(1), Some("a"));
        files.begin();
        fs::copy(files.rotated(1), files.dir.path().join("decisions.9Z.jsonl")).unwrap();
        fs::copy(files.path(), files.dir.path().join("decisions.8Z.jsonl")).unwrap();
        fs::write(files.dir.path().join("decisions.7Z.jsonl"), "{}\n").unwrap();
        let (numbers, mut reasons) = files.read(&mut LogFilesReader::default());
        assert_eq!(numbers, [1, 2, 3, 4], "a file of an earlier key, or id, is continued");
        reasons.sort();
        let expected =
            ["does not begin as a file of a log", "is a second file 1", "is a second file 5"];
        assert_eq!(reasons, expected);
    }

    #[test]
    fn a_file_does_not_end_before_the_one_before_it() {
        let mut files = TestFiles::new();
        files.write(&key(1), Some("a"));
        files.write(&key(1), Some("a"));
        files.begin();
        let keys = [public_key(&key(1))];
        let path = files.path();
        let log = OwnLog { path: &path, keys: &keys, id: Some("a"), newest: Some(3), signed: None };
        let mut found = LogFilesReader::default().read(log).unwrap();
        // The clock was ahead when the first ended.
        found.files[0].ended_at = Some(day(FIRST + 9));
        found.order_ends();
        assert_eq!(found.files[1].ended_at, Some(day(FIRST + 9)));
    }
}
