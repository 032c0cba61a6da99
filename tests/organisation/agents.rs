//! Each crawler signs under the name of its agent: judged at origins, by two libraries and by a verifier of
//! draft-ietf-webbotauth-httpsig-protocol-01.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::signing::{keys, run, run_verifier, web_bot_auth};
use crate::harness::client::Wire;
use crate::harness::crawler::{Crawler, crawler};
use crate::harness::origin::ReceivedRequest;
use crate::harness::response::Response;
use crate::harness::tools::{clean, output_of, project, python, status_and_output};
use crate::harness::wayleave::{Settings, command};
use crate::harness::{Origin, Reply, Request, Wayleave};

const LIMIT: Duration = Duration::from_secs(600);
const WELL_KNOWN: &str = "/.well-known/http-message-signatures-directory";

/// Crawlers as name and token, each with the URL of its agent: two have the one of `[signing]`, two share a host.
pub(super) const CRAWLERS: [(&str, &str, &str); 5] = [
    ("news", "NewsBot", "https://bot.test/search"),
    ("shop", "ShopBot", "https://bot.test/search"),
    ("model", "ModelBot", "https://bot.test/training"),
    ("corpus", "CorpusBot", "https://bot.test/training"),
    ("lab", "LabBot", "https://lab.test/keys.json"),
];
pub(super) const AGENTS: [&str; 3] =
    ["https://bot.test/search", "https://bot.test/training", "https://lab.test/keys.json"];

/// Returns the folder of an agent's keys.
pub(super) fn keys_folder(agent: &str) -> String {
    match agent {
        "https://bot.test/search" => "keys".to_owned(),
        other => other.replacen("https://", "keys/", 1),
    }
}

/// Creates the keys of [`CRAWLERS`], and returns the tables.
pub(super) fn tables(dir: &Path) -> Vec<Crawler> {
    fs::write(
        dir.join("config.toml"),
        "[signing]\ndiscovery = \"uri\"\nagent = \"https://bot.test/search\"\n",
    )
    .expect("writable");
    let table = |(name, token, agent): (&str, &str, &str)| {
        let config = ["--config", "config.toml", "new", name, "--agent", agent];
        let made = keys(dir, &config);
        let path = format!("{}/{name}.pem", keys_folder(agent));
        assert!(made.contains(&format!("signing_key = \"{path}\"")), "{made}");
        let purpose = if token == "NewsBot" || token == "ShopBot" { "search" } else { "train-ai" };
        let table = crawler(name, token).purposes([purpose]).set("signing_key", path);
        if agent == AGENTS[0] { table } else { table.set("agent", agent) }
    };
    CRAWLERS.into_iter().map(table).collect()
}

pub(super) fn start(origin: &Origin, change: impl FnOnce(Settings) -> Settings) -> Wayleave {
    Wayleave::start_with(origin, |settings| {
        let crawlers = tables(&settings.dir);
        let settings = settings
            .set("signing.mode", "\"always\"")
            .set("signing.discovery", "\"uri\"")
            .set("signing.agent", "\"https://bot.test/search\"")
            .with_all(crawlers);
        change(settings)
    })
}

/// Fetches a path of the admin listener by a public name.
pub(super) fn published(proxy: &Wayleave, url: &str) -> Response {
    let (host, path) = url
        .trim_start_matches("https://")
        .split_at(url.trim_start_matches("https://").find('/').expect("a path"));
    let mut wire = Wire::connect(proxy.admin);
    wire.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
    wire.response()
}

/// Returns the answers of the agents' URLs, as verifiers see them.
pub(super) fn sets(proxy: &Wayleave, agents: &[&str]) -> Value {
    let answer = |url: &&str| {
        let answer = published(proxy, url);
        ((*url).to_owned(), json!({ "status": answer.status, "body": answer.text() }))
    };
    Value::Object(agents.iter().map(answer).collect())
}

pub(super) fn key_ids(set: &Value) -> BTreeSet<String> {
    let set: Value = serde_json::from_str(set["body"].as_str().expect("a body")).expect("JSON");
    let keys = set["keys"].as_array().expect("keys").iter();
    keys.map(|key| key["kid"].as_str().expect("a thumbprint").to_owned()).collect()
}

