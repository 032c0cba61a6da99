"""Verifies the Web Bot Auth signatures of a request with a library that is not ours.

Reads {"method", "url", "headers": [[name, value], ...], "keys": JWKS} on standard input; prints each verified label with what it
covers, a line each, or why there is none.
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

ask = json.load(sys.stdin)


class Directory(HTTPSignatureKeyResolver):
    def resolve_public_key(self, key_id):
        key = next(key for key in ask["keys"]["keys"] if key["kid"] == key_id)
        assert (key["kty"], key["crv"]) == ("OKP", "Ed25519"), key
        return Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(key["x"] + "="))


headers = {}
for name, value in ask["headers"]:
    name = name.lower()
    headers[name] = f"{headers[name]}, {value}" if name in headers else value
request = SimpleNamespace(method=ask["method"], url=ask["url"], headers=headers)
if "status" in ask:
    message = SimpleNamespace(status_code=ask["status"], headers=headers)
    message.request = SimpleNamespace(method=ask["method"], url=ask["url"], headers={})
else:
    message = request
verifier = HTTPMessageVerifier(signature_algorithm=algorithms.ED25519, key_resolver=Directory())
try:
    for result in verifier.verify(message, expect_tag=ask["tag"]):
        print(result.label, *result.covered_components)
except InvalidSignature as error:
    print("invalid:", error)
