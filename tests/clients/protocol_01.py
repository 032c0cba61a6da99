"""A verifier of draft-ietf-webbotauth-httpsig-protocol-01, written from its text, and forgeries for it.

`verify` reads {"requests": [...], "sets", "tls_only": bool} and prints a line for each request: `verified URL KEYID`, or `refused: ` and why.
`forge` reads {"request", "sets", "keys": {URL: PEM}} with a right request, and prints wrong ones as {"name", "request", "profile_only"}:
the last says that only the profile forbids it, so that a library for RFC 9421 alone takes it.

A request is {"method", "url", "headers": [[name, value], ...], "sets": {URL: {"status", "location", "body"}}}: the last, its own or else
those of all, are the answers to fetches of JWK Sets.
"""

import base64
import copy
import hashlib
import json
import sys
import time
from urllib.parse import urlsplit, urlunsplit

import http_sf
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from http_message_signatures import HTTPMessageVerifier, HTTPSignatureKeyResolver, algorithms
from http_message_signatures import HTTPMessageSignaturesException

TAG = "web-bot-auth"
SKEW = 5
DAY = 86_400


class Refused(Exception):
    pass


def field(request, name):
    values = [value.strip() for known, value in request["headers"] if known.lower() == name]
    return ", ".join(values) if values else None


def dictionary(request, name):
    text = field(request, name)
    if text is None:
        raise Refused(f"no {name}")
    try:
        return http_sf.parse(text.encode(), tltype="dictionary")
    except Exception as error:
        raise Refused(f"{name} is malformed: {error}") from error


def authority(url):
    """RFC 9421 section 2.2.3: in lower case, without the scheme's default port."""
    parts = urlsplit(url)
    default = {"http": 80, "https": 443}[parts.scheme]
    return parts.hostname if parts.port in (None, default) else f"{parts.hostname}:{parts.port}"


def component(request, name, parameters):
    parts = urlsplit(request["url"])
    if parameters:
        if list(parameters) != ["key"]:
            raise Refused(f"{name} has unknown parameters")
        members = dictionary(request, name)
        if parameters["key"] not in members:
            raise Refused(f"{name} has no member {parameters['key']}")
        return serialized(members[parameters["key"]])
    derived = {
        "@method": request["method"],
        "@authority": authority(request["url"]),
        "@scheme": parts.scheme,
        "@path": parts.path or "/",
        "@query": f"?{parts.query}",
        "@target-uri": request["url"],
    }
    value = derived.get(name) if name.startswith("@") else field(request, name)
    if value is None:
        raise Refused(f"{name} is not in the request")
    return value


def serialized(member):
    value, parameters = member
    if isinstance(value, list):
        return http_sf.ser([member])
    return http_sf.ser((value, parameters))


def identifiers(listed):
    return [http_sf.ser((name, parameters)) for name, parameters in listed]


def base(request, listed, parameters):
    lines = [
        f"{identifier}: {component(request, name, options)}"
        for identifier, (name, options) in zip(identifiers(listed), listed)
    ]
    lines.append(f'"@signature-params": {http_sf.ser([(listed, parameters)])}')
    return "\n".join(lines).encode()


def thumbprint(x):
    text = json.dumps({"crv": "Ed25519", "kty": "OKP", "x": x}, separators=(",", ":"))
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def fetched_keys(sets, url):
    """Section 5.1.4: the URL as it is, 200 only, no redirects."""
    answer = sets.get(url)
    if answer is None or answer["status"] != 200:
        raise Refused("discovery failed")
    try:
        keys = json.loads(answer["body"])["keys"]
        return {thumbprint(key["x"]): key for key in keys if (key["kty"], key["crv"]) == ("OKP", "Ed25519")}
    except (ValueError, KeyError, TypeError) as error:
        raise Refused("the answer is not a JWK Set") from error


def identity(url):
    """Sections 5.1.1 and 5.1.4: an absolute https URI; the query is no part of the name."""
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname:
        raise Refused("Signature-Agent is not an https URI")
    return urlunsplit((parts.scheme, authority(url), parts.path or "/", "", ""))


