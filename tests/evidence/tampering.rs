//! Two hundred changes to an export: `verify` finds the place of each, and the verifier that is written from the document alone
//! finds them too.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::export::{crawled, evidence, expect, verify_by_document};
use crate::harness::tools::{both_streams, clean, python};

/// A change to an export.
struct Tampering {
    name: String,
    /// The places that a report may name.
    places: Vec<String>,
}

/// Exports a whole log, and a single decision. Returns the directory, and the public key.
fn exports() -> (TempDir, String) {
    let dir = crawled();
    expect(&evidence(dir.path(), &["export", "--since", "1d", "--out", "whole"]), 0);
    let log = fs::read_to_string(dir.path().join("state/decisions.jsonl")).expect("a log");
    let line = crate::harness::decisions(&log).nth(40).expect("it is long");
    let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
    let id = line["id"].as_str().expect("an id");
    expect(&evidence(dir.path(), &["export", "--id", id, "--out", "part"]), 0);
    let key = expect(&evidence(dir.path(), &["key"]), 0);
    (dir, key.trim().to_owned())
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("it can be made");
    for entry in fs::read_dir(from).expect("it can be listed").flatten() {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("it can be copied");
        }
    }
}

/// Returns the paths of the files of an export, in order.
fn files(dir: &Path) -> Vec<String> {
    let mut found = vec!["manifest.json".to_owned()];
    for folder in ["bodies", "configurations", "log"] {
        for entry in fs::read_dir(dir.join(folder)).expect("it is there").flatten() {
            found.push(format!("{folder}/{}", entry.file_name().to_string_lossy()));
        }
    }
    found.sort();
    found
}

fn lines(file: &Path) -> Vec<Vec<u8>> {
    let text = fs::read(file).expect("it can be read");
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    lines.map(<[u8]>::to_vec).collect()
}

/// Changes a copy of an export, in the way that `number` selects.
fn tamper(dir: &Path, number: usize) -> Tampering {
    let log = "log/000001.jsonl";
    let file = dir.join(log);
    let mut all = lines(&file);
    let at = (number * 7919) % (all.len() - 3) + 1;
    let near = |at: usize| (at.max(1) - 1..=at + 2).map(|line| format!("{log}:{line}:")).collect();
    let anywhere = || vec![log.to_owned()];
    let (name, places) = match number % 10 {
        0 | 1 => {
            let byte = (number * 104_729) % (all[at].len() - 1);
            all[at][byte] ^= 1 << (number % 5);
            ("a byte of a line", near(at + 1))
        }
        2 => {
            all.remove(at);
            ("a line removed", near(at))
        }
        3 => {
            all.swap(at, at + 1);
            ("two lines swapped", near(at + 1))
        }
        4 => {
            let copy = all[at].clone();
            all.insert(at, copy);
            ("a line twice", near(at + 1))
        }
        5 => {
            all.truncate(at + 1);
            ("the end cut off", anywhere())
        }
        6 => {
            let text = String::from_utf8(all[at].clone()).expect("text");
            let other = text.replace("\"refused\"", "\"forwarded\"").replace("example", "sample");
            let other = other.replacen("{\"", "{ \"", usize::from(other == text));
            all[at] = other.into_bytes();
            ("a word of a line", near(at + 1))
        }
        7 => {
            let last = all.len() - 1;
            let byte = (number * 31) % (all[last].len() - 1);
            all[last][byte] ^= 1;
            ("a byte of the head", near(last + 1))
        }
        8 => return tamper_file(dir, number),
        _ => return tamper_folder(dir, number),
    };
    fs::write(&file, all.concat()).expect("it can be written");
    Tampering { name: format!("{name}, {number}"), places }
}

/// Changes a byte of a file other than the log.
fn tamper_file(dir: &Path, number: usize) -> Tampering {
    let others = files(dir);
    let others: Vec<_> = others.iter().filter(|path| !path.starts_with("log/")).collect();
    let path = others[number / 10 % others.len()];
    let mut bytes = fs::read(dir.join(path)).expect("it can be read");
    let at = (number * 613) % (bytes.len() - 1);
    bytes[at] ^= 2;
    fs::write(dir.join(path), bytes).expect("it can be written");
    Tampering { name: format!("a byte of {path}, {number}"), places: vec![path.clone()] }
}

