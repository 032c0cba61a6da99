//! The size of the file, the order of eviction, and the conversion of a format without limits.

use std::sync::Mutex;

use redb::{Database, TableDefinition};
use ring::signature::Ed25519KeyPair;
use wayleave_evidence::HeadFiles;
use wayleave_evidence::chain::{HashChain, TreeHead};
use wayleave_evidence::holds::{Hold, HoldFolder};

use super::super::writer::RobotsStoreConfig;
use super::*;
use crate::record::{EntryRecord, VersionRecord};
use crate::tests::unique::unique;

const SMALL: RobotsStoreConfig = RobotsStoreConfig {
    history_age: Duration::from_secs(365 * 24 * 60 * 60),
    history_length: 64,
    idle_after: Duration::from_secs(91 * 24 * 60 * 60),
    max_size_bytes: 9 << 20,
    memory_bytes: 4 << 20,
};

fn length(dir: &Path) -> u64 {
    std::fs::metadata(dir.join(FILE_NAME)).unwrap().len()
}

fn registered(n: usize) -> Origin {
    Origin::parse(&format!("https://domain{n}.test")).unwrap()
}

/// Fifteen times what may be kept, in sizes that leave gaps.
#[tokio::test]
async fn a_flood_stays_below_max_size_and_keeps_the_newest() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_at(dir.path(), at(0), SMALL).unwrap();
    let mut written = 0;
    for n in 0..900 {
        let body = unique(n, 1000 + 97_003 * n % 400_000);
        written += body.len() as u64;
        let now = first() + Duration::from_secs(n as u64);
        store.save(registered(n), entry(response(200, &body), now));
        if n % 5 == 0 {
            store.flush().await;
            assert!(length(dir.path()) <= SMALL.max_size_bytes, "{n}: {}", length(dir.path()));
        }
    }
    store.flush().await;
    assert!(written > 15 * SMALL.max_size_bytes);
    assert_eq!(store.fault(), None);
    assert_eq!(store.set_aside_file(), None);
    for n in 0..900 {
        let kept = store.load(&registered(n)).await;
        assert!(kept.is_none() || n > 800, "{n} should have gone before others");
        assert!(kept.is_some() || n < 896, "{n} should be there");
    }
    drop(store);
    assert!(length(dir.path()) <= SMALL.max_size_bytes);
    assert!(open_at(dir.path(), at(0), SMALL).unwrap().load(&registered(899)).await.is_some());
}

/// Neither a flood, nor age, nor many versions drop what is held.
#[tokio::test]
async fn held_documents_outlive_every_limit() {
    let dir = tempfile::tempdir().unwrap();
    let folder = HoldFolder::in_state_dir(dir.path());
    let hold = Hold {
        id: 0,
        host: ".domain0.test".to_owned(),
        crawler: None,
        since: None,
        until: None,
        reason: "a letter".to_owned(),
        made_at: at(0),
        released_at: None,
    };
    let mut hold = folder.add(&hold, None).unwrap();
    let options = RobotsStoreConfig { history_length: 2, ..SMALL };
    let store = open_at(dir.path(), at(0), options).unwrap();
    for version in 0..5 {
        for n in [0, 1] {
            let body = unique(10 * version + n, 20_000);
            store.save(registered(n), entry(response(200, &body), at(version as u32)));
        }
        store.flush().await;
    }
    for n in 2..300 {
        store.save(registered(n), entry(response(200, &unique(1000 + n, 100_000)), at(9)));
        store.flush().await;
    }
    let versions = store.history(&registered(0)).await;
    assert_eq!(versions.len(), 5);
    for version in &versions {
        assert!(store.body(version.digest.unwrap()).await.is_some());
    }
    assert!(store.history(&registered(1)).await.is_empty(), "what is not held has gone");
    drop(store);
    let store = open_at(dir.path(), at(1000), options).unwrap();
    store.save(registered(300), entry(response(200, RULES), at(1000)));
    store.flush().await;
    assert_eq!(store.history(&registered(0)).await.len(), 5);
    hold.released_at = Some(at(1000));
    folder.replace(&hold, None).unwrap();
    store.save(registered(301), entry(response(200, RULES), at(1000)));
    store.flush().await;
    assert!(store.history(&registered(0)).await.len() < 5);
}

