//! Crawlers that authenticate with a certificate in the TLS handshake with the proxy.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::ClientConfig;

use crate::clients::env::build_go;
use crate::harness::tls::{Authority, Holder, client_config_with, client_pair};
use crate::harness::tools::{clean, node_modules, program, project, python, run};
use crate::harness::wayleave::Settings;
use crate::harness::{Origin, Request, Response, Wire, eventually};
use crate::requests::tls_listener::{Guarded, ask, start};

const URI: Holder = Holder {
    common_name: Some("somebody"),
    uri: Some("spiffe://corp/crawler/news"),
    dns: None,
    not_after: None,
};
const DNS: Holder =
    Holder { common_name: None, uri: None, dns: Some("images.corp.test"), not_after: None };
const COMMON_NAME: Holder =
    Holder { common_name: Some("Archive crawler"), uri: None, dns: None, not_after: None };

/// The time in which a connection whose certificate is revoked must end, long before the idle timeout.
const CLOSED: Duration = Duration::from_secs(5);

/// A CA of clients, and a proxy that asks for its certificates.
struct Guard {
    authority: Authority,
    guarded: Guarded,
}

/// A `[[crawler]]` for each name of a certificate.
fn crawlers(names: &[(&str, &str)]) -> String {
    let mut tables = String::new();
    for (name, certificate) in names {
        write!(
            tables,
            "[[crawler]]\nname = \"{name}\"\ntokens = [\"{name}\"]\nmatch = {{ certificate = \"{certificate}\" }}\n"
        )
        .expect("writing to a String cannot fail");
    }
    tables
}

fn guard(origin: &Origin, tables: &str, change: impl FnOnce(Settings) -> Settings) -> Guard {
    let authority = Authority::new("clients");
    let guarded = start(origin, |settings| {
        let toml = settings.to_toml();
        let dir = toml.lines().find_map(|line| line.strip_prefix("state.dir = \""));
        let dir = PathBuf::from(dir.expect("it is set").trim_end_matches('"'));
        let ca = dir.with_file_name("clients-ca.crt");
        std::fs::write(ca, &authority.pem).expect("writable");
        change(settings.set("proxy.client_ca", "\"clients-ca.crt\"")).table(tables)
    });
    Guard { authority, guarded }
}

impl Guard {
    /// Connects a client with this certificate, or with none.
    fn config(&self, pair: Option<&(String, String)>) -> Arc<ClientConfig> {
        client_config_with(Authority::trusted().pem.as_bytes(), &["http/1.1"], pair)
    }

    fn connect(&self, config: &Arc<ClientConfig>) -> std::io::Result<Wire> {
        let wire = Wire::connect(self.guarded.tls);
        let secured = wire.start_tls_with("localhost", Arc::clone(config))?;
        Ok(secured.wire)
    }

    /// A tunnel whose requests are seen.
    #[track_caller]
    fn intercepted(&self, config: &Arc<ClientConfig>, host: &str) -> Wire {
        let mut tunnel = self.connect(config).expect("it is trusted");
        let opened = tunnel.connect_tunnel(&format!("{host}:443"));
        assert_eq!(opened.status, 200);
        let ca = self.guarded.proxy.ca_pem();
        let secured = tunnel.start_tls(host, &ca, &["http/1.1"]);
        secured.expect("TLS inside TLS").wire
    }

    /// The answer to a holder's first request, if there is one.
    fn try_ask(&self, config: &Arc<ClientConfig>, path: &str) -> Option<Response> {
        let mut wire = self.connect(config).ok()?;
        let url = format!("http://shop.test{path}");
        wire.try_send(Request::get(&url).absolute_form()).ok()?;
        wire.try_response(false).ok()?
    }

    fn trust(&self, pem: &str) {
        let ca = self.guarded.dir().join("clients-ca.crt");
        std::fs::write(ca, pem).expect("writable");
    }

