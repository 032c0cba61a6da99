//! `wayleave evidence rotate-key`: the log gets another key, and stays evidence with the keys that it had.

use std::fs;

use super::export::{self, evidence, expect};
use super::keeping::{rotated, write_log};
use crate::harness::tools::both_streams;
use crate::harness::wayleave::command;
use crate::harness::{Origin, Wayleave};

#[test]
fn a_log_is_handed_over_to_the_next_key() {
    let (dir, settings) = write_log(|settings| settings);
    let key = || expect(&evidence(dir.path(), &["key"]), 0).trim().to_owned();
    let old = key();
    let printed = expect(&evidence(dir.path(), &["rotate-key"]), 0);
    let new = printed.lines().next().expect("a line").to_owned();
    assert_eq!(key(), old, "the proxy has not started yet");
    let twice = expect(&evidence(dir.path(), &["rotate-key"]), 2);
    assert!(twice.contains("evidence.key.next already exists"), "{twice}");
    // Exports until then have the old key.
    expect(&evidence(dir.path(), &["export", "--since", "1d", "--out", "before"]), 0);
    expect(&evidence(dir.path(), &["verify", "before", "--key", &old]), 0);
    let origin = Origin::start();
    let proxy = Wayleave::start_in(dir, settings);
    drop(origin);
    assert_eq!(proxy.admin_get("/v1/evidence").json()["key"]["x"], *new);
    proxy.get_as("NewsBot/1", "gopher://shop.test/");
    let (dir, _) = proxy.stop();
    assert!(!dir.path().join("state/evidence.key.next").exists());
    expect(&evidence(dir.path(), &["export", "--since", "1d", "--out", "out"]), 0);
    for trusted in [&new, &old] {
        let printed = expect(&evidence(dir.path(), &["verify", "out", "--key", trusted]), 0);
        assert!(printed.contains("decisions  801: "), "{printed}");
        let printed =
            both_streams(&export::verify_by_document(&dir.path().join("out"), trusted, &[]));
        assert!(printed.starts_with("sound: "), "{printed}");
    }
    let mut report = command();
    report.args(["report", "--config"]).arg(dir.path().join("config.toml"));
    let report = both_streams(&report.output().expect("it runs"));
    assert!(report.contains("801 refused") && !report.contains("left out"), "{report}");
    assert!(rotated(dir.path()).len() > 3);
}

#[test]
fn a_key_that_was_replaced_by_hand_is_named() {
    let (dir, settings) = write_log(|settings| settings);
    fs::remove_file(dir.path().join("state/evidence.key")).expect("it can be deleted");
    let proxy = Wayleave::start_in(dir, settings);
    proxy.get_as("NewsBot/1", "gopher://shop.test/");
    let (dir, _) = proxy.stop();
    expect(&evidence(dir.path(), &["export", "--since", "1d", "--out", "out"]), 0);
    let printed = expect(&evidence(dir.path(), &["verify", "out"]), 2);
    assert!(printed.contains("is signed by a different key than the export"), "{printed}");
    let key = expect(&evidence(dir.path(), &["key"]), 0);
    let out = dir.path().join("out");
    let printed = both_streams(&export::verify_by_document(&out, key.trim(), &[]));
    assert!(!printed.starts_with("sound: "), "{printed}");
}
