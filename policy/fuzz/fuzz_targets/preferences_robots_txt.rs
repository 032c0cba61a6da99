//! Only a readable yes in robots.txt permits.

#![no_main]

mod preferences;

use libfuzzer_sys::fuzz_target;
use preferences::{allows, holds};
use wayleave_robots_txt::RobotsTxt;

fuzz_target!(|file: &[u8]| {
    let robots = RobotsTxt::parse(file);
    let is_allowed = allows(|state, query| {
        state.add_robots_txt(query, &robots);
    });
    assert!(
        !is_allowed || holds(file, "=y") || holds(file, "yes") || holds(file, "allowaitraining")
    );
});
