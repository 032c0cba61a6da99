"""Fetches URLs by libcurl through a proxy that speaks HTTP/2 inside TLS.

Arguments: the proxy's URL, a file of roots for the proxy, one for origins, "user:password" or an empty word, URLs.
Prints for each the version that the proxy chose, the status and the reason of a refusal, or the length; or the status of CONNECT.
"""

import io
import json
import re
import sys

import pycurl

HTTPS2 = 3  # CURLPROXY_HTTPS2, which pycurl has no name for.

proxy, proxy_roots, roots, credentials, *urls = sys.argv[1:]
messages = []
curl = pycurl.Curl()
curl.setopt(curl.PROXY, proxy)
curl.setopt(curl.PROXYTYPE, HTTPS2)
curl.setopt(curl.HTTPPROXYTUNNEL, 1)
curl.setopt(curl.PROXY_CAINFO, proxy_roots)
curl.setopt(curl.CAINFO, roots)
curl.setopt(curl.VERBOSE, 1)
curl.setopt(curl.DEBUGFUNCTION, lambda kind, text: messages.append(text) if kind == pycurl.INFOTYPE_TEXT else None)
if credentials:
    curl.setopt(curl.PROXYUSERPWD, credentials)
for url in urls:
    body = io.BytesIO()
    curl.setopt(curl.WRITEDATA, body)
    curl.setopt(curl.URL, url)
    try:
        curl.perform()
        is_through = True
    except pycurl.error:
        is_through = False
    text = b"\n".join(messages).decode()
    version = "h2" if "CONNECT: 'h2' negotiated" in text else "h1"
    if is_through:
        answer = body.getvalue()
        reason = json.loads(answer)["reason"] if answer.startswith(b"{") else len(answer)
        print(version, curl.getinfo(curl.RESPONSE_CODE), reason)
    else:
        refused = re.findall("CONNECT Response Status ([0-9]+)", text)
        print(version, "refused", *(refused or [text]))
