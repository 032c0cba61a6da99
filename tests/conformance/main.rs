//! The target `conformance`, owned by proxy/conformance/Cargo.toml: rows for `wayleave-conformance`, and their answers.

mod documented;
mod of_use;
mod rows;

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// The tool under test.
const BINARY: &str = env!("CARGO_BIN_EXE_wayleave-conformance");

/// Runs the tool in an empty directory with `input` on its standard input.
fn run(arguments: &[&str], input: &[u8]) -> Output {
    let dir = TempDir::new().unwrap();
    let mut child = Command::new(BINARY)
        .args(arguments)
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A program that never reads its input may end before all of it is written.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

/// Returns the answers that the tool printed.
fn answers(output: &Output) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).unwrap();
    std::str::from_utf8(&output.stdout).unwrap().lines().map(parse).collect()
}
