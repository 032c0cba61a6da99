//! Decisions: the log, the API and the command agree with the response.

use std::collections::HashMap;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::Value;

use crate::harness::crawler::crawler;
use crate::harness::tls::Authority;
use crate::harness::wayleave::{Settings, command};
use crate::harness::{Origin, Reply, Request, Wayleave, Wire, decisions, eventually};
use crate::requests::upstream::parent::EXCEPTION;

const SHOP: &str = "User-agent: NewsBot\nDisallow: /private\n\nUser-agent: *\nDisallow: /images\n";

/// Starts three sites, one without a robots.txt and one whose robots.txt is unreachable.
fn sites() -> Origin {
    let origin = Origin::start();
    origin.site("shop.test").robots(SHOP);
    origin.site("open.test");
    origin.site("down.test").robots_reply(Reply::new(500));
    origin
}

fn start(origin: &Origin, change: impl FnOnce(Settings) -> Settings) -> Wayleave {
    Wayleave::start_with(origin, |settings| {
        let images = crawler("images", "ImageBot").set("dialect", "google");
        change(settings.crawler("news", "NewsBot").with(images))
    })
}

/// Returns the lines of the decision log by id.
fn log(proxy: &Wayleave) -> HashMap<String, Value> {
    let file = proxy.dir.path().join("state/decisions.jsonl");
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let lines = decisions(&text).map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.map(|line| (line["id"].as_str().expect("an id").to_owned(), line)).collect()
}

#[test]
fn the_response_log_api_and_command_agree() {
    let origin = sites();
    let proxy = start(&origin, |settings| settings);
    let answer = proxy.get_as("NewsBot/2", "http://shop.test/private/a");
    let problem = answer.json();
    let field = answer.header("proxy-status").expect("a refusal has one");
    let detail = problem["detail"].as_str().expect("a sentence");
    assert!(field.contains(&format!("details=\"{detail}\"")), "{field}");
    let id = problem["decision_id"].as_str().expect("an id");
    eventually("the line is written", || log(&proxy).contains_key(id));

    let logged = &log(&proxy)[id];
    for (member, expected) in [
        ("outcome", "refused"),
        ("reason", "rule"),
        ("crawler", "news"),
        ("identity", "known"),
        ("method", "GET"),
        ("url", "http://shop.test/private/a"),
        ("origin", "http://shop.test"),
        ("verdict", "disallow"),
        ("dialect", "rfc9309"),
        ("rule", "Disallow: /private"),
        ("client", "127.0.0.1"),
    ] {
        assert_eq!(logged[member], expected, "{member} of {logged}");
    }
    assert_eq!((&logged["line"], &logged["status"]), (&2.into(), &403.into()));
    assert_eq!(logged["tokens"], serde_json::json!(["NewsBot"]));
    assert!(logged["robots_fetched_at"].is_string(), "{logged}");
    assert_eq!(logged["details"], problem["detail"]);

    let mut shown = proxy.admin_get(&format!("/v1/decisions/{id}")).json();
    let file = shown.as_object_mut().and_then(|members| members.remove("robots_txt"));
    assert_eq!(shown, unchained(logged));
    let file = file.expect("the file that decided");
    assert_eq!(file["body"], SHOP);
    assert_eq!(file["sha256"], logged["robots_sha256"]);
    assert_eq!(file["status"], 200);
    let digest = logged["robots_sha256"].as_str().expect("a digest");
    eventually("the log event names it too", || {
        proxy.log().contains(&format!(" robots_sha256={digest} "))
    });
    let printed = command()
        .args(["decision", id, "--config"])
        .arg(proxy.config_with_ports())
        .output()
        .expect("it runs");
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    for words in [
        "line 2: Disallow: /private",
        "news known",
        "refused 403 rule",
        ">     2  Disallow: /private",
        digest,
        id,
    ] {
        assert!(printed.contains(words), "{words} in {printed}");
    }
}

/// Returns a line without the members that link it to others.
fn unchained(line: &Value) -> Value {
    let mut alone = line.clone();
    for chained in ["config_sha256", "prev_sha256"] {
        let member = alone.as_object_mut().and_then(|members| members.remove(chained));
        assert!(member.is_some(), "{chained} in {line}");
    }
    alone
}

