//! `wayleave fleet check` against engines that are unsuitable, or deny this node what it needs.

use std::path::Path;

use super::engines::{Product, Server};
use super::servers::USER;
use crate::harness::tls::Authority;
use crate::harness::tools::status_and_output;
use crate::harness::wayleave::command;
use crate::harness::{eventually, ports};

/// Runs the command with `store` in its configuration. Returns its exit status and output.
fn check(store: &str) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let file = dir.path().join("config.toml");
    let text = format!("[store]\nkind = \"redis\"\n{store}\n");
    std::fs::write(&file, text).expect("it can be written");
    let mut command = command();
    command.args(["fleet", "check", "--config"]).arg(&file);
    status_and_output(&mut command)
}

#[track_caller]
fn expect_fit(store: &str) {
    let (status, text) = check(store);
    assert_eq!(status, Some(0), "{text}");
    assert_eq!(text.matches(" ok\n").count(), 12, "{text}");
}

/// Expects `verb` as the first operation that fails, with `message`.
#[track_caller]
fn expect_unfit(store: &str, verb: &str, message: &str) {
    let (status, text) = check(store);
    assert_eq!(status, Some(2), "{text}");
    let failed = text.lines().find(|line| !line.ends_with(" ok"));
    assert_eq!(failed, Some(&*format!("{verb:<9} {message}")), "{text}");
    let end = "\nwayleave: this node cannot take part in the fleet\n";
    assert!(text.ends_with(end), "{text}");
}

fn url(server: &Server) -> String {
    format!("url = \"{}\"", server.url())
}

fn user(server: &Server, password: &str) -> String {
    let port = server.port;
    format!("url = \"redis://wayleave:{password}@127.0.0.1:{port}\"")
}

#[test]
fn a_wrong_and_a_missing_password_are_distinguished() {
    let server = Server::start(Product::Redis);
    server.command(USER);
    expect_fit(&user(&server, "secret"));
    let wrong = "denied: the engine rejected this user or password";
    expect_unfit(&user(&server, "wrong"), "beat", wrong);
    server.command(&["config", "set", "requirepass", "secret"]);
    let none = "denied: the engine requires a password: set store.password_file";
    expect_unfit(&url(&server), "beat", none);
}

#[test]
fn each_right_that_is_missing_is_named() {
    for product in [Product::Redis, Product::Valkey] {
        let server = Server::start(product);
        server.command(USER);
        let by_user = user(&server, "secret");
        // The scripts must be loaded: only a restarted server has none.
        expect_fit(&by_user);
        for (right, verb, script) in [
            ("eval", "beat", None),
            ("get", "beat", None),
            ("info", "beat", Some("join")),
            ("xadd", "settle", Some("settle")),
            ("xread", "changes", None),
            ("zrank", "take", Some("take")),
            ("pexpire", "take", Some("take")),
            ("zrange", "resting", Some("resting")),
        ] {
            server.command(&["acl", "setuser", "wayleave", &format!("-{right}")]);
            let (status, text) = check(&by_user);
            server.command(&["acl", "setuser", "wayleave", &format!("+{right}")]);
            assert_eq!(status, Some(2), "{right}: {text}");
            let message = match script {
                Some(script) if product == Product::Redis => {
                    format!("the user lacks the right +{right} (lua/{script}.lua)")
                }
                _ => format!("the '{right}' command"),
            };
            let failed = text.lines().find(|line| !line.ends_with(" ok"));
            let failed = failed.expect("an operation fails");
            assert!(failed.starts_with(&format!("{verb:<9} denied: ")), "{text}");
            assert!(failed.contains(&message), "{failed}: {message}");
        }
        expect_fit(&by_user);
    }
}

#[test]
fn a_prefix_that_the_user_may_not_use_is_named() {
    let server = Server::start(Product::Redis);
    server.command(USER);
    let elsewhere = user(&server, "secret") + "\nprefix = \"other\"";
    let (status, text) = check(&elsewhere);
    assert_eq!(status, Some(2), "{text}");
    assert!(text.starts_with("beat      denied: "), "{text}");
    assert!(text.contains("the user needs ~other:*\n"), "{text}");
}

