//! Crawlers that authenticate with a certificate in the TLS handshake with the proxy.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::ClientConfig;

use crate::clients::env::build_go;
use crate::harness::crawler::{Crawler, crawler};
use crate::harness::tls::{Authority, Holder, client_config_with, client_pair};
use crate::harness::tools::{clean, node_modules, output_of, program, project, python};
use crate::harness::wayleave::Settings;
use crate::harness::{Origin, Request, Response, Wire, eventually};
use crate::requests::tls_listener::{self, TlsProxy, get};

const URI: Holder = Holder {
    common_name: Some("not used"),
    uri: Some("spiffe://corp/crawler/news"),
    dns: None,
    not_after: None,
};
const DNS: Holder =
    Holder { common_name: None, uri: None, dns: Some("images.corp.test"), not_after: None };
const COMMON_NAME: Holder =
    Holder { common_name: Some("Archive crawler"), uri: None, dns: None, not_after: None };

/// A CA of clients, and a proxy that requests its certificates.
struct Setup {
    authority: Authority,
    tls_proxy: TlsProxy,
}

/// Returns a crawler for each name of a certificate.
fn crawlers(names: &[(&str, &str)]) -> Vec<Crawler> {
    let crawler = |(name, certificate): &(&str, &str)| {
        crawler(name, name).matched_by("certificate", *certificate)
    };
    names.iter().map(crawler).collect()
}

fn set_up(
    origin: &Origin,
    crawlers: Vec<Crawler>,
    change: impl FnOnce(Settings) -> Settings,
) -> Setup {
    let authority = Authority::new("clients");
    let tls_proxy = tls_listener::start(origin, |settings| {
        std::fs::write(settings.dir.join("clients-ca.crt"), &authority.pem).expect("writable");
        change(settings.set("proxy.client_ca", "\"clients-ca.crt\"")).with_all(crawlers)
    });
    Setup { authority, tls_proxy }
}

impl Setup {
    /// Returns the settings of a client with a certificate, or without one.
    fn config(&self, pair: Option<&(String, String)>) -> Arc<ClientConfig> {
        client_config_with(Authority::trusted().pem.as_bytes(), &["http/1.1"], pair)
    }

    fn connect(&self, config: &Arc<ClientConfig>) -> std::io::Result<Wire> {
        let wire = Wire::connect(self.tls_proxy.tls);
        let secured = wire.start_tls_with("localhost", Arc::clone(config))?;
        Ok(secured.wire)
    }

    /// Opens an intercepted tunnel.
    #[track_caller]
    fn intercepted(&self, config: &Arc<ClientConfig>, host: &str) -> Wire {
        let mut tunnel = self.connect(config).expect("it is trusted");
        assert_eq!(tunnel.connect_tunnel(&format!("{host}:443")).status, 200);
        let ca = self.tls_proxy.proxy.ca_pem();
        let secured = tunnel.start_tls(host, &ca, &["http/1.1"]);
        secured.expect("TLS inside TLS").wire
    }

    /// Sends a GET on a new connection. Returns the response, if there is one.
    fn try_get(&self, config: &Arc<ClientConfig>, path: &str) -> Option<Response> {
        let mut wire = self.connect(config).ok()?;
        let request = Request::get(&format!("http://shop.test{path}"));
        wire.try_send(request.absolute_form()).ok()?;
        wire.try_response(false).ok()?
    }

    fn trust(&self, pem: &str) {
        let ca = self.tls_proxy.dir().join("clients-ca.crt");
        std::fs::write(ca, pem).expect("writable");
    }

