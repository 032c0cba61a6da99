//! The snippets of README.md and of documents, unchanged but for the ports. Each fetches from https://example.com/, which is on
//! loopback here.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use crate::clients::env::build_go;
use crate::harness::crawler::crawler;
use crate::harness::tools::{both_streams, clean, node_modules, program, project, python, run};
use crate::harness::wayleave::{BINARY, Settings};
use crate::harness::{Origin, Reply, Wayleave};

pub const LIMIT: Duration = Duration::from_secs(540);

/// A fenced block after `<!-- snippet: NAME -->`.
pub struct Snippet {
    pub name: String,
    pub language: String,
    pub text: String,
}

/// The files that have snippets, below the top of the project.
const FILES: [&str; 6] = [
    "README.md",
    "docs/clients.md",
    "docs/configuration.md",
    "docs/crawlee.md",
    "docs/refusals.md",
    "docs/scrapy.md",
];

/// Programs in files of their own in examples/clients, as snippets: name, language, file.
const PROGRAMS: [[&str; 3]; 9] = [
    ["node", "js", "fetch.mjs"],
    ["go", "go", "fetch.go"],
    ["java", "java", "Fetch.java"],
    ["handle-curl", "sh", "handle.sh"],
    ["handle-httpx", "python", "handle_httpx.py"],
    ["handle-aiohttp", "python", "handle_aiohttp.py"],
    ["handle-node", "js", "handle.mjs"],
    ["handle-go", "go", "handle.go"],
    ["handle-java", "java", "Handle.java"],
];

fn snippets() -> Vec<Snippet> {
    let in_documents = FILES.into_iter().flat_map(snippets_in);
    in_documents.chain(PROGRAMS.map(program_in_a_file)).collect()
}

fn program_in_a_file([name, language, file]: [&str; 3]) -> Snippet {
    let file = project().join("examples/clients").join(file);
    let text = std::fs::read_to_string(file).expect("there is such a file");
    Snippet { name: name.to_owned(), language: language.to_owned(), text }
}

fn snippets_in(file: &str) -> Vec<Snippet> {
    let text = std::fs::read_to_string(project().join(file)).expect("there is such a file");
    let marked = text.split("<!-- snippet: ").skip(1);
    let snippet = |part: &str| {
        let (name, rest) =
            part.split_once(" -->\n```").expect("a fence follows the marker at once");
        let (language, rest) = rest.split_once('\n').expect("a fence is a line");
        let (text, _) = rest.split_once("\n```\n").expect("a fence ends");
        Snippet { name: name.to_owned(), language: language.to_owned(), text: format!("{text}\n") }
    };
    marked.map(snippet).collect()
}

pub fn snippet(name: &str) -> Snippet {
    snippets()
        .into_iter()
        .find(|snippet| snippet.name == name)
        .unwrap_or_else(|| panic!("no file has a snippet `{name}`"))
}

/// A proxy, and the directory in which a snippet runs, with wayleave-state/.
pub struct Stage {
    pub origin: Origin,
    pub proxy: Wayleave,
}

impl Stage {
    pub fn new(robots: &str) -> Self {
        Self::with(robots, Reply::html("<title>Example Domain</title>"), |settings| settings)
    }

