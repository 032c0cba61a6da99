//! Signed requests, verified by independent libraries as origins would, and published keys.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::crawler::crawler;
use crate::harness::origin::ReceivedRequest;
use crate::harness::origin::reply::Step;
use crate::harness::tls::Authority;
use crate::harness::tools::{self, clean, node_modules, output_of, program, project, python};
use crate::harness::wayleave::{Settings, command};
use crate::harness::{Origin, Reply, Request, Wayleave, eventually};

const LIMIT: Duration = Duration::from_secs(60);
const TAG: &str = "web-bot-auth";
const DIRECTORY: &str = "/.well-known/http-message-signatures-directory";

/// A proxy whose crawler `news` has a key made by `wayleave keys new`.
pub struct Signing {
    pub origin: Origin,
    pub proxy: Wayleave,
    keys_dir: TempDir,
}

/// Runs `wayleave keys`, which must succeed.
pub fn keys(dir: &Path, arguments: &[&str]) -> String {
    let mut keys = command();
    keys.arg("keys").args(arguments).current_dir(dir);
    output_of(&mut keys, b"", LIMIT)
}

pub fn start(mode: &str, change: impl FnOnce(Settings) -> Settings) -> Signing {
    let dir = tempfile::tempdir().expect("a directory");
    keys(dir.path(), &["new", "news"]);
    let key = dir.path().join("keys/news.pem").display().to_string();
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        let settings = settings
            .set("signing.mode", &format!("{mode:?}"))
            .set("signing.agent", "\"https://bot.test\"");
        change(settings).with(crawler("news", "NewsBot").set("signing_key", key))
    });
    Signing { origin, proxy, keys_dir: dir }
}

impl Signing {
    fn pages(&self) -> Vec<Arc<ReceivedRequest>> {
        let mut requests = self.origin.requests();
        requests.retain(|request| request.target != "/robots.txt");
        requests
    }

    fn counted(&self, result: &str) -> u64 {
        self.proxy.metric("wayleave_signatures_total", &[("result", result)]) as u64
    }

    /// Returns the path of the crawler's key.
    pub(super) fn key_path(&self) -> String {
        self.keys_dir.path().join("keys/news.pem").display().to_string()
    }

    /// Verifies a request with the library and the keys that the proxy publishes.
    pub(super) fn verify(&self, request: &ReceivedRequest, url: &str) -> String {
        run_verifier(&json!({
            "method": request.method,
            "url": url,
            "headers": request.headers,
            "keys": self.proxy.admin_get(DIRECTORY).json(),
            "tag": TAG,
        }))
    }
}

pub fn run_verifier(input: &Value) -> String {
    let mut verifier = clean(python());
    verifier.arg(project().join("tests/clients/verify_signatures.py"));
    output_of(&mut verifier, input.to_string().as_bytes(), LIMIT)
}

/// Verifies each request with Cloudflare's library. Returns the thumbprints of their keys, or errors.
pub fn web_bot_auth(requests: &[(&ReceivedRequest, &str)], keys: &Value) -> Vec<String> {
    let as_json = |(request, url): &(&ReceivedRequest, &str)| json!({ "method": request.method, "url": url, "headers": request.headers });
    let requests: Vec<_> = requests.iter().map(as_json).collect();
    let mut verifier = clean(program("node"));
    verifier.arg(project().join("tests/clients/verify_web_bot_auth.cjs"));
    verifier.env("NODE_PATH", node_modules());
    let input = json!({ "requests": requests, "keys": keys });
    let printed = output_of(&mut verifier, input.to_string().as_bytes(), LIMIT);
    printed.lines().map(str::to_owned).collect()
}

fn get(url: &str) -> Request {
    Request::get(url).agent("NewsBot/1.0")
}

#[track_caller]
fn expect_verified(verified: &str, label: &str) {
    assert!(verified.starts_with(label), "{verified}");
    for component in ["@method", "@authority", "@path", "signature-agent"] {
        assert!(verified.contains(component), "{component}: {verified}");
    }
}

