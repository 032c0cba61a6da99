//! The rights of tokens of each role and team, for every route of the API.

use std::collections::BTreeSet;

use serde_json::Value;
use wayleave_evidence::Sha256Digest;

use crate::harness::crawler::crawler;
use crate::harness::wayleave::Settings;
use crate::harness::{Origin, Response, Wayleave, Wire, decisions, eventually};

/// A route as the API describes it, the path of a request to it, and the statuses with each of `TOKENS`.
type Route = (&'static str, &'static str, &'static str, [u16; 5]);

/// The tokens: none, then one for each role, without a team and with the team `a`.
const TOKENS: [&str; 5] = ["", "read", "read-a", "operate", "operate-a"];

const PUBLIC: [u16; 5] = [200; 5];
/// A card of a crawler without a key.
const PUBLIC_404: [u16; 5] = [404; 5];
const SEEN: [u16; 5] = [401, 200, 200, 200, 200];
const SEEN_BY_ALL_TEAMS_ONLY: [u16; 5] = [401, 200, 403, 200, 403];
const OPERATED: [u16; 5] = [401, 403, 403, 200, 403];

const ROUTES: &[Route] = &[
    ("get", "/livez", "/livez", PUBLIC),
    ("get", "/readyz", "/readyz", PUBLIC),
    ("get", "/ca.pem", "/ca.pem", PUBLIC),
    ("get", "/ca-proof.cer", "/ca-proof.cer?nonce=0123456789abcdef0123456789abcdef", PUBLIC),
    ("get", "/proxy.pac", "/proxy.pac", PUBLIC),
    (
        "get",
        "/.well-known/http-message-signatures-directory",
        "/.well-known/http-message-signatures-directory",
        PUBLIC_404,
    ),
    (
        "get",
        "/.well-known/signature-agent-card/{crawler}",
        "/.well-known/signature-agent-card/nobody",
        PUBLIC_404,
    ),
    ("get", "/metrics", "/metrics", SEEN_BY_ALL_TEAMS_ONLY),
    ("get", "/v1/connect", "/v1/connect", SEEN),
    ("get", "/v1/decision", "/v1/decision?url=http://one.test/x&crawler=crawler-a", SEEN),
    (
        "get",
        "/v1/decision",
        "/v1/decision?url=http://one.test/x&crawler=crawler-b",
        SEEN_BY_ALL_TEAMS_ONLY,
    ),
    ("get", "/v1/decision", "/v1/decision?url=http://one.test/x", SEEN_BY_ALL_TEAMS_ONLY),
    (
        "get",
        "/v1/decision",
        "/v1/decision?url=http://one.test/x&crawler=nobody",
        [401, 400, 403, 400, 403],
    ),
    ("get", "/v1/decisions", "/v1/decisions", SEEN),
    ("get", "/v1/decisions", "/v1/decisions?since=2020-01-01T00:00:00Z", SEEN),
    ("get", "/v1/decisions/stream", "/v1/decisions/stream?traffic=true", SEEN),
    ("get", "/v1/decisions/download", "/v1/decisions/download?format=json", SEEN),
    ("get", "/v1/decisions/download", "/v1/decisions/download?format=csv", SEEN),
    ("get", "/v1/decisions/{id}", "/v1/decisions/ID-OF-A", SEEN),
    ("get", "/v1/decisions/{id}", "/v1/decisions/ID-OF-B", [401, 200, 404, 200, 404]),
    ("get", "/v1/decisions/{id}/robots", "/v1/decisions/ID-OF-A/robots", SEEN),
    ("get", "/v1/decisions/{id}/robots", "/v1/decisions/ID-OF-B/robots", [401, 200, 404, 200, 404]),
    ("get", "/v1/top", "/v1/top?by=crawler", SEEN),
    ("get", "/v1/top", "/v1/top?by=rule", SEEN),
    ("get", "/v1/top", "/v1/top?by=user_agent&since=1d", SEEN),
    ("get", "/v1/overview", "/v1/overview", SEEN),
    ("get", "/v1/overview", "/v1/overview?since=1d", SEEN),
    ("get", "/v1/problems", "/v1/problems", SEEN),
    ("get", "/v1/evidence", "/v1/evidence", SEEN),
    ("get", "/v1/evidence/bodies/{sha256}", "/v1/evidence/bodies/SHA256", SEEN),
    ("get", "/v1/robots", "/v1/robots", SEEN),
    ("get", "/v1/robots/{origin}", "/v1/robots/http%3A%2F%2Fone.test", SEEN),
    (
        "post",
        "/v1/robots/{origin}/refresh",
        "/v1/robots/http%3A%2F%2Fone.test/refresh",
        // The second one in five seconds.
        [401, 403, 403, 200, 429],
    ),
    (
        "delete",
        "/v1/robots/{origin}",
        "/v1/robots/http%3A%2F%2Ftwo.test",
        [401, 403, 403, 204, 403],
    ),
    ("get", "/v1/traffic", "/v1/traffic", SEEN),
    // The body, which should be a change of the configuration, is missing.
    ("post", "/v1/replay", "/v1/replay", [401, 400, 400, 400, 400]),
    ("get", "/v1/status", "/v1/status", SEEN),
    ("get", "/v1/configuration", "/v1/configuration", SEEN_BY_ALL_TEAMS_ONLY),
    ("get", "/v1/rules", "/v1/rules", SEEN),
    ("get", "/v1/crawlers", "/v1/crawlers", SEEN),
    ("get", "/v1/crawlers", "/v1/crawlers?since=1d", SEEN),
    ("get", "/v1/changes", "/v1/changes", SEEN_BY_ALL_TEAMS_ONLY),
    ("get", "/v1/edge", "/v1/edge?by=host", SEEN_BY_ALL_TEAMS_ONLY),
    ("get", "/v1/pace", "/v1/pace", SEEN_BY_ALL_TEAMS_ONLY),
    ("get", "/v1/fleet", "/v1/fleet", SEEN),
    ("post", "/v1/reload", "/v1/reload", OPERATED),
];

fn digest(token: &str) -> String {
    Sha256Digest::of(token.as_bytes()).to_string()
}

/// Returns the configuration of two teams, with a crawler and a rule each, and of four tokens.
fn with_teams(settings: Settings) -> Settings {
    let tokens: Vec<_> = [
        ("read", ""),
        ("read-a", ", team = \"a\""),
        ("operate-a", ", team = \"a\", name = \"ops of a\""),
    ]
    .map(|(token, more)| {
        let role = token.split('-').next().expect("a role");
        format!("{{ sha256 = \"{}\", role = \"{role}\"{more} }}", digest(token))
    })
    .into();
    let settings = settings
        .set("admin.token_sha256", &format!("\"{}\"", digest("operate")))
        .set("admin.tokens", &format!("[{}]", tokens.join(", ")));
    ["a", "b"].iter().fold(settings, |settings, team| {
        let rule = format!(
            "[[rule]]\naction = \"refuse\"\nhosts = [\"one.test\"]\npaths = [\"/rule-of-{team}\"]\ncrawlers = [\"crawler-{team}\"]\n"
        );
        let crawler = crawler(&format!("crawler-{team}"), &format!("Bot-{team}"));
        settings.with(crawler.set("owner", *team)).table(&rule)
    })
}

fn send(proxy: &Wayleave, method: &str, path: &str, token: &str) -> Response {
    let mut wire = Wire::connect(proxy.admin);
    let authorization = match token {
        "" => String::new(),
        token => format!("Authorization: Bearer {token}\r\n"),
    };
    wire.send(format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{authorization}Content-Length: 0\r\nConnection: close\r\n\r\n"
    ));
    // The stream has no end.
    if path.contains("/stream") {
        return wire.response_head();
    }
    wire.expect_response(method == "HEAD")
}

