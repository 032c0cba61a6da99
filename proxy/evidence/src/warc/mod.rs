//! WARC files (ISO 28500:2017, WARC/1.1), as far as exports need them.
//!
//! ```text
//!  write       writes an export as records
//!  read        reads records back into files
//!    └─ record   one record
//! ```

mod read;
mod record;
mod write;

pub(crate) use self::read::unpack;
pub use self::read::{open, read_manifest};
pub(crate) use self::write::WarcWriter;