/// A hold that the log's key signed lasts until that key releases it.
#[tokio::test]
async fn a_release_that_nobody_signed_drops_no_document() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("decisions.jsonl");
    let key = Ed25519KeyPair::from_seed_unchecked(&[1; 32]).unwrap();
    let mut chain = HashChain::new();
    let line = chain.append(&chain.file_event(at(0)).to_json());
    std::fs::write(&log, [&line[..], b"\n"].concat()).unwrap();
    let bytes = Some(line.len() as u64 + 1);
    let peaks = chain.tree.peaks().to_vec();
    let head = TreeHead { bytes, peaks, holds: Some(0), ..chain.tree_head(&key) };
    let head = chain.sign_head(&key, at(0), head);
    assert!(HeadFiles::for_log(&log, dir.path()).save(&head).is_empty());
    let folder = HoldFolder::in_state_dir(dir.path());
    let hold = Hold {
        id: 0,
        host: ".domain0.test".to_owned(),
        crawler: None,
        since: None,
        until: None,
        reason: "a letter".to_owned(),
        made_at: at(0),
        released_at: None,
    };
    let hold = folder.add(&hold, Some(&key)).unwrap();
    let options = RobotsStoreConfig { history_length: 1, ..SMALL };
    let clock = Clock::start_at(at(0));
    let no_wait = Duration::ZERO;
    let opening =
        RobotsStore::open_when_free(dir.path(), Some(&log), options, clock, metrics(), no_wait);
    let store = opening.await.unwrap();
    let released = Hold { released_at: Some(at(0)), ..hold };
    let mut kept = Vec::new();
    for version in 0..6 {
        store.save(registered(0), entry(response(200, &unique(version, 20_000)), at(0)));
        store.flush().await;
        kept.push(store.history(&registered(0)).await.len());
        match version {
            2 => folder.replace(&released, None).unwrap(),
            4 => folder.replace(&released, Some(&key)).unwrap(),
            _ => {}
        }
    }
    assert_eq!(kept[..5], [1, 2, 3, 4, 5]);
    assert!(kept[5] < 5, "{kept:?}");
}

/// A clock that is a year ahead for a moment deletes neither versions nor entries.
#[tokio::test]
async fn a_clock_that_is_wrong_for_a_moment_deletes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let shown = Arc::new(Mutex::new(at(0)));
    let calendar = Arc::clone(&shown);
    let clock = Clock::with_calendar(move || *calendar.lock().unwrap());
    let store = RobotsStore::open(dir.path(), SMALL, clock, metrics()).unwrap();
    for version in 0..3 {
        store.save(registered(0), entry(response(200, &unique(version, 20_000)), at(0)));
        store.flush().await;
    }
    let count = store.history(&registered(0)).await.len();
    assert!(count > 1);
    *shown.lock().unwrap() = at(400);
    store.save(registered(1), entry(response(200, RULES), at(400)));
    store.flush().await;
    *shown.lock().unwrap() = at(0);
    assert_eq!(store.history(&registered(0)).await.len(), count);
    assert!(store.load(&registered(0)).await.is_some());
}

#[tokio::test]
async fn superseded_versions_are_evicted_before_entries() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_at(dir.path(), at(0), SMALL).unwrap();
    // The oldest of all, whose only version is current.
    store.save(registered(0), entry(response(200, RULES), at(0)));
    for version in 0..19 {
        for n in 1..9 {
            let body = unique(100 * n + version, 50_000);
            store.save(registered(n), entry(response(200, &body), at(n as u32)));
        }
        store.flush().await;
    }
    assert!(store.history(&registered(8)).await.len() > 10, "there is room for it");
    for n in 9..50 {
        let body = unique(1000 + n, 100_000);
        store.save(registered(n), entry(response(200, &body), at(20)));
        store.flush().await;
    }
    let oldest = store.history(&registered(1)).await.len();
    let newest = store.history(&registered(8)).await.len();
    assert_eq!(oldest, 1, "the oldest history went");
    assert!(newest > 1, "and not more than had to: {newest}");
    for n in 0..50 {
        assert!(store.load(&registered(n)).await.is_some(), "{n}");
    }
}

#[tokio::test]
async fn subdomains_of_one_domain_evict_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_at(dir.path(), at(0), SMALL).unwrap();
    let old = registered(1);
    store.save(&old, entry(response(200, RULES), at(0)));
    let sub_domain = |n: usize| Origin::parse(&format!("https://s{n}.evil.test")).unwrap();
    for n in 0..200 {
        store.save(sub_domain(n), entry(response(200, &unique(n, 50_000)), at(5)));
        store.flush().await;
    }
    store.flush().await;
    assert!(store.load(&old).await.is_some(), "older than all of them");
    let mut kept = 0;
    for n in 0..200 {
        kept += usize::from(store.load(&sub_domain(n)).await.is_some());
    }
    assert!((3..20).contains(&kept), "{kept} of a share of an eighth");
}

#[tokio::test]
async fn an_oversized_file_shrinks_when_opened() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    for n in 0..300 {
        let now = first() + Duration::from_secs(n as u64);
        store.save(registered(n), entry(response(200, &unique(n, 100_000)), now));
        store.flush().await;
    }
    drop(store);
    assert!(length(dir.path()) > 2 * SMALL.max_size_bytes);
    let store = open_at(dir.path(), at(0), SMALL).unwrap();
    assert!(length(dir.path()) <= SMALL.max_size_bytes, "{}", length(dir.path()));
    assert!(store.load(&registered(0)).await.is_none());
    assert!(store.load(&registered(299)).await.is_some());
}

