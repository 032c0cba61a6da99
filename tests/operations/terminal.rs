//! Output for terminals only: colours and progress. The terminal is made by `script`.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::tools::{both_streams, clean, program, run};
use crate::harness::wayleave::{BINARY, command};
use crate::harness::{Origin, Wayleave};

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
        proxy.config_with_ports();
        Self { origin, proxy, refused }
    }

    /// Returns commands that print for people, each with a word printed in colour. They are run several times at once, which
    /// `robots refresh` refuses.
    fn commands(&self) -> Vec<(String, &'static str)> {
        let decision = format!("decision {} --config ports.toml", self.refused);
        [
            ("lint robots.txt", "error:"),
            ("check --robots robots.txt --token a /private", "disallow"),
            ("check --robots robots.txt --token a /", "allow"),
            ("check --token a no-url", "wayleave:"),
            ("report --config ports.toml", "Refused: 1"),
            ("robots list --config ports.toml", "fresh"),
            ("robots show http://shop.test --config ports.toml", "fresh"),
            ("fleet status --config ports.toml", "alone"),
            (&decision, "refused 403"),
            ("--help", "Usage:"),
        ]
        .map(|(arguments, painted)| (arguments.to_owned(), painted))
        .into()
    }

    fn on_a_terminal(&self, arguments: &str, variables: &[(&str, &str)]) -> String {
        on_a_terminal(self.proxy.dir.path(), arguments, variables)
    }

    fn piped(&self, arguments: &str, variables: &[(&str, &str)]) -> Output {
        let mut command = command();
        command
            .args(arguments.split(' '))
            .current_dir(self.proxy.dir.path())
            .envs(variables.iter().copied());
        run(&mut command, b"", LIMIT)
    }
}

/// Returns the output of `wayleave WORDS` on a terminal, from both streams.
fn on_a_terminal(dir: &Path, arguments: &str, variables: &[(&str, &str)]) -> String {
    let mut script = clean(program("script"));
    script
        .args(["--quiet", "--command", &format!("'{BINARY}' {arguments}"), "/dev/null"])
        .current_dir(dir)
        .env("SHELL", "/bin/sh")
        .env("TERM", "xterm-256color")
        .envs(variables.iter().copied());
    let output = run(&mut script, b"", LIMIT);
    String::from_utf8(output.stdout).expect("text")
}

/// Whether `word` is printed in a colour or bold.
fn is_painted(text: &str, word: &str) -> bool {
    let Some(at) = text.find(word) else {
        return false;
    };
    text[..at].ends_with('m') && text[at..].contains("\u{1b}[0m")
}

#[test]
fn colours_are_for_terminals() {
    let stage = Stage::start();
    for (arguments, painted) in stage.commands() {
        let printed = stage.on_a_terminal(&arguments, &[]);
        assert!(is_painted(&printed, painted), "{arguments}: {printed:?}");
        let forced = both_streams(&stage.piped(&arguments, &[("CLICOLOR_FORCE", "1")]));
        assert!(is_painted(&forced, painted), "{arguments}: {forced:?}");
        for plain in [
            both_streams(&stage.piped(&arguments, &[])),
            stage.on_a_terminal(&arguments, &[("NO_COLOR", "1")]),
            stage.on_a_terminal(&arguments, &[("TERM", "dumb")]),
        ] {
            let is_plain = plain.contains(painted)
                && !plain.contains("\u{1b}[3")
                && !plain.contains("\u{1b}[1m");
            assert!(is_plain, "{arguments}: {plain:?}");
        }
    }
}

#[test]
fn lists_have_heads_on_terminals_only() {
    let stage = Stage::start();
    let listing = "robots list --config ports.toml";
    let printed = stage.on_a_terminal(listing, &[("NO_COLOR", "1")]);
    assert!(printed.starts_with("state       since                    origin\r\n"), "{printed}");
    let piped = stage.piped(listing, &[]);
    let piped = String::from_utf8_lossy(&piped.stdout).into_owned();
    assert!(piped.starts_with("fresh"), "{piped}");
}

#[test]
fn a_terminal_obeys_nothing_but_our_colours() {
    let stage = Stage::start();
    for arguments in ["lint robots.txt", "robots show http://shop.test --config ports.toml"] {
        let printed = stage.on_a_terminal(arguments, &[]);
        assert!(printed.contains("\\u{1b}[2J"), "{arguments}: {printed:?}");
        assert!(!printed.contains("\u{1b}[2J"), "{arguments}: {printed:?}");
    }
}

#[test]
fn programs_get_json_without_colours_from_every_table() {
    let stage = Stage::start();
    let decision = format!("decision {} --config ports.toml", stage.refused);
    for arguments in [
        "lint robots.txt",
        "check --robots robots.txt --token a /private",
        "report --config ports.toml",
        "robots list --config ports.toml",
        "robots show http://shop.test --config ports.toml",
        "robots refresh http://shop.test --config ports.toml",
        "fleet status --config ports.toml",
        "keys list --config ports.toml",
        &decision,
    ] {
        let arguments = format!("{arguments} --json");
        let output = stage.piped(&arguments, &[("CLICOLOR_FORCE", "1")]);
        let text = String::from_utf8_lossy(&output.stdout);
        let values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        let values: Result<Vec<_>, _> = values.collect();
        let values = values.unwrap_or_else(|error| panic!("{arguments}: {error}: {text}"));
        assert!(!values.is_empty(), "{arguments}: {output:?}");
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
    for (arguments, progress) in [
        // Both are fetched at once, so either may begin last.
        (&*check, "2 of 2  http://"),
        ("lint robots.txt robots.txt", "2 of 2  robots.txt"),
        ("report --config ports.toml", "0 decisions"),
    ] {
        let printed = stage.on_a_terminal(&format!("{arguments} >output"), &[]);
        assert!(printed.contains(progress), "{arguments}: {printed:?}");
        let piped = stage.piped(arguments, &[]);
        assert!(!both_streams(&piped).contains(progress), "{arguments}: {piped:?}");
        let written = std::fs::read(stage.proxy.dir.path().join("output")).expect("it was made");
        let summary = |text: &[u8]| {
            String::from_utf8_lossy(text).lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(summary(&written), summary(&piped.stdout), "{arguments}");
    }
}

#[test]
fn finished_progress_is_erased() {
    let dir = TempDir::new().expect("a directory");
    std::fs::write(dir.path().join("robots.txt"), "").expect("writable");
    let printed = on_a_terminal(dir.path(), "lint robots.txt", &[]);
    let last = printed.rsplit("\u{1b}[2K").next().expect("a part");
    assert!(printed.contains("1 of 1"), "{printed:?}");
    assert_eq!(last.trim(), "1 file: nothing to report", "{printed:?}");
}
