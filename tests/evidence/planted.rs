//! Files that somebody puts beside the log, as if they had been rotated: no command counts them, and each says so.

use std::fs;
use std::path::{Path, PathBuf};

use super::export::{evidence, expect};
use super::keeping::{rotated, write_log};
use super::sha256_hex;
use crate::harness::tools::both_streams;
use crate::harness::wayleave::command;
use crate::harness::{Origin, Wayleave};

/// Runs a command with the configuration of a stopped proxy. Returns all that it prints.
#[track_caller]
fn printed(dir: &Path, arguments: &[&str], status: i32) -> String {
    let mut command = command();
    command.args(arguments).arg("--config").arg(dir.join("config.toml"));
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {output:?}");
    both_streams(&output)
}

/// Returns the decisions of a file as they were before they were linked.
fn decisions(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).expect("text");
    let lines = text.lines().filter(|line| line.starts_with("{\"id\":"));
    let unlinked = lines.map(|line| line.split_once(",\"prev_sha256\":").expect("linked").0);
    unlinked.map(|line| format!("{line}}}")).collect()
}

/// Returns the text of a file of a chain, with this number and these decisions, that nobody signed.
fn unsigned_file(number: u64, decisions: &[String]) -> String {
    let begin = format!(
        "{{\"event\":\"file\",\"file\":{number},\"program\":\"x\",\"at\":\"2026-01-01T00:00:00Z\"}}"
    );
    let (mut text, mut last) = (String::new(), "0".repeat(64));
    for object in std::iter::once(&begin).chain(decisions) {
        let line = format!("{},\"prev_sha256\":\"{last}\"}}", &object[..object.len() - 1]);
        last = sha256_hex(line.as_bytes());
        text += &(line + "\n");
    }
    text
}

/// Plants a file of another log with its own key, one without a signature, and one that is no file of a chain. Returns their names.
fn plant(dir: &Path) -> [PathBuf; 3] {
    let (other, _) = write_log(|settings| settings);
    let name = |year: u32| dir.join(format!("state/decisions.{year}0101T000000.000Z.jsonl"));
    let planted = [2020, 2021, 2099].map(name);
    fs::copy(&rotated(other.path())[0], &planted[0]).expect("it can be copied");
    let forged = decisions(&rotated(other.path())[1]);
    fs::write(&planted[1], forged.join("\n") + "\n").expect("writable");
    fs::write(&planted[2], unsigned_file(999, &forged)).expect("writable");
    planted
}

#[test]
fn planted_files_count_nowhere_and_are_named() {
    let (dir, settings) = write_log(|settings| settings);
    expect(&evidence(dir.path(), &["hold", "list"]), 0);
    let planted = plant(dir.path());
    let before = planted.each_ref().map(|file| fs::read(file).expect("it is there"));
    let names = planted.each_ref().map(|file| file.file_name().expect("a name").to_string_lossy());
    let reasons = [
        "is a file of another log",
        "does not begin as a file of a log",
        "does not end in a signed head",
    ];
    let assert_named = |text: &str| {
        for (name, reason) in names.iter().zip(reasons) {
            assert!(text.contains(&format!("{name} is left out: it {reason}")), "{name}: {text}");
        }
    };
    let check_counts = |all: usize| {
        let report = printed(dir.path(), &["report", "--since", "1d"], 3);
        assert!(report.contains(&format!("{all} refused")), "{report}");
        assert_named(&report);
        let replayed = printed(dir.path(), &["replay", "--json"], 3);
        assert!(replayed.contains(&format!("\"decisions\": {all},")), "{replayed}");
        assert_named(&replayed);
        let held = ["hold", "add", "--host", "shop.test", "--reason", "a letter"];
        let held = expect(&evidence(dir.path(), &held), 0);
        assert!(held.contains(&format!(": {all} decisions in ")), "{held}");
        assert_named(&expect(&evidence(dir.path(), &["hold", "list"]), 1));
    };
    check_counts(800);
    let foreign = decisions(&planted[0]).remove(0);
    let id = foreign.split('"').nth(3).expect("an id");
    assert_named(&printed(dir.path(), &["decision", id], 3));
    // The next process reads all of the directory.
    let origin = Origin::start();
    let proxy = Wayleave::start_in(dir, settings);
    drop(origin);
    proxy.get_as("NewsBot/1", "gopher://shop.test/");
    let (dir, _) = proxy.stop();
    let report = printed(dir.path(), &["report", "--since", "1d"], 3);
    assert!(report.contains("801 refused"), "{report}");
    assert_named(&report);
    for (file, bytes) in planted.iter().zip(before) {
        assert!(fs::read(file).expect("it is there") == bytes, "{file:?} is as it was");
    }
    expect(&evidence(dir.path(), &["export", "--since", "1d", "--out", "out"]), 0);
    let verified = expect(&evidence(dir.path(), &["verify", "out"]), 2);
    for (name, reason) in names.iter().zip(reasons) {
        assert!(verified.contains(&format!("{name} {reason}")), "{name}: {verified}");
    }
}

