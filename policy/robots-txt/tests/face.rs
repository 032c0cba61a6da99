//! The face: what a caller may ask, and how little can be asked wrongly.

use wayleave_robots_txt::{
    AccessReason, AccessResult, AccessVerdict, Dialect, ProductToken, RobotsTxt, UrlPath, decide,
};

const BODY: &[u8] = b"User-agent: *\nDisallow: /private\nDisallow: /only$\n";

#[test]
fn a_whole_url_is_not_taken_for_a_path() {
    let access = AccessResult::Successful(RobotsTxt::parse(BODY));
    for (text, allowed) in [
        ("https://example.com/private", None),
        ("private", None),
        ("", None),
        ("/private", Some(false)),
        ("/only#but", Some(false)),
        ("/open", Some(true)),
        ("*", Some(true)),
    ] {
        let path = UrlPath::parse(text).ok();
        let judged = path.map(|path| decide(&access, Dialect::Rfc9309, &[], &path).verdict());
        assert_eq!(judged.map(AccessVerdict::is_allow), allowed, "{text}");
    }
}

#[test]
fn a_file_answers_as_its_access_does() {
    let robots = RobotsTxt::parse(BODY);
    let access = AccessResult::Successful(robots.clone());
    let crawler = ProductToken::new("ExampleBot").unwrap();
    for text in ["/", "/private/x", "/robots.txt"] {
        let path = UrlPath::parse(text).unwrap();
        for dialect in Dialect::ALL {
            let tokens = std::slice::from_ref(&crawler);
            let by_file = robots.decide(dialect, tokens, &path).details();
            assert_eq!(by_file, decide(&access, dialect, tokens, &path).details());
        }
        assert_eq!(robots.is_allowed(&crawler, &path), text != "/private/x");
    }
}

#[test]
fn no_matching_group_differs_from_no_matching_rule() {
    let robots = RobotsTxt::parse(b"User-agent: a\nDisallow: /private\nUser-agent: b\nAllow: /\n");
    let path = UrlPath::parse("/open").unwrap();
    for dialect in Dialect::ALL {
        for (name, reason) in
            [("a", AccessReason::NoMatchingRule), ("c", AccessReason::NoMatchingGroup)]
        {
            let tokens = [ProductToken::new(name).unwrap()];
            let decision = robots.decide(dialect, &tokens, &path);
            assert_eq!(decision.reason(), reason, "{name} {dialect}");
        }
    }
}
