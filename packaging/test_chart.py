"""Renders, lints and validates the chart: test_chart.py CHART.tgz WAYLEAVE."""

import pathlib
import subprocess
import sys
import tempfile

import kubernetes_validate
import yaml
from helm_python.chart import Chart, lint

LEAST = {"ca": {"existingSecret": "wayleave-ca"}, "admin": {"tokenSha256": "ab" * 32}}
CASES = {
    "least": {},
    "most": {
        "replicas": 5,
        "config": {
            "proxy": {"mode": "observe", "listen": ["127.0.0.1:1"]},
            "crawler": [{"name": "news", "tokens": ["NewsBot"], "match": {"user_agent": "NewsBot"}}],
        },
        "fleet": {"enabled": True, "url": "redis://redis:6379"},
        "persistence": {"storageClass": "fast"},
        "serviceMonitor": {"enabled": True, "tokenSecret": "wayleave-token"},
        "networkPolicy": {"crawlers": [{"podSelector": {"matchLabels": {"role": "crawler"}}}]},
        "imagePullSecrets": [{"name": "registry"}],
        "podAnnotations": {"example.com/team": "crawling"},
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "tolerations": [{"operator": "Exists"}],
    },
    "fleet": {"fleet": {"enabled": True, "url": "redis://redis:6379", "cluster": True}},
    "without": {"networkPolicy": {"enabled": False}, "disruptionBudget": {"enabled": False}, "persistence": {"enabled": False}},
}
# A custom resource, without a schema from Kubernetes.
FOREIGN = {"ServiceMonitor"}


def documents(manifests):
    for place, text in manifests.items():
        if not place.endswith("NOTES.txt"):
            yield from filter(None, yaml.safe_load_all(text))


def accepted(text, program):
    """Whether the program accepts the rendered configuration; its Secrets do not exist here."""
    with tempfile.TemporaryDirectory() as directory:
        file = pathlib.Path(directory, "config.toml")
        file.write_text(text)
        done = subprocess.run([program, "config", "check", "--config", file], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def assert_refused(chart, values, words):
    try:
        chart.render(values)
    except Exception as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"rendered though {words}")


def main(archive, program):
    chart = Chart.load(archive)
    for name, values in CASES.items():
        values = {**LEAST, **values}
        findings = lint(archive, values, strict=True)
        # Severity 1 is information, such as that there is no icon.
        bad = [message for message in findings["messages"] if message["severity"] > 1]
        assert not bad and not findings["errors"], findings
        kinds = []
        for document in documents(chart.render(values, name="crawl", namespace="web")):
            kinds.append(document["kind"])
            if document["kind"] not in FOREIGN:
                kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
            if document["kind"] == "StatefulSet":
                spec = document["spec"]
                assert spec["replicas"] == values.get("replicas", 1), name
                # The state is kept unless the values say otherwise.
                assert ("volumeClaimTemplates" in spec) == (name != "without"), name
            if document["kind"] == "ConfigMap":
                accepted(document["data"]["config.toml"], program)
                assert 'listen = ["0.0.0.0:3128"]' in document["data"]["config.toml"]
        print(f"chart {name}: {', '.join(sorted(kinds))}")
    for missing in ("ca", "admin"):
        values = {key: value for key, value in LEAST.items() if key != missing}
        assert_refused(chart, values, "is required")
    assert_refused(chart, {**LEAST, "replicas": 2}, "replicas is 2, which needs fleet.enabled")


if __name__ == "__main__":
    main(*sys.argv[1:])
