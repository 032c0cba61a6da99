//! Programs that `make test` installs, run with a time limit.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Returns the top folder of the project.
pub fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the project")
}

fn installed(variable: &str, default: &str) -> PathBuf {
    std::env::var_os(variable).map_or_else(|| project().join(default), PathBuf::from)
}

/// Returns the Python of the virtual environment with tests/clients/requirements.txt.
#[track_caller]
pub fn python() -> PathBuf {
    let python = installed("WAYLEAVE_TEST_VENV", "target/venv").join("bin/python");
    assert!(
        python.exists(),
        "{} is missing: `make test` installs what the tests need",
        python.display()
    );
    python
}

/// Returns the `node_modules` folder with tests/clients/package.json.
#[track_caller]
pub fn node_modules() -> PathBuf {
    let modules = installed("WAYLEAVE_TEST_NPM", "target/npm").join("node_modules");
    assert!(
        modules.exists(),
        "{} is missing: `make test` installs what the tests need",
        modules.display()
    );
    modules
}

/// Returns the program warcprox, which needs an environment of its own: it wants an older cryptography.
#[track_caller]
pub fn warcprox() -> PathBuf {
    installed_program("WAYLEAVE_TEST_WARCPROX", "target/warcprox", "warcprox")
}

/// Returns the program mitmdump, whose packages want versions of their own, too.
#[track_caller]
pub fn mitmdump() -> PathBuf {
    installed_program("WAYLEAVE_TEST_MITMPROXY", "target/mitmproxy", "mitmdump")
}

/// Returns a program of tests/gateway/requirements.txt: another proxy that asks wayleave.
#[track_caller]
pub fn gateway_program(name: &str) -> PathBuf {
    installed_program("WAYLEAVE_TEST_GATEWAYS", "target/gateways", name)
}

#[track_caller]
fn installed_program(variable: &str, folder: &str, name: &str) -> PathBuf {
    let program = installed(variable, folder).join("bin").join(name);
    assert!(
        program.exists(),
        "{} is missing: `make test` installs what the tests need",
        program.display()
    );
    program
}

/// Finds a program on PATH.
#[track_caller]
pub fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file());
    found.unwrap_or_else(|| panic!("`{name}` is missing: `make test` installs what the tests need"))
}

/// Finds a program that may be in a folder that only root has on PATH.
pub fn sbin(name: &str) -> PathBuf {
    let path = Path::new("/usr/sbin").join(name);
    if path.exists() { path } else { program(name) }
}

/// Returns a command without the environment of the user who runs the tests: no proxy, no CA, no choice of colours. `CI` is one
/// of these choices: with it, the library for colours uses them on terminals that have none. Java compiles simply, and collects
/// garbage in one thread: its programs end within a second.
pub fn clean(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_ascii_lowercase());
    }
    for name in [
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "CURL_CA_BUNDLE",
        "REQUESTS_CA_BUNDLE",
        "NODE_EXTRA_CA_CERTS",
        "NODE_OPTIONS",
        "JAVA_TOOL_OPTIONS",
        "CI",
        "CLICOLOR",
        "CLICOLOR_FORCE",
        "NO_COLOR",
        "RUST_LOG",
        "STATE_DIRECTORY",
        "NOTIFY_SOCKET",
    ] {
        command.env_remove(name);
    }
    command.env("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC");
    command
}

/// Runs a command to its end with `input` on its standard input. Kills it and fails after `limit`.
#[track_caller]
pub fn run(command: &mut Command, input: &[u8], limit: Duration) -> Output {
    let line = format!("{command:?}");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{line} cannot be started: {error}"));
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        // Not every program reads its input.
        let _ignored = stdin.write_all(&input);
    });
    let stdout = read_all(child.stdout.take().expect("piped"));
    let stderr = read_all(child.stderr.take().expect("piped"));
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("its status can be read") {
            break status;
        }
        if started.elapsed() > limit {
            child.kill().expect("a child can be killed");
            child.wait().expect("a killed child can be waited for");
            let output = String::from_utf8_lossy(&stderr.join().expect("reading does not panic"))
                .into_owned();
            panic!("{line} did not end within {limit:?}: {output}");
        }
        std::thread::park_timeout(Duration::from_millis(5));
    };
    writer.join().expect("writing does not panic");
    let join = |reader: JoinHandle<Vec<u8>>| reader.join().expect("reading does not panic");
    Output { status, stdout: join(stdout), stderr: join(stderr) }
}

/// Runs a command that must succeed, and returns its standard output.
#[track_caller]
pub fn output_of(command: &mut Command, input: &[u8], limit: Duration) -> String {
    let output = run(command, input, limit);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} ended with {}:\n{stderr}", output.status);
    String::from_utf8(output.stdout).expect("the output is text")
}

/// Runs a command to its end. Returns its exit status and what it printed, on both streams.
#[track_caller]
pub fn status_and_output(command: &mut Command) -> (Option<i32>, String) {
    let output = run(command, b"", Duration::from_secs(120));
    (output.status.code(), both_streams(&output))
}

/// Returns standard output and standard error, one after the other.
pub fn both_streams(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

fn read_all(mut stream: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("a pipe can be read");
        bytes
    })
}

/// Returns a command of Chromium that runs the scripts of a page and prints its document.
pub fn headless_chromium() -> Command {
    let mut browser = clean(program("chromium"));
    browser.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
    ]);
    browser.args([
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]);
    browser.args(["--virtual-time-budget=10000", "--dump-dom"]);
    browser
}

/// Runs the calling test again, as root of namespaces of its own, after the shell script `setup`, which ends with
/// `exec "$0" "$@"`. Sets the variable `inside` there. `options` are those of unshare besides.
#[track_caller]
pub fn test_in_namespaces(
    options: &[&str],
    setup: &str,
    test: &str,
    inside: &str,
    limit: Duration,
) {
    let program_of_tests = std::env::current_exe().expect("a test has a program");
    let mut command = clean(program("unshare"));
    command
        .args(["--map-root-user", "--net"])
        .args(options)
        .args(["sh", "-c", setup])
        .arg(program_of_tests)
        .args(["--exact", "--nocapture", test])
        .env(inside, "1");
    let output = run(&mut command, b"", limit);
    let text = both_streams(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
}
