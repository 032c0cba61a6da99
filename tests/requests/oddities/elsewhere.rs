//! The same bytes, read by curl, Chromium and Go's client without a proxy, as proxy/http-wire/README.md describes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;

use super::cases::{CUT_OFF, REFUSED, REPAIRED};
use crate::clients::env::build_go;
use crate::harness::origin::reply::Step;
use crate::harness::tools::{clean, node_modules, output_of, program, project, run};
use crate::harness::{Origin, Reply, Request, Wayleave};

const LIMIT: Duration = Duration::from_secs(540);

/// A response, how its connection ends, and the body that wayleave forwards, if it does.
struct Case {
    name: &'static str,
    bytes: String,
    end: Step,
    body: Option<&'static str>,
}

fn cases() -> Vec<Case> {
    let case =
        |name, bytes: &str, body| Case { name, bytes: bytes.to_owned(), end: Step::Close, body };
    let repaired = REPAIRED.iter().map(|row| case(row.name, row.bytes, Some(row.body)));
    let refused = REFUSED.iter().map(|(name, bytes)| case(name, bytes, None));
    let cut_off = CUT_OFF.iter().map(|(name, chunks)| {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        case(name, &format!("{head}{chunks}"), None)
    });
    let mut all: Vec<_> = repaired.chain(refused).chain(cut_off).collect();
    let cut = |name, fields: &str, body| Case {
        name,
        bytes: format!("HTTP/1.1 200 OK\r\n{fields}\r\nhello"),
        end: Step::Cut,
        body,
    };
    all.push(cut("incomplete-close", "", Some("hello")));
    all.push(cut("incomplete-close-before-the-length", "Content-Length: 50\r\n", None));
    all
}

/// A client's results by URL: status and body, or none if it failed.
type Answers = BTreeMap<String, Option<(u64, String)>>;

fn answers(lines: &str) -> Answers {
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let answer = |line: Value| {
        let answer = line["status"].as_u64().zip(line["body"].as_str());
        let answer = answer.map(|(status, body)| (status, body.to_owned()));
        (line["url"].as_str().expect("a URL").to_owned(), answer)
    };
    lines.map(answer).collect()
}

fn by_curl(address: SocketAddr, urls: &[String]) -> Answers {
    let answer = |url: &String| {
        let mut curl = clean(program("curl"));
        curl.args(["-q", "-sS", "-k", "--http1.1", "-w", "\n%{http_code}"]).args([
            "--connect-to",
            &format!("::{address}"),
            url,
        ]);
        let output = run(&mut curl, b"", LIMIT);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (body, status) = text.rsplit_once('\n').expect("a line for the status");
        let status = status.parse().expect("a status");
        let answer = output.status.success().then(|| (status, body.to_owned()));
        (url.clone(), answer)
    };
    urls.iter().map(answer).collect()
}

fn by_go(address: SocketAddr, urls: &[String]) -> Answers {
    let binary = build_go(&project().join("tests/clients/answers.go"));
    answers(&output_of(
        clean(binary).env("ADDRESS", address.to_string()),
        urls.join("\n").as_bytes(),
        LIMIT,
    ))
}

fn by_chromium(address: SocketAddr, urls: &[String]) -> Answers {
    let mut node = clean(program("node"));
    node.arg(project().join("tests/clients/answers.cjs"))
        .env("NODE_PATH", node_modules())
        .env("ADDRESS", address.to_string())
        .env("CHROMIUM", program("chromium-headless-shell"));
    answers(&output_of(&mut node, urls.join("\n").as_bytes(), LIMIT))
}

/// Returns how a client read a case, as in the table of proxy/http-wire/README.md.
fn reading(case: &Case, answer: Option<&(u64, String)>) -> &'static str {
    match (answer, case.body) {
        (None, _) => "refused",
        (Some((_, body)), Some(expected)) if body == expected => "taken",
        (Some(_), Some(_)) => "read differently",
        (Some(_), None) => "taken",
    }
}

#[test]
fn other_clients_read_the_same_bytes_as_documented() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let cases = cases();
    for case in &cases {
        let reply = Reply::raw(&case.bytes, case.end.clone());
        let path = format!("/{}", case.name);
        origin.site("old.test").http1_only().page(&path, reply);
    }
    let url = |case: &Case| format!("https://old.test/{}", case.name);
    let urls: Vec<_> = cases.iter().map(url).collect();
    let clients = [
        by_curl(origin.https, &urls),
        by_chromium(origin.https, &urls),
        by_go(origin.https, &urls),
    ];
    let mut table = String::new();
    for (case, url) in cases.iter().zip(&urls) {
        let mut wire = proxy.tunnel("old.test:443");
        wire.send(Request::get(url).origin_form());
        let answer = wire.try_response(false).ok().flatten();
        let answer = answer.filter(|answer| answer.header("proxy-status").is_none());
        let ours = answer.map(|answer| (answer.status.into(), answer.text()));
        let theirs = clients.iter().map(|answers| reading(case, answers[url].as_ref()));
        let readings: Vec<_> =
            std::iter::once(reading(case, ours.as_ref())).chain(theirs).collect();
        let expected = if case.body.is_some() { "taken" } else { "refused" };
        assert_eq!(readings[0], expected, "{}", case.name);
        table += &format!("| {} | {} |\n", case.name, readings.join(" | "));
    }
    let text =
        std::fs::read_to_string(project().join("proxy/http-wire/README.md")).expect("it is there");
    assert!(text.contains(&table), "proxy/http-wire/README.md should say:\n{table}");
}