pub(super) fn as_json(request: &ReceivedRequest) -> Value {
    let url = format!("{}://{}{}", request.scheme, request.host(), request.target);
    json!({ "method": request.method, "url": url, "headers": request.headers })
}

pub(super) fn protocol_01(mode: &str, question: &Value) -> Vec<String> {
    let mut verifier = clean(python());
    verifier.arg(project().join("tests/clients/protocol_01.py")).arg(mode);
    let printed = output_of(&mut verifier, question.to_string().as_bytes(), LIMIT);
    printed.lines().map(str::to_owned).collect()
}

fn get(token: &str, url: &str) -> Request {
    Request::get(url).agent(&format!("{token}/1.0"))
}

#[test]
fn a_key_among_those_of_another_agent_causes_a_warning() {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("config.toml"), "").expect("writable");
    keys(dir.path(), &["--config", "config.toml", "new", "lab"]);
    let text = "[signing]\nagent = \"https://bot.test\"\n[[crawler]]\nname = \"lab\"\ntokens = [\"LabBot\"]\n\
        agent = \"https://lab.test\"\nsigning_key = \"keys/lab.pem\"\n";
    fs::write(dir.path().join("config.toml"), text).expect("writable");
    let mut check = command();
    check.args(["--config", "config.toml", "config", "check"]).current_dir(dir.path());
    let (status, output) = status_and_output(&mut check);
    assert_eq!(status, Some(0), "{output}");
    assert!(
        output.contains(
            "config.toml:7: [[crawler]] 1.signing_key: signing.agent publishes every key"
        ),
        "{output}"
    );
    let folder = dir.path().join("keys/lab.test");
    assert!(output.contains(&format!("move it to {}", folder.display())), "{output}");
}

#[test]
fn each_crawler_signs_for_its_own_agent() {
    let origin = Origin::start();
    let proxy = start(&origin, |settings| settings);
    let listed = proxy.admin_get("/v1/crawlers").json();
    for (crawler, (name, _, agent)) in
        listed["crawlers"].as_array().expect("crawlers").iter().zip(CRAWLERS)
    {
        assert_eq!((&crawler["name"], &crawler["agent"]), (&json!(name), &json!(agent)));
    }
    for scheme in ["http", "https"] {
        for (_, token, _) in CRAWLERS {
            let host = token.to_ascii_lowercase();
            let answer = proxy.exchange(&get(token, &format!("{scheme}://{host}.test/a?b=c")));
            assert_eq!(answer.status, 200, "{answer:?}");
        }
    }
    let requests = origin.requests();
    // At each of two origins a page, robots.txt and, for those that train, tdmrep.json: fetched as the crawler.
    let robots = requests.iter().filter(|request| request.target == "/robots.txt");
    assert_eq!(robots.count(), 2 * CRAWLERS.len(), "{:?}", origin.seen());
    assert_eq!(requests.len(), 4 * CRAWLERS.len() + 6, "{:?}", origin.seen());
    let question = json!({
        "requests": requests.iter().map(|request| as_json(request)).collect::<Vec<_>>(),
        "sets": sets(&proxy, &AGENTS),
    });
    let verdicts = protocol_01("verify", &question);
    for (request, verdict) in requests.iter().zip(&verdicts) {
        let sender = request.header("user-agent").expect("it has one");
        let [(_, _, agent)] =
            CRAWLERS.iter().filter(|it| sender.contains(it.1)).collect::<Vec<_>>()[..]
        else {
            panic!("{sender}")
        };
        assert!(verdict.starts_with(&format!("verified {agent} ")), "{sender}: {verdict}");
        assert_eq!(request.header("signature-agent"), Some(&*format!("sig1=\"{agent}\"")));
        let verified = run_verifier(&json!({
            "method": request.method,
            "url": as_json(request)["url"],
            "headers": request.headers,
            "keys": serde_json::from_str::<Value>(question["sets"][agent]["body"].as_str().expect("a body")).expect("JSON"),
            "tag": "web-bot-auth",
        }));
        assert!(verified.starts_with("sig1 "), "{sender}: {verified}");
    }
}

