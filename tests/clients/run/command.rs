//! The command: its input and output, exit status, signals, environment, and what it sees of the machine.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use super::{OPEN, Stage};
use crate::harness::tools::{self, both_streams};
use crate::harness::wayleave::command;
use crate::harness::{Origin, eventually};

#[test]
fn exit_statuses_are_those_of_a_shell() {
    let stage = Stage::new();
    let script = stage.dir.path().join("no-program");
    std::fs::write(&script, "").expect("writable");
    let script = script.display().to_string();
    for (program, expected) in [
        (&["true"][..], 0),
        (&["false"], 1),
        (&["sh", "-c", "exit 77"], 77),
        (&["sh", "-c", "kill -TERM $$"], 143),
        (&["sh", "-c", "kill -KILL $$"], 137),
        (&["/no/such/program"], 127),
        (&["no-such-program"], 127),
        (&[&script], 126),
    ] {
        let output = stage.run(program);
        assert_eq!(output.status.code(), Some(expected), "{program:?}: {output:?}");
    }
}

#[test]
fn usage_errors_end_with_2_before_the_command_runs() {
    let stage = Stage::new();
    for options in [
        &["--ports", "0"][..],
        &["--ports", "80,x"],
        &["--ports", "53"],
        &["--crawler", "nobody"],
        &["--report", "/no/such/directory/report.json"],
        &["--robots", "http://shop.test"],
        &["--robots", "http://shop.test=/no/such/file"],
        &["--robots", "shop.test=config.toml"],
        &["--robots", "http://shop.test=config.toml", "--proxy", "http://127.0.0.1:1"],
        &["--no-such-option"],
    ] {
        let mut run = stage.command_with(options, &["touch", "was-run"]);
        let output = tools::run(&mut run, b"", super::LIMIT);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {output:?}");
    }
    let without_command = tools::run(command().arg("run"), b"", super::LIMIT);
    assert_eq!(without_command.status.code(), Some(2));
    assert!(!stage.dir.path().join("was-run").exists());
}

#[test]
fn the_command_has_our_standard_streams() {
    let stage = Stage::new();
    let mut run = stage.command(&["sh", "-c", "tr a-z A-Z; echo problem >&2"]);
    let output = tools::run(&mut run, b"some input\n", super::LIMIT);
    assert_eq!(output.stdout, b"SOME INPUT\n");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let expected =
        "problem\nwayleave: 0 requests: 0 forwarded, 0 refused, 0 failed; 0.0 s waited\n";
    assert_eq!(stderr, expected);
}

#[test]
fn options_after_the_command_are_the_commands() {
    let stage = Stage::new();
    let mut run = command();
    run.args(["run", "--config"]).arg(stage.dir.path().join("config.toml"));
    run.args(["sh", "-c", "echo \"$@\"", "sh", "--config", "-v", "--", "--report=x"]);
    let output = tools::run(run.env("HOME", stage.dir.path()), b"", super::LIMIT);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "--config -v -- --report=x\n");
}

/// Returns the command with no signal ignored. A shell that starts the tests in the background ignores some, which a trap cannot
/// change.
fn with_default_signals(command: &Command) -> Command {
    let mut env = Command::new("env");
    env.arg("--default-signal").arg(command.get_program()).args(command.get_args());
    env.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(dir) = command.get_current_dir() {
        env.current_dir(dir);
    }
    env
}

/// The lines that a program prints.
struct PrintedLines(Receiver<String>);

impl PrintedLines {
    fn of(stdout: impl Read + Send + 'static) -> Self {
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            let printed = BufReader::new(stdout).lines().map_while(Result::ok);
            // The test may have failed, and wait for no more.
            let _ = printed.map(|line| sender.send(line)).all(|sent| sent.is_ok());
        });
        Self(lines)
    }

    /// Waits for the next line.
    fn next(&self) -> String {
        self.0.recv_timeout(super::LIMIT).expect("a line in time")
    }

    /// Waits for the end. Returns the lines until then.
    fn rest(self) -> Vec<String> {
        self.0.iter().collect()
    }
}

