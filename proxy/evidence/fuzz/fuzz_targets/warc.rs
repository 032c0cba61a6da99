//! A WARC file from anybody: reading its manifest neither panics nor takes more memory than the file and the bounds allow.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    let _ = wayleave_evidence::warc::read_manifest(file);
});
