//! `wayleave evidence hold`, which keeps decisions beyond every retention, and `ask --nodes`, which asks several proxies.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::export::{self, evidence, expect};
use super::wait_until_written;
use crate::harness::tools::both_streams;
use crate::harness::wayleave::{Settings, command};
use crate::harness::{Origin, Request, Wayleave, eventually};

fn small(settings: Settings) -> Settings {
    let settings = settings.set("log.decisions_max_size", "\"64KiB\"").set("log.events", "false");
    settings.set("log.decisions_max_total", "\"256KiB\"").crawler("news", "NewsBot")
}

/// Sends so many requests that are refused. What is written at once is one file, so every 50 wait for those before.
fn crawl(proxy: &Wayleave, host: &str, requests: usize) {
    let mut wire = proxy.connect();
    for n in 0..requests {
        let url = format!("http://{host}/private/{n}");
        wire.send(Request::get(&url).agent("NewsBot/1").absolute_form());
        assert_eq!(wire.response().status, 403);
        if n % 50 == 49 {
            wait_until_written(proxy, &url);
        }
    }
}

/// Returns the files of the log that mention a host.
fn files_about(dir: &Path, host: &str) -> Vec<PathBuf> {
    let state = fs::read_dir(dir.join("state")).expect("it can be listed");
    let paths = state.flatten().map(|entry| entry.path());
    paths
        .filter(|path| path.to_string_lossy().contains("/decisions."))
        .filter(|path| path.extension().is_some_and(|it| it == "jsonl"))
        .filter(|path| fs::read_to_string(path).expect("text").contains(host))
        .collect()
}

#[test]
fn held_decisions_outlive_the_logs_retention() {
    let origin = Origin::start();
    origin.site("held.test").disallows("/private");
    origin.site("shop.test").disallows("/private");
    let proxy = Wayleave::start_with(&origin, small);
    crawl(&proxy, "shop.test", 100);
    crawl(&proxy, "held.test", 3);
    let dir = proxy.dir.path().to_owned();
    let hold = |arguments: &[&str]| evidence(&dir, &[&["hold"], arguments].concat());
    // While the proxy runs, and before it has rotated anything away.
    let printed = expect(
        &hold(&[
            "add",
            "--host",
            "held.test",
            "--crawler",
            "news",
            "--since",
            "1d",
            "--reason",
            "a letter",
        ]),
        0,
    );
    assert!(printed.starts_with("hold 1: "), "{printed}");
    for _ in 0..3 {
        crawl(&proxy, "shop.test", 500);
    }
    let (dir_guard, settings) = proxy.stop();
    let kept = files_about(&dir, "http://held.test/private/0");
    assert_eq!(kept.len(), 1, "{kept:?}");
    let current = fs::read_to_string(dir.join("state/decisions.jsonl")).expect("text");
    assert!(!current.contains("http://held.test"), "{current}");
    let recorded = "{\"event\":\"hold\",\"hold\":{";
    assert!(current.contains(recorded), "each file begins with the holds in effect: {current}");
    // Its neighbours are gone, each with a line that says so.
    evidence_is_sound(&dir, "1");
    let listed = expect(&hold(&["list"]), 0);
    assert!(listed.starts_with("1  held.test  crawler news  since "), "{listed}");
    assert!(listed.contains("  3 decisions  held "), "{listed}");
    assert!(listed.ends_with("  a letter\n"), "{listed}");
    let aside = dir.join("aside");
    fs::rename(&kept[0], &aside).expect("it can be moved");
    let missing = expect(&hold(&["list", "--json"]), 1);
    assert!(missing.contains("wayleave: hold 1: file "), "{missing}");
    assert!(missing.contains(" of the decision log is missing"), "{missing}");
    fs::rename(&aside, &kept[0]).expect("it can be moved");
    expect(&hold(&["list"]), 0);
    let released = expect(&hold(&["release", "1"]), 0);
    assert_eq!(released, "hold 1 is released\n");
    assert!(expect(&hold(&["release", "1"]), 2).contains("was released before"));
    let proxy = Wayleave::start_in(dir_guard, settings);
    crawl(&proxy, "shop.test", 500);
    let dir_guard = proxy.stop().0;
    assert!(
        files_about(&dir, "http://held.test/private/0").is_empty(),
        "it went as soon as it was released"
    );
    evidence_is_sound(&dir, "2");
    assert!(expect(&hold(&["list"]), 0).contains("  released "));
    drop(dir_guard);
}

