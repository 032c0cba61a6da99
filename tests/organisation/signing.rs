//! Signed requests, verified at the origin by an independent library; and the keys that are published.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::origin::ReceivedRequest;
use crate::harness::tools::{self, clean, node_modules, output_of, program, project, python};
use crate::harness::wayleave::{Settings, command};
use crate::harness::{Origin, Reply, Request, Wayleave, eventually};

const LIMIT: Duration = Duration::from_secs(60);
const TAG: &str = "web-bot-auth";
const DIRECTORY: &str = "/.well-known/http-message-signatures-directory";

/// A proxy whose crawler `news` has a key that `wayleave keys new` made.
struct Signing {
    origin: Origin,
    proxy: Wayleave,
    _keys: TempDir,
}

fn keys(dir: &Path, arguments: &[&str]) -> String {
    let mut keys = command();
    keys.arg("keys").args(arguments).current_dir(dir);
    output_of(&mut keys, b"", LIMIT)
}

fn start(mode: &str, change: impl FnOnce(Settings) -> Settings) -> Signing {
    let dir = tempfile::tempdir().expect("a directory");
    keys(dir.path(), &["new", "news"]);
    let crawler = format!(
        "[[crawler]]
name = \"news\"
tokens = [\"NewsBot\"]
match = {{ user_agent = \"NewsBot\" }}
signing_key = {:?}
",
        dir.path().join("keys/news.pem")
    );
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        let settings = settings
            .set("signing.mode", &format!("{mode:?}"))
            .set("signing.agent", "\"https://bot.test\"");
        change(settings).table(&crawler)
    });
    Signing { origin, proxy, _keys: dir }
}

impl Signing {
    fn pages(&self) -> Vec<Arc<ReceivedRequest>> {
        let mut requests = self.origin.requests();
        requests.retain(|request| request.target != "/robots.txt");
        requests
    }

    fn counted(&self, result: &str) -> u64 {
        let value = self.proxy.metric("wayleave_signatures_total", &[("result", result)]);
        value as u64
    }

    /// Verifies a request with the library and the keys that the proxy publishes.
    fn verify(&self, request: &ReceivedRequest, url: &str) -> String {
        run_verifier(&json!({
            "method": request.method,
            "url": url,
            "headers": request.headers,
            "keys": self.proxy.admin_get(DIRECTORY).json(),
            "tag": TAG,
        }))
    }
}

fn run_verifier(ask: &Value) -> String {
    let mut verifier = clean(python());
    verifier.arg(project().join("tests/clients/verify_signatures.py"));
    output_of(&mut verifier, ask.to_string().as_bytes(), LIMIT)
}

/// Verifies each request with Cloudflare's library: the thumbprint of its key, or an error.
fn web_bot_auth(requests: &[(&ReceivedRequest, &str)], keys: &Value) -> Vec<String> {
    let one = |(request, url): &(&ReceivedRequest, &str)| json!({ "method": request.method, "url": url, "headers": request.headers });
    let requests: Vec<_> = requests.iter().map(one).collect();
    let mut verifier = clean(program("node"));
    verifier.arg(project().join("tests/clients/verify_web_bot_auth.cjs"));
    verifier.env("NODE_PATH", node_modules());
    let ask = json!({ "requests": requests, "keys": keys });
    let said = output_of(&mut verifier, ask.to_string().as_bytes(), LIMIT);
    said.lines().map(str::to_owned).collect()
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
fn an_origin_can_verify_who_asks() {
    let signing = start("always", |settings| settings);
    let url = "http://shop.test/a?b=c";
    assert_eq!(signing.proxy.exchange(&get(url)).status, 200);
    let request = &signing.pages()[0];
    let agent = request.header("signature-agent");
    assert_eq!(agent, Some("sig1=\"https://bot.test\""));
    expect_verified(&signing.verify(request, url), "sig1");
    let elsewhere = signing.verify(request, "http://other.test/a?b=c");
    assert!(elsewhere.starts_with("invalid:"), "{elsewhere}");
    let id = signing.proxy.exchange(&get(url));
    assert_eq!(id.status, 200);
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
        let robots = robots.next_back().expect("robots.txt was asked for");
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
fn who_asks_for_a_signature_gets_one() {
    let signing = start("on-request", |settings| settings);
    let wish = "wanted=(\"@authority\" \"user-agent\");created;nonce=\"once\";tag=\"web-bot-auth\"";
    let asks = Reply::new(403).header("Accept-Signature", wish);
    signing.origin.site("shop.test").unsigned(asks.body("who are you?"));
    let url = "http://shop.test/a";
    assert_eq!(signing.proxy.exchange(&get(url)).status, 200);
    let requests = signing.pages();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].header("signature"), None);
    let verified = signing.verify(&requests[1], url);
    expect_verified(&verified, "wanted");
    assert!(verified.contains("user-agent"), "{verified}");
    let input = requests[1].header("signature-input").unwrap_or_default();
    assert!(input.contains("nonce=\"once\""), "{input}");
    // From now on it need not ask.
    assert_eq!(signing.proxy.exchange(&get(url)).status, 200);
    let requests = signing.pages();
    assert_eq!(requests.len(), 3);
    expect_verified(&signing.verify(&requests[2], url), "wanted");
    let input = requests[2].header("signature-input").unwrap_or_default();
    assert!(!input.contains("nonce=\"once\""), "{input}");
    assert_eq!((signing.counted("asked"), signing.counted("signed")), (1, 2));
}

#[test]
fn a_robots_txt_that_asks_for_a_signature_is_fetched_with_one() {
    let signing = start("on-request", |settings| settings);
    let wish = "wanted=(\"@authority\");created;nonce=\"once\";tag=\"web-bot-auth\"";
    let asks = Reply::new(403).header("Accept-Signature", wish);
    let site = signing.origin.site("shop.test");
    site.robots("User-agent: *\nDisallow: /private\n").unsigned_robots(asks.body("who are you?"));
    let refused = signing.proxy.exchange(&get("http://shop.test/private"));
    assert_eq!(refused.json()["reason"], "rule", "what was signed counts");
    let requests = signing.origin.requests();
    assert_eq!(requests.len(), 2, "{:?}", signing.origin.seen());
    assert_eq!(requests[0].header("signature"), None);
    let url = "http://shop.test/robots.txt";
    expect_verified(&signing.verify(&requests[1], url), "wanted");
    let input = requests[1].header("signature-input").unwrap_or_default();
    assert!(input.contains("nonce=\"once\""), "{input}");
    // Crawlers without a key are not sent again, and 403 means that there is no robots.txt (RFC 9309 section 2.3.1.3).
    let asks = Reply::new(403).header("Accept-Signature", wish);
    signing.origin.site("other.test").unsigned_robots(asks);
    let other = Request::get("http://other.test/a").agent("OtherBot/1.0");
    assert_eq!(signing.proxy.exchange(&other).status, 200);
    let seen = signing.origin.seen();
    let robots = seen.iter().filter(|line| line.contains("other.test/robots.txt"));
    assert_eq!(robots.count(), 1, "{seen:?}");
}

#[test]
fn what_may_not_be_sent_twice_or_cannot_be_signed_is_not() {
    let signing = start("on-request", |settings| settings);
    let asks = |wish: &str| Reply::new(401).header("Accept-Signature", wish);
    signing.origin.site("shop.test").unsigned(asks("sig1=()"));
    let post = Request::new("POST", "http://shop.test/a").agent("NewsBot/1.0").body("content");
    assert_eq!(signing.proxy.exchange(&post).status, 401);
    for (host, wish) in [
        ("digest.test", "sig1=(\"content-digest\")"),
        ("key.test", "sig1=();keyid=\"another\""),
        ("rsa.test", "sig1=();alg=\"rsa-pss-sha512\""),
    ] {
        signing.origin.site(host).unsigned(asks(wish));
        let answer = signing.proxy.exchange(&get(&format!("http://{host}/a")));
        assert_eq!(answer.status, 401, "{host}");
    }
    assert_eq!(signing.pages().len(), 4);
    assert_eq!((signing.counted("asked"), signing.counted("signed")), (0, 0));
    assert_eq!(signing.counted("unanswerable"), 2);
}

#[test]
fn clients_sign_for_themselves_but_for_nobody_else() {
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
fn a_tunnel_cannot_be_signed_and_the_log_says_so() {
    let signing = start("always", |settings| settings.set("https.bypass", "[\"shop.test\"]"));
    let mut wire = signing.proxy.connect();
    wire.send(
        "CONNECT shop.test:443 HTTP/1.1\r\nHost: shop.test:443\r\nUser-Agent: NewsBot/1\r\n\r\n",
    );
    assert_eq!(wire.response_head().status, 200);
    let wire =
        wire.start_tls("shop.test", crate::harness::tls::Authority::trusted().pem.as_ref(), &[]);
    let _secured = wire.expect("TLS with the origin");
    let decisions = signing.proxy.admin_get("/v1/decisions").text();
    assert!(decisions.contains("\"signature\":\"tunnel\""), "{decisions}");
    assert_eq!(signing.counted("tunnel"), 1);
}

#[test]
fn the_keys_are_published_and_prove_themselves() {
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
    let nobody = "/.well-known/signature-agent-card/nobody";
    assert_eq!(signing.proxy.admin_get(nobody).status, 404);
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
    assert!(again.contains("keys/old.pem exists already; choose another name"), "{again}");
    let key = dir.path().join("keys/old.pem");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("ours");
    let exposed = run(dir.path(), &["config", "check"]);
    let place = "config.toml:7: [[crawler]] 1.signing_key: other users can read";
    assert!(exposed.contains(place), "{exposed}");
}

/// Standard error of a command that ends with 2.
fn run(dir: &Path, arguments: &[&str]) -> String {
    let output = tools::run(command().args(arguments).current_dir(dir), b"", LIMIT);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn background_fetches_are_signed_as_the_last_one_waited_for() {
    let signing = start("on-request", |settings| settings.set("robots.max_age", "\"2s\""));
    let wish = "wanted=(\"@authority\");created;tag=\"web-bot-auth\"";
    let site = signing.origin.site("shop.test");
    site.robots("User-agent: *\nDisallow: /private\n")
        .unsigned_robots(Reply::new(403).header("Accept-Signature", wish));
    let url = "http://shop.test/private";
    let expect_refused = || {
        let refused = signing.proxy.exchange(&get(url));
        assert_eq!(refused.json()["reason"], "rule", "{refused:?}");
    };
    expect_refused();
    // One without a signature and one with: those who ask; then only such with.
    let fetches = || signing.origin.requests();
    eventually("it is fetched again and again", || {
        expect_refused();
        fetches().len() >= 5
    });
    let again = fetches();
    assert!(again.iter().all(|request| request.target == "/robots.txt"));
    let unsigned = again.iter().filter(|it| it.header("signature").is_none());
    assert_eq!(unsigned.count(), 1);
    // An operator's fetch is as those before it.
    let forced = signing.proxy.admin_request("POST", "/v1/robots/http%3A%2F%2Fshop.test/refresh");
    assert_eq!(forced.status, 200, "{forced:?}");
    expect_refused();
    assert!(fetches().iter().skip(1).all(|it| it.header("signature").is_some()));
}

#[test]
fn an_unsigned_fetch_that_nobody_waits_for_allows_nothing_new() {
    let signing = start("on-request", |settings| settings);
    let wish = "wanted=(\"@authority\");created;tag=\"web-bot-auth\"";
    let site = || signing.origin.site("shop.test");
    site().robots("User-agent: *\nDisallow: /private\n");
    let url = "http://shop.test/private";
    let by = |agent: &str| signing.proxy.get_as(agent, url);
    // One without a key causes the fetch.
    assert_eq!(by("OtherBot/1.0").json()["reason"], "rule");
    site().unsigned_robots(Reply::new(403).header("Accept-Signature", wish));
    let refresh = "/v1/robots/http%3A%2F%2Fshop.test/refresh";
    assert_eq!(signing.proxy.admin_request("POST", refresh).status, 200);
    assert_eq!(signing.origin.seen().len(), 2, "it was fetched");
    assert_eq!(signing.origin.requests()[1].header("signature"), None);
    for agent in ["OtherBot/1.0", "NewsBot/1.0"] {
        assert_eq!(by(agent).json()["reason"], "rule", "what is known goes on");
    }
    assert_eq!(signing.pages().len(), 0);
}

/// A site whose robots.txt is for those who sign, and disallows `/private`.
fn asks_to_sign(origin: &Origin) {
    let wish = "wanted=(\"@authority\");created;tag=\"web-bot-auth\"";
    let site = origin.site("shop.test");
    site.robots("User-agent: *\nDisallow: /private\n")
        .unsigned_robots(Reply::new(401).header("Accept-Signature", wish));
}

#[test]
fn signing_crawlers_ignore_copies_fetched_for_others() {
    let signing = start("on-request", |settings| settings);
    asks_to_sign(&signing.origin);
    let by = |agent: &str| {
        let ask = Request::get("http://shop.test/private").agent(agent);
        signing.proxy.exchange(&ask)
    };
    // For crawlers without a key there is no robots.txt (RFC 9309 section 2.3.1.3).
    assert_eq!(by("OtherBot/1.0").status, 200);
    assert_eq!(by("OtherBot/1.0").status, 200);
    assert_eq!(by("NewsBot/1.0").json()["reason"], "rule");
    assert_eq!(signing.pages().len(), 2);
    assert_eq!(by("OtherBot/1.0").json()["reason"], "rule", "it is known now");
    let fetches = signing.origin.requests().len() - 2;
    assert_eq!(fetches, 3, "without a signature, the same again, and with one");

    // While the signed fetch fails, they are refused, and it is not sent at each request.
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
    assert_eq!(fetches, 1, "with a signature, as is known by now: once");
}

#[test]
fn a_reload_that_turns_signing_on_applies_to_robots_txt() {
    let mut base = None;
    let signing = start("off", |settings| {
        base = Some(settings.clone());
        settings
    });
    let crawler = fs::read_to_string(signing.proxy.dir.path().join("config.toml"));
    let crawler = crawler.expect("it was written");
    let (_, crawler) = crawler.split_once("[[crawler]]").expect("there is one");
    let crawler = format!("[[crawler]]{crawler}");
    let base = base.expect("it was started with settings");
    let reload = |mode: &str, lifetime: &str| {
        let settings = base.clone().set("signing.mode", &format!("{mode:?}"));
        let settings = settings.set("signing.lifetime", &format!("{lifetime:?}"));
        let file = signing.proxy.dir.path().join("config.toml");
        fs::write(file, settings.table(&crawler).to_toml()).expect("it can be written");
        let answer = signing.proxy.admin_request("POST", "/v1/reload");
        assert_eq!(answer.status, 200, "{answer:?}");
    };
    asks_to_sign(&signing.origin);
    let private = || signing.proxy.exchange(&get("http://shop.test/private"));
    reload("on-request", "60s");
    assert_eq!(private().json()["reason"], "rule");
    // From here on nobody knows for whom it was fetched.
    reload("on-request", "61s");
    let refresh = "/v1/robots/http%3A%2F%2Fshop.test/refresh";
    assert_eq!(signing.proxy.admin_request("POST", refresh).status, 200);
    let by_nobody = signing.origin.requests();
    assert_eq!(by_nobody.last().and_then(|it| it.header("signature")), None);
    assert_eq!(private().json()["reason"], "rule", "what is known goes on");
    let other = Request::get("http://shop.test/private").agent("OtherBot/1.0");
    assert_eq!(signing.proxy.exchange(&other).json()["reason"], "rule");
    assert_eq!(signing.pages().len(), 0);
}

#[test]
fn a_second_library_verifies_the_string_form() {
    let signing = start("on-request", |settings| settings.set("signing.form", "\"string\""));
    let wish = "sig1=(\"@authority\");created;tag=\"web-bot-auth\"";
    for host in ["old.test", "new.test"] {
        let asks = Reply::new(401).header("Accept-Signature", wish);
        signing.origin.site(host).unsigned(asks);
    }
    signing.origin.site("old.test").http1_only();
    signing.origin.site("new.test").http2_only();
    for host in ["old.test", "new.test"] {
        // Asked for once, and sent again with it; then at once, with content, too.
        let url = format!("https://{host}/a?b=c");
        assert_eq!(signing.proxy.exchange(&get(&url)).status, 200);
        let post = Request::new("POST", &url).agent("NewsBot/1.0").body("content");
        assert_eq!(signing.proxy.exchange(&post).status, 200);
    }
    let mut pages = signing.pages();
    pages.retain(|request| request.header("signature").is_some());
    let said: Vec<_> = pages.iter().map(|it| (it.version, &*it.method)).collect();
    let expected =
        [("HTTP/1.1", "GET"), ("HTTP/1.1", "POST"), ("HTTP/2", "GET"), ("HTTP/2", "POST")];
    assert_eq!(said, expected);
    let urls = [["https://old.test/a?b=c"; 2], ["https://new.test/a?b=c"; 2]].concat();
    let asked: Vec<_> = pages.iter().map(|it| &**it).zip(urls).collect();
    let keys = signing.proxy.admin_get(DIRECTORY).json();
    let kid = keys["keys"][0]["kid"].as_str().expect("a thumbprint");
    assert_eq!(web_bot_auth(&asked, &keys), [kid; 4]);
    // Another place, another method, another key.
    let elsewhere = [(&*pages[0], "https://other.test/a?b=c"), (&*pages[0], "https://old.test/b")];
    let said = web_bot_auth(&elsewhere, &keys);
    assert!(said.iter().all(|line| line.starts_with("not verified: ")), "{said:?}");
    let said = web_bot_auth(&asked[..1], &json!({ "keys": [] }));
    assert_eq!(said, ["not verified: unknown key"]);
}

#[test]
fn keys_change_hands_while_both_are_published() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        // The folder of keys is beside the configuration.
        let file = settings.to_toml();
        let state = file.lines().find_map(|line| line.strip_prefix("state.dir = \""));
        let state = Path::new(state.expect("it is set").trim_end_matches('"'));
        let beside = state.parent().expect("it is in a directory");
        keys(beside, &["new", "old"]);
        settings
            .set("signing.mode", "\"always\"")
            .set("signing.agent", "\"https://bot.test\"")
            .table("[[crawler]]\nname = \"news\"\ntokens = [\"NewsBot\"]\nmatch = { user_agent = \"NewsBot\" }\nsigning_key = \"keys/old.pem\"\n")
    });
    let here = proxy.dir.path();
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
        let input = request.and_then(|it| it.header("signature-input")).unwrap_or_default();
        let (_, id) = input.split_once("keyid=\"").expect("it is signed");
        id.split_once('"').expect("it ends").0.to_owned()
    };
    let old = signer("/1");
    assert_eq!(published(), BTreeSet::from([old.clone()]));
    // Known before it signs.
    keys(here, &["new", "young"]);
    reload();
    let both = published();
    assert!(both.len() == 2 && both.contains(&old), "{both:?}");
    assert_eq!(signer("/2"), old);
    let file = here.join("config.toml");
    let text = fs::read_to_string(&file).expect("readable");
    fs::write(&file, text.replace("keys/old.pem", "keys/young.pem")).expect("writable");
    reload();
    // Signatures by the old key are still verified.
    assert_eq!(published(), both);
    let young = signer("/3");
    assert!(young != old && both.contains(&young));
    fs::remove_file(here.join("keys/old.pem")).expect("it is there");
    reload();
    assert_eq!((published(), signer("/4")), (BTreeSet::from([young.clone()]), young));
}
