//! The real program, started with its own configuration on its own ports.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

use super::client::{Ask, Wire};
use super::dns::NameServer;
use super::response::Response;
use super::tls::Authority;
use super::tools::clean;
use super::{H2Client, Origin, eventually};

/// The program under test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_wayleave");

/// A `Command` of the program under test.
pub fn command() -> Command {
    clean(BINARY)
}

/// A configuration in the making. Keys are full names, values are TOML.
#[derive(Debug, Clone)]
pub struct Settings {
    keys: BTreeMap<String, String>,
    tables: String,
}

impl Settings {
    /// Free ports, state in `dir`, dialling of 127.0.0.1 only, and the test CA as a further root. Names without an override do not
    /// exist, so that nothing a client does by itself leaves the machine.
    fn new(dir: &Path) -> Self {
        let roots = dir.join("origins.pem");
        std::fs::write(&roots, &Authority::trusted().pem)
            .expect("the temporary directory can be written");
        let settings = Self { keys: BTreeMap::new(), tables: String::new() };
        settings
            .set("proxy.listen", r#"["127.0.0.1:0"]"#)
            .set("admin.listen", r#""127.0.0.1:0""#)
            .set("state.dir", &format!("{:?}", dir.join("state")))
            .set("dns.servers", &format!("[\"{}\"]", NameServer::without_names().address))
            .set("upstream.allow_private", r#"["127.0.0.1/32"]"#)
            .set("upstream.extra_roots", &format!("[{roots:?}]"))
            // On a busy machine even a loopback peer may take longer than the defaults.
            .set("proxy.header_timeout", "\"30s\"")
            .set("robots.fetch_timeout", "\"30s\"")
            .set("upstream.connect_timeout", "\"30s\"")
    }

    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.keys.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Maps `host` or `host:port` (also `*.suffix`) to an address.
    pub fn resolve(self, host: &str, to: SocketAddr) -> Self {
        let to = to.to_string();
        self.set(&format!("dns.overrides.{host:?}"), &format!("{to:?}"))
    }

    /// Maps the ports 80 and 443 of `host` to an origin.
    pub fn resolve_to(self, host: &str, origin: &Origin) -> Self {
        self.resolve(&format!("{host}:80"), origin.http)
            .resolve(&format!("{host}:443"), origin.https)
    }

    /// Appends text such as a `[[crawler]]` table.
    pub fn table(mut self, text: &str) -> Self {
        self.tables += text;
        self
    }

    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        for (key, value) in &self.keys {
            writeln!(text, "{key} = {value}").expect("writing to a String cannot fail");
        }
        text + &self.tables
    }
}

/// A running proxy; killed when dropped, its output shown if the test fails.
pub struct Wayleave {
    pub proxy: SocketAddr,
    pub admin: SocketAddr,
    pub dir: TempDir,
    pub settings: Settings,
    child: Child,
    output: Output,
}

type Output = Arc<Mutex<String>>;

impl Wayleave {
    /// Every `*.test` name, at ports 80 and 443, is `origin`.
    #[track_caller]
    pub fn start(origin: &Origin) -> Self {
        Self::start_with(origin, |settings| settings)
    }

    #[track_caller]
    pub fn start_with(origin: &Origin, change: impl FnOnce(Settings) -> Settings) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let settings = change(Settings::new(dir.path()).resolve_to("*.test", origin));
        Self::start_in(dir, settings)
    }

    /// Starts once more over a directory that an earlier run left.
    #[track_caller]
    pub fn start_in(dir: TempDir, settings: Settings) -> Self {
        Self::spawn(Self::serve(command(), &dir, &settings), dir, settings)
    }

    /// Starts another version of the program.
    #[track_caller]
    pub fn start_version(program: &Path, dir: TempDir, settings: Settings) -> Self {
        Self::spawn(Self::serve(clean(program), &dir, &settings), dir, settings)
    }

    /// Starts another version of the program like `start_with`.
    #[track_caller]
    pub fn start_version_with(
        program: &Path,
        origin: &Origin,
        change: impl FnOnce(Settings) -> Settings,
    ) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let settings = change(Settings::new(dir.path()).resolve_to("*.test", origin));
        Self::start_version(program, dir, settings)
    }

    /// Starts with a configuration file of the test's own making, which says what `settings` say and more.
    #[track_caller]
    pub fn start_by(file: &Path, dir: TempDir, settings: Settings) -> Self {
        let mut command = command();
        command.args(["serve", "--config"]).arg(file).current_dir(dir.path());
        Self::spawn(command, dir, settings)
    }

