//! Only a 0 in tdmrep.json permits.

#![no_main]

mod preferences;

use libfuzzer_sys::fuzz_target;
use preferences::{allows, holds};
use wayleave_usage_preferences::TdmrepFile;

fuzz_target!(|file: &[u8]| {
    let is_allowed = allows(|state, query| state.add_tdmrep(query, &TdmrepFile::parse(file)));
    assert!(!is_allowed || holds(file, "0") && holds(file, "tdm-reservation"));
});