def verify(request, tls_only=False):
    """Returns the name and the key that the only signature of the profile proves."""
    if tls_only and urlsplit(request["url"]).scheme != "https":
        raise Refused("not over TLS")
    inputs, signatures = dictionary(request, "signature-input"), dictionary(request, "signature")
    labels = [label for label, (_, parameters) in inputs.items() if parameters.get("tag") == TAG]
    if not labels:
        raise Refused("no signature of this profile")
    [label] = labels
    listed, parameters = inputs[label]
    if not isinstance(listed, list):
        raise Refused("no list of components")
    for name in ["created", "expires", "keyid"]:
        if name not in parameters:
            raise Refused(f"no {name}")
    now = time.time()
    if parameters["created"] > now + SKEW or parameters["expires"] < now - SKEW:
        raise Refused("outside its time")
    if not 0 < parameters["expires"] - parameters["created"] <= DAY:
        raise Refused("too long a time")
    if parameters.get("alg", "ed25519") != "ed25519":
        raise Refused("another algorithm")
    covered = identifiers(listed)
    if len(set(covered)) != len(covered):
        raise Refused("a component twice")
    if not {'"@authority"', '"@target-uri"'} & set(covered):
        raise Refused("neither authority nor URI is covered")
    if f'"signature-agent";key="{label}"' not in covered:
        raise Refused("the own member is not covered")
    agent, options = dictionary(request, "signature-agent").get(label, (None, None))
    if not isinstance(agent, str):
        raise Refused("no member of this label")
    if options:
        raise Refused("a member with parameters")
    name = identity(agent)
    key = fetched_keys(request["sets"], agent).get(parameters["keyid"])
    if key is None:
        raise Refused("the URL does not have this key")
    if label not in signatures or not isinstance(signatures[label][0], bytes):
        raise Refused("no bytes of a signature")
    public = Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(key["x"] + "="))
    try:
        public.verify(signatures[label][0], base(request, listed, parameters))
    except InvalidSignature as error:
        raise Refused("the signature does not match") from error
    return name, parameters["keyid"]


class FromSets(HTTPSignatureKeyResolver):
    """The keys that the URL in Signature-Agent has."""

    def __init__(self, request):
        self.request = request

    def resolve_public_key(self, key_id):
        [(agent, _)] = dictionary(self.request, "signature-agent").values()
        key = fetched_keys(self.request["sets"], agent)[key_id]
        return Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(key["x"] + "="))


def verify_with_library(request):
    class Message:
        method, url = request["method"], request["url"]
        headers = {name.lower(): field(request, name.lower()) for name, _ in request["headers"]}

    try:
        verifier = HTTPMessageVerifier(signature_algorithm=algorithms.ED25519, key_resolver=FromSets(request))
        verifier.verify(Message, expect_tag=TAG)
        return "verified"
    except (HTTPMessageSignaturesException, Refused):
        return "refused"


def with_fields(request, **fields):
    changed = copy.deepcopy(request)
    names = {name.replace("_", "-"): value for name, value in fields.items()}
    changed["headers"] = [pair for pair in changed["headers"] if pair[0].lower() not in names]
    changed["headers"] += [[name, value] for name, value in names.items() if value is not None]
    return changed


def signed(request, pem, *, agent, label="sig1", member=None, covered=None, **changed):
    """Signs a request for `agent` with a key of one's choice and any parameters; None leaves one out."""
    key = load_pem_private_key(pem.encode(), None)
    x = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    x = base64.urlsafe_b64encode(x).rstrip(b"=").decode()
    now = int(time.time())
    parameters = {"created": now, "keyid": thumbprint(x), "alg": "ed25519", "expires": now + 60, "tag": TAG} | changed
    parameters = {name: value for name, value in parameters.items() if value is not None}
    own = ("signature-agent", {"key": label})
    listed = [("@method", {}), ("@authority", {}), ("@path", {}), own] if covered is None else covered
    request = with_fields(request, signature_agent=member or f'{label}="{agent}"')
    signature = base64.b64encode(key.sign(base(request, listed, parameters))).decode()
    return with_fields(
        request,
        signature_input=f"{label}={http_sf.ser([(listed, parameters)])}",
        signature=f"{label}=:{signature}:",
    )


