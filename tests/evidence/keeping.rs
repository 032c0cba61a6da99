//! Retention of the decision log: bounded, compressed, and readable by every command that reads the log.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::export::{evidence, expect, said};
use crate::harness::tools::{clean, project, python};
use crate::harness::wayleave::Settings;
use crate::harness::{Origin, Request, Wayleave};

/// Files of the log that were rotated away, the oldest first.
fn rotated(dir: &Path) -> Vec<PathBuf> {
    let state = fs::read_dir(dir.join("state")).expect("it can be listed");
    let paths = state.flatten().map(|entry| entry.path());
    let mut found: Vec<_> =
        paths.filter(|path| path.to_string_lossy().contains("/decisions.2")).collect();
    found.sort();
    found
}

/// A crawl that is refused, of so many requests.
fn crawl(proxy: &Wayleave, requests: usize) {
    let mut wire = proxy.connect();
    for n in 0..requests {
        let url = format!("http://shop.test/private/{n}");
        wire.send(Request::get(&url).agent("NewsBot/1").absolute_form());
        assert_eq!(wire.response().status, 403);
    }
}

fn small(settings: Settings) -> Settings {
    settings.set("log.decisions_max_size", "\"64KiB\"")
}

/// A log of some files, by two runs of the proxy.
fn kept(change: impl FnOnce(Settings) -> Settings) -> (TempDir, Settings) {
    let origin = Origin::start();
    let robots = "User-agent: *\nDisallow: /private\n";
    origin.site("shop.test").robots(robots);
    let proxy = Wayleave::start_with(&origin, |settings| change(small(settings)));
    crawl(&proxy, 400);
    let (dir, settings) = proxy.stop();
    let proxy = Wayleave::start_in(dir, settings);
    crawl(&proxy, 400);
    proxy.stop()
}

fn export(dir: &Path) -> String {
    let told = evidence(dir, &["export", "--since", "1d", "--out", "out"]);
    expect(&told, 0)
}

/// The verdict on an export by a reader that is written from the document alone.
fn read_by_others(dir: &Path) -> String {
    let key = expect(&evidence(dir, &["key"]), 0);
    let mut command = clean(python());
    command.arg(project().join("tests/clients/verify_evidence.py"));
    let output = command.arg(dir.join("out")).arg(key.trim()).output();
    said(&output.expect("it runs"))
}

#[test]
fn compressed_files_are_read_by_all_who_read_the_log() {
    let (dir, _) = kept(|settings| settings.set("log.decisions_compress", "true"));
    let files = rotated(dir.path());
    let is_compressed = |file: &&PathBuf| file.extension().is_some_and(|it| it == "gz");
    assert!(files.iter().filter(is_compressed).count() > 3, "{files:?}");
    let report = crate::harness::wayleave::command()
        .args(["report", "--since", "1d", "--config"])
        .arg(dir.path().join("config.toml"))
        .output();
    let report = said(&report.expect("it runs"));
    assert!(report.contains("800 refused"), "{report}");
    let told = export(dir.path());
    assert!(told.contains("800 decisions"), "{told}");
    let told = expect(&evidence(dir.path(), &["verify", "out"]), 0);
    assert!(told.contains("decisions  800: by robots.txt 800"), "{told}");
    assert!(read_by_others(dir.path()).starts_with("sound: "));
    let url = "http://shop.test/private/3";
    let told = expect(&evidence(dir.path(), &["ask", url, "--at", "0s"]), 1);
    assert!(told.contains("allowed     no: rule"), "{told}");
    let zcat = std::process::Command::new("zcat").arg(&files[0]).output();
    let text = zcat.expect("it runs").stdout;
    assert!(text.starts_with(b"{\"event\":\"file\",\"file\":1,"));
}

#[test]
fn the_log_stays_within_its_limit_and_records_deletions() {
    let (dir, _) = kept(|settings| settings.set("log.decisions_max_total", "\"256KiB\""));
    let mut files = rotated(dir.path());
    files.push(dir.path().join("state/decisions.jsonl"));
    let sizes = files.iter().map(|file| fs::metadata(file).expect("it is there").len());
    let total: u64 = sizes.sum();
    // A file is rotated once it has its size: the lines that are written at once, 256 KiB, may go beyond. All take 640 KiB.
    assert!(total < 512 << 10, "{total}");
    let log = files.iter().map(fs::read_to_string).map(Result::unwrap);
    let log: String = log.collect();
    assert!(log.contains("{\"event\":\"deleted\",\"file\":"), "{log}");
    assert!(!log.contains("\"event\":\"file\",\"file\":1,"), "{log}");
    export(dir.path());
    expect(&evidence(dir.path(), &["verify", "out"]), 0);
    assert!(read_by_others(dir.path()).starts_with("sound: "));
}

#[test]
fn only_recorded_deletions_explain_a_gap() {
    let (dir, settings) = kept(|settings| settings);
    // As if it had been written long ago.
    let old = rotated(dir.path())[1].clone();
    let file = fs::File::options().write(true).open(&old);
    let ago = SystemTime::now() - Duration::from_hours(365 * 24);
    let set = file.and_then(|file| file.set_modified(ago));
    set.expect("its time can be set");
    let proxy = Wayleave::start_in(dir, settings);
    crawl(&proxy, 1);
    let dir = proxy.stop().0;
    assert!(!old.exists(), "it was deleted by its age");
    export(dir.path());
    expect(&evidence(dir.path(), &["verify", "out"]), 0);
    assert!(read_by_others(dir.path()).starts_with("sound: "));
    fs::remove_dir_all(dir.path().join("out")).expect("it can be");
    fs::remove_file(&rotated(dir.path())[2]).expect("it can be");
    export(dir.path());
    let told = expect(&evidence(dir.path(), &["verify", "out"]), 2);
    assert!(told.contains("file 4 is missing before this one"), "{told}");
    let told = read_by_others(dir.path());
    assert!(told.contains("file 4 is missing"), "{told}");
}
