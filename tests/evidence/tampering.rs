//! Two hundred changes to an export: `verify` finds the place of each, and so does a reader that is written from the document
//! alone.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::export::{crawled, evidence, expect, said};
use crate::harness::tools::{clean, project, python};

/// An export that is changed, and where.
struct Tampering {
    name: String,
    /// Some of these is what the place is called.
    places: Vec<String>,
}

/// Whole exports and one of a single decision, and the key that signed them.
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
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).expect("it can be copied")),
        }
    }
}

/// The files of an export, with slashes, in order.
fn files(dir: &Path) -> Vec<String> {
    let mut found = vec!["manifest.json".to_owned()];
    for below in ["bodies", "configurations", "log"] {
        for entry in fs::read_dir(dir.join(below)).expect("it is there").flatten() {
            found.push(format!("{below}/{}", entry.file_name().to_string_lossy()));
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

/// Changes a copy of an export, in the way that `number` says.
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
            let again = all[at].clone();
            all.insert(at, again);
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

/// A byte of another file.
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

/// A file taken away, emptied or added.
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

fn by_document(out: &Path, key: &str) -> std::process::Output {
    let mut command = clean(python());
    command.arg(project().join("tests/clients/verify_evidence.py"));
    command.arg(out).arg(key).output().expect("it runs")
}

#[test]
fn two_hundred_tamperings_are_found_and_named_by_place() {
    let (dir, key) = exports();
    let mut kinds = std::collections::BTreeMap::new();
    for number in 0..200 {
        let part = number % 4 == 3 && number % 10 > 7;
        let from = dir.path().join(if part { "part" } else { "whole" });
        let changed: PathBuf = dir.path().join("changed");
        copy(&from, &changed);
        let Tampering { name, places } = tamper(&changed, number);
        let found = evidence(dir.path(), &["verify", "changed", "--key", &key]);
        let told = expect(&found, 2);
        assert!(places.iter().any(|place| told.contains(place)), "{name}: {places:?} in {told}");
        *kinds.entry(number % 10).or_insert(0) += 1;
        if number % 9 == 0 && !name.starts_with("a file added") {
            let found = by_document(&changed, &key);
            assert_eq!(found.status.code(), Some(1), "{name}: {}", said(&found));
        }
        fs::remove_dir_all(&changed).expect("it can be removed");
    }
    assert_eq!(kinds.len(), 10);
}

#[test]
fn who_knows_only_the_document_finds_it_sound() {
    let (dir, key) = exports();
    for out in ["whole", "part"] {
        let found = by_document(&dir.path().join(out), &key);
        let told = expect(&found, 0);
        assert!(told.starts_with("sound: "), "{told}");
    }
    let other = by_document(&dir.path().join("whole"), &"A".repeat(43));
    assert_ne!(other.status.code(), Some(0), "another key");
}

#[test]
fn warcio_opens_the_file_and_its_digests_agree() {
    let (dir, key) = exports();
    let out = "file.warc.gz";
    expect(&evidence(dir.path(), &["export", "--since", "1d", "--out", out]), 0);
    let file = dir.path().join(out);
    let mut check = clean(python());
    check.args(["-m", "warcio.cli", "check", "-v"]).arg(&file);
    let checked = check.output().expect("it runs");
    let told = expect(&checked, 0);
    assert!(told.contains("digest pass") && !told.contains("fail"), "{told}");
    let mut index = clean(python());
    index.args(["-m", "warcio.cli", "index", "-f", "warc-type,http:status"]);
    let told = expect(&index.arg(&file).output().expect("it runs"), 0);
    for kind in ["warcinfo", "metadata", "request", "response", "resource"] {
        assert!(told.contains(&format!("\"{kind}\"")), "{kind} in {told}");
    }
    let changed = dir.path().join("changed.warc");
    for number in 0..40 {
        let made = ["export", "--since", "1d", "--out", "changed.warc"];
        expect(&evidence(dir.path(), &made), 0);
        let mut bytes = fs::read(&changed).expect("it can be read");
        let manifest = memchr::memmem::rfind(&bytes, b"WARC/1.1").expect("the last record");
        // Anywhere, and in the head of the manifest, of which no signature tells.
        let at = match number % 2 {
            0 => (number * 15_485_863) % (bytes.len() - 4),
            _ => manifest + 9 * number,
        };
        bytes[at] ^= 4;
        fs::write(&changed, bytes).expect("it can be written");
        let found = evidence(dir.path(), &["verify", "changed.warc", "--key", &key]);
        let told = expect(&found, 2);
        // The changed byte may be the slash in the name of a file of the log.
        let is_placed =
            ["record ", "log/", "log+", "manifest.json:1"].iter().any(|it| told.contains(it));
        assert!(is_placed, "byte {at}: {told}");
        fs::remove_file(&changed).expect("it can be removed");
    }
}
