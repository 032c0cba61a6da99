//! The engine's server, in its own directory.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A `redis-server` on processor 0, stopped when dropped.
pub(super) struct RedisServer {
    process: Child,
    port: u16,
    _dir: TempDir,
}

/// Figures of the server, as its `INFO` gives them.
pub(super) struct RedisFigures {
    /// The scripts that it ran, also those of beats.
    pub(super) calls: f64,
    /// The processor time of its main thread, in seconds.
    pub(super) processor: f64,
    /// The memory in use, in bytes.
    pub(super) memory: u64,
}

impl RedisFigures {
    /// Returns the calls and the processor time since `before`, and the memory now.
    pub(super) fn since(self, before: &Self) -> Self {
        Self {
            calls: self.calls - before.calls,
            processor: self.processor - before.processor,
            memory: self.memory,
        }
    }
}

impl RedisServer {
    /// Starts a server on a free port, and waits until it answers.
    pub(super) fn start() -> Result<Self, Box<dyn Error>> {
        let dir = tempfile::tempdir()?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let process = Command::new("taskset")
            .args(["-c", "0", "redis-server", "--save", "", "--port", &port.to_string(), "--dir"])
            .arg(dir.path())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("starting taskset and redis-server: {error}"))?;
        let server = Self { process, port, _dir: dir };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if started.elapsed() > Duration::from_secs(10) {
                return Err("redis-server does not answer".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn process(&self) -> u32 {
        // `taskset` became the server.
        self.process.id()
    }

    pub(super) fn figures(&self) -> Result<RedisFigures, Box<dyn Error>> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.write_all(b"INFO all\r\n")?;
        let mut answer = BufReader::new(stream);
        let mut length = String::new();
        answer.read_line(&mut length)?;
        let mut text = vec![0; length.trim_start_matches('$').trim().parse()?];
        answer.read_exact(&mut text)?;
        let text = String::from_utf8(text)?;
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.ok_or_else(|| format!("INFO has no {name}"))
        };
        let calls = value("cmdstat_evalsha").unwrap_or("calls=0,");
        let calls = calls.trim_start_matches("calls=").split(',').next().unwrap_or_default();
        Ok(RedisFigures {
            calls: calls.parse()?,
            processor: value("used_cpu_sys_main_thread")?.parse::<f64>()?
                + value("used_cpu_user_main_thread")?.parse::<f64>()?,
            memory: value("used_memory")?.parse()?,
        })
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
