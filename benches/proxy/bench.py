#!/usr/bin/env python3
"""bench.py: wayleave compared with other proxies.

Starts an origin and the proxies, all on loopback, sends each scenario through each proxy in turns (A B C A B C ...),
and prints what a request costs. `make bench-proxy` installs and builds what is needed first.
"""

import argparse
import contextlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import generators
import origin
import peers
import processes
import scenarios
import table


def main():
    options = arguments()
    directory = Path(options.dir).resolve()
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    raise_file_limit()
    chosen = [entry for entry in scenarios.ALL if re.search(options.scenario, entry.name)]
    with contextlib.ExitStack() as stack:
        bench = Bench(directory, options, stack)
        bench.start()
        results = bench.run(chosen)
    text = table.render(results, list(bench.running), bench.about())
    print(text)
    if options.out:
        Path(options.out).write_text(text)
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1))
    # Other proxies may fail; the table says so.
    failed = [name for name, runs in results.items() if any(run["failures"] for run in runs.get("wayleave", []))]
    sys.exit(f"wayleave failed: {', '.join(failed)}" if failed else 0)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", default="", metavar="REGEX", help="only scenarios whose name has this")
    parser.add_argument("--proxy", default="", metavar="A,B", help="only these: " + ", ".join(peers.known()))
    parser.add_argument("--generator", default="", metavar="A,B", help="only these: " + ", ".join(generators.known()))
    parser.add_argument("--seconds", type=float, default=3.0, help="of each run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", default=str(peers.PROJECT / "target/bench-run"))
    parser.add_argument("--out", help="write the table there, too")
    parser.add_argument("--json", help="write every run there")
    parser.add_argument("--wayleave", action="append", default=[], metavar="NAME=PROGRAM", help="another build of wayleave beside the first")
    return parser.parse_args()


def raise_file_limit():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Bench:
    """The origin, the proxies and the measurements."""

    def __init__(self, directory, options, stack):
        self.dir = directory
        self.options = options
        self.stack = stack
        self.ports = {}
        self.running = {}
        self.fresh = {}

    def start(self):
        self.origin_ports = {kind: processes.free_port() for kind in origin.KINDS}
        origin.prepare(self.dir, self.origin_ports)
        self.origin = origin.start(self.dir)
        self.keep(self.origin, self.origin_ports["whole"], "nginx")
        for peer in self.chosen():
            self.start_peer(peer)

    def chosen(self):
        known = peers.known()
        for entry in self.options.wayleave:
            name, _, program = entry.partition("=")
            known = {name: peers.another_wayleave(name, program), **known}
        names = [name for name in self.options.proxy.split(",") if name] or list(known)
        for name in names:
            if name not in known:
                sys.exit(f"no proxy {name}; there are {', '.join(known)}")
            if not shutil.which(known[name].program):
                sys.exit(f"{known[name].program} is missing: run `make bench-proxy-tools`")
        return [known[name] for name in names]

    def start_peer(self, peer):
        place = peers.Place(processes.free_port(), processes.free_port(), self.dir / peer.name, self.dir)
        place.dir.mkdir()
        command, environment = peer.configure(place)
        with open(self.dir / f"{peer.name}.log", "wb") as log:
            process = subprocess.Popen(
                command, cwd=place.dir, env={**os.environ, **environment}, stdout=log, stderr=log
            )
        self.keep(process, place.port, peer.name)
        self.running[peer.name] = (peer, process, place.port)

    def keep(self, process, port, name):
        """Ends the process with the bench; waits until it listens."""
        self.stack.callback(stop, process)
        listens = lambda: process.poll() is not None or processes.is_open(port)
        processes.wait_for(listens, 30, f"{name} does not listen")
        if process.poll() is not None:
            sys.exit(f"{name} ended with status {process.returncode}: see {self.dir}/{name}.log")

    def run(self, chosen):
        """All scenarios by all generators through all proxies that can, in turns: row -> proxy -> runs."""
        results = {}
        for entry in chosen:
            able = {name: running for name, running in self.running.items() if entry.is_fit(running[0])}
            for generator in self.generators(entry):
                row = entry.name + generator.suffix
                reached = {name: running for name, running in able.items() if generator.reaches(running[0])}
                results[row] = self.run_row(entry, generator, reached, row)
        return results

    def generators(self, entry):
        known = generators.known()
        names = [name for name in self.options.generator.split(",") if name] or list(known)
        return [known[name] for name in names if known[name].is_fit(entry)]

    def run_row(self, entry, generator, able, row):
        runs = {name: [] for name in able}
        rounds = 1 if entry.kind == "idle" else self.options.rounds
        self.close_pools()
        for number in range(rounds):
            for name, (_, process, port) in able.items():
                if entry.opens_many():
                    self.close_pools()
                order = self.order(entry, name, port, number)
                run = generator.measure(order, process.pid)
                runs[name].append({"kind": entry.kind, **run})
                print(f"{row} | {name} | {table.brief(entry.kind, run)}", file=sys.stderr)
        return runs

    def close_pools(self):
        """Makes the origin close connections that proxies keep, which would soon exceed its limit."""
        old = set(processes.tree(self.origin.pid)) - {self.origin.pid}
        self.origin.send_signal(signal.SIGHUP)
        changed = lambda: (new := set(processes.tree(self.origin.pid)) - {self.origin.pid}) and not new & old
        processes.wait_for(changed, 30, "nginx keeps its worker")

    def order(self, entry, name, port, number):
        """A generator's requests in this round, by the names of bench-load's options."""
        order = {
            "seconds": self.options.seconds,
            "port": self.origin_ports[entry.origin],
            "via": f"127.0.0.1:{port}",
            **entry.load,
            **self.running[name][0].load,
        }
        first_warm_up = order.pop("first_warm_up", None)
        if first_warm_up and number == 0:
            order["warm_up"] = first_warm_up
        if order.pop("fresh", False):
            order["seconds"] = 60
            order["first_host"] = self.fresh.get(name, 0)
            self.fresh[name] = order["first_host"] + order["hosts"]
        return order

    def about(self):
        """The machine and the versions."""
        lines = [
            f"{time.strftime('%Y-%m-%d %H:%M')}, {os.cpu_count()} x {processes.processor()}, "
            f"Linux {os.uname().release}; {self.options.rounds} rounds of {self.options.seconds:g} s",
        ]
        versions = [f"{name} {peers.version(peer)}" for name, (peer, _, _) in self.running.items()]
        return lines + ["; ".join(versions)]


def stop(process):
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
