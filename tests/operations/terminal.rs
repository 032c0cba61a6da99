//! Output that only a terminal gets: colours and progress. The terminal is one that `script` makes.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::clients::env::settled_config;
use crate::harness::tools::{clean, program, run};
use crate::harness::wayleave::{BINARY, command};
use crate::harness::{Origin, Request, Wayleave};

const LIMIT: Duration = Duration::from_secs(60);
const ROBOTS: &str = "User-agent: *\nDisallow: /private\nDisalow: /a\nDisallow: b\u{1b}[2J\n";

/// A proxy that has refused, and a file `robots.txt` beside its configuration.
struct Stage {
    origin: Origin,
    proxy: Wayleave,
    refused: String,
}

impl Stage {
    fn start() -> Self {
        let origin = Origin::start();
        origin.site("shop.test").robots(ROBOTS);
        let proxy = Wayleave::start(&origin);
        let answer = proxy.get_as("SomeBot/1", "http://shop.test/private");
        let refused = answer.json()["decision_id"].as_str().expect("an id").to_owned();
        std::fs::write(proxy.dir.path().join("robots.txt"), ROBOTS).expect("writable");
        settled_config(&proxy);
        Self { origin, proxy, refused }
    }

    /// Commands that print for people; each has a word to paint.
    fn commands(&self) -> Vec<(String, &'static str)> {
        let decision = format!("decision {} --config settled.toml", self.refused);
        [
            ("lint robots.txt", "error:"),
            ("check --robots robots.txt --token a /private", "disallow"),
            ("check --robots robots.txt --token a /", "allow"),
            ("check --token a no-url", "wayleave:"),
            ("report --config settled.toml", "Refused: 1"),
            ("robots list --config settled.toml", "fresh"),
            ("robots show http://shop.test --config settled.toml", "fresh"),
            ("robots refresh http://shop.test --config settled.toml", "fresh"),
            ("fleet status --config settled.toml", "alone"),
            (&decision, "refused 403"),
            ("--help", "Usage:"),
        ]
        .map(|(words, painted)| (words.to_owned(), painted))
        .into()
    }

    fn on_a_terminal(&self, words: &str, variables: &[(&str, &str)]) -> String {
        on_a_terminal(self.proxy.dir.path(), words, variables)
    }

    fn piped(&self, words: &str, variables: &[(&str, &str)]) -> Output {
        let mut command = command();
        command
            .args(words.split(' '))
            .current_dir(self.proxy.dir.path())
            .envs(variables.iter().copied());
        run(&mut command, b"", LIMIT)
    }
}

/// Returns the output of `wayleave WORDS` on a terminal, from both streams.
fn on_a_terminal(dir: &Path, words: &str, variables: &[(&str, &str)]) -> String {
    let mut script = clean(program("script"));
    script
        .args(["--quiet", "--command", &format!("'{BINARY}' {words}"), "/dev/null"])
        .current_dir(dir)
        .env("SHELL", "/bin/sh")
        .env("TERM", "xterm-256color")
        .envs(variables.iter().copied());
    let output = run(&mut script, b"", LIMIT);
    String::from_utf8(output.stdout).expect("text")
}

fn both(output: &Output) -> String {
    let parts = [&output.stdout, &output.stderr];
    parts.map(|part| String::from_utf8_lossy(part)).concat()
}

/// Whether a word stands there in some colour, or bold.
fn is_painted(text: &str, word: &str) -> bool {
    let Some(at) = text.find(word) else {
        return false;
    };
    text[..at].ends_with('m') && text[at..].contains("\u{1b}[0m")
}

#[test]
fn colours_are_for_terminals() {
    let stage = Stage::start();
    for (words, painted) in stage.commands() {
        let shown = stage.on_a_terminal(&words, &[]);
        assert!(is_painted(&shown, painted), "{words}: {shown:?}");
        let forced = both(&stage.piped(&words, &[("CLICOLOR_FORCE", "1")]));
        assert!(is_painted(&forced, painted), "{words}: {forced:?}");
        for plain in [
            both(&stage.piped(&words, &[])),
            stage.on_a_terminal(&words, &[("NO_COLOR", "1")]),
            stage.on_a_terminal(&words, &[("TERM", "dumb")]),
        ] {
            let is_plain = plain.contains(painted)
                && !plain.contains("\u{1b}[3")
                && !plain.contains("\u{1b}[1m");
            assert!(is_plain, "{words}: {plain:?}");
        }
    }
}

#[test]
fn a_terminal_obeys_nothing_but_our_colours() {
    let stage = Stage::start();
    for words in ["lint robots.txt", "robots show http://shop.test --config settled.toml"] {
        let shown = stage.on_a_terminal(words, &[]);
        assert!(shown.contains("\\u{1b}[2J"), "{words}: {shown:?}");
        assert!(!shown.contains("\u{1b}[2J"), "{words}: {shown:?}");
    }
}

#[test]
fn programs_get_json_without_colours_from_every_table() {
    let stage = Stage::start();
    let decision = format!("decision {} --config settled.toml", stage.refused);
    for words in [
        "lint robots.txt",
        "check --robots robots.txt --token a /private",
        "report --config settled.toml",
        "robots list --config settled.toml",
        "robots show http://shop.test --config settled.toml",
        "robots refresh http://shop.test --config settled.toml",
        "fleet status --config settled.toml",
        "keys list --config settled.toml",
        &decision,
    ] {
        let words = format!("{words} --json");
        let output = stage.piped(&words, &[("CLICOLOR_FORCE", "1")]);
        let text = String::from_utf8_lossy(&output.stdout);
        let values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        let values: Result<Vec<_>, _> = values.collect();
        let values = values.unwrap_or_else(|error| panic!("{words}: {error}: {text}"));
        assert!(!values.is_empty(), "{words}: {output:?}");
    }
}

#[test]
fn progress_is_shown_on_terminals_and_nowhere_else() {
    let stage = Stage::start();
    for site in ["one.test", "two.test"] {
        stage.origin.site(site).robots("");
    }
    let urls = "http://one.test/a http://two.test/b http://one.test/c";
    let check = format!("check --config config.toml --token a {urls}");
    for (words, progress) in [
        (&*check, "2 of 2  http://two.test/robots.txt"),
        ("lint robots.txt robots.txt", "2 of 2  robots.txt"),
        ("report --config settled.toml", "0 decisions"),
    ] {
        let shown = stage.on_a_terminal(&format!("{words} >output"), &[]);
        assert!(shown.contains(progress), "{words}: {shown:?}");
        let piped = stage.piped(words, &[]);
        assert!(!both(&piped).contains(progress), "{words}: {piped:?}");
        let written = std::fs::read(stage.proxy.dir.path().join("output")).expect("it was made");
        let summary = |text: &[u8]| {
            String::from_utf8_lossy(text).lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(summary(&written), summary(&piped.stdout), "{words}");
    }
}

#[test]
fn what_is_gone_leaves_no_progress_behind() {
    let dir = TempDir::new().expect("a directory");
    std::fs::write(dir.path().join("robots.txt"), "").expect("writable");
    let shown = on_a_terminal(dir.path(), "lint robots.txt", &[]);
    let last = shown.rsplit("\u{1b}[2K").next().expect("a part");
    assert!(shown.contains("1 of 1") && last.trim().is_empty(), "{shown:?}");
}
