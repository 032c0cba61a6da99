"""Validates TOML documents by a JSON Schema: a JSON object with both on standard input; prints whether each is valid."""

import json
import sys
import tomllib

import jsonschema_rs

given = json.load(sys.stdin)
validator = jsonschema_rs.validator_for(given["schema"])
print(json.dumps([validator.is_valid(tomllib.loads(text)) for text in given["documents"]]))