#[test]
fn a_decision_shows_the_robots_txt_that_it_used() {
    let origin = sites();
    let proxy = start(&origin, |settings| settings);
    let refused = |page: &str| {
        let url = format!("http://shop.test/private/{page}");
        let problem = proxy.get_as("NewsBot/2", &url).json();
        let id = problem["decision_id"].as_str().expect("an id").to_owned();
        proxy.admin_get(&format!("/v1/decisions/{id}"))
    };
    let before = refused("a").json();
    let newer = b"\xEF\xBB\xBF# caf\xE9\nUser-agent: *\nDisallow: /private\n";
    origin.site("shop.test").robots_reply(Reply::new(200).body(*newer));
    let refresh = "/v1/robots/http%3A%2F%2Fshop.test/refresh";
    assert_eq!(proxy.admin_request("POST", refresh).status, 200);
    let after = refused("b").json();
    assert_eq!((&before["line"], &after["line"]), (&2.into(), &3.into()));
    let id = before["id"].as_str().expect("an id");
    let again = proxy.admin_get(&format!("/v1/decisions/{id}")).json();
    assert_eq!(again["robots_txt"]["body"], SHOP);
    let bytes = BASE64_STANDARD.decode(after["robots_txt"]["body_base64"].as_str().expect("bytes"));
    assert_eq!(bytes.as_deref(), Ok(newer.as_slice()));
    let unreached = proxy.get_as("NewsBot/2", "http://down.test/").json();
    let id = unreached["decision_id"].as_str().expect("an id");
    let unreached = proxy.admin_get(&format!("/v1/decisions/{id}")).json();
    assert_eq!(unreached["basis"], "unreachable");
    assert_eq!(unreached.get("robots_sha256"), None, "no file decided");
    assert_eq!(unreached.get("robots_txt"), None);
}

