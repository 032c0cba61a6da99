use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use tempfile::TempDir;
use wayleave_admission::settings::LogFailureMode;
use wayleave_decision::{
    CrawlTrigger, Crawler, DailyBudget, EnforcementMode, HttpsMode, InterceptionSettings,
    ProxyAccount, RefusedSubresources, RuleAction, SubresourcePolicy,
};
use wayleave_decision_log::{ClientForm, JournalConfig};
use wayleave_pacing::{self as pacing, CrawlDelayMode};
use wayleave_robots_cache::{self as robots_cache, FetchConfig, RobotsStoreConfig};
use wayleave_robots_txt::{Dialect, HostPattern, ProductToken};
use wayleave_signing::{SigningAgent, SigningKey};
use wayleave_telemetry::logging::LogFormat;
use wayleave_usage_preferences::{ContentUse, CrawlerDeclaration, Purpose, PurposeSet};

use super::{Config, ConfigMistake, ConfigSources, DEFAULT_FILE};

fn mistakes_of(text: &str) -> Vec<String> {
    match Config::from_toml("t.toml", text) {
        Ok(_) => Vec::new(),
        Err(mistakes) => mistakes.iter().map(ConfigMistake::to_string).collect(),
    }
}

#[track_caller]
fn assert_mistakes(text: &str, expected: &[&str]) {
    let found = mistakes_of(text);
    assert_eq!(found.len(), expected.len(), "{text}\n{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{text}\nfound    {found}\nexpected {expected}");
    }
}

#[test]
fn shipped_file_holds_the_defaults() {
    assert_eq!(Config::from_toml("config.toml", DEFAULT_FILE), Ok(Config::default()));
    assert_eq!(Config::from_toml("empty", ""), Ok(Config::default()));
}

/// A key that reads as unknown once it is misspelt exists; each of them must be in the shipped file, if only as a
/// comment.
#[test]
fn shipped_file_shows_every_key() {
    let shipped: toml::Table = DEFAULT_FILE.parse().expect("it is TOML");
    let sections: Vec<_> = shipped.iter().filter(|(_, value)| value.is_table()).collect();
    let mut text: String =
        sections.iter().map(|(name, _)| format!("[{name}]\nzzzzzzzz = 1\n")).collect();
    text += "[[crawler]]\nzzzzzzzz = 1\nmatch = { zzzzzzzz = 1 }\n[[rule]]\nzzzzzzzz = 1\n";
    let unknown: Vec<_> =
        mistakes_of(&text).into_iter().filter(|m| m.contains("zzzzzzzz")).collect();
    assert_eq!(unknown.len(), sections.len() + 3, "{unknown:#?}");
    for mistake in unknown {
        let (_, keys) =
            mistake.split_once("expected one of ").expect("unknown keys name the known ones");
        for key in keys.split(", ").filter(|key| !["match", "overrides"].contains(key)) {
            let shown = DEFAULT_FILE.split([' ', '\n', '{']).any(|word| word == key);
            assert!(shown, "{key} of {mistake}");
        }
    }
}

#[test]
fn examples_in_the_shipped_file_are_right() {
    let is_example = |line: &str| {
        line.starts_with("[[") || line.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '))
    };
    let uncommented: Vec<_> = DEFAULT_FILE
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if is_example(rest) => rest,
            _ => line,
        })
        .collect();
    for mistake in mistakes_of(&uncommented.join("\n")) {
        // Its file is not there, and its address is nobody's.
        let is_elsewhere = [".signing_key:", ".source_address:"];
        let is_elsewhere = is_elsewhere.iter().any(|key| mistake.contains(key));
        assert!(is_elsewhere, "{mistake}");
    }
}

const HASH: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5bm9ib2R5$LuxT+OtgKkKBrjKrgmJhpb7slBkaiVpQZAOvzKq9SDY";

