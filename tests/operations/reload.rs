//! Reloading the configuration while requests are in progress.

use std::io::Write as _;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::harness::crawler::crawler;
use crate::harness::wayleave::Settings;
use crate::harness::{Origin, Request, Response, Wayleave, decisions, eventually};

/// Starts three sites without a robots.txt.
fn sites() -> Origin {
    let origin = Origin::start();
    for host in ["one.test", "two.test", "three.test"] {
        origin.site(host);
    }
    origin
}

/// Returns two crawlers and a rule that contain `word`.
fn tables(word: &str) -> String {
    let crawlers = [("news", "NewsBot"), ("images", "ImageBot")]
        .map(|(name, token)| crawler(&format!("{name}-{word}"), token).into_toml());
    let rule = "[[rule]]\naction = \"refuse\"\nhosts = [\"*\"]\npaths = [\"/rule\"]\n";
    format!("{}{rule}reason = \"{word}\"\n", crawlers.concat())
}

fn start(origin: &Origin) -> (Wayleave, Settings) {
    let proxy = Wayleave::start_with(origin, |settings| settings.table(&tables("a")));
    let base = proxy.settings.clone().without_tables();
    (proxy, base)
}

fn reload(proxy: &Wayleave) -> Response {
    proxy.admin_request("POST", "/v1/reload")
}

/// Returns how often a text occurs in the log.
fn count_in_log(proxy: &Wayleave, text: &str) -> usize {
    proxy.log().matches(text).count()
}

fn refused_by(proxy: &Wayleave) -> String {
    let answer = proxy.get_as("NewsBot/1", "http://one.test/rule");
    let problem = answer.expect_refusal(403, Some("Refused by policy"), "http_request_denied");
    problem["detail"].as_str().expect("a string").to_owned()
}

#[test]
fn a_changed_file_a_signal_and_an_operator_reload() {
    let origin = sites();
    let (proxy, base) = start(&origin);
    let with = |word: &str| base.clone().table(&tables(word)).to_toml();
    assert_eq!(refused_by(&proxy), "[[rule]] 1: a");
    proxy.write_config(&with("b"));
    eventually("the change is noticed", || refused_by(&proxy) == "[[rule]] 1: b");
    proxy.write_config(&with("c"));
    proxy.signal("HUP");
    eventually("the signal takes effect", || refused_by(&proxy) == "[[rule]] 1: c");
    proxy.write_config(&with("d"));
    let answer = reload(&proxy);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["needs_restart"], serde_json::json!([]));
    assert_eq!(refused_by(&proxy), "[[rule]] 1: d");
}

#[test]
fn the_start_names_file_and_mode_and_a_reload_what_changed() {
    let origin = sites();
    let (proxy, _) = start(&origin);
    let log = proxy.log();
    let file = format!("  config   {}/", proxy.dir.path().display());
    assert!(log.contains(&file), "{file} in {log}");
    assert!(log.contains("  mode     enforce\n"), "{log}");
    let observed = proxy.settings.clone().set("proxy.mode", "\"observe\"");
    proxy.reload(&observed);
    let changes = "proxy.mode: \"enforce\" -> \"observe\"";
    eventually("the log has the change", || proxy.log().replace('\\', "").contains(changes));
    let (dir, _) = proxy.stop();
    let again = observed.with(crawler("x", "X").set("mode", "enforce"));
    let proxy = Wayleave::start_in(dir, again);
    let mode = "  mode     observe: refusals are counted, not made; 1 [[crawler]] is enforced\n";
    assert!(proxy.log().contains(mode), "{}", proxy.log());
}

#[test]
fn a_crawler_that_is_gone_is_named() {
    let origin = sites();
    let (proxy, base) = start(&origin);
    let whole = tables("a");
    let from = whole.rfind("[[crawler]]").expect("the second of two");
    let to = whole.find("[[rule]]").expect("it has one");
    let without = [&whole[..from], &whole[to..]].concat();
    proxy.write_config(&base.table(&without).to_toml());
    eventually("it is named", || proxy.log().contains("names=\"images-a\""));
    assert_eq!(reload(&proxy).json()["removed_crawlers"], serde_json::json!([]));
}

