//! The store file: damage, views of operators after a restart, and access.

use std::path::{Path, PathBuf};

use redb::{ReadableTable, TableDefinition};
use serde_json::Value;

use crate::harness::{Origin, Wayleave};

const KEEP_OUT: &str = "User-agent: *\nDisallow: /private\n";

fn file(dir: &Path) -> PathBuf {
    dir.join("state/robots.redb")
}

/// Starts a proxy that has fetched and stored 30 files.
fn start_with_entries(origin: &Origin) -> Wayleave {
    let proxy = Wayleave::start(origin);
    for n in 0..30 {
        let host = format!("host{n}.test");
        // Different files, because equal ones share a body.
        origin.site(&host).robots(format!("{KEEP_OUT}# {n}\n"));
        assert_eq!(proxy.get(&format!("http://{host}/private")).status, 403);
    }
    proxy
}

/// Replaces every stored body by `text`.
fn replace_bodies(path: &Path, text: &str) {
    const BODIES: TableDefinition<'_, &[u8; 32], &[u8]> = TableDefinition::new("packed");
    let mut packed = u32::try_from(text.len()).expect("short").to_le_bytes().to_vec();
    packed.extend(zstd::bulk::compress(text.as_bytes(), 3).expect("there is memory"));
    let database = redb::Database::create(path).expect("no process has it open");
    let write = database.begin_write().expect("it can be written");
    {
        let mut bodies = write.open_table(BODIES).expect("there is such a table");
        let digests: Vec<_> =
            bodies.iter().expect("readable").map(|row| *row.expect("readable").0.value()).collect();
        assert!(!digests.is_empty(), "there are bodies");
        for digest in digests {
            bodies.insert(&digest, packed.as_slice()).expect("it can be written");
        }
    }
    write.commit().expect("it can be written");
}

#[test]
fn a_body_changed_on_disk_is_fetched_again_and_never_decides() {
    let origin = Origin::start();
    let proxy = start_with_entries(&origin);
    let (dir, settings) = proxy.stop();
    replace_bodies(&file(dir.path()), &KEEP_OUT.replace("Disallow", "Disablow"));
    let proxy = Wayleave::start_in(dir, settings);
    for n in 0..30 {
        let host = format!("host{n}.test");
        assert_eq!(proxy.get(&format!("http://{host}/private")).status, 403);
        assert_eq!(origin.robots_fetches(&host), 2, "{host}");
    }
    let counted = [("operation", "checksum")];
    assert!(proxy.metric("wayleave_store_errors_total", &counted) > 0.0);
    assert!(proxy.log().contains("was changed on disk"), "{}", proxy.log());
    let (dir, settings) = proxy.stop();
    let proxy = Wayleave::start_in(dir, settings);
    assert_eq!(proxy.get("http://host0.test/private").status, 403);
    assert_eq!(origin.robots_fetches("host0.test"), 2, "the new copy is stored");
}

#[test]
fn a_file_cut_after_a_kill_is_put_aside_and_the_proxy_starts() {
    for cut in [4096, 100_000, 1_000_000] {
        let origin = Origin::start();
        let (dir, settings) = start_with_entries(&origin).kill();
        let path = file(dir.path());
        let kept = std::fs::OpenOptions::new().write(true).open(&path).expect("it is there");
        let length = kept.metadata().expect("it is there").len();
        // The file may have been compacted.
        let cut = cut.min(length - 50_000);
        kept.set_len(length - cut).expect("it can be cut");
        let mut proxy = Wayleave::start_in(dir, settings);
        assert_eq!(proxy.get("http://host0.test/private").status, 403, "{cut}");
        assert!(proxy.is_running());
        let log = proxy.log();
        assert!(log.contains("robots.redb.damaged-"), "{cut}: {log}");
        assert!(!log.contains("this is a bug"), "{cut}: {log}");
        let ready = proxy.admin_get("/readyz");
        assert_eq!(ready.status, 200);
        assert!(ready.text().contains("robots.redb.damaged-"), "{}", ready.text());
        assert!(proxy.metric("wayleave_store_errors_total", &[("operation", "open")]) > 0.0);
        assert!(proxy.metric("wayleave_panics_total", &[]) == 0.0);
    }
}

#[test]
fn after_a_restart_the_admin_api_shows_what_is_on_disk() {
    let origin = Origin::start();
    let proxy = start_with_entries(&origin);
    let before = proxy.metric("wayleave_robots_entries", &[("state", "fresh")]);
    assert!(before == 30.0, "{before}");
    let (dir, settings) = proxy.stop();
    let proxy = Wayleave::start_in(dir, settings);
    let json = |path: &str| proxy.admin_get(path).json();
    let fresh = || proxy.metric("wayleave_robots_entries", &[("state", "fresh")]);
    assert!(fresh() == 30.0, "{}", fresh());
    assert_eq!(json("/v1/status")["robots"]["fresh"], 30);
    let (mut listed, mut path) = (Vec::new(), "/v1/robots?limit=7".to_owned());
    loop {
        let page = json(&path);
        let robots = page["robots"].as_array().expect("a list");
        assert!(robots.iter().all(|robots| robots["state"] == "fresh"), "{page}");
        listed.extend(robots.iter().map(|robots| robots["origin"].to_string()));
        match page["next_cursor"].as_str() {
            Some(next) => path = format!("/v1/robots?limit=7&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(listed.len(), 30);
    assert!(listed.is_sorted(), "{listed:?}");
    assert_eq!(origin.robots_fetches("host7.test"), 1, "a view is not a use");

    // An origin in memory and on disk is listed once.
    assert_eq!(proxy.get("http://host7.test/private").status, 403);
    assert_eq!(json("/v1/robots?limit=100")["robots"].as_array().map(Vec::len), Some(30));
    let seven = json("/v1/robots?q=host7.test");
    assert_eq!(seven["robots"].as_array().map(Vec::len), Some(1), "{seven}");
    assert_eq!(json("/v1/robots?state=unreachable")["robots"], Value::Array(Vec::new()));
}

#[test]
fn only_the_owner_may_read_the_store() {
    use std::os::unix::fs::PermissionsExt;

    let origin = Origin::start();
    let proxy = start_with_entries(&origin);
    let mode = |path: &Path| {
        let found = std::fs::metadata(path).expect("it is there");
        found.permissions().mode() & 0o777
    };
    let path = file(proxy.dir.path());
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().expect("a directory")) & 0o066, 0);
    let (dir, settings) = proxy.stop();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).expect("ours");
    let proxy = Wayleave::start_in(dir, settings);
    assert_eq!(mode(&file(proxy.dir.path())), 0o600, "an earlier version's file");
}
