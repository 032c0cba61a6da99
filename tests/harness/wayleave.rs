//! The real program, started with its own configuration on its own ports.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tempfile::TempDir;

use super::client::{Request, Wire};
use super::crawler::{Crawler, crawler};
use super::dns::NameServer;
use super::response::Response;
use super::tls::Authority;
use super::tools::clean;
use super::{H2Client, Origin, eventually};

/// The program under test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_wayleave");

/// Returns a command that runs the program under test.
pub fn command() -> Command {
    clean(BINARY)
}

/// A configuration to be written. Keys are full names, values are TOML.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The directory of the file, to which its relative paths belong.
    pub dir: PathBuf,
    keys: BTreeMap<String, String>,
    tables: String,
}

impl Settings {
    /// Sets free ports, state in `dir`, connections to 127.0.0.1 only, and the test CA as a further root. Names without an override
    /// do not exist, so that no request leaves the machine.
    fn new(dir: &Path) -> Self {
        let roots = dir.join("origins.pem");
        std::fs::write(&roots, &Authority::trusted().pem)
            .expect("the temporary directory can be written");
        let settings = Self { dir: dir.to_owned(), keys: BTreeMap::new(), tables: String::new() };
        settings
            .set("proxy.listen", r#"["127.0.0.1:0"]"#)
            .set("admin.listen", r#""127.0.0.1:0""#)
            .set("state.dir", &format!("{:?}", dir.join("state")))
            .resolver(NameServer::without_names())
            .set("upstream.allow_private", r#"["127.0.0.1/32"]"#)
            .set("upstream.extra_roots", &format!("[{roots:?}]"))
            // On a busy machine even a loopback peer may take longer than the defaults.
            .set("proxy.header_timeout", "\"30s\"")
            .set("robots.fetch_timeout", "\"30s\"")
            .set("upstream.connect_timeout", "\"30s\"")
    }

    /// Returns the settings of a proxy with `origin` at the ports 80 and 443 of every `*.test` name.
    pub fn for_origin(dir: &Path, origin: &Origin) -> Self {
        Self::new(dir).resolve_to("*.test", origin)
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

    /// Has this server resolve the names without an override.
    pub fn resolver(self, names: &NameServer) -> Self {
        self.set("dns.servers", &format!("[\"{}\"]", names.address))
    }

    /// Maps the ports 80 and 443 of `host` to an origin.
    pub fn resolve_to(self, host: &str, origin: &Origin) -> Self {
        self.resolve(&format!("{host}:80"), origin.http)
            .resolve(&format!("{host}:443"), origin.https)
    }

    /// Appends text such as a `[[rule]]` table.
    pub fn table(mut self, text: &str) -> Self {
        self.tables += text;
        if !self.tables.ends_with('\n') {
            self.tables.push('\n');
        }
        self
    }

    /// Appends a crawler.
    pub fn with(self, crawler: Crawler) -> Self {
        self.table(&crawler.into_toml())
    }

    pub fn with_all(self, crawlers: impl IntoIterator<Item = Crawler>) -> Self {
        crawlers.into_iter().fold(self, Self::with)
    }

    /// Appends a crawler that is recognised by its product token in `User-Agent`.
    pub fn crawler(self, name: &str, token: &str) -> Self {
        self.with(crawler(name, token))
    }

    pub fn without_tables(mut self) -> Self {
        self.tables.clear();
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

/// A running proxy; killed when dropped, its output printed if the test fails.
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
    /// Starts with `origin` at the ports 80 and 443 of every `*.test` name.
    #[track_caller]
    pub fn start(origin: &Origin) -> Self {
        Self::start_with(origin, |settings| settings)
    }

    #[track_caller]
    pub fn start_with(origin: &Origin, change: impl FnOnce(Settings) -> Settings) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let settings = change(Settings::for_origin(dir.path(), origin));
        Self::start_in(dir, settings)
    }

    /// Starts in the directory that an earlier run left.
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
        let settings = change(Settings::for_origin(dir.path(), origin));
        Self::start_version(program, dir, settings)
    }

    /// Starts with a configuration file that the test wrote.
    #[track_caller]
    pub fn start_with_file(file: &Path, dir: TempDir, settings: Settings) -> Self {
        let mut command = command();
        command.args(["serve", "--config"]).arg(file).current_dir(dir.path());
        Self::spawn(command, dir, settings)
    }

    /// Starts with no file allowed to grow past `kibibytes`, as if the disk were full then.
    #[track_caller]
    pub fn start_on_full_disk(origin: &Origin, kibibytes: usize) -> Self {
        let blocks = kibibytes * 2;
        Self::start_after(origin, &format!("trap '' XFSZ; ulimit -f {blocks}"))
    }

    /// Starts from a shell that runs `preparation` first.
    #[track_caller]
    pub fn start_after(origin: &Origin, preparation: &str) -> Self {
        Self::start_with_after(origin, |settings| settings, preparation)
    }

    #[track_caller]
    pub fn start_with_after(
        origin: &Origin,
        change: impl FnOnce(Settings) -> Settings,
        preparation: &str,
    ) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let settings = change(Settings::for_origin(dir.path(), origin));
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("{preparation}; exec \"$0\" \"$@\"")).arg(BINARY);
        Self::spawn(Self::serve(shell, &dir, &settings), dir, settings)
    }

    /// Starts with `command`, which runs the binary with an inherited listener, in a directory that outlives the process.
    #[track_caller]
    pub fn start_inheriting(
        command: Command,
        origin: &Origin,
        dir: &TempDir,
        change: impl FnOnce(Settings) -> Settings,
    ) -> (Self, Settings) {
        let settings = change(Settings::for_origin(dir.path(), origin));
        (Self::replace(command, dir, &settings), settings)
    }

    /// Starts a second process with the same configuration while the first one stops.
    #[track_caller]
    pub fn replace(command: Command, dir: &TempDir, settings: &Settings) -> Self {
        let own = tempfile::tempdir().expect("a temporary directory can be made");
        let command = Self::serve(command, dir, settings);
        Self::spawn_with_stdin(command, own, settings.clone())
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
        Self::spawn_with_stdin(command, dir, settings)
    }

    #[track_caller]
    fn spawn_with_stdin(mut command: Command, dir: TempDir, settings: Settings) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary can be started");
        let output = Output::default();
        collect(child.stdout.take().expect("piped"), &output);
        collect(child.stderr.take().expect("piped"), &output);
        let unknown = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut started = Self { proxy: unknown, admin: unknown, dir, settings, child, output };
        started.wait_until_ready();
        started
    }