#[test]
fn forty_wrong_signatures_are_refused_by_all() {
    let origin = Origin::start();
    // The newest release of Cloudflare's library knows the string form alone.
    let proxy = start(&origin, |settings| settings);
    let url = "https://shop.test/a?b=c";
    assert_eq!(proxy.exchange(&get("NewsBot", url)).status, 200);
    let page = origin.requests().into_iter().find(|it| it.target == "/a?b=c").expect("it came");
    let mut request = as_json(&page);
    request["sets"] = sets(&proxy, &AGENTS);
    let pem = |name: &str, agent: &str| {
        let file = proxy.dir.path().join(keys_folder(agent)).join(format!("{name}.pem"));
        fs::read_to_string(file).expect("readable")
    };
    let own_keys: BTreeMap<_, _> = [("news", AGENTS[0]), ("model", AGENTS[1]), ("lab", AGENTS[2])]
        .map(|(name, agent)| (agent, pem(name, agent)))
        .into();
    let wrong: Vec<Value> = protocol_01("forge", &json!({ "request": request, "keys": own_keys }))
        .iter()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert!(wrong.len() >= 40, "{}", wrong.len());
    let requests: Vec<_> = wrong.iter().map(|wrong| wrong["request"].clone()).collect();
    let verdicts = protocol_01("verify", &json!({ "requests": requests, "tls_only": true }));
    assert_eq!(verdicts.len(), wrong.len());
    for (wrong, verdict) in wrong.iter().zip(&verdicts) {
        let name = &wrong["name"];
        assert!(verdict.starts_with("refused: "), "{name}: {verdict}");
        // What only the profile forbids is right for a library that knows the RFC alone.
        let expected = if wrong["profile_only"] == true { "verified" } else { "refused" };
        assert_eq!(wrong["library"], expected, "{name}");
    }
    let right = protocol_01("verify", &json!({ "requests": [request], "tls_only": true }));
    assert!(right[0].starts_with("verified https://bot.test/search "), "{right:?}");
}

#[test]
fn cloudflares_library_tells_agents_apart_by_keys() {
    let origin = Origin::start();
    let proxy = start(&origin, |settings| settings.set("signing.form", "\"string\""));
    let urls =
        CRAWLERS.map(|(_, token, _)| format!("https://{}.test/a", token.to_ascii_lowercase()));
    for ((_, token, _), url) in CRAWLERS.iter().zip(&urls) {
        assert_eq!(proxy.exchange(&get(token, url)).status, 200);
    }
    let mut pages = origin.requests();
    pages.retain(|request| request.target == "/a");
    let sets = sets(&proxy, &AGENTS);
    for ((_, token, agent), (page, url)) in CRAWLERS.iter().zip(pages.iter().zip(&urls)) {
        assert_eq!(page.header("signature-agent"), Some(&*format!("\"{agent}\"")), "one string");
        for other in AGENTS {
            let set = serde_json::from_str(sets[other]["body"].as_str().expect("a body"));
            let found = web_bot_auth(&[(page, url)], &set.expect("JSON"));
            let is_own = key_ids(&sets[other]).contains(&found[0]);
            assert_eq!(is_own, other == *agent, "{token} at {other}: {found:?}");
            assert!(is_own || found == ["not verified: unknown key"], "{found:?}");
        }
    }
}