    /// The crawler, how it was proved, and what the certificate says, of the decision about `path`.
    #[track_caller]
    fn expect_recorded(&self, path: &str, expected: [&str; 3]) {
        let url = format!("http://shop.test{path}");
        let mut recorded = None;
        eventually("it is recorded", || {
            let answer = self.guarded.proxy.admin_get("/v1/decisions?limit=100").json();
            let mut decisions = answer["decisions"].as_array().expect("a list").iter();
            recorded = decisions.find(|decision| decision["url"] == url).cloned();
            recorded.is_some()
        });
        let recorded = recorded.expect("it was waited for");
        let members = ["crawler", "proven_by", "certificate"];
        let members = members.map(|member| recorded[member].as_str().unwrap_or("").to_owned());
        assert_eq!(members, expected, "{recorded}");
    }
}

fn reason(answer: &Response) -> String {
    answer.json()["reason"].as_str().unwrap_or("").to_owned()
}

#[test]
fn each_kind_of_name_recognises_its_holder() {
    let origin = Origin::start();
    let names = [
        ("news", "spiffe://corp/crawler/news"),
        ("images", "DNS:Images.corp.test"),
        ("archive", "CN=Archive crawler"),
    ];
    let guard =
        guard(&origin, &crawlers(&names), |settings| settings.set("proxy.require_crawler", "true"));
    for (holder, crawler, name, path) in [
        (URI, "news", "spiffe://corp/crawler/news", "/1"),
        (DNS, "images", "DNS:images.corp.test", "/2"),
        (COMMON_NAME, "archive", "CN=Archive crawler", "/3"),
    ] {
        let pair = client_pair(&guard.authority, &holder);
        let answer = guard.try_ask(&guard.config(Some(&pair)), path);
        assert_eq!(answer.expect("an answer").status, 200, "{crawler}");
        guard.expect_recorded(path, [crawler, "certificate", name]);
    }
    // Somebody whom the CA knows and no table does, and somebody without a certificate.
    let holder = Holder { uri: Some("spiffe://corp/crawler/news/other"), ..Holder::default() };
    let pair = client_pair(&guard.authority, &holder);
    for (config, path, name) in [
        (guard.config(Some(&pair)), "/4", "spiffe://corp/crawler/news/other"),
        (guard.config(None), "/5", ""),
    ] {
        let answer = guard.try_ask(&config, path).expect("an answer");
        assert_eq!((answer.status, &*reason(&answer)), (407, "unidentified"));
        guard.expect_recorded(path, ["asserted", "", name]);
    }
    // Without TLS nobody can show one.
    let mut plain = guard.guarded.proxy.connect();
    assert_eq!(ask(&mut plain, "/6").status, 407);
    let seen = origin.seen();
    for path in ["/4", "/5", "/6"] {
        assert!(!seen.iter().any(|line| line.ends_with(path)), "{seen:?}");
    }
}

#[test]
fn a_certificate_is_recognised_by_its_fingerprint() {
    let origin = Origin::start();
    let guard = guard(&origin, "", |settings| settings);
    let pinned = client_pair(&guard.authority, &COMMON_NAME);
    let twin = client_pair(&guard.authority, &COMMON_NAME);
    let file = guard.guarded.dir().join("pinned.crt");
    std::fs::write(&file, &pinned.0).expect("writable");
    let mut openssl = clean(program("openssl"));
    openssl.args(["x509", "-noout", "-fingerprint", "-sha256", "-in"]);
    let said = run(openssl.arg(&file), b"", Duration::from_secs(60));
    let said = String::from_utf8(said.stdout).expect("ASCII");
    let (_, digits) = said.trim().split_once('=').expect("it is told");
    let settings = guard.guarded.proxy.settings.clone();
    let settings = settings.table(&crawlers(&[("pinned", &format!("sha256:{digits}"))]));
    let config = guard.guarded.dir().join("config.toml");
    std::fs::write(config, settings.to_toml()).expect("writable");
    eventually("the crawler is known", || {
        let status = guard.guarded.proxy.admin_get("/v1/status").json();
        status["crawlers"] == serde_json::json!(["pinned"])
    });
    for (pair, path, crawler) in [(pinned, "/1", "pinned"), (twin, "/2", "asserted")] {
        let answer = guard.try_ask(&guard.config(Some(&pair)), path);
        assert_eq!(answer.expect("an answer").status, 200);
        let proven_by = if crawler == "pinned" { "certificate" } else { "" };
        guard.expect_recorded(path, [crawler, proven_by, "CN=Archive crawler"]);
    }
}

