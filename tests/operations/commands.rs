//! The commands other than `serve`: their output and their exit statuses.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use crate::harness::tools::{self, output_of, program};
use crate::harness::wayleave::{BINARY, command};
use crate::harness::{Origin, Reply, Wayleave, eventually};

const LIMIT: Duration = Duration::from_secs(120);

fn run(dir: &Path, arguments: &[&str]) -> Output {
    tools::run(command().args(arguments).current_dir(dir), b"", LIMIT)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the output is text")
}

#[test]
fn usage_errors_end_with_2() {
    let dir = tempfile::tempdir().expect("a directory");
    for arguments in [
        &["--no-such-option"][..],
        &["no-such-command"],
        &["config"],
        &["ca"],
        &["env", "--client", "telnet"],
        &["env", "--proxy", "proxy.test:3128"],
        &["env", "--proxy", "http://proxy.test:3128/path"],
        &["completions", "telnet"],
        &["man", "missing"],
        &["publish"],
        &["comply", "--published", "missing"],
    ] {
        let output = run(dir.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{arguments:?}: {output:?}");
    }
    for arguments in [&["--help"][..], &["--version"]] {
        assert_eq!(run(dir.path(), arguments).status.code(), Some(0), "{arguments:?}");
    }
    let left: Vec<_> = std::fs::read_dir(dir.path()).expect("a directory").collect();
    assert!(left.is_empty(), "help writes no file: {left:?}");
}

#[test]
fn the_printed_default_is_the_shipped_file_and_is_accepted() {
    let dir = tempfile::tempdir().expect("a directory");
    let shipped =
        std::fs::read(tools::project().join("config.toml")).expect("config.toml is shipped");
    let output = run(dir.path(), &["config", "default"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stdout), text(&shipped));
    std::fs::write(dir.path().join("config.toml"), shipped).expect("writable");
    let of_file = run(dir.path(), &["config", "show"]);
    assert_eq!(of_file.status.code(), Some(0), "{of_file:?}");
    std::fs::remove_file(dir.path().join("config.toml")).expect("it was written");
    let built_in = run(dir.path(), &["config", "show"]);
    let settings = |output: &Output| {
        text(&output.stdout)
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        settings(&of_file),
        settings(&built_in),
        "the shipped file has the built-in defaults"
    );
}

#[test]
fn the_ca_is_made_once_and_shown() {
    let dir = tempfile::tempdir().expect("a directory");
    let nothing = run(dir.path(), &["ca", "show"]);
    assert_eq!(nothing.status.code(), Some(2), "{nothing:?}");
    assert_eq!(run(dir.path(), &["ca", "init"]).status.code(), Some(0));
    let key = dir.path().join("wayleave-state/ca/ca.key");
    assert_eq!(std::fs::metadata(&key).expect("made").permissions().mode() & 0o777, 0o600);
    let first = run(dir.path(), &["ca", "show"]);
    run(dir.path(), &["ca", "init"]);
    let again = run(dir.path(), &["ca", "show"]);
    assert_eq!(first.stdout, again.stdout, "`ca init` replaces nothing");
    std::fs::remove_file(key).expect("it is there");
    let without_key = run(dir.path(), &["ca", "show"]);
    assert_eq!(without_key.stdout, first.stdout, "{without_key:?}");
    let pem = text(&first.stdout);
    let fingerprint = output_of(
        tools::clean(program("openssl")).args(["x509", "-noout", "-fingerprint", "-sha256"]),
        &pem.as_bytes()[pem.find("-----BEGIN").expect("a certificate")..],
        LIMIT,
    );
    let fingerprint =
        fingerprint.trim().rsplit('=').next().expect("openssl prints it after an equals sign");
    assert!(pem.contains(fingerprint), "{pem}\nopenssl prints {fingerprint}");
}

#[test]
fn openssl_verifies_the_ca_and_its_certificates() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let text = output_of(
        tools::clean(program("openssl"))
            .args(["x509", "-noout", "-text", "-in"])
            .arg(proxy.ca_file()),
        b"",
        LIMIT,
    );
    for part in ["CA:TRUE", "X509v3 Basic Constraints: critical", "Certificate Sign"] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
    let mut wire = proxy.connect();
    wire.connect_tunnel("shop.test:443");
    let secured = wire.start_tls("shop.test", &proxy.ca_pem(), &[]).expect("trusted");
    let leaf = proxy.dir.path().join("leaf.der");
    std::fs::write(&leaf, &secured.chain[0]).expect("writable");
    let verified = output_of(
        tools::clean(program("openssl"))
            .args([
                "verify",
                "-x509_strict",
                "-purpose",
                "sslserver",
                "-verify_hostname",
                "shop.test",
                "-CAfile",
            ])
            .arg(proxy.ca_file())
            .arg(&leaf),
        b"",
        LIMIT,
    );
    assert!(verified.trim().ends_with("OK"), "{verified}");
}

