//! The budget of a decision: what files and paths made to be slow end in, and that ordinary ones never do.

use std::fmt::Write as _;

use wayleave_robots_txt::{
    AccessDecision, AccessReason, AccessResult, AccessVerdict, Dialect, ProductToken, RobotsTxt,
    UrlPath, decide, decide_all_spellings, decide_whole_site,
};

/// A file whose one group has so many rules, made of their numbers.
fn file(count: usize, rule: impl Fn(usize) -> String) -> AccessResult {
    let mut body = String::from("User-agent: *\n");
    for number in 0..count {
        writeln!(body, "{}", rule(number)).expect("memory");
    }
    AccessResult::Successful(RobotsTxt::parse(body.as_bytes()))
}

/// Rules that are searched for in all of a path of `ab`, and not in it.
fn slow(number: usize) -> String {
    format!("Allow: /*ab*ba*c{number}")
}

fn path_of_ab(bytes: usize) -> String {
    format!("/{}", "ab".repeat(bytes / 2))
}

#[track_caller]
fn expect_too_costly(decision: &AccessDecision<'_>) {
    let found = (decision.verdict(), decision.reason());
    assert_eq!(found, (AccessVerdict::Disallow, AccessReason::TooCostly));
    assert_eq!((decision.line(), decision.rule()), (None, None));
}

#[test]
fn a_decision_over_budget_disallows_as_too_costly() {
    let access = file(8_000, slow);
    let path = path_of_ab(16 * 1024);
    // To koster1996 a star is a byte like others.
    for dialect in [Dialect::Rfc9309, Dialect::Google, Dialect::Selfhtml, Dialect::Strictest] {
        expect_too_costly(&decide(&access, dialect, &[], &UrlPath::parse(&path).unwrap()));
        expect_too_costly(&decide_all_spellings(
            &access,
            dialect,
            &[],
            &UrlPath::parse(&path).unwrap(),
        ));
        assert_eq!(
            decide(&access, dialect, &[], &UrlPath::parse("/ab").unwrap()).verdict(),
            AccessVerdict::Allow
        );
    }
    assert_eq!(AccessReason::TooCostly.as_str(), "too-costly");
}

#[test]
fn a_rule_found_before_the_budget_is_spent_does_not_decide() {
    let allow_first = |number| match number {
        0 => "Allow: /*a".to_owned(),
        _ => slow(number),
    };
    let path = path_of_ab(16 * 1024);
    expect_too_costly(&decide(
        &file(20_000, allow_first),
        Dialect::Google,
        &[],
        &UrlPath::parse(&path).unwrap(),
    ));
}

#[test]
fn all_dialects_asked_share_one_budget() {
    let access = file(20_000, slow);
    let path = path_of_ab(1_000);
    for dialect in [Dialect::Rfc9309, Dialect::Google, Dialect::Selfhtml] {
        let reason = decide(&access, dialect, &[], &UrlPath::parse(&path).unwrap()).reason();
        assert_eq!(reason, AccessReason::NoMatchingRule, "{dialect}");
    }
    expect_too_costly(&decide(&access, Dialect::Strictest, &[], &UrlPath::parse(&path).unwrap()));
}

#[test]
fn all_spellings_of_a_path_share_one_budget() {
    let access = file(20_000, slow);
    let path = path_of_ab(1_000);
    let spelt = format!("{path}//;x/%61/./\\");
    for path in [&path, &spelt] {
        let reason = decide(&access, Dialect::Google, &[], &UrlPath::parse(path).unwrap()).reason();
        assert_eq!(reason, AccessReason::NoMatchingRule);
    }
    let reason =
        decide_all_spellings(&access, Dialect::Google, &[], &UrlPath::parse(&path).unwrap())
            .reason();
    assert_eq!(reason, AccessReason::NoMatchingRule);
    expect_too_costly(&decide_all_spellings(
        &access,
        Dialect::Google,
        &[],
        &UrlPath::parse(&spelt).unwrap(),
    ));
}

#[test]
fn judging_a_whole_site_may_be_too_costly() {
    let access = file(30_000, |number| format!("Allow: /{number}"));
    for &dialect in Dialect::ALL {
        expect_too_costly(&decide_whole_site(&access, dialect, &[]));
    }
    let access = file(3_000, |number| format!("Allow: /{number}"));
    let decision = decide_whole_site(&access, Dialect::Rfc9309, &[]);
    assert_eq!(decision.verdict(), AccessVerdict::Allow);
}

