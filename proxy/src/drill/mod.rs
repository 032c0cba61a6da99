//! The drill: the proxy asks itself, through its own listener, for what it must refuse, and reports every other answer.
//!
//! ```text
//!  mod ─┬─ probes     what is asked for, and the answer that it must get
//!       ├─ exempt     what the configuration does not enforce
//!       ├─ verdict    whether an answer is right
//!       ├─ client     requests through the listener
//!       ├─ origin     the origin of all of them, inside this process
//!       └─ report     the results, for the API
//! ```
//!
//! A drill takes the way of every client: a TCP connection, the crawler's identity, the decision, the robots.txt cache, egress. Only
//! its hosts are its own (`upstream::egress::drill_hosts`): nobody can guess their names, they lead to an origin on loopback that
//! serves nothing of value, and their exchanges are neither recorded nor counted.

mod client;
mod exempt;
mod origin;
mod probes;
mod report;
mod verdict;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use wayleave_decision::{Crawler, CrawlersConfig, EnforcementMode, PolicyRule};
use wayleave_robots_txt::{ProductToken, UrlScheme};
use wayleave_usage_preferences::{Purpose, PurposeSet};

use self::client::DrillClient;
use self::origin::DrillOrigin;
use self::probes::{CRAWL_DELAY, Probe, RULED_PATH, SHORTEST_PERIOD};
use self::report::{DrillFamily, ProbeVerdict};
pub(crate) use self::report::{DrillReport, DrillResult, DrillStatus};
use self::verdict::{judge, judge_pace};
use crate::decider::Decider;
use crate::decider::settings::Settings;
use crate::downstream::listeners::ListenAddress;
use crate::exchange::ExchangeServices;
use crate::telemetry::metrics::Metrics;
use crate::upstream::egress::drill_hosts;

/// The internal addresses that a drill asks for: cloud metadata, a private network, this machine.
pub(crate) const INTERNAL: [Ipv4Addr; 3] =
    [Ipv4Addr::new(169, 254, 169, 254), Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::LOCALHOST];
/// The name and product token of the drill's crawler.
const CRAWLER: &str = "WayleaveDrill";
/// The longest time for one request, and for all of one drill.
const TIMEOUT: Duration = Duration::from_secs(3);
const TIMEOUT_OF_ALL: Duration = Duration::from_secs(20);
/// The time after which a request counts as held: nothing but its slot takes as long.
const HELD_AFTER: Duration = Duration::from_millis(700);
/// The shortest delay that a drill can distinguish from none.
const SHORTEST_DELAY: Duration = Duration::from_secs(1);
/// The pause before the last of three requests of which the delay permits one: long enough to find a delay that is cut short.
const LAST_PAUSE: Duration = Duration::from_millis(1500);

/// Returns the crawler that the drill is. It has a purpose, so that it obeys preferences, and no proof but a text that only this
/// process knows.
pub(crate) fn own_crawler(config: &CrawlersConfig) -> Crawler {
    let token = ProductToken::new(CRAWLER).expect("letters are a product token");
    let is_enforced = config.mode == EnforcementMode::Enforce
        || config.crawlers.iter().any(|crawler| crawler.mode == EnforcementMode::Enforce);
    let mut crawler = Crawler {
        user_agent: Some(drill_hosts::token().to_owned()),
        mode: if is_enforced { EnforcementMode::Enforce } else { EnforcementMode::Observe },
        ..Crawler::new(CRAWLER, vec![token])
    };
    crawler.declaration.purposes = PurposeSet::of(&[Purpose::TrainAi]);
    crawler
}

/// Returns the rule that the drill's requests must be refused by, like those of the file that it follows.
pub(crate) fn own_rule() -> PolicyRule {
    let host = drill_hosts::host(probes::RULED).parse();
    PolicyRule {
        hosts: vec![host.expect("it is a host")],
        paths: vec![RULED_PATH.to_owned()],
        ..PolicyRule::default()
    }
}

/// Asks as often as `[drill]` says, for as long as the process runs.
pub(crate) struct Drill {
    decider: Arc<Decider>,
    metrics: Arc<Metrics>,
    status: Arc<DrillStatus>,
    client: DrillClient,
    started: Instant,
}

impl Drill {
    /// Prepares the drill through `listener`, an HTTP proxy of this process. `authority` is the certificate of the interception CA.
    ///
    /// # Errors
    ///
    /// Returns an error if the certificate cannot be read.
    pub(crate) fn new(
        exchanges: &ExchangeServices,
        listener: Option<ListenAddress>,
        authority: &str,
    ) -> anyhow::Result<Self> {
        let client = DrillClient::new(listener, authority)?;
        let metrics = Arc::clone(&exchanges.metrics);
        for family in DrillFamily::ALL {
            for result in DrillResult::ALL {
                metrics.start_drill(family.as_str(), result.as_str());
            }
        }
        let decider = Arc::clone(&exchanges.decider);
        Ok(Self { decider, metrics, status: Arc::default(), client, started: Instant::now() })
    }