/// Starts a proxy with a refused and a forwarded request of each team. Returns their refusals' IDs, and the digest of the
/// robots.txt.
fn start(origin: &Origin) -> (Wayleave, [String; 2], String) {
    origin.site("one.test").disallows("/private");
    let proxy = Wayleave::start_with(origin, with_teams);
    let ids = ["a", "b"].map(|team| {
        let agent = format!("Bot-{team}/1");
        proxy.get_as(&agent, &format!("http://one.test/page-of-{team}"));
        proxy.get_as(&agent, &format!("http://one.test/rule-of-{team}"));
        let refused = proxy.get_as(&agent, &format!("http://one.test/private-of-{team}"));
        refused.json()["decision_id"].as_str().expect("it is refused").to_owned()
    });
    let log = proxy.dir.path().join("state/decisions.jsonl");
    let lines = || std::fs::read_to_string(&log).unwrap_or_default();
    eventually("all are logged", || decisions(&lines()).count() == 6);
    let text = lines();
    let digest = decisions(&text).find_map(|line| {
        let decision: Value = serde_json::from_str(line).expect("JSON");
        decision["robots_sha256"].as_str().map(str::to_owned)
    });
    (proxy, ids, digest.expect("robots.txt decided"))
}

#[test]
fn every_route_allows_what_the_role_and_the_team_allow() {
    let origin = Origin::start();
    let (proxy, [of_a, of_b], sha256) = start(&origin);
    origin.site("two.test");
    let document = send(&proxy, "GET", "/v1/openapi.json", "").json();
    let described: BTreeSet<_> = document["paths"]
        .as_object()
        .expect("paths")
        .iter()
        .flat_map(|(path, operations)| {
            let methods = operations.as_object().expect("operations").keys();
            methods.map(move |method| (method.as_str(), path.as_str()))
        })
        .collect();
    let tabled: BTreeSet<_> = ROUTES.iter().map(|(method, path, ..)| (*method, *path)).collect();
    assert_eq!(tabled, described, "each route has a row");
    let fill = |path: &str| {
        path.replace("ID-OF-A", &of_a).replace("ID-OF-B", &of_b).replace("SHA256", &sha256)
    };
    for (method, route, path, expected) in ROUTES {
        let (method, path) = (method.to_uppercase(), fill(path));
        let statuses = TOKENS.map(|token| {
            if method == "DELETE" {
                proxy.get_as("Bot-a/1", "http://two.test/");
            }
            send(&proxy, &method, &path, token).status
        });
        assert_eq!(statuses, *expected, "{method} {route}: {path}");
    }
    assert_eq!(send(&proxy, "POST", "/v1/nothing", "read").status, 403);
    assert_eq!(send(&proxy, "GET", "/v1/nothing", "read-a").status, 404);
    assert_eq!(send(&proxy, "HEAD", "/metrics", "read-a").status, 403);
    assert_eq!(send(&proxy, "GET", "/metrics", "operate-b").status, 401);
}

