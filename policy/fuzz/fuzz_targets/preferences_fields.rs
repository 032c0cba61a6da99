//! Only a readable yes in the fields of an answer permits.

#![no_main]

mod preferences;

use libfuzzer_sys::fuzz_target;
use preferences::{allows, holds};

fuzz_target!(|head: &str| {
    let fields = head.lines().filter_map(|line| line.split_once(": "));
    let is_allowed = allows(|state, query| state.add_response_head(query, 200, &fields.clone()));
    let head = head.as_bytes();
    assert!(
        !is_allowed || holds(head, "=y") || holds(head, "yes") || holds(head, "tdm-reservation: ")
    );
});
