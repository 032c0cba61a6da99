//! TLS to the proxy itself: `https://` listeners.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use crate::harness::tls::{Authority, pem_pair};
use crate::harness::tools::{clean, program, run};
use crate::harness::wayleave::{BINARY, Settings};
use crate::harness::{Origin, Response, Wayleave, Wire, eventually};

/// The deadline for other programs.
const LIMIT: Duration = Duration::from_secs(60);

/// A proxy with a plain and a TLS listener, whose certificate is for `localhost`.
pub struct Guarded {
    pub proxy: Wayleave,
    pub tls: SocketAddr,
}

pub fn start(origin: &Origin, change: impl FnOnce(Settings) -> Settings) -> Guarded {
    origin.site("shop.test").robots("User-agent: *\nDisallow: /private\n");
    let proxy = Wayleave::start_with(origin, |settings| {
        let state = settings.to_toml();
        let dir = state.lines().find_map(|line| line.strip_prefix("state.dir = \""));
        let dir = Path::new(dir.expect("the harness sets it").trim_end_matches('"'));
        renew(dir.parent().expect("it is in a directory"), "localhost");
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
    Guarded { proxy, tls }
}

/// Writes a new certificate of `host` and its key.
pub fn renew(dir: &Path, host: &str) {
    let (certificate, key) = pem_pair(host);
    std::fs::write(dir.join("proxy.crt"), certificate).expect("writable");
    std::fs::write(dir.join("proxy.key"), key).expect("writable");
}

impl Guarded {
    pub fn dir(&self) -> &Path {
        self.proxy.dir.path()
    }

    /// A connection inside TLS, and the proxy's certificate.
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

    /// Returns curl's result: status and body.
    pub fn curl(&self, arguments: &[&str]) -> String {
        let roots = self.dir().join("origins.pem");
        let mut command = clean(program("curl"));
        command.args(["-sS", "-w", "%{http_code} %{http_connect}"]);
        command.arg("--proxy");
        command.arg(format!("https://localhost:{}", self.tls.port()));
        command.arg("--proxy-cacert").arg(roots);
        command.arg("--cacert").arg(self.proxy.ca_file());
        command.args(arguments);
        let output = run(&mut command, b"", LIMIT);
        let said = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&said).into_owned()
    }
}

pub fn ask(wire: &mut Wire, path: &str) -> Response {
    let url = format!("http://shop.test{path}");
    wire.send_get(&url);
    wire.response()
}

#[test]
fn requests_and_tunnels_inside_tls_are_judged_as_others() {
    let origin = Origin::start();
    let guarded = start(&origin, |settings| settings);
    let (mut wire, _) = guarded.connect();
    assert_eq!(ask(&mut wire, "/a").status, 200);
    let refused = ask(&mut wire, "/private");
    assert_eq!(refused.json()["reason"], "rule");
    for scheme in ["http", "https"] {
        let said = guarded.curl(&[&format!("{scheme}://shop.test/a")]);
        assert!(said.contains("200 "), "{said}");
        let said = guarded.curl(&[&format!("{scheme}://shop.test/private")]);
        assert!(said.contains("\"reason\":\"rule\""), "{said}");
    }
    // By HTTP/2 inside the tunnel, and by HTTP/1.1.
    for version in ["--http2", "--http1.1"] {
        let said = guarded.curl(&[version, "https://shop.test/b", "https://shop.test/private"]);
        assert!(said.contains("200 200") && said.contains("403 "), "{said}");
    }
    assert!(!origin.seen().iter().any(|line| line.contains("/private")));
    assert!(guarded.handshakes("completed") >= 7.0);
}

#[test]
fn a_tunnel_that_nobody_looks_into_passes_inside_tls_too() {
    let origin = Origin::start();
    origin.site("bank.test").robots("");
    let guarded = start(&origin, |settings| settings.set("https.bypass", "[\"bank.test\"]"));
    let roots = guarded.dir().join("origins.pem");
    let roots = roots.to_str().expect("plain");
    let said = guarded.curl(&["--cacert", roots, "https://bank.test/a"]);
    assert!(said.contains("200 200"), "{said}");
}

#[test]
fn clients_with_the_wrong_protocol_get_an_explanation() {
    let origin = Origin::start();
    let guarded = start(&origin, |settings| settings);
    let mut plain = Wire::connect(guarded.tls);
    let answer = ask(&mut plain, "/a");
    let problem = answer.expect_refusal(400, None, "http_request_error");
    assert_eq!(problem["reason"], "tls-required");
    assert!(problem["detail"].to_string().contains("https://"), "{problem}");
    plain.expect_close();
    assert_eq!(guarded.handshakes("plain"), 1.0);
    let wire = guarded.proxy.connect();
    let roots = Authority::trusted().pem.as_bytes();
    assert!(wire.start_tls("localhost", roots, &["http/1.1"]).is_err());
    eventually("the log says what was wrong", || {
        guarded.proxy.log().contains("this is TLS, and this listener speaks plain HTTP")
    });
    assert!(guarded.connect_as("other.test").is_err());
    eventually("distrust is counted", || guarded.handshakes("untrusted") == 1.0);
    assert_eq!(origin.seen(), [""; 0], "nothing of it arrived");
}

#[test]
fn a_handshake_has_its_time_and_its_place() {
    let origin = Origin::start();
    let guarded = start(&origin, |settings| {
        settings.set("proxy.header_timeout", "\"400ms\"").set("proxy.max_connections", "3")
    });
    let mut silent = Wire::connect(guarded.tls);
    let mut slow = Wire::connect(guarded.tls);
    slow.send([0x16, 3, 1, 2]);
    let mut gone = Wire::connect(guarded.tls);
    gone.send([0x16, 3, 1, 0, 5, 9, 9, 9, 9, 9]);
    for wire in [&mut silent, &mut slow] {
        wire.expect_close();
    }
    eventually("both are counted", || guarded.handshakes("timeout") == 2.0);
    eventually("nonsense is", || guarded.handshakes("failed") == 1.0);
    eventually("the places are free again", || guarded.connect_as("localhost").is_ok());
}

#[test]
fn a_renewed_certificate_is_used_and_a_broken_pair_is_not() {
    let origin = Origin::start();
    let guarded = start(&origin, |settings| settings);
    let (mut open, first) = guarded.connect();
    assert_eq!(ask(&mut open, "/a").status, 200);
    renew(guarded.dir(), "localhost");
    eventually("the new certificate is shown", || guarded.connect().1 != first);
    let (_, second) = guarded.connect();
    assert_eq!(ask(&mut open, "/b").status, 200, "what is open goes on");
    // A key that belongs to another certificate.
    let (_, key) = pem_pair("localhost");
    std::fs::write(guarded.dir().join("proxy.key"), key).expect("writable");
    let unchanged = || guarded.proxy.log().matches("proxy.certificate: ").count();
    eventually("it is said", || unchanged() == 1);
    assert_eq!(guarded.connect().1, second);
    assert_eq!(guarded.proxy.metric("wayleave_config_last_reload_successful", &[]), 0.0);
    guarded.proxy.signal("HUP");
    eventually("it is said again", || unchanged() == 2);
    assert_eq!(guarded.connect().1, second);
    // Put in place by renaming, as certbot and Kubernetes do.
    let (certificate, key) = pem_pair("localhost");
    for (name, text) in [("proxy.crt", certificate), ("proxy.key", key)] {
        let new = guarded.dir().join("new");
        std::fs::write(&new, text).expect("writable");
        std::fs::rename(&new, guarded.dir().join(name)).expect("renamed");
    }
    eventually("the third is shown", || guarded.connect().1 != second);
}

#[test]
fn behind_a_load_balancer_tls_comes_after_the_header() {
    let origin = Origin::start();
    let guarded = start(&origin, |settings| {
        settings
            .set("proxy.proxy_protocol", "[\"127.0.0.1\"]")
            .table("[[crawler]]\nname = \"news\"\ntokens = [\"NewsBot\"]\nmatch = { addresses = [\"203.0.113.7\"] }\n")
    });
    let mut wire = Wire::connect(guarded.tls);
    wire.send(b"PROXY TCP4 203.0.113.7 127.0.0.1 40000 3128\r\n");
    let roots = Authority::trusted().pem.as_bytes();
    let secured = wire.start_tls("localhost", roots, &[]);
    let mut wire = secured.expect("the proxy is trusted").wire;
    assert_eq!(ask(&mut wire, "/a").status, 200);
    eventually("it is recorded", || {
        let log = guarded.proxy.log();
        log.contains("crawler=news ") && log.contains("client=203.0.113.7 ")
    });
}

#[test]
fn operators_see_every_listener() {
    let origin = Origin::start();
    let guarded = start(&origin, |settings| settings);
    let status = guarded.proxy.admin_get("/v1/status").json();
    let expected = [format!("http://{}", guarded.proxy.proxy), format!("https://{}", guarded.tls)];
    assert_eq!(status["listeners"], serde_json::json!(expected));
    let pac = guarded.proxy.admin_get("/proxy.pac").text();
    assert!(pac.contains(&format!("PROXY {}", guarded.proxy.proxy)), "{pac}");
}

#[test]
fn the_environment_names_the_tls_listener_if_it_is_the_only_one() {
    let dir = tempfile::tempdir().expect("a directory");
    renew(dir.path(), "localhost");
    let check = |listen: &str, arguments: &[&str]| {
        let text = format!(
            "[proxy]\nlisten = [{listen}]\ncertificate = \"proxy.crt\"\nkey = \"proxy.key\"\n"
        );
        let file = dir.path().join("my.toml");
        std::fs::write(&file, text).expect("writable");
        let mut command = clean(BINARY);
        command.args(arguments).arg("--config").arg(&file);
        let output = run(command.current_dir(dir.path()), b"", LIMIT);
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let only = check("\"https://0.0.0.0:3130\"", &["env"]);
    assert!(only.contains("https_proxy=https://127.0.0.1:3130 "), "{only}");
    let both = check("\"https://0.0.0.0:3130\", \"0.0.0.0:3128\"", &["env"]);
    assert!(both.contains("https_proxy=http://127.0.0.1:3128 "), "{both}");
    let shown = check("\"https://0.0.0.0:3130\"", &["config", "check"]);
    assert!(shown.contains("listen = [\"https://0.0.0.0:3130\"]"), "{shown}");
}
