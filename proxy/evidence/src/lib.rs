//! The signed decision log of wayleave, exports of it as evidence, and their verification.
//!
//! A log is a hash chain: each line carries the SHA-256 of the line before it, and each file ends in a head that signs all of
//! its lines. An export holds the selected lines, digests that stand in for the others, and everything that the decisions rest
//! on. `proxy/evidence/README.md` describes both formats for those who check them without this program.
//!
//! ```text
//!  verify        checks an export
//!  export        writes one: a folder or a WARC file
//!    ├─ select     the decisions to export
//!    └─ signed_log a log's files, up to the last signed line
//!  warc          WARC files, as far as exports need them
//!  exchange      the members about the exchanges behind decisions
//!  manifest      the signed list of an export's files
//!  stand_ins     digests in place of lines that are left out
//!  head_files    the files with the newest head of a log
//!  log_head      a head as others keep it
//!  holds         evidence that must outlive every retention
//!  holds_in_effect  the holds that count, for others than the process that writes the log
//!  recorded_holds  the holds in effect, as the log records them
//!  log_files     the signed facts about the files in a log's directory
//!  files         a log's files and their names
//!  chain         lines, links, the Merkle tree and heads
//!  clock_steps   judges whether a clock may be believed
//!  regular_file  opens files, and nothing else
//!  digest        SHA-256
//! ```
//!
//! The crate neither reads clocks nor opens network connections. It knows nothing of the meaning of decisions: a caller that
//! verifies an export passes a function that derives a decision again. Begin reading at [`chain`].

pub mod archive;
pub mod chain;
pub mod clock_steps;
mod digest;
mod exchange;
pub mod export;
pub mod files;
mod head_files;
pub mod holds;
pub mod holds_in_effect;
pub mod log_files;
mod log_head;
mod manifest;
pub mod recorded_holds;
pub mod regular_file;
pub mod select;
mod signed_log;
mod stand_ins;
pub mod verify;
pub mod warc;

pub use self::head_files::HeadFiles;
pub use self::log_head::LogHead;
pub use self::manifest::{ListedFile, LogWindow, MANIFEST_PATH, Manifest};
pub use self::signed_log::{SignedLog, SignedLogFile};
pub use wayleave_notation::{Sha256Digest, Sha256Hasher};
