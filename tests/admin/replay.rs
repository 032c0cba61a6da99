//! `/v1/replay`: another configuration, tried on the decision log by a running proxy.

use std::path::Path;

use serde_json::Value;

use crate::harness::tools::{clean, output_of};
use crate::harness::wayleave::crawler;
use crate::harness::{DEADLINE, Origin, Response, Wayleave, Wire, eventually};

fn start(origin: &Origin) -> Wayleave {
    for host in ["one.test", "two.test"] {
        origin.site(host).robots("User-agent: *\nDisallow: /private\n");
    }
    let owned =
        |name: &str| crawler(name, &format!("Bot-{name}")) + &format!("owner = \"{name}\"\n");
    let tokens = ["read-a", "read"].map(|token| {
        let digest = wayleave_evidence::Sha256Digest::of(token.as_bytes());
        let team = if token == "read-a" { ", team = \"a\"" } else { "" };
        format!("{{ sha256 = \"{digest}\", role = \"read\"{team} }}")
    });
    let proxy = Wayleave::start_with(origin, |settings| {
        settings
            .set("admin.tokens", &format!("[{}]", tokens.join(", ")))
            .table(&(owned("a") + &owned("b")))
    });
    for agent in ["Bot-a/1", "Bot-b/1"] {
        for path in ["/page", "/page?2", "/private"] {
            proxy.get_as(agent, &format!("http://one.test{path}"));
            proxy.get_as(agent, &format!("http://two.test{path}"));
        }
    }
    let log = proxy.dir.path().join("state/decisions.jsonl");
    eventually("the log has them", || {
        std::fs::read_to_string(&log).is_ok_and(|text| text.matches("\"outcome\"").count() == 12)
    });
    proxy
}

