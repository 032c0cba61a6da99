//! Origins that are independent programs: each prints its port, then a line for every request that it executes.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use super::{eventually, tools};

/// A running program; killed when dropped.
pub struct Program {
    lines: Arc<Mutex<Vec<String>>>,
    child: Child,
}

impl Program {
    /// Runs `tests/origins/<script>` with `interpreter`.
    #[track_caller]
    pub fn start(interpreter: &Path, script: &str) -> Self {
        let script = tools::project().join("tests/origins").join(script);
        let mut child = tools::clean(interpreter)
            .arg(&script)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{} cannot be started: {error}", script.display()));
        let lines = Arc::new(Mutex::new(Vec::new()));
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let collected = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let mut lines = collected.lock().unwrap_or_else(PoisonError::into_inner);
                lines.push(line);
            }
        });
        let program = Self { lines, child };
        eventually("the origin prints its port", || !program.lines().is_empty());
        program
    }

    #[track_caller]
    pub fn address(&self) -> SocketAddr {
        let port = self.lines()[0].parse().expect("the first line is a port");
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    /// Returns a line for each request that was executed, such as `GET /a`.
    pub fn executed(&self) -> Vec<String> {
        self.lines().split_off(1)
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill.
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}
