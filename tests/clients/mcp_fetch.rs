//! wayleave's tools for agents beside mcp-server-fetch, on the same origins: proxy/src/mcp/README.md has what this test measures.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::origin::reply::Step;
use crate::harness::tools::{clean, output_of, project, python, test_in_namespaces};
use crate::harness::wayleave::BINARY;
use crate::harness::{Origin, Reply, Wayleave};

const LIMIT: Duration = Duration::from_secs(300);

/// Set inside the namespaces.
const INSIDE: &str = "WAYLEAVE_TEST_MCP_FETCH";

/// Every site is this machine.
const SETUP: &str = r#"
set -eu
PATH=$PATH:/usr/sbin:/sbin
ip link set lo up
hosts=$(mktemp)
for n in $(seq 0 29); do echo "127.0.0.1 case$n.test"; done > "$hosts"
echo '127.0.0.1 localhost other.test' >> "$hosts"
mount --bind "$hosts" /etc/hosts
rm "$hosts"
exec "$0" "$@"
"#;

/// A page, and what a robots.txt says about it.
struct Case {
    title: &'static str,
    /// Whether RFC 9309 lets the crawler `ExampleBot` fetch the page, and where.
    standard: &'static str,
    robots: Reply,
    /// The pages that are fetched one after another; the last one counts.
    paths: &'static [&'static str],
}

fn case(title: &'static str, standard: &'static str, robots: Reply) -> Case {
    Case { title, standard, robots, paths: &["/page"] }
}

fn rules(text: &str) -> Reply {
    Reply::text(format!("User-agent: *\n{text}"))
}

/// Returns a file of this size whose rule is its first or its last line.
fn long(is_first: bool) -> Reply {
    let remark = format!("# {}\n", "-".repeat(97)).repeat(6 * 1024);
    let rule = "Disallow: /page\n";
    rules(&if is_first { format!("{rule}{remark}") } else { format!("{remark}{rule}") })
}

fn cases(port: u16) -> Vec<Case> {
    let error = "<!doctype html><title>Down</title><h1>Down for maintenance</h1>";
    let elsewhere = format!("http://other.test:{port}/robots.txt");
    vec![
        case("a rule disallows the page", "no", rules("Disallow: /page\n")),
        Case {
            paths: &["/%70age"],
            ..case("the same, asked for as `/%70age`", "no (2.2.2)", rules("Disallow: /page\n"))
        },
        Case {
            paths: &["//page"],
            ..case("the same, asked for as `//page`", "not covered", rules("Disallow: /page\n"))
        },
        case(
            "an `Allow` and a `Disallow` of the same length match",
            "yes (2.2.2)",
            rules("Disallow: /page\nAllow: /page\n"),
        ),
        case(
            "a group for `ExampleBot` disallows it, that for `*` does not",
            "no (2.2.1)",
            Reply::text("User-agent: *\nAllow: /\n\nUser-agent: ExampleBot\nDisallow: /\n"),
        ),
        case(
            "only a group for `ExampleBot-News` disallows it",
            "yes (2.2.1)",
            Reply::text("User-agent: ExampleBot-News\nDisallow: /\n"),
        ),
        case("robots.txt: 404", "yes (2.3.1.3)", Reply::new(404)),
        case("robots.txt: 403", "yes (2.3.1.3)", Reply::new(403)),
        case(
            "robots.txt: 503, with a page for people",
            "no (2.3.1.4)",
            Reply { status: 503, ..Reply::html(error) },
        ),
        case("robots.txt: the connection is reset", "no (2.3.1.4)", Reply::nothing(Step::Reset)),
        case(
            "robots.txt redirects to another host, whose file disallows it",
            "no (2.3.1.2)",
            Reply::redirect(301, &elsewhere),
        ),
        Case {
            paths: &["/moved", "/page"],
            ..case("a page that redirects to the disallowed one", "no", rules("Disallow: /page\n"))
        },
        case("a rule at the start of a robots.txt of 600 KiB", "no (2.5)", long(true)),
        case("a rule at the end of a robots.txt of 600 KiB", "either (2.5)", long(false)),
        Case {
            paths: &["/first", "/page"],
            ..case(
                "a second page within `Crawl-delay: 60`",
                "not covered",
                rules("Crawl-delay: 60\n"),
            )
        },
    ]
}