#[test]
fn another_fleet_is_detected_by_its_partitions_and_format() {
    let server = Server::start(Product::Redis);
    expect_fit(&url(&server));
    expect_unfit(
        &(url(&server) + "\npartitions = 8"),
        "beat",
        "denied: the fleet of the prefix wl has format 1, 64 partitions; this node has format 1, 8 partitions",
    );
    server.command(&["set", "wl:meta", "format 2, 64 partitions"]);
    expect_unfit(
        &url(&server),
        "beat",
        "denied: the fleet of the prefix wl has format 2, 64 partitions; this node has format 1, 64 partitions",
    );
}

#[test]
fn missing_and_unexpected_tls_are_reported() {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let (server, port) = Server::start_with_tls(Product::Redis, dir.path());
    let by_tls =
        |host: &str, ca: &Path| format!("url = \"rediss://{host}:{port}\"\nca_file = {ca:?}");
    let (ca, certificate) = (dir.path().join("ca"), dir.path().join("crt"));
    std::fs::write(&ca, &Authority::trusted().pem).expect("it can be written");
    expect_fit(&by_tls("127.0.0.1", &ca));
    expect_unfit(
        &by_tls("127.0.0.1", &certificate),
        "beat",
        "connection: invalid peer certificate: UnknownIssuer: neither store.ca_file nor the system has the CA of the engine's certificate",
    );
    let (status, text) = check(&by_tls("localhost", &ca));
    assert_eq!(status, Some(2), "{text}");
    assert!(text.contains("not valid for name \"localhost\""), "{text}");
    let (status, text) = check(&format!("url = \"redis://127.0.0.1:{port}\""));
    assert_eq!(status, Some(2), "{text}");
    let hint = ": if the port uses TLS, store.url must begin with rediss:\n";
    assert!(text.starts_with("beat      connection: ") && text.contains(hint), "{text}");
    expect_unfit(
        &format!("url = \"rediss://127.0.0.1:{}\"", server.port),
        "beat",
        "connection: no connection within 2s: if the port does not use TLS, store.url must begin with redis:",
    );
}

#[test]
fn a_full_engine_is_distinguished_from_one_that_drops_keys() {
    let server = Server::start(Product::Redis);
    server.command(&["config", "set", "maxmemory", "1"]);
    let full = "full: the engine's memory is full";
    expect_unfit(&url(&server), "beat", full);
    server.command(&["config", "set", "maxmemory", "0"]);
    expect_fit(&url(&server));
    server.command(&["config", "set", "maxmemory", "1"]);
    // A node that joins later continues with the pace of the others.
    expect_unfit(&url(&server), "settle", full);
    server.command(&["config", "set", "maxmemory-policy", "allkeys-lru"]);
    let (status, text) = check(&url(&server));
    assert_eq!(status, Some(2), "{text}");
    let message = "has the maxmemory-policy allkeys-lru, which may delete delays; set noeviction";
    assert!(text.starts_with("beat      denied: ") && text.contains(message), "{text}");
}

#[test]
fn a_replica_and_a_server_without_cluster_are_reported() {
    let primary = Server::start(Product::Redis);
    let port = primary.port.to_string();
    let replica = Server::start_with(Product::Redis, &["--replicaof", "127.0.0.1", &port]);
    eventually("it follows its primary", || {
        let replication = replica.command(&["info", "replication"]);
        replication.contains("master_link_status:up")
    });
    expect_unfit(
        &url(&replica),
        "beat",
        "connection: the server is a read-only replica: name the primary in store.url",
    );
    expect_unfit(
        &(url(&primary) + "\ncluster = true"),
        "beat",
        "connection: store.cluster is set, but the server is not part of a cluster",
    );
}

#[test]
fn a_silent_and_an_absent_engine_are_reported() {
    let server = Server::start(Product::Redis);
    server.signal("STOP");
    expect_unfit(&url(&server), "beat", "timeout: no answer in time");
    server.signal("CONT");
    expect_unfit(
        &format!("url = \"redis://127.0.0.1:{}\"", ports::free()),
        "beat",
        "connection: Connection refused",
    );
}
