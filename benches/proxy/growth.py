#!/usr/bin/env python3
"""growth.py: the cost of a request and the memory of a proxy, with more and more origins and connections.

Measures as bench.py does, plain requests of 1 KiB to an origin that sends whole responses, and draws docs/costs.svg.
"""

import argparse
import contextlib
import json
import shutil
import sys
import time
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import bench
import generators
import processes
import scenarios

PROXIES = "wayleave,hudsucker,pingora-proxy"
ORIGINS = (1, 10, 100, 1_000, 10_000, 100_000)
CONNECTIONS = (1, 10, 100, 1_000, 10_000)
# Concurrent requests while the number of origins grows: as many as in the other rows.
AT_ONCE = 32


def main():
    options = arguments()
    if options.draw:
        measured = json.loads(Path(options.draw).read_text())
    else:
        measured = measure(options)
        Path(options.json).write_text(json.dumps(measured, indent=1))
    draw(measured, options.out)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--proxy", default=PROXIES, metavar="A,B")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--most", type=int, default=ORIGINS[-1], help="leave out points with more origins or connections")
    parser.add_argument("--dir", default=str(generators.peers.PROJECT / "target/bench-growth"))
    parser.add_argument("--json", default=str(generators.peers.PROJECT / "target/bench-growth.json"))
    parser.add_argument("--draw", metavar="JSON", help="draw what was measured before")
    parser.add_argument("--out", default=str(generators.peers.PROJECT / "docs/costs.svg"))
    return parser.parse_args()


def measure(options):
    """(what grows) -> (proxy) -> list of points."""
    bench.raise_file_limit()
    found = {"origins": {}, "connections": {}}
    for proxy in options.proxy.split(","):
        for grows, counts in (("origins", ORIGINS), ("connections", CONNECTIONS)):
            counts = [count for count in counts if count <= options.most]
            found[grows][proxy] = line(options, proxy, grows, counts)
    return {"about": about(options), **found}


def line(options, proxy, grows, counts):
    """One proxy's points, in one process of it that was started for them."""
    directory = Path(options.dir).resolve()
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    settings = SimpleNamespace(seconds=options.seconds, rounds=options.rounds, proxy=proxy, wayleave=[], generator="")
    with contextlib.ExitStack() as stack:
        running = bench.Bench(directory, settings, stack)
        running.start()
        points = []
        for count in counts:
            points.append(point(running, proxy, grows, count))
            print(f"{grows} {count} | {proxy} | {points[-1]}", file=sys.stderr)
        return points


def point(running, proxy, grows, count):
    entry = asked(grows, count)
    _, process, port = running.running[proxy]
    running.close_pools()
    runs = []
    for number in range(running.options.rounds):
        run = generators.BenchLoad().measure(running.order(entry, proxy, port, number), process.pid)
        if run["failures"]:
            return {"count": count, "failed": f"{run['failures']}: {run['error']}"}
        runs.append(run)
    return {
        "count": count,
        "cpu_us": median(run["cpu_us"] for run in runs),
        "memory_mib": max(run["memory_mib"] for run in runs),
    }


def asked(grows, count):
    if grows == "connections":
        return scenarios.scenario(f"{count} connections", "plain", "whole", connections=count, warm_up=2)
    # Every origin gets a request before the first measurement, so that the line shows known origins, not first requests.
    warm_up = -(-count // AT_ONCE) + 20
    return scenarios.scenario(
        f"{count} origins", "plain hosts", "whole", connections=AT_ONCE, first_warm_up=warm_up, **scenarios.many(count)
    )


def about(options):
    return f"{time.strftime('%Y-%m-%d')}, {processes.processor()}, {options.rounds} rounds of {options.seconds:g} s"


def draw(measured, out):
    import matplotlib

    matplotlib.use("svg")
    # Text stays text, and the same figures make the same file.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "wayleave", "font.size": 9})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(9, 6), layout="constrained")
    rows = (("cpu_us", "processor time per request, µs"), ("memory_mib", "memory, MiB"))
    for column, grows in enumerate(("origins", "connections")):
        for row, (key, label) in enumerate(rows):
            axis = axes[row][column]
            for proxy, points in measured[grows].items():
                shown = [point for point in points if key in point]
                axis.plot([point["count"] for point in shown], [point[key] for point in shown], marker="o", markersize=3, label=proxy)
            axis.set(xscale="log", yscale="log", xlabel=grows, ylabel=label)
            axis.grid(alpha=0.3)
    axes[0][0].legend()
    figure.suptitle(measured["about"], fontsize=8)
    figure.savefig(out, metadata={"Date": None})


if __name__ == "__main__":
    main()
