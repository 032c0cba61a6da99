//! Only a licence that permits a usage permits.

#![no_main]

mod preferences;

use libfuzzer_sys::fuzz_target;
use preferences::{allows, holds};
use wayleave_robots_txt::RobotsTxt;
use wayleave_usage_preferences::RslLicence;

fuzz_target!(|licence: &str| {
    const URL: &str = "https://site.test/license.xml";
    let robots = RobotsTxt::parse(format!("License: {URL}\n").as_bytes());
    let is_allowed = allows(|state, query| {
        state.add_robots_txt(query, &robots);
        state.add_licence(URL, &RslLicence::parse(licence.as_bytes()).into());
    });
    assert!(!is_allowed || holds(licence.as_bytes(), "permits"));
});