const EVERY_KEY: &str = r#"
proxy.listen = ["0.0.0.0:8080", "[::1]:0", "socks5://127.0.0.1:1080", "redirect://[::]:3131", "tproxy://0.0.0.0:3132"]
proxy.header_timeout = "1500ms"
proxy.idle_timeout = "2m"
proxy.shutdown_grace = "0s"
proxy.max_connections = 7
proxy.max_connections_per_client = 3
proxy.decision_id = true
proxy.proxy_protocol = ["10.0.0.0/24", "::1"]
proxy.name = "edge-1"
proxy.require_crawler = true
proxy.mode = "observe"
admin.listen = "[::]:9000"
admin.token_sha256 = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF"
admin.tokens = [
    { sha256 = "2222222222222222222222222222222222222222222222222222222222222222", role = "read", team = "news@example.com", name = "ci" },
    { sha256 = "3333333333333333333333333333333333333333333333333333333333333333", role = "operate" },
]
https.ca_dir = "authority"
https.mode = "tunnel"
https.bypass = ["Bank.test", "*.pay.test"]
state.dir = "/var/lib/wayleave"
upstream.allow_private = ["10.0.0.0/8", "::1"]
upstream.connect_timeout = "1s"
upstream.response_timeout = "3s"
upstream.idle_connections = 2
upstream.proxy = "http://user:pass@proxy.corp:3128"
upstream.proxy_bypass = ["*.corp.example", "10.0.0.0/8", "::1"]
upstream.source_addresses = ["127.0.0.1", "127.0.0.9"]
dns.servers = ["192.0.2.53", "127.0.0.1:5353"]
dns.overrides = { "*.test:443" = "127.0.0.1:8443", "shop.example" = "::1" }
robots.dialect = "google"
robots.user_agent = "ExampleBot/1.0 (+https://bot.example)"
robots.fetch_timeout = "4s"
robots.max_redirects = 0
robots.max_size = "1MiB"
robots.max_age = "1h"
robots.max_stale = "2h"
robots.error_ttl = "5s"
politeness.crawl_delay = "wait"
politeness.max_wait = "9s"
politeness.default_delay = "1s"
politeness.min_delay = "500ms"
politeness.max_delay = "1m"
politeness.max_concurrent_per_origin = 3
politeness.rate_limit_fields = false
log.format = "json"
log.events = false
log.decisions = "audit/d.jsonl"
log.decisions_max_size = "1MiB"
log.decisions_max_age = "1h"
log.decisions_keep = "7d"
log.decisions_max_total = "64MiB"
log.decisions_compress = true
log.client_address = "keyed"
log.body_digest = "sha-256"
log.on_failure = "refuse"
evidence.key = "audit/e.key"
traces.otlp_endpoint = "https://collector.example:4318/otlp"
traces.sample_ratio = 0.25
[[crawler]]
name = "news"
tokens = ["Googlebot-News", "Googlebot"]
match = { user_agent = "Googlebot", addresses = ["10.1.0.0/16"], username = "news" }
password_hash = "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5bm9ib2R5$LuxT+OtgKkKBrjKrgmJhpb7slBkaiVpQZAOvzKq9SDY"
dialect = "strictest"
mode = "enforce"
owner = "news@example.com"
trigger = "fetcher"
default_delay = "3s"
min_delay = "2s"
subresources = "page"
refused_subresources = "empty"
requests_per_day = 1000
bytes_per_day = "1GiB"
new_origins_per_day = 10
max_response_bytes = "20MiB"
user_agent = "NewsBot/1.0"
contact = "https://bot.example/about"
user_agent_must_contain_token = true
source_address = "127.0.0.7"
purposes = ["search", "ai-train"]
purpose_tokens = { train-ai = "Google-Extended" }
content_use = "reference"
unstated = "refuse"
[[crawler]]
name = "rest"
tokens = ["archive.org_bot"]
[[rule]]
action = "refuse"
legal = true
hosts = ["*.example.com", ".example.org"]
paths = ["/private/*"]
crawlers = ["news", "unnamed"]
purposes = ["train-ai", "ai-use"]
methods = ["GET"]
owner = "legal@example.com"
[[rule]]
action = "allow"
hosts = ["*"]
crawlers = ["*"]
owner = "us"
reason = "contract 2026-17"
expires = 2027-01-15
"#;

fn every_key() -> Config {
    Config::from_toml("t.toml", EVERY_KEY).expect("nothing is wrong with it")
}

