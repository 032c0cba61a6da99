#!/usr/bin/env python3
"""verdicts.py: how long other proxies wait for a verdict, compared with a server that decides nothing.

Asks wayleave and floor-ext-authz in turns at a fixed rate, by gRPC and by HTTP, and prints the median of the rounds.
"""

import argparse
import contextlib
import shutil
import statistics
import subprocess
from pathlib import Path
from urllib.parse import quote

import generators
import origin
import peers
import processes
from bench import raise_file_limit, stop

FLOOR = peers.PROJECT / "target/bench/release/floor-ext-authz"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=2000.0, help="questions per second")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--wayleave", default=peers.WAYLEAVE, metavar="PROGRAM")
    options = parser.parse_args()
    directory = peers.PROJECT / "target/bench-verdicts"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    raise_file_limit()
    with contextlib.ExitStack() as stack:
        servers = start(directory, options, stack)
        runs = {(protocol, name): [] for protocol in ("grpc", "http") for name in servers}
        for _ in range(options.rounds):
            for protocol, name in runs:
                process, ports, origin_port = servers[name]
                order = question(protocol, ports[protocol], origin_port, options)
                runs[protocol, name].append(generators.BenchLoad().measure(order, process.pid))
    show(runs)


def start(directory, options, stack):
    """Starts the origin and both servers: name -> process, ports by protocol, port of the origin."""
    origin_ports = {kind: processes.free_port() for kind in origin.KINDS}
    origin.prepare(directory, origin_ports)
    keep(stack, origin.start(directory), [origin_ports["whole"]])
    place = peers.Place(processes.free_port(), processes.free_port(), directory / "wayleave", directory)
    place.dir.mkdir()
    peers.wayleave(place)
    ports = {name: {protocol: processes.free_port() for protocol in ("grpc", "http")} for name in ("wayleave", "floor")}
    listen = ", ".join(f'"{protocol}://127.0.0.1:{port}"' for protocol, port in ports["wayleave"].items())
    config = place.dir / "config.toml"
    config.write_text(f"gateway.listen = [{listen}]\n{config.read_text()}")
    floor = [str(FLOOR)]
    for protocol, port in ports["floor"].items():
        floor += [f"--{protocol}", f"127.0.0.1:{port}"]
    commands = {"wayleave": [options.wayleave, "serve", "--config", str(config)], "floor": floor}
    servers = {}
    for name, command in commands.items():
        with open(directory / f"{name}.log", "wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        keep(stack, process, ports[name].values())
        servers[name] = (process, ports[name], origin_ports["whole"])
    return servers


def keep(stack, process, ports):
    stack.callback(stop, process)
    listens = lambda: process.poll() is not None or all(processes.is_open(port) for port in ports)
    processes.wait_for(listens, 30, f"{process.args[0]} does not listen")


def question(protocol, port, origin_port, options):
    order = {"rate": options.rate, "seconds": options.seconds, "connections": 16}
    if protocol == "grpc":
        return {**order, "grpc": True, "via": f"127.0.0.1:{port}", "port": origin_port}
    url = quote(f"http://localhost:{origin_port}/1k", safe="")
    return {**order, "port": port, "path": f"/check?method=GET&url={url}"}


def show(runs):
    print(f"{'':16}{'median':>10}{'p99':>10}{'CPU':>10}   microseconds")
    for protocol in ("grpc", "http"):
        found = {}
        for name in ("wayleave", "floor"):
            own = runs[protocol, name]
            failures = sum(run["failures"] for run in own)
            values = [statistics.median(run[key] for run in own) for key in ("p50_us", "p99_us", "cpu_us")]
            found[name] = values
            note = f"   {failures} failed" if failures else ""
            print(f"{protocol:5}{name:11}" + "".join(f"{value:10.0f}" for value in values) + note)
        ratios = [one / other if other else 0 for one, other in zip(found["wayleave"], found["floor"])]
        print(f"{protocol:5}{'ratio':11}" + "".join(f"{ratio:10.2f}" for ratio in ratios))


if __name__ == "__main__":
    main()
