"""Runs attempts to get out of `wayleave run`, each in a process of its own, and prints its result as a line of JSON.

A result is the name of the error that stopped the attempt, or what it got."""

import ctypes
import errno
import json
import os
import signal
import socket

ATTEMPTS = []
LIMIT = 20  # seconds; no attempt comes near it unless something hangs
LIBC = ctypes.CDLL(None, use_errno=True)


def attempt(name, *arguments):
    def register(function):
        ATTEMPTS.append((name, function, arguments))
        return function

    return register


def checked(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), "failed")
    return result


def result_of(function, arguments):
    try:
        return function(*arguments)
    except socket.gaierror as error:
        return f"gaierror {error.errno}"
    except TimeoutError:
        return "hung"
    except OSError as error:
        return errno.errorcode.get(error.errno, repr(error))


def run(name, function, arguments):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        # Ends this process if the attempt hangs in the kernel.
        signal.alarm(LIMIT + 10)
        os.write(writer, result_of(function, arguments).encode(errors="replace"))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        result = file.read()
    _, status = os.waitpid(child, 0)
    print(json.dumps([name, result if status == 0 else f"hung or killed: {status}"]), flush=True)


def run_all():
    for row in ATTEMPTS:
        run(*row)
