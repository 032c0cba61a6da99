//! Files of so many rules, and paths so long, that rules are passed over unread: none that decides may be among those.

use wayleave_robots_txt::{
    AccessResult, AccessVerdict, Dialect, RobotsTxt, UrlPath, decide, decide_all_spellings,
};

fn successful(text: &str) -> AccessResult {
    AccessResult::Successful(RobotsTxt::parse(text.as_bytes()))
}

/// `count` groups for everyone with the rules that `rules` makes of their numbers, then one with the rule `last`.
fn groups(count: usize, rules: impl Fn(usize) -> String, last: &str) -> AccessResult {
    let groups = (0..count).map(|number| format!("User-agent: *\n{}", rules(number)));
    successful(&format!("{}User-agent: *\n{last}\n", groups.collect::<String>()))
}

/// Two rules that match none of the paths below.
fn others(number: usize) -> String {
    format!("Disallow: /*x*y{number}\nDisallow: /*x*z{number}\n")
}

fn as_google(access: &AccessResult, path: &str) -> AccessVerdict {
    decide(access, Dialect::Google, &[], &UrlPath::parse(path).unwrap()).verdict()
}

fn as_google_strictly(access: &AccessResult, path: &str) -> AccessVerdict {
    decide_all_spellings(access, Dialect::Google, &[], &UrlPath::parse(path).unwrap()).verdict()
}

#[test]
fn a_short_part_counts_at_its_last_place() {
    let access = groups(60, others, "Disallow: /*n*q");
    // The first `q` stands before the only `n`.
    let path = format!("/xxxxq{}n{}q", "x".repeat(300), "x".repeat(10));
    assert_eq!(as_google(&access, &path), AccessVerdict::Disallow);
}

#[test]
fn every_spelling_of_a_path_is_searched_for_its_own_parts() {
    let path = format!("/%70%72ivat%65{}", "x".repeat(300));
    let in_small_groups = groups(60, others, "Disallow: /*private");
    assert_eq!(as_google_strictly(&in_small_groups, &path), AccessVerdict::Disallow);
    let rules: String = (0..60).map(|n| format!("Disallow: /*q{n}z\n")).collect();
    let in_one_group = successful(&format!("User-agent: *\n{rules}Disallow: /*private\n"));
    assert_eq!(as_google_strictly(&in_one_group, &path), AccessVerdict::Disallow);
}

#[test]
fn google_judges_the_normalised_spelling_too() {
    let access = successful("User-agent: *\nDisallow: /private\n");
    assert_eq!(as_google(&access, "/%70rivate"), AccessVerdict::Allow);
    assert_eq!(as_google_strictly(&access, "/%70rivate"), AccessVerdict::Disallow);
}

#[test]
fn a_part_is_found_wherever_it_stands() {
    let access = groups(8, others, "Disallow: /*needle");
    let filler = "xqz".repeat(600);
    for at in 0..1500 {
        let path = format!("/{}needle{}", &filler[..at], "x".repeat(20));
        assert_eq!(as_google(&access, &path), AccessVerdict::Disallow, "{at}");
    }
}

#[test]
fn a_rule_of_forty_parts_is_compared_to_its_end() {
    let rules = |n: usize| format!("Disallow: /*x*q{n}\nDisallow: /*x*z{n}\n");
    let path = format!("/{}", "xnqz".repeat(400));
    for count in [10, 30, 60, 90, 120] {
        let access = groups(count, rules, &format!("Disallow: /{}", "*n".repeat(40)));
        assert_eq!(as_google(&access, &path), AccessVerdict::Disallow, "{count}");
    }
}

#[test]
fn rules_are_weighed_by_their_bytes_as_compared() {
    // Ten bytes as written, against seven that compare as nineteen.
    let access = successful("User-agent: *\nAllow: /*********\nDisallow: /\u{e9}\u{e9}\u{e9}\n");
    let decision =
        decide(&access, Dialect::Rfc9309, &[], &UrlPath::parse("/\u{e9}\u{e9}\u{e9}").unwrap());
    assert_eq!(decision.verdict(), AccessVerdict::Disallow);
}
