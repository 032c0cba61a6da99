//! The engine decides as the plain model does, on any file and path.

#![no_main]

#[path = "../../robots-txt/tests/model/mod.rs"]
mod model;

use libfuzzer_sys::fuzz_target;
use wayleave_robots_txt::{
    AccessResult, AccessVerdict, Dialect, ProductToken, RobotsTxt, UrlPath, decide,
};

const DIALECTS: [Dialect; 4] =
    [Dialect::Rfc9309, Dialect::Google, Dialect::Koster1996, Dialect::Selfhtml];

// The name and the path are the first two lines, the file is the rest.
fuzz_target!(|input: &[u8]| {
    let mut parts = input.splitn(3, |&byte| byte == b'\n');
    let (Some(name), Some(path), Some(body)) = (parts.next(), parts.next(), parts.next()) else {
        return;
    };
    let (Ok(name), Ok(path)) = (std::str::from_utf8(name), std::str::from_utf8(path)) else {
        return;
    };
    // The model is slow on purpose.
    let Ok(token) = ProductToken::verbatim(name) else { return };
    if !path.starts_with('/') || path.contains('#') || path.len() > 256 || body.len() > 4096 {
        return;
    }
    let access = AccessResult::Successful(RobotsTxt::parse(body));
    let tokens = [token];
    for dialect in DIALECTS {
        let decision = decide(&access, dialect, &tokens, &UrlPath::parse(path).unwrap());
        let found = (decision.verdict() == AccessVerdict::Allow, decision.line());
        assert_eq!(found, model::judge(body, dialect, &[name], path), "{dialect}");
        let explanation = decision.details();
        assert_eq!(explanation.line.is_some(), explanation.rule.is_some());
    }
});
