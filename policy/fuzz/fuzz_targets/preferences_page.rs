//! Only a reservation of 0 or a licence in a page permits.

#![no_main]

mod preferences;

use libfuzzer_sys::fuzz_target;
use preferences::{allows, holds};

fuzz_target!(|page: &str| {
    let is_allowed = allows(|state, query| state.add_page(query, page));
    let page = page.as_bytes();
    assert!(!is_allowed || holds(page, "tdm-reservation") || holds(page, "permits"));
});
