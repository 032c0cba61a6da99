//! What a rehearsal counts, and how much it remembers.

use wayleave_rehearsal::{
    CrawlerRow, LinePlace, LogFormat, Rehearsal, RehearsalReport, RobotsPair,
};

const ROBOTS: &str = "User-agent: *\nDisallow: /x\n\nUser-agent: Googlebot\nDisallow: /g\n";

fn line(target: &str, referer: &str, user_agent: &str) -> String {
    format!(r#"1 - - [x] "GET {target} HTTP/1.1" 200 10 "{referer}" "{user_agent}""#)
}

fn robots(before: Option<&str>) -> RobotsPair {
    RobotsPair::new(ROBOTS.into(), before.map(Into::into))
}

fn count<'a>(robots: &'a RobotsPair, lines: &[String]) -> Rehearsal<'a> {
    let mut rehearsal = Rehearsal::new(robots, Some(LogFormat::Combined));
    for (line, number) in lines.iter().zip(1..) {
        rehearsal.add_line(line.as_bytes(), LinePlace { file: 0, line: number });
    }
    rehearsal
}

fn report(lines: &[String]) -> RehearsalReport {
    RehearsalReport::new(&count(&robots(None), lines), &[])
}

fn row<'a>(report: &'a RehearsalReport, name: &str) -> &'a CrawlerRow {
    report.crawlers.iter().find(|row| row.crawler == name).expect("it is in the log")
}

#[test]
fn crawlers_are_judged_as_their_owners_document() {
    let mut lines = Vec::new();
    for name in ["Googlebot-Image", "Applebot", "AdsBot-Google", "GPTBot", "FooBot"] {
        lines.extend(["/x", "/g", "/robots.txt"].map(|path| line(path, "-", &format!("{name}/1"))));
    }
    let report = report(&lines);
    for (name, group, shut_out) in [
        ("Googlebot-Image", Some("Googlebot"), 1),
        ("Applebot", Some("Googlebot"), 1),
        // The group of * does not count for it.
        ("AdsBot-Google", Some("*"), 0),
        ("GPTBot", Some("*"), 1),
        ("FooBot", Some("*"), 1),
    ] {
        let row = row(&report, name);
        assert_eq!((row.group.as_deref(), row.shut_out.requests), (group, shut_out), "{name}");
    }
    assert!(row(&report, "AdsBot-Google").remark.is_some());
    assert_eq!(row(&report, "FooBot").remark, None);
}

#[test]
fn a_file_that_disallows_all_still_lets_crawlers_read_it() {
    let robots = RobotsPair::new(b"User-agent: *\nDisallow: /\n".to_vec(), None);
    let names = ["Googlebot/2.1", "GPTBot/1"];
    let lines: Vec<_> = names.iter().map(|name| line("/robots.txt", "-", name)).collect();
    let report = RehearsalReport::new(&count(&robots, &lines), &[]);
    assert_eq!((report.shut_out.requests, report.has_effect()), (0, false));
}

#[test]
fn targets_in_every_form_have_a_path() {
    for target in ["/x", "/x?q", "/x#f", "http://shop.test/x", "/x\\xff", "/x y"] {
        let report = report(&[line(target, "-", "GPTBot/1")]);
        assert_eq!(report.shut_out.requests, 1, "{target}");
    }
    for target in ["shop.test:443", "x", "\\xff"] {
        assert_eq!(report(&[line(target, "-", "GPTBot/1")]).bad_lines, 1, "{target}");
    }
    let foreign = report(&[line("/x\\xc3\\xa9\\xff", "-", "GPTBot/1")]);
    assert_eq!(foreign.lines[0].example, "/x%C3%A9%FF");
}

#[test]
fn parts_of_a_log_add_up_in_any_order() {
    let old = "User-agent: *\nDisallow: /y\n";
    let robots = robots(Some(old));
    let mut lines = Vec::new();
    for number in 0..500 {
        let name = ["Googlebot/2.1", "GPTBot/1", "FooBot/1", "Mozilla/5.0 Firefox/1"][number % 4];
        let path = ["/x", "/y", "/g", "/x/a.css"][number / 4 % 4];
        lines.push(line(&format!("{path}?{number}"), "https://shop.test/page", name));
        if number % 50 == 7 {
            lines.push(format!("garbage {number}"));
        }
    }
    let whole = RehearsalReport::new(&count(&robots, &lines), &["log".to_owned()]);
    assert!(whole.newly_let_in.requests > 0 && whole.newly_shut_out.requests > 0);
    assert!(!whole.lost_files.is_empty() && whole.bad_lines == 10);
    for parts in [2, 3, 7] {
        let mut merged = Rehearsal::new(&robots, Some(LogFormat::Combined));
        let length = lines.len().div_ceil(parts);
        for (number, part) in lines.chunks(length).enumerate().collect::<Vec<_>>().into_iter().rev()
        {
            let mut counted = Rehearsal::new(&robots, Some(LogFormat::Combined));
            for (line, at) in part.iter().zip(1..) {
                let line_number = (number * length + at) as u64;
                counted.add_line(line.as_bytes(), LinePlace { file: 0, line: line_number });
            }
            merged.merge(counted);
        }
        let merged = RehearsalReport::new(&merged, &["log".to_owned()]);
        assert_eq!(format!("{merged:?}"), format!("{whole:?}"), "{parts} parts");
    }
}

