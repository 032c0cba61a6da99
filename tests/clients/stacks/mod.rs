//! The answers that clients read without the proxy, and through it. `WAYLEAVE_GENERATE=1` rewrites the table of proxy/http-wire/README.md.

mod answers;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tempfile::TempDir;

use self::answers::answers;
use crate::admin::reasons::compare;
use crate::clients::env::build_go;
use crate::harness::origin::reply::Step;
use crate::harness::tools::{clean, node_modules, program, project, python, run};
use crate::harness::{Origin, Reply, Wayleave};

const LIMIT: Duration = Duration::from_secs(300);
/// The clients that run at a time.
const AT_ONCE: usize = 3;

/// The way to run a client.
#[derive(Clone, Copy)]
enum Runner {
    /// A program that reads URLs from its standard input, and prints what it read as stacks.py does.
    Script(fn(&Tools) -> Command),
    /// A command for one URL, which writes the content to the file `$OUT`. `$PROXY` are its words for a proxy, `$DIRECT` those
    /// for none.
    Line(&'static str),
}
use Runner::{Line, Script};

/// A client: its name in the table, and how it is run.
#[rustfmt::skip]
const CLIENTS: &[(&str, Runner)] = &[
    ("curl", Line("curl -q -sS --fail --compressed --max-time 20 -o $OUT ${PROXY:+-x $PROXY} $URL")),
    ("wget", Line("http_proxy=$PROXY wget --no-config -q --tries=1 --timeout=20 --content-on-error -O $OUT $URL || test $? = 8 && grep -q . $OUT")),
    ("aria2", Line("aria2c -q --no-conf --max-tries=1 --timeout=20 --http-accept-gzip=true --http-proxy=$PROXY -d / -o $OUT $URL")),
    ("git", Line("git -c http.proxy=$PROXY ls-remote $URL >$OUT")),
    ("apt", Line("/usr/lib/apt/apt-helper -qq -o APT::Sandbox::User=root -o Acquire::Retries=0 -o Acquire::http::Timeout=3 -o Acquire::http::Proxy=${PROXY:-DIRECT} download-file $URL $OUT")),
    ("pip", Script(|tools| tools.python("pip"))),
    ("npm", Script(|tools| tools.node("npm"))),
    ("Requests", Script(|tools| tools.python("requests"))),
    ("httpx", Script(|tools| tools.python("httpx"))),
    ("httpx, HTTP/2", Script(|tools| tools.python("httpx-h2"))),
    ("aiohttp", Script(|tools| tools.python("aiohttp"))),
    ("urllib3", Script(|tools| tools.python("urllib3"))),
    ("pycurl", Script(|tools| tools.python("pycurl"))),
    ("Scrapy", Script(|tools| tools.python("scrapy"))),
    ("undici", Script(|tools| tools.node("undici"))),
    ("axios", Script(|tools| tools.node("axios"))),
    ("Java", Script(|_| script("java", "Stack.java"))),
    ("Go", Script(|tools| clean(&tools.go))),
    ("PHP", Script(|_| script("php", "stack.php"))),
    ("Ruby", Script(|_| script("ruby", "stack.rb"))),
    ("Perl", Script(|_| script("perl", "stack.pl"))),
    ("Chromium", Script(|tools| tools.node("chromium"))),
];

/// The programs that are built once for all tests.
struct Tools {
    go: PathBuf,
    dir: TempDir,
}

impl Tools {
    fn python(&self, library: &str) -> Command {
        let mut command = clean(python());
        command.arg(folder().join("stacks.py")).arg(library);
        command
    }