#[test]
fn every_exchange_is_one_line_whatever_its_outcome() {
    let origin = sites();
    let proxy = start(&origin, |settings| settings);
    proxy.get_as("NewsBot/2", "http://shop.test/images/a");
    proxy.get_as("ImageBot/1", "https://shop.test/images/a");
    proxy.get_as("ImageBot/1", "http://open.test/");
    proxy.get_as("Other/1", "http://down.test/");
    proxy.get_as("Other/1", "gopher://shop.test/");
    eventually("five lines", || log(&proxy).len() == 5);
    let mut lines: Vec<_> = log(&proxy).into_values().collect();
    lines.sort_by_key(|line| line["id"].as_str().expect("an id").to_owned());
    let member = |name: &str| {
        let words = lines.iter().map(|line| line[name].as_str().unwrap_or("-"));
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    let outcomes = ["forwarded", "refused", "forwarded", "refused", "refused"];
    assert_eq!(member("outcome"), outcomes);
    let crawlers = ["news", "images", "images", "asserted", "asserted"];
    assert_eq!(member("crawler"), crawlers);
    let dialects = ["rfc9309", "google", "google", "rfc9309", "-"];
    assert_eq!(member("dialect"), dialects);
    let bases = ["no-matching-rule", "rule", "unavailable", "unreachable", "-"];
    assert_eq!(member("basis"), bases);
}

#[test]
fn recent_decisions_are_listed_filtered_and_ranked() {
    let origin = sites();
    let proxy = start(&origin, |settings| settings);
    for (agent, url) in [
        ("NewsBot/2", "http://shop.test/private/a"),
        ("NewsBot/2", "http://shop.test/private/b"),
        ("ImageBot/1", "http://shop.test/images/a"),
        ("ImageBot/1", "http://open.test/images/a"),
    ] {
        proxy.get_as(agent, url);
    }
    let urls = |query: &str| {
        let listed = proxy.admin_get(&format!("/v1/decisions?{query}")).json();
        let decisions = listed["decisions"].as_array().expect("an array").clone();
        let urls = decisions.iter().map(|d| d["url"].as_str().expect("a URL"));
        urls.map(str::to_owned).collect::<Vec<_>>()
    };
    eventually("four decisions", || urls("").len() == 4);
    // A range is read from the log, which is written a little later.
    eventually("four lines", || log(&proxy).len() == 4);
    assert_eq!(urls("crawler=news&limit=1"), ["http://shop.test/private/b"]);
    assert_eq!(urls("crawler=images&outcome=refused"), ["http://shop.test/images/a"]);
    assert_eq!(urls("outcome=refused&outcome=failed").len(), 3);
    assert_eq!(urls("outcome=forwarded&outcome=failed"), ["http://open.test/images/a"]);
    assert_eq!(urls("outcome=refused&outcome=observed&since=1d").len(), 3);
    assert_eq!(urls("host=open.test"), ["http://open.test/images/a"]);
    assert_eq!(urls("url=http://SHOP.test:80/private/a"), ["http://shop.test/private/a"]);
    assert_eq!(urls("url=http://shop.test/private/&since=1d"), [""; 0]);
    let top = |query: &str| proxy.admin_get(&format!("/v1/top?{query}")).json()["top"].clone();
    assert_eq!(
        top("by=host&outcome=refused"),
        serde_json::json!([{"name": "shop.test", "count": 3}])
    );
    assert_eq!(
        top("by=rule&outcome=refused&limit=1"),
        serde_json::json!([
            {"name": "Disallow: /private (http://shop.test/robots.txt:2)", "count": 2}
        ])
    );
    assert_eq!(
        proxy.admin_get("/v1/decisions?colour=red").status,
        400,
        "an unknown parameter is not ignored"
    );
    assert_eq!(proxy.admin_get("/v1/decisions/nonsense").status, 400);
    let unknown = "0".repeat(32);
    assert_eq!(proxy.admin_get(&format!("/v1/decisions/{unknown}")).status, 404);
}

#[test]
fn a_restart_forgets_no_decision() {
    let origin = sites();
    let proxy = start(&origin, |settings| settings);
    let problem = proxy.get_as("NewsBot/2", "http://shop.test/private/a").json();
    let id = problem["decision_id"].as_str().expect("an id").to_owned();
    let (dir, settings) = proxy.stop();
    let proxy = Wayleave::start_in(dir, settings);
    let shown = proxy.admin_get(&format!("/v1/decisions/{id}"));
    assert_eq!(shown.json()["url"], "http://shop.test/private/a");
}

#[test]
fn the_api_previews_decisions() {
    let origin = sites();
    let proxy = start(&origin, |settings| settings);
    let preview = |query: &str| proxy.admin_get(&format!("/v1/decision?{query}")).json();
    let news = preview("url=http://shop.test/private/a&user_agent=NewsBot");
    assert_eq!(news["outcome"], "refused", "{news}");
    assert_eq!((&news["line"], &news["crawler"]), (&2.into(), &"news".into()));
    let images = preview("url=http://shop.test/private/a&crawler=images");
    assert_eq!(images["outcome"], "forwarded", "{images}");
    let unknown = proxy.admin_get("/v1/decision?url=http://shop.test/&crawler=nobody");
    assert_eq!(unknown.status, 400);
    assert_eq!(origin.seen(), ["GET http://shop.test/robots.txt"]);
    assert_eq!(proxy.metric("wayleave_requests_total", &[]), 0.0);
}

#[test]
fn decisions_are_streamed_as_they_are_made() {
    let origin = sites();
    let proxy = start(&origin, |settings| settings);
    let mut wire = Wire::connect(proxy.admin);
    wire.send("GET /v1/decisions/stream?crawler=news HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let head = wire.response_head();
    assert_eq!(head.header("content-type"), Some("text/event-stream"));
    proxy.get_as("ImageBot/1", "http://shop.test/images/a");
    proxy.get_as("NewsBot/2", "http://shop.test/private/a");
    let mut text = String::new();
    while !text.contains("\"line\":2") {
        text.push_str(&String::from_utf8_lossy(&wire.bytes(1)));
    }
    assert!(text.contains("event: decision"), "{text}");
    assert!(!text.contains("images"), "{text}");
}

#[test]
fn a_limited_stream_counts_the_decisions_it_skips() {
    let origin = sites();
    let proxy = start(&origin, |settings| settings);
    let mut wire = Wire::connect(proxy.admin);
    wire.send("GET /v1/decisions/stream?q=%2Fmatching%2F&most=1&traffic=true HTTP/1.1\r\nHost: localhost\r\n\r\n");
    wire.response_head();
    for number in 0..20 {
        proxy.get_as("NewsBot/2", &format!("http://shop.test/matching/{number}"));
        proxy.get_as("NewsBot/2", &format!("http://shop.test/other/{number}"));
    }
    let mut text = String::new();
    let delivered = |text: &str| {
        let shown = text.matches("event: decision\n").count();
        let counts = text.split("event: skipped\ndata: ").skip(1);
        let counts = counts.filter_map(|rest| rest.split_once('\n')?.0.parse::<usize>().ok());
        shown + counts.sum::<usize>()
    };
    while delivered(&text) < 20 || !text.contains("\"requests\":") {
        text.push_str(&String::from_utf8_lossy(&wire.bytes(1)));
    }
    assert_eq!(delivered(&text), 20, "{text}");
    assert!(text.contains("event: traffic\n"), "{text}");
    assert!(!text.contains("/other/"), "{text}");
}

#[test]
fn clients_fetch_the_ca_and_the_pac_file() {
    let origin = sites();
    let proxy = start(&origin, |settings| settings);
    assert_eq!(proxy.admin_get("/ca.pem").body, proxy.ca_pem());
    let pac = proxy.admin_get("/proxy.pac");
    assert_eq!(pac.header("content-type"), Some("application/x-ns-proxy-autoconfig"));
    let expected = format!("return \"PROXY {}\";", proxy.proxy);
    assert!(pac.text().contains(&expected), "{}", pac.text());
}

#[test]
fn a_log_that_cannot_be_written_loses_no_request() {
    let origin = sites();
    let proxy = start(&origin, |settings| settings.set("log.decisions", "\"/dev/full\""));
    assert_eq!(proxy.get_as("NewsBot/2", "http://shop.test/").status, 200);
    eventually("the missing line is counted", || {
        proxy.metric("wayleave_decisions_dropped_total", &[]) == 1.0
    });
    assert_eq!(proxy.get_as("NewsBot/2", "http://shop.test/").status, 200);
}

/// Waits until each exchange is a complete line of the log or counted as missing. Returns the number of lines.
#[track_caller]
fn count_lines(proxy: &Wayleave, file: &str, exchanges: usize) -> usize {
    let file = proxy.dir.path().join("state").join(file);
    let written = || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        // The last line may be incomplete.
        let (whole, _) = text.rsplit_once('\n').unwrap_or_default();
        let lines = decisions(whole).map(serde_json::from_str::<Value>);
        let lines: Vec<_> = lines.map(|line| line.expect("a whole line")).collect();
        lines.len()
    };
    let missing = || proxy.metric("wayleave_decisions_dropped_total", &[]);
    eventually("each is written or counted", || written() as f64 + missing() == exchanges as f64);
    written()
}

#[test]
fn a_full_disk_leaves_whole_lines_and_an_exact_count() {
    let origin = sites();
    let proxy = Wayleave::start_on_full_disk(&origin, 64);
    let urls: Vec<_> = (0..300).map(|n| format!("http://open.test/{n}")).collect();
    let mut wire = proxy.connect();
    for url in &urls {
        wire.send_get(url);
        assert_eq!(wire.response().status, 200);
    }
    let written = count_lines(&proxy, "decisions.jsonl", urls.len());
    assert!(written < urls.len(), "{written}");
    // All lines that fit are there, however many were written together.
    let log = proxy.dir.path().join("state/decisions.jsonl");
    let size = std::fs::metadata(log).expect("it is there").len();
    assert!((63 * 1024..=64 * 1024).contains(&size), "{size}");
    eventually("it is logged", || proxy.log().contains("the decision log cannot be written"));
    // A shorter line may still fit.
    let log = proxy.log();
    assert!(log.matches("can be written again").count() < 3, "{log}");
}

#[test]
fn the_log_continues_once_its_directory_is_back() {
    let origin = sites();
    let proxy = start(&origin, |settings| settings.set("log.decisions", "\"log/decisions.jsonl\""));
    let status = |page: &str| proxy.get_as("Other/1", &format!("http://open.test/{page}")).status;
    assert_eq!(status("a"), 200);
    assert_eq!(count_lines(&proxy, "log/decisions.jsonl", 1), 1);
    let dir = proxy.dir.path().join("state/log");
    std::fs::remove_dir_all(&dir).expect("it can be removed");
    std::fs::write(&dir, "a file in its place").expect("it can be written");
    assert_eq!(status("b"), 200);
    eventually("it is counted as missing", || {
        proxy.metric("wayleave_decisions_dropped_total", &[]) == 1.0
    });
    std::fs::remove_file(&dir).expect("it can be removed");
    assert_eq!(status("c"), 200);
    // The first line went with the directory.
    assert_eq!(count_lines(&proxy, "log/decisions.jsonl", 2), 1);
    eventually("it is logged", || proxy.log().contains("decisions are written to the log again"));
}

#[test]
fn a_rule_cut_at_the_limit_is_shown_as_it_was_judged() {
    let origin = Origin::start();
    let mut body = "User-agent: *\nDisallow: /\n".to_owned();
    // The limit cuts the last rule to `Allow: /o`, which would allow more than was meant.
    let filling = 500 * 1024 - body.len() - "\nAllow: /o".len();
    body.push_str(&"#".repeat(filling));
    body.push_str("\nAllow: /open\n");
    origin.site("cut.test").robots(body);
    let proxy = Wayleave::start(&origin);
    let problem = proxy.get("http://cut.test/other").json();
    let id = problem["decision_id"].as_str().expect("it has one");
    let basis = proxy.admin_get(&format!("/v1/decisions/{id}/robots")).json();
    assert_eq!((&basis["is_same"], &basis["line"]), (&true.into(), &2.into()));
}

#[test]
fn a_response_names_its_decision_if_configured() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/private");
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("proxy.decision_id", "true").set("log.events", "false")
    });
    let agent = format!("ExampleBot/1.0 \u{202e}{}", "x".repeat(600));
    for url in ["http://shop.test/a", "https://shop.test/private"] {
        let answer = proxy.get_as(&agent, url);
        let id = answer.header("wayleave-decision").expect("it is named");
        let mut decision = Value::Null;
        eventually("it is recorded", || {
            let answer = proxy.admin_get(&format!("/v1/decisions/{id}"));
            let is_there = answer.status == 200;
            if is_there {
                decision = answer.json();
            }
            is_there
        });
        assert_eq!(decision["url"], url);
        assert_eq!(decision["status"], answer.status);
        let recorded = decision["user_agent"].as_str().expect("it is recorded");
        assert!(agent.starts_with(recorded), "{recorded}");
        assert_eq!(recorded.len(), 512);
        if answer.status == 403 {
            assert_eq!(answer.json()["decision_id"], id);
        }
    }
    assert!(!proxy.log().contains("wayleave::decision"), "no event");
    let plain = Wayleave::start(&origin);
    let answer = plain.get("http://shop.test/a");
    assert_eq!(answer.header("wayleave-decision"), None);
    eventually("it is an event", || plain.log().contains("wayleave::decision: forwarded 200 "));
}

