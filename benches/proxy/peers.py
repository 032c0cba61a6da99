"""The proxies: how each is configured as its documentation advises, and started."""

import os
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import processes
from origin import DOMAIN

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent.parent
# The numbers of hosts c{} and o{}; squid and Traffic Server read names from a file.
FRESH_HOSTS = 60_000
MANY_HOSTS = 100_000


@dataclass(frozen=True)
class Peer:
    """A proxy of the bench."""

    name: str
    abilities: frozenset
    # (place) -> (command, environment); writes its configuration into place.dir.
    configure: object
    # The program that must be installed.
    program: str
    # The command that prints its version, or the version itself.
    version: object = ("--version",)
    # Options of bench-load by which it is reached.
    load: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """A proxy's port, its own directory, and the bench's certificates."""

    port: int
    admin_port: int
    dir: Path
    shared: Path


def wayleave(place):
    """As shipped: only addresses and the bench's roots differ from the defaults."""
    (place.dir / "config.toml").write_text(
        f"""\
[proxy]
listen = ["127.0.0.1:{place.port}"]
[admin]
listen = "127.0.0.1:{place.admin_port}"
[upstream]
allow_private = ["127.0.0.0/8", "::1/128"]
extra_roots = ["{place.shared}/roots.crt"]
[dns.overrides]
"*.{DOMAIN}" = "127.0.0.1"
"localhost" = "127.0.0.1"
[state]
dir = "{place.dir}/state"
"""
    )
    return [WAYLEAVE, "serve", "--config", str(place.dir / "config.toml")], {}


def wayleave_by_socks5(place):
    """The same, reached by SOCKS5: clients send what an origin would get."""
    command, environment = wayleave(place)
    config = place.dir / "config.toml"
    config.write_text(config.read_text().replace(f'"127.0.0.1:{place.port}"', f'"socks5://127.0.0.1:{place.port}"'))
    return command, environment


def wayleave_with_digests(place):
    """The same, which hashes every body."""
    command, environment = wayleave(place)
    with open(place.dir / "config.toml", "a") as config:
        config.write('[log]\nbody_digest = "sha-256"\n')
    return command, environment


def wayleave_for(crawler, more=""):
    """The same for a configured crawler, with these keys and more tables."""

    def configure(place):
        command, environment = wayleave(place)
        key = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", "bench.pem"]
        subprocess.run(key, cwd=place.dir, check=True)
        with open(place.dir / "config.toml", "a") as config:
            config.write(
                f"""\
[[crawler]]
name = "bench"
tokens = ["BenchBot"]
match = {{ user_agent = "BenchBot" }}
{crawler}
{more}
"""
            )
        return command, environment

    return configure


def wayleave_in_fleet(engine_stands_still):
    """The same as a node of a fleet, whose engine ends with the bench."""

    def configure(place):
        command, environment = wayleave(place)
        port = processes.free_port()
        redis = ["redis-server", "--port", str(port), "--save", "", "--maxmemory-policy", "noeviction"]
        with open(place.dir / "redis.log", "wb") as log:
            engine = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *redis], cwd=place.dir, stdout=log)
        processes.wait_for(lambda: processes.is_open(port), 30, "redis-server does not listen")
        if engine_stands_still:
            engine.send_signal(signal.SIGSTOP)
        with open(place.dir / "config.toml", "a") as config:
            config.write(f'[store]\nkind = "redis"\nurl = "redis://127.0.0.1:{port}"\n')
        return command, environment

    return configure


def floor(name):
    """A pass-through around a proxy library, built here."""

    def configure(place):
        command = [
            str(PROJECT / "target/bench/release" / name), "--listen", f"127.0.0.1:{place.port}",
            "--ca-certificate", f"{place.shared}/proxy-ca.crt",
            "--ca-key", f"{place.shared}/proxy-ca.pkcs8.key",
            "--origin-roots", f"{place.shared}/roots.crt",
        ]
        return command, {}

    return configure


