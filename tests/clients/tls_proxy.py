"""Fetches URLs through a proxy that speaks TLS, and prints each status.

Arguments: the proxy's URL, a file of roots, a certificate and its key (or two empty words), URLs.
"""

import ssl
import sys

import httpx

proxy, roots, certificate, key, *urls = sys.argv[1:]
context = ssl.create_default_context(cafile=roots)
if certificate:
    context.load_cert_chain(certificate, key)
trusting = ssl.create_default_context(cafile=roots)
with httpx.Client(proxy=httpx.Proxy(proxy, ssl_context=context), verify=trusting) as client:
    for url in urls:
        print(client.get(url).status_code)
