//! A record of a WARC file: named fields and a block.

use data_encoding::BASE32;
use uuid::Builder;

use crate::digest::Sha256Digest;

/// The field with the path of the file that a record, or its payload, belongs to.
pub(super) const PATH_FIELD: &str = "Wayleave-Path";

/// A record to be written.
pub(super) struct WarcRecord<'a> {
    pub(super) kind: &'static str,
    pub(super) date: &'a str,
    pub(super) content_type: &'static str,
    /// Further fields.
    pub(super) fields: Vec<(&'static str, String)>,
    pub(super) block: &'a [u8],
}

impl<'a> WarcRecord<'a> {
    /// Returns the record of one line of the file at `path`.
    pub(super) fn for_line(path: &str, date: &'a str, line: &'a [u8]) -> Self {
        Self {
            kind: "metadata",
            date,
            content_type: "application/json",
            fields: vec![(PATH_FIELD, path.to_owned())],
            block: line,
        }
    }

    /// Returns its id, which is derived from its contents and `number`, so that the same export has the same bytes.
    pub(super) fn id(&self, number: u64) -> String {
        let mut all = format!("{number} {} {}", self.kind, self.date).into_bytes();
        for (name, value) in &self.fields {
            all.extend_from_slice(format!("{name}: {value}\n").as_bytes());
        }
        all.extend_from_slice(&Sha256Digest::of(self.block).0);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&Sha256Digest::of(&all).0[..16]);
        // A hash has the form of a random UUID (version 4).
        let id = Builder::from_random_bytes(bytes).into_uuid();
        format!("<urn:uuid:{id}>")
    }

    /// Returns its bytes; `id` is its own id.
    pub(super) fn bytes(&self, id: &str) -> Vec<u8> {
        let mut head = format!(
            "WARC/1.1\r\nWARC-Type: {}\r\nWARC-Record-ID: {id}\r\nWARC-Date: {}\r\n",
            self.kind, self.date
        );
        for (name, value) in &self.fields {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!(
            "WARC-Block-Digest: {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n",
            warc_digest(self.block),
            self.content_type,
            self.block.len()
        );
        [head.as_bytes(), self.block, b"\r\n\r\n"].concat()
    }
}

/// Returns a SHA-256 in the form that WARC files use: base32 with a prefix.
pub(super) fn warc_digest(bytes: &[u8]) -> String {
    format!("sha256:{}", BASE32.encode(&Sha256Digest::of(bytes).0))
}