#[tokio::test]
async fn bodies_are_compressed() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    for n in 0..20 {
        let line = format!("Disallow: /some/directory/{n}\n");
        let body = format!("User-agent: *\n{}", line.repeat(20_000));
        store.save(registered(n), entry(response(200, body.as_bytes()), at(0)));
    }
    drop(store);
    assert!(length(dir.path()) < 3 << 20, "of {} MB", 20_000 * 28 * 20 / 1_000_000);
}

#[tokio::test]
async fn history_of_forgotten_documents_expires() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_at(dir.path(), at(0), RobotsStoreConfig::default()).unwrap();
    store.save(registered(1), entry(response(200, RULES), at(0)));
    store.flush().await;
    store.forget(registered(1));
    drop(store);
    let store = open_at(dir.path(), at(400), RobotsStoreConfig::default()).unwrap();
    store.save(registered(2), entry(response(404, b""), at(400)));
    store.flush().await;
    assert_eq!(store.history(&registered(1)).await, []);
    assert_eq!(store.body(digest(RULES)).await, None);
}

/// Writes a file in format 1.
fn write_first_format(path: &Path, entries: &[(Origin, CacheEntry)]) {
    let database = Database::create(path).unwrap();
    let write = database.begin_write().unwrap();
    {
        let table = |name| TableDefinition::<'_, &str, &[u8]>::new(name);
        let head = TableDefinition::<'_, &str, u64>::new("head");
        let bodies = TableDefinition::<'_, &[u8; 32], &[u8]>::new("bodies");
        let references = TableDefinition::<'_, &[u8; 32], u64>::new("references");
        let versions = TableDefinition::<'_, (&str, u64), &[u8]>::new("versions");
        write.open_table(head).unwrap().insert("format", 1).unwrap();
        write.open_table(references).unwrap();
        let mut kept = write.open_table(table("entries")).unwrap();
        let mut bodies = write.open_table(bodies).unwrap();
        let mut versions = write.open_table(versions).unwrap();
        for (origin, entry) in entries {
            let key = origin.to_string();
            let record = EntryRecord::new(&origin.into(), entry);
            let encoded = postcard::to_stdvec(&record).unwrap();
            kept.insert(key.as_str(), encoded.as_slice()).unwrap();
            let Some((seen_at, version)) = record.version() else {
                continue;
            };
            let before = VersionRecord { last_seen_at: seen_at - 2, status: 404, body: None };
            for (first, version) in [(seen_at - 5, &before), (seen_at, &version)] {
                let encoded = postcard::to_stdvec(version).unwrap();
                versions.insert((key.as_str(), first), encoded.as_slice()).unwrap();
            }
            if let Some(body) = version.body {
                let bytes = entry.answer.as_ref().unwrap().outcome.body().unwrap();
                bodies.insert(&body.digest, &*bytes.bytes).unwrap();
            }
        }
    }
    write.commit().unwrap();
}

#[tokio::test]
async fn format_1_is_converted() {
    let dir = tempfile::tempdir().unwrap();
    let entries: Vec<_> = every_kind_of_entry()
        .into_iter()
        .enumerate()
        .map(|(n, entry)| (registered(n), entry))
        .collect();
    write_first_format(&dir.path().join(FILE_NAME), &entries);
    for _ in 0..2 {
        let store = open(dir.path()).unwrap();
        assert_eq!(store.set_aside_file(), None);
        for (origin, entry) in &entries {
            assert_eq!(store.load(origin).await.as_ref(), Some(entry), "{origin}");
            let statuses: Vec<_> =
                store.history(origin).await.iter().map(|version| version.status).collect();
            let is_answered = entry.answer.is_some();
            assert_eq!(statuses.first(), is_answered.then_some(&404), "{origin}");
        }
    }
}

/// Prints what docs/operating.md says about the disk: `cargo test -p wayleave-robots-cache -- --ignored --nocapture
/// bytes_of_an_origin`.
#[tokio::test]
#[ignore = "a measurement"]
async fn bytes_of_an_origin() {
    const COUNT: u64 = 10_000;
    for (what, body) in [("without a robots.txt", None), ("with 5 KB of one", Some(5000))] {
        let dir = tempfile::tempdir().unwrap();
        let store = open_at(dir.path(), at(0), RobotsStoreConfig::default()).unwrap();
        let before = length(dir.path());
        for n in 0..COUNT as usize {
            let response = match body {
                None => response(404, b""),
                Some(length) => response(200, &unique(n, length)),
            };
            store.save(registered(n), entry(response, first()));
            if n % 1000 == 999 {
                store.flush().await;
            }
        }
        drop(store);
        let bytes = (length(dir.path()) - before) / COUNT;
        println!("{what}: {bytes} bytes an origin");
    }
}
