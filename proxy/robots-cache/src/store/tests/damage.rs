//! Files changed by a failing disk, or by somebody.

use std::path::PathBuf;

use redb::{ReadableDatabase, ReadableTable, TableDefinition};

use super::super::sealed::pack;
use super::*;

const DAMAGES: u64 = 150;

/// Enough origins for a tree of several levels, each with its own body, and one body that they share.
async fn filled(dir: &Path) -> Vec<(Origin, Arc<CacheEntry>)> {
    let store = open(dir).unwrap();
    let mut saved = Vec::new();
    for n in 0..200 {
        let own = origin(&format!("own{n}"));
        let shared = origin(&format!("shared{n}"));
        let body = format!("User-agent: *\nDisallow: /{n}/{}\n", "x".repeat(n * 7));
        saved.push((own, entry(response(200, body.as_bytes()), at(0))));
        saved.push((shared, entry(response(200, RULES), at(0))));
    }
    for (origin, entry) in &saved {
        store.save(origin, entry.clone());
    }
    store.flush().await;
    drop(store);
    // Nobody has it open any more.
    drop(open(dir).unwrap());
    saved
}

/// Returns the `n`th kind of damage: truncation, a flipped bit, a page of zeros or of noise. Deterministic.
fn damage(file: &mut Vec<u8>, n: u64) -> &'static str {
    let mut state = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    (0..8).for_each(|_| {
        random(1);
    });
    let page = random(file.len() / 4096) * 4096;
    match n % 5 {
        0 => {
            file.truncate(file.len() - 4096 * (n as usize / 5 + 1).min(400));
            "cut at the end"
        }
        1 => {
            file.truncate(random(file.len()));
            "cut somewhere"
        }
        2 => {
            // At the front, where redb keeps its own data, and everywhere else.
            let length = [512, 65_536, file.len()][random(3)];
            let place = random(length);
            file[place] ^= 1 << random(8);
            "a bit flipped"
        }
        3 => {
            file[page..page + 4096].fill(0);
            "a page of zeros"
        }
        _ => {
            (page..page + 4096).for_each(|place| file[place] = random(256) as u8);
            "a page of noise"
        }
    }
}

fn names(dir: &Path) -> Vec<String> {
    let files = std::fs::read_dir(dir).unwrap();
    files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
}

/// Whatever happened to the file: no panic, no answer that was never given, and new entries are saved.
#[tokio::test]
async fn damage_neither_panics_nor_changes_rules() {
    let clean = tempfile::tempdir().unwrap();
    let saved = filled(clean.path()).await;
    let sound = std::fs::read(clean.path().join(FILE_NAME)).unwrap();
    let mut aside = 0;
    let mut lost = 0;
    for n in 0..DAMAGES {
        let mut file = sound.clone();
        let what = damage(&mut file, n);
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FILE_NAME), &file).unwrap();
        let store = open(dir.path()).unwrap_or_else(|error| panic!("{n}, {what}: {error}"));
        let origins = saved.iter().map(|(origin, _)| origin.into()).collect();
        for ((origin, loaded), (_, entry)) in store.load_all(origins).await.into_iter().zip(&saved)
        {
            lost += usize::from(loaded.is_none());
            assert!(loaded.is_none_or(|loaded| loaded == **entry), "{n}, {what}: {origin}");
        }
        let late = origin("late");
        for round in 0..3 {
            store.save(&late, entry(response(200, RULES), at(round)));
            store.flush().await;
        }
        assert!(store.load(&late).await.is_some(), "{n}, {what}");
        drop(store);
        let store = open(dir.path()).unwrap();
        assert!(store.load(&late).await.is_some(), "{n}, {what}: opened again");
        assert_eq!(store.fault(), None, "{n}, {what}");
        let named = names(dir.path());
        aside += named.iter().filter(|name| name.starts_with("robots.redb.damaged-")).count();
    }
    assert!(aside > 20 && lost > 1000, "{aside} put aside, {lost} lost");
}

#[tokio::test]
async fn a_database_panic_sets_the_file_aside() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path()).await;
    let path = dir.path().join(FILE_NAME);
    let mut file = std::fs::read(&path).unwrap();
    // All trees, but neither the file's head nor its length.
    file[8192..].fill(0xa5);
    std::fs::write(&path, &file).unwrap();
    let metrics = metrics();
    let clock = Clock::start_at(first());
    let store = RobotsStore::open(dir.path(), RobotsStoreConfig::default(), clock, metrics.clone())
        .unwrap();
    assert_eq!(store.load(&origin("own1")).await, None);
    store.save(origin("a"), entry(response(200, RULES), at(0)));
    store.flush().await;
    store.flush().await;
    assert_eq!(store.fault(), None);
    let reported = store.set_aside_file().expect("it is reported");
    assert!(reported.contains("robots.redb.damaged-20270115T"), "{reported}");
    let (_, text) = metrics.text().unwrap();
    assert!(!text.contains("store_errors_total{operation=\"open\"} 0"), "{text}");
    let aside = names(dir.path()).into_iter().find(|name| name.contains("damaged"));
    let aside = std::fs::read(dir.path().join(aside.unwrap())).unwrap();
    assert_eq!(aside.len(), file.len());
}