    /// Expects the crawler, its proof, and the name in the certificate, in the decision about `path`.
    #[track_caller]
    fn expect_recorded(&self, path: &str, expected: [&str; 3]) {
        let url = format!("http://shop.test{path}");
        let mut recorded = None;
        eventually("it is recorded", || {
            let answer = self.tls_proxy.proxy.admin_get("/v1/decisions?limit=100").json();
            let mut decisions = answer["decisions"].as_array().expect("a list").iter();
            recorded = decisions.find(|decision| decision["url"] == url).cloned();
            recorded.is_some()
        });
        let recorded = recorded.expect("the wait ended");
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
    let setup =
        set_up(&origin, crawlers(&names), |settings| settings.set("proxy.require_crawler", "true"));
    for (holder, crawler, name, path) in [
        (URI, "news", "spiffe://corp/crawler/news", "/1"),
        (DNS, "images", "DNS:images.corp.test", "/2"),
        (COMMON_NAME, "archive", "CN=Archive crawler", "/3"),
    ] {
        let pair = client_pair(&setup.authority, &holder);
        let answer = setup.try_get(&setup.config(Some(&pair)), path);
        assert_eq!(answer.expect("an answer").status, 200, "{crawler}");
        setup.expect_recorded(path, [crawler, "certificate", name]);
    }
    // A certificate of the CA without a table, and no certificate.
    let holder = Holder { uri: Some("spiffe://corp/crawler/news/other"), ..Holder::default() };
    let pair = client_pair(&setup.authority, &holder);
    for (config, path, name) in [
        (setup.config(Some(&pair)), "/4", "spiffe://corp/crawler/news/other"),
        (setup.config(None), "/5", ""),
    ] {
        let answer = setup.try_get(&config, path).expect("an answer");
        assert_eq!((answer.status, &*reason(&answer)), (407, "unidentified"));
        setup.expect_recorded(path, ["asserted", "", name]);
    }
    // Without TLS there is no certificate.
    let mut plain = setup.tls_proxy.proxy.connect();
    assert_eq!(get(&mut plain, "/6").status, 407);
    let seen = origin.seen();
    for path in ["/4", "/5", "/6"] {
        assert!(!seen.iter().any(|line| line.ends_with(path)), "{seen:?}");
    }
}

#[test]
fn a_certificate_is_recognised_by_its_fingerprint() {
    let origin = Origin::start();
    let setup = set_up(&origin, Vec::new(), |settings| settings);
    let pinned = client_pair(&setup.authority, &COMMON_NAME);
    let twin = client_pair(&setup.authority, &COMMON_NAME);
    let file = setup.tls_proxy.dir().join("pinned.crt");
    std::fs::write(&file, &pinned.0).expect("writable");
    let mut openssl = clean(program("openssl"));
    openssl.args(["x509", "-noout", "-fingerprint", "-sha256", "-in"]);
    let printed = output_of(openssl.arg(&file), b"", Duration::from_secs(60));
    let (_, digits) = printed.trim().split_once('=').expect("openssl prints name=digits");
    let pinned_by_hash = crawlers(&[("pinned", &format!("sha256:{digits}"))]);
    let proxy = &setup.tls_proxy.proxy;
    proxy.reload(&proxy.settings.clone().with_all(pinned_by_hash));
    assert_eq!(proxy.admin_get("/v1/status").json()["crawlers"], serde_json::json!(["pinned"]));
    for (pair, path, crawler) in [(pinned, "/1", "pinned"), (twin, "/2", "asserted")] {
        let answer = setup.try_get(&setup.config(Some(&pair)), path);
        assert_eq!(answer.expect("an answer").status, 200);
        let proven_by = if crawler == "pinned" { "certificate" } else { "" };
        setup.expect_recorded(path, [crawler, proven_by, "CN=Archive crawler"]);
    }
}

#[test]
fn invalid_certificates_are_refused_in_the_handshake() {
    let origin = Origin::start();
    let setup =
        set_up(&origin, crawlers(&[("news", "spiffe://corp/crawler/news")]), |settings| settings);
    let expired = Holder { not_after: Some(SystemTime::now() - Duration::from_secs(60)), ..URI };
    let stranger = Authority::new("clients");
    for pair in [
        client_pair(&setup.authority, &expired),
        client_pair(&stranger, &URI),
        // A certificate of the CA of servers, not of clients.
        client_pair(Authority::trusted(), &URI),
    ] {
        assert!(setup.try_get(&setup.config(Some(&pair)), "/a").is_none());
    }
    eventually("they are counted", || setup.tls_proxy.handshakes("certificate") == 3.0);
    assert_eq!(origin.seen(), [""; 0], "nothing arrived");
}

#[test]
fn a_new_client_ca_ends_connections_of_the_old_one() {
    let origin = Origin::start();
    let names = [("news", "spiffe://corp/crawler/news")];
    let setup = set_up(&origin, crawlers(&names), |settings| {
        settings.set("https.bypass", "[\"bank.test\"]").set("proxy.idle_timeout", "\"1h\"")
    });
    let pair = client_pair(&setup.authority, &URI);
    let config = setup.config(Some(&pair));
    let mut open = setup.connect(&config).expect("it is trusted");
    assert_eq!(get(&mut open, "/a").status, 200);
    let mut tunnel = setup.connect(&config).expect("it is trusted");
    assert_eq!(tunnel.connect_tunnel("bank.test:443").status, 200);
    let mut inside = setup.intercepted(&config, "shop.test");
    inside.send(Request::get("https://shop.test/a").origin_form());
    assert_eq!(inside.response().status, 200);
    let mut unnamed = setup.connect(&setup.config(None)).expect("none is needed");
    assert_eq!(get(&mut unnamed, "/a").status, 200);
    // With both CAs, nothing ends.
    let other = Authority::new("clients of tomorrow");
    setup.trust(&format!("{}{}", setup.authority.pem, other.pem));
    let tomorrow = setup.config(Some(&client_pair(&other, &URI)));
    eventually("both are accepted", || setup.try_get(&tomorrow, "/b").is_some());
    assert_eq!(get(&mut open, "/a").status, 200);
    // Without the old CA, its connections end, and its sessions are not resumed.
    setup.trust(&other.pem);
    eventually("the old one is refused", || setup.try_get(&config, "/c").is_none());
    let answer = get(&mut open, "/not-sent");
    let problem = answer.expect_refusal(403, None, "http_request_denied");
    assert_eq!(problem["reason"], "wrong-certificate");
    open.expect_close();
    inside.send(Request::get("https://shop.test/not-sent").origin_form());
    let answer = inside.response();
    let problem = answer.expect_refusal(403, None, "http_request_denied");
    assert_eq!(problem["reason"], "wrong-certificate");
    inside.expect_close();
    tunnel.expect_close();
    assert_eq!(get(&mut unnamed, "/a").status, 200);
    assert!(setup.try_get(&tomorrow, "/b").is_some());
    assert!(!origin.seen().iter().any(|line| line.contains("not-sent")));
}

#[test]
fn a_certificate_that_expires_ends_its_connection() {
    let origin = Origin::start();
    let names = [("news", "spiffe://corp/crawler/news")];
    let setup = set_up(&origin, crawlers(&names), |settings| settings);
    let brief = Holder { not_after: Some(SystemTime::now() + Duration::from_secs(10)), ..URI };
    let pair = client_pair(&setup.authority, &brief);
    let mut open = setup.connect(&setup.config(Some(&pair))).expect("it has not expired");
    let mut last = get(&mut open, "/a");
    assert_eq!(last.status, 200);
    eventually("it has expired", || {
        last = get(&mut open, "/a");
        last.status != 200
    });
    assert_eq!((last.status, &*reason(&last)), (403, "wrong-certificate"));
}

#[test]
fn a_resumed_session_keeps_its_certificate() {
    let origin = Origin::start();
    let names = [("news", "spiffe://corp/crawler/news")];
    let setup = set_up(&origin, crawlers(&names), |settings| settings);
    let config = setup.config(Some(&client_pair(&setup.authority, &URI)));
    for path in ["/1", "/2", "/3"] {
        let answer = setup.try_get(&config, path);
        assert_eq!(answer.expect("an answer").status, 200);
        setup.expect_recorded(path, ["news", "certificate", "spiffe://corp/crawler/news"]);
    }
}

/// The files for other clients: roots of both CAs, a certificate and its key.
struct Files {
    roots: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

fn files(setup: &Setup) -> Files {
    let dir = setup.tls_proxy.dir();
    let (certificate, key) = client_pair(&setup.authority, &URI);
    let ca = String::from_utf8(setup.tls_proxy.proxy.ca_pem()).expect("PEM");
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
fn other_clients_use_certificates_or_none() {
    let origin = Origin::start();
    let names = [("news", "spiffe://corp/crawler/news")];
    let setup = set_up(&origin, crawlers(&names), |settings| settings);
    origin
        .site("shop.test")
        .robots("User-agent: news\nDisallow: /news\n\nUser-agent: *\nDisallow: /others\n");
    let files = files(&setup);
    let proxy = format!("https://localhost:{}", setup.tls_proxy.tls.port());
    let clients = project().join("tests/clients");
    let mut python = clean(python());
    python.arg(clients.join("tls_proxy.py"));
    let go = clean(build_go(&clients.join("tls_proxy.go")));
    let mut node = clean(program("node"));
    node.arg(clients.join("tls_proxy.cjs"));
    node.env("NODE_PATH", node_modules());
    for (name, mut command) in [("Python", python), ("Go", go), ("Node", node)] {
        command.arg(&proxy).arg(&files.roots);
        let mut statuses = Vec::new();
        for (certificate, key) in
            [(files.certificate.as_path(), files.key.as_path()), (Path::new(""), Path::new(""))]
        {
            let mut command = copy_of(&command);
            command.arg(certificate).arg(key);
            for path in ["/news", "/others"] {
                command.arg(format!("http://shop.test{path}"));
                command.arg(format!("https://shop.test{path}"));
            }
            let printed = output_of(&mut command, b"", Duration::from_secs(60));
            statuses.push(printed.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        let expected = ["403 403 200 200", "200 200 403 403"];
        assert_eq!(statuses, expected, "{name}, with a certificate and without");
    }
    let (certificate, key) = (files.certificate.display(), files.key.display());
    let with_certificate =
        ["--proxy-cert", &certificate.to_string(), "--proxy-key", &key.to_string()];
    for scheme in ["http", "https"] {
        let url = |path: &str| format!("{scheme}://shop.test{path}");
        let news = setup.tls_proxy.curl(&[&with_certificate[..], &[&url("/news")]].concat());
        assert!(news.contains("\"reason\":\"rule\""), "{news}");
        let others = setup.tls_proxy.curl(&[&with_certificate[..], &[&url("/others")]].concat());
        assert!(others.contains("200 "), "{others}");
        let without = setup.tls_proxy.curl(&[&url("/others")]);
        assert!(without.contains("\"reason\":\"rule\""), "{without}");
    }
}

/// Copies a command.
fn copy_of(command: &std::process::Command) -> std::process::Command {
    let mut same = clean(command.get_program());
    same.args(command.get_args());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            same.env(name, value);
        }
    }
    same
}