#[test]
fn certificates_that_are_not_good_open_nothing() {
    let origin = Origin::start();
    let guard =
        guard(&origin, &crawlers(&[("news", "spiffe://corp/crawler/news")]), |settings| settings);
    let expired = Holder { not_after: Some(SystemTime::now() - Duration::from_secs(60)), ..URI };
    let stranger = Authority::new("clients");
    for pair in [
        client_pair(&guard.authority, &expired),
        client_pair(&stranger, &URI),
        // One for servers, of the CA that the clients trust.
        client_pair(Authority::trusted(), &URI),
    ] {
        assert!(guard.try_ask(&guard.config(Some(&pair)), "/a").is_none());
    }
    eventually("they are counted", || guard.guarded.handshakes("certificate") == 3.0);
    assert_eq!(origin.seen(), [""; 0], "nothing of it arrived");
}

#[test]
fn another_authority_ends_what_the_old_one_vouched_for() {
    let origin = Origin::start();
    let names = [("news", "spiffe://corp/crawler/news")];
    let guard = guard(&origin, &crawlers(&names), |settings| {
        settings.set("https.bypass", "[\"bank.test\"]").set("proxy.idle_timeout", "\"1h\"")
    });
    let pair = client_pair(&guard.authority, &URI);
    let config = guard.config(Some(&pair));
    let mut open = guard.connect(&config).expect("it is trusted");
    assert_eq!(ask(&mut open, "/a").status, 200);
    let mut tunnel = guard.connect(&config).expect("it is trusted");
    assert_eq!(tunnel.connect_tunnel("bank.test:443").status, 200);
    let mut inside = guard.intercepted(&config, "shop.test");
    inside.send(Request::get("https://shop.test/a").origin_form());
    assert_eq!(inside.response().status, 200);
    let mut unnamed = guard.connect(&guard.config(None)).expect("none is needed");
    assert_eq!(ask(&mut unnamed, "/a").status, 200);
    // Beside the old one, nothing ends.
    let other = Authority::new("clients of tomorrow");
    guard.trust(&format!("{}{}", guard.authority.pem, other.pem));
    let tomorrow = guard.config(Some(&client_pair(&other, &URI)));
    eventually("both are taken", || guard.try_ask(&tomorrow, "/b").is_some());
    assert_eq!(ask(&mut open, "/a").status, 200);
    // In its place, all of it does, sessions that could be resumed included.
    guard.trust(&other.pem);
    eventually("the old one is refused", || guard.try_ask(&config, "/c").is_none());
    let answer = ask(&mut open, "/private-to-nobody");
    let problem = answer.expect_refusal(403, None, "http_request_denied");
    assert_eq!(problem["reason"], "wrong-certificate");
    open.expect_close_within(CLOSED);
    inside.send(Request::get("https://shop.test/private-to-nobody").origin_form());
    let answer = inside.response();
    let problem = answer.expect_refusal(403, None, "http_request_denied");
    assert_eq!(problem["reason"], "wrong-certificate");
    inside.expect_close_within(CLOSED);
    tunnel.expect_close_within(CLOSED);
    assert_eq!(ask(&mut unnamed, "/a").status, 200);
    assert!(guard.try_ask(&tomorrow, "/b").is_some());
    assert!(!origin.seen().iter().any(|line| line.contains("private-to-nobody")));
}

#[test]
fn a_certificate_that_expires_ends_its_connection() {
    let origin = Origin::start();
    let names = [("news", "spiffe://corp/crawler/news")];
    let guard = guard(&origin, &crawlers(&names), |settings| settings);
    let brief = Holder { not_after: Some(SystemTime::now() + Duration::from_secs(3)), ..URI };
    let pair = client_pair(&guard.authority, &brief);
    let mut open = guard.connect(&guard.config(Some(&pair))).expect("it is good");
    let mut last = ask(&mut open, "/a");
    assert_eq!(last.status, 200);
    eventually("it has expired", || {
        last = ask(&mut open, "/a");
        last.status != 200
    });
    assert_eq!((last.status, &*reason(&last)), (403, "wrong-certificate"));
}

