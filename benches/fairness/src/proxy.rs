//! The proxy's process: its configuration, memory and processor time.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustls::ClientConfig;
use tempfile::TempDir;

use crate::tls::Certificate;

/// The steps of processor time in a second (`USER_HZ`, which is the same for all programs).
const TICKS: f64 = 100.0;

/// A running proxy, with state of its own. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Proxy {
    /// The listener for HTTP/1.
    pub(crate) plain: SocketAddr,
    /// The listener for TLS, with HTTP/2.
    pub(crate) tls: SocketAddr,
    /// The configuration of its clients.
    pub(crate) client: Arc<ClientConfig>,
    process: Child,
    _dir: TempDir,
}

/// Reads NAME=PATH.
pub(crate) fn parse_build(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or("expected NAME=PATH")?;
    Ok((name.to_owned(), path.into()))
}

impl Proxy {
    pub(crate) fn start(program: &Path, certificate: &Certificate) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let [plain, tls, admin] = [free_address()?, free_address()?, free_address()?];
        fs::write(dir.path().join("listener.pem"), certificate.pem())?;
        fs::write(dir.path().join("listener.key"), certificate.key_pem())?;
        fs::write(dir.path().join("config.toml"), configuration(plain, tls, admin))?;
        let log = fs::File::create(dir.path().join("log"))?;
        // It must not outlive the bench.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(program).args(["serve", "--config"]);
        command.arg(dir.path().join("config.toml"));
        command.stdout(log.try_clone()?).stderr(log).stdin(Stdio::null());
        let mut process = command.spawn().context("setpriv (util-linux)")?;
        let ca = dir.path().join("state/ca/ca.crt");
        let begun = Instant::now();
        while !ca.exists() || TcpStream::connect(tls).is_err() {
            let has_ended = process.try_wait()?.is_some();
            if has_ended || begun.elapsed() > Duration::from_secs(30) {
                let log = fs::read_to_string(dir.path().join("log"))?;
                anyhow::bail!("{} does not listen: {log}", program.display());
            }
            thread::sleep(Duration::from_millis(20));
        }
        let client = certificate.client(&ca)?;
        Ok(Self { plain, tls, client, process, _dir: dir })
    }

    /// Returns the memory that it takes, in bytes.
    pub(crate) fn memory(&self) -> anyhow::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()).context("no VmRSS")?;
        Ok(kib.parse::<u64>()? * 1024)
    }

    /// Returns the processor time that it has used.
    pub(crate) fn processor_time(&self) -> anyhow::Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id()))?;
        // The name may contain spaces; user and system time are the 14th and 15th field.
        let (_, after_name) = stat.rsplit_once(')').context("no name")?;
        let ticks = after_name.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
        let ticks: f64 = ticks.sum::<Result<f64, _>>()?;
        Ok(Duration::from_secs_f64(ticks / TICKS))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Nothing of it is needed any more.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// As shipped: only addresses, certificates and one crawler with a purpose differ from the defaults.
fn configuration(plain: SocketAddr, tls: SocketAddr, admin: SocketAddr) -> String {
    format!(
        r#"
[proxy]
listen = ["{plain}", "https://{tls}"]
certificate = "listener.pem"
key = "listener.key"
[admin]
listen = "{admin}"
[upstream]
allow_private = ["127.0.0.0/8"]
extra_roots = ["listener.pem"]
[dns.overrides]
"*.test" = "127.0.0.1"
[state]
dir = "state"
[[crawler]]
name = "trainer"
tokens = ["TrainerBot"]
match = {{ user_agent = "TrainerBot" }}
purposes = ["search", "train-ai"]
"#
    )
}

fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
