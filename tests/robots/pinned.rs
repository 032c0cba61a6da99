//! `[[robots.pinned]]`: a text that counts as an origin's robots.txt, to try it out.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::identity::host;
use crate::evidence::export::{evidence, expect};
use crate::evidence::sha256_hex;
use crate::fleet::engines::{Product, Server};
use crate::fleet::proxies::node;
use crate::harness::crawler::crawler;
use crate::harness::wayleave::{Settings, command};
use crate::harness::{Origin, Reply, Request, Wayleave, decisions, eventually};

const PLANNED: &str = "User-agent: *\nDisallow: /planned\n";
const SHOP: &str = "/v1/robots/http%3A%2F%2Fshop.test";

/// Writes a text, and pins the origins to it.
fn pinned(settings: Settings, origins: &[&str], text: impl AsRef<[u8]>) -> Settings {
    std::fs::write(settings.dir.join("planned.txt"), text).expect("writable");
    let tables =
        origins.iter().map(|origin| format!("{{ origin = {origin:?}, file = \"planned.txt\" }}"));
    settings.set("robots.pinned", &format!("[{}]", tables.collect::<Vec<_>>().join(", ")))
}

fn shop_pinned(settings: Settings) -> Settings {
    pinned(settings, &["http://shop.test"], PLANNED)
}

/// Starts two sites whose own files disallow /real.
fn sites() -> Origin {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/real");
    origin.site("other.test").disallows("/real");
    origin
}

#[track_caller]
fn expect_pinned(decision: &Value) {
    assert_eq!(decision["robots_access"], "pinned", "{decision}");
    assert_eq!(decision["robots_fetched_as"], Value::Null, "{decision}");
}

#[test]
fn the_pinned_text_decides_and_is_what_clients_get() {
    let origin = sites();
    for source in ["copy", "origin"] {
        let proxy = Wayleave::start_with(&origin, |settings| {
            shop_pinned(settings).set("robots.answer", &format!("{source:?}"))
        });
        let refused = proxy.get("http://shop.test/planned");
        assert_eq!(refused.status, 403);
        let detail = "Disallow: /planned (line 2 of the pinned http://shop.test/robots.txt)";
        assert_eq!(refused.json()["detail"], detail);
        assert_eq!(refused.proxy_status().details, detail);
        let decision = proxy.newest_decision("http://shop.test/planned");
        expect_pinned(&decision);
        assert_eq!(decision["robots_sha256"], sha256_hex(PLANNED.as_bytes()));
        assert_eq!(proxy.get("http://shop.test/real").status, 200);
        expect_pinned(&proxy.newest_decision("http://shop.test/real"));
        let url = "http://shop.test/robots.txt";
        for (request, body) in [
            (Request::get(url), PLANNED),
            (Request::new("HEAD", url), ""),
            (Request::get(url).header("If-None-Match", "*"), PLANNED),
            (Request::get(url).header("Range", "bytes=0-3"), PLANNED),
        ] {
            let answer = proxy.exchange(&request);
            assert_eq!((answer.status, &*answer.text()), (200, body), "{request:?}");
            assert_eq!(answer.header("wayleave-robots-txt"), Some("pinned"));
            assert_eq!(answer.header("content-length"), Some(&*PLANNED.len().to_string()));
        }
        let decision = proxy.newest_decision(url);
        assert_eq!(
            (&decision["from"], &decision["outcome"]),
            (&"pinned".into(), &"forwarded".into())
        );
        expect_pinned(&decision);
        assert_eq!(proxy.get("http://other.test/planned").status, 200);
        assert_eq!(proxy.get("http://other.test/real").status, 403);
        let own = proxy.get("http://other.test/robots.txt");
        assert_eq!(own.header("wayleave-robots-txt"), None);
        assert_eq!(
            proxy.newest_decision("http://other.test/robots.txt")["robots_access"],
            "successful"
        );
    }
    assert_eq!(origin.robots_fetches("shop.test"), 0, "{:?}", origin.seen());
}

