//! The README's snippets, run as they stand but for the port of the proxy: each fetches https://example.com/, which is on loopback here.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use crate::clients::build_go;
use crate::harness::tools::{clean, node_modules, program, project, python, run};
use crate::harness::{Origin, Reply, Wayleave};

const LIMIT: Duration = Duration::from_secs(180);

/// A fenced block after `<!-- snippet: NAME -->`.
struct Snippet {
    name: String,
    language: String,
    text: String,
}

fn snippets() -> Vec<Snippet> {
    let readme = std::fs::read_to_string(project().join("README.md")).expect("there is a README");
    let marked = readme.split("<!-- snippet: ").skip(1);
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
        .unwrap_or_else(|| panic!("the README has no snippet `{name}`"))
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
            .page("/", Reply::html("<title>Example Domain</title>"));
        let proxy = Wayleave::start_with(&origin, |settings| {
            settings.resolve_to("example.com", &origin)
        });
        let link = |from: PathBuf, name: &str| {
            std::os::unix::fs::symlink(from, proxy.dir.path().join(name))
                .expect("a link can be made");
        };
        link(proxy.dir.path().join("state"), "wayleave-state");
        link(node_modules(), "node_modules");
        Self { origin, proxy }
    }

    fn dir(&self) -> &Path {
        self.proxy.dir.path()
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
        command.current_dir(self.dir()).env("HOME", self.dir());
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
    assert!(
        open.origin
            .seen()
            .contains(&"GET https://example.com/".to_owned()),
        "{name}: {:?}",
        open.origin.seen()
    );

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
            "the README has no snippet `{name}`"
        );
    }
}

#[test]
fn every_metric_it_names_exists() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.table(
            "[[crawler]]\nname = \"ours\"\ntokens = [\"ExampleBot\"]\nmatch = { user_agent = \"ExampleBot\" }\n",
        )
    });
    proxy.get("http://shop.test/a");
    proxy.get("https://shop.test/a");
    let metrics = proxy.admin_get("/metrics").text();
    let readme = std::fs::read_to_string(project().join("README.md")).expect("there is a README");
    let table = readme
        .lines()
        .filter_map(|line| line.strip_prefix("| `wayleave_")?.split_once('`'));
    let names: Vec<_> = table.map(|(name, _)| format!("wayleave_{name}")).collect();
    assert!(
        names.len() > 5,
        "the README has a table of metrics: {names:?}"
    );
    for name in &names {
        assert!(
            metrics.contains(&format!("# TYPE {name} ")),
            "{name} is in the README and nowhere else"
        );
    }
    for line in metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE wayleave_"))
    {
        let name = format!("wayleave_{}", line.split(' ').next().expect("a name"));
        assert!(names.contains(&name), "{name} is not in the README");
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