#[test]
fn an_origin_can_verify_a_signed_request() {
    let signing = start("always", |settings| settings);
    let url = "http://shop.test/a?b=c";
    assert_eq!(signing.proxy.exchange(&get(url)).status, 200);
    let request = &signing.pages()[0];
    let agent = request.header("signature-agent");
    assert_eq!(agent, Some("sig1=\"https://bot.test\""));
    expect_verified(&signing.verify(request, url), "sig1");
    let elsewhere = signing.verify(request, "http://other.test/a?b=c");
    assert!(elsewhere.starts_with("invalid:"), "{elsewhere}");
    assert_eq!(signing.proxy.exchange(&get(url)).status, 200);
    let again = signing.pages();
    assert_ne!(
        request.header("signature"),
        again[1].header("signature"),
        "no signature is sent twice"
    );
    signing.proxy.get_as("OtherBot/1.0", "http://shop.test/b");
    let other = &signing.pages()[2];
    assert_eq!(other.header("signature"), None);
    assert_eq!(signing.counted("signed"), 2);
    let decisions = signing.proxy.admin_get("/v1/decisions").text();
    assert_eq!(decisions.matches("\"signature\":\"signed\"").count(), 2, "{decisions}");
}

#[test]
fn robots_txt_for_a_signed_request_is_fetched_signed() {
    let signing = start("always", |settings| settings);
    for scheme in ["http", "https"] {
        let page = format!("{scheme}://{scheme}.test/a");
        assert_eq!(signing.proxy.exchange(&get(&page)).status, 200);
        let robots = signing.origin.requests();
        let mut robots = robots.iter().filter(|request| request.target == "/robots.txt");
        let robots = robots.next_back().expect("robots.txt was fetched");
        let url = format!("{scheme}://{scheme}.test/robots.txt");
        expect_verified(&signing.verify(robots, &url), "sig1");
    }
    let other = Request::get("http://other.test/a").agent("OtherBot/1.0");
    assert_eq!(signing.proxy.exchange(&other).status, 200);
    let seen = signing.origin.requests();
    let mut others = seen.iter().filter(|request| request.host() == "other.test");
    assert!(others.all(|request| request.header("signature").is_none()));
}

#[test]
fn content_and_http2_are_signed_alike() {
    let signing = start("always", |settings| settings.set("signing.form", "\"string\""));
    let url = "https://shop.test/post";
    let post = Request::new("POST", url).agent("NewsBot/1.0").body("content");
    assert_eq!(signing.proxy.exchange(&post).status, 200);
    let http2 = signing.proxy.http2("shop.test:443");
    assert_eq!(http2.exchange(&get("https://shop.test/http2")).status, 200);
    let requests = signing.pages();
    let versions: Vec<_> = requests.iter().map(|request| request.version).collect();
    assert_eq!(versions, ["HTTP/1.1", "HTTP/2"]);
    for (request, url) in requests.iter().zip([url, "https://shop.test/http2"]) {
        let agent = request.header("signature-agent");
        assert_eq!(agent, Some("\"https://bot.test\""), "one string");
        expect_verified(&signing.verify(request, url), "sig1");
    }
}

#[test]
fn an_origin_that_requests_a_signature_gets_one() {
    let signing = start("on-request", |settings| settings);
    let form =
        "requested=(\"@authority\" \"user-agent\");created;nonce=\"once\";tag=\"web-bot-auth\"";
    let reply = Reply::new(403).header("Accept-Signature", form);
    signing.origin.site("shop.test").unsigned(reply.body("who are you?"));
    let url = "http://shop.test/a";
    assert_eq!(signing.proxy.exchange(&get(url)).status, 200);
    let requests = signing.pages();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].header("signature"), None);
    let verified = signing.verify(&requests[1], url);
    expect_verified(&verified, "requested");
    assert!(verified.contains("user-agent"), "{verified}");
    let input = requests[1].header("signature-input").unwrap_or_default();
    assert!(input.contains("nonce=\"once\""), "{input}");
    // Later requests are signed at once.
    assert_eq!(signing.proxy.exchange(&get(url)).status, 200);
    let requests = signing.pages();
    assert_eq!(requests.len(), 3);
    expect_verified(&signing.verify(&requests[2], url), "requested");
    let input = requests[2].header("signature-input").unwrap_or_default();
    assert!(!input.contains("nonce=\"once\""), "{input}");
    assert_eq!((signing.counted("asked"), signing.counted("signed")), (1, 2));
}