/// Removes, empties or adds a file.
fn tamper_folder(dir: &Path, number: usize) -> Tampering {
    let all = files(dir);
    let path = &all[number / 10 % all.len()];
    let places = vec![path.clone()];
    match number / 10 % 3 {
        0 => fs::remove_file(dir.join(path)).expect("it can be removed"),
        1 => fs::write(dir.join(path), "").expect("it can be written"),
        _ => {
            let path = "bodies/0000";
            fs::write(dir.join(path), "User-agent: *\n").expect("it can be written");
            return Tampering {
                name: format!("a file added, {number}"),
                places: vec![path.to_owned()],
            };
        }
    }
    Tampering { name: format!("{path} gone or empty, {number}"), places }
}

#[test]
fn two_hundred_changes_are_found_and_located() {
    let (dir, key) = exports();
    let mut kinds = std::collections::BTreeMap::new();
    for number in 0..200 {
        let part = number % 4 == 3 && number % 10 > 7;
        let from = dir.path().join(if part { "part" } else { "whole" });
        let changed: PathBuf = dir.path().join("changed");
        copy(&from, &changed);
        let Tampering { name, places } = tamper(&changed, number);
        let found = evidence(dir.path(), &["verify", "changed", "--key", &key]);
        let printed = expect(&found, 2);
        assert!(
            places.iter().any(|place| printed.contains(place)),
            "{name}: {places:?} in {printed}"
        );
        *kinds.entry(number % 10).or_insert(0) += 1;
        if number % 9 == 0 && !name.starts_with("a file added") {
            let found = verify_by_document(&changed, &key, &[]);
            assert_eq!(found.status.code(), Some(1), "{name}: {}", both_streams(&found));
        }
        fs::remove_dir_all(&changed).expect("it can be removed");
    }
    assert_eq!(kinds.len(), 10);
}

#[test]
fn an_export_conforms_to_the_document() {
    let (dir, key) = exports();
    for out in ["whole", "part"] {
        let found = verify_by_document(&dir.path().join(out), &key, &[]);
        let printed = expect(&found, 0);
        assert!(printed.starts_with("sound: "), "{printed}");
    }
    let other = verify_by_document(&dir.path().join("whole"), &"A".repeat(43), &[]);
    assert_ne!(other.status.code(), Some(0), "another key");
}

#[test]
fn warcio_reads_the_file_and_its_digests_match() {
    let (dir, key) = exports();
    let out = "file.warc.gz";
    expect(&evidence(dir.path(), &["export", "--since", "1d", "--out", out]), 0);
    let file = dir.path().join(out);
    let mut check = clean(python());
    check.args(["-m", "warcio.cli", "check", "-v"]).arg(&file);
    let checked = check.output().expect("it runs");
    let printed = expect(&checked, 0);
    assert!(printed.contains("digest pass") && !printed.contains("fail"), "{printed}");
    let mut index = clean(python());
    index.args(["-m", "warcio.cli", "index", "-f", "warc-type,http:status"]);
    let printed = expect(&index.arg(&file).output().expect("it runs"), 0);
    for kind in ["warcinfo", "metadata", "request", "response", "resource"] {
        assert!(printed.contains(&format!("\"{kind}\"")), "{kind} in {printed}");
    }
    let changed = dir.path().join("changed.warc");
    for number in 0..40 {
        let made = ["export", "--since", "1d", "--out", "changed.warc"];
        expect(&evidence(dir.path(), &made), 0);
        let mut bytes = fs::read(&changed).expect("it can be read");
        let manifest = memchr::memmem::rfind(&bytes, b"WARC/1.1").expect("the last record");
        // Anywhere, and in the record header of the manifest, which no signature covers.
        let at = match number % 2 {
            0 => (number * 15_485_863) % (bytes.len() - 4),
            _ => manifest + 9 * number,
        };
        bytes[at] ^= 4;
        fs::write(&changed, bytes).expect("it can be written");
        let found = evidence(dir.path(), &["verify", "changed.warc", "--key", &key]);
        let printed = expect(&found, 2);
        // The changed byte may be the slash in the name of a file of the log.
        let is_placed = ["record ", "log/", "log+", "manifest.json:1"]
            .iter()
            .any(|place| printed.contains(place));
        assert!(is_placed, "byte {at}: {printed}");
        fs::remove_file(&changed).expect("it can be removed");
    }
}
