mod damage;
mod room;

use wayleave_evidence::Sha256Digest;
use wayleave_lifecycle::{
    FetchEnding, FetchErrorKind, FetchOutcome, FetchedBody, FetchedResponse, FinishedFetch,
    RedirectHop, ResponseFields,
};

use std::time::Duration;

use super::*;
use crate::record::EntryRecord;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const RULES: &[u8] = b"User-agent: *\nDisallow: /private\n";
const OTHER_RULES: &[u8] = b"User-agent: *\nDisallow: /\n";

fn origin(name: &str) -> Origin {
    Origin::parse(&format!("https://{name}.example:8443")).unwrap()
}

fn first() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

fn digest(body: &[u8]) -> [u8; 32] {
    Sha256Digest::of(body).0
}

fn at(days: u32) -> SystemTime {
    first() + days * DAY
}

fn response(status: u16, body: &[u8]) -> FetchOutcome {
    FetchOutcome {
        redirects: Vec::new(),
        uri: origin("a").robots_txt_uri(),
        ending: FetchEnding::Response(FetchedResponse {
            status,
            fields: ResponseFields::default(),
            body: FetchedBody {
                bytes: body.into(),
                is_cut: false,
                digest: (status < 300 || !body.is_empty()).then(|| digest(body).into()),
            },
        }),
    }
}

fn entry(outcome: FetchOutcome, now: SystemTime) -> Arc<CacheEntry> {
    Arc::new(CacheEntry::default().after_fetch(FinishedFetch::of_proxy(outcome, now)))
}

fn metrics() -> Arc<Metrics> {
    Arc::new(Metrics::new().unwrap())
}

fn open(dir: &Path) -> Result<RobotsStore, StoreError> {
    open_at(dir, first(), RobotsStoreConfig::default())
}

/// Waits for a store that was dropped while it wrote.
fn open_at(
    dir: &Path,
    now: SystemTime,
    options: RobotsStoreConfig,
) -> Result<RobotsStore, StoreError> {
    let open = || RobotsStore::open(dir, options, Clock::start_at(now), metrics());
    let mut tries = 0;
    loop {
        match open() {
            Err(StoreError::Locked(_)) if tries < 10_000 => tries += 1,
            opened => return opened,
        }
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

fn every_kind_of_entry() -> Vec<CacheEntry> {
    let mut rules = response(200, RULES);
    rules.uri = "http://elsewhere.example/r".to_owned();
    rules.redirects = vec![RedirectHop { uri: origin("a").robots_txt_uri(), status: 301 }];
    if let FetchEnding::Response(response) = &mut rules.ending {
        response.body.is_cut = true;
        response.fields = ResponseFields {
            age: Some("1".into()),
            cache_control: Some("max-age=60".into()),
            content_type: Some("text/plain".into()),
            etag: Some("\"v\"".into()),
            expires_at: Some(at(1)),
            last_modified: Some("Sat, 21 Nov 2026 08:00:00 GMT".into()),
            retry_at: Some(at(2)),
            varies: true,
        };
    }
    let mut asking = response(401, b"");
    if let FetchEnding::Response(response) = &mut asking.ending {
        response.fields.retry_at = Some(at(2));
    }
    let lost = FetchOutcome { ending: FetchEnding::RedirectLost(308), ..response(200, b"") };
    let failed = |kind| FetchOutcome::failed(origin("a").robots_txt_uri(), kind, "détail");
    let known = CacheEntry::default().after_fetch(FinishedFetch::of_proxy(rules.clone(), at(0)));
    let mut all = vec![
        known.clone(),
        known.after_fetch(FinishedFetch::of_proxy(response(503, b""), at(1))),
        CacheEntry::default().after_fetch(FinishedFetch::of_proxy(response(200, b""), at(0))),
        CacheEntry::default().after_fetch(FinishedFetch::of_proxy(response(404, b""), at(0))),
        CacheEntry::default().after_fetch(FinishedFetch::of_proxy(asking, at(0))),
        CacheEntry::default().after_fetch(FinishedFetch::of_proxy(lost, at(0))),
    ];
    all.extend(FetchErrorKind::ALL.map(|kind| {
        known
            .after_fetch(FinishedFetch::of_proxy(failed(kind), at(1)))
            .after_fetch(FinishedFetch::of_proxy(failed(kind), at(2)))
    }));
    all
}

#[tokio::test]
async fn entries_come_back_as_they_were_saved() {
    let dir = tempfile::tempdir().unwrap();
    let host = origin("a");
    for entry in every_kind_of_entry() {
        let store = open(dir.path()).unwrap();
        store.save(&host, Arc::new(entry.clone()));
        assert_eq!(store.load(&host).await.as_ref(), Some(&entry), "unwritten");
        store.flush().await;
        assert_eq!(store.load(&host).await.as_ref(), Some(&entry), "written");
        assert_eq!(store.fault(), None);
        drop(store);
        let store = open(dir.path()).unwrap();
        assert_eq!(store.load(&host).await.as_ref(), Some(&entry), "opened again");
    }
}

#[test]
fn partial_answers_of_older_programs_are_not_used() {
    let resource = Resource::from(origin("a"));
    let part = FinishedFetch::of_proxy(response(206, RULES), at(0));
    let kept = CacheEntry { answer: Some(part.into()), failures: None };
    let record = EntryRecord::new(&resource, &kept);
    let read = record.into_entry(&resource, Some(RULES.into()));
    assert_eq!(read, CacheEntry::default());
}

#[tokio::test]
async fn unsaved_and_forgotten_entries_are_absent() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let host = origin("a");
    assert_eq!(store.load(&host).await, None);
    store.save(&host, entry(response(200, RULES), at(0)));
    store.flush().await;
    store.forget(&host);
    assert_eq!(store.load(&host).await, None, "unwritten");
    store.flush().await;
    assert_eq!(store.load(&host).await, None, "written");
    assert_eq!(store.history(&host).await.len(), 1, "the history remains");
}

#[tokio::test]
async fn dropping_the_last_handle_writes_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    for n in 0..500 {
        let host = origin(&format!("host{n}"));
        store.save(&host, entry(response(200, RULES), at(0)));
    }
    drop(store);
    let store = open(dir.path()).unwrap();
    for n in 0..500 {
        assert!(store.load(&origin(&format!("host{n}"))).await.is_some(), "{n}");
    }
}

