"""Sockets and descriptors outside of `wayleave run`, and attempts to reach them from inside.

`sockets.py outside SETTINGS` makes them, runs the command in SETTINGS, which ends in `sockets.py inside`, and prints a line of JSON for
each attempt: its name, its result, and whether the service outside was reached. Needs root and a mount namespace of its own.
"""

import ctypes
import fcntl
import json
import os
import pty
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading

from attempt_runner import ATTEMPTS, LIBC, LIMIT, attempt, checked, run_all

KINDS = {"stream": socket.SOCK_STREAM, "datagram": socket.SOCK_DGRAM, "seqpacket": socket.SOCK_SEQPACKET}
CLONE_NEWNET = 0x40000000


# Outside.


class Services:
    """Sockets that report on a pipe whom they were reached by."""

    def __init__(self, top, reports, is_crowded):
        self.top, self.reports, self.is_crowded, self.places = top, reports, is_crowded, {}

    def serve(self, name, kind, place, bound=None):
        """Binds a socket to `bound` and serves it; inside, it is tried at `place`."""
        service = socket.socket(socket.AF_UNIX, KINDS[kind])
        service.bind(place if bound is None else bound)
        if isinstance(place, str) and os.path.exists(bound or place):
            os.chmod(bound or place, 0o777)
        if kind != "datagram":
            service.listen()
        self.places[name] = (kind, place)
        threading.Thread(target=self.report, args=(name, kind, service), daemon=True).start()

    def report(self, name, kind, service):
        kept = []
        while True:
            kept.append(service.recv(100) if kind == "datagram" else service.accept())
            os.write(self.reports, (name + "\n").encode())

    def dir(self, *names):
        path = os.path.join(self.top, *names)
        os.makedirs(path, exist_ok=True)
        return path

    def start(self):
        for kind in KINDS:
            plain = self.dir("plain")
            self.serve(f"{kind}: bound by its path", kind, f"{plain}/{kind}")
            relative = self.dir("relative", kind)
            os.chdir(relative)
            self.serve(f"{kind}: bound by a relative path", kind, f"{relative}/own/{kind}", self.relative("own", kind))
            renamed = self.dir("renamed")
            self.serve(f"{kind}: renamed", kind, f"{renamed}/{kind}-new", f"{renamed}/{kind}")
            os.rename(f"{renamed}/{kind}", f"{renamed}/{kind}-new")
            moved = self.dir("moved", "deep", "er")
            self.serve(f"{kind}: moved to another directory", kind, f"{moved}/{kind}", f"{self.top}/moved/{kind}")
            os.rename(f"{self.top}/moved/{kind}", f"{moved}/{kind}")
            linked = self.dir("linked", "names")
            self.serve(f"{kind}: linked from another directory", kind, f"{linked}/{kind}", f"{self.top}/linked/{kind}")
            os.link(f"{self.top}/linked/{kind}", f"{linked}/{kind}")
            self.dir("directory", kind, "below")
            was, now = f"{self.top}/directory/{kind}", f"{self.top}/directory/{kind}-new"
            self.serve(f"{kind}: its directory was renamed", kind, f"{now}/below/socket", f"{was}/below/socket")
            os.rename(was, now)
            feed = self.dir(f"line\nfeed")
            self.serve(f"{kind}: line feeds in its path", kind, f"{feed}/{kind}\nname")
            self.serve(f"{kind}: not unicode", kind, f"{plain}/{kind}\udcff")
            self.serve(f"{kind}: spaces in its path", kind, f"{self.dir('a b')}/{kind} 1")
            self.serve(f"{kind}: in the temporary directory", kind, f"{self.dir('tmp')}/{kind}")
            self.serve(f"{kind}: in .ssh", kind, f"{self.dir('home', '.ssh', 'masters')}/{kind}")
            self.serve(f"{kind}: abstract", kind, f"\0wayleave-{os.getpid()}-{kind}")
            os.symlink(f"{plain}/{kind}", f"{plain}/{kind}-link")
            self.places[f"{kind}: by a symbolic link"] = (kind, f"{plain}/{kind}-link")
        deep = self.dir("home", "d" * 60, "e" * 60)
        os.chdir(deep)
        self.serve("a path that is too long for an address", "stream", f"{deep}/socket", "socket")
        os.chdir("/")
        unlisted = f"{self.top}/unlisted"
        self.serve("in a directory that cannot be listed", "stream", f"{unlisted}/socket")
        self.serve("renamed in a directory that cannot be listed", "stream", f"{unlisted}/new", f"{unlisted}/old")
        os.rename(f"{unlisted}/old", f"{unlisted}/new")
        if self.is_crowded:
            self.start_in_crowd()
        with socket.socket(socket.AF_UNIX) as ended:
            ended.bind(f"{self.top}/tmp/left")
        self.serve("in /run", "stream", "/run/wayleave-test.sock")
        self.serve("in /run, mounted elsewhere as a file", "stream", f"{self.top}/docker.sock", "/run/docker.sock")
        self.serve("in /run, mounted elsewhere with its directory", "stream", f"{self.top}/run/sub/socket", self.dir_in_run())
        self.serve("in a /var/run of its own", "stream", "/var/run/wayleave-test.sock")
        self.serve("in /tmp", "stream", f"/tmp/wayleave-test-{os.getpid()}.sock")
        self.serve("in /dev/shm", "stream", f"/dev/shm/wayleave-test-{os.getpid()}.sock")
        self.serve("on a file system of its own", "stream", f"{self.top}/mounted/socket")

    def start_in_crowd(self):
        crowd = self.dir("home", "a", "b", "c", "d")
        for number in range(5_000):
            os.mkdir(f"{crowd}/{number}")
        far, near = self.dir("home", "a", "b", "c", "d", "e", "f"), self.dir("home", "near")
        self.serve("moved behind more directories than are searched", "stream", f"{far}/socket", f"{near}/socket")
        os.rename(f"{near}/socket", f"{far}/socket")

    def relative(self, *names):
        os.makedirs(os.path.join(*names[:-1]), exist_ok=True)
        return os.path.join(*names)

    def dir_in_run(self):
        os.makedirs("/run/sub", exist_ok=True)
        os.chmod("/run/sub", 0o755)
        return "/run/sub/socket"

    def start_in_another_network(self):
        other = self.dir("home", ".ssh", "other")
        for kind in KINDS:
            self.serve(f"{kind}: bound in another network namespace", kind, f"{self.dir('network')}/{kind}")
            self.serve(f"{kind}: renamed in another network namespace", kind, f"{other}/{kind}-new", f"{other}/{kind}")
            os.rename(f"{other}/{kind}", f"{other}/{kind}-new")
        self.serve("named by a variable", "stream", f"{self.dir('variable')}/bus")

    def on_request(self):
        """Serves the processes inside that ask for it by files, and binds sockets late."""
        with open(f"{self.top}/to-outside") as requests:
            requests.read()
        os.write(self.reports, b"a fifo\n")
        self.serve("bound later outside of /run", "stream", f"{self.dir('late')}/socket")
        with open(f"{self.top}/to-inside", "w") as answers:
            answers.write("bound")


