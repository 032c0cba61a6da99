//! One node: its fleet, cache and pacer, and the decisions that it makes.

use std::error::Error;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use tokio::time::{Instant, MissedTickBehavior, sleep};
use wayleave_bench_robots::{ScriptedFetch, origin};
use wayleave_clock::{Clock, system_time};
use wayleave_fleet::redis::{RedisAddress, RedisEngine, RedisSettings};
use wayleave_fleet::{Fleet, FleetSettings, OnLoss};
use wayleave_pacing::{CrawlDelayMode, PacedRequest, Pacer, PacingConfig, TooSoonCause};
use wayleave_robots_cache::{
    CachedDocuments, RobotsCache, RobotsCacheConfig, RobotsStore, RobotsStoreConfig,
};
use wayleave_robots_txt::Target;
use wayleave_telemetry::metrics::Metrics;

const DELAY: Duration = Duration::from_secs(1);
/// The most requests in progress: beyond it, none are offered.
const MOST_IN_PROGRESS: u64 = 50_000;
/// Latencies are counted in so many buckets, each a quarter of a power of two of microseconds.
const BUCKETS: usize = 112;

/// The kind of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mix {
    Free,
    Delay,
    Waiting,
    Concurrent,
    Slow,
    Crowded,
    Unknown,
    Mixed,
}

impl Mix {
    const ALL: [Self; 8] = [
        Self::Free,
        Self::Delay,
        Self::Waiting,
        Self::Concurrent,
        Self::Slow,
        Self::Crowded,
        Self::Unknown,
        Self::Mixed,
    ];

    pub(super) fn parse(name: &str) -> Result<Self, String> {
        let mix = Self::ALL.into_iter().find(|mix| mix.name() == name);
        let names = Self::ALL.map(Self::name).join(", ");
        mix.ok_or_else(|| format!("{name:?} is no mix; these are: {names}"))
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Delay => "delay",
            Self::Waiting => "waiting",
            Self::Concurrent => "concurrent",
            Self::Slow => "slow",
            Self::Crowded => "crowded",
            Self::Unknown => "unknown",
            Self::Mixed => "mixed",
        }
    }

    fn delay(self, number: usize) -> Duration {
        match self {
            Self::Delay | Self::Waiting => DELAY,
            Self::Mixed if number % 10 == 3 => DELAY,
            _ => Duration::ZERO,
        }
    }

    /// Returns the time that an origin takes to answer.
    const fn answer(self) -> Duration {
        match self {
            Self::Free | Self::Unknown => Duration::ZERO,
            Self::Delay | Self::Waiting | Self::Concurrent | Self::Mixed => {
                Duration::from_millis(20)
            }
            Self::Crowded => Duration::from_millis(200),
            Self::Slow => Duration::from_secs(5),
        }
    }

    /// Returns how many of a hundred requests are to an origin that no node knows.
    fn unknown_percent(self) -> u32 {
        match self {
            Self::Unknown => 100,
            Self::Mixed => 1,
            _ => 0,
        }
    }

    fn pacing(self) -> PacingConfig {
        PacingConfig {
            crawl_delay: match self {
                Self::Waiting | Self::Crowded => CrawlDelayMode::Wait,
                _ => CrawlDelayMode::Reject,
            },
            max_wait: Duration::from_secs(2),
            max_concurrent_per_origin: match self {
                Self::Concurrent | Self::Slow => 100,
                Self::Crowded => 10,
                _ => 0,
            },
            ..PacingConfig::default()
        }
    }
}

/// The counts of a node in one step.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeCounts {
    /// The requests that came, and those among them that were decided before the step ended.
    pub(super) begun: u64,
    pub(super) made: u64,
    /// The requests that were sent, and those that were refused because the engine did not answer.
    pub(super) sent: u64,
    pub(super) engine_away: u64,
    /// The calls that failed.
    pub(super) failed: u64,
    /// The number of times that the engine was considered lost, and the time for which it was.
    pub(super) opened: u64,
    pub(super) away_ms: u64,
    pub(super) most_in_progress: u64,
    /// The latencies, by bucket.
    latencies: Vec<u64>,
}

impl NodeCounts {
    fn numbers(&self) -> Vec<u64> {
        let mut numbers = vec![
            self.begun,
            self.made,
            self.sent,
            self.engine_away,
            self.failed,
            self.opened,
            self.away_ms,
            self.most_in_progress,
        ];
        numbers.extend(&self.latencies);
        numbers
    }

    /// Adds another node's numbers.
    pub(super) fn add(&mut self, numbers: &[u64]) -> Result<(), String> {
        let [begun, made, sent, engine_away, failed, opened, away_ms, most, latencies @ ..] =
            numbers
        else {
            return Err(format!("a node reports {} numbers", numbers.len()));
        };
        self.begun += begun;
        self.made += made;
        self.sent += sent;
        self.engine_away += engine_away;
        self.failed += failed;
        self.opened += opened;
        self.away_ms += away_ms;
        self.most_in_progress += most;
        self.latencies.resize(BUCKETS, 0);
        for (sum, more) in self.latencies.iter_mut().zip(latencies) {
            *sum += more;
        }
        Ok(())
    }

