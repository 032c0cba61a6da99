//! TLS to the proxy itself: `https://` listeners.

use std::net::SocketAddr;
use std::path::Path;

use crate::harness::crawler::crawler;
use crate::harness::tls::{Authority, pem_pair};
use crate::harness::tools::{clean, program, status_and_output};
use crate::harness::wayleave::{Settings, command};
use crate::harness::{Origin, Response, Wayleave, Wire, eventually};

/// A proxy with a plain and a TLS listener, whose certificate is for `localhost`.
pub struct TlsProxy {
    pub proxy: Wayleave,
    pub tls: SocketAddr,
}

/// Starts such a proxy. The origin's `shop.test` disallows `/private`.
pub fn start(origin: &Origin, change: impl FnOnce(Settings) -> Settings) -> TlsProxy {
    origin.site("shop.test").disallows("/private");
    let proxy = Wayleave::start_with(origin, |settings| {
        write_certificate(&settings.dir, "localhost");
        change(
            settings
                .set("proxy.listen", "[\"127.0.0.1:0\", \"https://127.0.0.1:0\"]")
                .set("proxy.certificate", "\"proxy.crt\"")
                .set("proxy.key", "\"proxy.key\""),
        )
    });
    let text = proxy.log();
    let line = text.lines().find_map(|line| line.split_once("https://"));
    let (_, address) = line.expect("the listener is announced");
    let tls = address.trim().parse().expect("an address");
    TlsProxy { proxy, tls }
}

/// Writes a new certificate of `host` and its key.
pub fn write_certificate(dir: &Path, host: &str) {
    let (certificate, key) = pem_pair(host);
    std::fs::write(dir.join("proxy.crt"), certificate).expect("writable");
    std::fs::write(dir.join("proxy.key"), key).expect("writable");
}

impl TlsProxy {
    pub fn dir(&self) -> &Path {
        self.proxy.dir.path()
    }

    /// Connects by TLS. Returns the connection and the proxy's certificate.
    fn connect(&self) -> (Wire, Vec<u8>) {
        self.connect_as("localhost").expect("the proxy is trusted")
    }

    fn connect_as(&self, name: &str) -> std::io::Result<(Wire, Vec<u8>)> {
        let roots = Authority::trusted().pem.as_bytes();
        let wire = Wire::connect(self.tls);
        let secured = wire.start_tls(name, roots, &["http/1.1"])?;
        Ok((secured.wire, secured.chain[0].clone()))
    }

    pub fn handshakes(&self, result: &str) -> f64 {
        let name = "wayleave_client_handshakes_total";
        self.proxy.metric(name, &[("result", result)])
    }

    /// Runs curl through the TLS listener. Returns what it prints: bodies, statuses and errors.
    pub fn curl(&self, arguments: &[&str]) -> String {
        let roots = self.dir().join("origins.pem");
        let mut command = clean(program("curl"));
        command.args(["-sS", "-w", "%{http_code} %{http_connect}"]);
        command.arg("--proxy");
        command.arg(format!("https://localhost:{}", self.tls.port()));
        command.arg("--proxy-cacert").arg(roots);
        command.arg("--cacert").arg(self.proxy.ca_file());
        command.args(arguments);
        status_and_output(&mut command).1
    }
}

pub fn get(wire: &mut Wire, path: &str) -> Response {
    wire.send_get(&format!("http://shop.test{path}"));
    wire.response()
}