#[test]
fn a_file_is_not_read_while_it_is_being_written() {
    let origin = sites();
    let (proxy, base) = start(&origin);
    let file = proxy.dir.path().join("config.toml");
    let successes = || count_in_log(&proxy, "the configuration was reloaded");
    let before = successes();
    let whole = base.clone().table(&tables("b")).to_toml();
    let (begin, end) = whole.split_at(whole.find("[[rule]]").expect("it has one"));
    let mut writing = std::fs::File::create(&file).expect("it can be written");
    writing.write_all(begin.as_bytes()).expect("it can be written");
    // A change of another file in the directory must not end the wait.
    let beside = proxy.dir.path().join("beside.toml");
    std::fs::write(&beside, "x").expect("the directory can be written");
    std::fs::rename(&beside, proxy.dir.path().join("moved.toml")).expect("it can be renamed");
    // Together longer than a file must be unchanged before it is read.
    for _ in 0..300 {
        assert_eq!(refused_by(&proxy), "[[rule]] 1: a");
    }
    writing.write_all(end.as_bytes()).expect("it can be written");
    drop(writing);
    eventually("the whole file is read", || refused_by(&proxy) == "[[rule]] 1: b");
    eventually("it is read once", || successes() == before + 1);
}

/// A script that does not wait for the writer, or a writer that found the disk full.
#[test]
fn a_signal_does_not_load_a_file_that_is_being_written() {
    let origin = sites();
    let (proxy, base) = start(&origin);
    let refusals = || count_in_log(&proxy, "the configuration is unchanged");
    let whole = base.clone().table(&tables("b")).to_toml();
    // Without the rule, it is a configuration all the same.
    let (begin, end) = whole.split_at(whole.find("[[rule]]").expect("it has one"));
    let file = proxy.dir.path().join("config.toml");
    let mut writing = std::fs::File::create(&file).expect("it can be written");
    writing.write_all(begin.as_bytes()).expect("it can be written");
    proxy.signal("HUP");
    eventually("it is refused", || refusals() == 1);
    assert!(proxy.log().contains("its writer has not closed it yet"), "{}", proxy.log());
    let answer = reload(&proxy);
    assert_eq!(answer.status, 422, "{answer:?}");
    assert!(answer.text().contains("write to another file and rename it"), "{answer:?}");
    assert_eq!(refused_by(&proxy), "[[rule]] 1: a");
    let is_refused = || proxy.metric("wayleave_config_last_reload_successful", &[]) == 0.0;
    assert!(is_refused());
    // One that ends while the signal waits.
    proxy.signal("HUP");
    writing.write_all(end.as_bytes()).expect("it can be written");
    drop(writing);
    eventually("the whole file is read", || refused_by(&proxy) == "[[rule]] 1: b");
    // A file that ends as it was.
    let mut writing = std::fs::File::create(&file).expect("it can be written");
    writing.write_all(whole.as_bytes()).expect("it can be written");
    assert_eq!(reload(&proxy).status, 422);
    assert!(is_refused());
    drop(writing);
    eventually("the refusal is over", || !is_refused());
    let before = refusals();
    proxy.write_config("\n");
    proxy.signal("HUP");
    eventually("an empty file is refused", || refusals() > before);
    assert!(proxy.log().contains("write a comment into it"), "{}", proxy.log());
    assert_eq!(refused_by(&proxy), "[[rule]] 1: b");
}

