"""The CPU time and memory of processes, from /proc, and the ports where they listen."""

import os
import re
import socket
import time

TICK_US = 1_000_000 // os.sysconf("SC_CLK_TCK")


def tree(pid):
    """The process and all its descendants."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            stat = _stat(int(name))
            if stat:
                parents[int(name)] = int(stat[1])
    found = [pid]
    for parent in found:
        found += [child for child, of in parents.items() if of == parent]
    return found


def cpu_us(pid):
    """User and system time of the tree, the children that ended included, in microseconds."""
    total = 0
    for member in tree(pid):
        stat = _stat(member)
        if stat:
            total += sum(int(field) for field in stat[11:15])
    return total * TICK_US


def memory_bytes(pid):
    """The tree's memory: proportional if the kernel counts it, else resident."""
    return sum(_memory(member) for member in tree(pid))


def processor():
    """The machine's hardware."""
    with open("/proc/cpuinfo") as file:
        model = re.search(r"model name\s*: (.*)", file.read())
    return model.group(1) if model else "unknown"


def wait_for(condition, seconds, what):
    """Waits until condition() holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.02)


def _stat(pid):
    """The fields of /proc/PID/stat after the command's name."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def _memory(pid):
    for name, key in (("smaps_rollup", "Pss:"), ("status", "VmRSS:")):
        try:
            with open(f"/proc/{pid}/{name}") as file:
                for line in file:
                    if line.startswith(key):
                        return int(line.split()[1]) * 1024
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return 0


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
