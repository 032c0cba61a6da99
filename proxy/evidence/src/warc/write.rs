//! Writes an export as a WARC file: lines of the log as `metadata`, exchanges that fetched documents as `request` and
//! `response`, configurations as `resource` records.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::record::{PATH_FIELD, WarcRecord, warc_digest};
use crate::chain::event::program_version;
use crate::digest::{Sha256Digest, Sha256Hasher};
use crate::exchange::{DocumentExchange, LineSubject};

/// A WARC file that is being written.
#[derive(Debug)]
pub(crate) struct WarcWriter {
    file: BufWriter<File>,
    is_packed: bool,
    made_at: String,
    hasher: Sha256Hasher,
    records: u64,
    /// The id, URL and date of the first response with each body.
    first: HashMap<Sha256Digest, (String, String, String)>,
}

impl WarcWriter {
    /// Begins a new file.
    pub(crate) fn create(path: &Path, made_at: &str) -> anyhow::Result<Self> {
        let is_packed = path.extension().is_some_and(|kind| kind == "gz");
        let mut warc = Self {
            file: BufWriter::new(File::create_new(path)?),
            is_packed,
            made_at: made_at.to_owned(),
            hasher: Sha256Hasher::new(),
            records: 0,
            first: HashMap::new(),
        };
        let info = format!(
            "software: {}\r\nformat: WARC File Format 1.1\r\nconformsTo: http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/\r\n",
            program_version()
        );
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        warc.write_record(&WarcRecord {
            kind: "warcinfo",
            date: made_at,
            content_type: "application/warc-fields",
            fields: vec![("WARC-Filename", name.into_owned())],
            block: info.as_bytes(),
        })?;
        Ok(warc)
    }

    /// Writes a line of the log.
    pub(crate) fn write_line(
        &mut self,
        path: &str,
        line: &[u8],
        about: Option<LineSubject<'_>>,
    ) -> anyhow::Result<()> {
        let made_at = self.made_at.clone();
        let date = about.as_ref().map_or(made_at.as_str(), |about| about.at);
        let mut record = WarcRecord::for_line(path, date, line);
        // The request target of a malformed request may not be a URI.
        if let Some(about) = &about
            && about.url.bytes().all(|byte| byte.is_ascii_graphic())
        {
            record.fields.push(("WARC-Target-URI", about.url.to_owned()));
        }
        self.write_record(&record).map(drop)
    }

    /// Writes the exchange that fetched a document. `path` is the document's path in the export, given with its first exchange
    /// only.
    pub(crate) fn write_exchange(
        &mut self,
        exchange: &DocumentExchange,
        body: Option<(Sha256Digest, &[u8])>,
        path: Option<&str>,
    ) -> anyhow::Result<()> {
        let url = exchange.url.clone();
        let mut fields = vec![
            ("WARC-Target-URI", url.clone()),
            ("WARC-Concurrent-To", self.write_request(exchange)?),
        ];
        let (sha256, bytes) = body.unzip();
        let bytes: &[u8] = bytes.unwrap_or_default();
        fields.push(("WARC-Payload-Digest", warc_digest(bytes)));
        let before = sha256.and_then(|sha256| self.first.get(&sha256).cloned());
        // RFC 9112 section 4 requires the space even without a reason phrase.
        let mut block = format!("HTTP/1.1 {} \r\n", exchange.status).into_bytes();
        // The same body again is a `revisit` record, which refers to the first response (WARC/1.1 section 6.7.2).
        if let Some((id, first_url, first_at)) = &before {
            fields.push(("WARC-Refers-To", id.clone()));
            fields.push(("WARC-Refers-To-Target-URI", first_url.clone()));
            fields.push(("WARC-Refers-To-Date", first_at.clone()));
            fields.push((
                "WARC-Profile",
                "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest".to_owned(),
            ));
            block.extend_from_slice(b"\r\n");
        } else {
            if exchange.is_cut {
                fields.push(("WARC-Truncated", "length".to_owned()));
            }
            fields.extend(path.map(|path| (PATH_FIELD, path.to_owned())));
            block.extend_from_slice(format!("Content-Length: {}\r\n\r\n", bytes.len()).as_bytes());
            block.extend_from_slice(bytes);
        }
        let id = self.write_record(&WarcRecord {
            kind: if before.is_some() { "revisit" } else { "response" },
            date: &exchange.at,
            content_type: "application/http;msgtype=response",
            fields,
            block: &block,
        })?;
        if let Some(sha256) = sha256 {
            let first = (id, url, exchange.at.clone());
            self.first.entry(sha256).or_insert(first);
        }
        Ok(())
    }

    /// Writes the request of an exchange and returns its id.
    fn write_request(&mut self, exchange: &DocumentExchange) -> anyhow::Result<String> {
        let (host, target) = split_authority(&exchange.url);
        // Decisions do not record which other fields were sent.
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        self.write_record(&WarcRecord {
            kind: "request",
            date: &exchange.at,
            content_type: "application/http;msgtype=request",
            fields: vec![("WARC-Target-URI", exchange.url.clone())],
            block: request.as_bytes(),
        })
    }

    /// Writes a file of the export.
    pub(crate) fn write_resource(&mut self, path: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let made_at = self.made_at.clone();
        let record = WarcRecord {
            kind: "resource",
            date: &made_at,
            content_type: "application/toml",
            fields: vec![
                (PATH_FIELD, path.to_owned()),
                ("WARC-Target-URI", format!("urn:wayleave:{path}")),
                ("WARC-Payload-Digest", warc_digest(bytes)),
            ],
            block: bytes,
        };
        self.write_record(&record).map(drop)
    }

    /// Returns the digest of all records so far.
    pub(crate) fn records_sha256(&self) -> Sha256Digest {
        self.hasher.clone().finish()
    }

    /// Writes the manifest as the last record.
    pub(crate) fn finish(mut self, path: &str, manifest: &[u8]) -> anyhow::Result<()> {
        self.write_line(path, manifest, None)?;
        Ok(self.file.flush()?)
    }

    /// Writes a record and returns its id.
    fn write_record(&mut self, record: &WarcRecord<'_>) -> anyhow::Result<String> {
        let id = record.id(self.records);
        let bytes = record.bytes(&id);
        self.records += 1;
        self.hasher.update(&bytes);
        if self.is_packed {
            // Each record is compressed by itself, so that readers can seek to any (ISO 28500 annex A).
            let mut packed = GzEncoder::new(&mut self.file, Compression::default());
            packed.write_all(&bytes)?;
            packed.finish()?;
        } else {
            self.file.write_all(&bytes)?;
        }
        Ok(id)
    }
}

/// Splits a URL into its authority and the request target.
fn split_authority(url: &str) -> (&str, &str) {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').map_or((rest, "/"), |at| (&rest[..at], &rest[at..]))
}