def fork_services(top, uid, reports, is_crowded, make):
    """Starts a process with services. Returns its number and their places."""
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        with os.fdopen(reader) as file:
            return child, json.loads(file.readline() or "{}")
    services = Services(top, reports, is_crowded)
    make(services, lambda: (os.setgid(uid), os.setuid(uid)))
    os.write(writer, (json.dumps(services.places) + "\n").encode())
    os.close(writer)
    try:
        services.on_request()
    except OSError:
        pass
    signal.pause()


def here(services, become):
    become()
    services.start()


def in_another_network(services, become):
    checked(LIBC.unshare(CLONE_NEWNET))
    become()
    services.start_in_another_network()
    # The other process serves requests.
    services.on_request = lambda: None


def mount(kind, source, target, options=""):
    os.makedirs(target, exist_ok=True)
    subprocess.run(["mount", "-t", kind, source, target] + (["-o", options] if options else []), check=True)


def overlay(lower, target, scratch):
    for name in ("upper", "work"):
        os.makedirs(f"{scratch}/{name}", exist_ok=True)
    mount("overlay", "overlay", target, f"lowerdir={lower},upperdir={scratch}/upper,workdir={scratch}/work")


def prepare(settings):
    base, uid = settings["dir"], settings["uid"]
    top = f"{base}/t"
    os.makedirs(top)
    mount("tmpfs", "tmpfs", f"{base}/scratch")
    if settings["fs"] == "tmpfs":
        mount("tmpfs", "tmpfs", top)
    elif settings["fs"] == "overlay":
        os.makedirs(f"{base}/scratch/lower")
        overlay(f"{base}/scratch/lower", top, f"{base}/scratch")
    mount("tmpfs", "tmpfs", "/run", "mode=0777")
    overlay("/var", "/var", f"{base}/scratch/var")
    if os.path.islink("/var/run"):
        os.unlink("/var/run")
        os.mkdir("/var/run")
    os.chmod("/var/run", 0o777)
    for name in ("tmp", "home", "unlisted"):
        os.mkdir(f"{top}/{name}")
    os.chmod(f"{top}/unlisted", 0o733)
    mount("tmpfs", "tmpfs", f"{top}/mounted")
    for name in ("to-outside", "to-inside"):
        os.mkfifo(f"{top}/{name}")
    for path in (top, f"{top}/mounted", f"{top}/tmp", f"{top}/home", f"{top}/to-outside", f"{top}/to-inside"):
        os.chown(path, uid, uid)
    return top