    /// Starts an origin with this page at `/`, and a proxy with changed settings.
    pub fn with(robots: &str, page: Reply, change: impl FnOnce(Settings) -> Settings) -> Self {
        let origin = Origin::start();
        origin
            .site("example.com")
            .robots(robots)
            .page("/", page)
            .page(
                "/repository.git/info/refs?service=git-upload-pack",
                Reply::text("0123456789012345678901234567890123456789\trefs/heads/200\n"),
            )
            .page("/repository.git/HEAD", Reply::text("ref: refs/heads/200\n"));
        let proxy = Wayleave::start_with(&origin, |settings| {
            change(settings.resolve_to("example.com", &origin))
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

    /// Makes `wayleave` the program under test, with the configuration of the running proxy.
    fn install_program(&self) {
        let script = format!(
            "#!/bin/sh\nexec '{BINARY}' \"$@\" --config '{}'\n",
            self.proxy.config_with_ports().display()
        );
        let bin = self.dir().join("bin");
        std::fs::create_dir(&bin).expect("writable");
        let file = bin.join("wayleave");
        std::fs::write(&file, script).expect("writable");
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(file, executable).expect("its owner may");
    }

    /// Returns the `PATH` of a snippet: `wayleave`, then the Python of the tests, then the system's programs.
    fn path(&self) -> OsString {
        let system = std::env::var_os("PATH").unwrap_or_default();
        let python = python().parent().expect("a directory").to_owned();
        let dirs = [self.dir().join("bin"), python].into_iter();
        std::env::join_paths(dirs.chain(std::env::split_paths(&system))).expect("no colons")
    }

    /// Runs a snippet, with nothing in the environment for its programs.
    pub fn run(&self, snippet: &Snippet) -> Output {
        let text = snippet
            .text
            // One port may contain the digits of the other.
            .replace("3129", "ADMIN-PORT")
            .replace("3128", &self.proxy.proxy.port().to_string())
            .replace("ADMIN-PORT", &self.proxy.admin.port().to_string());
        let name = match snippet.language.as_str() {
            "sh" => "snippet.sh",
            "python" => "snippet.py",
            "js" => "snippet.mjs",
            "go" => "snippet.go",
            "java" => "Fetch.java",
            other => panic!("no interpreter for {other}"),
        };
        let file = self.dir().join(name);
        std::fs::write(&file, text).expect("writable");
        let mut command = self.interpreter(&snippet.language, &file);
        command.current_dir(self.dir()).env("HOME", self.dir()).env("PATH", self.path());
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

/// Checks a snippet of the documents. `prepare` runs before it, in the same directory.
#[track_caller]
fn check(name: &str, prepare: Option<&str>) {
    check_snippet(&snippet(name), prepare);
}

/// Runs a snippet where robots.txt allows it and where it does not.
#[track_caller]
fn check_snippet(snippet: &Snippet, prepare: Option<&str>) {
    let name = &*snippet.name;
    let open = Stage::new("User-agent: *\nAllow: /\n");
    let closed = Stage::new("User-agent: *\nDisallow: /\n");
    if let Some(preparation) = prepare {
        for stage in [&open, &closed] {
            let output = stage.run(&self::snippet(preparation));
            assert!(output.status.success(), "{preparation}: {}", both_streams(&output));
        }
    }
    let output = open.run(snippet);
    let printed = both_streams(&output);
    assert!(output.status.success(), "{name}: {printed}");
    assert!(
        printed.contains("200") || printed.contains("Example Domain"),
        "{name} shows what it got: {printed}"
    );
    let seen = open.origin.seen();
    let fetched = seen.iter().filter(|seen| !seen.ends_with("/robots.txt"));
    let mut fetched = fetched.filter(|seen| seen.starts_with("GET https://example.com/"));
    assert!(fetched.next().is_some(), "{name}: {seen:?}");

    let output = closed.run(snippet);
    let printed = both_streams(&output);
    assert_eq!(closed.origin.seen(), ["GET https://example.com/robots.txt"], "{name}: {printed}");
    assert!(
        printed.contains("403")
            || printed.contains("Disallowed by robots.txt")
            || !output.status.success(),
        "{name} shows the refusal: {printed}"
    );
}

#[test]
fn every_snippet_has_a_test() {
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
        "crawlee",
        "handle-curl",
        "handle-requests",
        "handle-httpx",
        "handle-aiohttp",
        "handle-scrapy",
        "handle-crawlee",
        "handle-node",
        "handle-go",
        "handle-java",
        "password-hash",
        "password-environment",
    ];
    for name in &names {
        assert!(known.contains(&name.as_str()), "no test runs the snippet `{name}`");
    }
    for name in known {
        assert!(names.iter().any(|known| known == name), "no file has a snippet `{name}`");
    }
}

/// Returns the documents: those at the top of the project, and those below docs/.
fn documents() -> Vec<(PathBuf, String)> {
    let docs = std::fs::read_dir(project().join("docs")).expect("a directory");
    let docs = docs.map(|entry| entry.expect("readable").path());
    ["README.md", "SECURITY.md", "CONTRIBUTING.md"]
        .map(|name| project().join(name))
        .into_iter()
        .chain(docs)
        .filter(|file| file.extension().is_some_and(|extension| extension == "md"))
        .map(|file| {
            let text = std::fs::read_to_string(&file).expect("readable");
            (file, text)
        })
        .collect()
}

/// Returns the text between backticks.
fn inline_code(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Returns the text between backticks and the lines between fences.
fn code(text: &str) -> Vec<&str> {
    let mut is_fenced = false;
    let mut code = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            is_fenced = !is_fenced;
        } else if is_fenced {
            code.push(line.trim_start_matches("$ "));
        } else {
            code.extend(inline_code(line));
        }
    }
    code
}

#[test]
fn every_metric_that_documents_name_exists() {
    let origin = Origin::start();
    // A budget has metrics only where there is one.
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.with(crawler("news", "NewsBot").set("requests_per_day", 1))
    });
    let metrics = proxy.admin_get("/metrics").text();
    let mut count = 0;
    for (file, text) in documents() {
        if file.ends_with("metrics.md") {
            continue; // Another test checks it.
        }
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        for name in words.filter(|word| word.starts_with("wayleave_") && word.len() > 10) {
            count += 1;
            let is_version = name.starts_with("wayleave_VERSION");
            // The drill writes its own into a file, which its test reads.
            let is_drills = name.starts_with("wayleave_drill_");
            assert!(
                is_version || is_drills || metrics.contains(&format!("# TYPE {name} ")),
                "{}: {name} does not exist",
                file.display()
            );
        }
    }
    assert!(count > 10, "the documents name metrics: {count}");
}

#[test]
fn every_link_has_a_target() {
    for (file, text) in documents() {
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        // Above the repository are the other pages of the site that hosts it.
        let is_elsewhere = |link: &&str| link.starts_with("http") || link.starts_with("../../");
        for link in links.filter(|link| !is_elsewhere(link)) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => file.clone(),
                path => file.parent().expect("a directory").join(path),
            };
            assert!(target.exists(), "{}: {link}", file.display());
            if anchor.is_empty() {
                continue;
            }
            let text = std::fs::read_to_string(&target).expect("readable");
            let headings = text.lines().filter_map(|line| line.strip_prefix('#'));
            let mut anchors = headings.map(|heading| {
                let heading = heading.trim_start_matches('#').trim().to_lowercase();
                let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
                kept.collect::<String>().replace(' ', "-")
            });
            assert!(anchors.any(|found| found == anchor), "{}: {link}", file.display());
        }
    }
}

