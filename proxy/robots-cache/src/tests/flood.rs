//! A flood of unique robots.txt files through the real cache and store, against the limits of disk and memory.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::{StreamExt as _, stream};
use wayleave_evidence::Sha256Digest;
use wayleave_lifecycle::{
    FetchEnding, FetchOutcome, FetchRequest, FetchedBody, FetchedResponse, ResponseFields,
};

use super::super::fetch_memory::FetchMemory;
use super::super::*;
use super::unique::unique;

/// The system allocator, with a count of the bytes requested.
#[global_allocator]
static ALLOCATOR: cap::Cap<mimalloc::MiMalloc> = cap::Cap::new(mimalloc::MiMalloc, usize::MAX);

/// Answers with 500 kB that no other origin has, with as many bits per byte as text of 32 letters.
struct Unique(FetchMemory);

/// The number of concurrent requests.
const AT_ONCE: usize = 256;

impl DocumentFetcher for Unique {
    async fn fetch(&self, request: FetchRequest, _: Option<&[u8]>) -> FetchedDocument {
        let host = request.resource.origin().host();
        let digits: String = host.chars().filter(char::is_ascii_digit).collect();
        let place = self.0.reserve(2 * 512_000).await.expect("never closed");
        let body = unique(digits.parse().expect("a number"), 500_000);
        let digest = Sha256Digest::of(&body).0;
        let outcome = FetchOutcome {
            redirects: Vec::new(),
            uri: request.resource.uri(),
            ending: FetchEnding::Response(FetchedResponse {
                status: 200,
                fields: ResponseFields::default(),
                body: FetchedBody {
                    bytes: body.into(),
                    is_cut: false,
                    digest: Some(Arc::new(digest)),
                },
            }),
        };
        FetchedDocument { outcome, reservation: Some(place), fetched_at: None }
    }
}

/// Returns the memory of this process, without what is mapped from files, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.expect("it is there").trim().trim_end_matches(" kB");
    kib.parse::<usize>().expect("a number") << 10
}

fn number(name: &str, default: usize) -> usize {
    let given = std::env::var(name).ok();
    given.map_or(default, |text| text.parse().expect("a number"))
}

/// The highest values seen, in bytes.
#[derive(Debug, Default)]
struct Most {
    file: usize,
    counted: usize,
    held: usize,
    resident: usize,
}

impl Most {
    fn look(&mut self, dir: &Path, robots: &RobotsCache) {
        let found = std::fs::metadata(dir.join("robots.redb"));
        let length = found.map_or(0, |found| found.len() as usize);
        self.file = self.file.max(length);
        self.counted = self.counted.max(robots.memory_bytes());
        self.held = self.held.max(ALLOCATOR.allocated());
        self.resident = self.resident.max(resident());
    }

    fn tell(&self, n: usize) {
        let Self { file, counted, held, resident } = self;
        let mib = [file, counted, held, resident].map(|bytes| bytes >> 20);
        let now = self::resident() >> 20;
        println!("{n}: file, counted, held, resident at most {mib:?} MiB, resident {now} now");
    }
}

fn start(dir: &Path, disk: usize, memory: usize) -> RobotsCache {
    let metrics = Arc::new(Metrics::new().expect("they are sound"));
    let clock = Clock::start_at(SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000));
    let shares = MemoryShares::split(memory);
    let options = RobotsStoreConfig {
        max_size_bytes: disk as u64,
        memory_bytes: shares.store,
        ..RobotsStoreConfig::default()
    };
    let store = RobotsStore::open(dir, options, clock, metrics.clone()).expect("it is new");
    let options =
        RobotsCacheConfig { memory_bytes: shares.entries, ..RobotsCacheConfig::default() };
    let room = FetchMemory::new(shares.fetches, options.fetch_timeout);
    RobotsCache::start(Unique(room), store, &options, clock, metrics).0
}

/// Fetches `WAYLEAVE_FLOOD` files, by default a thousand, with `WAYLEAVE_FLOOD_MIB` of disk and
/// `WAYLEAVE_FLOOD_MEMORY_MIB` of memory: `WAYLEAVE_FLOOD=1000000 cargo test --release -p wayleave-robots-cache -- --ignored
/// --nocapture flood`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes"]
async fn a_flood_stays_within_disk_and_memory_limits() {
    let count = number("WAYLEAVE_FLOOD", 1000);
    let disk = number("WAYLEAVE_FLOOD_MIB", 64) << 20;
    let memory = number("WAYLEAVE_FLOOD_MEMORY_MIB", 256) << 20;
    let dir = tempfile::tempdir().expect("a directory");
    let robots = start(dir.path(), disk, memory);
    let mut most = Most::default();
    let find = |n: usize| {
        let robots = robots.clone();
        async move {
            let origin = Origin::parse(&format!("https://flood{n}.test")).expect("an origin");
            // On a busy machine some requests time out in the queue.
            robots.find(&origin).await.is_ok()
        }
    };
    let finding = stream::iter(0..count).map(find).buffer_unordered(AT_ONCE);
    let mut finding = pin!(finding.enumerate());
    let mut found = 0;
    while let Some((n, is_found)) = finding.next().await {
        found += usize::from(is_found);
        most.look(dir.path(), &robots);
        if n % (count / 20).max(1) == 0 {
            most.tell(n);
        }
    }
    robots.close().await;
    most.look(dir.path(), &robots);
    most.tell(count);
    println!("{found} found");
    assert!(found > count / 2);
    assert!(most.file <= disk);
    assert!(most.counted <= memory);
    assert!(most.held <= memory, "something is not counted");
    // The allocator and the program need a fixed amount, however little is configured; config.toml says so.
    let beside = if memory < 256 << 20 { 100 << 20 } else { memory / 4 };
    assert!(most.resident <= memory + beside);
    assert!(robots.store().fault().is_none());
}