#[tokio::test]
async fn a_second_process_gets_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let _first = open(dir.path()).unwrap();
    let clock = Clock::start_at(first());
    let second = RobotsStore::open(dir.path(), RobotsStoreConfig::default(), clock, metrics());
    assert!(matches!(second, Err(StoreError::Locked(_))));
    let message = second.unwrap_err().to_string();
    assert!(message.contains("in use by another process"), "{message}");
}

#[tokio::test]
async fn an_unknown_format_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).unwrap());
    let path = dir.path().join(FILE_NAME);
    let database = redb::Database::create(&path).unwrap();
    let write = database.begin_write().unwrap();
    {
        let head: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("head");
        write.open_table(head).unwrap().insert("format", 99).unwrap();
    }
    write.commit().unwrap();
    drop(database);
    let opened = open(dir.path());
    assert!(matches!(opened, Err(StoreError::Format { found: 99, .. })), "{opened:?}");
}

#[tokio::test]
async fn a_damaged_file_is_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE_NAME);
    drop(open(dir.path()).unwrap());
    std::fs::write(&path, vec![0xaa; 100_000]).unwrap();
    let store = open(dir.path()).unwrap();
    store.save(origin("a"), entry(response(200, RULES), at(0)));
    store.flush().await;
    assert!(store.load(&origin("a")).await.is_some());
    assert_eq!(store.fault(), None);
    let files = std::fs::read_dir(dir.path()).unwrap();
    let names: Vec<_> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.iter().any(|name| name.contains("damaged")), "{names:?}");
}

#[tokio::test(start_paused = true)]
async fn without_a_disk_changes_wait_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("no-directory");
    std::fs::write(&missing, b"but a file").unwrap();
    let metrics = metrics();
    let options = RobotsStoreConfig::default();
    let store =
        RobotsStore::open(&missing, options, Clock::start_at(first()), metrics.clone()).unwrap();
    let host = origin("a");
    store.save(&host, entry(response(200, RULES), at(0)));
    store.flush().await;
    assert!(store.fault().is_some());
    assert!(store.load(&host).await.is_some());
    let (_, text) = metrics.text().unwrap();
    assert!(!text.contains("store_errors_total{operation=\"open\"} 0"), "{text}");

    std::fs::remove_file(&missing).unwrap();
    let mut tries = 0;
    while store.fault().is_some() {
        tokio::time::sleep(Duration::from_secs(5)).await;
        tries += 1;
        assert!(tries < 10, "{:?}", store.fault());
    }
    drop(store);
    let store = open(&missing).unwrap();
    assert!(store.load(&host).await.is_some());
}

/// Makes the next transaction of an open store fail: one of its tables gets another type.
fn break_table(store: &RobotsStore) {
    let database = store.writer.database().unwrap();
    let write = database.begin_write().unwrap();
    let table: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("spent");
    assert!(write.delete_table(table).unwrap());
    let table: redb::TableDefinition<'_, &str, &str> = redb::TableDefinition::new("spent");
    drop(write.open_table(table).unwrap());
    write.commit().unwrap();
}

