"""Verifies the Web Bot Auth signatures of a request with an independent library.

Reads {"method", "url", "headers": [[name, value], ...], "keys": JWKS} on standard input; prints each verified label and
the components it covers, a line each, or why there is none.
"""

import base64
import json
import sys
from types import SimpleNamespace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from http_message_signatures import (
    HTTPMessageVerifier,
    HTTPSignatureKeyResolver,
    InvalidSignature,
    algorithms,
)

question = json.load(sys.stdin)


class Directory(HTTPSignatureKeyResolver):
    def resolve_public_key(self, key_id):
        key = next(key for key in question["keys"]["keys"] if key["kid"] == key_id)
        assert (key["kty"], key["crv"]) == ("OKP", "Ed25519"), key
        return Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(key["x"] + "="))


headers = {}
for name, value in question["headers"]:
    name = name.lower()
    headers[name] = f"{headers[name]}, {value}" if name in headers else value
request = SimpleNamespace(method=question["method"], url=question["url"], headers=headers)
if "status" in question:
    message = SimpleNamespace(status_code=question["status"], headers=headers)
    message.request = SimpleNamespace(method=question["method"], url=question["url"], headers={})
else:
    message = request
verifier = HTTPMessageVerifier(signature_algorithm=algorithms.ED25519, key_resolver=Directory())
try:
    for result in verifier.verify(message, expect_tag=question["tag"]):
        print(result.label, *result.covered_components)
except InvalidSignature as error:
    print("invalid:", error)
