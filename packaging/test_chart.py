"""Renders, lints and validates the chart: test_chart.py CHART.tgz WAYLEAVE, as root."""

import pathlib
import re
import subprocess
import sys
import tempfile

import kubernetes_validate
import yaml
from helm_python.chart import Chart, lint

HERE = pathlib.Path(__file__).resolve().parent
LEAST = {"ca": {"existingSecret": "wayleave-ca"}, "admin": {"tokenSha256": "ab" * 32}}
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIBxyz\n-----END CERTIFICATE-----\n"
TRUSTED = {"ca": {"existingSecret": "wayleave-ca", "certificate": CERTIFICATE}}
FLEET = {"enabled": True, "url": "redis://redis:6379"}
LOCK = {"egressLock": {"enabled": True}}
SIDECAR = {
    **TRUSTED,
    "replicas": 0,
    "sidecar": {
        "enabled": True, "image": "registry.example/crawler:1", "nftImage": "registry.example/nft:1",
        "nameservers": ["10.96.0.10", "fd00:10:96::a"]},
}
CASES = {
    "least": {},
    "most": {
        "replicas": 5,
        "config": {
            "proxy": {"mode": "observe", "listen": ["127.0.0.1:1"]},
            "crawler": [{"name": "news", "tokens": ["NewsBot"], "match": {"user_agent": "NewsBot"}}],
        },
        "fleet": FLEET,
        "persistence": {"storageClass": "fast"},
        "serviceMonitor": {"enabled": True, "tokenSecret": "wayleave-token"},
        "networkPolicy": {"crawlers": [{"podSelector": {"matchLabels": {"role": "crawler"}}}]},
        "imagePullSecrets": [{"name": "registry"}],
        "podAnnotations": {"example.com/team": "crawling"},
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "tolerations": [{"operator": "Exists"}],
    },
    "fleet": {"fleet": {**FLEET, "cluster": True}},
    "without": {"networkPolicy": {"enabled": False}, "disruptionBudget": {"enabled": False}, "persistence": {"enabled": False}},
    "locked": {**TRUSTED, **LOCK, "crawlerNamespaces": ["news", "shops"]},
    "sidecar": SIDECAR,
}
# Custom resources, without a schema from Kubernetes.
FOREIGN = {"ServiceMonitor", "Bundle"}


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


def changed(values, path, value):
    """`values` with another value at a path such as "sidecar.image"."""
    first, _, rest = path.partition(".")
    return {**values, first: changed(values.get(first, {}), rest, value) if rest else value}


# Values that the schema refuses.
WRONG = {
    "replica": 1,
    "replicas": ["2", -1, 1.5],
    "image.repository": ["", 7],
    "image.pullPolicy": "Sometimes",
    "ca.certificate": ["MIIB", CERTIFICATE + "-----BEGIN PRIVATE KEY-----\n"],
    "ca.key": "MIIB",
    "crawlerNamespaces": ["news", ["Not A Name"], ["news", "news"]],
    "admin.tokenSha256": "secret",
    "fleet.url": "http://redis:6379",
    "persistence.enabled": "yes",
    "service.port": 0,
    "networkPolicy.crawlers": [[{}]],
    "egressLock.enabled": "yes",
    "egressLock.podLabels": [["locked"], {"locked": True}],
    "egressLock.dns": [[{}], [{"cidr": "10.0.0.0/8"}]],
    "egressLock.ports": [443],
    "sidecar.enabled": 1,
    "sidecar.replicas": "1",
    "sidecar.image": 7,
    "sidecar.command": "crawl",
    "sidecar.runAsUser": [0, 65532, "crawler"],
    "sidecar.nftImage": 7,
    "sidecar.ports": [[], [0], ["https"]],
    "sidecar.nameservers": [["kube-dns"], ["10.0.0.1 accept"]],
    "sidecar.ipv6": "no",
    "serviceMonitor.interval": "often",
}


def test_schema(chart):
    count = 0
    for path, wrong in WRONG.items():
        for value in wrong if isinstance(wrong, list) else [wrong]:
            assert_refused(chart, changed(LEAST, path, value), "values don't meet the specifications of the schema")
            count += 1
    print(f"chart: {count} wrong values refused by the schema")


