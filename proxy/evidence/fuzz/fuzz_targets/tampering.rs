//! Without the key, no bytes of a log file can be replaced by others unnoticed.

#![no_main]

use std::sync::LazyLock;
use std::time::SystemTime;

use libfuzzer_sys::fuzz_target;
use ring::signature::Ed25519KeyPair;
use wayleave_evidence::chain::HashChain;
use wayleave_evidence::chain::head::public_key;
use wayleave_evidence::verify::{ExportFindings, LogCheck, VerifyResult};

/// A file of three decisions with its final head, and the key that signed it.
static AUTHENTIC: LazyLock<(Vec<u8>, String)> = LazyLock::new(|| {
    let key = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("32 bytes are a seed");
    let at = SystemTime::UNIX_EPOCH;
    let mut chain = HashChain::new();
    let mut lines = vec![chain.append(&chain.file_event(at).to_json())];
    for decision in [br#"{"id":"1"}"#, br#"{"id":"2"}"#, br#"{"id":"3"}"#] {
        lines.push(chain.append(decision));
    }
    lines.push(chain.final_head(&key, at));
    (lines.join(&b'\n'), public_key(&key))
});

fn is_authentic(file: &[u8], key: &String) -> bool {
    let keys = std::slice::from_ref(key);
    let mut findings = ExportFindings::default();
    let mut check = LogCheck::begin("log/000001.jsonl", keys, None);
    for (number, line) in (1..).zip(file.split(|byte| *byte == b'\n')) {
        check.check_line(number, line, &mut findings);
    }
    check.finish(&mut findings).check_gaps(None, keys, &mut findings);
    findings.result() == VerifyResult::Derived
}

// The first four bytes choose a range of the file, the rest replaces it.
fuzz_target!(|input: &[u8]| {
    let (file, key) = &*AUTHENTIC;
    let Some((range, replacement)) = input.split_at_checked(4) else { return };
    let start = usize::from(u16::from_le_bytes([range[0], range[1]])) % (file.len() + 1);
    let length = usize::from(u16::from_le_bytes([range[2], range[3]])) % (file.len() - start + 1);
    let changed = [&file[..start], replacement, &file[start + length..]].concat();
    assert_eq!(is_authentic(&changed, key), changed == *file);
});
