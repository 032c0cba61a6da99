//! The public face: what a caller can ask for, and how little can be asked wrongly.

use std::time::Duration;

use wayleave_robots_txt::{
    AccessReason, AccessResult, AccessVerdict, CrawlerRules, Dialect, ProductToken, RobotsTxt,
    UrlPath, decide, decide_all_spellings,
};

const BODY: &[u8] = b"User-agent: *\nDisallow: /private\nDisallow: /only$\n";

#[test]
fn a_whole_url_is_not_taken_for_a_path() {
    let access = AccessResult::from(RobotsTxt::parse(BODY));
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
fn a_crawler_asks_about_urls_and_paths() {
    let crawler = RobotsTxt::parse(BODY).for_crawler("ExampleBot").unwrap();
    for (url, allowed) in [
        ("https://example.com/page", true),
        ("https://example.com/private/diary", false),
        ("http://example.com:8080/private?x#y", false),
        ("/private", false),
        ("/open", true),
        ("https://example.com", true),
        ("https://example.com/robots.txt", true),
    ] {
        assert_eq!(crawler.allows(url), Ok(allowed), "{url}");
    }
}

#[test]
fn a_text_that_is_no_url_gets_no_answer() {
    for access in [AccessResult::from(RobotsTxt::parse(b"")), AccessResult::Unreachable] {
        let crawler = access.for_crawler("ExampleBot").unwrap();
        for text in ["", "example.com", "mailto:a@b", "http://[::1", "http://a b/", "//h/x"] {
            assert!(crawler.allows(text).is_err(), "{text}");
            assert!(crawler.clone().all_spellings().decide(text).is_err(), "{text}");
        }
    }
}

#[test]
fn names_come_as_one_text_or_as_several() {
    let robots = RobotsTxt::parse(b"User-agent: ExampleBot\nDisallow: /\n");
    let owned = "examplebot".to_owned();
    let several = vec!["ExampleBot"];
    for crawler in [
        robots.for_crawler("ExampleBot"),
        robots.for_crawler(&owned),
        robots.for_crawler(["ExampleBot-News", "ExampleBot"]),
        robots.for_crawler([&owned]),
        robots.for_crawler(vec![owned.clone()]),
        robots.for_crawler(&several),
        robots.for_crawler(&["ExampleBot-News", "ExampleBot"][1..]),
    ] {
        assert_eq!(crawler.unwrap().allows("/"), Ok(false));
    }
}

#[test]
fn the_first_name_that_has_a_group_counts() {
    let robots = RobotsTxt::parse(
        b"User-agent: a\nDisallow: /a\n\nUser-agent: b\nDisallow: /b\n\nUser-agent: *\nDisallow: /\n",
    );
    for (names, disallowed) in [
        (&["a", "b"][..], "/a"),
        (&["b", "a"], "/b"),
        (&["c", "b"], "/b"),
        (&["c"], "/"),
        (&[], "/"),
    ] {
        let crawler = robots.for_crawler(names).unwrap();
        let decision = crawler.decide(disallowed).unwrap();
        assert_eq!(decision.rule(), Some(format!("Disallow: {disallowed}")), "{names:?}");
    }
}

#[test]
fn a_name_that_finds_no_group_is_an_error() {
    let robots = RobotsTxt::parse(BODY);
    let error = robots.for_crawler(["ExampleBot", "ExampleBot/1.0"]).unwrap_err();
    assert_eq!(error.to_string(), r#""ExampleBot/1.0" contains a version: write "ExampleBot""#);
    assert!(AccessResult::Unreachable.for_crawler("").is_err());
}

#[test]
fn crawler_rules_decide_as_the_functions_do() {
    let body = b"User-agent: *\nDisallow: /private\nAllow: /private/open\nDisallow: /*.pdf$\n";
    for access in [
        AccessResult::from(RobotsTxt::parse(body)),
        AccessResult::Lapsed(RobotsTxt::parse(body)),
        AccessResult::Unavailable { status: 403 },
        AccessResult::Unreachable,
    ] {
        let tokens = [ProductToken::new("ExampleBot").unwrap()];
        for &dialect in Dialect::ALL {
            let crawler = CrawlerRules::new(access.clone(), tokens.to_vec()).dialect(dialect);
            let strict = crawler.clone().all_spellings();
            for text in ["/", "/private/x", "/private/open", "//private", "/a.pdf", "/robots.txt"] {
                let path = UrlPath::parse(text).unwrap();
                let url = format!("https://example.com{text}");
                let expected = decide(&access, dialect, &tokens, &path).details();
                assert_eq!(crawler.decide(&url).unwrap().details(), expected, "{url} {dialect}");
                let expected = decide_all_spellings(&access, dialect, &tokens, &path).details();
                assert_eq!(strict.decide(&url).unwrap().details(), expected, "{url} {dialect}");
            }
        }
    }
}

#[test]
fn crawl_delay_is_that_of_the_dialect_or_the_longest() {
    let body = b"Useragent: foobot\nCrawl-delay: 5\nUser-agent: *\nCrawl-delay: 1\n";
    let crawler = RobotsTxt::parse(body).for_crawler("foobot").unwrap();
    for (dialect, seconds) in [(Dialect::Google, 5), (Dialect::Rfc9309, 1), (Dialect::Strictest, 5)]
    {
        let delay = crawler.clone().dialect(dialect).crawl_delay();
        assert_eq!(delay, Some(Duration::from_secs(seconds)), "{dialect}");
    }
    let without_rules = AccessResult::Unreachable.for_crawler("foobot").unwrap();
    assert_eq!(without_rules.crawl_delay(), None);
}

#[test]
fn no_matching_group_differs_from_no_matching_rule() {
    let robots = RobotsTxt::parse(b"User-agent: a\nDisallow: /private\nUser-agent: b\nAllow: /\n");
    for &dialect in Dialect::ALL {
        for (name, reason) in
            [("a", AccessReason::NoMatchingRule), ("c", AccessReason::NoMatchingGroup)]
        {
            let crawler = robots.for_crawler(name).unwrap().dialect(dialect);
            assert_eq!(crawler.decide("/open").unwrap().reason(), reason, "{name} {dialect}");
        }
    }
}