#[test]
fn a_metric_has_the_expiry_of_the_ca() {
    let proxy = Wayleave::start(&Origin::start());
    let arguments = ["x509", "-noout", "-enddate", "-dateopt", "iso_8601", "-in"];
    let mut openssl = tools::clean(program("openssl"));
    let printed = output_of(openssl.args(arguments).arg(proxy.ca_file()), b"", LIMIT);
    let end = printed.trim().trim_start_matches("notAfter=").replace(' ', "T");
    let end = humantime::parse_rfc3339(&end).expect("a time");
    let end = end.duration_since(std::time::UNIX_EPOCH).expect("later");
    let expiry = proxy.metric("wayleave_ca_expiry_timestamp_seconds", &[]);
    assert_eq!(expiry, end.as_secs() as f64, "{printed}");
}

#[test]
fn serve_ends_with_1_and_names_a_port_in_use() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(
        dir.path().join("config.toml"),
        format!("proxy.listen = [\"{address}\"]\nadmin.listen = \"127.0.0.1:0\"\n"),
    )
    .expect("writable");
    let output = run(dir.path(), &["serve"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let expected =
        format!("wayleave: proxy.listen: listening on {address} (is another wayleave running?");
    assert!(text(&output.stderr).contains(&expected), "{output:?}");
    let admin = format!("proxy.listen = [\"127.0.0.1:0\"]\nadmin.listen = \"{address}\"\n");
    std::fs::write(dir.path().join("config.toml"), admin).expect("writable");
    let output = run(dir.path(), &["serve"]);
    assert!(text(&output.stderr).contains(&expected.replace("proxy.", "admin.")), "{output:?}");
}

#[test]
fn the_start_prints_addresses_and_two_lines_to_paste() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let log = proxy.log();
    let lines: Vec<_> = log.lines().map(str::trim).collect();
    let admin = format!("http://{}/", proxy.admin);
    for part in [&*proxy.ca_file().display().to_string(), &admin, &format!("{admin}#/connect")] {
        assert!(log.contains(part), "{part} is missing: {log}");
    }
    let eval = lines.iter().position(|line| line.starts_with("eval ")).expect("a line to paste");
    assert!(lines[eval + 1].starts_with("curl -i https://"), "{log}");
    // As a user pastes it: in any directory, whatever is there.
    let elsewhere = tempfile::tempdir().expect("a directory");
    let variables = |line: &str| {
        let script = format!("{line}\nexport -p");
        let mut shell = tools::clean("/bin/sh");
        output_of(shell.args(["-c", &script]).current_dir(elsewhere.path()), b"", LIMIT)
    };
    let set = variables(lines[eval]);
    let url = format!("http://{}", proxy.proxy);
    for expected in [
        format!("https_proxy='{url}'"),
        "no_proxy='localhost,127.0.0.1,::1'".to_owned(),
        format!("CURL_CA_BUNDLE='{}'", proxy.ca_file().display()),
    ] {
        assert!(set.contains(&expected), "{expected} in {set}");
    }
    let file = proxy.config_with_ports();
    let own = variables(&format!("eval \"$('{BINARY}' env --config '{}')\"", file.display()));
    assert_eq!(set, own, "the same as without --proxy and --ca");
}

#[test]
fn a_wrong_argument_is_explained() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    proxy.get("http://shop.test/");
    let file = proxy.config_with_ports();
    let file = file.to_str().expect("text");
    for (arguments, expected) in [
        (
            &["robots", "show", "http://shop.test", "--at", "someday"][..],
            "\"someday\" is not a time; write 2026-11-22T08:00:00Z, 2026-11-22, yesterday, now or 3d",
        ),
        (
            &["robots", "list", "--state", "dead"],
            "[possible values: fresh, stale, unavailable, unreachable]",
        ),
        (&["robots", "show", "shop.test"], "nothing is known about https://shop.test"),
    ] {
        let output = run(proxy.dir.path(), &[arguments, &["--config", file]].concat());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let stderr = text(&output.stderr);
        assert!(stderr.contains(expected), "{expected} in {stderr}");
    }
    for at in ["2999-01-01", "0s", "now", "today", "0s ago"] {
        let output = run(
            proxy.dir.path(),
            &["robots", "show", "http://shop.test", "--at", at, "--config", file],
        );
        assert_eq!(output.status.code(), Some(0), "{at}: {output:?}");
    }
    for (path, expected) in [
        (
            "/v1/robots?state=dead",
            "state: \"dead\" is not one of fresh, stale, unavailable, unreachable",
        ),
        (
            "/v1/robots/http%3A%2F%2Fshop.test?at=someday",
            "at: \"someday\" is not a time; write 2026-11-22T08:00:00Z",
        ),
    ] {
        let answer = proxy.admin_get(path).json();
        let error = answer["error"].as_str().expect("a string");
        assert!(error.starts_with(expected), "{error}");
    }
}

