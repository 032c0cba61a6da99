"""What the chart's redirect.nft does to a pod's traffic: unshare --net python test_redirect.py RULES, as root.

The pod is this network namespace, with a device that leads nowhere and a capture of what is sent there."""

import contextlib
import os
import socket
import struct
import subprocess
import sys
import threading

CRAWLER, PROXY = 10001, 65532
ORIGIN, NAMESERVER, OTHER = "198.51.100.7", "10.96.0.10", "10.96.0.11"
ORIGIN6 = "2001:db8:1::7"
SO_ORIGINAL_DST = 80
ETH_P_ALL = 3


def configure():
    for line in [
        "link set lo up",
        "link add out arp off type veth peer name far",
        "address add 192.0.2.1/24 dev out",
        "address add 2001:db8::1/64 dev out nodad",
        "link set far up",
        "link set out up",
        "route add default dev out",
        "-6 route add default dev out",
    ]:
        subprocess.run(["ip", *line.split()], check=True)


class Wire:
    """The packets that left the pod for one of the addresses above."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.socket.bind(("out", 0))
        self.socket.setblocking(False)

    def sent(self):
        found = []
        with contextlib.suppress(BlockingIOError):
            while True:
                frame = self.socket.recv(2048)
                family, at = (socket.AF_INET, 30) if frame[12:14] == b"\x08\x00" else (socket.AF_INET6, 38)
                size = 4 if family == socket.AF_INET else 16
                address = socket.inet_ntop(family, frame[at : at + size])
                if address in (ORIGIN, NAMESERVER, OTHER, ORIGIN6):
                    found.append(address)
        return found


def as_user(user, attempt):
    """What `attempt` returns when that user runs it."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
        try:
            answer = attempt()
        except OSError as error:
            answer = type(error).__name__
        os.write(write, str(answer).encode())
        os._exit(0)
    os.close(write)
    with open(read, encoding="ascii") as answer:
        text = answer.read()
    os.wait()
    return text


def family_of(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def dial(address, port):
    with socket.socket(family_of(address)) as connection:
        connection.settimeout(10)
        connection.connect((address, port))
        return connection.recv(100).decode()


def begin(address, port):
    """Sends a SYN and does not wait for an answer."""
    with socket.socket() as connection:
        connection.setblocking(False)
        return connection.connect_ex((address, port)) and "sent"


def datagram(address, port):
    with socket.socket(family_of(address), socket.SOCK_DGRAM) as sender:
        sender.connect((address, port))
        sender.send(b"hello")
        return "sent"


def listen():
    """A proxy that tells each client which address it had dialled."""
    listener = socket.create_server(("127.0.0.1", 3131))

    def serve():
        while True:
            connection, _ = listener.accept()
            with connection:
                raw = connection.getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, 16)
                port, address = struct.unpack_from("!2xH4s", raw)
                connection.sendall(f"{socket.inet_ntoa(address)}:{port}".encode())

    threading.Thread(target=serve, daemon=True).start()


def main(rules):
    configure()
    wire = Wire()
    assert as_user(CRAWLER, lambda: begin(ORIGIN, 443)) == "sent"
    assert wire.sent() == [ORIGIN], "without the rules, the crawler reaches origins itself"

    for _ in range(2):
        subprocess.run(["nft", "--file", rules], check=True)
    listed = subprocess.run(["nft", "list", "ruleset"], check=True, capture_output=True, text=True).stdout
    assert listed.count("redirect to :3131") == 1, "loaded again, the table replaces itself"
    listen()
    for port in (80, 443):
        answer = as_user(CRAWLER, lambda port=port: dial(ORIGIN, port))
        assert answer == f"{ORIGIN}:{port}", answer
    # Each ends at once: a timeout would be a TimeoutError.
    for attempt, refusal in [
        (lambda: dial(ORIGIN, 8080), "ConnectionRefusedError"),
        (lambda: dial(ORIGIN6, 443), "ConnectionRefusedError"),
        (lambda: dial(OTHER, 53), "ConnectionRefusedError"),
        (lambda: datagram(ORIGIN, 443), "PermissionError"),
        (lambda: datagram(ORIGIN6, 443), "PermissionError"),
        (lambda: datagram(OTHER, 53), "PermissionError"),
        (lambda: datagram(NAMESERVER, 443), "PermissionError"),
    ]:
        answer = as_user(CRAWLER, attempt)
        assert answer == refusal, answer
    assert wire.sent() == [], "nothing of the crawler left the pod"

    assert as_user(CRAWLER, lambda: datagram(NAMESERVER, 53)) == "sent"
    assert as_user(PROXY, lambda: begin(ORIGIN, 443)) == "sent"
    assert wire.sent() == [NAMESERVER, ORIGIN]
    print("redirect.nft: two ports captured, seven ways out closed")


if __name__ == "__main__":
    main(*sys.argv[1:])