#[tokio::test]
async fn a_reader_neither_repairs_nor_replaces_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let saved = filled(dir.path()).await;
    let path = dir.path().join(FILE_NAME);
    let whole = std::fs::read(&path).unwrap();
    let read = || {
        let clock = Clock::start_at(first());
        let options = RobotsStoreConfig::default();
        RobotsStore::open_to_read(dir.path(), options, clock, metrics())
    };
    let mut refused = 0;
    let mut failed = 0;
    for n in 0..60 {
        let mut file = whole.clone();
        let what = damage(&mut file, n);
        std::fs::write(&path, &file).unwrap();
        match read() {
            Ok(store) => {
                for (origin, entry) in &saved {
                    let loaded = store.load(origin).await;
                    assert!(loaded.is_none_or(|loaded| loaded == **entry), "{n}, {what}");
                }
                failed += usize::from(store.fault().is_some());
                store.flush().await;
            }
            Err(StoreError::Unreadable { .. }) => refused += 1,
            Err(error) => panic!("{n}, {what}: {error}"),
        }
        assert!(std::fs::read(&path).unwrap() == file, "{n}, {what}: it was changed");
        assert_eq!(names(dir.path()), [FILE_NAME], "{n}, {what}");
    }
    assert!(refused > 5, "{refused} refused, {failed} failed");
    // A process that was killed leaves a file that is in use.
    std::fs::write(&path, &whole).unwrap();
    let writer = open(dir.path()).unwrap();
    assert!(matches!(read(), Err(StoreError::Locked(_))));
    let killed = std::fs::read(&path).unwrap();
    drop(writer);
    std::fs::write(&path, &killed).unwrap();
    let store = read().unwrap();
    assert_eq!(store.load(&saved[0].0).await.as_ref(), Some(&*saved[0].1));
    drop(store);
    assert!(std::fs::read(&path).unwrap() == killed);
}

#[tokio::test]
async fn only_the_newest_damaged_file_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    for day in 0..3 {
        std::fs::write(dir.path().join(FILE_NAME), vec![0xaa; 100_000]).unwrap();
        drop(open_at(dir.path(), at(day), RobotsStoreConfig::default()).unwrap());
    }
    let mut named = names(dir.path());
    named.sort();
    assert_eq!(named.len(), 2, "{named:?}");
    assert_eq!(named[0], FILE_NAME);
    assert!(named[1].starts_with("robots.redb.damaged-20270117T080000."), "{named:?}");
}

const PACKED: TableDefinition<'_, &[u8; 32], &[u8]> = TableDefinition::new("packed");
const ENTRIES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("entries");

/// Overwrites a body, as somebody who edits the file would.
fn replace_body(path: PathBuf, digest: [u8; 32], packed: &[u8]) {
    let database = redb::Database::create(path).unwrap();
    let write = database.begin_write().unwrap();
    let before = write.open_table(PACKED).unwrap().insert(&digest, packed).unwrap().is_some();
    assert!(before, "there is such a body");
    write.commit().unwrap();
}

#[tokio::test]
async fn damaged_shared_bodies_are_dropped_until_fetched_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let hosts: Vec<_> = (0..30).map(|n| origin(&format!("host{n}"))).collect();
    for host in &hosts {
        store.save(host, entry(response(200, RULES), at(0)));
    }
    drop(store);
    drop(open(dir.path()).unwrap());
    let evil = String::from_utf8(RULES.to_vec()).unwrap().replace("Disallow", "Disablow");
    replace_body(dir.path().join(FILE_NAME), digest(RULES), &pack(evil.as_bytes()).unwrap());

    let metrics = metrics();
    let clock = Clock::start_at(at(0));
    let store = RobotsStore::open(dir.path(), RobotsStoreConfig::default(), clock, metrics.clone())
        .unwrap();
    assert_eq!(store.body(digest(RULES)).await, None, "shown to nobody");
    for host in &hosts {
        assert_eq!(store.load(host).await, None);
    }
    let (_, text) = metrics.text().unwrap();
    assert!(!text.contains("store_errors_total{operation=\"checksum\"} 0"), "{text}");
    assert_eq!(store.fault(), None, "nothing else is wrong");
    store.flush().await;
    store.save(&hosts[0], entry(response(200, RULES), at(1)));
    store.flush().await;
    assert_eq!(store.body(digest(RULES)).await.as_deref(), Some(RULES));
    assert!(store.load(&hosts[0]).await.is_some());
    assert_eq!(store.history(&hosts[0]).await.len(), 1, "it said the same all along");
    assert_eq!(store.load(&hosts[1]).await, None, "not without asking");
}

#[tokio::test]
async fn only_the_changed_record_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let saved = filled(dir.path()).await;
    let path = dir.path().join(FILE_NAME);
    {
        let database = redb::Database::create(&path).unwrap();
        let write = database.begin_write().unwrap();
        {
            let mut entries = write.open_table(ENTRIES).unwrap();
            // A record with 200 turned into 404, which would allow everything.
            let key = saved[0].0.to_string();
            let mut record = entries.get(key.as_str()).unwrap().unwrap().value().to_vec();
            let other = saved[1].0.to_string();
            let status = record.windows(2).position(|two| two == [0xc8, 0x01]).unwrap();
            record[status..status + 2].copy_from_slice(&[0x94, 0x03]);
            entries.insert(key.as_str(), record.as_slice()).unwrap();
            // And one record in the place of another.
            let third =
                entries.get(saved[2].0.to_string().as_str()).unwrap().unwrap().value().to_vec();
            entries.insert(other.as_str(), third.as_slice()).unwrap();
        }
        write.commit().unwrap();
        assert!(database.begin_read().is_ok());
    }
    let store = open(dir.path()).unwrap();
    for (n, (origin, entry)) in saved.iter().enumerate() {
        let expected = (n > 1).then_some(&**entry);
        assert_eq!(store.load(origin).await.as_ref(), expected, "{origin}");
    }
    store.flush().await;
    for (origin, entry) in &saved[..2] {
        store.save(origin, entry.clone());
    }
    drop(store);
    let store = open(dir.path()).unwrap();
    assert_eq!(store.load(&saved[0].0).await.as_ref(), Some(&*saved[0].1));
    assert_eq!(store.load(&saved[1].0).await.as_ref(), Some(&*saved[1].1));
}