    /// Returns the time within which this part of the decisions was made, in microseconds.
    pub(super) fn latency(&self, part: f64) -> u64 {
        let wanted = part * self.latencies.iter().sum::<u64>() as f64;
        let mut sum = 0;
        let at = self.latencies.iter().position(|count| {
            sum += count;
            sum as f64 >= wanted
        });
        at.map_or(0, |at| (at as f64 / 4.0).exp2() as u64)
    }
}

struct LoadNode {
    mix: Mix,
    pacing: PacingConfig,
    client: IpAddr,
    robots: RobotsCache,
    pacer: Pacer,
    metrics: Arc<Metrics>,
    counts: Mutex<NodeCounts>,
    in_progress: AtomicU64,
    /// The requests to origins with a delay: origin, sent, answered.
    sent: Mutex<Vec<(usize, u64, u64)>>,
}

/// Runs a node until its input ends.
pub(super) fn run(
    mix: Mix,
    origins: usize,
    port: usize,
    number: usize,
) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let dir = tempfile::tempdir()?;
        let node = Arc::new(LoadNode::start(mix, dir.path(), port, number).await?);
        if mix != Mix::Unknown {
            futures_util::stream::iter(0..origins)
                .for_each_concurrent(16, |number| {
                    let robots = &node.robots;
                    // As in the proxy, a fetch that is not over in time is no reason to end.
                    async move { drop(robots.find(&origin(known_origin(number))).await) }
                })
                .await;
            // By then each node knows what the others have changed meanwhile.
            sleep(Duration::from_secs(2)).await;
        }
        println!("ready");
        let mut random = SmallRng::seed_from_u64(number as u64);
        let zipf = Zipf::new(origins as f64, 1.0)?;
        // So that no node takes another's.
        let mut next_unknown = 10_000_000 * (number + 1);
        let watched = Arc::clone(&node);
        tokio::spawn(async move { watched.watch_engine().await });
        loop {
            let line = tokio::task::spawn_blocking(|| {
                let mut line = String::new();
                std::io::stdin().read_line(&mut line).map(|_| line)
            });
            let line = line.await??;
            let mut words = line.split_whitespace();
            let (Some(rate), Some(seconds)) = (words.next(), words.next()) else {
                return Ok(());
            };
            let span = Duration::from_secs(seconds.parse()?);
            let next = || {
                if random.random_range(0..100) < mix.unknown_percent() {
                    next_unknown += 1;
                    return next_unknown;
                }
                known_origin((zipf.sample(&mut random) as usize - 1) * 7_368_787 % origins)
            };
            node.offer(rate.parse()?, span, next).await;
            print!("{}", node.report()?);
        }
    })
}

impl LoadNode {
    async fn start(
        mix: Mix,
        dir: &std::path::Path,
        port: usize,
        number: usize,
    ) -> Result<Self, Box<dyn Error>> {
        let metrics = Arc::new(Metrics::new()?);
        let clock = Clock::start();
        let engine = RedisEngine::new(RedisSettings {
            address: RedisAddress {
                urls: vec![format!("redis://127.0.0.1:{port}")],
                is_cluster: false,
                password: None,
                ca: None,
            },
            prefix: "wl".to_owned(),
            partitions: 64,
            timeout: Duration::from_millis(25),
            node: format!("node-{number}"),
            shared_settings: String::new(),
            home_window: Duration::ZERO,
        })?;
        let settings = FleetSettings {
            node: format!("node-{number}"),
            version: String::new(),
            on_loss: OnLoss::Refuse,
            retention: Duration::from_hours(24),
            key: None,
        };
        let fleet = Fleet::join(Box::new(engine), settings, Arc::clone(&metrics)).await?;
        let store = RobotsStoreConfig::default();
        let store = RobotsStore::open(dir, store, clock, Arc::clone(&metrics))?;
        let (robots, refresh) = RobotsCache::start_in_fleet(
            ScriptedFetch::default(),
            store,
            &RobotsCacheConfig::default(),
            CachedDocuments::new(clock, Arc::clone(&metrics)),
            fleet.clone(),
        );
        tokio::spawn(refresh);
        Ok(Self {
            mix,
            pacing: mix.pacing(),
            client: IpAddr::V4(Ipv4Addr::new(127, 0, 0, u8::try_from(number)? + 1)),
            robots,
            pacer: Pacer::in_fleet(&fleet, Arc::clone(&metrics)),
            metrics,
            counts: Mutex::default(),
            in_progress: AtomicU64::new(0),
            sent: Mutex::default(),
        })
    }

