//! The snippets of README.md and docs/clients.md, run as they stand but for the port of the proxy: each fetches from
//! https://example.com/, which is on loopback here.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use crate::clients::{build_go, settled_config};
use crate::harness::tools::{clean, node_modules, program, project, python, run};
use crate::harness::wayleave::BINARY;
use crate::harness::{Origin, Reply, Wayleave};

const LIMIT: Duration = Duration::from_secs(180);

/// A fenced block after `<!-- snippet: NAME -->`.
struct Snippet {
    name: String,
    language: String,
    text: String,
}

/// The files that have snippets, below the top of the project.
const FILES: [&str; 2] = ["README.md", "docs/clients.md"];

fn snippets() -> Vec<Snippet> {
    FILES.into_iter().flat_map(snippets_in).collect()
}

fn snippets_in(file: &str) -> Vec<Snippet> {
    let text = std::fs::read_to_string(project().join(file)).expect("there is such a file");
    let marked = text.split("<!-- snippet: ").skip(1);
    let snippet = |part: &str| {
        let (name, rest) = part
            .split_once(" -->\n```")
            .expect("a fence follows the marker at once");
        let (language, rest) = rest.split_once('\n').expect("a fence is a line");
        let (text, _) = rest.split_once("\n```\n").expect("a fence ends");
        Snippet {
            name: name.to_owned(),
            language: language.to_owned(),
            text: format!("{text}\n"),
        }
    };
    marked.map(snippet).collect()
}

fn snippet(name: &str) -> Snippet {
    snippets()
        .into_iter()
        .find(|snippet| snippet.name == name)
        .unwrap_or_else(|| panic!("no file has a snippet `{name}`"))
}

/// Where a snippet runs: a directory with wayleave-state/, the CA trusted by no one but the snippet.
struct Stage {
    origin: Origin,
    proxy: Wayleave,
}

impl Stage {
    fn new(robots: &str) -> Self {
        let origin = Origin::start();
        origin
            .site("example.com")
            .robots(robots)
            .page("/", Reply::html("<title>Example Domain</title>"))
            .page(
                "/repository.git/info/refs?service=git-upload-pack",
                Reply::text("0123456789012345678901234567890123456789\trefs/heads/200\n"),
            )
            .page("/repository.git/HEAD", Reply::text("ref: refs/heads/200\n"));
        let proxy = Wayleave::start_with(&origin, |settings| {
            settings.resolve_to("example.com", &origin)
        });
        let link = |from: PathBuf, name: &str| {
            std::os::unix::fs::symlink(from, proxy.dir.path().join(name))
                .expect("a link can be made");
        };
        link(proxy.dir.path().join("state"), "wayleave-state");
        link(node_modules(), "node_modules");
        let stage = Self { origin, proxy };
        stage.install_program();
        stage
    }

    fn dir(&self) -> &Path {
        self.proxy.dir.path()
    }

    /// Makes `wayleave` the program under test, with the configuration of the proxy that runs.
    fn install_program(&self) {
        let script = format!(
            "#!/bin/sh\nexec '{BINARY}' \"$@\" --config '{}'\n",
            settled_config(&self.proxy).display()
        );
        let bin = self.dir().join("bin");
        std::fs::create_dir(&bin).expect("writable");
        let file = bin.join("wayleave");
        std::fs::write(&file, script).expect("writable");
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(file, executable).expect("its owner may");
    }

    /// Where a snippet's programs are: `wayleave`, then the Python of the tests, then the system's.
    fn path(&self) -> OsString {
        let system = std::env::var_os("PATH").unwrap_or_default();
        let python = python().parent().expect("a directory").to_owned();
        let dirs = [self.dir().join("bin"), python].into_iter();
        std::env::join_paths(dirs.chain(std::env::split_paths(&system))).expect("no colons")
    }

    /// Runs a snippet; its programs are installed, but nothing is set for them.
    fn run(&self, snippet: &Snippet) -> Output {
        let text = snippet
            .text
            .replace("3128", &self.proxy.proxy.port().to_string());
        let name = match snippet.language.as_str() {
            "sh" => "snippet.sh",
            "python" => "snippet.py",
            "js" => "snippet.mjs",
            "go" => "snippet.go",
            "java" => "Fetch.java",
            other => panic!("no one knows how to run {other}"),
        };
        let file = self.dir().join(name);
        std::fs::write(&file, text).expect("writable");
        let mut command = self.interpreter(&snippet.language, &file);
        command
            .current_dir(self.dir())
            .env("HOME", self.dir())
            .env("PATH", self.path());
        run(&mut command, b"", LIMIT)
    }

    fn interpreter(&self, language: &str, file: &Path) -> Command {
        let interpreter = match language {
            "go" => return clean(build_go(file)),
            "python" => python(),
            "js" => program("node"),
            "java" => program("java"),
            _ => PathBuf::from("/bin/sh"),
        };
        let mut command = clean(interpreter);
        command.arg(file);
        command
    }
}

