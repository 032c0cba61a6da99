//! A short week of crawling, with reloads and kills: every decision of its export is derived again.

use std::path::{Path, PathBuf};
use std::time::Instant;

use tempfile::TempDir;

use super::export::expect;
use crate::harness::crawler::crawler;
use crate::harness::tools::{clean, python};
use crate::harness::wayleave::BINARY;
use crate::harness::{Origin, Request, Wayleave, decisions};

const AGENTS: [&str; 3] = ["NewsBot/1", "ImageBot/1", "Other/1"];

fn tables(round: usize) -> String {
    let dialect = ["rfc9309", "google", "strictest"][round % 3];
    let news = crawler("news", "NewsBot").set("dialect", dialect).into_toml();
    let images = crawler("images", "ImageBot").observed().into_toml();
    format!(
        "{news}{images}[[rule]]\naction = \"refuse\"\nhosts = [\"*.test\"]\npaths = [\"/round-{round}/\"]\n"
    )
}

fn origin(origins: usize) -> Origin {
    let origin = Origin::start();
    for n in 0..origins {
        let robots = format!(
            "User-agent: NewsBot\nDisallow: /a{}\n\nUser-agent: *\nDisallow: /b\nAllow: /b/{n}\n",
            n % 97
        );
        origin.site(&format!("h{n}.test")).robots(robots);
    }
    origin
}

/// Sends a part of the crawl, with four clients.
fn crawl(proxy: &Wayleave, origins: usize, (from, to): (usize, usize)) {
    std::thread::scope(|scope| {
        for client in 0..4 {
            scope.spawn(move || {
                let mut wire = proxy.connect();
                for n in (from..to).filter(|n| n % 4 == client) {
                    let path = ["a1/x", "b/1", "b/2", "round-2/", "c"][n / 7 % 5];
                    // Most of it is refused: what is forwarded costs more of the test's time.
                    let url = format!("http://h{}.test/{path}?n={n}", n * 31 % origins);
                    wire.send(Request::get(&url).agent(AGENTS[n % 3]).absolute_form());
                    wire.response();
                }
            });
        }
    });
}

/// The events of a week.
struct Week {
    requests: usize,
    origins: usize,
    reloads: usize,
    kills: usize,
    /// The program that writes the first half, if not the one under test.
    before: Option<PathBuf>,
}

impl Week {
    /// Crawls in equal parts, with a reload or a kill between them. Returns the directory with the log.
    fn crawl(&self) -> TempDir {
        let origin = origin(self.origins);
        let mut proxy = Wayleave::start_with(&origin, |settings| {
            settings
                .set("log.decisions_max_size", "\"4MiB\"")
                .set("log.events", "false")
                .table(&tables(0))
        });
        let base = proxy.settings.clone().without_tables();
        let events = self.reloads + self.kills;
        for part in 0..=events {
            let at = |part| self.requests * part / (events + 1);
            crawl(&proxy, self.origins, (at(part), at(part + 1)));
            let is_kill = (part + 1) * self.kills / events > part * self.kills / events;
            if is_kill && part < events {
                let (dir, settings) = proxy.kill();
                let older = self.before.as_ref().filter(|_| part < events / 2);
                proxy = match older {
                    Some(program) => Wayleave::start_version(program, dir, settings),
                    None => Wayleave::start_in(dir, settings),
                };
            } else if part < events {
                proxy.reload(&base.clone().table(&tables(part + 1)));
            }
        }
        proxy.stop().0
    }
}

/// Runs a command of `wayleave evidence` that must succeed, and prints its time and memory.
fn timed(dir: &Path, arguments: &[&str]) -> String {
    const MEASURE: &str = "import resource, subprocess, sys\n\
         ended = subprocess.run(sys.argv[1:]).returncode\n\
         print('peak', resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 'KiB', flush=True)\n\
         sys.exit(ended)";
    let mut command = clean(python());
    command.args(["-c", MEASURE, BINARY, "evidence"]);
    command.args(arguments).current_dir(dir);
    let config = dir.join("config.toml");
    let started = Instant::now();
    let output = command.arg("--config").arg(config).output();
    let printed = expect(&output.expect("it runs"), 0);
    println!("{} took {:?}\n{printed}", arguments[0], started.elapsed());
    printed
}

/// Returns the size of the log's files, and the number of decisions in them.
fn written(dir: &Path) -> (u64, usize) {
    let state = std::fs::read_dir(dir.join("state")).expect("it can be listed");
    let paths = state.flatten().map(|entry| entry.path());
    let logs = paths.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    let (mut bytes, mut count) = (0, 0);
    for log in logs {
        let text = std::fs::read_to_string(log).expect("text");
        bytes += text.len() as u64;
        count += decisions(&text).count();
    }
    (bytes, count)
}

fn derives_every_decision(week: &Week) {
    let started = Instant::now();
    let dir = week.crawl();
    println!("crawled in {:?}", started.elapsed());
    let (bytes, written) = written(dir.path());
    println!("{written} decisions in {bytes} bytes");
    let requests = week.requests;
    assert!(written > requests * 9 / 10 && written <= requests, "{written} of {requests}");
    timed(dir.path(), &["export", "--since", "30d", "--out", "week"]);
    // A killed process leaves lines that it has not signed.
    let printed = timed(dir.path(), &["verify", "week", "--accept-unsigned"]);
    assert!(printed.contains(&format!("decisions  {written}: ")), "{printed}");
}

#[test]
fn every_decision_of_a_week_is_derived_again() {
    derives_every_decision(&Week {
        requests: 100_000,
        origins: 1000,
        reloads: 5,
        kills: 3,
        before: None,
    });
}

#[test]
fn lines_of_a_killed_process_have_their_documents() {
    const ORIGINS: usize = 40;
    let origin = origin(10 * ORIGINS);
    let mut proxy = Wayleave::start_with(&origin, |settings| settings.table(&tables(0)));
    for round in 0..10 {
        let first = round * ORIGINS;
        let mut wire = proxy.connect();
        for n in first..first + ORIGINS {
            wire.send(Request::get(&format!("http://h{n}.test/b/x")).absolute_form());
            wire.response();
        }
        let (dir, settings) = proxy.kill();
        proxy = Wayleave::start_in(dir, settings);
    }
    let dir = proxy.stop().0;
    timed(dir.path(), &["export", "--since", "30d", "--out", "killed"]);
    let printed = timed(dir.path(), &["verify", "killed", "--accept-unsigned"]);
    assert!(printed.contains("every decision was derived again"), "{printed}");
}

/// `WAYLEAVE_EVIDENCE=1000000 cargo test --release --test integration -- --ignored --nocapture evidence::week`, with an older version of
/// the program in `WAYLEAVE_EVIDENCE_BEFORE`, if there is one.
#[test]
#[ignore = "takes as long as its size requires"]
fn every_decision_of_a_week_of_any_size_is_derived_again() {
    let requests = std::env::var("WAYLEAVE_EVIDENCE");
    let requests = requests.expect("WAYLEAVE_EVIDENCE is the number of decisions");
    let requests: usize = requests.parse().expect("a number");
    derives_every_decision(&Week {
        requests,
        origins: (requests / 10).min(100_000),
        reloads: 50,
        kills: 20,
        before: std::env::var_os("WAYLEAVE_EVIDENCE_BEFORE").map(PathBuf::from),
    });
}