    fn node(&self, library: &str) -> Command {
        let mut command = script("node", "stacks.cjs");
        command.arg(library).env("NODE_PATH", node_modules());
        command.env("NPM", program("npm")).env("CHROMIUM", program("chromium-headless-shell"));
        command
    }
}

fn folder() -> PathBuf {
    project().join("tests/clients/stacks")
}

fn script(interpreter: &str, file: &str) -> Command {
    let mut command = clean(program(interpreter));
    command.arg(folder().join(file));
    command
}

/// What a client read: the status, if it shows it, and the content.
type Reading = (u16, Vec<u8>);

/// Returns what a client reads of each URL; none if it fails.
fn readings(
    runner: Runner,
    tools: &Tools,
    urls: &[String],
    proxy: Option<&str>,
) -> Vec<Option<Reading>> {
    match runner {
        Line(line) => {
            let dir = tempfile::tempdir_in(tools.dir.path()).expect("a directory can be made");
            urls.iter().map(|url| by_line(line, url, proxy, dir.path())).collect()
        }
        Script(command) => {
            let mut command = command(tools);
            if let Some(proxy) = proxy {
                command.env("PROXY", proxy);
            }
            let output = run(&mut command, urls.join("\n").as_bytes(), LIMIT);
            let lines = String::from_utf8(output.stdout).expect("text");
            let read: BTreeMap<_, _> = lines.lines().filter_map(reading).collect();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && !read.is_empty(), "{command:?}: {lines} {stderr}");
            urls.iter().map(|url| read.get(url.as_str()).cloned()).collect()
        }
    }
}

fn reading(line: &str) -> Option<(&str, Reading)> {
    let (url, rest) = line.split_once(' ')?;
    let (status, content) = rest.split_once(' ')?;
    let content = data_encoding::HEXLOWER.decode(content.trim().as_bytes());
    // That of the proxy for what it does not read.
    let status = status.parse().expect("a status");
    (status != 502).then(|| (url, (status, content.expect("digits"))))
}

fn by_line(line: &str, url: &str, proxy: Option<&str>, dir: &Path) -> Option<Reading> {
    let out = dir.join("content");
    let mut shell = clean("/bin/sh");
    shell.args(["-c", line]).env("URL", url).env("OUT", &out).env("HOME", dir);
    shell.env("PROXY", proxy.unwrap_or_default()).env("GIT_TERMINAL_PROMPT", "0");
    let output = run(&mut shell, b"", LIMIT);
    let content = std::fs::read(&out);
    // It is not there if the client wrote nothing.
    let _ = std::fs::remove_file(&out);
    output.status.success().then(|| (0, content.unwrap_or_default()))
}

/// How an answer is read through the proxy, compared with the same client without it.
fn comparison(direct: Option<&Reading>, proxied: Option<&Reading>) -> &'static str {
    match (direct, proxied) {
        (None, None) => "-",
        (None, Some(_)) => "+",
        (Some(_), None) => "lost",
        (Some(direct), Some(proxied)) if direct == proxied => "=",
        (Some(_), Some(_)) => "other",
    }
}

/// The comparisons of a client that the proxy makes read nothing less, and nothing else.
const NO_WORSE: [&str; 3] = ["=", "+", "-"];

/// What a client reads of each URL without the proxy, and with it.
type ClientReadings = [Vec<Option<Reading>>; 2];

fn cell([direct, proxied]: &ClientReadings, number: usize) -> &'static str {
    comparison(direct[number].as_ref(), proxied[number].as_ref())
}

/// Returns the cells of an answer's row in the document; none if it has no such row.
fn documented<'a>(document: &'a str, answer: &str) -> Vec<&'a str> {
    let row = document.lines().find(|line| line.starts_with(&format!("| {answer} |")));
    row.unwrap_or_default().split(" | ").skip(1).collect()
}

/// Reads again by clients for which the proxy seems to make a difference that the document does not have, and replaces the
/// readings that make it: a client may have waited for too long.
fn read_doubtful_again(
    read: &mut [ClientReadings],
    rows: &[Vec<&str>],
    read_by: impl Fn(usize) -> ClientReadings,
) {
    for (client, readings) in read.iter_mut().enumerate() {
        for _ in 0..2 {
            let is_doubtful = |number: &usize| {
                let is_documented =
                    rows[*number].get(client).is_some_and(|it| !NO_WORSE.contains(it));
                !is_documented && !NO_WORSE.contains(&cell(readings, *number))
            };
            let doubtful: Vec<_> = (0..rows.len()).filter(is_doubtful).collect();
            if doubtful.is_empty() {
                break;
            }
            let [direct, proxied] = read_by(client);
            for number in doubtful {
                readings[0][number] = direct[number].clone();
                readings[1][number] = proxied[number].clone();
            }
        }
    }
}

