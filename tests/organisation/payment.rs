//! Demands for payment reach the client as the origin sent them, are recorded with their price, and are never met.

use std::collections::HashMap;
use std::io::Write as _;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::signing;
use crate::harness::crawler::crawler;
use crate::harness::tools::project;
use crate::harness::wayleave::command;
use crate::harness::{Origin, Reply, Request, Wayleave, eventually};
use crate::preferences::licence;

/// A response, and the members of the decision about it.
#[derive(Deserialize)]
struct Case {
    id: String,
    status: u16,
    headers: Vec<(String, String)>,
    #[serde(default)]
    body: String,
    /// The content of `PAYMENT-REQUIRED`, before Base64.
    payment_required: Option<Value>,
    coding: Option<String>,
    /// `null`: the response asks for no payment.
    expect: Option<Value>,
    because: String,
}

impl Case {
    fn body(&self) -> Vec<u8> {
        if self.coding.is_none() {
            return self.body.clone().into_bytes();
        }
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(self.body.as_bytes()).expect("memory can be written");
        gzip.finish().expect("memory can be written")
    }

    fn reply(&self) -> Reply {
        let mut reply = Reply::new(self.status).body(self.body());
        for (name, value) in &self.headers {
            reply = reply.header(name, value);
        }
        if let Some(required) = &self.payment_required {
            let encoded = BASE64_STANDARD.encode(required.to_string());
            reply = reply.header("PAYMENT-REQUIRED", &encoded);
        }
        match &self.coding {
            Some(coding) => reply.header("Content-Encoding", coding),
            None => reply,
        }
    }

    fn url(&self) -> String {
        format!("http://site.test/{}", self.id)
    }
}

fn cases() -> Vec<Case> {
    let file = project().join("tests/data/payments.jsonl");
    let text = std::fs::read_to_string(file).expect("it is there");
    text.lines().map(|line| serde_json::from_str(line).expect("a case")).collect()
}

/// Returns the newest decision about each URL.
fn decisions(proxy: &Wayleave) -> HashMap<String, Value> {
    let listed = proxy.admin_get("/v1/decisions?limit=8192").json();
    let decisions = listed["decisions"].as_array().expect("a list").clone();
    let by_url = decisions.into_iter().rev();
    by_url.map(|it| (it["url"].as_str().expect("a URL").to_owned(), it)).collect()
}

#[test]
fn every_demand_is_recorded_and_passed_on() {
    let cases = cases();
    assert!(cases.len() >= 40, "{}", cases.len());
    let origin = Origin::start();
    for case in &cases {
        origin.site("site.test").page(&format!("/{}", case.id), case.reply());
    }
    let proxy = Wayleave::start(&origin);
    for case in &cases {
        let answer = proxy.get(&case.url());
        assert_eq!((answer.status, answer.body), (case.status, case.body()), "{}", case.id);
        assert_eq!(origin.count_gets(&case.url()), 1, "{}: it is asked once", case.id);
    }
    eventually("all are recorded", || decisions(&proxy).len() == cases.len());
    let decisions = decisions(&proxy);
    for Case { id, expect, because, .. } in &cases {
        let decision = &decisions[&format!("http://site.test/{id}")];
        assert_eq!(decision["outcome"], "forwarded", "{id}");
        let is_payment = expect.is_some();
        assert_eq!(decision["edge"] == "payment", is_payment, "{id}: {because}");
        assert_eq!(decision["reason"] == "payment", is_payment, "{id}: {because}");
        for member in ["scheme", "price", "currency"] {
            let expected = expect.as_ref().and_then(|expect| expect.get(member));
            assert_eq!(decision.get(member), expected, "{id}: {member}: {because}");
        }
    }
}

/// Returns the directory of a proxy that was asked for payment nine times.
fn priced_crawl() -> TempDir {
    let origin = Origin::start();
    let priced = |price| Reply::new(402).header("crawler-price", price);
    let usdc = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
    let x402 = |amount: &str, asset: &str| {
        let required = json!({"x402Version": 2, "accepts": [{"amount": amount, "asset": asset}]});
        let encoded = BASE64_STANDARD.encode(required.to_string());
        Reply::new(402).header("PAYMENT-REQUIRED", &encoded)
    };
    origin
        .site("shop.test")
        .page("/a", priced("USD 0.10"))
        .page("/b", priced("USD 0.2"))
        .page("/c", priced("EUR 1"))
        .page("/d", x402("10000", usdc))
        .page("/e", x402("7", "0xabc"))
        .page("/f", Reply::new(402))
        .page("/g", Reply::new(401).header("WWW-Authenticate", "License"));
    let proxy = Wayleave::start_with(&origin, |settings| settings.crawler("news", "NewsBot"));
    for path in ["a", "b", "a", "c", "d", "d", "e", "f", "g", "h"] {
        proxy.get_as("NewsBot/1", &format!("http://shop.test/{path}"));
    }
    proxy.stop().0
}