def forge(question):
    right, keys = question["request"], question["keys"]
    [own] = [url for url in keys if f'"{url}"' in field(right, "signature-agent")]
    other, third = [url for url in keys if url != own]
    pem = keys[own]
    agent, input_, value = (field(right, name) for name in ["signature-agent", "signature-input", "signature"])
    parts = urlsplit(right["url"])
    now = int(time.time())

    def at(url):
        return right | {"url": url}

    def answered(url, **answer):
        changed = copy.deepcopy(right)
        changed["sets"][url] = changed["sets"].get(url, {}) | answer
        return changed

    def of_key(**parameters):
        return signed(right, pem, agent=own, **parameters)

    self_ = ("signature-agent", {"key": "sig1"})
    flipped = value[:7] + ("A" if value[7] != "A" else "B") + value[8:]
    other_keys = right["sets"][other]["body"]
    yield "the key of another agent", signed(right, keys[other], agent=own), False
    yield "the key of a third agent", signed(right, keys[third], agent=own), False
    yield "own key under another agent", signed(right, pem, agent=other), False
    yield "another agent's name instead", with_fields(right, signature_agent=agent.replace(own, other)), False
    yield "a URL that has no set", with_fields(right, signature_agent=agent.replace(own, own + "x")), False
    yield "the parent of the URL", with_fields(right, signature_agent=agent.replace(own, f"https://{authority(own)}")), False
    yield "another agent's set at the URL", answered(own, body=other_keys), False
    yield "an empty set at the URL", answered(own, body='{"keys":[]}'), False
    yield "no JSON at the URL", answered(own, body="<html>"), False
    yield "the set redirects", answered(own, status=302, location=own), False
    yield "the set redirects for good", answered(own, status=308, location=own), False
    yield "the set is not there", answered(own, status=404), False
    yield "the set has no content", answered(own, status=204), False
    yield "another authority", at(f"{parts.scheme}://other.test{parts.path}?{parts.query}"), False
    yield "a host below", at(f"{parts.scheme}://www.{parts.netloc}{parts.path}?{parts.query}"), False
    yield "another port", at(f"{parts.scheme}://{parts.hostname}:8443{parts.path}?{parts.query}"), False
    yield "another path", at(f"{parts.scheme}://{parts.netloc}/other?{parts.query}"), False
    yield "a longer path", at(f"{parts.scheme}://{parts.netloc}{parts.path}/?{parts.query}"), False
    yield "another method", right | {"method": "POST"}, False
    yield "expired", of_key(created=now - 120, expires=now - 60), False
    yield "expired long ago", of_key(created=now - 3 * DAY, expires=now - 2 * DAY), False
    yield "from the future", of_key(created=now + 3600, expires=now + 3660), False
    yield "valid for longer than a day", of_key(expires=now + 2 * DAY), True
    yield "expires before it was created", of_key(created=now, expires=now - 1), True
    yield "a later end written in", with_fields(right, signature_input=input_.replace("expires=", "expires=1")), False
    yield "no end", of_key(expires=None), True
    yield "no beginning", of_key(created=None), False
    yield "no key", of_key(keyid=None), False
    yield "another key's name", of_key(keyid=thumbprint("A" * 43)), False
    yield "no tag", of_key(tag=None), False
    yield "another tag", of_key(tag="http-message-signatures-directory"), False
    yield "another algorithm", of_key(alg="hmac-sha256"), False
    yield "a member with a type", of_key(member=f'sig1="{own}";type=jwks_uri'), True
    yield "a member with a parameter", of_key(member=f'sig1="{own}";a'), True
    yield "a parameter written in", with_fields(right, signature_agent=agent + ";type=jwks_uri"), False
    yield "a member that is a token", with_fields(right, signature_agent=f"sig1={authority(own)}"), False
    yield "plain http as agent", of_key(member=f'sig1="{own.replace("https", "http")}"'), False
    yield "a member under another label", with_fields(right, signature_agent=agent.replace("sig1", "sig2")), False
    yield "no agent", with_fields(right, signature_agent=None), False
    yield "one string", with_fields(right, signature_agent=f'"{own}"'), False
    yield "its member is not covered", of_key(covered=[("@method", {}), ("@authority", {}), ("@path", {})]), True
    yield "its authority is not covered", of_key(covered=[("@method", {}), ("@path", {}), self_]), True
    yield "a component twice", of_key(covered=[("@authority", {}), ("@authority", {}), self_]), False
    yield "a changed bit", with_fields(right, signature=flipped), False
    yield "a shorter signature", with_fields(right, signature="sig1=:AAAA:"), False
    yield "no signature", with_fields(right, signature=None), False
    yield "no input", with_fields(right, signature_input=None), False
    yield "an input that ends early", with_fields(right, signature_input=input_[:20]), False


def main():
    question = json.load(sys.stdin)
    if sys.argv[1] == "forge":
        for name, request, profile_only in forge(question):
            library = verify_with_library(request)
            wrong = {"name": name, "request": request, "profile_only": profile_only, "library": library}
            print(json.dumps(wrong))
        return
    for request in question["requests"]:
        try:
            request.setdefault("sets", question.get("sets"))
            print("verified", *verify(request, question.get("tls_only", False)))
        except Refused as error:
            print(f"refused: {error}")


main()