#[test]
fn rust_log_can_leave_out_decisions() {
    let origin = Origin::start();
    origin.site("shop.test");
    let proxy = Wayleave::start_after(&origin, "export RUST_LOG=info,wayleave::decision=off");
    assert_eq!(proxy.get("http://shop.test/a").status, 200);
    line(&proxy, "http://shop.test/a");
    // Written on after the decision, in the same order.
    proxy.signal("HUP");
    eventually("it is reloaded", || proxy.log().contains("configuration was reloaded"));
    assert!(!proxy.log().contains("wayleave::decision"), "no event");
}

/// Waits for the only line of the log with this URL.
fn line(proxy: &Wayleave, url: &str) -> Value {
    let found = || log(proxy).into_values().find(|line| line["url"] == url);
    eventually("the decision is in the log", || found().is_some());
    found().expect("it is there")
}

#[test]
fn a_log_line_has_the_bytes_sent_and_the_trace_id() {
    let origin = sites();
    origin.site("open.test").page("/long", Reply::new(200).body("x".repeat(100_000)));
    let proxy = start(&origin, |settings| settings);
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let parent = format!("00-{trace}-b7ad6b7169203331-01");
    let request = Request::get("http://open.test/long").header("Traceparent", &parent);
    assert_eq!(proxy.exchange(&request).body.len(), 100_000);
    let written = line(&proxy, "http://open.test/long");
    assert_eq!(written["body_bytes"], 100_000);
    assert_eq!(written["trace_id"], trace);
    proxy.exchange(&Request::new("HEAD", "http://open.test/long"));
    proxy.get_as("NewsBot/2", "http://shop.test/private/a");
    let refused = line(&proxy, "http://shop.test/private/a");
    assert_eq!(refused.get("body_bytes"), None, "nothing was requested from the origin");
    let heads = || {
        let lines = log(&proxy).into_values();
        lines.filter(|line| line["method"] == "HEAD").collect::<Vec<_>>()
    };
    eventually("the decision is in the log", || heads().len() == 1);
    assert_eq!(heads()[0]["body_bytes"], 0);
}