#[test]
fn rules_in_other_spellings_spend_budget_by_length() {
    // None begins as the path does, so that nothing is searched for.
    let access = file(2_000, |number| format!("Allow: /{}%7e{number}", "%61".repeat(20)));
    let path = path_of_ab(16 * 1024);
    let reason = decide(&access, Dialect::Rfc9309, &[], &UrlPath::parse(&path).unwrap()).reason();
    assert_eq!(reason, AccessReason::NoMatchingRule);
    let spelt = format!("{path}//;x/%61/./\\");
    expect_too_costly(&decide_all_spellings(
        &access,
        Dialect::Strictest,
        &[],
        &UrlPath::parse(&spelt).unwrap(),
    ));
}

#[test]
fn slow_groups_of_others_cost_a_crawler_nothing() {
    let mut body = String::from("User-agent: foobot\nDisallow: /private\n\nUser-agent: *\n");
    for number in 0..20_000 {
        writeln!(body, "{}", slow(number)).expect("memory");
    }
    let access = AccessResult::Successful(RobotsTxt::parse(body.as_bytes()));
    let tokens = [ProductToken::new("foobot").expect("a name")];
    let path = format!("{}//;x/%61/./\\", path_of_ab(256));
    let reason =
        decide_all_spellings(&access, Dialect::Strictest, &tokens, &UrlPath::parse(&path).unwrap())
            .reason();
    assert_eq!(reason, AccessReason::NoMatchingRule);
}

#[test]
fn spellings_of_more_than_64_kib_are_too_costly() {
    let access = file(1, |_| "Disallow: /private".to_owned());
    for (repetitions, is_judged) in [(1, true), (10, true), (1_000, false)] {
        let path = "/%2F\\;x//./%7e".repeat(repetitions);
        let path = UrlPath::parse(&path).unwrap();
        let decision = decide_all_spellings(&access, Dialect::Rfc9309, &[], &path);
        if is_judged {
            assert_eq!(decision.verdict(), AccessVerdict::Allow, "{repetitions}");
        } else {
            expect_too_costly(&decision);
        }
    }
}

#[test]
fn a_large_shop_answers_for_the_longest_urls() {
    let words = ["sort", "filter", "page", "session", "colour", "size"];
    let access = file(900, |number| {
        let word = words[number % words.len()];
        match number % 3 {
            0 => format!("Disallow: /*?*{word}{number}="),
            1 => format!("Disallow: /{word}/{number}/"),
            _ => format!("Disallow: /*/{word}-{number}$"),
        }
    });
    let mut path = String::from("/catalogue/garden/chairs?");
    for number in 0.. {
        if path.len() > 16 * 1024 {
            break;
        }
        let word = words[number % words.len()];
        write!(path, "{word}={:x}&", number * 2_654_435_761).expect("memory");
    }
    let decision =
        decide_all_spellings(&access, Dialect::Strictest, &[], &UrlPath::parse(&path).unwrap());
    assert_eq!(decision.reason(), AccessReason::NoMatchingRule);
}

#[test]
fn reading_rules_spends_budget() {
    // Too many for an index, and none begins as the path does: they are only passed over, in each spelling again.
    let access = file(30_000, |number| format!("Allow: /x{number}"));
    let path = UrlPath::parse("/%61//./;y/\\b").unwrap();
    let reason = decide(&access, Dialect::Strictest, &[], &path).reason();
    assert_eq!(reason, AccessReason::NoMatchingRule);
    expect_too_costly(&decide_all_spellings(&access, Dialect::Strictest, &[], &path));
}

#[test]
fn encoding_rules_spends_budget() {
    // To write them in one dialect takes most of the budget, in two more than all of it.
    // They are too many for an index.
    let access = file(3_600, |number| format!("Allow: /{}%7e{number}", "%61".repeat(11)));
    let path = UrlPath::parse("/b").unwrap();
    for dialect in [Dialect::Rfc9309, Dialect::Selfhtml] {
        let reason = decide(&access, dialect, &[], &path).reason();
        assert_eq!(reason, AccessReason::NoMatchingRule, "{dialect}");
    }
    expect_too_costly(&decide(&access, Dialect::Strictest, &[], &path));
}

#[test]
fn a_late_mismatch_spends_budget() {
    let access = file(30_000, |_| "Allow: /a/*~/c$".to_owned());
    let path = UrlPath::parse("/a/%61//b").unwrap();
    let reason = decide(&access, Dialect::Google, &[], &path).reason();
    assert_eq!(reason, AccessReason::NoMatchingRule);
    expect_too_costly(&decide_all_spellings(&access, Dialect::Strictest, &[], &path));
}