#[test]
fn signals_are_passed_on() {
    let stage = Stage::new();
    for (signal, number) in [("HUP", 1), ("INT", 2), ("QUIT", 3), ("USR1", 10), ("TERM", 15)] {
        let script = format!(
            "trap 'echo got; exit {number}' {signal}; echo ready; while :; do sleep 0.05; done"
        );
        let mut run = with_default_signals(&stage.command(&["sh", "-c", &script]));
        let mut child =
            run.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it can be started");
        let lines = PrintedLines::of(child.stdout.take().expect("piped"));
        assert_eq!(lines.next(), "ready");
        let kill = format!("kill -{signal} {}", child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().expect("sh runs").success());
        assert_eq!(lines.next(), "got", "{signal}");
        assert_eq!(child.wait().expect("it ends").code(), Some(number), "{signal}");
    }
}

#[test]
fn an_interrupt_of_the_terminal_arrives_once() {
    let stage = Stage::new();
    // Not in `read` yet: there, a shell that has just started to wait would first want its line.
    let script = "trap 'caught=1; echo interrupted' INT; echo ready; \
         until [ $caught ]; do sleep 0.05; done; read line; echo end; exit 5";
    let run = stage.command(&["sh", "-c", script]);
    let line = std::iter::once(run.get_program()).chain(run.get_args());
    let quoted = |word: &OsStr| format!("'{}'", word.to_string_lossy().replace('\'', r"'\''"));
    let line: Vec<_> = line.map(quoted).collect();
    // Not a child of the shell that `script` starts: the interrupt would end that one.
    let line = format!("exec {}", line.join(" "));
    // `script` makes a terminal, and types what it reads.
    let mut terminal = tools::clean(tools::program("script"));
    terminal.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
    terminal.current_dir(stage.dir.path()).env("HOME", stage.dir.path());
    let mut child = with_default_signals(&terminal)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script can be started");
    let mut typed = child.stdin.take().expect("piped");
    let shown = PrintedLines::of(child.stdout.take().expect("piped"));
    while !shown.next().contains("ready") {}
    typed.write_all(b"\x03").expect("it reads");
    let mut text = shown.next();
    while !text.contains("interrupted") {
        text += &shown.next();
    }
    typed.write_all(b"\n").expect("it reads");
    text += &shown.rest().concat();
    assert_eq!(text.matches("interrupted").count(), 1, "{text}");
    assert!(text.contains("end"), "{text}");
    assert_eq!(child.wait().expect("it ends").code(), Some(5), "{text}");
}

/// Returns whether a process runs whose program was given this name.
fn is_running(name: &str) -> bool {
    let processes = std::fs::read_dir("/proc").expect("Linux has it").flatten();
    let mut words = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    words.any(|words| words.split(|byte| *byte == 0).next() == Some(name.as_bytes()))
}

#[test]
fn nothing_survives_the_command_or_wayleave() {
    let stage = Stage::new();
    let mark = format!("sleeper of {}", std::process::id());
    let background = "(exec -a \"$0\" sleep 1000 >/dev/null 2>&1) & echo started";
    let ended = stage.run(&["bash", "-c", background, &mark]);
    assert_eq!((ended.status.code(), &*ended.stdout), (Some(0), &b"started\n"[..]));
    assert!(!is_running(&mark), "the command's background process");

    let foreground = "exec -a \"$0\" sleep 1000";
    let mut child = stage.command(&["bash", "-c", foreground, &mark]).spawn().expect("it starts");
    eventually("the command runs", || is_running(&mark));
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
    eventually("the command ends with wayleave", || !is_running(&mark));
}

