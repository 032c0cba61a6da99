//! Crawls that are planned, and then run: by the proxy's own decisions, pace and budgets, against origins whose answers take a
//! while and may be 429, in time that passes at once. The plan has to be right within a tenth, and its refusals exactly.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tempfile::TempDir;
use tokio::time::Instant;
use wayleave_admission::preview::Question;
use wayleave_admission::{delay_of, pace_unit};
use wayleave_assembly::wiring::{self, OutboundConfig};
use wayleave_clock::Clock;
use wayleave_config::Config;
use wayleave_decision::{Crawler, RequestOutcome};
use wayleave_fleet::Fleet;
use wayleave_fleet::memory::MemoryEngine;
use wayleave_pacing::budget::{DailyBudgets, until_midnight};
use wayleave_pacing::{PaceUnit, PacedRequest, Pacer};
use wayleave_plan::{BudgetLeft, CrawlTime, OriginPlan};
use wayleave_robots_txt::{Origin, Target};
use wayleave_telemetry::metrics::Metrics;
use wayleave_upstream::{Destination, Upstream};

use super::sites::{CheckedSites, FileAnswer, Sites};
use super::world::{CrawlRequest, Parts, World};
use crate::admin::preview::Preview;
use crate::cli::check::verdict::word;
use crate::cli::plan::judge::CrawlJudge;

/// A crawl: a configuration, the hosts, and how they answer.
#[derive(Clone)]
struct Scenario {
    name: &'static str,
    /// Keys of the configuration, before its crawler.
    keys: &'static str,
    /// Keys of the crawler.
    crawler: &'static str,
    /// Each host's robots.txt (none: 404), and the number of its pages.
    hosts: Vec<(String, &'static str, usize)>,
    /// The number of paces that these hosts keep.
    units: usize,
    nodes: u8,
    /// The time until an answer.
    answers_in: Duration,
    /// Each of so many requests to a host is answered with 429 and this `Retry-After`, if any is.
    refuses: Option<(usize, Duration)>,
    /// The time of day at which it begins.
    begins_at: Duration,
}

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);
const TEN: &str = "User-agent: *\nDisallow: /private\nCrawl-delay: 10\n";
const FIVE: &str = "User-agent: *\nDisallow: /private\nCrawl-delay: 5\n";
const ONE: &str = "User-agent: *\nDisallow: /private\nCrawl-delay: 1\n";
const WAIT: &str = "politeness.crawl_delay = \"wait\"\n";