#[test]
fn nobody_but_wayleave_ends_a_hold() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/private");
    let proxy = Wayleave::start_with(&origin, small);
    crawl(&proxy, "shop.test", 1);
    let dir = proxy.dir.path().to_owned();
    let hold = |arguments: &[&str]| evidence(&dir, &[&["hold"], arguments].concat());
    expect(&hold(&["add", "--host", "shop.test", "--reason", "a letter"]), 0);
    let log = dir.join("state/decisions.jsonl");
    // It is gone for a moment when it is rotated.
    let read = || fs::read_to_string(&log).unwrap_or_default();
    eventually("it is recorded", || {
        crawl(&proxy, "shop.test", 1);
        read().contains("{\"event\":\"hold\",\"hold\":{")
    });
    let (dir_guard, settings) = proxy.stop();
    let file = dir.join("state/holds/1.json");
    let text = fs::read_to_string(&file).expect("text");
    let released =
        text.replace("\"made_at\"", "\"released_at\":\"2026-01-01T00:00:00Z\",\"made_at\"");
    fs::write(&file, released).expect("writable");
    let listed = expect(&hold(&["list"]), 1);
    assert!(listed.contains("the release of hold 1 is not signed by the log's key"), "{listed}");
    expect(&evidence(&dir, &["export", "--since", "1d", "--out", "3"]), 0);
    let verified = expect(&evidence(&dir, &["verify", "3"]), 2);
    assert!(verified.contains("the release of hold 1 is not signed"), "{verified}");
    fs::remove_file(&file).expect("it can be deleted");
    assert!(expect(&hold(&["list"]), 1).contains("the file of hold 1 is gone"));
    expect(&hold(&["release", "1"]), 0);
    expect(&hold(&["list"]), 0);
    let proxy = Wayleave::start_in(dir_guard, settings);
    crawl(&proxy, "shop.test", 1);
    let dir_guard = proxy.stop().0;
    assert!(read().contains("{\"event\":\"release\",\"hold\":1,"), "{}", read());
    evidence_is_sound(&dir, "4");
    drop(dir_guard);
}

fn evidence_is_sound(dir: &Path, out: &str) {
    expect(&evidence(dir, &["export", "--since", "1d", "--out", out]), 0);
    expect(&evidence(dir, &["verify", out]), 0);
    let key = expect(&evidence(dir, &["key"]), 0);
    let printed = both_streams(&export::verify_by_document(&dir.join(out), &key, &[]));
    assert!(printed.starts_with("sound: "), "{printed}");
}

/// Starts a proxy with a file that is held and older than others, of which retention has deleted some. Returns its directory, stopped,
/// with a copy of the list of deleted files from before the last of them.
fn with_deletions(origin: &Origin) -> (tempfile::TempDir, Settings, String) {
    for host in ["held.test", "shop.test"] {
        origin.site(host).disallows("/private");
    }
    // Room for rotated files beside the held one and the current one, whichever of them has just grown.
    let proxy = Wayleave::start_with(origin, |settings| {
        small(settings).set("log.decisions_max_total", "\"512KiB\"")
    });
    crawl(&proxy, "held.test", 3);
    let dir = proxy.dir.path().to_owned();
    let add = ["hold", "add", "--host", "held.test", "--reason", "a letter"];
    expect(&evidence(&dir, &add), 0);
    let list = dir.join("state/holds/deletions.json");
    let read = || fs::read_to_string(&list).unwrap_or_default();
    // The log is written after the response: what has been crawled may not be in it yet.
    let crawl_until = |is_enough: &dyn Fn() -> bool| {
        eventually("files are deleted", || {
            crawl(&proxy, "shop.test", 100);
            is_enough()
        });
    };
    crawl_until(&|| !read().is_empty());
    let earlier = read();
    crawl_until(&|| read() != earlier);
    let (dir, settings) = proxy.stop();
    evidence_is_sound(dir.path(), "sound");
    expect(&evidence(dir.path(), &["hold", "list"]), 0);
    (dir, settings, earlier)
}

