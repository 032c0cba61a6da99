//! Files that end in the midst of a line, and escapes that end in the midst of themselves.

use wayleave_robots_txt::{
    AccessResult, AccessVerdict, Dialect, RobotsTxt, UrlPath, decide, decide_all_spellings,
    decide_whole_site,
};

fn is_allowed(robots: &RobotsTxt, dialect: Dialect, path: &str) -> bool {
    let access = AccessResult::Successful(robots.clone());
    let verdict = decide(&access, dialect, &[], &UrlPath::parse(path).unwrap()).verdict();
    let strictly =
        decide_all_spellings(&access, dialect, &[], &UrlPath::parse(path).unwrap()).verdict();
    assert_eq!(verdict, strictly, "{dialect} {path}");
    verdict == AccessVerdict::Allow
}

#[test]
fn a_cut_escape_matches_itself_and_what_begins_so() {
    for (rule, path) in [
        ("/a%4", "/a%4"),
        ("/a%4", "/a%4/b"),
        ("/a%4", "/a%4?b"),
        ("/a%4", "/a%40"),
        ("/a%4", "/a%4g"),
        ("/a%4$", "/a%4"),
        ("/a%4/b", "/a%4/b"),
        ("/a%4*b", "/a%4/b"),
        ("/*%4*%zz", "/%4/%zz"),
        ("/a%", "/a%"),
        ("/a%", "/a%/b"),
        ("/a%", "/a%zz"),
        ("/a%$", "/a%"),
        ("/a%zz", "/a%zz"),
        ("/a%%4", "/a%%4"),
        ("/a%254", "/a%4/b"),
        ("/%E", "/%E3%83%84"),
        ("/%E", "/%E"),
        ("/%E/", "/%E/"),
    ] {
        let robots = RobotsTxt::parse(format!("User-agent: *\nDisallow: {rule}\n").as_bytes());
        assert!(!is_allowed(&robots, Dialect::Rfc9309, path), "{rule} {path}");
    }
}

#[test]
fn a_cut_escape_matches_nothing_else() {
    for (rule, path) in [
        ("/a%4", "/a4"),
        ("/a%4", "/a%5"),
        ("/a%4", "/aA"),
        ("/a%4$", "/a%40"),
        ("/a%4/b", "/a%4b"),
    ] {
        let robots = RobotsTxt::parse(format!("User-agent: *\nDisallow: {rule}\n").as_bytes());
        assert!(is_allowed(&robots, Dialect::Rfc9309, path), "{rule} {path}");
    }
}

#[test]
fn the_more_specific_rule_decides_about_a_cut_escape() {
    let robots = RobotsTxt::parse(b"User-agent: *\nDisallow: /a\nAllow: /a%4\n");
    let path = UrlPath::parse("/a%4/b").unwrap();
    assert_eq!(robots.for_crawler("foobot").unwrap().allows("/a%4/b"), Ok(true));
    // In normal percent-encoding it is `/a%254/b`, which the `Allow` is not about.
    let access = AccessResult::from(robots);
    let strictly = decide_all_spellings(&access, Dialect::Rfc9309, &[], &path);
    assert_eq!(strictly.verdict(), AccessVerdict::Disallow);
    let robots = RobotsTxt::parse(b"User-agent: *\nDisallow: /a%4/b\nAllow: /a%4\n");
    assert!(!is_allowed(&robots, Dialect::Rfc9309, "/a%4/b"));
}

/// The first bytes of a file, up to `|`, as each way of cutting reads them.
fn cut(file: &str) -> [RobotsTxt; 2] {
    let limit = file.find('|').unwrap();
    let beginning = RobotsTxt::parse_beginning(&file.as_bytes()[..limit]);
    let file = file.replace('|', "");
    [RobotsTxt::parse_with_limit(file.as_bytes(), limit), beginning]
}

#[test]
fn a_cut_line_counts_only_if_it_disallows() {
    for (file, path, expected) in [
        ("Disallow: /\nAllow: /pub|lic\n", "/pubs", false),
        ("Disallow: /\nAllow: /a|", "/a", true),
        ("Disallow: /\nAllow: /a|\n", "/b", false),
        ("Disallow: /\nAllow: /a\n|Allow: /b\n", "/a", true),
        ("Disallow: /\nAllow: /a\r|\nAllow: /b\n", "/a", true),
        ("Disallow: /\nAllow: |/a\n", "/a", false),
        ("Disallow: /priv|ate\n", "/privy", false),
        ("disallow : /priv|ate\n", "/privy", false),
        ("Disallow: /\n\nUser-agent: *\nAllow: /*|secret\n", "/a", false),
        ("Disallow: /\nAllow: /a # |x\n", "/a", false),
        ("Disallow: /privat%|65\n", "/private", false),
        ("Disallow: /privat%6|5\n", "/private", false),
        ("Disallow: /private$|s\n", "/private$s", false),
        ("Disallow: /private$|\n", "/private", false),
        ("Disallow: /private%|\n", "/other", true),
    ] {
        let file = format!("User-agent: *\n{file}");
        let [limited, received] = cut(&file);
        // Elsewhere the first rule that matches decides, which here is never the last.
        for dialect in [Dialect::Rfc9309, Dialect::Google] {
            assert_eq!(is_allowed(&limited, dialect, path), expected, "{file:?}");
            let is_cut = !file.ends_with('|');
            let received = is_allowed(&received, dialect, path);
            assert!(!is_cut || received == expected, "{dialect} {file:?}");
        }
    }
}

#[test]
fn a_cut_user_agent_line_removes_nobody_from_their_group() {
    let tokens = [wayleave_robots_txt::ProductToken::new("Good").unwrap()];
    let [limited, received] = cut("User-agent: *\nDisallow: /\nUser-agent: Good|bot\n");
    for robots in [limited, received] {
        let access = AccessResult::Successful(robots);
        for &dialect in Dialect::ALL {
            let every_path = decide_whole_site(&access, dialect, &tokens);
            assert_eq!(every_path.verdict(), AccessVerdict::Disallow, "{dialect}");
            let one = decide(&access, dialect, &tokens, &UrlPath::parse("/a").unwrap());
            assert_eq!(one.verdict(), AccessVerdict::Disallow, "{dialect}");
        }
    }
}