#[test]
fn a_signed_request_is_repeated_once_if_more_is_to_be_signed() {
    let signing = start("always", |settings| settings);
    let form = "more=(\"@authority\" \"user-agent\");created;tag=\"web-bot-auth\"";
    let reply = Reply::new(403).header("Accept-Signature", form);
    signing.origin.site("shop.test").page("/a", reply.clone()).robots_reply(reply);
    let url = "http://shop.test/a";
    let covers_user_agent = |request: &ReceivedRequest| {
        request.header("signature-input").is_some_and(|input| input.contains("user-agent"))
    };
    assert_eq!(signing.proxy.exchange(&get(url)).status, 403);
    let of_all = signing.origin.requests();
    let covered: Vec<_> = of_all.iter().map(|it| (&*it.target, covers_user_agent(it))).collect();
    // What was asked for at robots.txt is remembered for pages.
    assert_eq!(covered, [("/robots.txt", false), ("/robots.txt", true), ("/a", true)]);
    expect_verified(&signing.verify(&signing.pages()[0], url), "more");
    // The same signature again would get the same answer.
    assert_eq!(signing.proxy.exchange(&get(url)).status, 403);
    assert_eq!(signing.pages().len(), 2);
    signing.origin.site("page.test").page("/a", Reply::new(403).header("Accept-Signature", form));
    assert_eq!(signing.proxy.exchange(&get("http://page.test/a")).status, 403);
    let pages = signing.pages();
    let covered: Vec<_> = pages[2..].iter().map(|it| covers_user_agent(it)).collect();
    assert_eq!(covered, [false, true]);
}

#[test]
fn a_request_without_an_answer_is_recorded_without_its_agent() {
    let signing = start("always", |settings| settings);
    signing.origin.site("gone.test").page("/a", Reply::nothing(Step::Close));
    let url = "http://gone.test/a";
    assert_eq!(signing.proxy.exchange(&get(url)).status, 502);
    let decision = signing.proxy.newest_decision(url);
    assert_eq!(decision["outcome"], "failed", "{decision}");
    assert_eq!((&decision["signature"], &decision["agent"]), (&Value::Null, &Value::Null));
}

#[test]
fn a_robots_txt_that_needs_a_signature_is_fetched_with_one() {
    let signing = start("on-request", |settings| settings);
    let form = "requested=(\"@authority\");created;nonce=\"once\";tag=\"web-bot-auth\"";
    let reply = Reply::new(403).header("Accept-Signature", form);
    let site = signing.origin.site("shop.test");
    site.disallows("/private").unsigned_robots(reply.body("who are you?"));
    let refused = signing.proxy.exchange(&get("http://shop.test/private"));
    assert_eq!(refused.json()["reason"], "rule", "the signed fetch decides");
    let requests = signing.origin.requests();
    assert_eq!(requests.len(), 2, "{:?}", signing.origin.seen());
    assert_eq!(requests[0].header("signature"), None);
    let url = "http://shop.test/robots.txt";
    expect_verified(&signing.verify(&requests[1], url), "requested");
    let input = requests[1].header("signature-input").unwrap_or_default();
    assert!(input.contains("nonce=\"once\""), "{input}");
    // Without a key none is signed: 403 means that there is no robots.txt (RFC 9309 section 2.3.1.3), to the proxy and to a client
    // without a [[crawler]].
    let reply = Reply::new(403).header("Accept-Signature", form);
    signing.origin.site("other.test").unsigned_robots(reply);
    let other = Request::get("http://other.test/a").agent("OtherBot/1.0");
    assert_eq!(signing.proxy.exchange(&other).status, 200);
    let seen = signing.origin.seen();
    let robots = seen.iter().filter(|line| line.contains("other.test/robots.txt"));
    assert_eq!(robots.count(), 2, "{seen:?}");
    // Who asks for the file gets the copy that decides about its own requests.
    let file = Request::get("http://other.test/robots.txt").agent("OtherBot/1.0");
    assert_eq!(signing.proxy.exchange(&file).status, 403);
    assert_eq!(signing.proxy.exchange(&get("http://other.test/robots.txt")).status, 404);
    let file = signing.proxy.exchange(&get(url));
    assert_eq!((file.status, &*file.text()), (200, "User-agent: *\nDisallow: /private\n"));
}