/// Lets retention delete more until the program has `printed` this, and returns the result of verifying an export.
fn after_more(
    dir: tempfile::TempDir,
    settings: Settings,
    printed: &str,
) -> (String, tempfile::TempDir) {
    let proxy = Wayleave::start_in(dir, settings);
    for _ in 0..8 {
        crawl(&proxy, "shop.test", 100);
    }
    // The log is written, and old files deleted, after the responses.
    eventually(printed, || proxy.log().contains(printed));
    let (dir, _) = proxy.stop();
    let exported = evidence(dir.path(), &["export", "--since", "1d", "--out", "after"]);
    let verified = evidence(dir.path(), &["verify", "after"]);
    (both_streams(&exported) + &both_streams(&verified), dir)
}

/// Returns a rotated file that is not held, the newest, and its number.
fn newest_rotated(dir: &Path) -> (PathBuf, u64) {
    let mut files = files_about(dir, "http://shop.test/");
    files.retain(|file| !fs::read_to_string(file).expect("text").contains("http://held.test/"));
    files.sort();
    let file = files.pop().expect("there is one");
    let text = fs::read_to_string(&file).expect("text");
    let event: Value = serde_json::from_str(text.lines().next().expect("a line")).expect("JSON");
    (file, event["file"].as_u64().expect("a number"))
}

#[test]
fn a_file_deleted_by_hand_does_not_pass_for_one_that_retention_deleted() {
    let origin = Origin::start();
    let (dir, settings, _) = with_deletions(&origin);
    let list = dir.path().join("state/holds/deletions.json");
    let (file, number) = newest_rotated(dir.path());
    fs::remove_file(file).expect("it can be deleted");
    let text = fs::read_to_string(&list).expect("text");
    fs::write(&list, text.replacen("]", &format!(",{number}]"), 1)).expect("writable");
    let listed = expect(&evidence(dir.path(), &["hold", "list"]), 1);
    assert!(
        listed.contains("deletions.json was altered: the log's key has not signed it"),
        "{listed}"
    );
    let (verified, dir) = after_more(dir, settings, "old decision logs are not deleted");
    assert!(verified.contains(&format!("file {number}")), "{number}: {verified}");
    let deleted = format!("\"event\":\"deleted\",\"file\":{number},");
    assert!(files_about(dir.path(), &deleted).is_empty(), "the log does not vouch for it");
}

#[test]
fn an_older_or_missing_list_of_deletions_explains_less() {
    let origin = Origin::start();
    for replacement in [None, Some(())] {
        let (dir, settings, earlier) = with_deletions(&origin);
        let list = dir.path().join("state/holds/deletions.json");
        let (file, number) = newest_rotated(dir.path());
        fs::remove_file(file).expect("it can be deleted");
        match replacement {
            None => fs::remove_file(&list).expect("it can be deleted"),
            Some(()) => fs::write(&list, earlier).expect("writable"),
        }
        let (verified, dir) = after_more(dir, settings, "");
        assert!(verified.contains(&format!("file {number}")), "{number}: {verified}");
        let deleted = format!("\"event\":\"deleted\",\"file\":{number},");
        assert!(files_about(dir.path(), &deleted).is_empty(), "the log does not vouch for it");
    }
}