#[test]
fn origins_of_several_agents_have_a_directory_each() {
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        keys(&settings.dir, &["new", "news"]);
        keys(&settings.dir, &["new", "model", "--agent", "https://training.bot.test"]);
        let model = crawler("model", "ModelBot")
            .set("agent", "https://training.bot.test")
            .set("signing_key", "keys/training.bot.test/model.pem")
            .set("contact", "model@bot.test");
        settings
            .set("signing.mode", "\"always\"")
            .set("signing.agent", "\"https://bot.test\"")
            .with(crawler("news", "NewsBot").set("signing_key", "keys/news.pem"))
            .with(model)
    });
    for token in ["NewsBot", "ModelBot"] {
        assert_eq!(proxy.exchange(&get(token, "http://shop.test/a")).status, 200);
    }
    let pages = origin.requests();
    let pages: Vec<_> = pages.iter().filter(|request| request.target == "/a").collect();
    let agents: Vec<_> = pages.iter().map(|page| page.header("signature-agent")).collect();
    assert_eq!(
        agents,
        [Some("sig1=\"https://bot.test\""), Some("sig1=\"https://training.bot.test\"")]
    );
    let urls =
        ["https://bot.test", "https://training.bot.test"].map(|it| format!("{it}{WELL_KNOWN}"));
    let directories = urls.each_ref().map(|url| published(&proxy, url));
    for (url, directory) in urls.iter().zip(&directories) {
        assert_eq!(directory.json()["keys"].as_array().map(Vec::len), Some(1));
        let verified = run_verifier(&json!({
            "method": "GET",
            "url": url,
            "status": 200,
            "headers": directory.headers,
            "keys": directory.json(),
            "tag": "http-message-signatures-directory",
        }));
        assert!(verified.starts_with("binding"), "{url}: {verified}");
    }
    assert_ne!(directories[0].json(), directories[1].json());
    // Whoever asks for none by name gets that of [signing]; nobody gets it under another name.
    assert_eq!(proxy.admin_get(WELL_KNOWN).json(), directories[0].json());
    assert_eq!(
        published(&proxy, &format!("https://other.test{WELL_KNOWN}")).json(),
        directories[0].json()
    );
    let card =
        published(&proxy, "https://training.bot.test/.well-known/signature-agent-card/model");
    let card = card.json();
    assert_eq!(
        card["client_id"],
        "https://training.bot.test/.well-known/signature-agent-card/model"
    );
    assert_eq!(card["jwks_uri"], *urls[1]);
    assert_eq!(card["contacts"], json!(["mailto:model@bot.test"]));
    let page = published(&proxy, card["client_uri"].as_str().expect("a URL"));
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(page.text().contains(&urls[1]) && page.text().contains("model@bot.test"));
    assert_eq!(published(&proxy, "https://training.bot.test/ips.json").status, 200);
    assert_eq!(published(&proxy, "https://bot.test/crawlers/nobody.html").status, 404);
}

#[test]
fn a_key_set_at_a_path_opens_nothing_else() {
    let origin = Origin::start();
    let digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let proxy = start(&origin, |settings| {
        settings
            .set("signing.agent", "\"https://bot.test/v1/decisions\"")
            .table(&format!("[[admin.tokens]]\nsha256 = \"{digest}\"\nrole = \"read\"\n"))
    });
    for agent in &AGENTS[1..] {
        let set = published(&proxy, agent);
        assert_eq!(
            (set.status, set.header("content-type")),
            (200, Some("application/jwk-set+json"))
        );
    }
    // By path alone, for a server that does not pass on the name.
    assert_eq!(proxy.admin_get("/training").json(), published(&proxy, AGENTS[1]).json());
    assert_eq!(published(&proxy, "https://bot.test/keys.json").status, 404, "another host's");
    for closed in ["https://bot.test/v1/decisions", "https://bot.test/metrics"] {
        assert_eq!(published(&proxy, closed).status, 401, "{closed}");
    }
}

#[test]
fn a_client_cannot_sign_for_the_crawler_next_door() {
    let origin = Origin::start();
    let proxy = start(&origin, |settings| settings);
    for (index, agent) in AGENTS.into_iter().enumerate() {
        let request = get("NewsBot", &format!("http://shop.test/{index}"))
            .header("Signature-Agent", &format!("sig1=\"{agent}\""))
            .header("Signature-Input", "sig1=(\"@method\" \"signature-agent\";key=\"sig1\")")
            .header("Signature", "sig1=:AAAA:");
        assert_eq!(proxy.exchange(&request).status, 200);
    }
    let seen = |target: &str| {
        let requests = origin.requests();
        let request = requests.iter().find(|request| request.target == target).expect("it came");
        request.header("signature-agent").unwrap_or_default().to_owned()
    };
    let own = AGENTS[0];
    assert_eq!(seen("/0"), format!("sig1=\"{own}\", sig2=\"{own}\""), "its own is kept");
    assert_eq!(seen("/1"), format!("sig1=\"{own}\""), "another agent on the same host");
    assert_eq!(seen("/2"), format!("sig1=\"{own}\""), "another host");
}