#[test]
fn no_request_is_sent_twice_if_unsafe_or_not_signable() {
    let signing = start("on-request", |settings| settings);
    let reply = |form: &str| Reply::new(401).header("Accept-Signature", form);
    signing.origin.site("shop.test").unsigned(reply("sig1=()"));
    let post = Request::new("POST", "http://shop.test/a").agent("NewsBot/1.0").body("content");
    assert_eq!(signing.proxy.exchange(&post).status, 401);
    for (host, form) in [
        ("digest.test", "sig1=(\"content-digest\")"),
        ("key.test", "sig1=();keyid=\"another\""),
        ("rsa.test", "sig1=();alg=\"rsa-pss-sha512\""),
    ] {
        signing.origin.site(host).unsigned(reply(form));
        let answer = signing.proxy.exchange(&get(&format!("http://{host}/a")));
        assert_eq!(answer.status, 401, "{host}");
    }
    assert_eq!(signing.pages().len(), 4);
    assert_eq!((signing.counted("asked"), signing.counted("signed")), (0, 0));
    assert_eq!(signing.counted("unanswerable"), 2);
}

#[test]
fn clients_may_sign_for_their_own_agent_only() {
    let signing = start("always", |settings| settings);
    let with = |agent: &str| {
        get("http://shop.test/a")
            .header("Signature-Agent", agent)
            .header("Signature-Input", "sig1=(\"@method\" \"signature-agent\";key=\"sig1\")")
            .header("Signature", "sig1=:AAAA:")
    };
    signing.proxy.exchange(&with("sig1=\"https://bot.test\""));
    signing.proxy.exchange(&with("sig1=\"https://other.test\""));
    let requests = signing.pages();
    let field = |index: usize, name: &str| requests[index].header(name).unwrap_or_default();
    assert_eq!(field(0, "signature-agent"), "sig1=\"https://bot.test\", sig2=\"https://bot.test\"");
    let input = field(0, "signature-input");
    assert!(input.starts_with("sig1=(\"@method\" \"signature-agent\";key=\"sig1\"), sig2=("));
    assert!(field(0, "signature").starts_with("sig1=:AAAA:, sig2=:"));
    assert_eq!(field(1, "signature-agent"), "sig1=\"https://bot.test\"");
    assert!(!field(1, "signature").contains("AAAA"));
    expect_verified(&signing.verify(&requests[1], "http://shop.test/a"), "sig1");
    assert_eq!(signing.counted("foreign"), 1);
}

#[test]
fn a_tunnel_is_logged_as_not_signed() {
    let signing = start("always", |settings| settings.set("https.bypass", "[\"shop.test\"]"));
    let mut wire = signing.proxy.connect();
    wire.send_connect("shop.test:443", "User-Agent: NewsBot/1\r\n");
    assert_eq!(wire.response_head().status, 200);
    let _secured = wire
        .start_tls("shop.test", Authority::trusted().pem.as_ref(), &[])
        .expect("TLS with the origin");
    let decisions = signing.proxy.admin_get("/v1/decisions").text();
    assert!(decisions.contains("\"signature\":\"tunnel\""), "{decisions}");
    assert_eq!(signing.counted("tunnel"), 1);
}

