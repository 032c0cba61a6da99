"""Asks a server of Envoy's ext_authz about requests, with Envoy's own protocol files.

    envoy_check.py ADDRESS < QUESTIONS

Each line of QUESTIONS is JSON: method, scheme, host, path, fields (pairs), client, token, raw (whether fields are sent as they were
received). Each line that is printed is JSON: status, fields and body of the verdict, or the code of gRPC.
"""

import json
import sys

import grpc
from envoy_data_plane.envoy.config.core.v3 import Address, HeaderMap, HeaderValue, SocketAddress
from envoy_data_plane.envoy.service.auth.v3 import (
    AttributeContext,
    AttributeContextHttpRequest,
    AttributeContextPeer,
    AttributeContextRequest,
    CheckRequest,
    CheckResponse,
)

METHOD = "/envoy.service.auth.v3.Authorization/Check"


def question(asked):
    fields = asked.get("fields", [])
    client = Address(socket_address=SocketAddress(address=asked.get("client", "127.0.0.1"), port_value=40000))
    http = AttributeContextHttpRequest(
        method=asked["method"], scheme=asked["scheme"], host=asked["host"], path=asked["path"], protocol="HTTP/1.1"
    )
    if asked.get("raw"):
        http.header_map = HeaderMap(headers=[HeaderValue(key=name, raw_value=value.encode("latin-1")) for name, value in fields])
    else:
        # As Envoy has them: in lower case, with those of HTTP/2 that stand for the first line.
        http.headers = {":path": asked["path"], ":authority": asked["host"], "x-forwarded-proto": asked["scheme"]}
        http.headers |= {name.lower(): value for name, value in fields}
    attributes = AttributeContext(source=AttributeContextPeer(address=client), request=AttributeContextRequest(http=http))
    return CheckRequest(attributes=attributes)


def verdict(answer):
    if answer.status.code == 0:
        fields = answer.ok_response.response_headers_to_add
        return {"status": 200, "fields": [[it.header.key, it.header.value] for it in fields], "body": ""}
    denied = answer.denied_response
    return {
        "status": int(denied.status.code),
        "fields": [[it.header.key, it.header.value] for it in denied.headers],
        "body": denied.body,
    }


with grpc.insecure_channel(sys.argv[1]) as channel:
    for line in sys.stdin:
        asked = json.loads(line)
        call = channel.unary_unary(asked.get("call", METHOD), bytes, CheckResponse.parse)
        token = asked.get("token")
        metadata = [("authorization", f"Bearer {token}")] if token else []
        try:
            answer = verdict(call(question(asked), metadata=metadata, timeout=60))
        except grpc.RpcError as error:
            answer = {"code": error.code().name, "detail": error.details()}
        print(json.dumps(answer), flush=True)