#[tokio::test]
async fn changes_of_a_failed_transaction_are_written_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let metrics = metrics();
    let options = RobotsStoreConfig::default();
    let clock = Clock::start_at(first());
    let store = RobotsStore::open(dir.path(), options, clock, metrics.clone()).unwrap();
    break_table(&store);
    let host = origin("a");
    store.save(&host, entry(response(200, RULES), at(0)));
    store.flush().await;
    let (_, text) = metrics.text().unwrap();
    assert!(text.contains("store_errors_total{operation=\"write\"} 1"), "{text}");
    assert!(store.load(&host).await.is_some(), "in memory");
    store.flush().await;
    assert_eq!(store.fault(), None);
    drop(store);
    let store = open(dir.path()).unwrap();
    assert!(store.load(&host).await.is_some(), "on disk");
}

#[tokio::test]
async fn history_lists_versions_with_their_times() {
    for is_written_at_once in [true, false] {
        check_history(is_written_at_once).await;
    }
}

async fn check_history(is_written_at_once: bool) {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let host = origin("a");
    let outcomes = [
        (0, response(200, RULES)),
        (1, response(200, RULES)),
        (2, response(503, b"")),
        (3, response(200, OTHER_RULES)),
        (4, response(404, b"")),
        (5, response(200, RULES)),
    ];
    let mut known = CacheEntry::default();
    for (day, outcome) in outcomes {
        known = known.after_fetch(FinishedFetch::of_proxy(outcome, at(day)));
        store.save(&host, Arc::new(known.clone()));
        if is_written_at_once {
            store.flush().await;
        }
    }
    let history = store.history(&host).await;
    let found: Vec<_> = history
        .iter()
        .map(|version| (version.first_seen_at, version.last_seen_at, version.status))
        .collect();
    let expected =
        [(at(0), at(1), 200), (at(3), at(3), 200), (at(4), at(4), 404), (at(5), at(5), 200)];
    assert_eq!(found, expected);
    assert_eq!(history[0].digest, history[3].digest);
    let bodies = [0, 1, 3].map(|index: usize| history[index].digest.unwrap());
    assert_eq!(store.body(bodies[0]).await.as_deref(), Some(RULES));
    assert_eq!(store.body(bodies[1]).await.as_deref(), Some(OTHER_RULES));
    assert_eq!(history[2].digest, None);
}

#[tokio::test]
async fn history_is_limited_and_frees_bodies() {
    let dir = tempfile::tempdir().unwrap();
    let options = RobotsStoreConfig { history_length: 3, ..RobotsStoreConfig::default() };
    let store = open_at(dir.path(), at(0), options).unwrap();
    let host = origin("a");
    let other = origin("b");
    let rules = |day: u32| format!("User-agent: *\nDisallow: /{day}\n").into_bytes();
    let mut digests = Vec::new();
    store.save(&other, entry(response(200, &rules(1)), at(0)));
    for day in 0..6 {
        store.save(&host, entry(response(200, &rules(day)), at(day)));
        store.flush().await;
        digests.push(digest(&rules(day)));
    }
    let kept: Vec<_> = store.history(&host).await.iter().filter_map(|v| v.digest).collect();
    assert_eq!(kept, digests[3..]);
    assert_eq!(store.body(digests[0]).await, None);
    assert!(store.body(digests[1]).await.is_some(), "another origin says the same");
    assert!(store.body(digests[5]).await.is_some());
}

#[tokio::test]
async fn expired_rows_are_deleted_in_steps() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_at(dir.path(), at(0), RobotsStoreConfig::default()).unwrap();
    for n in 0..200 {
        store.save(origin(&format!("idle{n}")), entry(response(200, RULES), at(0)));
    }
    store.save(origin("busy"), entry(response(200, OTHER_RULES), at(0)));
    store.save(origin("busy"), entry(response(200, RULES), at(1)));
    store.flush().await;
    store.save(origin("busy"), entry(response(200, OTHER_RULES), at(399)));
    drop(store);

    let store = open_at(dir.path(), at(400), RobotsStoreConfig::default()).unwrap();
    for _ in 0..10 {
        store.save(origin("busy"), entry(response(200, OTHER_RULES), at(400)));
        store.flush().await;
    }
    for n in 0..200 {
        let idle = origin(&format!("idle{n}"));
        assert_eq!(store.load(&idle).await, None, "{n}");
        assert_eq!(store.history(&idle).await, [], "{n}");
    }
    assert_eq!(store.body(digest(RULES)).await, None);
    assert_eq!(store.history(&origin("busy")).await.len(), 1);
    assert!(store.load(&origin("busy")).await.is_some());
}
