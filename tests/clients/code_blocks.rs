//! The code blocks of the documents, except the clients' programs: configurations, commands, and their output.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;
use toml::{Table, Value as Toml};

use crate::clients::snippets::{Snippet, Stage};
use crate::harness::tools::{both_streams, clean, output_of, program, project, python, run, sbin};
use crate::harness::wayleave::command;

const LIMIT: Duration = Duration::from_secs(60);
const ROBOTS: &str = "User-agent: *\nDisallow: /private\n";

/// Returns the blocks of a language, in their order.
fn blocks(file: &str, language: &str) -> Vec<String> {
    let text = std::fs::read_to_string(project().join(file)).expect("there is such a file");
    let begin = format!("\n```{language}\n");
    let parts = text.split(&begin).skip(1);
    parts.map(|part| part.split("```").next().expect("a fence ends").to_owned()).collect()
}

/// Returns the only block that contains a text.
#[track_caller]
pub fn block(file: &str, language: &str, contained: &str) -> String {
    let mut found = blocks(file, language);
    found.retain(|block| block.contains(contained));
    assert_eq!(found.len(), 1, "{file}: {contained}");
    found.remove(0)
}

fn wayleave(dir: &Path, arguments: &[&str]) -> Output {
    run(command().args(arguments).current_dir(dir), b"", LIMIT)
}

/// Writes the files that configurations in the documents name.
fn write_files(dir: &Path) {
    let request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=proxy.example \
                   -addext subjectAltName=DNS:proxy.example -keyout proxy.key -out proxy.crt";
    let mut openssl = clean(program("openssl"));
    output_of(openssl.args(request.split(' ')).current_dir(dir), b"", LIMIT);
    std::fs::copy(dir.join("proxy.crt"), dir.join("clients-ca.crt")).expect("writable");
    std::fs::write(dir.join("redis-password"), "secret\n").expect("writable");
    std::fs::write(dir.join("fleet.key"), [7; 32]).expect("writable");
    std::fs::create_dir(dir.join("teams")).expect("writable");
    std::fs::write(dir.join("teams/a.toml"), "").expect("writable");
}

/// Returns `base` with `changes` to its keys.
fn merged(base: Table, changes: Table) -> Table {
    let mut all = base;
    for (key, value) in changes {
        let value = match (all.remove(&key), value) {
            (Some(Toml::Table(base)), Toml::Table(changes)) => Toml::Table(merged(base, changes)),
            (_, value) => value,
        };
        all.insert(key, value);
    }
    all
}

/// Blocks of a document may build on earlier ones.
#[test]
fn every_configuration_in_the_documents_is_valid() {
    let dir = tempfile::tempdir().expect("a directory");
    write_files(dir.path());
    let mut count = 0;
    for file in ["README.md", "docs/configuration.md", "docs/fleet.md", "docs/moving.md"] {
        let mut before = Table::new();
        for block in blocks(file, "toml") {
            let shown: Table = block.parse().expect("TOML");
            before = merged(before, shown);
            let text = toml::to_string(&before).expect("TOML");
            std::fs::write(dir.path().join("config.toml"), text).expect("writable");
            let output = wayleave(dir.path(), &["config", "check"]);
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && stderr.is_empty(), "{file}: {block}\n{stderr}");
            count += 1;
        }
    }
    assert_eq!(count, 13, "configurations in the documents");
}

#[test]
fn mistakes_are_printed_as_documented() {
    let dir = tempfile::tempdir().expect("a directory");
    let mistaken = "[proxy]\nlisten = [\"localhost:3128\"]\n\n[robots]\nmax_age = \"25h\"\n";
    std::fs::write(dir.path().join("my.toml"), mistaken).expect("writable");
    let shown = block("docs/configuration.md", "console", "config check");
    let (command, expected) = shown.split_once('\n').expect("two lines");
    let arguments: Vec<_> = command.split(' ').skip(2).collect();
    let output = wayleave(dir.path(), &arguments);
    assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
}