#[test]
fn keys_are_published_with_a_proof_of_possession() {
    let signing = start("off", |settings| settings);
    let directory = signing.proxy.admin_get(DIRECTORY);
    assert_eq!(directory.status, 200);
    let kind = directory.header("content-type");
    assert_eq!(kind, Some("application/http-message-signatures-directory+json"));
    let verified = run_verifier(&json!({
        "method": "GET",
        "url": format!("https://bot.test{DIRECTORY}"),
        "status": 200,
        "headers": directory.headers,
        "keys": directory.json(),
        "tag": "http-message-signatures-directory",
    }));
    assert!(verified.starts_with("binding"), "{verified}");
    assert!(verified.contains("content-digest"), "{verified}");
    let card = signing.proxy.admin_get("/.well-known/signature-agent-card/news").json();
    assert_eq!(card["web_bot_auth"]["rfc9309-product-token"], "NewsBot");
    assert_eq!(card["web_bot_auth"]["rfc9309-compliance"], true);
    assert_eq!(card["jwks_uri"], format!("https://bot.test{DIRECTORY}"));
    let unknown = "/.well-known/signature-agent-card/unknown";
    assert_eq!(signing.proxy.admin_get(unknown).status, 404);
    // Nothing is signed while that is off.
    signing.proxy.exchange(&get("http://shop.test/a"));
    assert_eq!(signing.pages()[0].header("signature"), None);
}

#[test]
fn keys_are_made_listed_and_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = "[signing]\nmode = \"always\"\nagent = \"https://bot.test\"\n[[crawler]]\nname = \"news\"\n\
        tokens = [\"NewsBot\"]\nsigning_key = \"keys/old.pem\"\n";
    fs::write(dir.path().join("config.toml"), config).expect("writable");
    let made = keys(dir.path(), &["new", "old"]);
    assert!(made.contains("signing_key = \"keys/old.pem\""), "{made}");
    keys(dir.path(), &["new", "young"]);
    let nowhere = run(dir.path(), &["keys", "--config", "no.toml", "new", "old"]);
    assert!(nowhere.contains("reading no.toml: No such file"), "{nowhere}");
    let listed = keys(dir.path(), &["list"]);
    let lines: Vec<_> = listed.lines().collect();
    assert_eq!(lines.len(), 2, "{listed}");
    assert!(lines[0].contains("  https://bot.test  "), "{listed}");
    assert!(lines[0].contains("  news  ") && lines[0].ends_with("keys/old.pem"));
    assert!(lines[1].contains("  -  ") && lines[1].ends_with("keys/young.pem"));
    let as_json = keys(dir.path(), &["list", "--json"]);
    let as_json: Value = serde_json::from_str(&as_json).expect("JSON");
    assert_eq!(as_json[0]["crawlers"], json!(["news"]));
    assert!(lines[0].starts_with(as_json[0]["thumbprint"].as_str().expect("text")));
    assert_eq!(as_json[1]["crawlers"], json!([]));
    let directory: Value = serde_json::from_str(&keys(dir.path(), &["directory"])).expect("JSON");
    assert_eq!(directory["keys"].as_array().map(Vec::len), Some(2));
    assert!(listed.contains(directory["keys"][1]["kid"].as_str().expect("a thumbprint")));
    let written = keys(dir.path(), &["directory", "--out", "public"]);
    assert_eq!(written.lines().count(), 3, "{written}");
    let file = fs::read_to_string(dir.path().join(format!("public{DIRECTORY}")));
    assert_eq!(serde_json::from_str::<Value>(&file.expect("written")).expect("JSON"), directory);
    let again = run(dir.path(), &["keys", "new", "old"]);
    assert!(again.contains("keys/old.pem already exists; choose another name"), "{again}");
    let key = dir.path().join("keys/old.pem");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("ours");
    let exposed = run(dir.path(), &["config", "check"]);
    let place = "config.toml:7: [[crawler]] 1.signing_key: other users can read";
    assert!(exposed.contains(place), "{exposed}");
}