def bind_mounts(top, uid):
    open(f"{top}/docker.sock", "x").close()
    subprocess.run(["mount", "--bind", "/run/docker.sock", f"{top}/docker.sock"], check=True)
    os.mkdir(f"{top}/run")
    subprocess.run(["mount", "--bind", "/run", f"{top}/run"], check=True)
    # A user can enter it, but not list it.
    os.chmod("/run", 0o711)


def outside(settings):
    top, uid = prepare(settings), settings["uid"]
    reader, writer = os.pipe()
    children, places = [], {}
    for make in (here, in_another_network):
        child, found = fork_services(top, uid, writer, settings["fs"] == "tmpfs", make)
        children.append(child)
        places.update(found)
    bind_mounts(top, uid)
    passed, kept = socket.socketpair()
    threading.Thread(target=lambda: kept.recv(10) and os.write(writer, b"a descriptor that was passed\n"), daemon=True).start()
    to_inside = {"top": top, "places": places, "pid": os.getpid(), "services": children[0], "passed": passed.fileno()}
    environment = dict(os.environ, HOME=f"{top}/home", TMPDIR=f"{top}/tmp", SOME_BUS=f"unix:path={top}/variable/bus,guid=1")
    command = settings["command"] + ["/usr/bin/python3", os.path.abspath(__file__), "inside", json.dumps(to_inside)]
    ended = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, pass_fds=[passed.fileno()], cwd=settings["cwd"])
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    os.close(writer)
    os.set_blocking(reader, False)
    try:
        reached = os.read(reader, 1 << 16).decode().splitlines()
    except BlockingIOError:
        reached = []
    for line in ended.stdout.decode().splitlines():
        name, result = json.loads(line)
        print(json.dumps([name, result, name in reached]), flush=True)
    for name in (f"/tmp/wayleave-test-{children[0]}.sock", f"/dev/shm/wayleave-test-{children[0]}.sock"):
        os.unlink(name)
    sys.exit(ended.returncode)


# Inside.

def unix(kind, place):
    with socket.socket(socket.AF_UNIX, KINDS[kind]) as client:
        client.settimeout(LIMIT)
        if len(os.fsencode(place)) > 100:
            os.chdir(os.path.dirname(place))
            place = os.path.basename(place)
        client.connect(place)
        client.send(b"out")
        return "connected"


def unconnected(call, kind, place):
    with socket.socket(socket.AF_UNIX, KINDS[kind]) as client:
        client.sendto(b"out", place) if call == "sendto" else client.sendmsg([b"out"], [], 0, place)
        return "sent"


def inside_places(told):
    for name, (kind, place) in told["places"].items():
        ATTEMPTS.append((name, unix, (kind, place)))
        if name == "datagram: bound by its path":
            for call in ("sendto", "sendmsg"):
                ATTEMPTS.append((f"{name}, with {call}", unconnected, (call, kind, place)))
        if name == "stream: bound by its path":
            through = f"/proc/self/root{place}"
            ATTEMPTS.append((f"{name}, through /proc", unix, (kind, through)))
            ATTEMPTS.append((f"{name}, after removing what is over it", uncovered, (kind, place)))


def uncovered(kind, place):
    os.unlink(place)
    return unix(kind, place)


@attempt("a socket of the command's own")
def own():
    path = f"{TOLD['top']}/tmp/own"
    service = socket.socket(socket.AF_UNIX)
    service.bind(path)
    service.listen()
    return unix("stream", path)


@attempt("a socket that another process left behind, made anew")
def left_behind():
    path = f"{TOLD['top']}/tmp/left"
    os.unlink(path)
    socket.socket(socket.AF_UNIX).bind(path)
    return "bound"


@attempt("a fifo")
def fifo():
    with open(f"{TOLD['top']}/to-outside", "w") as requests:
        requests.write("bind")
    with open(f"{TOLD['top']}/to-inside") as answers:
        return answers.read()


@attempt("bound later outside of /run")
def late():
    return unix("stream", f"{TOLD['top']}/late/socket")


@attempt("a descriptor that was passed")
def passed():
    with socket.socket(fileno=os.dup(TOLD["passed"])) as given:
        given.send(b"out")
        return "sent"


FAMILIES = {
    "ax25": 3, "ipx": 4, "appletalk": 5, "x25": 9, "key": 15, "packet": 17, "rds": 21, "pppox": 24, "llc": 26, "infiniband": 27,
    "can": 29, "tipc": 30, "bluetooth": 31, "rxrpc": 33, "phonet": 35, "ieee802154": 36, "caif": 37, "alg": 38, "nfc": 39, "vsock": 40,
    "kcm": 41, "qipcrtr": 42, "smc": 43, "xdp": 44, "mctp": 45,
}