#[test]
fn an_origin_is_pinned_in_any_spelling_and_no_other() {
    let origin = sites();
    let planned = |url: &str| (url.to_owned() + "/planned", 403);
    let other = |url: &str| (url.to_owned() + "/planned", 200);
    for (name, requests) in [
        ("http://shop.test:80", vec![planned("http://shop.test"), other("https://shop.test")]),
        ("HTTP://Shop.Test/", vec![planned("http://SHOP.test:80"), other("http://a.shop.test")]),
        ("https://shop.test", vec![planned("https://shop.test:443"), other("http://shop.test")]),
        ("http://b\u{fc}cher.test", vec![planned("http://xn--bcher-kva.test")]),
        ("http://xn--bcher-kva.test", vec![planned("http://XN--bcher-kva.test")]),
        ("http://[::1]:8080", vec![planned("http://[0:0::0.0.0.1]:8080")]),
        ("http://127.0.0.1:8080", vec![planned("http://127.0.0.1:8080")]),
    ] {
        let proxy = Wayleave::start_with(&origin, |settings| pinned(settings, &[name], PLANNED));
        for (url, status) in requests {
            assert_eq!(proxy.get(&url).status, status, "{url} with {name}");
        }
    }
}

#[test]
fn any_bytes_are_read_as_those_of_an_origin() {
    let origin = sites();
    let text = b"\xef\xbb\xbfUser-agent: *\r\nDisallow: /planned\r\nDisallow: /caf\xe9\n\0# end";
    let proxy =
        Wayleave::start_with(&origin, |settings| pinned(settings, &["http://shop.test"], text));
    assert_eq!(proxy.get("http://shop.test/planned").status, 403);
    assert_eq!(proxy.get("http://shop.test/caf%E9").status, 403);
    assert_eq!(proxy.get("http://shop.test/robots.txt").body, text);
    let empty =
        Wayleave::start_with(&origin, |settings| pinned(settings, &["http://shop.test"], ""));
    assert_eq!(empty.get("http://shop.test/real").status, 200);
    let answer = empty.get("http://shop.test/robots.txt");
    assert_eq!((answer.status, answer.body.len()), (200, 0));
    assert_eq!(answer.header("wayleave-robots-txt"), Some("pinned"));
}

#[test]
fn uninspected_tunnels_are_judged_by_the_pinned_text() {
    let origin = Origin::start();
    origin.site("closed.test").robots("User-agent: *\nDisallow: /\n");
    origin.site("shop.test");
    let proxy = Wayleave::start_with(&origin, |settings| {
        let settings = settings.set("https.mode", "\"tunnel\"");
        std::fs::write(settings.dir.join("open.txt"), "User-agent: *\nDisallow:\n")
            .expect("writable");
        std::fs::write(settings.dir.join("planned.txt"), PLANNED).expect("writable");
        settings.set(
            "robots.pinned",
            "[{ origin = \"https://closed.test\", file = \"open.txt\" }, { origin = \"https://shop.test\", file = \"planned.txt\" }]",
        )
    });
    for (authority, status) in [("closed.test:443", 200), ("shop.test:443", 403)] {
        assert_eq!(proxy.connect().connect_tunnel(authority).status, status, "{authority}");
        expect_pinned(&proxy.newest_decision(authority));
    }
    assert_eq!(origin.seen(), Vec::<String>::new());
}