/// A process that was killed right after it had rotated the file, and a file that pretends to be that one.
#[test]
fn a_restart_ends_its_own_file_and_no_other() {
    let (dir, settings) = write_log(|settings| settings);
    let state = dir.path().join("state");
    let current = state.join("decisions.jsonl");
    let number = rotated(dir.path()).len() as u64 + 1;
    let own = state.join("decisions.20300101T000000.000Z.jsonl");
    let forged = unsigned_file(number, &decisions(&rotated(dir.path())[0]));
    fs::rename(&current, &own).expect("it can be renamed");
    let planted = ["20290101", "20310101"]
        .map(|day| state.join(format!("decisions.{day}T000000.000Z.jsonl")));
    for file in &planted {
        fs::write(file, &forged).expect("writable");
    }
    let report = printed(dir.path(), &["report", "--since", "1d"], 3);
    assert!(report.contains("800 refused"), "{report}");
    let proxy = Wayleave::start_in(dir, settings);
    proxy.get_as("NewsBot/1", "gopher://shop.test/");
    let (dir, _) = proxy.stop();
    let text = fs::read_to_string(&own).expect("text");
    assert!(text.lines().next_back().expect("a line").starts_with("{\"event\":\"head\""), "{text}");
    for file in planted {
        assert_eq!(fs::read_to_string(&file).expect("text"), forged);
        fs::remove_file(file).expect("it can be deleted");
    }
    expect(&evidence(dir.path(), &["export", "--since", "1d", "--out", "out"]), 0);
    expect(&evidence(dir.path(), &["verify", "out"]), 0);
}

/// Without the documents, nobody can derive the decisions again; that is no alteration.
#[test]
fn documents_that_are_gone_are_named_as_missing() {
    let (dir, _) = write_log(|settings| settings);
    let state = dir.path().join("state");
    let verified = |out: &str, status: i32| {
        expect(&evidence(dir.path(), &["export", "--since", "1d", "--out", out]), 0);
        expect(&evidence(dir.path(), &["verify", out]), status)
    };
    verified("whole", 0);
    let store = state.join("robots.redb");
    fs::rename(&store, dir.path().join("aside")).expect("it is there");
    let printed = verified("no-store", 1);
    assert!(printed.contains("is missing") && !printed.contains("altered:"), "{printed}");
    fs::rename(dir.path().join("aside"), &store).expect("it is there");
    verified("again", 0);
    fs::remove_dir_all(state.join("configurations")).expect("it is there");
    let printed = verified("no-configuration", 1);
    assert!(printed.contains("the configuration ") && !printed.contains("altered:"), "{printed}");
}

/// A crawler of whom nothing is found may be in the part of the log that is gone.
#[test]
fn a_hold_on_a_log_with_gaps_is_not_refused_as_unknown() {
    let (dir, _) = write_log(|settings| settings);
    let hold = ["hold", "add", "--host", "a.test", "--reason", "x", "--crawler", "NewsBot"];
    assert!(expect(&evidence(dir.path(), &hold), 2).contains("no [[crawler]] has this name"));
    fs::remove_file(&rotated(dir.path())[1]).expect("it is there");
    let printed = expect(&evidence(dir.path(), &hold), 3);
    assert!(printed.contains("file 2 of the log is missing"), "{printed}");
}
