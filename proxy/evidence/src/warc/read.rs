//! Unpacks an export from a WARC file. The signature of the manifest is checked before anything is unpacked, and no other
//! record is held in memory as a whole.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use data_encoding::BASE32;
use flate2::bufread::MultiGzDecoder;

use super::record::{self, PATH_FIELD};
use crate::digest::{Sha256Digest, Sha256Hasher};
use crate::manifest::{MANIFEST_PATH, MAX_FILE_BYTES, MAX_MANIFEST_BYTES, Manifest};

/// The longest head of a response. Those that wayleave writes are far shorter.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// The most fields of a record. Those that wayleave writes have fewer.
const MAX_FIELDS: usize = 64;

/// Opens a WARC file and decompresses it if its name ends in `.gz`.
///
/// # Errors
///
/// Returns an error if it is not a regular file or cannot be opened.
pub fn open(path: &Path) -> anyhow::Result<Box<dyn BufRead>> {
    // Checked before opening: opening a pipe would block until somebody writes to it.
    ensure!(fs::metadata(path)?.is_file(), "is not a regular file");
    let file = BufReader::with_capacity(256 * 1024, File::open(path)?);
    let is_packed = path.extension().is_some_and(|kind| kind == "gz");
    Ok(if is_packed { Box::new(BufReader::new(MultiGzDecoder::new(file))) } else { Box::new(file) })
}

/// Returns the line of the manifest, which is the last record of a WARC file, and the digest of all records before it. Errors
/// name the number of the record.
///
/// # Errors
///
/// Returns an error if a record is malformed or does not match its digest, or if there is no manifest.
pub fn read_manifest(from: impl BufRead) -> anyhow::Result<(Vec<u8>, Sha256Digest)> {
    let mut records = RecordReader::new(from);
    loop {
        let before = records.hasher.clone();
        let Some(head) = records.next()? else {
            bail!("{MANIFEST_PATH}:1: is missing");
        };
        if head.path()?.as_deref() != Some(MANIFEST_PATH) {
            records.block(&head, |_| Ok(()))?;
            continue;
        }
        let number = records.number;
        let mut line = Vec::new();
        let length = head.length().with_context(|| format!("record {number}"))?;
        ensure!(length <= MAX_MANIFEST_BYTES, "record {number}: the manifest is too long");
        records.block(&head, |chunk| {
            line.extend_from_slice(chunk);
            Ok(())
        })?;
        // The manifest's own record header is not signed, so it must be exactly the one that follows from the block.
        let mut made = before.clone();
        made.update(&manifest_bytes(&line, number - 1)?);
        ensure!(
            made.finish() == records.hasher.clone().finish(),
            "record {number}: the head of the manifest was altered"
        );
        // The digest in the manifest covers only the bytes before it, so nothing may follow.
        let rest = records.from.fill_buf().context("after the manifest")?;
        ensure!(rest.is_empty(), "record {}: comes after the manifest", number + 1);
        return Ok((line, before.finish()));
    }
}

/// Unpacks the files that the manifest lists into `dir`, none longer than it says.
///
/// # Errors
///
/// Returns an error if a record is malformed, belongs to no such file, or makes it too long.
pub(crate) fn unpack(from: impl BufRead, dir: &Path, manifest: &Manifest) -> anyhow::Result<()> {
    let listed = manifest.logs.iter().chain(&manifest.files);
    let mut left: HashMap<&str, u64> =
        listed.map(|listed| (listed.path.as_str(), listed.bytes)).collect();
    let mut records = RecordReader::new(from);
    let mut open: Option<(String, File)> = None;
    while let Some(head) = records.next()? {
        let number = records.number;
        let path = match head.path()? {
            None => {
                records.block(&head, |_| Ok(()))?;
                continue;
            }
            Some(path) if path == MANIFEST_PATH => return Ok(()),
            Some(path) => path,
        };
        let left = (left.get_mut(path.as_str()))
            .with_context(|| format!("record {number}: {path} is not in the manifest"))?;
        let file = match &mut open {
            // Each line of a log file is a record, and mostly belongs to the same file as the one before.
            Some((last, file)) if *last == path => file,
            open => {
                let to = dir.join(&path);
                fs::create_dir_all(to.parent().unwrap_or(dir))?;
                let file = OpenOptions::new().create(true).append(true).open(to)?;
                &mut open.insert((path.clone(), file)).1
            }
        };
        let mut payload =
            PayloadWriter { file, left, head: head.is_type("response").then(Vec::new) };
        records
            .block(&head, |chunk| payload.write_block(chunk))
            .and_then(|()| payload.finish(head.is_type("metadata")))
            .with_context(|| format!("record {number}: {path}"))?;
    }
    Ok(())
}

