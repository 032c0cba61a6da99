//! A line of a log: whatever it contains, parsing it does not panic; an event is written as it was read, and a link is found again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wayleave_evidence::Sha256Digest;
use wayleave_evidence::chain::event::LogEvent;
use wayleave_evidence::chain::link::{link_line, previous_digest, split_signature};

fuzz_target!(|line: &[u8]| {
    let _ = previous_digest(line);
    let _ = split_signature(line);
    if let Some(head) = LogEvent::parse_head(line) {
        let _ = head.tree();
    }
    if let Some(event) = LogEvent::parse(line) {
        let written = event.to_json();
        let again = LogEvent::parse(&written);
        assert_eq!(again.map(|event| event.to_json()), Some(written));
    }
    if line.ends_with(b"}") {
        let before = Sha256Digest::of(line);
        assert_eq!(previous_digest(&link_line(line, before)), Some(before));
    }
});