#[test]
fn plain_http_is_left_unsigned_if_so_configured() {
    let origin = Origin::start();
    let form = "sig1=(\"@authority\");created;tag=\"web-bot-auth\"";
    let asking = Reply::new(403).header("Accept-Signature", form);
    origin.site("asks.test").unsigned(asking);
    for mode in ["always", "on-request"] {
        let before = origin.requests().len();
        let proxy = start(&origin, |settings| {
            settings.set("signing.mode", &format!("{mode:?}")).set("signing.plain_http", "false")
        });
        assert_eq!(proxy.exchange(&get("NewsBot", "http://asks.test/a")).status, 403);
        assert_eq!(proxy.exchange(&get("NewsBot", "http://shop.test/a")).status, 200);
        let plain = origin.requests().split_off(before);
        assert_eq!(plain.len(), 4, "no request is sent again: {:?}", origin.seen());
        assert!(plain.iter().all(|request| request.header("signature").is_none()));
        assert_eq!(proxy.exchange(&get("NewsBot", "https://asks.test/a")).status, 200);
        let last = origin.requests().pop().expect("a request");
        assert!(last.header("signature").is_some(), "{mode}: {last:?}");
    }
}

#[test]
fn one_key_for_two_agents_is_a_mistake() {
    let dir = tempfile::tempdir().expect("a directory");
    keys(dir.path(), &["new", "news"]);
    let one = crawler("news", "NewsBot").set("signing_key", "keys/news.pem");
    let two = crawler("model", "ModelBot").set("signing_key", "keys/news.pem");
    let config = |two: Crawler| {
        let signing = "[signing]\nmode = \"always\"\nagent = \"https://bot.test\"\n";
        let text = signing.to_owned() + &one.clone().into_toml() + &two.into_toml();
        fs::write(dir.path().join("config.toml"), text).expect("writable");
    };
    config(two.clone().set("agent", "https://training.bot.test"));
    let mistakes = run(dir.path(), &["config", "check"]);
    assert!(mistakes.contains("[[crawler]] 2.signing_key: signs for \"news\""), "{mistakes}");
    config(two.set("agent", "https://bot.test/"));
    let check = status_and_output(command().args(["config", "check"]).current_dir(dir.path()));
    assert_eq!(check.0, Some(0), "the same agent: {}", check.1);
}

#[test]
fn each_host_of_agents_gets_its_own_folder() {
    let dir = tempfile::tempdir().expect("a directory");
    let crawlers = tables(dir.path());
    let signing =
        "[signing]\nmode = \"always\"\ndiscovery = \"uri\"\nagent = \"https://bot.test/search\"\n";
    let tables: String = crawlers.into_iter().map(Crawler::into_toml).collect();
    let write = |text: &str| fs::write(dir.path().join("config.toml"), text).expect("writable");
    write(&format!("{signing}{tables}"));
    let publish = || {
        let mut publish = command();
        publish.args(["publish", "--out", "public"]).current_dir(dir.path());
        output_of(&mut publish, b"", LIMIT)
    };
    let printed = publish();
    let below = |path: &str| dir.path().join("public").join(path);
    for file in [
        "bot.test/search",
        "bot.test/search.headers",
        "bot.test/training",
        "bot.test/.well-known/signature-agent-card/model",
        "bot.test/crawlers/corpus.html",
        "bot.test/ips.json",
        "lab.test/keys.json",
        "lab.test/.well-known/signature-agent-card/lab",
        "lab.test/crawlers/lab.html",
        "lab.test/ips.json",
    ] {
        assert!(below(file).is_file(), "{file}: {printed}");
    }
    assert!(!below("lab.test/crawlers/news.html").exists());
    let read = |path: &str| -> Value {
        serde_json::from_slice(&fs::read(below(path)).expect("written")).expect("JSON")
    };
    assert_eq!(read("bot.test/search")["keys"].as_array().map(Vec::len), Some(2));
    assert_eq!(read("lab.test/keys.json")["keys"].as_array().map(Vec::len), Some(1));
    let card = read("bot.test/.well-known/signature-agent-card/model");
    assert_eq!(card["jwks_uri"], "https://bot.test/training");
    let comply = |what: &str| {
        let arguments = ["comply", "--published", "public"];
        let (_, printed) = status_and_output(command().args(arguments).current_dir(dir.path()));
        let row = printed.lines().find(|line| line.contains(what));
        row.unwrap_or_else(|| panic!("{what}: {printed}")).to_owned()
    };
    for what in ["requests are signed", "a card describes", "a page describes"] {
        assert!(comply(what).starts_with("ok "), "{}", comply(what));
    }
    // A spare key of one agent is published by that one.
    keys(dir.path(), &["new", "next", "--agent", "https://lab.test/keys.json"]);
    assert!(comply("requests are signed").starts_with("missing "), "{}", comply("requests"));
    publish();
    assert_eq!(read("lab.test/keys.json")["keys"].as_array().map(Vec::len), Some(2));
    assert_eq!(read("bot.test/search")["keys"].as_array().map(Vec::len), Some(2));
    // A path that is a folder of another agent's file.
    let agent = "agent = \"https://bot.test/training\"";
    let below_it = "agent = \"https://bot.test/search/x\"";
    write(&format!("{signing}{tables}").replace(agent, below_it));
    let conflict = run(dir.path(), &["publish", "--out", "public"]);
    assert!(conflict.contains("cannot be files of one server"), "{conflict}");
}

