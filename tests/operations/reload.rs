//! Reloading the configuration while requests are in progress.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::harness::wayleave::Settings;
use crate::harness::{Origin, Request, Response, Wayleave, Wire, decisions, eventually};

/// Three origins without a robots.txt.
fn sites() -> Origin {
    let origin = Origin::start();
    for host in ["one.test", "two.test", "three.test"] {
        origin.site(host);
    }
    origin
}

/// Two crawlers and a rule, all of which carry `word`.
fn tables(word: &str) -> String {
    format!(
        "[[crawler]]\nname = \"news-{word}\"\ntokens = [\"NewsBot\"]\nmatch = {{ user_agent = \"NewsBot\" }}\n\
         [[crawler]]\nname = \"images-{word}\"\ntokens = [\"ImageBot\"]\nmatch = {{ user_agent = \"ImageBot\" }}\n\
         [[rule]]\naction = \"refuse\"\nhosts = [\"*\"]\npaths = [\"/rule\"]\nreason = \"{word}\"\n"
    )
}

fn start(origin: &Origin) -> (Wayleave, Settings) {
    let mut base = None;
    let proxy = Wayleave::start_with(origin, |settings| {
        base = Some(settings.clone());
        settings.table(&tables("a"))
    });
    (proxy, base.expect("it was started with settings"))
}

/// Puts a new file in the old one's place at once, as editors do.
fn write(proxy: &Wayleave, text: &str) {
    let new = proxy.dir.path().join("config.toml.new");
    std::fs::write(&new, text).expect("the temporary directory can be written");
    std::fs::rename(new, proxy.dir.path().join("config.toml")).expect("a file can be renamed");
}

fn post_reload(proxy: &Wayleave) -> Response {
    post(proxy, "/v1/reload")
}

fn post(proxy: &Wayleave, path: &str) -> Response {
    let mut wire = Wire::connect(proxy.admin);
    wire.send(format!(
        "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        proxy.admin
    ));
    wire.response()
}

/// Returns how often a text occurs in the log.
fn times_said(proxy: &Wayleave, text: &str) -> usize {
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
    write(&proxy, &with("b"));
    eventually("the change is noticed", || refused_by(&proxy) == "[[rule]] 1: b");
    write(&proxy, &with("c"));
    proxy.signal("HUP");
    eventually("the signal is heard", || refused_by(&proxy) == "[[rule]] 1: c");
    write(&proxy, &with("d"));
    let answer = post_reload(&proxy);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["needs_restart"], serde_json::json!([]));
    assert_eq!(refused_by(&proxy), "[[rule]] 1: d");
}

#[test]
fn a_file_is_not_read_while_it_is_being_written() {
    let origin = sites();
    let (proxy, base) = start(&origin);
    let file = proxy.dir.path().join("config.toml");
    let successes = || times_said(&proxy, "the configuration was reloaded");
    let before = successes();
    let whole = base.clone().table(&tables("b")).to_toml();
    let (begin, end) = whole.split_at(whole.find("[[rule]]").expect("it has one"));
    let mut writing = std::fs::File::create(&file).expect("it can be written");
    writing.write_all(begin.as_bytes()).expect("it can be written");
    // Another file is written beside it, which is not what we wait for.
    let beside = proxy.dir.path().join("beside.toml");
    std::fs::write(&beside, "x").expect("the directory can be written");
    std::fs::rename(&beside, proxy.dir.path().join("moved.toml")).expect("it can be renamed");
    // Together longer than a change takes to settle.
    for _ in 0..300 {
        assert_eq!(refused_by(&proxy), "[[rule]] 1: a");
    }
    writing.write_all(end.as_bytes()).expect("it can be written");
    drop(writing);
    eventually("the whole file is read", || refused_by(&proxy) == "[[rule]] 1: b");
    eventually("and read once", || successes() == before + 1);
}