#[test]
fn promtool_accepts_the_configurations_for_prometheus() {
    let files = ["README.md", "docs/operating.md", "dashboards/README.md"];
    let all = files.map(|file| blocks(file, "yaml"));
    for (file, blocks) in files.iter().zip(&all) {
        assert_eq!(blocks.len(), 1, "{file}");
        let named =
            tempfile::Builder::new().suffix(".yml").tempfile_in(project().join("dashboards"));
        let named = named.expect("writable");
        std::fs::write(named.path(), &blocks[0]).expect("writable");
        let mut promtool = clean(program("promtool"));
        output_of(promtool.args(["check", "config"]).arg(named.path()), b"", LIMIT);
    }
}

#[test]
fn nft_accepts_the_rules_in_the_documents() {
    let dir = tempfile::tempdir().expect("a directory");
    let all = blocks("docs/closing.md", "nft");
    assert_eq!(all.len(), 4, "rules for a lock, a capture, a router, and its TPROXY");
    for rules in all {
        let file = dir.path().join("rules.nft");
        std::fs::write(&file, rules).expect("writable");
        // Even to check rules, nft asks the kernel, which answers only an administrator of the network.
        let mut nft = clean(program("unshare"));
        nft.args(["--user", "--map-root-user", "--net"]).arg(sbin("nft"));
        output_of(nft.args(["--check", "--file"]).arg(file), b"", LIMIT);
    }
}

#[test]
fn the_documented_unit_lets_a_service_reach_only_the_proxy() {
    let dir = tempfile::tempdir().expect("a directory");
    let lines = block("docs/closing.md", "ini", "[Service]");
    let unit = dir.path().join("crawler.service");
    std::fs::write(&unit, format!("{lines}ExecStart=/bin/true\n")).expect("writable");
    let mut systemd = clean(program("systemd-analyze"));
    let output = run(systemd.args(["verify", "--man=no"]).arg(&unit), b"", LIMIT);
    let printed = both_streams(&output);
    assert!(output.status.success() && !printed.contains("crawler."), "{printed}");
    for line in ["IPAddressDeny=any", "IPAddressAllow=127.0.0.1", "NoNewPrivileges=true"] {
        assert!(lines.lines().any(|other| other == line), "{line}");
    }
}

#[test]
fn the_documented_containers_have_one_way_out() {
    let shown = block("docs/closing.md", "yaml", "services:");
    let script = "import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)";
    let json = output_of(clean(python()).args(["-c", script]), shown.as_bytes(), LIMIT);
    let compose: Value = serde_json::from_str(&json).expect("JSON");
    let (services, networks) = (&compose["services"], &compose["networks"]);
    assert_eq!(services["crawler"]["networks"], serde_json::json!(["crawl"]));
    assert_eq!(networks["crawl"]["internal"], true);
    assert_eq!(services["wayleave"]["networks"], serde_json::json!(["crawl", "outside"]));
    assert_ne!(networks["outside"]["internal"], true);
    let proxy = &services["crawler"]["environment"]["https_proxy"];
    assert_eq!(proxy, "http://wayleave:3128", "the name of the service");
    for volume in services["crawler"]["volumes"].as_array().expect("a list") {
        let volume = volume.as_str().expect("text");
        assert!(!volume.contains("ca.key") && !volume.contains("/ca:"), "no key: {volume}");
    }
}