#[test]
fn names_that_mix_purposes_are_warned_of() {
    let dir = tempfile::tempdir().expect("a directory");
    let write = |purposes: [&str; 2]| {
        let text = crawler("news", "NewsBot").purposes(purposes).into_toml();
        fs::write(dir.path().join("config.toml"), text).expect("writable");
    };
    let ask =
        |arguments: &[&str]| status_and_output(command().args(arguments).current_dir(dir.path()));
    write(["search", "train-ai"]);
    let (status, printed) = ask(&["config", "check"]);
    assert_eq!(status, Some(0), "a warning only: {printed}");
    for line in [
        "\"news\" is judged as Search and as Training",
        "name = \"news-search\"",
        "purposes = [\"train-ai\"]",
    ] {
        assert!(printed.contains(line), "{line}: {printed}");
    }
    let (_, printed) = ask(&["comply"]);
    assert!(printed.contains("missing  10  one name"), "{printed}");
    assert!(printed.contains("         name = \"news-training\"\n"), "{printed}");
    let (_, printed) = ask(&["comply", "--json"]);
    let duties: Value =
        serde_json::from_str(printed.split("\nAsked").next().expect("JSON")).expect("JSON");
    assert_eq!(duties[7]["crawlers"], json!([]));
    assert_eq!(duties[10]["crawlers"][0]["set"], "\"https://example.com/bot\"");
    write(["train-ai", "tdm"]);
    assert!(!ask(&["config", "check"]).1.contains("judged"));
    let origin = Origin::start();
    let problems = |purposes: [&str; 2]| {
        let proxy = Wayleave::start_with(&origin, |settings| {
            settings.with(crawler("news", "NewsBot").purposes(purposes))
        });
        proxy.admin_get("/v1/problems").text()
    };
    assert!(problems(["search", "ai-input"]).contains("purposes-mixed"));
    assert!(!problems(["search", "archive"]).contains("purposes-mixed"));
}

#[test]
fn a_contact_is_in_fetches_refusals_card_and_page() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/private");
    let proxy = Wayleave::start_with(&origin, |settings| {
        keys(&settings.dir, &["new", "news"]);
        let news = crawler("news", "NewsBot")
            .set("contact", "mailto:ann@bot.test")
            .set("user_agent", "NewsBot/2.0")
            .set("signing_key", "keys/news.pem");
        settings.set("signing.agent", "\"https://bot.test\"").with(news)
    });
    let refused = proxy.exchange(&get("NewsBot", "http://shop.test/private"));
    assert_eq!(refused.json()["contact"], "mailto:ann@bot.test");
    let robots = &origin.requests()[0];
    assert_eq!(robots.header("user-agent"), Some("NewsBot/2.0 (+ann@bot.test)"));
    let card = proxy.admin_get("/.well-known/signature-agent-card/news").json();
    assert_eq!(card["contacts"], json!(["mailto:ann@bot.test"]));
    assert_eq!(card["web_bot_auth"]["expected-user-agent"], "NewsBot/2.0");
    assert!(proxy.admin_get("/crawlers/news.html").text().contains("ann@bot.test"));
}