#[test]
fn requests_and_tunnels_inside_tls_are_decided_as_others() {
    let origin = Origin::start();
    let tls_proxy = start(&origin, |settings| settings);
    let (mut wire, _) = tls_proxy.connect();
    assert_eq!(get(&mut wire, "/a").status, 200);
    let refused = get(&mut wire, "/private");
    assert_eq!(refused.json()["reason"], "rule");
    for scheme in ["http", "https"] {
        let printed = tls_proxy.curl(&[&format!("{scheme}://shop.test/a")]);
        assert!(printed.contains("200 "), "{printed}");
        let printed = tls_proxy.curl(&[&format!("{scheme}://shop.test/private")]);
        assert!(printed.contains("\"reason\":\"rule\""), "{printed}");
    }
    // By HTTP/2 inside the tunnel, and by HTTP/1.1.
    for version in ["--http2", "--http1.1"] {
        let printed =
            tls_proxy.curl(&[version, "https://shop.test/b", "https://shop.test/private"]);
        assert!(printed.contains("200 200") && printed.contains("403 "), "{printed}");
    }
    assert!(!origin.seen().iter().any(|line| line.contains("/private")));
    assert!(tls_proxy.handshakes("completed") >= 7.0);
}

#[test]
fn a_blind_tunnel_passes_inside_tls_too() {
    let origin = Origin::start();
    origin.site("bank.test").robots("");
    let tls_proxy = start(&origin, |settings| settings.set("https.bypass", "[\"bank.test\"]"));
    let roots = tls_proxy.dir().join("origins.pem");
    let roots = roots.to_str().expect("plain");
    let printed = tls_proxy.curl(&["--cacert", roots, "https://bank.test/a"]);
    assert!(printed.contains("200 200"), "{printed}");
}

#[test]
fn clients_with_the_wrong_protocol_get_an_explanation() {
    let origin = Origin::start();
    let tls_proxy = start(&origin, |settings| settings);
    let mut plain = Wire::connect(tls_proxy.tls);
    let answer = get(&mut plain, "/a");
    let problem = answer.expect_refusal(400, None, "http_request_error");
    assert_eq!(problem["reason"], "tls-required");
    assert!(problem["detail"].to_string().contains("https://"), "{problem}");
    plain.expect_close();
    assert_eq!(tls_proxy.handshakes("plain"), 1.0);
    let wire = tls_proxy.proxy.connect();
    let roots = Authority::trusted().pem.as_bytes();
    assert!(wire.start_tls("localhost", roots, &["http/1.1"]).is_err());
    eventually("the log explains the error", || {
        tls_proxy.proxy.log().contains("this is TLS, but this listener uses plain HTTP")
    });
    assert!(tls_proxy.connect_as("other.test").is_err());
    eventually("distrust is counted", || tls_proxy.handshakes("untrusted") == 1.0);
    assert_eq!(origin.seen(), [""; 0], "nothing arrived");
}

#[test]
fn a_handshake_has_a_timeout_and_frees_its_connection() {
    let origin = Origin::start();
    let tls_proxy = start(&origin, |settings| {
        settings.set("proxy.header_timeout", "\"3s\"").set("proxy.max_connections", "3")
    });
    let mut silent = Wire::connect(tls_proxy.tls);
    let mut slow = Wire::connect(tls_proxy.tls);
    slow.send([0x16, 3, 1, 2]);
    let mut malformed = Wire::connect(tls_proxy.tls);
    malformed.send([0x16, 3, 1, 0, 5, 9, 9, 9, 9, 9]);
    for wire in [&mut silent, &mut slow] {
        wire.expect_close();
    }
    eventually("both are counted", || tls_proxy.handshakes("timeout") == 2.0);
    eventually("the malformed one is counted", || tls_proxy.handshakes("failed") == 1.0);
    eventually("connections are free again", || tls_proxy.connect_as("localhost").is_ok());
}

