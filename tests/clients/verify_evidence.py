"""Verifies an export of wayleave's evidence, as proxy/evidence/README.md describes it: chain, trees, signatures, digests.

usage: verify_evidence.py FOLDER PUBLIC-KEY [--accept-unsigned]. Prints "sound: N lines, M left out", or the first place that is not,
and ends with 1. Lines that their writer did not sign are accepted only with the option.
"""

import base64
import hashlib
import json
import pathlib
import re
import sys

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

folder, public = pathlib.Path(sys.argv[1]), sys.argv[2]
accepts_unsigned = "--accept-unsigned" in sys.argv[3:]
SIGNATURE = re.compile(rb',"signature":"([A-Za-z0-9_-]+)"}$')
PREVIOUS = re.compile(rb',"prev_sha256":"([0-9a-f]{64})"}$')


def fail(place, what):
    print(f"{place}: {what}")
    sys.exit(1)


def sha256(data):
    return hashlib.sha256(data).digest()


def decoded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def doubt(place, what):
    if not accepts_unsigned:
        fail(place, what)
    print(f"{place}: {what}")


def is_signed(key, signature, signed):
    try:
        Ed25519PublicKey.from_public_bytes(decoded(key)).verify(decoded(signature), signed)
        return True
    except InvalidSignature:
        return False


def check_signature(place, line, key):
    found = SIGNATURE.search(line)
    if not found:
        fail(place, "is not signed")
    signed = line[: found.start()] + b"}"
    if not is_signed(key, found[1].decode(), signed):
        fail(place, "has an invalid signature")
    return signed


def keys_of(manifest):
    """The keys of the log in their order; the last has signed the manifest."""
    keys, line = [manifest["key"]], manifest.get("window", {}).get("head", "{}")
    head = json.loads(line)
    if head.get("key") == keys[0]:
        check_signature("manifest.json:1", line.encode(), keys[0])
        for handover in reversed(head.get("handovers", [])):
            statement = f"wayleave-log-key {head['log']} {handover['from']} {handover['to']}"
            is_next = handover["to"] == keys[0]
            if not is_next or not is_signed(handover["from"], handover["signature"], statement.encode()):
                break
            keys.insert(0, handover["from"])
    return keys


class Tree:
    """RFC 9162, section 2.1.1, from left to right."""

    def __init__(self):
        self.lines, self.peaks = 0, []

    def add(self, digest, level=0):
        if self.lines % (1 << level):
            return False
        full, at = self.lines >> level, level
        while full & 1:
            digest = sha256(b"\1" + self.peaks.pop() + digest)
            full >>= 1
        self.peaks.append(digest)
        self.lines += 1 << at
        return True

    def root(self):
        if not self.peaks:
            return sha256(b"")
        root = self.peaks[-1]
        for peak in reversed(self.peaks[:-1]):
            root = sha256(b"\1" + peak + root)
        return root


manifest_line = (folder / "manifest.json").read_bytes().rstrip(b"\n")
manifest = json.loads(manifest_line)
check_signature("manifest.json:1", manifest_line, manifest["key"])
keys = keys_of(manifest)
if public not in keys:
    fail("manifest.json:1", "is signed by another key")
listed = {file["path"]: file["sha256"] for file in manifest["logs"] + manifest["files"]}
for path, digest in listed.items():
    # Log files are checked below, which names the line.
    if not path.startswith("log/") and sha256((folder / path).read_bytes()).hex() != digest:
        fail(path, "does not match its digest")