#[test]
fn a_resumed_session_keeps_its_certificate() {
    let origin = Origin::start();
    let names = [("news", "spiffe://corp/crawler/news")];
    let guard = guard(&origin, &crawlers(&names), |settings| settings);
    let config = guard.config(Some(&client_pair(&guard.authority, &URI)));
    for path in ["/1", "/2", "/3"] {
        let answer = guard.try_ask(&config, path);
        assert_eq!(answer.expect("an answer").status, 200);
        guard.expect_recorded(path, ["news", "certificate", "spiffe://corp/crawler/news"]);
    }
}

/// The files that clients of other people are given: roots of both CAs, the certificate and its key.
struct Files {
    roots: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

fn files(guard: &Guard) -> Files {
    let dir = guard.guarded.dir();
    let (certificate, key) = client_pair(&guard.authority, &URI);
    let ca = String::from_utf8(guard.guarded.proxy.ca_pem()).expect("PEM");
    let files = Files {
        roots: dir.join("both.pem"),
        certificate: dir.join("client.crt"),
        key: dir.join("client.key"),
    };
    let roots = format!("{ca}{}", Authority::trusted().pem);
    for (path, text) in
        [(&files.roots, roots), (&files.certificate, certificate), (&files.key, key)]
    {
        std::fs::write(path, text).expect("writable");
    }
    files
}

#[test]
fn other_peoples_clients_show_certificates_or_none() {
    let origin = Origin::start();
    let names = [("news", "spiffe://corp/crawler/news")];
    let guard = guard(&origin, &crawlers(&names), |settings| settings);
    // Instead of what `start` wrote.
    origin
        .site("shop.test")
        .robots("User-agent: news\nDisallow: /news\n\nUser-agent: *\nDisallow: /others\n");
    let files = files(&guard);
    let proxy = format!("https://localhost:{}", guard.guarded.tls.port());
    let clients = project().join("tests/clients");
    let mut python = clean(python());
    python.arg(clients.join("tls_proxy.py"));
    let go = clean(build_go(&clients.join("tls_proxy.go")));
    let mut node = clean(program("node"));
    node.arg(clients.join("tls_proxy.cjs"));
    node.env("NODE_PATH", node_modules());
    for (name, mut command) in [("Python", python), ("Go", go), ("Node", node)] {
        command.arg(&proxy).arg(&files.roots);
        let mut said = Vec::new();
        for shows in [true, false] {
            let (certificate, key) = match shows {
                true => (files.certificate.as_os_str(), files.key.as_os_str()),
                false => ("".as_ref(), "".as_ref()),
            };
            let mut command = again(&command);
            command.arg(certificate).arg(key);
            for path in ["/news", "/others"] {
                command.arg(format!("http://shop.test{path}"));
                command.arg(format!("https://shop.test{path}"));
            }
            let output = run(&mut command, b"", Duration::from_secs(60));
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{name}: {output:?}");
            said.push(text.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        let expected = ["403 403 200 200", "200 200 403 403"];
        assert_eq!(said, expected, "{name}, with a certificate and without");
    }
    let (certificate, key) = (files.certificate.display(), files.key.display());
    let shown = ["--proxy-cert", &certificate.to_string(), "--proxy-key", &key.to_string()];
    for scheme in ["http", "https"] {
        let url = |path: &str| format!("{scheme}://shop.test{path}");
        let news = guard.guarded.curl(&[&shown[..], &[&url("/news")]].concat());
        assert!(news.contains("\"reason\":\"rule\""), "{news}");
        let others = guard.guarded.curl(&[&shown[..], &[&url("/others")]].concat());
        assert!(others.contains("200 "), "{others}");
        let without = guard.guarded.curl(&[&url("/others")]);
        assert!(without.contains("\"reason\":\"rule\""), "{without}");
    }
}

/// Copies a command to run it again.
fn again(command: &std::process::Command) -> std::process::Command {
    let mut same = clean(command.get_program());
    same.args(command.get_args());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            same.env(name, value);
        }
    }
    same
}
