"""The load generators: bench-load, made for this bench, and oha as an independent check."""

import json
import subprocess

import peers
import processes

LOAD = peers.PROJECT / "target/bench/release/bench-load"
OHA = peers.PROJECT / "target/tools/bin/oha"


class BenchLoad:
    """Measures once all its connections are warm."""

    suffix = ""

    def is_fit(self, entry):
        return True

    def reaches(self, peer):
        return True

    def measure(self, order, pid):
        command = [str(LOAD)]
        for key, value in order.items():
            flag = "--" + key.replace("_", "-")
            command += [flag] if value is True else [flag, str(value)]
        before_memory = processes.memory_bytes(pid)
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as load:
            if load.stdout.readline().strip() != "ready":
                raise RuntimeError(f"{' '.join(command)} failed")
            memory = processes.memory_bytes(pid)
            before = processes.cpu_us(pid)
            load.stdin.write("go\n")
            load.stdin.flush()
            run = json.loads(load.stdout.readline())
            cpu = processes.cpu_us(pid) - before
        opened = order.get("connections", 32)
        return {**told(run, cpu, pid), "connection_kib": (memory - before_memory) / opened / 1024}


class Oha:
    """Uses one origin. The first requests of its connections are part of the measurement."""

    suffix = ", by oha"

    def reaches(self, peer):
        return not peer.load

    def is_fit(self, entry):
        is_timed = entry.kind in ("cpu", "rate")
        return is_timed and "hosts" not in entry.load and entry.load.get("renew_after", 1) == 1

    def measure(self, order, pid):
        scheme = "https" if order.get("https") else "http"
        authority = f"localhost:{order['port']}"
        url = f"{scheme}://{authority}{order.get('path', '/1k')}"
        command = [
            str(OHA), "--no-tui", "--output-format", "json", "--insecure", "--disable-compression", "--redirect", "0",
            "-H", "User-Agent: BenchBot/1.0", "-x", f"http://{order['via']}", "-z", f"{order['seconds']}s", "-w",
            "-c", str(order.get("connections", 32)), "-p", str(order.get("streams", 1)),
        ]
        # Its CONNECT has no Host otherwise, which RFC 9112 section 3.2 has proxies refuse.
        command += ["--proxy-header", f"Host: {authority}"] if order.get("https") else []
        command += ["--http2"] if order.get("http2") else []
        command += ["--disable-keepalive"] if order.get("renew_after") else []
        command += ["-q", str(order["rate"]), "--latency-correction"] if "rate" in order else []
        before = processes.cpu_us(pid)
        said = json.loads(subprocess.run([*command, url], check=True, capture_output=True, text=True).stdout)
        cpu = processes.cpu_us(pid) - before
        expected = str(order.get("expect", 200))
        statuses = said["statusCodeDistribution"]
        others = {status: count for status, count in statuses.items() if status != expected} | said["errorDistribution"]
        run = {
            "requests": statuses.get(expected, 0),
            "seconds": said["summary"]["total"],
            "failures": sum(others.values()),
            "error": next(iter(others), None),
            **{f"{name}_us": round((said["latencyPercentiles"][name] or 0) * 1e6) for name in ("p50", "p99")},
        }
        return told(run, cpu, pid)


def told(run, cpu, pid):
    """A run, with the proxy's cost."""
    return {
        **run,
        "cpu_us": cpu / max(run["requests"], 1),
        "per_second": run["requests"] / max(run["seconds"], 1e-9),
        "memory_mib": processes.memory_bytes(pid) / 2**20,
    }


def known():
    """All generators, by name."""
    return {"bench-load": BenchLoad(), "oha": Oha()}