shown = left_out = unsigned = key_at = 0
log_id = None
# Of each `deleted` event: the deleted file, and the file and line of the event.
deleted, missing = set(), []
head_before, number_before = None, None
for file in manifest["logs"]:
    tree, last, torn, ended, number = Tree(), None, None, False, None
    lines = (folder / file["path"]).read_bytes().removesuffix(b"\n").split(b"\n")
    for at, line in enumerate(lines, 1):
        place = f"{file['path']}:{at}"
        if ended and head_before:
            fail(place, "comes after the head")
        if ended:
            # Nobody signed what follows the newest head.
            unsigned += 1
            continue
        if line.startswith(b'{"standin":'):
            standin = json.loads(line)["standin"]
            if not tree.add(bytes.fromhex(standin["sha256"]), standin["level"]):
                fail(place, "cannot replace lines here")
            left_out += 1 << standin["level"]
            last = None
            continue
        shown += 1
        linked = line
        if line.startswith(b'{"event":"head"'):
            key = json.loads(line)["key"]
            # A key that has handed the log over signs no later file.
            if key not in keys[key_at:]:
                fail(place, "is signed by a different key")
            key_at = keys.index(key, key_at)
            linked = check_signature(place, line, key)
        found = PREVIOUS.search(linked)
        event = json.loads(line) if found and line.startswith(b'{"event":') else {}
        if at == 1:
            number = event.get("file")
            if event.get("event") != "file":
                fail(place, "does not begin a file")
            if number_before is not None and number <= number_before:
                fail(place, "a file is missing before it")
            if number_before is not None:
                missing += [(gone, place) for gone in range(number_before + 1, number)]
                if number != number_before + 1:
                    head_before = None
            expected = head_before or (bytes(32) if number == 1 else None)
            if expected and bytes.fromhex(found[1].decode()) != expected:
                fail(place, "does not follow the previous file")
        else:
            if torn and event.get("torn_sha256") != torn:
                fail(place, "does not name the torn line before it")
            torn = None
            if not found:
                torn = sha256(line).hex()
            elif last and bytes.fromhex(found[1].decode()) != last:
                fail(place, "does not follow the previous line")
        here = tree.lines + 1
        if event.get("event") == "deleted":
            deleted.add((event["file"], number, here))
        if event.get("event") == "recovered":
            since = here - event["unsigned_lines"]
            deleted = {it for it in deleted if it[1] != number or it[2] < since}
            doubt(place, f"lines {since} to {here - 1} were not signed by their writer")
        if event.get("event") == "altered":
            fail(place, "the log was altered before this line")
        if event.get("event") == "head":
            signed = (event["file"], event["lines"], event["root_sha256"])
            if signed != (number, tree.lines, tree.root().hex()):
                fail(place, "does not match the lines before it")
            if log_id and event.get("log", log_id) != log_id:
                fail(place, "is the head of another log")
            log_id = event.get("log", log_id)
            ended = True
            head_before = sha256(line) if event.get("next") == number + 1 else None
        last = sha256(line)
        tree.add(sha256(b"\0" + last))
    if not ended:
        # While no head can be written, only the last file is not signed, and so it explains nothing.
        newest = json.loads(manifest.get("window", {}).get("head", "{}"))
        if file is not manifest["logs"][-1] or newest.get("file", number) >= number:
            fail(file["path"], "does not end in a head")
        unsigned += tree.lines
        deleted = {it for it in deleted if it[1] != number}
    if file is not manifest["logs"][-1] and head_before is None:
        fail(file["path"], "names no next file")
    number_before = number
    if sha256((folder / file["path"]).read_bytes()).hex() != file["sha256"]:
        fail(file["path"], "does not match its digest")
if "window" in manifest:
    window = manifest["window"]
    missing += [(gone, "manifest.json:1") for gone in window["missing_files"]]
    head = json.loads(window["head"])
    check_signature("manifest.json:1", window["head"].encode(), head["key"])
    if head["key"] != manifest["key"]:
        fail("manifest.json:1", "the head is signed by a different key")
    if log_id and head.get("log", log_id) != log_id:
        fail("manifest.json:1", "the head is of another log")
    for foreign in window.get("foreign", []):
        fail("manifest.json:1", foreign)
    unsigned = max(unsigned, window["unsigned_lines"])
    if unsigned and head.get("stopped"):
        fail("manifest.json:1", "lines were added after the stop")
    if unsigned:
        doubt("manifest.json:1", f"{unsigned} lines were not signed by their writer")
explained = {it[0] for it in deleted}
for gone, place in missing:
    if gone not in explained:
        fail(place, f"file {gone} is missing before it, and the log does not record its deletion")
print(f"sound: {shown} lines, {left_out} left out")