#[test]
fn invented_names_are_counted_together_beyond_a_limit() {
    let mut lines: Vec<_> =
        (0..3_000).map(|number| line("/x", "-", &format!("Invented{number}Bot/1"))).collect();
    // One of the list and one of the file come late, and have places of their own.
    lines.push(line("/x", "-", "GPTBot/1"));
    lines.push(line("/g", "-", "Googlebot/2.1"));
    let report = report(&lines);
    assert_eq!(report.crawlers.len(), 1_003);
    assert_eq!(row(&report, "others").traffic.requests, 2_000);
    assert_eq!(row(&report, "others").shut_out.requests, 2_000);
    assert_eq!((report.traffic.requests, report.shut_out.requests), (3_002, 3_002));
    assert_eq!(row(&report, "GPTBot").shut_out.requests, 1);
}

#[test]
fn a_file_whose_pages_are_shut_out_too_is_not_lost() {
    for (page, lost) in [("/page", 1), ("/x/page", 0), ("/x/style.css", 1)] {
        let referer = format!("https://shop.test{page}");
        let lines =
            [line("/x/a.css", &referer, "Mozilla/5.0 Firefox/1"), line("/page", "-", "GPTBot/1")];
        assert_eq!(report(&lines).lost_files.len(), lost, "{page}");
    }
    // Without a page in the log, what is shut out altogether loses no files.
    let lines = [line("/a.css", "-", "GPTBot/1"), line("/a.css", "-", "FooBot/1")];
    for (robots, lost) in [
        ("User-agent: *\nDisallow: /a.css\n", 2),
        ("User-agent: *\nDisallow: /a.css\n\nUser-agent: GPTBot\nDisallow: /\n", 1),
    ] {
        let robots = RobotsPair::new(robots.into(), None);
        let report = RehearsalReport::new(&count(&robots, &lines), &[]);
        let crawlers: usize = report.lost_files.iter().map(|file| file.crawler_count).sum();
        assert_eq!(crawlers, lost, "{robots:?}");
    }
}

#[test]
fn a_rule_is_idle_unless_it_decided_for_anybody() {
    let robots = "User-agent: *\nDisallow: /x\nAllow: /x/y\nDisallow: /z\n";
    let robots = RobotsPair::new(robots.into(), None);
    let lines = [line("/x", "-", "FooBot/1"), line("/x/y", "-", "GPTBot/1")];
    let report = RehearsalReport::new(&count(&robots, &lines), &[]);
    let idle: Vec<_> = report.idle_rules.iter().map(|row| (row.line, &*row.rule)).collect();
    assert_eq!(idle, [(4, "Disallow: /z")]);
}

#[test]
fn each_crawler_is_judged_in_its_dialect_beside_the_others() {
    // Google's parser takes a misspelt name of a rule for the rule; a reader of 1996 stops at the first that matches.
    let robots = "User-agent: *\nDisalow: /a\nDisallow: /b\nAllow: /b/c\n";
    let robots = RobotsPair::new(robots.into(), None);
    let visits = |name: &str| ["/a", "/b/c"].map(|path| line(path, "-", name));
    let lines = [visits("Googlebot/2.1"), visits("GPTBot/1")].concat();
    let report = RehearsalReport::new(&count(&robots, &lines), &[]);
    for (name, shut_out, otherwise) in [
        (
            "Googlebot",
            1,
            vec![
                ("rfc9309", "allow", 1),
                ("koster1996", "allow", 1),
                ("koster1996", "disallow", 1),
                ("selfhtml", "allow", 1),
                ("selfhtml", "disallow", 1),
            ],
        ),
        (
            "GPTBot",
            0,
            vec![
                ("google", "disallow", 1),
                ("koster1996", "disallow", 1),
                ("selfhtml", "disallow", 1),
            ],
        ),
    ] {
        let row = row(&report, name);
        let found = row.otherwise.iter();
        let found: Vec<_> =
            found.map(|row| (row.dialect, row.verdict, row.traffic.requests)).collect();
        assert_eq!((row.shut_out.requests, found), (shut_out, otherwise), "{name}");
    }
}

#[test]
fn only_what_is_decided_otherwise_has_changed() {
    let old = "User-agent: *\nDisallow: /x\nDisallow: /y\n";
    let lines = ["/x", "/y", "/y/y", "/z"].map(|path| line(path, "-", "FooBot/1"));
    let report = RehearsalReport::new(&count(&robots(Some(old)), &lines), &[]);
    let changes =
        [report.shut_out, report.shut_out_before, report.newly_shut_out, report.newly_let_in];
    assert_eq!(changes.map(|traffic| traffic.requests), [1, 3, 0, 2]);
    let let_in: Vec<_> = report.let_in.iter().map(|row| (row.line, &*row.rule)).collect();
    assert_eq!(let_in, [(Some(3), "Disallow: /y")]);
    assert!(report.has_effect() && report.new_lines.is_empty());
}
