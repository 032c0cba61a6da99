//! Evidence: the decision log is a chain in which changes are detected, and any decision can be proved years later.

mod audit;
mod chain;
pub mod export;
mod forged;
mod holds;
mod keeping;
mod tampering;
mod week;

pub fn sha256_hex(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
