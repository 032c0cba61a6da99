//! Decisions that take long, beside others: they wait for the pool, and nobody waits for them.

use std::pin::pin;
use std::sync::mpsc;
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::sync::oneshot;
use wayleave_fairness::{Holder, WorkPool};

use super::rows::RowWorld;
use super::sites::{FileAnswer, Sites};
use super::world::{CrawlRequest, Parts, World};

/// Takes all places of a pool, until the senders are dropped.
async fn occupy(pool: &WorkPool) -> Vec<mpsc::Sender<()>> {
    let places = available_parallelism().map_or(1, usize::from).div_ceil(2);
    let mut taken = Vec::new();
    for _ in 0..places {
        let (held, released) = mpsc::channel::<()>();
        let (started, is_started) = oneshot::channel();
        let pool = pool.clone();
        tokio::spawn(async move {
            let wait = move || {
                started.send(()).expect("the test waits");
                let _ = released.recv();
            };
            pool.run(Holder::OWN, Duration::from_secs(1), wait).await;
        });
        is_started.await.expect("it starts");
        taken.push(held);
    }
    taken
}

/// Serves files that take milliseconds to judge by, though less than a decision may take, and some that do not.
fn worlds() -> RowWorld {
    let sites = Sites::default();
    let end = "Disallow: /*ba$\nAllow: /*baba\n";
    let chains: String = (0..600).map(|number| format!("Allow: /*ab*ba*c{number}\n")).collect();
    let long: String = (0..15_000).map(|number| format!("Allow: /{number}\n")).collect();
    let uses: String =
        (0..600).map(|number| format!("Content-Usage: /*ab*ba*c{number} train-ai=y\n")).collect();
    for (host, rules) in
        [("chains", chains), ("long", long), ("uses", uses), ("short", String::new())]
    {
        let file = FileAnswer::Text(format!("User-agent: *\n{rules}{end}"));
        sites.serve(&format!("http://{host}.test/robots.txt"), file);
    }
    let trainer = "[[crawler]]\nname = \"trainer\"\ntokens = [\"Trainer\"]\npurposes = [\"train-ai\"]\n\
                   match = { user_agent = \"Trainer\" }\n";
    RowWorld { configuration: trainer.to_owned(), requests: Vec::new(), sites }
}

#[tokio::test]
async fn only_costly_decisions_wait_for_the_pool() {
    let RowWorld { configuration, sites, .. } = worlds();
    let world = World::start(&Parts::new(), &configuration, sites);
    world.prime().await;
    let path = "ab".repeat(4_000);
    let request = |host: &str, path: &str, agent: &str| {
        CrawlRequest::get(&format!("http://{host}.test/{path}"), agent)
    };
    for (costly, reason) in [
        (request("chains", &path, "ExampleBot/1.0"), "rule"),
        (request("chains", &format!("{path}a"), "ExampleBot/1.0"), "rule"),
        (request("long", "page", "ExampleBot/1.0"), "no-matching-rule"),
        (request("long", "aba", "ExampleBot/1.0"), "rule"),
        (request("uses", &path, "Trainer/1.0"), "rule"),
    ] {
        let taken = occupy(world.pool()).await;
        let others = async {
            for (host, path, agent) in [
                ("short", &*path, "ExampleBot/1.0"),
                ("short", &path, "Trainer/1.0"),
                ("chains", "page", "ExampleBot/1.0"),
                ("uses", &path, "ExampleBot/1.0"),
            ] {
                world.decide(&request(host, path, agent)).await;
            }
        };
        let mut deciding = pin!(world.decide(&costly));
        tokio::select! {
            biased;
            _ = &mut deciding => panic!("{costly:?} was decided by the thread that serves requests"),
            () = others => {}
        }
        drop(taken);
        let decision = deciding.await;
        let shown = &costly.url[..costly.url.len().min(40)];
        assert_eq!(&*decision.reason, reason, "{shown}");
        let preview = world.preview(&costly).await.expect("it can be decided");
        assert_eq!(
            preview["line"].as_u64(),
            decision.finding.and_then(|finding| finding.line).map(u64::from)
        );
    }
}