/// Writes a configuration to `etc` in a new directory. Returns that directory, `etc`, and another to run commands in.
fn config_elsewhere(text: &str) -> (tempfile::TempDir, std::path::PathBuf, std::path::PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let [etc, elsewhere] = ["etc", "elsewhere"].map(|name| dir.path().join(name));
    for dir in [&etc, &elsewhere] {
        std::fs::create_dir(dir).expect("writable");
    }
    std::fs::write(etc.join("config.toml"), text).expect("writable");
    (dir, etc, elsewhere)
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("a directory");
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("readable").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    names
}

#[test]
fn paths_are_relative_to_the_file_not_the_working_directory() {
    let roots = crate::harness::tls::Authority::trusted().pem.clone();
    let (_dir, etc, elsewhere) = config_elsewhere("upstream.extra_roots = [\"roots.pem\"]\n");
    std::fs::write(etc.join("roots.pem"), roots).expect("writable");
    let certificate = etc.join("wayleave-state/ca/ca.crt");
    let shown = certificate.display().to_string();
    for config in [etc.join("config.toml").display().to_string(), "../etc/config.toml".into()] {
        let with_config = |arguments: &[&str]| {
            let arguments = [arguments, &["--config", &config]].concat();
            let output = run(&elsewhere, &arguments);
            assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
            text(&output.stdout)
        };
        let made = with_config(&["ca", "init"]);
        assert!(made.contains(&shown) || config.starts_with(".."), "{made}");
        assert!(certificate.is_file());
        assert!(with_config(&["ca", "show"]).contains("BEGIN CERTIFICATE"));
        let environment = with_config(&["env"]);
        assert!(environment.contains("wayleave-state/ca/ca.crt"), "{environment}");
        let shown = with_config(&["config", "show"]);
        let state = etc.join("wayleave-state").display().to_string();
        assert!(shown.contains(&state) || config.starts_with(".."), "{shown}");
        std::fs::write(etc.join("wayleave-state/decisions.jsonl"), "").expect("writable");
        let report = with_config(&["report"]);
        assert!(report.contains("wayleave-state/decisions.jsonl"), "{report}");
    }
    assert_eq!(names(&elsewhere), [""; 0], "nothing is written to the working directory");
    assert_eq!(names(&etc), ["config.toml", "roots.pem", "wayleave-state"]);
}

#[test]
fn without_a_file_paths_are_below_the_working_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = run(dir.path(), &["ca", "init"]);
    let shown = dir.path().join("wayleave-state/ca/ca.crt").display().to_string();
    assert!(text(&output.stdout).contains(&shown), "{output:?}");
    assert!(dir.path().join("wayleave-state/ca/ca.crt").is_file());
}

fn mode(path: &Path) -> u32 {
    let found = std::fs::metadata(path).expect("it is there");
    found.permissions().mode() & 0o777
}

#[test]
fn other_users_can_read_only_the_certificate() {
    let (_dir, etc, elsewhere) = config_elsewhere("");
    let config = etc.join("config.toml").display().to_string();
    run(&elsewhere, &["ca", "init", "--config", &config]);
    let state = etc.join("wayleave-state");
    let ca = state.join("ca");
    assert_eq!([mode(&state), mode(&ca)], [0o711; 2]);
    assert_eq!(mode(&ca.join("ca.crt")), 0o644);
    assert_eq!(mode(&ca.join("ca.key")), 0o600);

    std::fs::set_permissions(ca.join("ca.key"), PermissionsExt::from_mode(0o644)).expect("ours");
    let checked = run(&elsewhere, &["config", "check", "--config", &config]);
    let stderr = text(&checked.stderr);
    assert!(stderr.contains("other users can read") && stderr.contains("mode 644"), "{stderr}");
    assert_eq!(mode(&ca.join("ca.key")), 0o644, "a check changes nothing");
    run(&elsewhere, &["ca", "init", "--config", &config]);
    assert_eq!(mode(&ca.join("ca.key")), 0o600);
    let checked = run(&elsewhere, &["config", "check", "--config", &config]);
    assert_eq!(text(&checked.stderr), "");
}

