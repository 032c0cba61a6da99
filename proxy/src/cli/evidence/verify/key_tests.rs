//! The key of a log changes: the check names every change but the one that the old key signed.

use std::fs;

use wayleave_decision_log::{next_key_path, take_next_key};
use wayleave_evidence::holds::HoldFolder;
use wayleave_signing::SigningKey;

use super::tampering_tests::{ProcessFate, TestLog};

const BETWEEN_PROCESSES: [ProcessFate; 3] =
    [ProcessFate::Stopped, ProcessFate::Killed, ProcessFate::Rests];

/// Hands the log over to a new key. A process that does so may be killed before it puts the new key in the place of the old one.
fn hand_over(place: &TestLog, is_killed: bool) {
    let options = place.options();
    let key = options.key.clone();
    let next = next_key_path(&options.key);
    let old = fs::read(&key).unwrap();
    let created = SigningKey::create(&next).unwrap();
    take_next_key(&options).unwrap();
    if is_killed {
        fs::rename(&key, &next).unwrap();
        fs::write(&key, old).unwrap();
        take_next_key(&options).unwrap();
    }
    assert_eq!(SigningKey::read(&key).unwrap().public_base64(), created.public_base64());
    assert!(!next.exists());
}

#[test]
fn a_log_that_was_handed_over_is_not_named() {
    for process in BETWEEN_PROCESSES {
        for is_killed in [false, true] {
            let place = TestLog::written(process);
            hand_over(&place, is_killed);
            assert_eq!(place.checked(process), None, "{process:?}, {is_killed}");
        }
        let mut place = TestLog::written(process);
        for _ in 0..16 {
            hand_over(&place, false);
            place.write();
            place.write();
            place.journal = None;
        }
        assert_eq!(place.checked(ProcessFate::Stopped), None, "{process:?}");
    }
}

/// The process was killed after it had rotated the file, and ended it or not.
#[test]
fn a_rotated_file_that_was_handed_over_is_not_named() {
    for ends in [false, true] {
        let mut place = TestLog::written(ProcessFate::Killed);
        let options = place.options();
        let heads = fs::read(options.path.with_extension("jsonl.head")).unwrap();
        let rotated = options.path.with_file_name("decisions.20990101T000000.000Z.jsonl");
        fs::rename(&options.path, rotated).unwrap();
        if ends {
            place.write();
            place.journal = None;
            fs::remove_file(&options.path).unwrap();
            for head in super::tampering_tests::head_files(&place) {
                fs::write(head, &heads).unwrap();
            }
        }
        hand_over(&place, false);
        assert_eq!(place.checked(ProcessFate::Stopped), None, "{ends}");
    }
}

#[test]
fn holds_and_deletions_are_handed_over() {
    let mut place = TestLog::written(ProcessFate::Stopped);
    super::alteration_tests::add_hold(&place);
    let options = place.options();
    let folder = HoldFolder::in_state_dir(&options.state_dir);
    let old = SigningKey::read(&options.key).unwrap();
    folder.save_deletions(&options.path, [1].into(), old.pair()).unwrap();
    hand_over(&place, false);
    let public = SigningKey::read(&options.key).unwrap().public_base64();
    assert_eq!(folder.deletions(&options.path, &public).unwrap(), [1].into());
    place.write();
    assert!(folder.read_stored(&public).unwrap()[0].is_signed);
    place.journal = None;
    assert_eq!(place.checked(ProcessFate::Stopped), None);
}

#[test]
fn a_key_that_was_replaced_is_named() {
    for process in BETWEEN_PROCESSES {
        let place = TestLog::written(process);
        let key = place.options().key;
        fs::remove_file(&key).unwrap();
        SigningKey::create(&key).unwrap();
        let found = place.checked(process).unwrap_or_default();
        assert!(found.contains("altered"), "{process:?}: {found}");
    }
}

/// Somebody without the old key puts one of their own next to it, after the log's end.
#[test]
fn a_next_key_beside_a_lost_one_hands_over_nothing() {
    let place = TestLog::written(ProcessFate::Stopped);
    let key = place.options().key;
    fs::remove_file(&key).unwrap();
    SigningKey::create(&next_key_path(&key)).unwrap();
    take_next_key(&place.options()).unwrap();
    let found = place.checked(ProcessFate::Stopped).unwrap_or_default();
    assert!(found.contains("altered"), "{found}");
}