impl Scenario {
    fn new(name: &'static str, keys: &'static str, hosts: &[(&str, &'static str, usize)]) -> Self {
        Self {
            name,
            keys,
            crawler: "",
            hosts: hosts.iter().map(|host| (host.0.to_owned(), host.1, host.2)).collect(),
            units: hosts.len(),
            nodes: 1,
            answers_in: SECOND / 20,
            refuses: None,
            begins_at: Duration::ZERO,
        }
    }

    fn of_crawler(self, crawler: &'static str) -> Self {
        Self { crawler, ..self }
    }

    fn sharing(self, units: usize) -> Self {
        Self { units, ..self }
    }

    fn by_three_nodes(self) -> Self {
        Self { nodes: 3, ..self }
    }

    fn config(&self) -> String {
        format!(
            "upstream.allow_private = [\"192.0.2.0/24\", \"198.51.100.0/24\"]\n{}[dns.overrides]\n\"*.test\" = \"192.0.2.7\"\n\"*.far.test\" = \"198.51.100.9\"\n\
             [[crawler]]\nname = \"news\"\ntokens = [\"NewsBot\"]\nmatch = {{ user_agent = \"NewsBot\" }}\n{}\
             [[rule]]\naction = \"refuse\"\nhosts = [\"*\"]\npaths = [\"/contract/*\"]\n",
            self.keys, self.crawler
        )
    }

    /// Returns the URLs of a host: its pages, and some that are refused.
    fn urls(&self, host: usize) -> Vec<String> {
        let (host, _, pages) = &self.hosts[host];
        let pages = (0..*pages).map(|number| format!("http://{host}/page/{number}"));
        let refused = ["/private/a", "/contract/b", "/%70rivate/c", "/private"];
        pages.chain(refused.map(|path| format!("http://{host}{path}"))).collect()
    }
}

/// Returns crawls of one host by one node.
fn of_one_host() -> Vec<Scenario> {
    let shop = |robots, pages| [("shop.test", robots, pages)];
    let rated = "User-agent: *\nDisallow: /private\nRequest-rate: 1/5s\n";
    let grouped = "User-agent: *\nDisallow: /\nCrawl-delay: 60\n\nUser-agent: NewsBot\nDisallow: /private\nDisallow: /page/1\nCrawl-delay: 3\n";
    let endless = "User-agent: *\nDisallow: /private\nCrawl-delay: 4000\n";
    vec![
        Scenario::new("a delay that is waited for", WAIT, &shop(TEN, 100)),
        Scenario::new("a delay that is refused", "", &shop(TEN, 100)),
        Scenario::new("a rate", WAIT, &shop(rated, 100)),
        Scenario::new("a group of its own", "", &shop(grouped, 120)),
        Scenario::new(
            "a default where nothing is said",
            "politeness.default_delay = \"3s\"\n",
            &shop("", 100),
        ),
        Scenario::new(
            "a minimum above what is asked for",
            "politeness.min_delay = \"20s\"\n",
            &shop(ONE, 60),
        ),
        Scenario::new("the crawler's own minimum", WAIT, &shop(FIVE, 80))
            .of_crawler("min_delay = \"12s\"\n"),
        Scenario::new("the crawler's own default", WAIT, &shop("", 80))
            .of_crawler("default_delay = \"4s\"\n"),
        Scenario::new("more than is honoured", "", &shop(endless, 30)),
        Scenario::new(
            "delays that are ignored",
            "politeness.crawl_delay = \"ignore\"\npoliteness.min_delay = \"2s\"\n",
            &shop(TEN, 100),
        ),
        Scenario {
            refuses: Some((50, 30 * SECOND)),
            ..Scenario::new("some 429", WAIT, &shop(TEN, 200))
        },
        Scenario { answers_in: SECOND / 2, ..Scenario::new("slow answers", WAIT, &shop(TEN, 100)) },
    ]
}

/// Returns crawls of several hosts, or nodes, or days.
fn of_several() -> Vec<Scenario> {
    let shop = |robots, pages| [("shop.test", robots, pages)];
    let tenants = [("a.shop.test", FIVE, 60), ("b.shop.test", FIVE, 90), ("other.test", TEN, 50)];
    let unlike = [("a.shop.test", ONE, 90), ("b.shop.test", TEN, 60), ("c.shop.test", FIVE, 40)];
    let far = [("a.test", FIVE, 60), ("b.test", "", 50), ("c.far.test", TEN, 40)];
    let many: Vec<_> = (0..12).map(|number| (format!("h{number}.test"), ONE, 40)).collect();
    let many: Vec<_> = many.iter().map(|host| (host.0.as_str(), host.1, host.2)).collect();
    vec![
        Scenario::new("hosts side by side", WAIT, &unlike),
        Scenario::new(
            "tenants of a domain",
            "politeness.share = \"domain\"\npoliteness.crawl_delay = \"wait\"\n",
            &tenants,
        )
        .sharing(2),
        Scenario::new(
            "tenants with delays that are not alike",
            "politeness.share = \"domain\"\npoliteness.crawl_delay = \"wait\"\n",
            &unlike,
        )
        .sharing(1),
        Scenario::new(
            "hosts at one address",
            "politeness.share = \"address\"\npoliteness.crawl_delay = \"wait\"\n",
            &far,
        )
        .sharing(2),
        Scenario::new("three nodes at one host", WAIT, &shop(TEN, 120)).by_three_nodes(),
        Scenario::new(
            "three nodes at tenants",
            "politeness.share = \"domain\"\npoliteness.crawl_delay = \"wait\"\n",
            &tenants,
        )
        .sharing(2)
        .by_three_nodes(),
        Scenario {
            begins_at: 18 * HOUR,
            ..Scenario::new("requests of days, of three nodes", WAIT, &shop(ONE, 700))
                .of_crawler("requests_per_day = 200\n")
                .by_three_nodes()
        },
        Scenario {
            begins_at: 6 * HOUR,
            ..Scenario::new("origins of days", "", &many).of_crawler("new_origins_per_day = 5\n")
        },
    ]
}

/// The plan of a scenario.
struct Planned {
    time: CrawlTime,
    refused: BTreeSet<String>,
}

/// The parts of a proxy by which a scenario is planned and run.
struct Proxy {
    config: Config,
    world: World,
    sites: Sites,
    upstream: Arc<Upstream>,
    clock: Clock,
}

impl Proxy {
    async fn start(scenario: &Scenario) -> Self {
        let parts = Parts::new();
        tokio::time::advance(scenario.begins_at).await;
        let text = scenario.config();
        let sites = Sites::default();
        for (host, robots, _) in &scenario.hosts {
            if !robots.is_empty() {
                let url = format!("http://{host}/robots.txt");
                sites.serve(&url, FileAnswer::Text((*robots).to_owned()));
            }
        }
        let world = World::start(&parts, &text, sites.clone());
        world.prime().await;
        let config = Config::from_toml("config.toml", &text).expect("it is right");
        let outbound = OutboundConfig::new(&config, &[]);
        let metrics = Arc::new(Metrics::new().expect("metrics"));
        let clients = wiring::outbound_clients(outbound, parts.clock, &metrics).expect("clients");
        Self { config, world, sites, upstream: clients.upstream, clock: parts.clock }
    }

    async fn unit(&self, origin: &Origin) -> Option<Arc<PaceUnit>> {
        let destination = Destination { origin, source: None, client: None, network: None };
        pace_unit::find(self.config.politeness.share, &self.upstream, destination).await
    }

    fn crawler(&self) -> &Crawler {
        &self.config.crawlers.crawlers[0]
    }

    /// Plans a crawl as the command does.
    async fn plan(&self, scenario: &Scenario) -> Planned {
        let now = self.clock.now();
        let question = Question { crawler: Some("news".to_owned()), ..Question::default() };
        let judge = CrawlJudge::new(&self.config, question, now).expect("a crawler");
        let mut source = CheckedSites { sites: &self.sites, now };
        let mut refused = BTreeSet::new();
        let mut plans = Vec::new();
        for (number, (host, ..)) in scenario.hosts.iter().enumerate() {
            let origin = Origin::parse(&format!("http://{host}")).expect("an origin");
            let mut plan = OriginPlan::new(origin.clone());
            for url in scenario.urls(number) {
                let verdict: Preview = judge.judge(&url, &mut source, &mut plan).expect("a URL");
                if word(&verdict) == "refuse" {
                    refused.insert(url);
                }
            }
            let unit = self.unit(&origin).await.map(Arc::unwrap_or_clone);
            let unit = unit.unwrap_or(PaceUnit::Origin(origin));
            plan.set_pace(&self.config.politeness, judge.crawler(), unit);
            plans.push(plan);
        }
        let budget = BudgetLeft {
            limits: self.crawler().budget,
            used_requests: 0,
            used_origins: 0,
            day_left: until_midnight(now),
        };
        Planned { time: CrawlTime::new(&plans, &budget), refused }
    }

    /// Runs a crawl by requests of several nodes. Returns the URLs that are refused, and the time that it takes.
    async fn run(&self, scenario: &Scenario) -> (BTreeSet<String>, Duration) {
        let dir = TempDir::new().expect("a directory");
        let nodes = nodes(scenario.nodes, &dir, self.clock).await;
        let mut refused = BTreeSet::new();
        let mut hosts = Vec::new();
        for (number, (host, ..)) in scenario.hosts.iter().enumerate() {
            let mut pages = Vec::new();
            let mut delay = Duration::ZERO;
            for url in scenario.urls(number) {
                let decision = self.world.decide(&CrawlRequest::get(&url, "NewsBot/1")).await;
                if decision.outcome == RequestOutcome::Refused {
                    refused.insert(url);
                } else {
                    let robots_delay = decision.robots_delay_us.map(Duration::from_micros);
                    delay = delay_of(&self.config.politeness, Some(self.crawler()), robots_delay);
                    pages.push(Target::parse(&url).expect("a target"));
                }
            }
            let origin = Origin::parse(&format!("http://{host}")).expect("an origin");
            let unit = self.unit(&origin).await;
            hosts.push(CrawledHost { pages, delay, unit, answered: AtomicUsize::new(0) });
        }
        let begun_at = Instant::now();
        let crawls = hosts
            .iter()
            .flat_map(|host| nodes.iter().map(move |node| self.crawl(scenario, host, node)));
        join_all(crawls).await;
        (refused, begun_at.elapsed())
    }

    /// Requests one node's part of the pages of a host, one after the other.
    async fn crawl(&self, scenario: &Scenario, host: &CrawledHost, node: &Node) {
        let pages = host.pages.iter().skip(node.number.into()).step_by(scenario.nodes.into());
        for target in pages {
            while !self.request(scenario, host, node, target).await {}
        }
    }

    /// Makes a request, as the proxy does. Returns whether it was answered, and not by 429.
    async fn request(
        &self,
        scenario: &Scenario,
        host: &CrawledHost,
        node: &Node,
        target: &Target,
    ) -> bool {
        let request = PacedRequest {
            target,
            client: [203, 0, 113, node.number].into(),
            pace: "NewsBot",
            unit: host.unit.as_ref(),
            keeps_turn: true,
        };
        let options = &self.config.politeness;
        let slot = match node.pacer.wait_for_slot(options, request, host.delay).await {
            Ok(slot) => slot,
            Err(soon) => {
                tokio::time::sleep(soon.retry_after).await;
                return false;
            }
        };
        if let Err(spent) = node.budgets.take(self.crawler(), target.origin()).await {
            drop(slot);
            tokio::time::sleep(spent.retry_after + SECOND).await;
            return false;
        }
        slot.record_sent(false);
        tokio::time::sleep(scenario.answers_in).await;
        let answered = 1 + host.answered.fetch_add(1, Ordering::Relaxed);
        let refusal = scenario.refuses.filter(|refusal| answered.is_multiple_of(refusal.0));
        let status = if refusal.is_some() { 429 } else { 200 };
        slot.record_answer(target, status, refusal.map(|refusal| refusal.1));
        status == 200
    }
}

/// A host that is crawled.
struct CrawledHost {
    pages: Vec<Target>,
    delay: Duration,
    unit: Option<Arc<PaceUnit>>,
    answered: AtomicUsize,
}

/// A node of the fleet.
struct Node {
    number: u8,
    pacer: Pacer,
    budgets: DailyBudgets,
}

async fn nodes(count: u8, dir: &TempDir, clock: Clock) -> Vec<Node> {
    let memory = MemoryEngine::new("");
    let mut nodes = Vec::new();
    for number in 0..count {
        let fleet = match count {
            1 => Fleet::default(),
            _ => memory.join(&format!("n{number}")).await,
        };
        let state = dir.path().join(number.to_string());
        std::fs::create_dir(&state).expect("a directory");
        let metrics = Arc::new(Metrics::new().expect("metrics"));
        nodes.push(Node {
            number,
            pacer: Pacer::in_fleet(&fleet, metrics),
            budgets: DailyBudgets::open(&state, clock, fleet).expect("budgets"),
        });
    }
    nodes
}

#[tokio::test(start_paused = true)]
async fn a_planned_crawl_takes_as_long_as_it_was_planned() {
    let scenarios = [of_one_host(), of_several()].concat();
    assert_eq!(scenarios.len(), 20);
    let mut wrong = Vec::new();
    for scenario in scenarios {
        let proxy = Proxy::start(&scenario).await;
        let planned = proxy.plan(&scenario).await;
        let (refused, took) = proxy.run(&scenario).await;
        assert_eq!(planned.refused, refused, "{}", scenario.name);
        assert!(refused.len() >= scenario.hosts.len(), "{}: {refused:?}", scenario.name);
        assert_eq!(planned.time.units.len(), scenario.units, "{}", scenario.name);
        let took = took.as_secs_f64();
        let error = planned.time.seconds / took - 1.0;
        println!(
            "{:42} planned {:8.3} h, took {:8.3} h, {:+5.1} %, by {}",
            scenario.name,
            planned.time.seconds / 3600.0,
            took / 3600.0,
            error * 100.0,
            planned.time.limit.as_str()
        );
        if !(-0.1..=0.1).contains(&error) {
            wrong.push((scenario.name, error));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