#[test]
fn env_distinguishes_unreadable_and_missing_certificates() {
    let (dir, etc, elsewhere) = config_elsewhere("");
    let config = etc.join("config.toml").display().to_string();
    let missing = run(&elsewhere, &["env", "--config", &config]);
    assert!(text(&missing.stderr).contains("does not exist yet"), "{missing:?}");
    let fetched = "curl -sSfo ca.pem http://127.0.0.1:3129/ca.pem";
    assert!(text(&missing.stderr).contains(fetched), "{missing:?}");
    // Evaluated, it must change nothing: with a CA that is not there, no client of the shell could use TLS.
    assert_eq!((missing.stdout.len(), missing.status.code()), (0, Some(2)), "{missing:?}");
    run(&elsewhere, &["ca", "init", "--config", &config]);
    let ca = etc.join("wayleave-state/ca");
    std::fs::set_permissions(&ca, PermissionsExt::from_mode(0o700)).expect("ours");
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).expect("ours");
    // Root may read everything, so another user runs the command.
    let binary = dir.path().join("wayleave");
    std::fs::copy(BINARY, &binary).expect("it can be copied");
    let mut other_user = tools::clean(program("setpriv"));
    other_user
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&binary)
        .args(["env", "--config", &config])
        .current_dir("/");
    let user = output_of(tools::clean(program("id")).arg("-u"), b"", LIMIT);
    if user.trim() == "0" {
        // A process that another test starts meanwhile holds the copy open for writing until it runs its own program.
        let refused = std::iter::repeat_with(|| tools::run(&mut other_user, b"", LIMIT))
            .find(|output| !text(&output.stderr).contains("Text file busy"))
            .expect("the iterator is endless");
        let stderr = text(&refused.stderr);
        assert!(stderr.contains("permission denied") && stderr.contains("/ca.pem"), "{refused:?}");
        assert_eq!((refused.stdout.len(), refused.status.code()), (0, Some(2)), "{refused:?}");
        std::fs::set_permissions(&ca, PermissionsExt::from_mode(0o711)).expect("ours");
        let read = tools::run(&mut other_user, b"", LIMIT);
        assert_eq!(text(&read.stderr), "");
    }
}

#[test]
fn the_environment_of_another_machine_needs_no_configuration() {
    let dir = tempfile::tempdir().expect("a directory");
    let arguments = |proxy| ["env", "--proxy", proxy, "--ca", "/etc/ssl/wayleave.crt"];
    let output = run(dir.path(), &arguments("http://proxy.test:3128"));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    let lines = text(&output.stdout);
    assert!(lines.contains("https_proxy=http://proxy.test:3128 "), "{lines}");
    assert!(lines.contains("CURL_CA_BUNDLE=/etc/ssl/wayleave.crt\n"), "{lines}");
    let java = [&arguments("https://[2001:db8::1]:3130")[..], &["--client", "java"]].concat();
    let lines = text(&run(dir.path(), &java).stdout);
    assert!(lines.contains("-Dhttps.proxyHost=2001:db8::1 "), "{lines}");
    assert!(lines.contains("-Dhttps.proxyPort=3130 "), "{lines}");
    let broken = run(dir.path(), &arguments("http://a\nrm -rf x/"));
    assert!(!text(&broken.stdout).contains("\nrm "), "{broken:?}");
}

