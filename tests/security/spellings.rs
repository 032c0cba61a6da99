//! Other spellings of a path: if a real server serves a disallowed folder for a spelling, the proxy refuses that spelling.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde::Deserialize;

use crate::harness::servers::{Server, Servers};
use crate::harness::tools::project;
use crate::harness::{Origin, Response, Wayleave, Wire};

const SECRET: &str = "a disallowed page";

/// The spellings. Other tests read them, too.
const SPELLINGS: &str = include_str!("spellings.json");

#[derive(Deserialize)]
struct Spellings {
    /// Prefixes of `private/page.txt`.
    before: Vec<String>,
    /// Spellings of `private` in `/private/page.txt`.
    folders: Vec<String>,
    /// Spellings of `/deep/page.txt`, of which nothing but that page is disallowed.
    pages: Vec<String>,
    /// Spellings of `/private/`, of which there is an index.
    indexes: Vec<String>,
}

fn spellings() -> Vec<String> {
    let spellings: Spellings = serde_json::from_str(SPELLINGS).expect("lists of strings");
    let before = spellings.before.into_iter().map(|prefix| prefix + "private/page.txt");
    let folders = spellings.folders.into_iter().map(|folder| format!("/{folder}/page.txt"));
    before.chain(folders).chain(spellings.pages).chain(spellings.indexes).collect()
}

fn write(root: &Path, name: &str, text: &str) {
    let file = root.join(name);
    let folder = file.parent().expect("a file is in a folder");
    std::fs::create_dir_all(folder).expect("it can be made");
    std::fs::write(file, text).expect("it can be written");
}

const ROBOTS: &str = "User-agent: *\nDisallow: /private\nDisallow: /deep/page.txt\n";

/// The `[[rule]]` that replaces the line of robots.txt.
const RULE: &str = r#"
[[rule]]
action = "refuse"
hosts = ["*"]
paths = ["/private", "/deep/page.txt"]
"#;

fn document_root(root: &Path) {
    write(root, "robots.txt", ROBOTS);
    write(root, "index.html", "home");
    write(root, "x/y/index.html", "not much");
    write(root, "deep/x/index.html", "not much");
    for name in ["private/page.txt", "private/index.html", "private/x/index.html", "deep/page.txt"]
    {
        write(root, name, SECRET);
    }
}

/// Sends a target unchanged to a server or the proxy. Returns the response, if there is one.
fn send(wire: Wire, host: &str, target: &str) -> Option<Response> {
    send_as("example", wire, host, target)
}

fn send_as(bot: &str, mut wire: Wire, host: &str, target: &str) -> Option<Response> {
    let request = format!(
        "GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: Bot-{bot}/1.0\r\nConnection: close\r\n\r\n"
    );
    wire.try_send(request).ok()?;
    wire.try_response(false).ok()?
}

fn has_secret(answer: Option<&Response>) -> bool {
    answer.is_some_and(|answer| answer.text().contains(SECRET))
}

fn host(index: usize) -> String {
    format!("server{index}.test")
}

/// Starts a proxy that resolves a name to each server.
fn proxy(servers: &[Server], dialect: &str, tables: &str) -> Wayleave {
    Wayleave::start_with(&Origin::start(), |settings| {
        let settings = settings.set("robots.dialect", &format!("{dialect:?}")).table(tables);
        servers.iter().enumerate().fold(settings, |settings, (index, server)| {
            settings.resolve(&format!("{}:80", host(index)), server.address)
        })
    })
}

/// Adds a spelling to `missed` if a server serves it and it is not refused, or for another reason.
fn check(
    proxy: &Wayleave,
    reason: &str,
    index: usize,
    spelling: &str,
    is_served: bool,
    missed: &mut Vec<String>,
) {
    let host = host(index);
    let target = format!("http://{host}{spelling}");
    let through = send(proxy.connect(), &host, &target).expect("the proxy responds");
    // A fragment is never sent, so another page is requested.
    let is_refused = match through.status {
        // The server itself may refuse.
        403 if through.header("proxy-status").is_some() => through.json()["reason"] == reason,
        status => status == 400 || spelling.contains('#'),
    };
    if has_secret(Some(&through)) || is_served && !is_refused {
        missed.push(format!("{host} {spelling:?}: {} for {reason}", through.status));
    }
}

#[test]
fn spellings_that_real_servers_serve_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let (root, scratch) = (directory.path().join("root"), directory.path().join("scratch"));
    std::fs::create_dir(&scratch).expect("it can be made");
    document_root(&root);
    readable(directory.path());
    let servers = Servers::start(&root, &scratch);
    let (by_robots, by_rule) =
        (proxy(&servers.servers, "rfc9309", ""), proxy(&servers.servers, "rfc9309", RULE));
    let (mut missed, mut rows) = (Vec::new(), Vec::new());
    let spellings = spellings();
    assert!(spellings.len() >= 200, "{}", spellings.len());
    for spelling in spellings {
        let mut served = Vec::new();
        for (index, server) in servers.servers.iter().enumerate() {
            let direct = send(Wire::connect(server.address), "localhost", &spelling);
            let is_served = has_secret(direct.as_ref());
            check(&by_robots, "rule", index, &spelling, is_served, &mut missed);
            check(&by_rule, "policy-rule", index, &spelling, is_served, &mut missed);
            served.push(is_served);
        }
        rows.push((spelling, served));
    }
    let names: Vec<_> = servers.servers.iter().map(|server| &*server.name).collect();
    assert!(missed.is_empty(), "{missed:#?}");
    compare(&table(&names, &rows));
}

