//! WARC files (ISO 28500:2017, WARC/1.1): as much of them as an export needs.
//!
//! ```text
//!  write     an export as records
//!  read      the records of an export, as files again
//!    └─ record   one of them
//! ```

pub(super) mod read;
mod record;
mod write;

pub(super) use self::write::Warc;
