//! The systemd units, and the notifications and sockets of services.

use std::io::Read;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::gateway::check;
use crate::gateway::grpc_client::{Caller, Question};
use crate::harness::ports::free_address;
use crate::harness::tools::{clean, program, project, run};
use crate::harness::wayleave::{BINARY, command};
use crate::harness::{DEADLINE, Origin, Wayleave, Wire, eventually};

/// The units that are shipped.
const UNITS: [&str; 4] =
    ["wayleave.service", "wayleave.socket", "wayleave-drill.service", "wayleave-drill.timer"];
const LIMIT: Duration = Duration::from_secs(60);

/// Copies the units, with the binary under test in place of the installed one.
fn units(dir: &TempDir) -> Vec<PathBuf> {
    let copy = |name: &str| {
        let text = std::fs::read_to_string(project().join("systemd").join(name))
            .expect("the unit is shipped");
        let file = dir.path().join(name);
        std::fs::write(&file, text.replace("/usr/local/bin/wayleave", BINARY)).expect("writable");
        file
    };
    UNITS.map(copy).to_vec()
}

#[test]
fn the_units_are_valid() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = run(
        clean(program("systemd-analyze")).args(["verify", "--man=no"]).args(units(&dir)),
        b"",
        LIMIT,
    );
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !stderr.contains("wayleave"), "{stderr}");
}

/// As in a chroot, or in a container that hides it.
#[test]
fn it_serves_where_proc_is_not_mounted() {
    let origin = Origin::start();
    origin.site("shop.test").disallows("/private");
    let hide = "mount -t tmpfs none /proc && exec \"$0\" \"$@\"";
    let unshare = format!("exec unshare --map-root-user --mount sh -c '{hide}' \"$0\" \"$@\"");
    let proxy = Wayleave::start_after(&origin, &unshare);
    assert_eq!(proxy.get("http://shop.test/private").status, 403);
}

#[test]
fn the_services_exposure_is_under_two() {
    let dir = tempfile::tempdir().expect("a directory");
    for service in units(&dir).iter().filter(|unit| unit.extension() == Some("service".as_ref())) {
        exposure_is_under_two(service);
    }
}

fn exposure_is_under_two(service: &Path) {
    let output = run(
        clean(program("systemd-analyze"))
            .args(["security", "--no-pager", "--offline=true", "--threshold=20"])
            .arg(service),
        b"",
        LIMIT,
    );
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}");
    let name = service.file_name().expect("a name").to_string_lossy();
    let heading = format!("Overall exposure level for {name}: ");
    let exposure = stdout.lines().find_map(|line| line.split_once(&*heading)).expect("a level").1;
    let level: f64 =
        exposure.split(' ').next().expect("a number comes first").parse().expect("a number");
    assert!(level < 2.0, "{level}");
}

/// A process that is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}

fn write_config(dir: &TempDir, listen: &str) {
    let text = format!(
        "proxy.listen = [\"{listen}\"]\nadmin.listen = \"127.0.0.1:0\"\nstate.dir = {:?}\n",
        dir.path().join("state")
    );
    std::fs::write(dir.path().join("config.toml"), text).expect("writable");
}

#[test]
fn readiness_and_stopping_are_notified() {
    let dir = tempfile::tempdir().expect("a directory");
    write_config(&dir, "127.0.0.1:0");
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket can be made");
    socket.set_read_timeout(Some(DEADLINE)).expect("not zero");
    let mut start = command();
    start
        .args(["serve", "--config", "config.toml"])
        .current_dir(dir.path())
        .env("NOTIFY_SOCKET", &path);
    let mut child =
        Running(start.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts"));
    let wait_for = |word: &str| loop {
        let mut message = [0; 4096];
        let length =
            socket.recv(&mut message).unwrap_or_else(|error| panic!("{word} never came: {error}"));
        if String::from_utf8_lossy(&message[..length]).lines().any(|line| line == word) {
            return;
        }
    };
    wait_for("READY=1");
    let pid = child.0.id().to_string();
    run(clean("/bin/sh").args(["-c", "kill -TERM \"$0\"", &pid]), b"", LIMIT);
    wait_for("STOPPING=1");
    eventually("it ends", || child.0.try_wait().expect("its status can be read").is_some());
    assert_eq!(child.0.wait().expect("ended").code(), Some(0));
}

#[test]
fn a_socket_of_the_service_manager_is_taken_over() {
    let dir = tempfile::tempdir().expect("a directory");
    let address = free_address();
    let [http, grpc] = [free_address(), free_address()];
    write_config(&dir, &address.to_string());
    let file = dir.path().join("config.toml");
    let text = std::fs::read_to_string(&file).expect("it was written");
    let gateways = format!("gateway.listen = [\"http://{http}\", \"grpc://{grpc}\"]\n");
    std::fs::write(file, gateways + &text).expect("writable");
    let mut start = clean(program("systemd-socket-activate"));
    for address in [address, http, grpc] {
        start.args(["-l", &address.to_string()]);
    }
    start.args([BINARY, "serve", "--config", "config.toml"]).current_dir(dir.path());
    let mut child =
        Running(start.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts"));
    eventually("the socket listens", || std::net::TcpStream::connect(address).is_ok());
    let mut wire = Wire::connect(address);
    wire.send_get("gopher://shop.test/");
    assert_eq!(wire.response().status, 501);
    let mut gateway = Wire::connect(http);
    gateway.send(format!("GET {} HTTP/1.1\r\nHost: a\r\n\r\n", check("GET", "gopher://a/")));
    assert_eq!(gateway.response().status, 501);
    let question = Question {
        method: "GET",
        scheme: "http",
        host: "192.168.1.1",
        path: "/",
        fields: &[],
        client: "192.0.2.1",
    };
    assert_eq!(Caller::connect_from(1, grpc).ask(&question).status, 502);
    child.0.kill().expect("it runs");
    let mut stderr = String::new();
    child.0.stderr.take().expect("piped").read_to_string(&mut stderr).expect("readable");
    assert!(!stderr.contains("panicked"), "{stderr}");
}