#[test]
fn a_file_that_lost_its_rules_or_crawlers_must_be_meant() {
    let origin = sites();
    let (proxy, base) = start(&origin);
    let refusals = || times_said(&proxy, "the configuration is unchanged");
    let all = tables("b");
    let (crawlers, rules) = all.split_at(all.find("[[rule]]").expect("it has one"));
    for (text, said) in [
        (String::new(), "the file is empty"),
        ("# nothing yet\n\n".to_owned(), "the file is empty"),
        (base.clone().table(crawlers).to_toml(), "no longer has any [[rule]]"),
        (base.clone().table(rules).to_toml(), "no longer has any [[crawler]]"),
    ] {
        let before = refusals();
        write(&proxy, &text);
        eventually("it is refused", || refusals() == before + 1);
        assert!(proxy.log().contains(said), "{said}");
        assert_eq!(refused_by(&proxy), "[[rule]] 1: a");
    }
    write(&proxy, &base.clone().table(crawlers).to_toml());
    assert_eq!(post_reload(&proxy).status, 200);
    let answer = proxy.get_as("NewsBot/1", "http://one.test/rule");
    assert_eq!(answer.status, 200, "an operator says that it is meant");
    write(&proxy, &base.to_toml());
    eventually("it is refused", || refusals() == 5);
    proxy.signal("HUP");
    let asserted = [("crawler", "asserted"), ("outcome", "forwarded")];
    eventually("so does a signal", || {
        let ask = Request::get("http://one.test/").agent("NewsBot/1");
        assert_eq!(proxy.exchange(&ask).status, 200);
        proxy.metric("wayleave_requests_total", &asserted) > 0.0
    });
}

#[test]
fn a_file_behind_links_is_read_when_a_link_is_swapped() {
    let origin = sites();
    let mut base = None;
    let dir = tempfile::tempdir().expect("a directory");
    let mount = dir.path().join("mount");
    std::fs::create_dir(&mount).expect("a directory");
    // As Kubernetes mounts a ConfigMap: config.toml -> ..data/config.toml, ..data -> a directory, swapped by a rename.
    let (proxy, _) = {
        let started = Wayleave::start_with(&origin, |settings| {
            base = Some(settings.clone());
            settings
        });
        (started, ())
    };
    let base = base.expect("it was started with settings");
    let (old_dir, _) = proxy.stop();
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
    // A link of its own in the file's place.
    std::fs::write(dir.path().join("own.toml"), base.table(&tables("c")).to_toml())
        .expect("a file");
    std::fs::remove_file(&file).expect("it can be removed");
    std::os::unix::fs::symlink(dir.path().join("own.toml"), &file).expect("a link");
    eventually("the new link is noticed", || refused_by(&proxy) == "[[rule]] 1: c");
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
    let holds = |word: &str| {
        eventually(&format!("{word} is noticed"), || {
            refused_by(&proxy) == format!("[[rule]] 1: {word}")
        });
    };
    publish("one/config.toml", "b");
    publish("two/config.toml", "c");
    std::os::unix::fs::symlink("one", dir.join("current")).expect("a link");
    link("current/config.toml", "config.toml");
    holds("b");
    link("two", "current");
    holds("c");
    publish("beside.toml", "d");
    link("beside.toml", "config.toml");
    holds("d");
    publish("beside.toml", "e");
    holds("e");
    // The target of the link is in a directory that was not watched before.
    std::fs::create_dir(dir.join("far")).expect("a directory");
    publish("far/real.toml", "f");
    link("far/real.toml", "config.toml");
    holds("f");
    publish("far/real.toml", "g");
    holds("g");
    publish("far/new.toml", "h");
    std::fs::rename(dir.join("far/new.toml"), dir.join("far/real.toml")).expect("it is renamed");
    holds("h");
    assert!(file.is_symlink());
}

