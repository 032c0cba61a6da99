"""The origin: nginx with HTTP and HTTPS for every name, and the certificates of all parts.

It listens on a port for each kind of origin, as answers that look alike cost proxies differently:

- `whole` sends the head of a response and its body in one segment (`tcp_nopush on`);
- `split` sends the head first and the body behind it, as nginx does unless told otherwise;
- `h1` and `h2` are HTTPS without and with HTTP/2.
"""

import os
import subprocess
from pathlib import Path

KINDS = ("whole", "split", "h1", "h2")

# Names below this one, and localhost, mean this machine to every proxy of the bench.
DOMAIN = "bench.test"

ROBOTS_TXT = """\
# Like that of a medium-sized shop.
User-agent: *
Disallow: /private/
Disallow: /cart
Disallow: /checkout/
Disallow: /account/
Disallow: /search
Disallow: /*?sort=
Disallow: /*&sort=
Disallow: /*/print$
Allow: /search/help
Allow: /account/help

User-agent: BadBot
Disallow: /

Sitemap: https://www.bench.test/sitemap.xml
"""

NGINX = """\
daemon off;
worker_processes 1;
worker_shutdown_timeout 2s;
pid {dir}/nginx.pid;
error_log {dir}/nginx.log error;
events {{ worker_connections 20000; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    keepalive_timeout 600s;
    sendfile on;
    tcp_nodelay on;
    open_file_cache max=100;
    client_body_temp_path {dir}/body;
    proxy_temp_path {dir}/proxy;
    fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi;
    scgi_temp_path {dir}/scgi;
    default_type text/html;
    root {dir}/www;
    ssl_certificate {dir}/origin.crt;
    ssl_certificate_key {dir}/origin.key;
    ssl_session_cache shared:tls:50m;
    server {{
        listen 127.0.0.1:{whole} backlog=4096;
        listen [::1]:{whole} backlog=4096;
        tcp_nopush on;
    }}
    server {{
        listen 127.0.0.1:{split} backlog=4096;
        listen [::1]:{split} backlog=4096;
        tcp_nopush off;
    }}
    server {{
        listen 127.0.0.1:{h1} ssl backlog=4096;
        listen [::1]:{h1} ssl backlog=4096;
    }}
    server {{
        listen 127.0.0.1:{h2} ssl http2 backlog=4096;
        listen [::1]:{h2} ssl http2 backlog=4096;
    }}
}}
"""


def prepare(directory, ports):
    """Writes all files that do not change while the bench runs; `ports` has one for each of KINDS."""
    www = Path(directory, "www")
    www.mkdir(parents=True, exist_ok=True)
    Path(www, "1k").write_bytes(b"x" * 1024)
    Path(www, "64k").write_bytes(b"x" * 65536)
    Path(www, "page.html").write_text(html(65536))
    Path(www, "robots.txt").write_text(ROBOTS_TXT)
    Path(directory, "nginx.conf").write_text(NGINX.format(dir=directory, **ports))
    make_ca(directory, "roots", "Bench origin roots")
    make_ca(directory, "proxy-ca", "Bench proxy CA")
    make_leaf(directory)
    # rcgen reads PKCS #8 only.
    openssl(directory, "pkcs8", "-topk8", "-nocrypt", "-in", "proxy-ca.key", "-out", "proxy-ca.pkcs8.key")


def html(size):
    """A page like a shop's, without statements about use."""
    head = '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A shop</title><meta name="viewport" content="width=device-width">'
    item = '<li class="item"><a href="/item/{0}"><img src="/img/{0}.jpg" alt="Item {0}"></a><p>Some words &amp; a price: <b>{0}</b></p></li>\n'
    text = head + "</head><body><ul>\n"
    number = 0
    while len(text) < size:
        text += item.format(number)
        number += 1
    return text[:size]


def start(directory):
    """Starts nginx."""
    command = ["nginx", "-p", str(directory), "-c", f"{directory}/nginx.conf"]
    # As root, nginx would run its worker as another user, who cannot read the directory.
    return subprocess.Popen([*command, "-g", "user root;"] if os.geteuid() == 0 else command)


def make_ca(directory, name, subject):
    """A CA: NAME.crt and NAME.key."""
    openssl(
        directory, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
        "-nodes", "-days", "30", "-subj", f"/CN={subject}", "-keyout", f"{name}.key",
        "-out", f"{name}.crt", "-addext", "basicConstraints=critical,CA:TRUE",
        "-addext", "keyUsage=critical,keyCertSign,cRLSign,digitalSignature",
    )


def make_leaf(directory):
    """The origin's certificate, for every name that the bench uses."""
    openssl(
        directory, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
        "-subj", "/CN=origin", "-keyout", "origin.key", "-out", "origin.csr",
    )
    names = f"subjectAltName=DNS:localhost,DNS:*.{DOMAIN},IP:127.0.0.1\n"
    Path(directory, "origin.ext").write_text(names + "extendedKeyUsage=serverAuth\n")
    openssl(
        directory, "x509", "-req", "-in", "origin.csr", "-CA", "roots.crt", "-CAkey", "roots.key",
        "-CAcreateserial", "-days", "30", "-extfile", "origin.ext", "-out", "origin.crt",
    )


def openssl(directory, *arguments):
    subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)

