//! Evidence: the decision log is a chain in which changes are detected, and any decision can be proved years later.

mod audit;
mod bodies;
mod chain;
pub mod export;
mod forged;
mod holds;
mod keeping;
mod key;
mod planted;
mod tampering;
mod week;

use crate::harness::{Wayleave, eventually};

pub fn sha256_hex(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Waits until the log has the decision about a URL. Where files are compressed, it waits for none.
fn wait_until_written(proxy: &Wayleave, url: &str) {
    let (dir, line_part) = (proxy.dir.path(), format!("{url}\""));
    eventually("the decision is written", || {
        let mut files = keeping::rotated(dir);
        let is_compressed = files.iter().any(|file| file.extension().is_some_and(|it| it == "gz"));
        files.push(dir.join("state/decisions.jsonl"));
        let has_line = |file| std::fs::read_to_string(file).is_ok_and(|it| it.contains(&line_part));
        is_compressed || files.iter().rev().any(has_line)
    });
}