    /// Starts with no file allowed to grow past `kibibytes`, as if the disk were full from there.
    #[track_caller]
    pub fn start_on_full_disk(origin: &Origin, kibibytes: usize) -> Self {
        let blocks = kibibytes * 2;
        Self::start_after(origin, &format!("trap '' XFSZ; ulimit -f {blocks}"))
    }

    /// Starts by a shell that first runs `preparation`.
    #[track_caller]
    pub fn start_after(origin: &Origin, preparation: &str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let settings = Settings::new(dir.path()).resolve_to("*.test", origin);
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("{preparation}; exec \"$0\" \"$@\"")).arg(BINARY);
        Self::spawn(Self::serve(shell, &dir, &settings), dir, settings)
    }

    /// Starts by `command`, which ends in the binary and gives it a listener, over a directory that outlives the process.
    #[track_caller]
    pub fn start_inheriting(
        command: Command,
        origin: &Origin,
        dir: &TempDir,
        change: impl FnOnce(Settings) -> Settings,
    ) -> (Self, Settings) {
        let settings = change(Settings::new(dir.path()).resolve_to("*.test", origin));
        (Self::replace(command, dir, &settings), settings)
    }

    /// Starts a second process with the same configuration while the first one ends.
    #[track_caller]
    pub fn replace(command: Command, dir: &TempDir, settings: &Settings) -> Self {
        let own = tempfile::tempdir().expect("a temporary directory can be made");
        let command = Self::serve(command, dir, settings);
        Self::spawn_as_it_is(command, own, settings.clone())
    }

    #[track_caller]
    fn serve(mut command: Command, dir: &TempDir, settings: &Settings) -> Command {
        let file = dir.path().join("config.toml");
        std::fs::write(&file, settings.to_toml()).expect("the temporary directory can be written");
        command.arg("serve").arg("--config").arg(&file).current_dir(dir.path());
        command
    }

    #[track_caller]
    fn spawn(mut command: Command, dir: TempDir, settings: Settings) -> Self {
        command.stdin(Stdio::null());
        Self::spawn_as_it_is(command, dir, settings)
    }

    #[track_caller]
    fn spawn_as_it_is(mut command: Command, dir: TempDir, settings: Settings) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary can be started");
        let output = Output::default();
        collect(child.stdout.take().expect("piped"), &output);
        collect(child.stderr.take().expect("piped"), &output);
        let unknown = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut started = Self { proxy: unknown, admin: unknown, dir, settings, child, output };
        started.learn_ports();
        started
    }

    #[track_caller]
    fn learn_ports(&mut self) {
        eventually("the proxy prints its addresses", || {
            if let Some(status) = self.child.try_wait().expect("the child can be asked") {
                panic!("wayleave ended at start with {status}");
            }
            let text = self.log();
            let Some((proxy, admin)) = address(&text, "proxy").zip(address(&text, "admin")) else {
                return false;
            };
            (self.proxy, self.admin) = (proxy, admin);
            true
        });
        eventually("/readyz answers 200", || self.admin_get("/readyz").status == 200);
    }

    /// Everything printed so far, both streams.
    pub fn log(&self) -> String {
        self.output.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn ca_file(&self) -> PathBuf {
        self.dir.path().join("state/ca/ca.crt")
    }

    /// The certificate of the interception CA.
    #[track_caller]
    pub fn ca_pem(&self) -> Vec<u8> {
        std::fs::read(self.ca_file()).expect("the CA is made at first start")
    }

    pub fn connect(&self) -> Wire {
        Wire::connect(self.proxy)
    }

    /// A connection that is inside TLS to `authority` already, speaking HTTP/1.1.
    #[track_caller]
    pub fn tunnel(&self, authority: &str) -> Wire {
        let mut wire = self.connect();
        let answer = wire.connect_tunnel(authority);
        assert_eq!(answer.status, 200, "CONNECT {authority}: {answer:?}");
        let host = super::origin::host_of(authority);
        wire.start_tls(&host, &self.ca_pem(), &["http/1.1"])
            .expect("the leaf is trusted through the CA")
            .wire
    }

    #[track_caller]
    pub fn http2(&self, authority: &str) -> H2Client {
        H2Client::open(self.proxy, authority, &self.ca_pem())
    }

    /// GET on a connection of its own: absolute-form for `http:`, CONNECT and TLS for `https:`.
    #[track_caller]
    pub fn get(&self, url: &str) -> Response {
        self.exchange(&Ask::get(url))
    }

    #[track_caller]
    pub fn exchange(&self, ask: &Ask) -> Response {
        let (scheme, authority, path) = ask.parts();
        let mut wire = match scheme {
            "https" => self.tunnel(&with_port(authority, 443)),
            _ => self.connect(),
        };
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        wire.send(ask.bytes(if scheme == "https" { &path } else { &ask.url }));
        wire.try_response(ask.method == "HEAD")
            .expect("an answer can be read")
            .expect("an answer comes")
    }

    #[track_caller]
    pub fn admin_get(&self, path: &str) -> Response {
        self.admin_ask("GET", path)
    }

    /// Asks the admin listener, without a body.
    #[track_caller]
    pub fn admin_ask(&self, method: &str, path: &str) -> Response {
        let length = match method {
            "POST" => "Content-Length: 0\r\n",
            _ => "",
        };
        let mut wire = Wire::connect(self.admin);
        wire.send(format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\n{length}Connection: close\r\n\r\n",
            self.admin
        ));
        wire.response()
    }

    /// The value of one sample of /metrics, such as `wayleave_x_total{a="b"}`; labels in any order; 0 when there is none.
    #[track_caller]
    pub fn metric(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let text = self.admin_get("/metrics").text();
        let samples = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.rsplit_once(' '));
        let fits = |series: &str| {
            let (metric, rest) = series.split_once('{').unwrap_or((series, ""));
            metric == name
                && labels
                    .iter()
                    .all(|(label, value)| rest.contains(&format!("{label}=\"{value}\"")))
        };
        samples
            .filter(|(series, _)| fits(series))
            .map(|(_, value)| value.parse::<f64>().expect("a sample is a number"))
            .sum()
    }

    /// Sends `signal` (`TERM`, `INT`, `HUP`, `KILL`) to the process.
    pub fn signal(&self, signal: &str) {
        let sent = Command::new("sh")
            .args(["-c", &format!("kill -{signal} {}", self.pid())])
            .status()
            .expect("sh can be started");
        assert!(sent.success(), "kill -{signal} failed");
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("the child can be asked").is_none()
    }

    /// Waits for the process to end by itself.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        eventually("wayleave ends", || !self.is_running());
        self.child.wait().expect("it has ended")
    }

    /// Ends the process by SIGTERM and hands back its directory and settings for another start.
    #[track_caller]
    pub fn stop(mut self) -> (TempDir, Settings) {
        self.signal("TERM");
        let status = self.wait();
        assert_eq!(status.code(), Some(0), "SIGTERM ends it well");
        self.leave()
    }

    /// Ends the process with SIGKILL.
    #[track_caller]
    pub fn kill(mut self) -> (TempDir, Settings) {
        self.signal("KILL");
        self.wait();
        self.leave()
    }

    fn leave(&mut self) -> (TempDir, Settings) {
        let empty = tempfile::tempdir().expect("a temporary directory can be made");
        (std::mem::replace(&mut self.dir, empty), self.settings.clone())
    }

    /// Kibibytes of one line of /proc/PID/status, such as `VmHWM` (the most that was resident) or `VmRSS`.
    pub fn memory_kib(&self, line: &str) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("Linux tells");
        let value = status
            .lines()
            .find_map(|text| text.strip_prefix(line)?.strip_prefix(':'))
            .expect("the line exists");
        value.trim().trim_end_matches(" kB").trim().parse().expect("a number of kB")
    }
}

impl Drop for Wayleave {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill.
        let _gone = self.child.kill();
        let _status = self.child.wait();
        if std::thread::panicking() {
            eprintln!(
                "---- wayleave's configuration and output ----\n{}----\n{}",
                self.settings.to_toml(),
                self.log()
            );
        }
    }
}

pub fn with_port(authority: &str, port: u16) -> String {
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| {
        !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
    });
    if has_port { authority.to_owned() } else { format!("{authority}:{port}") }
}

/// Finds `LABEL   http://ADDRESS` at the start of a line.
fn address(text: &str, label: &str) -> Option<SocketAddr> {
    text.lines().find_map(|line| {
        let rest = line.trim_start().strip_prefix(label)?.trim_start().strip_prefix("http://")?;
        rest.split(['/', ' ']).next()?.parse().ok()
    })
}

fn collect(stream: impl Read + Send + 'static, output: &Output) {
    let output = Arc::clone(output);
    std::thread::spawn(move || {
        for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
            let mut text = output.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            text.push_str(&String::from_utf8_lossy(&line));
            text.push('\n');
        }
    });
}
