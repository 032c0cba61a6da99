//! Retention of the decision log: bounded, compressed, and readable by every command that reads the log.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::export::{self, evidence, expect};
use super::wait_until_written;
use crate::harness::tools::both_streams;
use crate::harness::wayleave::Settings;
use crate::harness::{Origin, Request, Wayleave};

/// Returns the rotated files of the log, the oldest first.
pub(super) fn rotated(dir: &Path) -> Vec<PathBuf> {
    let state = fs::read_dir(dir.join("state")).expect("it can be listed");
    let paths = state.flatten().map(|entry| entry.path());
    let mut found: Vec<_> =
        paths.filter(|path| path.to_string_lossy().contains("/decisions.2")).collect();
    found.sort();
    found
}

/// Sends so many requests that are refused. What is written at once is one file, so every 50 wait for those before.
fn crawl(proxy: &Wayleave, requests: usize) {
    let mut wire = proxy.connect();
    for n in 0..requests {
        let url = format!("http://shop.test/private/{n}");
        wire.send(Request::get(&url).agent("NewsBot/1").absolute_form());
        assert_eq!(wire.response().status, 403);
        if n % 50 == 49 {
            wait_until_written(proxy, &url);
        }
    }
}

fn small(settings: Settings) -> Settings {
    settings.set("log.decisions_max_size", "\"64KiB\"")
}

/// Writes a log of several files in two runs of the proxy.
pub(super) fn write_log(change: impl FnOnce(Settings) -> Settings) -> (TempDir, Settings) {
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

fn write_export(dir: &Path) -> String {
    expect(&evidence(dir, &["export", "--since", "1d", "--out", "out"]), 0)
}

/// Returns what the verifier prints that is written from the document alone.
fn verify_by_document(dir: &Path) -> String {
    let key = expect(&evidence(dir, &["key"]), 0);
    both_streams(&export::verify_by_document(&dir.join("out"), &key, &[]))
}

#[test]
fn every_command_reads_compressed_files_of_the_log() {
    let (dir, _) = write_log(|settings| settings.set("log.decisions_compress", "true"));
    let files = rotated(dir.path());
    let is_compressed =
        |file: &&PathBuf| file.extension().is_some_and(|extension| extension == "gz");
    assert!(files.iter().filter(is_compressed).count() > 3, "{files:?}");
    let report = crate::harness::wayleave::command()
        .args(["report", "--since", "1d", "--config"])
        .arg(dir.path().join("config.toml"))
        .output();
    let report = both_streams(&report.expect("it runs"));
    assert!(report.contains("800 refused"), "{report}");
    let printed = write_export(dir.path());
    assert!(printed.contains("800 decisions"), "{printed}");
    let printed = expect(&evidence(dir.path(), &["verify", "out"]), 0);
    assert!(printed.contains("decisions  800: by robots.txt 800"), "{printed}");
    assert!(verify_by_document(dir.path()).starts_with("sound: "));
    let url = "http://shop.test/private/3";
    let printed = expect(&evidence(dir.path(), &["ask", url, "--at", "0s"]), 1);
    assert!(printed.contains("allowed     no: rule"), "{printed}");
    let zcat = std::process::Command::new("zcat").arg(&files[0]).output();
    let text = zcat.expect("it runs").stdout;
    assert!(text.starts_with(b"{\"event\":\"file\",\"file\":1,"));
}

#[test]
fn the_log_is_bounded_and_records_deletions() {
    let (dir, _) = write_log(|settings| settings.set("log.decisions_max_total", "\"256KiB\""));
    let mut files = rotated(dir.path());
    files.push(dir.path().join("state/decisions.jsonl"));
    let sizes = files.iter().map(|file| fs::metadata(file).expect("it is there").len());
    let total: u64 = sizes.sum();
    // A file may exceed its size by the lines that are written at once, 256 KiB. All lines take 640 KiB.
    assert!(total < 512 << 10, "{total}");
    let log = files.iter().map(fs::read_to_string).map(Result::unwrap);
    let log: String = log.collect();
    assert!(log.contains("{\"event\":\"deleted\",\"file\":"), "{log}");
    assert!(!log.contains("\"event\":\"file\",\"file\":1,"), "{log}");
    write_export(dir.path());
    expect(&evidence(dir.path(), &["verify", "out"]), 0);
    assert!(verify_by_document(dir.path()).starts_with("sound: "));
}

#[test]
fn only_recorded_deletions_explain_a_gap() {
    let (dir, settings) = write_log(|settings| settings);
    // It is as old as its last line, whatever its time of modification says.
    let touched = rotated(dir.path())[1].clone();
    let file = fs::File::options().write(true).open(&touched);
    let ago = SystemTime::now() - Duration::from_hours(365 * 24);
    file.and_then(|file| file.set_modified(ago)).expect("its time can be set");
    let (dir, settings) = crawl_once(dir, settings);
    assert!(touched.exists(), "it is not old");
    let first = rotated(dir.path())[0].clone();
    // Room for two of the files at least, of which each may exceed its 64 KiB by 50 lines.
    let settings = settings.set("log.decisions_max_total", "\"384KiB\"");
    let (dir, _) = crawl_once(dir, settings);
    assert!(!first.exists(), "it was deleted to make room");
    write_export(dir.path());
    expect(&evidence(dir.path(), &["verify", "out"]), 0);
    assert!(verify_by_document(dir.path()).starts_with("sound: "));
    let ask = ["ask", "http://shop.test/nothing", "--at", "0s"];
    let printed = expect(&evidence(dir.path(), &ask), 2);
    assert!(printed.contains("retention deleted its file"), "{printed}");
    fs::remove_dir_all(dir.path().join("out")).expect("it can be");
    fs::remove_file(&rotated(dir.path())[1]).expect("it can be");
    write_export(dir.path());
    let printed = expect(&evidence(dir.path(), &["verify", "out"]), 2);
    assert!(printed.contains(" is missing before this one"), "{printed}");
    let printed = verify_by_document(dir.path());
    assert!(printed.contains(" is missing"), "{printed}");
}

/// Starts a proxy again for one request, and stops it.
fn crawl_once(dir: TempDir, settings: Settings) -> (TempDir, Settings) {
    let proxy = Wayleave::start_in(dir, settings);
    crawl(&proxy, 1);
    proxy.stop()
}