#[test]
fn a_log_line_has_no_body_if_no_request_was_sent() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| settings.table(EXCEPTION));
    origin.stop_listening();
    for (url, reason) in
        [("http://shop.test/a", "connection_refused"), ("http://gone.example/a", "dns_error")]
    {
        proxy.get(url);
        let written = line(&proxy, url);
        assert_eq!([&written["outcome"], &written["reason"]], ["failed", reason], "{written}");
        assert_eq!(written.get("body_bytes"), None, "{url}");
    }
}

#[test]
fn client_addresses_have_the_configured_form_everywhere() {
    for (form, shown) in [("network", "127.0.0.0/24"), ("keyed", "")] {
        let origin = sites();
        let proxy =
            start(&origin, |settings| settings.set("log.client_address", &format!("{form:?}")));
        proxy.get_as("NewsBot/2", "http://shop.test/private/a");
        // A failed handshake is logged as well.
        let mut tunnel = proxy.connect();
        assert_eq!(tunnel.connect_tunnel("shop.test:443").status, 200);
        let other_roots = Authority::trusted().pem.as_bytes();
        assert!(tunnel.start_tls("shop.test", other_roots, &[]).is_err());
        eventually("the handshake is logged", || proxy.log().contains("does not trust"));
        let written = line(&proxy, "http://shop.test/private/a");
        let client = written["client"].as_str().expect("text");
        match shown {
            "" => assert!(client.len() == 32 && !client.contains('.'), "{client}"),
            shown => assert_eq!(client, shown),
        }
        let id = written["id"].as_str().expect("an id");
        let listed = proxy.admin_get(&format!("/v1/decisions/{id}")).json();
        assert_eq!(listed["client"], client);
        let log = proxy.log();
        assert!(log.contains(&format!("client={client}")), "{log}");
        assert!(!log.contains("client=127.0.0.1"), "{log}");
        let (dir, _) = proxy.stop();
        let text = std::fs::read_to_string(dir.path().join("state/decisions.jsonl"));
        let text = text.expect("a log");
        assert!(!text.contains("\"client\":\"127.0.0.1\""), "{text}");
    }
}