#[test]
fn a_file_without_rules_or_crawlers_needs_an_operator() {
    let origin = sites();
    let (proxy, base) = start(&origin);
    let refusals = || count_in_log(&proxy, "the configuration is unchanged");
    let all = tables("b");
    let (crawlers, rules) = all.split_at(all.find("[[rule]]").expect("it has one"));
    for (text, message) in [
        (String::new(), "the file is empty"),
        ("# nothing yet\n\n".to_owned(), "the file sets nothing"),
        (base.clone().table(crawlers).to_toml(), "no longer has any [[rule]]"),
        (base.clone().table(rules).to_toml(), "no longer has any [[crawler]]"),
    ] {
        let before = refusals();
        proxy.write_config(&text);
        eventually("it is refused", || refusals() == before + 1);
        assert!(proxy.log().contains(message), "{message}");
        assert_eq!(refused_by(&proxy), "[[rule]] 1: a");
    }
    proxy.reload(&base.clone().table(crawlers));
    let answer = proxy.get_as("NewsBot/1", "http://one.test/rule");
    assert_eq!(answer.status, 200, "an operator confirmed it");
    proxy.write_config(&base.to_toml());
    eventually("it is refused", || refusals() == 5);
    proxy.signal("HUP");
    let asserted = [("crawler", "asserted"), ("outcome", "forwarded")];
    eventually("a signal confirms it, too", || {
        assert_eq!(proxy.get_as("NewsBot/1", "http://one.test/").status, 200);
        proxy.metric("wayleave_requests_total", &asserted) > 0.0
    });
}

#[test]
fn a_file_behind_links_is_read_when_a_link_is_swapped() {
    let origin = sites();
    let (old_dir, base) = Wayleave::start(&origin).stop();
    let dir = tempfile::tempdir().expect("a directory");
    let mount = dir.path().join("mount");
    std::fs::create_dir(&mount).expect("a directory");
    // As Kubernetes mounts a ConfigMap: config.toml -> ..data/config.toml, ..data -> a directory, swapped by a rename.
    let publish = |version: &str, word: &str| {
        let data = mount.join(version);
        std::fs::create_dir(&data).expect("a directory");
        let text = base.clone().table(&tables(word)).to_toml();
        std::fs::write(data.join("config.toml"), text).expect("a file");
        let link = mount.join("..data_tmp");
        std::os::unix::fs::symlink(version, &link).expect("a link");
        std::fs::rename(link, mount.join("..data")).expect("it can be renamed");
    };
    publish("..1", "a");
    let file = mount.join("config.toml");
    std::os::unix::fs::symlink("..data/config.toml", &file).expect("a link");
    let proxy = Wayleave::start_with_file(&file, old_dir, base.clone());
    assert_eq!(refused_by(&proxy), "[[rule]] 1: a");
    publish("..2", "b");
    eventually("the swap is noticed", || refused_by(&proxy) == "[[rule]] 1: b");
    // Another link replaces the first.
    std::fs::write(dir.path().join("own.toml"), base.table(&tables("c")).to_toml())
        .expect("a file");
    std::fs::remove_file(&file).expect("it can be removed");
    std::os::unix::fs::symlink(dir.path().join("own.toml"), &file).expect("a link");
    eventually("the new link is noticed", || refused_by(&proxy) == "[[rule]] 1: c");
}

/// As `rm -rf /etc/wayleave && cp -r new /etc/wayleave`.
#[test]
fn a_directory_that_is_replaced_is_read_and_watched_again() {
    let origin = sites();
    let (old_dir, base) = Wayleave::start(&origin).stop();
    let dir = tempfile::tempdir().expect("a directory");
    let etc = dir.path().join("etc");
    let publish = |word: &str| {
        std::fs::create_dir_all(&etc).expect("a directory");
        let text = base.clone().table(&tables(word)).to_toml();
        std::fs::write(etc.join("config.toml"), text).expect("a file");
    };
    publish("a");
    let proxy = Wayleave::start_with_file(&etc.join("config.toml"), old_dir, base.clone());
    let expect_reload = |word: &str| {
        eventually(&format!("{word} is noticed"), || {
            refused_by(&proxy) == format!("[[rule]] 1: {word}")
        });
    };
    expect_reload("a");
    assert_eq!(count_in_log(&proxy, "the configuration was reloaded"), 0);
    std::fs::remove_dir_all(&etc).expect("it can be removed");
    publish("b");
    expect_reload("b");
    publish("c");
    expect_reload("c");
    std::fs::remove_dir_all(&etc).expect("it can be removed");
    eventually("it is missed", || count_in_log(&proxy, "the configuration is unchanged") > 0);
    publish("d");
    expect_reload("d");
    publish("e");
    expect_reload("e");
}

