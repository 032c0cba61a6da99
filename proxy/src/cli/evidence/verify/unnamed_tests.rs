//! The rows of the table in `docs/evidence.md` that say that the check names nothing: it cannot, and the table says who can.

use std::fs;
use std::path::Path;

use wayleave_clock::system_time;
use wayleave_decision_log::Journal;
use wayleave_evidence::chain::HashChain;
use wayleave_evidence::{HeadFiles, LogHead};
use wayleave_signing::SigningKey;

use super::alteration_tests::other_log;
use super::tampering_tests::{ProcessFate, TestLog, decision};

/// Copies the log and the state directory of one place to another, over the files there.
fn copy(from: &Path, to: &Path) {
    for part in ["log", "state"] {
        let _may_not_exist = fs::remove_dir_all(to.join(part));
        fs::create_dir(to.join(part)).unwrap();
        for entry in fs::read_dir(from.join(part)).unwrap().flatten() {
            fs::copy(entry.path(), to.join(part).join(entry.file_name())).unwrap();
        }
    }
}

/// Returns the newest head, as somebody else keeps it.
fn kept_head(place: &TestLog) -> LogHead {
    let options = place.options();
    let line = HeadFiles::for_log(&options.path, &options.state_dir).newest().unwrap();
    LogHead::parse(str::from_utf8(&line).unwrap()).unwrap()
}

#[test]
fn only_a_kept_head_shows_that_a_whole_log_was_set_back() {
    let mut place = TestLog::written(ProcessFate::Stopped);
    let earlier = tempfile::tempdir().unwrap();
    copy(place.dir.path(), earlier.path());
    (0..4).for_each(|_| place.write());
    place.stop();
    let kept = kept_head(&place);
    assert_eq!(kept.missing_from(&kept_head(&place)), 0);
    copy(earlier.path(), place.dir.path());
    assert_eq!(kept.missing_from(&kept_head(&place)), 4);
    assert_eq!(place.checked(ProcessFate::Rests), None);
}

#[test]
fn only_a_kept_head_shows_that_a_whole_log_is_another() {
    let other = TestLog::written(ProcessFate::Stopped);
    let place = other_log(&other, true);
    let kept = kept_head(&place);
    copy(other.dir.path(), place.dir.path());
    assert_ne!(kept.count.log, kept_head(&place).count.log);
    assert_eq!(place.checked(ProcessFate::Rests), None);
}

#[test]
fn only_a_kept_head_shows_that_a_log_and_its_key_are_gone() {
    let place = TestLog::written(ProcessFate::Stopped);
    let kept = kept_head(&place);
    for part in ["log", "state"] {
        fs::remove_dir_all(place.dir.path().join(part)).unwrap();
    }
    let mut place = TestLog { dir: place.dir, journal: None };
    place.write();
    assert_ne!(kept.count.log, kept_head(&place).count.log);
    place.journal = None::<Journal>;
    assert_eq!(place.checked(ProcessFate::Stopped), None);
}

#[test]
fn whoever_has_the_key_can_write_any_log() {
    let place = TestLog::written(ProcessFate::Stopped);
    let options = place.options();
    let key = SigningKey::read(&options.key).unwrap();
    let count = kept_head(&place).count;
    for file in place.files() {
        fs::remove_file(file).unwrap();
    }
    let mut chain = HashChain::new();
    let mut text = Vec::new();
    let forged = decision("019a00000000700080000000000000a1");
    for object in [chain.file_event(system_time()).to_json(), forged] {
        text.extend([chain.append(&object), vec![b'\n']].concat());
    }
    fs::write(&options.path, &text).unwrap();
    let head = wayleave_evidence::chain::TreeHead {
        bytes: Some(text.len() as u64),
        peaks: chain.tree.peaks().to_vec(),
        count: Some(wayleave_evidence::chain::LogCount {
            decisions: 1,
            earlier_decisions: 0,
            ..count
        }),
        holds: Some(0),
        stopped: true,
        ..chain.tree_head(key.pair())
    };
    let head = chain.sign_head(key.pair(), system_time(), head);
    assert!(HeadFiles::for_log(&options.path, &options.state_dir).save(&head).is_empty());
    assert_eq!(place.checked(ProcessFate::Rests), None);
}