fn replay(proxy: &Wayleave, token: &str, query: &str, body: &str) -> Response {
    let mut wire = Wire::connect(proxy.admin);
    wire.send(format!(
        "POST /v1/replay{query} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    ));
    wire.response()
}

fn replayed(proxy: &Wayleave, token: &str, body: &str) -> Value {
    let answer = replay(proxy, token, "", body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    serde_json::from_str(&answer.text()).expect("JSON")
}

const NEW: &str = r#"
[[crawler]]
name = "a"
owner = "a"
tokens = ["Bot-a"]
match = { user_agent = "Bot-a" }
[[crawler]]
name = "b"
owner = "b"
tokens = ["Bot-b"]
match = { user_agent = "Bot-b" }
[[rule]]
action = "refuse"
hosts = ["one.test"]
paths = ["/page"]
[[rule]]
action = "allow"
hosts = ["two.test"]
paths = ["/private"]
owner = "us"
reason = "contract"
expires = 2999-01-01
"#;

#[test]
fn changes_are_counted_for_all_teams_or_one() {
    let origin = Origin::start();
    let proxy = start(&origin);
    let before = std::fs::read(proxy.dir.path().join("state/decisions.jsonl")).expect("a log");
    for (token, teams) in [("read", 2), ("read-a", 1)] {
        let found = replayed(&proxy, token, NEW);
        let count = |kind: &str| found[kind]["count"].as_u64().expect("a number");
        assert_eq!(found["decisions"], 6 * teams, "{found}");
        assert_eq!(
            ["newly_refused", "newly_forwarded", "unchanged", "undecidable"].map(count),
            [2 * teams, teams, 3 * teams, 0],
            "{found}"
        );
        let group = &found["newly_refused"]["groups"][0];
        assert_eq!(
            (&group["crawler"], &group["host"], &group["rule"]),
            (&"a".into(), &"one.test".into(), &"[[rule]] 1".into())
        );
        assert_eq!(
            group["samples"],
            serde_json::json!(["http://one.test/page", "http://one.test/page?2"])
        );
        assert_eq!(found["newly_forwarded"]["groups"][0]["rule"], "Disallow: /private");
        let is_told_of_b = found.to_string().contains("\"b\"");
        assert_eq!(is_told_of_b, teams == 2, "{found}");
    }
    let nothing = replay(&proxy, "read", "?until=2020-01-01", NEW);
    assert!(nothing.text().contains("\"decisions\":0"), "{}", nothing.text());
    // Nothing has changed.
    assert_eq!(
        before,
        std::fs::read(proxy.dir.path().join("state/decisions.jsonl")).expect("a log")
    );
    let answer = proxy.get_as("Bot-a/1", "http://one.test/page");
    assert_eq!(answer.status, 200);
}

fn pipe(dir: &Path, name: &str) -> String {
    let path = dir.join(name);
    output_of(clean("mkfifo").arg(&path), b"", DEADLINE);
    path.display().to_string()
}

/// Whoever opened a pipe would wait, for ever, for somebody to write.
#[test]
fn no_file_that_a_configuration_names_is_opened() {
    let origin = Origin::start();
    let proxy = start(&origin);
    let pipe = |name: &str| pipe(proxy.dir.path(), name);
    let text = format!(
        "include = [{:?}, {:?}]\n\
         [proxy]\nlisten = [\"https://127.0.0.1:0\"]\ncertificate = {:?}\nkey = {:?}\nclient_ca = {:?}\nmode = \"observe\"\n\
         [https]\nca_dir = {:?}\n\
         [state]\ndir = {:?}\n[store]\nurl = \"redis://127.0.0.1:1\"\npassword_file = {:?}\nkey_file = {:?}\n\
         [upstream]\nextra_roots = [{:?}]\n[signing]\nagent = \"https://a.test\"\n[evidence]\nkey = {:?}\n\
         [log]\ndecisions = {:?}\n",
        pipe("included.toml"),
        proxy.dir.path().join("*.pipe").display().to_string(),
        pipe("a"),
        pipe("b"),
        pipe("c"),
        pipe("d"),
        pipe("e"),
        pipe("f"),
        pipe("g"),
        pipe("h"),
        pipe("i"),
        pipe("j"),
    );
    let crawlers = NEW.replacen("match = ", &format!("signing_key = {:?}\nmatch = ", pipe("k")), 1);
    let found = replayed(&proxy, "read", &(text + &crawlers));
    let not_read: Vec<_> = found["not_read"]
        .as_array()
        .expect("names")
        .iter()
        .map(|it| it.as_str().expect("a name"))
        .collect();
    for name in [
        "include",
        "proxy.listen",
        "proxy.certificate",
        "proxy.key",
        "proxy.client_ca",
        "https.ca_dir",
        "state",
        "store",
        "upstream",
        "signing",
        "evidence",
        "log",
    ] {
        assert!(not_read.contains(&name), "{name}: {not_read:?}");
    }
    // What decides was read: all refusals would only be observed.
    assert_eq!(found["newly_refused"]["count"], 0, "{found}");
}

#[test]
fn what_cannot_be_replayed_is_said() {
    let origin = Origin::start();
    let proxy = start(&origin);
    for (query, body, status, said) in [
        ("", "[[rule]]\naction = \"refuse\"\n", 422, "[[rule]] 1.hosts"),
        ("", "[[rule]\n", 422, "TOML"),
        ("", "[robots]\ndialect = \"none\"\n", 422, "robots.dialect"),
        ("?since=x", "", 400, "since"),
        ("?nonsense=1", "", 400, "nonsense"),
        ("", &" ".repeat((1 << 20) + 1), 413, "1 MiB"),
    ] {
        let answer = replay(&proxy, "read", query, body);
        assert_eq!(answer.status, status, "{query} {}: {}", body.len(), answer.text());
        assert!(answer.text().contains(said), "{}", answer.text());
    }
    assert_eq!(replay(&proxy, "wrong", "", NEW).status, 401);
}

#[test]
fn a_hundred_mistakes_of_many_are_said() {
    let origin = Origin::start();
    let proxy = start(&origin);
    let text: String = (0..12_000).map(|number| format!("[[rule]]\nx{number}=1\n")).collect();
    let answer = replay(&proxy, "read", "", &text);
    assert_eq!(answer.status, 422, "{}", answer.text());
    let mistakes = answer.json()["mistakes"].as_array().expect("a list").clone();
    assert_eq!(mistakes.len(), 101);
    let last = mistakes[100].as_str().expect("a text");
    assert!(last.contains("and further ones"), "{last}");
}

#[test]
fn one_replay_runs_at_a_time() {
    let origin = Origin::start();
    let proxy = start(&origin);
    // Many times the same file, as the log of a busy day.
    let log = proxy.dir.path().join("state/decisions.jsonl");
    let text = std::fs::read_to_string(&log).expect("a log");
    let rotated = log.with_file_name("decisions.20200101T000000.000Z.jsonl");
    std::fs::write(rotated, text.repeat(500)).expect("the directory can be written");
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| replay(&proxy, "read", "?since=2000-01-01", NEW).status))
            .collect();
        asking.into_iter().map(|it| it.join().expect("no panic")).collect()
    });
    assert!(statuses.contains(&200) && statuses.contains(&429), "{statuses:?}");
    eventually("the turn is free again", || replay(&proxy, "read", "", NEW).status == 200);
}