#[test]
fn completions_are_scripts_that_their_shells_read() {
    let dir = tempfile::tempdir().expect("a directory");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(dir.path(), &["completions", shell]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let script = text(&output.stdout);
        for word in ["wayleave", "config", "lint", "user-agent"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let script = run(dir.path(), &["completions", "bash"]).stdout;
    let complete = "source /dev/stdin; COMP_WORDS=(wayleave li); COMP_CWORD=1; _wayleave wayleave li wayleave; echo ${COMPREPLY[@]}";
    let output = output_of(tools::clean("bash").args(["-c", complete]), &script, LIMIT);
    assert_eq!(output.trim(), "lint");
}

#[test]
fn every_command_has_a_man_page() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = run(dir.path(), &["man", "."]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let pages = names(dir.path());
    for page in
        ["wayleave.1", "wayleave-check.1", "wayleave-config-check.1", "wayleave-robots-show.1"]
    {
        assert!(pages.iter().any(|name| name == page), "{page}: {pages:?}");
    }
    for page in &pages {
        let text = std::fs::read_to_string(dir.path().join(page)).expect("a page");
        let title = format!(
            ".TH {} 1  \"wayleave {}\" wayleave\n",
            page.trim_end_matches(".1").to_uppercase(),
            env!("CARGO_PKG_VERSION")
        );
        assert!(text.contains(&title), "{page}: {text}");
        for section in ["NAME", "SYNOPSIS", "\"EXIT STATUS\""] {
            assert!(text.contains(&format!(".SH {section}")), "{page}: {section}");
        }
    }
    let mut dated = command();
    dated.args(["man", "."]).current_dir(dir.path()).env("SOURCE_DATE_EPOCH", "1000000000");
    assert!(tools::run(&mut dated, b"", LIMIT).status.success());
    let text = std::fs::read_to_string(dir.path().join("wayleave.1")).expect("a page");
    assert!(text.contains(".TH WAYLEAVE 1 2001-09-09 "), "{text}");
}

#[test]
fn commands_say_that_there_is_nothing_or_no_such_thing() {
    let origin = Origin::start();
    for host in ["dead.test", "gone.test"] {
        origin.site(host).robots_reply(Reply::new(503));
    }
    let proxy = Wayleave::start_with(&origin, |settings| settings.crawler("news", "NewsBot"));
    let config = proxy.config_with_ports();
    let config = config.to_str().expect("text");
    let said = |arguments: &[&str]| {
        let output = run(proxy.dir.path(), &[arguments, &["--config", config]].concat());
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    for (arguments, status, expected) in [
        (&["keys", "list"][..], 0, "no keys: `wayleave keys new NAME` creates one\n"),
        (&["fleet", "status"], 0, "alone: this node has no fleet ("),
        (
            &["check", "--crawler", "nwes", "http://a.test/"],
            2,
            "wayleave: --crawler \"nwes\": no [[crawler]] has this name; there are news\n",
        ),
        (&["robots", "refresh", "http://dead.test"], 1, "unreachable "),
        // Another one: the same may be refreshed again after some seconds.
        (&["robots", "refresh", "http://gone.test", "--json"], 1, "{"),
    ] {
        let (code, output) = said(arguments);
        assert_eq!(code, Some(status), "{arguments:?}: {output}");
        assert!(output.starts_with(expected), "{arguments:?}: {output}");
    }
}

#[test]
fn a_failed_start_says_what_to_do_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let start = |text: &str| {
        std::fs::write(dir.path().join("config.toml"), text).expect("writable");
        let output = run(dir.path(), &["serve"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).expect("text")
    };
    let loopback = "admin.listen = \"127.0.0.1:0\"\nproxy.listen = [\"127.0.0.1:0\"]\n";
    let stderr = start(&format!("{loopback}state.dir = \"/proc/nowhere\"\n"));
    assert!(
        stderr.contains("wayleave: state.dir: /proc/nowhere cannot be created (the user"),
        "{stderr}"
    );
    assert!(!stderr.contains("the store has failed"), "{stderr}");
    // A directory that is there, and in which nobody can write.
    let stderr = start(&format!("{loopback}state.dir = \"/proc/self\"\n"));
    assert!(
        stderr.starts_with("wayleave: state.dir: /proc/self cannot be written (the user"),
        "{stderr}"
    );
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let stderr = start("admin.listen = \"127.0.0.1:0\"\nproxy.listen = [\"192.0.2.1:3128\"]\n");
    assert!(
        stderr.contains("proxy.listen: listening on 192.0.2.1:3128 (no interface of this"),
        "{stderr}"
    );
}

const COMPLETE: &str = r#"
robots.user_agent = "wayleave (+https://bot.test)"
politeness = { min_delay = "1s", adaptive = true }
signing = { mode = "always", agent = "https://bot.test" }
[[crawler]]
name = "news"
tokens = ["NewsBot"]
user_agent_must_contain_token = true
source_address = "127.0.0.7"
purposes = ["search"]
signing_key = "keys/news.pem"
"#;

#[test]
fn comply_ends_with_1_if_a_duty_is_missing() {
    let dir = tempfile::tempdir().expect("a directory");
    let defaults = run(dir.path(), &["comply"]);
    assert_eq!(defaults.status.code(), Some(1), "{defaults:?}");
    let lines = text(&defaults.stdout);
    assert_eq!(lines.lines().count(), 11, "{lines}");
    let answer = text(&defaults.stderr);
    assert!(answer.starts_with("Asked: which of the 11 duties of "), "{answer}");
    assert!(answer.contains("Looked at: the built-in defaults.\nAnswer: "), "{answer}");
    assert!(lines.starts_with("ok       1  robots.txt is obeyed: proxy.mode: "), "{lines}");
    assert!(lines.contains("\nmissing  2  "), "{lines}");
    std::fs::write(dir.path().join("config.toml"), COMPLETE).expect("writable");
    assert_eq!(run(dir.path(), &["keys", "new", "news"]).status.code(), Some(0));
    let duties = |arguments: &[&str]| {
        let output = run(dir.path(), &[&["comply", "--json"], arguments].concat());
        let duties: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let duties = duties.as_array().cloned().unwrap_or_default();
        let word = |duty: &serde_json::Value| duty["status"].as_str().map(str::to_owned);
        for duty in &duties {
            let members = ["number", "duty", "status", "key", "detail"];
            assert!(members.iter().all(|member| !duty[member].is_null()), "{duty}");
        }
        (output.status.code(), duties.iter().filter_map(word).collect::<Vec<_>>())
    };
    let (status, offline) = duties(&[]);
    assert_eq!(status, Some(0));
    let [ok, unknown] = ["ok", "unknown"];
    assert_eq!(offline, [ok, ok, ok, unknown, unknown, unknown, ok, ok, unknown, ok, ok]);
    assert_eq!(run(dir.path(), &["publish", "--out", "public"]).status.code(), Some(0));
    let (status, compared) = duties(&["--published", "public"]);
    assert_eq!((status, &compared[4..7]), (Some(0), &["ok"; 3].map(str::to_owned)[..]));
    std::fs::write(dir.path().join("public/ips.json"), "{}").expect("writable");
    let (status, compared) = duties(&["--published", "public"]);
    assert_eq!((status, compared[4].as_str()), (Some(1), "missing"));
}

#[test]
fn health_is_that_of_the_running_proxy() {
    let proxy = Wayleave::start(&Origin::start());
    let health = |config: &Path| {
        run(proxy.dir.path(), &["health", "--config", config.to_str().expect("text")])
    };
    let output = health(&proxy.config_with_ports());
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("ready\n", Some(0)));
    // It goes on with the configuration that it has; a container must not be restarted with this one.
    let with_mistake = proxy.dir.path().join("with-mistake.toml");
    let whole = std::fs::read_to_string(proxy.config_with_ports()).expect("readable");
    std::fs::write(&with_mistake, format!("log.colour = 1\n{whole}")).expect("writable");
    let output = health(&with_mistake);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output.stderr).contains("log.colour: unknown key"), "{output:?}");
    let no_listener = proxy.dir.path().join("no-listener.toml");
    std::fs::write(&no_listener, "[admin]\nlisten = \"127.0.0.1:1\"\n").expect("writable");
    let output = health(&no_listener);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("is `wayleave serve` running?"), "{output:?}");
}

