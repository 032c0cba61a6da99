//! `wayleave plan`: what a crawl would be refused, and how long it takes, before it begins.

use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::crawler::crawler;
use crate::harness::origin::reply::Step;
use crate::harness::wayleave::{Settings, command};
use crate::harness::{Gate, Origin, Reply, Wayleave, eventually, tools};

const LIMIT: Duration = Duration::from_secs(300);

/// A configuration, a list of URLs, and the origin that has their hosts.
struct Crawl {
    dir: TempDir,
    origin: Origin,
}

impl Crawl {
    fn new(list: &str) -> Self {
        Self::with(list, |settings| settings.crawler("news", "NewsBot"))
    }

    fn with(list: &str, change: impl FnOnce(Settings) -> Settings) -> Self {
        let origin = Origin::start();
        let dir = TempDir::new().expect("a temporary directory can be made");
        let settings = change(Settings::for_origin(dir.path(), &origin));
        std::fs::write(dir.path().join("config.toml"), settings.to_toml()).expect("writable");
        std::fs::write(dir.path().join("urls.txt"), list).expect("writable");
        Self { dir, origin }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut plan = command();
        plan.args(["plan", "--config", "config.toml"]).args(arguments).current_dir(self.dir.path());
        plan
    }

    fn plan(&self, arguments: &[&str]) -> Output {
        tools::run(&mut self.command(arguments), b"", LIMIT)
    }