/// Returns the readings of each client, by its place among the clients: without the proxy, and with it.
fn read_by_all(
    tools: &Tools,
    urls: impl Fn(&str) -> Vec<String> + Sync,
    proxy: &str,
) -> Vec<ClientReadings> {
    let next = AtomicUsize::new(0);
    let read = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let job = next.fetch_add(1, Ordering::Relaxed);
                    let Some((name, runner)) = CLIENTS.get(job / 2) else { return };
                    let proxy = (job % 2 == 1).then_some(proxy);
                    let readings = readings(*runner, tools, &urls(name), proxy);
                    read.lock().expect("no thread panics with it").insert(job, readings);
                }
            });
        }
    });
    let mut read = read.into_inner().expect("no thread panics with it");
    let mut take = |job: usize| read.remove(&job).expect("it was read");
    (0..CLIENTS.len()).map(|client| [2 * client, 2 * client + 1].map(&mut take)).collect()
}

/// The host of the one client that needs HTTPS.
const HTTPS_HOST: &str = "odd.test";

#[test]
fn clients_read_through_the_proxy_what_they_read_without() {
    let (origin, answers) = (Origin::start(), answers());
    for (number, answer) in answers.iter().enumerate() {
        let reply = || Reply::raw(&answer.bytes, Step::Close);
        for host in ["127.0.0.1", HTTPS_HOST] {
            let site = origin.site(host).http1_only().page(&format!("/{number}"), reply());
            site.page(&format!("/{number}/info/refs?service=git-upload-pack"), reply());
        }
    }
    let secure = format!("{HTTPS_HOST}:{}", origin.https.port());
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.resolve(&secure, origin.https).set("politeness.max_concurrent_per_origin", "1000")
    });
    let base = |client: &str| match client {
        "httpx, HTTP/2" => format!("https://{secure}"),
        _ => format!("http://{}", origin.http),
    };
    let urls = |client: &str| {
        let base = base(client);
        (0..answers.len()).map(|number| format!("{base}/{number}")).collect()
    };
    let dir = tempfile::tempdir().expect("a directory can be made");
    let tools = Tools { go: build_go(&folder().join("stack.go")), dir };
    let proxy = format!("http://{}", proxy.proxy);
    let mut read = read_by_all(&tools, urls, &proxy);
    let names: Vec<_> = CLIENTS.iter().map(|(name, _)| *name).collect();
    let document =
        std::fs::read_to_string(project().join("proxy/http-wire/README.md")).expect("it is there");
    let rows: Vec<_> = answers.iter().map(|answer| documented(&document, answer.name)).collect();
    read_doubtful_again(&mut read, &rows, |client| {
        let (name, runner) = CLIENTS[client];
        [None, Some(&*proxy)].map(|proxy| readings(runner, &tools, &urls(name), proxy))
    });
    let mut table = String::new();
    let mut unexplained = Vec::new();
    for (number, answer) in answers.iter().enumerate() {
        let mut known = rows[number].iter().copied();
        let cells: Vec<_> = read
            .iter()
            .map(|readings| {
                let cell = cell(readings, number);
                // What a client reads by itself depends on its version, and on how an answer is cut into segments.
                let known = known.next().filter(|it| NO_WORSE.contains(it));
                known.filter(|_| NO_WORSE.contains(&cell)).unwrap_or(cell)
            })
            .collect();
        // Written by hand.
        let why = rows[number].last().map(|why| why.trim_end_matches([' ', '|']));
        let why = why.filter(|why| why.len() > "other".len()).unwrap_or_default();
        if cells.iter().any(|cell| matches!(*cell, "lost" | "other")) == why.is_empty() {
            unexplained.push(answer.name);
        }
        let _ = writeln!(table, "| {} | {} | {why} |", answer.name, cells.join(" | "));
    }
    let rule = "| --- ".repeat(names.len() + 2);
    let head = format!("| answer | {} | why |\n{rule}|\n", names.join(" | "));
    compare("proxy/http-wire/README.md", &head, "\n\n", table.trim_end());
    assert!(unexplained.is_empty(), "the last column says why, where it has to: {unexplained:?}");
}