def squid(place):
    """Without its cache, which would answer instead of the origin, and with its leaf generator."""
    certificates = place.dir / "leaves"
    generator = "/usr/lib/squid/security_file_certgen"
    shutil.rmtree(certificates, ignore_errors=True)
    subprocess.run(
        [generator, "-c", "-s", str(certificates), "-M", "64MB"], check=True, capture_output=True
    )
    bundle = place.dir / "ca.pem"
    bundle.write_text(
        Path(place.shared, "proxy-ca.crt").read_text() + Path(place.shared, "proxy-ca.key").read_text()
    )
    user = ""
    if os.geteuid() == 0:
        # It does not run as root, and needs access to its files.
        user = "cache_effective_user proxy\n"
        subprocess.run(["chown", "-R", "proxy", str(place.dir)], check=True)
    (place.dir / "squid.conf").write_text(
        f"""\
{user}http_port 127.0.0.1:{place.port} ssl-bump cert={bundle} generate-host-certificates=on dynamic_cert_mem_cache_size=64MB
sslcrtd_program {generator} -s {certificates} -M 64MB
sslcrtd_children 8 startup=4 idle=2
tls_outgoing_options cafile={place.shared}/roots.crt
acl private urlpath_regex ^/private/
acl connect method CONNECT
http_access allow connect
http_access deny private
http_access allow localhost
ssl_bump bump all
hosts_file {_hosts(place)}
cache deny all
access_log none
cache_log {place.dir}/cache.log
pid_filename {place.dir}/squid.pid
coredump_dir {place.dir}
icp_port 0
shutdown_lifetime 0 seconds
max_filedescriptors 16384
"""
    )
    return ["squid", "-N", "-f", str(place.dir / "squid.conf")], {}


def privoxy(place):
    """Without filters: no action file is read."""
    (place.dir / "config").write_text(
        f"""\
listen-address 127.0.0.1:{place.port}
toggle 0
keep-alive-timeout 300
default-server-timeout 60
connection-sharing 1
max-client-connections 8000
"""
    )
    return ["privoxy", "--no-daemon", str(place.dir / "config")], {}


def traffic_server(place):
    """A forward proxy without a cache, on two threads, which keeps all its files here."""
    settings = {
        "http.server_ports STRING": f"{place.port}:ip-in=127.0.0.1",
        "url_remap.remap_required INT": "0",
        "reverse_proxy.enabled INT": "0",
        "http.cache.http INT": "0",
        "hostdb.host_file.path STRING": str(_hosts(place)),
        "log.logging_enabled INT": "0",
        "exec_thread.autoconfig INT": "0",
        "exec_thread.limit INT": "2",
        "net.connections_throttle INT": "16000",
        "http.insert_response_via_str INT": "1",
        "diags.logfile.filename STRING": "stderr",
    }
    # Its built-in layout names directories of the system; a run root replaces them.
    layout = {"prefix": "/usr", "bindir": "/usr/bin"}
    for key in ("sysconfdir", "localstatedir", "runtimedir", "logdir", "cachedir"):
        (place.dir / key).mkdir()
        layout[key] = str(place.dir / key)
    (place.dir / "runroot.yaml").write_text("".join(f"{key}: {path}\n" for key, path in layout.items()))
    (place.dir / "sysconfdir/storage.config").touch()
    (place.dir / "sysconfdir/ip_allow.yaml").write_text(
        "ip_allow: [{apply: in, ip_addrs: 127.0.0.1, action: allow, methods: ALL}]\n"
    )
    if os.geteuid() == 0:
        # It does not run as root, and needs access to its files.
        settings["admin.user_id STRING"] = "nobody"
        subprocess.run(["chown", "-R", "nobody", str(place.dir)], check=True)
    lines = [f"CONFIG proxy.config.{key} {value}\n" for key, value in settings.items()]
    (place.dir / "sysconfdir/records.config").write_text("".join(lines))
    return ["traffic_server"], {"TS_RUNROOT": str(place.dir)}