#[test]
fn a_renewed_certificate_is_used_and_an_invalid_pair_is_not() {
    let origin = Origin::start();
    let tls_proxy = start(&origin, |settings| settings);
    let (mut open, first) = tls_proxy.connect();
    assert_eq!(get(&mut open, "/a").status, 200);
    write_certificate(tls_proxy.dir(), "localhost");
    eventually("the new certificate is used", || tls_proxy.connect().1 != first);
    let (_, second) = tls_proxy.connect();
    assert_eq!(get(&mut open, "/b").status, 200, "open connections continue");
    // A key that belongs to another certificate.
    let (_, key) = pem_pair("localhost");
    std::fs::write(tls_proxy.dir().join("proxy.key"), key).expect("writable");
    let unchanged = || tls_proxy.proxy.log().matches("proxy.certificate: ").count();
    eventually("it is logged", || unchanged() == 1);
    assert_eq!(tls_proxy.connect().1, second);
    assert_eq!(tls_proxy.proxy.metric("wayleave_config_last_reload_successful", &[]), 0.0);
    tls_proxy.proxy.signal("HUP");
    eventually("it is logged again", || unchanged() == 2);
    assert_eq!(tls_proxy.connect().1, second);
    // Put in place by renaming, as certbot and Kubernetes do.
    let (certificate, key) = pem_pair("localhost");
    for (name, text) in [("proxy.crt", certificate), ("proxy.key", key)] {
        let new = tls_proxy.dir().join("new");
        std::fs::write(&new, text).expect("writable");
        std::fs::rename(&new, tls_proxy.dir().join(name)).expect("renamed");
    }
    eventually("the third certificate is used", || tls_proxy.connect().1 != second);
}

#[test]
fn behind_a_load_balancer_tls_comes_after_the_header() {
    let origin = Origin::start();
    let tls_proxy = start(&origin, |settings| {
        settings
            .set("proxy.proxy_protocol", "[\"127.0.0.1\"]")
            .with(crawler("news", "NewsBot").matched_by("addresses", ["203.0.113.7"]))
    });
    let mut wire = Wire::connect(tls_proxy.tls);
    wire.send(b"PROXY TCP4 203.0.113.7 127.0.0.1 40000 3128\r\n");
    let roots = Authority::trusted().pem.as_bytes();
    let secured = wire.start_tls("localhost", roots, &[]);
    let mut wire = secured.expect("the proxy is trusted").wire;
    assert_eq!(get(&mut wire, "/a").status, 200);
    eventually("it is recorded", || {
        let log = tls_proxy.proxy.log();
        log.contains("crawler=news ") && log.contains("client=203.0.113.7 ")
    });
}

#[test]
fn operators_see_every_listener() {
    let origin = Origin::start();
    let tls_proxy = start(&origin, |settings| settings);
    let status = tls_proxy.proxy.admin_get("/v1/status").json();
    let expected =
        [format!("http://{}", tls_proxy.proxy.proxy), format!("https://{}", tls_proxy.tls)];
    assert_eq!(status["listeners"], serde_json::json!(expected));
    let pac = tls_proxy.proxy.admin_get("/proxy.pac").text();
    assert!(pac.contains(&format!("PROXY {}", tls_proxy.proxy.proxy)), "{pac}");
}

#[test]
fn the_environment_names_the_tls_listener_if_it_is_the_only_one() {
    let dir = tempfile::tempdir().expect("a directory");
    write_certificate(dir.path(), "localhost");
    let check = |listen: &str, arguments: &[&str]| {
        let text = format!(
            "[proxy]\nlisten = [{listen}]\ncertificate = \"proxy.crt\"\nkey = \"proxy.key\"\n"
        );
        let file = dir.path().join("my.toml");
        std::fs::write(&file, text).expect("writable");
        let mut command = command();
        command.args(arguments).arg("--config").arg(&file);
        status_and_output(command.current_dir(dir.path())).1
    };
    let only = check("\"https://0.0.0.0:3130\"", &["env", "--ca", "ca.crt"]);
    assert!(only.contains("https_proxy=https://127.0.0.1:3130 "), "{only}");
    let both = check("\"https://0.0.0.0:3130\", \"0.0.0.0:3128\"", &["env", "--ca", "ca.crt"]);
    assert!(both.contains("https_proxy=http://127.0.0.1:3128 "), "{both}");
    let printed = check("\"https://0.0.0.0:3130\"", &["config", "show"]);
    assert!(printed.contains("listen = [\"https://0.0.0.0:3130\"]"), "{printed}");
}