def rendered(chart, values):
    """The documents of a release `crawl` in the namespace `web`, by kind and name."""
    found = {}
    for document in documents(chart.render({**LEAST, **values}, name="crawl", namespace="web")):
        metadata = document["metadata"]
        key = f"{document['kind']} {metadata.get('namespace', 'web')}/{metadata['name']}"
        assert key not in found, key
        found[key] = document
    return found


def test_egress_lock(chart):
    pods = {"app.kubernetes.io/name": "wayleave", "app.kubernetes.io/instance": "crawl"}
    namespace = {"matchLabels": {"kubernetes.io/metadata.name": "web"}}
    proxy = {
        "to": [{"namespaceSelector": namespace, "podSelector": {"matchLabels": pods}}],
        "ports": [{"protocol": "TCP", "port": 3128}],
    }
    dns = {
        "to": [{
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
            "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}],
        "ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}],
    }
    policy = "NetworkPolicy {}/crawl-egress-lock".format
    assert policy("web") not in rendered(chart, {}), "the lock is off by default"

    found = rendered(chart, LOCK)
    assert found[policy("web")]["spec"] == {
        "podSelector": {"matchLabels": {"wayleave/egress": "locked"}},
        "policyTypes": ["Egress"],
        "egress": [proxy, dns],
    }
    template = found["StatefulSet web/crawl"]["spec"]["template"]
    assert pods.items() <= template["metadata"]["labels"].items(), "the lock leads to the proxy's pods"
    assert {"name": "proxy", "containerPort": 3128} in template["spec"]["containers"][0]["ports"]

    lock = {"egressLock": {"enabled": True, "podLabels": {"role": "crawler"}, "dns": []}}
    spec = rendered(chart, lock)[policy("web")]["spec"]
    assert spec["podSelector"] == {"matchLabels": {"role": "crawler"}}, "labels replace the default"
    assert spec["egress"] == [proxy], "no DNS server is not every server"

    found = rendered(chart, {**LOCK, "crawlerNamespaces": ["news", "shops"]})
    assert policy("web") not in found and found[policy("news")]["spec"] == found[policy("shops")]["spec"]


def test_certificate(chart):
    trust = "ConfigMap {}/crawl-ca".format
    assert trust("web") not in rendered(chart, {})
    assert rendered(chart, TRUSTED)[trust("web")]["data"] == {"ca.crt": CERTIFICATE}
    found = rendered(chart, {**TRUSTED, "crawlerNamespaces": ["news", "shops"]})
    assert trust("web") not in found and trust("news") in found and trust("shops") in found


def test_image(chart):
    found = rendered(chart, {"image": {"repository": "registry.example/wayleave", "tag": "7"}})
    [container] = found["StatefulSet web/crawl"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/wayleave:7"


def test_notes(chart):
    def notes(values):
        manifests = chart.render({**LEAST, **values}, name="crawl", namespace="web")
        [text] = [text for place, text in manifests.items() if place.endswith("NOTES.txt")]
        return text

    assert "Nothing keeps crawlers from going around" in notes({}) and "it has the key" in notes({})
    locked = notes({**TRUSTED, "egressLock": {"enabled": True, "podLabels": {"role": "crawler"}}})
    assert "reach nothing but the proxy and DNS" in locked and "role: crawler" in locked
    assert "--ca /etc/ssl/wayleave/ca.crt" in locked and "Secret" not in locked
    assert "No proxy runs but" in notes(SIDECAR)


def test_sidecar(chart, program):
    found = rendered(chart, SIDECAR)
    pod = found["Deployment web/crawl-sidecar"]["spec"]["template"]
    selector = found["Service web/crawl"]["spec"]["selector"]
    assert not selector.items() <= pod["metadata"]["labels"].items(), "the Service is not for sidecars"
    redirect, proxy = pod["spec"]["initContainers"]
    [crawler] = pod["spec"]["containers"]
    assert redirect["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN"]}
    assert (proxy["restartPolicy"], proxy["securityContext"]["runAsUser"]) == ("Always", 65532)
    assert crawler["image"] == "registry.example/crawler:1"
    assert crawler["securityContext"] == {
        "runAsNonRoot": True, "runAsUser": 10001, "runAsGroup": 10001,
        "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert [mount["name"] for mount in crawler["volumeMounts"]] == ["trust"], "the crawler sees no Secret"

    config = found["ConfigMap web/crawl-sidecar"]["data"]["config.toml"]
    assert 'listen = ["redirect://127.0.0.1:3131"]' in config, config
    accepted(config, program)
    check_rules(found, behave=True)

    more = changed(changed(SIDECAR, "sidecar.ipv6", True), "sidecar.ports", [8080])
    found = rendered(chart, more)
    config = found["ConfigMap web/crawl-sidecar"]["data"]["config.toml"]
    assert 'listen = ["redirect://127.0.0.1:3131", "redirect://[::1]:3131"]' in config, config
    accepted(config, program)
    assert re.search(r"^ *tcp dport \{ 8080 \} redirect to :3131$", check_rules(found, behave=False), flags=re.M)

    for path, value, words in [
        ("sidecar.image", "", "sidecar.image is required"),
        ("sidecar.nftImage", "", "sidecar.nftImage is required"),
        ("sidecar.nameservers", [], "sidecar.nameservers is required"),
        ("ca.certificate", "", "ca.certificate is required"),
        ("crawlerNamespaces", ["news"], "crawlerNamespaces lacks"),
        ("replicas", 1, "are 2 proxies, which need fleet.enabled"),
        ("sidecar.replicas", 2, "are 2 proxies, which need fleet.enabled"),
    ]:
        assert_refused(chart, {**LEAST, **changed(SIDECAR, path, value)}, words)
    both = rendered(chart, {**changed(SIDECAR, "sidecar.replicas", 2), "replicas": 3, "fleet": FLEET})
    assert both["Deployment web/crawl-sidecar"]["spec"]["replicas"] == 2


def test_document(chart):
    """The values and manifests of packaging/chart/README.md."""
    text = (HERE / "chart/README.md").read_text()
    blocks = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", text, flags=re.M | re.S)]
    values = [block for block in blocks if "kind" not in block]
    manifests = [block for block in blocks if "kind" in block]
    manifests += [
        yaml.safe_load(re.sub(r"^\$\(.*\)$", "    " + CERTIFICATE.replace("\n", "\n    "), block, flags=re.M))
        for block in re.findall(r"<<END\n(.*?)END$", text, flags=re.M | re.S)]
    assert (len(values), len(manifests)) == (3, 4)
    for block in values:
        rendered(chart, {**TRUSTED, **block})
    for manifest in manifests:
        if manifest["kind"] not in FOREIGN:
            kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)


def check_rules(found, behave):
    """Whether nft accepts the rules, and whether they do what they say; returns them."""
    rules = found["ConfigMap web/crawl-sidecar-nft"]["data"]["redirect.nft"]
    with tempfile.NamedTemporaryFile("w", suffix=".nft") as file:
        file.write(rules)
        file.flush()
        command = [sys.executable, HERE / "test_redirect.py"] if behave else ["nft", "--check", "--file"]
        subprocess.run(["unshare", "--net", *command, file.name], check=True)
    return rules


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
                # One proxy unless the values say otherwise.
                assert spec["replicas"] == values.get("replicas", 1), name
                # The state is kept unless the values say otherwise.
                assert ("volumeClaimTemplates" in spec) == (name != "without"), name
            if document["kind"] == "ConfigMap" and document["metadata"]["name"] == "crawl":
                accepted(document["data"]["config.toml"], program)
                assert 'listen = ["0.0.0.0:3128"]' in document["data"]["config.toml"]
        print(f"chart {name}: {', '.join(sorted(kinds))}")
    for missing in ("ca", "admin"):
        values = {key: value for key, value in LEAST.items() if key != missing}
        assert_refused(chart, values, "is required")
    assert_refused(chart, {**LEAST, "replicas": 2}, "replicas is 2, which needs fleet.enabled")
    test_schema(chart)
    test_image(chart)
    test_certificate(chart)
    test_egress_lock(chart)
    test_notes(chart)
    test_sidecar(chart, program)
    test_document(chart)


if __name__ == "__main__":
    main(*sys.argv[1:])
