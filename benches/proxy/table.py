"""The measurements as Markdown."""

from statistics import median

# For each kind of scenario: the columns (key of a run, heading), the first of which is compared.
COLUMNS = {
    "cpu": [("cpu_us", "CPU us/request"), ("per_second", "requests/s")],
    "rate": [("p50_us", "p50 us"), ("p99_us", "p99 us"), ("cpu_us", "CPU us/request")],
    "idle": [("connection_kib", "KiB/connection")],
    "storm": [("seconds", "seconds"), ("cpu_us", "CPU us/request")],
}

# Latencies at the 99th percentile that need an explanation, in microseconds, and the explanation for each known peer.
SLOW_US = 20_000
WHY_SLOW = {
    "hudsucker": "it writes the head and the body of a response apart, to a socket without TCP_NODELAY: the body waits until the client "
    "acknowledges the head, which clients put off for up to 40 ms",
    "mitmproxy": "it does not reach this rate",
    "mitmproxy+protego": "it does not reach this rate",
}


def render(results, proxies, about):
    """The whole report: the machine, then one table for each scenario."""
    parts = list(about)
    for name, runs in results.items():
        parts += ["", f"### {name}", "", *scenario(runs, proxies)]
    return "\n".join(parts) + "\n"


def scenario(runs, proxies):
    """One scenario's table: min-median-max, and wayleave's cost divided by each proxy's."""
    able = [proxy for proxy in proxies if runs.get(proxy)]
    if not able:
        return ["no proxy can"]
    columns = COLUMNS[runs[able[0]][0]["kind"]]
    heads = ["proxy", *(heading for _, heading in columns), "wayleave is", "memory MiB"]
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    for proxy in able:
        errors = [run for run in runs[proxy] if run["failures"]]
        cells = [proxy, *(spread(runs[proxy], key) for key, _ in columns)]
        cells.append(ratio(runs.get("wayleave"), runs[proxy], columns[0][0]) if proxy != "wayleave" else "")
        cells.append(f"{max(run['memory_mib'] for run in runs[proxy]):.0f}")
        if errors:
            cells[0] += f" ({sum(run['failures'] for run in errors)} failed: {errors[0]['error']})"
        lines.append("| " + " | ".join(cells) + " |")
    return lines + [f"\n{proxy}: {why}." for proxy in able if (why := why_slow(proxy, runs[proxy]))]


def why_slow(proxy, runs):
    """The reason for a proxy's high 99th percentile, if it is known."""
    if runs[0]["kind"] != "rate" or median(run["p99_us"] for run in runs) <= SLOW_US:
        return None
    return WHY_SLOW.get(proxy, "nobody has looked why it takes so long")


def spread(runs, key):
    values = sorted(run[key] for run in runs)
    if len(values) == 1:
        return number(values[0])
    return f"{number(values[0])}-**{number(median(values))}**-{number(values[-1])}"


def number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def ratio(ours, theirs, key):
    """The median over the rounds of wayleave's cost divided by the other's in the same round."""
    if not ours:
        return ""
    pairs = [(one[key], other[key]) for one, other in zip(ours, theirs) if other[key]]
    return f"{median(one / other for one, other in pairs):.2f} x" if pairs else ""


def brief(kind, run):
    shown = ", ".join(f"{heading} {number(run[key])}" for key, heading in COLUMNS[kind])
    return shown + (f"; {run['failures']} FAILED: {run['error']}" if run["failures"] else "")