    /// Counts how often and for how long the engine is considered lost.
    async fn watch_engine(&self) {
        const INTERVAL: Duration = Duration::from_millis(5);
        let mut was_reachable = true;
        loop {
            sleep(INTERVAL).await;
            let is_reachable = self.robots.fleet().is_reachable();
            self.count(|counts| {
                counts.opened += u64::from(was_reachable && !is_reachable);
                if !is_reachable {
                    counts.away_ms += INTERVAL.as_millis() as u64;
                }
            });
            was_reachable = is_reachable;
        }
    }

    fn count(&self, add: impl FnOnce(&mut NodeCounts)) {
        add(&mut lock(&self.counts));
    }

    /// Lets requests come at this rate, whatever becomes of those before, and waits until all have been decided.
    async fn offer(self: &Arc<Self>, rate: f64, span: Duration, mut next: impl FnMut() -> usize) {
        *lock(&self.counts) = NodeCounts { latencies: vec![0; BUCKETS], ..NodeCounts::default() };
        let failed_before = self.failed_calls();
        let started = Instant::now();
        let ends_at = started + span;
        let mut begun = 0;
        let mut tick = tokio::time::interval(Duration::from_millis(1));
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        while started.elapsed() < span {
            tick.tick().await;
            let due = (started.elapsed().as_secs_f64() * rate) as u64;
            while begun < due {
                begun += 1;
                let at = started + Duration::from_secs_f64(begun as f64 / rate);
                let in_progress = self.in_progress.fetch_add(1, Ordering::Relaxed) + 1;
                if in_progress > MOST_IN_PROGRESS {
                    self.in_progress.fetch_sub(1, Ordering::Relaxed);
                    continue;
                }
                self.count(|counts| {
                    counts.begun += 1;
                    counts.most_in_progress = counts.most_in_progress.max(in_progress);
                });
                let node = Arc::clone(self);
                let number = next();
                tokio::spawn(async move {
                    node.request(number, at, ends_at).await;
                    node.in_progress.fetch_sub(1, Ordering::Relaxed);
                });
            }
        }
        let failed = self.failed_calls() - failed_before;
        self.count(|counts| counts.failed = failed);
        while self.in_progress.load(Ordering::Relaxed) > 0 {
            tick.tick().await;
        }
    }

    /// Decides about a request that came at `due`, and sends it if it may be sent.
    async fn request(&self, number: usize, due: Instant, ends_at: Instant) {
        let origin = origin(number);
        if self.robots.cached(&origin).is_none() {
            drop(self.robots.find(&origin).await);
        }
        let target = Target::new(origin, "/").expect("a path");
        let request = PacedRequest {
            target: &target,
            client: self.client,
            pace: "examplebot",
            unit: None,
            keeps_turn: true,
        };
        let delay = self.mix.delay(number);
        let slot = self.pacer.wait_for_slot(&self.pacing, request, delay).await;
        let slot = slot.and_then(|slot| slot.lost().map_or(Ok(slot), Err));
        let decided_at = Instant::now();
        self.count(|counts| {
            if decided_at <= ends_at {
                counts.made += 1;
                counts.sent += u64::from(slot.is_ok());
                counts.engine_away += u64::from(matches!(
                    slot.as_ref().map_err(|error| error.cause),
                    Err(TooSoonCause::FleetLost | TooSoonCause::SlotLost)
                ));
            }
            let took = decided_at.saturating_duration_since(due).as_micros() as f64;
            let bucket = (took.max(1.0).log2() * 4.0).ceil() as usize;
            counts.latencies[bucket.min(BUCKETS - 1)] += 1;
        });
        let Ok(slot) = slot else { return };
        if !self.mix.answer().is_zero() {
            let sent_at = micros(system_time());
            sleep(self.mix.answer()).await;
            if !delay.is_zero() {
                lock(&self.sent).push((number, sent_at, micros(system_time())));
            }
        }
        drop(slot);
    }

    /// Returns how many calls to the engine have failed.
    fn failed_calls(&self) -> u64 {
        let (_, text) = self.metrics.text().expect("all metrics are valid");
        let errors = text.lines().filter(|line| line.starts_with("wayleave_fleet_errors_total{"));
        errors.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    fn report(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        let sent = std::mem::take(&mut *lock(&self.sent));
        for (origin, sent_at, answered_at) in sent {
            writeln!(text, "{origin} {sent_at} {answered_at}")?;
        }
        let numbers = lock(&self.counts).numbers();
        let numbers: Vec<_> = numbers.iter().map(u64::to_string).collect();
        writeln!(text, "{}", numbers.join(" "))?;
        Ok(text)
    }
}

/// Returns the number of an origin that answers, and whose file has rules.
fn known_origin(rank: usize) -> usize {
    rank / 16 * 20 + rank % 16
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn micros(at: SystemTime) -> u64 {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros() as u64
}