#[test]
fn published_files_are_below_one_folder() {
    let dir = tempfile::tempdir().expect("a directory");
    keys(dir.path(), &["new", "news"]);
    let signing = "[signing]\nmode = \"always\"\nagent = \"https://bot.test\"\n";
    let news = crawler("news", "NewsBot")
        .set("signing_key", "keys/news.pem")
        .set("source_address", "127.0.0.7");
    let config = signing.to_owned() + &news.into_toml();
    fs::write(dir.path().join("config.toml"), config).expect("writable");
    let mut publish = command();
    publish.args(["publish", "--out", "public"]).current_dir(dir.path());
    let printed = output_of(&mut publish, b"", LIMIT);
    assert_eq!(printed.lines().count(), 5, "{printed}");
    for file in printed.lines() {
        assert!(dir.path().join(file).is_file(), "{file}");
    }
    let read = |path: &str| fs::read(dir.path().join("public").join(path)).expect("written");
    let ranges: Value = serde_json::from_slice(&read("ips.json")).expect("JSON");
    assert_eq!(ranges["prefixes"][0]["ipv4Prefix"], "127.0.0.7/32");
    let body: Value = serde_json::from_slice(&read(&DIRECTORY[1..])).expect("JSON");
    let fields = String::from_utf8(read(&format!("{}.headers", &DIRECTORY[1..]))).expect("text");
    let fields = fields.lines().filter_map(|line| line.split_once(": "));
    let verified = run_verifier(&json!({
        "method": "GET",
        "url": format!("https://bot.test{DIRECTORY}"),
        "status": 200,
        "headers": fields.collect::<Vec<_>>(),
        "keys": body,
        "tag": "http-message-signatures-directory",
    }));
    assert!(verified.starts_with("binding"), "{verified}");
    fs::write(dir.path().join("empty.toml"), "").expect("writable");
    let nobody = run(dir.path(), &["publish", "--config", "empty.toml", "--out", "nothing"]);
    assert!(nobody.contains("there is no [[crawler]]"), "{nobody}");
}