    /// Returns standard output of a plan that ends with `status`.
    #[track_caller]
    fn said(&self, arguments: &[&str], status: i32) -> String {
        let output = self.plan(&[&["--from", "urls.txt"], arguments].concat());
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    #[track_caller]
    fn json(&self, arguments: &[&str], status: i32) -> Value {
        let text = self.said(&[arguments, &["--json"]].concat(), status);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

/// Returns so many URLs of pages of a host.
fn pages(host: &str, count: usize) -> String {
    (0..count).map(|number| format!("http://{host}/page/{number}\n")).collect()
}

fn array(value: &Value) -> &Vec<Value> {
    value.as_array().expect("an array")
}

/// Returns the row of a host.
#[track_caller]
fn host<'a>(plan: &'a Value, name: &str) -> &'a Value {
    array(&plan["hosts"]).iter().find(|row| row["host"] == name).expect("the host has a row")
}

/// Returns a crawl of a host with many pages, of a slow one, and of one without a delay.
fn crawl_of_three_hosts() -> Crawl {
    let list = format!(
        "{}http://shop.test/private/a\nhttp://shop.test/private/b\n{}http://fast.test/\n",
        pages("shop.test", 1800),
        pages("slow.test", 10)
    );
    let crawl = Crawl::new(&list);
    crawl.origin.site("shop.test").robots("User-agent: *\nDisallow: /private\nCrawl-delay: 10\n");
    crawl.origin.site("slow.test").robots("User-agent: *\nDisallow:\nCrawl-delay: 100\n");
    crawl
}

#[test]
fn a_plan_says_what_is_refused_and_how_long_the_rest_takes() {
    let crawl = crawl_of_three_hosts();
    let plan = crawl.json(&[], 1);
    let rows = array(&plan["urls"]);
    assert_eq!(rows.len(), 1813);
    assert_eq!(
        (&rows[0]["url"], &rows[0]["outcome"]),
        (&json!("http://shop.test/page/0"), &json!("forwarded"))
    );
    assert_eq!((&rows[1800]["outcome"], &rows[1800]["line"]), (&json!("refused"), &json!(2)));
    let shop = host(&plan, "shop.test");
    let expected = json!({
        "host": "shop.test", "origin": "http://shop.test", "urls": 1802, "requests": 1800, "refused": 2,
        "undecided": 0, "delay_seconds": 10.0, "hours": 5.0, "unit": "http://shop.test",
    });
    assert_eq!(shop, &expected);
    assert_eq!(host(&plan, "fast.test")["delay_seconds"], 0.0);
    let total = &plan["total"];
    for (member, expected) in [
        ("urls", json!(1813)),
        ("hosts", json!(3)),
        ("requests", json!(1811)),
        ("forwarded", json!(1811)),
        ("refused_urls", json!(2)),
        ("hours", json!(5.0)),
        ("limit", json!("pace")),
        ("prices", json!([])),
        ("edge_share", Value::Null),
        ("crawler", json!("news")),
    ] {
        assert_eq!(total[member], expected, "{member}: {total}");
    }
    let refused = array(&total["refused"]);
    let expected = json!({
        "rule": "Disallow: /private (http://shop.test/robots.txt:2)", "count": 2,
        "example": "http://shop.test/private/a",
    });
    assert_eq!(refused, &[expected]);
    assert_eq!(crawl.origin.seen().len(), 3, "one robots.txt each, and no page");
    assert!(!crawl.path("urls.txt.plan").exists(), "it is complete");
}

#[test]
fn a_plan_is_for_people_too() {
    let crawl = crawl_of_three_hosts();
    let text = crawl.said(&[], 1);
    for expected in [
        "forward http://shop.test/page/0: no-matching-rule (200)\n",
        "refuse http://shop.test/private/b: rule (403): Disallow: /private (line 2 of ",
        "1,813 URLs of 3 hosts for news: 1,811 forwarded, 0 observed, 2 refused, 0 undecided\n",
        "the crawl takes 5 h (hosts in parallel)\n",
        "1,800 pages of shop.test at 10 s: 5 h\n",
        "10 pages of slow.test at 100 s: 17 min\n",
        "1 page of 1 origin without a delay: counted as 0 h\n",
        "no prices are known\n",
        "there is no decision log",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let summary = crawl.said(&["--summary"], 1);
    assert!(!summary.contains("/page/0") && text.ends_with(&summary), "{summary}");
    let markdown = crawl.said(&["--markdown"], 1);
    for expected in [
        "# Plan of a crawl by news\n",
        "\n1,800 pages of shop.test at 10 s: 5 h\n",
        "| 1,800 | 10 s | 5 h | 2 | 0 | shop.test |\n",
        "## Refused, by rule\n",
    ] {
        assert!(markdown.contains(expected), "{expected}: {markdown}");
    }
    assert!(!markdown.contains("http://shop.test/page/0"), "{markdown}");
}

#[test]
fn a_plan_decides_as_check_does() {
    let list = "http://shop.test/a\nhttp://shop.test/private\nhttp://down.test/\nhttp://none.example/\n\
                https://shop.test/x\nhttp://shop.test/robots.txt\nhttp://ruled.test/a\nhttp://watched.test/private\n";
    let crawl = Crawl::with(list, |settings| {
        settings.crawler("news", "NewsBot").table(
            "[[rule]]\naction = \"refuse\"\nhosts = [\"ruled.test\"]\nreason = \"contract\"\n",
        )
    });
    crawl.origin.site("shop.test").disallows("/private");
    crawl.origin.site("down.test").robots_reply(Reply::new(503));
    let mut check = command();
    check.args([
        "check",
        "--config",
        "config.toml",
        "--crawler",
        "news",
        "--json",
        "--from",
        "urls.txt",
    ]);
    let checked = tools::run(check.current_dir(crawl.dir.path()), b"", LIMIT);
    assert_eq!(checked.status.code(), Some(3), "{checked:?}");
    let rows = super::check::lines(&checked);
    let plan = crawl.json(&["--crawler", "news"], 3);
    let mut planned = array(&plan["urls"]).clone();
    for row in &mut planned {
        // The time of each run.
        row.as_object_mut().expect("an object").remove("robots_fetched_at");
    }
    let without_time = rows.into_iter().map(|mut row| {
        row.as_object_mut().expect("an object").remove("robots_fetched_at");
        row
    });
    assert_eq!(planned, without_time.collect::<Vec<_>>());
    assert_eq!(plan["total"]["undecided"], 2);
    let why = [("down.test", "503"), ("none.example", "none.example"), ("shop.test", "")];
    for (name, because) in &why[..2] {
        let found = host(&plan, name)["undecided_because"].as_str().expect("a reason");
        assert!(found.contains(because), "{found}");
    }
    assert_eq!(host(&plan, why[2].0).get("undecided_because"), None);
    let rules: Vec<_> = array(&plan["total"]["refused"]).iter().map(|it| &it["rule"]).collect();
    assert_eq!(
        rules,
        ["Disallow: /private (http://shop.test/robots.txt:2)", "[[rule]] 1: contract"]
    );
}

#[test]
fn the_first_undecided_hosts_are_named() {
    let list: String = (0..12).map(|number| format!("http://h{number}.test/a\n")).collect();
    let crawl = Crawl::new(&format!("http://shop.test/private\n{list}"));
    crawl.origin.site("shop.test").robots("User-agent: *\nDisallow: /private\nCrawl-delay: 10\n");
    for number in 0..12 {
        crawl.origin.site(&format!("h{number}.test")).robots_reply(Reply::new(503));
    }
    for arguments in [&["--summary"][..], &["--markdown"]] {
        let text = crawl.said(arguments, 3);
        assert!(text.contains("h9.test") && text.contains("503"), "{text}");
        let table = text.split("Undecided\n").nth(1).expect("a table");
        assert!(table.contains("h9.test") && !table.contains("h10.test"), "{table}");
    }
    // Its only page is refused: the delay is shown for those that may be added.
    let plan = crawl.json(&["--summary"], 3);
    let shop = host(&plan, "shop.test");
    assert_eq!((&shop["delay_seconds"], &shop["hours"]), (&json!(10.0), &json!(0.0)));
    assert!(crawl.path("urls.txt.plan").exists(), "something is undecided");
}

#[test]
fn what_was_fetched_is_kept_until_the_plan_is_printed() {
    let crawl = Crawl::new("http://shop.test/private\n");
    crawl.origin.site("shop.test").disallows("/private");
    let state = crawl.path("urls.txt.plan");
    for arguments in [&["--json"][..], &["--markdown"], &[]] {
        let arguments = [&["--from", "urls.txt"], arguments].concat();
        let full = std::fs::File::options().write(true).open("/dev/full").expect("a device");
        let failed = crawl.command(&arguments).stdout(full).stderr(Stdio::null()).status();
        assert_eq!(failed.expect("it runs").code(), Some(2), "{arguments:?}");
        assert!(state.exists(), "{arguments:?}");
        // As `| head` does when it has seen enough. The refusal remains one.
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let closed = crawl.command(&arguments).stdout(writer).stderr(Stdio::null()).status();
        assert_eq!(closed.expect("it runs").code(), Some(1), "{arguments:?}");
        assert!(state.exists(), "{arguments:?}");
    }
    crawl.said(&[], 1);
    assert!(!state.exists(), "it was printed");
    assert_eq!(crawl.origin.robots_fetches("shop.test"), 1);
}

#[test]
fn a_state_that_somebody_else_may_have_planted_is_not_believed() {
    let crawl = Crawl::new("http://shop.test/a\n");
    // A state that allows, and is still fresh when the site does not.
    crawl.said(&["--state", "planted"], 0);
    crawl.origin.site("shop.test").disallows("/a");
    let state = crawl.path("urls.txt.plan");
    let planted = || std::fs::copy(crawl.path("planted"), &state).expect("copied");
    let link = || std::os::unix::fs::symlink(crawl.path("planted"), &state).expect("a link");
    let shared = || {
        planted();
        std::fs::set_permissions(&state, Permissions::from_mode(0o666)).expect("changed");
    };
    let empty = || std::fs::write(&state, "").expect("written");
    for (plant, said) in [
        (&link as &dyn Fn(), "is a symbolic link"),
        (&shared, "may be written by others"),
        (&empty, "is empty"),
    ] {
        plant();
        let output = crawl.plan(&["--from", "urls.txt"]);
        assert_eq!(output.status.code(), Some(1), "{said}: {output:?}");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains(said) && errors.contains("begins anew"), "{errors}");
        assert!(state.symlink_metadata().is_ok(), "{said}: it is not ours to delete");
        std::fs::remove_file(&state).expect("deleted");
    }
    // Our own is.
    planted();
    std::fs::set_permissions(&state, Permissions::from_mode(0o600)).expect("changed");
    crawl.said(&[], 0);
}

#[test]
fn the_exit_status_is_that_of_check() {
    let crawl = Crawl::new("");
    crawl.origin.site("shop.test").disallows("/private");
    crawl.origin.site("down.test").robots_reply(Reply::new(503));
    for (list, status) in [
        ("http://shop.test/a\n", 0),
        ("http://shop.test/a\nhttp://shop.test/a\n# a remark\n\n", 0),
        ("http://shop.test/a\nhttp://shop.test/private\n", 1),
        ("http://shop.test/private\nhttp://down.test/\n", 3),
        ("http://shop.test/private\nhttp://down.test/\nshop.test\n", 2),
        ("", 2),
        ("# nothing\n", 2),
    ] {
        std::fs::write(crawl.path("urls.txt"), list).expect("writable");
        crawl.said(&[], status);
        let output = crawl.plan(&["--from", "urls.txt"]);
        assert_eq!(output.status.code(), Some(status), "{list:?}: {output:?}");
    }
    for arguments in [
        &["--from", "missing.txt"][..],
        &["--from", "."],
        &[],
        &["--from", "urls.txt", "--crawler", "nwes"],
        &["--from", "urls.txt", "--json", "--markdown"],
        &["--from", "urls.txt", "--state", "urls.txt"],
    ] {
        let output = crawl.plan(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{output:?}");
    }
}

#[test]
fn the_only_crawler_is_meant_and_one_of_several_is_asked_for() {
    let crawl = Crawl::with("http://shop.test/private\n", |settings| {
        settings.crawler("news", "NewsBot").crawler("images", "ImageBot")
    });
    crawl.origin.site("shop.test").robots("User-agent: ImageBot\nDisallow: /private\n");
    let output = crawl.plan(&["--from", "urls.txt"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("whose crawl? give --crawler (news, images)"), "{said}");
    assert_eq!(output.status.code(), Some(2));
    crawl.said(&["--crawler", "news"], 0);
    crawl.said(&["--crawler", "images"], 1);
    crawl.said(&["--user-agent", "ImageBot/1.0"], 1);
}

#[test]
fn lines_that_are_no_urls_are_named_and_the_rest_is_planned() {
    let long = format!("http://shop.test/{}\n", "a".repeat(10 << 20));
    let list = [
        b"http://shop.test/a\n\xff\xfe\x00\n/path\nhttp://[::1\nhttp://shop.test/\xff\n".as_slice(),
        b"http://user:secret@shop.test/\n-\nhttp://[::1]:8080/\nftp://shop.test/\n".as_slice(),
        long.as_bytes(),
        b"http://shop.test/b",
    ]
    .concat();
    let crawl = Crawl::new("");
    std::fs::write(crawl.path("urls.txt"), &list).expect("writable");
    let output = crawl.plan(&["--from", "urls.txt", "--json"]);
    assert_eq!(output.status.code(), Some(2), "{:?}", output.stderr);
    let said = String::from_utf8_lossy(&output.stderr);
    for line in [2, 3, 4, 5, 7, 9, 10] {
        assert!(said.contains(&format!("wayleave: urls.txt:{line}: ")), "{line}: {said}");
    }
    let plan: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = array(&plan["urls"]);
    assert_eq!(rows[0]["url"], "http://shop.test/a");
    assert_eq!((&rows[1]["line"], &rows[3]["line"]), (&json!(2), &json!(4)));
    assert_eq!(rows.last().expect("a row")["url"], "http://shop.test/b");
    assert_eq!(host(&plan, "[::1]")["origin"], "http://[::1]:8080");
    // Without rows about URLs, the lines are counted all the same.
    let summary = crawl.json(&["--summary"], 2);
    assert_eq!(summary["total"]["mistakes"], 7);
    let markdown = crawl.said(&["--markdown"], 2);
    assert!(markdown.contains("\n7 lines without a URL: not in this plan\n"), "{markdown}");
}

#[test]
fn a_list_may_come_by_standard_input() {
    let crawl = Crawl::new("");
    let output = tools::run(
        &mut crawl.command(&["--from", "-", "--json", "--crawler", "news"]),
        pages("shop.test", 3).as_bytes(),
        LIMIT,
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let plan: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(plan["total"]["requests"], 3);
    let left: Vec<_> = std::fs::read_dir(crawl.dir.path()).expect("listed").flatten().collect();
    assert!(left.iter().all(|it| !it.file_name().to_string_lossy().contains("plan")), "{left:?}");
}

#[test]
fn a_pace_is_that_of_the_configuration() {
    let list =
        [pages("a.shop.test", 20), pages("b.shop.test", 40), pages("other.test", 30)].concat();
    let robots = "User-agent: *\nDisallow:\nCrawl-delay: 2\n";
    for (keys, hours, units) in [
        (&[][..], 80.0 / 3600.0, 3),
        // A delay that nobody waits for is a pace all the same.
        (&[("politeness.crawl_delay", "\"wait\"")], 80.0 / 3600.0, 3),
        (&[("politeness.crawl_delay", "\"ignore\"")], 0.0, 3),
        (&[("politeness.min_delay", "\"10s\"")], 400.0 / 3600.0, 3),
        (&[("politeness.max_delay", "\"1s\"")], 40.0 / 3600.0, 3),
        (&[("politeness.default_delay", "\"7s\"")], 210.0 / 3600.0, 3),
        (&[("politeness.share", "\"domain\"")], 120.0 / 3600.0, 2),
        // The one without a delay waits for the others' turns.
        (&[("politeness.share", "\"address\"")], 180.0 / 3600.0, 1),
    ] {
        let crawl = Crawl::with(&list, |settings| {
            let set = |settings: Settings, key: &(&str, &str)| settings.set(key.0, key.1);
            keys.iter().fold(settings.crawler("news", "NewsBot"), set)
        });
        for host in ["a.shop.test", "b.shop.test"] {
            crawl.origin.site(host).robots(robots);
        }
        let plan = crawl.json(&["--summary"], 0);
        let found = plan["total"]["hours"].as_f64().expect("a number");
        assert!((found - hours).abs() < 1e-9, "{keys:?}: {found} instead of {hours}");
        assert_eq!(array(&plan["units"]).len(), units, "{keys:?}: {plan}");
        assert_eq!(plan["urls"], json!([]));
    }
}

#[test]
fn requests_that_keep_no_pace_take_no_time() {
    let list =
        format!("{}http://shop.test/robots.txt\nhttps://blind.test/a\n", pages("shop.test", 9));
    let crawl = Crawl::with(&list, |settings| {
        let settings = settings.set("politeness.min_delay", "\"60s\"");
        settings.set("https.bypass", "[\"blind.test\"]").crawler("news", "NewsBot")
    });
    let plan = crawl.json(&["--summary"], 0);
    // robots.txt is answered from the copy, and nobody sees the requests in a tunnel that is not inspected.
    assert_eq!(host(&plan, "shop.test")["requests"], 10);
    assert_eq!(host(&plan, "shop.test")["hours"], 9.0 / 60.0);
    assert_eq!(host(&plan, "blind.test")["delay_seconds"], 0.0);
    assert_eq!(plan["total"]["hours"], 9.0 / 60.0);
}

#[test]
fn settings_that_change_the_time_are_said() {
    let crawl = Crawl::with("http://shop.test/private\n", |settings| {
        let watched = crawler("news", "NewsBot").set("bytes_per_day", "1MiB").observed();
        let settings = settings.set("politeness.adaptive", "true").with(watched);
        settings.set("log.decisions", "\"\"").set("politeness.crawl_delay", "\"ignore\"")
    });
    crawl.origin.site("shop.test").disallows("/private");
    let plan = crawl.json(&[], 0);
    assert_eq!(plan["urls"][0]["outcome"], "observed");
    assert_eq!((&plan["total"]["observed"], &plan["total"]["requests"]), (&json!(1), &json!(1)));
    let notes: Vec<_> =
        array(&plan["total"]["notes"]).iter().map(|note| note.as_str().expect("text")).collect();
    for expected in
        ["log.decisions is empty", "\"observe\"", "\"ignore\"", "adaptive", "bytes_per_day"]
    {
        assert!(notes.iter().any(|note| note.contains(expected)), "{expected}: {notes:?}");
    }
    let text = crawl.said(&["--summary"], 0);
    assert!(notes.iter().all(|note| text.contains(note)), "{text}");
}

#[test]
fn budgets_make_days_of_hours() {
    let crawl = Crawl::with(&pages("shop.test", 250), |settings| {
        settings.with(crawler("news", "NewsBot").set("requests_per_day", 100))
    });
    let plan = crawl.json(&["--summary"], 0);
    let total = &plan["total"];
    assert_eq!(
        (&total["limit"], &total["hours_at_pace"]),
        (&json!("requests_per_day"), &json!(0.0))
    );
    // 100 today, 100 tomorrow, and 50 at the midnight after that.
    let hours = total["hours"].as_f64().expect("a number");
    assert!((24.0..=48.0).contains(&hours), "{hours}");
    let text = crawl.said(&["--summary"], 0);
    assert!(text.contains("because of requests_per_day; at the pace alone 0 h"), "{text}");
}

#[test]
fn extreme_delays_and_files_are_planned() {
    let list = ["endless.test", "long.test", "rated.test"].map(|host| pages(host, 100)).concat();
    let crawl = Crawl::with(&list, |settings| {
        settings.crawler("news", "NewsBot").set("politeness.max_delay", "\"365d\"")
    });
    crawl.origin.site("endless.test").robots("User-agent: *\nCrawl-delay: 1000000000\n");
    let rules: String = (0..25_000).map(|number| format!("Disallow: /x/{number}\n")).collect();
    crawl.origin.site("long.test").robots(format!("User-agent: *\nCrawl-delay: 1\n{rules}"));
    crawl.origin.site("rated.test").robots("User-agent: *\nRequest-rate: 1/10s\n");
    let plan = crawl.json(&["--summary"], 0);
    let hours = |name: &str| host(&plan, name)["hours"].as_f64().expect("a number");
    assert!(hours("endless.test") >= 24.0 * 365.0 * 100.0, "{}", hours("endless.test"));
    assert!(plan["total"]["hours"].as_f64().is_some_and(f64::is_finite));
    assert_eq!(hours("long.test"), 100.0 / 3600.0);
    assert_eq!(hours("rated.test"), 1000.0 / 3600.0);
}

#[test]
fn an_interrupted_plan_goes_on_where_it_was() {
    let list: String = (0..60).map(|number| format!("http://h{number}.test/a\n")).collect();
    let crawl = Crawl::new(&list);
    let gate = Gate::closed();
    for number in 0..60 {
        let site = crawl.origin.site(&format!("h{number}.test"));
        if number < 20 {
            site.robots(format!("User-agent: *\nDisallow:\nCrawl-delay: {number}\n"));
        } else {
            let waiting = Reply::new(200).step(Step::Wait(gate.clone()));
            site.robots_reply(waiting.body("User-agent: *\nDisallow: /a\n"));
        }
    }
    let mut interrupted = crawl
        .command(&["--from", "urls.txt", "--json"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let state = crawl.path("urls.txt.plan");
    let kept = || std::fs::read_to_string(&state).unwrap_or_default().lines().count();
    eventually("20 files are kept", || kept() == 21);
    // Not even by a signal that it could handle.
    interrupted.kill().expect("it runs");
    interrupted.wait().expect("it ends");
    // As if the last line had been being written.
    let mut file = std::fs::OpenOptions::new().append(true).open(&state).expect("it is there");
    file.write_all(b"http://h59.test AQEAAAA").expect("writable");
    drop(file);
    gate.open();
    let before = (0..20).map(|number| crawl.origin.robots_fetches(&format!("h{number}.test")));
    assert_eq!(before.sum::<usize>(), 20);
    let resumed = crawl.json(&[], 1);
    let after = (0..20).map(|number| crawl.origin.robots_fetches(&format!("h{number}.test")));
    assert_eq!(after.sum::<usize>(), 20, "none is fetched again");
    assert!(!state.exists(), "the plan is complete");
    let whole = crawl.json(&[], 1);
    let shown = |plan: &Value| {
        let rows = array(&plan["urls"]).iter();
        rows.map(|row| (row["url"].clone(), row["outcome"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(shown(&resumed), shown(&whole));
    for member in ["hosts", "units", "total"] {
        assert_eq!(resumed[member], whole[member], "{member}");
    }
    assert_eq!(whole["total"]["refused_urls"], 40);
}

#[test]
fn a_named_state_is_kept_and_another_file_is_left_alone() {
    let crawl = Crawl::new("http://shop.test/a\n");
    for _ in 0..2 {
        crawl.said(&["--state", "state"], 0);
    }
    assert_eq!(crawl.origin.robots_fetches("shop.test"), 1);
    assert!(crawl.path("state").exists());
    std::fs::write(crawl.path("urls.txt.plan"), "my own notes\n").expect("writable");
    let output = crawl.plan(&["--from", "urls.txt"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("urls.txt.plan") && said.contains("begins anew"), "{said}");
    let notes = std::fs::read_to_string(crawl.path("urls.txt.plan")).expect("it is there");
    assert_eq!(notes, "my own notes\n");
}

/// Gives a site a licence by which one page costs less than the others.
fn license_at_two_prices(origin: &Origin) {
    let content = |url: &str, price: &str| {
        format!(
            "<content url=\"{url}\"><license><permits type=\"usage\">ai-train</permits><payment type=\"purchase\">\
             <amount currency=\"EUR\">{price}</amount></payment></license></content>"
        )
    };
    let licence = format!(
        "<rsl xmlns=\"https://rslstandard.org/rsl\">{}{}</rsl>",
        content("/page/0", "0.01"),
        content("/page/", "3.50")
    );
    let licence = Reply::new(200).header("Content-Type", "application/rsl+xml").body(licence);
    origin
        .site("licensed.test")
        .robots("License: http://licensed.test/rsl.xml\nUser-agent: *\nDisallow:\n")
        .page("/rsl.xml", licence);
}

#[test]
fn hosts_that_refused_at_the_edge_and_prices_are_known() {
    let origin = Origin::start();
    origin.site("shut.test").page("/", Reply::new(403).body("no"));
    let priced = Reply::new(402).header("crawler-price", "USD 0.01").body("pay");
    origin.site("paid.test").page("/", priced);
    license_at_two_prices(&origin);
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.with(crawler("news", "NewsBot").purposes(["train-ai"]))
    });
    for host in ["shut.test", "paid.test", "open.test"] {
        proxy.get_as("NewsBot/1", &format!("http://{host}/"));
    }
    let log = proxy.dir.path().join("state/decisions.jsonl");
    let written = || std::fs::read_to_string(&log).unwrap_or_default();
    eventually("the decisions are written", || {
        ["shut", "paid", "open"]
            .iter()
            .all(|it| written().contains(&format!("http://{it}.test/\"")))
    });
    let list = ["shut.test", "paid.test", "open.test", "licensed.test"].map(|host| pages(host, 5));
    std::fs::write(proxy.dir.path().join("urls.txt"), list.concat()).expect("writable");
    std::fs::write(proxy.dir.path().join("plan.toml"), proxy.settings.to_toml()).expect("writable");
    let run = |further: &[&str]| {
        let mut plan = command();
        plan.args(["plan", "--config", "plan.toml", "--from", "urls.txt", "--summary"])
            .args(further);
        tools::run(plan.current_dir(proxy.dir.path()), b"", LIMIT)
    };
    let output = run(&["--json"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let plan: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let total = &plan["total"];
    assert_eq!(total["edge_share"], 0.5);
    assert_eq!(total["edge_hosts"], json!(["shut.test", "paid.test"]));
    let shut = &host(&plan, "shut.test")["edge"];
    assert_eq!(
        (&shut["refused"], &shut["answered"], &shut["kinds"]),
        (&json!(1), &json!(1), &json!({"forbidden": 1}))
    );
    assert_eq!(host(&plan, "open.test")["edge"]["refused"], 0);
    let expected = json!([
        { "host": "paid.test", "urls": 5, "scheme": "cloudflare", "price": "0.01", "currency": "USD", "from": "log" },
        { "host": "licensed.test", "urls": 1, "scheme": "rsl", "price": "0.01", "currency": "EUR", "from": "licence" },
        { "host": "licensed.test", "urls": 4, "scheme": "rsl", "price": "3.50", "currency": "EUR", "from": "licence" },
    ]);
    assert_eq!(total["prices"], expected);
    let text = String::from_utf8(run(&[]).stdout).expect("text");
    for expected in [
        "in the last 30 days: 2 of 4 hosts (50 %)",
        "3.50 EUR (rsl)",
        "0.01 USD (cloudflare)",
        "at least once",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    // A host to which nothing is sent asks for nothing.
    std::fs::write(proxy.dir.path().join("urls.txt"), "http://paid.test/robots.txt\n")
        .expect("writable");
    let output = run(&["--json"]);
    let plan: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(plan["total"]["prices"], json!([]));
}

#[test]
fn gaps_in_the_decision_log_are_said() {
    let crawl = Crawl::new("http://shop.test/a\n");
    let log = crawl.path("state/decisions.jsonl");
    std::fs::create_dir_all(crawl.path("state")).expect("a directory");
    let note = |said: &str| {
        let plan = crawl.json(&["--summary"], 0);
        let notes = array(&plan["total"]["notes"]).clone();
        let is_said =
            notes.iter().any(|note| note.as_str().is_some_and(|note| note.contains(said)));
        assert!(is_said, "{said}: {notes:?}");
        plan["total"]["edge_share"].clone()
    };
    assert_eq!(note("there is no decision log"), Value::Null);
    std::fs::write(&log, "no decision\n{\"id\":1}\n").expect("writable");
    assert_eq!(note("are missing (damaged lines: 2)"), 0.0);
    // Rotated files without a current one are a log.
    let rotated = crawl.path("state/decisions.20261101T000000.000000Z.jsonl");
    std::fs::rename(&log, rotated).expect("renamed");
    assert_eq!(note("the current file of the log is missing"), 0.0);
}

#[test]
fn ten_thousand_hosts_are_planned() {
    let list: String = (0..10_000).map(|number| format!("http://h{number}.test/a\n")).collect();
    let crawl = Crawl::new(&list);
    let plan = crawl.json(&["--summary"], 0);
    assert_eq!(array(&plan["hosts"]).len(), 10_000);
    assert_eq!(plan["total"]["requests"], 10_000);
    assert_eq!(crawl.origin.seen().len(), 10_000, "each robots.txt once");
}
