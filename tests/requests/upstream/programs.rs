//! Proxies of Debian packages, which run between this one and origins.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::harness::tls::pem_pair;
use crate::harness::tools::{clean, sbin};
use crate::harness::{eventually, ports};

/// A program that listens. It is killed when dropped, with its children.
pub struct Program {
    pub address: SocketAddr,
    pub dir: TempDir,
    child: Child,
}

impl Drop for Program {
    fn drop(&mut self) {
        let group = format!("-{}", self.child.id());
        let mut kill = Command::new("kill");
        let _maybe_ended = kill.args(["-KILL", "--", &group]).output();
        let _maybe_ended = self.child.wait();
    }
}

impl Program {
    /// Starts the command that `make` returns for an address and a directory that every user may write to.
    pub fn start(make: impl FnOnce(SocketAddr, &Path) -> Command) -> Self {
        Self::start_at(Ipv4Addr::LOCALHOST.into(), make)
    }

    /// Starts it at a given address.
    pub fn start_at(ip: IpAddr, make: impl FnOnce(SocketAddr, &Path) -> Command) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let writable = fs::Permissions::from_mode(0o777);
        fs::set_permissions(dir.path(), writable).expect("it is ours");
        let address = SocketAddr::new(ip, ports::free());
        let mut command = make(address, dir.path());
        let log = fs::File::create(dir.path().join("out")).expect("it can be written");
        let both = log.try_clone().expect("a file can be opened twice");
        command.stdin(Stdio::null()).stdout(log).stderr(both);
        command.process_group(0);
        let child = command.spawn();
        let mut started = Self {
            address,
            dir,
            child: child.unwrap_or_else(|error| panic!("{command:?}: {error}")),
        };
        eventually("the program listens", || {
            let ended = started.child.try_wait().expect("its status can be read");
            assert!(ended.is_none(), "{command:?}: {}", started.read("out"));
            TcpStream::connect(address).is_ok()
        });
        started
    }

    /// Reads a file that the program writes.
    pub fn read(&self, file: &str) -> String {
        let bytes = fs::read(self.dir.path().join(file)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

fn write(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    fs::write(&path, text).expect("it can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("it is ours");
}

/// Settings of squid.
#[derive(Clone, Copy, Default)]
pub struct Squid {
    /// Whether it requires `user:secret`.
    pub has_password: bool,
    /// Whether it listens with TLS, as `proxy.test`.
    pub tls: bool,
    /// Further lines of its configuration, before everything is allowed.
    pub rules: &'static str,
}

impl Squid {
    pub fn start(self) -> Program {
        Program::start(|address, dir| {
            let folder = dir.display();
            write(dir, "hosts", "127.0.0.1 shop.test other.test\n");
            // openssl passwd -apr1 -salt saltsalt secret
            write(dir, "users", "user:$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0\n");
            let (chain, key) = pem_pair("proxy.test");
            write(dir, "proxy.crt", &chain);
            write(dir, "proxy.key", &key);
            let listen = if self.tls {
                format!(
                    "https_port {address} tls-cert={folder}/proxy.crt tls-key={folder}/proxy.key"
                )
            } else {
                format!("http_port {address}")
            };
            let access = if self.has_password {
                format!(
                    "auth_param basic program /usr/lib/squid/basic_ncsa_auth {folder}/users\n\
                     acl known proxy_auth REQUIRED\nhttp_access allow known\nhttp_access deny all"
                )
            } else {
                "http_access allow all".to_owned()
            };
            let rules = self.rules;
            let text = format!(
                "{listen}\nvisible_hostname squid.test\npid_filename none\ncache deny all\n\
                 cache_log {folder}/cache.log\naccess_log stdio:{folder}/access.log\nlogfile_rotate 0\n\
                 hosts_file {folder}/hosts\nshutdown_lifetime 0 seconds\nnetdb_filename none\ncoredump_dir {folder}\n\
                 {rules}\n{access}\n"
            );
            write(dir, "squid.conf", &text);
            let mut command = clean(sbin("squid"));
            command.arg("-N").arg("-f").arg(dir.join("squid.conf"));
            command
        })
    }
}

pub fn tinyproxy(has_password: bool) -> Program {
    Program::start(|address, dir| {
        let credentials = if has_password { "BasicAuth user secret\n" } else { "" };
        let text = format!(
            "Port {}\nListen 127.0.0.1\nTimeout 60\nMaxClients 50\nLogFile \"{}/access.log\"\nViaProxyName \"tiny\"\n{credentials}",
            address.port(),
            dir.display()
        );
        write(dir, "tinyproxy.conf", &text);
        let mut command = clean(sbin("tinyproxy"));
        command.arg("-d").arg("-c").arg(dir.join("tinyproxy.conf"));
        command
    })
}

pub fn microsocks(has_password: bool) -> Program {
    Program::start(|address, _| {
        let mut command = clean(sbin("microsocks"));
        command.args(["-i", "127.0.0.1", "-p"]);
        command.arg(address.port().to_string());
        if has_password {
            command.args(["-u", "user", "-P", "secret"]);
        }
        command
    })
}

/// Starts Dante. It uses the system's users, which libnss-wrapper replaces here.
pub fn danted(has_password: bool) -> Program {
    const LIBRARY: &str = "libnss_wrapper.so";
    Program::start(|address, dir| {
        // openssl passwd -6 -salt saltsalt secret
        let hash = "$6$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDehy0S5knV8wiOQSpT0Y77vwPZN.Pq.H91p5hVO1";
        write(
            dir,
            "passwd",
            "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\nuser:x:4242:4242::/:/bin/sh\n",
        );
        write(dir, "group", "root:x:0:\nnogroup:x:65534:\nuser:x:4242:\n");
        write(dir, "shadow", &format!("user:{hash}:19000:0:99999:7:::\n"));
        let method = if has_password { "username" } else { "none" };
        let text = format!(
            "logoutput: {}/danted.log\ninternal: 127.0.0.1 port = {}\nexternal: lo\nclientmethod: none\nsocksmethod: {method}\n\
             user.privileged: root\nuser.unprivileged: nobody\nclient pass {{ from: 127.0.0.0/8 to: 0.0.0.0/0 }}\n\
             socks pass {{ from: 127.0.0.0/8 to: 0.0.0.0/0 command: connect }}\n",
            dir.display(),
            address.port()
        );
        write(dir, "danted.conf", &text);
        let mut command = clean(sbin("danted"));
        command.arg("-f").arg(dir.join("danted.conf")).env("LD_PRELOAD", LIBRARY);
        for (name, file) in [("PASSWD", "passwd"), ("GROUP", "group"), ("SHADOW", "shadow")] {
            command.env(format!("NSS_WRAPPER_{name}"), dir.join(file));
        }
        command
    })
}