#[test]
fn each_crawler_meets_the_pinned_text_in_its_dialect() {
    let origin = Origin::start();
    let varied = Reply::text("User-agent: *\nDisallow: /\n").header("Vary", "User-Agent");
    let own = Reply::text("User-agent: *\nDisallow: /own\n").header("Vary", "User-Agent");
    origin.site("shop.test").robots_reply(varied).robots_to("OwnBot", own);
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .with(crawler("own", "OwnBot").set("user_agent", "OwnBot/1.0"))
            .with(crawler("old", "OldBot").set("dialect", "koster1996"))
    });
    let agents = ["OwnBot/1", "OldBot/1", "StrayBot/1"];
    for agent in agents {
        proxy.get_as(agent, "http://shop.test/x/allowed");
    }
    let fetched = origin.robots_fetches("shop.test");
    // The first rule that matches counts in 1996, the longest since.
    let text = "User-agent: *\nDisallow: /x\nAllow: /x/allowed\n";
    proxy.reload(&pinned(proxy.settings.clone(), &["http://shop.test"], text));
    for (agent, status) in agents.into_iter().zip([200, 403, 200]) {
        let url = format!("http://shop.test/x/allowed?{agent}");
        assert_eq!(proxy.get_as(agent, &url).status, status, "{agent}");
        expect_pinned(&proxy.newest_decision(&url));
        assert_eq!(proxy.get_as(agent, "http://shop.test/robots.txt").text(), text, "{agent}");
    }
    assert_eq!(origin.robots_fetches("shop.test"), fetched);
    // What the origin served counts again, for each what it got.
    proxy.reload(&proxy.settings);
    for (agent, status) in agents.into_iter().zip([200, 403, 403]) {
        assert_eq!(proxy.get_as(agent, "http://shop.test/x/allowed").status, status, "{agent}");
    }
}

#[test]
fn a_redirect_to_a_pinned_robots_txt_leads_to_the_origins_own() {
    let origin = sites();
    origin.site("other.test").robots_reply(Reply::redirect(301, "http://shop.test/robots.txt"));
    let proxy = Wayleave::start_with(&origin, shop_pinned);
    assert_eq!(proxy.get("http://other.test/planned").status, 200);
    assert_eq!(proxy.get("http://other.test/real").status, 403);
    let decision = proxy.newest_decision("http://other.test/real");
    assert_eq!(decision["robots_access"], "successful", "{decision}");
    assert_eq!(proxy.get("http://shop.test/planned").status, 403);
}

#[test]
fn a_file_that_changes_counts_at_once_unless_it_cannot_be_read() {
    let origin = sites();
    let proxy = Wayleave::start_with(&origin, shop_pinned);
    let file = proxy.dir.path().join("planned.txt");
    let status = |path: &str| proxy.get(&format!("http://shop.test{path}")).status;
    assert_eq!((status("/planned"), status("/later")), (403, 200));
    std::fs::write(proxy.dir.path().join("new"), "User-agent: *\nDisallow: /later\n")
        .expect("writable");
    std::fs::rename(proxy.dir.path().join("new"), &file).expect("writable");
    eventually("the file is read again", || status("/later") == 403);
    assert_eq!(status("/planned"), 200);
    let change = format!("changes=\"the content of {}\"", file.display());
    eventually("the log says what changed", || proxy.log().contains(&change));
    let answer = proxy.admin_request("DELETE", "/v1/robots/http%3A%2F%2Fshop.test");
    assert_eq!(answer.status, 409);
    assert!(answer.text().contains("pinned to a file"), "{}", answer.text());
    let replace = |program: &str, arguments: &[&str]| {
        let _may_be_a_directory =
            std::fs::remove_file(&file).or_else(|_| std::fs::remove_dir(&file));
        let made = Command::new(program).args(arguments).arg(&file).status();
        assert!(made.expect("it runs").success(), "{program}");
    };
    for (program, arguments, fault) in [
        ("mkfifo", &[][..], "is not a regular file"),
        ("mkdir", &[], "is not a regular file"),
        ("truncate", &["-s", "2G"], "is longer than robots.max_size (500.0 KiB)"),
        ("ln", &["-s", "/dev/zero"], "is not a regular file"),
        ("ln", &["-s", "/no/such/file"], "No such file"),
    ] {
        replace(program, arguments);
        let answer = proxy.admin_request("POST", "/v1/reload");
        assert_ne!(answer.status, 200, "{program} {arguments:?}");
        let text = answer.text();
        for part in ["[[robots.pinned]] 1.file: ", "planned.txt: ", fault] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(status("/later"), 403, "{program} {arguments:?}");
    }
    // Whoever looks for changes of the file must not wait for the other end of a pipe, either.
    replace("touch", &[]);
    eventually("an empty file counts", || status("/later") == 200);
    let refused = || proxy.log().matches("is not a regular file").count();
    let before = refused();
    replace("mkfifo", &[]);
    eventually("the change is noticed", || refused() > before);
    proxy.reload(&proxy.settings.clone().set("robots.pinned", "[]"));
    assert_eq!((status("/later"), status("/real")), (200, 403));
}

