//! The crawler with a password in docs/configuration.md, from its hash to its requests.

use std::fs;

use crate::clients::code_blocks::block;
use crate::clients::snippets::{LIMIT, Stage, snippet};
use crate::harness::tools::{both_streams, clean, output_of};
use crate::harness::{Reply, eventually};

/// Starts a proxy with the documented crawler, whose hash is that of the password in a file beside its configuration.
fn stage() -> Stage {
    let dir = tempfile::tempdir().expect("a directory");
    let mut shell = clean("/bin/sh");
    let lines = snippet("password-hash").text;
    let printed = output_of(shell.args(["-ec", &lines]).current_dir(dir.path()), b"", LIMIT);
    let documented = block("docs/configuration.md", "toml", "password_hash");
    let (before, hash) = documented.split_once("password_hash = ").expect("it has a hash");
    assert!(hash.starts_with("\"$argon2id$v=19$m=4096,t=3,p=1$"), "{hash}");
    let table = format!("{before}password_hash = \"{}\"\n", printed.trim_end());
    let stage =
        Stage::with("User-agent: *\nAllow: /\n", Reply::html("Example Domain"), |settings| {
            settings.table(&table).set("proxy.require_crawler", "true")
        });
    fs::copy(dir.path().join("news.password"), stage.proxy.dir.path().join("news.password"))
        .expect("the first line wrote it");
    stage
}

#[test]
fn a_documented_password_proves_its_crawler() {
    let stage = stage();
    let request = snippet("password-environment");
    let output = stage.run(&request);
    let printed = both_streams(&output);
    assert!(output.status.success() && printed.contains("Example Domain"), "{printed}");
    let forwarded = [("crawler", "news"), ("outcome", "forwarded")];
    eventually("it is counted", || {
        stage.proxy.metric("wayleave_requests_total", &forwarded) == 1.0
    });
    let found = stage.proxy.admin_get("/v1/decisions?crawler=news").json();
    let proofs = found["decisions"].as_array().expect("a list").iter();
    let mut proofs = proofs.map(|decision| decision["proven_by"].clone());
    assert!(proofs.all(|proof| proof == "password"), "{found}");

    fs::write(stage.proxy.dir.path().join("news.password"), "wrong\n").expect("writable");
    let printed = both_streams(&stage.run(&request));
    assert!(printed.contains("407"), "{printed}");
    let refused = [("outcome", "refused"), ("reason", "wrong-password")];
    eventually("it is refused", || stage.proxy.metric("wayleave_requests_total", &refused) == 1.0);
}
