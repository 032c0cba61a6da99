"""An add-on for mitmproxy: it asks wayleave about each request, and sends only what is allowed.

    WAYLEAVE_GATE=http://127.0.0.1:3141 mitmdump -s wayleave_gate.py
"""

import asyncio
import http.client
import json
import os
import urllib.parse

from mitmproxy import http as messages

GATE = urllib.parse.urlsplit(os.environ.get("WAYLEAVE_GATE", "http://127.0.0.1:3141"))
# Longer than politeness.max_wait: the answer comes when the request may be sent.
PATIENCE = float(os.environ.get("WAYLEAVE_PATIENCE", "60"))
# About the connection, or stated otherwise.
LEFT_OUT = {b"host", b"connection", b"proxy-connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding",
            b"content-length", b"expect", b"upgrade", b"authorization", b"x-forwarded-for"}
ABOUT_PACE = ("ratelimit", "ratelimit-policy", "x-ratelimit-remaining", "x-ratelimit-reset")


def quote(part):
    return urllib.parse.quote(part, safe="")


def exchange(method, target, fields, body=b""):
    """Sends a request to wayleave, and returns the status, the fields and the content of its answer."""
    connection = http.client.HTTPConnection(GATE.hostname, GATE.port, timeout=PATIENCE)
    try:
        connection.putrequest(method, target, skip_accept_encoding=True)
        for name, value in fields:
            connection.putheader(name, value)
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, answer.getheaders(), answer.read()
    finally:
        connection.close()


class Gate:
    async def request(self, flow):
        request = flow.request
        host = f"[{request.host}]" if ":" in request.host else request.host
        authority = f"{host}:{request.port}"
        # Byte for byte as it will be sent. An origin gets the Host that was asked about.
        url = f"{request.scheme}://{authority}".encode() + request.data.path
        named = urllib.parse.urlsplit(f"//{request.headers.get('Host', authority)}")
        is_other = (named.hostname or "") != request.host.lower().strip("[]") or named.port not in (None, request.port)
        if is_other:
            flow.response = messages.Response.make(400, "Host names another origin than the target\n")
            return
        fields = [pair for pair in request.headers.fields if pair[0].lower() not in LEFT_OUT]
        fields.append((b"X-Forwarded-For", flow.client_conn.peername[0].encode()))
        target = f"/check?method={quote(request.data.method)}&url={quote(url)}"
        try:
            status, answered, content = await asyncio.to_thread(exchange, "GET", target, fields)
        except OSError as error:
            # Nothing leaves that was not allowed.
            flow.response = messages.Response.make(503, f"wayleave cannot be asked: {error}\n")
            return
        except http.client.HTTPException as error:
            flow.response = messages.Response.make(503, f"wayleave's answer is none: {error!r}\n")
            return
        if status == 200:
            flow.metadata["wayleave"] = dict((name.lower(), value) for name, value in answered).get("wayleave-decision")
        else:
            answered = [(name.encode(), value.encode("latin-1")) for name, value in answered]
            flow.response = messages.Response.make(status, content, answered)

    async def response(self, flow):
        """Tells wayleave of the answer, so that it paces the next requests by it."""
        decision = flow.metadata.get("wayleave")
        if decision is None:
            return
        headers = flow.response.headers
        notice = {"id": decision, "status": flow.response.status_code,
                  "fields": {name: headers[name] for name in (*ABOUT_PACE, "retry-after") if name in headers}}
        try:
            await asyncio.to_thread(exchange, "POST", "/answered", [], json.dumps(notice).encode())
        except (OSError, http.client.HTTPException):
            # The next question will say so.
            pass


addons = [Gate()]