#[test]
fn replaced_links_and_files_next_to_links_are_read() {
    let origin = sites();
    let (proxy, base) = start(&origin);
    let dir = proxy.dir.path().to_owned();
    let file = dir.join("config.toml");
    let publish = |name: &str, word: &str| {
        let text = base.clone().table(&tables(word)).to_toml();
        std::fs::create_dir_all(dir.join(name).parent().expect("a parent")).expect("a directory");
        std::fs::write(dir.join(name), text).expect("a file");
    };
    let link = |to: &str, from: &str| {
        std::fs::remove_file(dir.join(from)).expect("it can be removed");
        std::os::unix::fs::symlink(to, dir.join(from)).expect("a link");
    };
    let expect_reload = |word: &str| {
        eventually(&format!("{word} is noticed"), || {
            refused_by(&proxy) == format!("[[rule]] 1: {word}")
        });
    };
    publish("one/config.toml", "b");
    publish("two/config.toml", "c");
    std::os::unix::fs::symlink("one", dir.join("current")).expect("a link");
    link("current/config.toml", "config.toml");
    expect_reload("b");
    link("two", "current");
    expect_reload("c");
    publish("beside.toml", "d");
    link("beside.toml", "config.toml");
    expect_reload("d");
    publish("beside.toml", "e");
    expect_reload("e");
    // The target of the link is in a directory that was not watched before.
    std::fs::create_dir(dir.join("far")).expect("a directory");
    publish("far/real.toml", "f");
    link("far/real.toml", "config.toml");
    expect_reload("f");
    publish("far/real.toml", "g");
    expect_reload("g");
    publish("far/new.toml", "h");
    std::fs::rename(dir.join("far/new.toml"), dir.join("far/real.toml")).expect("it is renamed");
    expect_reload("h");
    assert!(file.is_symlink());
}

/// Returns the number of inotify instances of a proxy, of which a user has 128 by default.
fn inotify_instances(proxy: &Wayleave) -> usize {
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", proxy.pid())).expect("Linux has it");
    let targets = descriptors.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets.filter(|target| target.to_string_lossy().contains("inotify")).count()
}

#[test]
fn many_named_files_are_watched_with_one_instance() {
    let origin = sites();
    let pinned = |settings: Settings, count: usize| {
        let tables = (0..count).map(|number| {
            let file = settings.dir.join(format!("{number}/pinned.txt"));
            std::fs::create_dir_all(file.parent().expect("a directory")).expect("writable");
            std::fs::write(&file, "").expect("writable");
            format!("{{ origin = \"http://{number}.test\", file = \"{number}/pinned.txt\" }}")
        });
        let tables = tables.collect::<Vec<_>>().join(", ");
        settings.set("robots.pinned", &format!("[{tables}]"))
    };
    let proxy = Wayleave::start_with(&origin, |settings| {
        let settings = settings.set("include", "[\"teams/*.toml\"]");
        settings.resolve_to("69.test", &origin)
    });
    proxy.reload(&pinned(proxy.settings.clone(), 65));
    proxy.reload(&pinned(proxy.settings.clone(), 70));
    assert_eq!(inotify_instances(&proxy), 1);
    let text = "User-agent: *\nDisallow: /\n";
    std::fs::write(proxy.dir.path().join("69/pinned.txt"), text).expect("writable");
    eventually("the last is watched", || proxy.get("http://69.test/").status == 403);
}

/// In a namespace of its own, in which there are no inotify instances for the moment.
#[test]
fn a_watch_that_cannot_be_set_up_is_tried_again() {
    let limit = |count: usize| format!("echo {count} > /proc/sys/user/max_inotify_instances");
    let limited = format!("{}; exec \"$0\" \"$@\"", limit(0));
    let unshare = format!("exec unshare --map-root-user sh -c '{limited}' \"$0\" \"$@\"");
    let origin = sites();
    let proxy =
        Wayleave::start_with_after(&origin, |settings| settings.table(&tables("a")), &unshare);
    eventually("the log has it", || proxy.log().contains("are not noticed"));
    let base = proxy.settings.clone().without_tables();
    proxy.write_config(&base.table(&tables("b")).to_toml());
    let target = proxy.pid().to_string();
    let enter = ["--target", &target, "--user", "--preserve-credentials", "sh", "-c", &limit(1)];
    let raised = Command::new("nsenter").args(enter).status();
    assert!(raised.is_ok_and(|status| status.success()));
    eventually("the change is noticed", || refused_by(&proxy) == "[[rule]] 1: b");
    assert_eq!(count_in_log(&proxy, "are not noticed"), 1);
}