#[test]
fn the_documented_commands_make_an_admin_token() {
    let dir = tempfile::tempdir().expect("a directory");
    let lines = block("docs/operating.md", "sh", "openssl rand");
    let mut shell = clean("/bin/sh");
    let printed = output_of(shell.args(["-ec", &lines]).current_dir(dir.path()), b"", LIMIT);
    let digest = printed.split(' ').next().expect("a digest");
    let config = format!("admin.token_sha256 = {digest:?}\n");
    std::fs::write(dir.path().join("config.toml"), config).expect("writable");
    let output = wayleave(dir.path(), &["config", "check"]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn the_documented_commands_combine_the_roots() {
    let dir = tempfile::tempdir().expect("a directory");
    assert!(wayleave(dir.path(), &["ca", "init"]).status.success());
    write_files(dir.path());
    std::fs::rename(dir.path().join("proxy.crt"), dir.path().join("proxy-ca.crt")).expect("there");
    let lines = block("docs/configuration.md", "sh", "roots.pem");
    let lines = lines.replace("$(wayleave", &format!("$({}", crate::harness::wayleave::BINARY));
    let script = format!("{lines}\ngrep -c BEGIN \"$SSL_CERT_FILE\"; echo \"$https_proxy\"");
    let mut shell = clean("/bin/sh");
    let printed = output_of(shell.args(["-ec", &script]).current_dir(dir.path()), b"", LIMIT);
    assert_eq!(printed, "2\nhttps://proxy.example:3130\n");
}

fn stage() -> (Stage, String) {
    let stage = Stage::new(ROBOTS);
    let refusal = stage.proxy.get("http://example.com/private").json();
    let id = refusal["decision_id"].as_str().expect("an id").to_owned();
    (stage, id)
}

fn script(text: &str) -> Snippet {
    Snippet { name: "block".to_owned(), language: "sh".to_owned(), text: format!("set -e\n{text}") }
}

#[test]
fn the_commands_of_the_readme_answer_its_questions() {
    let (stage, id) = stage();
    let lines = block("README.md", "sh", "wayleave check");
    // What follows never ends.
    let lines = lines.replace("ID ", &format!("{id} ")).replace(" --follow", "");
    let output = stage.run(&script(&lines));
    let printed = both_streams(&output);
    assert!(output.status.success(), "{printed}");
    for words in [
        "forward https://example.com/page: no-matching-rule (200)",
        "refused 403 rule",
        "Refused: 1",
    ] {
        assert!(printed.contains(words), "{words} in {printed}");
    }
}

/// Returns the first word of each line that begins with one.
fn labels(text: &str) -> Vec<&str> {
    let lines = text.lines().filter(|line| line.starts_with(char::is_alphabetic));
    lines.filter_map(|line| line.split_whitespace().next()).collect()
}

#[test]
fn decision_and_report_print_what_the_documents_show() {
    let (stage, id) = stage();
    for (file, prompt, command) in [
        ("docs/refusals.md", "$ wayleave decision", format!("wayleave decision {id}")),
        ("docs/moving.md", "$ wayleave report", "wayleave report --since 7d".to_owned()),
    ] {
        let shown = block(file, "console", prompt);
        let output = stage.run(&script(&command));
        let printed = both_streams(&output);
        let printed: Vec<_> =
            labels(&printed).into_iter().filter(|label| *label != "Refused:").collect();
        let mut shown = labels(&shown);
        // One file was read where the document shows two.
        shown.dedup();
        assert_eq!(printed, shown, "{command}");
    }
}

#[test]
fn the_refusal_in_the_readme_is_real() {
    // As in the file shown, the rule is in line 160.
    let above = "# comment\n".repeat(158);
    let robots = format!("{above}User-agent: *\nDisallow: /wiki/Special:\n");
    let stage = Stage::new(&robots);
    let shown = block("README.md", "console", "$ curl -i");
    let shown = shown.replace("en.wikipedia.org", "example.com");
    let (command, response) = shown.split_once('\n').expect("lines");
    let before = block("README.md", "sh", "/ca.pem");
    let command = command.trim_start_matches("$ ");
    let output = stage.run(&script(&format!("{before}{command}\n")));
    let printed = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    let mut lines = printed.lines();
    for line in response.lines().filter(|line| !line.is_empty() && !line.starts_with('{')) {
        assert!(lines.any(|other| other.trim_end() == line), "{line} in {printed}");
    }
    let body: Value = serde_json::from_str(printed.lines().last().expect("a body")).expect("JSON");
    let shown = response.lines().last().expect("a body");
    for part in shown.trim_matches(['{', '}']).split(" ... ").flat_map(|part| part.split(",\"")) {
        let (name, value) = part.split_once("\":").expect("a member");
        let value: Value = serde_json::from_str(value.trim_end_matches(',')).expect("JSON");
        assert_eq!(body[name.trim_matches('"')], value, "{printed}");
    }
}