/// Nothing that a token of one team is told mentions a crawler, a rule, a URL or the name of another.
#[test]
fn no_response_tells_one_team_of_another() {
    let origin = Origin::start();
    let (proxy, [of_a, _], sha256) = start(&origin);
    let mut told = 0;
    for (method, _, path, expected) in ROUTES {
        if expected[2] != 200 || path.contains("/stream") || path.contains("OF-B") {
            continue;
        }
        let path = path.replace("ID-OF-A", &of_a).replace("SHA256", &sha256);
        let method = method.to_uppercase();
        let text = send(&proxy, &method, &path, "read-a").text();
        for secret in ["crawler-b", "-of-b", "Bot-b"] {
            assert!(!text.contains(secret), "{path} tells {secret}: {text}");
        }
        told += usize::from(text.contains("crawler-a"));
        // Traffic is sampled: the next sample has what came after the last.
        eventually(&format!("a token without a team is told of all by {path}"), || {
            let all = send(&proxy, &method, &path, "read").text();
            !text.contains("crawler-a")
                || all.contains("crawler-b")
                || path.contains(&of_a)
                || path.contains("crawler-a")
        });
    }
    assert!(told >= 12, "{told} views tell a team of its own crawler");
    let mut wire = Wire::connect(proxy.admin);
    wire.send("GET /v1/decisions/stream?traffic=true HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer read-a\r\n\r\n");
    assert_eq!(wire.response_head().status, 200);
    for team in ["b", "a"] {
        proxy.get_as(&format!("Bot-{team}/1"), &format!("http://one.test/live-of-{team}"));
    }
    let mut text = String::new();
    while !(text.contains("live-of-a")
        && text.contains("event: traffic")
        && text.contains("\"crawler-a\",\"outcome\""))
    {
        text += &String::from_utf8_lossy(&wire.bytes(1));
    }
    assert!(!text.contains("-of-b") && !text.contains("crawler-b"), "{text}");
}

#[test]
fn the_log_says_who_changed_something() {
    let origin = Origin::start();
    let (proxy, ..) = start(&origin);
    let refresh = "/v1/robots/http%3A%2F%2Fone.test/refresh";
    for (method, path, token) in [
        ("POST", "/v1/reload", "operate"),
        ("POST", "/v1/reload", "read"),
        ("POST", refresh, "operate-a"),
        ("DELETE", "/v1/robots/http%3A%2F%2Fone.test", "operate-a"),
        ("GET", "/v1/top?by=host", "operate"),
    ] {
        send(&proxy, method, path, token);
    }
    let who = |token: &str| format!("who=\"token {}\"", &digest(token)[..8]);
    let expected = [
        format!("{} method=POST path=\"/v1/reload\" status=200", who("operate")),
        format!("{} method=POST path=\"/v1/reload\" status=403", who("read")),
        format!("who=\"ops of a\" method=POST path=\"{refresh}\" status=200"),
        "who=\"ops of a\" method=DELETE path=\"/v1/robots/http%3A%2F%2Fone.test\" status=403"
            .to_owned(),
    ];
    eventually("all are logged", || {
        let log = proxy.log();
        expected.iter().all(|line| log.contains(line))
            && log.matches("an operator's request to change something").count() == 4
    });
}

#[test]
fn a_removed_token_is_refused_after_a_reload() {
    let origin = Origin::start();
    let (proxy, ..) = start(&origin);
    assert_eq!(send(&proxy, "GET", "/v1/top?by=host", "read").status, 200);
    let settings = with_teams(proxy.settings.clone().without_tables());
    let settings = settings.set("admin.tokens", "[]");
    proxy.write_config(&settings.to_toml());
    let answer = send(&proxy, "POST", "/v1/reload", "operate");
    assert_eq!((answer.status, &answer.json()["needs_restart"]), (200, &serde_json::json!([])));
    assert_eq!(send(&proxy, "GET", "/v1/top?by=host", "read").status, 401);
    assert_eq!(send(&proxy, "GET", "/v1/top?by=host", "operate").status, 200);
}
