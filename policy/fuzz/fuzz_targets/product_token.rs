//! Any User-Agent field gives a name that can stand on a user-agent line, or none.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wayleave_robots_txt::{
    AccessReason, AccessResult, Dialect, ProductToken, RobotsTxt, UrlPath, decide,
};

fuzz_target!(|field: &[u8]| {
    let Some(token) = ProductToken::from_user_agent(field) else { return };
    assert_eq!(ProductToken::new(token.as_str()).as_ref(), Ok(&token));
    // A group under exactly this name is found by all who can spell it.
    let body = format!("User-agent: {token}\nDisallow: /\n");
    let access = AccessResult::Successful(RobotsTxt::parse(body.as_bytes()));
    let tokens = [token];
    let decision = decide(&access, Dialect::Rfc9309, &tokens, &UrlPath::parse("/").unwrap());
    assert_eq!(decision.reason(), AccessReason::Rule, "{tokens:?}");
});
