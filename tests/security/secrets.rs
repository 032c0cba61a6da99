//! Secrets of the configuration, which appear neither in the output of commands nor in what the process serves, logs and stores.

use std::path::Path;

use crate::harness::passwords;
use crate::harness::ports::free_address;
use crate::harness::tools::status_and_output;
use crate::harness::wayleave::{Settings, command};
use crate::harness::{Origin, Wayleave, eventually};

/// The hash of `pazzw0rd`, cheap to verify.
const HASH: &str =
    "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$LuxT+OtgKkKBrjKrgmJhpb7slBkaiVpQZAOvzKq9SDY";
/// Parts of the secrets below, as written and as they would be sent.
const SECRETS: [&str; 7] =
    ["pazzw0rd", "pazz%77", "argon2id", "0badc0de", "1badc0de", "2badc0de", "dXNlcjp"];

/// Sets a parent proxy with a password, the digest of a token, the hash of a password, and an engine with a password.
fn secrets(settings: Settings, parent: &str) -> Settings {
    settings
        .set("upstream.proxy", &format!("{parent:?}"))
        .set("admin.token_sha256", &format!("{:?}", "0badc0de".repeat(8)))
        .set("admin.tokens", "[{ sha256 = \"1badc0de1badc0de1badc0de1badc0de1badc0de1badc0de1badc0de1badc0de\", role = \"read\" }]")
        .set("gateway.tokens", &format!("[{{ sha256 = {:?}, crawler = \"news\" }}]", "2badc0de".repeat(8)))
        .set("store.url", "\"redis://wayleave:pazzw0rd@127.0.0.1:1\"")
        .with(passwords::crawler("news", "news", HASH))
}

#[track_caller]
fn expect_none(what: &str, text: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{secret} in {what}: {text}");
    }
}

/// Expects no secrets in files below a directory, except the configuration. Returns their number.
fn expect_none_below(dir: &Path) -> usize {
    let mut count = 0;
    for entry in std::fs::read_dir(dir).expect("it can be read") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            count += expect_none_below(&path);
        } else if path.file_name() != Some("config.toml".as_ref()) {
            let bytes = std::fs::read(&path).expect("it can be read");
            expect_none(&path.display().to_string(), &String::from_utf8_lossy(&bytes));
            count += 1;
        }
    }
    count
}

fn run(file: &Path, arguments: &[&str]) -> String {
    let mut command = command();
    command.args(arguments).arg("--config").arg(file);
    status_and_output(&mut command).1
}

#[test]
fn a_proxy_with_secrets_shows_none_of_them() {
    let origin = Origin::start();
    let address = free_address();
    let parent = format!("http://user:pazz%770rd@{address}");
    let proxy = Wayleave::start_with(&origin, |settings| secrets(settings, &parent));
    for url in ["http://shop.test/a", "https://shop.test/a"] {
        expect_none(url, &proxy.get(url).text());
    }
    let file = proxy.dir.path().join("config.toml");
    let shown = run(&file, &["config", "show"]);
    expect_none("config show", &shown);
    expect_none("config check", &run(&file, &["config", "check"]));
    let redacted = format!("proxy = \"http://{address} (credentials not shown)\"");
    assert!(shown.contains(&redacted), "{shown}");
    for subcommand in ["env", "report", "robots"] {
        expect_none(subcommand, &run(&file, &[subcommand]));
    }
    // The message about a mistake names the key, not the value.
    let broken = secrets(proxy.settings.clone(), &parent.replace("http:", "gopher:"));
    std::fs::write(&file, broken.to_toml()).expect("writable");
    proxy.signal("HUP");
    eventually("the mistake is logged", || {
        proxy.log().contains("upstream.proxy: has a scheme other than")
    });
    for arguments in [&["config", "check"][..], &["serve"], &["fleet", "check"]] {
        let printed = run(&file, arguments);
        assert!(printed.contains("upstream.proxy: "), "{printed}");
        expect_none(arguments[0], &printed);
    }
    expect_none("the log", &proxy.log());
    let (dir, _) = proxy.stop();
    assert!(expect_none_below(dir.path()) > 3, "there are state files");
}

#[test]
fn the_configuration_shown_to_operators_has_no_secrets() {
    let origin = Origin::start();
    let parent = format!("socks5://user:pazzw0rd@{}", free_address());
    let proxy = Wayleave::start_with(&origin, |settings| {
        secrets(settings, &parent).set("admin.token_sha256", "\"\"").set("admin.tokens", "[]")
    });
    proxy.get("http://shop.test/a");
    for path in ["/v1/configuration", "/v1/status", "/v1/decisions", "/v1/evidence", "/metrics"] {
        let answer = proxy.admin_get(path);
        assert_eq!(answer.status, 200, "{path}");
        expect_none(path, &answer.text());
    }
    let configuration = proxy.admin_get("/v1/configuration").text();
    assert!(configuration.contains("(credentials not shown)"), "{configuration}");
    assert!(configuration.contains("password_hash = "), "{configuration}");
}

#[test]
fn credentials_in_request_targets_are_left_out() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let targets = [
        ("CONNECT", "user:pazzw0rd@shop.test"),
        ("CONNECT", "user:pazzw0rd@shop.test:443"),
        ("CONNECT", "user:pazzw0rd@shop.test:x"),
        ("CONNECT", "user@pazzw0rd@shop.test:443"),
        ("GET", "user:pazzw0rd@shop.test/a"),
        ("GET", "pazzw0rd:user@shop.test/a"),
        ("GET", "//user:pazzw0rd@shop.test/a"),
        ("GET", "http:user:pazzw0rd@shop.test/a"),
        ("GET", "http:/user:pazzw0rd@shop.test/a"),
        ("GET", "http://user:pazzw0rd@shop.test:x/a"),
        ("GET", "http://user:pazzw0rd/@shop.test/a"),
        ("GET", "http://user:pazzw0rd?@shop.test/a"),
        ("GET", "http://user@pazzw0rd@shop.test/a"),
        ("GET", "gopher://user:pazzw0rd@shop.test/a"),
        ("GET", "http://user:pazzw0rd@shop.test/a"),
    ];
    for (method, target) in targets {
        let mut wire = proxy.connect();
        wire.send(format!(
            "{method} {target} HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: ExampleBot/1.0\r\n\r\n"
        ));
        let answer = wire.response();
        expect_none(target, &format!("{:?} {}", answer.headers, answer.text()));
    }
    let mut inside = proxy.tunnel("shop.test:443");
    inside.send("GET https://user:pazzw0rd@other.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\n");
    let answer = inside.response();
    expect_none("a tunnel", &format!("{:?} {}", answer.headers, answer.text()));
    eventually("all are logged", || proxy.log().matches("decision_id=").count() > targets.len());
    expect_none("the log", &proxy.log());
    expect_none("/v1/decisions", &proxy.admin_get("/v1/decisions").text());
    let (dir, _) = proxy.stop();
    assert!(expect_none_below(dir.path()) > 3, "there are state files");
}