/// A page that rules and requests spell in many ways.
const ODD_PAGE: &str = "odd/~joe (a,b)/x!.txt";

#[rustfmt::skip]
const ODD_RULES: &[&str] = &[
    "/odd/%7Ejoe", "/odd/~jo%65 ", "/odd/~joe%20%28a%2Cb%29/", "/odd/%7Ejoe (a,b)/x%21.txt$", "/*%7ejoe%20(a%2cb)/x!", "/%6Fdd/~joe%20(",
];

#[rustfmt::skip]
const ODD_SPELLINGS: &[&str] = &[
    "/odd/~joe%20(a,b)/x!.txt", "/odd/%7Ejoe%20%28a%2Cb%29/x%21.txt", "/odd/%7ejo%65%20(a%2cb%29/x!%2Etxt", "//odd/./~joe%20(a%2Cb)/x%21.txt",
    "/%6fdd/%7Ejoe%20%28a,b)/%78!.txt",
];

#[test]
fn spellings_of_rules_refuse_what_real_servers_serve() {
    let directory = tempfile::tempdir().expect("a directory");
    let (root, scratch) = (directory.path().join("root"), directory.path().join("scratch"));
    std::fs::create_dir(&scratch).expect("it can be made");
    write(&root, ODD_PAGE, SECRET);
    let groups = ODD_RULES.iter().zip('a'..);
    let groups = groups.map(|(rule, name)| format!("User-agent: Bot-{name}\nDisallow: {rule}\n"));
    write(&root, "robots.txt", &groups.collect::<String>());
    readable(directory.path());
    let started = Servers::start(&root, &scratch);
    let servers = &started.servers;
    let proxies = ["google", "rfc9309"].map(|dialect| proxy(servers, dialect, ""));
    let mut is_served = false;
    for (index, server) in servers.iter().enumerate() {
        for spelling in ODD_SPELLINGS {
            let direct = send(Wire::connect(server.address), "localhost", spelling);
            is_served |= has_secret(direct.as_ref());
            let target = format!("http://{}{spelling}", host(index));
            for (name, rule) in ('a'..).zip(ODD_RULES) {
                for proxy in &proxies {
                    let through =
                        send_as(&name.to_string(), proxy.connect(), &host(index), &target);
                    let through = through.expect("the proxy responds");
                    let place = format!("{rule} {} {spelling}", server.name);
                    assert_eq!(through.status, 403, "{place}");
                }
            }
        }
    }
    assert!(is_served, "no server serves the page");
}

/// Lets servers that drop root read a directory.
fn readable(directory: &Path) {
    let readable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(directory, readable).expect("it is ours");
}

/// Returns a list of the servers, and a table of what each serves.
fn table(names: &[&str], rows: &[(String, Vec<bool>)]) -> String {
    let list = ('A'..).zip(names).map(|(letter, name)| format!("- {letter}: {name}\n"));
    let letters: Vec<_> = ('A'..).take(names.len()).map(String::from).collect();
    let head =
        format!("\n| spelling | {} |\n|---|{}\n", letters.join(" | "), "---|".repeat(names.len()));
    let rows = rows.iter().map(|(spelling, served)| {
        let cells = served.iter().map(|&is_served| if is_served { " x |" } else { " |" });
        let spelling = spelling.replace('\t', "\\t").replace('|', "\\|");
        format!("| `` {spelling} `` |{}\n", cells.collect::<String>())
    });
    list.chain([head]).chain(rows).collect()
}

/// The heading of the part of the document that this test writes.
const HEADING: &str = "## What which server serves\n\n";

/// Compares the document with what was found, except for the versions of servers.
#[track_caller]
fn compare(found: &str) {
    let path = project().join("policy/robots-txt/docs/spellings.md");
    let written = std::fs::read_to_string(&path).expect("the document exists");
    let (text, table) = written.split_once(HEADING).expect("it has a table");
    if std::env::var_os("WAYLEAVE_WRITE_DOCS").is_some() {
        let new = format!("{text}{HEADING}{found}");
        return std::fs::write(&path, new).expect("it can be written");
    }
    let rows = |text: &str| -> Vec<String> {
        let rows = text.lines().filter(|line| line.starts_with('|'));
        rows.map(str::to_owned).collect()
    };
    let is_current = rows(table) == rows(found);
    assert!(is_current, "run this test with WAYLEAVE_WRITE_DOCS=1 to update spellings.md\n{found}");
}
