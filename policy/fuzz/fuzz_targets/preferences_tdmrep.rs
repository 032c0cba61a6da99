//! Only a 0 in tdmrep.json permits.

#![no_main]

mod preferences;

use libfuzzer_sys::fuzz_target;
use preferences::{allows, holds};

fuzz_target!(|file: &[u8]| {
    let is_allowed = allows(|heard, asker| heard.hear_tdmrep(asker, file));
    assert!(!is_allowed || holds(file, "0") && holds(file, "tdm-reservation"));
});