#[test]
fn listeners_and_connections_are_read() {
    let config = every_key();
    assert_eq!(config.proxy.listen[1], "[::1]:0".parse().unwrap());
    let captures = config.proxy.listen[2..].iter().map(ToString::to_string).collect::<Vec<_>>();
    let expected = ["socks5://127.0.0.1:1080", "redirect://[::]:3131", "tproxy://0.0.0.0:3132"];
    assert_eq!(captures, expected);
    assert_eq!(config.proxy.connections.header_timeout, Duration::from_millis(1500));
    assert_eq!(config.proxy.connections.idle_timeout, Duration::from_secs(120));
    assert_eq!(config.proxy.connections.shutdown_grace, Duration::ZERO);
    assert_eq!(
        (config.proxy.limits.connections, config.proxy.connections.name.as_str()),
        (7, "edge-1")
    );
    assert_eq!(config.proxy.limits.per_client, 3);
    assert_eq!(config.admin.listen, "[::]:9000".parse().unwrap());
    assert_eq!(config.https.ca_dir, Path::new("/var/lib/wayleave/authority"));
    let bypass =
        [HostPattern::Exact("bank.test".to_owned()), HostPattern::Glob("*.pay.test".to_owned())];
    assert_eq!(config.https.interception.mode, HttpsMode::Tunnel);
    assert_eq!(config.https.interception.bypass, bypass);
    assert_eq!(config.state.dir, Path::new("/var/lib/wayleave"));
    assert_eq!(config.upstream.egress.allow_private[1], "::1/128".parse().unwrap());
    assert_eq!(config.upstream.connections.connect_timeout, Duration::from_secs(1));
    assert_eq!(config.upstream.connections.response_timeout, Duration::from_secs(3));
    assert_eq!(config.upstream.connections.idle_connections, 2);
    assert_eq!(config.upstream.egress.dns_servers[0], "192.0.2.53:53".parse().unwrap());
    let overrides: Vec<_> =
        config.upstream.egress.dns_overrides.iter().map(|o| (o.key(), o.value())).collect();
    let expected = [("*.test:443", "127.0.0.1:8443"), ("shop.example", "::1")];
    assert_eq!(overrides, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
}

#[test]
fn robots_and_log_are_read() {
    let config = every_key();
    assert_eq!(config.robots.dialect, Dialect::Google);
    assert_eq!(config.robots.fetch.user_agent, "ExampleBot/1.0 (+https://bot.example)");
    assert_eq!(config.robots.fetch.timeout, Duration::from_secs(4));
    assert_eq!(
        (config.robots.fetch.max_redirects, config.robots.fetch.max_size_bytes),
        (0, 1 << 20)
    );
    let lifetimes = &config.robots.cache.lifetimes;
    assert_eq!(lifetimes.max_age, Duration::from_hours(1));
    assert_eq!(lifetimes.max_stale, Duration::from_hours(2));
    assert_eq!(lifetimes.error_ttl, Duration::from_secs(5));
    let politeness = pacing::PacingConfig {
        crawl_delay: CrawlDelayMode::Wait,
        max_wait: Duration::from_secs(9),
        default_delay: Duration::from_secs(1),
        min_delay: Duration::from_millis(500),
        max_delay: Duration::from_secs(60),
        share: pacing::PaceShare::default(),
        adaptive: false,
        max_concurrent_per_origin: 3,
        rate_limit_fields: false,
    };
    assert_eq!(config.politeness, politeness);
    assert_eq!(config.log.format, LogFormat::Json);
    let decisions = JournalConfig {
        path: "/var/lib/wayleave/audit/d.jsonl".into(),
        max_size_bytes: 1 << 20,
        max_age: Duration::from_hours(1),
        keep: Duration::from_hours(7 * 24),
        max_total_bytes: Some(64 << 20),
        compresses: true,
        key: "/var/lib/wayleave/audit/e.key".into(),
        state_dir: "/var/lib/wayleave".into(),
    };
    assert_eq!(config.log.client_address, ClientForm::Keyed);
    assert!(config.log.digests_bodies);
    assert_eq!(config.log.on_failure, LogFailureMode::Refuse);
    assert_eq!(config.log.decisions, Some(decisions));
}

#[test]
fn crawlers_are_read() {
    let config = every_key();
    let news = Crawler {
        name: "news".to_owned(),
        owner: Some("news@example.com".into()),
        trigger: CrawlTrigger::Fetcher,
        tokens: ["Googlebot-News", "Googlebot"].map(|t| ProductToken::new(t).unwrap()).to_vec(),
        user_agent: Some("Googlebot".to_owned()),
        addresses: vec!["10.1.0.0/16".parse().unwrap()],
        certificate: None,
        account: Some(ProxyAccount { username: "news".to_owned(), password_hash: HASH.to_owned() }),
        dialect: Dialect::Strictest,
        mode: EnforcementMode::Enforce,
        default_delay: Some(Duration::from_secs(3)),
        min_delay: Duration::from_secs(2),
        budget: DailyBudget { requests: 1000, bytes: 1 << 30, new_origins: 10 },
        max_response_bytes: 20 << 20,
        subresources: SubresourcePolicy::Page,
        refused_subresources: RefusedSubresources::Empty,
        robots_user_agent: Some("NewsBot/1.0".into()),
        contact: Some("https://bot.example/about".into()),
        user_agent_must_contain_token: true,
        source_address: Some("127.0.0.7".parse().unwrap()),
        signing_key: None,
        agent: None,
        declaration: CrawlerDeclaration {
            purposes: PurposeSet::of(&[Purpose::Search, Purpose::TrainAi]),
            purpose_tokens: vec![(Purpose::TrainAi, ProductToken::new("Google-Extended").unwrap())],
            content_use: Some(ContentUse::Reference),
            refuse_unstated: true,
        },
    };
    assert!(config.crawlers.require_crawler);
    assert_eq!(config.crawlers.mode, EnforcementMode::Observe);
    let [first, second] = &config.crawlers.crawlers[..] else { panic!("there are two") };
    assert_eq!(*first, news);
    assert_eq!((second.account.as_ref(), &second.addresses[..]), (None, &[][..]));
    assert_eq!(second.dialect, Dialect::Google);
    assert_eq!(second.mode, EnforcementMode::Observe);
}

#[test]
fn rules_are_read() {
    let [refusal, exception] = &every_key().rules[..] else { panic!("there are two") };
    assert_eq!(refusal.action, RuleAction::RefuseLegally);
    let hosts = [
        HostPattern::Glob("*.example.com".to_owned()),
        HostPattern::Suffix("example.org".to_owned()),
    ];
    assert_eq!(refusal.hosts, hosts);
    assert_eq!(refusal.paths, ["/private/*"]);
    assert_eq!(refusal.crawlers, ["news", "asserted"]);
    let purposes = PurposeSet::of(&[Purpose::TrainAi, Purpose::AiInput]);
    assert_eq!(refusal.purposes, purposes);
    assert_eq!(exception.purposes, PurposeSet::NONE);
    assert_eq!(refusal.methods, ["GET"]);
    assert_eq!(exception.action, RuleAction::Allow);
    assert_eq!(exception.crawlers, [""; 0]);
    assert_eq!(exception.reason.as_deref(), Some("contract 2026-17"));
    let expires_at = UNIX_EPOCH + Duration::from_secs(1_799_971_200);
    assert_eq!(exception.expires_at, Some(expires_at));
}

#[test]
fn shown_configuration_reads_back_the_same() {
    let config = every_key();
    let mut shown = config.to_string();
    for (hidden, secret) in [
        (
            "token_sha256 = \"(not shown)\"",
            format!("token_sha256 = {:?}", "00112233445566778899aabbccddeeff".repeat(2)),
        ),
        (
            "sha256 = \"(not shown)\"\nrole = \"read\"",
            format!("sha256 = {:?}\nrole = \"read\"", "2".repeat(64)),
        ),
        (
            "sha256 = \"(not shown)\"\nrole = \"operate\"",
            format!("sha256 = {:?}\nrole = \"operate\"", "3".repeat(64)),
        ),
        ("password_hash = \"(not shown)\"", format!("password_hash = {HASH:?}")),
        ("//proxy.corp:3128 (credentials not shown)", "//user:pass@proxy.corp:3128".to_owned()),
    ] {
        let (before, _) = shown.split_once(hidden).expect("it is hidden");
        let line = 1 + before.matches('\n').count();
        let complaint = mistakes_of(&shown);
        let place = format!("t.toml:{line}: ");
        assert!(complaint.iter().any(|line| line.starts_with(&place)), "{hidden}: {complaint:?}");
        shown = shown.replace(hidden, &secret);
    }
    assert!(Config::from_toml("shown", &shown) == Ok(config), "{shown}");
}

#[test]
fn only_what_is_secret_is_hidden() {
    for (written, shown) in [
        ("upstream.proxy = \"socks5://a:c@b:1\"", "\"socks5://b:1 (credentials not shown)\""),
        ("upstream.proxy = \"http://b\"", "\"http://b\""),
        ("upstream.proxy = \"http://a:b,c%40@d\"", "\"http://d (credentials not shown)\""),
        ("store.url = \"redis://a,rediss://b/1\"", "\"redis://a,rediss://b/1\""),
        ("store.url = \"redis://u:p@a,redis://:p@b:1\"", "\"redis://b:1 (credentials not shown)\""),
        ("store.url = \"\"", "\"\""),
    ] {
        let (key, _) = written.split_once(" = ").expect("a key");
        let (section, key) = key.split_once('.').expect("a section");
        let config = Config::from_toml("t.toml", written).expect("nothing is wrong with it");
        let text = config.to_string();
        let table: toml::Table = text.parse().expect("it is TOML");
        assert_eq!(table[section][key].to_string(), shown, "{written}");
    }
}

/// Their own tests rest on them.
#[test]
fn defaults_of_the_rooms_are_the_ones_of_the_file() {
    let config = Config::default();
    let fetch = FetchConfig {
        user_agent: config.robots.fetch.user_agent.clone(),
        ..FetchConfig::default()
    };
    let cache = robots_cache::RobotsCacheConfig::default();
    assert_eq!(config.robots.fetch, fetch);
    assert_eq!(config.robots.cache.lifetimes, cache.lifetimes);
    assert_eq!(config.robots.cache.fetch_timeout, cache.fetch_timeout);
    assert_eq!(config.robots_store, RobotsStoreConfig::default());
    assert_eq!(config.politeness, pacing::PacingConfig::default());
    assert_eq!(config.https.interception, InterceptionSettings::default());
}

/// Otherwise a file that moves the listener could open the one in use to everybody.
#[test]
fn the_listener_in_use_keeps_needing_a_token() {
    let token = format!("admin.token_sha256 = \"{}\"\n", "11".repeat(32));
    let started = format!("{token}admin.listen = \"0.0.0.0:3129\"");
    let started = Config::from_toml("t.toml", &started).expect("nothing is wrong with it");
    let again = |text: &str| {
        Config::load_again(&ConfigSources::of_text("t.toml", text, Path::new("")), &started)
    };
    let open = again("admin.listen = \"127.0.0.1:3129\"").expect_err("there is no token");
    assert!(open[0].to_string().contains("0.0.0.0:3129 is not a loopback address"), "{open:?}");
    again(&format!("{token}admin.listen = \"127.0.0.1:3129\"")).expect("there is a token");
}

#[test]
fn keys_that_need_a_restart_are_named() {
    let running = Config::default();
    let again = |text: &str| {
        let read = ConfigSources::of_text("t.toml", text, Path::new(""));
        Config::load_again(&read, &running).unwrap()
    };
    let alive = "proxy.name = \"a\"\nrobots.max_age = \"1h\"\nupstream.idle_connections = 7\n\
                 log.format = \"json\"\nlog.decisions = \"\"\ndns.servers = [\"127.0.0.1:53\"]";
    assert_eq!(again(alive).needs_restart(&running), [""; 0]);
    let fixed = "state.dir = \"b\"\nadmin.listen = \"127.0.0.1:1\"\nlog.decisions = \"d.jsonl\"";
    let fixed = again(fixed);
    assert_eq!(fixed.needs_restart(&running), ["admin.listen", "state.dir"]);
    let log = fixed.log.decisions.as_ref().map(|log| &log.path);
    let kept = running.state.dir.join("d.jsonl");
    assert_eq!(log, Some(&kept), "what need not wait does not");
    let traced = again("traces.sample_ratio = 0.5");
    assert_eq!(traced.needs_restart(&running), ["[traces]"]);
    let ca = again("state.dir = \"b\"\nhttps.ca_dir = \"other\"");
    assert_eq!(ca.needs_restart(&running), ["state.dir", "https.ca_dir"]);
    let listed = "proxy.listen = [\"127.0.0.1:1\"]\nproxy.max_connections_per_client = 1";
    let listed = again(listed);
    let expected = ["proxy.listen", "proxy.max_connections_per_client"];
    assert_eq!(listed.needs_restart(&running), expected);
}

#[test]
fn keys_that_need_a_restart_show_the_value_in_use() {
    let hash = "00".repeat(32);
    let started = format!("admin.token_sha256 = \"{hash}\"\nproxy.max_connections = 7");
    let started = Config::from_toml("t.toml", &started).unwrap();
    let text = "proxy.max_connections = 8\nproxy.name = \"b\"\nadmin.listen = \"127.0.0.1:9\"";
    let shown = Config::from_toml("t.toml", text).unwrap().public_toml(&started);
    let table: toml::Table = shown.parse().expect("it is TOML");
    assert_eq!(table["proxy"]["max_connections"].as_integer(), Some(7));
    assert_eq!(table["proxy"]["name"].as_str(), Some("b"));
    assert_eq!(table["admin"]["listen"].as_str(), Some("127.0.0.1:3129"));
    let token = table["admin"]["token_sha256"].as_str();
    assert_eq!(token, Some(""), "what operators may do follows a reload");
    let hidden = every_key().public_toml(&every_key());
    assert!(!hidden.contains("argon2id"), "{hidden}");
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let text = "\
[proxy]
listen = []
header_timeout = 10
idle_timout = \"1s\"

[robots]
dialect = \"googel\"
max_age = \"25h\"
max_size = \"500\"
memory = \"1KiB\"

[[crawler]]
tokens = [
  \"ExampleBot\",
  \"\",
]

[colour]
";
    assert_mistakes(
        text,
        &[
            "t.toml:2: proxy.listen: must not be empty",
            "t.toml:3: proxy.header_timeout: expected a duration with a unit, such as",
            "t.toml:4: proxy.idle_timout: unknown key; did you mean \"idle_timeout\"?",
            "t.toml:7: robots.dialect: \"googel\" is not one of \"rfc9309\", \"google\", \"koster1996\", \
             \"selfhtml\", \"strictest\"; did you mean \"google\"?",
            "t.toml:8: robots.max_age: is over 24h, the maximum of RFC 9309 section 2.4",
            "t.toml:9: robots.max_size: \"500\" is not a size with a unit",
            "t.toml:10: robots.memory: is less than 1MiB",
            "t.toml:12: [[crawler]] 1.name: is missing",
            "t.toml:15: [[crawler]] 1.tokens[1]: ",
            "t.toml:18: colour: unknown key; expected one of include, proxy, admin,",
        ],
    );
}

#[test]
fn each_mistake_is_found() {
    let table: toml::Table = include_str!("mistakes.toml").parse().expect("it is TOML");
    let cases = table["case"].as_array().expect("[[case]]");
    assert!(cases.len() > 60);
    for case in cases {
        let mistakes = case["mistakes"].as_array().expect("an array");
        let mistakes: Vec<_> = mistakes.iter().filter_map(|m| m.as_str()).collect();
        assert_mistakes(case["file"].as_str().expect("a string"), &mistakes);
    }
}

fn file_with(dir: &TempDir, name: &str, content: &[u8]) -> PathBuf {
    let path = dir.path().join(name);
    fs::write(&path, content).expect("the temporary directory can be written to");
    path
}

#[test]
fn file_that_cannot_be_read_is_one_mistake() {
    let mistakes =
        Config::load(Path::new("/nowhere/config.toml")).expect_err("there is no such file");
    assert_eq!(mistakes.len(), 1);
    assert!(
        mistakes[0].to_string().starts_with("/nowhere/config.toml: cannot be read: "),
        "{mistakes:?}"
    );
    let dir = TempDir::new().expect("there is room");
    let path = file_with(&dir, "latin1.toml", b"[proxy]\nname = \"\xe9\"\n");
    let mistakes = Config::load(&path).expect_err("it is not UTF-8");
    assert_eq!(mistakes[0].to_string(), format!("{}:2: is not UTF-8", path.display()));
}

#[test]
fn extra_roots_are_read_with_the_file() {
    let dir = TempDir::new().expect("there is room");
    let key = rcgen::KeyPair::generate().expect("ring makes keys");
    let certificate = rcgen::CertificateParams::new(vec!["ca.test".to_owned()])
        .and_then(|params| params.self_signed(&key))
        .expect("the parameters are plain");
    let root = file_with(&dir, "root.pem", certificate.pem().as_bytes());
    let text = format!("upstream.extra_roots = [{:?}]", root.display().to_string());
    let config = Config::from_toml("t.toml", &text).expect("it holds a certificate");
    let [file] = &config.upstream.extra_roots[..] else { panic!("there is one") };
    assert_eq!(file.certificates, [certificate.der().clone()]);

    let empty = file_with(&dir, "empty.pem", b"nothing\n");
    let text = format!("upstream.extra_roots = [\n  {:?}]", empty.display().to_string());
    let expected =
        format!("t.toml:2: upstream.extra_roots[0]: {} contains no certificate", empty.display());
    assert_mistakes(&text, &[&expected]);
}

/// Writes the `[[file]]` tables of `cases` to a directory, and returns the mistakes in the configuration, without the directory.
fn included_mistakes(cases: &toml::Table) -> Vec<String> {
    let dir = TempDir::new().expect("there is room");
    fs::create_dir(dir.path().join("teams")).expect("there is room");
    for file in cases["file"].as_array().expect("[[file]]") {
        let text = |key: &str| file[key].as_str().expect("a string");
        file_with(&dir, text("name"), text("text").as_bytes());
    }
    let mistakes = Config::load(&dir.path().join("wayleave.toml")).expect_err("it has mistakes");
    let shown = format!("{}/", dir.path().display());
    mistakes.iter().map(|mistake| mistake.to_string().replace(&shown, "")).collect()
}

#[test]
fn mistakes_of_included_files_are_reported_at_once() {
    let cases: toml::Table = include_str!("included_mistakes.toml").parse().expect("it is TOML");
    let expected = cases["mistakes"].as_array().expect("an array");
    let expected: Vec<_> = expected.iter().filter_map(|mistake| mistake.as_str()).collect();
    assert!(expected.len() >= 25);
    let found = included_mistakes(&cases);
    for (found, expected) in found.iter().zip(&expected) {
        assert!(found.starts_with(expected), "found    {found}\nexpected {expected}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}

/// Writes a main file with crawler `main`, and files that each have one crawler and one rule of their own name.
fn with_included(include: &str, names: &[&str]) -> (TempDir, PathBuf) {
    let dir = TempDir::new().expect("there is room");
    let table = |name: &str| {
        format!(
            "[[crawler]]\nname = \"{name}\"\ntokens = [\"Bot\"]\nmatch = {{ user_agent = \"{name}\" }}\n\
             [[rule]]\naction = \"refuse\"\nhosts = [\"{name}.test\"]\n"
        )
    };
    let main = format!("include = {include}\n{}", table("main"));
    let main = file_with(&dir, "main.toml", main.as_bytes());
    for name in names {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("there is room");
        let stem = path.file_stem().and_then(|stem| stem.to_str()).expect("a name");
        fs::write(&path, table(stem)).expect("there is room");
    }
    (dir, main)
}

fn crawler_names(config: &Config) -> Vec<&str> {
    config.crawlers.crawlers.iter().map(|crawler| &*crawler.name).collect()
}

#[test]
fn included_tables_follow_those_of_the_main_file_by_name() {
    let names = ["teams/b.toml", "teams/a.toml", "teams/.c.toml", "z/y/x.toml", "legal.toml"];
    let include =
        r#"["z/**/*.toml", "teams/*.toml", "./teams/[ab].toml", "legal.toml", "none/*.toml"]"#;
    let (dir, main) = with_included(include, &names);
    let config = Config::load(&main).expect("nothing is wrong with it");
    assert_eq!(crawler_names(&config), ["main", "legal", "a", "b", "x"]);
    let hosts: Vec<_> = config.rules.iter().map(|rule| rule.hosts[0].to_string()).collect();
    assert_eq!(hosts, ["main.test", "legal.test", "a.test", "b.test", "x.test"]);
    let included: Vec<_> = config.included.iter().map(|file| file.name.clone()).collect();
    let expected = ["legal.toml", "teams/a.toml", "teams/b.toml", "z/y/x.toml"];
    assert_eq!(included, expected.map(|name| dir.path().join(name).display().to_string()));
    assert_eq!(ConfigSources::read(&main).unmatched(), ["none/*.toml"]);
    // What is shown is whole: it needs no other file.
    let shown = Config::from_toml("shown", &config.to_string()).expect("it is a configuration");
    assert_eq!((shown.crawlers, shown.rules), (config.crawlers, config.rules));
}

#[test]
fn files_that_cannot_be_included_are_mistakes() {
    let (dir, main) = with_included("[]", &["teams/a.toml"]);
    let made =
        std::process::Command::new("mkfifo").arg(dir.path().join("teams/pipe.toml")).status();
    assert!(made.expect("mkfifo can be started").success());
    std::os::unix::fs::symlink("nowhere", dir.path().join("teams/link.tml")).expect("a link");
    for (include, expected) in [
        ("[\"gone.toml\"]", "main.toml:1: include[0]: \"gone.toml\" cannot be read: No such file"),
        ("[\"teams\"]", "main.toml:1: include[0]: \"teams\" is not a file"),
        ("[\"teams/pipe.toml\"]", "main.toml:1: include[0]: \"teams/pipe.toml\" is not a file"),
        ("[\"*.toml\"]", "main.toml:1: include[0]: \"*.toml\" includes this file itself"),
        ("[\"./main.toml\"]", "main.toml:1: include[0]: \"./main.toml\" includes this file itself"),
        ("[\"a\", \"[\"]", "main.toml:1: include[1]: \"[\" "),
        ("[\"\"]", "main.toml:1: include[0]: must not be empty"),
        ("\"teams/*.toml\"", "main.toml:1: include: expected an array, found a string"),
        ("[\"teams/*.tml\"]", "teams/link.tml: cannot be read: No such file"),
    ] {
        fs::write(&main, format!("include = {include}\n")).expect("there is room");
        let mistakes = Config::load(&main).expect_err(include);
        let shown = format!("{}/", dir.path().display());
        let found: Vec<_> =
            mistakes.iter().map(|mistake| mistake.to_string().replace(&shown, "")).collect();
        assert!(found.iter().any(|found| found.starts_with(expected)), "{include}: {found:?}");
    }
    // A pattern passes by what is not a file.
    fs::write(&main, "include = [\"teams*\", \"teams/*.toml\"]\n").expect("there is room");
    assert_eq!(crawler_names(&Config::load(&main).expect("it is right")), ["a"]);
}

#[test]
fn a_hundred_mistakes_of_a_file_are_listed_and_those_of_others_too() {
    let (dir, main) = with_included("[\"teams/*.toml\"]", &["teams/a.toml"]);
    let count = 15_000;
    let in_values: String =
        (0..count).map(|number| format!("[[rule]]\r\nx{number} = 1\r\n")).collect();
    let not_toml = "[[crawler]\n= 1 = 2\n".repeat(count);
    for (text, first_lines) in [(in_values, [1, 1, 2]), (not_toml, [1, 2, 3])] {
        fs::write(dir.path().join("teams/a.toml"), text).expect("there is room");
        fs::write(dir.path().join("teams/b.toml"), "x = 1\n").expect("there is room");
        let mistakes = Config::load(&main).expect_err("it has mistakes");
        let of = |name: &str| {
            let path = dir.path().join(name).display().to_string();
            mistakes.iter().filter(|mistake| mistake.file() == path).collect::<Vec<_>>()
        };
        let listed = of("teams/a.toml");
        assert_eq!(listed.len(), 101);
        let lines: Vec<_> = listed.iter().map(|mistake| mistake.line()).collect();
        assert_eq!(lines[..3], first_lines.map(Some));
        assert!(lines[..100].is_sorted() && lines[100].is_none(), "{lines:?}");
        let further = "and further ones: the first 100 found are listed";
        assert_eq!(listed[100].message(), further);
        // It may be in any key.
        assert!(listed[100].may_concern("log.decisions"));
        assert_eq!(of("teams/b.toml").len(), 1);
    }
    fs::write(dir.path().join("teams/a.toml"), "x = 1\n").expect("there is room");
    let mistakes = Config::load(&main).expect_err("it has mistakes");
    assert_eq!(mistakes.len(), 2);
}

/// Earlier mistakes in a key keep further ones about it from being reported, listed or not.
#[test]
fn a_mistake_that_is_not_listed_still_counts() {
    let crawler = |tokens: &str| format!("[[crawler]]\nname = \"a\"\ntokens = {tokens}\n");
    let text = crawler("[\"\"]").repeat(150);
    let mistakes = mistakes_of(&text);
    assert_eq!(mistakes.len(), 101, "{mistakes:#?}");
    assert!(!mistakes.iter().any(|mistake| mistake.contains("is missing")), "{mistakes:#?}");
}

/// The folder says whose a spare key is; a key that a crawler uses is its agent's, wherever it is.
#[test]
fn each_key_belongs_to_one_agent() {
    let dir = tempfile::tempdir().unwrap();
    let create = |path: &str| {
        let key = SigningKey::create(&dir.path().join(path)).unwrap();
        key.thumbprint().to_owned()
    };
    let news = create("keys/news.pem");
    let spare = create("keys/spare.pem");
    let model = create("keys/model.pem");
    let next = create("keys/bot.example/training/next.pem");
    create("keys/bot.example/lost.pem");
    fs::copy(
        dir.path().join("keys/spare.pem"),
        dir.path().join("keys/bot.example/training/copy.pem"),
    )
    .unwrap();
    let text = "[signing]\ndiscovery = \"uri\"\nagent = \"https://bot.example/search\"\n\
        [[crawler]]\nname = \"news\"\ntokens = [\"NewsBot\"]\nmatch = { user_agent = \"NewsBot\" }\nsigning_key = \"keys/news.pem\"\n\
        [[crawler]]\nname = \"model\"\ntokens = [\"ModelBot\"]\nagent = \"https://bot.example/training\"\nsigning_key = \"keys/model.pem\"\n";
    let config = Config::from_toml_in(dir.path(), "t.toml", text).unwrap();
    let keys = |agent: &SigningAgent| -> Vec<String> {
        agent.keys.iter().map(|key| key.thumbprint().to_owned()).collect()
    };
    let found: Vec<_> =
        config.signing.agents.iter().map(|agent| (agent.url().to_owned(), keys(agent))).collect();
    assert_eq!(
        found,
        [
            ("https://bot.example/search".to_owned(), vec![news, spare]),
            ("https://bot.example/training".to_owned(), vec![model, next]),
        ]
    );
    assert!(config.signing.keys_without_agent.is_empty());
    let right: Vec<_> = config
        .crawlers
        .crawlers
        .iter()
        .map(|crawler| config.signing.right_folder_for_key_of(crawler))
        .collect();
    assert_eq!(right, [None, Some(dir.path().join("keys/bot.example/training"))]);
    let nobody = Config::from_toml_in(dir.path(), "t.toml", "").unwrap();
    assert_eq!((nobody.signing.agents.len(), nobody.signing.keys_without_agent.len()), (0, 3));
}