#[test]
fn the_connect_timeout_of_robots_txt_follows_a_reload() {
    // Connections to it are made, but no handshake is answered.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let address = silent.local_addr().expect("a bound socket has an address");
    let origin = sites();
    let proxy = Wayleave::start_with(&origin, |settings| {
        let settings = settings.resolve("silent.test", address).resolve("quiet.test", address);
        let settings = settings.set("robots.fetch_timeout", "\"3s\"");
        settings.set("upstream.connect_timeout", "\"1h\"")
    });
    let detail = |url: &str| {
        let answer = proxy.get(url);
        let problem =
            answer.expect_refusal(503, Some("Robots.txt unreachable"), "destination_unavailable");
        problem["detail"].as_str().expect("a string").to_owned()
    };
    let expected = "https://silent.test/robots.txt: not complete within 3s";
    assert_eq!(detail("https://silent.test/a"), expected);
    proxy.reload(&proxy.settings.clone().set("upstream.connect_timeout", "\"100ms\""));
    let expected = "https://quiet.test/robots.txt: \
                    no connection to https://quiet.test within upstream.connect_timeout";
    assert_eq!(detail("https://quiet.test/a"), expected);
}

#[test]
fn a_bad_file_changes_nothing_and_is_reported() {
    let origin = sites();
    let (proxy, base) = start(&origin);
    let successful = || proxy.metric("wayleave_config_last_reload_successful", &[]);
    assert_eq!(successful(), 1.0);
    let since = proxy.metric("wayleave_config_last_reload_success_timestamp_seconds", &[]);
    assert!(since > 1_700_000_000.0);
    proxy.write_config("[proxy]\nname = \"two words\"\nfrobnicate = 1\n");
    let answer = reload(&proxy);
    assert_eq!(answer.status, 422);
    let mistakes = answer.json()["mistakes"].as_array().map_or(0, Vec::len);
    assert_eq!(mistakes, 2, "{}", answer.text());
    assert_eq!(refused_by(&proxy), "[[rule]] 1: a");
    assert_eq!(successful(), 0.0);
    eventually("it is logged", || proxy.log().contains("proxy.frobnicate"));
    proxy.write_config(&base.table(&tables("b")).to_toml());
    eventually("a valid file takes effect again", || successful() == 1.0);
    assert_eq!(refused_by(&proxy), "[[rule]] 1: b");
}

#[test]
fn keys_that_need_a_restart_are_reported_and_the_rest_applies() {
    let origin = sites();
    let (proxy, base) = start(&origin);
    let moved = base
        .set("proxy.max_connections", "7")
        .set("state.dir", "\"elsewhere\"")
        .table(&tables("b"));
    proxy.write_config(&moved.to_toml());
    let answer = reload(&proxy).json();
    let expected = serde_json::json!(["proxy.max_connections", "state.dir"]);
    assert_eq!(answer["needs_restart"], expected);
    let message =
        "these changes take effect only after a restart keys=\"proxy.max_connections, state.dir\"";
    eventually("it is logged", || proxy.log().contains(message));
    assert_eq!(refused_by(&proxy), "[[rule]] 1: b");
    assert!(!proxy.dir.path().join("elsewhere").exists());
}

