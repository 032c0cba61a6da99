//! Envoy's `ext_authz` by gRPC, asked by a client that is made from Envoy's protocol files.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};

use super::equal::{FIELDS, METHODS, PATHS};
use super::{Gated, ROBOTS, forwarded};
use crate::harness::Origin;
use crate::harness::client::AGENT;
use crate::harness::tools::{clean, output_of, project, python};

const SITES: [(&str, &str); 8] = [
    ("http", "shop.test"),
    ("http", "SHOP.test:80"),
    ("http", "shop.test."),
    ("http", "shop.test:81"),
    ("https", "shop.test"),
    ("http", "closed.test"),
    ("http", "192.168.1.1"),
    ("http", "[::1]"),
];

fn ask_all(address: SocketAddr, questions: &[Value]) -> Vec<Value> {
    let lines: String = questions.iter().map(|question| format!("{question}\n")).collect();
    let mut client = clean(python());
    client.arg(project().join("tests/clients/envoy_check.py")).arg(address.to_string());
    let printed = output_of(&mut client, lines.as_bytes(), Duration::from_secs(300));
    let answers: Vec<_> =
        printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(answers.len(), questions.len());
    answers
}

fn field(answer: &Value, name: &str) -> Option<String> {
    let mut fields = answer["fields"].as_array()?.iter();
    Some(fields.find(|pair| pair[0] == name)?[1].as_str()?.to_owned())
}

#[test]
fn every_verdict_by_grpc_is_that_by_http() {
    let origin = Origin::start();
    for host in ["shop.test", "shop.test."] {
        origin.site(host).robots(ROBOTS);
    }
    origin.site("closed.test").disallows("/");
    let (gated, grpc) = Gated::start_both(&origin, |settings| settings.crawler("news", "NewsBot"));
    let mut asked = Vec::new();
    for (number, path) in PATHS.iter().enumerate() {
        for (other, (scheme, host)) in SITES.iter().enumerate() {
            for shift in 0..2 {
                let method = METHODS[(number + other + shift) % METHODS.len()];
                let mut fields = FIELDS[(number + 2 * other + 4 * shift) % FIELDS.len()].to_vec();
                if !fields.iter().any(|(name, _)| *name == "User-Agent") {
                    fields.push(("User-Agent", AGENT));
                }
                asked.push((method, *scheme, *host, *path, fields));
            }
        }
    }
    let questions: Vec<_> = asked
        .iter()
        .enumerate()
        .map(|(number, (method, scheme, host, path, fields))| {
            json!({ "method": method, "scheme": scheme, "host": host, "path": path, "fields": fields, "raw": number % 2 == 0 })
        })
        .collect();
    let mut refused = 0;
    for (answer, (method, scheme, host, path, fields)) in
        ask_all(grpc, &questions).iter().zip(&asked)
    {
        let all = [&forwarded(method, scheme, host, path)[..], fields].concat();
        let by_http = gated.ask("/forwarded", &all);
        let about = format!("{method} {scheme}://{host}{path} {fields:?}: {answer} {by_http:?}");
        if by_http.status == 400 && by_http.header("proxy-status").is_none() {
            assert_eq!(answer["code"], "INVALID_ARGUMENT", "{about}");
            continue;
        }
        assert_eq!(answer["status"], by_http.status, "{about}");
        let proxy_status = by_http.header("proxy-status").map(str::to_owned);
        assert_eq!(
            field(answer, "Proxy-Status").or(field(answer, "proxy-status")),
            proxy_status,
            "{about}"
        );
        if by_http.status != 200 {
            refused += 1;
            let problem: Value =
                serde_json::from_str(answer["body"].as_str().expect("text")).expect("a problem");
            assert_eq!(problem["reason"], by_http.json()["reason"], "{about}");
        }
    }
    assert!(refused > 100, "{refused} of {}", asked.len());
    assert!(
        !origin.seen().iter().any(|line| !line.ends_with("/robots.txt")),
        "{:?}",
        origin.seen()
    );
}

#[test]
fn calls_that_are_not_clear_get_no_leave() {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    let token = "a-token";
    let sha256 = wayleave_evidence::Sha256Digest::of(token.as_bytes());
    let (gated, grpc) = Gated::start_both(&origin, |settings| {
        let tokens = format!("[{{ sha256 = \"{sha256}\", crawler = \"news\" }}]");
        settings.crawler("news", "NewsBot").set("gateway.tokens", &tokens)
    });
    let allowed = json!({ "method": "GET", "scheme": "http", "host": "shop.test", "path": "/a" });
    let with = |name: &str, value: Value| {
        let mut question = allowed.clone();
        question[name] = value;
        question
    };
    let fields = |pairs: &[[&str; 2]]| {
        let mut question = with("fields", json!(pairs));
        question["raw"] = json!(true);
        question
    };
    let cases = [
        (allowed.clone(), "200"),
        (with("path", json!("/private")), "403"),
        (with("token", json!(token)), "200"),
        (with("token", json!("another")), "UNAUTHENTICATED"),
        (with("call", json!("/envoy.service.auth.v2.Authorization/Check")), "UNIMPLEMENTED"),
        (with("host", json!("shop.test,other.test")), "INVALID_ARGUMENT"),
        (with("host", json!("user@shop.test")), "INVALID_ARGUMENT"),
        (with("host", json!("")), "INVALID_ARGUMENT"),
        (with("host", json!("shop.test\r\nX-A: b")), "INVALID_ARGUMENT"),
        (with("scheme", json!("")), "INVALID_ARGUMENT"),
        (with("scheme", json!("gopher")), "INVALID_ARGUMENT"),
        (with("path", json!("")), "INVALID_ARGUMENT"),
        (with("path", json!("http://other.test/")), "INVALID_ARGUMENT"),
        (with("path", json!("/a HTTP/1.1\r\nHost: other.test\r\n\r\n")), "400"),
        (with("method", json!("GET /b")), "400"),
        (fields(&[["X-A", "b\r\nX-HTTP-Method-Override: POST"]]), "INVALID_ARGUMENT"),
        (fields(&[["X-A\r\nX-B", "c"]]), "INVALID_ARGUMENT"),
        (fields(&[["X-Original-URL", "/private"]]), "400"),
        (fields(&[["X-HTTP-Method-Override", "POST"]]), "400"),
        (fields(&[["Host", "other.test"]]), "200"),
    ];
    let questions = cases.each_ref().map(|(question, _)| question.clone());
    for (answer, (question, expected)) in ask_all(grpc, &questions).iter().zip(&cases) {
        let given = answer["code"].as_str().map_or(answer["status"].to_string(), str::to_owned);
        assert_eq!(given, *expected, "{question}: {answer}");
    }
    let recorded = gated.proxy.admin_get("/v1/decisions?via=gateway&crawler=news").json();
    assert_eq!(recorded["decisions"].as_array().map(Vec::len), Some(1), "{recorded}");
    drop(gated.proxy.kill());
    assert_eq!(ask_all(grpc, &[allowed])[0]["code"], "UNAVAILABLE");
}