/// The proxy goes on with the configuration that it has, and what it wrote is where it was.
#[test]
fn a_mistake_elsewhere_stops_nobody_who_reads_the_state() {
    let origin = Origin::start();
    origin.site("one.test").disallows("/");
    let proxy = Wayleave::start(&origin);
    let refused = proxy.get("http://one.test/").json();
    let id = refused["decision_id"].as_str().expect("text");
    let whole = std::fs::read_to_string(proxy.config_with_ports()).expect("readable");
    let with = |mistake: &str, arguments: &[&str]| {
        let file = proxy.dir.path().join("wrong.toml");
        std::fs::write(file, mistake.replace("WHOLE", &whole)).expect("writable");
        run(proxy.dir.path(), &[&["--config", "wrong.toml"], arguments].concat())
    };
    let elsewhere = "WHOLE\n[[crawler]]\nname = \"a b\"\n[[rule]\n";
    for arguments in [
        &["report"][..],
        &["decision", id],
        &["robots", "list"],
        &["fleet", "status"],
        &["evidence", "key"],
        &["evidence", "hold", "list"],
        &["env"],
        &["ca", "show"],
        &["health"],
    ] {
        let output = with(elsewhere, arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        let warning = text(&output.stderr);
        let line = 2 + whole.lines().count();
        let first = format!("wayleave: warning: this does not matter here: wrong.toml:{line}: ");
        assert!(warning.starts_with(&first), "{arguments:?}: {warning}");
        assert!(warning.ends_with(" more mistakes in the file)\n"), "{arguments:?}: {warning}");
        assert_eq!(warning.lines().count(), 1, "{arguments:?}: {warning}");
    }
    std::fs::write(proxy.dir.path().join("team.toml"), b"\xff").expect("writable");
    let output = with("include = [\"team.toml\"]\nWHOLE", &["evidence", "key"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output.stderr).contains(": team.toml:1: is not UTF-8"), "{output:?}");
    for (mistake, arguments) in [
        (elsewhere, &["check", "--user-agent", "A/1", "http://one.test/"][..]),
        (elsewhere, &["config", "show"]),
        ("state.dri = \"x\"\nWHOLE", &["report"]),
        ("stat.dir = \"x\"\nWHOLE", &["evidence", "key"]),
        ("log.decisions = 1\nWHOLE", &["decision", id]),
        ("[admin\nlisten = \"127.0.0.1:1\"\n", &["health"]),
    ] {
        let output = with(mistake, arguments);
        assert_eq!(output.status.code(), Some(2), "{mistake} {arguments:?}: {output:?}");
    }
}

#[test]
fn without_a_proxy_a_decision_is_in_the_log() {
    let origin = Origin::start();
    origin.site("one.test").disallows("/private");
    let proxy = Wayleave::start(&origin);
    let refused = proxy.get("http://one.test/private").json();
    let id = refused["decision_id"].as_str().expect("text");
    let file = proxy.config_with_ports();
    let file = file.to_str().expect("text");
    let running = run(proxy.dir.path(), &["decision", id, "--config", file]);
    assert!(text(&running.stdout).contains("crawler     unnamed: no [[crawler]]"), "{running:?}");
    let (dir, _) = proxy.stop();
    let stopped = run(dir.path(), &["decision", id, "--config", file]);
    assert_eq!(stopped.status.code(), Some(0), "{stopped:?}");
    assert_eq!(text(&stopped.stdout), text(&running.stdout));
    assert!(text(&stopped.stdout).contains("<- decides: disallow"), "{stopped:?}");
    assert!(text(&stopped.stderr).contains("; this is from "), "{stopped:?}");
    let json = run(dir.path(), &["decision", id, "--json", "--config", file]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(json["robots_txt"]["body"], "User-agent: *\nDisallow: /private\n");
    let other = id.chars().rev().collect::<String>();
    let output = run(dir.path(), &["decision", &other, "--config", file]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains("; nor is it in "), "{output:?}");
}

#[test]
fn decisions_are_listed_and_followed_with_the_filters_of_the_api() {
    let origin = Origin::start();
    for host in ["one.test", "two.test"] {
        origin.site(host).disallows("/private").page("/", Reply::text("page"));
    }
    let proxy = Wayleave::start(&origin);
    for url in ["http://one.test/", "http://one.test/private", "http://two.test/private"] {
        proxy.get(url);
    }
    let file = proxy.config_with_ports();
    let file = file.to_str().expect("text");
    let decisions = |arguments: &[&str]| {
        let arguments = [&["decisions", "--config", file], arguments].concat();
        let output = run(proxy.dir.path(), &arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        text(&output.stdout)
    };
    let all = decisions(&[]);
    let mut urls: Vec<_> = all.lines().filter_map(|line| line.split(" GET ").nth(1)).collect();
    // Those that ended at the same moment are in either order.
    urls.sort_unstable();
    let reason = "rule (line 2: Disallow: /private)";
    assert_eq!(
        urls,
        [
            "http://one.test/",
            &format!("http://one.test/private  {reason}"),
            &format!("http://two.test/private  {reason}")
        ]
    );
    let refused = ["--outcome", "refused", "--host", "one.test", "--crawler", "asserted"];
    let json = decisions(&[&refused[..], &["--json", "--since", "1h"]].concat());
    let json: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let urls: Vec<_> = json.iter().map(|decision| decision["url"].as_str()).collect();
    assert_eq!(urls, [Some("http://one.test/private")]);
    assert_eq!(decisions(&["--crawler", "unnamed"]), decisions(&["--crawler", "asserted"]));
    assert_eq!(decisions(&["--limit", "1"]).lines().count(), 1);
}

#[test]
fn a_list_of_decisions_says_which_proxy_it_is_of() {
    let origin = Origin::start();
    origin.site("one.test");
    let proxy = Wayleave::start_with(&origin, |settings| settings.crawler("news", "NewsBot"));
    proxy.get("http://one.test/");
    let file = proxy.config_with_ports();
    let decisions = |crawler: &str| {
        let file = file.to_str().expect("text");
        let arguments = ["decisions", "--config", file, "--crawler", crawler];
        let output = run(proxy.dir.path(), &arguments);
        (output.status.code(), text(&output.stdout).lines().count(), text(&output.stderr))
    };
    let admin = format!("the proxy at http://{}", proxy.admin);
    for (crawler, found, counted) in [("unnamed", 1, "1 decision"), ("news", 0, "0 decisions")] {
        let said = format!("wayleave: {counted} of {admin}\n");
        assert_eq!(decisions(crawler), (Some(0), found, said), "{crawler}");
    }
    let mistake = format!(
        "wayleave: --crawler \"nwes\": no [[crawler]] has this name, and {admin} found no decision; \
         there are news, unnamed\n"
    );
    assert_eq!(decisions("nwes"), (Some(2), 0, mistake));
}

#[test]
fn unnamed_requests_are_chosen_by_either_word() {
    let origin = Origin::start();
    origin.site("one.test").disallows("/private");
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.set("proxy.mode", "\"observe\"").crawler("news", "NewsBot")
    });
    for url in ["http://one.test/private", "http://one.test/last"] {
        for agent in ["NewsBot/1", "Other/1"] {
            proxy.get_as(agent, url);
        }
    }
    let logged = "/v1/decisions/download?format=json&crawler=asserted";
    eventually("the log has all", || proxy.admin_get(logged).text().contains("/last"));
    for path in [
        "/v1/decisions?crawler=WORD",
        "/v1/decisions?since=1h&crawler=WORD",
        "/v1/top?by=host&crawler=WORD",
        "/v1/top?by=host&since=1h&crawler=WORD",
        "/v1/decisions/download?format=json&crawler=WORD",
    ] {
        let answer = |word: &str| proxy.admin_get(&path.replace("WORD", word)).text();
        assert!(answer("asserted").contains("one.test"), "{path}");
        assert_eq!(answer("unnamed"), answer("asserted"), "{path}");
    }
    let file = proxy.config_with_ports();
    let list = |word: &str| {
        let file = file.to_str().expect("text");
        let output = run(proxy.dir.path(), &["decisions", "--crawler", word, "--config", file]);
        text(&output.stdout)
    };
    assert_eq!(list("asserted").lines().count(), 2);
    assert_eq!(list("unnamed"), list("asserted"));
    let (dir, _) = proxy.stop();
    let rule = dir.path().join("rules.toml");
    let printed = |arguments: &str, word: &str| {
        std::fs::write(
            &rule,
            format!(
                "[[rule]]\naction = \"refuse\"\nhosts = [\"one.test\"]\ncrawlers = [{word:?}]\n"
            ),
        )
        .expect("it is written");
        let arguments = arguments.replace("WORD", word);
        let arguments: Vec<_> = arguments.split(' ').collect();
        let output = run(dir.path(), &arguments);
        (output.status.code(), text(&output.stdout))
    };
    for (arguments, status) in [
        ("report --csv --crawler WORD", 0),
        ("replay --enforce WORD", 1),
        ("replay --rule rules.toml --enforce WORD", 1),
        ("evidence ask http://one.test/private --at 0s --crawler WORD", 1),
    ] {
        let asserted = printed(arguments, "asserted");
        assert_eq!(asserted.0, Some(status), "{arguments}: {asserted:?}");
        assert!(asserted.1.contains("one.test"), "{arguments}: {asserted:?}");
        assert_eq!(printed(arguments, "unnamed"), asserted, "{arguments}");
    }
}

#[test]
fn decisions_are_followed_until_the_proxy_stops() {
    let origin = Origin::start();
    for host in ["one.test", "two.test"] {
        origin.site(host).disallows("/private");
    }
    let proxy = Wayleave::start(&origin);
    proxy.get("http://one.test/private");
    let file = proxy.config_with_ports();
    let file = file.to_str().expect("text");
    let mut following = command();
    following.args([
        "decisions",
        "--config",
        file,
        "--follow",
        "--outcome",
        "refused",
        "--limit",
        "1",
    ]);
    let mut following = following.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(following.stdout.take().expect("a pipe")).lines();
    let mut next = || lines.next().expect("a line").expect("text");
    assert!(next().contains("/private  rule"));
    proxy.get("http://one.test/private/2");
    assert!(next().contains("http://one.test/private/2"));
    proxy.get("http://one.test/");
    proxy.get("http://two.test/private/3");
    assert!(next().contains("http://two.test/private/3"));
    // When the proxy stops, the command says so.
    let (dir, _) = proxy.stop();
    assert_eq!(following.wait().expect("it ends").code(), Some(2));
    let output = run(dir.path(), &["decisions", "--config", file]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains("is `wayleave serve` running?"), "{output:?}");
}

/// Whoever opened a pipe would wait, for ever, for somebody to write.
#[test]
fn pipes_in_the_place_of_files_stop_nothing() {
    let origin = Origin::start();
    origin.site("one.test");
    let proxy = Wayleave::start(&origin);
    proxy.get("http://one.test/");
    let (dir, settings) = proxy.stop();
    let state = dir.path().join("state");
    let pipe = |path: &Path| {
        let _ = std::fs::remove_file(path);
        output_of(tools::clean("mkfifo").arg(path), b"", LIMIT);
    };
    let said = |arguments: &[&str], status: i32, said: &str| {
        let output = run(dir.path(), arguments);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {output:?}");
        let printed = tools::both_streams(&output);
        assert!(printed.contains(said), "{arguments:?}: {printed}");
    };
    pipe(&state.join("decisions.20260101T000000.000Z.jsonl"));
    let irregular = "is not a regular file";
    said(&["report", "--since", "7d"], 2, irregular);
    said(&["replay", "--config", "config.toml"], 2, irregular);
    said(&["evidence", "hold", "list"], 0, "");
    // The service starts, logs and stops beside it.
    let proxy = Wayleave::start_in(dir, settings);
    assert_eq!(proxy.get("http://one.test/").status, 200);
    let (dir, _) = proxy.stop();
    let state = dir.path().join("state");
    pipe(&state.join("decisions.jsonl"));
    let output = run(dir.path(), &["report", "--since", "7d"]);
    assert!(tools::both_streams(&output).contains(irregular), "{output:?}");
    for file in ["ca/ca.key", "evidence.key"] {
        let path = state.join(file);
        let kept = std::fs::read(&path).expect("it is there");
        pipe(&path);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))
            .expect("it is ours");
        let output = run(dir.path(), &["serve"]);
        assert_eq!(output.status.code(), Some(1), "{file}: {output:?}");
        assert!(tools::both_streams(&output).contains(irregular), "{file}: {output:?}");
        std::fs::remove_file(&path).expect("it is there");
        std::fs::write(&path, kept).expect("writable");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))
            .expect("it is ours");
    }
}