#[test]
fn a_reload_applies_to_connections_names_and_robots_txt() {
    let origin = sites();
    let (proxy, base) = start(&origin);
    assert_eq!(proxy.get("http://one.test/").status, 200);
    let changed = base
        .clone()
        .resolve_to("new.example", &origin)
        .set("robots.user_agent", "\"other/2\"")
        .set("robots.max_age", "\"1s\"");
    origin.site("new.example");
    assert_eq!(proxy.get("http://new.example/").status, 502, "no such name");
    proxy.reload(&changed);
    let fetches = || {
        let requests = origin.requests();
        let fetched = requests.iter().filter(|request| request.target == "/robots.txt");
        let agents =
            fetched.map(|fetch| (fetch.host(), fetch.header("user-agent").map(str::to_owned)));
        agents.collect::<Vec<_>>()
    };
    let refetched = ("one.test".to_owned(), Some("other/2".to_owned()));
    eventually("what was fresh for a day is fresh for a second", || {
        proxy.get("http://one.test/").status == 200 && fetches().contains(&refetched)
    });
    let refreshed = proxy.admin_request("POST", "/v1/robots/http%3A%2F%2Fnew.example/refresh");
    assert_eq!(refreshed.status, 200, "{refreshed:?}");
    assert_eq!(proxy.get("http://new.example/").status, 200);
    proxy.reload(&base.set("upstream.allow_private", "[]"));
    let prohibited = proxy.get("http://two.test/");
    assert_eq!(prohibited.status, 502, "{prohibited:?}");
}

#[test]
fn a_reload_applies_to_the_decision_log() {
    let origin = sites();
    let (proxy, base) = start(&origin);
    let lines = |file: &str| {
        let file = proxy.dir.path().join("state").join(file);
        std::fs::read_to_string(file).map_or(0, |text| decisions(&text).count())
    };
    proxy.get("http://one.test/");
    eventually("a line", || lines("decisions.jsonl") == 1);
    let json =
        base.clone().set("log.decisions", "\"log/other.jsonl\"").set("log.format", "\"json\"");
    proxy.reload(&json);
    let problem = proxy.exchange(&Request::new("FOO", "gopher://one.test/")).json();
    eventually("a line", || lines("log/other.jsonl") == 1);
    assert_eq!(lines("decisions.jsonl"), 1);
    let id = problem["decision_id"].as_str().expect("an id");
    assert_eq!(proxy.admin_get(&format!("/v1/decisions/{id}")).status, 200);
    let is_event = |line: &str, message: &str| {
        serde_json::from_str::<Value>(line).is_ok_and(|event| event.to_string().contains(message))
    };
    for message in [id, "the configuration was reloaded"] {
        eventually("events are JSON now", || {
            proxy.log().lines().any(|line| is_event(line, message))
        });
    }
    let off = base.clone().set("log.decisions", "\"\"");
    proxy.reload(&off);
    proxy.get("http://two.test/");
    // A file in the place of a directory: the log cannot be opened, so nothing else changes either.
    let impossible = base.set("log.decisions", "\"decisions.jsonl/no\"");
    proxy.write_config(&impossible.table(&tables("b")).to_toml());
    let answer = reload(&proxy);
    assert_eq!(answer.status, 422);
    assert!(answer.text().contains("decisions.jsonl/no"), "{}", answer.text());
    assert_eq!(proxy.get("http://one.test/rule").status, 200, "there is no rule b");
    assert_eq!(proxy.metric("wayleave_config_last_reload_successful", &[]), 0.0);
    assert_eq!((lines("decisions.jsonl"), lines("log/other.jsonl")), (1, 1));
}