/// Runs a snippet where it may fetch and where it may not. `prepare` runs before, in the same place.
#[track_caller]
fn check(name: &str, prepare: Option<&str>) {
    let snippet = snippet(name);
    let shown = |output: &Output| {
        format!(
            "{}\n{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    };

    let open = Stage::new("User-agent: *\nAllow: /\n");
    let closed = Stage::new("User-agent: *\nDisallow: /\n");
    if let Some(preparation) = prepare {
        for stage in [&open, &closed] {
            let output = stage.run(&self::snippet(preparation));
            assert!(output.status.success(), "{preparation}: {}", shown(&output));
        }
    }
    let output = open.run(&snippet);
    assert!(output.status.success(), "{name}: {}", shown(&output));
    let said = shown(&output);
    assert!(
        said.contains("200") || said.contains("Example Domain"),
        "{name} shows what it got: {said}"
    );
    let seen = open.origin.seen();
    let fetched = seen.iter().filter(|seen| !seen.ends_with("/robots.txt"));
    let mut fetched = fetched.filter(|seen| seen.starts_with("GET https://example.com/"));
    assert!(fetched.next().is_some(), "{name}: {seen:?}");

    let output = closed.run(&snippet);
    assert_eq!(
        closed.origin.seen(),
        ["GET https://example.com/robots.txt"],
        "{name}: {}",
        shown(&output)
    );
    let said = shown(&output);
    assert!(
        said.contains("403")
            || said.contains("Disallowed by robots.txt")
            || !output.status.success(),
        "{name} shows the refusal: {said}"
    );
}

#[test]
fn no_snippet_is_left_out() {
    let names: Vec<_> = snippets().into_iter().map(|snippet| snippet.name).collect();
    let known = [
        "quick-start",
        "curl",
        "wget",
        "requests",
        "scrapy",
        "node",
        "go",
        "java",
        "playwright-trust",
        "playwright",
        "env-curl",
        "env-wget",
        "env-git",
        "env-requests",
        "env-httpx",
        "env-aiohttp",
        "env-scrapy",
        "env-node",
        "env-java",
    ];
    for name in &names {
        assert!(
            known.contains(&name.as_str()),
            "no test runs the snippet `{name}`"
        );
    }
    for name in known {
        assert!(
            names.iter().any(|known| known == name),
            "no file has a snippet `{name}`"
        );
    }
}

#[test]
fn every_metric_it_names_exists() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let metrics = proxy.admin_get("/metrics").text();
    let readme = std::fs::read_to_string(project().join("README.md")).expect("there is a README");
    let words = readme.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let names: BTreeSet<_> = words.filter(|word| word.starts_with("wayleave_")).collect();
    assert!(names.len() > 2, "the README names metrics: {names:?}");
    for name in names {
        assert!(
            metrics.contains(&format!("# TYPE {name} ")),
            "{name} is in the README and nowhere else"
        );
    }
}

#[test]
fn quick_start_works() {
    check("quick-start", None);
}

#[test]
fn curl_works() {
    check("curl", None);
}

#[test]
fn wget_works() {
    check("wget", None);
}

#[test]
fn requests_works() {
    check("requests", None);
}

#[test]
fn scrapy_works() {
    check("scrapy", None);
}

#[test]
fn node_works() {
    check("node", None);
}

#[test]
fn go_works() {
    check("go", None);
}

#[test]
fn java_works() {
    check("java", None);
}

#[test]
fn playwright_works() {
    check("playwright", Some("playwright-trust"));
}

#[test]
fn curl_and_wget_work_after_env() {
    check("env-curl", None);
    check("env-wget", None);
}

#[test]
fn git_works_after_env() {
    check("env-git", None);
}

#[test]
fn python_clients_work_after_env() {
    for name in ["env-requests", "env-httpx", "env-aiohttp", "env-scrapy"] {
        check(name, None);
    }
}

#[test]
fn node_works_after_env() {
    check("env-node", None);
}

#[test]
fn java_works_after_env() {
    check("env-java", None);
}

/// Every client that `wayleave env` knows, and every one with a heading, is in the table of docs/clients.md.
#[test]
fn every_client_has_its_line() {
    let text = std::fs::read_to_string(project().join("docs/clients.md")).expect("there is one");
    let lines = || text.lines().filter(|line| line.starts_with("| "));
    for client in [
        "curl",
        "python",
        "scrapy",
        "node",
        "java",
        "go",
        "wget",
        "playwright",
    ] {
        let ending = format!("| `{client}` |");
        assert!(lines().any(|line| line.ends_with(&ending)), "{client}");
    }
    for heading in text.lines().filter_map(|line| line.strip_prefix("## ")) {
        let anchor = heading.to_lowercase().replace(' ', "-").replace('.', "");
        let link = format!("](#{anchor})");
        assert!(lines().any(|line| line.contains(&link)), "{heading}");
    }
}