/// A file that cannot be read to its end must not look like a whole log.
#[test]
fn a_download_of_a_damaged_log_breaks_off() {
    let origin = sites();
    let proxy = start(&origin, |settings| {
        settings.set("log.decisions_compress", "true").set("log.decisions_max_size", "\"64KiB\"")
    });
    let state = proxy.dir.path().join("state");
    let compressed = || {
        let files = std::fs::read_dir(&state).expect("it can be listed").flatten();
        let mut paths = files.map(|entry| entry.path());
        paths.find(|path| path.extension().is_some_and(|extension| extension == "gz"))
    };
    eventually("a file is compressed", || {
        proxy.get("http://shop.test/");
        // The original remains until the directory is synced, and is read instead.
        compressed().is_some_and(|file| !file.with_extension("").exists())
    });
    let damaged = compressed().expect("it is there");
    let mut bytes = std::fs::read(&damaged).expect("readable");
    let middle = bytes.len() / 2;
    bytes[middle..].fill(0xff);
    std::fs::write(damaged, bytes).expect("writable");
    for format in ["json", "csv"] {
        let mut wire = Wire::connect(proxy.admin);
        wire.send(format!(
            "GET /v1/decisions/download?format={format} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        ));
        assert!(!matches!(wire.try_response(false), Ok(Some(_))), "{format}");
    }
    assert_eq!(proxy.admin_get("/v1/decisions?since=1d").status, 500);
}

/// A download that nobody reads keeps a thread: hundreds of them would leave none for anything else.
#[test]
fn downloads_that_nobody_reads_are_few() {
    let origin = sites();
    let proxy = start(&origin, |settings| settings);
    proxy.get("http://shop.test/");
    let log = proxy.dir.path().join("state/decisions.jsonl");
    count_lines(&proxy, "decisions.jsonl", 1);
    // More than the buffers of a connection hold.
    let text = std::fs::read_to_string(&log).expect("a log");
    let line = decisions(&text).next().expect("a decision");
    let long = line.replacen("shop.test/", &format!("shop.test/{}", "x".repeat(500_000)), 1);
    std::fs::write(log, text + &format!("{long}\n").repeat(40)).expect("writable");
    let ask = || {
        let mut wire = Wire::connect(proxy.admin);
        wire.send("GET /v1/decisions/download?format=json HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let head = wire.response_head();
        (wire, head)
    };
    let mut unread: Vec<_> = (0..32).map(|_| ask()).collect();
    assert!(unread.iter().all(|(_, head)| head.status == 200));
    let (_wire, refused) = ask();
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("30")));
    // Whoever asks for less is answered.
    assert_eq!(proxy.admin_get("/v1/decisions?since=1d&limit=1").status, 200);
    assert_eq!(proxy.admin_get("/v1/overview?since=1d").status, 200);
    unread.pop();
    eventually("one that left makes room", || ask().1.status == 200);
}