    #[track_caller]
    fn wait_until_ready(&mut self) {
        eventually("the proxy prints its addresses", || {
            if let Some(status) = self.child.try_wait().expect("its status can be read") {
                panic!("wayleave ended at its start with {status}");
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

    /// Returns everything printed so far, on both streams.
    pub fn log(&self) -> String {
        self.output.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn ca_file(&self) -> PathBuf {
        self.dir.path().join("state/ca/ca.crt")
    }

    /// Replaces the configuration file at once, as editors do.
    #[track_caller]
    pub fn write_config(&self, text: &str) {
        let new = self.dir.path().join("config.toml.new");
        std::fs::write(&new, text).expect("the temporary directory can be written");
        std::fs::rename(new, self.dir.path().join("config.toml")).expect("a file can be renamed");
    }

    /// Replaces the configuration file and reloads it.
    #[track_caller]
    pub fn reload(&self, settings: &Settings) {
        self.write_config(&settings.to_toml());
        let answer = self.admin_request("POST", "/v1/reload");
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    /// Writes a configuration that names the ports in use, for commands that contact this proxy.
    pub fn config_with_ports(&self) -> PathBuf {
        let settings = self
            .settings
            .clone()
            .set("proxy.listen", &format!("[\"{}\"]", self.proxy))
            .set("admin.listen", &format!("\"{}\"", self.admin));
        let file = self.dir.path().join("ports.toml");
        std::fs::write(&file, settings.to_toml()).expect("the temporary directory can be written");
        file
    }

    /// Reads the certificate of the interception CA.
    #[track_caller]
    pub fn ca_pem(&self) -> Vec<u8> {
        std::fs::read(self.ca_file()).expect("the first start makes the CA")
    }

    pub fn connect(&self) -> Wire {
        Wire::connect(self.proxy)
    }

    /// Opens a tunnel to `authority` and TLS inside it, for HTTP/1.1.
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

    /// Sends a GET on a new connection: in absolute form for `http:`, by CONNECT and TLS for `https:`.
    #[track_caller]
    pub fn get(&self, url: &str) -> Response {
        self.exchange(&Request::get(url))
    }

    /// Sends a GET with this `User-Agent`.
    #[track_caller]
    pub fn get_as(&self, agent: &str, url: &str) -> Response {
        self.exchange(&Request::get(url).agent(agent))
    }

    #[track_caller]
    pub fn exchange(&self, request: &Request) -> Response {
        let (scheme, authority, path) = request.parts();
        let mut wire = match scheme {
            "https" => self.tunnel(&with_port(authority, 443)),
            _ => self.connect(),
        };
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        wire.send(request.bytes(if scheme == "https" { &path } else { &request.url }));
        wire.expect_response(request.method == "HEAD")
    }

    #[track_caller]
    pub fn admin_get(&self, path: &str) -> Response {
        self.admin_request("GET", path)
    }

    /// Sends a request without a body to the admin listener.
    #[track_caller]
    pub fn admin_request(&self, method: &str, path: &str) -> Response {
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

    /// Waits until the request that came last is recorded, which is about `url`, and returns its decision.
    #[track_caller]
    pub fn newest_decision(&self, url: &str) -> Value {
        let mut newest = Value::Null;
        // What is forwarded is recorded once its client has it, which may be after a later request is refused.
        eventually("the decision is recorded", || {
            let listed = self.admin_get("/v1/decisions?limit=10").json();
            let decisions = listed["decisions"].as_array().expect("a list").iter();
            let found = decisions.max_by_key(|decision| decision["at"].as_str().map(str::to_owned));
            newest = found.cloned().unwrap_or_default();
            newest["url"] == url
        });
        newest
    }

    /// Returns the sum of the samples of a metric that have all of `labels`; 0 if there are none.
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
        self.child.try_wait().expect("its status can be read").is_none()
    }

    /// Waits until the process ends.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        eventually("wayleave ends", || !self.is_running());
        self.child.wait().expect("it has ended")
    }

    /// Ends the process with SIGTERM. Returns its directory and settings, for another start.
    #[track_caller]
    pub fn stop(mut self) -> (TempDir, Settings) {
        self.signal("TERM");
        let status = self.wait();
        assert_eq!(status.code(), Some(0), "the exit status after SIGTERM");
        self.into_parts()
    }

    /// Ends the process with SIGKILL.
    #[track_caller]
    pub fn kill(mut self) -> (TempDir, Settings) {
        self.signal("KILL");
        self.wait();
        self.into_parts()
    }

    fn into_parts(mut self) -> (TempDir, Settings) {
        let empty = tempfile::tempdir().expect("a temporary directory can be made");
        (std::mem::replace(&mut self.dir, empty), self.settings.clone())
    }

    /// Returns a line of /proc/PID/status in KiB, such as `VmRSS` or `VmHWM` (its maximum so far).
    pub fn memory_kib(&self, line: &str) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("Linux has it");
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

/// Finds the address in a line such as `LABEL   http://ADDRESS`.
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