#[test]
fn proxy_variables_are_gone_and_the_ca_is_trusted() {
    let stage = Stage::new();
    let mut run = stage.command(&["env"]);
    run.env("http_proxy", "http://127.0.0.1:9").env("ALL_PROXY", "socks5://127.0.0.1:9");
    run.env("NO_PROXY", "*").env("NODE_USE_ENV_PROXY", "1").env("KEPT", "yes");
    let printed = tools::output_of(&mut run, b"", super::LIMIT);
    let variables: Vec<&str> = printed.lines().collect();
    assert!(variables.contains(&"KEPT=yes"), "{printed}");
    let is_proxy = |line: &&&str| line.to_ascii_lowercase().contains("_proxy=");
    assert_eq!(variables.iter().find(is_proxy), None, "{printed}");
    for name in ["SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"] {
        assert!(printed.contains(&format!("{name}=/")), "{name}: {printed}");
    }
    let (bundle, _) = stage.shell("cat /etc/ssl/certs/ca-certificates.crt");
    let ca = std::fs::read_to_string(stage.dir.path().join("state/ca/ca.crt")).expect("made");
    assert!(bundle.contains(ca.trim()), "the CA is in the system's bundle");
    assert!(bundle.matches("BEGIN CERTIFICATE").count() > 1, "so are the system's own");
}

#[test]
fn the_command_has_its_users_number_and_no_privileges() {
    let stage = Stage::new();
    let (printed, _) = stage.shell("id -u; id -g; grep -E '^(Cap|NoNewPrivs)' /proc/self/status");
    let own = |option: &str| {
        tools::output_of(Command::new("id").arg(option), b"", super::LIMIT).trim().to_owned()
    };
    let mut lines = printed.lines();
    assert_eq!(lines.next(), Some(&*own("-u")));
    assert_eq!(lines.next(), Some(&*own("-g")));
    let rest: Vec<&str> = lines.collect();
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert!(rest.contains(&&*format!("{set}:\t0000000000000000")), "{set}: {printed}");
    }
    assert!(rest.contains(&"NoNewPrivs:\t1"), "{printed}");
}

#[test]
fn an_ordinary_user_can_run_commands() {
    let stage = Stage::new();
    let script = "id -u; curl -q -sS https://shop.test/open; echo; touch made";
    let output = tools::run(&mut stage.command_of_user(&["sh", "-c", script]), b"", super::LIMIT);
    let printed = both_streams(&output);
    assert!(printed.starts_with(&format!("{}\n{OPEN}\n", super::USER)), "{printed}");
    assert_eq!(output.status.code(), Some(0), "{printed}");
    assert!(stage.dir.path().join("made").exists());
}

#[test]
fn without_a_configuration_the_state_is_the_users() {
    let home = tempfile::tempdir().expect("a directory");
    let start = || {
        let mut run = command();
        run.args(["run", "cat"]).current_dir(home.path());
        run.env("HOME", home.path()).env_remove("XDG_STATE_HOME");
        let streams = run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        streams.spawn().expect("it starts")
    };
    let mut first = start();
    let mut typed = first.stdin.take().expect("piped");
    typed.write_all(b"x").expect("it reads");
    let mut read = [0];
    first.stdout.as_mut().expect("piped").read_exact(&mut read).expect("the command runs");
    let ca = home.path().join(".local/state/wayleave/ca/ca.crt");
    let made = std::fs::read(&ca).expect("the CA is kept");
    // While the user's directory is in use.
    let second = start().wait_with_output().expect("it ends");
    assert_eq!(second.status.code(), Some(0), "{second:?}");
    drop(typed);
    assert_eq!(first.wait().expect("it ends").code(), Some(0));
    assert_eq!(std::fs::read(&ca).expect("still there"), made);
    let left: Vec<_> = std::fs::read_dir(home.path())
        .expect("a directory")
        .map(|entry| entry.expect("readable").file_name())
        .collect();
    assert!(left.iter().all(|name| name == ".local" || name == ".pki"), "{left:?}");
}

