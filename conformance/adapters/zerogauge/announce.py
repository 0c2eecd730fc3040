# SPDX-License-Identifier: Apache-2.0
"""Says that an adapter is judged before it imports its framework, and every ten seconds that it still does. The package
begins with it where an adapter is started with --check or --doctor; what an adapter imports before zerogauge is not
announced."""
import sys
import threading
import time

BEGAN_S = time.monotonic()
PAUSE_S = 10
OVER = threading.Event()
THREADS = []  # one, if this has begun


def say(text):
    print(f"zerogauge check: {text}", file=sys.stderr, flush=True)


def wait():
    while not OVER.wait(PAUSE_S):
        say(f"importing {next(reversed(sys.modules))}, for {time.monotonic() - BEGAN_S:.0f} s")


def begin():
    words = sys.orig_argv[1:]
    name = words[words.index("-m") + 1] if "-m" in words else sys.argv[0]
    say(f"imports {name} and its packages once; then puts cases to it that it claims, and judges the answers bit by bit")
    THREADS.append(threading.Thread(target=wait, daemon=True))
    THREADS[0].start()


def finish(claims):
    """To be called before a fork. claims: the adapter's."""
    OVER.set()
    while THREADS:
        THREADS.pop().join()
        say(f"imported in {time.monotonic() - BEGAN_S:.1f} s: {claims['name']} {claims['version']}")