/// Returns whether the standard's answer is this word.
fn standard_says(case: &Case, word: &str) -> bool {
    case.standard.split(' ').next() == Some(word)
}

/// Makes all calls by one of the servers. Returns for each case whether the last page arrived.
fn arrivals(
    origin: &Origin,
    cases: &[Case],
    arguments: &Value,
    server: &[&str],
    is_following: bool,
) -> Vec<bool> {
    let port = origin.http.port();
    let mut calls = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        origin
            .site(&format!("case{number}.test"))
            .robots_reply(case.robots.clone())
            .page("/moved", Reply::redirect(302, "/page"));
        for path in case.paths {
            // A server that follows redirects needs no second call.
            if is_following && case.paths[0] == "/moved" && *path == "/page" {
                continue;
            }
            let mut arguments = arguments.clone();
            arguments["url"] = json!(format!("http://case{number}.test:{port}{path}"));
            calls.push(json!(["fetch", arguments]));
        }
    }
    origin.site("other.test").disallows("/page");
    let mut client = clean(python());
    client.arg(project().join("tests/clients/agent.py")).arg(json!(calls).to_string()).args(server);
    output_of(&mut client, b"", LIMIT);
    let seen = origin.seen();
    let arrived = |(number, case): (usize, &Case)| {
        let path = case.paths.last().expect("a page");
        seen.contains(&format!("GET http://case{number}.test:{port}{path}"))
    };
    cases.iter().enumerate().map(arrived).collect()
}

#[test]
fn the_table_beside_mcp_server_fetch_is_measured() {
    if std::env::var_os(INSIDE).is_none() {
        let test = "clients::mcp_fetch::the_table_beside_mcp_server_fetch_is_measured";
        let options = ["--mount", "--propagation", "private"];
        return test_in_namespaces(&options, SETUP, test, INSIDE, Duration::from_secs(500));
    }
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let config = proxy.config_with_ports().display().to_string();
    let command = [BINARY, "mcp", "--token", "ExampleBot", "--config", &config];
    let ours = arrivals(&origin, &cases(origin.http.port()), &json!({}), &command, false);

    let origin = Origin::start();
    let program = python().with_file_name("mcp-server-fetch").display().to_string();
    let command = [&*program, "--user-agent", "ExampleBot/1.0", "--allow-private-ips"];
    let raw = json!({"raw": true});
    let theirs = arrivals(&origin, &cases(origin.http.port()), &raw, &command, true);

    let origin = Origin::start();
    let address = format!("http://{}", proxy.proxy);
    let command = [&command[..], &["--proxy-url", &address]].concat();
    let through = arrivals(&origin, &cases(origin.http.port()), &raw, &command, true);
    for (case, is_fetched) in cases(0).iter().zip(through) {
        assert!(!is_fetched || !standard_says(case, "no"), "{}", case.title);
    }

    let mut table = String::new();
    for ((case, ours), theirs) in cases(0).iter().zip(ours).zip(theirs) {
        let word = |is_fetched| if is_fetched { "fetches" } else { "refuses" };
        table += &format!(
            "| {} | {} | {} | {} |\n",
            case.title,
            case.standard,
            word(ours),
            word(theirs)
        );
        assert!(!standard_says(case, if ours { "no" } else { "yes" }), "{}", case.title);
    }
    let requirements = include_str!("requirements.txt");
    let version = requirements.lines().find_map(|line| line.strip_prefix("mcp-server-fetch=="));
    let head = format!(
        "| | RFC 9309: may it be fetched? | wayleave | mcp-server-fetch {} |\n| --- | --- | --- | --- |\n",
        version.expect("it is installed")
    );
    let document =
        std::fs::read_to_string(project().join("proxy/src/mcp/README.md")).expect("readable");
    assert!(
        document.contains(&format!("{head}{table}\n")),
        "proxy/src/mcp/README.md needs this table:\n{head}{table}"
    );
}