    /// Returns the place of its results.
    pub(crate) fn status(&self) -> Arc<DrillStatus> {
        Arc::clone(&self.status)
    }

    /// Drills as often as the settings in effect say; never returns.
    pub(crate) async fn run(self) {
        let mut origin = None;
        let mut drilled = 0;
        loop {
            let settings = self.decider.settings();
            let every = settings.drill.every;
            let changed = self.decider.settings_after(settings.configuration);
            if every.is_zero() {
                self.status.clear();
                changed.await;
                continue;
            }
            let started = match &mut origin {
                Some(started) => started,
                none => match DrillOrigin::start().await {
                    Ok(started) => none.insert(started),
                    Err(error) => {
                        tracing::error!(%error, "the drill's origin cannot listen on loopback");
                        tokio::time::sleep(every).await;
                        continue;
                    }
                },
            };
            let next = Instant::now() + every;
            if drilled != settings.configuration {
                started.forget_all();
                drilled = settings.configuration;
            }
            self.drill(&settings, started).await;
            // A reload starts the next drill, which is about other settings.
            let _ = timeout_at(next, changed).await;
        }
    }

    async fn drill(&self, settings: &Settings, origin: &mut DrillOrigin) {
        let now = self.decider.robots.clock().now();
        let end = Instant::now() + TIMEOUT_OF_ALL;
        let mut report = DrillReport::new(now);
        let period = settings.drill.unreachable_for.max(SHORTEST_PERIOD).as_secs() / 2;
        let period = self.started.elapsed().as_secs() / period;
        for probe in probes::all(&settings.drill.prohibited, period) {
            for scheme in schemes(settings) {
                let verdict = self.ask(settings, origin, &probe, scheme, end).await;
                report.add(probe.family, verdict);
            }
        }
        let pace = self.ask_too_fast(settings, origin, end).await;
        report.add(DrillFamily::Pace, pace);
        // A reload in between changes what is right.
        if !self.decider.is_current(settings) {
            return;
        }
        for found in &report.families {
            let (family, text) = (found.family.as_str(), found.text.as_deref());
            self.metrics.drilled(family, found.result.as_str());
            match found.result {
                DrillResult::Wrong => {
                    tracing::error!(family, text, "the drill got a wrong answer");
                }
                DrillResult::Failed => tracing::warn!(family, text, "the drill learned nothing"),
                DrillResult::Right | DrillResult::NotEnforced => {}
            }
        }
        self.status.set(report);
    }

    async fn ask(
        &self,
        settings: &Settings,
        origin: &mut DrillOrigin,
        probe: &Probe,
        scheme: UrlScheme,
        end: Instant,
    ) -> ProbeVerdict {
        if let Some(why) = exempt::why(settings, probe) {
            return ProbeVerdict::not_enforced(why);
        }
        origin.forget_arrivals();
        let deadline = end.min(Instant::now() + TIMEOUT);
        let asking = self.client.get(scheme, &probe.host, probe.path, probe.user_agent);
        let answer = timeout_at(deadline, asking).await.unwrap_or_else(|_| client::no_answer());
        judge(settings, probe, scheme, answer, origin.arrivals().len())
    }

    /// Sends requests of which only one may arrive before the delay is over.
    async fn ask_too_fast(
        &self,
        settings: &Settings,
        origin: &mut DrillOrigin,
        end: Instant,
    ) -> ProbeVerdict {
        let delay = exempt::kept_delay(&settings.pacing, CRAWL_DELAY);
        let probe = probes::paced();
        let too_short = || "[politeness] keeps no Crawl-delay of a second or more".to_owned();
        let exempt =
            exempt::why(settings, &probe).or_else(|| exempt::refusing_rule(settings, &probe.host));
        if let Some(why) = exempt.or_else(|| (delay < SHORTEST_DELAY).then(too_short)) {
            return ProbeVerdict::not_enforced(why);
        }
        origin.forget_arrivals();
        let mut answers = Vec::new();
        for pause in [Duration::ZERO, Duration::ZERO, LAST_PAUSE.min(delay.mul_f64(0.75))] {
            tokio::time::sleep(pause).await;
            let deadline = end.min(Instant::now() + HELD_AFTER);
            let asking = self.client.get(UrlScheme::Http, &probe.host, probe.path, None);
            answers.push(timeout_at(deadline, asking).await.ok());
        }
        let arrivals = origin.paced_arrivals();
        judge_pace(delay, &answers, &arrivals)
    }
}

/// Returns the schemes by which a drill asks: `https` as far as tunnels are inspected.
fn schemes(settings: &Settings) -> impl Iterator<Item = UrlScheme> {
    let is_inspected = exempt::is_intercepted(settings, &drill_hosts::host(probes::OPEN));
    [UrlScheme::Http].into_iter().chain(is_inspected.then_some(UrlScheme::Https))
}
