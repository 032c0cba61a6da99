//! The API matches its OpenAPI document, as tested by schemathesis.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::harness::tools::{clean, project, python, run};
use crate::harness::{Origin, Reply, Wayleave};

const LIMIT: Duration = Duration::from_secs(900);

const RULES: &str = "
[[rule]]
action = \"refuse\"
hosts = [\"shop.test\"]
paths = [\"/internal/\"]
[[rule]]
action = \"allow\"
hosts = [\"shop.test\"]
paths = [\"/feeds/\"]
owner = \"data@example.com\"
reason = \"contract\"
expires = \"2999-01-01\"
";

/// Starts a proxy and has it decide about a few requests.
fn proxy_with_decisions() -> (Origin, Wayleave) {
    let origin = Origin::start();
    origin
        .site("shop.test")
        .robots("User-agent: NewsBot\nDisallow: /private\n\nUser-agent: *\nDisallow: /images\n");
    origin.site("down.test").robots_reply(Reply::new(500));
    let proxy =
        Wayleave::start_with(&origin, |settings| settings.crawler("news", "NewsBot").table(RULES));
    for url in [
        "http://shop.test/a",
        "http://shop.test/private/a",
        "https://shop.test/internal/a",
        "http://shop.test/feeds/a",
        "http://down.test/",
    ] {
        proxy.get_as("NewsBot/1", url);
    }
    (origin, proxy)
}

#[test]
fn the_openapi_document_describes_every_endpoint() {
    let (_origin, proxy) = proxy_with_decisions();
    let document = proxy.admin_get("/v1/openapi.json").json();
    let paths = document["paths"].as_object().expect("an object");
    let described: BTreeSet<&str> = paths.keys().map(String::as_str).collect();
    let expected = [
        "/.well-known/http-message-signatures-directory",
        "/.well-known/signature-agent-card/{crawler}",
        "/ca-proof.cer",
        "/ca.pem",
        "/livez",
        "/metrics",
        "/proxy.pac",
        "/readyz",
        "/v1/changes",
        "/v1/configuration",
        "/v1/connect",
        "/v1/crawlers",
        "/v1/decision",
        "/v1/decisions",
        "/v1/decisions/download",
        "/v1/decisions/stream",
        "/v1/decisions/{id}",
        "/v1/decisions/{id}/robots",
        "/v1/edge",
        "/v1/evidence",
        "/v1/evidence/bodies/{sha256}",
        "/v1/fleet",
        "/v1/overview",
        "/v1/pace",
        "/v1/problems",
        "/v1/reload",
        "/v1/replay",
        "/v1/robots",
        "/v1/robots/{origin}",
        "/v1/robots/{origin}/refresh",
        "/v1/rules",
        "/v1/status",
        "/v1/top",
        "/v1/traffic",
    ];
    assert_eq!(described, BTreeSet::from(expected));
    let mut ids = BTreeSet::new();
    for (path, operations) in paths {
        for (method, operation) in operations.as_object().expect("an object") {
            assert!(operation["summary"].is_string(), "{method} {path}");
            let id = operation["operationId"].as_str().expect("an id");
            assert!(ids.insert(id), "{id} is the id of two operations");
            let responses = operation["responses"].as_object().expect("an object");
            for (status, response) in responses {
                let described = &response["description"];
                assert!(described.is_string(), "{method} {path}: {status}");
            }
        }
    }
}

/// Wrong requests, and the beginning of the error message for each.
const MISTAKES: &[(&str, &str)] = &[
    ("/v1/decisions?limit=0", "limit: 0 is not 1 to 8192"),
    ("/v1/decisions?limit=many", "limit: \"many\" is not a whole number"),
    (
        "/v1/decisions?outcome=lost",
        "outcome: \"lost\" is not one of forwarded, observed, refused, failed, tunnelled",
    ),
    ("/v1/decisions?q=a&q=b", "q: given more than once"),
    ("/v1/edge", "by is missing"),
    ("/v1/edge?by=rule", "by: \"rule\" is not one of host, crawler, signed"),
    ("/v1/edge?by=host&limit=10001", "limit: 10001 is not 1 to 10000"),
    (
        "/v1/top?by=colour",
        "by: \"colour\" is not one of host, origin, crawler, reason, rule, token, user_agent, client",
    ),
    ("/v1/overview?since=someday", "since: \"someday\" is not a time"),
    ("/v1/crawlers?until=someday", "until: \"someday\" is not a time"),
    (
        "/v1/robots?colour=red",
        "\"colour\" is not a parameter here; these are: state, q, limit, cursor",
    ),
    ("/v1/robots?cursor=x", "cursor: "),
    ("/v1/robots/%ff", "the path is not UTF-8"),
    ("/v1/decision", "url is missing"),
    ("/v1/decision?url=x", "url: "),
    ("/v1/decision?url=http://shop.test/&client=here", "client: \"here\" is not an IP address"),
    ("/v1/decision?url=http://shop.test/&crawler=none", "crawler: none is named \"none\""),
    (
        "/v1/decision?url=http://shop.test/&purpose=search&purpose=x",
        "purpose: \"x\" is not a purpose",
    ),
    (
        "/v1/decision?url=http://shop.test/&dialect=klingon",
        "dialect: \"klingon\" is not one of rfc9309, google, koster1996, selfhtml, strictest",
    ),
    ("/v1/decisions/12", "id: \"12\" is not a decision ID: 32 hexadecimal digits"),
    ("/v1/decisions/stream?traffic=1", "traffic: \"1\" is not true or false"),
    ("/v1/rules?expires_within_days=-1", "expires_within_days: \"-1\" is not a whole number"),
    ("/v1/evidence/bodies/12", "sha256: \"12\" is not a SHA-256: 64 hexadecimal digits"),
];

#[test]
fn errors_of_the_api_are_json() {
    let (_origin, proxy) = proxy_with_decisions();
    for (path, message) in MISTAKES {
        let answer = proxy.admin_get(path);
        assert_eq!(answer.status, 400, "{path}");
        let answer = answer.json();
        let error = answer["error"].as_str().expect("a sentence");
        assert!(error.starts_with(message), "{path}: {error}");
    }
    for (path, status) in [("/v1/nothing", 404), ("/v1/reload", 405)] {
        let answer = proxy.admin_get(path);
        assert_eq!(answer.status, status, "{path}");
        let error = &answer.json()["error"];
        assert!(error.as_str().is_some_and(|error| !error.is_empty()), "{path}: {error}");
    }
}

#[test]
fn schemathesis_finds_no_fault() {
    let (_origin, proxy) = proxy_with_decisions();
    let mut command = clean(python());
    command
        .args(["-m", "schemathesis.cli", "--config-file"])
        .arg(project().join("tests/clients/schemathesis.toml"))
        .arg("run")
        .arg(format!("http://{}/v1/openapi.json", proxy.admin))
        .env("SCHEMATHESIS_HOOKS", "api_hooks")
        .env("PYTHONPATH", project().join("tests/clients"))
        .current_dir(proxy.dir.path());
    let output = run(&mut command, b"", LIMIT);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    println!("{printed}");
}
