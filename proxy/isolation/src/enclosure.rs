//! The namespaces as seen from outside.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::net::{Shutdown, TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

use anyhow::{Context, ensure};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use socket2::{SockRef, Type};

use super::handover::{self, MAX_SOCKETS};
use super::mounts::MountPlan;
use super::network::DNS_PORT;
use super::signals::BlockedSignals;

/// The ports that can be captured: further sockets are for DNS.
const MAX_PORTS: usize = MAX_SOCKETS - 3;

/// The namespaces of a command that is not running yet.
pub struct Enclosure {
    entry: Child,
    control: UnixStream,
}

/// The sockets that listen inside.
#[derive(Debug, Default)]
pub struct EnclosureSockets {
    /// Those that take connections to origins: the local address of a connection is the one that the command dialled.
    pub captured: Vec<TcpListener>,
    pub dns_tcp: Vec<TcpListener>,
    pub dns_udp: Vec<UdpSocket>,
}

impl EnclosureSockets {
    /// Returns whether addresses of IPv6 can be reached inside.
    pub fn has_ipv6(&self) -> bool {
        self.dns_udp.len() > 1
    }

    fn from_received(sockets: Vec<OwnedFd>) -> io::Result<Self> {
        let mut all = Self::default();
        for socket in sockets {
            let socket_ref = SockRef::from(&socket);
            let address = socket_ref.local_addr()?.as_socket();
            if socket_ref.r#type()? == Type::DGRAM {
                all.dns_udp.push(socket.into());
            } else if address.is_some_and(|address| address.port() == DNS_PORT) {
                all.dns_tcp.push(socket.into());
            } else {
                all.captured.push(socket.into());
            }
        }
        Ok(all)
    }
}

impl Enclosure {
    /// Makes the namespaces for `command`, with `changed` environment variables, and sockets inside that listen on `ports`.
    /// `dir` is a directory of our own. Returns `None` if that is impossible; the reason has been printed.
    ///
    /// # Errors
    ///
    /// Returns an error if there are too many ports, or if the process that makes the namespaces cannot be started.
    pub fn start(
        dir: &Path,
        ports: &[u16],
        command: &[OsString],
        environment: impl FnOnce(&mut Command),
    ) -> anyhow::Result<Option<(Self, EnclosureSockets)>> {
        ensure!(ports.len() <= MAX_PORTS, "at most {MAX_PORTS} ports can be captured");
        let path = dir.join("control");
        let listener = UnixListener::bind(&path).context("listening for the namespaces")?;
        let mut entry = Command::new("/proc/self/exe");
        entry.arg0("wayleave").arg("run-entry").arg(&path);
        for port in ports {
            entry.arg("--port").arg(port.to_string());
        }
        entry.arg("--").args(command);
        environment(&mut entry);
        let mut entry = entry.spawn().context("starting the process that makes namespaces")?;
        let Some(control) = accept_from(&listener, &entry)? else {
            entry.wait()?;
            return Ok(None);
        };
        std::fs::remove_file(path)?;
        let received = handover::receive(&control)?;
        if received.is_empty() {
            entry.wait()?;
            return Ok(None);
        }
        let sockets = EnclosureSockets::from_received(received)?;
        Ok(Some((Self { entry, control }, sockets)))
    }

    /// Makes the mounts and runs the command, to which `signals` are passed. Returns its exit status.
    ///
    /// # Errors
    ///
    /// Returns an error if the process inside is gone.
    pub fn run(mut self, plan: &MountPlan, signals: &BlockedSignals) -> io::Result<u8> {
        let plan = serde_json::to_vec(plan).map_err(io::Error::other)?;
        match self.control.write_all(&plan).and_then(|()| self.control.shutdown(Shutdown::Write)) {
            // The process inside has failed, and said why: its exit status follows.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            written => written?,
        }
        signals.supervise(self.entry.id())
    }
}

/// Accepts the connection of `entry`, or returns `None` if it ends before.
fn accept_from(listener: &UnixListener, entry: &Child) -> io::Result<Option<UnixStream>> {
    let pid = i32::try_from(entry.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("a process has no number"))?;
    let ended = pidfd_open(pid, PidfdFlags::empty())?;
    let mut waited = [
        PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(ended.as_fd(), PollFlags::IN),
    ];
    poll(&mut waited, None)?;
    if waited[0].revents().is_empty() {
        return Ok(None);
    }
    listener.accept().map(|(stream, _)| Some(stream))
}