def family(number):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        try:
            socket.socket(number, kind, 0).close()
            return "opened"
        except OSError as error:
            last = error
    raise last


for family_name, family_number in FAMILIES.items():
    ATTEMPTS.append((f"a socket of the family {family_name}", family, (family_number,)))


@attempt("a pair of sockets of the family packet", 17)
def pair(number):
    checked(LIBC.socketpair(number, socket.SOCK_RAW, 0, (ctypes.c_int * 2)()))
    return "opened"


@attempt("links by netlink")
def netlink():
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as client:
        client.send(struct.pack("=LHHLLB15x", 32, 18, 0x301, 1, 0, 0))
        return "lo" if client.recv(1 << 16).count(b"link/") == 0 and len(socket.if_nameindex()) == 1 else "others"


@attempt("events of devices by netlink")
def uevents():
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 15) as client:
        client.bind((0, 1))
        client.settimeout(0)
        return f"received {client.recv(100)!r}"


def open_device(path):
    os.close(os.open(path, os.O_RDWR))
    return "opened"


for device in ("net/tun", "vhost-vsock", "vhost-net", "vsock", "kmem"):
    ATTEMPTS.append((f"the device {device}", open_device, (f"/dev/{device}",)))


@attempt("the root of a process outside", "root")
@attempt("the working directory of a process outside", "cwd")
@attempt("the descriptors of a process outside", "fd")
@attempt("the memory of a process outside", "mem")
@attempt("the network of a process outside", "ns/net")
@attempt("the sockets of a process outside", "net/unix")
def process_file(name):
    return str(os.stat(f"/proc/{TOLD['services']}/{name}"))


@attempt("a process outside by its number")
def pidfd():
    os.pidfd_open(TOLD["services"])
    return "opened"


@attempt("ptrace of a process outside")
def ptrace():
    checked(LIBC.ptrace(16, TOLD["services"], None, None))
    return "attached"


@attempt("a descriptor of process 1, opened")
def descriptor_of_init():
    os.open("/proc/1/fd/0", os.O_RDONLY)
    return "opened"


@attempt("a descriptor of process 1, duplicated")
def pidfd_getfd():
    init = os.pidfd_open(1)
    return f"{[checked(LIBC.syscall(438, init, number, 0)) for number in range(3, 20)]}"


@attempt("the memory of process 1")
def process_vm_readv():
    buffer = ctypes.create_string_buffer(8)
    vector = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
    return f"read {checked(LIBC.process_vm_readv(1, vector, 1, vector, 1, 0))}"


@attempt("the network of process 1, entered")
def setns():
    checked(LIBC.setns(os.open("/proc/1/ns/net", os.O_RDONLY), 0))
    return "entered"


@attempt("an io_uring")
def io_uring():
    checked(LIBC.syscall(425, 1, (ctypes.c_char * 120)()))
    return "opened"


@attempt("a bpf program", 321)
@attempt("a file by its handle", 304)
@attempt("a performance counter of the machine", 298)
def refused_call(number):
    number = number if os.uname().machine == "x86_64" else {321: 280, 304: 265, 298: 241}[number]
    attributes = (ctypes.c_char * 128)()
    if number in (298, 241):
        struct.pack_into("=LL", attributes, 0, 1, 112)
        checked(LIBC.syscall(number, attributes, -1, 0, -1, 0))
    elif number in (304, 265):
        struct.pack_into("=Ll", attributes, 0, 8, 1)
        checked(LIBC.syscall(number, os.open("/", os.O_RDONLY), attributes, 0))
    else:
        checked(LIBC.syscall(number, 5, attributes, 128))
    return "done"


@attempt("a socket by the x32 interface")
def x32():
    checked(LIBC.syscall(ctypes.c_long(0x40000000 + 41), 40, 1, 0))
    return "opened"


@attempt("a network namespace of its own")
def unshare():
    checked(LIBC.unshare(CLONE_NEWNET))
    return "made"


@attempt("typing into the terminal", 0x5412)
@attempt("typing into the terminal, with bits that the kernel ignores", (1 << 32) | 0x5412)
@attempt("pasting into the console", 0x541C)
def typing(request):
    os.setsid()
    _, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    checked(LIBC.ioctl(terminal, ctypes.c_ulong(request), b"x"))
    return "typed"


if sys.argv[1] == "outside":
    outside(json.loads(sys.argv[2]))
else:
    TOLD = json.loads(sys.argv[2])
    inside_places(TOLD)
    run_all()