#[test]
fn the_connect_timeout_of_robots_txt_follows_a_reload() {
    // Connections to it are made, but TLS is never agreed on.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let mute = mute.local_addr().expect("a bound socket has an address");
    let origin = sites();
    let mut base = None;
    let proxy = Wayleave::start_with(&origin, |settings| {
        let settings = settings.resolve("mute.test", mute).resolve("quiet.test", mute);
        let settings = settings.set("robots.fetch_timeout", "\"3s\"");
        base = Some(settings.clone());
        settings.set("upstream.connect_timeout", "\"1h\"")
    });
    let detail = |url: &str| {
        let answer = proxy.get(url);
        let problem =
            answer.expect_refusal(503, Some("Robots.txt unreachable"), "destination_unavailable");
        problem["detail"].as_str().expect("a string").to_owned()
    };
    let expected = "https://mute.test/robots.txt: not complete within 3s";
    assert_eq!(detail("https://mute.test/a"), expected);
    let base = base.expect("it was started with settings");
    let hasty = base.set("upstream.connect_timeout", "\"100ms\"");
    write(&proxy, &hasty.to_toml());
    assert_eq!(post_reload(&proxy).status, 200);
    let expected = "https://quiet.test/robots.txt: \
                    no connection to https://quiet.test within upstream.connect_timeout";
    assert_eq!(detail("https://quiet.test/a"), expected);
}

#[test]
fn a_bad_file_changes_nothing_and_is_loud() {
    let origin = sites();
    let (proxy, base) = start(&origin);
    let successful = || proxy.metric("wayleave_config_last_reload_successful", &[]);
    assert_eq!(successful(), 1.0);
    let since = proxy.metric("wayleave_config_last_reload_success_timestamp_seconds", &[]);
    assert!(since > 1_700_000_000.0);
    write(&proxy, "[proxy]\nname = \"two words\"\nfrobnicate = 1\n");
    let answer = post_reload(&proxy);
    assert_eq!(answer.status, 422);
    let mistakes = answer.json()["mistakes"].as_array().map_or(0, Vec::len);
    assert_eq!(mistakes, 2, "{}", answer.text());
    assert_eq!(refused_by(&proxy), "[[rule]] 1: a");
    assert_eq!(successful(), 0.0);
    eventually("it is logged", || proxy.log().contains("proxy.frobnicate"));
    write(&proxy, &base.table(&tables("b")).to_toml());
    eventually("a sound file counts again", || successful() == 1.0);
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
    write(&proxy, &moved.to_toml());
    let answer = post_reload(&proxy).json();
    let expected = serde_json::json!(["proxy.max_connections", "state.dir"]);
    assert_eq!(answer["needs_restart"], expected);
    let said =
        "these changes take effect only after a restart keys=\"proxy.max_connections, state.dir\"";
    eventually("it is loud", || proxy.log().contains(said));
    assert_eq!(refused_by(&proxy), "[[rule]] 1: b");
    assert!(!proxy.dir.path().join("elsewhere").exists());
}

#[test]
fn connections_names_and_robots_txt_files_follow_the_file() {
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
    write(&proxy, &changed.to_toml());
    assert_eq!(post_reload(&proxy).status, 200);
    let fetches = || {
        let requests = origin.requests();
        let fetched = requests.iter().filter(|it| it.target == "/robots.txt");
        let agents = fetched.map(|it| (it.host(), it.header("user-agent").map(str::to_owned)));
        agents.collect::<Vec<_>>()
    };
    let refetched = ("one.test".to_owned(), Some("other/2".to_owned()));
    eventually("what was fresh for a day is so for a second", || {
        proxy.get("http://one.test/").status == 200 && fetches().contains(&refetched)
    });
    let refreshed = post(&proxy, "/v1/robots/http%3A%2F%2Fnew.example/refresh");
    assert_eq!(refreshed.status, 200, "{refreshed:?}");
    assert_eq!(proxy.get("http://new.example/").status, 200);
    write(&proxy, &base.set("upstream.allow_private", "[]").to_toml());
    assert_eq!(post_reload(&proxy).status, 200);
    let prohibited = proxy.get("http://two.test/");
    assert_eq!(prohibited.status, 502, "{prohibited:?}");
}