/// Writes the payload of a record into its file.
struct PayloadWriter<'a> {
    file: &'a mut File,
    /// The number of bytes that may still be written to the file.
    left: &'a mut u64,
    /// The HTTP head of a response so far, which is left out.
    head: Option<Vec<u8>>,
}

impl PayloadWriter<'_> {
    fn write_block(&mut self, chunk: &[u8]) -> anyhow::Result<()> {
        let Some(mut head) = self.head.take() else {
            return self.write(chunk);
        };
        head.extend_from_slice(chunk);
        if let Some(end) = memchr::memmem::find(&head, b"\r\n\r\n") {
            return self.write(&head[end + 4..]);
        }
        ensure!(head.len() <= MAX_HEAD_BYTES, "has too long a head");
        self.head = Some(head);
        Ok(())
    }

    fn finish(mut self, is_line: bool) -> anyhow::Result<()> {
        if let Some(whole) = self.head.take() {
            self.write(&whole)?;
        }
        // The record of a line holds it without its line feed.
        if is_line { self.write(b"\n") } else { Ok(()) }
    }

    fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let left = self.left.checked_sub(bytes.len() as u64);
        *self.left = left.context("is longer than the manifest says")?;
        Ok(self.file.write_all(bytes)?)
    }
}

/// Returns the record of a manifest as it is written after `before` others.
fn manifest_bytes(line: &[u8], before: u64) -> anyhow::Result<Vec<u8>> {
    let manifest: Manifest = serde_json::from_slice(line).context(MANIFEST_PATH)?;
    let record = record::WarcRecord::for_line(MANIFEST_PATH, &manifest.made_at, line);
    Ok(record.bytes(&record.id(before)))
}

/// A reader of the records of a file.
struct RecordReader<R> {
    from: R,
    /// The digest of everything read.
    hasher: Sha256Hasher,
    /// The number of the last record, from 1.
    number: u64,
}

impl<R: BufRead> RecordReader<R> {
    fn new(from: R) -> Self {
        Self { from, hasher: Sha256Hasher::new(), number: 0 }
    }

    /// Reads the head of the next record, if there is one.
    fn next(&mut self) -> anyhow::Result<Option<RecordHead>> {
        self.number += 1;
        let fields = read_fields(&mut self.from, &mut self.hasher)
            .with_context(|| format!("record {}", self.number))?;
        Ok(fields.map(RecordHead))
    }

    /// Passes the block that follows a head to `take`, in chunks, and checks its digest.
    fn block(
        &mut self,
        head: &RecordHead,
        take: impl FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.read_block(head, take).with_context(|| format!("record {}", self.number))
    }

    fn read_block(
        &mut self,
        head: &RecordHead,
        mut take: impl FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut left = head.length()?;
        // Checked before reading, because a few kilobytes of gzip can hold terabytes.
        ensure!(left <= MAX_FILE_BYTES, "is longer than {MAX_FILE_BYTES} bytes");
        let mut digest = Sha256Hasher::new();
        while left > 0 {
            let buffered = self.from.fill_buf()?;
            ensure!(!buffered.is_empty(), "ends within its block");
            let read = buffered.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let chunk = &buffered[..read];
            self.hasher.update(chunk);
            digest.update(chunk);
            take(chunk)?;
            self.from.consume(read);
            left -= read as u64;
        }
        let mut end = [0; 4];
        self.from.read_exact(&mut end).context("is truncated")?;
        ensure!(end == *b"\r\n\r\n", "does not end in two CRLFs");
        self.hasher.update(&end);
        let stated = head.field("WARC-Block-Digest").context("has no WARC-Block-Digest")?;
        let path = head.field(PATH_FIELD).unwrap_or_default();
        let found = format!("sha256:{}", BASE32.encode(&digest.finish().0));
        ensure!(stated == found, "{path}: does not match its digest");
        Ok(())
    }
}

/// The head of a record: its named fields.
struct RecordHead(Vec<(String, String)>);

impl RecordHead {
    fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.0.iter();
        fields.find(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    fn is_type(&self, kind: &str) -> bool {
        self.field("WARC-Type") == Some(kind)
    }

    fn length(&self) -> anyhow::Result<u64> {
        let length = self.field("Content-Length").context("has no Content-Length")?;
        length.parse().context("Content-Length")
    }

    /// Returns the path of the file that the record belongs to. Never leads out of the export.
    fn path(&self) -> anyhow::Result<Option<String>> {
        let Some(path) = self.field(PATH_FIELD) else {
            return Ok(None);
        };
        let mut parts = path.split('/');
        // Letters, digits and inner dots are all that exports use. Anything else may mean `..`, or a drive or device elsewhere.
        let are_plain = parts.all(|part| {
            let mut bytes = part.bytes();
            !part.starts_with('.') && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'.')
        });
        ensure!(are_plain && !path.is_empty(), "{PATH_FIELD}: {path:?} is not a path of an export");
        Ok(Some(path.to_owned()))
    }
}