/// Documents are read in terminals, too. Tables, what commands print, and pictures cannot be wrapped.
#[test]
fn every_sentence_fits_into_120_columns() {
    for (file, text) in documents() {
        let mut is_fenced = false;
        for (index, line) in text.lines().enumerate() {
            is_fenced ^= line.starts_with("```");
            let may_be_long = is_fenced || line.starts_with('|') || line.starts_with("![");
            let columns = line.chars().count();
            assert!(may_be_long || columns <= 120, "{}:{}: {columns}", file.display(), index + 1);
        }
    }
}

#[test]
fn every_command_and_option_that_documents_name_exists() {
    let mut count = 0;
    for (file, text) in documents() {
        for line in code(&text) {
            let Some(command) = line.strip_prefix("wayleave ") else {
                continue;
            };
            let is_name = |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase());
            let words: Vec<_> = command.split_whitespace().collect();
            let depth = if command.starts_with("evidence hold ") { 3 } else { 2 };
            let names = words.iter().copied().take_while(is_name).take(depth);
            let names: Vec<_> = names.take_while(|word| *word != "bash").collect();
            let help = help(&names);
            let options = words.iter().filter(|word| word.starts_with("--"));
            for option in options.map(|option| option.split('=').next().expect("one part")) {
                let file = file.display();
                assert!(help.contains(option), "{file}: {line}: no {option} in\n{help}");
            }
            count += 1;
        }
    }
    assert!(count > 20, "the documents name commands: {count}");
}