/// Runs a command that ends with 2. Returns its standard error.
pub fn run(dir: &Path, arguments: &[&str]) -> String {
    let output = tools::run(command().args(arguments).current_dir(dir), b"", LIMIT);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn background_fetches_are_signed_as_the_last_awaited_one() {
    let signing = start("on-request", |settings| settings.set("robots.max_age", "\"2s\""));
    let form = "requested=(\"@authority\");created;tag=\"web-bot-auth\"";
    let site = signing.origin.site("shop.test");
    site.disallows("/private").unsigned_robots(Reply::new(403).header("Accept-Signature", form));
    let url = "http://shop.test/private";
    let expect_refused = || {
        let refused = signing.proxy.exchange(&get(url));
        assert_eq!(refused.json()["reason"], "rule", "{refused:?}");
    };
    expect_refused();
    // The first unsigned; all others, also those in the background, signed.
    let fetches = || signing.origin.requests();
    eventually("it is fetched again and again", || {
        expect_refused();
        fetches().len() >= 5
    });
    let again = fetches();
    assert!(again.iter().all(|request| request.target == "/robots.txt"));
    let unsigned = again.iter().filter(|request| request.header("signature").is_none());
    assert_eq!(unsigned.count(), 1);
    // A fetch that an operator requests is signed as those before it.
    let forced = signing.proxy.admin_request("POST", "/v1/robots/http%3A%2F%2Fshop.test/refresh");
    assert_eq!(forced.status, 200, "{forced:?}");
    expect_refused();
    assert!(fetches().iter().skip(1).all(|fetch| fetch.header("signature").is_some()));
}

#[test]
fn an_unsigned_refetch_allows_signers_nothing_new() {
    let signing = start("on-request", |settings| settings);
    let form = "requested=(\"@authority\");created;tag=\"web-bot-auth\"";
    let site = || signing.origin.site("shop.test");
    site().disallows("/private");
    let url = "http://shop.test/private";
    let by = |agent: &str| signing.proxy.get_as(agent, url);
    // A crawler without a key causes the fetch.
    assert_eq!(by("OtherBot/1.0").json()["reason"], "rule");
    site().unsigned_robots(Reply::new(403).header("Accept-Signature", form));
    let refresh = "/v1/robots/http%3A%2F%2Fshop.test/refresh";
    assert_eq!(signing.proxy.admin_request("POST", refresh).status, 200);
    assert_eq!(signing.origin.seen().len(), 2, "it was fetched");
    assert_eq!(signing.origin.requests()[1].header("signature"), None);
    for agent in ["NewsBot/1.0", "OtherBot/1.0"] {
        assert_eq!(by(agent).json()["reason"], "rule", "the rules that the signed fetch brought");
    }
    assert_eq!(signing.pages().len(), 0);
}

/// Adds a site that serves its robots.txt, which disallows `/private`, only for signatures.
fn add_signed_site(origin: &Origin) {
    let form = "requested=(\"@authority\");created;tag=\"web-bot-auth\"";
    let site = origin.site("shop.test");
    site.disallows("/private").unsigned_robots(Reply::new(401).header("Accept-Signature", form));
}

#[test]
fn signing_crawlers_ignore_copies_fetched_for_others() {
    let signing = start("on-request", |settings| settings);
    add_signed_site(&signing.origin);
    let by = |agent: &str| signing.proxy.get_as(agent, "http://shop.test/private");
    // For those without a key there is no robots.txt (RFC 9309 section 2.3.1.3): neither for the proxy nor for this client.
    assert_eq!(by("OtherBot/1.0").status, 200);
    assert_eq!(by("OtherBot/1.0").status, 200);
    assert_eq!(by("NewsBot/1.0").json()["reason"], "rule");
    assert_eq!(signing.pages().len(), 2);
    assert_eq!(by("OtherBot/1.0").json()["reason"], "rule", "the rules are known now");
    let fetches = signing.origin.requests().len() - 2;
    assert_eq!(fetches, 4, "by the proxy, for the client, unsigned, and signed");

    // While the signed fetch fails, signing crawlers are refused, and no request repeats the fetch.
    let forget = "/v1/robots/http%3A%2F%2Fshop.test";
    assert!(signing.proxy.admin_request("DELETE", forget).status < 300);
    assert_eq!(by("OtherBot/1.0").status, 200);
    signing.origin.site("shop.test").robots_reply(Reply::new(503));
    let before = signing.origin.requests().len();
    for _ in 0..3 {
        assert_eq!(by("NewsBot/1.0").json()["reason"], "unreachable");
    }
    assert_eq!(by("OtherBot/1.0").status, 200);
    let fetches = signing.origin.requests().len() - before - 1;
    assert_eq!(fetches, 1, "once, and signed at once");
}

#[test]
fn a_reload_that_turns_signing_on_applies_to_robots_txt() {
    let signing = start("off", |settings| settings);
    let reload = |lifetime: &str| {
        let settings = signing.proxy.settings.clone().set("signing.mode", "\"on-request\"");
        signing.proxy.reload(&settings.set("signing.lifetime", &format!("{lifetime:?}")));
    };
    add_signed_site(&signing.origin);
    let private = || signing.proxy.exchange(&get("http://shop.test/private"));
    reload("60s");
    assert_eq!(private().json()["reason"], "rule");
    // This reload replaces the identities, but it is still the crawler that fetched the file.
    reload("61s");
    let refresh = "/v1/robots/http%3A%2F%2Fshop.test/refresh";
    assert_eq!(signing.proxy.admin_request("POST", refresh).status, 200);
    let requests = signing.origin.requests();
    let last = requests.last().expect("a fetch");
    assert!(last.header("signature").is_some(), "{last:?}");
    assert_eq!(private().json()["reason"], "rule", "the known rules still apply");
    let other = Request::get("http://shop.test/private").agent("OtherBot/1.0");
    assert_eq!(signing.proxy.exchange(&other).json()["reason"], "rule");
    assert_eq!(signing.pages().len(), 0);
}

#[test]
fn a_second_library_verifies_the_string_form() {
    let signing = start("on-request", |settings| settings.set("signing.form", "\"string\""));
    let form = "sig1=(\"@authority\");created;tag=\"web-bot-auth\"";
    for host in ["old.test", "new.test"] {
        let reply = Reply::new(401).header("Accept-Signature", form);
        signing.origin.site(host).unsigned(reply);
    }
    signing.origin.site("old.test").http1_only();
    signing.origin.site("new.test").http2_only();
    for host in ["old.test", "new.test"] {
        // The first request is repeated with a signature; the second, with content, is signed at once.
        let url = format!("https://{host}/a?b=c");
        assert_eq!(signing.proxy.exchange(&get(&url)).status, 200);
        let post = Request::new("POST", &url).agent("NewsBot/1.0").body("content");
        assert_eq!(signing.proxy.exchange(&post).status, 200);
    }
    let mut pages = signing.pages();
    pages.retain(|request| request.header("signature").is_some());
    let signed: Vec<_> = pages.iter().map(|page| (page.version, &*page.method)).collect();
    let expected =
        [("HTTP/1.1", "GET"), ("HTTP/1.1", "POST"), ("HTTP/2", "GET"), ("HTTP/2", "POST")];
    assert_eq!(signed, expected);
    let urls = [["https://old.test/a?b=c"; 2], ["https://new.test/a?b=c"; 2]].concat();
    let requests: Vec<_> = pages.iter().map(|page| &**page).zip(urls).collect();
    let keys = signing.proxy.admin_get(DIRECTORY).json();
    let kid = keys["keys"][0]["kid"].as_str().expect("a thumbprint");
    assert_eq!(web_bot_auth(&requests, &keys), [kid; 4]);
    // Another host, another path, another key.
    let elsewhere = [(&*pages[0], "https://other.test/a?b=c"), (&*pages[0], "https://old.test/b")];
    let errors = web_bot_auth(&elsewhere, &keys);
    assert!(errors.iter().all(|line| line.starts_with("not verified: ")), "{errors:?}");
    let errors = web_bot_auth(&requests[..1], &json!({ "keys": [] }));
    assert_eq!(errors, ["not verified: unknown key"]);
}

#[test]
fn a_key_is_replaced_while_both_are_published() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        keys(&settings.dir, &["new", "old"]);
        settings
            .set("signing.mode", "\"always\"")
            .set("signing.agent", "\"https://bot.test\"")
            .with(crawler("news", "NewsBot").set("signing_key", "keys/old.pem"))
    });
    let dir = proxy.dir.path();
    let published = || -> BTreeSet<String> {
        let keys = proxy.admin_get(DIRECTORY).json();
        let keys = keys["keys"].as_array().expect("a list").clone();
        keys.iter().map(|key| key["kid"].as_str().expect("a thumbprint").to_owned()).collect()
    };
    let reload = || assert_eq!(proxy.admin_request("POST", "/v1/reload").status, 200);
    let signer = |path: &str| {
        let url = format!("http://shop.test{path}");
        assert_eq!(proxy.exchange(&get(&url)).status, 200);
        let requests = origin.requests();
        let request = requests.iter().find(|request| request.target == path);
        let input =
            request.and_then(|request| request.header("signature-input")).unwrap_or_default();
        let (_, id) = input.split_once("keyid=\"").expect("it is signed");
        id.split_once('"').expect("a closing quote").0.to_owned()
    };
    let old = signer("/1");
    assert_eq!(published(), BTreeSet::from([old.clone()]));
    // A key is published before it signs.
    keys(dir, &["new", "young"]);
    reload();
    let both = published();
    assert!(both.len() == 2 && both.contains(&old), "{both:?}");
    assert_eq!(signer("/2"), old);
    let file = dir.join("config.toml");
    let text = fs::read_to_string(&file).expect("readable");
    fs::write(&file, text.replace("keys/old.pem", "keys/young.pem")).expect("writable");
    reload();
    // Signatures by the old key are still verified.
    assert_eq!(published(), both);
    let young = signer("/3");
    assert!(young != old && both.contains(&young));
    fs::remove_file(dir.join("keys/old.pem")).expect("it is there");
    reload();
    assert_eq!((published(), signer("/4")), (BTreeSet::from([young.clone()]), young));
}