#[test]
fn forbidden_namespaces_are_explained() {
    let stage = Stage::new();
    // In a user namespace that may have no further ones.
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    let run = stage.command(&["true"]);
    let mut outer = tools::clean(tools::program("unshare"));
    outer.args(["-Ur", "sh", "-c", script, "sh"]).arg(run.get_program()).args(run.get_args());
    let output = tools::run(outer.env("HOME", stage.dir.path()), b"", super::LIMIT);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert!(stderr.contains("sysctl user.max_user_namespaces"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn too_few_descriptors_are_explained() {
    let stage = Stage::new();
    for limit in [10, 20, 28, 32] {
        let run = stage.command(&["touch", "was-run"]);
        let mut limited = tools::clean(tools::program("prlimit"));
        limited
            .arg(format!("--nofile={limit}:{limit}"))
            .arg(run.get_program())
            .args(run.get_args());
        limited.current_dir(stage.dir.path()).env("HOME", stage.dir.path());
        let output = tools::run(&mut limited, b"", super::LIMIT);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{limit}: {stderr}");
        assert!(stderr.starts_with("wayleave: too few files may be open: "), "{limit}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{limit}: {stderr}");
    }
    assert!(!stage.dir.path().join("was-run").exists());
}

/// Runs certutil(1) on the NSS database of the stage.
fn certutil(stage: &Stage, arguments: &[&str]) -> String {
    let database = format!("sql:{}", stage.dir.path().join(".pki/nssdb").display());
    let mut certutil = tools::clean(tools::program("certutil"));
    let output = tools::run(certutil.args(arguments).args(["-d", &database]), b"", super::LIMIT);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    both_streams(&output)
}

#[test]
fn chromium_sees_this_ca_besides_one_of_another_wayleave() {
    let (stage, other) = (Stage::new(), Stage::new());
    std::fs::create_dir_all(stage.dir.path().join(".pki/nssdb")).expect("writable");
    certutil(&stage, &["-N", "--empty-password"]);
    let list = "certutil -L -d sql:$HOME/.pki/nssdb";
    let certificate = |stage: &Stage| {
        assert_eq!(stage.run(&["true"]).status.code(), Some(0));
        stage.dir.path().join("state/ca/ca.crt").display().to_string()
    };
    // As docs/clients.md says.
    let documented = |file: &str| {
        certutil(&stage, &["-A", "-n", "wayleave", "-t", "C,,", "-i", file]);
    };
    documented(&certificate(&other));
    let (listed, stderr) = stage.shell(list);
    assert!(listed.contains("wayleave  ") && listed.contains("wayleave CA "), "{listed}{stderr}");
    assert!(!stderr.contains("warning"), "{stderr}");
    // Its own may be there under that name, too.
    certutil(&stage, &["-D", "-n", "wayleave"]);
    documented(&certificate(&stage));
    let (listed, stderr) = stage.shell(list);
    assert!(listed.contains("wayleave") && listed.contains("C,,"), "{listed}{stderr}");
    assert!(!stderr.contains("warning"), "{stderr}");
}

#[test]
fn a_database_that_cannot_be_changed_is_said() {
    let stage = Stage::new();
    let database = stage.dir.path().join(".pki/nssdb");
    std::fs::create_dir_all(&database).expect("writable");
    std::fs::write(database.join("cert9.db"), "no database").expect("writable");
    let output = stage.run(&["true"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("wayleave: warning: Chromium will not trust the CA: "), "{stderr}");
    assert_eq!(output.status.code(), Some(0), "{stderr}");
}

#[test]
fn a_proxy_that_cannot_start_runs_no_command() {
    let stage = Stage::new();
    let running = crate::harness::Wayleave::start_with(&Origin::start(), |settings| {
        settings.set("state.dir", &format!("{:?}", stage.dir.path().join("state")))
    });
    let output = stage.run(&["touch", "was-run"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert!(!stage.dir.path().join("was-run").exists());
    drop(running);
}