/// Returns the help of a command.
fn help(names: &[&str]) -> String {
    let mut command = Command::new(BINARY);
    let output = run(command.args(names).arg("--help"), b"", LIMIT);
    assert!(output.status.success(), "wayleave {names:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn every_key_that_documents_name_exists() {
    let text = std::fs::read_to_string(project().join("config.toml")).expect("readable");
    let (mut keys, mut section) = (BTreeSet::new(), String::new());
    for line in text.lines() {
        let line = line.trim_start_matches("# ");
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_matches(['[', ']']).to_owned();
        } else if let Some((key, _)) = line.split_once(" = ")
            && !section.is_empty()
        {
            keys.insert(format!("{section}.{key}"));
        }
    }
    let sections: BTreeSet<_> = keys.iter().filter_map(|key| key.split('.').next()).collect();
    let mut count = 0;
    for (file, text) in documents() {
        for found in text.lines().flat_map(inline_code) {
            let name = found.split([' ', '[']).next().expect("one part");
            let is_key =
                name.bytes().all(|byte| byte.is_ascii_lowercase() || b"._".contains(&byte));
            let (section, key) = name.split_once('.').unwrap_or_default();
            if !is_key || !sections.contains(section) || ["txt", "redb", "rs"].contains(&key) {
                continue;
            }
            assert!(keys.contains(name), "{}: {name} is not a key", file.display());
            count += 1;
        }
    }
    assert!(count > 40, "the documents name keys: {count}");
}

#[test]
fn quick_start_works() {
    check("quick-start", None);
}

/// What a newcomer sees tells whether curl went through the proxy or around it.
#[test]
fn quick_start_shows_whether_the_proxy_was_used() {
    let stage = Stage::new("User-agent: *\nAllow: /\n");
    let text = snippet("quick-start").text;
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("PATH=") && lines[2].starts_with("curl "), "{text}");
    let printed = both_streams(&stage.run(&snippet("quick-start")));
    let mut via = printed.lines().filter(|line| line.starts_with("via: "));
    assert!(via.any(|line| line.trim_end().ends_with(" wayleave")), "{printed}");
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
fn crawlee_works() {
    check("crawlee", None);
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
fn every_client_is_in_the_table() {
    let text = std::fs::read_to_string(project().join("docs/clients.md")).expect("there is one");
    let (text, _) = text.split_once("\n## The CA\n").expect("clients come first");
    let lines = || text.lines().filter(|line| line.starts_with("| "));
    for client in ["curl", "python", "scrapy", "node", "java", "go", "wget", "playwright"] {
        let ending = format!("| `{client}` |");
        assert!(lines().any(|line| line.ends_with(&ending)), "{client}");
    }
    for heading in text.lines().filter_map(|line| line.strip_prefix("## ")) {
        let anchor = heading.to_lowercase().replace(' ', "-").replace('.', "");
        let link = format!("](#{anchor})");
        assert!(lines().any(|line| line.contains(&link)), "{heading}");
    }
}

/// Returns a command that uses a client after its lines have run.
fn use_of(client: &str) -> String {
    match client {
        "go" => {
            let fetch = build_go(&project().join("tests/clients/fetch.go"));
            format!("'{}' https://example.com/", fetch.display())
        }
        "playwright" => {
            let program = snippet("playwright").text;
            format!("cat > page.mjs <<'END'\n{program}END\nnode page.mjs\n")
        }
        _ => {
            let name = match client {
                "python" => "env-requests".to_owned(),
                other => format!("env-{other}"),
            };
            let text = snippet(&name).text;
            let (lines, used) = text.split_once('\n').expect("more than one line");
            assert_eq!(lines, format!("eval \"$(wayleave env --client {client})\""));
            used.to_owned()
        }
    }
}

#[test]
fn the_lines_for_each_client_on_the_page_work() {
    let stage = Stage::new("");
    let path = "/v1/connect?proxy=http://127.0.0.1:3128&ca=wayleave-state/ca/ca.crt";
    let found = stage.proxy.admin_get(path).json();
    for client in found["clients"].as_array().expect("a list") {
        let name = client["name"].as_str().expect("a name");
        let lines = client["lines"].as_str().expect("text");
        let snippet = Snippet {
            name: format!("the lines of {name}"),
            language: "sh".to_owned(),
            text: format!("{lines}{}", use_of(name)),
        };
        check_snippet(&snippet, None);
    }
}