#[test]
fn the_log_follows_the_file() {
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
    write(&proxy, &json.to_toml());
    assert_eq!(post_reload(&proxy).status, 200);
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
    write(&proxy, &off.to_toml());
    assert_eq!(post_reload(&proxy).status, 200);
    proxy.get("http://two.test/");
    // A file in the place of a directory: the log cannot be opened, so nothing else changes either.
    let impossible = base.set("log.decisions", "\"decisions.jsonl/no\"");
    write(&proxy, &impossible.table(&tables("b")).to_toml());
    let answer = post_reload(&proxy);
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
    let texts = [("b", "google", "1h"), ("a", "rfc9309", "24h")].map(|(word, dialect, age)| {
        let base = base.clone().set("robots.dialect", &format!("{dialect:?}"));
        let base = base.set("robots.max_age", &format!("{age:?}"));
        base.table(&tables(word)).to_toml()
    });
    let is_over = AtomicBool::new(false);
    let asked: usize = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|client| {
                scope.spawn({
                    let (proxy, is_over) = (&proxy, &is_over);
                    move || crawl(proxy, client, is_over)
                })
            })
            .collect();
        for reload in 0..1000 {
            write(&proxy, &texts[reload % 2]);
            assert_eq!(post_reload(&proxy).status, 200);
        }
        is_over.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().expect("no request is lost")).sum()
    });
    let lines = || {
        let file = proxy.dir.path().join("state/decisions.jsonl");
        std::fs::read_to_string(file).unwrap_or_default()
    };
    eventually("every exchange is logged", || decisions(&lines()).count() == asked);
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

/// Asks on one connection after the other until it is over; how often it asked.
fn crawl(proxy: &Wayleave, client: usize, is_over: &AtomicBool) -> usize {
    let agent = ["NewsBot/1", "ImageBot/1"][client % 2];
    let hosts = ["one.test", "two.test", "three.test"];
    let mut asked = 0;
    let mut wire = proxy.connect();
    while !is_over.load(Ordering::Relaxed) {
        let (page, expected) = [("page", 200), ("rule", 403)][asked % 2];
        let url = format!("http://{}/{page}", hosts[asked % 3]);
        wire.send(Request::get(&url).agent(agent).absolute_form());
        assert_eq!(wire.response().status, expected, "{url}");
        asked += 1;
    }
    asked
}

/// The other keys are unchanged: no other key creates new fetchers.
#[test]
fn another_user_agent_of_robots_txt_is_used_from_the_reload_on() {
    let origin = sites();
    let (proxy, base) = start(&origin);
    let agents = || -> Vec<String> {
        let requests = origin.requests();
        let robots = requests.iter().filter(|it| it.target == "/robots.txt");
        robots.map(|it| it.header("user-agent").unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(proxy.get("http://one.test/").status, 200);
    assert_eq!(agents(), ["wayleave/0.1"]);
    let settings = base.set("robots.user_agent", "\"ExampleBot/2.0\"");
    write(&proxy, &settings.table(&tables("a")).to_toml());
    assert_eq!(post_reload(&proxy).status, 200);
    assert_eq!(proxy.get("http://two.test/").status, 200);
    let refresh = post(&proxy, "/v1/robots/http%3A%2F%2Fone.test/refresh");
    assert_eq!(refresh.status, 200);
    assert_eq!(agents()[1..], ["ExampleBot/2.0", "ExampleBot/2.0"]);
}

#[test]
fn another_name_shows_at_the_next_parent_at_once() {
    let origin = sites();
    let parent = Wayleave::start(&origin);
    let mut base = None;
    let proxy = Wayleave::start_with(&origin, |settings| {
        let settings = settings.set("proxy.name", "\"first\"");
        let settings = settings.set("upstream.proxy", &format!("\"http://{}\"", parent.proxy));
        base = Some(settings.clone());
        settings
    });
    assert_eq!(proxy.get("http://one.test/").status, 200);
    // A parent of this name is a loop: only the name that it has now tells.
    let settings = base.expect("it was started with settings");
    let settings = settings.set("proxy.name", "\"wayleave\"");
    write(&proxy, &settings.to_toml());
    assert_eq!(post_reload(&proxy).status, 200);
    assert_eq!(proxy.get("http://two.test/").status, 503);
    let looped = [("reason", "proxy_loop_detected")];
    assert!(parent.metric("wayleave_requests_total", &looped) >= 1.0);
}
