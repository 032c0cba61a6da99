//! `wayleave run`: commands that know of no proxy, and can reach nothing else.

mod attempts;
mod command;
mod packets;
mod programs;
mod report;
mod sockets;

use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::tools::{self, both_streams};
use crate::harness::wayleave::{BINARY, Settings, command};
use crate::harness::{Origin, Reply};

const LIMIT: Duration = Duration::from_secs(540);
/// `nobody`, who needs no home.
const USER: u32 = 65_534;
const OPEN: &str = "a page of the origin";

/// Copies a script of attempts, and its runner, to a directory that commands can read. Returns the path of the copy.
fn copy_script(name: &str, dir: &Path) -> PathBuf {
    for file in ["attempt_runner.py", name] {
        let source = tools::project().join("tests/clients/run").join(file);
        std::fs::copy(source, dir.join(file)).expect("readable");
    }
    dir.join(name)
}

/// A configuration for runs, in a directory that is also the home of their commands.
struct Stage {
    origin: Origin,
    dir: TempDir,
}

impl Stage {
    /// Sets up an origin with the pages /open and /private, of which robots.txt disallows the second.
    fn new() -> Self {
        Self::with(|settings| settings)
    }

    fn with(change: impl FnOnce(Settings) -> Settings) -> Self {
        let origin = Origin::start();
        for host in ["shop.test", "other.test"] {
            let site = origin.site(host).disallows("/private");
            site.page("/open", Reply::text(OPEN)).page("/private", Reply::text("a secret"));
        }
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let settings = change(Settings::for_origin(dir.path(), &origin));
        std::fs::write(dir.path().join("config.toml"), settings.to_toml()).expect("writable");
        Self { origin, dir }
    }

    fn report_file(&self) -> PathBuf {
        self.dir.path().join("report.json")
    }

    /// Returns a command that runs `program` without a proxy setting, and writes the report.
    fn command(&self, program: &[&str]) -> Command {
        self.command_with(&[], program)
    }

    fn command_with(&self, options: &[&str], program: &[&str]) -> Command {
        let mut run = command();
        run.args(["run", "--config"]).arg(self.dir.path().join("config.toml"));
        run.arg("--report").arg(self.report_file()).args(options).arg("--").args(program);
        run.current_dir(self.dir.path()).env("HOME", self.dir.path());
        run
    }

    /// Returns the same command for a user without privileges, who then owns the directory.
    fn command_of_user(&self, program: &[&str]) -> Command {
        let dir = self.dir.path();
        let wayleave = dir.join("wayleave");
        // Where the user can read it.
        std::fs::copy(BINARY, &wayleave).expect("readable");
        let own = |path: &Path| chown(path, Some(USER), Some(USER)).expect("tests run as root");
        own(dir);
        for entry in std::fs::read_dir(dir).expect("readable") {
            own(&entry.expect("readable").path());
        }
        let run = self.command(program);
        let mut user = tools::clean(tools::program("setpriv"));
        user.args([format!("--reuid={USER}"), format!("--regid={USER}")]);
        user.arg("--clear-groups").arg(wayleave).args(run.get_args());
        user.current_dir(dir).env("HOME", dir);
        user
    }

    fn run(&self, program: &[&str]) -> Output {
        tools::run(&mut self.command(program), b"", LIMIT)
    }

    /// Runs a line of a shell. Returns its standard output and the rest.
    fn shell(&self, line: &str) -> (String, String) {
        let output = self.run(&["sh", "-c", line]);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    }

    fn report(&self) -> Value {
        let text = std::fs::read_to_string(self.report_file()).expect("the report is written");
        serde_json::from_str(&text).expect("the report is JSON")
    }

    /// Runs `command`, which fetches its last argument, by HTTP and HTTPS, for an allowed and a disallowed page, and compares
    /// what reached the origin.
    #[track_caller]
    fn check_client(&self, name: &str, command: &mut dyn FnMut(&str) -> Command) {
        for scheme in ["http", "https"] {
            let mut fetch = |path: &str| {
                let url = format!("{scheme}://shop.test{path}");
                both_streams(&tools::run(&mut command(&url), b"", LIMIT))
            };
            let open = fetch("/open");
            assert!(open.contains(OPEN), "{name}, {scheme}: {open}");
            let private = fetch("/private");
            assert!(private.contains("403"), "{name}, {scheme}: {private}");
            assert!(!private.contains("a secret"), "{name}, {scheme}: {private}");
            let seen = self.origin.seen();
            let page = format!("GET {scheme}://shop.test/open");
            assert!(seen.contains(&page), "{name}: {seen:?}");
        }
        let seen = self.origin.seen();
        assert!(!seen.iter().any(|line| line.contains("/private")), "{name}: {seen:?}");
    }
}