/// Reads the fields of the next record, if there is one.
fn read_fields(
    from: &mut dyn BufRead,
    hasher: &mut Sha256Hasher,
) -> anyhow::Result<Option<Vec<(String, String)>>> {
    let mut line = Vec::new();
    let mut next = |from: &mut dyn BufRead| -> anyhow::Result<Option<String>> {
        line.clear();
        // Bounded like the number of fields, so that a head cannot fill the memory.
        from.take(1 << 20).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        hasher.update(&line);
        let text = line.strip_suffix(b"\r\n").context("a line does not end in CRLF")?;
        Ok(Some(str::from_utf8(text)?.to_owned()))
    };
    match next(from)?.as_deref() {
        None => return Ok(None),
        Some("WARC/1.1") => {}
        Some(other) => bail!("begins with {other:?} instead of \"WARC/1.1\""),
    }
    let mut fields = Vec::new();
    loop {
        let line = next(from)?.context("ends within its head")?;
        if line.is_empty() {
            break;
        }
        ensure!(fields.len() < MAX_FIELDS, "has too many fields");
        let (name, value) = line.split_once(": ").context("a field has no value")?;
        fields.push((name.to_owned(), value.to_owned()));
    }
    Ok(Some(fields))
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::super::record::WarcRecord;
    use super::super::write::WarcWriter;
    use super::*;
    use crate::manifest::ListedFile;

    fn listing(path: &str, bytes: u64) -> Manifest {
        let listed = ListedFile { path: path.to_owned(), sha256: Sha256Digest::of(b""), bytes };
        Manifest {
            evidence: 1,
            program: String::new(),
            made_at: "2026-01-01T00:00:00Z".to_owned(),
            wanted: serde_json::Value::Null,
            decisions: 0,
            logs: vec![listed],
            window: None,
            files: Vec::new(),
            missing: Vec::new(),
            records_sha256: None,
            key: String::new(),
        }
    }

    fn written(dir: &Path, manifest: &Manifest, lines: &[&[u8]]) -> std::path::PathBuf {
        let path = dir.join("file.warc.gz");
        let mut warc = WarcWriter::create(&path, &manifest.made_at).unwrap();
        for line in lines {
            warc.write_line("log/000001.jsonl", line, None).unwrap();
        }
        let line = serde_json::to_vec(manifest).unwrap();
        warc.finish(MANIFEST_PATH, &line).unwrap();
        path
    }

    #[test]
    fn listed_files_are_unpacked() {
        let dir = tempfile::tempdir().unwrap();
        let listed = listing("log/000001.jsonl", 6);
        let path = written(dir.path(), &listed, &[b"ab", b"cd"]);
        let out = dir.path().join("out");
        unpack(open(&path).unwrap(), &out, &listed).unwrap();
        assert_eq!(fs::read(out.join("log/000001.jsonl")).unwrap(), b"ab\ncd\n");
        let (line, _) = read_manifest(open(&path).unwrap()).unwrap();
        assert_eq!(line, serde_json::to_vec(&listed).unwrap());
    }

    #[test]
    fn unlisted_or_longer_file_is_refused() {
        for (listed, wrong) in [
            (listing("log/000001.jsonl", 5), "is longer than the manifest says"),
            (listing("log/000002.jsonl", 6), "is not in the manifest"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let path = written(dir.path(), &listed, &[b"ab", b"cd"]);
            let out = dir.path().join("out");
            let error = unpack(open(&path).unwrap(), &out, &listed).unwrap_err();
            assert!(format!("{error:#}").contains(wrong), "{error:#}");
            let file = fs::metadata(out.join("log/000001.jsonl"));
            assert!(file.map_or(0, |file| file.len()) <= 5);
        }
    }

    #[test]
    fn decompression_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bomb.warc.gz");
        let mut packed = GzEncoder::new(File::create(&path).unwrap(), Compression::best());
        let head =
            WarcRecord::for_line("bodies/0", "2026-01-01T00:00:00Z", b"").bytes("<urn:uuid:0>");
        let head = String::from_utf8(head).unwrap();
        let head =
            head.replace("Content-Length: 0", &format!("Content-Length: {}", MAX_FILE_BYTES + 1));
        packed.write_all(head.as_bytes()).unwrap();
        packed.write_all(&[0; 1 << 20]).unwrap();
        packed.finish().unwrap();
        let error = format!("{:#}", read_manifest(open(&path).unwrap()).unwrap_err());
        assert!(error.contains("is longer than"), "{error}");
        let error = open(dir.path()).err().unwrap().to_string();
        assert_eq!(error, "is not a regular file");
    }
}
