//! Reads an export out of a WARC file, into files again.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use flate2::bufread::MultiGzDecoder;
use ring::digest::{Context as Hasher, SHA256};

use super::record::{self, PATH, digest};
use crate::cli::evidence::manifest::{self, Manifest};
use crate::observe::digest::Digest;

/// No record of ours is as long: a robots.txt is the longest, besides a manifest.
const LONGEST: u64 = 1 << 30;

/// Writes the files of the export in the WARC file at `path` below `dir`, and returns the digest of all records before the
/// manifest's. What is wrong with a record is named with its number.
///
/// # Errors
///
/// Returns an error if a record is not whole, or does not have its digest.
pub(crate) fn unpack(path: &Path, dir: &Path) -> anyhow::Result<Option<Digest>> {
    let file = BufReader::with_capacity(256 * 1024, File::open(path)?);
    let is_packed = path.extension().is_some_and(|kind| kind == "gz");
    let mut records: Box<dyn BufRead> = match is_packed {
        true => Box::new(BufReader::new(MultiGzDecoder::new(file))),
        false => Box::new(file),
    };
    let mut hasher = Hasher::new(&SHA256);
    let (mut open, mut number, mut records_sha256) = (None, 0, None);
    loop {
        number += 1;
        let before = hasher.clone();
        let read = record(&mut *records, &mut hasher);
        let Some(record) = read.with_context(|| format!("record {number}"))? else {
            return Ok(records_sha256);
        };
        let Some(path) = record.path()? else {
            continue;
        };
        if path == manifest::PATH {
            records_sha256 = Some(before.clone().finish().into());
            // Nothing signed tells of its head: it is what is made of its block.
            let mut made = before;
            made.update(&manifest_bytes(&record.block, number - 1)?);
            ensure!(
                made.finish().as_ref() == hasher.clone().finish().as_ref(),
                "record {number}: the head of the manifest was altered"
            );
            let rest = records.fill_buf().context("behind the manifest")?;
            ensure!(
                rest.is_empty(),
                "record {}: is behind the manifest",
                number + 1
            );
        }
        let file = match &mut open {
            Some((last, file)) if *last == path => file,
            open => {
                let to = dir.join(&path);
                fs::create_dir_all(to.parent().unwrap_or(dir))?;
                let file = OpenOptions::new().create(true).append(true).open(to)?;
                &mut open.insert((path.clone(), file)).1
            }
        };
        file.write_all(record.payload())?;
        if record.is("metadata") {
            file.write_all(b"\n")?;
        }
    }
}

/// The record of a manifest as it is written behind `before` others.
fn manifest_bytes(line: &[u8], before: u64) -> anyhow::Result<Vec<u8>> {
    let manifest: Manifest = serde_json::from_slice(line).context(manifest::PATH)?;
    let record = record::Record::line(manifest::PATH, &manifest.made_at, line);
    Ok(record.bytes(&record.id(before)))
}

struct Record {
    fields: Vec<(String, String)>,
    block: Vec<u8>,
}

impl Record {
    fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        let found = fields.find(|(field, _)| field.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    fn is(&self, kind: &str) -> bool {
        self.field("WARC-Type") == Some(kind)
    }

    /// Which file it belongs to; never one outside of an export.
    fn path(&self) -> anyhow::Result<Option<String>> {
        let Some(path) = self.field(PATH) else {
            return Ok(None);
        };
        let mut parts = path.split('/');
        let is_plain = |part: &str| {
            let mut bytes = part.bytes();
            !part.starts_with('.') && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'.')
        };
        ensure!(
            parts.all(is_plain) && !path.is_empty(),
            "{PATH}: {path:?} is not a path of an export"
        );
        Ok(Some(path.to_owned()))
    }

    /// The block, without the head of a response.
    fn payload(&self) -> &[u8] {
        let head = self
            .is("response")
            .then(|| memchr::memmem::find(&self.block, b"\r\n\r\n"));
        head.flatten()
            .map_or(&self.block, |end| &self.block[end + 4..])
    }
}

/// The next record, if there is one.
fn record(from: &mut dyn BufRead, hasher: &mut Hasher) -> anyhow::Result<Option<Record>> {
    let Some(fields) = head(from, hasher)? else {
        return Ok(None);
    };
    let mut record = Record {
        fields,
        block: Vec::new(),
    };
    let length = record
        .field("Content-Length")
        .context("has no Content-Length")?;
    let length: u64 = length.parse().context("Content-Length")?;
    ensure!(length <= LONGEST, "is longer than {LONGEST} bytes");
    from.take(length).read_to_end(&mut record.block)?;
    ensure!(record.block.len() as u64 == length, "ends before its block");
    hasher.update(&record.block);
    let mut end = [0; 4];
    from.read_exact(&mut end).context("does not end")?;
    ensure!(end == *b"\r\n\r\n", "does not end in two line ends");
    hasher.update(&end);
    let said = record
        .field("WARC-Block-Digest")
        .context("has no WARC-Block-Digest")?;
    let place = record.field(PATH).unwrap_or_default();
    ensure!(
        said == digest(&record.block),
        "{place}: does not have its digest"
    );
    Ok(Some(record))
}

/// The fields of the next record, if there is one.
fn head(
    from: &mut dyn BufRead,
    hasher: &mut Hasher,
) -> anyhow::Result<Option<Vec<(String, String)>>> {
    let mut line = Vec::new();
    let mut next = |from: &mut dyn BufRead| -> anyhow::Result<Option<String>> {
        line.clear();
        from.take(1 << 20).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        hasher.update(&line);
        let text = line
            .strip_suffix(b"\r\n")
            .context("a line does not end in CRLF")?;
        Ok(Some(str::from_utf8(text)?.to_owned()))
    };
    match next(from)?.as_deref() {
        None => return Ok(None),
        Some("WARC/1.1") => {}
        Some(other) => bail!("begins with {other:?} instead of \"WARC/1.1\""),
    }
    let mut fields = Vec::new();
    loop {
        let line = next(from)?.context("ends in its head")?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(": ").context("a field has no value")?;
        fields.push((name.to_owned(), value.to_owned()));
    }
    Ok(Some(fields))
}
