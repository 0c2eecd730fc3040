# SPDX-License-Identifier: Apache-2.0
"""The command `zerogauge`: the program of the wheel, which lies next to this file; else the one in PATH."""
import os
import shlex
import signal
import sys
from pathlib import Path


def program():
    own = Path(__file__).resolve().parent / "bin" / "zerogauge"
    return str(own) if own.exists() else "zerogauge"


def main():
    if sys.argv[1:2] == ["convert"]:
        from zerogauge.convert import main as convert  # needs more than Python alone
        convert(sys.argv[2:])
        return 0
    if sys.argv[1:2] == ["adapters"]:
        from zerogauge.starts import main as adapters
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader that has enough is no error
        return adapters(sys.argv[2:])
    if sys.argv[1:2] == ["check"] and sys.argv[2:3] and sys.argv[2].endswith(".py"):
        words = [sys.argv[2], "--check", *sys.argv[3:]]
        print(f"zerogauge check: runs python {shlex.join(words)}", file=sys.stderr, flush=True)
        os.execv(sys.executable, [sys.executable, *words])
    return os.execvp(program(), [program(), *sys.argv[1:]])
