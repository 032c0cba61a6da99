"""Fetches URLs through a SOCKS5 proxy by the standard library alone, and prints each status.

Arguments: the proxy's port, a file of roots, "name" or "address" (what is dialled), "user:password" or an empty word, URLs.
"""

import http.client
import socket
import ssl
import struct
import sys
from urllib.parse import urlsplit

port, roots, dialled, credentials, *urls = sys.argv[1:]


def receive(stream, count):
    received = b""
    while len(received) < count:
        piece = stream.recv(count - len(received))
        if not piece:
            raise EOFError("the proxy closed the connection")
        received += piece
    return received


def open_connection(host, target_port):
    stream = socket.create_connection(("127.0.0.1", int(port)), timeout=60)
    method = 2 if credentials else 0
    stream.sendall(bytes([5, 1, method]))
    assert receive(stream, 2) == bytes([5, method])
    if credentials:
        user, password = (word.encode() for word in credentials.split(":"))
        stream.sendall(bytes([1, len(user)]) + user + bytes([len(password)]) + password)
        if receive(stream, 2) != b"\x01\x00":
            return None
    if dialled == "name":
        address = bytes([3, len(host)]) + host.encode()
    else:
        address = b"\x01" + socket.inet_aton("127.0.0.1")
    stream.sendall(b"\x05\x01\x00" + address + struct.pack("!H", target_port))
    assert receive(stream, 10)[1] == 0
    return stream


context = ssl.create_default_context(cafile=roots)
for url in urls:
    parts = urlsplit(url)
    stream = open_connection(parts.hostname, 443 if parts.scheme == "https" else 80)
    if stream is None:
        print("denied")
        continue
    connection = http.client.HTTPConnection(parts.hostname)
    connection.sock = stream
    if parts.scheme == "https":
        connection.sock = context.wrap_socket(stream, server_hostname=parts.hostname)
    connection.request("GET", parts.path)
    print(connection.getresponse().status)
