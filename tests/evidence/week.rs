//! A week of crawling in small, with reloads and kills: exported whole, every decision is made again.

use crate::harness::wayleave::Settings;
use crate::harness::{Ask, Origin, Wayleave, decisions};

use super::export::{evidence, expect};

const AGENTS: [&str; 3] = ["NewsBot/1", "ImageBot/1", "Other/1"];

fn tables(round: usize) -> String {
    let dialect = ["rfc9309", "google", "strictest"][round % 3];
    format!(
        "[[crawler]]\nname = \"news\"\ntokens = [\"NewsBot\"]\nmatch = {{ user_agent = \"NewsBot\" }}\ndialect = \"{dialect}\"\n\
         [[crawler]]\nname = \"images\"\ntokens = [\"ImageBot\"]\nmatch = {{ user_agent = \"ImageBot\" }}\nmode = \"observe\"\n\
         [[rule]]\naction = \"refuse\"\nhosts = [\"*.test\"]\npaths = [\"/round-{round}/\"]\n"
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

/// A part of the crawl, by four clients at once.
fn crawl(proxy: &Wayleave, origins: usize, (from, to): (usize, usize)) {
    std::thread::scope(|scope| {
        for client in 0..4 {
            scope.spawn(move || {
                let mut wire = proxy.connect();
                for n in (from..to).filter(|n| n % 4 == client) {
                    let path = ["a1/x", "b/1", "b/2", "round-2/", "c"][n / 7 % 5];
                    // Most of it is refused: what is forwarded costs more of the test's time.
                    let url = format!("http://h{}.test/{path}?n={n}", n * 31 % origins);
                    wire.send(Ask::get(&url).agent(AGENTS[n % 3]).bytes(&url));
                    wire.response();
                }
            });
        }
    });
}

fn reload(proxy: &Wayleave, base: &Settings, round: usize) {
    let text = base.clone().table(&tables(round)).to_toml();
    std::fs::write(proxy.dir.path().join("config.toml"), text).expect("it can be written");
    let mut wire = crate::harness::Wire::connect(proxy.admin);
    let head = "POST /v1/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    wire.send(head);
    assert_eq!(wire.response().status, 200);
}

fn week(total: usize, origins: usize) {
    let origin = origin(origins);
    let mut base = None;
    let mut proxy = Wayleave::start_with(&origin, |settings| {
        let settings = settings.set("log.decisions_max_size", "\"4MiB\"");
        base = Some(settings.clone());
        settings.table(&tables(0))
    });
    let base = base.expect("it was asked for");
    // Five reloads and three kills, in eight steps between nine parts.
    for part in 0..9 {
        crawl(&proxy, origins, (total * part / 9, total * (part + 1) / 9));
        match part {
            2 | 4 | 6 => {
                let (dir, settings) = proxy.kill();
                proxy = Wayleave::start_in(dir, settings);
            }
            8 => {}
            part => reload(&proxy, &base, part + 1),
        }
    }
    let (dir, _) = proxy.stop();
    let log = |name: &str| std::fs::read_to_string(dir.path().join("state").join(name));
    let state = std::fs::read_dir(dir.path().join("state")).expect("it can be listed");
    let names = state
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    let names: Vec<_> = names.filter(|name| name.ends_with(".jsonl")).collect();
    let written: usize = names
        .iter()
        .map(|name| decisions(&log(name).expect("text")).count())
        .sum();
    assert!(
        written > total * 9 / 10 && written <= total,
        "{written} of {total}"
    );
    let started = std::time::Instant::now();
    expect(
        &evidence(dir.path(), &["export", "--since", "30d", "--out", "week"]),
        0,
    );
    println!("exported in {:?}", started.elapsed());
    let started = std::time::Instant::now();
    let told = expect(&evidence(dir.path(), &["verify", "week"]), 0);
    println!(
        "{} files, verified in {:?}\n{told}",
        names.len(),
        started.elapsed()
    );
    assert!(told.contains(&format!("decisions  {written}: ")), "{told}");
}

#[test]
fn a_week_with_reloads_and_kills_comes_out_the_same() {
    week(100_000, 1000);
}

/// `WAYLEAVE_EVIDENCE=1000000 cargo test --release --test integration -- --ignored --nocapture evidence::week`
#[test]
#[ignore = "takes as long as its size says"]
fn a_week_of_any_size_comes_out_the_same() {
    let total =
        std::env::var("WAYLEAVE_EVIDENCE").expect("WAYLEAVE_EVIDENCE says how many decisions");
    week(total.parse().expect("a number"), 1000);
}
