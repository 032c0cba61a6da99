//! Finds out whether a head that was published is in the log. A log that was restored from a backup, or begun again, lacks it.

use std::io;
use std::path::Path;

use wayleave_evidence::files::{decompressed, read_lines};
use wayleave_evidence::log_files::LogFiles;
use wayleave_evidence::{LogHead, Sha256Digest, regular_file};

use super::resume::ChainState;

/// Returns whether the log at `path` with these rotated files, which has reached `state`, has the lines of a head. Retention may
/// have deleted their file: then the log has them if it is longer.
pub(super) fn is_in_log(
    published: &LogHead,
    path: &Path,
    rotated: &LogFiles,
    state: &ChainState,
) -> bool {
    let file = published.head.file;
    let lines = published.head.lines;
    if (state.chain.file, state.chain.tree.lines()) < (file, lines) {
        return false;
    }
    let rotated = rotated.numbered(file).map(|found| &*found.path);
    let found = rotated.or((state.chain.file == file).then_some(path));
    // A file that cannot be read says nothing against the log.
    lines == 0 || found.is_none_or(|found| has_line(found, published).unwrap_or(true))
}

/// Returns whether the last line of a head is at its place in a file.
fn has_line(path: &Path, published: &LogHead) -> io::Result<bool> {
    let mut number = 0;
    let mut is_there = false;
    read_lines(decompressed(&regular_file::open(path)?), |line| {
        number += 1;
        is_there = number == published.head.lines && Sha256Digest::of(line) == published.last;
        number < published.head.lines
    })?;
    Ok(is_there)
}