def mitmproxy(addon):
    """mitmdump, which prints nothing; with `addon`, it obeys robots.txt by Protego."""

    def configure(place):
        conf = place.dir / "conf"
        conf.mkdir(exist_ok=True)
        (conf / "mitmproxy-ca.pem").write_text(
            Path(place.shared, "proxy-ca.key").read_text() + Path(place.shared, "proxy-ca.crt").read_text()
        )
        command = [
            str(VENV / "bin/mitmdump"), "--quiet", "--listen-host", "127.0.0.1",
            "--listen-port", str(place.port), "--set", f"confdir={conf}",
            "--set", f"ssl_verify_upstream_trusted_ca={place.shared}/roots.crt",
            "--set", "connection_strategy=lazy", "--scripts", str(HERE / "mitm_names.py"),
        ]
        return command + (["--scripts", str(HERE / addon)] if addon else []), {}

    return configure


WAYLEAVE = str(PROJECT / "target/dist/wayleave")
VENV = PROJECT / "target/bench-venv"
EVERYTHING = frozenset({"plain", "intercept", "http2", "refuse", "hosts"})
OURS = EVERYTHING | {"robots"}
SIGNING = """\
[signing]
mode = "always"
agent = "https://bot.example"
"""


def another_wayleave(name, program):
    """A second build of wayleave, to compare two of them."""

    def configure(place):
        command, environment = wayleave(place)
        return [program, *command[1:]], environment

    return Peer(name, OURS, configure, program)


def version(peer):
    """The version that the program prints."""
    if isinstance(peer.version, str):
        return peer.version
    said = subprocess.run([peer.program, *peer.version], capture_output=True, text=True)
    found = re.search(r"\d+\.\d+[\w.+-]*", said.stdout + said.stderr)
    return found.group() if found else "?"


def known():
    """All proxies, by name, in the order of the table."""
    bench = PROJECT / "target/bench/release"
    found = [
        Peer("wayleave", OURS, wayleave, WAYLEAVE),
        Peer("wayleave+socks5", OURS, wayleave_by_socks5, WAYLEAVE, load={"socks5": True}),
        Peer("wayleave+digest", OURS, wayleave_with_digests, WAYLEAVE),
        # Every page is read.
        Peer("wayleave+purposes", OURS, wayleave_for('purposes = ["search", "train-ai"]'), WAYLEAVE),
        Peer("wayleave+signing", OURS, wayleave_for('signing_key = "bench.pem"', SIGNING), WAYLEAVE),
        Peer("wayleave+fleet", OURS, wayleave_in_fleet(False), WAYLEAVE),
        Peer("wayleave+fleet-stopped", OURS, wayleave_in_fleet(True), WAYLEAVE),
        Peer("hudsucker", EVERYTHING, floor("floor-hudsucker"), str(bench / "floor-hudsucker"), "0.25.0"),
        Peer("pingora-proxy", EVERYTHING, floor("floor-pingora"), str(bench / "floor-pingora"), "0.9.1"),
        Peer("squid", EVERYTHING - {"http2"}, squid, "squid", ("-v",)),
        Peer("privoxy", frozenset({"plain"}), privoxy, "privoxy"),
        Peer("traffic-server", frozenset({"plain", "hosts"}), traffic_server, "traffic_server", ("-V",)),
        Peer("mitmproxy", EVERYTHING - {"refuse"}, mitmproxy(None), str(VENV / "bin/mitmdump")),
        Peer(
            "mitmproxy+protego", EVERYTHING | {"robots"}, mitmproxy("mitm_robots.py"),
            str(VENV / "bin/mitmdump"),
        ),
    ]
    return {peer.name: peer for peer in found}


def _hosts(place):
    """A hosts file with every name of the bench."""
    path = place.shared / "hosts"
    if not path.exists():
        numbers = [f"o{number}" for number in range(MANY_HOSTS)]
        numbers += [f"c{number}" for number in range(FRESH_HOSTS)]
        lines = [f"127.0.0.1 {number}.{DOMAIN}\n" for number in numbers]
        path.write_text("127.0.0.1 localhost\n" + "".join(lines))
    return path