#[test]
fn a_reload_mixes_no_pinned_text_with_another_configuration() {
    let origin = sites();
    let proxy = Wayleave::start_with(&origin, shop_pinned);
    // The crawler is of the settings, the rule of the text.
    let pinned_to = ["a", "b"].map(|name| {
        let file = proxy.dir.path().join(name);
        std::fs::write(&file, format!("User-agent: *\nDisallow: /{name}\n")).expect("writable");
        let table = format!("[{{ origin = \"http://shop.test\", file = {file:?} }}]");
        proxy.settings.clone().set("robots.pinned", &table).crawler(name, "ExampleBot")
    });
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for path in ["/a", "/b"] {
            let proxy = &proxy;
            let is_over = &is_over;
            scope.spawn(move || {
                let mut wire = proxy.connect();
                while !is_over.load(Ordering::Relaxed) {
                    wire.send_get(&format!("http://shop.test{path}"));
                    assert!([200, 403].contains(&wire.response().status));
                }
            });
        }
        for settings in pinned_to.iter().cycle().take(20) {
            proxy.reload(settings);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let (dir, _) = proxy.stop();
    let log = std::fs::read_to_string(dir.path().join("state/decisions.jsonl")).expect("a log");
    let mut refused = [0, 0];
    for line in decisions(&log).filter(|line| line.contains("\"rule\":\"Disallow: /")) {
        let decision: Value = serde_json::from_str(line).expect("JSON");
        let is_first = decision["rule"] == "Disallow: /a";
        assert_eq!(decision["crawler"], if is_first { "a" } else { "b" }, "{decision}");
        refused[usize::from(is_first)] += 1;
    }
    assert!(refused.iter().all(|count| *count > 0), "{refused:?}");
}

#[test]
fn pinned_texts_are_in_no_store_and_no_fleet() {
    let origin = sites();
    let server = Server::start(Product::Redis);
    let pinning = node(&origin, &server, shop_pinned);
    let others = [(); 2].map(|()| node(&origin, &server, |settings| settings));
    for path in ["/planned", "/robots.txt"] {
        pinning.get(&format!("http://shop.test{path}"));
    }
    assert_eq!(pinning.admin_request("POST", &format!("{SHOP}/refresh")).status, 200);
    let keys = server.command(&["keys", "*"]);
    assert!(!keys.contains("shop.test"), "{keys}");
    for other in &others {
        assert_eq!(other.get("http://shop.test/planned").status, 200);
        assert_eq!(other.get("http://shop.test/real").status, 403);
        assert_eq!(other.admin_get(SHOP).json()["state"], "fresh");
    }
    // What the others fetched does not get past the pin, either.
    assert_eq!(pinning.get("http://shop.test/planned").status, 403);
    assert_eq!(pinning.get("http://shop.test/real").status, 200);
    let (dir, settings) = pinning.stop();
    let alone = settings.set("robots.pinned", "[]").set("store.kind", "\"embedded\"");
    let alone = alone.set("store.url", "\"\"");
    let restarted = Wayleave::start_in(dir, alone);
    assert_eq!(restarted.admin_get(SHOP).status, 404);
    let listed = restarted.admin_get("/v1/robots").json();
    assert_eq!(listed["robots"].as_array().map(Vec::len), Some(0), "{listed}");
    assert_eq!(restarted.get("http://shop.test/real").status, 403);
    let known = restarted.admin_get(SHOP).json();
    assert_eq!(known["history"].as_array().map(Vec::len), Some(1), "{known}");
}

#[test]
fn a_pinned_origin_is_shown_as_such_everywhere() {
    let origin = sites();
    let proxy = Wayleave::start_with(&origin, shop_pinned);
    let warning = "robots.pinned: this file counts as the robots.txt of the origin";
    assert!(proxy.log().contains(warning), "{}", proxy.log());
    proxy.get("http://other.test/real");
    proxy.get("http://shop.test/planned");
    let decision = proxy.newest_decision("http://shop.test/planned");
    let id = decision["id"].as_str().expect("an id");
    let states = |query: &str| {
        let listed = proxy.admin_get(&format!("/v1/robots{query}")).json();
        let robots = listed["robots"].as_array().expect("a list").iter();
        robots.map(|it| format!("{} {}", it["origin"], it["state"])).collect::<Vec<_>>()
    };
    let other = "\"http://other.test\" \"fresh\"";
    assert_eq!(states(""), [other, "\"http://shop.test\" \"pinned\""]);
    assert_eq!(states("?state=fresh"), [other]);
    assert_eq!(states("?q=other"), [other]);
    let shown = proxy.admin_get(SHOP).json();
    assert_eq!((&shown["state"], &shown["answer"]["body"]), (&"pinned".into(), &PLANNED.into()));
    assert_eq!(shown["answer"]["fetched_as"], Value::Null);
    let refreshed = proxy.admin_request("POST", &format!("{SHOP}/refresh")).json();
    assert_eq!(refreshed["state"], "pinned");
    let basis = proxy.admin_get(&format!("/v1/decisions/{id}/robots")).json();
    assert_eq!((&basis["said"]["body"], &basis["is_same"]), (&PLANNED.into(), &true.into()));
    assert_eq!(proxy.metric("wayleave_robots_entries", &[("state", "pinned")]), 1.0);
    let file = proxy.config_with_ports();
    let run = |arguments: &[&str]| {
        expect(&command().args(arguments).arg("--config").arg(&file).output().expect("it runs"), 0)
    };
    let listed = run(&["robots", "list"]);
    assert!(
        listed.lines().any(|it| it.starts_with("pinned ") && it.ends_with(" http://shop.test")),
        "{listed}"
    );
    let shown = run(&["robots", "show", "http://shop.test"]);
    assert!(shown.contains("pinned") && shown.contains("Disallow: /planned"), "{shown}");
    let explained = run(&["decision", id]);
    assert!(
        explained.contains("http://shop.test/robots.txt, pinned by the configuration, read at "),
        "{explained}"
    );
    assert!(explained.contains("Disallow: /planned    <- "), "{explained}");
    assert_eq!(origin.robots_fetches("shop.test"), 0);
}

#[test]
fn a_page_of_origins_is_full_although_a_pinned_one_is_on_disk() {
    let origin = Origin::start();
    let hosts = ["a.test", "b.test", "c.test"];
    for host in hosts {
        origin.site(host).disallows("/real");
    }
    let proxy = Wayleave::start(&origin);
    for host in hosts {
        assert_eq!(proxy.get(&format!("http://{host}/")).status, 200);
    }
    let (dir, _) = proxy.stop();
    let settings = Settings::for_origin(dir.path(), &origin);
    let settings = pinned(settings, &["http://a.test"], PLANNED);
    let proxy = Wayleave::start_in(dir, settings);
    let listed = proxy.admin_get("/v1/robots?limit=1&state=fresh").json();
    assert_eq!(listed["robots"][0]["origin"], "http://b.test", "{listed}");
}

#[test]
fn config_check_and_check_say_what_is_pinned() {
    let origin = sites();
    let dir = tempfile::tempdir().expect("a directory");
    let settings = shop_pinned(Settings::for_origin(dir.path(), &origin));
    std::fs::write(dir.path().join("config.toml"), settings.to_toml()).expect("writable");
    let run = |arguments: &[&str]| {
        let mut program = command();
        program.args(arguments).args(["--config", "config.toml"]).current_dir(dir.path());
        program.output().expect("it runs")
    };
    let checked = expect(&run(&["config", "check"]), 0);
    let warning = "for trials only: http://shop.test is judged by ";
    assert!(checked.contains(warning), "{checked}");
    for options in [&["--robots-only"][..], &[]] {
        let check = |url: &str| {
            run(&[&["check", "--user-agent", "ExampleBot/1"], options, &[url]].concat())
        };
        let printed = expect(&check("http://shop.test/planned"), 1);
        assert!(
            printed.contains("http://shop.test/robots.txt: pinned by the configuration"),
            "{printed}"
        );
        expect(&check("http://shop.test/real"), 0);
        let printed = expect(&check("http://other.test/real"), 1);
        assert!(!printed.contains("pinned"), "{printed}");
    }
    assert_eq!(origin.robots_fetches("shop.test"), 0);
    let output = run(&["comply"]);
    let printed = String::from_utf8_lossy(&output.stdout);
    let mistaken = "http://shop.test is judged by a file of yours, not by its own robots.txt";
    assert!(printed.contains(mistaken), "{printed}");
}

/// Exports everything, and verifies it.
fn verify(dir: &Path, status: i32) -> String {
    let _may_not_exist = std::fs::remove_dir_all(dir.join("out"));
    expect(&evidence(dir, &["export", "--since", "1d", "--out", "out"]), 0);
    expect(&evidence(dir, &["verify", "out"]), status)
}

#[test]
fn decisions_by_a_pinned_text_are_evidence_of_it() {
    let origin = sites();
    let proxy = Wayleave::start_with(&origin, shop_pinned);
    for path in ["/planned", "/real", "/robots.txt"] {
        proxy.get(&format!("http://shop.test{path}"));
    }
    // Gone from the configuration, but not from the past.
    proxy.reload(&pinned(
        proxy.settings.clone(),
        &["http://shop.test"],
        "User-agent: *\nDisallow: /b\n",
    ));
    proxy.get("http://shop.test/b");
    let (dir, _) = proxy.stop();
    std::fs::remove_file(dir.path().join("planned.txt")).expect("it is there");
    let config = dir.path().join("config.toml");
    let text = std::fs::read_to_string(&config).expect("readable");
    let unpinned = text.lines().filter(|line| !line.starts_with("robots.pinned"));
    std::fs::write(&config, unpinned.collect::<Vec<_>>().join("\n")).expect("writable");
    let printed = verify(dir.path(), 0);
    assert!(printed.contains("by robots.txt 4"), "{printed}");
    let asked = evidence(dir.path(), &["ask", "http://shop.test/planned", "--at", "0s"]);
    let printed = expect(&asked, 1);
    assert!(
        printed.contains("line 2: Disallow: /planned, pinned by the configuration, read at "),
        "{printed}"
    );
    let asked = evidence(dir.path(), &["ask", "http://shop.test/robots.txt", "--at", "0s"]);
    let printed = expect(&asked, 0);
    assert!(printed.contains("no, answered with 200 from the pinned robots.txt"), "{printed}");
    // Without the text nothing is derived, which is neither fine nor a wrong decision.
    let archived = dir.path().join(format!("state/pinned/{}.txt", sha256_hex(PLANNED.as_bytes())));
    std::fs::write(&archived, "User-agent: *\nDisallow:\n").expect("it is there");
    let printed = verify(dir.path(), 1);
    let missing = format!("the robots.txt {} is missing", sha256_hex(PLANNED.as_bytes()));
    assert!(printed.contains(&missing), "{printed}");
}

#[test]
fn a_name_that_is_no_known_host_needs_no_origin() {
    // A file can be tried before its site exists.
    let origin = Origin::start();
    let site = format!("http://{}", host("planned", [0, 1, 2]));
    let proxy = Wayleave::start_with(&origin, |settings| pinned(settings, &[&site], PLANNED));
    assert_eq!(proxy.get(&format!("{site}/planned")).status, 403);
    assert_eq!(proxy.get(&format!("{site}/robots.txt")).text(), PLANNED);
    assert_eq!(origin.seen(), Vec::<String>::new());
}