#[test]
fn a_hold_that_cannot_be_read_deletes_nothing() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/private");
    let proxy = Wayleave::start_with(&origin, small);
    let holds = proxy.dir.path().join("state/holds");
    fs::create_dir(&holds).expect("a directory");
    fs::write(holds.join("1.json"), "{\"id\":1,").expect("writable");
    for _ in 0..3 {
        crawl(&proxy, "shop.test", 400);
    }
    let printed = "a hold cannot be read: nothing of the decision log is deleted";
    eventually(printed, || proxy.log().contains(printed));
    let (dir, _) = proxy.stop();
    assert_eq!(files_about(dir.path(), "\"file\":1,").len(), 1, "the first file is there");
    let listed = expect(&evidence(dir.path(), &["hold", "list"]), 2);
    assert!(listed.contains("state/holds/1.json"), "{listed}");
}

#[test]
fn wrong_holds_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("config.toml"), "").expect("writable");
    let hold =
        |arguments: &[&str]| expect(&evidence(dir.path(), &[&["hold"], arguments].concat()), 2);
    assert!(hold(&["add", "--host", "a b", "--reason", "x"]).contains("is not a host"));
    assert!(hold(&["add", "--host", "a.test"]).contains("--reason"));
    assert!(hold(&["add", "--host", "a.test", "--reason", ""]).contains("--reason"));
    let of_nobody = ["add", "--host", "a.test", "--reason", "x", "--crawler", "Nobody"];
    assert!(hold(&of_nobody).contains("no [[crawler]] has this name, and the log has none"));
    assert!(hold(&of_nobody).contains("; there are unnamed"));
    let turned = [
        "add",
        "--host",
        "a.test",
        "--reason",
        "x",
        "--since",
        "2026-02-01",
        "--until",
        "2026-01-01",
    ];
    assert!(hold(&turned).contains("--since is after --until"));
    assert!(hold(&["release", "7"]).contains("there is no hold 7"));
    assert!(!dir.path().join("wayleave-state/holds").exists());
}

#[test]
fn several_nodes_are_asked_and_silent_ones_named() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/private");
    let nodes = [Wayleave::start_with(&origin, small), Wayleave::start_with(&origin, small)];
    let url = "http://shop.test/private/0";
    let urls = nodes.each_ref().map(|node| format!("http://{}", node.admin));
    let ask = |nodes: &str, more: &[&str]| {
        let mut command = command();
        command.args(["evidence", "ask", url, "--at", "0s", "--nodes", nodes]).args(more);
        command.output().expect("it runs")
    };
    let both = urls.join(",");
    let none = expect(&ask(&both, &[]), 2);
    assert!(none.contains("no node has a request for http://shop.test/private/0"), "{none}");
    crawl(&nodes[0], "shop.test", 20);
    eventually("it is in the log", || ask(&urls[0], &[]).status.code() == Some(1));
    let printed = expect(&ask(&both, &[]), 1);
    assert!(printed.contains(&format!("node        {}", urls[0])), "{printed}");
    crawl(&nodes[1], "shop.test", 1);
    eventually("it is in the log", || ask(&urls[1], &[]).status.code() == Some(1));
    let printed = expect(&ask(&both, &["--json"]), 1);
    let found: Value = serde_json::from_str(printed.lines().next().expect("a line")).expect("JSON");
    assert_eq!(
        (&found["node"], &found["decision"]["url"]),
        (&Value::from(&*urls[1]), &Value::from(url)),
        "the last of all"
    );
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port");
    let printed = expect(&ask(&format!("{both},http://{closed}"), &[]), 2);
    assert!(printed.contains(&format!("wayleave: no answer of http://{closed}: ")), "{printed}");
    assert!(
        printed.contains(&format!("node        {}", urls[1])),
        "what is known is shown: {printed}"
    );
    assert!(expect(&ask("10.0.0.2:3129", &[]), 2).contains("is not an admin listener"));
}