#[test]
fn a_thousand_reloads_lose_no_request_and_mix_no_configurations() {
    let origin = sites();
    let (proxy, base) = start(&origin);
    // One file, however many requests a slow machine has time for.
    let base = base.set("log.decisions_max_size", "\"1GiB\"");
    let texts = [("b", "google", "1h"), ("a", "rfc9309", "24h")].map(|(word, dialect, age)| {
        let base = base.clone().set("robots.dialect", &format!("{dialect:?}"));
        let base = base.set("robots.max_age", &format!("{age:?}"));
        base.table(&tables(word)).to_toml()
    });
    let is_over = AtomicBool::new(false);
    let sent: usize = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|client| {
                scope.spawn({
                    let (proxy, is_over) = (&proxy, &is_over);
                    move || crawl(proxy, client, is_over)
                })
            })
            .collect();
        for number in 0..1000 {
            proxy.write_config(&texts[number % 2]);
            assert_eq!(reload(&proxy).status, 200);
        }
        is_over.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().expect("no request is lost")).sum()
    });
    let lines = || {
        let file = proxy.dir.path().join("state/decisions.jsonl");
        std::fs::read_to_string(file).unwrap_or_default()
    };
    eventually("every exchange is logged", || decisions(&lines()).count() == sent);
    let mut configurations = std::collections::HashMap::new();
    for line in decisions(&lines()) {
        let decision: Value = serde_json::from_str(line).expect("JSON");
        let configuration = decision["configuration"].as_u64().expect("a number");
        let crawler = decision["crawler"].as_str().expect("a name").to_owned();
        let (_, word) = crawler.rsplit_once('-').expect("it ends in a word");
        let one = configurations.entry(configuration).or_insert(word.to_owned());
        assert_eq!(one, word, "{decision}");
        if let Some(dialect) = decision.get("dialect") {
            let expected = if word == "a" { "rfc9309" } else { "google" };
            assert_eq!(dialect, expected, "{decision}");
        }
        if let Some(rule) = decision.get("policy") {
            assert_eq!(rule["reason"], word, "{decision}");
        }
    }
    assert!(configurations.len() > 10, "{}", configurations.len());
}

/// Sends requests on one connection until `is_over`. Returns their number.
fn crawl(proxy: &Wayleave, client: usize, is_over: &AtomicBool) -> usize {
    let agent = ["NewsBot/1", "ImageBot/1"][client % 2];
    let hosts = ["one.test", "two.test", "three.test"];
    let mut sent = 0;
    let mut wire = proxy.connect();
    while !is_over.load(Ordering::Relaxed) {
        let (page, expected) = [("page", 200), ("rule", 403)][sent % 2];
        let url = format!("http://{}/{page}", hosts[sent % 3]);
        wire.send(Request::get(&url).agent(agent).absolute_form());
        assert_eq!(wire.response().status, expected, "{url}");
        sent += 1;
        // Some request of the four clients is always under way, but the reloads get most of the machine.
        std::thread::park_timeout(Duration::from_millis(2));
    }
    sent
}

/// Only this key changes: no other creates new fetchers.
#[test]
fn another_user_agent_of_fetches_is_used_after_a_reload() {
    let origin = sites();
    let (proxy, base) = start(&origin);
    let agents = || -> Vec<String> {
        let requests = origin.requests();
        let robots = requests.iter().filter(|request| request.target == "/robots.txt");
        robots.map(|fetch| fetch.header("user-agent").unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(proxy.get("http://one.test/").status, 200);
    assert_eq!(agents(), ["wayleave/0.1"]);
    let settings = base.set("robots.user_agent", "\"ExampleBot/2.0\"");
    proxy.reload(&settings.table(&tables("a")));
    assert_eq!(proxy.get("http://two.test/").status, 200);
    let refresh = proxy.admin_request("POST", "/v1/robots/http%3A%2F%2Fone.test/refresh");
    assert_eq!(refresh.status, 200);
    assert_eq!(agents()[1..], ["ExampleBot/2.0", "ExampleBot/2.0"]);
}

#[test]
fn another_name_is_sent_to_parents_after_a_reload() {
    let origin = sites();
    let parent = Wayleave::start(&origin);
    let proxy = Wayleave::start_with(&origin, |settings| {
        let settings = settings.set("proxy.name", "\"first\"");
        settings.set("upstream.proxy", &format!("\"http://{}\"", parent.proxy))
    });
    assert_eq!(proxy.get("http://one.test/").status, 200);
    // The parent has this name, and takes the request for a loop.
    let settings = proxy.settings.clone().set("proxy.name", "\"wayleave\"");
    proxy.reload(&settings);
    assert_eq!(proxy.get("http://two.test/").status, 503);
    let looped = [("reason", "proxy_loop_detected")];
    assert!(parent.metric("wayleave_requests_total", &looped) >= 1.0);
}