fn report(dir: &TempDir, arguments: &[&str]) -> String {
    let mut command = command();
    command.arg("report").args(arguments).arg("--config").arg(dir.path().join("config.toml"));
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_report_adds_up_what_would_have_been_paid() {
    let dir = priced_crawl();
    let json: Value = serde_json::from_str(&report(&dir, &["--json"])).expect("JSON");
    let rows = json["payments"].as_array().expect("a list").iter();
    let rows: Vec<_> = rows
        .map(|row| {
            assert_eq!((&row["crawler"], &row["host"]), (&json!("news"), &json!("shop.test")));
            json!([row["scheme"], row["currency"], row["would_have_cost"], row["count"]])
        })
        .collect();
    let expected = [
        json!(["cloudflare", "USD", "0.40", 3]),
        json!(["x402", "USDC", "0.02", 2]),
        json!([null, null, null, 1]),
        json!(["cloudflare", "EUR", "1", 1]),
        json!(["rsl", null, null, 1]),
        json!(["x402", "0xabc", "7", 1]),
    ];
    assert_eq!(rows, expected);
    let table = report(&dir, &["--limit", "0"]);
    for expected in [
        "Asked for payment, which was not made: 9",
        "0.40 USD (cloudflare)",
        "0.02 USDC (x402)",
        "7 of the smallest unit of 0xabc (x402)",
        "not stated (rsl)",
    ] {
        assert!(table.contains(expected), "{expected} in {table}");
    }
}

#[test]
fn costs_are_summed_up_by_crawler_and_host() {
    let dir = priced_crawl();
    let costs = json!([
        { "amount": "7", "currency": "0xabc" },
        { "amount": "1", "currency": "EUR" },
        { "amount": "0.40", "currency": "USD" },
        { "amount": "0.02", "currency": "USDC" },
    ]);
    let sum = "7 of the smallest unit of 0xabc, 1 EUR, 0.40 USD, 0.02 USDC";
    for by in ["crawler", "host"] {
        let json: Value =
            serde_json::from_str(&report(&dir, &["--by", by, "--json"])).expect("JSON");
        assert_eq!(json[format!("by_{by}")][0]["would_have_cost"], costs, "{by}");
        for (format, expected) in [
            ("text", sum.to_owned()),
            ("md", format!("| {sum} |")),
            ("html", format!("<td>{sum}</td>")),
            ("csv", format!(",\"{sum}\",0.000000,0.000000\r\n")),
        ] {
            let written = report(&dir, &["--by", by, "--format", format]);
            assert!(written.contains("would have cost") || format == "csv", "{written}");
            assert!(written.contains(&expected), "{expected} in {written}");
        }
    }
    let reasons = report(&dir, &["--by", "reason"]);
    assert!(!reasons.contains("would have cost"), "{reasons}");
}

#[test]
fn the_price_of_a_licence_is_recorded_and_never_paid() {
    let origin = Origin::start();
    let amount = "<amount currency=\"usd\"> 0.015 </amount>";
    let purchase = format!("<payment type=\"purchase\">{amount}</payment>");
    for (name, terms, price) in [
        ("priced", purchase.as_str(), Some("0.015")),
        ("unpriced", "<payment type=\"purchase\"/>", None),
        ("strange", "<payment type=\"purchase\"><amount>much</amount></payment>", None),
        // What is prohibited is not for sale.
        ("closed", &format!("<prohibits type=\"usage\">all</prohibits>{purchase}"), None),
        ("free", "<permits type=\"usage\">all</permits><payment type=\"free\"/>", None),
    ] {
        let host = format!("{name}.test");
        let site = origin.site(&host).robots(format!("License: http://{host}/licence\n"));
        site.page("/licence", licence(terms));
        let proxy = Wayleave::start_with(&origin, |settings| {
            settings.with(crawler("news", "NewsBot").purposes(["train-ai"]))
        });
        let url = format!("http://{host}/a");
        let status = proxy.get_as("NewsBot/1", &url).status;
        assert_eq!(status, if name == "free" { 200 } else { 403 }, "{name}");
        eventually("it is recorded", || decisions(&proxy).contains_key(&url));
        let decision = &decisions(&proxy)[&url];
        let found = ["scheme", "price", "currency"].map(|member| decision[member].as_str());
        let expected = price.map_or([None; 3], |price| [Some("rsl"), Some(price), Some("USD")]);
        assert_eq!(found, expected, "{name}: {decision}");
        assert_eq!(origin.count_gets(&url), usize::from(name == "free"));
    }
}

#[test]
fn a_price_that_the_client_promises_is_signed() {
    let signing = signing::start("always", |settings| settings);
    for (field, price) in [("crawler-exact-price", "USD 0.01"), ("crawler-max-price", "USD 0.05")] {
        let url = format!("http://shop.test/{field}");
        let request = Request::get(&url).agent("NewsBot/1.0").header(field, price);
        assert_eq!(signing.proxy.exchange(&request).status, 200);
        let received = signing.origin.wait_for_target(&format!("/{field}"));
        assert_eq!(received.header(field), Some(price));
        let verified = signing.verify(&received, &url);
        assert!(verified.starts_with("sig1") && verified.contains(field), "{verified}");
    }
    // wayleave promises nothing by itself.
    assert_eq!(signing.proxy.get_as("NewsBot/1.0", "http://shop.test/plain").status, 200);
    let plain = signing.origin.wait_for_target("/plain");
    let input = plain.header("signature-input").unwrap_or_default();
    assert!(!input.contains("price"), "{input}");
}
